"""ConverseStream events in, events out."""

from __future__ import annotations

import binascii
from collections.abc import Callable, Mapping
from typing import Any

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event
from ...limits import Limits
from ...parts import Finish
from ..growing import GrowingBlock, GrowingDecoder, Handler, Role
from ..plain import PlainDelta
from ..reading import malformed, object_of, rest_of
from .facts import CONDEMNED, EVENT_FIELDS, FINISHES, NOISE, OPAQUE_BLOCKS

_ROLES: Mapping[str, Role] = {"text": "text", "reasoningContent": "reasoning", "toolUse": "call"}
_OF_INPUT = frozenset({"input"})
_OF_REASONING = ("signature", "redactedContent", "data")  # "data": the name that the blob had in earlier SDKs


class BedrockDecoder(GrowingDecoder):
    unmarked = frozenset({"text", "reasoningContent", *OPAQUE_BLOCKS})
    plain = tuple(
        PlainDelta(
            ("contentBlockDelta", "delta", *path),
            {("contentBlockDelta",): frozenset({"contentBlockIndex", "p"})},
            varies=frozenset({("contentBlockDelta", "p")}),
        )
        for path in (("text",), ("reasoningContent", "text"), ("toolUse", "input"))
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._metered = False

    @override
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        out = self.out = []
        self._payload, self._exact = payload, None
        known = False
        for name, event in payload.items():
            if handler := self.handlers.get(name):
                known = True
                self._event(name, event, handler)
        if not known:
            self.read_foreign(payload)
        elif len(payload) > 1:
            self.emit_beside(payload, self.handlers.keys() | NOISE, "")
        return out

    def _event(self, name: str, event: object, handler: Handler) -> None:
        if not isinstance(event, dict):
            self.fail(malformed(f"'{name}' is not an object"))
        elif isinstance(event.get("contentBlockIndex"), (dict, list)):
            self.fail(malformed(f"the contentBlockIndex of {name} is not a number"))
        elif self._stopped and name != "metadata":
            self.warn("event_after_stop")
            self.emit_unknown({name: event})
        else:
            handler(self, event)
            self.emit_unread(event, EVENT_FIELDS[name], name)

    # -- the message --

    def _message_start(self, _: dict[str, Any]) -> None:
        if not self._started:
            self.emit_start(None, None)
        elif self._places:
            self.fail(RemoteProtocolError("messageStart while another message is open"))
        else:
            self.warn("duplicate_message_start")

    def _message_stop(self, event: dict[str, Any]) -> None:
        if isinstance(reason := event.get("stopReason"), str) and reason:
            self._finish_raw = reason
        self.close_places(whole=True)
        self._stopped = True
        self.done = self.done or self._metered

    def _metadata(self, event: dict[str, Any]) -> None:
        if isinstance(usage := event.get("usage"), dict):
            self.read_usage(usage)
            self._metered = True
        self.done = self.done or (self._stopped and self._metered)

    # -- blocks --

    def _block_start(self, event: dict[str, Any]) -> None:
        index, start = event.get("contentBlockIndex"), event.get("start")
        if start is not None and not isinstance(start, dict):
            self.fail(malformed("'start' of contentBlockStart is not an object"))
            return
        kind, body = next(((str(k), v) for k, v in (start or {}).items() if v is not None), ("", {}))
        if kind == "toolUse" and not isinstance(body, dict):
            self.fail(malformed("'toolUse' of contentBlockStart is not an object"))
            return
        head = dict(body) if isinstance(body, dict) else {}
        block = self.begin(index, _ROLES.get(kind, "item"), kind, head, id=head.get("toolUseId"))
        if block is None:
            return
        if kind == "toolUse" or kind in OPAQUE_BLOCKS:
            self.emit_beside(start or {}, {kind}, "contentBlockStart.start")
        if kind == "toolUse":
            self._begin_block_of_call(block)
        elif kind in OPAQUE_BLOCKS and isinstance(body, dict):
            self.charge(head)
        elif kind:
            self.warn("unknown_block_type", kind[: self.limits.max_name_bytes])
            self.emit_unknown({"start": start})

    def _begin_block_of_call(self, block: GrowingBlock) -> None:
        use, given = block.head, block.head.get("input")
        # The service gives calls of ours the type "tool_use", too, which it does not take back.
        extra = rest_of(use, "toolUseId", "name", "input")
        server = extra.get("type") == "server_tool_use"
        if not server:
            extra.pop("type", None)
        path = ("contentBlockStart", "start", "toolUse", "input")
        self.begin_call(
            block,
            use.get("toolUseId"),
            use.get("name"),
            kind="server" if server else "function",
            given=self.arguments_text(given, path) if given and self.charge(given) else None,
            state=self.to_keep(extra) or None,
        )

    @override
    def is_kept(self, place: GrowingBlock) -> bool:
        return place.kind in OPAQUE_BLOCKS or "blob" in place.pieces

    @override
    def whole_of(self, place: GrowingBlock) -> Any:
        blob = _joined(place.pieces["blob"]) if "blob" in place.pieces else None
        if "blob" in place.pieces and blob is None:
            return None
        if place.kind == "toolResult":
            answers = isinstance(place.head.get("toolUseId"), str)
            return {"toolResult": {**place.head, "content": place.pieces.get("content", [])}} if answers else None
        if place.kind == "image":
            raw = place.head if blob is None else {**place.head, "source": {"bytes": blob}}
            return {"image": raw} if "source" in raw else None
        return {"reasoningContent": {"redactedContent": blob}}

    @override
    def lose(self, place: GrowingBlock) -> None:
        self.emit_unknown({place.kind: place.head})

    # -- deltas --

    def _block_delta(self, event: dict[str, Any]) -> None:
        index, delta = event.get("contentBlockIndex"), event.get("delta")
        if not isinstance(delta, dict):
            self.fail(malformed("'delta' of contentBlockDelta is not an object"))
            return
        for name, value in delta.items():
            handler = _DELTAS.get(name)
            if value is None or (handler is not None and handler(self, index, name, value)):
                continue
            if (block := self._places.get(index)) is not None:
                block.is_foreign = True
            self.warn("unknown_delta_type", str(name)[: self.limits.max_name_bytes])
            self.emit_unknown({"delta": {name: value}})

    def _text_delta(self, index: object, _: str, text: object) -> bool:
        if isinstance(text, str):
            self.grow_text(index, "text", "text", text)
        return isinstance(text, str)

    def _reasoning_delta(self, index: object, _: str, delta: object) -> bool:
        block = self.place_for(index, "reasoning", "reasoningContent")
        if block is None or not isinstance(delta, dict):
            return block is None
        understood = True
        for name, value in delta.items():
            if name == "text" and isinstance(value, str):
                self.show(block, value)
            elif name in _OF_REASONING and value is not None and self.charge(value):
                understood = _keep(block, name, value) and understood
            else:
                understood = understood and (value is None or self.done)
        return understood

    def _kept_delta(self, index: object, name: str, value: object) -> bool:
        kind = "text" if name == "citation" else name
        block = self.place_for(index, _ROLES.get(kind, "item"), kind)
        return block is None or not self.charge(value) or _keep(block, name, value)

    def _input_delta(self, index: object, _: str, use: object) -> bool:
        if not isinstance(use, dict):  # arguments that cannot be read must not be taken for none
            self.fail(malformed("'toolUse' of a delta is not an object"))
            return True
        self.emit_beside(use, _OF_INPUT, "contentBlockDelta.delta.toolUse")
        given = use.get("input")
        if isinstance(given, str):
            if given:
                self.grow_call(index, given)
        elif given:
            self.warn("arguments_object")
            self.grow_call(index, *self.object_text(given, ("contentBlockDelta", "delta", "toolUse", "input")))
        return True

    # -- the end --

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        self.close_places(whole=False)
        raw = self._finish_raw
        if raw in CONDEMNED:
            why = "the service could not read the model's output"
            self._verdict = ProviderError(why, code=raw, kind=CONDEMNED[raw])
        finish = FINISHES.get(raw, "other") if raw else None
        return self.normalized(finish, self._has_calls), self._stopped


BedrockDecoder.handlers = {
    "messageStart": BedrockDecoder._message_start,
    "contentBlockStart": BedrockDecoder._block_start,
    "contentBlockDelta": BedrockDecoder._block_delta,
    "contentBlockStop": lambda self, event: self.end_at(event.get("contentBlockIndex")),
    "messageStop": BedrockDecoder._message_stop,
    "metadata": BedrockDecoder._metadata,
}
# Each returns whether it understood the value.
_DELTAS: dict[object, Callable[[BedrockDecoder, object, str, object], bool]] = {
    "text": BedrockDecoder._text_delta,
    "reasoningContent": BedrockDecoder._reasoning_delta,
    "toolUse": BedrockDecoder._input_delta,
    "citation": BedrockDecoder._kept_delta,
    "toolResult": BedrockDecoder._kept_delta,
    "image": BedrockDecoder._kept_delta,
}


# -- what a block keeps --


def _keep(block: GrowingBlock, name: str, value: Any) -> bool:
    match name, value:
        case "signature", str():
            block.signature.extend([value] if value else ())
        case (("redactedContent" | "data"), (str() | bytes())):  # base64 on the wire, `bytes` in what botocore yields
            if value:
                block.pieces.setdefault("blob", []).append(value)
        case "citation", _:
            block.citations.append(value)
        case "toolResult", list():
            block.pieces.setdefault("content", []).extend(value)
        case "image", dict():
            if _keep(block, "data", object_of(value.get("source")).get("bytes")):
                value = rest_of(value, "source")
            block.head = {**block.head, **value}
        case _:
            return False
    return True


def _joined(pieces: list[str | bytes]) -> str | bytes | None:
    """Returns the bytes in these pieces, each base64 by itself, in the form of the first; None if one is not."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        data = b"".join(p if isinstance(p, bytes) else binascii.a2b_base64(p, strict_mode=True) for p in pieces)
    except ValueError:
        return None
    return data if isinstance(pieces[0], bytes) else binascii.b2a_base64(data, newline=False).decode()
