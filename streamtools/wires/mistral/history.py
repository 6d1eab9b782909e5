"""Mistral's messages in, entries out: those of Chat Completions, but for the model's content, whose chunks stay in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from ...content import Media, Text
from ...parts import Part
from ...schema.names import PLAIN_NAMES
from ..openai_chat import history as chat
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
    numbered,
)
from .decoder import Thinking, says_nothing
from .facts import RULES


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    return entries_by_role(messages, _READERS)


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws = Flaws(RULES)
    blocks = chat.result_blocks(message, f"messages[{index}]", flaws)
    rich = not all(isinstance(block, Text) for block in blocks)
    return chat.returned(message, index, blocks, flaws, rich=rich, name=message.get("name"))


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path, content = AnswerBuilder(names, RULES), f"messages[{index}]", message.get("content")
    if isinstance(content, str):
        chat.split_text(content, answer)
    for chunk, where in numbered(content, f"{path}.content"):
        _chunk(chunk, where, answer)
    says_something = not answer.is_empty
    for raw, where in chat.calls_of(message, path, answer.flaws):
        chat.read_call(raw, where, answer)
    if not (says_something or answer.says_more):
        answer.flaws.add("empty_message", path, "the message has neither content nor calls")
    elif kept := chat.set_fields(message, "content", "role", "tool_calls"):
        answer.provider({"fields": kept})
    return answer.reply((index, index + 1))


def _chunk(chunk: object, path: str, answer: AnswerBuilder) -> None:
    if not isinstance(chunk, Mapping):
        answer.flaws.add("not_a_message", path, "expected a chunk of content: an object")
    elif chunk.get("type") == "text":
        if isinstance(text := chunk.get("text"), str) and text:
            answer.text(text)
        else:
            answer.flaws.add("empty_message", path, "the text is empty")
    elif chunk.get("type") != "thinking":
        answer.provider(chunk)
    elif says_nothing(chunk):
        answer.flaws.add("empty_message", path, "the thinking is empty")
    else:
        thinking = Thinking(texts := list[str]())
        for text in thinking.add(chunk):
            texts.append(text)
        answer.reasoning("".join(texts), {"chunk": thinking.state()})


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": partial(chat.read_prompt, rules=RULES),
    "system": partial(chat.read_prompt, rules=RULES),
    "assistant": _assistant,
    "tool": _result,
}


# -- messages out of a turn --


def _document(media: Media) -> dict[str, Any] | None:
    url = media.address()
    name = {"document_name": media.filename} if media.filename else {}
    return {"type": "document_url", "document_url": url, **name} if url is not None else None


_CHUNKS: Mapping[str, Callable[[Media], dict[str, Any] | None]] = {
    "image": chat.image_part,
    "audio": lambda media: {"type": "input_audio", "input_audio": media.data} if media.data is not None else None,
    "file": _document,
}


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    """The API wants content or calls: "Assistant message must have either content or tool_calls, but not none."
    (OpenHands/OpenHands#8685)."""
    content = _content([chunk for part in answer.parts if (chunk := _native_chunk(part, answer)) is not None])
    calls = answer.our_calls
    if not content and not calls:
        return []
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [answer.as_function(call) for call in calls]
    for part in answer.parts:
        if part.kind == "provider":
            message |= answer.state_of(part).get("fields", {})
    return [message]


def render_results(answer: Answer) -> list[dict[str, Any]]:
    """What a result holds beside text can neither stand in it nor in a user's message right behind it
    (LibreChat-AI/agents#344): the assistant says a dot in between."""
    messages = [_render_result(result, answer) for result in answer.results]
    for behind in chat.media_of(answer.results, answer, _CHUNKS):
        messages += [{"role": "assistant", "content": "."}, behind]
    return messages


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    content = chat.native_content(prompt.blocks, _CHUNKS)
    return [{"role": prompt.role, "content": content, **(prompt.state or {})}] if content else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    name = PLAIN_NAMES.cleaned(answer.calls[result.call_id].name)
    if answer.own_wire and result.state is not None:
        named = {"name": name} if "name" in result.state else {}
        return {**result.state, **named, "tool_call_id": result.call_id}
    content = result.content if result.native is None else result.native
    return {"role": "tool", "tool_call_id": result.call_id, "name": name, "content": content}


def _native_chunk(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "text" or part.kind == "refusal":
        return {"type": "text", "text": part.text}
    if not answer.own_wire or part.kind not in ("provider", "reasoning"):
        return None
    if part.kind == "provider":
        return dict(state) if "type" in state else None
    if "inline" in state:  # it came as text, and was a tag there
        return {"type": "text", "text": state["inline"]}
    texts = [{"type": "text", "text": part.text}] if part.text else []
    return {"type": "thinking", "thinking": texts, **state.get("chunk", {})}


def _content(chunks: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    joined: list[dict[str, Any]] = []
    for is_text, run in groupby(chunks, key=lambda chunk: chunk["type"] == "text"):
        if not is_text:
            joined.extend(run)
        elif text := "".join(chunk["text"] for chunk in run):
            joined.append({"type": "text", "text": text})
    if all(chunk["type"] == "text" for chunk in joined):
        return joined[0]["text"] if joined else ""
    return joined
