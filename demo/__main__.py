"""``python -m demo``: a model on this machine calls tools while it streams.

A mistake of the user's is one line on standard error, never a traceback. Exit status: 0; 1 if it did not work; 2 if the
command line makes no sense; 128 and the signal's number if Ctrl-C (130) or a reader that left (141) ended it.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from streamtools import StreamToolsError
from streamtools.ground.text import printable

from . import PACE, QUESTION, TRACE, WIRES, Options, run

__all__ = ["main"]

PROGRAM = "python -m demo"
FAILED, MISUSED, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141

DESCRIPTION = """\
Starts the real llama.cpp server in this process with a tiny model of this
project's own, asks it a question, and shows what happens: text as it comes,
calls as they grow, tools as they run side by side and end while the model
still writes, and when each began and ended. The run becomes a page to open in a
browser, a trace for the Jaeger UI and a recording to replay. Where the server
is not installed, a recording of the same model is played."""

EXAMPLES = """\
examples:
  python -m demo
  python -m demo --wire anthropic.messages
  python -m demo "Time in Oslo and add 2 and 3"
  python -m demo "stock price of QZX and then convert it from USD to EUR"
  python -m demo "convert 5 USD to QQQ"                 (a tool that fails)

The model knows weather and time in a city, sums, currencies, stock prices and
searching. Much else confuses it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo as its command line asks, and return the exit status.

    Args:
        arguments: the command line after the program's name; by default this process's own.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a model says may not exist in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        run(_options(arguments), sys.stdout)
        sys.stdout.flush()
    except SystemExit as done:  # argparse printed help or a mistake
        return int(done.code or 0)
    except BrokenPipeError:
        # Python flushes once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    except (StreamToolsError, OSError) as error:
        print(_told(str(error)), file=sys.stderr)
        return FAILED
    return 0


def _told(mistake: str) -> str:
    return f"{PROGRAM}: error: {' '.join(printable(mistake).split())}"


class _Parser(argparse.ArgumentParser):
    """Tells of a mistake in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        self.exit(MISUSED, _told(f"{message} (try {PROGRAM} --help)") + "\n")


def _options(arguments: Sequence[str] | None) -> Options:
    parser = _Parser(
        prog=PROGRAM,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("question", nargs="?", default=QUESTION, help='the question (default: "%(default)s")')
    add("--wire", type=_wire, default=WIRES[0], help=f"the wire: {' or '.join(WIRES)} (default: the first)")
    add("--port", type=_port, help="the port of the model's server (default: any free port)")
    add("--model", type=Path, metavar="FILE", help="another model, as a GGUF file")
    add("--replay", action="store_true", help="play the recording even if the server is installed")
    add("--trace", type=Path, default=TRACE, metavar="FILE", help="the file for the spans (default: %(default)s)")
    add(
        "--server-reads-calls",
        action="store_true",
        help="let the server find the calls, which then end with the response",
    )
    add(
        "--pace",
        type=_pace,
        default=PACE,
        metavar="N",
        help="the model's speed in pieces per second (default: 60; 0: no limit)",
    )
    add("--verbose", action="store_true", help="print the server's log to standard error")
    return Options(**vars(parser.parse_args(arguments)))


def _wire(text: str) -> str:
    if text not in WIRES:
        raise argparse.ArgumentTypeError(f"unknown wire {text!r}; known: {', '.join(WIRES)}")
    return text


def _pace(text: str) -> float:
    try:
        pace = float(text)
    except ValueError:
        pace = -1.0
    if not 0 <= pace < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of pieces a second")
    return pace


def _port(text: str) -> int:
    if not text.isdecimal() or not int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
