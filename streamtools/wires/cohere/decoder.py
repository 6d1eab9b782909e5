"""Cohere's chat stream events in, events out: v2's, known by their ``type``, and v1's, by their ``event_type``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ProviderItem, ToolCallFragment
from ...ground.text import well_formed
from ...limits import Limits
from ...parts import Finish
from ..growing import Given, GrowingDecoder
from ..plain import PlainDelta
from ..reading import ERROR, list_of, named_error, object_of, place_of, provider_error, read_text, rest_of
from .facts import EVENT_FIELDS, FAILURES, FINISHES, FUNCTION, RESPONSE, SEARCHED

_WITH_REASON = frozenset({"length", "content_filter"})  # an error's text beside these only explains them
_V1 = {"api": "v1"}


class _FirstVersion(GrowingDecoder):
    """Takes v1's events (https://docs.cohere.com/v1/docs/streaming), and has what both versions share.

    Text, plan and calls stream. But a call ends with ``tool-calls-generation`` or ``stream-end``, which hold all calls
    whole, their arguments as objects: where these say something else than what streamed, they are right; a call that
    neither lists is cut. ``stream-end`` repeats the response: what of it was not shown yet is shown then.
    """

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._marks: dict[str, Any] = {}  # what every part of this response is marked with
        self._stream: _Stream | None = None  # None: no event of v1 was seen
        self._calls: dict[int | str | None, bool] = {}  # by index; whether it is open
        self._found = frozenset[str]()  # fields of the whole response that had an event of their own
        self._field = ""  # what the reasoning that is being shown is: "thinking" or "tool_plan"

    def _begin(self) -> None:
        if not self._started:
            self.emit_start(None, None)

    def _think(self, field: str, text: str) -> None:
        if self._open == "reasoning" and self._field != field:
            self.end_part()
        self._field = field
        self.emit_reasoning(text)

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        if self._open == "reasoning":
            provider_state = {"field": self._field, **self._marks}
        elif self._marks:
            provider_state = self._marks
        super().end_part(provider_state)

    def _citation(self, citation: object) -> None:
        """Emits a citation at once, also in the midst of a text: it ends nothing."""
        if not isinstance(citation, dict):
            self.emit_unknown(citation)
        elif self._keeps_one_more(citation) and (kept := self.to_keep(citation)) is not None:
            self.out.append(ProviderItem("citation", {"citations": kept}))

    def _keeps_one_more(self, extra: object) -> bool:
        self._place_count += 1
        return self.holds(self._place_count, "the message") and self.charge(extra)

    def _argument_text(self, holder: object, key: str, path: tuple[str | int, ...]) -> Given:
        return self.arguments_text(object_of(holder).get(key), (*path, key))

    # -- the end --

    def _ended(self, reason: object, usage: object, error: object, error_type: object = None) -> None:
        self._begin()
        self.read_usage(usage)
        if isinstance(reason, str) and reason:
            self._finish_raw = reason
        failed = (self._finish_raw or "").upper() in FAILURES
        if failed or (error and self._finish() not in _WITH_REASON):
            found = provider_error({"error": error})
            message = found.message if found else f"the provider ended the generation with {read_text(reason)}"
            self.fail(ProviderError(message, code=found.code if found else None, type=read_text(error_type)))
        self._stopped = self.done = True

    def _finish(self) -> Finish | None:
        return FINISHES.get(self._finish_raw.upper(), "other") if self._finish_raw else None

    # -- v1 --

    def _begin_first(self) -> _Stream:
        self._begin()
        if self._stream is None:
            self._stream = _Stream()
            self._marks = _V1
        return self._stream

    def _stream_start(self, payload: dict[str, Any]) -> None:
        if not self._started:
            self.emit_start(None, payload.get("generation_id"))
        self._begin_first()

    def _text_generation(self, payload: dict[str, Any]) -> None:
        stream = self._begin_first()
        if isinstance(text := payload.get("text"), str) and text:
            stream.text.append(text)
            self.emit_text(text)
            self.part.sink = stream.text.append

    def _citation_generation(self, payload: dict[str, Any]) -> None:
        self._begin_first()
        self._found |= {"citations"}
        citations = payload.get("citations")
        for citation in citations if isinstance(citations, list) else [citations]:
            self._citation(citation)

    def _search(self, payload: dict[str, Any]) -> None:
        self._begin_first()
        self._found |= payload.keys() & SEARCHED
        if self._keeps_one_more(payload) and (kept := self.to_keep(payload)) is not None:
            self.out.append(ProviderItem(payload["event_type"], kept))

    # -- calls --

    def _tool_calls_chunk(self, payload: dict[str, Any]) -> None:
        stream = self._begin_first()
        delta = object_of(payload.get("tool_call_delta"))
        self._plan(payload.get("text") or delta.get("text"))
        name, parameters = read_text(delta.get("name")), delta.get("parameters")
        if not name and not isinstance(parameters, str):
            return
        index = stream.label(label(delta.get("index")), name)
        call = stream.calls.get(index)
        if call is None:
            self.end_part()
            call = stream.calls[index] = _StreamedCall(name)
            self._calls[index] = self._has_calls = True
            self.out.append(ToolCallFragment(index, None, name, start=True, provider_state=_V1))
        if isinstance(parameters, str) and parameters and self._calls[index] is False:
            self.emit_unknown(payload)  # the call has ended
        elif isinstance(parameters, str) and parameters:
            call.pieces.append(parameters)  # as many as the turn may hold: the accumulator counts them
            self.out.append(ToolCallFragment(index, arguments=parameters))

    def _plan(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._begin_first().plan.append(text)
            self._think("tool_plan", text)

    def _tool_calls_generation(self, payload: dict[str, Any]) -> None:
        if not self._begin_first().plan:
            self._plan(payload.get("text"))
        self._whole_calls(payload.get("tool_calls"), ("tool_calls",))

    def _whole_calls(self, calls: object, path: tuple[str | int, ...]) -> None:
        stream = self._begin_first()
        for number, call in enumerate(list_of(calls)):
            if not isinstance(call, dict):
                self.emit_unknown(call)
                continue
            self.end_part()
            name = read_text(call.get("name"))
            streamed = stream.calls.get(number)
            if streamed is not None and streamed.name not in (None, name):
                streamed = None  # it is another call, which is cut
            index = f"whole:{number}" if streamed is None else number
            if self._calls.get(index) is False:
                continue  # `stream-end` repeats what came
            if streamed is None and path[0] == "response":
                self.warn("terminal_backfill")
            self._calls[index], self._has_calls = False, True
            arguments, problem = self._argument_text(call, "parameters", (*path, number))
            if streamed is None:
                fragment = ToolCallFragment(index, read_text(call.get("id")), name, arguments, start=True, end=True)
            else:
                whole = None if streamed.equals(arguments) else arguments
                fragment = ToolCallFragment(index, None, name if streamed.name is None else None, whole=whole, end=True)
            fragment = replace(fragment, problem=problem, provider_state=_V1)
            self.out.append(fragment)

    # -- the end --

    def _stream_end(self, payload: dict[str, Any]) -> None:
        stream = self._begin_first()
        response = object_of(payload.get("response"))
        self.emit_beside(response, RESPONSE | self._found, "response")
        calls = response.get("tool_calls")
        if isinstance(text := response.get("text"), str) and text:
            rest = stream.rest(text)
            if rest is None:
                self.warn("text_differs")
                if self._open == "text" and not self._calls:
                    self.replace_part(text)
            elif rest:
                self.warn("terminal_backfill")
                self._plan(rest) if calls or self._calls else self.emit_text(rest)  # beside calls it is the plan
        self._whole_calls(calls, ("response", "tool_calls"))
        reason = payload.get("finish_reason") or response.get("finish_reason")
        self.read_usage(payload.get("amazon-bedrock-invocationMetrics"))  # all that it counts behind InvokeModel
        self._ended(reason, response.get("meta"), payload.get("error") or response.get("error"))

    def _stream_error(self, payload: dict[str, Any]) -> None:
        if isinstance(body := payload.get("err"), dict):
            self.emit_unread(body, ERROR, "err")
        self.fail(provider_error({"error": payload.get("err")}) or named_error(payload))

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        if self._stream is not None:
            for index in self._stream.calls:
                if self._calls[index]:
                    self._calls[index] = False
                    if self._stopped:
                        self.warn("missing_block_stop")
                    self.out.append(ToolCallFragment(index, end=True, cut=True))
            if self._finish() == "stop" and self._calls:
                return "tool_calls", self._stopped  # v1 has no word of its own for it
        self.close_places(whole=self._stopped and self.error is None)
        return self.normalized(self._finish(), self._has_calls), self._stopped


@dataclass(slots=True)
class _StreamedCall:
    name: str | None
    pieces: list[str] = field(default_factory=list, repr=False)

    def equals(self, arguments: str) -> bool:
        """Returns whether the streamed text has the value of `arguments`, which the provider wrote anew."""
        return _canonical("".join(self.pieces)) == _canonical(arguments)


class _Stream:
    def __init__(self) -> None:
        self.text: list[str] = []
        self.plan: list[str] = []
        self.calls: dict[int | str, _StreamedCall] = {}

    def rest(self, text: str) -> str | None:
        shown, plan, text = (well_formed(part) for part in ("".join(self.text), "".join(self.plan), text))
        if text.strip() in (shown.strip(), plan.strip(), (plan + shown).strip()):
            return ""
        if plan and not shown:
            return None
        return text[len(shown) :] if text.startswith(shown) else None

    def label(self, index: int | str | None, name: str | None) -> int | str:
        """Returns the label of a piece of a call. Without an index, a name begins a call, all else is the latest's."""
        if index is not None:
            return index
        return len(self.calls) if name else max(len(self.calls) - 1, 0)


