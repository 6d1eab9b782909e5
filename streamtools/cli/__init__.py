"""The command line: ``streamtools demo`` and ``streamtools decode``.

What a user gets wrong is one line on standard error, never a traceback. Exit status: 0; 1 if it did not work; 2 if the
command line makes no sense; 128 and the signal's number if Ctrl-C (130) or a reader that left (141) ended it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from . import __version__, parse
from .demo import QUESTION, TRACE, Options, run
from .demo import WIRES as DEMO_WIRES
from .demo.cells import printable
from .errors import StreamToolsError
from .stages import DEFAULT, DIALECTS, text_calls
from .turn import ToolCall, Turn, Usage
from .wires import WIRES

__all__ = ["main"]

FAILED, MISUSED, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141
LABEL = 11  # cells before what `decode` says
USAGE = ("input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens")
CALL = ("call_id", "name", "kind", "status", "problem", "arguments", "arguments_text", "normalizations", "dispatchable")
CHUNK_BYTES = 64 << 10  # a body is read in pieces of this size, so that only the turn is held whole

DESCRIPTION = "Async streaming middleware between an LLM's stream and the tools that the model calls."

DEMO = """\
Starts the real llama.cpp server in this process with a tiny model of this
project's own, asks it a question, and shows what happens: text as it comes,
calls as they grow, tools as they run side by side, and when each began and
ended. The spans of the run go into a file for the Jaeger UI. Where the server
is not installed, a recording of the same model is played."""

DEMO_EXAMPLES = """\
examples:
  streamtools demo
  streamtools demo --wire anthropic.messages
  streamtools demo "Time in Oslo and add 2 and 3"
  streamtools demo "stock price of QZX and then convert it from USD to EUR"
  streamtools demo "convert 5 USD to QQQ"                 (a tool that fails)

The model knows weather and time in a city, sums, currencies, stock prices and
searching. Much else confuses it.
"""

DECODE = """\
Reads a captured response body, as curl -N prints it, and tells what it amounts
to: text, calls and whether they are whole, how the turn ended, usage, and each
deviation that was tolerated. Nothing is run. The exit status is 1 if the
response was cut, or is an error."""

DECODE_EXAMPLES = """\
examples:
  streamtools decode capture.sse
  streamtools decode capture.sse --json | jq .calls
  streamtools decode capture.sse --calls-in-text hermes
  curl -N ... | streamtools decode -
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: the command line after the program's name; by default this process's own.

    Returns:
        The exit status.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what a model says may not exist in the terminal's encoding
            stream.reconfigure(errors="backslashreplace")
    try:
        options = _parser().parse_args(arguments)
        status: int | None = options.command(options)
        sys.stdout.flush()
    except SystemExit as done:  # argparse printed help or the version
        return int(done.code or 0)
    except BrokenPipeError:
        # Python flushes once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    except _UsageError as error:
        return _fail(error, MISUSED)
    except (StreamToolsError, OSError) as error:
        return _fail(error, FAILED)
    return status or 0


def _fail(error: Exception, status: int) -> int:
    text = " ".join(printable(str(error)).split())
    print(f"streamtools: error: {text}", file=sys.stderr)
    return status


# -- what can be asked for -----------------------------------------------------------------------------------------


class _UsageError(Exception):
    """The command line makes no sense."""


