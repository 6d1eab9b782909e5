"""Makes a `Pipeline` in one of two ways: around a stream, or from calls that waited for an approval."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

from ..decode.decoder import StreamDecoder
from ..dispatch import Approver, CallPool, DispatchOptions, StartPolicy, Verdict
from ..dispatch.approval import decision
from ..dispatch.executor import Executor
from ..dispatch.options import OnToolError, executors_of
from ..dispatch.store import IdempotencyStore
from ..dispatch.suspended import Suspended
from ..events import ApprovalRequested
from ..limits import Limits
from ..observers import Observer
from ..sources import open_source
from ..stages import DEFAULT, OutputType, StageList
from ..tools import AnyTool, Toolset
from ..wires import Wire
from .block import Pipeline
from .pump import Transform
from .resuming import SuspendedDecoder, calls_of
from .trajectory import Trajectory

__all__ = ["Pipeline", "PipelineKeywords", "StepKeywords", "Transform", "pipeline", "resume"]

OnSourceError: TypeAlias = Literal["cancel", "drain"]


class StepKeywords(TypedDict, total=False):
    """The options of `pipeline`, explained there, that hold for resumed calls, too."""

    approve: Approver | None
    executor: Executor | Mapping[str, Executor] | None
    stages: StageList
    pool: CallPool | None
    limits: Limits
    on_tool_error: OnToolError


class PipelineKeywords(StepKeywords, total=False):
    """The options of `pipeline`, explained there, that each step of a run may have."""

    start: StartPolicy
    transforms: Sequence[Transform]
    store: IdempotencyStore | None
    output: OutputType | None
    on_source_error: OnSourceError


def pipeline(
    stream: Any,
    *,
    tools: Iterable[AnyTool] | Toolset = (),
    wire: Wire | str | None = None,
    stages: StageList = DEFAULT,
    transforms: Sequence[Transform] = (),
    start: StartPolicy = "auto",
    approve: Approver | None = None,
    executor: Executor | Mapping[str, Executor] | None = None,
    store: IdempotencyStore | None = None,
    output: OutputType | None = None,
    pool: CallPool | None = None,
    limits: Limits = Limits(),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    on_source_error: OnSourceError = "cancel",
    on_tool_error: OnToolError = "continue",
    requested_at: float | None = None,
) -> Pipeline:
    """Wraps a stream that you hold: typed events come out, and the tools that the model calls are run.

        async with pipeline(stream, tools=[get_weather]) as events:
            async for event in events:
                ...
        messages += events.turn.messages()

    Args:
        stream: an SDK's stream, a response of an HTTP library, or an iterable, asynchronous or not, of bytes, text or
            payloads. It is read to its end and closed; a blocking one is read in a thread.
        tools: the tools that the model may call, or functions to make tools from.
        wire: the wire that the stream speaks, or its name; found from the stream's first payload by default.
        stages: the sans-IO steps; see `streamtools.stages.DEFAULT`.
        transforms: async generator functions that the events pass through after the stages.
        start: when calls start; by default as each tool's `effect` allows.
        approve: is called with each request for an approval, and returns True, False, a text (why not), or None, so
            that `Pipeline.approve` or `Pipeline.deny` decides; it may be async. Without it, all are left to those two.
        executor: where calls run instead of here: one executor for all tools, or a mapping of tools' names. You enter
            and leave it.
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
        requested_at: when the request was made, on ``time.monotonic``, for ``Limits(first_chunk_timeout=...)``.

    Raises:
        TypeError: `stream` cannot be streamed from; the message says what to pass.
        ValueError: `wire` or an option is not known.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    _check(stages, transforms, limits, trajectory, pool)
    if on_source_error not in get_args(OnSourceError):
        raise ValueError(f"unknown on_source_error {on_source_error!r}; known: cancel, drain")
    toolset = _toolset(tools)
    options = DispatchOptions(
        policy=start,
        approver=approve,
        on_tool_error=on_tool_error,
        executors=executors_of(executor, toolset),
        store=store,
    )
    options.check()
    run = Trajectory.of(trajectory, observers)
    return Pipeline(
        open_source(stream, limits),
        StreamDecoder(
            wire=wire, tools=toolset, stages=stages, output=output, limits=limits, id_salt=run.new_salt(), defer=True
        ),
        tools=toolset,
        transforms=tuple(transforms),
        options=options,
        pool=pool,
        limits=limits,
        trajectory=run,
        drain=on_source_error == "drain",
        requested_at=requested_at,
    )


