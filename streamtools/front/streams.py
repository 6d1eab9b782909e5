"""Makes a `Pipeline` around a stream; those that ask no model are made in `at_hand`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..decode.body import as_items
from ..decode.decoder import StreamDecoder, unsettled
from ..dispatch import Approver, CallPool, StartPolicy
from ..dispatch.executor import Executor
from ..dispatch.options import KnownCalls, OnToolError
from ..events import StepStart
from ..limits import Limits
from ..observers import Observer, StreamFacts
from ..pipelines.attempt import Reading
from ..pipelines.pump import Transform
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..sources import ModelRequest, answer_of, open_source
from ..sources.source import OfConnection
from ..stages import DEFAULT, StageList
from ..tools import AnyTools, Middleware, Toolset
from ..tools.options import AnyPolicy
from ..turn import Turn
from ..wires import Wire
from .capabilities import run_of
from .checked import CheckedOptions, OnQuotedCall, OnSourceError, Request, checked_options, with_rules
from .face import Pipeline
from .mistaken import explained

if TYPE_CHECKING:
    from ..durable.store import IdempotencyStore
    from ..privacy import Privacy
    from ..seams import Attempts
    from ..stages import OutputType


@explained("pipeline")
def pipeline(
    stream: Any,
    *,
    tools: AnyTools | Toolset | None = None,
    wire: Wire | str | None = None,
    stages: StageList = DEFAULT,
    transforms: Sequence[Transform] = (),
    start: StartPolicy | None = None,
    trials: bool = True,
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
    retry: Attempts | None = None,
    fallback: Sequence[Callable[[], Any]] = (),
    capabilities: Iterable[object] = (),
) -> Pipeline:
    """Wraps a stream that you hold: emits typed events, and runs the tools that the model calls.

        async with pipeline(stream, tools=[get_weather]) as events:
            async for event in events:
                ...
        messages += events.turn.messages()

    Args:
        stream: an SDK's stream, a response of an HTTP library, or an iterable, asynchronous or not, of bytes, text or
            payloads. It is read to its end and closed; a blocking one is read in a thread. Or a whole answer, as an
            SDK's object, a dict or bytes: it is read as a stream of one item. Or the request itself, an awaitable of
            one of these or a context manager that opens one: it is made when the block is entered, so that spans and
            ``first_chunk_timeout`` count from there.
        tools: the tools that the model may call, or functions to make tools from. Without it, calls are reported and
            left to you: see `start`, and the *results* of `Turn.messages`.
        wire: the wire of the stream, or its name; by default detected from the first payloads.
        stages: change the events before calls are made of them; see `streamtools.stages.DEFAULT`.
        transforms: async generator functions that the events pass through after the stages.
        start: when calls start; by default as each tool's `effect` allows, and never (``"off"``) if there is neither
            `tools=` nor `approve=`.
        trials: whether a ``pure`` async tool may begin once its call's arguments are complete, on wires where calls
            end only with the response. Its result counts only if the call then ends with the same arguments.
        context: any object for your tools, as `ToolContext.context`, such as a session or a user. The model neither
            sees nor sets it. Parameters that a framework fills (openai-agents' ``RunContextWrapper``, pydantic-ai's
            ``RunContext``, ...) get the context itself, if it has that type.
        approve: called with each request for an approval; returns True, False or ``Deny("why")``, or None to leave it
            to `Pipeline.approve` or `Pipeline.deny`; may be async. Without it, those two decide.
        policy: asks about calls, or denies them, by the origins of their arguments: ``untrusted("to")`` or
            ``only_from_user("to")`` from `streamtools.provenance`, for each tool with such an argument. It needs
            `request`, and so does a tool's own policy.
        executor: runs calls elsewhere: one executor for all tools, or a mapping by tool name. You enter and leave it.
        middleware: wraps every call; one or several, the first outermost: an ``async def middleware(call, run)`` that
            returns the call's value, as in ``return await run()``. See `streamtools.tools.Middleware`.
        store: remembers ``once`` calls and approved ones, so that none of them runs twice, even after a crash if the
            `trajectory` has the same ``run_id`` again.
        output: the type of the answer, where the request asked for JSON: a pydantic model, a dataclass, a TypedDict, or
            a JSON Schema. `Turn.output` is then the checked value, or None, and `Turn.output_problem` says why.
        pool: share one between pipelines to limit their calls together; by default each has its own.
        limits: every bound; see `Limits`.
        observers: get every event. If OpenTelemetry is configured, others that emit spans are added; to use only yours,
            pass ``trajectory=Trajectory(observers=[...], default_observers=False)``.
        trajectory: the run that this step belongs to. It has its own observers.
        on_source_error: whether running calls are cancelled or drained when the stream fails.
        on_tool_error: whether the other calls continue or are cancelled when one fails, times out or is lost.
        quoted_calls: what to do with a call in the model's text (`streamtools.stages.text_calls`, or a text mode) that
            also stands in a tool result, in an earlier step of the `trajectory` or in the messages of `request`.
            ``"refuse"``: its outcome is ``quoted_call``. ``"ask"``: it needs an approval. ``"run"``: results are not
            searched.
        requested_at: the time of the request on ``time.monotonic``, for spans and ``first_chunk_timeout``; not needed
            if you pass the request itself.
        request: the request's own fields, as they were sent: a dict with ``model``, ``messages`` and parameters. Spans
            show the model and the parameters, and the messages only where content is captured. A policy reads the
            messages and the system prompt. See `quoted_calls`, too.
        continues: the cut turn that this stream continues: request the rest with its ``resume_from``. The events begin
            with its content, each text in one delta; ``events.turn`` is the whole turn. A call that ended there keeps
            its result and is not run again; one that was cut or had to wait may run now.
        privacy: the policy for recordings, spans and all other copies, if the run is only this stream; otherwise the
            trajectory's applies.
        retry: when to retry if the request or its stream fails. `stream` is then a function that makes the request:
            ``pipeline(lambda: client.chat.completions.create(...), retry=Retry())``.
        fallback: other such functions, for the same wire, tried in order when the retries of the previous one are used
            up.
        capabilities: your own objects that take part in the run: each serves the seams of `streamtools.seams` whose
            methods it has. There may be several rules and filters, but only one of each other kind.

    Raises:
        TypeError: `stream` cannot be streamed from; the message says what to pass.
        ValueError: `wire` or an option is not known, or the turn cannot be continued.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    if request is not None and not isinstance(request, Mapping):
        raise TypeError(f"request must be a mapping of the request's fields, not {type(request).__name__}")
    checked = checked_options(
        tools,
        wire,
        trajectory=trajectory,
        retry=retry,
        stages=stages,
        transforms=transforms,
        start=start,
        trials=trials,
        context=context,
        approve=approve,
        policy=policy,
        executor=executor,
        middleware=middleware,
        store=store,
        output=output,
        pool=pool,
        limits=limits,
        on_source_error=on_source_error,
        on_tool_error=on_tool_error,
        quoted_calls=quoted_calls,
        capabilities=capabilities,
    )
    later = [one.name for one in checked.tools.values() if one is not None and one.background]
    if later and not checked.leaves_calls:
        raise TypeError(
            f"the tool {later[0]!r} has background=True, but one stream has no later request for its result; write "
            "agent_loop(...), or pass the tool with background=False"
        )
    if checked.attempts is not None or fallback:
        from ..durable.retry import check_attempts  # most streams are asked for once

        if continues is not None:
            raise ValueError("continues= and retry= exclude each other: each attempt would begin anew")
        check_attempts(checked.attempts, [stream], fallback, start=checked.dispatch.start, tools=checked.tools)
    run = run_of(trajectory, observers, checked.dispatch.seams, privacy)
    return step_of(
        checked, run, stream, fallback=fallback, requested_at=requested_at, request=request, continues=continues
    )


