"""Ollama's messages in, entries out: what the model was told, what it said, what its calls came to.

Calls and results may come without ids: a result has the tool's name, in older histories not even that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...content import Block, Media, Text
from ...parts import ToolCall
from ...schema.names import PLAIN_NAMES
from ..openai_chat.history import calls_of, returned
from ..reading import list_of, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Flaws,
    Prompt,
    Returned,
    entries_by_role,
    id_as_read,
)
from .facts import RULES

# How the bytes of an image begin, in base64.
_TYPES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    return entries_by_role(messages, _READERS)


def _prompt(message: Mapping[str, Any], index: int, _: CallNames) -> Prompt:
    flaws, state = Flaws(RULES), rest_of(message, "role", "content", "images") or None
    blocks = tuple(_blocks(message, index, flaws))
    return Prompt(role=message["role"], blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws.found))


def _blocks(message: Mapping[str, Any], index: int, flaws: Flaws) -> Iterator[Block]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield Text(content)
    elif not isinstance(content, str) and content is not None:
        flaws.add("not_a_message", f"messages[{index}].content", "content must be text")
    for image in list_of(message.get("images")):
        if isinstance(image, str) and image:
            mime_type = next((type_ for head, type_ in _TYPES.items() if image.startswith(head)), None)
            yield Media(kind="image", mime_type=mime_type, data=image, state={"image": image})


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
            answer.flaws.add("not_a_message", where, "expected a call: an object with a function")
            continue
        given, position = function.get("arguments"), function.get("index")
        if isinstance(given, str):
            answer.flaws.add("arguments_not_object", where, "the arguments are text, not an object")
        state = {"index": position} if isinstance(position, int) else None
        answer.call(raw.get("id"), function.get("name"), given, state=state)
    return answer.reply((index, index + 1))


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": _prompt,
    "system": _prompt,
    "assistant": _assistant,
    "tool": _result,
}


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    text = answer.text("text", "refusal")
    thinking = answer.text("reasoning") if answer.own_wire else ""
    calls = [_render_call(call, answer) for call in answer.our_calls]
    if not (text or thinking or calls):
        return []
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if thinking:
        message["thinking"] = thinking
    if calls:
        message["tool_calls"] = calls
    return [message]


def render_results(answer: Answer) -> list[dict[str, Any]]:
    return [_render_result(result, answer) for result in answer.results]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    images = _images(prompt.blocks)
    text = "\n\n".join(_texts(prompt.blocks))
    if not (text or images):
        return []
    return [{"role": prompt.role, "content": text, **({"images": images} if images else {}), **(prompt.state or {})}]


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    own = {"name": PLAIN_NAMES.cleaned(call.name), "arguments": answer.arguments[call.call_id][1]}
    function = {**answer.state_of(call), **own}
    return {"id": call.call_id, "function": function} if _has_id(call.call_id) else {"function": function}


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Renders a result by name, as all versions want it, and by id, to tell two calls of one tool apart."""
    named = {"tool_name": PLAIN_NAMES.cleaned(answer.calls[result.call_id].name)}
    if _has_id(result.call_id):
        named["tool_call_id"] = result.call_id
    if answer.own_wire and result.state is not None:
        return rest_of(result.state, "tool_call_id") | named
    content = result.content if result.native is None else result.native
    images = _images(result.blocks) if result.native is None else []
    if images:  # they need no placeholder beside them, unless there is nothing else
        content = "\n".join(_texts(result.blocks)) or content
    return {"role": "tool", **named, "content": content, **({"images": images} if images else {})}


def _has_id(call_id: str) -> bool:
    """Returns whether this is an id, rather than what stands for none in a history that was read."""
    return id_as_read(call_id) == call_id


def _images(blocks: Iterable[Block]) -> list[str]:
    return [data for block in blocks if (data := _image(block)) is not None]


def _image(block: Block) -> str | None:
    return block.data if isinstance(block, Media) and block.kind == "image" else None


def _texts(blocks: Iterable[Block]) -> list[str]:
    return [
        block.text if isinstance(block, Text) else block.placeholder()
        for block in blocks
        if isinstance(block, Text) or (isinstance(block, Media) and _image(block) is None)
    ]
