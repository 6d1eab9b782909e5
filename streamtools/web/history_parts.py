"""Shows finished answers to clients: in the messages that a run has added to its history, out their pieces, in order.

    parts = assistant_parts(run.messages[len(before):], "anthropic.messages", events=kept)

`finished_messages` writes them as each client keeps them.

A history does not hold all that a stream shows: which calls were denied, by which request; the value of a result beside
its text; ids that a wire has no place for. `events` brings these, where the program has kept them: `Observation`,
`ApprovalRequested` and `ApprovalResolved`, as copies have them. Without them a result is read as JSON where it is an
object, a list, null, true or false (a number stays text, since JavaScript rounds long ones), and one that begins with
``Error:`` is an error. A `ProviderItem` brings sources that no history has (Chat Completions, Gemini). With the
`TextDelta` events of its last step, an answer that was stopped ends with what it had said: no history has that. What a
wire does not take back is not here either (reasoning of a Realtime session), and Cohere's text beside calls is a plan,
which is reasoning. Signatures and other state of providers are never shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import orjson

from ..content import Media
from ..errors import ApprovalPending
from ..events import (
    AnswerRequested,
    ApprovalRequested,
    ApprovalResolved,
    AttemptDiscarded,
    Event,
    MessageAdded,
    Observation,
    ProviderItem,
    StepStart,
    TextDelta,
)
from ..history.calls import Exchange, Messages, pair, wire_named
from ..parts import Outcome, ToolCall
from ..privacy import Redact
from ..wires import Wire
from ..wires.cited import CitedSource, cited_sources, distinct, made_files
from ..wires.transcript import CallResult, id_as_read
from .approval_ids import approval_id
from .encoding import plain
from .texts import texts_of

__all__ = [
    "AddedMessage",
    "AskedQuestion",
    "AssistantCall",
    "AssistantFile",
    "AssistantPart",
    "AssistantSource",
    "AssistantStep",
    "AssistantText",
    "ShownApproval",
    "assistant_parts",
]


@dataclass(frozen=True, slots=True)
class AssistantStep:
    """A step begins."""

    step: int


@dataclass(frozen=True, slots=True)
class AssistantText:
    """A piece of text or reasoning."""

    text: str = field(repr=False)
    kind: Literal["text", "reasoning"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownApproval:
    """A request to approve a call, and its answer, if there was one."""

    id: str
    approved: bool | None = None
    reason: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantCall:
    """A call, with its end as far as it is known."""

    name: str
    call_id: str
    """Unique among the parts: of an id that stands there before, the step's number is behind it."""
    arguments: Any = field(repr=False)
    """JSON; of a freeform tool, and where the model wrote no object, the text."""
    is_over: bool
    """False if the call waits for somebody, or the provider runs it and keeps its result to itself."""
    result: Any = field(default=None, repr=False)
    error: str | None = field(default=None, repr=False)
    """Why there is no result, in the words that the model has read."""
    outcome: Outcome | None = None
    """None if only the words of the history are known."""
    by_provider: bool = False
    """The provider has run it."""
    approval: ShownApproval | None = None


@dataclass(frozen=True, slots=True)
class AddedMessage:
    """A message of the user's that was added to the run."""

    id: str
    texts: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedQuestion:
    """A question of a call that ran."""

    id: str
    """The id under which it is answered."""
    call_id: str
    question: Any = field(repr=False)
    """JSON."""


@dataclass(frozen=True, slots=True)
class AssistantSource:
    """A source that a text or a search of the provider's names, at its first place."""

    id: str
    source: CitedSource = field(repr=False)


@dataclass(frozen=True, slots=True)
class AssistantFile:
    """A file that the model has made."""

    file: Media = field(repr=False)


AssistantPart: TypeAlias = (
    AssistantStep | AssistantText | AssistantSource | AssistantFile | AssistantCall | AddedMessage | AskedQuestion
)


def assistant_parts(
    messages: Sequence[Any],
    wire: Wire | str,
    *,
    events: Iterable[object] = (),
    redact: Redact | None = None,
    tool_names: Iterable[str] = (),
) -> tuple[AssistantPart, ...]:
    """Returns the answer of one run, piece by piece. Costs time linear in the messages.

    Args:
        messages: those that the run has added, in the wire's own shape. The user's are left out.
        wire: their wire, or its name.
        events: of the run, with their steps, or what its log has; see above. All others are ignored.
        redact: that of the run's `Privacy`, which the stream obeys as well. `events` are copies, which it has made.
        tool_names: the registered tools, whose names stay as they are; those in `events` stay, too.

    Raises:
        ExportError: there is no such wire.
    """
    reader = wire_named(wire)
    paired = pair(Messages(messages, reader).entries, reader.rules).steps
    steps, names = _steps(events), frozenset(tool_names)
    writing = _Writing(hiding(redact, names), names)
    exchanges = [one for one in paired if isinstance(one, Exchange)]
    numbered = zip(_numbers(exchanges, steps), exchanges, strict=True)
    parts = [part for step, one in numbered for part in writing.parts(step, one, steps.get(step) or _Kept())]
    return (*parts, *_broken_off(steps, parts))


