"""Messages stream events in, events out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...errors import RemoteProtocolError
from ...events import ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ..growing import GrowingBlock, GrowingDecoder, Role
from ..plain import PlainDelta
from ..reading import KnownFields, caller_of, list_of, malformed, named_error, object_of, objects_in, read_text, rest_of
from .facts import BAD_NEWS, BLOCK_FIELDS, CALL_BLOCKS, DELTA_FIELDS, EVENT_FIELDS, FINISHES, OPAQUE_BLOCKS

_ROLES: dict[str, Role] = {"text": "text", "thinking": "reasoning", **dict.fromkeys(CALL_BLOCKS, "call")}


class AnthropicDecoder(GrowingDecoder):
    event_fields: ClassVar[Mapping[str, KnownFields]] = {
        kind: fields for kind, fields in EVENT_FIELDS.items() if kind != "content_block_delta"
    }
    plain = tuple(
        PlainDelta(("delta", name), {(): frozenset({"index", "type"}), ("delta",): frozenset({"type"})})
        for name in ("text", "thinking", "partial_json")
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._message_id: object = None
        self._delta_names: list[object] = []  # the fields of a delta that has no other, and its type

    # -- the message --

    def _message_start(self, payload: dict[str, Any]) -> None:
        message = payload.get("message")
        if not isinstance(message, dict):
            self.fail(malformed("'message' of message_start is not an object"))
            return
        if self._started:
            if message.get("id") == self._message_id:
                self.warn("duplicate_message_start")
            else:
                self.fail(RemoteProtocolError("message_start while another message is open"))
            return
        self._message_id = message.get("id")
        self.emit_start(message.get("model"), self._message_id)
        self._usage(message.get("usage"))
        for index, block in enumerate(list_of(message.get("content"))):
            if isinstance(block, dict):  # a message that code of its own goes on with: programmatic tool calling
                self._begin(("start", index), block, ("message", "content", index, "input"))
                self.end_at(("start", index))
        self._stop_reason(message.get("stop_reason"))
        self._container(message.get("container"))

    def _message_delta(self, payload: dict[str, Any]) -> None:
        delta = object_of(payload.get("delta"))
        self._stop_reason(delta.get("stop_reason"))
        self._container(delta.get("container"))
        if object_of(payload.get("usage")).keys() == {"output_tokens"}:
            self._counts.pop("output_tokens", None)  # also 0, of a refusal: who fills in noughts fills in the input's
        self._usage(payload.get("usage"))

    def _container(self, container: object) -> None:
        found = object_of(container)
        self.carry_on("container", found.get("id"), found.get("expires_at"))

    def _usage(self, usage: object) -> None:
        self.read_usage(usage)
        each, summed = objects_in(object_of(usage), "iterations"), Counter[str]()
        if any(one.get("type") == "fallback_message" for one in each):  # else the counts are of all that is in it
            for one in each:
                counts = dict[str, int]()
                self.usage.read(one, counts)
                summed.update(counts)
            self._counts |= summed

    def _message_stop(self, _: dict[str, Any]) -> None:
        self._stopped = self.done = True

    def _stop_reason(self, reason: object) -> None:
        if not isinstance(reason, str) or not reason:
            return
        if (before := self._finish_raw) is not None and before != reason:
            self.warn("conflicting_finish_reason")
            if FINISHES.get(before) in BAD_NEWS:
                return
        self._finish_raw = reason

    # -- blocks --

    def _block_start(self, payload: dict[str, Any]) -> None:
        index, raw = payload.get("index"), payload.get("content_block")
        if not isinstance(raw, dict) or isinstance(index, (dict, list)):
            self.fail(malformed("'content_block' of content_block_start is not an object, or its index no number"))
            return
        self._begin(index, raw, ("content_block", "input"))

    def _begin(self, index: object, raw: dict[str, Any], path: tuple[str | int, ...]) -> None:
        kind = raw.get("type")
        kind = kind if isinstance(kind, str) else ""
        block = self.begin(index, _ROLES.get(kind, "item"), kind, raw, id=raw.get("id"))
        if block is None:
            return
        if block.role == "call":
            self._begin_block_of_call(block, path)
        elif block.role != "item":
            name = block.kind  # a text's text stands under "text", a thinking's under "thinking"
            if isinstance(text := raw.get(name), str):
                self.show(block, text)
            if isinstance(citations := raw.get("citations"), list):
                block.citations.extend(citations)
            if isinstance(signature := raw.get("signature"), str) and signature:
                block.signature.append(signature)
            self.emit_unread(raw, BLOCK_FIELDS[name], "content_block")
        elif kind == "fallback":
            self._decline(block)
        elif not kind.endswith("_tool_result") and kind not in OPAQUE_BLOCKS:
            self.warn("unknown_block_type", kind[: self.limits.max_name_bytes])

    def _decline(self, block: GrowingBlock) -> None:
        """Makes the calls and the finish so far void: another model goes on behind this block, which came whole."""
        self._last_model = read_text(object_of(block.head.get("to")).get("model"))
        block.is_open = False
        self.close_places(whole=False)
        self._has_calls, self._finish_raw = False, None
        self.out.append(ToolCallFragment(disorder="declined"))
        self.end(block)
        block.role, block.is_open = "text", True  # so that nothing depends on its stop

    def _begin_block_of_call(self, block: GrowingBlock, path: tuple[str | int, ...]) -> None:
        raw, given = block.head, block.head.get("input")
        self.begin_call(
            block,
            raw.get("id"),
            raw.get("name"),
            kind=CALL_BLOCKS[block.kind],
            # Compatible servers give the arguments here; deltas, if any come, are the truth.
            given=self.arguments_text(given, path) if given else None,
            state=self.to_keep(rest_of(raw, "id", "name", "input")),
            namespace=raw.get("toolset_name"),
            caller=caller_of(raw),
        )

    def _block_stop(self, payload: dict[str, Any]) -> None:
        index = payload.get("index")
        self.end_at(None if isinstance(index, (dict, list)) else index)

    @override
    def whole_of(self, place: GrowingBlock) -> Any:
        pieces = place.pieces | ({"signature": place.signature} if place.signature else {})
        return {**place.head, **{key: "".join(parts) for key, parts in pieces.items()}} if place.kind else None

    # -- deltas --

    def _block_delta(self, payload: dict[str, Any]) -> None:
        index, delta = payload.get("index"), payload.get("delta")
        if not isinstance(delta, dict) or isinstance(index, (dict, list)):
            self.emit_unknown(payload)
            return
        if not self._started:
            self.emit_start(None, None)
        kind = delta.get("type")
        handler = _DELTAS.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            handler(self, index, delta)
            names = [*payload, kind, *delta]
            if names != self._delta_names and not self._emit_rest(payload, delta, kind):
                self._delta_names = names
            return
        if (block := self._places.get(index)) is not None:
            block.is_foreign = True
        self.warn("unknown_delta_type", str(kind)[: self.limits.max_name_bytes])
        self.emit_unknown(delta)

    def _emit_rest(self, payload: dict[str, Any], delta: dict[str, Any], kind: object) -> bool:
        inside = kind in DELTA_FIELDS and self.emit_unread(delta, DELTA_FIELDS[str(kind)], "delta")
        return self.emit_unread(payload, EVENT_FIELDS["content_block_delta"]) or inside

    def _text_delta(self, index: object, delta: dict[str, Any]) -> None:
        if isinstance(text := delta.get("text"), str):
            self.grow_text(index, "text", "text", text)

    def _thinking_delta(self, index: object, delta: dict[str, Any]) -> None:
        if isinstance(text := delta.get("thinking"), str):
            self.grow_text(index, "reasoning", "thinking", text)

    def _signature_delta(self, index: object, delta: dict[str, Any]) -> None:
        block, signature = self._places.get(index), delta.get("signature")
        if block is not None and isinstance(signature, str) and signature and self.charge(signature):
            block.signature.append(signature)

    def _citations_delta(self, index: object, delta: dict[str, Any]) -> None:
        block = self._places.get(index)
        if block is not None and not block.is_open:
            self.warn("delta_after_stop")
        elif block is not None and self.charge(citation := delta.get("citation")):
            block.citations.append(citation)

    def _compaction_delta(self, index: object, delta: dict[str, Any]) -> None:
        if (block := self._places.get(index)) is None:
            return
        for key, value in delta.items():
            if key in ("content", "encrypted_content") and isinstance(value, str):
                block.pieces.setdefault(key, []).append(self._bounded("compaction", value))
            elif key != "type" and value is not None and self.charge(value):
                block.head = {**block.head, key: value}

    def _input_delta(self, index: object, delta: dict[str, Any]) -> None:
        given = delta.get("partial_json")
        if isinstance(given, str):
            if given:
                self.grow_call(index, given)
        elif given is not None:  # arguments that cannot be read must not be taken for none
            self.warn("arguments_object")
            self.grow_call(index, *self.object_text(given, ("delta", "partial_json")))

    # -- the end --

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        finish = FINISHES.get(self._finish_raw, "other") if self._finish_raw else None
        self.close_places(whole=self._stopped and self.error is None)
        if finish == "tool_calls" and not self._has_calls:
            self.warn("finish_without_calls")
        return self.normalized(finish, self._has_calls), self._stopped


_DELTAS: dict[str, Callable[[AnthropicDecoder, object, dict[str, Any]], None]] = {
    "text_delta": AnthropicDecoder._text_delta,
    "thinking_delta": AnthropicDecoder._thinking_delta,
    "signature_delta": AnthropicDecoder._signature_delta,
    "citations_delta": AnthropicDecoder._citations_delta,
    "compaction_delta": AnthropicDecoder._compaction_delta,
    "input_json_delta": AnthropicDecoder._input_delta,
}
AnthropicDecoder.handlers = {
    "message_start": AnthropicDecoder._message_start,
    "content_block_start": AnthropicDecoder._block_start,
    "content_block_delta": AnthropicDecoder._block_delta,
    "content_block_stop": AnthropicDecoder._block_stop,
    "message_delta": AnthropicDecoder._message_delta,
    "message_stop": AnthropicDecoder._message_stop,
    "error": lambda self, payload: self.fail_by(payload, named_error(payload)),
    "ping": lambda self, payload: None,
}
