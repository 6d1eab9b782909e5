"""Cohere's messages in, entries out: v2's ``messages``, and v1's ``chat_history``.

A plan and thoughts are reasoning, as the decoder leaves them. v1 knows no ids: its results repeat the call, and are
paired by its name. What the API would refuse is left out, each with a flaw that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ...content import Text
from ...parts import Part, ToolCall
from ...schema.names import PLAIN_NAMES
from ..openai_chat import history as chat
from ..reading import list_of, object_of, objects_in, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Flaws,
    Numbered,
    Prompt,
    Returned,
    entries_by_role,
    id_as_read,
    numbered,
    text_of,
)
from .facts import RULES

_V1 = {"api": "v1"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    return entries_by_role(messages, _READERS)


# -- v2 --


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, path, call_id = Flaws(RULES), f"messages[{index}]", message.get("tool_call_id")
    blocks = chat.result_blocks(message, path, flaws)
    if not _is_id(call_id):
        flaws.add("bad_id", path, "a result without the id of its call")
    rich = not all(isinstance(block, Text) for block in blocks)
    return chat.returned(message, index, blocks, flaws, rich=rich, name=None)


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    if isinstance(plan := message.get("tool_plan"), str) and plan:
        answer.reasoning(plan, {"field": "tool_plan"})
    has_text = _content(message.get("content"), path, answer)
    for raw, where in _with_ids(chat.calls_of(message, path, answer.flaws), index, answer.flaws):
        chat.read_call(raw, where, answer)
    if answer.says_more and has_text:
        answer.flaws.add("mixed_results", path, "text beside calls; it belongs in tool_plan")
    if not (answer.says_more or has_text):
        answer.flaws.add("empty_message", path, "the message has neither text nor calls")
    for citation in list_of(message.get("citations")):
        answer.provider({"citations": citation})
    return answer.reply((index, index + 1))


def _with_ids(calls: list[Numbered], index: int, flaws: Flaws) -> list[Numbered]:
    found: list[Numbered] = []
    for number, (raw, where) in enumerate(calls):
        if isinstance(raw, Mapping) and not _is_id(raw.get("id")):
            flaws.add("bad_id", where, "a call without an id")
            raw = {**raw, "id": f"call_{index}_{number}"}
        found.append((raw, where))
    return found


def _is_id(given: object) -> bool:
    return isinstance(given, str) and id_as_read(given) != ""


def _content(content: object, path: str, answer: AnswerBuilder) -> bool:
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
            answer.flaws.add("empty_message", where, "this is neither text nor thinking, or is empty")
    return has_text


# -- v1 --


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
    for call in objects_in(message, "tool_calls"):
        answer.call(None, call.get("name"), call.get("parameters"), state=_V1)
    return answer.reply((index, index + 1))


def _legacy_results(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    results = tuple(map(_legacy_result, objects_in(message, "tool_results")))
    return Returned(results=results, origin=(index, index + 1))


def _legacy_result(raw: Mapping[str, Any]) -> CallResult:
    name = object_of(raw.get("call")).get("name")
    texts = (str(value) for output in objects_in(raw, "outputs") for value in output.values())
    return CallResult(call_id="", content="\n".join(texts), name=name if isinstance(name, str) else None, state=raw)


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": partial(chat.read_prompt, rules=RULES),
    "system": partial(chat.read_prompt, rules=RULES),
    "assistant": _assistant,
    "tool": _result,
    "USER": _legacy_prompt,
    "SYSTEM": _legacy_prompt,
    "CHATBOT": _legacy_answer,
    "TOOL": _legacy_results,
}


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message. Empty without text and calls: a plan answers nothing."""
    text = answer.text("text") + answer.text("refusal")
    if not answer.our_calls and not text.strip():
        return []
    return [_legacy(answer, text) if _is_legacy(answer) else _current(answer, text)]


def render_results(answer: Answer) -> list[dict[str, Any]]:
    if not _is_legacy(answer):
        return [chat.render_result(result, answer) for result in answer.results]
    results = [
        {"outputs": [{"output": result.content}], **(result.state or {}), "call": _v1_call(result.call_id, answer)}
        for result in answer.results
    ]
    return [{"role": "TOOL", "tool_results": results}] if results else []