def resume(
    suspended: Suspended,
    *,
    tools: Iterable[AnyTool] | Toolset,
    store: IdempotencyStore,
    decisions: Mapping[str, Verdict] | None = None,
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    **options: Unpack[StepKeywords],
) -> Pipeline:
    """Goes on with calls that waited for an approval, perhaps in another process.

        suspended = Suspended.from_json(text, key=SECRET)
        async with resume(suspended, tools=tools, store=store, decisions={"call_1": True}) as events:
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
        decisions: the decisions, by `call_id`: True, False, or a text (why not).
        observers: see `pipeline`.
        trajectory: the run to go on with, if it is at hand; by default one with the same id, at the same step.
        options: ``approve`` (asked about the calls that are not decided), ``executor``, ``stages``, ``pool``,
            ``limits`` and ``on_tool_error``, as for `pipeline`. Arguments that were within their own run's limits are
            accepted here.

    Raises:
        TypeError: `suspended` is no `Suspended`, a decision is no verdict, or there is no store.
        ValueError: a decision is about none of the calls, or an option is not known.
    """
    if not isinstance(suspended, Suspended):
        raise TypeError(f"resume takes a Suspended, say Suspended.from_json(text, key), not {type(suspended).__name__}")
    if store is None:
        raise TypeError("resume needs a store, say SqliteStore(path): it keeps calls from running twice")
    stages, limits, pool = options.get("stages", DEFAULT), options.get("limits", Limits()), options.get("pool")
    _check(stages, (), limits, trajectory, pool)
    toolset = _toolset(tools)
    dispatch = DispatchOptions(
        approver=_decided(suspended, decisions or {}, options.get("approve")),
        on_tool_error=options.get("on_tool_error", "continue"),
        executors=executors_of(options.get("executor"), toolset),
        store=store,
        resumed={call.call_id: call.idempotency_key for call in suspended.calls},
    )
    dispatch.check()
    if trajectory is None:
        trajectory, observers = Trajectory.resumed(suspended, observers=observers), None
    return Pipeline(
        open_source(calls_of(suspended), limits),
        SuspendedDecoder(suspended, toolset, stages, limits),
        tools=toolset,
        transforms=(),
        options=dispatch,
        pool=pool,
        limits=limits,
        trajectory=Trajectory.of(trajectory, observers),
        drain=False,
        suspended=suspended,
    )


def _decided(suspended: Suspended, decisions: Mapping[str, Verdict], approve: Approver | None) -> Approver | None:
    """Returns an approver that knows the decisions and asks `approve` for the rest."""
    known = {call.call_id for call in suspended.calls}
    for call_id, verdict in decisions.items():
        if call_id not in known:
            raise ValueError(f"decisions: no call {call_id!r} is suspended; there are {', '.join(sorted(known))}")
        decision(verdict)
    if not decisions:
        return approve

    def decide(request: ApprovalRequested) -> Any:
        verdict = decisions.get(request.call_id)
        return approve(request) if verdict is None and approve is not None else verdict

    return decide


def _toolset(tools: Iterable[AnyTool] | Toolset) -> Toolset:
    if isinstance(tools, Mapping) and not isinstance(tools, Toolset):
        raise TypeError("tools is a mapping; pass its values: tools=[...]")
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
    if bare := [name for name, tool in toolset.items() if tool is None]:
        raise TypeError(f"a bare name ({bare[0]!r}) cannot be run; pass the tool or the function itself")
    return toolset


def _check(stages: Any, transforms: Any, limits: Any, trajectory: Any, pool: Any) -> None:
    """Refuses an argument of a wrong type by its name: later the error would be some object's missing attribute."""
    if not isinstance(stages, StageList):
        raise TypeError(f"stages is a StageList made from streamtools.stages.DEFAULT, not {type(stages).__name__}")
    if callable(transforms):
        raise TypeError("transforms is a list of async generator functions, not a single one; write transforms=[...]")
    if not isinstance(limits, Limits):
        raise TypeError(f"limits is a streamtools.Limits(...), not {type(limits).__name__}")
    if trajectory is not None and not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory is a streamtools.Trajectory(), not {type(trajectory).__name__}")
    if pool is not None and not isinstance(pool, CallPool):
        raise TypeError(f"pool is a streamtools.dispatch.CallPool(), not {type(pool).__name__}")
