"""Makes a `Pipeline` around a stream; those that ask no model are made in `modelless`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, get_args

from ..decode.body import as_items
from ..decode.decoder import StreamDecoder
from ..dispatch import Approver, CallPool, DispatchOptions, StartPolicy
from ..dispatch.executor import Executor
from ..dispatch.options import (
    LEAVES_CALLS,
    OnToolError,
    check_context,
    check_operations,
    executors_of,
    has_policy,
    middleware_of,
)
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..sources import Source, answer_of, open_source
from ..stages import DEFAULT, StageList
from ..tools import AnyTools, Middleware, Toolset
from ..tools.options import AnyPolicy
from ..turn import Turn
from ..wires import Wire
from .block import Pipeline
from .pump import Transform
from .trajectory import KeptResults, Trajectory

if TYPE_CHECKING:
    from ..dispatch.store import IdempotencyStore
    from ..privacy import Privacy
    from ..stages import OutputType
    from .retry import Retry

__all__ = [
    "Pipeline",
    "PipelineKeywords",
    "StepKeywords",
    "Transform",
    "of_resume",
    "check_arguments",
    "pipeline",
    "reads_text",
    "toolset_of",
]

OnSourceError: TypeAlias = Literal["cancel", "drain"]
OnQuotedCall: TypeAlias = Literal["refuse", "ask", "run"]

_NO_TOOLS = Toolset()
_OF_TEXT = frozenset({"text_calls", "payloads"})  # the stages that read calls out of the text


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


class PipelineKeywords(StepKeywords, total=False):
    """The options of `pipeline`, explained there, that each step of a run may have."""

    start: StartPolicy | None
    transforms: Sequence[Transform]
    store: IdempotencyStore | None
    output: OutputType | None
    on_source_error: OnSourceError
    quoted_calls: OnQuotedCall


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
    policy: AnyPolicy | Sequence[AnyPolicy] | None = None,
    executor: Executor | Mapping[str, Executor] | None = None,
    middleware: Middleware | Sequence[Middleware] | None = None,
    store: IdempotencyStore | None = None,
    output: OutputType | None = None,
    pool: CallPool | None = None,
    limits: Limits = Limits(),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    on_source_error: OnSourceError = "cancel",
    on_tool_error: OnToolError = "continue",
    quoted_calls: OnQuotedCall = "refuse",
    requested_at: float | None = None,
    request: Mapping[str, Any] | None = None,
    continues: Turn | None = None,
    privacy: Privacy | None = None,
    retry: Retry | None = None,
    fallback: Sequence[Callable[[], Any]] = (),
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
        policy: asks about calls, or denies them, by the texts that their arguments come from: ``untrusted("to")`` or
            ``only_from_user("to")`` of `streamtools.provenance`, for each tool with such an argument. This and a
            tool's own need `request`.
        executor: where calls run instead of here: one executor for all tools, or a mapping of tools' names. You enter
            and leave it.
        middleware: called in the place of every call, one or several, the first outermost: an
            ``async def middleware(call, run)`` whose value is the call's, as in ``return await run()``. See
            `streamtools.tools.Middleware`.
        store: remembers ``once`` calls and approved ones, so that none of them runs twice. After a crash it knows them
            if the `trajectory` has the same ``run_id`` again.
        output: the type of the answer, where the request asked for JSON: a pydantic model, a dataclass, a TypedDict, or
            a JSON Schema. `Turn.output` is then the checked value, or None, and `Turn.output_problem` says why.
        pool: shared by pipelines whose calls are to be bounded together; by default each has its own.
        limits: bounds on everything.
        observers: see every event, beside those that draw spans if OpenTelemetry is configured; to have them alone,
            pass ``trajectory=Trajectory(observers=[...], default_observers=False)``.
        trajectory: the run that this is a step of. It brings its own observers.
        on_source_error: whether calls that run when the stream fails are cancelled, or drained.
        on_tool_error: whether the other calls go on or are cancelled when one fails, times out or is lost.
        quoted_calls: what becomes of a call that the model writes into its text (`streamtools.stages.text_calls`, or a
            text mode) and that stands in a tool's result, too, of an earlier step of the `trajectory` or among the
            messages of `request`. ``"refuse"``: its outcome is ``quoted_call``. ``"ask"``: it needs an approval.
            ``"run"``: nothing is looked for.
        requested_at: when the request was made, on ``time.monotonic``, for spans and ``first_chunk_timeout``; not
            needed where the request itself is given.
        request: the request's own fields, as they were sent: a dict with ``model``, ``messages`` and parameters. Spans
            show the model and the parameters, and the messages only where content is captured. A policy reads the
            messages and the system prompt. See `quoted_calls`, too.
        continues: a turn that was cut, and that this stream goes on with: request the rest by its ``resume_from``. The
            events begin with what it had said, each text in one delta; ``events.turn`` is the whole turn. A call that
            ended there keeps its result and is not run again; one that was cut or had to wait may run now.
        privacy: the policy for recordings, spans and all other copies, of a run that is this stream alone; otherwise
            it is the trajectory's.
        retry: how often the request is made again if it fails, or its stream. `stream` is then a function that makes
            it: ``pipeline(lambda: client.chat.completions.create(...), retry=Retry())``.
        fallback: other such functions, of the same wire, which are asked one after the other when the retries of the
            one before are used up.

    Raises:
        TypeError: `stream` cannot be streamed from; the message says what to pass.
        ValueError: `wire` or an option is not known, or the turn cannot be continued.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    check_arguments(stages, transforms, limits, trajectory, pool)
    if request is not None and not isinstance(request, Mapping):
        raise TypeError(f"request is a mapping of the request's fields, not {type(request).__name__}")
    if on_source_error not in get_args(OnSourceError):
        raise ValueError(f"unknown on_source_error {on_source_error!r}; known: cancel, drain")
    if quoted_calls not in get_args(OnQuotedCall):
        raise ValueError(f"unknown quoted_calls {quoted_calls!r}; known: refuse, ask, run")
    toolset = _NO_TOOLS if tools is None else toolset_of(tools)
    run = Trajectory.of(trajectory, observers, privacy)
    start = start or ("off" if tools is None and approve is None else "auto")
    origins = None
    if has_policy(policy, toolset) and start != "off":
        from ..dispatch.origins import origins_of  # few tools have a policy

        if request is None and (run.origins is None or run.origins.reads_requests):
            run.origins = None  # what was said since then is not known
        run.origins, origins = origins_of(policy, toolset, run.origins, limits, request=request, wire=wire)
        if origins is not None:
            origins.offloads = run.offloads
    options = DispatchOptions(
        policy=start,
        approver=approve,
        on_tool_error=on_tool_error,
        executors=executors_of(executor, toolset),
        middleware=middleware_of(middleware),
        context=context,
        store=store,
        origins=origins,
        offloads=run.offloads,
    )
    options.check()
    if options.policy != "off":
        check_context(context, toolset, options.executors)
    if options.policy not in LEAVES_CALLS:
        check_operations(toolset, options.store, run.conversation_id)
    retrying = None
    if retry is not None or fallback:
        from .retry import attempts_of  # as said where these are given

        if continues is not None:
            raise ValueError("continues= is about one stream; with retry=, it would begin anew with each attempt")
        asks = (stream, *fallback)
        retrying = attempts_of(retry, asks, wire, start=options.policy, tools=toolset)
        stream = retrying.request
        options = replace(options, carried=retrying.carried)

    def prepare(stream: Any) -> tuple[Source, StreamDecoder, DispatchOptions, StreamFacts]:
        """Returns all that reads a stream: once, or with ``retry=`` once for each attempt."""
        salt, chosen = run.new_salt(), options
        decoder = StreamDecoder(
            wire=wire,
            tools=toolset,
            stages=stages,
            output=output,
            limits=limits,
            id_salt=salt,
            defer=True,
            continues=continues,
        )
        if quoted_calls != "run" and options.policy not in LEAVES_CALLS and reads_text(stages):
            from .quoted_calls import QuotedCalls  # most models make their calls natively

            run.results = run.results or KeptResults()
            quotes = QuotedCalls(run.results, request, lambda: decoder.record, toolset, limits, quoted_calls == "ask")
            chosen = replace(chosen, quotes=quotes)
        if retrying is not None:
            chosen = replace(chosen, attempt=retrying.attempt)
        facts = StreamFacts(
            wire=wire.name if isinstance(wire, Wire) else wire,
            id_salt=salt,
            tools=tuple(toolset),
            is_plain=stages is DEFAULT and not transforms and continues is None,
        )
        return open_source(as_items(answer_of(stream), wire), limits), decoder, chosen, facts

    already = None
    if continues is not None:
        from ..decode.decoder import settled  # most streams begin a turn

        already = settled(continues)
        options = replace(options, counted_before=continues.usage)
    source, decoder, options, facts = prepare(stream)
    if retrying is not None:
        retrying.prepare = prepare
    return Pipeline(
        source,
        decoder,
        tools=toolset,
        transforms=tuple(transforms),
        options=options,
        pool=pool,
        limits=limits,
        trajectory=run,
        drain=on_source_error == "drain",
        requested_at=requested_at,
        request=request,
        settled=already,
        facts=facts,
        retrying=retrying,
    )


def reads_text(stages: StageList) -> bool:
    """Returns whether the stages read calls out of the model's text."""
    return stages is not DEFAULT and not _OF_TEXT.isdisjoint(stages)


def of_resume(options: PipelineKeywords) -> Any:
    """Returns those of a pipeline's options that a resumed step has, too, and the store."""
    wanted = {*StepKeywords.__optional_keys__, "store"}
    return {name: value for name, value in options.items() if name in wanted}


def toolset_of(tools: AnyTools | Toolset) -> Toolset:
    """Returns the tools that may be called; refuses bare names, and a mapping."""
    toolset = tools if isinstance(tools, Toolset) else Toolset(tools)
    for name, tool in toolset.items():
        if tool is None:
            raise TypeError(f"a bare name ({name!r}) cannot be run; pass the tool or the function itself")
    return toolset


def check_arguments(stages: Any, transforms: Any, limits: Any, trajectory: Any, pool: Any) -> None:
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