def _is_legacy(answer: Answer) -> bool:
    pieces: list[Part | ToolCall] = [*answer.parts, *answer.calls.values()]
    return any(answer.state_of(piece).get("api") == "v1" for piece in pieces)


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    state = prompt.state or {}
    if state.get("role") in ("USER", "SYSTEM"):  # v1's
        return [{"message": text_of(prompt.blocks), **state}] if prompt.blocks else []
    content = chat.native_content(prompt.blocks, {"image": chat.image_part})
    return [{"role": prompt.role, "content": content, **state}] if content else []


def _current(answer: Answer, text: str) -> dict[str, Any]:
    calls = answer.our_calls
    message: dict[str, Any] = {"role": "assistant"}
    content = [block for part in answer.parts if (block := _block(part, answer)) is not None]
    if calls:
        content = [block for block in content if block["type"] != "text"]  # refused beside calls
        plan = [said for said in (_plan(answer), text) if said.strip()]
        if plan:
            message["tool_plan"] = "\n\n".join(plan)
        message["tool_calls"] = [{**answer.as_function(call), **answer.state_of(call)} for call in calls]
    if content:
        message["content"] = content
    states = [answer.state_of(part) for part in answer.parts if part.kind == "provider"]
    if citations := [state["citations"] for state in states if "citations" in state]:
        message["citations"] = citations
    return message


def _legacy(answer: Answer, text: str) -> dict[str, Any]:
    """Renders an entry of ``chat_history``."""
    calls = [_v1_call(call.call_id, answer) for call in answer.our_calls]
    return {"role": "CHATBOT", "message": text or _plan(answer), **({"tool_calls": calls} if calls else {})}


def _v1_call(call_id: str, answer: Answer) -> dict[str, Any]:
    """Renders a call as v1 has it: without an id, so that a result repeats it."""
    return {"name": PLAIN_NAMES.cleaned(answer.calls[call_id].name), "parameters": answer.arguments[call_id][1]}


def _block(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "text" or part.kind == "refusal":
        return {"type": "text", "text": part.text} if part.text.strip() else None
    if part.kind == "reasoning" and state.get("field") == "thinking":
        return {"type": "thinking", "thinking": part.text}
    return None


def _plan(answer: Answer) -> str:
    return "".join(
        part.text
        for part in answer.parts
        if part.kind == "reasoning" and answer.state_of(part).get("field") == "tool_plan"
    )


# -- a whole answer as a stream --


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    message = answer["message"]
    rest = rest_of(answer, "id", "message", "finish_reason", "usage")
    end = {"finish_reason": answer["finish_reason"], "usage": answer.get("usage"), **rest}
    begun = rest_of(message, "content", "tool_plan", "tool_calls", "citations")
    return [
        {"type": "message-start", "id": answer.get("id"), "delta": {"message": {**begun, "content": []}}},
        *_events_of(message),
        {"type": "message-end", "delta": end},
    ]


def _events_of(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if plan := message.get("tool_plan"):
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": plan}}}
    for at, part in enumerate(objects_in(message, "content")):
        empty = {key: "" if key in ("text", "thinking") else value for key, value in part.items()}
        text = {key: value for key, value in part.items() if key in ("text", "thinking")}
        yield {"type": "content-start", "index": at, "delta": {"message": {"content": empty}}}
        yield {"type": "content-delta", "index": at, "delta": {"message": {"content": text}}}
        yield {"type": "content-end", "index": at}
    for at, call in enumerate(objects_in(message, "tool_calls")):
        yield {"type": "tool-call-start", "index": at, "delta": {"message": {"tool_calls": call}}}
        yield {"type": "tool-call-end", "index": at}
    for at, citation in enumerate(objects_in(message, "citations")):
        yield {"type": "citation-start", "index": at, "delta": {"message": {"citations": citation}}}
        yield {"type": "citation-end", "index": at}
