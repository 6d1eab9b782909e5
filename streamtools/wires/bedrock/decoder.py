"""ConverseStream events in, events out."""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import override

from ...errors import ProviderError, RemoteProtocolError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ...text import well_formed
from ..decoder import WireDecoder
from ..plain import PlainDelta
from ..reading import label_of, malformed, read_text, rest_of
from .facts import EVENT_FIELDS, NOISE

__all__ = ["BedrockDecoder"]

_FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}
# What the model wrote could not be read by the service: no answer, even if a call came out of it.
_CONDEMNED = {"malformed_tool_use": "malformed_function_call", "malformed_model_output": "provider_error"}
_KNOWN_OF_INPUT = frozenset({"input"})
_NOWHERE = object()  # no block's index
_OPAQUE_REASONING = ("signature", "redactedContent", "data")  # "data": the name that the blob had in earlier SDKs


class BedrockDecoder(WireDecoder):
    """Decodes one ConverseStream response."""

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
        self._blocks: dict[object, StartedBlock] = {}
        self._block_count = 0
        self._current: StartedBlock | None = None  # the block whose text or reasoning is being told
        self._current_index: object = _NOWHERE
        self._has_calls = False
        self._stopped = False
        self._metered = False

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Takes one event, or several in one object."""
        out = self.out = []
        self._payload, self._exact = payload, None
        known = False
        for name, event in payload.items():
            if handler := _HANDLERS.get(name):
                known = True
                self._event(name, event, handler)
        if not known:
            self.read_foreign(payload)
        elif len(payload) > 1:
            self.emit_beside(payload, _HANDLERS.keys() | NOISE, "")
        return out

    def _event(self, name: str, event: object, handler: Callable[[BedrockDecoder, dict[str, Any]], None]) -> None:
        if not isinstance(event, dict):
            self.fail(malformed(f"'{name}' is no object"))
        elif isinstance(event.get("contentBlockIndex"), (dict, list)):
            self.fail(malformed(f"the contentBlockIndex of {name} is no number"))
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
        elif self._blocks:
            self.fail(RemoteProtocolError("messageStart while another message is open"))
        else:
            self.warn("duplicate_message_start")

    def _message_stop(self, event: dict[str, Any]) -> None:
        if isinstance(reason := event.get("stopReason"), str) and reason:
            self._finish_raw = reason
        for index, block in self._blocks.items():
            if block.open:
                if block.kind == "toolUse" or block.opaque:
                    self.warn("missing_block_stop")
                self._stop(index, block)
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
            self.fail(malformed("'start' of contentBlockStart is no object"))
            return
        earlier = self._blocks.get(index)
        if earlier is not None and earlier.open:
            if earlier.kind == "toolUse" and start == {"toolUse": earlier.raw} and not earlier.has_input:
                self.warn("duplicate_block_start")
                return
            self.warn("missing_block_stop")
            self._stop(index, earlier, cut=earlier.is_bare)
        kind, body = next(((str(k), v) for k, v in (start or {}).items() if v is not None), ("", {}))
        block = self._begin(index, kind)
        if block is None:
            return
        if kind == "toolUse" or kind in OPAQUE_BLOCKS:
            self.emit_beside(start or {}, {kind}, "contentBlockStart.start")
        if kind == "toolUse":
            self._call_start(index, block, body)
        elif kind in OPAQUE_BLOCKS and isinstance(body, dict):
            self.charge(body)
            block.raw = dict(body)
        elif kind:
            self.warn("unknown_block_type", kind[: self.limits.max_name_bytes])
            self.emit_unknown({"start": start})

    def _call_start(self, index: object, block: StartedBlock, use: object) -> None:
        if not isinstance(use, dict):
            self.fail(malformed("'toolUse' of contentBlockStart is no object"))
            return
        block.raw = use
        # The service gives calls of ours the type "tool_use", too, which it does not take back.
        extra = rest_of(use, "toolUseId", "name", "input")
        server = extra.get("type") == "server_tool_use"
        if not server:
            extra.pop("type", None)
            self._has_calls = True
        if (given := use.get("input")) and self.charge(given):
            path = ("contentBlockStart", "start", "toolUse", "input")
            block.input = (given, None) if isinstance(given, str) else self.object_text(given, path)
        self.out.append(
            ToolCallFragment(
                label_of(index),
                read_text(use.get("toolUseId")),
                read_text(use.get("name")),
                kind="server" if server else "function",
                start=True,
                provider_state=self.to_keep(extra) or None,
            )
        )

    def _block_stop(self, event: dict[str, Any]) -> None:
        index = event.get("contentBlockIndex")
        block = self._blocks.get(index)
        if block is None:
            self.warn("stop_without_block")
        elif block.open:
            self._stop(index, block)

    def _begin(self, index: object, kind: str) -> StartedBlock | None:
        if not self._started:
            self.emit_start(None, None)
        self._block_count += 1
        if not self.holds(self._block_count, "the message"):
            return None
        block = self._blocks[index] = StartedBlock(kind)
        return block

    def _stop(self, index: object, block: StartedBlock, *, cut: bool = False) -> None:
        """Closes a block: at its stop, or at the end of the message, which may have cut it."""
        block.open = False
        if block.kind == "toolUse":
            text, problem = "", None
            if block.input is not None and not block.has_input:
                self.warn("input_in_block_start")
                text, problem = block.input
            is_cut = self.lacks_arguments(index) or cut
            self.out.append(ToolCallFragment(label_of(index), arguments=text, end=True, cut=is_cut, problem=problem))
        if block.signature and block is not self._current and not block.left and not cut:
            self._leave()
            self.emit_reasoning("")  # withheld, and signed all the same
            self._current = block
        if block is self._current:
            self.end_part(None if cut else self._state_of(block))
            self._current, self._current_index = None, _NOWHERE
        if cut:
            return
        if block.citations:
            self.emit_unknown({"citations": block.citations})
        if block.opaque:
            kept = self.to_keep(whole) if (whole := block.whole()) else None
            if kept is None:
                self.emit_unknown({block.kind: block.raw})
            else:
                self.out.append(ProviderItem(next(iter(kept)), kept))

    def _state_of(self, block: StartedBlock) -> dict[str, Any] | None:
        """Returns the state that goes back with the part that ends."""
        if self._open == "reasoning":  # a signature is of the whole text, and worth nothing with a part of it
            signed = block.signature and not block.left
            return {"signature": well_formed("".join(block.signature))} if signed else None
        citations, block.citations = block.citations, []
        kept = self.to_keep(citations) if citations else None
        return {"citations": kept} if kept else None

    def _leave(self) -> None:
        """Ends the part that is being told, since another block's text comes, though this one has not been stopped."""
        if self._current is not None:
            self.end_part(self._state_of(self._current))
            self._current.left = True
            self._current, self._current_index = None, _NOWHERE

    # -- deltas --

    def _block_delta(self, event: dict[str, Any]) -> None:
        index, delta = event.get("contentBlockIndex"), event.get("delta")
        if not isinstance(delta, dict):
            self.fail(malformed("'delta' of contentBlockDelta is no object"))
            return
        for name, value in delta.items():
            handler = _DELTAS.get(name)
            if value is None or (handler is not None and handler(self, index, name, value)):
                continue
            if (block := self._blocks.get(index)) is not None:
                block.foreign = True
            self.warn("unknown_delta_type", str(name)[: self.limits.max_name_bytes])
            self.emit_unknown({"delta": {name: value}})

    def _block(self, index: object, kind: str) -> StartedBlock | None:
        """Returns the block that a delta of this kind belongs to; None if there are too many."""
        block = self._blocks.get(index)
        if block is None:
            return self._begin(index, kind)
        if not block.kind:
            block.kind = kind
        elif block.kind != kind:
            self.warn("mismatched_delta", f"{kind} in a {block.kind[: self.limits.max_name_bytes]} block")
        if not block.open:
            self.warn("delta_after_stop")
        return block

    def _tell(self, index: object, block: StartedBlock) -> None:
        if block is not self._current:
            self._leave()
            self._current, self._current_index = block, index
            if block.left:
                self.warn("interleaved_blocks")

    def _text_delta(self, index: object, _: str, text: object) -> bool:
        block = self._block(index, "text")
        if isinstance(text, str) and text and block is not None:
            self._tell(index, block)
            self.emit_text(text)
        return isinstance(text, str)

    def _reasoning_delta(self, index: object, _: str, delta: object) -> bool:
        block = self._block(index, "reasoningContent")
        if block is None or not isinstance(delta, dict):
            return block is None
        understood = True
        for name, value in delta.items():
            if name == "text" and isinstance(value, str):
                if value:
                    self._tell(index, block)
                    self.emit_reasoning(value)
            elif name in _OPAQUE_REASONING and value is not None and self.charge(value):
                understood = block.keep(name, value) and understood
            else:
                understood = understood and (value is None or self.done)
        return understood

    def _kept_delta(self, index: object, name: str, value: object) -> bool:
        block = self._block(index, "text" if name == "citation" else name)
        return block is None or not self.charge(value) or block.keep(name, value)

    def _input_delta(self, index: object, _: str, use: object) -> bool:
        if not isinstance(use, dict):  # arguments that cannot be read must not be taken for none
            self.fail(malformed("'toolUse' of a delta is no object"))
            return True
        self.emit_beside(use, _KNOWN_OF_INPUT, "contentBlockDelta.delta.toolUse")
        given = use.get("input")
        block = self._blocks.get(index)
        if given and (block is None or not block.open or block.kind != "toolUse"):
            self.lose_arguments(index)
        if block is None:
            self.warn("delta_without_block")
        elif not block.open:
            self.warn("delta_after_stop")
        elif block.kind != "toolUse":
            self.warn("mismatched_delta", f"toolUse in a {block.kind[: self.limits.max_name_bytes]} block")
        elif given:
            text, problem = given, None
            if not isinstance(given, str):
                self.warn("arguments_object")
                text, problem = self.object_text(given, ("contentBlockDelta", "delta", "toolUse", "input"))
            block.has_input = True
            self.out.append(ToolCallFragment(label_of(index), arguments=text, problem=problem))
        return True

    # -- the end --

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        for index, block in self._blocks.items():
            if block.open:
                self._stop(index, block, cut=True)
        raw = self._finish_raw
        if raw in _CONDEMNED:
            said = "the service could not read what the model wrote"
            self._verdict = ProviderError(said, code=raw, kind=_CONDEMNED[raw])
        finish = _FINISHES.get(raw, "other") if raw else None
        return self.normalized(finish, self._has_calls), self._stopped


