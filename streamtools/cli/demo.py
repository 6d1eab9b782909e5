"""``streamtools demo``: a model on this machine calls tools while it streams."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ..demo import QUESTION, TRACE, WIRES, Options, run
from .common import add_command, one_of

__all__ = ["add"]

DESCRIPTION = """\
Starts the real llama.cpp server in this process with a tiny model of this
project's own, asks it a question, and shows what happens: text as it comes,
calls as they grow, tools as they run side by side, and when each began and
ended. The spans of the run go into a file for the Jaeger UI. Where the server
is not installed, a recording of the same model is played."""

EXAMPLES = """\
examples:
  streamtools demo
  streamtools demo --wire anthropic.messages
  streamtools demo "Time in Oslo and add 2 and 3"
  streamtools demo "stock price of QZX and then convert it from USD to EUR"
  streamtools demo "convert 5 USD to QQQ"                 (a tool that fails)

The model knows weather and time in a city, sums, currencies, stock prices and
searching. Much else confuses it.
"""


def add(commands: Any) -> None:
    """Add the command."""
    parser = add_command(
        commands,
        "demo",
        _demo,
        help="a model on this machine calls tools while it streams",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("question", nargs="?", default=QUESTION, help='what to ask (default: "%(default)s")')
    add(
        "--wire",
        type=one_of("wire", WIRES),
        default=WIRES[0],
        metavar="WIRE",
        help=f"{' or '.join(WIRES)} (default: the first)",
    )
    add("--port", type=_port, help="where the model's server listens (default: any port that is free)")
    add("--model", type=Path, metavar="FILE", help="another model, as a GGUF file")
    add("--replay", action="store_true", help="play the recording, although the server is installed")
    add("--trace", type=Path, default=TRACE, metavar="FILE", help="where the spans go (default: %(default)s)")
    add("--verbose", action="store_true", help="let the server write its log to standard error")


def _port(text: str) -> int:
    if not text.isdecimal() or not int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


def _demo(options: argparse.Namespace) -> None:
    run(
        Options(
            question=options.question,
            wire=options.wire,
            model=options.model,
            port=options.port,
            replay=options.replay,
            verbose=options.verbose,
            trace=options.trace,
        ),
        sys.stdout,
    )