# -- what events say beside a history ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Ending:
    """What is known of one call."""

    call_id: str
    index: int
    tool_name: str
    seen: Observation | None = None
    """None while it waits."""
    asked: ApprovalRequested | None = None
    resolved: ApprovalResolved | None = None


@dataclass(slots=True)
class _Kept:
    """What is known of one step."""

    calls: dict[str, _Ending] = field(default_factory=dict)
    added: dict[str, AddedMessage] = field(default_factory=dict)
    questions: list[AnswerRequested] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sources: list[CitedSource] = field(default_factory=list)
    run_id: str | None = None

    def add(self, event: Event) -> None:
        match event:
            case StepStart():
                self.run_id = event.run_id
            case MessageAdded():
                self.added[event.message_id] = AddedMessage(event.message_id, tuple(texts_of(event.messages)))
            case TextDelta():
                self.texts.append(event.text)
            case ProviderItem():
                self.sources += cited_sources(event.raw)
            case ApprovalResolved():
                if event.call_id in self.calls:
                    self.calls[event.call_id].resolved = event
            case ApprovalRequested() | AnswerRequested() | Observation():
                self._add(event)

    def _add(self, event: ApprovalRequested | AnswerRequested | Observation) -> None:
        ending = self.calls.setdefault(event.call_id, _Ending(event.call_id, event.index, event.tool_name))
        if isinstance(event, Observation):
            ending.seen = event
        elif isinstance(event, ApprovalRequested):
            ending.asked = event
        elif event.question is not None:
            self.questions.append(event)

    def endings(self, calls: Sequence[ToolCall]) -> dict[str, _Ending]:
        """Returns what is known of the calls by their ids in the history: the wire may have given them other ones."""
        by_place = sorted(self.calls.values(), key=lambda ending: ending.index)
        in_order: Sequence[_Ending | None] = by_place if len(by_place) == len(calls) else [None] * len(calls)
        found = {}
        for call, same_place in zip(calls, in_order, strict=True):
            ending = self.calls.get(id_as_read(call.call_id)) or same_place
            if ending is not None and ending.tool_name == call.name:
                found[call.call_id] = ending
        return found

    def shown_id(self, event: ApprovalRequested | AnswerRequested) -> str | None:
        """Returns the id of a request as the client has it; None if the run is not known."""
        return self.run_id and approval_id(self.run_id, event.step, event.call_id, event.fingerprint)

    def approval(self, ending: _Ending) -> ShownApproval | None:
        """Returns the request for approval as the client has it."""
        shown = None if ending.asked is None else self.shown_id(ending.asked)
        if shown is None or ending.resolved is None:
            return None if shown is None else ShownApproval(id=shown)
        return ShownApproval(id=shown, approved=ending.resolved.approved, reason=ending.resolved.reason)


_USED = (StepStart, MessageAdded, ApprovalRequested, ApprovalResolved, AnswerRequested, Observation)


def is_used(event: object) -> bool:
    """Returns whether a history is read with this event of a log."""
    named = isinstance(event, ProviderItem) and "citations" in event.raw
    return named or isinstance(event, (*_USED, AttemptDiscarded))


def _steps(events: Iterable[object]) -> dict[int, _Kept]:
    """Returns what events say of each step, without what an attempt has taken back."""
    used: defaultdict[int, list[Event]] = defaultdict(list)
    for event in events:
        if isinstance(event, AttemptDiscarded):
            for step in [step for step in used if step >= event.step]:  # a crash takes back later steps, too
                used[step] = [one for one in used[step] if one.seq < event.from_seq]
        elif isinstance(event, (*_USED, TextDelta, ProviderItem)):
            used[event.step].append(event)
    found: dict[int, _Kept] = {}
    for step, of_step in used.items():
        if of_step:
            found[step] = _Kept()
        for event in of_step:
            found[step].add(event)
    return found


def _numbers(exchanges: Sequence[Exchange], steps: Mapping[int, _Kept]) -> Iterator[int]:
    """Yields the step of each exchange: a step in which the model said nothing is not in the history."""
    in_order = sorted(step for step, kept in steps.items() if kept.calls)
    if len(in_order) != sum(bool(one.calls) for one in exchanges):
        yield from range(len(exchanges))
        return
    step, with_calls = -1, iter(in_order)
    for one in exchanges:
        step = next(with_calls) if one.calls else step + 1
        yield step


def _broken_off(steps: Mapping[int, _Kept], parts: Sequence[AssistantPart]) -> Iterator[AssistantPart]:
    """Yields the text of the last step if its response did not end, so that the history does not have it."""
    step = max(steps, default=-1)
    text = "".join(steps[step].texts) if steps else ""
    begin = next((at for at, part in enumerate(parts) if part == AssistantStep(step)), len(parts))
    known = "".join(part.text for part in parts[begin:] if isinstance(part, AssistantText) and part.kind == "text")
    if text and text != known:
        yield AssistantStep(step)
        yield AssistantText(text, "text")


