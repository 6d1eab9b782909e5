"""Chat messages in, entries out: what the model was told, what it said, what its calls came to.

One message is one entry, in any role that the API has or had: ``developer`` is a system prompt, ``function`` a result
by its tool's name, ``function_call`` a call. What the API would refuse is left out, each with a flaw that says so. What
nobody here has a name for is kept beside it and goes back as it stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from ...content import Block, Media, Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import HistoryRules, Violation
from ..media import text_of
from ..reading import json_text
from ..transcript import CallResult, Entry, Prompt, Returned
from .content import read_block
from .facts import EMPTY_ARRAY, RULES
from .reasoning import LeadingThink
from .render import render

__all__ = ["content_blocks", "prompt", "read", "read_calls", "rest_of", "split_text"]

_REASONING_FIELDS = ("reasoning_content", "reasoning")
_KNOWN = frozenset({
    *_REASONING_FIELDS, "content", "function_call", "reasoning_details", "refusal", "role", "tool_calls",
})  # fmt: skip


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            entries.append(_assistant(message, index, names))
        elif role == "tool" or role == "function":
            entries.append(_result(message, index))
        elif role in ("user", "system", "developer"):
            entries.append(prompt(message, index, "user" if role == "user" else "system"))
    return entries


# -- what was told -----------------------------------------------------------------------------------------------------


def prompt(
    message: Mapping[str, Any], index: int, role: Literal["system", "user"], rules: HistoryRules = RULES
) -> Prompt:
    """A message that tells the model something."""
    flaws: list[Violation] = []
    blocks = content_blocks(message.get("content"), f"messages[{index}].content", flaws, rules)
    state = rest_of(message, "content", "role")
    if message["role"] != role:
        state = {"role": message["role"], **(state or {})}
    return Prompt(role=role, blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws))


def content_blocks(
    content: object, path: str, flaws: list[Violation], rules: HistoryRules = RULES
) -> tuple[Block, ...]:
    """The blocks of a message's content, without those that say nothing, of which `flaws` then tells."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found = []
    for number, raw in enumerate(content if isinstance(content, list) else ()):
        where = f"{path}[{number}]"
        if isinstance(raw, str) and raw:
            raw = {"type": "text", "text": raw}
            flaws.append(rules.violation("not_a_message", where, "a bare text where an object is wanted"))
        if not isinstance(raw, Mapping):
            flaws.append(rules.violation("not_a_message", where, "this is no part of content, which is an object"))
            continue
        if raw and not isinstance(raw.get("type"), str):  # a list of a tool's own objects
            flaws.append(_typeless(where, rules))
            raw = {"type": "text", "text": raw["text"] if isinstance(raw.get("text"), str) else json_text(raw)}
        if raw.get("type") == "text" and not raw.get("text"):
            flaws.append(rules.violation("empty_message", where, "the text says nothing"))
        else:
            found.append(read_block(raw))
    return tuple(found)


def _typeless(path: str, rules: HistoryRules) -> Violation:
    text = f"Missing required parameter: '{path}.type'."  # langchain-ai/langgraphjs#370
    return rules.violation("missing_field", f"{path}.type", "it does not say of which type it is", text)


def _empty_lists(message: Mapping[str, Any], path: str, *fields: str) -> Iterator[Violation]:
    """Fields that may be null or left out, but not be an empty list."""
    for field in fields:
        if message.get(field) == []:
            text = f"Invalid '{path}.{field}': {EMPTY_ARRAY}"
            yield RULES.violation("empty_message", f"{path}.{field}", "an empty list, which has to be left out", text)


def rest_of(message: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    """What a message has beside what is known, if that is anything."""
    return {key: value for key, value in message.items() if key not in known and value is not None} or None


# -- what calls came to ------------------------------------------------------------------------------------------------


def _result(message: Mapping[str, Any], index: int) -> Returned:
    flaws: list[Violation] = []
    path = f"messages[{index}]"
    content, call_id = message.get("content"), message.get("tool_call_id")
    blocks = content_blocks(content, f"{path}.content", flaws)
    if not isinstance(content, (str, list)):
        flaws.append(RULES.violation("empty_message", path, "a result has to have content, if only an empty text"))
    flaws.extend(_empty_lists(message, path, "content"))
    if any(isinstance(block, Media) for block in blocks):
        message_ = "a result may hold text only: what else there is goes into a user's message behind it"
        flaws.append(RULES.violation("mixed_results", path, message_))
    if message["role"] == "function":
        flaws.append(RULES.violation("not_a_message", path, "functions are no more: results have the role 'tool'"))
    name = message.get("name")
    result = CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        name=name if isinstance(name, str) else None,
        blocks=blocks,
        state=None if flaws else message,
    )
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws))


