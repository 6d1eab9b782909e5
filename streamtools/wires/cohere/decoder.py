"""Cohere's chat stream events in, events out: v2's, told by their ``type``. Those of v1 stand in `legacy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ToolCallFragment
from ...limits import Limits
from ..fields import place_of
from ..plain import PlainDelta
from ..reading import provider_error, read_text, rest_of
from .known import EVENT_FIELDS, FUNCTION
from .legacy import LegacyEvents
from .parts import label

__all__ = ["CohereDecoder"]


class CohereDecoder(LegacyEvents):
    """Decodes one chat response, of either version."""

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
        self._blocks: set[int | str | None] = set()  # content blocks that are open
        self._current: int | str | None = None  # index of the block that is being told
        self._heads: dict[int | str | None, dict[str, Any]] = {}  # the starts of calls that got no more since

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Takes one stream event."""
        kind = payload.get("type", payload.get("event_type"))
        out = self.out = []
        self._payload, self._exact = payload, None
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
            if (fields := EVENT_FIELDS.get(str(kind))) is not None:
                self.emit_unread(payload, fields)
        elif error := provider_error(payload) or _bare_error(payload):
            self.fail_by(payload, error)
        else:
            self.warn("unknown_event")
            self.emit_unknown(payload)
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
        delta = payload.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        self._ended(delta.get("finish_reason"), delta.get("usage"), delta.get("error"), delta.get("error_type"))

    def _debug(self, payload: dict[str, Any]) -> None:
        self.emit_unknown(payload)  # the prompt, if the request asked for it: nothing that the model said

    # -- content --

    def _content_start(self, payload: dict[str, Any]) -> None:
        self._begin()
        if self._keeps_one_more():
            self._blocks.add(label(payload.get("index")))
            self._content(payload, starts=True)

    def _content_delta(self, payload: dict[str, Any]) -> None:
        self._begin()
        if label(payload.get("index")) not in self._blocks:
            self.warn("delta_without_block")
        self._content(payload)

    def _content(self, payload: dict[str, Any], *, starts: bool = False) -> None:
        """Tells text or thinking, by the key it stands under."""
        index = label(payload.get("index"))
        if starts or index != self._current:
            self.end_part()
            self._current = index
        content = _message(payload).get("content")
        content = content if isinstance(content, dict) else {}
        thinking, text = content.get("thinking"), content.get("text")
        if isinstance(thinking, str) and thinking:
            self._think("thinking", thinking)
        if isinstance(text, str) and text:
            self.emit_text(text)
        known = isinstance(thinking, str) or isinstance(text, str)
        if not known and not (starts and content.get("type") in ("text", "thinking")):
            self.warn("unknown_content")
            self.emit_unknown(payload)

    def _content_end(self, payload: dict[str, Any]) -> None:
        index = label(payload.get("index"))
        if index not in self._blocks:
            self.warn("end_without_block")
            return
        self._blocks.remove(index)
        if index == self._current:
            self.end_part()
            self._current = None

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

    def _citation_end(self, _: dict[str, Any]) -> None:
        """Does nothing: a citation comes whole."""

    # -- calls --

    def _tool_call_start(self, payload: dict[str, Any]) -> None:
        self._begin()
        call, path = _call(payload)
        if call is None:
            self.emit_unknown(payload)
            return
        self.end_part()
        index = label(payload.get("index"))
        goes_on = bool(self._calls.get(index)) and index in self._nameless
        self._nameless.discard(index)
        if self._calls.get(index) and not goes_on:
            head = self._heads.get(index)
            if head == call:
                self.warn("duplicate_call_start")
                return
            self.warn("missing_call_end")
            # Without any arguments it is not known whether there are none.
            bare = head is not None and not _has_arguments(head)
            self._end_call(index, cut=bare)
        self._calls[index] = True
        self._heads[index] = call
        function = call.get("function")
        arguments, problem = self._call_arguments(function, path)
        if isinstance(function, dict):
            self.emit_beside(function, FUNCTION, place_of((*path, "function")))
        more = rest_of(call, "id", "type", "function")
        self.out.append(
            ToolCallFragment(
                index,
                read_text(call.get("id")),
                read_text(function.get("name")) if isinstance(function, dict) else None,
                arguments,
                start=not goes_on,
                problem=problem,
                provider_state=self.to_keep(more) if more and self.charge(more) else None,
            )
        )

    def _tool_call_delta(self, payload: dict[str, Any]) -> None:
        self._begin()
        call, path = _call(payload)
        index = label(payload.get("index"))
        if call is None:
            self.emit_unknown(payload)
            return
        arguments, problem = self._call_arguments(call.get("function"), path)
        if (arguments or problem) and not self._calls.get(index):
            self.lose_arguments(index)
        if self._calls.get(index) is False:
            self.warn("delta_after_end")
            return
        if index not in self._calls:  # it has no name: unless a start gives it one, it cannot run, and then it is cut
            self.warn("delta_without_call")
            self._calls[index] = True
            self._nameless.add(index)
        if arguments or problem:
            self._heads.pop(index, None)
        self.out.append(ToolCallFragment(index, arguments=arguments, problem=problem))

    def _call_arguments(self, function: object, path: tuple[str | int, ...]) -> tuple[str, str | None]:
        if isinstance(function, dict) and not isinstance(function.get("arguments"), (str, type(None))):
            self.warn("arguments_object")
        return self._argument_text(function, "arguments", (*path, "function"))

    def _tool_call_end(self, payload: dict[str, Any]) -> None:
        index = label(payload.get("index"))
        if self._calls.get(index):
            self._calls[index] = False
            self._end_call(index)
        else:
            self.warn("end_without_call")


def _message(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    delta = payload.get("delta")
    message = delta.get("message") if isinstance(delta, dict) else None
    return message if isinstance(message, dict) else {}


def _call(payload: Mapping[str, Any]) -> tuple[dict[str, Any] | None, tuple[str | int, ...]]:
    """Returns the call of an event, and its path: one object, though the field's name is in the plural."""
    path: tuple[str | int, ...] = ("delta", "message", "tool_calls")
    call = _message(payload).get("tool_calls")
    if isinstance(call, list) and len(call) == 1:
        call, path = call[0], (*path, 0)
    return (call if isinstance(call, dict) else None), path


def _has_arguments(call: Mapping[str, Any]) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and bool(function.get("arguments"))


def _bare_error(payload: Mapping[str, Any]) -> ProviderError | None:
    """Returns an error as the API answers a bad request: nothing but a message."""
    message = read_text(payload.get("message"))
    return ProviderError(message) if message and not payload.keys() & {"type", "event_type"} else None


_HANDLERS: dict[str, Callable[[CohereDecoder, dict[str, Any]], None]] = {
    "message-start": CohereDecoder._message_start,
    "content-start": CohereDecoder._content_start,
    "content-delta": CohereDecoder._content_delta,
    "content-end": CohereDecoder._content_end,
    "tool-plan-delta": CohereDecoder._tool_plan_delta,
    "tool-call-start": CohereDecoder._tool_call_start,
    "tool-call-delta": CohereDecoder._tool_call_delta,
    "tool-call-end": CohereDecoder._tool_call_end,
    "citation-start": CohereDecoder._citation_start,
    "citation-end": CohereDecoder._citation_end,
    "message-end": CohereDecoder._message_end,
    "debug": CohereDecoder._debug,
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
