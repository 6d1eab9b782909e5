"""Ollama's messages in, entries out: what the model was told, what it said, what its calls came to.

Content is a text, and images stand beside it, as bytes in base64. Calls and results may come without ids: a result has
the tool's name, in older histories not even that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...content import Block, Media, Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, entries_by_role
from ..openai_chat.read import calls_of, returned
from ..reading import rest_of
from ..transcript import Entry, Prompt, Returned
from .facts import RULES

__all__ = ["read"]

# How the bytes of an image begin, in base64.
_TYPES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    return entries_by_role(messages, _READERS)


def _prompt(message: Mapping[str, Any], index: int, _: CallNames) -> Prompt:
    flaws, state = Flaws(RULES), rest_of(message, "role", "content", "images") or None
    blocks = tuple(_blocks(message, index, flaws))
    return Prompt(role=message["role"], blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws.found))


def _blocks(message: Mapping[str, Any], index: int, flaws: Flaws) -> Iterator[Block]:
    content, images = message.get("content"), message.get("images")
    if isinstance(content, str) and content:
        yield Text(content)
    elif not isinstance(content, str) and content is not None:
        flaws.add("not_a_message", f"messages[{index}].content", "content has to be a text")
    for image in images if isinstance(images, list) else ():
        if isinstance(image, str) and image:
            yield Media(kind="image", mime_type=_type_of(image), data=image, state={"image": image})


def _type_of(image: str) -> str | None:
    return next((type_ for head, type_ in _TYPES.items() if image.startswith(head)), None)


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, name = Flaws(RULES), message.get("tool_name") or message.get("name")
    blocks = tuple(_blocks(message, index, flaws))
    return returned(message, index, blocks, flaws, rich=any(isinstance(block, Media) for block in blocks), name=name)


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    if isinstance(thinking := message.get("thinking"), str) and thinking:
        answer.reasoning(thinking)
    if isinstance(content := message.get("content"), str) and content:
        answer.text(content)
    for raw, where in calls_of(message, path, answer.flaws):
        function = raw.get("function") if isinstance(raw, Mapping) else None
        if not isinstance(function, Mapping):
            answer.flaws.add("not_a_message", where, "this is no call, which is an object with a function")
            continue
        given, position = function.get("arguments"), function.get("index")
        if isinstance(given, str):
            answer.flaws.add("arguments_not_object", where, "the arguments are a text, not an object")
        state = {"index": position} if isinstance(position, int) else None
        answer.call(raw.get("id"), function.get("name"), given, state=state)
    return answer.said((index, index + 1))


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": _prompt,
    "system": _prompt,
    "assistant": _assistant,
    "tool": _result,
}
