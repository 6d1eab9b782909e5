"""Mistral's messages in, entries out: what the model was told, what it said, what its calls came to.

They are Chat Completions' messages, read alike, but for the content of the model's own: its chunks, of thinking and of
references among others, stay in their places, as the decoder leaves them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...content import Text
from ..answer import CallResult
from ..media import text_of
from ..openai_chat.messages import content_blocks, prompt, read_calls, rest_of, split_text
from ..rules import Violation
from ..saying import CallNames, Saying
from ..transcript import Entry, Returned
from .rules import RULES
from .thinking import Thinking, says_nothing

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
    saying, path, content = Saying(names), f"messages[{index}]", message.get("content")
    if isinstance(content, str):
        split_text(content, saying)
    for number, chunk in enumerate(content if isinstance(content, list) else ()):
        _chunk(chunk, f"{path}.content[{number}]", saying)
    says_something = not saying.is_empty
    read_calls(message.get("tool_calls"), path, saying, RULES)
    if not (says_something or saying.says_more):
        saying.flaw(RULES.violation("empty_message", path, "the message has neither content nor calls"))
    elif kept := rest_of(message, "content", "role", "tool_calls"):
        saying.provider({"fields": kept})
    return saying.said((index, index + 1))


def _chunk(chunk: object, path: str, saying: Saying) -> None:
    if not isinstance(chunk, Mapping):
        saying.flaw(RULES.violation("not_a_message", path, "this is no chunk of content, which is an object"))
    elif chunk.get("type") == "text":
        if isinstance(text := chunk.get("text"), str) and text:
            saying.text(text)
        else:
            saying.flaw(RULES.violation("empty_message", path, "the text says nothing"))
    elif chunk.get("type") != "thinking":
        saying.provider(chunk)
    elif says_nothing(chunk):
        saying.flaw(RULES.violation("empty_message", path, "the thinking says nothing"))
    else:
        thinking = Thinking()
        saying.reasoning("".join(thinking.add(chunk)), {"chunk": thinking.state()})
