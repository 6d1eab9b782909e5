"""Keeps what people put into a run while it goes on, until the run takes it: messages, and the wish that it stops.

    say  ->  waiting  ->  taken, when the model is asked next  ->  `MessageAdded`, right behind the step's `StepStart`

Everything that enters a run from outside is an entry here, a plain dict with an ``id``. An entry that was taken has its
``turn``: the number of turns before it. So entries can be stored, and put back where they stood.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from anyio.lowlevel import EventLoopToken, current_token

from ..content import Text
from ..errors import LocalProtocolError
from ..event_loop import is_in_loop
from ..events import MessageAdded
from ..history import repair
from ..wires import Wire, find
from ..wires.transcript import Prompt

if TYPE_CHECKING:
    from ..provenance.index import Index

When: TypeAlias = Literal["next", "now"]
"""When a message enters the history: after the results of the current step, or as soon as its response is cut."""

INTERRUPTED = "the user interrupted the response"
"""Why calls of a response that a message has cut are skipped."""
STOPPED = "the run was stopped"
"""Why calls are skipped when a run is to stop."""


class Inbox:
    """The entries of one run, whose messages are of this wire."""

    def __init__(self, wire: Wire | str) -> None:
        self._wire = find(wire)
        self._waiting: list[dict[str, Any]] = []
        self._taken: list[dict[str, Any]] = []
        self._announced = 0  # how many of those taken have had their event
        self._runs_in: EventLoopToken | None = None
        self.is_stopped = False
        """True once the run is to stop."""

    def open(self) -> None:
        """Takes entries from now on, in this event loop."""
        self._runs_in = current_token()

    def check(self, act: str, *, is_over: bool) -> None:
        """Refuses an act on a run that is not going on, or from another thread, with a `LocalProtocolError`."""
        if self._runs_in is None:
            raise LocalProtocolError(f"{act}: the run has not begun; enter its block first")
        if is_over:
            raise LocalProtocolError(f"{act}: the run is over; begin another one with its messages")
        if not is_in_loop(self._runs_in):
            raise LocalProtocolError(
                f"{act} calls in the run's event loop; from another thread "
                f"anyio.from_thread.run_sync(run.{act}, ..., token=...), with its anyio.lowlevel.current_token()"
            )

    # -- putting in --

    def say(
        self,
        message: str | Mapping[str, Any] | Sequence[Any],
        when: When,
        entry_id: str | None = None,
        *,
        keep: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> dict[str, Any]:
        """Puts in a message of the user's, which is copied, unless *keep* refuses the entry; returns the entry. Raises
        a `TypeError` if it is neither text nor a message, a `ValueError` if it is none of a user's on this wire, or
        *when* is not known."""
        if when not in get_args(When):
            raise ValueError(f"unknown when {when!r}; known: {', '.join(get_args(When))}")
        is_list = isinstance(message, Sequence) and not isinstance(message, str)
        written = [one for part in (message if is_list else [message]) for one in self._written(part)]
        entry = {"id": entry_id or uuid.uuid4().hex, "kind": "say", "when": when, "messages": written}
        if keep is not None:
            keep(entry)
        self._waiting.append(entry)
        return entry

    def _written(self, message: Any) -> list[dict[str, Any]]:
        from ..provenance.history import Untrusted  # most runs are told nothing

        if isinstance(message, Untrusted):
            raise TypeError("say: Untrusted text keeps its mark only in a message, as a block of its own; pass that")
        if isinstance(message, str):
            if not message.strip():
                raise ValueError("say: the message is empty")
            return self._wire.render_prompt(Prompt(role="user", blocks=(Text(message),)))
        if not isinstance(message, Mapping):
            raise TypeError(f"say takes text, or a message as {self._wire.name} has it, not {type(message).__name__}")
        copied = deepcopy(dict(message))
        read = self._wire.entries([copied])
        if not read or any(not isinstance(one, Prompt) or one.role != "user" or one.flaws for one in read):
            raise ValueError(f"say takes a message of the user's; {self._wire.name} reads this one as something else")
        return [copied]

    # -- taking out --

    @property
    def waiting(self) -> tuple[dict[str, Any], ...]:
        """The entries that the model has not read."""
        return tuple(self._waiting)

    @property
    def taken(self) -> tuple[dict[str, Any], ...]:
        """The entries that are in the history, each with its ``turn``."""
        return tuple(self._taken)

    def take(self, turn: int, origins: Index | None) -> None:
        """Puts what waits into the history, in front of the turn of that number, and among the texts of the run."""
        due, self._waiting = self._waiting, []
        self.put_back(due, turn, origins)

    def put_back(self, entries: Iterable[Mapping[str, Any]], turn: int, origins: Index | None) -> None:
        """Puts entries into the history, as `take` does; for those that were in it before."""
        for entry in entries:
            self._taken.append({**entry, "turn": turn})
            if origins is not None:
                from ..provenance.history import add_request  # as loaded by now

                add_request(origins, {"messages": entry["messages"]}, self._wire, lambda name: False)

    def events(self) -> list[MessageAdded]:
        """Returns the events of those that were taken since it was asked last."""
        new, self._announced = self._taken[self._announced :], len(self._taken)
        return [MessageAdded(one["id"], tuple(one["messages"]), when=one["when"]) for one in new]

    def history(self, begun_with: Sequence[Any], turns: Iterable[Sequence[Any]]) -> list[Any]:
        """Returns the messages of a run that began with some, and had these of each turn, in order."""
        messages, number = list(begun_with), 0
        for number, turn in enumerate(turns, 1):
            messages += self._before(number - 1)
            messages += turn
        messages += self._before(number)
        rules = self._wire.rules
        if self._taken and (rules.alternate or rules.answer_before_user):  # a message stands behind results
            return repair(messages, self._wire)
        return messages

    def _before(self, turn: int) -> Iterator[Any]:
        return (message for one in self._taken if one["turn"] == turn for message in one["messages"])

    # -- cutting --

    @property
    def withholds(self) -> tuple[str, bool] | None:
        """Why calls that have not begun are not to, and whether those are spared that wait for an approval: the run is
        to stop, or something was said that was to cut them; None if neither."""
        if self.is_stopped:
            return STOPPED, False
        return (INTERRUPTED, True) if any(entry["when"] == "now" for entry in self._waiting) else None

    def note_cut(self, turn: int) -> None:
        """Notes that the latest message has cut the turn of that number, which stays in the history."""
        self._waiting[-1]["cut"] = turn

    def has_cut(self, turn: int) -> bool:
        """Returns whether a message has cut the turn of that number."""
        return any(entry.get("cut") == turn for entry in (*self._taken, *self._waiting))
