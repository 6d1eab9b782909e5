"""``streamtools decode``: shows the contents of captured responses, one in full, or many in a line each."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

from .. import parse
from ..errors import StreamToolsError
from ..ground import printable
from ..parts import ToolCall, Usage
from ..record import Recording
from ..record.recording import is_recording
from ..stages import AUTO, DEFAULT, DIALECTS, StageList, text_calls
from ..turn import Turn
from ..wires import meant, names
from .common import FAILED, add_command, listed

LABEL = 11  # cells before the text
CALL = ("call_id", "name", "kind", "status", "problem", "arguments", "arguments_text", "normalizations", "dispatchable")
CHUNK_BYTES = 64 << 10  # a body is read in pieces of this size, so that only the turn is held whole

DESCRIPTION = """\
Reads captured response bodies, as curl -N prints them, and shows their
contents: the text, the calls and whether they are complete, how the turn
ended, the usage, and each deviation that was tolerated. Each step of a
recording is shown as one response. No tool runs. The exit status is 1 if a
response was cut or is an error, or if a file cannot be read."""

EXAMPLES = """\
examples:
  streamtools decode capture.sse
  streamtools decode capture.sse --json | jq .calls
  streamtools decode capture.sse --calls-in-text hermes
  streamtools decode captures/*.sse --json | jq -c '[.file, .finish]'
  curl -N ... | streamtools decode -
"""


def add(commands: Any) -> None:
    parser = add_command(
        commands,
        "decode",
        _decode,
        help="show the contents of captured responses",
        description=DESCRIPTION,
        epilog=listed("wires", names()) + listed("dialects of calls in text", DIALECTS) + EXAMPLES,
    )
    add = parser.add_argument
    add("files", metavar="FILE", nargs="+", help="a captured body or a recording; - for standard input")
    add("--wire", type=_wire_named, metavar="WIRE", help="the wire of the bodies (default: detected)")
    add(
        "--calls-in-text",
        choices=[AUTO, *DIALECTS],
        metavar="DIALECT",
        help="read calls written as text: hermes, ..., or auto",
    )
    add("--json", action="store_true", help="print JSON: an object, or one per line for several files")


def _wire_named(text: str) -> str:
    if text not in names():
        raise argparse.ArgumentTypeError(f"unknown wire {text!r}; {meant(text, names())}")
    return text


def _decode(options: argparse.Namespace) -> int:
    dialect = options.calls_in_text
    stages = DEFAULT if dialect is None else DEFAULT.insert_before("accumulate", text_calls(dialect))
    is_ok, several = True, len(options.files) > 1
    for path in options.files:
        for number, turn in enumerate(_turns(path, options.wire, stages)):
            # Without a wire this is not a model's stream: a page of a proxy, say. There is nothing to show but the
            # mistake.
            if turn.wire is None:
                turn.raise_for_error()
            if options.json:
                shown = {"file": path, **_as_json(turn)} if several else _as_json(turn)
                print(json.dumps(shown, indent=None if several else 2))
            else:
                head = [f"{printable(path)}:\n"] if several else ["\n"][:number]
                sys.stdout.writelines([*head, *(f"{line}\n" for line in _as_text(turn))])
            is_ok &= turn.error is None
    return 0 if is_ok else FAILED


def _turns(path: str, wire: str | None, stages: StageList) -> Iterator[Turn]:
    if path == "-":
        yield parse(_chunks(sys.stdin.buffer), wire=wire, stages=stages)
        return
    with _opened(path) as file:
        if not is_recording(file):
            yield parse(_chunks(file), wire=wire, stages=stages)
            return
    for recording in Recording.read_all(path):
        yield from recording.turns


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


# -- one response --


def _as_text(turn: Turn) -> Iterator[str]:
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
                # The lines of a text are lines here. A line end inside one of them is the model's, in arguments say.
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
    counts = {} if usage is None else asdict(usage)
    counted = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count is not None]
    return ", ".join(counted) or None


def _as_json(turn: Turn) -> dict[str, Any]:
    plain = ("wire", "model", "response_id", "text", "reasoning", "refusal", "finish", "finish_raw", "complete")
    return {name: getattr(turn, name) for name in plain} | {
        "calls": [{name: getattr(call, name) for name in CALL} for call in turn.calls],
        "usage": None if turn.usage is None else asdict(turn.usage),
        "usage_raw": turn.usage_raw,
        "error": None if turn.error is None else {"kind": turn.error.kind, "message": turn.error.message},
        "warnings": [{"code": warning.code, "detail": warning.detail} for warning in turn.warnings],
    }
