"""Calls as rules and filters see them, and what these may say."""

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
    """The step that a call belongs to, for those who judge it."""

    run_id: str
    """The id of its run."""
    number: int
    """The step's number in its run, from 0."""
    conversation_id: str | None = None
    """The conversation that the run belongs to."""
    request: Mapping[str, Any] | None = field(default=None, repr=False)
    """The request's fields as they were sent, if they are known; not to be changed."""
    warn: Callable[[StreamWarning], None] = field(repr=False)
    """Emits a warning."""
    text_of: Callable[[Observation], ReadText | None] = field(repr=False)
    """Returns what the model reads of a result, and whose it is, where a filter has changed that; else None."""
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
    """A call that is valid and may run if nobody objects."""

    call: ToolCall
    """The call as the model made it."""
    tool: Tool[..., Any]
    """Its tool."""
    given: Mapping[str, Any] = field(repr=False)
    """The arguments by the names of the tool's schema, before they were validated; not to be changed."""
    bound: Bound = field(repr=False)
    """The arguments as they were validated."""
    is_edited: bool = False
    """True if the arguments are a person's, who approves the call with them: now only a `Refuse` counts."""
    waited: bool = False
    """True if the call was suspended, and so was judged before: somebody is asked about it in any case."""
    findings: tuple[Finding, ...] = ()
    """What was found of its arguments before it was suspended."""
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
        """The arguments that the tool is to get, by name; not to be changed."""
        return self.bound.by_name

    @property
    def text(self) -> str:
        """The arguments as the model wrote them."""
        return self.call.arguments_text

    @property
    def shown(self) -> str:
        """The fingerprint of the call as the model made it, by which a decision about it is known."""
        return self.read_shown()

    @property
    def effect(self) -> Effect:
        """The effect of a second run of the same call."""
        return self.tool.effect

    @property
    def caller(self) -> Caller:
        """Who calls: the model itself, or its code."""
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
    """What is known of its arguments; the call's `Observation` has it, too."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Lets a call run once people have approved it, as a tool with ``needs_approval=True``."""

    approvals: int = 1
    """How many people have to."""
    findings: tuple[Finding, ...] = ()
    """What is known of its arguments, for those who are asked."""

    def __post_init__(self) -> None:
        if not isinstance(self.approvals, int) or self.approvals < 1:
            raise ValueError(f"Ask(approvals={self.approvals!r}): must be an integer greater than 0")


@dataclass(frozen=True, slots=True)
class Refuse:
    """Ends a call without running it."""

    outcome: Outcome
    """Its outcome, usually ``denied``; one of a call that has not run, and does not run later."""
    error: ToolError
    """Why; the model reads its text."""
    findings: tuple[Finding, ...] = ()
    """What is known of its arguments."""

    def __post_init__(self) -> None:
        if self.outcome not in _REFUSED:
            raise ValueError(f"Refuse(outcome={self.outcome!r}): must be one of {', '.join(_REFUSED)}")
        if not isinstance(self.error, ToolError):
            raise TypeError(f"Refuse: expected error as a ToolError, got {type(self.error).__name__}")


Verdict: TypeAlias = Allow | Ask | Refuse


class CallRule(Protocol):
    """Judges calls before they may run: before anybody is asked for an approval, and before a call takes its place.

    Every rule is asked, one after the other, until one refuses. A rule that raises, or returns no verdict, fails its
    call: its tool does not run. If a listener of a rule raises, the rule has missed something: with a warning, it hears
    nothing more, and fails each later call of the run that concerns it.

    A rule may have more, each of it optional:

    * ``concerns(name) -> bool``: whether it judges calls of that name; the others cost nothing.
    * ``only_refuses = True``: it never returns `Ask`.
    * ``listeners(step) -> Mapping[type[Event], Callable[[Any], None]]``: functions to call with the step's events of
      these types, as they are, before any policy hides something of them: an `Observation` as it ends a call.
    """

    def judge(self, call: ReadyCall, step: StepView, /) -> Verdict | Awaitable[Verdict]:
        """Returns the verdict on a call, or an awaitable of it. Calls are judged at the same time where rules await,
        and go on in their order."""
        ...


# -- filters: what does the model read of a result? --


@dataclass(frozen=True, slots=True)
class ReadText:
    """A text that the model reads of a call's result."""

    text: str
    """The text, without a filter's own words."""
    tool: str
    """The tool that has returned it, perhaps in an earlier call."""
    call_id: str | None
    """That call."""
    is_trusted: bool = False
    """Nobody but the user and the program has written it."""


class ResultFilter(Protocol):
    """Changes what the model reads of calls' results. `Observation.value`, the program's own, stays as it is.

    If a filter raises, or returns no observation, the model reads that the result was left out. A filter may have more,
    each of it optional:

    * ``restore(observation, step)``: is called with each result of a step that a journal replays, as it was filtered.
    * ``text_of(observation) -> ReadText | None``: for a result that it has changed, or that has a part of another one;
      a policy of origins looks at that text.
    """

    def apply(self, observation: Observation, step: StepView, /) -> Observation:
        """Returns the observation, or a changed one by ``dataclasses.replace``: its ``model_content`` counts, and its
        ``result`` where there is one, and nothing else of it. It may not wait."""
        ...
