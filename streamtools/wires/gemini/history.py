"""Gemini's contents in, entries out: what the user asked, what the model said, what its calls came to.

Of the turn that is going on, each step that calls must begin with a signature if the model signs at all. Where one is
missing among others that have theirs, the documented stand-in takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ...content import Block, Media, Opaque, Text
from ...parts import Part, ToolCall
from ..history_rules import Violation
from ..reading import json_text, list_of, object_of, objects_in, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Flaws,
    Numbered,
    Prompt,
    numbered,
    result_as_read,
    results_and_prompts,
    text_of,
    written,
)
from .decoder import as_wire, without_nulls
from .facts import ABOUT, BARE, BLANK_PART, NAMES_IN_HISTORY, RESULT, RULES

_FROM_URL = str.maketrans("-_", "+/")
_KINDS: dict[str, Literal["image", "audio", "video"]] = {"image": "image", "audio": "audio", "video": "video"}
_ROLES = {"model": "model", "user": "user", "function": "user", "tool": "user", None: "user"}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    names, entries = CallNames(), list[Entry]()
    contents = [_content(message) for message in messages]
    unsigned = _unsigned_steps(contents)
    for index, found in enumerate(contents):
        if found is None:
            continue
        role, parts = found
        blocks, origin = numbered(parts, f"contents[{index}].parts"), (index, index + 1)
        if role == "model":
            entries.append(_model(blocks, origin, names, sign=index in unsigned))
        else:
            entries.extend(_user(blocks, Prompt(role="user", blocks=(), origin=origin)))
    return entries


def _content(message: object) -> tuple[str, list[Any]] | None:
    role = message.get("role") if isinstance(message, Mapping) else 0
    if not isinstance(message, Mapping) or (role is not None and not isinstance(role, str)) or role not in _ROLES:
        return None
    parts = message.get("parts")
    return _ROLES[role], [_part(part) for part in list_of(parts)]


def _part(part: Any) -> Any:
    if not isinstance(part, dict):
        return part
    return as_wire(part) if any("_" in str(name) for name in part) else without_nulls(part)


def _flaw(part: object, path: str) -> Violation | None:
    if not isinstance(part, dict) or not part:
        return RULES.violation("not_a_message", path, "expected a part: an object with a field", BLANK_PART)
    if part.keys() - {"thought"} == {"text"} and not part["text"]:
        return RULES.violation("empty_message", path, "the text is empty", BLANK_PART)
    return None


# -- what was asked, and what calls came to --


def _user(blocks: list[Numbered], prompt: Prompt) -> Iterator[Entry]:
    if not blocks:
        yield prompt
    yield from results_and_prompts(
        blocks, prompt, RULES, is_result=_is_result, read_result=_result, read_block=_read_block, flaw=_flaw
    )


def _is_result(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("functionResponse"), dict)


def _result(part: dict[str, Any], path: str, flaws: Flaws) -> CallResult:
    body = part["functionResponse"]
    name, parts, response = body.get("name"), body.get("parts"), body.get("response")
    if not isinstance(name, str) or not name:
        flaws.add("missing_field", f"{path}.functionResponse.name", "the response has no function name")
    if not isinstance(response, dict):
        flaws.add("bad_result", path, "the response of a function is not an object", "")
        response = {"output": response or ""}
    if refers(response) and not parts:
        flaws.add("bad_result", path, "the response has a key $ref, which the API reads as a reference to a part")
        response = as_text(response)
    media = [_read_block(as_wire(raw)) for raw in objects_in(body, "parts")]
    text, is_error = _output(response)
    blocks = (*([Text(text)] if text else []), *media)
    state = {**part, "functionResponse": {**body, "response": response}}
    return result_as_read(body.get("id"), blocks, rich=bool(media), name=name, is_error=is_error, state=state)


def _output(response: object) -> tuple[str, bool]:
    body = object_of(response)
    is_error = "error" in body and "output" not in body
    value = next(iter(body.values())) if body.keys() in ({"output"}, {"error"}) else response
    return value if isinstance(value, str) else json_text(value) or "", is_error


def _read_block(part: dict[str, Any]) -> Block:
    if isinstance(text := part.get("text"), str):
        return Text(text, state=part)
    inline, file = part.get("inlineData"), part.get("fileData")
    if isinstance(inline, dict) and isinstance(data := inline.get("data"), str):
        # Base64 for URLs is taken, too, and is what the SDK writes; nobody else takes it.
        return Media(data=data.translate(_FROM_URL), state=part, **_described(inline))
    if isinstance(file, dict) and isinstance(uri := file.get("fileUri"), str):
        return Media(url=uri, state=part, **_described(file))
    return Opaque(part)


def _described(body: Mapping[str, Any]) -> dict[str, Any]:
    type_, name = body.get("mimeType"), body.get("displayName")
    mime = type_ if isinstance(type_, str) else None
    kind = _KINDS.get((mime or "").partition("/")[0], "file")
    return {"kind": kind, "mime_type": mime, "filename": name if isinstance(name, str) else None}


# -- what the model said --


def _model(parts: list[Numbered], origin: tuple[int, int], names: CallNames, *, sign: bool) -> Entry:
    answer = AnswerBuilder(names, RULES)
    kept = answer.flaws.sound(parts, _flaw)
    paired = {id(part) for part in without_orphans([part for part, _ in kept])}
    for part, path in kept:
        if id(part) not in paired:
            answer.flaws.add("unanswered_call", path, "a call that the API ran itself has no result", "")
            continue
        if sign and "functionCall" in part:
            what = "the first call of a step has no signature, but others have one"
            answer.flaws.add("missing_signature", path, what)
            part, sign = {**part, "thoughtSignature": FOREIGN_SIGNATURE}, False
        _add(part, path, answer)
    if kept and all(part.keys() == {"text", "thought"} for part, _ in kept):
        answer.flaws.add("empty_message", f"contents[{origin[0]}]", "thought summaries alone are not content")
    return answer.reply(origin)


def _add(part: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    call, code, tool = part.get("functionCall"), part.get("executableCode"), part.get("toolCall")
    if isinstance(call, dict) and "text" not in part:
        arguments, state = {} if call.get("args") is None else call["args"], rest_of(part, "functionCall") or None
        at = f"{path}.functionCall.args"
        answer.call(call.get("id"), call.get("name"), arguments, state=state, object_at=at)
    elif "executableCode" in part:
        body = object_of(code)
        answer.call(body.get("id"), "code_execution", body, kind="server", state={"part": part})
    elif isinstance(tool, dict):
        name, arguments = tool.get("toolType") or "tool_call", tool.get("args") or {}
        answer.call(tool.get("id"), name, arguments, kind="server", state={"part": part})
    elif part.keys() <= BARE and isinstance(text := part.get("text"), str):
        tell = answer.reasoning if part.get("thought") else answer.text
        tell(text, rest_of(part, "text", "thought") or None)
    else:
        answer.provider(part)


def _unsigned_steps(contents: Sequence[tuple[str, list[Any]] | None]) -> set[int]:
    """Returns the places of the running turn's steps that call without any signature, if anything else is signed."""
    found = [content or ("", []) for content in contents]
    signed = {
        place for place, (_, parts) in enumerate(found) if any(object_of(p).get("thoughtSignature") for p in parts)
    }
    if not signed:
        return set()
    asked = [place for place, (role, parts) in enumerate(found) if role == "user" and not all(map(_is_result, parts))]
    calling = {
        place
        for place, (role, parts) in enumerate(found)
        if role == "model" and any("functionCall" in object_of(part) for part in parts)
    }
    return {place for place in calling - signed if not asked or place > asked[-1]}


