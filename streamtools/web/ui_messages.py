"""Writes a run as the AI SDK's UI message stream (v1): what `useChat` of `ai` 7 and 6 reads.

A run is one assistant's message. Each call is a part ``tool-NAME`` of it, under the call's id; one whose id recurs in a
later step is named with that step. A step that goes on after a decision stays the step that the client has.

Read in `ai` 7.0.173 and 6.0.326: ``src/ui-message-stream/ui-message-chunks.ts`` and
``src/ui/process-ui-message-stream.ts``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from .. import events as of
from ..events import Event
from ..parts import RUN_OUTCOMES, ToolCall
from ..wires import CitedSource, cited_sources, distinct_sources, made_files
from .approval_ids import approval_id
from .encoding import Frame, RunEnd, plain
from .shown import is_pending
from .sources import texts_of, ui_file, ui_source

Chunk = dict[str, Any]

_FINISHES = {"length": "length", "content_filter": "content-filter"}
_NAMELESS = "unnamed"


class UIMessages:
    """Encodes a run for `useChat`: ``EventStreamResponse(run, encode=UIMessages())``.

    It includes arguments, results, reasoning and the texts of failed calls, redacted by the run's privacy policy.
    Progress is preliminary output. A message that was added to the run is a ``steering-message`` (with version 6 a
    ``data-steering`` part); a question of a running call is a ``data-question`` part, answered by its id.

    Args:
        version: the major version of the client's `ai`. Version 6 cannot retract what it was shown.
        message_id: the id of the assistant's message; by default the client makes one up.
        dynamic_tools: names of tools whose parts are ``dynamic-tool``, for which the page has no types.

    Raises:
        ValueError: another version.
    """

    headers: Mapping[str, str] = MappingProxyType({"x-vercel-ai-ui-message-stream": "v1"})

    def __init__(
        self, *, version: Literal[6, 7] = 7, message_id: str | None = None, dynamic_tools: Collection[str] = ()
    ) -> None:
        if version not in (6, 7):
            raise ValueError(f"version={version!r}: must be the AI SDK's version 6 or 7")
        self.can_retract = version == 7
        self._version = version
        self._message_id = message_id
        self._dynamic = frozenset(dynamic_tools)
        self._run_id = ""
        self._in_step = False  # the client's step is open
        self._dispatches = True
        self._open: dict[str, str] = {}  # texts that grow: kind by id
        self._stands: list[Event] = []  # of the step, which a reset takes back as a whole
        self._ids: dict[tuple[int, str], tuple[str, int]] = {}  # with the number of what has named the call first
        self._taken: set[str] = set()
        self._calls: dict[str, ToolCall] = {}  # of the step by our id
        self._written: dict[str, bool] = {}  # calls that have not ended: whether their tool reads them already
        self._given: dict[str, Any] = {}  # the inputs that the client has
        self._serving: set[str] = set()  # calls that the provider runs
        self._asked: dict[str, str] = {}  # those that it was asked to approve, and under which ids
        self._finish: str | None = None
        self._sources_of: dict[tuple[str | None, ...], int] = {}  # the step that has named them first
        self._named_here = 0  # of the step

    def begin(self) -> Iterable[Frame]:
        """Returns the beginning of the message, new or continued."""
        named = {} if self._message_id is None else {"messageId": self._message_id}
        return [("", {"type": "start", **named})]

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]:
        if isinstance(event, RunEnd):
            return [*(("", chunk) for chunk in self._end(event)), ("", "[DONE]")]
        return [("", chunk) for chunk in self._chunks(event)]

    def _chunks(self, event: Event) -> Iterator[Chunk]:
        self._stands.append(event)
        match event:
            case of.TextStart() | of.TextDelta() | of.TextEnd():
                yield from self._text("text", event)
            case of.ReasoningStart() | of.ReasoningDelta() | of.ReasoningEnd():
                yield from self._text("reasoning", event)
            case of.RefusalDelta():
                yield from self._grow("text", "refusal", event)
            case of.ToolCallStart() | of.ToolCallDelta() | of.ToolCallEnd() | of.ToolCallValidated():
                yield from self._call(event)
            case of.ApprovalRequested() | of.ApprovalResolved() | of.AnswerRequested():
                yield from self._asks(event)
            case of.ToolStarted() | of.ToolProgress():
                yield from self._runs(event)
            case of.Observation():
                yield from self._observed(event)
            case of.ProviderItem():
                yield from self._item(event)
            case of.StepStart() | of.StepEnd() | of.StreamEnd() | of.AttemptDiscarded() | of.MessageAdded():
                yield from self._step(event)

    # -- texts --

    def _text(self, kind: str, event: Any) -> Iterator[Chunk]:
        known = next((id for id, one in self._open.items() if one == kind), str(event.seq))
        if isinstance(event, (of.TextStart, of.ReasoningStart)):
            yield from self._close(kind)
            yield from self._grow(kind, str(event.seq), None)
        elif isinstance(event, (of.TextDelta, of.ReasoningDelta)):
            yield from self._grow(kind, known, event)
        else:
            yield from self._close(kind)
            if event.whole is not None:  # the client cannot change a text
                yield {"type": f"data-{kind}-replaced", "id": known, "data": {"text": event.whole}}
            if kind == "text":
                yield from self._name(event.step, cited_sources(event.provider_state))

    def _grow(self, kind: str, name: str, delta: Any) -> Iterator[Chunk]:
        if name == "refusal":
            name = next((id for id in self._open if id.startswith("refusal")), f"refusal-{delta.seq}")
        if name not in self._open:
            self._open[name] = kind
            yield {"type": f"{kind}-start", "id": name}
        if delta is not None and delta.text:
            yield {"type": f"{kind}-delta", "id": name, "delta": delta.text}

    def _close(self, *kinds: str) -> Iterator[Chunk]:
        for name, kind in list(self._open.items()):
            if kind in kinds:
                del self._open[name]
                yield {"type": f"{kind}-end", "id": name}

    # -- calls --

    def _id(self, event: Any) -> str:
        key = (event.step, event.call_id)
        if key not in self._ids:
            made = event.call_id if event.call_id not in self._taken else f"{event.call_id}@{event.step}"
            self._ids[key] = made, event.seq
            self._taken.add(made)
        return self._ids[key][0]

    def _call(self, event: Any) -> Iterator[Chunk]:
        id = self._id(event)
        match event:
            case of.ToolCallStart():
                self._calls[id] = ToolCall(call_id=id, name=event.name, kind=event.kind)
                self._written[id] = False
                chunk = {"type": "tool-input-start"} | self._named(id)
                yield chunk | {"inputEncoding": "text"} if event.kind == "custom" else chunk
            case of.ToolCallDelta():
                if event.delta and id in self._calls and id not in self._given:
                    yield {"type": "tool-input-delta", "toolCallId": id, "inputTextDelta": event.delta}
            case of.ToolCallEnd(call=call) | of.ToolCallValidated(call=call):
                # A client may run a call as soon as it has the input: only when nothing else can come between.
                self._calls[id] = call
                if self._written.pop(id, False) and call.status == "ready":
                    yield from self._give(id)
                if call.kind == "server" and call.status == "ready":
                    self._serving.add(id)
                    yield from self._give(id)
                    if isinstance(event, of.ToolCallEnd):
                        yield from _files(call.provider_state)

    def _named(self, id: str, name: str = "") -> Chunk:
        call = self._calls.get(id)
        name = (call.name if call is not None else name) or _NAMELESS
        chunk: Chunk = {"toolCallId": id, "toolName": name}
        if call is not None and call.kind == "server":
            chunk["providerExecuted"] = True
        return chunk | {"dynamic": True} if name in self._dynamic else chunk

    def _give(self, id: str, name: str = "", arguments: Mapping[str, Any] | None = None) -> Iterator[Chunk]:
        given = _input(self._calls.get(id)) if arguments is None else plain(arguments)
        if id not in self._given or (arguments is not None and self._given[id] != given):
            self._given[id] = given
            yield {"type": "tool-input-available"} | self._named(id, name) | {"input": given}

    def _asks(self, event: Any) -> Iterator[Chunk]:
        id = self._id(event)
        if isinstance(event, of.ApprovalResolved):
            if event.arguments is not None:
                yield from self._give(id, event.tool_name, event.arguments)
            # 7 alone has a word for it; the client that has decided knows
            if self._version == 7 and (asked := self._asked.get(id)) is not None:
                reason = {} if event.reason is None else {"reason": event.reason}
                yield {"type": "tool-approval-response", "approvalId": asked, "approved": event.approved, **reason}
            return
        shown = approval_id(self._run_id, event.step, event.call_id, event.fingerprint)
        if isinstance(event, of.AnswerRequested) and event.question is not None:
            data = {"toolCallId": id, "question": plain(event.question)}
            yield {"type": "data-question", "id": shown, "data": data}
            return
        yield from self._give(id, event.tool_name, event.arguments)
        if isinstance(event, of.ApprovalRequested):
            self._asked[id] = shown
            yield {"type": "tool-approval-request", "approvalId": shown, "toolCallId": id}

    def _runs(self, event: of.ToolStarted | of.ToolProgress) -> Iterator[Chunk]:
        id = self._id(event)
        if id in self._written:  # no output may stand before its input
            self._written[id] = True
            return
        if id not in self._given:
            yield from self._give(id, event.tool_name)
        if isinstance(event, of.ToolProgress):
            yield {**_output(id, plain(event.value)), "preliminary": True}

    def _observed(self, event: of.Observation) -> Iterator[Chunk]:
        if is_pending(event):
            return
        id = self._id(event)
        if event.edited is not None:  # also where the process died that took the decision
            yield from self._give(id, event.tool_name, event.edited)
        if event.outcome == "ok":
            if id not in self._given:
                yield from self._give(id, event.tool_name)
            yield _output(id, plain(event.value, event.model_content))
        elif id not in self._given:
            self._given[id] = given = _input(self._calls.get(id))
            chunk = {"type": "tool-input-error"} | self._named(id, event.tool_name)
            yield chunk | {"input": given, "errorText": event.model_content}
        elif event.outcome == "denied" and id in self._asked:
            yield {"type": "tool-output-denied", "toolCallId": id}
        else:
            yield {"type": "tool-output-error", "toolCallId": id, "errorText": event.model_content}

    def _item(self, event: of.ProviderItem) -> Iterator[Chunk]:
        """Yields the files in a part, and its sources; those of a search by the provider end its call."""
        call_id, sources = event.raw.get("tool_use_id"), [*distinct_sources(cited_sources(event.raw))]
        yield from _files(event.raw)
        yield from self._name(event.step, sources)
        if isinstance(call_id, str) and call_id in self._serving:
            self._serving.discard(call_id)
            named = [{"url": one.url} | ({} if one.title is None else {"title": one.title}) for one in sources]
            yield {**_output(call_id, named), "providerExecuted": True}

    def _name(self, step: int, sources: Iterable[CitedSource]) -> Iterator[Chunk]:
        for source in sources:
            if source.key not in self._sources_of:
                self._sources_of[source.key] = step
                yield ui_source(source, f"{step}.{self._named_here}")
                self._named_here += 1

    # -- steps and the run --

    def _step(self, event: Any) -> Iterator[Chunk]:
        match event:
            case of.StepStart():
                self._run_id, self._dispatches = event.run_id, event.dispatches
                if not event.continued:
                    yield from self._finish_step()
                    self._in_step = True
                    self._calls, self._stands, self._named_here = {}, [], 0
                    yield {"type": "start-step"}
            case of.MessageAdded():
                yield from self._added(event)
            case of.StreamEnd():
                yield from self._close("text", "reasoning")
                self._finish = event.finish or self._finish
            case of.AttemptDiscarded():
                yield from self._discarded(event)
            case of.StepEnd():
                if not self._dispatches:  # somebody else runs them
                    for id, call in self._calls.items():
                        yield from self._give(id) if call.status == "ready" else ()
                for id in sorted(self._serving):  # their results are no reader's concern
                    yield {**_output(id, None), "providerExecuted": True}
                self._serving.clear()
                yield from self._finish_step()

    def _discarded(self, event: of.AttemptDiscarded) -> Iterator[Chunk]:
        del self._stands[-1]
        stands = [one for one in self._stands if one.seq < event.from_seq]
        if len(stands) == len(self._stands):  # nothing of it was shown
            return
        reset = {one.step for one in self._stands}  # another one goes on where a later one is taken back
        self._stands = []
        self._open, self._calls, self._in_step, self._named_here = {}, {}, True, 0
        self._sources_of = {one: step for one, step in self._sources_of.items() if step not in reset}
        self._serving.clear()
        for key, (id, seq) in list(self._ids.items()):
            if key[0] in reset:
                self._given.pop(id, None)
                self._asked.pop(id, None)
            if seq >= event.from_seq:
                del self._ids[key]
                self._taken.discard(id)
        if self._version == 7:
            yield {"type": "reset-step"}
            for one in stands:
                yield from self._chunks(one)

    def _finish_step(self) -> Iterator[Chunk]:
        yield from self._close("text", "reasoning")
        if self._in_step:
            self._in_step = False
            yield {"type": "finish-step"}

    def _added(self, event: of.MessageAdded) -> Iterator[Chunk]:
        parts = [{"type": "text", "text": text} for text in texts_of(event.messages)]
        if self._version == 7:
            yield {"type": "steering-message", "id": event.message_id, "parts": parts}
        else:
            yield {"type": "data-steering", "id": event.message_id, "data": {"parts": parts}}

    def _end(self, end: RunEnd) -> Iterator[Chunk]:
        yield from self._finish_step()
        facts = RUN_OUTCOMES.get(end.outcome)  # type: ignore[call-overload]
        if end.outcome == "error":
            if end.retry_after is not None:  # the error has a text alone
                data = {"code": end.kind, "retryAfter": end.retry_after}
                yield {"type": "data-error", "data": data, "transient": True}
            yield {"type": "error", "errorText": f"The answer broke off ({end.kind or 'error'})."}
        elif end.outcome == "interrupted":
            if self._version == 7:
                yield {"type": "finish", "finishReason": "interrupted"}
            else:
                yield {"type": "error", "errorText": "The answer broke off."}
        elif end.outcome in ("cancelled", "left", "abandoned"):
            yield {"type": "abort"} if facts is None else {"type": "abort", "reason": facts.words}
        else:
            yield {"type": "finish", "finishReason": self._reason(end.outcome)}

    def _reason(self, outcome: str) -> str:
        if outcome == "suspended":
            return "tool-calls"
        if outcome in ("answered", "complete"):
            return _FINISHES.get(self._finish or "", "stop")
        return "other"


def _input(call: ToolCall | None) -> Any:
    if call is None:
        return {}
    return call.arguments_text if call.arguments is None else plain(call.arguments)


def _output(id: str, value: Any) -> Chunk:
    return {"type": "tool-output-available", "toolCallId": id, "output": value}


def _files(state: Mapping[str, Any] | None) -> Iterator[Chunk]:
    return map(ui_file, made_files(state))
