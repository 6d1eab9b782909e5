"""A gate admits calls that must not run twice."""

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
        ValueError: the arguments are not plain JSON.
    """
    try:
        text = json.dumps([tool, arguments], sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
        raise ValueError(f"the arguments of {tool} are not plain JSON, so they have no fingerprint") from None
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class GateView:
    """A call that must not run twice, as a `Gate` sees it: one of a ``once`` tool, or one that needs an approval."""

    key: str
    """Its idempotency key: unique to the call, and the same whenever its run is continued."""
    call_id: str
    tool_name: str
    arguments: Mapping[str, Any] = field(repr=False)
    """Plain JSON by parameter name, as shown, even if a person has edited it since. Empty if it no longer fits the
    tool."""
    operation: Callable[[], Any] | None = field(default=None, repr=False)
    """Returns the value that its tool's ``idempotency_key=`` names; None if the tool has none. It may raise."""
    scope: Literal["run", "conversation", "forever"] = "run"
    """Where the same value of `operation` means the same operation."""
    effect: Literal["pure", "idempotent", "once"] = "once"
    """The tool's effect."""
    goes_on: bool = False
    """True if its tool can continue from its notes (see `Entered`): it may enter again after its process died."""
    is_approved: bool
    """True if it needed an approval and has it."""
    run_id: str
    step: int
    conversation_id: str | None
    seconds: float
    """The seconds the call may run; infinite without a limit. A gate may wait as long for a call that already runs."""
    waits_for: Callable[[WaitReason], object] = field(repr=False)
    """Notes what the call waits for from now on, such as ``elsewhere``; see `Invocation.waits_for`."""
    known_as: str = field(default="", repr=False)
    """The fingerprint that it was suspended with, if its arguments no longer fit the tool."""

    @property
    def fingerprint(self) -> str:
        """A hash of the tool's name and `arguments`. Raises a `ValueError` if these are not plain JSON."""
        return self.known_as or call_fingerprint(self.tool_name, self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call ended: with a value, or with an error."""

    value: Any = field(default=None, repr=False)
    """Plain JSON, or the tool's own `ToolResult` or `AnsweredLater`."""
    content: str | None = field(default=None, repr=False)
    """The text that the model read, if it differs from the value as JSON."""
    error: ToolError | None = None
    """The call's failure, in words for the model."""
    by_another: bool = False
    """True if another call already did what this one asks for. The model reads that."""
    notes: Mapping[str, Any] | None = None
    """As `Observation.notes`."""

    def __post_init__(self) -> None:
        if self.content is not None and not isinstance(self.content, str):
            raise TypeError(f"CallEnd: expected content as a str or None, got {type(self.content).__name__}")
        if self.error is not None and not isinstance(self.error, ToolError):
            raise TypeError(f"CallEnd: expected error as a ToolError or None, got {type(self.error).__name__}")


class Entered(Protocol):
    """A call that has entered a gate. One of these methods is awaited when the call ends. If it raises, the stream gets
    a warning, and the call's end stays the same."""

    # Optional: ``async def note(self, text: str, /) -> None`` keeps a text until the call ends. With it, ``noted`` is
    # the text that was kept when the call entered before, in a process that died, and ``outlives`` is True if the call
    # continues elsewhere once its run is left.

    async def kept(self, end: CallEnd, /) -> None:
        """Records how the call ended. From now on, `Gate.look` and `Gate.enter` return that."""
        ...

    async def free(self) -> None:
        """Lets the call enter again, since it did not run or had no effect."""
        ...

    async def lost(self) -> None:
        """Records that the call's end is unknown. From now on, `Gate.enter` raises a `ToolOutcomeUnknown`."""
        ...


class Gate(Protocol):
    """Admits a call that must not run twice, or says how it ended before.

    A method hands its work over before its first ``await``, and leaves nothing behind if that ``await`` is cancelled.
    If `look` or `enter` raises a `ToolError`, that is the call's end. If a method raises anything else, or returns
    something of another type, the call does not run.
    """

    # Optional: ``def key(self, call: GateView, /) -> str`` names what a call asks for, in place of its own key, before
    # it enters. Its tool and its `Observation` then have that key.

    async def look(self, call: GateView, /) -> CallEnd | None:
        """Returns how a call that may have run before ended; None if it has not begun. No rule is asked about it before
        that.

        Raises:
            ToolNotStarted: the gate cannot tell now.
            ToolOutcomeUnknown: the call has begun, and its end is unknown.
        """
        ...

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        """Admits a call once; returns its end if it has run before. It is called right before the tool's code runs,
        and waits if the same call runs already.

        Raises:
            ToolNotStarted: the call may not run now.
            ToolOutcomeUnknown: the call has begun before, and its end is unknown.
        """
        ...
