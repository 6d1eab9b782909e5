"""Calls and results as rules and filters see them, and the verdicts of rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from ..errors import ToolError
from ..ground import one_line

if TYPE_CHECKING:
    from ..content import Caller
    from ..events import Observation, StreamWarning
    from ..parts import Finding, Outcome, Part, ToolCall
    from ..tools import Bound, Effect, Tool
    from ..wires import Wire


# -- views --


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepView:
    """The step that a call belongs to, as rules and filters see it."""

    run_id: str
    """The id of its run."""
    number: int
    """The step's number in its run, from 0."""
    conversation_id: str | None = None
    """The conversation that the run belongs to."""
    request: Mapping[str, Any] | None = field(default=None, repr=False)
    """The request's fields as they were sent, if they are known. Do not change them."""
    warn: Callable[[StreamWarning], None] = field(repr=False)
    """Emits a warning."""
    text_of: Callable[[Observation], ReadText | None] = field(repr=False)
    """Returns the text that the model reads of a result, and its origin, if a filter changed it; else None."""
    read_wire: Callable[[], Wire | str | None] = field(repr=False)
    read_parts: Callable[[], Sequence[Part]] = field(repr=False)

    @property
    def wire(self) -> Wire | str | None:
        """The wire of the response, once it is known."""
        return self.read_wire()

    @property
    def parts(self) -> Sequence[Part]:
        """The response so far."""
        return self.read_parts()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadyCall:
    """A valid call that may run unless a rule objects."""

    call: ToolCall
    """The call as the model made it."""
    tool: Tool[..., Any]
    """Its tool."""
    given: Mapping[str, Any] = field(repr=False)
    """The arguments before validation, by the names in the tool's schema. Do not change them."""
    bound: Bound = field(repr=False)
    """The validated arguments."""
    is_edited: bool = False
    """True if a person edited the arguments and approves the call with them: then only a `Refuse` counts."""
    waited: bool = False
    """True if the call was suspended, and so was judged before: it needs its approval in any case."""
    findings: tuple[Finding, ...] = ()
    """What rules found about its arguments before it was suspended."""
    read_shown: Callable[[], str] = field(repr=False)

    @property
    def call_id(self) -> str:
        """The call's id."""
        return self.call.call_id

    @property
    def name(self) -> str:
        """The tool's name."""
        return self.tool.name

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments that the tool will get, by name. Do not change them."""
        return self.bound.by_name

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return self.call.arguments_text

    @property
    def shown(self) -> str:
        """The fingerprint of the call as the model made it. Decisions about the call refer to it."""
        return self.read_shown()

    @property
    def effect(self) -> Effect:
        """The tool's effect: what a second run of the same call would do."""
        return self.tool.effect

    @property
    def caller(self) -> Caller:
        """Who made the call: the model itself, or code that it wrote."""
        return self.call.caller

    @property
    def index(self) -> int:
        """The call's position among the calls of its response, from 0."""
        return self.call.index

    @property
    def label(self) -> str:
        """The tool and the call's id, for a message."""
        return f"{self.tool.name}, call {one_line(self.call.call_id)}"


_REFUSED = ("denied", "quoted_call", "over_budget", "invalid", "failed")


# -- rules: may a call run? --


@dataclass(frozen=True, slots=True)
class Allow:
    """Lets a call run, as far as one rule is concerned."""

    findings: tuple[Finding, ...] = ()
    """What the rule found about the arguments; the call's `Observation` has it too."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Lets a call run once people have approved it, like a tool with ``needs_approval=True``."""

    approvals: int = 1
    """How many people have to approve it."""
    findings: tuple[Finding, ...] = ()
    """What the rule found about the arguments, for the people who decide."""

    def __post_init__(self) -> None:
        if not isinstance(self.approvals, int) or self.approvals < 1:
            raise ValueError(f"Ask(approvals={self.approvals!r}): must be an integer greater than 0")


@dataclass(frozen=True, slots=True)
class Refuse:
    """Ends a call without running it."""

    outcome: Outcome
    """Its outcome, usually ``denied``; it must mean that the call did not run and will not run later."""
    error: ToolError
    """The reason; the model reads its text."""
    findings: tuple[Finding, ...] = ()
    """What the rule found about the arguments."""

    def __post_init__(self) -> None:
        if self.outcome not in _REFUSED:
            raise ValueError(f"Refuse(outcome={self.outcome!r}): must be one of {', '.join(_REFUSED)}")
        if not isinstance(self.error, ToolError):
            raise TypeError(f"Refuse: expected error as a ToolError, got {type(self.error).__name__}")


Verdict: TypeAlias = Allow | Ask | Refuse


class CallRule(Protocol):
    """Judges calls before they may run: before anyone is asked for an approval, and before a call takes its place.

    The rules are asked one after the other, until one refuses. If a rule raises, or returns no verdict, the call fails
    without running. If a listener of a rule raises, the rule has missed something: the stream gets a warning, the rule
    hears no more events, and each later call of the run that concerns it fails.

    A rule may also have these members:

    * ``concerns(name) -> bool``: whether it judges calls of the tool of that name; the others cost nothing.
    * ``only_refuses = True``: it never returns `Ask`.
    * ``listeners(step) -> Mapping[type[Event], Callable[[Any], None]]``: functions to call with the step's events of
      these types, in full, before any policy hides parts of them; an `Observation` comes as it ends its call.
    """

    def judge(self, call: ReadyCall, step: StepView, /) -> Verdict | Awaitable[Verdict]:
        """Returns the verdict on a call, or an awaitable of it. If rules await, several calls are judged at the same
        time; the calls then continue in their order."""
        ...


# -- filters: what does the model read of a result? --


@dataclass(frozen=True, slots=True)
class ReadText:
    """The text that the model reads of a call's result."""

    text: str
    """The text, without a filter's own words."""
    tool: str
    """The tool that returned it, perhaps in an earlier call."""
    call_id: str | None
    """The id of that call."""
    is_trusted: bool = False
    """True if only the user and the program wrote it."""


class ResultFilter(Protocol):
    """Changes what the model reads of calls' results. `Observation.value`, which the program reads, stays the same.

    If a filter raises, or returns no observation, the model reads that the result was left out. A filter may also have
    these methods:

    * ``restore(observation, step)`` is called with each result, as filtered, of a step that a journal replays.
    * ``text_of(observation) -> ReadText | None`` returns the text of a result that it changed, or that contains part of
      another result; a policy of origins looks at that text.
    """

    def apply(self, observation: Observation, step: StepView, /) -> Observation:
        """Returns the observation, or a copy changed with ``dataclasses.replace``. Only its ``model_content`` and, if
        it has one, its ``result`` count. It must not block."""
        ...
