"""Defines how a program decides about the calls of a step and talks to a run, and the errors for mistakes."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, get_args

from ..content import Text
from ..dispatch.event_loop import check_loop
from ..dispatch.states import Mention
from ..errors import LocalProtocolError
from ..events import AnswerRequested, ApprovalRequested, Observation
from ..ground.own import own
from ..pipelines.runner import Runner
from ..turn import Turn
from ..wires import Wire

if TYPE_CHECKING:
    from ..seams import Asked


class CallsFace(ABC):
    """Something whose calls wait for people: a pipeline, a run, or either in another thread."""

    @abstractmethod
    def _in_step(self, act: Callable[[Runner], bool]) -> bool:
        """Acts on the step that goes on, in its event loop."""

    def approve(
        self,
        call: Asked,
        *,
        fingerprint: str | None = None,
        by: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> bool:
        """Approves a call that waits for it, so that the call runs when its turn comes. Returns False if that changes
        nothing: the call has been decided, or the block was left.

        A loop over the pipeline ends when nothing runs and all calls that are left wait for an approval; loop again
        then.

        Args:
            call: the `ApprovalRequested`, one of `suspended.calls`, or the `call_id`.
            fingerprint: of the arguments that were approved, if they were looked at elsewhere.
            by: who approves it. A call of a tool with ``approvals=2`` runs when two have, by different names.
            arguments: all arguments that it is to run with, if they are not those that were shown. The model reads
                that they were changed.

        With a store that keeps decisions, this one counts if it is the first there; `ApprovalResolved` says whose does.

        Raises:
            InvalidArguments: `arguments` do not fit the tool; the call goes on waiting.
            LocalProtocolError: nobody was asked about this call or these arguments; or this is another thread.
            DecisionError: several people have to approve the call, and `by` is missing, or `arguments` are given.
            TypeError, ValueError: `arguments` are no object of JSON, or larger than 256 kB.
        """
        return self._in_step(lambda to: _decide(to, call, True, fingerprint, by=by, arguments=arguments))

    def deny(
        self, call: Asked, reason: str | None = None, *, fingerprint: str | None = None, by: str | None = None
    ) -> bool:
        """Denies a call that waits for an approval, so that it is ``denied``; `reason` is for the model to read. All
        else is as in `approve`."""
        return self._in_step(lambda to: _decide(to, call, False, fingerprint, by=by, reason=reason))

    def answer(
        self, call: Asked | AnswerRequested, result: Any, *, is_error: bool = False, fingerprint: str | None = None
    ) -> bool:
        """Hands in the result of a call of a ``deferred=`` tool. The first answer counts; the same one again
        changes nothing. Returns False if nothing changes.

        A loop over the pipeline waits for the answer, or with ``rests=True`` ends when nothing else goes on; loop again
        then.

        Args:
            call: the `AnswerRequested`, one of `suspended.calls`, or the `call_id`.
            result: text, JSON, or a `ToolResult`. It is bounded, checked and trusted as the result of any tool.
            is_error: the call has failed, and the result says why.
            fingerprint: of the arguments that were answered, if they were looked at elsewhere.

        With a store that keeps decisions, this answer counts if it is the first on record there.

        Raises:
            AnswerError: there is no such call in this step, it waits for no answer, or it has had another one.
            TypeError: the result is no JSON.
            ValueError: the result is larger than 32 MB.
            LocalProtocolError: this is another thread.
        """
        from ..waiting.answers import written_answer  # few calls are done outside

        return self._in_step(lambda to: _answer(to, call, written_answer(result, is_error=is_error), fingerprint))

    def cancel(self, call: Mention | str, reason: str | None = None) -> bool:
        """Stops one call, whatever its state, as a person's stop button does; the others go on. Returns False if that
        changes nothing: the call is over, or was told to stop before. A call that has not begun is ``cancelled`` at
        once, and never runs. An async tool that runs is cancelled where it awaits; a thread is given up.

        Args:
            call: an event about the call, or its `call_id`.
            reason: why, for the model to read, if the call has not begun.

        Raises:
            LocalProtocolError: there is no such call in this step; or this is another thread.
        """
        return self._in_step(lambda to: _cancel(to, call, reason))


def _decide(to: Runner, call: Asked, verdict: bool, fingerprint: str | None, *, by: str | None, **given: Any) -> bool:
    shown = _shown(to, call, fingerprint)
    if discarded_end(to, call) is not None:
        return False
    return to.ends_rest(to.attempt.calls.waiting.decide(_id_of(call), verdict, shown, by=by, **given))


def _answer(to: Runner, call: Asked | AnswerRequested, record: bytes, fingerprint: str | None) -> bool:
    return to.ends_rest(to.attempt.calls.waiting.answer(_id_of(call), record, _shown(to, call, fingerprint)))


def _cancel(to: Runner, call: Mention | str, reason: str | None) -> bool:
    _check_begun(to)
    if to.state == "open":
        check_loop(to.token, "cancel")
    if discarded_end(to, call) is not None:
        return False
    return to.ends_rest(to.attempt.calls.cancel_one(_id_of(call), reason))


def _shown(to: Runner, call: Asked | AnswerRequested, fingerprint: str | None) -> str | None:
    """Returns the fingerprint of what was shown; raises a `LocalProtocolError` if that was in another step, where a
    call may have the same id and arguments."""
    _check_begun(to)
    if isinstance(call, (AnswerRequested, ApprovalRequested)) and call.seq >= 0:
        number = to.step.number
        if call.step not in ((number,) if to.resumed is None else (number, to.resumed.step)):
            raise LocalProtocolError(f"the request belongs to step {call.step}, but this is step {number}")
    return getattr(call, "fingerprint", None) if fingerprint is None else fingerprint  # a `ToolCall` has none


def _check_begun(to: Runner) -> None:
    if to.state == "opening":
        raise LocalProtocolError("the pipeline has not begun; wait for an event of the call")
    if to.state != "left":
        to.check_open()


def discarded_end(to: Runner, call: Mention | str) -> Observation | None:
    return None if to.tries is None else to.tries.discarded_end(call)


def _id_of(call: Mention | str) -> str:
    return call if isinstance(call, str) else call.call_id


# -- what is said to a run --

When: TypeAlias = Literal["next", "now"]
"""The time when a message enters the history: after the results of the current step, or as soon as its response is
cut."""


def entry_of(message: Any, when: When, wire: Wire, entry_id: str | None = None) -> dict[str, Any]:
    """Returns the entry of a message of the user's, or of several, which are copied. Raises a `TypeError` if it is
    neither text nor a message, a `ValueError` if it is none of a user's on this wire, or *when* is not known."""
    if when not in get_args(When):
        raise ValueError(f"unknown when {when!r}; known: {', '.join(get_args(When))}")
    is_list = isinstance(message, Sequence) and not isinstance(message, str)
    written = [one for part in (message if is_list else [message]) for one in _written(part, wire)]
    return {"id": entry_id or uuid.uuid4().hex, "kind": "say", "when": when, "messages": written}


