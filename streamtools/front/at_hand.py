"""Makes a `Pipeline` that asks no model: from suspended calls, or from calls that you pass."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from ..dispatch import Decision, DispatchOptions
from ..dispatch.options import KnownCalls
from ..durable.desk import decides
from ..durable.store import IdempotencyStore
from ..durable.suspended import Suspended, SuspendedCall, no_decisions
from ..durable.suspended_steps import take_up
from ..events import StepStart
from ..limits import Limits
from ..observers import Observer
from ..pipelines.attempt import Reading, StepOptions
from ..pipelines.runner import Runner
from ..pipelines.trajectory import Trajectory
from ..sources import open_source
from ..tools import AnyTools, Tool, Toolset
from .capabilities import run_of
from .checked import CheckedOptions, StepKeywords, checked_options, with_rules
from .face import Pipeline
from .given_calls import AnyCall, CallsDecoder, GivenCall, as_given, one_item
from .mistaken import refuse_unknown

if TYPE_CHECKING:
    from ..durable.suspended import CallAnswer


def resume(
    suspended: Suspended,
    *,
    tools: AnyTools | Toolset,
    store: IdempotencyStore,
    decisions: Iterable[Decision] = (),
    answers: Iterable[CallAnswer] = (),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    **options: Unpack[StepKeywords],
) -> Pipeline:
    """Continues calls that waited for an approval or an answer, perhaps in another process.

        suspended = Suspended.from_text(text, key=SECRET)
        async with resume(suspended, tools=tools, store=store, decisions=decisions) as events:
            async for event in events:
                ...
        messages = with_results(messages, events.turn.observations, "openai.chat_completions")

    The calls are validated again, and each needs an approval, whatever its tool says now. Undecided calls stay
    suspended: see `Pipeline.suspended`. Do not append the turn to the history, which already has the calls:
    `streamtools.history.with_results` inserts their results.

    Args:
        suspended: the calls.
        tools: the tools that they call, as in the pipeline that they come from.
        store: keeps a call from running twice if this is resumed twice. A `SqliteStore` does so across processes.
        decisions: the decisions made so far, each about a call as it was shown; see `Decision`. They are recorded in
            the store when the block is entered, as by `Suspended.decide`, with its errors. Recorded decisions hold in
            any case: if a run died after a decision, resume it without any, and that decision applies.
        answers: for the calls that wait for one, each as it was shown; see `CallAnswer`. They are recorded in the same
            way, as by `Suspended.answer`.
        observers: see `pipeline`.
        trajectory: the run to continue, if you still have it. A new one becomes the run that the calls were suspended
            in, with its id and at its step, unless you gave it an id or have entered it.
        options: ``context``, ``approve`` (asked about the undecided calls), ``policy``, ``executor``,
            ``middleware``, ``stages``, ``pool``, ``limits``, ``on_tool_error``, ``privacy`` and ``capabilities``, as
            for `pipeline`. Arguments that were within their own run's limits are accepted here.

    Raises:
        DecisionError: a decision matches none of the calls, or the call has changed since it was shown. When the block
            is entered: `AlreadyDecided`; nothing has run then.
        AnswerError: the same for an answer.
        TypeError: `suspended` is not a `Suspended`, or a decision not a `Decision`; there is no store, or it cannot
            keep the decisions that you pass; or there is no such option.
        ValueError: two decisions are about one call, or an option has an unknown value.
    """
    check_suspended(suspended, store)
    decisions, answers = check_response(suspended, store, decisions, answers)
    checked = _checked(tools, trajectory, options, store=store)
    run = run_of(trajectory, observers, checked.dispatch.seams, options.get("privacy"))
    return resumed_step(checked, run, suspended, decisions, answers)


def check_suspended(suspended: Any, store: IdempotencyStore | None) -> None:
    """Raises a `TypeError` if these are no calls that can be resumed with this store."""
    if not isinstance(suspended, Suspended):
        raise TypeError(
            f"resume takes a Suspended, such as Suspended.from_text(text, key), not {type(suspended).__name__}"
        )
    if suspended.journal is not None:
        raise TypeError(
            f"resume: the calls are those of the run {suspended.run_id!r}, which has a journal; "
            "pass them to agent_loop(..., journal=..., suspended=...), so that it goes on there"
        )
    if store is None:
        raise TypeError("resume needs a store, such as SqliteStore(path), which keeps calls from running twice")


def check_response(
    suspended: Suspended, store: IdempotencyStore | None, decisions: Iterable[Decision], answers: Iterable[CallAnswer]
) -> tuple[tuple[Decision, ...], tuple[CallAnswer, ...]]:
    """Returns what was decided and answered; raises as `resume` does."""
    decisions, answers = suspended.checked(decisions), tuple(answers)
    suspended.checked_answers(answers)
    if (decisions or answers) and not decides(store):
        raise TypeError(no_decisions(store))
    return decisions, answers


def resumed_step(
    checked: CheckedOptions,
    run: Trajectory,
    suspended: Suspended,
    decisions: tuple[Decision, ...] = (),
    answers: tuple[CallAnswer, ...] = (),
) -> Pipeline:
    store = checked.store
    assert store is not None, "checked"
    take_up(run, suspended)
    run.spent.calls = max(run.spent.calls, suspended.calls_spent)
    run.spent.tokens = max(run.spent.tokens, suspended.tokens_spent)
    start = StepStart(
        run.run_id,
        asks_model=False,
        resumes=suspended.traceparent,
        proposed_by=suspended.proposed_by,
        continued=True,
    )
    calls = [_given(call) for call in suspended.calls]
    limits = _with_room(checked.limits, suspended.calls)
    return step_at_hand(
        checked,
        run,
        CallsDecoder(calls, checked.tools, checked.stages, limits, wire=suspended.wire),
        replace(checked.dispatch, known=KnownCalls(suspended={call.call_id: call.pending for call in suspended.calls})),
        start,
        suspended=suspended,
        before=partial(_put_on_record, suspended, decisions, answers, store) if decisions or answers else None,
    )


async def _put_on_record(
    suspended: Suspended, decisions: tuple[Decision, ...], answers: tuple[CallAnswer, ...], store: IdempotencyStore
) -> None:
    await suspended.decide(decisions, store)
    await suspended.answer(answers, store)


def run_calls(
    calls: Iterable[AnyCall],
    tools: AnyTools | Toolset,
    *,
    store: IdempotencyStore | None = None,
    identity: str | None = None,
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    **options: Unpack[StepKeywords],
) -> Pipeline:
    """Runs calls that exist already, as a pipeline would: validated, in order, within limits, one observation each.

    For a framework that reads the model's answer itself, for a script, or to test a tool. Await it, or enter it and
    iterate like any pipeline:

        turn = await run_calls([("call_1", "get_weather", {"city": "Rome"})], [get_weather])
        turn.observations[0].outcome, turn.observations[0].value

    A call never raises: bad arguments, timeouts and exceptions of tools are outcomes. `Observation.unwrap` returns the
    value, or raises. A value may be any Python object: `Observation.model_content` writes it as text when you first
    read it, and says so if it cannot be written.

    Args:
        calls: ``(id, name, arguments)``, where the arguments are an object or its JSON, and None as the id makes a new
            one; a `ToolCall` of a `Turn`; or a dict in the format of a provider, LangChain or Strands. A `ToolCall`
            that was cut or is invalid is not run, and keeps that outcome.
        tools: the tools that they may call, or functions to make tools from.
        store: remembers ``once`` calls and approved ones, by `identity` or the trajectory's run and step, and their
            ids; see `pipeline`. It keeps values as JSON.
        identity: names the answer that the calls come from. Use the same name whenever they are run again, and for no
            other answer: ``f"{thread}/{message_id}"``. Defaults to the run's id and step.
        observers: see `pipeline`.
        trajectory: the run of which they are a step. ``Limits(max_repeated_calls=...)`` counts calls only with one.
        options: ``context``, ``approve``, ``executor``, ``middleware``, ``stages``, ``pool``, ``limits``,
            ``on_tool_error``, ``privacy`` and ``capabilities``, as for `pipeline`; ``policy`` needs a `trajectory` that
            knows what the model has read, from an earlier step. Calls that wait for an approval are in
            `Pipeline.suspended`; values of calls that are resumed have to be JSON.

    Raises:
        TypeError: something is not a call, or there is no such option; or there is a store, but neither an identity nor
            a trajectory by which it can recognise the calls.
        ValueError: two calls have the same id, a call has no id by which a store can recognise it, or the provider runs
            a call itself.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    if store is not None and identity is None and trajectory is None:
        raise TypeError(
            "run_calls: a store knows no call again without a stable identity; write run_calls(..., store=store, "
            'identity="thread-1/message-7"), or trajectory=Trajectory(run_id="order-7")'
        )
    if identity is not None and (not isinstance(identity, str) or not identity):
        raise TypeError(f"identity is a text that is not empty, not {type(identity).__name__}")
    checked = _checked(tools, trajectory, options, store=store, identity=identity)
    given = as_given(calls, need_ids=store is not None)
    limits = checked.limits
    if len(given) > limits.max_tool_calls:
        limits = replace(limits, max_tool_calls=len(given))
    if trajectory is None:  # nothing says that the calls are of one run
        limits = replace(limits, max_repeated_calls=None)
    checked = replace(checked, step=replace(checked.step, limits=limits))
    run = run_of(trajectory, observers, checked.dispatch.seams, options.get("privacy"))
    return step_at_hand(
        checked,
        run,
        CallsDecoder(given, checked.tools, checked.stages, checked.limits),
        replace(checked.dispatch, known=KnownCalls(identity=identity, any_value=True)),
        StepStart(run.run_id, asks_model=False),
    )


