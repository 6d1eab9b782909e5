"""Chat messages in, entries out: what the model was told, what it said, what its calls came to.

One message is one entry, in any role that the API has or had: ``developer`` is a system prompt, ``function`` a result
by its tool's name, ``function_call`` a call. What the API would refuse is left out, each with a flaw that says so. What
nobody here has a name for is kept beside it and goes back as it stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ...content import Block, Media, Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, Numbered, entries_by_role, numbered, result_as_read
from ..history_rules import HistoryRules, Violation
from ..reading import json_text
from ..transcript import Entry, Prompt, Returned
from .content import read_block
from .facts import EMPTY_ARRAY, RULES
from .reasoning import LeadingThink
from .render import render

__all__ = [
    "calls_of",
    "read",
    "read_call",
    "read_prompt",
    "result_blocks",
    "returned",
    "set_fields",
    "split_text",
]

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_KNOWN = frozenset({
    *_REASONING_FIELDS, "content", "function_call", "reasoning_details", "refusal", "role", "tool_calls",
})  # fmt: skip


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    return entries_by_role(messages, _READERS)


# -- what was told -----------------------------------------------------------------------------------------------------


def read_prompt(message: Mapping[str, Any], index: int, _: CallNames, *, rules: HistoryRules = RULES) -> Prompt:
    """Reads a message that tells the model something."""
    flaws, given = Flaws(rules), message["role"]
    role: Literal["system", "user"] = "user" if given == "user" else "system"
    blocks = content_blocks(message.get("content"), f"messages[{index}].content", flaws)
    state = set_fields(message, "content", "role")
    if given != role:
        state = {"role": given, **(state or {})}
    return Prompt(role=role, blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws.found))


def content_blocks(content: object, path: str, flaws: Flaws) -> tuple[Block, ...]:
    """Reads the blocks of a message's content, without those that say nothing, of which `flaws` then tells."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found = []
    for raw, where in numbered(content, path):
        if isinstance(raw, str) and raw:
            raw = {"type": "text", "text": raw}
            flaws.add("not_a_message", where, "a bare text where an object is wanted")
        if not isinstance(raw, Mapping):
            flaws.add("not_a_message", where, "this is no part of content, which is an object")
            continue
        if raw and not isinstance(raw.get("type"), str):  # a list of a tool's own objects
            _typeless(where, flaws)
            raw = {"type": "text", "text": raw["text"] if isinstance(raw.get("text"), str) else json_text(raw)}
        if raw.get("type") == "text" and not raw.get("text"):
            flaws.add("empty_message", where, "the text says nothing")
        else:
            found.append(read_block(raw))
    return tuple(found)


def _typeless(path: str, flaws: Flaws) -> None:
    text = f"Missing required parameter: '{path}.type'."  # langchain-ai/langgraphjs#370
    flaws.add("missing_field", f"{path}.type", "it does not say of which type it is", text)


def _empty_lists(message: Mapping[str, Any], path: str, flaws: Flaws, *fields: str) -> None:
    """Adds a flaw for each field that may be null or left out, but not be an empty list, and is one."""
    for field in fields:
        if message.get(field) == []:
            text = f"Invalid '{path}.{field}': {EMPTY_ARRAY}"
            flaws.add("empty_message", f"{path}.{field}", "an empty list, which has to be left out", text)


def set_fields(message: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    """Returns what a message has beside what is known; None if that is nothing but nulls."""
    return {key: value for key, value in message.items() if key not in known and value is not None} or None


# -- what calls came to ------------------------------------------------------------------------------------------------


def result_blocks(message: Mapping[str, Any], path: str, flaws: Flaws) -> tuple[Block, ...]:
    """Reads the content of a result, which has to be there."""
    content = message.get("content")
    blocks = content_blocks(content, f"{path}.content", flaws)
    if not isinstance(content, (str, list)):
        flaws.add("empty_message", path, "a result has to have content, if only an empty text")
    return blocks


def returned(
    message: Mapping[str, Any], index: int, blocks: tuple[Block, ...], flaws: Flaws, *, rich: bool, name: object
) -> Returned:
    """Returns the result in a message, which goes back as it is unless anything is wrong with it."""
    state = None if flaws.found else message
    result = result_as_read(message.get("tool_call_id"), blocks, rich=rich, name=name, state=state)
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws.found))


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, path = Flaws(RULES), f"messages[{index}]"
    blocks = result_blocks(message, path, flaws)
    _empty_lists(message, path, flaws, "content")
    if any(isinstance(block, Media) for block in blocks):
        what = "a result may hold text only: what else there is goes into a user's message behind it"
        flaws.add("mixed_results", path, what)
    if message["role"] == "function":
        flaws.add("not_a_message", path, "functions are no more: results have the role 'tool'")
    return returned(message, index, blocks, flaws, rich=True, name=message.get("name"))


