"""Ollama's messages in, entries out: what the model was told, what it said, what its calls came to.

Content is a text, and images stand beside it, as bytes in base64. Calls and results may come without ids: a result has
the tool's name, in older histories not even that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...content import Block, Media, Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import text_of
from ..transcript import CallResult, Entry, Prompt, Returned
from .facts import RULES

__all__ = ["read"]

# How the bytes of an image begin, in base64.
_TYPES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


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
            flaws: list[Violation] = []
            blocks = tuple(_blocks(message, index, flaws))
            state = {key: value for key, value in message.items() if key not in ("role", "content", "images")} or None
            entry = Prompt(role=role, blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws))
            entries.append(entry)
    return entries


def _blocks(message: Mapping[str, Any], index: int, flaws: list[Violation]) -> Iterator[Block]:
    content, images = message.get("content"), message.get("images")
    if isinstance(content, str) and content:
        yield Text(content)
    elif not isinstance(content, str) and content is not None:
        path = f"{RULES.list_name}[{index}].content"
        flaws.append(RULES.violation("not_a_message", path, "content has to be a text"))
    for image in images if isinstance(images, list) else ():
        if isinstance(image, str) and image:
            yield Media(kind="image", mime_type=_type_of(image), data=image, state={"image": image})


def _type_of(image: str) -> str | None:
    return next((type_ for head, type_ in _TYPES.items() if image.startswith(head)), None)


def _result(message: Mapping[str, Any], index: int) -> Returned:
    flaws: list[Violation] = []
    blocks = tuple(_blocks(message, index, flaws))
    call_id, name = message.get("tool_call_id"), message.get("tool_name") or message.get("name")
    result = CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        name=name if isinstance(name, str) else None,
        blocks=blocks if any(isinstance(block, Media) for block in blocks) else (),
        state=None if flaws else message,
    )
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws))


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names), f"{RULES.list_name}[{index}]"
    if isinstance(thinking := message.get("thinking"), str) and thinking:
        answer.reasoning(thinking)
    if isinstance(content := message.get("content"), str) and content:
        answer.text(content)
    calls = message.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        answer.flaw(RULES.violation("not_a_message", f"{path}.tool_calls", "these are no calls, which are a list"))
    for number, raw in enumerate(calls if isinstance(calls, list) else ()):
        function = raw.get("function") if isinstance(raw, Mapping) else None
        where = f"{path}.tool_calls[{number}]"
        if not isinstance(function, Mapping):
            answer.flaw(RULES.violation("not_a_message", where, "this is no call, which is an object with a function"))
            continue
        given, position = function.get("arguments"), function.get("index")
        if isinstance(given, str):
            answer.flaw(RULES.violation("arguments_not_object", where, "the arguments are a text, not an object"))
        state = {"index": position} if isinstance(position, int) else None
        answer.call(raw.get("id"), function.get("name"), given, state=state)
    return answer.said((index, index + 1))
