"""Makes a `Pipeline` in one of three ways: around a stream, of calls that waited for an approval, of calls at hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from ..decode.answers import as_items
from ..decode.continuing import settled
from ..decode.decoder import StreamDecoder
from ..dispatch import Approver, CallPool, Decision, Deny, DispatchOptions, StartPolicy
from ..dispatch.executor import Executor
from ..dispatch.options import OnToolError, arounds_of, check_context, executors_of
from ..dispatch.store import IdempotencyStore
from ..dispatch.suspended import Suspended
from ..errors import DecisionError
from ..events import ApprovalRequested
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..sources import answer_of, open_source
from ..stages import DEFAULT, OutputType, StageList
from ..text import one_line
from ..tools import AnyTools, Around, Toolset
from ..turn import Turn
from ..wires import Wire
from .block import Pipeline
from .given_calls import AnyCall, CallsDecoder, as_given, one_item
from .pump import Transform
from .resuming import decoder_of
from .trajectory import Trajectory

__all__ = [
    "Pipeline",
    "PipelineKeywords",
    "StepKeywords",
    "Transform",
    "of_resume",
    "pipeline",
    "resume",
    "run_calls",
]

OnSourceError: TypeAlias = Literal["cancel", "drain"]


class StepKeywords(TypedDict, total=False):
    """The options of `pipeline`, explained there, that hold for resumed calls, too."""

    context: Any
    approve: Approver | None
    executor: Executor | Mapping[str, Executor] | None
    stages: StageList
    around: Around | Sequence[Around] | None
    pool: CallPool | None
    limits: Limits
    on_tool_error: OnToolError


class PipelineKeywords(StepKeywords, total=False):
    """The options of `pipeline`, explained there, that each step of a run may have."""

    start: StartPolicy | None
    transforms: Sequence[Transform]
    store: IdempotencyStore | None
    output: OutputType | None
    on_source_error: OnSourceError


def pipeline(
    stream: Any,
    *,
    tools: AnyTools | Toolset | None = None,
    wire: Wire | str | None = None,
    stages: StageList = DEFAULT,
    transforms: Sequence[Transform] = (),
    start: StartPolicy | None = None,
    context: Any = None,
    approve: Approver | None = None,
    executor: Executor | Mapping[str, Executor] | None = None,
    around: Around | Sequence[Around] | None = None,
    store: IdempotencyStore | None = None,
    output: OutputType | None = None,
    pool: CallPool | None = None,
    limits: Limits = Limits(),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    on_source_error: OnSourceError = "cancel",
    on_tool_error: OnToolError = "continue",
    requested_at: float | None = None,
    request: Mapping[str, Any] | None = None,
    continues: Turn | None = None,
) -> Pipeline:
    """Wraps a stream that you hold: typed events come out, and the tools that the model calls are run.

        async with pipeline(stream, tools=[get_weather]) as events:
            async for event in events:
                ...
        messages += events.turn.messages()

    Args:
        stream: an SDK's stream, a response of an HTTP library, or an iterable, asynchronous or not, of bytes, text or
            payloads. It is read to its end and closed; a blocking one is read in a thread. Or the answer to a request
            without a stream, as an SDK's object, a dict or bytes: it is read as a stream of one item. Or the request
            itself, an awaitable of one of these or a context manager that opens one: it is made when the block is
            entered, so that spans and ``first_chunk_timeout`` count from there.
        tools: the tools that the model may call, or functions to make tools from. Without it, calls are reported and
            left to you: see `start`, and the *results* of `Turn.messages`.
        wire: the wire that the stream speaks, or its name; found from the stream's first payload by default.
        stages: the sans-IO steps; see `streamtools.stages.DEFAULT`.
        transforms: async generator functions that the events pass through after the stages.
        start: when calls start; by default as each tool's `effect` allows, and never (``"off"``) if there is neither
            `tools=` nor `approve=`.
        context: whatever you want your tools to have, as `ToolContext.context`: a session, a user, a state. The model
            neither sees nor sets it. Parameters that a framework fills (openai-agents' ``RunContextWrapper``,
            pydantic-ai's ``RunContext``, ...) are given the context itself, if it is such an object.
        approve: is called with each request for an approval, and returns True, False, ``Deny("why")``, or None, so
            that `Pipeline.approve` or `Pipeline.deny` decides; it may be async. Without it, all are left to those two.
        executor: where calls run instead of here: one executor for all tools, or a mapping of tools' names. You enter
            and leave it.
        around: middleware around every call, one or several, the first outermost: an ``async def around(call, run)``
            whose value is the call's, as in ``return await run()``. See `streamtools.tools.Around`.
        store: remembers ``once`` calls and approved ones, so that none of them runs twice. After a crash it knows them
            if the `trajectory` has the same ``run_id`` again.
        output: the type of the answer, where the request asked for JSON: a pydantic model, a dataclass, a TypedDict, or
            a JSON Schema. `Turn.output` is then the checked value, or None, and `Turn.output_problem` says why.
        pool: shared by pipelines whose calls are to be bounded together; by default each has its own.
        limits: bounds on everything.
        observers: see every event. By default one that draws spans, if OpenTelemetry is configured.
        trajectory: the run that this is a step of. It brings its own observers.
        on_source_error: whether calls that run when the stream fails are cancelled, or drained.
        on_tool_error: whether the other calls go on or are cancelled when one fails, times out or is lost.
        requested_at: when the request was made, on ``time.monotonic``, for spans and ``first_chunk_timeout``; not
            needed where the request itself is given.
        request: the request's own fields, as they were sent: a dict with ``model``, ``messages`` and parameters. Spans
            show the model and the parameters, and the messages only where content is captured.
        continues: a turn that was cut, and that this stream goes on with: request the rest by its ``resume_from``. The
            events begin with what it had said, each text in one delta; ``events.turn`` is the whole turn. A call that
            ended there keeps its result and is not run again; one that was cut or had to wait may run now.

    Raises:
        TypeError: `stream` cannot be streamed from; the message says what to pass.
        ValueError: `wire` or an option is not known, or the turn cannot be continued.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    _check(stages, transforms, limits, trajectory, pool)
    if request is not None and not isinstance(request, Mapping):
        raise TypeError(f"request is a mapping of the request's fields, not {type(request).__name__}")
    if on_source_error not in get_args(OnSourceError):
        raise ValueError(f"unknown on_source_error {on_source_error!r}; known: cancel, drain")
    toolset = _toolset(() if tools is None else tools)
    options = DispatchOptions(
        policy=start or ("off" if tools is None and approve is None else "auto"),
        approver=approve,
        on_tool_error=on_tool_error,
        executors=executors_of(executor, toolset),
        around=arounds_of(around),
        context=context,
        store=store,
    )
    options.check()
    if options.policy != "off":
        check_context(context, toolset, options.executors)
    run = Trajectory.of(trajectory, observers)
    salt = run.new_salt()
    return Pipeline(
        open_source(as_items(answer_of(stream), wire), limits),
        StreamDecoder(
            wire=wire,
            tools=toolset,
            stages=stages,
            output=output,
            limits=limits,
            id_salt=salt,
            defer=True,
            continues=continues,
        ),
        tools=toolset,
        transforms=tuple(transforms),
        options=options,
        pool=pool,
        limits=limits,
        trajectory=run,
        drain=on_source_error == "drain",
        requested_at=requested_at,
        request=request,
        settled=None if continues is None else settled(continues),
        facts=StreamFacts(
            wire=wire.name if isinstance(wire, Wire) else wire,
            id_salt=salt,
            tools=tuple(toolset),
            is_plain=stages is DEFAULT and not transforms and continues is None,
        ),
    )


def resume(
    suspended: Suspended,
    *,
    tools: AnyTools | Toolset,
    store: IdempotencyStore,
    decisions: Iterable[Decision] = (),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    **options: Unpack[StepKeywords],
) -> Pipeline:
    """Goes on with calls that waited for an approval, perhaps in another process.

        suspended = Suspended.from_text(text, key=SECRET)
        async with resume(suspended, tools=tools, store=store, decisions=decisions) as events:
            async for event in events:
                ...
        messages = with_results(messages, events.turn.observations, "openai.chat_completions")

    The calls are validated again, and each needs an approval, whatever its tool says now. Calls that are not decided
    stay suspended: see `Pipeline.suspended`. Do not append the turn to the history, which has the calls already:
    `streamtools.history.with_results` puts their results in.

    Args:
        suspended: the calls.
        tools: the tools that they call, as for the pipeline that they come from.
        store: keeps a call from running twice if this is resumed twice. A `SqliteStore` does so across processes.
        decisions: those made so far, each about a call as it was shown; see `Decision`.
        observers: see `pipeline`.
        trajectory: the run to go on with, if it is at hand; by default one with the same id, at the same step.
        options: ``context``, ``approve`` (asked about the calls that are not decided), ``executor``, ``around``,
            ``stages``, ``pool``, ``limits`` and ``on_tool_error``, as for `pipeline`. Arguments that were within their
            own run's limits are accepted here.

    Raises:
        DecisionError: a decision is about none of the calls, or about another one than was shown.
        TypeError: `suspended` is not a `Suspended`, a decision not a `Decision`; there is no store, or no such option.
        ValueError: two decisions are about one call, or an option has an unknown value.
    """
    if not isinstance(suspended, Suspended):
        raise TypeError(f"resume takes a Suspended, say Suspended.from_text(text, key), not {type(suspended).__name__}")
    if store is None:
        raise TypeError("resume needs a store, say SqliteStore(path): it keeps calls from running twice")
    step = _ModellessStep(tools, options, trajectory)
    if trajectory is None:
        trajectory, observers = Trajectory.resumed(suspended, observers=observers), None
    return step.pipeline(
        decoder_of(suspended, step.toolset, step.stages, step.limits),
        step.dispatch(
            approver=_decided(suspended, decisions, options.get("approve")),
            store=store,
            resumed={call.call_id: call.idempotency_key for call in suspended.calls},
        ),
        Trajectory.of(trajectory, observers),
        suspended=suspended,
    )


def run_calls(
    calls: Iterable[AnyCall],
    tools: AnyTools | Toolset,
    *,
    store: IdempotencyStore | None = None,
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    **options: Unpack[StepKeywords],
) -> Pipeline:
    """Runs calls that exist already, as a pipeline would: validated, in order, within limits, one observation each.

    For a framework that has read the model's answer itself, for a script, and for a test of a tool. Await it, or enter
    it and iterate as any pipeline:

        turn = await run_calls([("call_1", "get_weather", {"city": "Rome"})], [get_weather])
        turn.observations[0].outcome, turn.observations[0].value

    Nothing is raised for a call: bad arguments, a timeout, a tool that raises are outcomes; `Observation.unwrap`
    returns the value, or raises. A value may be any Python object: `Observation.model_content` writes it as text when
    that is first read, and says so if it cannot be written.

    Args:
        calls: ``(id, name, arguments)`` with an object or the text of one as arguments, and None for an id that is to
            be made up; a `ToolCall` of a `Turn`; or a dict as a provider, LangChain or Strands has it. A `ToolCall`
            that was cut or is invalid ends as it did, and is not run.
        tools: the tools that they may call, or functions to make tools from.
        store: remembers ``once`` calls and approved ones, by the run's id, its step, and theirs; see `pipeline`. It
            keeps values as JSON.
        observers: see `pipeline`.
        trajectory: the run that they are a step of. Only with one do calls count as repeated, for
            ``Limits(max_repeated_calls=...)``.
        options: ``context``, ``approve``, ``executor``, ``around``, ``stages``, ``pool``, ``limits`` and
            ``on_tool_error``, as for `pipeline`. Calls that wait for an approval are in `Pipeline.suspended`; values of
            calls that are resumed have to be JSON.

    Raises:
        TypeError: something is no call, or there is no such option.
        ValueError: two calls have one id, or the provider runs a call itself.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    step, given = _ModellessStep(tools, options, trajectory), as_given(calls)
    if len(given) > step.limits.max_tool_calls:
        step.limits = replace(step.limits, max_tool_calls=len(given))
    return step.pipeline(
        CallsDecoder(given, step.toolset, step.stages, step.limits),
        step.dispatch(
            approver=options.get("approve"), store=store, any_value=True, counts_repeated=trajectory is not None
        ),
        Trajectory.of(trajectory, observers),
    )


def of_resume(options: PipelineKeywords) -> Any:
    """Returns those of a pipeline's options that a resumed step has, too, and the store."""
    wanted = {*StepKeywords.__optional_keys__, "store"}
    return {name: value for name, value in options.items() if name in wanted}


class _ModellessStep:
    """Makes the pipeline of a step that asks no model, from the options that `resume` and `run_calls` share."""

    def __init__(self, tools: AnyTools | Toolset, options: StepKeywords, trajectory: Trajectory | None) -> None:
        if unknown := sorted(options.keys() - StepKeywords.__optional_keys__):
            known = ", ".join(sorted(StepKeywords.__optional_keys__))
            raise TypeError(f"there is no option {unknown[0]!r} where no model is asked; there are {known}")
        self.options = options
        self.stages = options.get("stages", DEFAULT)
        self.limits = options.get("limits", Limits())
        _check(self.stages, (), self.limits, trajectory, options.get("pool"))
        self.toolset = _toolset(tools)

    def dispatch(self, **own: Any) -> DispatchOptions:
        """Returns the options for dispatch, checked; `own` are those of the caller alone."""
        options = self.options
        dispatch = DispatchOptions(
            on_tool_error=options.get("on_tool_error", "continue"),
            executors=executors_of(options.get("executor"), self.toolset),
            around=arounds_of(options.get("around")),
            context=options.get("context"),
            **own,
        )
        dispatch.check()
        check_context(dispatch.context, self.toolset, dispatch.executors)
        return dispatch

    def pipeline(
        self, decoder: CallsDecoder, dispatch: DispatchOptions, trajectory: Trajectory, **own: Any
    ) -> Pipeline:
        """Returns the pipeline around these calls."""
        return Pipeline(
            open_source(one_item(), self.limits),
            decoder,
            tools=self.toolset,
            transforms=(),
            options=dispatch,
            pool=self.options.get("pool"),
            limits=self.limits,
            trajectory=trajectory,
            drain=False,
            asks_model=False,
            **own,
        )


def _decided(suspended: Suspended, decisions: Iterable[Decision], approve: Approver | None) -> Approver | None:
    """Returns an approver that knows the decisions and asks `approve` for the rest."""
    verdicts = _checked(suspended, decisions)
    if not verdicts:
        return approve

    def decide(request: ApprovalRequested) -> Any:
        found = verdicts.get(request.call_id)
        if found is None:
            return None if approve is None else approve(request)
        if found.fingerprint != request.fingerprint:  # the tools of today read the same text differently
            return Deny("its arguments are no longer those that were decided about")
        return found.verdict

    return decide


def _checked(suspended: Suspended, decisions: Iterable[Decision]) -> dict[str, Decision]:
    """Returns the decisions by call, each about a suspended call as it was shown."""
    waiting = {call.call_id: call for call in suspended.calls}
    found: dict[str, Decision] = {}
    for one in decisions:
        if not isinstance(one, Decision):
            raise TypeError(
                f"decisions: expected a list of Decision, got a {type(one).__name__} in it; an id alone does not say "
                "which arguments were shown, so write [Decision.on(call, True) for call in suspended.calls]"
            )
        shown, call = one_line(one.call_id, 100), waiting.get(one.call_id)
        if call is None:
            known = ", ".join(one_line(known, 100) for known in sorted(waiting))
            raise DecisionError(one.call_id, "unknown_call", f"no call {shown!r} is suspended; there are {known}")
        if call.fingerprint != one.fingerprint:
            why = f"the call {shown!r} that waits is not the one that was shown: its tool or arguments differ"
            raise DecisionError(one.call_id, "changed_call", why)
        if one.call_id in found:
            raise ValueError(f"decisions: two are about the call {shown!r}")
        found[one.call_id] = one
    return found


def _toolset(tools: AnyTools | Toolset) -> Toolset:
    if isinstance(tools, Mapping) and not isinstance(tools, Toolset):
        raise TypeError("tools is a mapping; pass its values: tools=[...]")
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
    if bare := [name for name, tool in toolset.items() if tool is None]:
        raise TypeError(f"a bare name ({bare[0]!r}) cannot be run; pass the tool or the function itself")
    return toolset


def _check(stages: Any, transforms: Any, limits: Any, trajectory: Any, pool: Any) -> None:
    """Refuses an argument of a wrong type by its name: later the error would be some object's missing attribute."""
    if not isinstance(stages, StageList):
        raise TypeError(
            f"stages is a StageList made from streamtools.stages.DEFAULT, not {type(stages).__name__}; write "
            'stages=DEFAULT.insert_before("accumulate", MyStage)'
        )
    if callable(transforms):
        raise TypeError("transforms is a list of async generator functions, not a single one; write transforms=[...]")
    if not isinstance(limits, Limits):
        raise TypeError(f"limits is a streamtools.Limits(...), not {type(limits).__name__}")
    if trajectory is not None and not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory is a streamtools.Trajectory(), not {type(trajectory).__name__}")
    if pool is not None and not isinstance(pool, CallPool):
        raise TypeError(f"pool is a streamtools.dispatch.CallPool(), not {type(pool).__name__}")
