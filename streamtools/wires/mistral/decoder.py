"""Mistral's chat chunks in, events out: the Chat Completions decoder, and what Mistral does differently.

A ``thinking`` chunk comes in pieces and goes back whole: the texts of one run of them are joined; what stands between
the texts (references), and beside them (``signature``, ``closed``), stays as it came. Dropping or flattening it makes
the model worse (mistralai/client-python, ``examples/mistral/chat/reasoning_multi_turn.py``; vercel/ai#17930).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from typing_extensions import override

from ...errors import RemoteProtocolError
from ...events import Event, ProviderItem
from ...limits import Limits
from ..marks import is_conversation_event
from ..openai_chat.decoder import OpenAIChatDecoder
from ..openai_chat.facts import TEXT_BLOCK
from ..reading import Path, place_of, says_something
from .facts import CONVERSATION

# Of the chunks that an assistant's message may hold (`ContentChunk`), those that say nothing to us.
_OPAQUE_CHUNKS = frozenset({
    "reference", "image_url", "document_url", "file", "input_audio", "resource", "resource_link",
})  # fmt: skip

_KNOWN_OF_NOTHING = frozenset({"closed", "signature", "thinking", "type"})
_TEXT = ("choices", 0, "delta", "content", 0, "thinking", 0, "text")
_BESIDE = {**OpenAIChatDecoder.plain[0].beside, _TEXT[:5]: _KNOWN_OF_NOTHING, _TEXT[:7]: TEXT_BLOCK.known}


class MistralDecoder(OpenAIChatDecoder):
    plain = (*OpenAIChatDecoder.plain, replace(OpenAIChatDecoder.plain[0], path=_TEXT, beside=_BESIDE))

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._chunk: Thinking | None = None  # the thinking that is being told
        self._kept_chunks = 0

    @override
    def feed(self, payload: dict[str, Any]) -> list[Event]:
        if not is_conversation_event(payload):
            return super().feed(payload)
        self.out = []
        self.fail(RemoteProtocolError(CONVERSATION, kind="unknown_wire"))
        return self.out

    def _block(self, block: object, path: Path) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(block, dict) or not isinstance(kind, str) or kind in ("text", "reasoning"):
            super()._block(block, path)
        elif kind == "thinking":
            self._thinking(block, path)
        else:
            self._opaque(kind, block)

    def _thinking(self, chunk: dict[str, Any], path: Path) -> None:
        if self._chunk is not None and not self._chunk.continues(chunk):
            self.end_part()
        if self._chunk is None:
            if says_nothing(chunk):
                self.emit_beside(chunk, _KNOWN_OF_NOTHING, place_of(path))
                return
            self._end_head()
            self._chunk = Thinking(self._said["reasoning"])
            self.emit_reasoning("")  # thinking that is withheld, but signed, goes back, too
        thinking = self._chunk
        for text in thinking.add(chunk):
            self.emit_reasoning(text)
        if thinking.replaced:
            self.emit_unknown(thinking.replaced, place_of(path))
        for number, item in enumerate(_items(chunk)):
            if isinstance(item, dict) and isinstance(item.get("text"), str):
                self.emit_unread(item, TEXT_BLOCK, *path, "thinking", number)
        if thinking.latest and self.holds(thinking.count, "the thinking"):
            self.charge(thinking.latest)

    def _opaque(self, kind: str, chunk: dict[str, Any]) -> None:
        self._kept_chunks += 1
        if not (self.holds(self._kept_chunks, "the message") and self.charge(chunk)):
            return
        if kind not in _OPAQUE_CHUNKS:
            self.warn("unknown_block_type", kind[: self.limits.max_name_bytes])
        self._end_head()
        if (kept := self.to_keep(chunk)) is not None:
            self.out.append(ProviderItem(kind, kept))

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        if self._open == "reasoning" and self._chunk is not None:
            state, self._chunk = self.to_keep(self._chunk.state()), None
            provider_state = {"chunk": state} if state is not None else {}
        super().end_part(provider_state)

    def _call(self, call: dict[str, Any], path: tuple[str | int, ...]) -> None:
        # The default of the SDK's types; early API versions sent it (mistralai/client-python, `ToolCall.id`).
        super()._call({**call, "id": None} if call.get("id") == "null" else call, path)


class Thinking:
    """Collects one chunk. Feed it the deltas that it `continues`; `texts` grows by each that `add` yields."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts, self._begin = texts, len(texts)
        self._inner: list[dict[str, Any]] = []  # all up to the last of what is no text
        self._beside: dict[str, Any] = {}
        self.count = 0
        self.latest: list[Any] = []
        self.replaced: dict[str, Any] = {}

    def continues(self, chunk: Mapping[str, Any]) -> bool:
        """Returns whether a delta belongs to this chunk. Once this is signed it only takes more of the same signature,
        or nothing but an end: a signature is of the whole."""
        signature, other = self._beside.get("signature"), chunk.get("signature")
        return not signature or other == signature or says_nothing(chunk)

    def add(self, chunk: Mapping[str, Any]) -> Iterator[str]:
        new = {key: value for key, value in chunk.items() if key not in ("type", "thinking") and value is not None}
        new = {key: value for key, value in new.items() if self._beside.get(key) != value}
        self.replaced = {key: before for key in new if says_something(before := self._beside.get(key))}
        self.count += len(new.keys() - self._beside.keys())
        self.latest = [*new.values()]
        self._beside |= new
        for item in _items(chunk):
            text = item.get("text") if isinstance(item, dict) else item
            if isinstance(text, str):
                if text:
                    yield text
            elif isinstance(item, dict):
                self.count += 1
                self.latest.append(item)
                self._inner += [*self._text(), item]
                self._begin = len(self._texts)

    def state(self) -> dict[str, Any]:
        """Returns what must go back beside the text; the whole list where something stands among the texts."""
        inner = {"thinking": [*self._inner, *self._text()]} if self._inner else {}
        return {"type": "thinking", **inner, **self._beside}

    def _text(self) -> list[dict[str, Any]]:
        text = "".join(self._texts[self._begin :])
        return [{"type": "text", "text": text}] if text else []


def says_nothing(chunk: Mapping[str, Any]) -> bool:
    return not chunk.get("signature") and not any(
        item if isinstance(item, str) else isinstance(item, dict) and item.get("text") != "" for item in _items(chunk)
    )


def _items(chunk: Mapping[str, Any]) -> list[Any]:
    inner = chunk.get("thinking")
    return inner if isinstance(inner, list) else [inner]