async def run_one(tool: Tool[..., Any], arguments: dict[str, Any]) -> Any:
    turn = await run_calls([(None, tool.name, arguments)], [tool])
    return turn.observations[0].unwrap()


def _checked(
    tools: AnyTools | Toolset,
    trajectory: Trajectory | None,
    options: StepKeywords,
    *,
    store: IdempotencyStore | None,
    identity: str | None = None,
) -> CheckedOptions:
    """Returns the options of a step that asks no model; raises as `checked_options` does."""
    refuse_unknown("a step that asks no model", options, StepKeywords.__optional_keys__)
    without = ("steps", "attempts")
    return checked_options(tools, trajectory=trajectory, identity=identity, without=without, store=store, **options)


def step_at_hand(
    checked: CheckedOptions,
    run: Trajectory,
    decoder: CallsDecoder,
    options: DispatchOptions,
    start: StepStart,
    *,
    suspended: Suspended | None = None,
    before: Callable[[], Awaitable[None]] | None = None,
) -> Pipeline:
    seams = with_rules(checked, run, asks_model=False, is_known=suspended is not None)
    options = replace(options, start="auto", seams=seams)
    step = StepOptions(tools=checked.tools, limits=checked.limits, pool=checked.step.pool)
    reading = Reading(open_source(one_item(), checked.limits), decoder, options)
    runner = Runner(run, start, reading, step, before=before)
    runner.resumed = suspended
    return Pipeline(runner)


def _given(call: SuspendedCall) -> GivenCall:
    assert call.arguments_text is not None, "this is no ticket"
    return GivenCall(
        call_id=call.call_id,
        name=call.tool_name,
        text=call.arguments_text,
        index=call.index,
        kind=call.kind,
        namespace=call.namespace,
        awaits=call.awaits,
        caller=call.caller,
    )


def _with_room(limits: Limits, calls: tuple[SuspendedCall, ...]) -> Limits:
    sizes = [len(call.arguments_text or "") for call in calls]
    return replace(
        limits,
        max_tool_calls=max(limits.max_tool_calls, len(calls)),
        max_argument_bytes=max(limits.max_argument_bytes, *sizes, 0),
        max_total_argument_bytes=max(limits.max_total_argument_bytes, sum(sizes)),
        max_id_bytes=max(limits.max_id_bytes, *(len(call.call_id) for call in calls), 0),
        max_name_bytes=max(limits.max_name_bytes, *(len(call.tool_name) for call in calls), 0),
    )
