"""Defines the options of a tool, each with its default, and the middleware around its calls."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Literal, Protocol, TypeAlias, TypedDict, get_args

from ..content import Caller, Grammar, Namespace, RequestHints
from ..parts import Finding
from .binder import ArgumentsValidator, Coerce
from .callables import refuse
from .checks import Check, check_checks
from .results import OutputSchema

Effect: TypeAlias = Literal["pure", "idempotent", "once"]
"""The effect of a second run of the same call. ``pure``: nothing, it only computes or looks up, and its result depends
only on the arguments, neither on the caller nor on a context variable. ``idempotent``: nothing more than the first.
``once``: it must not happen, the careful default. When a call may start, and whether it may be retried, follows from
it."""

ConflictKey: TypeAlias = str | Callable[[Mapping[str, Any]], Hashable]
"""The resource that a call works on: the name of an argument, or a function of the validated arguments by name."""

IdempotencyKey: TypeAlias = str | Sequence[str] | Callable[[Mapping[str, Any]], Any]
"""The operation that must not happen twice: the names of the arguments that identify it, or a function of the validated
arguments by name that returns a plain value."""

Scope: TypeAlias = Literal["run", "conversation", "forever"]  # where an idempotency key names one thing

AnyPolicy: TypeAlias = Callable[[tuple[Finding, ...]], Any]
"""A function of the origins of a call's arguments that returns a verdict like an approver. True: the call runs. None:
it needs approval. False or ``Deny("why")``: it does not run. `untrusted` and `only_from_user` of
`streamtools.provenance` make some."""

MOST_APPROVERS = 16  # of one call; each is one more operation of the store

NeedsApproval: TypeAlias = bool | Callable[[Mapping[str, Any]], bool]
"""Makes a call wait for an approval: always, never, or by a function of the validated arguments by name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunOptions:
    """Holds the options for running a tool's calls, which are also fields of the tool."""

    effect: Effect = "once"
    """Whether the same call may run twice, and so when it starts."""
    needs_approval: NeedsApproval = False
    """Whether a call waits until somebody approves it."""
    approvals: int = field(default=1, repr=False)
    """The number of people who have to approve it."""
    policy: AnyPolicy | Sequence[AnyPolicy] | None = field(default=None, repr=False)
    """Asks about a call, or denies it, depending on the texts that its arguments come from."""
    trusted: bool = field(default=False, repr=False)
    """Whether `policy` trusts the tool's results."""
    timeout: float | None = None
    """Seconds that one attempt may take; None uses ``Limits(tool_timeout=...)``."""
    max_concurrency: int | None = None
    """The maximum number of concurrent calls of this tool; more wait."""
    conflict_key: ConflictKey | None = field(default=None, repr=False)
    """The thing that a call works on: the name of an argument, or a function of the arguments."""
    exclusive: bool = False
    """Whether a call of this tool runs alone."""
    trial: bool = field(default=True, repr=False)
    """Whether a ``pure`` call may be tried before it has ended; see `pipeline`."""
    deferred: bool | Literal["wait"] = False
    """Whether somebody else answers the calls: while the run rests, or, with ``wait``, while it waits."""
    background: bool = False
    """Whether a call is answered at once, and its result comes later; see `agent_loop`."""
    idempotency_key: IdempotencyKey | None = field(default=None, repr=False)
    """The thing that must not happen twice, whichever call asks for it."""
    scope: Scope = field(default="run", repr=False)
    """The scope within which it must not happen twice."""
    middleware: Middleware | None = field(default=None, repr=False)
    """Middleware around every call."""
    retries: int = 0
    """How often an attempt that raised or timed out is retried."""
    retry_delay_s: float = field(default=0.5, repr=False)
    """Seconds before the first retry; doubled before each further one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolOptions(RunOptions):
    name: str | None = None  # the tool's name; by default the function's
    require_hints: bool = True  # refuse parameters without a type hint, and a missing return annotation
    kind: Literal["function", "custom"] = "function"  # ``custom``: a freeform tool
    grammar: Grammar | None = None
    coerce: Coerce = "lax"
    """The policy for a value of another type: it becomes the wanted one where nothing is lost, or is refused."""
    lazy: Callable[[], Callable[..., Any]] | None = None  # returns the function to run, at the first call
    namespace: Namespace | str | None = None
    hints: RequestHints | None = None
    validator: ArgumentsValidator | None = None
    """A judge of the arguments: beside a function's types, in the place of the validator of a foreign schema."""
    check: Check | None = None  # a function that may refuse the validated arguments
    output_schema: OutputSchema | None = None  # a declaration of the tool's results, which are then checked
    commit: Callable[..., Any] | None = None  # of a tool with a `Growing` parameter: lets take effect what its body did
    abort: Callable[..., Any] | None = None  # undoes it