# -- messages out of a turn --

FOREIGN_SIGNATURE = "skip_thought_signature_validator"
"""What stands for the signature of a call that another model made: Gemini 3 refuses a step whose first call has none.
Documented for that at https://ai.google.dev/gemini-api/docs/thought-signatures, and at Vertex' page of that name."""

# Of function responses: https://ai.google.dev/gemini-api/docs/function-calling (read 2026-11-21)
_IN_RESPONSES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
# A token to go on with, which is for the request, and sources, which no request has.
_BESIDE_CONTENT = ("continuationToken", *ABOUT)
# A call that the provider ran itself, and its result.
_PAIRS = (("executableCode", "codeExecutionResult"), ("toolCall", "toolResponse"))


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    parts = [part for piece in answer.parts if (part := _render_part(piece, answer)) is not None]
    parts = without_orphans(parts)
    if not answer.own_wire:
        for first in [part for part in parts if "functionCall" in part][:1]:
            first["thoughtSignature"] = FOREIGN_SIGNATURE
    is_content = not all(part.keys() == {"text", "thought"} for part in parts)  # summaries alone are none
    return [{"role": "model", "parts": parts}] if is_content else []


def render_results(answer: Answer) -> list[dict[str, Any]]:
    return RESULT.as_messages([_render_result(result, answer) for result in answer.results])


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    parts = written(prompt.blocks, text=lambda text: {"text": text}, media=_media_part) if prompt.role == "user" else []
    return [{"role": "user", "parts": parts}] if parts else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    named = _named(answer.calls[result.call_id])
    if answer.own_wire and result.state is not None:
        return {**result.state, "functionResponse": named | rest_of(result.state["functionResponse"], "id", "name")}
    parts, left = _response_media(result.blocks)
    told: Any = result.native if result.native is not None else text_of(left) if parts else result.content
    is_response = isinstance(told, dict) and result.native is not None and not result.is_error
    response = told if is_response else {"error" if result.is_error else "output": told}
    if refers(response):
        response = as_text(response)
    return {"functionResponse": named | {"response": response} | ({"parts": parts} if parts else {})}


