"""Splits text into text and reasoning, which stands in it between tags.

    Let me see. <think>17 is prime.</think>Yes.   →   text "Let me see. ", reasoning "17 is prime.", text "Yes."

Theory of operation. Outside a block the first opening tag is looked for, inside it its own closing tag: blocks do not
nest, and a tag of another kind inside is reasoning. Only text that may still become a tag is held back. A closing tag
outside a block is text. A block that is never closed is reasoning to the end: the model was cut while it thought, and
what it thought must not turn into an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...events import Event, ReasoningDelta, ReasoningEnd, ReasoningStart
from .parts import TextStage
from .reader import Markers

__all__ = ["DEFAULT_TAGS", "SplitThink", "Tags", "tag_pair"]

DEFAULT_TAGS = ("think", "thinking", "reasoning", "[THINK]")


class Tags:
    """The tags of blocks of reasoning.

    Args:
        pairs: closing tag by opening tag.
    """

    __slots__ = ("any", "closers", "first_characters", "openers")

    def __init__(self, pairs: Mapping[str, str]) -> None:
        self.openers = Markers(pairs)
        self.closers = {opening: Markers([closing]) for opening, closing in pairs.items()}
        """Finds the end of a block, by the tag that began it."""
        self.any = Markers([*pairs, *pairs.values()])
        """Finds the tags in a block that the prompt has opened, since the model may open it again."""
        self.first_characters = frozenset(opening[0] for opening in pairs)
        """The characters that opening tags begin with."""


class SplitThink(TextStage):
    """Turns blocks of reasoning in the text into `ReasoningStart`, `ReasoningDelta` and `ReasoningEnd`.

    Args:
        tags: the blocks' tags.
        opened: the text begins inside a block, unless reasoning came before it in another way.
    """

    handles = TextStage.handles | {ReasoningStart}

    def __init__(self, tags: Tags, *, opened: bool = False) -> None:
        super().__init__()
        self._tags = tags
        self._first_characters = tags.first_characters
        self._awaited = tags.any if opened else tags.openers
        self._inside = opened
        self._held = ""
        self._thinking = False  # True while a part of reasoning is open

    def _is_plain(self, text: str) -> bool:
        return not self._inside and not self._held and self._first_characters.isdisjoint(text)

    def _text(self, text: str) -> None:
        text, at = self._held + text, 0
        while found := self._awaited.search(text, at):
            self._tell(text[at : found.start()])
            at = found.end()
            closer = self._tags.closers.get(found[0])
            if closer is None:
                self._leave()
            else:
                self._inside, self._awaited = True, closer
        cut = self._awaited.held_from(text, at)
        self._tell(text[at:cut])
        self._held = text[cut:]

    def _other(self, event: Event) -> None:
        if isinstance(event, ReasoningStart) and not self._thinking:
            self._leave()  # this was the block that the prompt has opened
        super()._other(event)

    def _text_over(self) -> None:
        held, self._held = self._held, ""
        self._tell(held)
        self._leave()

    def _leave(self) -> None:
        self._inside, self._awaited = False, self._tags.openers
        if self._thinking:
            self._thinking = False
            self._out.append(ReasoningEnd())

    def _tell(self, text: str) -> None:
        if not self._inside:
            self._tell_text(text)
        elif text:
            if not self._thinking:
                self._thinking = True
                self._tell_between(ReasoningStart())
            self._out.append(ReasoningDelta(text))


def tag_pair(tag: str | tuple[str, str]) -> tuple[str, str]:
    """Returns the opening and closing tag for a name, an opening tag, or a pair.

    >>> tag_pair("think"), tag_pair("[THINK]"), tag_pair(("<|begin|>", "<|end|>"))
    (('<think>', '</think>'), ('[THINK]', '[/THINK]'), ('<|begin|>', '<|end|>'))

    Raises:
        ValueError: the two would be the same, or one is empty.
    """
    if isinstance(tag, str):
        opening = f"<{tag}>" if tag.replace("_", "").isalnum() else tag
        tag = opening, f"{opening[:1]}/{opening[1:]}"
    if not all(tag) or tag[0] == tag[1]:
        raise ValueError(f"no tags: {tag!r}; give a name ('think'), an opening tag ('[THINK]') or a pair of tags")
    return tag