def _written(message: Any, wire: Wire) -> list[dict[str, Any]]:
    from ..wires.transcript import Prompt

    if getattr(message, "is_marked", False):
        raise TypeError("say: Untrusted text needs a message in which it is a separate block; pass such a message")
    if isinstance(message, str):
        if not message.strip():
            raise ValueError("say: the message is empty")
        return wire.render_prompt(Prompt(role="user", blocks=(Text(message),)))
    if not isinstance(message, Mapping):
        raise TypeError(f"say takes text or a message of {wire.name}, not {type(message).__name__}")
    copied = own(dict(message))
    read = wire.entries([copied])
    if not read or any(not isinstance(one, Prompt) or one.role != "user" or one.flaws for one in read):
        raise ValueError(f"say takes a user message; {wire.name} reads this one as something else")
    return [copied]


# -- what is easily written wrongly --

_TURN = {name: "()" if callable(getattr(Turn, name)) else "" for name in dir(Turn) if not name.startswith("_")}


def asynchronous_only(what: str, block: str) -> Callable[..., NoReturn]:
    """Returns a method that refuses a synchronous ``for`` or ``with``, and says what to write. `what` names such an
    object; `block` are the words between ``async with`` and the colon: a call, and the name of the events."""
    made, _, events = block.rpartition(" as ")
    inside = f"async with {block}:  async for event in {events}: ..."

    def refuse(*_: object) -> NoReturn:
        outside = f"with {made}.sync() as {events}: ..."
        raise TypeError(f"{what} is asynchronous; write:  {inside}, or, without an event loop,  {outside}")

    return refuse


def turned_to(turn: str) -> Callable[[object, str], NoReturn]:
    """Returns a ``__getattr__`` that says where the turn is, by its expression, for an attribute that only the turn
    has."""

    def refuse(self: object, name: str) -> NoReturn:
        hint = f"; the turn has it, write {turn}.{name}{_TURN[name]}" if name in _TURN else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    return refuse