class _Parser(argparse.ArgumentParser):
    """Tells what is wrong in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message} (try {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="streamtools", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"streamtools {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_demo(commands)
    _add_decode(commands)
    return parser


def _add_demo(commands: Any) -> None:
    demo = commands.add_parser(
        "demo",
        help="a model on this machine calls tools while it streams",
        description=DEMO,
        epilog=DEMO_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    demo.set_defaults(command=_demo)
    add = demo.add_argument
    add("question", nargs="?", default=QUESTION, help='what to ask (default: "%(default)s")')
    add(
        "--wire",
        type=_wire_of(DEMO_WIRES),
        default=DEMO_WIRES[0],
        metavar="WIRE",
        help=f"{' or '.join(DEMO_WIRES)} (default: the first)",
    )
    add("--port", type=_port, help="where the model's server listens (default: any port that is free)")
    add("--model", type=Path, metavar="FILE", help="another model, as a GGUF file")
    add("--replay", action="store_true", help="play the recording, although the server is installed")
    add("--trace", type=Path, default=TRACE, metavar="FILE", help="where the spans go (default: %(default)s)")
    add("--verbose", action="store_true", help="let the server write its log to standard error")


def _add_decode(commands: Any) -> None:
    decode = commands.add_parser(
        "decode",
        help="tell what a captured response amounts to",
        description=DECODE,
        epilog=_listed("wires", WIRES) + _listed("dialects of calls in text", DIALECTS) + DECODE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    decode.set_defaults(command=_decode)
    add = decode.add_argument
    add("file", metavar="FILE", help="the captured body; - for standard input")
    add("--wire", type=_wire_of(WIRES), metavar="WIRE", help="what the body speaks (default: found from it)")
    add("--calls-in-text", choices=DIALECTS, metavar="DIALECT", help="read calls that stand in the text: hermes, ...")
    add("--json", action="store_true", help="print JSON, for programs")


def _listed(title: str, names: Iterable[str]) -> str:
    return f"{title}:\n" + textwrap.fill(", ".join(names), 78, initial_indent="  ", subsequent_indent="  ") + "\n\n"


def _wire_of(known: Sequence[str]) -> Callable[[str], str]:
    def wire(text: str) -> str:
        if text not in known:
            raise argparse.ArgumentTypeError(f"unknown wire {text!r}; known: {', '.join(known)}")
        return text

    return wire


def _port(text: str) -> int:
    if not text.isdecimal() or not int(text) < 1 << 16:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to 65535")
    return int(text)


# -- demo ----------------------------------------------------------------------------------------------------------


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


# -- decode --------------------------------------------------------------------------------------------------------


def _decode(options: argparse.Namespace) -> int:
    dialect = options.calls_in_text
    stages = DEFAULT if dialect is None else DEFAULT.insert_before("accumulate", text_calls(dialect))
    if options.file == "-":
        turn = parse(_chunks(sys.stdin.buffer), wire=options.wire, stages=stages)
    else:
        with _opened(options.file) as file:
            turn = parse(_chunks(file), wire=options.wire, stages=stages)
    if turn.wire is None:
        turn.raise_for_error()
    if options.json:
        print(json.dumps(_as_json(turn), indent=2))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _as_text(turn))
    return 0 if turn.error is None else FAILED


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _as_text(turn: Turn) -> Iterator[str]:
    """The turn for people: a label and what there is to say, as often as there is something."""
    for label, lines in (
        ("wire", [turn.wire]),
        ("model", [turn.model]),
        ("reasoning", turn.reasoning.splitlines()),
        ("text", turn.text.splitlines()),
        ("refusal", turn.refusal.splitlines()),
        ("calls", _calls_as_text(turn.calls)),
        ("finish", [_finish_as_text(turn)]),
        ("usage", [_usage_as_text(turn.usage)]),
        ("error", [f"{turn.error.kind}: {turn.error}" if turn.error else None]),
        ("warnings", [f"{warning.code} {warning.detail}".rstrip() for warning in turn.warnings]),
    ):
        for line in lines:
            if line is not None:
                shown = printable(line).replace("\n", "\\n")
                yield f"{label:<{LABEL}}{shown}".rstrip()
                label = ""


def _calls_as_text(calls: Sequence[ToolCall]) -> list[str]:
    states = [f"{call.status} ({call.problem})" if call.problem else call.status for call in calls]
    wide = max((len(call.name) for call in calls), default=0), max(map(len, states), default=0)
    return [
        f"{call.name:<{wide[0]}}  {state:<{wide[1]}}  {call.arguments_text}"
        for call, state in zip(calls, states, strict=True)
    ]


def _finish_as_text(turn: Turn) -> str:
    raw = f" ({turn.finish_raw})" if turn.finish_raw not in (None, turn.finish) else ""
    end = "complete" if turn.complete else "incomplete: its terminal marker is missing"
    return f"{turn.finish or 'none'}{raw}, {end}"


def _usage_as_text(usage: Usage | None) -> str | None:
    counts = [(name, getattr(usage, name)) for name in USAGE if usage is not None]
    return ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts if count is not None) or None


def _as_json(turn: Turn) -> dict[str, Any]:
    """The turn for programs, by the names that it has in Python."""
    plain = ("wire", "model", "response_id", "text", "reasoning", "refusal", "finish", "finish_raw", "complete")
    return {name: getattr(turn, name) for name in plain} | {
        "calls": [{name: getattr(call, name) for name in CALL} for call in turn.calls],
        "usage": None if turn.usage is None else {name: getattr(turn.usage, name) for name in USAGE},
        "error": None if turn.error is None else {"kind": turn.error.kind, "message": turn.error.message},
        "warnings": [{"code": warning.code, "detail": warning.detail} for warning in turn.warnings],
    }
