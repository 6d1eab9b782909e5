"""``streamtools store``: shows and settles calls with an unknown outcome."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic_core import to_json

from ..dispatch.results import encode_error, encode_result
from ..durable.record_store import StoredCall
from ..errors import ToolError
from ..ground import printable
from .common import file_actions, print_table, with_store

DESCRIPTION = """\
Shows the calls in a store whose outcome is unknown, because their process died
or they timed out, and lets you settle them. First find out whether the tool
took effect: did the payment arrive?"""

STORE = "a file of a SqliteStore, or the URL of a Postgres or Redis server"

LIST = """\
Prints the calls that are running and those with an unknown outcome. Results
are not printed."""

RELEASE = """\
Records that the call had no effect, so that it may run again."""

COMPLETE = """\
Records that the call took effect. It never runs again; if it is made again, the
model gets this result."""

EXAMPLES = """\
examples:
  streamtools store list calls.sqlite3
  streamtools store release calls.sqlite3 KEY
  streamtools store complete calls.sqlite3 KEY --result '"paid 7 to Ada"'
  streamtools store complete calls.sqlite3 KEY --error "the card was declined"
  streamtools store list postgresql://app@db.example/app
"""


def add(commands: Any) -> None:
    help = "show and settle calls with an unknown outcome"
    action = file_actions(commands, "store", help, DESCRIPTION, EXAMPLES, file=STORE, kind=str)
    show = action("list", _list, "list running calls and calls with an unknown outcome", LIST)
    show.add_argument("--all", action="store_true", help="show recorded calls, too")
    release = action("release", _release, "let a call run again", RELEASE)
    complete = action("complete", _complete, "record a call's result", COMPLETE)
    for parser in (release, complete):
        parser.add_argument("key", type=_text, metavar="KEY", help="the key of the call, as listed")
        parser.add_argument("--force", action="store_true", help="settle the call even if it is still running")
    result = complete.add_mutually_exclusive_group()
    result.add_argument("--result", type=_json, metavar="JSON", help="the tool's result (default: null)")
    result.add_argument("--error", type=_text, metavar="TEXT", help="the call's error, for the model")


def _text(text: str) -> str:
    # Python gives other bytes of the command line as halves of surrogate pairs, which no store could keep.
    if not text or any("\ud800" <= one <= "\udfff" for one in text):
        raise argparse.ArgumentTypeError("expected text, got nothing" if not text else "expected text, got other bytes")
    return text


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError("expected JSON; put a text in quotes: '\"done\"'") from None


def _list(options: argparse.Namespace) -> None:
    calls = with_store(options.file, lambda store: store.calls(completed=options.all))
    if not calls:
        print("no calls" if options.all else "no call is running or has an unknown outcome")
        return
    print_table([("KEY", "STATE", "SINCE", "HOST", "PROCESS"), *map(_row, calls)])


def _row(call: StoredCall) -> Sequence[str]:
    since = f"{datetime.fromtimestamp(call.claimed_at):%Y-%m-%d %H:%M:%S} ({_age(time.time() - call.claimed_at)})"
    # Keys and hosts are texts of other programs: none may steer the terminal, or begin a row of its own.
    row = (call.key, call.state, since, call.host or "?", str(call.pid or "?"))
    return [" ".join(printable(cell).split("\n")) for cell in row]


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _release(options: argparse.Namespace) -> None:
    with_store(options.file, lambda store: store.settle(options.key, None, force=options.force))
    print("released: the call may run again")


def _complete(options: argparse.Namespace) -> None:
    # The result is encoded as a pipeline encodes it, and the error as that of a `ToolError`, whose text is for the
    # model.
    if options.error is None:
        result = encode_result(options.result)
    else:
        result = to_json({"error": encode_error("", ToolError(options.error))})
    with_store(options.file, lambda store: store.settle(options.key, result, force=options.force))
    print("completed: the call will not run again")
