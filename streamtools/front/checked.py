"""Checks the options of a step once: the steps of a run are then made without checking them again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from ..dispatch import Approver, CallPool, DispatchOptions, StartPolicy
from ..dispatch.executor import Executor
from ..dispatch.options import LEAVES_CALLS, OnToolError
from ..ground.own import builder_of
from ..ground.text import type_name
from ..limits import Limits
from ..pipelines.attempt import StepOptions
from ..pipelines.pump import Transform
from ..pipelines.trajectory import Trajectory
from ..stages import DEFAULT, StageList
from ..tools import AnyTools, Middleware, Toolset
from ..tools.callables import accepts
from ..tools.options import AnyPolicy, is_middleware
from ..tools.toolset import toolset_of
from ..wires import Wire
from .capabilities import attempts_of, desk_of, gate_of, seams_of

if TYPE_CHECKING:
    from ..durable.store import IdempotencyStore
    from ..privacy import Privacy
    from ..seams import Attempts, CallRule, Seams
    from ..stages import OutputType

OnSourceError: TypeAlias = Literal["cancel", "drain"]
OnQuotedCall: TypeAlias = Literal["refuse", "ask", "run"]

_ON_SOURCE_ERROR, _ON_QUOTED_CALL, _START_POLICIES = map(get_args, (OnSourceError, OnQuotedCall, StartPolicy))
_ON_TOOL_ERROR = ("continue", "cancel")  # to raise is for adapters of frameworks
_NO_TOOLS = Toolset()
_LIMITS = Limits()


class StepKeywords(TypedDict, total=False):
    """The options of `pipeline`, explained there, that hold for resumed calls, too."""

    context: Any
    approve: Approver | None
    policy: AnyPolicy | Sequence[AnyPolicy] | None
    executor: Executor | Mapping[str, Executor] | None
    stages: StageList
    middleware: Middleware | Sequence[Middleware] | None
    pool: CallPool | None
    limits: Limits
    on_tool_error: OnToolError
    privacy: Privacy | None
    capabilities: Iterable[object]


class PipelineKeywords(StepKeywords, total=False):
    """The options of `pipeline`, explained there, that each step of a run may have."""

    start: StartPolicy | None
    trials: bool
    transforms: Sequence[Transform]
    store: IdempotencyStore | None
    output: OutputType | None
    on_source_error: OnSourceError
    quoted_calls: OnQuotedCall


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOptions:
    wire: Wire | str | None
    stages: StageList
    decoding: StageList  # these, and the one that reads the answer's type
    quoted_calls: OnQuotedCall
    policy: Any  # about calls, see `pipeline`
    step: StepOptions
    dispatch: DispatchOptions  # as they are for every step
    attempts: Attempts | None
    store: IdempotencyStore | None

    @property
    def tools(self) -> Toolset:
        return self.step.tools

    @property
    def limits(self) -> Limits:
        return self.step.limits

    @property
    def leaves_calls(self) -> bool:
        return self.dispatch.start in LEAVES_CALLS

    @property
    def is_plain(self) -> bool:
        return self.decoding is DEFAULT and not self.step.transforms


_new_dispatch, _new_step, _new_checked = (
    builder_of(DispatchOptions),
    builder_of(StepOptions),
    builder_of(CheckedOptions),
)


def checked_options(
    tools: AnyTools | Toolset | None,
    wire: Wire | str | None = None,
    *,
    trajectory: Trajectory | None,
    retry: Attempts | None = None,
    identity: str | None = None,
    without: tuple[str, ...] = ("steps",),
    seams: Seams | None = None,
    **words: Unpack[PipelineKeywords],
) -> CheckedOptions:
    """Raises a `TypeError` for a value of another kind, by the name of its word: later the error would be some object's
    missing attribute. Raises a `ValueError` for one that is not known, a `ToolDefinitionError` for what can be no tool.

    Args:
        trajectory: the run that steps belong to; None for a new one.
        retry: see `pipeline`.
        identity: see `run_calls`.
        without: the seams that the step does not have.
        seams: those of a run, in place of ``capabilities=``.
    """
    stages, limits, pool = words.get("stages", DEFAULT), words.get("limits", _LIMITS), words.get("pool")
    transforms = words.get("transforms", ())
    if not isinstance(stages, StageList):
        raise TypeError(
            f"stages must be a StageList made from streamtools.stages.DEFAULT, not {type(stages).__name__}; write "
            'stages=DEFAULT.insert_before("accumulate", MyStage)'
        )
    if callable(transforms):
        raise TypeError(
            "transforms must be a list of async generator functions, not a single one; write transforms=[...]"
        )
    _check_kind("limits", limits, Limits, "a streamtools.Limits(...)")
    _check_kind("trajectory", trajectory, Trajectory, "a streamtools.Trajectory()")
    _check_kind("pool", pool, CallPool, "a streamtools.dispatch.CallPool()")
    on_error = _known("on_source_error", words.get("on_source_error", "cancel"), _ON_SOURCE_ERROR)
    quoted_calls = _known("quoted_calls", words.get("quoted_calls", "refuse"), _ON_QUOTED_CALL)
    approve, store, context = words.get("approve"), words.get("store"), words.get("context")
    _check_approver(approve)
    if seams is None:
        seams = seams_of(words.get("capabilities", ()), gate_of(store, identity), without=without)
    if store is not None:
        seams = replace(seams, desk=desk_of(seams, store))
    toolset = _NO_TOOLS if tools is None else toolset_of(tools)
    start = words.get("start") or ("off" if tools is None and approve is None else "auto")
    dispatch = _new_dispatch(
        start=_known("start", start, _START_POLICIES),
        approver=approve,
        on_tool_error=_known("on_tool_error", words.get("on_tool_error", "continue"), _ON_TOOL_ERROR),
        executors=_executors(words.get("executor"), toolset),
        middleware=_middleware(words.get("middleware")),
        trials=words.get("trials", True),
        context=context,
        seams=seams,
    )
    if start != "off":
        check_context(context, toolset, dispatch.executors)
    if start not in LEAVES_CALLS:
        check_operations(toolset, seams.gate, None if trajectory is None else trajectory.conversation_id)
    decoding = stages
    if (output := words.get("output")) is not None:
        from ..stages.output import TypedOutput  # most answers have no type

        decoding = stages.append(TypedOutput(output))
    drains = on_error == "drain"
    return _new_checked(
        wire=wire,
        stages=stages,
        decoding=decoding,
        quoted_calls=quoted_calls,
        policy=words.get("policy"),
        step=_new_step(tools=toolset, limits=limits, transforms=tuple(transforms), pool=pool, drains=drains),
        dispatch=dispatch,
        attempts=attempts_of(seams, retry),
        store=store,
    )


def _check_kind(name: str, given: object, kind: type, words: str) -> None:
    if not isinstance(given, kind) and (given is not None or name == "limits"):
        raise TypeError(f"{name} must be {words}, not {type_name(given)}")


def _known(name: str, given: Any, among: tuple[str, ...]) -> Any:
    if given not in among:
        raise ValueError(f"unknown {name} {given!r}; known: {', '.join(among)}")
    return given


def _check_approver(given: object) -> None:
    if given is None:
        return
    if not callable(given):
        raise TypeError(f"approve must be a function of an ApprovalRequested, not {type_name(given)}")
    if not accepts(given, 1):
        raise TypeError("approve must take one argument, an ApprovalRequested: approve=lambda request: ...")


def _middleware(given: Middleware | Sequence[Middleware] | None) -> tuple[Middleware, ...]:
    if given is None:
        return ()
    several = given if isinstance(given, Sequence) else (given,)
    for one in several:
        if not is_middleware(one):
            name = getattr(one, "__name__", type(one).__name__)
            raise TypeError(
                f"middleware: {name} is not a middleware; write async def {name}(call, run): return await run()"
            )
    return tuple(several)


def _executors(given: Executor | Mapping[str, Executor] | None, tools: Toolset) -> Mapping[str, Executor]:
    if given is None:
        return {}
    names = {tool.name for tool in tools.values() if tool is not None}
    for executor in given.values() if isinstance(given, Mapping) else [given]:
        if isinstance(executor, type) or not hasattr(executor, "run"):
            raise TypeError(f"executor: {_described(executor)} is not an Executor; enter one and pass it, or a mapping")
    executors = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name, executor in executors.items():
        if name not in names:
            raise ValueError(f"executor: unknown tool {name!r}; the tools are {', '.join(sorted(names)) or 'none'}")
        has = getattr(executor, "tool_names", None)  # other people's executors need not have it
        if isinstance(has, frozenset) and name not in has:
            there = ", ".join(sorted(has)) or "nothing"
            text = f"executor: the {_described(executor)} was made without the tool {name!r}; it has {there}"
            raise ValueError(f"{text}; for some tools only, pass a mapping of their names")
    return executors


def _described(given: object) -> str:
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def check_context(context: Any, tools: Toolset, executors: Mapping[str, Executor]) -> None:
    """Refuses a context: with a `TypeError` if the tool wants another, or one at all; with a `ValueError` if the tool's
    executor cannot carry one."""
    for name, tool in tools.items():
        if tool is None or not tool.wants_context:
            continue
        if (problem := tool.context_problem(context)) is not None:
            raise TypeError(f"context: {problem}")
        executor = executors.get(name)
        if executor is not None and tool.needs_context and not getattr(executor, "carries_context", False):
            raise ValueError(
                f"context: the {type(executor).__name__} cannot carry it to the tool {name!r}; run that tool here "
                "(executor= takes a mapping of names), or pass what it needs in its arguments"
            )


def check_operations(tools: Toolset, gate: object, conversation_id: str | None) -> None:
    """Refuses tools whose operations nothing would know again, with a `TypeError`: there is no store and no gate, or an
    operation is per conversation and there is none."""
    for tool in tools.values():
        if tool is None or tool.idempotency_key is None:
            continue
        if gate is None:
            raise TypeError(
                f"idempotency_key= of {tool.name} needs a store that keeps the calls: store=SqliteStore(path)"
            )
        if tool.scope == "conversation" and conversation_id is None:
            raise TypeError(
                f"idempotency_key= of {tool.name} is per conversation; name the conversation: trajectory="
                'Trajectory(conversation_id="...", run_id="...")'
            )


# -- the rules that the words ask for --

_OF_TEXT = frozenset({"text_calls", "payloads"})  # the stages that read calls out of the text


Request: TypeAlias = "Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None"
"""The fields of a request, or a function that makes them when they are read."""


def with_rules(
    checked: CheckedOptions,
    run: Trajectory,
    *,
    request: Request = None,
    asks_model: bool = True,
    is_known: bool = False,
) -> Seams:
    """Returns the seams of a step, with the rules that its words ask for before a user's own.

    Args:
        request: the request's fields, if they are known.
        asks_model: False for calls that are at hand.
        is_known: they were judged before, perhaps elsewhere.

    Raises:
        TypeError: a policy is none, or what the model has read is not known.
        ValueError: a policy names an argument that no tool has.
    """
    rules: list[CallRule] = []
    start, tools, limits, seams = checked.dispatch.start, checked.tools, checked.limits, checked.dispatch.seams
    if start != "off" and _has(tools, "hints"):
        from ..policy.callers import Callers  # few tools have hints

        rules.append(Callers(tools))
    looks = checked.quoted_calls != "run" and start != "pure"
    if looks and (asks_model or is_known) and _reads_text(checked.stages):
        from ..text_calls.quoted import KeptResults, QuotedCalls  # most models make their calls natively

        results = run.kept.setdefault(KeptResults, KeptResults())
        rules.append(QuotedCalls(results, tools, limits, checked.quoted_calls == "ask"))
    is_off = start == "off"  # then a rule keeps texts alone, of a run that has some
    if has_policy(checked.policy, tools) and (run.kept or not is_off):
        from ..provenance.rule import rule_of  # few tools have a policy

        request = request() if callable(request) else request
        rule = rule_of(
            checked.policy,
            tools,
            run.kept,
            limits,
            request=None if is_off else request,
            asks_model=asks_model and not is_off,
            is_known=is_known or is_off,
        )
        if rule is not None:
            rules.append(rule)
    return replace(seams, rules=(*rules, *seams.rules)) if rules else seams


def has_policy(policy: object, tools: Toolset) -> bool:
    return policy is not None or _has(tools, "policy")


def _has(tools: Toolset, option: str) -> bool:
    return any(tool is not None and getattr(tool, option) is not None for tool in tools.values())


def know(run: Trajectory, messages: Sequence[Any], checked: CheckedOptions, wire: Wire | str) -> None:
    """Tells a run the messages that it begins with, if a rule needs them; raises as `with_rules` does."""
    if has_policy(checked.policy, checked.tools):
        from ..provenance.rule import begin_run  # few tools have a policy

        begin_run(run.kept, checked.policy, messages, checked.tools, wire, checked.limits)


def _reads_text(stages: StageList) -> bool:
    return stages is not DEFAULT and not _OF_TEXT.isdisjoint(stages)
