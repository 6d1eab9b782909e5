"""Writes a run as events of AG-UI 1.0, which `@ag-ui/client` and CopilotKit read.

    TextDelta("Hello")  →  data: {"type": "TEXT_MESSAGE_CONTENT", "messageId": "r:0:2", "delta": "Hello"}

A text is one message, together with the calls behind it; ids are made of the run's, the step and `seq`. A client takes
nothing back: a message that is replaced, or void, becomes an activity, which no history has, and arguments that are
replaced make another call.

Read in `@ag-ui/client` and `@ag-ui/core` 1.0.0, 2026-11-28: ``verify.ts``, ``apply/default.ts``, ``schemas.ts``; and
https://docs.ag-ui.com/spec/1.0/basic/patterns/interrupt-resume
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from .. import events as of
from ..events import Event
from ..parts import Usage
from ..wires import cited_sources, distinct_sources, made_files
from .ag_ui_calls import CallsShown, RunPlace, Sent, activity, custom
from .encoding import Frame, RunEnd, plain
from .sources import texts_of

_FAILED = frozenset({"error", "interrupted", "truncated"})
_STOPPED = frozenset({"cancelled", "left", "abandoned"})

_CONTENTS: Mapping[str, str] = {
    "text": "TEXT_MESSAGE_CONTENT",
    "refusal": "TEXT_MESSAGE_CONTENT",
    "reasoning": "REASONING_MESSAGE_CONTENT",
}
_ENDS: Mapping[str, tuple[str, ...]] = {
    "text": ("TEXT_MESSAGE_END",),
    "refusal": ("TEXT_MESSAGE_END",),
    "reasoning": ("REASONING_MESSAGE_END", "REASONING_END"),
}


@dataclass(slots=True)
class _Text:
    id: str
    is_shown: bool = False


class AGUI:
    """Encodes a run for AG-UI: ``EventStreamResponse(run, encode=AGUI(thread_id="t1", run_id="r1"))``.

    It includes arguments, results, reasoning and the texts of failed calls, redacted by the run's privacy policy. Calls
    that wait for a person are interrupts of ``RUN_FINISHED``; deferred calls stay open, to be answered by a tool
    message. Progress is an activity of the type ``tool_progress``; warnings and questions to a person during the run
    are ``CUSTOM`` events.

    Args:
        thread_id: the conversation's id.
        run_id: the client's id of the run; by default the run's own id, with a number if it is continued.
        answered: the ids of calls whose results came from the client, and are not sent back to it.
        goes_on: the first event continues a step that another encoder has shown, as for a `resume` without `Chats`; its
            response, which the run repeats, is left out.
        can_retract: show attempts at once even if they may be discarded. Messages of a discarded attempt become
            activities, as in `@ag-ui/client` 1.0; the protocol does not require that of other clients.
    """

    headers: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        *,
        thread_id: str,
        run_id: str | None = None,
        answered: Collection[str] = (),
        goes_on: bool = False,
        can_retract: bool = False,
    ) -> None:
        self.can_retract = can_retract
        self._thread_id, self._given_id = thread_id, run_id
        # of the run
        self._place = RunPlace()
        self._calls = CallsShown(self._place, answered)
        self._step: str | None = None  # the name of the open one
        self._known_step = -1
        self._goes_on = goes_on
        self._is_repeated = False  # a step that goes on may have its response once more
        self._texts: dict[str, _Text] = {}  # by kind
        # of the response
        self._is_begun = False
        self._number = 1
        self._result: Any = None
        self._finish: str | None = None
        self._model = ("", "")
        self._usage: dict[tuple[str, str], Usage] = {}
        self._sources = set[tuple[str | None, ...]]()  # of the run
        self._sources_before = frozenset[tuple[str | None, ...]]()  # those of earlier steps

    def begin(self) -> Iterable[Frame]:
        """Returns the beginning of the run, and that of everything open. Without a known id, it comes with the first
        event."""
        self._is_begun = bool(self._given_id or self._place.run_id)
        self._usage = {}
        return [("", sent) for sent in (self._run_started(), *self._opened())] if self._is_begun else ()

    def __call__(self, event: Event | RunEnd, /) -> Iterable[Frame]:
        if isinstance(event, of.CausedEvent):
            self._place.move(event)
        write = _WRITES.get(type(event))
        if write is None or (self._is_repeated and type(event) in _REPEATED):
            return ()
        opened = () if self._is_begun else [*self._opened()]
        sent = [*write(self, event)]
        if sent and not self._is_begun:
            self._is_begun = True
            sent = [self._run_started(), *opened, *sent]
        if isinstance(event, RunEnd):
            self._is_begun, self._number = False, self._number + 1
            self._usage = {}
        return [("", one) for one in sent]

    def _named(self) -> Sent:
        own = self._place.run_id if self._number == 1 else f"{self._place.run_id}:{self._number}"
        return {"threadId": self._thread_id, "runId": self._given_id or own}

    def _run_started(self) -> Sent:
        return {"type": "RUN_STARTED", **self._named(), "protocolVersion": "1.0"}

    def _opened(self) -> Iterator[Sent]:
        """Yields the begin of all that is open, which the verifier wants in each response."""
        if self._step is not None:
            yield {"type": "STEP_STARTED", "stepName": self._step}
        for kind, text in self._texts.items():
            if text.is_shown:
                yield from _opening(kind, text.id)
        yield from self._calls.opened()

    # -- steps --

    def _step_start(self, event: of.StepStart) -> Iterator[Sent]:
        place = self._place
        place.run_id, place.parent = event.run_id, None
        place.move(event)
        self._is_repeated = event.continued and (self._goes_on or event.step == self._known_step)
        self._known_step, self._goes_on = event.step, False
        if not self._is_repeated:
            yield from self._close_step()
            place.messages.clear()
            self._sources_before = frozenset(self._sources)
            self._step, self._result = f"step {event.step}", None
            yield {"type": "STEP_STARTED", "stepName": self._step}

    def _step_end(self, event: of.StepEnd) -> Iterator[Sent]:
        return self._close_step()

    def _close_step(self) -> Iterator[Sent]:
        yield from self._close_parts()
        if self._step is not None:
            yield {"type": "STEP_FINISHED", "stepName": self._step}
            self._step = None

    def _close_parts(self) -> Iterator[Sent]:
        for kind in [*self._texts]:
            yield from self._close_text(kind)
        yield from self._calls.close()

    def _stream_start(self, event: of.StreamStart) -> Iterator[Sent]:
        self._model = (event.wire.partition(".")[0], event.model or "")
        yield from ()

    def _stream_end(self, event: of.StreamEnd) -> Iterator[Sent]:
        self._finish = event.finish
        self._add(event.usage)
        return self._close_parts()

    def _discarded(self, event: of.AttemptDiscarded) -> Iterator[Sent]:
        self._is_repeated = False
        self._sources = {*self._sources_before}
        self._add(event.usage)
        yield from self._close_parts()
        yield from self._calls.discarded(event.from_seq)
        place = self._place
        for seq, id in place.messages:
            if seq >= event.from_seq:
                yield activity(id, "discarded", {})
        place.messages = [one for one in place.messages if one[0] < event.from_seq]
        place.parent = None

    def _add(self, usage: Usage | None) -> None:
        if usage is not None:
            known = self._usage.get(self._model)
            self._usage[self._model] = usage if known is None else known + usage

    def _added(self, event: of.MessageAdded) -> Iterator[Sent]:
        if text := "\n\n".join(texts_of(event.messages)):
            id = self._place.made(self._place.mark)
            yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "user"}
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}
            yield {"type": "TEXT_MESSAGE_END", "messageId": id}

    def _warning(self, event: of.StreamWarning) -> Iterator[Sent]:
        yield custom("warning", {"code": event.code, "detail": event.detail})

    # -- texts --

    def _text_start(self, event: Event) -> Iterator[Sent]:
        kind = _KINDS[type(event)]
        yield from self._close_text(kind)
        self._place.parent = None
        self._texts[kind] = _Text(self._place.mark)

    def _text_delta(self, event: Any) -> Iterator[Sent]:
        if event.text:
            kind = _KINDS[type(event)]
            text = self._texts.get(kind) or _Text(f"{self._place.mark}:{kind}")
            self._texts[kind] = text
            yield from self._write(kind, text, event.text)

    def _write(self, kind: str, text: _Text, words: str) -> Iterator[Sent]:
        if not text.is_shown:
            text.is_shown = True
            self._place.made(text.id)
            yield from _opening(kind, text.id)
        yield {"type": _CONTENTS[kind], "messageId": text.id, "delta": words}

    def _text_end(self, event: Any) -> Iterator[Sent]:
        kind = _KINDS[type(event)]
        replaced = self._texts.get(kind) if event.whole is not None else None
        yield from self._close_text(kind)
        if replaced is not None and replaced.is_shown:
            self._place.parent = None
            yield activity(replaced.id, "replaced", {})
        if event.whole:
            self._texts[kind] = _Text(f"{self._place.mark}:{kind}")
            yield from self._write(kind, self._texts[kind], event.whole)
            yield from self._close_text(kind)
        if kind == "text":
            yield from self._named_in(event.provider_state)

    def _item(self, event: of.ProviderItem) -> Iterator[Sent]:
        yield from _files(event.raw)
        yield from self._named_in(event.raw)

    def _call_ended(self, event: of.ToolCallEnd) -> Iterator[Sent]:
        yield from self._calls.ended(event)
        if event.call.kind == "server":
            yield from _files(event.call.provider_state)

    def _named_in(self, state: Mapping[str, Any] | None) -> Iterator[Sent]:
        for one in distinct_sources(cited_sources(state), self._sources):
            named = {"url": one.url} if one.url is not None else {"mimeType": one.media_type}
            yield custom("source", named | ({} if one.title is None else {"title": one.title}))

    def _close_text(self, kind: str) -> Iterator[Sent]:
        text = self._texts.pop(kind, None)
        if text is not None and text.is_shown:
            self._place.parent = text.id if kind == "text" else None
            yield from ({"type": type, "messageId": text.id} for type in _ENDS[kind])

    # -- the end --

    def _output(self, event: of.OutputEnd) -> Iterator[Sent]:
        self._result = plain(event.value)
        yield from ()

    def _end(self, end: RunEnd) -> Iterator[Sent]:
        yield from self._close_step()
        usage = [_counted(*model, usage) for model, usage in self._usage.items()]
        counts: dict[str, Any] = {"usage": usage} if usage else {}
        if end.kind is not None or end.outcome in _FAILED:
            counts |= {} if end.retry_after is None else {"metadata": {"retryAfter": end.retry_after}}
            yield {"type": "RUN_ERROR", "message": end.words, "code": end.kind or end.outcome, **counts}
            return
        outcome = self._outcome(end)
        given = {"result": self._result} if self._result is not None and outcome["type"] == "success" else {}
        finish = {} if self._finish is None else {"finish": self._finish}
        metadata = {"outcome": end.outcome, **finish}
        yield {"type": "RUN_FINISHED", **self._named(), "outcome": outcome, **given, **counts, "metadata": metadata}

    def _outcome(self, end: RunEnd) -> Sent:
        if end.outcome in _STOPPED:
            return {"type": "cancelled"}
        if end.outcome == "suspended" and self._calls.asked:
            return {"type": "interrupt", "interrupts": [*self._calls.asked.values()]}
        pending = self._calls.pending()
        return {"type": "success", **({"pendingToolCallIds": pending} if pending else {})}


def _opening(kind: str, id: str) -> Iterator[Sent]:
    if kind == "reasoning":
        yield {"type": "REASONING_START", "messageId": id}
        yield {"type": "REASONING_MESSAGE_START", "messageId": id, "role": "reasoning"}
    else:
        yield {"type": "TEXT_MESSAGE_START", "messageId": id, "role": "assistant"}


def _counted(provider: str, model: str, usage: Usage) -> Sent:
    read = None if usage.input_tokens is None else usage.input_tokens + (usage.tool_use_input_tokens or 0)
    counts = {
        "provider": provider or None,
        "model": model or None,
        "inputTokens": read,
        "outputTokens": usage.output_tokens,
        "totalTokens": None if read is None or usage.output_tokens is None else read + usage.output_tokens,
        "reasoningTokens": usage.reasoning_tokens,
        "cachedInputTokens": usage.cached_input_tokens,
        "cacheWriteInputTokens": usage.cache_write_input_tokens,
    }
    return {name: count for name, count in counts.items() if count is not None}


def _files(state: Mapping[str, Any] | None) -> Iterator[Sent]:
    for file in made_files(state):
        yield custom("file", {"mimeType": file.mime_type, "url": file.address()})


_KINDS: Mapping[type, str] = {
    of.TextStart: "text",
    of.TextDelta: "text",
    of.TextEnd: "text",
    of.ReasoningStart: "reasoning",
    of.ReasoningDelta: "reasoning",
    of.ReasoningEnd: "reasoning",
    of.RefusalDelta: "refusal",
}
_REPEATED = frozenset({*_KINDS, of.ProviderItem, of.ToolCallStart, of.ToolCallDelta, of.ToolCallEnd, of.StreamEnd})
_WRITES: Mapping[type, Callable[[AGUI, Any], Iterable[Sent]]] = {
    of.StepStart: AGUI._step_start,
    of.StepEnd: AGUI._step_end,
    of.StreamStart: AGUI._stream_start,
    of.StreamEnd: AGUI._stream_end,
    of.AttemptDiscarded: AGUI._discarded,
    of.MessageAdded: AGUI._added,
    of.StreamWarning: AGUI._warning,
    of.TextStart: AGUI._text_start,
    of.TextDelta: AGUI._text_delta,
    of.TextEnd: AGUI._text_end,
    of.ReasoningStart: AGUI._text_start,
    of.ReasoningDelta: AGUI._text_delta,
    of.ReasoningEnd: AGUI._text_end,
    of.RefusalDelta: AGUI._text_delta,
    of.ToolCallStart: lambda self, event: self._calls.begun(event),
    of.ToolCallDelta: lambda self, event: self._calls.grown(event),
    of.ToolCallEnd: AGUI._call_ended,
    of.ProviderItem: AGUI._item,
    of.ToolStarted: lambda self, event: self._calls.started(event),
    of.ToolProgress: lambda self, event: self._calls.progressed(event),
    of.Observation: lambda self, event: self._calls.observed(event),
    of.ApprovalRequested: lambda self, event: self._calls.approval_asked(event),
    of.ApprovalResolved: lambda self, event: self._calls.resolved(event),
    of.AnswerRequested: lambda self, event: self._calls.answer_asked(event),
    of.OutputEnd: AGUI._output,
    RunEnd: AGUI._end,
}