_HANDLERS: dict[str, Callable[[BedrockDecoder, dict[str, Any]], None]] = {
    "messageStart": BedrockDecoder._message_start,
    "contentBlockStart": BedrockDecoder._block_start,
    "contentBlockDelta": BedrockDecoder._block_delta,
    "contentBlockStop": BedrockDecoder._block_stop,
    "messageStop": BedrockDecoder._message_stop,
    "metadata": BedrockDecoder._metadata,
}
# Each returns whether it understood the value.
_DELTAS: dict[object, Callable[[BedrockDecoder, object, str, object], bool]] = {
    "text": BedrockDecoder._text_delta,
    "toolUse": BedrockDecoder._input_delta,
    "reasoningContent": BedrockDecoder._reasoning_delta,
    "citation": BedrockDecoder._kept_delta,
    "toolResult": BedrockDecoder._kept_delta,
    "image": BedrockDecoder._kept_delta,
}


# -- a block that grows ----------------------------------------------------------------------------------------------

# A content block while it grows: what of it goes back to the provider as it came.

OPAQUE_BLOCKS = frozenset({"toolResult", "image"})
"""Blocks that are kept whole and given back without being looked into."""


@dataclass(slots=True)
class StartedBlock:
    """A content block that has started."""

    kind: str
    """``text``, ``reasoningContent``, ``toolUse``, one of `OPAQUE_BLOCKS`; ``""`` until a delta tells."""
    open: bool = True
    left: bool = False
    """Another block's text was told since, so that this one's is in pieces."""
    input: tuple[str, str | None] | None = None
    """Arguments that came with the start, and what is wrong with them."""
    has_input: bool = False
    """Some delta brought arguments."""
    raw: dict[str, Any] = field(default_factory=dict)
    """The fields that came with the start of an opaque block or of a call, or with the deltas of an image."""
    signature: list[str] = field(default_factory=list)
    citations: list[Any] = field(default_factory=list)
    content: list[Any] = field(default_factory=list)
    """Of a tool's result."""
    blob: list[str | bytes] = field(default_factory=list)
    """Redacted reasoning, or an image: base64 on the wire, `bytes` in what botocore yields."""
    foreign: bool = False
    """It had deltas that nobody understands, so that it cannot be given back."""

    @property
    def is_bare(self) -> bool:
        """True for a call without any arguments so far: unless the wire ends it, nobody knows if there are none."""
        return self.kind == "toolUse" and not self.has_input and self.input is None

    @property
    def opaque(self) -> bool:
        """True if something in it is to be given back as it came."""
        return self.kind in OPAQUE_BLOCKS or bool(self.blob)

    def keep(self, name: str, value: Any) -> bool:
        """Takes a delta that is no text of the model's. Returns whether it was understood."""
        return _KEEPERS[name](self, value)

    def whole(self) -> dict[str, Any] | None:
        """Returns an opaque block in the shape that the API takes; None if it is not understood."""
        blob = _joined(self.blob) if self.blob else None
        if self.foreign or (self.blob and blob is None):
            return None
        if self.kind == "toolResult":
            answers = isinstance(self.raw.get("toolUseId"), str)
            return {"toolResult": {**self.raw, "content": self.content}} if answers else None
        if self.kind == "image":
            raw = self.raw if blob is None else {**self.raw, "source": {"bytes": blob}}
            return {"image": raw} if "source" in raw else None
        return {"reasoningContent": {"redactedContent": blob}}

    def _keep_signature(self, value: Any) -> bool:
        if (understood := isinstance(value, str)) and value:
            self.signature.append(value)
        return understood

    def _keep_blob(self, value: Any) -> bool:
        if (understood := isinstance(value, (str, bytes))) and value:
            self.blob.append(value)
        return understood

    def _keep_citation(self, value: Any) -> bool:
        self.citations.append(value)
        return True

    def _keep_content(self, value: Any) -> bool:
        if understood := isinstance(value, list):
            self.content.extend(value)
        return understood

    def _keep_image(self, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        source = value.get("source")
        if isinstance(source, dict) and self._keep_blob(source.get("bytes")):
            value = {key: item for key, item in value.items() if key != "source"}
        self.raw.update(value)
        return True


_KEEPERS: dict[str, Callable[[StartedBlock, Any], bool]] = {
    "signature": StartedBlock._keep_signature,
    "redactedContent": StartedBlock._keep_blob,
    "data": StartedBlock._keep_blob,
    "citation": StartedBlock._keep_citation,
    "toolResult": StartedBlock._keep_content,
    "image": StartedBlock._keep_image,
}


def _joined(pieces: list[str | bytes]) -> str | bytes | None:
    """Returns the bytes that came in these pieces, in the form of the first; None if some piece is no base64.

    Each piece of text is base64 by itself, so they cannot just be put together.
    """
    if len(pieces) == 1:
        return pieces[0]
    try:
        data = b"".join(p if isinstance(p, bytes) else binascii.a2b_base64(p, strict_mode=True) for p in pieces)
    except ValueError:
        return None
    return data if isinstance(pieces[0], bytes) else binascii.b2a_base64(data, newline=False).decode()