# -- what the model said -----------------------------------------------------------------------------------------------


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    for field in _REASONING_FIELDS:
        if isinstance(text := message.get(field), str):
            answer.reasoning(text, {"field": field})
    content = _sound_content(message.get("content"), path, answer)
    _say(content, answer)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        answer.refusal(refusal)
    calls = calls_of(message, path, answer.flaws)
    for raw, where in calls:
        if isinstance(raw, Mapping) and not isinstance(raw.get("type"), str):
            _typeless(where, answer.flaws)
    for raw, where in calls:
        read_call(raw, where, answer)
    if isinstance(legacy := message.get("function_call"), Mapping):
        _legacy_call(legacy, path, answer)
    if message.get("reasoning_details"):
        answer.provider({"reasoning_details": message["reasoning_details"]})
    kept = set_fields(message, *_KNOWN) or {}
    if isinstance(content, list) and content and content != _rendered(answer):
        kept["content"] = content
    if not (content or answer.says_more or "audio" in kept):
        answer.flaws.add("empty_message", path, "the message has neither content nor calls")
    else:
        _empty_lists(message, path, answer.flaws, "content", "tool_calls")
    if kept:
        answer.provider({"fields": kept})
    return answer.said((index, index + 1))


def _sound_content(content: object, path: str, answer: AnswerBuilder) -> str | list[Any]:
    """Returns the content without parts that the API would refuse."""
    if isinstance(content, str):
        return content
    return [raw for raw, _ in answer.flaws.sound(numbered(content, f"{path}.content"), _part_flaw)]


def _part_flaw(raw: object, path: str) -> Violation | None:
    if not isinstance(raw, Mapping):
        return RULES.violation("not_a_message", path, "this is no part of content, which is an object")
    says_nothing = raw.get("type") == "text" and not raw.get("text")
    return RULES.violation("empty_message", path, "the text says nothing") if says_nothing else None


def _say(content: str | list[Any], answer: AnswerBuilder) -> None:
    if isinstance(content, str):
        split_text(content, answer)
        return
    if content and all(raw.get("type") == "text" and isinstance(raw.get("text"), str) for raw in content):
        answer.text("".join(raw["text"] for raw in content), {"content": content})  # in parts, with what stands at them
        return
    for raw in content:
        kind, text = raw.get("type"), raw.get("text")
        if kind in ("thinking", "reasoning"):
            inner = raw.get("thinking") or raw.get("summary") or raw.get("reasoning")
            answer.reasoning("".join(_texts(inner)), {"field": "content"})
        elif kind == "refusal" and isinstance(raw.get("refusal"), str):
            answer.refusal(raw["refusal"])
        elif isinstance(text, str) and text:
            split_text(text, answer)


def split_text(text: str, answer: AnswerBuilder) -> None:
    """Adds text, and apart from it the reasoning in a tag that opens it."""
    think = LeadingThink()
    pieces = (think.feed(text), think.finish())
    if think.raw:
        answer.reasoning("".join(reasoning for reasoning, _ in pieces), {"inline": "".join(think.raw)})
    if rest := "".join(rest for _, rest in pieces):
        answer.text(rest)


def _texts(inner: object) -> Iterator[str]:
    if isinstance(inner, str):
        yield inner
    for item in inner if isinstance(inner, list) else ():
        if isinstance(item, Mapping) and isinstance(text := item.get("text"), str):
            yield text


def calls_of(message: Mapping[str, Any], path: str, flaws: Flaws) -> list[Numbered]:
    """Returns the calls of a message, each with its path."""
    calls, path = message.get("tool_calls"), f"{path}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        flaws.add("not_a_message", path, "these are no calls, which are a list")
    return numbered(calls, path)


def read_call(raw: object, path: str, answer: AnswerBuilder) -> None:
    """Reads a call."""
    if not isinstance(raw, Mapping):
        answer.flaws.add("not_a_message", path, "this is no call, which is an object")
        return
    is_custom = isinstance(raw.get("custom"), Mapping)
    body = raw.get("custom") if is_custom else raw.get("function")
    if not isinstance(body, Mapping):
        answer.flaws.add("not_a_message", path, "this call has no function")
        return
    given = body.get("input") if is_custom else body.get("arguments")
    if not isinstance(given, str):
        answer.flaws.add("arguments_not_object", path, "arguments have to be a text, which is that of a JSON object")
    state = set_fields(raw, "id", "type", "index", "function", "custom")
    kind: Literal["custom", "function"] = "custom" if is_custom else "function"
    answer.call(raw.get("id"), body.get("name"), given, kind=kind, state=state)


def _legacy_call(raw: Mapping[str, Any], path: str, answer: AnswerBuilder) -> None:
    """Reads the call of an assistant from before there were several."""
    answer.flaws.add("not_a_message", f"{path}.function_call", "functions are no more: use tool_calls")
    answer.call(None, raw.get("name"), raw.get("arguments"))


def _rendered(answer: AnswerBuilder) -> object:
    """Returns the content that would be written for what was read so far."""
    made = render(answer.said().answer)
    return made[0]["content"] if made else None


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": read_prompt,
    "system": read_prompt,
    "developer": read_prompt,
    "assistant": _assistant,
    "tool": _result,
    "function": _result,
}
