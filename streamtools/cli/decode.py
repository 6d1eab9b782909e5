"""``streamtools decode``: tells the contents of a captured response."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, BinaryIO

from .. import parse
from ..errors import StreamToolsError
from ..parts import ToolCall, Usage
from ..stages import AUTO, DEFAULT, DIALECTS, text_calls
from ..text import printable
from ..turn import Turn
from ..wires import names
from .common import FAILED, add_command, listed, one_of

__all__ = ["add"]

LABEL = 11  # cells before the text
CALL = ("call_id", "name", "kind", "status", "problem", "arguments", "arguments_text", "normalizations", "dispatchable")
CHUNK_BYTES = 64 << 10  # a body is read in pieces of this size, so that only the turn is held whole

DESCRIPTION = """\
Reads a captured response body, as curl -N prints it, and tells its contents:
text, calls and whether they are whole, how the turn ended, usage, and each
deviation that was tolerated. Nothing is run. The exit status is 1 if the
response was cut, or is an error."""

EXAMPLES = """\
examples:
  streamtools decode capture.sse
  streamtools decode capture.sse --json | jq .calls
  streamtools decode capture.sse --calls-in-text hermes
  curl -N ... | streamtools decode -
"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "decode",
        _decode,
        help="tell what a captured response amounts to",
        description=DESCRIPTION,
        epilog=listed("wires", names()) + listed("dialects of calls in text", DIALECTS) + EXAMPLES,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the captured body; - for standard input")
    add("--wire", type=one_of("wire", names()), metavar="WIRE", help="what the body speaks (default: found from it)")
    add(
        "--calls-in-text",
        choices=[AUTO, *DIALECTS],
        metavar="DIALECT",
        help="read calls that stand in the text: hermes, ...; auto",
    )
    add("--json", action="store_true", help="print JSON, for programs")


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
    """Yields the turn for people: each label with its lines, if there are any."""
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
    counts = {} if usage is None else asdict(usage)
    told = [f"{count} {name.replace('_', ' ')}" for name, count in counts.items() if count is not None]
    return ", ".join(told) or None


def _as_json(turn: Turn) -> dict[str, Any]:
    """Returns the turn for programs, by the names that it has in Python."""
    plain = ("wire", "model", "response_id", "text", "reasoning", "refusal", "finish", "finish_raw", "complete")
    return {name: getattr(turn, name) for name in plain} | {
        "calls": [{name: getattr(call, name) for name in CALL} for call in turn.calls],
        "usage": None if turn.usage is None else asdict(turn.usage),
        "usage_raw": turn.usage_raw,
        "error": None if turn.error is None else {"kind": turn.error.kind, "message": turn.error.message},
        "warnings": [{"code": warning.code, "detail": warning.detail} for warning in turn.warnings],
    }
