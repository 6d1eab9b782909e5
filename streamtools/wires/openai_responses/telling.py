"""Tells the texts of items: messages, refusals and reasoning, as events.

An item's text comes in deltas and once more, whole, at its end. One item is told at a time: another that comes in
between ends the part, and what the first still has to say begins a part of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from ...events import ProviderItem
from ...limits import Limits
from ...text import well_formed
from ..decoder import WireDecoder
from ..plain import PlainDelta
from .facts import TEXTS
from .following import Followed
from .items import Item, Register, message_so_far, texts_of
from .known import ENVELOPE, HEAD

__all__ = ["ItemTexts"]

_PARTS = {"text": "text", "summary": "reasoning", "content": "reasoning"}  # a refusal is no part
_BETWEEN = {"text": "", "reasoning": "\n\n"}  # the pieces of a part that was corrected


class ItemTexts(WireDecoder):
    """The part of the decoder that tells texts."""

    plain = (
        PlainDelta(
            ("delta",),
            {(): ENVELOPE},
            varies=frozenset({("event_id",), ("obfuscation",), ("sequence_number",)}),
        ),
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._stored = True  # the provider keeps the items, so that an id is enough to give one back
        self._register = Register()
        self._followed = Followed(self._register)
        self._telling: Item | None = None  # the item whose text or reasoning is being told

    def _tell(self, item: Item, channel: str, text: str, paragraph: int | None) -> None:
        if self._telling is not item:
            self._end_telling()
            self._telling = item
        told = item.told.setdefault(channel, [])
        if text and (not item.paragraphs or item.paragraphs[-1][:2] != (channel, paragraph)):
            item.paragraphs.append((channel, paragraph, len(told)))
        if channel in _PARTS and self._open != _PARTS[channel]:
            item.part_at = len(told)
        if channel == "text":
            self.emit_text(text)
        elif channel == "refusal":
            self.emit_refusal(text)
        else:
            if item.paragraph not in (None, (channel, paragraph)):
                self.emit_reasoning("\n\n")
            item.paragraph = (channel, paragraph) if text else None
            self.emit_reasoning(text)
        if text:
            told.append(text)
        self.part.sink = told.append

    @override
    def end_part(self, provider_state: Mapping[str, Any] | None = None) -> None:
        item = self._telling
        if item is not None and item.corrected and self._open is not None:
            item.corrected = False
            texts = item.told["text"] if self._open == "text" else next(filter(None, item.told.values()))
            self.replace_part(_BETWEEN[self._open].join(texts[item.part_at :]))
        super().end_part(provider_state)

    def _end_telling(self) -> None:
        """Ends what is told of this item, since another comes; what it still has to say will be a part of its own."""
        self.end_part()
        self._telling = None

    def _keep(self, item: Item, state: dict[str, Any]) -> None:
        """Lets the state of an item that is over go with the part that tells it; alone if another is being told."""
        if self._telling is item and self._open is not None:
            self.end_part(state)
        elif "item" in state:
            self.out.append(ProviderItem(item.type, state))
        if self._telling is item:
            self._end_telling()
        item.told, item.paragraphs = {}, []

    def _complete_text(self, item: Item, raw: dict[str, Any], state: dict[str, Any]) -> None:
        for channel in TEXTS[item.type]:
            # Of reasoning, the summary or the content is told; both only if both streamed.
            if item.type == "message" or item.told.get(channel) or not any(item.told.values()):
                self._compare(item, channel, texts_of(raw, channel))
        if item.type == "reasoning" and not (self._stored or raw.get("encrypted_content") or raw.get("content")):
            state.pop("item", None)  # neither the provider nor the item has it: "Item with id 'rs_...' not found"
            self.emit_beside(raw, HEAD, "item")
        elif "item" not in state and item.type == "message" and any(item.told.values()):
            state["item"] = message_so_far(item, "completed")
        self._keep(item, state)

    def _end_text(self, item: Item, channel: str, text: str, number: int | None) -> None:
        """Ends one of the texts of a message, unless it has ended before."""
        if (channel, number) in item.over or len(item.over) > self.limits.max_open_blocks:
            return
        item.over.add((channel, number))
        since = item.over_at.get(channel, 0)
        if not "".join(item.told.get(channel, ())[since:]).endswith(text):  # one before it may have had no end
            self._compare(item, channel, [text], since)
        item.over_at[channel] = len(item.told[channel])

    def _compare(self, item: Item, channel: str, texts: list[str], since: int = 0) -> None:
        """Compares the whole text with the pieces that were told of it: tells what is missing, replaces what is
        wrong."""
        told, whole = "".join(item.told.get(channel, ())[since:]), "".join(texts)
        if self.loose:
            told, whole = well_formed(told), well_formed(whole)
        if not whole or whole == told:
            return
        if not told:
            for paragraph, text in enumerate(texts):
                self._tell(item, channel, text, paragraph)
            return
        self.warn("done_overrides_delta")
        if whole.startswith(told):
            self._tell(item, channel, whole[len(told) :], item.paragraph and item.paragraph[1])
        elif self._telling is item and self._open == _PARTS.get(channel):
            self._correct(item, item.told[channel], texts, since)

    def _correct(self, item: Item, told: list[str], texts: list[str], since: int) -> None:
        """Replaces the pieces of the part that is open. What stands in a part that has ended cannot be replaced."""
        if self._open == "reasoning":
            if since or item.part_at or sum(map(bool, item.told.values())) > 1:
                return
        elif since < item.part_at:
            ended, whole = "".join(told[since : item.part_at]), "".join(texts)
            if not whole.startswith(ended):
                return
            since, texts = item.part_at, [whole[len(ended) :]]
        told[since:] = texts
        item.corrected = True
