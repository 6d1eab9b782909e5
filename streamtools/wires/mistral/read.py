"""Mistral's messages in, entries out: what the model was told, what it said, what its calls came to.

They are Chat Completions' messages, read alike, but for the content of the model's own: its chunks, of thinking and of
references among others, stay in their places, as the decoder leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...content import Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import text_of
from ..openai_chat.read import content_blocks, prompt, read_calls, rest_of, split_text
from ..transcript import CallResult, Entry, Returned
from .decoder import Thinking, says_nothing
from .facts import RULES

__all__ = ["read"]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            entries.append(_assistant(message, index, names))
        elif role == "tool":
            entries.append(_result(message, index))
        elif role == "user" or role == "system":
            entries.append(prompt(message, index, role, RULES))
    return entries


def _result(message: Mapping[str, Any], index: int) -> Returned:
    flaws: list[Violation] = []
    content, call_id, name = message.get("content"), message.get("tool_call_id"), message.get("name")
    blocks = content_blocks(content, f"messages[{index}].content", flaws, RULES)
    if not isinstance(content, (str, list)):
        what = "a result has to have content, if only an empty text"
        flaws.append(RULES.violation("empty_message", f"messages[{index}]", what))
    result = CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        name=name if isinstance(name, str) else None,
        blocks=() if all(isinstance(block, Text) for block in blocks) else blocks,
        state=None if flaws else message,
    )
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws))


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path, content = AnswerBuilder(names), f"messages[{index}]", message.get("content")
    if isinstance(content, str):
        split_text(content, answer)
    for number, chunk in enumerate(content if isinstance(content, list) else ()):
        _chunk(chunk, f"{path}.content[{number}]", answer)
    says_something = not answer.is_empty
    read_calls(message.get("tool_calls"), path, answer, RULES)
    if not (says_something or answer.says_more):
        answer.flaw(RULES.violation("empty_message", path, "the message has neither content nor calls"))
    elif kept := rest_of(message, "content", "role", "tool_calls"):
        answer.provider({"fields": kept})
    return answer.said((index, index + 1))


def _chunk(chunk: object, path: str, answer: AnswerBuilder) -> None:
    if not isinstance(chunk, Mapping):
        answer.flaw(RULES.violation("not_a_message", path, "this is no chunk of content, which is an object"))
    elif chunk.get("type") == "text":
        if isinstance(text := chunk.get("text"), str) and text:
            answer.text(text)
        else:
            answer.flaw(RULES.violation("empty_message", path, "the text says nothing"))
    elif chunk.get("type") != "thinking":
        answer.provider(chunk)
    elif says_nothing(chunk):
        answer.flaw(RULES.violation("empty_message", path, "the thinking says nothing"))
    else:
        thinking = Thinking()
        answer.reasoning("".join(thinking.add(chunk)), {"chunk": thinking.state()})
