"""Mistral's messages in, entries out: what the model was told, what it said, what its calls came to.

They are Chat Completions' messages, read alike, but for the content of the model's own: its chunks, of thinking and of
references among others, stay in their places, as the decoder leaves them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...content import Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, entries_by_role, numbered
from ..openai_chat.read import calls_of, read_call, read_prompt, result_blocks, returned, set_fields, split_text
from ..transcript import Entry, Returned
from .decoder import Thinking, says_nothing
from .facts import RULES

__all__ = ["read"]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    return entries_by_role(messages, _READERS)


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws = Flaws(RULES)
    blocks = result_blocks(message, f"messages[{index}]", flaws)
    rich = not all(isinstance(block, Text) for block in blocks)
    return returned(message, index, blocks, flaws, rich=rich, name=message.get("name"))


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path, content = AnswerBuilder(names, RULES), f"messages[{index}]", message.get("content")
    if isinstance(content, str):
        split_text(content, answer)
    for chunk, where in numbered(content, f"{path}.content"):
        _chunk(chunk, where, answer)
    says_something = not answer.is_empty
    for raw, where in calls_of(message, path, answer.flaws):
        read_call(raw, where, answer)
    if not (says_something or answer.says_more):
        answer.flaws.add("empty_message", path, "the message has neither content nor calls")
    elif kept := set_fields(message, "content", "role", "tool_calls"):
        answer.provider({"fields": kept})
    return answer.said((index, index + 1))


def _chunk(chunk: object, path: str, answer: AnswerBuilder) -> None:
    if not isinstance(chunk, Mapping):
        answer.flaws.add("not_a_message", path, "this is no chunk of content, which is an object")
    elif chunk.get("type") == "text":
        if isinstance(text := chunk.get("text"), str) and text:
            answer.text(text)
        else:
            answer.flaws.add("empty_message", path, "the text says nothing")
    elif chunk.get("type") != "thinking":
        answer.provider(chunk)
    elif says_nothing(chunk):
        answer.flaws.add("empty_message", path, "the thinking says nothing")
    else:
        thinking = Thinking()
        answer.reasoning("".join(thinking.add(chunk)), {"chunk": thinking.state()})


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": partial(read_prompt, rules=RULES),
    "system": partial(read_prompt, rules=RULES),
    "assistant": _assistant,
    "tool": _result,
}
