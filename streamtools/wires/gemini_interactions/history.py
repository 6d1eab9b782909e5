"""Steps in, entries out: what the user asked, what the model said, what its calls came to.

An input may be a list of contents without steps: those are the user's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeGuard

from ...content import Block, Media, Opaque, Text
from ...parts import Part, ToolCall
from .. import (
    Answer,
    AnswerBuilder,
    CallResult,
    Entry,
    Prompt,
    Returned,
    json_text,
    list_of,
    objects_in,
    rest_of,
    text_of,
)
from ..gemini.facts import NAMES_IN_HISTORY
from ..transcript import Flaws, entries_in_runs, items_of, output_of, result_as_read, written
from .facts import CONTENTS, MEDIA, RULES, RUNNING, call_kind, contents_of, name_of

_BLOCKS = MEDIA | {"text"}
_FROM_URL = str.maketrans("-_", "+/")
_KINDS: dict[str, Literal["image", "audio", "video", "file"]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    searches = (step for step in messages if _is_step(step) and step["type"] == "tool_search_call")
    ours = {str(step.get("id")) for step in searches if call_kind(step["type"], step) == "function"}

    def asked(number: int) -> Prompt | Returned | None:
        step = messages[number]
        if step["type"] == "user_input" or step["type"] in _BLOCKS:
            return _prompt(step, number)
        is_search = step["type"] == "tool_search_result" and str(step.get("call_id")) in ours
        return _returned(step, number) if is_search or step["type"] == "function_result" else None

    def add(number: int, place: int, answer: AnswerBuilder) -> None:
        _add(messages[number], place, f"input[{number}]", answer)

    return entries_in_runs(messages, _is_step, asked, add, RULES)


def _is_step(step: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(step, Mapping) and isinstance(type_ := step.get("type"), str) and type_ != ""


# -- what was asked, and what calls came to --


def _prompt(step: Mapping[str, Any], place: int) -> Prompt:
    if step["type"] != "user_input":
        return Prompt(role="user", blocks=(_read_block(dict(step)),), origin=(place, place + 1))
    flaws, content = Flaws(RULES), step.get("content")
    if isinstance(content, list) and any(not _is_step(raw) for raw in content):
        flaws.add("not_a_message", f"input[{place}]", "the step contains something without a type")
    beside = rest_of(step, "type", "content") or None
    blocks = _read_blocks(content)
    return Prompt(role="user", blocks=blocks, origin=(place, place + 1), state=beside, flaws=tuple(flaws.found))


def _returned(step: Mapping[str, Any], place: int) -> Returned:
    flaws, path = Flaws(RULES), f"input[{place}]"
    if not isinstance(step.get("call_id"), str) or not step["call_id"]:
        flaws.add("missing_field", f"{path}.call_id", "the result has no call id")
    result = step.get("result")
    if not isinstance(result, (str, list)) and step["type"] == "function_result":
        flaws.add("bad_result", path, "the result is neither text nor a list of contents", "")
    found = _result(step, sound=not flaws.found)
    return Returned(results=(found,), origin=(place, place + 1), flaws=tuple(flaws.found))


def _result(step: Mapping[str, Any], *, sound: bool) -> CallResult:
    result = step.get("result")
    blocks = _read_blocks(result)
    is_told = isinstance(result, str) or (
        isinstance(result, list) and all(_is_step(raw) and raw["type"] in _BLOCKS for raw in result)
    )
    if not is_told:
        blocks = (Text("" if result is None else json_text(result) or ""),)
    return result_as_read(
        step.get("call_id"),
        blocks,
        rich=any(isinstance(block, Media) for block in blocks),
        name=step.get("name"),
        is_error=step.get("is_error") is True,
        state=step if sound else None,
    )


def _read_blocks(content: object) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read_block(raw) for raw in list_of(content) if _is_step(raw))


def _read_block(raw: Mapping[str, Any]) -> Block:
    type_, mime, data, uri = raw["type"], raw.get("mime_type"), raw.get("data"), raw.get("uri")
    if type_ == "text" and isinstance(text := raw.get("text"), str):
        return Text(text, state=raw)
    said: dict[str, Any] = {"mime_type": mime if isinstance(mime, str) else None, "state": raw}
    if type_ in _KINDS and isinstance(data, str):
        # base64 for URLs is what the SDK writes; nobody else takes it
        return Media(kind=_KINDS[type_], data=data.translate(_FROM_URL), **said)
    if type_ in _KINDS and isinstance(uri, str):
        return Media(kind=_KINDS[type_], url=uri, **said)
    return Opaque(raw)


# -- what the model said --


def _add(step: Mapping[str, Any], place: int, path: str, answer: AnswerBuilder) -> None:
    type_ = step["type"]
    kind = call_kind(type_, step)
    state = {"index": place, "step": step}
    if kind == "function":
        arguments = {} if step.get("arguments") is None else step["arguments"]
        kept = {"index": place, "step": rest_of(step, "arguments")}
        answer.call(step.get("id"), name_of(step), arguments, state=kept, object_at=f"{path}.arguments")
    elif kind == "server":
        given = step.get("arguments")
        arguments = given if isinstance(given, Mapping) else {}  # the step itself goes back as it came
        answer.call(step.get("id"), name_of(step), arguments, kind=kind, state=state)
    elif type_ == "model_output" and not (step.get("content") or step.get("error")):
        answer.flaws.add("empty_message", path, "the output is empty", "")
    elif type_ in CONTENTS:
        _add_contents(step, state, answer)
    else:
        answer.provider(state)


def _add_contents(step: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    tell = answer.reasoning if step["type"] == "thought" else answer.text
    contents = contents_of(step)
    texts: list[Block] = []
    for raw in contents:
        if _is_step(raw) and isinstance(block := _read_block(raw), Text):
            texts.append(block)
        else:
            if texts:
                tell(_joined(texts), {"index": state["index"]})
            texts = []
            answer.provider({"index": state["index"], "content": raw})
    if texts or not contents:
        tell(_joined(texts), state)
    else:
        answer.provider(state)


def _joined(texts: list[Block]) -> str:
    return "".join(text_of([text]) for text in texts)


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    return items_of(
        answer,
        "index",
        "step",
        of_call=_step_of_call,
        fit=_returnable,
        content_of=_content,
        message={"type": "model_output"},
    )


def render_results(answer: Answer) -> list[dict[str, Any]]:
    said = [one for one in answer.results if not answer.state_of(answer.calls[one.call_id]).get("unsaid")]
    return [_render_result(result, answer) for result in said]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    content = _native_blocks(prompt.blocks) if prompt.role == "user" else []
    return [{**(prompt.state or {}), "type": "user_input", "content": content}] if content else []


def _returnable(step: Mapping[str, Any]) -> dict[str, Any] | None:
    is_empty = step.get("type") == "model_output" and not (step.get("content") or step.get("error"))
    return None if is_empty else dict(step)


def _step_of_call(call: ToolCall, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(call)
    kept: Mapping[str, Any] = state.get("step") or {}
    if call.kind == "server":
        return dict(kept) or None
    if state.get("unsaid"):
        return None
    named = {} if kept.get("type") == "tool_search_call" else {"name": NAMES_IN_HISTORY.cleaned(call.name)}
    head = {"type": "function_call", **kept, "id": call.call_id}
    return head | named | {"arguments": answer.arguments[call.call_id][1]}


def _content(part: Part) -> dict[str, Any] | None:
    is_said = part.kind in ("text", "refusal") and part.text.strip()
    return {"type": "text", "text": part.text} if is_said else None


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    call = answer.calls[result.call_id]
    kept: Mapping[str, Any] = answer.state_of(call).get("step") or {}
    if kept.get("type") == "tool_search_call":
        found = result.native if isinstance(result.native, list) and not result.is_error else []
        own = result.state if answer.own_wire and result.state is not None else {"result": found}
        return {"type": "tool_search_result", **own, "call_id": result.call_id}
    named = {"call_id": result.call_id, "name": NAMES_IN_HISTORY.cleaned(call.name)}
    if answer.own_wire and result.state is not None:
        return {**result.state, **named}
    error = {"is_error": True} if result.is_error else {}
    output = output_of(result, partial(_native_blocks, own_wire=answer.own_wire))  # no object: zenml-io/kitaru#377
    return {"type": "function_result", **named, "result": output, **error}


def _native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    return written(blocks, own_wire=own_wire, text=lambda text: {"type": "text", "text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    type_ = "document" if media.kind == "file" else media.kind
    if media.mime_type is None or type_ not in MEDIA:
        return None
    if media.data is not None:
        return {"type": type_, "mime_type": media.mime_type, "data": media.data}
    return {"type": type_, "mime_type": media.mime_type, "uri": media.url} if media.url is not None else None


# -- a whole answer as a stream --

# Rewrites a whole interaction as the events that say the same: each step in one piece.
#
# One in the background that is still queued or in progress has no end: neither has the stream, nor any call in it.


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    told = rest_of(answer, "steps")
    begun = {key: told[key] for key in ("id", "object", "model") if key in told}
    goes_on = answer["status"] in RUNNING
    last = "interaction.status_update" if goes_on else "interaction.completed"
    said = [step for step in answer["steps"] if isinstance(step, dict) and step.get("type") != "user_input"]
    return [
        {"event_type": "interaction.created", "interaction": {**begun, "status": "in_progress"}},
        *(event for at, step in enumerate(said) for event in _step(step, at, goes_on=goes_on)),
        {"event_type": last, "interaction": told},
    ]


def _step(step: Mapping[str, Any], at: int, *, goes_on: bool) -> Iterator[dict[str, Any]]:
    deltas = list(_deltas(step))
    taken = ("content", "summary", "signature", "arguments") if deltas else ()
    yield {"event_type": "step.start", "index": at, "step": rest_of(step, *taken)}
    for delta in deltas:
        yield {"event_type": "step.delta", "index": at, "delta": delta}
    is_ours = call_kind(str(step.get("type")), step) == "function"
    if not (goes_on and is_ours):  # a call that ended would run now, and again in the whole interaction
        yield {"event_type": "step.stop", "index": at}


def _deltas(step: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    type_ = step.get("type")
    if type_ == "function_call":
        yield {"type": "arguments_delta", "arguments": json_text(step.get("arguments") or {}) or ""}
    elif type_ == "model_output":
        yield from objects_in(step, "content")
    elif type_ == "thought":
        for content in objects_in(step, "summary"):
            yield {"type": "thought_summary", "content": content}
        if isinstance(step.get("signature"), str):
            yield {"type": "thought_signature", "signature": step["signature"]}
