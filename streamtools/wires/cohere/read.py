"""Cohere's messages in, entries out: v2's ``messages``, and v1's ``chat_history``.

A plan and thoughts are reasoning, as the decoder leaves them. v1 knows no ids: its results repeat the call, and are
paired by its name. What the API would refuse is left out, each with a flaw that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...content import Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import text_of
from ..openai_chat.read import content_blocks, prompt, read_calls
from ..transcript import CallResult, Entry, Prompt, Returned
from .facts import RULES

__all__ = ["read"]

_V1 = {"api": "v1"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        reader = _READERS.get(role) if isinstance(role, str) else None
        if reader is not None:
            entries.append(reader(message, index, names))
    return entries


# -- v2 ----------------------------------------------------------------------------------------------------------------


def _prompt(message: Mapping[str, Any], index: int, _: CallNames) -> Prompt:
    return prompt(message, index, "user" if message["role"] == "user" else "system", RULES)


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws: list[Violation] = []
    path, content, call_id = f"messages[{index}]", message.get("content"), message.get("tool_call_id")
    blocks = content_blocks(content, f"{path}.content", flaws, RULES)
    if not isinstance(content, (str, list)):
        flaws.append(RULES.violation("empty_message", path, "a result has to have content, if only an empty text"))
    if not isinstance(call_id, str) or not call_id:
        flaws.append(RULES.violation("bad_id", path, "a result without the id of its call"))
    result = CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        blocks=() if all(isinstance(block, Text) for block in blocks) else blocks,
        state=None if flaws else message,
    )
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws))


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names), f"messages[{index}]"
    if isinstance(plan := message.get("tool_plan"), str) and plan:
        answer.reasoning(plan, {"field": "tool_plan"})
    has_text = _content(message.get("content"), path, answer)
    read_calls(_with_ids(message.get("tool_calls"), index, answer), path, answer, RULES)
    if answer.says_more and has_text:
        answer.flaw(RULES.violation("mixed_results", path, "text beside calls: it belongs into tool_plan"))
    if not (answer.says_more or has_text):
        answer.flaw(RULES.violation("empty_message", path, "the message has neither text nor calls"))
    citations = message.get("citations")
    for citation in citations if isinstance(citations, list) else ():
        answer.provider({"citations": citation})
    return answer.said((index, index + 1))


def _with_ids(calls: object, index: int, answer: AnswerBuilder) -> object:
    """The calls, each with an id: that it may miss one is v1's affair."""
    if not isinstance(calls, list):
        return calls
    found = []
    for number, raw in enumerate(calls):
        if isinstance(raw, Mapping) and not (isinstance(raw.get("id"), str) and raw["id"]):
            where = f"messages[{index}].tool_calls[{number}]"
            answer.flaw(RULES.violation("bad_id", where, "a call without an id"))
            raw = {**raw, "id": f"call_{index}_{number}"}
        found.append(raw)
    return found


def _content(content: object, path: str, answer: AnswerBuilder) -> bool:
    """Says what the content holds; whether any of it is text."""
    has_text = False
    for number, raw in enumerate([{"type": "text", "text": content}] if isinstance(content, str) else _list(content)):
        where = f"{path}.content[{number}]"
        kind = raw.get("type") if isinstance(raw, Mapping) else None
        said = raw.get(kind) if isinstance(raw, Mapping) and isinstance(kind, str) else None
        if kind == "thinking" and isinstance(said, str) and said:
            answer.reasoning(said, {"field": "thinking"})
        elif kind == "text" and isinstance(said, str) and said.strip():
            answer.text(said)
            has_text = True
        elif isinstance(content, list):
            answer.flaw(RULES.violation("empty_message", where, "this is neither text nor thinking, or says nothing"))
    return has_text


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- v1 ----------------------------------------------------------------------------------------------------------------


def _legacy_prompt(message: Mapping[str, Any], index: int, _: CallNames) -> Prompt:
    text = message.get("message")
    blocks = (Text(text),) if isinstance(text, str) and text else ()
    role = message["role"]
    return Prompt(
        role="user" if role == "USER" else "system", blocks=blocks, origin=(index, index + 1), state={"role": role}
    )


def _legacy_answer(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer = AnswerBuilder(names)
    if isinstance(text := message.get("message"), str) and text:
        answer.text(text, _V1)
    for call in _list(message.get("tool_calls")):
        if isinstance(call, Mapping):
            answer.call(None, call.get("name"), call.get("parameters"), state=_V1)
    return answer.said((index, index + 1))


def _legacy_results(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    results = tuple(_legacy_result(raw) for raw in _list(message.get("tool_results")) if isinstance(raw, Mapping))
    return Returned(results=results, origin=(index, index + 1))


def _legacy_result(raw: Mapping[str, Any]) -> CallResult:
    call = raw.get("call")
    name = call.get("name") if isinstance(call, Mapping) else None
    texts = (value if isinstance(value, str) else str(value) for value in _outputs(raw))
    return CallResult(call_id="", content="\n".join(texts), name=name if isinstance(name, str) else None, state=raw)


def _outputs(raw: Mapping[str, Any]) -> Iterator[Any]:
    for output in _list(raw.get("outputs")):
        if isinstance(output, Mapping):
            yield from output.values()


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": _prompt,
    "system": _prompt,
    "assistant": _assistant,
    "tool": _result,
    "USER": _legacy_prompt,
    "SYSTEM": _legacy_prompt,
    "CHATBOT": _legacy_answer,
    "TOOL": _legacy_results,
}