class RunKeywords(TypedDict, total=False):
    effect: Effect
    needs_approval: NeedsApproval
    approvals: int
    policy: AnyPolicy | Sequence[AnyPolicy] | None
    trusted: bool
    timeout: float | None
    max_concurrency: int | None
    conflict_key: ConflictKey | None
    exclusive: bool
    trial: bool
    deferred: bool | Literal["wait"]
    background: bool
    idempotency_key: IdempotencyKey | None
    scope: Scope
    middleware: Middleware | None
    retries: int
    retry_delay_s: float


class ToolKeywords(RunKeywords, total=False):
    """Lists the options of `tool`, to type the ``**options`` of a function that passes them on."""

    name: str | None
    require_hints: bool
    kind: Literal["function", "custom"]
    grammar: Grammar | None
    coerce: Coerce
    lazy: Callable[[], Callable[..., Any]] | None
    namespace: Namespace | str | None
    hints: RequestHints | None
    validator: ArgumentsValidator | None
    check: Check | None
    output_schema: OutputSchema | None
    commit: Callable[..., Any] | None
    abort: Callable[..., Any] | None


def policies_of(given: AnyPolicy | Sequence[AnyPolicy] | None) -> tuple[AnyPolicy, ...]:
    if given is None:
        return ()
    if isinstance(given, Sequence):
        return tuple(given)
    return (given,)


def check_options(tool: str, options: ToolOptions) -> None:
    for name, (fits, expected) in _VALUES.items():
        if not fits(given := getattr(options, name)):
            # Objects by their type: their own words may be long, or hold what should not be logged.
            got = repr(given) if isinstance(given, (str, int, float, NoneType)) else f"a {type(given).__name__}"
            raise refuse(tool, f"{name}: expected {expected}, got {got}")
    if options.retries and options.effect == "once":
        raise refuse(tool, "retries would run a 'once' tool twice; write effect='idempotent' if that does no harm")
    if options.approvals > 1 and options.needs_approval is False and options.policy is None:
        raise refuse(tool, f"approvals={options.approvals} needs an approval; pass needs_approval= or policy=, too")
    if options.idempotency_key is not None and options.effect != "once":
        raise refuse(tool, f"idempotency_key: a {options.effect!r} tool may run again; it is for effect='once'")
    if options.idempotency_key is None and options.scope != "run":
        raise refuse(tool, f"scope={options.scope!r} belongs to an idempotency key; pass idempotency_key=, too")
    for name in _ONLY_HERE if options.deferred else ():
        if getattr(options, name):
            raise refuse(tool, f"{name} applies to calls that run here; a deferred call is answered elsewhere")
    check_checks(tool, options.validator, options.check)


_ONLY_HERE = ("max_concurrency", "conflict_key", "exclusive", "background", "idempotency_key", "retries", "lazy")