def _media_part(media: Media) -> dict[str, Any] | None:
    if media.mime_type is None:
        return None
    if media.data is not None:
        return {"inlineData": {"mimeType": media.mime_type, "data": media.data}}
    return {"fileData": {"mimeType": media.mime_type, "fileUri": media.url}} if media.url is not None else None


def _response_media(blocks: Iterable[Block]) -> tuple[list[dict[str, Any]], list[Block]]:
    parts: list[dict[str, Any]] = []
    left: list[Block] = []
    for block in blocks:
        takes = isinstance(block, Media) and block.data is not None and block.mime_type in _IN_RESPONSES
        part = _media_part(block) if takes and isinstance(block, Media) else None
        if part is not None:
            parts.append(part)
        else:
            left.append(block)
    return parts, left


def as_text(response: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a response whose content is JSON text, where ``$ref`` means nothing."""
    key = "error" if "error" in response else "output"
    content = response[key] if response.keys() == {key} else response
    return {key: json_text(content) or ""}


def refers(value: object) -> bool:
    """Returns whether some object in a JSON value has the key ``$ref``: the API reads it as the name of a part of the
    response (vercel/ai#14369). Without recursion."""
    waiting = [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            if "$ref" in node:
                return True
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return False


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    own, state = answer.own_wire, dict(answer.state_of(part))
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        state = dict(answer.state_of(call))
        if call.kind == "server":
            return state.get("part")
        return {"functionCall": _named(call) | {"args": answer.arguments[call.call_id][1]}, **state}
    if part.kind == "provider":
        return state if state and state.keys().isdisjoint(_BESIDE_CONTENT) else None
    if part.kind == "reasoning":
        return {"text": part.text, "thought": True, **state} if own and (part.text or state) else None
    if not (part.text if own else part.text.strip()) and not state:
        return None  # "required oneof field 'data' must have one initialized field" (router-for-me/CLIProxyAPI#1292)
    return {"text": part.text, **state}


def _named(call: ToolCall) -> dict[str, Any]:
    name = NAMES_IN_HISTORY.cleaned(call.name)
    return {"name": name} if call.call_id_synthesized else {"id": call.call_id, "name": name}


def without_orphans(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the parts without the provider's own calls whose result was cut off: the two belong together."""
    kept: list[dict[str, Any]] = []
    results: dict[str, list[str | None]] = {call: [] for call, _ in _PAIRS}  # ids of those that are still to be claimed
    for part in reversed(parts):
        if all(_claims(part[call], results[call]) for call, _ in _PAIRS if call in part):
            kept.append(part)
        for call, result in _PAIRS:
            if result in part:
                results[call].append(_id_of(part[result]))
    return kept[::-1]


def _claims(call: object, results: list[str | None]) -> bool:
    """Returns whether one of the results is the call's; it is then nobody else's. Either may come without its id."""
    own = _id_of(call)
    for id_ in (own, None) if own else results[-1:]:
        if id_ in results:
            results.remove(id_)
            return True
    return False


def _id_of(body: object) -> str | None:
    id_ = body.get("id") if isinstance(body, dict) else None
    return id_ if isinstance(id_, str) else None
