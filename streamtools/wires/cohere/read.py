"""Cohere's messages in, entries out: v2's ``messages``, and v1's ``chat_history``.

A plan and thoughts are reasoning, as the decoder leaves them. v1 knows no ids: its results repeat the call, and are
paired by its name. What the API would refuse is left out, each with a flaw that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...content import Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, Numbered, entries_by_role, numbered
from ..openai_chat.read import calls_of, read_call, read_prompt, result_blocks, returned
from ..transcript import CallResult, Entry, Prompt, Returned
from .facts import RULES

__all__ = ["read"]

_V1 = {"api": "v1"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    return entries_by_role(messages, _READERS)


# -- v2 ----------------------------------------------------------------------------------------------------------------


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, path, call_id = Flaws(RULES), f"messages[{index}]", message.get("tool_call_id")
    blocks = result_blocks(message, path, flaws)
    if not isinstance(call_id, str) or not call_id:
        flaws.add("bad_id", path, "a result without the id of its call")
    rich = not all(isinstance(block, Text) for block in blocks)
    return returned(message, index, blocks, flaws, rich=rich, name=None)


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    if isinstance(plan := message.get("tool_plan"), str) and plan:
        answer.reasoning(plan, {"field": "tool_plan"})
    has_text = _content(message.get("content"), path, answer)
    for raw, where in _with_ids(calls_of(message, path, answer.flaws), index, answer.flaws):
        read_call(raw, where, answer)
    if answer.says_more and has_text:
        answer.flaws.add("mixed_results", path, "text beside calls: it belongs into tool_plan")
    if not (answer.says_more or has_text):
        answer.flaws.add("empty_message", path, "the message has neither text nor calls")
    citations = message.get("citations")
    for citation in citations if isinstance(citations, list) else ():
        answer.provider({"citations": citation})
    return answer.said((index, index + 1))


def _with_ids(calls: list[Numbered], index: int, flaws: Flaws) -> list[Numbered]:
    """Returns the calls, each with an id: that it may miss one is v1's affair."""
    found: list[Numbered] = []
    for number, (raw, where) in enumerate(calls):
        if isinstance(raw, Mapping) and not (isinstance(raw.get("id"), str) and raw["id"]):
            flaws.add("bad_id", where, "a call without an id")
            raw = {**raw, "id": f"call_{index}_{number}"}
        found.append((raw, where))
    return found


def _content(content: object, path: str, answer: AnswerBuilder) -> bool:
    """Adds what the content holds. Returns whether any of it is text."""
    has_text = False
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    for raw, where in numbered(blocks, f"{path}.content"):
        kind = raw.get("type") if isinstance(raw, Mapping) else None
        said = raw.get(kind) if isinstance(raw, Mapping) and isinstance(kind, str) else None
        if kind == "thinking" and isinstance(said, str) and said:
            answer.reasoning(said, {"field": "thinking"})
        elif kind == "text" and isinstance(said, str) and said.strip():
            answer.text(said)
            has_text = True
        elif isinstance(content, list):
            answer.flaws.add("empty_message", where, "this is neither text nor thinking, or says nothing")
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
    answer = AnswerBuilder(names, RULES)
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
    "user": partial(read_prompt, rules=RULES),
    "system": partial(read_prompt, rules=RULES),
    "assistant": _assistant,
    "tool": _result,
    "USER": _legacy_prompt,
    "SYSTEM": _legacy_prompt,
    "CHATBOT": _legacy_answer,
    "TOOL": _legacy_results,
}