# -- parts ------------------------------------------------------------------------------------------------------------


def hiding(redact: Redact | None, tool_names: frozenset[str]) -> Callable[[Any], Any]:
    """Returns what makes copies of values, as those of events are made."""
    if redact is None:
        return lambda value: value
    from ..privacy.values import Values  # only a run with a policy needs it

    return Values(redact, _Run(tool_names)).of


class _Run:
    """A run, for its policy."""

    def __init__(self, tool_names: frozenset[str]) -> None:
        self.tool_names = tool_names
        self.made_up: dict[str, str] = {}


class _Writing:
    """Writes the parts of each step."""

    def __init__(self, hide: Callable[[Any], Any], tool_names: frozenset[str]) -> None:
        self._hide = hide
        self._tool_names = tool_names
        self._ids: set[str] = set()
        self._sources: set[tuple[str | None, ...]] = set()
        self._count = 0  # of the step's sources

    def parts(self, step: int, exchange: Exchange, kept: _Kept) -> Iterator[AssistantPart]:
        answer, endings = exchange.reply.answer, kept.endings(exchange.calls)
        ids: dict[str, str] = {}
        self._count = 0
        yield AssistantStep(step)
        yield from kept.added.values()
        for number, part in enumerate(answer.parts):
            if part.kind == "call" and part.call_id is not None:
                ending, given = endings.get(part.call_id), exchange.given.get(part.call_id)
                own = ending.call_id if ending else id_as_read(part.call_id)
                ids[own] = self._unique(own, step, number)
                call = self._call(answer.calls[part.call_id], given.result if given else None)
                if ending is not None:  # of a copy, whose name is shown
                    call = replace(_ended(call, ending, kept), name=ending.tool_name)
                yield replace(call, call_id=ids[own])
            elif part.text and part.kind != "provider":
                yield AssistantText(self._hide(part.text), "reasoning" if part.kind == "reasoning" else "text")
            state = answer.calls[part.call_id].provider_state if part.call_id is not None else part.provider_state
            if files := [*made_files(state)]:
                if self._hide(files) == files:  # the policy has looked at their bytes, and lets them leave
                    yield from map(AssistantFile, files)
            elif part.kind in ("text", "provider"):
                yield from self._named(step, cited_sources(self._hide(state)))
        yield from self._named(step, kept.sources)
        for event in kept.questions:
            if (shown := kept.shown_id(event)) is not None and event.call_id in ids:
                yield AskedQuestion(id=shown, call_id=ids[event.call_id], question=plain(event.question))

    def _named(self, step: int, sources: Iterable[CitedSource]) -> Iterator[AssistantSource]:
        for one in distinct(sources, self._sources):
            yield AssistantSource(f"{step}.{self._count}", one)
            self._count += 1

    def _unique(self, call_id: str, step: int, number: int) -> str:
        found = call_id or f"call-{step}-{number}"
        while found in self._ids:
            found = f"{found}@{step}"
        self._ids.add(found)
        return found

    def _call(self, call: ToolCall, result: CallResult | None) -> AssistantCall:
        """Returns a call as the history has it."""
        arguments: Any = call.arguments if call.kind != "custom" and call.arguments is not None else call.arguments_text
        error = result.content if result is not None and _is_error(result) else None
        return AssistantCall(
            name=call.name if call.name in self._tool_names else self._hide(call.name),
            call_id=call.call_id,
            arguments=self._hide(arguments),
            is_over=result is not None,
            result=self._hide(_value(result.content)) if result is not None and error is None else None,
            error=self._hide(error),
            by_provider=call.kind == "server",
        )


def _ended(call: AssistantCall, ending: _Ending, kept: _Kept) -> AssistantCall:
    """Returns a call with what events say of it."""
    call, seen = replace(call, approval=kept.approval(ending)), ending.seen
    if ending.asked is not None:  # as the stream has shown it
        edited = None if ending.resolved is None else ending.resolved.arguments
        call = replace(call, arguments=plain(ending.asked.arguments if edited is None else edited))
    if seen is None or seen.outcome == "suspended" or isinstance(seen.error, ApprovalPending):
        return replace(call, is_over=False, result=None, error=None)
    if seen.outcome == "ok":
        return replace(call, is_over=True, result=plain(seen.value, seen.model_content), error=None, outcome="ok")
    return replace(call, is_over=True, result=None, error=seen.model_content or call.error or "", outcome=seen.outcome)


def _is_error(result: CallResult) -> bool:
    return result.is_error or result.content.startswith("Error:")  # where a wire has no flag, the words say it


def _value(text: str) -> Any:
    """Returns what a result's text is, if that is plain."""
    if text[:1] not in ("{", "[", "n", "t", "f"):
        return text
    try:
        return orjson.loads(text)
    except ValueError:
        return text
