"""Input items that the API would refuse, and what takes their place.

The provider pairs items by their ids. It wants the reasoning back that led to a call or message, and after reasoning
the item that it led to. An item without its id is paired with nothing: so a call whose reasoning is lost goes without.
That it is lost is a guess: what a model that reasons elsewhere in the history says first to a prompt began with that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from ...text import excerpt
from ..history_rules import Violation, ViolationCode
from ..reading import read_text, rest_of
from .facts import NO_REASONING, RULES
from .items import type_of

__all__ = ["is_item", "is_prompt", "sound_items"]

_ASKING = ("user", "system", "developer")
_LED_TO = frozenset({"function_call", "message"})
_TEXTS = ("id", "type", "status")
_ANSWERS = ("_call_output", "tool_search_output", "mcp_approval_response")
_NO_BLOCK = "something in the message is no content block, which is an object with a type"


def is_item(item: object) -> TypeGuard[Mapping[str, Any]]:
    """Returns whether this is an item at all: it has a type, or a role that the API knows."""
    if not isinstance(item, Mapping):
        return False
    type_ = type_of(item)
    return type_ not in ("", "message") or item.get("role") in (*_ASKING, "assistant")


def is_prompt(item: Mapping[str, Any]) -> bool:
    """Returns whether this says something to the model."""
    return type_of(item) in ("", "message") and item.get("role") in _ASKING


def sound_items(
    items: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any] | None], dict[int, list[Violation]]]:
    """Returns the items such that the API takes them, None for those that have to go; and what was wrong, by place."""
    sound = _Sound(items)
    sound.without_nulls()
    sound.without_empty_messages()
    sound.without_twins()
    for run in sound.runs():
        sound.with_summaries(run.places)
        sound.without_loose_reasoning(run.places)
    sound.without_lost_reasoning()
    return sound.items, sound.flaws


class _Run(NamedTuple):
    places: list[int]
    opens: bool
    """It is the first thing that the model said to a prompt."""


class _Sound:
    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self.items: list[Mapping[str, Any] | None] = [item if is_item(item) else None for item in items]
        self.flaws: dict[int, list[Violation]] = defaultdict(list)

    def without_nulls(self) -> None:
        """Removes what should be a text and is none: an id, a type or a status (vllm-project/vllm#44608). A message
        that has a status was completed."""
        for place, item in enumerate(self.items):
            null = [] if item is None else [key for key in _TEXTS if key in item and not read_text(item[key])]
            if item is not None and null:
                self._flaw(place, "missing_field", f"{' and '.join(null)} of the item is null", "")
                status = {"status": "completed"} if "status" in null and type_of(item) == "message" else {}
                self.items[place] = {key: value for key, value in item.items() if key not in null} | status

    def without_empty_messages(self) -> None:
        """Removes messages that hold nothing, and from others what is no block."""
        for place, item in enumerate(self.items):
            if item is None or type_of(item) not in ("", "message"):
                continue
            content = item.get("content")
            blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else content
            if not isinstance(blocks, (list, str)) or not blocks:
                self._flaw(place, "empty_message", "the message says nothing")
                self.items[place] = None if not is_prompt(item) else {**item, "content": []}
            elif blocks != content:
                self._flaw(place, "not_a_message", _NO_BLOCK)
                self.items[place] = {**item, "content": blocks}

    def without_twins(self) -> None:
        """Lets no two items have one id: one that is there twice goes, one that only has another's id loses it."""
        seen: dict[str, Mapping[str, Any]] = {}
        for place, item in enumerate(self.items):
            id_ = read_text(item.get("id")) if item is not None and type_of(item) != "item_reference" else None
            if id_ is None or item is None or is_prompt(item) or type_of(item).endswith(_ANSWERS):
                continue
            if (first := seen.setdefault(id_, item)) is not item:
                self._flaw(place, "duplicate_id", f"another item has the id '{excerpt(id_, 80)}'")
                self.items[place] = None if first == item else rest_of(item, "id")

    def runs(self) -> Iterator[_Run]:
        """Yields the items of the model's that follow one another."""
        run = _Run([], opens=True)
        for place, item in enumerate(self.items):
            if item is None:
                continue
            if is_prompt(item) or type_of(item).endswith(_ANSWERS):
                yield run
                run = _Run([], opens=is_prompt(item))
            else:
                run.places.append(place)
        yield run

    def with_summaries(self, run: list[int]) -> None:
        """Gives reasoning a summary, be it empty."""
        for place in run:
            item = self.items[place]
            if _is_reasoning(item) and not isinstance(item.get("summary"), list):
                self._flaw(place, "missing_field", "the reasoning has no summary, which may be empty")
                self.items[place] = {**item, "summary": []}

    def without_loose_reasoning(self, run: list[int]) -> None:
        """Removes reasoning behind which nothing stands that it led to."""
        while run and _is_reasoning(self.items[run[-1]]):
            place = run.pop()
            self._flaw(place, "reasoning_apart", "the reasoning stands without the item that it led to")
            self.items[place] = None

    def without_lost_reasoning(self) -> None:
        """Removes ids that refer to reasoning that is not there."""
        reasons = any(_is_reasoning(item) and read_text(item.get("id")) for item in self.items)
        for run in self.runs() if reasons else ():
            if not run.opens or any(_is_reasoning(self.items[place]) for place in run.places):
                continue
            for place in filter(self._is_led_to, run.places):
                item = self.items[place]
                assert item is not None, "what is led to is an item"
                self._flaw(place, "reasoning_apart", "the item's reasoning is not there", NO_REASONING)
                self.items[place] = rest_of(item, "id")

    def _is_led_to(self, place: int) -> bool:
        item = self.items[place]
        return item is not None and type_of(item) in _LED_TO and read_text(item.get("id")) is not None

    def _flaw(self, place: int, code: ViolationCode, message: str, text: str | None = None) -> None:
        self.flaws[place].append(RULES.violation(code, f"input[{place}]", message, text))


def _is_reasoning(item: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    return item is not None and type_of(item) == "reasoning"