def _canonical(text: str) -> str | None:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None


# -- v2 --


class CohereDecoder(_FirstVersion):
    plain = (
        PlainDelta(("text",), {(): frozenset({"event_type", "is_finished"})}),
        *(
            PlainDelta(("delta", "message", *path), {(): frozenset({"index", "type"})})
            for path in (
                ("content", "text"),
                ("content", "thinking"),
                ("tool_plan",),
                ("tool_calls", "function", "arguments"),
            )
        ),
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._message_id: object = None

    @override
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        kind = payload.get("type", payload.get("event_type"))
        out = self.out = []
        self._payload, self._exact = payload, None
        handler = self.handlers.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
            if (fields := EVENT_FIELDS.get(str(kind))) is not None:
                self.emit_unread(payload, fields)
        elif (message := read_text(payload.get("message"))) and not (
            payload.keys() & {"type", "event_type"} or provider_error(payload)
        ):
            self.fail_by(payload, ProviderError(message))  # as the API answers a bad request: nothing but a message
        else:
            self.read_foreign(payload)
        return out

    def terminate(self) -> list[Event]:
        """Takes ``[DONE]``: nothing more will come; whether the message has ended only ``message-end`` says."""
        self.out = []
        self.done = True
        return self.out

    # -- the message --

    def _message_start(self, payload: dict[str, Any]) -> None:
        if not self._started:
            self._message_id = payload.get("id")
            self.emit_start(None, self._message_id)
        elif payload.get("id") == self._message_id:
            self.warn("duplicate_message_start")
        else:
            self.fail(RemoteProtocolError("message-start while another message is open"))

    def _message_end(self, payload: dict[str, Any]) -> None:
        delta = object_of(payload.get("delta"))
        self._ended(delta.get("finish_reason"), delta.get("usage"), delta.get("error"), delta.get("error_type"))

    # -- content --

    def _content_start(self, payload: dict[str, Any]) -> None:
        if self.begin(("content", label(payload.get("index"))), "text", "content", {}) is not None:
            self._content(payload, starts=True)

    def _content_delta(self, payload: dict[str, Any]) -> None:
        self._begin()
        self._content(payload)

    def _content(self, payload: dict[str, Any], *, starts: bool = False) -> None:
        content = object_of(_message(payload).get("content"))
        place = self.place_for(("content", label(payload.get("index"))), "text", "content")
        thinking, text = content.get("thinking"), content.get("text")
        if place is not None and isinstance(thinking, str) and thinking:
            if self._open == "reasoning" and self._field != "thinking":
                self.end_part()
            self._field = "thinking"
            self.show(place, thinking, "reasoning")
        if place is not None and isinstance(text, str):
            self.show(place, text, "text")
        known = isinstance(thinking, str) or isinstance(text, str)
        if not known and not (starts and content.get("type") in ("text", "thinking")):
            self.warn("unknown_block_type")
            self.emit_unknown(payload)

    def _tool_plan_delta(self, payload: dict[str, Any]) -> None:
        self._begin()
        plan = _message(payload).get("tool_plan")
        if not isinstance(plan, str):
            self.emit_unknown(payload)
        elif plan:
            self._think("tool_plan", plan)

    def _citation_start(self, payload: dict[str, Any]) -> None:
        self._begin()
        self._citation(_message(payload).get("citations"))

    # -- calls --

    def _tool_call_start(self, payload: dict[str, Any]) -> None:
        self._begin()
        call, path = _call(payload)
        if call is None:
            self.emit_unknown(payload)
            return
        function = call.get("function")
        place = self.begin(label(payload.get("index")), "call", "tool_call", call, id=call.get("id"))
        if place is None:
            return
        self.end_part()
        if isinstance(function, dict):
            self.emit_beside(function, FUNCTION, place_of((*path, "function")))
        more = rest_of(call, "id", "type", "function")
        self.begin_call(
            place,
            call.get("id"),
            function.get("name") if isinstance(function, dict) else None,
            first=self._call_arguments(function, path),
            state=self.to_keep(more) if more and self.charge(more) else None,
        )

    def _tool_call_delta(self, payload: dict[str, Any]) -> None:
        self._begin()
        call, path = _call(payload)
        if call is None:
            self.emit_unknown(payload)
            return
        arguments, problem = self._call_arguments(call.get("function"), path)
        if arguments or problem:
            self.grow_call(label(payload.get("index")), arguments, problem)

    def _call_arguments(self, function: object, path: tuple[str | int, ...]) -> Given:
        if isinstance(function, dict) and not isinstance(function.get("arguments"), (str, type(None))):
            self.warn("arguments_object")
        return self._argument_text(function, "arguments", (*path, "function"))


def label(index: object) -> int | str | None:
    """Returns an index as a label: v1's are floating point numbers."""
    if isinstance(index, float):
        return int(index) if index.is_integer() else str(index)
    return index if isinstance(index, (int, str)) else None


def _message(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    return object_of(object_of(payload.get("delta")).get("message"))


def _call(payload: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[str | int, ...]]:
    """Returns the call of an event, and its path: one object, though the field's name is in the plural."""
    path: tuple[str | int, ...] = ("delta", "message", "tool_calls")
    call = _message(payload).get("tool_calls")
    if isinstance(call, list) and len(call) == 1:
        call, path = call[0], (*path, 0)
    return (call if isinstance(call, dict) else None), path


CohereDecoder.handlers = {
    "message-start": CohereDecoder._message_start,
    "content-start": CohereDecoder._content_start,
    "content-delta": CohereDecoder._content_delta,
    "content-end": lambda self, payload: self.end_at(("content", label(payload.get("index")))),
    "tool-plan-delta": CohereDecoder._tool_plan_delta,
    "tool-call-start": CohereDecoder._tool_call_start,
    "tool-call-delta": CohereDecoder._tool_call_delta,
    "tool-call-end": lambda self, payload: self.end_at(label(payload.get("index"))),
    "citation-start": CohereDecoder._citation_start,
    "citation-end": lambda self, payload: None,  # a citation comes whole
    "message-end": CohereDecoder._message_end,
    "debug": lambda self, payload: self.emit_unknown(payload),
    # v1
    "stream-start": CohereDecoder._stream_start,
    "text-generation": CohereDecoder._text_generation,
    "tool-calls-chunk": CohereDecoder._tool_calls_chunk,
    "tool-calls-generation": CohereDecoder._tool_calls_generation,
    "citation-generation": CohereDecoder._citation_generation,
    "search-queries-generation": CohereDecoder._search,
    "search-results": CohereDecoder._search,
    "stream-end": CohereDecoder._stream_end,
    "stream-error": CohereDecoder._stream_error,
}
