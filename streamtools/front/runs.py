"""Makes an `AgentLoop`: checks all options before anything runs."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from ..dispatch.options import LEAVES_CALLS
from ..events import Observation
from ..ground.text import type_name
from ..limits import checked_bound
from ..pipelines.agent_loop import CallModel, Loop
from ..pipelines.messages import Conversation, RunHistory
from ..pipelines.trajectory import Trajectory
from ..stages import DEFAULT
from ..tools import AnyTool, AnyTools, Exported, Tool
from ..tools.callables import accepts
from ..tools.toolset import checked_list
from ..turn import Turn
from ..wires import Wire, find
from .capabilities import attempts_of, gate_of, guard_of, seams_of
from .carrying import Carrying, takes_carry
from .checked import CheckedOptions, PipelineKeywords, checked_options, know
from .mistaken import needs_wire, refuse_unknown
from .run_face import AgentLoop
from .steps import ModelSteps, PipelineMaker

if TYPE_CHECKING:
    from ..dispatch import Decision, Suspended
    from ..durable.journal import Journal
    from ..durable.record_store import RecordStore
    from ..durable.suspended import CallAnswer
    from ..exports import Exports
    from ..policy.offloads import Offloading
    from ..seams import Attempts, Guard, StepSource
    from ..text_calls.modes import StreamingAdapter
    from .changing import ToolsOfRun


@needs_wire
def agent_loop(
    call_model: CallModel,
    messages: Sequence[Any],
    *,
    tools: AnyTools | Exports | ToolsOfRun = (),
    wire: Wire | str,
    mode: StreamingAdapter | None = None,
    max_steps: int = 16,
    stop: Callable[[Turn], bool] | None = None,
    strict: bool | Literal["where_possible"] = False,
    trajectory: Trajectory | None = None,
    drafts: bool = False,
    retry: Attempts | None = None,
    fallback: Sequence[CallModel] = (),
    offload_above: int | Offloading | None = None,
    wait_for_background: Literal["all"] | float | None = "all",
    name: str | None = None,
    conversation_id: str | None = None,
    run_id: str | None = None,
    journal: str | os.PathLike[str] | RecordStore | Journal | None = None,
    skip_replayed: bool = False,
    suspended: Suspended | None = None,
    decisions: Iterable[Decision] = (),
    answers: Iterable[CallAnswer] = (),
    carry: Mapping[str, Any] | None = None,
    **options: Unpack[PipelineKeywords],
) -> AgentLoop:
    """Asks a model until it gives an answer, and runs the tool calls that it makes on the way.

    Args:
        call_model: makes each step's request; see `CallModel`. ``async for`` raises its exceptions unchanged.
        messages: the history to begin with, in the wire's own format. It is not changed: see `AgentLoop.messages`.
        tools: the tools that the model may call; they are exported for `wire` once, and changed names and arguments are
            translated back. Ready exports are used unchanged. Or pass a function, ``def tools(run): ...``, plain or
            async, that returns the tools for each step; see docs/guide/tools.md.
        wire: the wire of the requests and the streams, or its name.
        mode: an adapter from `streamtools.modes`, for a model without tool calling: requests and history are in its
            format, and a turn with nothing but reasoning does not end the run. `stages` defaults to the adapter's.
        max_steps: the maximum number of steps; each asks the model once.
        stop: called with each turn that is not the answer, including its results. Return True to end the run before
            the model is asked again.
        strict: export the tools in their strict form.
        trajectory: the run that the steps belong to, with its observers; by default a new one.
        drafts: keep broken-off answers in `AgentLoop.messages`, for example when a person stopped the model; see
            `Turn.is_draft`. `lint` knows which models accept such a history.
        offload_above: the maximum characters of a result that the model reads at once. The run keeps longer results:
            the model reads the beginning, and the rest with an added tool, ``read_result``. `Offloading` has more
            settings.
        wait_for_background: how long the run waits for calls of ``background=True`` tools before it ends or rests:
            for all of them, for a number of seconds, or not at all (None). The model reads each result that comes in
            time, and is asked again. The other calls are cancelled when the block is left; see `AgentLoop.unread`.
        retry: when to retry a step whose request fails or whose stream breaks off. By default only before any output;
            ``Retry(after_output=True)`` is for readers that handle `AttemptDiscarded`.
        fallback: other functions like `call_model`, for the same wire, tried in order when the retries of the previous
            one are used up.
        name, conversation_id, run_id: for the new run, without `trajectory`; see `Trajectory`.
        journal: a file that keeps the run, so that after a crash the same line with the same `run_id` continues it:
            recorded responses are not requested again, and calls are kept in the same file, unless there is a
            ``store=``. If nobody knows how a call ended, the run is suspended; see `AgentLoop.unsettled`.
        skip_replayed: omit the events of recorded steps, which are otherwise marked by `StepStart.replayed`.
        suspended: calls in `messages` that another run left waiting: they are decided and run first. This needs a
            ``store=``; see `resume`. With a journal, pass this run's own suspended state, and all else as before.
        decisions: decisions about these calls; see `resume`, or `Journal.decide`.
        answers: answers to these calls; see `resume`.
        carry: fields of the first request besides the messages: `AgentLoop.carry` of an earlier run, or `Turn.carry`.
            ``{"previous_response_id": None}`` starts a chain (``previous_interaction_id`` likewise): each request names
            the previous answer, and `call_model` gets only the messages after it.
        options: for each step's `pipeline`: ``limits``, ``start``, ``trials``, ``context``, ``approve``, ``policy``,
            ``executor``, ``middleware``, ``store``, ``stages``, ``transforms``, ``pool``, ``on_tool_error``,
            ``on_source_error``, ``capabilities``; and ``privacy``, of the new run.

    Raises:
        ExportError: the wire is unknown, or cannot carry a tool, or the messages are from another wire.
        TypeError: an option is unknown, belongs to the run itself, or has a value that `pipeline` does not accept. With
            a journal: there is no `run_id`, or `suspended` is from a run without one. Tools that were exported
            already, with `offload_above`.
        DecisionError: a decision matches no suspended call, or the call has changed since it was shown.
        ValueError: `max_steps` is less than 1, or an option has an unknown value.
    """
    checked_bound("max_steps", max_steps)
    decisions = tuple(decisions)  # they are read twice
    known = {*PipelineKeywords.__optional_keys__, *(inspect.unwrap(agent_loop).__kwdefaults__ or ())}
    _check(call_model, messages, wire, stop=stop, trajectory=trajectory, options=options, known=known)
    _check_suspended(suspended, decisions, has_journal=journal is not None, has_store=options.get("store") is not None)
    if carry and not (isinstance(carry, Mapping) and mode is None and takes_carry(call_model)):
        raise TypeError("carry must be a mapping, and needs async def ask(messages, tools, carry): ... without mode=")
    seams = seams_of(options.pop("capabilities", ()), gate_of(options.get("store")))
    guard = guard_of(seams, options.pop("privacy", None))
    policy, source = attempts_of(seams, retry), seams.steps
    seams = replace(seams, guard=None, attempts=None, steps=None)  # the run has them
    listed: Any = tools
    background, offloads, elsewhere = None, None, options.get("executor")
    if _is_function_of_run(tools):
        listed, options = (), {**options, "executor": None}
    listed = listed if isinstance(listed, Sequence) else list(checked_list(listed))
    if any(getattr(getattr(one, "tool", one), "background", False) is True for one in listed):
        from .background import background_of  # few tools go on in the background

        background, listed, changed = background_of(listed, options, wait_for_background)
        options = changed  # type: ignore[assignment]  # the same words
    if offload_above is not None:
        from ..policy.offloads import offloads_of  # most runs keep no results

        offloads, listed, changed = offloads_of(offload_above, listed, options)
        options = changed  # type: ignore[assignment]  # the same words
    export, conversation = _conversation(listed, wire, mode, strict=strict)
    conversation.request(list(messages))  # fails now, if at all, and not when calls have run; so do the next three
    if mode is not None:
        options = {"stages": mode.stages(), **options}
    ticket = None
    if journal is not None and suspended is not None:
        ticket, run_id = (suspended, decisions, tuple(answers)), _id_of(suspended, run_id, trajectory)
        suspended, decisions, answers = None, (), ()
    run = _run(trajectory, suspended, name, conversation_id, run_id, guard)
    sources: list[StepSource] = []
    journaled = None
    if journal is not None:
        from ..durable.journal import journal_of  # most runs have none
        from ..durable.journal_steps import JournalSteps

        journaled = JournalSteps(
            journal_of(journal),
            run,
            wire=wire,
            messages=messages,
            gate=seams.gate,
            starts_by_hand=options.get("start") == "manual",
            ticket=ticket,
            skip_replayed=skip_replayed,
        )
        sources.append(journaled)
        if options.get("store") is None:
            options["store"] = journaled.place.journal.store
        if seams.desk is not None:
            raise TypeError(f"a run has one Desk; pass either journal= or {type_name(seams.desk)}")
        seams = replace(seams, gate=journaled.gate, desk=journaled.desk)
    if offloads is not None:
        offloads.begin(run.run_id)
        run.kept[type(offloads)] = offloads
        seams = replace(seams, filters=(offloads, *seams.filters))
    if background is not None:
        at_gate = (None, seams.gate) if journaled is None else (journaled.gate.ready, journaled.gate.beside())
        seams = replace(seams, gate=background.gate(seams.gate, *at_gate))
    checked = checked_options(conversation.tools, wire, trajectory=run, retry=policy, seams=seams, **options)
    _check_made(checked, fallback)
    changing = None
    is_list = not callable(tools)
    if not is_list or any(one is not None and one.wants_context for one in checked.tools.values()):
        from .changing import ChangingTools  # most runs keep the tools that they begin with

        own = tuple(one.tool for one in (offloads, background) if one is not None)
        changing = ChangingTools(tools, own, export, suspended)
        sources.insert(0, changing)
        seams, served = (replace(one, services=(changing.serve,)) for one in (seams, checked.dispatch.seams))
        checked = replace(checked, dispatch=replace(checked.dispatch, seams=served))  # it has a desk
    if is_list:  # else they are not known yet
        know(run, messages, checked, wire)
    if background is not None:
        background.begin_with(run, find(wire), checked)
    if suspended is not None:
        from .at_hand import check_response  # most runs begin with the model

        conversation.with_results(list(messages), suspended.placeholders())
        decisions, answers = check_response(suspended, checked.store, decisions, answers)
        from ..durable.suspended_steps import SuspendedSteps  # likewise

        assert checked.store is not None, "checked"
        sources.append(SuspendedSteps(suspended, decisions, answers, checked.store))
    if source is not None:
        sources.append(source)
    if background is not None:
        sources.append(background)
    history = RunHistory(messages, conversation, wire, drafts=drafts)
    carrying = Carrying((suspended and suspended.carry) or carry or {}, history, (call_model, *fallback))
    sources.append(ModelSteps(run, checked.limits, options.get("pool"), max_steps + (suspended is not None), carrying))
    maker = PipelineMaker((call_model, *fallback), checked, run, carrying, has_mode=mode is not None)
    loop = Loop(
        history,
        sources=sources,
        maker=maker,
        stop=stop,
        trajectory=run,
        suspended=suspended,
    )
    made = AgentLoop(loop, carrying, () if changing is None else changing.added)
    if changing is not None:

        def check(tools: Sequence[AnyTool]) -> CheckedOptions:
            words: Any = {**options, "executor": changing.placed(elsewhere, options.get("executor"), tools)}
            checked = checked_options(tools, wire, trajectory=run, retry=policy, seams=seams, **words)
            _check_made(checked, fallback)
            return checked

        changing.join(made, history, conversation, maker, carrying, check)
    return made


def _check_suspended(
    suspended: Suspended | None, decisions: Sequence[Decision], *, has_journal: bool, has_store: bool
) -> None:
    if suspended is not None and not has_journal and suspended.journal is not None:
        raise TypeError(f"the calls wait in the journal of the run {suspended.run_id!r}; pass journal=, too")
    if suspended is not None and not has_journal and not has_store:
        raise TypeError("pass store= to resume suspended calls: it keeps them from running twice")
    if suspended is None and decisions:
        raise ValueError("decisions are about suspended calls; pass suspended=, too")


def _check_made(checked: CheckedOptions, fallback: Any) -> None:
    """Raises what the first step would raise when it is made."""
    if checked.decoding is not DEFAULT:
        checked.decoding.build(checked.tools, checked.limits)
    if checked.attempts is not None or fallback:
        from ..durable.retry import check_attempts  # as said there

        check_attempts(checked.attempts, (), fallback, start=checked.dispatch.start, tools=checked.tools)


def _conversation(
    tools: AnyTools | Exports,
    wire: Wire | str,
    mode: StreamingAdapter | None,
    *,
    strict: bool | Literal["where_possible"],
) -> tuple[Callable[[Iterable[AnyTool]], Sequence[AnyTool]], Conversation]:
    """Returns what exports tools, too."""
    from ..exports import Exports, export_all  # a program that only imports pays for no schemas

    if mode is None:
        export = partial(export_all, wire=wire, strict=strict)
        exports = tools if isinstance(tools, Exports) else export(checked_list(tools))
        return export, _WireConversation(exports, wire)
    from ..text_calls.conversation import ModeConversation, checked  # most models call natively

    mode = checked(mode, wire)
    if strict is not False:
        raise TypeError("strict= applies to the export to a wire; with mode=, set it on the adapter")
    return list, ModeConversation(tools if isinstance(tools, Exports) else list(tools), mode)


class _WireConversation:
    def __init__(self, exports: Exports, wire: Wire | str) -> None:
        self.tools = exports
        self.payloads: list[Any] | None = None  # of the request's list, if messages behind it have changed them
        self._wire = wire

    def request(self, messages: list[Any]) -> tuple[list[Any], Any]:
        return messages, self.tools.payloads if self.payloads is None else [*self.payloads]

    def messages(self, turn: Turn) -> list[Any]:
        return turn.messages(self._wire)

    def with_results(self, messages: list[Any], results: Iterable[Observation]) -> list[Any]:
        from ..history import with_results  # few runs go on with calls that waited

        return with_results(messages, results, self._wire)

    def only_thinks(self, turn: Turn) -> bool:
        return False


def _run(
    given: Trajectory | None,
    suspended: Suspended | None,
    name: str | None,
    conversation_id: str | None,
    run_id: str | None,
    guard: Guard | None,
) -> Trajectory:
    run = given or Trajectory(name=name, conversation_id=conversation_id, run_id=run_id, privacy=guard)
    if given is not None and any(one is not None for one in (name, conversation_id, run_id, guard)):
        raise TypeError("pass name, conversation_id, run_id and privacy to the Trajectory instead")
    if suspended is not None:
        from ..durable.suspended_steps import take_up  # most runs begin with the model

        if run_id not in (None, suspended.run_id):
            raise ValueError("the calls were suspended in another run than run_id; leave run_id out")
        take_up(run, suspended)
    return run


def _is_function_of_run(tools: Any) -> bool:
    if not callable(tools) or isinstance(tools, (Tool, Exported, Iterable)):
        return False
    try:
        if [*inspect.signature(tools).parameters] == ["run"]:
            return True
    except (TypeError, ValueError):  # some of Python's own
        pass
    raise TypeError("tools: expected a list of tools; write tools=[...], or def tools(run): ... for those of each step")


def _id_of(ticket: Suspended, run_id: str | None, trajectory: Trajectory | None) -> str | None:
    if ticket.journal is None:
        raise TypeError("the calls are those of a run without a journal: leave journal= out, and pass store=")
    if ticket.run_id != (run_id or (ticket.run_id if trajectory is None else trajectory.run_id)):
        raise ValueError("the calls were suspended in another run than run_id; leave run_id out")
    return ticket.run_id if trajectory is None else run_id


_ASK = "async def ask(messages, tools): ..."


def _check(
    call_model: Any,
    messages: Any,
    wire: Wire | str,
    *,
    stop: Any,
    trajectory: Any,
    options: Mapping[str, Any],
    known: Collection[str],
) -> None:
    """Raises a `TypeError`, a `ValueError`, or an `ExportError` for messages of another wire."""
    if not callable(call_model):
        given = type(call_model).__name__
        raise TypeError(f"call_model must be a function that makes the request, as in {_ASK}; got {given}")
    if not accepts(partial(call_model, carry={}) if takes_carry(call_model) else call_model, 2):
        own = getattr(call_model, "__name__", "ask")
        raise TypeError(f"your function {own} must take two arguments, messages and tools, and may take carry: {_ASK}")
    if stop is not None and not callable(stop):
        raise TypeError(f"stop must be a function of a turn, not {type(stop).__name__}")
    if trajectory is not None and not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory must be a streamtools.Trajectory(), not {type(trajectory).__name__}")
    refuse_unknown("agent_loop", options, known)
    if (start := options.get("start")) in LEAVES_CALLS:
        text = f"agent_loop runs the calls, but start={start!r} leaves them to you; use pipeline in your own loop"
        raise ValueError(text)
    _check_messages(messages, wire)


def _check_messages(messages: Any, wire: Wire | str) -> None:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"messages must be a list of messages, not {type(messages).__name__}; write messages=[...], each in the "
            "provider's form"
        )
    if not all(isinstance(message, Mapping) for message in messages):
        return  # objects of other libraries are their own business
    try:
        spoken = find(wire)
    except ValueError:  # the export of the tools refuses it, and knows more names
        return
    last = list(messages[-1:])  # most histories are those of the wire, to their end
    if not messages or any(not entry.is_empty for some in (last, list(messages)) for entry in spoken.entries(some)):
        return
    from ..history.calls import Messages, refuse_another_wires  # most messages are those of the wire

    refuse_another_wires(Messages(messages, spoken))