# -- what the model said -----------------------------------------------------------------------------------------------


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names), f"messages[{index}]"
    for field in _REASONING_FIELDS:
        if isinstance(text := message.get(field), str):
            answer.reasoning(text, {"field": field})
    content = _sound_content(message.get("content"), path, answer)
    _say(content, answer)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        answer.refusal(refusal)
    calls = message.get("tool_calls")
    for number, raw in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(raw, Mapping) and not isinstance(raw.get("type"), str):
            answer.flaw(_typeless(f"{path}.tool_calls[{number}]", RULES))
    read_calls(calls, path, answer)
    if isinstance(legacy := message.get("function_call"), Mapping):
        _legacy_call(legacy, path, answer)
    if message.get("reasoning_details"):
        answer.provider({"reasoning_details": message["reasoning_details"]})
    kept = rest_of(message, *_KNOWN) or {}
    if isinstance(content, list) and content and content != _rendered(answer):
        kept["content"] = content
    if not (content or answer.says_more or "audio" in kept):
        answer.flaw(RULES.violation("empty_message", path, "the message has neither content nor calls"))
    else:
        for flaw in _empty_lists(message, path, "content", "tool_calls"):
            answer.flaw(flaw)
    if kept:
        answer.provider({"fields": kept})
    return answer.said((index, index + 1))


def _sound_content(content: object, path: str, answer: AnswerBuilder) -> str | list[Any]:
    """The content without parts that the API would refuse."""
    if isinstance(content, str):
        return content
    sound = []
    for number, raw in enumerate(content if isinstance(content, list) else ()):
        where = f"{path}.content[{number}]"
        if not isinstance(raw, Mapping):
            answer.flaw(RULES.violation("not_a_message", where, "this is no part of content, which is an object"))
        elif raw.get("type") == "text" and not raw.get("text"):
            answer.flaw(RULES.violation("empty_message", where, "the text says nothing"))
        else:
            sound.append(raw)
    return sound


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
    """Text, without the reasoning in a tag that opens it."""
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


def read_calls(calls: object, path: str, answer: AnswerBuilder, rules: HistoryRules = RULES) -> None:
    """The calls of a message."""
    if isinstance(calls, list):
        for number, raw in enumerate(calls):
            _call(raw, f"{path}.tool_calls[{number}]", answer, rules)
    elif calls is not None:
        answer.flaw(rules.violation("not_a_message", f"{path}.tool_calls", "these are no calls, which are a list"))


def _call(raw: object, path: str, answer: AnswerBuilder, rules: HistoryRules) -> None:
    if not isinstance(raw, Mapping):
        answer.flaw(rules.violation("not_a_message", path, "this is no call, which is an object"))
        return
    is_custom = isinstance(raw.get("custom"), Mapping)
    body = raw.get("custom") if is_custom else raw.get("function")
    if not isinstance(body, Mapping):
        answer.flaw(rules.violation("not_a_message", path, "this call has no function"))
        return
    given = body.get("input") if is_custom else body.get("arguments")
    if not isinstance(given, str):
        message = "arguments have to be a text, which is that of a JSON object"
        answer.flaw(rules.violation("arguments_not_object", path, message))
    state = rest_of(raw, "id", "type", "index", "function", "custom")
    kind: Literal["custom", "function"] = "custom" if is_custom else "function"
    answer.call(raw.get("id"), body.get("name"), given, kind=kind, state=state)


def _legacy_call(raw: Mapping[str, Any], path: str, answer: AnswerBuilder) -> None:
    """The call of an assistant from before there were several."""
    answer.flaw(RULES.violation("not_a_message", f"{path}.function_call", "functions are no more: use tool_calls"))
    answer.call(None, raw.get("name"), raw.get("arguments"))


def _rendered(answer: AnswerBuilder) -> object:
    """The content that would be written for what was read so far."""
    made = render(answer.said().answer)
    return made[0]["content"] if made else None
