"""Lines of Ollama's chat in, events out."""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from ...events import Event, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import KnownFields, malformed, provider_error, read_text, rest_of, says_something
from .facts import END_FIELDS, LINE_FIELDS, REMOTE

# "load" and "unload" answer requests without a prompt. Some imitations have a word for calls.
_FINISHES: dict[str, Finish] = {"stop": "stop", "length": "length", "tool_calls": "tool_calls"}


class OllamaDecoder(WireDecoder):
    """Decodes one response of ``/api/chat``, or of ``/api/generate``, which has text and no calls."""

    plain = tuple(
        PlainDelta(
            path,
            {(): frozenset({"created_at", "done", "model", *REMOTE}), ("message",): frozenset({"role"})},
            varies=frozenset({("created_at",)}),
        )
        for path in (("message", "content"), ("message", "thinking"), ("response",), ("thinking",))
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._has_calls = False
        self._ended = False
        self._remote: dict[str, Any] = {}  # what stands on every line, as it was told

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        out = self.out = []
        self._payload, self._exact = payload, None
        if "error" in payload and (error := provider_error(payload)):
            self.fail_by(payload, error)
            return out
        message, response = payload.get("message"), payload.get("response")
        if not isinstance(message, dict) and not isinstance(response, str) and "done" not in payload:
            self.warn("unknown_event")
            self.emit_unknown(payload)
            return out
        if not self._started:
            self.emit_start(payload.get("model"), None)
        if isinstance(message, dict):
            self._message(message)
        elif message is not None:
            self.fail(malformed("'message' of a line is not an object"))
        else:
            self._emit_texts(payload.get("thinking"), response)
        self._emit_rest(payload, LINE_FIELDS[isinstance(message, dict)])
        if payload.get("done") is True and not self.done:
            self._end(payload)
        return out

    def _emit_rest(self, payload: dict[str, Any], fields: KnownFields) -> None:
        rest = payload if payload.get("done") is not True else rest_of(payload, *END_FIELDS)
        self.emit_unread(rest, fields)
        remote = {key: payload[key] for key in REMOTE & payload.keys() if says_something(payload[key])}
        if remote and remote != self._remote:
            self._remote = remote
            self.emit_unknown(remote, "")

    def _message(self, message: dict[str, Any]) -> None:
        self._emit_texts(message.get("thinking"), message.get("content"))
        calls = message.get("tool_calls")
        if isinstance(calls, dict):
            self._call(calls, ("message", "tool_calls"))
        elif isinstance(calls, list):
            for number, call in enumerate(calls):
                if call is not None:
                    self._call(call, ("message", "tool_calls", number))
        elif calls is not None:
            self.emit_unknown({"tool_calls": calls})
        if images := message.get("images"):
            self.emit_unknown({"images": images})

    def _emit_texts(self, thinking: object, text: object) -> None:
        for name, found, emit in (("thinking", thinking, self.emit_reasoning), ("content", text, self.emit_text)):
            if isinstance(found, str):
                if found:
                    emit(found)
            elif found is not None:
                self.emit_unknown({name: found})

    def _call(self, call: object, path: tuple[str | int, ...]) -> None:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            self.fail(malformed("a tool call is not an object, or has no function"))
            return
        self.end_part()
        self._has_calls = True
        if isinstance(given := function.get("arguments"), str):
            self.warn("arguments_text")
        text, problem = self.arguments_text(given, (*path, "function", "arguments"))
        index = function.get("index")
        self.out.append(
            ToolCallFragment(
                None,  # the index has been 0 for all of them (ollama/ollama#15457), and a call comes whole anyway
                read_text(call.get("id")),
                read_text(function.get("name")),
                text,
                start=True,
                end=True,
                problem=problem,
                provider_state={"index": index} if isinstance(index, int) else None,
            )
        )

    def _end(self, payload: dict[str, Any]) -> None:
        reason = payload.get("done_reason")
        if isinstance(reason, str) and reason:
            self._finish_raw = reason
        self.read_usage(payload)
        self._ended = self.done = True

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        if not self._ended:
            return None, False
        if self._finish_raw is None:  # servers from before the field, and those that only look like Ollama
            self.warn("missing_done_reason")
        finish = _FINISHES.get(self._finish_raw or "stop", "other")
        # Ollama has no word for calls: "stop" is what a turn with calls ends with.
        return ("tool_calls" if finish == "stop" and self._has_calls else finish), True
