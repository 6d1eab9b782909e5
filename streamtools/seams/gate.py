"""A gate lets calls in that must not run twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..errors import ToolError

if TYPE_CHECKING:
    from ..parts import WaitReason


def call_fingerprint(tool: str, arguments: Mapping[str, Any]) -> str:
    """Returns a hash of the tool's name and the arguments as plain JSON; the order of keys does not matter.

    Raises:
        ValueError: the arguments are no plain JSON.
    """
    try:
        text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
        raise ValueError(f"the arguments of {tool} are no plain JSON, so they have no fingerprint") from None
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class GateView:
    """A call that must not run twice, as a `Gate` sees it: one of a ``once`` tool, or one that needs an approval."""

    key: str
    """Its idempotency key: the same whenever its run goes on, and no other call's."""
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """Plain JSON by parameter name, as it was shown, also if a person has edited it since. Empty if it does not fit the
    tool any more."""
    operation: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns what the ``idempotency_key=`` of its tool names; None if the tool has none. It may raise."""
    scope: Literal["run", "conversation", "forever"] = "run"
    """Where that names the same operation."""
    effect: Literal["pure", "idempotent", "once"] = "once"
    """The tool's effect."""
    goes_on: bool = False
    """True if its tool goes on by what it has noted (`Entered`), so that it may enter again where its process died."""
    is_approved: bool
    """True if it needs an approval, which it has."""
    run_id: str
    step: int
    conversation_id: str | None
    seconds: float
    """How long the call may run; infinite if there is no limit. So long a gate may wait for one that runs already."""
    waits_for: Callable[[WaitReason], object] = field(repr=False)
    """Notes what the call waits for from now on, as ``elsewhere``; see `Invocation.waits_for`."""
    known_as: str = field(default="", repr=False)
    """The fingerprint that it was suspended with, if its arguments do not fit the tool any more."""

    @property
    def fingerprint(self) -> str:
        """A hash of the tool's name and `arguments`. Raises a `ValueError` if these are no plain JSON."""
        return self.known_as or call_fingerprint(self.tool_name, self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended: with a value, or with an error."""

    value: Any = field(default=None, repr=False)
    """Plain JSON, or the tool's own `ToolResult` or `AnsweredLater`."""
    content: str | None = field(default=None, repr=False)
    """The text that the model has read, if it is not that of the value as JSON."""
    error: ToolError | None = None
    """The call's failure, in words for the model."""
    by_another: bool = False
    """True if another call has done what this one asks for: the model reads that it had been done already."""
    notes: Mapping[str, Any] | None = None
    """As `Observation.notes`."""

    def __post_init__(self) -> None:
        if self.content is not None and not isinstance(self.content, str):
            raise TypeError(f"CallEnd: expected content as a str or None, got {type(self.content).__name__}")
        if self.error is not None and not isinstance(self.error, ToolError):
            raise TypeError(f"CallEnd: expected error as a ToolError or None, got {type(self.error).__name__}")


class Entered(Protocol):
    """A call that has entered a gate. One of these is awaited when it ends; what one raises becomes a warning of the
    stream, and changes nothing of how the call ended."""

    # Optional: ``async def note(self, text: str, /) -> None`` keeps a text until the call ends. With it, ``noted`` is
    # the text that was kept when the call entered before, in a process that died, and ``outlives`` is True if the call
    # goes on elsewhere once its run is left.

    async def kept(self, end: CallEnd, /) -> None:
        """Keeps how the call ended: from now on `Gate.look` and `Gate.enter` return that."""
        ...

    async def free(self) -> None:
        """Lets the call enter again: it has not run, or has had no effect."""
        ...

    async def lost(self) -> None:
        """Notes that nobody knows how the call ended: from now on `Gate.enter` raises a `ToolOutcomeUnknown`."""
        ...


class Gate(Protocol):
    """The one way into a call that must not run twice: it lets a call in, or says how the call has ended before.

    Whatever a method begins it hands over before it waits for the first time, and leaves nothing behind if that wait is
    cancelled. A `ToolError` that `look` or `enter` raises is the call's end. If a method raises anything else, or does
    not return what it should, the call does not run.
    """

    # Optional: ``def key(self, call: GateView, /) -> str`` names what a call asks for, in place of its own key, before
    # it enters: its tool and its `Observation` have that key then.

    async def look(self, call: GateView, /) -> CallEnd | None:
        """Returns how a call ended that may have run before; None if it has not begun. No rule is asked about it until
        then.

        Raises:
            ToolNotStarted: nobody can say that now.
            ToolOutcomeUnknown: it was begun, and its end is not known.
        """
        ...

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        """Lets a call in, once; returns its end if it has run before. It is asked right before the tool's code runs,
        and waits for a call that runs already.

        Raises:
            ToolNotStarted: the call may not run now.
            ToolOutcomeUnknown: it was begun before, and its end is not known.
        """
        ...
