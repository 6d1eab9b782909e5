"""The messages of a run: those it began with, those of its steps, and those that people send meanwhile.

They are usually in the wire's own format, with the tools exported for it. A model without tool calling gets another.

An entry, a message that was said, is a plain dict with its ``id``, ``when`` and ``messages``. It waits until a step
begins, and enters the history there, so that it never stands between a call and its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ..events import MessageAdded, Observation
from ..ground.own import MESSAGES, own
from ..tools import AnyTool
from ..turn import Turn
from ..wires import Wire, find

INTERRUPTED = "the user interrupted the response"  # why calls of a response that a message has cut are skipped
STOPPED = "the run was stopped"


class Conversation(Protocol):
    @property
    def tools(self) -> Sequence[AnyTool]: ...

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        """Raises an `ExportError` if a tool cannot be expressed."""
        ...

    def messages(self, turn: Turn) -> list[Any]: ...

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns a history with the results of calls that waited; raises a `ValueError` if they are not in it."""
        ...

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether a turn neither calls nor answers, so that the model has to be asked again."""
        ...


class RunHistory:
    """What the model has read and said: one list, to which each step adds what was said before it, and its turn."""

    def __init__(
        self, begun_with: Sequence[Any], conversation: Conversation, wire: Wire | str, *, drafts: bool
    ) -> None:
        self.begun_with = own(list(begun_with), MESSAGES)
        self.waiting: list[Mapping[str, Any]] = []  # the entries that no step has begun with yet
        self.said: list[Mapping[str, Any]] = []  # the entries among the messages
        self.is_cut = False  # True if a message cut the step's response, now or on record
        self._kept = list(self.begun_with)
        self._keeps_last = False  # the turn of the step before is among the messages
        self._conversation = conversation
        self.wire = find(wire)
        self.behind: list[Any] = []  # messages for the end of the next request, after what is said
        self.standing = 0  # how many such messages end the history, as no answer has followed yet
        self._drafts = drafts
        self._waited: Sequence[Observation] | None = None  # calls of the messages, which the step continues with

    def begin_step(self, count: int, said: Sequence[Mapping[str, Any]] | None) -> list[MessageAdded]:
        """Adds the entries that were said before the step; by default the first `count` that wait."""
        if said is None:
            said, self.waiting = self.waiting[:count], self.waiting[count:]
        entries = [own(entry, MESSAGES) for entry in said]
        self.is_cut, self._waited = False, None
        self.said += entries
        self._kept = self._told(entries)
        self.standing, self.behind = self.standing + len(self.behind), []
        return [MessageAdded(one["id"], tuple(one["messages"]), when=one["when"]) for one in entries]

    def begin_resumed(self, waited: Sequence[Observation]) -> None:
        self._waited = waited

    def end_step(self, turn: Turn) -> None:
        self._keeps_last = self._keeps(turn) or self._waited is not None
        if self._keeps_last:
            before, self._kept = len(self._kept), self._with(turn)
            self.standing = self.standing if len(self._kept) == before else 0

    def keep_answer(self, turn: Turn) -> None:
        """Adds the turn of the ended step if it was left out: a draft that is all the run has."""
        if not self._keeps_last:
            self._kept, self._keeps_last = self._with(turn), True

    def stands(self, turn: Turn, *, is_stopped: bool) -> bool:
        """Returns whether the next visit to the run continues after this turn, and does not ask for it again."""
        return self.is_cut or not turn.is_draft or (self._drafts and is_stopped)

    @property
    def takes_results_alone(self) -> bool:
        """True while the provider's own work waits for results: entries wait then, too."""
        return self.wire.rules.awaits(self._kept) is not None

    def request(self, said: Sequence[Mapping[str, Any]] = ()) -> tuple[list[Any], Any]:
        return self._conversation.request(self._told(said))

    def only_thinks(self, turn: Turn) -> bool:
        return self._conversation.only_thinks(turn)

    def leave_out(self, is_out: Callable[[Any], bool]) -> None:
        self._kept, self.standing = [one for one in self._kept if not is_out(one)], 0

    def messages(self, current: Turn | None = None) -> list[Any]:
        """Returns all messages; with a step in progress, also those of its turn so far."""
        messages = list(self._kept)
        if current is not None and (current.calls or self._waited is not None or self._keeps(current)):
            messages = self._with(current)  # a call may run, and has no observation yet
        return messages

    def _told(self, said: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Returns the messages followed by the entries, repaired if the wire requires it; turns never require it."""
        at, new = len(self._kept) - self.standing, [message for entry in said for message in entry["messages"]]
        messages = [*self._kept[:at], *new, *self._kept[at:], *self.behind]
        rules = self.wire.rules
        if said and (rules.alternate or rules.answer_before_user):  # they may follow results
            from ..history import repair  # most runs receive no messages

            return repair(messages, self.wire)
        return messages

    def _keeps(self, turn: Turn) -> bool:
        return self._drafts or self.is_cut or not turn.is_draft

    def _with(self, turn: Turn) -> list[Any]:
        if self._waited is None:
            return [*self._kept, *self._conversation.messages(turn)]
        seen = {observation.call_id: observation for observation in turn.observations}
        return self._conversation.with_results(self._kept, [seen.get(one.call_id, one) for one in self._waited])