def _is_count(number: object, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number >= least


def _is_plain_function(value: object) -> bool:
    # An async function returns a coroutine, which is true whatever it would have decided.
    return callable(value) and not inspect.iscoroutinefunction(value)


def _are_names(value: object) -> bool:
    names = [value] if isinstance(value, str) else value
    return isinstance(names, (list, tuple)) and bool(names) and all(isinstance(name, str) for name in names)


def _is_seconds(timeout: object) -> bool:
    return isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0 < timeout < math.inf


_VALUES: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "effect": (lambda value: value in get_args(Effect), "'pure', 'idempotent' or 'once'"),
    "timeout": (lambda value: value is None or _is_seconds(value), "a number of seconds greater than 0, or None"),
    "max_concurrency": (lambda value: value is None or _is_count(value, 1), "an integer of 1 or more, or None"),
    **dict.fromkeys(("exclusive", "trial", "background"), (lambda value: isinstance(value, bool), "True or False")),
    "deferred": (lambda value: isinstance(value, bool) or value == "wait", "True, False or 'wait'"),
    "needs_approval": (
        lambda value: isinstance(value, bool) or _is_plain_function(value),
        "True, False, or a plain function of the arguments by name",
    ),
    "approvals": (
        lambda value: _is_count(value, 1) and value <= MOST_APPROVERS,
        f"an integer of 1 to {MOST_APPROVERS}",
    ),
    "policy": (
        lambda value: all(map(_is_plain_function, policies_of(value))),
        "untrusted(...), only_from_user(...), a plain function of the findings, or a list of these",
    ),
    "trusted": (lambda value: isinstance(value, bool), "True or False"),
    "conflict_key": (
        lambda value: isinstance(value, (str, NoneType)) or _is_plain_function(value),
        "an argument's name, or a plain function of the arguments by name",
    ),
    "idempotency_key": (
        lambda value: value is None or _are_names(value) or _is_plain_function(value),
        "the names of arguments, or a plain function of the arguments by name",
    ),
    "scope": (lambda value: value in get_args(Scope), "'run', 'conversation' or 'forever'"),
    "middleware": (
        lambda value: value is None or is_middleware(value),
        "an async function of a call and of a function that runs it",
    ),
    "retries": (lambda value: _is_count(value, 0), "an integer of 0 or more"),
    "retry_delay_s": (_is_seconds, "a number of seconds greater than 0"),
    **dict.fromkeys(("commit", "abort"), (lambda value: value is None or callable(value), "a function, or None")),
    "coerce": (lambda value: value in get_args(Coerce), "'lax' or 'strict'"),
    "kind": (lambda value: value in ("function", "custom"), "'function' or 'custom'"),
    "hints": (lambda value: isinstance(value, (RequestHints, NoneType)), "a RequestHints(...)"),
    "namespace": (
        lambda value: isinstance(value, (str, Namespace, NoneType)),
        "a name, or a Namespace(name, description)",
    ),
    "grammar": (lambda value: isinstance(value, (Grammar, NoneType)), "a Grammar(syntax=..., definition=...)"),
    "lazy": (
        lambda value: value is None or _is_plain_function(value),
        "a plain function that returns the one to run, which may be async",
    ),
}


# -- middleware --


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRequest:
    """A call that is about to run: valid, approved if necessary, and next in order."""

    call_id: str
    """The call's identity, unique within its step."""
    tool_name: str
    """The tool's name."""
    arguments: Mapping[str, Any] = field(repr=False)
    """The arguments by name, as plain JSON values, as the tool gets them. To change them, see `RunCall`."""
    effect: str
    """The tool's effect: ``pure``, ``idempotent`` or ``once``."""
    run_id: str
    """The run (trajectory) that the call belongs to."""
    step: int
    """The number of the model response in the run that made the call, from 0."""
    idempotency_key: str = field(repr=False)
    """See `ToolContext.idempotency_key`."""
    context: Any = field(default=None, repr=False)
    """The ``context=`` of the pipeline."""
    caller: Caller = "direct"
    """The caller: the model itself, or code that it wrote and the provider runs (``code``)."""


class RunCall(Protocol):
    """Runs the next middleware and finally the tool, with its timeout, retries, executor and store."""

    def __call__(self, arguments: Mapping[str, Any] | None = None, /) -> Awaitable[Any]:
        """Returns the tool's value, or raises the `ToolError` that the call would end with. May be awaited once.

        Args:
            arguments: replace the call's arguments; they are validated again.

        Raises:
            InvalidArguments: they do not fit the tool.
            LocalProtocolError: the call has already run; or it was approved with other arguments, or these give another
                ``conflict_key``.
        """
        ...


Middleware: TypeAlias = Callable[[ToolCallRequest, RunCall], Awaitable[Any]]
"""Middleware: an async function of a call and of a function that runs it. Its return value becomes the call's; None
keeps the value that `run` returned."""


def is_middleware(given: object) -> bool:
    return inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(getattr(given, "__call__", None))  # noqa: B004
