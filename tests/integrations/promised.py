"""The promises of `run_calls` under a framework: a table of cases, which a driver of each framework runs in each mode.

A driver makes the adapter with options, lets the model make the calls of a case in one answer, and returns what the
model reads of each, in call order. A mode is how the program runs the framework: without an event loop, awaiting it,
or calling its blocking method inside a running loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from streamtools import Deny, Limits
from streamtools.dispatch import SqliteStore
from streamtools.events import Event, Observation, ToolStarted
from streamtools.privacy import Privacy

__all__ = [
    "CASES",
    "Driver",
    "Given",
    "MODES",
    "Room",
    "broken_promises",
    "numbered",
    "user",
]


user: ContextVar[str] = ContextVar("user", default="nobody")
"""A context variable of the caller's, which each body has to see."""


class Room:
    """The body of the tool: it notes who is inside together, the order of entering, and the caller's context."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.order: list[int] = []
        self.users: set[str] = set()

    def visit(self, n: int, injected: object) -> str:
        """Visits the room for a moment, with what the framework fills in."""
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            self.order.append(n)
            self.users.add(user.get())
        time.sleep(0.02)
        with self._lock:
            self._inside -= 1
        return f"visited {n}" if injected else "nothing was filled in"


class _Late(Room):
    """Whose visitors stay far longer than their deadline."""

    def visit(self, n: int, injected: object) -> str:
        time.sleep(0.25)
        return super().visit(n, injected)


class _Failing(Room):
    """Whose second visitor fails."""

    def visit(self, n: int, injected: object) -> str:
        if n == 2:
            raise ValueError("broke 2")
        return super().visit(n, injected)


@dataclass
class Seen:
    """An observer's notes of all runs of an adapter."""

    event_types = (Observation, ToolStarted)
    events: list[Event] = field(default_factory=list)

    def on_event(self, event: Event) -> None:
        self.events.append(event)

    def around_tool(self, call_id: str) -> None:
        return None

    @property
    def outcomes(self) -> Counter[str]:
        return Counter(event.outcome for event in self.events if isinstance(event, Observation))


def numbered(n: int) -> str:
    """Visit the room."""
    raise AssertionError("the framework runs its own tool")


Check = Callable[[Room, list[str], Seen], Iterable[object]]
"""Returns what does not hold."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A promise: options of the tool and of the adapter, and what has to hold."""

    promise: str
    tool: dict[str, Any] = field(default_factory=dict)
    options: Callable[[], dict[str, Any]] = dict
    twice: bool = False
    """True if the same answer is run again, with a store."""
    room: type[Room] = Room
    check: Check