def step_of(
    checked: CheckedOptions,
    run: Trajectory,
    stream: Any,
    *,
    fallback: Sequence[Callable[[], Any]] = (),
    requested_at: float | None = None,
    request: Request = None,
    continues: Turn | None = None,
) -> Pipeline:
    toolset, limits = checked.tools, checked.limits
    options, seams = checked.dispatch, with_rules(checked, run, request=request)
    if seams is not options.seams:  # few steps have rules
        options = replace(options, seams=seams)
    asking = checked.attempts
    if asking is None and fallback:
        from ..durable.retry import Retry  # most streams are asked for once

        asking = Retry(attempts=1)
    if continues is not None:
        options = replace(options, known=KnownCalls(usage=continues.usage))

    def read(stream: Any) -> Reading:
        """Returns all that reads a stream: once, or once for each attempt."""
        salt = run.new_salt()
        decoder = StreamDecoder(
            wire=checked.wire,
            tools=toolset,
            stages=checked.decoding,
            limits=limits,
            id_salt=salt,
            defer=True,
            continues=continues,
        )
        begin = None if continues is None else partial(unsettled, continues, decoder.restored)
        facts = StreamFacts(
            wire=checked.wire.name if isinstance(checked.wire, Wire) else checked.wire,
            id_salt=salt,
            tools=tuple(toolset),
            is_plain=checked.is_plain and continues is None,
        )
        source = open_source(as_items(answer_of(stream), checked.wire), limits, _next_response)
        return Reading(source, decoder, options, facts, begin)

    tries = None
    if asking is not None:
        from ..durable.tries import PolicyTries  # as `Retry`

        tries = partial(PolicyTries, policy=asking, functions=(stream, *fallback), read=read, wire=checked.wire)
        stream = ModelRequest(stream, checked.wire)
    facts: Any = {"requested_at": requested_at, "request": request}  # which is made when it is read
    start = StepStart(run.run_id, dispatches=not checked.leaves_calls, **facts)
    return Pipeline(Runner(run, start, read(stream), checked.step, tries=tries))


def _next_response(connection: Any, limits: Limits) -> OfConnection:
    from ..realtime import NextResponse  # most streams are one response

    return NextResponse(connection, limits)
