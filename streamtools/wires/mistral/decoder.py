"""Mistral's chat chunks in, events out: the Chat Completions decoder, and what Mistral does differently.

Content may be a list of typed chunks: thinking, which is kept whole for the history (see `thinking`), and references
and other things, which are told as `ProviderItem`. A call that has no id may say ``"null"``. All the rest, the loose
forms of calls among it, is `OpenAIChatDecoder`'s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from ...errors import LimitExceeded
from ...events import ProviderItem
from ...limits import Limits
from ..openai_chat import OpenAIChatDecoder
from .thinking import Thinking, says_nothing

__all__ = ["NAME", "MistralDecoder", "recognises"]

NAME = "mistral.chat"

# Of the chunks that an assistant's message may hold (`ContentChunk`), those that say nothing to us.
_OPAQUE_CHUNKS = frozenset({
    "reference", "image_url", "document_url", "file", "input_audio", "resource", "resource_link",
})  # fmt: skip


def recognises(payload: Mapping[str, Any]) -> bool:
    """Never: a chunk of Mistral's is one of Chat Completions, and nothing in it is certainly Mistral's."""
    return False


class MistralDecoder(OpenAIChatDecoder):
    """Decodes one response of Mistral's chat."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._chunk: Thinking | None = None  # the thinking that is being told
        self._kept_chunks = 0

    def _block(self, block: object) -> None:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(block, dict) or not isinstance(kind, str) or kind in ("text", "reasoning"):
            super()._block(block)
        elif kind == "thinking":
            self._thinking(block)
        else:
            self._opaque(kind, block)

    def _thinking(self, chunk: dict[str, Any]) -> None:
        if self._chunk is not None and not self._chunk.continues(chunk):
            self.end_part()
        if self._chunk is None:
            if says_nothing(chunk):
                return
            self._end_head()
            self._chunk = Thinking()
            self.emit_reasoning("")  # thinking that is withheld, but signed, goes back, too
        thinking = self._chunk
        for text in thinking.add(chunk):
            self.emit_reasoning(text)
        if thinking.latest:
            self._holds(thinking.count, thinking.latest, "the thinking")

    def _opaque(self, kind: str, chunk: dict[str, Any]) -> None:
        self._kept_chunks += 1
        if not self._holds(self._kept_chunks, chunk, "the message"):
            return
        if kind not in _OPAQUE_CHUNKS:
            self.warn("unknown_chunk_type", kind[: self.limits.max_name_bytes])
        self._end_head()
        if (kept := self.to_keep(chunk)) is not None:
            self.out.append(ProviderItem(kind, kept))

    def _holds(self, count: int, extra: object, where: str) -> bool:
        """Whether what is kept beside the text stays within the limits: `count` things, the latest of them `extra`."""
        limit = self.limits.max_open_blocks
        if count > limit:
            self.fail(LimitExceeded("max_open_blocks", limit=limit, value=count, where=where))
        return count <= limit and self.charge(extra)

    def _end_head(self) -> None:
        """What begins now is no text: close what is open, and look for no inline tag any more."""
        if self._think:
            self._tell(*self._think.finish())
        self.end_part()
        self._think = None

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        if self._open == "reasoning" and self._chunk is not None:
            state = self.to_keep(self._chunk.state())
            provider_state = {"chunk": state} if state is not None else {}
            self._chunk = None
        super().end_part(provider_state)

    def _call(self, call: dict[str, Any], path: tuple[str | int, ...]) -> None:
        # The default of the SDK's types; early API versions sent it (mistralai/client-python, `ToolCall.id`).
        super()._call({**call, "id": None} if call.get("id") == "null" else call, path)
