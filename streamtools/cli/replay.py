"""``streamtools replay``: shows a recording as it happened, or checks that it still decodes to the same events."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import Any

import anyio

from ..durable.codec import written_event
from ..errors import StreamToolsError
from ..events import Event, Observation, StreamEnd, StreamStart, TextDelta, TextEnd, ToolCallEnd
from ..ground import printable
from ..record import Recording, Replay, replay
from ..record.recording import shown_ids
from .common import FAILED, add_command
from .view import terminal

DESCRIPTION = """\
Shows a recording of streamtools.record in the terminal: the steps, their text,
each call with its arguments, its waits, its attempts and its result. Nothing
is run. The bodies are decoded again, and the exit status is 1 if something
else comes out than was recorded."""

EXAMPLES = """\
examples:
  streamtools replay run.jsonl
  streamtools replay run.jsonl --speed 10
  streamtools replay runs.jsonl --run 7c0f5e --fast
  streamtools replay run.jsonl --check
  streamtools replay run.jsonl --raw | streamtools decode -
  streamtools replay run.jsonl --json | jq 'select(.event == "Observation")'
"""


def add(commands: Any) -> None:
    parser = add_command(
        commands,
        "replay",
        _replay,
        help="show a recorded run as it happened, or check it",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("recording", metavar="RECORDING", help="the file")
    add("--run", metavar="ID", help="the run, if the file has several: its id, or the beginning of it")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--speed", type=_speed, default=1.0, metavar="N", help="how many times faster (default: 1)")
    pace.add_argument("--fast", action="store_true", help="without any pause")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--check", action="store_true", help="show only what decodes otherwise now")
    shape.add_argument("--raw", action="store_true", help="print the responses' bodies as they were read")
    shape.add_argument("--json", action="store_true", help="print the events as JSON, one a line, for programs")


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = math.nan
    if not 0 < speed < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number greater than 0, got {text!r}")
    return speed


def _replay(options: argparse.Namespace) -> int:
    recording = _recording(options.recording, options.run)
    if options.raw:
        return _print_bodies(recording)
    speed = math.inf if options.fast or options.check else options.speed
    if options.check:
        run = replay(recording, speed=speed)
        anyio.run(_finish, run)
    elif options.json:
        run = replay(recording, speed=speed)
        anyio.run(_print, run)
    else:
        run = _show(recording, speed)
    for reason in run.unchecked:
        print(f"not decoded again: {reason}", file=sys.stderr)
    # With --check they are the answer, else a remark beside it, which must not be in the JSON.
    for difference in run.differences:
        print(difference, file=sys.stdout if options.check else sys.stderr)
    return FAILED if run.differences else 0


def _show(recording: Recording, speed: float) -> Replay:
    try:
        view = terminal().TerminalView()
    except StreamToolsError as error:
        print(f"{error}. Until then, plainly:", file=sys.stderr)
        run = replay(recording, speed=speed)
        anyio.run(_print_plainly, run)
        return run
    with view:
        run = replay(recording, speed=speed, observers=[view])
        anyio.run(_finish, run)
    return run


def _recording(path: str, run: str | None) -> Recording:
    try:
        found = Recording.read_all(path)
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error
    chosen = [one for one in found if run is None or one.run_id.startswith(run)]
    if len(chosen) != 1:
        problem = "it has no such run" if not chosen else "it has several runs; say --run ID"
        ids = shown_ids(one.run_id for one in chosen or found)
        raise StreamToolsError(f"cannot replay {path}: {problem}. There are {ids}")
    return chosen[0]


def _print_bodies(recording: Recording) -> int:
    if recording.redacted:
        raise StreamToolsError("the recording is redacted: it has the sizes of its bodies alone")
    # Bytes as they were read, whatever their encoding, so below the text layer of standard output.
    sys.stdout.flush()
    for chunk in (chunk for body in recording.bodies for chunk in body):
        item = chunk.item
        written = item if isinstance(item, (str, bytes)) else json.dumps(item) + "\n"
        sys.stdout.buffer.write(written if isinstance(written, bytes) else written.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()
    return 0


async def _finish(run: Replay) -> None:
    async with run:
        async for _ in run:
            pass


async def _print_plainly(run: Replay) -> None:
    async with run:
        async for event in run:
            if (line := _plain(event)) is not None:
                print(printable(line), end="", flush=True)


def _plain(event: Event) -> str | None:
    match event:
        case StreamStart():
            return f"step {event.step + 1} · {event.wire}\n"
        case TextDelta():
            return event.text
        case TextEnd():
            return "\n"
        case ToolCallEnd():
            return f"{event.call.name} {event.call.arguments_text}".replace("\n", "\\n") + "\n"
        case Observation():
            shown = event.error if event.error is not None else event.model_content
            return f"{event.tool_name} {event.outcome} = {shown}".replace("\n", "\\n") + "\n"
        case StreamEnd() if event.error is not None:
            return f"error: {event.error}\n"
        case _:
            return None


async def _print(run: Replay) -> None:
    async with run:
        async for event in run:
            print(json.dumps(written_event(event)), flush=True)
