"""Messages stream events in, events out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from ...errors import RemoteProtocolError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ...text import well_formed
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import caller_of, label_of, malformed, named_error, read_text, rest_of
from .facts import BLOCK_FIELDS, CALL_BLOCKS, DELTA_FIELDS, EVENT_FIELDS

__all__ = ["AnthropicDecoder"]

_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
    "compaction": "pause",  # the turn goes back, compacted
    "refusal": "content_filter",
    # compatible servers
    "stop": "stop",
    "tool_calls": "tool_calls",
    "length": "length",
}
_BAD_NEWS = frozenset({"length", "content_filter"})  # a finish that no later one takes back


@dataclass(slots=True)
class _Block:
    """A content block that has started."""

    type: str
    raw: dict[str, Any] = field(default_factory=dict)
    open: bool = True
    left: bool = False  # another block's text was told since, so that this one's is in pieces
    input: tuple[str, str | None] | None = None  # arguments that came with the start, and what is wrong with them
    has_input: bool = False  # some input_json_delta carried text
    signature: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
    pieces: dict[str, list[str]] = field(default_factory=dict)  # growing fields of an opaque block
    opaque: bool = False  # kept as it is
    foreign: bool = False  # had deltas that nobody understands, so that it cannot be given back

    @property
    def is_bare(self) -> bool:
        """True for a call without any arguments so far: unless the wire ends it, nobody knows if there are none."""
        return self.type in CALL_BLOCKS and not self.has_input and self.input is None


class AnthropicDecoder(WireDecoder):
    """Decodes one Messages response."""

    plain = tuple(
        PlainDelta(("delta", name), {(): frozenset({"index", "type"}), ("delta",): frozenset({"type"})})
        for name in ("text", "thinking", "partial_json")
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._message_id: object = None
        self._blocks: dict[object, _Block] = {}
        self._block_count = 0
        self._current: object = None  # index of the block whose text or thinking is being told
        self._delta_names: list[object] = []  # the fields of a delta that has no other, and its type
        self._has_calls = False
        self._stopped = False

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Takes one stream event."""
        kind = payload.get("type")
        out = self.out = []
        self._payload, self._exact = payload, None
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, payload)
            if kind != "content_block_delta" and kind in EVENT_FIELDS:
                self.emit_unread(payload, EVENT_FIELDS[kind])
        else:
            self.read_foreign(payload)
        return out

    # -- the message --

    def _message_start(self, payload: dict[str, Any]) -> None:
        message = payload.get("message")
        if not isinstance(message, dict):
            self.fail(malformed("'message' of message_start is no object"))
            return
        if self._started:
            if message.get("id") == self._message_id:
                self.warn("duplicate_message_start")
            else:
                self.fail(RemoteProtocolError("message_start while another message is open"))
            return
        self._message_id = message.get("id")
        self.emit_start(message.get("model"), self._message_id)
        self.read_usage(message.get("usage"))
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):  # programmatic tool calling
            if isinstance(block, dict):
                path = ("message", "content", index, "input")
                self._block_start({"index": ("start", index), "content_block": block}, path)
                self._block_stop({"index": ("start", index)})
        self._stop_reason(message.get("stop_reason"))

    def _message_delta(self, payload: dict[str, Any]) -> None:
        delta = payload.get("delta")
        if isinstance(delta, dict):
            self._stop_reason(delta.get("stop_reason"))
        self.read_usage(payload.get("usage"))

    def _message_stop(self, _: dict[str, Any]) -> None:
        self._stopped = True
        self.done = True

    def _error(self, payload: dict[str, Any]) -> None:
        self.fail_by(payload, named_error(payload))

    def _ping(self, _: dict[str, Any]) -> None:
        """Keeps the connection alive."""

    def _stop_reason(self, reason: object) -> None:
        if not isinstance(reason, str) or not reason:
            return
        if self._finish_raw not in (None, reason):
            self.warn("conflicting_finish_reason")
            if _FINISHES.get(self._finish_raw or "") in _BAD_NEWS:
                return
        self._finish_raw = reason

    # -- blocks --

    def _block_start(self, payload: dict[str, Any], path: tuple[str | int, ...] = ("content_block", "input")) -> None:
        index, raw = payload.get("index"), payload.get("content_block")
        if not isinstance(raw, dict) or isinstance(index, (dict, list)):
            self.fail(malformed("'content_block' of content_block_start is no object, or its index no number"))
            return
        if not self._started:
            self.emit_start(None, None)
        earlier = self._blocks.get(index)
        if earlier is not None and earlier.open:
            if earlier.type in CALL_BLOCKS and earlier.raw == raw and not earlier.has_input:
                self.warn("duplicate_block_start")
                return
            self.warn("missing_block_stop")
            self._stop(index, earlier, cut=earlier.is_bare)
        self._block_count += 1
        if not self.holds(self._block_count, "the message"):
            return
        kind = raw.get("type")
        block = self._blocks[index] = _Block(kind if isinstance(kind, str) else "", raw)
        starter = _STARTERS.get(block.type)
        if starter is not None:
            starter(self, index, block)
            self.emit_unread(raw, BLOCK_FIELDS[block.type], "content_block")
        elif block.type in CALL_BLOCKS:
            self._call_start(index, block, path)
        else:
            block.opaque = True
            if not block.type.endswith("_tool_result") and block.type not in _OPAQUE_BLOCKS:
                self.warn("unknown_block_type", block.type[: self.limits.max_name_bytes])

    def _text_start(self, index: object, block: _Block) -> None:
        self._turn_to(index)
        if isinstance(text := block.raw.get("text"), str) and text:
            self.emit_text(text)
        if isinstance(citations := block.raw.get("citations"), list):
            block.citations.extend(citations)

    def _thinking_start(self, index: object, block: _Block) -> None:
        self._turn_to(index)
        if isinstance(text := block.raw.get("thinking"), str) and text:
            self.emit_reasoning(text)
        if isinstance(signature := block.raw.get("signature"), str):
            block.signature.append(signature)

    def _call_start(self, index: object, block: _Block, path: tuple[str | int, ...]) -> None:
        kind = CALL_BLOCKS[block.type]
        if kind != "server":
            self._has_calls = True
        given = block.raw.get("input")
        if given:  # compatible servers; deltas, if any come, are the truth
            block.input = (given, None) if isinstance(given, str) else self.object_text(given, path)
        self.out.append(
            ToolCallFragment(
                label_of(index),
                read_text(block.raw.get("id")),
                read_text(block.raw.get("name")),
                kind=kind,
                start=True,
                provider_state=self.to_keep(rest_of(block.raw, "id", "name", "input")),
                namespace=read_text(block.raw.get("toolset_name")),
                caller=caller_of(block.raw),
            )
        )

    def _block_stop(self, payload: dict[str, Any]) -> None:
        index = payload.get("index")
        block = None if isinstance(index, (dict, list)) else self._blocks.get(index)
        if block is None:
            self.warn("stop_without_block")
        elif block.open:
            self._stop(index, block)

    def _stop(self, index: object, block: _Block, *, cut: bool = False) -> None:
        """Closes a block: at its stop, or at the end of the message, which may have cut it."""
        block.open = False
        if block.type in CALL_BLOCKS:
            text, problem = "", None
            if block.input is not None and not block.has_input:
                self.warn("input_in_block_start")
                text, problem = block.input
            cut = self.lacks_arguments(index) or cut
            self.out.append(ToolCallFragment(label_of(index), arguments=text, end=True, cut=cut, problem=problem))
        elif block.opaque:
            pieces = block.pieces | ({"signature": block.signature} if block.signature else {})
            grown = {key: "".join(parts) for key, parts in pieces.items()}
            kept = self.to_keep({**block.raw, **grown}) if block.type and not block.foreign else None
            if kept is not None:
                self.out.append(ProviderItem(block.type, kept))
            elif not cut:
                self.emit_unknown(block.raw)
        else:
            if block.left and (block.signature or block.citations):
                self.warn("interleaved_blocks")
            if index == self._current:
                if block.signature and self._open is None:  # thinking whose text is withheld, signed all the same
                    self.emit_reasoning("")
                self.end_part(self._state_of(block))
                self._current = None

    def _state_of(self, block: _Block) -> dict[str, Any] | None:
        if self._open == "reasoning":  # a signature is of the whole text, and worth nothing with a part of it
            signed = block.signature and not block.left
            return {"signature": well_formed("".join(block.signature))} if signed else None
        found, block.citations = block.citations, []
        return {"citations": kept} if found and (kept := self.to_keep(found)) else None

    # -- deltas --

    def _block_delta(self, payload: dict[str, Any]) -> None:
        index, delta = payload.get("index"), payload.get("delta")
        if not isinstance(delta, dict):
            self.emit_unknown(payload)
            return
        block = None if isinstance(index, (dict, list)) else self._blocks.get(index)
        if block is None:
            self.warn("delta_without_block")
        if not self._started:
            self.emit_start(None, None)
        kind = delta.get("type")
        handler = _DELTAS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, index, block, delta)
            names = [*payload, kind, *delta]
            if names != self._delta_names and not self._tell_rest(payload, delta, kind):
                self._delta_names = names
            return
        if block is not None:
            block.foreign = True
        self.warn("unknown_delta_type", str(kind)[: self.limits.max_name_bytes])
        self.emit_unknown(delta)

    def _tell_rest(self, payload: dict[str, Any], delta: dict[str, Any], kind: object) -> bool:
        """Emits the fields of a delta that are not read; returns whether there are any."""
        inside = kind in DELTA_FIELDS and self.emit_unread(delta, DELTA_FIELDS[str(kind)], "delta")
        return self.emit_unread(payload, EVENT_FIELDS["content_block_delta"]) or inside

    def _text_delta(self, index: object, block: _Block | None, delta: dict[str, Any]) -> None:
        self._told(index, block, "text")
        if isinstance(text := delta.get("text"), str) and text:
            self.emit_text(text)

    def _thinking_delta(self, index: object, block: _Block | None, delta: dict[str, Any]) -> None:
        self._told(index, block, "thinking")
        if isinstance(text := delta.get("thinking"), str) and text:
            self.emit_reasoning(text)

    def _told(self, index: object, block: _Block | None, type_: str) -> None:
        if block is not None and block.type != type_:
            self.warn("mismatched_delta", f"{type_} in a {block.type[: self.limits.max_name_bytes]} block")
        elif index != self._current:
            self._turn_to(index)

    def _turn_to(self, index: object) -> None:
        """Tells this block from here on."""
        told = None if isinstance(self._current, (dict, list)) else self._blocks.get(self._current)
        if told is not None and self._open is not None:
            told.left = True
        self.end_part()
        self._current = index

    def _signature_delta(self, _: object, block: _Block | None, delta: dict[str, Any]) -> None:
        signature = delta.get("signature")
        if block is not None and isinstance(signature, str) and signature and self.charge(signature):
            block.signature.append(signature)

    def _citations_delta(self, _: object, block: _Block | None, delta: dict[str, Any]) -> None:
        if block is not None and not block.open:
            self.warn("delta_after_stop")
        elif block is not None and self.charge(citation := delta.get("citation")):
            block.citations.append(citation)

    def _compaction_delta(self, _: object, block: _Block | None, delta: dict[str, Any]) -> None:
        if block is None:
            return
        for key, value in delta.items():
            if key in ("content", "encrypted_content") and isinstance(value, str):
                block.pieces.setdefault(key, []).append(self._bounded("compaction", value))
            elif key != "type" and value is not None and self.charge(value):
                block.raw = {**block.raw, key: value}

    def _input_delta(self, index: object, block: _Block | None, delta: dict[str, Any]) -> None:
        text = delta.get("partial_json")
        if not isinstance(text, str) or not text:
            return
        if block is not None and block.open and block.type in CALL_BLOCKS:
            block.has_input = True
            self.out.append(ToolCallFragment(label_of(index), arguments=text))
            return
        self.lose_arguments(index)
        if block is not None and not block.open:
            self.warn("delta_after_stop")
        elif block is not None:
            self.warn("mismatched_delta", f"input_json in a {block.type[: self.limits.max_name_bytes]} block")

    # -- the end --

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        finish = _FINISHES.get(self._finish_raw, "other") if self._finish_raw else None
        whole = self._stopped and self.error is None
        for index, block in self._blocks.items():
            if block.open:
                if whole and (block.type in CALL_BLOCKS or block.opaque):
                    self.warn("missing_block_stop")
                self._stop(index, block, cut=not whole or block.is_bare)  # as if they had been lost with the stop
        if finish == "tool_calls" and not self._has_calls:
            self.warn("finish_without_calls")
        return self.normalized(finish, self._has_calls), self._stopped


# Blocks that are kept whole and given back without being looked into.
_OPAQUE_BLOCKS = frozenset({"redacted_thinking", "container_upload", "compaction", "fallback", "mcp_tool_listing"})
_STARTERS: dict[str, Callable[[AnthropicDecoder, object, _Block], None]] = {
    "text": AnthropicDecoder._text_start,
    "thinking": AnthropicDecoder._thinking_start,
}
_DELTAS: dict[str, Callable[[AnthropicDecoder, object, _Block | None, dict[str, Any]], None]] = {
    "text_delta": AnthropicDecoder._text_delta,
    "thinking_delta": AnthropicDecoder._thinking_delta,
    "signature_delta": AnthropicDecoder._signature_delta,
    "citations_delta": AnthropicDecoder._citations_delta,
    "compaction_delta": AnthropicDecoder._compaction_delta,
    "input_json_delta": AnthropicDecoder._input_delta,
}
_HANDLERS: dict[str, Callable[[AnthropicDecoder, dict[str, Any]], None]] = {
    "message_start": AnthropicDecoder._message_start,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "error": AnthropicDecoder._error,
    "ping": AnthropicDecoder._ping,
}
