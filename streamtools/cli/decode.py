"""``streamtools decode``: shows the contents of captured responses, one in full, or many in a line each."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeAlias

from .. import parse
from ..errors import StreamToolsError, TruncatedStream
from ..ground import cut, printable, type_name
from ..parts import ToolCall, Usage
from ..record import Recording
from ..record.recording import is_recording
from ..stages import AUTO, DEFAULT, DIALECTS, StageList, text_calls
from ..turn import Turn
from ..wires import meant, names
from .common import FAILED, add_command, listed, pad

LABEL = 11  # cells before the text
CALL = ("call_id", "name", "kind", "status", "problem", "arguments", "arguments_text", "normalizations", "dispatchable")
ERROR_CHARS = 160  # of an error that shares its line
CHUNK_BYTES = 64 << 10  # a body is read in pieces of this size, so that only the turn is held whole

DESCRIPTION = """\
Reads captured response bodies, as curl -N prints them, and shows their
contents. Of one file: text, calls and whether they are whole, how the turn
ended, usage, and each deviation that was tolerated. Of several, or of a
directory: a line each. A recording is read, too, each of its steps as one
response. Nothing is run. The exit status is 1 if a response was cut, or is an
error, or a file cannot be read."""

EXAMPLES = """\
examples:
  streamtools decode capture.sse
  streamtools decode capture.sse --json | jq .calls
  streamtools decode capture.sse --calls-in-text hermes
  streamtools decode captures/ | grep -v ^ok
  streamtools decode captures/*.sse --json | jq -c '[.file, .finish]'
  curl -N ... | streamtools decode -
"""

State: TypeAlias = Literal["ok", "cut", "error"]  # how a response ended: by itself, before its end, or with an error


def add(commands: Any) -> None:
    parser = add_command(
        commands,
        "decode",
        _decode,
        help="show what captured responses amount to",
        description=DESCRIPTION,
        epilog=listed("wires", names()) + listed("dialects of calls in text", DIALECTS) + EXAMPLES,
    )
    add = parser.add_argument
    add(
        "files",
        metavar="FILE",
        nargs="+",
        help="a captured body, a recording, or a directory of them; - for standard input",
    )
    add("--wire", type=_wire_named, metavar="WIRE", help="what the bodies speak (default: found from them)")
    add(
        "--calls-in-text",
        choices=[AUTO, *DIALECTS],
        metavar="DIALECT",
        help="read calls that stand in the text: hermes, ...; auto",
    )
    add("--json", action="store_true", help="print JSON, for programs: an object, or for several files one a line")


def _wire_named(text: str) -> str:
    if text not in names():
        raise argparse.ArgumentTypeError(f"unknown wire {text!r}; {meant(text, names())}")
    return text


def _decode(options: argparse.Namespace) -> int:
    dialect = options.calls_in_text
    reader = _Reader(
        options.wire, DEFAULT if dialect is None else DEFAULT.insert_before("accumulate", text_calls(dialect))
    )
    if len(options.files) > 1 or (options.files[0] != "-" and Path(options.files[0]).is_dir()):
        return _decode_many(options.files, reader, as_json=options.json)
    states: set[State] = set()
    for number, turn in enumerate(reader.turns(options.files[0])):
        # Without a wire this is not a model's stream: a page of a proxy, say. There is nothing to show but the mistake.
        if turn.wire is None:
            turn.raise_for_error()
        if options.json:
            print(json.dumps(_as_json(turn), indent=2))
        else:
            sys.stdout.writelines([*["\n"][:number], *(f"{line}\n" for line in _as_text(turn))])
        states.add(_state(turn))
    return 0 if states == {"ok"} else FAILED


class _Reader:
    def __init__(self, wire: str | None, stages: StageList) -> None:
        self._wire = wire
        self._stages = stages

    def turns(self, path: str) -> Iterator[Turn]:
        if path == "-":
            yield self._parsed(_chunks(sys.stdin.buffer))
            return
        with _opened(path) as file:
            if not is_recording(file):
                yield self._parsed(_chunks(file))
                return
        for recording in Recording.read_all(path):
            yield from recording.turns

    def _parsed(self, chunks: Iterator[bytes]) -> Turn:
        return parse(chunks, wire=self._wire, stages=self._stages)


def _opened(path: str) -> BinaryIO:
    try:
        return open(path, "rb")
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _state(turn: Turn) -> State:
    if turn.error is None:
        return "ok"
    return "cut" if isinstance(turn.error, TruncatedStream) else "error"


# -- many files --


def _decode_many(given: Sequence[str], reader: _Reader, *, as_json: bool) -> int:
    # Sums and progress go to standard error, so that a program or `grep` reads lines of responses alone.
    files = list(_files(given))
    counts: Counter[State] = Counter()
    for number, path in enumerate(files):
        _progress(number, len(files))
        try:
            for turn in reader.turns(path):
                counts[_state(turn)] += 1
                print(json.dumps({"file": path, **_as_json(turn)}) if as_json else _as_line(path, turn))
        except StreamToolsError as error:
            counts["error"] += 1
            failure = {"file": path, "error": {"kind": type_name(error), "message": str(error)}}
            print(json.dumps(failure) if as_json else _line("error", "", "", "", str(error)))
    _progress(len(files), len(files))
    sums = ", ".join(f"{counts[state]} {state}" for state in ("ok", "cut", "error") if counts[state])
    print(f"{len(files)} files: {sums or 'nothing in them'}", file=sys.stderr)
    return 0 if set(counts) == {"ok"} else FAILED


def _files(given: Iterable[str]) -> Iterator[str]:
    for name in given:
        path = Path(name)
        if name != "-" and path.is_dir():
            yield from (str(one) for one in sorted(path.rglob("*")) if one.is_file())
        else:
            yield name


def _progress(done: int, files: int) -> None:
    if sys.stderr.isatty() and (done % 20 == 0 or done == files):
        shown = "" if done == files else f"{done} of {files} files"
        print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True)


def _as_line(path: str, turn: Turn) -> str:
    counts = Counter(call.name or "(no name)" for call in turn.calls)
    calls = ", ".join(name if count == 1 else f"{name} x{count}" for name, count in counts.items())
    detail = path if turn.error is None else f"{path}: {cut(str(turn.error), ERROR_CHARS)}"
    return _line(_state(turn), turn.wire or "", turn.finish or "", calls, detail)


def _line(state: State, wire: str, finish: str, calls: str, detail: str) -> str:
    # The state first, for `grep -v ^ok`; the path last, since it has no bound.
    columns = ((state, 5), (wire or "-", 25), (finish or "-", 14), (cut(calls, 40) or "-", 24))
    line = "  ".join([*(pad(text, width) for text, width in columns), detail])
    return printable(line).replace("\n", "\\n")


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
