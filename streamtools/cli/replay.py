"""``streamtools replay``: shows a recording as it happened, or checks that it still decodes to the same events."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any

import anyio

from ..errors import StreamToolsError
from ..record import Recording, replay
from ..record.recording import shown_ids
from .common import FAILED, add_command
from .view import terminal

DESCRIPTION = """\
Shows a recording made by streamtools.record in the terminal: the steps, their
text, and each call with its arguments, waits, attempts and result. No tool
runs. The bodies are decoded again, and the exit status is 1 if the events
differ from the recorded ones."""

EXAMPLES = """\
examples:
  streamtools replay run.jsonl
  streamtools replay run.jsonl --speed 10
  streamtools replay runs.jsonl --run 7c0f5e
  streamtools replay run.jsonl --check
"""


def add(commands: Any) -> None:
    parser = add_command(
        commands,
        "replay",
        _replay,
        help="replay a recorded run, or check it",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("recording", metavar="RECORDING", help="the file")
    add("--run", metavar="ID", help="the id of the run, or its beginning, if the file has several")
    add("--speed", type=_speed, default=1.0, metavar="N", help="the speed: 10 is ten times as fast (default: 1)")
    add("--check", action="store_true", help="print only events that differ from the recorded ones")


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
    if options.check:
        run = replay(recording)
        anyio.run(run.finish)
    else:
        with terminal().TerminalView() as view:
            run = replay(recording, speed=options.speed, observers=[view])
            anyio.run(run.finish)
    for reason in run.unchecked:
        print(f"not decoded again: {reason}", file=sys.stderr)
    for difference in run.differences:  # with --check they are the answer, else a remark beside it
        print(difference, file=sys.stdout if options.check else sys.stderr)
    return FAILED if run.differences else 0


def _recording(path: str, run: str | None) -> Recording:
    try:
        found = Recording.read_all(path)
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error
    chosen = [one for one in found if run is None or one.run_id.startswith(run)]
    if len(chosen) != 1:
        problem = "it does not contain this run" if not chosen else "it contains several runs; choose one by --run ID"
        ids = shown_ids(one.run_id for one in chosen or found)
        raise StreamToolsError(f"cannot replay {path}: {problem}. Its runs: {ids}")
    return chosen[0]