def _all_ran(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if results != [f"visited {n}" for n in (1, 2, 3, 4)]:
        yield results
    if seen.outcomes != {"ok": 4}:
        yield seen.outcomes
    if room.users != {"ada"}:
        yield room.users


def _one_by_one(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    yield from _all_ran(room, results, seen)
    if (room.most, room.order) != (1, [1, 2, 3, 4]):
        yield room.most, room.order


def _side_by_side(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    yield from _all_ran(room, results, seen)
    if room.most < 2:
        yield room.most


def _two(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    yield from _all_ran(room, results, seen)
    if room.most != 2:
        yield room.most


def _even_denied(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if sorted(room.order) != [1, 3] or ["odd, please" in one for one in results] != [False, True, False, True]:
        yield room.order, results
    if seen.outcomes != {"ok": 2, "denied": 2}:
        yield seen.outcomes


async def _ask(request: Any) -> Any:
    return True if request.arguments["n"] % 2 else Deny("odd, please")


def _timed_out(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if not seen.outcomes["timed_out"] or seen.outcomes["ok"] or "did not finish" not in str(results):
        yield seen.outcomes, results  # a framework may end the run with the first


def _once(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if sorted(room.order) != [1, 2, 3, 4] or results != [f"visited {n}" for n in (1, 2, 3, 4)]:
        yield room.order, results
    if [event.recorded for event in seen.events if isinstance(event, Observation)] != [False] * 4 + [True] * 4:
        yield seen.events


def _read_beside_the_others(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if not {"visited 1", "visited 3", "visited 4"} <= set(results):
        yield results
    if not any(word in str(results) for word in ("ValueError", "broke 2")):  # in the framework's words, or in ours
        yield results
    if seen.outcomes != {"ok": 3, "failed": 1}:
        yield seen.outcomes


def _raised(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    if "broke 2" not in str(results) or "visited" in str(results):
        yield results


def _hidden(text: str) -> str:
    return text.replace("visited", "…")


def _shown_to_the_model_alone(room: Room, results: list[str], seen: Seen) -> Iterable[object]:
    yield from _all_ran(room, results, seen)
    copies = [(event.value, event.model_content) for event in seen.events if isinstance(event, Observation)]
    if "visited" in repr(copies) or "…" not in repr(copies):
        yield copies


CASES = (
    Case(promise="parallel", tool={"effect": "idempotent"}, check=_side_by_side),
    Case(promise="order", tool={"conflict_key": lambda arguments: "disk"}, check=_one_by_one),
    Case(promise="exclusive", tool={"exclusive": True}, check=_one_by_one),
    Case(promise="limit of the tool", tool={"max_concurrency": 2}, check=_two),
    Case(promise="limit of all", options=lambda: {"limits": Limits(max_concurrency=1)}, check=_one_by_one),
    Case(promise="approval", tool={"needs_approval": True}, options=lambda: {"approve": _ask}, check=_even_denied),
    Case(promise="deadline", tool={"timeout": 0.001}, room=_Late, check=_timed_out),
    Case(promise="a tool's exception", room=_Failing, check=_read_beside_the_others),
    Case(
        promise="a tool's exception, raised", room=_Failing, options=lambda: {"on_tool_error": "raise"}, check=_raised
    ),
    Case(promise="once", twice=True, check=_once),
    Case(promise="privacy", options=lambda: {"privacy": Privacy(redact=_hidden)}, check=_shown_to_the_model_alone),
)


@dataclass(frozen=True)
class Given:
    """What a driver makes an adapter with."""

    room: Room
    tool: dict[str, Any]
    """The options of the tool ``visit``, which takes a number."""
    options: dict[str, Any]
    """Those of `run_calls`."""
    keeping: dict[str, Any]
    """``observers``, and ``store`` and ``identity`` if there is a store; observers of the runs have to be made anew."""

    calls = tuple((f"call_{n}", n) for n in (1, 2, 3, 4))
    """Ids and arguments of the calls to make."""


class Driver(Protocol):
    """Runs a framework; each of the two returns what the model reads of each call."""

    def blocking(self, given: Given) -> list[str]: ...
    async def awaited(self, given: Given) -> list[str]: ...


def _sync(driver: Driver, given: Given) -> list[str]:
    return driver.blocking(given)


def _async(driver: Driver, given: Given) -> list[str]:
    return asyncio.run(driver.awaited(given))


def _inside(driver: Driver, given: Given) -> list[str]:
    async def main() -> list[str]:
        return driver.blocking(given)

    return asyncio.run(main())


MODES = {"sync": _sync, "async": _async, "inside a running loop": _inside}


def broken_promises(driver: Driver, folder: Path, *, modes: Iterable[str] = tuple(MODES)) -> list[object]:
    """Tries each case in each mode; returns those that do not hold."""
    broken: list[object] = []
    for mode in modes:
        for case in CASES:
            room, seen = case.room(), Seen()
            try:
                results = _tried(driver, mode, case, room, seen, folder)
            except Exception as error:
                results = [f"{type(error).__name__}: {error}"]
            broken += [(mode, case.promise, fault) for fault in case.check(room, results, seen)]
    return broken


def _tried(driver: Driver, mode: str, case: Case, room: Room, seen: Seen, folder: Path) -> list[str]:
    keeping: dict[str, Any] = {"observers": lambda: [seen]}
    if not case.twice:
        return MODES[mode](driver, Given(room, case.tool, case.options(), keeping))
    results: list[str] = []
    for _ in range(2):  # as after a restart: nothing is kept but the file
        with SqliteStore(folder / f"{mode}.db") as store:
            kept = {**keeping, "store": store, "identity": "order-7"}
            results = MODES[mode](driver, Given(room, case.tool, case.options(), kept))
    return results
