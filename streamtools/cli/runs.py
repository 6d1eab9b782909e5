"""``streamtools runs``: shows the runs in a journal, and the calls that dead runs had begun."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, TypeVar

from ..dispatch import Journal
from ..durable.journal import StoredRun
from ..durable.record_store import StoredCall
from ..errors import StreamToolsError
from ..ground import printable
from .common import file_actions, named_store, print_table, with_store

T = TypeVar("T")

DESCRIPTION = """\
Shows the runs in a journal: those in progress, those that ended, and those
that died, with the calls that had begun. No content of a run is printed."""

LIST = """\
Prints a line for each run. A run is dead if it has not ended and no process
runs it. To continue it, run the code that started it again."""

REPORT = """\
Prints the runs that died or wait for a person, lists their calls with an
unknown outcome, and says how to settle these calls."""

FORGET = """\
Removes a run that is not in progress, with its responses. The store keeps its
calls: a new run with this id that makes the same calls gets their results."""

EXAMPLES = """\
examples:
  streamtools runs list runs.db
  streamtools runs report runs.db
  streamtools runs forget runs.db order-7
"""


def add(commands: Any) -> None:
    help = "show the runs in a journal"
    where = "a journal: its file, or the URL of its server"
    action = file_actions(commands, "runs", help, DESCRIPTION, EXAMPLES, file=where, kind=str)
    action("list", _list, "list all runs, one per line", LIST)
    action("report", _report, "report dead and waiting runs, and how to settle their calls", REPORT)
    forget = action("forget", _forget, "remove a run", FORGET)
    forget.add_argument("run_id", metavar="RUN", help="the run's id, as listed")


def state_of(run: StoredRun) -> str:
    """Returns how a run stands, in a word: ``running``, ``dead``, or its outcome."""
    if run.is_running:
        return "running"
    return "dead" if run.ended_at is None else run.outcome or "left"


def _list(options: argparse.Namespace) -> None:
    runs = _with(options.file, lambda journal: journal.runs())
    if not runs:
        print("no runs")
        return
    rows = [("RUN", "STATE", "STEPS", "BEGAN", "NAME")]
    rows += [(run.run_id, state_of(run), str(run.steps), _time(run.began_at), run.name or "") for run in runs]
    print_table([[" ".join(printable(cell).split("\n")) for cell in row] for row in rows])


def _report(options: argparse.Namespace) -> None:
    async def read(journal: Journal) -> tuple[list[StoredRun], list[StoredCall]]:
        return await journal.runs(), await journal.store.calls()

    runs, calls = _with(options.file, read)
    found = [(run, _calls_of(run, calls)) for run in runs if state_of(run) in ("dead", "suspended")]
    if not found:
        print("no run is dead or waits for a person")
    for run, begun in found:
        responses = f"{run.steps} response{'' if run.steps == 1 else 's'} on record"
        print(printable(f"{run.run_id}: {state_of(run)}, {responses}, began {_time(run.began_at)}"))
        for call in begun:
            print(printable(f"  {call.key}: {call.state}, begun {_time(call.claimed_at)}"))
    if any(begun for _, begun in found):
        print("for a call with an unknown outcome, find out whether it took effect, then either")
        where = shlex.quote(named_store(options.file))
        print(f"  streamtools store complete {where} KEY --result JSON")
        print(f"  streamtools store release {where} KEY")
    if found:
        print("to continue a run, settle or approve its calls, then run the code that started it again")


def _calls_of(run: StoredRun, calls: list[StoredCall]) -> list[StoredCall]:
    return [call for call in calls if call.key.startswith(f"{run.run_id}:")]


def _forget(options: argparse.Namespace) -> None:
    if not _with(options.file, lambda journal: journal.forget(options.run_id)):
        raise StreamToolsError(f"there is no run {options.run_id!r}")
    print("forgotten: a run with this id begins anew; the store keeps the calls")


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}"


def _with(address: str, work: Callable[[Journal], Coroutine[Any, Any, T]]) -> T:
    return with_store(address, lambda store: work(Journal(store, wait=0)))
