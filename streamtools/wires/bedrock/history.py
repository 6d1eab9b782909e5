"""Converse messages in, entries out: what the user asked, what the model said, what its calls came to.

A user's message of results and other blocks is read as `Returned` and `Prompt`, in their order, with the same origin.
Blocks that the service would refuse are left out, each with a flaw.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...content import Block, Media, Opaque, Text
from ...parts import CallKind, Part
from ...schema.names import PLAIN_NAMES
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
    decoded,
    encoded,
    numbered,
    result_as_read,
    results_and_prompts,
    text_block,
    written,
)
from .facts import BLANK_TEXT, DOCUMENT_WITHOUT_TEXT, EMPTY_RESULT, RESULT, RULES


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role, content = object_of(message).get("role"), list_of(object_of(message).get("content"))
        blocks = numbered(content, f"messages[{index}].content")
        if role == "assistant":
            entries.append(_assistant(blocks, (index, index + 1), names))
        elif role == "system":
            entries.append(Prompt(role="system", blocks=read_blocks(content), origin=(index, index + 1)))
        elif role == "user":
            entries.extend(_user(blocks, Prompt(role="user", blocks=(), origin=(index, index + 1))))
    return entries


def _flaw(raw: Any, path: str) -> Violation | None:
    if kind := kind_of(raw):
        blank = kind == "text" and not str(raw["text"]).strip()
        return RULES.violation("empty_message", path, "the text block is blank", BLANK_TEXT) if blank else None
    return RULES.violation("not_a_message", path, "expected a content block: an object with one key")


# -- what was asked, and what calls came to --


def _user(blocks: list[Numbered], prompt: Prompt) -> Iterator[Entry]:
    if not blocks:
        yield prompt
    for entry in results_and_prompts(
        blocks,
        prompt,
        RULES,
        is_result=lambda raw: _body(raw, "toolResult") is not None,
        read_result=_result,
        read_block=read_block,
        flaw=_flaw,
    ):
        yield _with_text(entry) if isinstance(entry, Prompt) else entry


def _with_text(prompt: Prompt) -> Prompt:
    kinds = {kind_of(block.state) for block in prompt.blocks}
    if "document" not in kinds or "text" in kinds or prompt.origin is None:
        return prompt
    path, what = f"messages[{prompt.origin[0]}]", "a document has no text beside it"
    flaw = RULES.violation("empty_message", path, what, DOCUMENT_WITHOUT_TEXT)
    return replace(prompt, flaws=(*prompt.flaws, flaw))


def _body(raw: object, kind: str) -> dict[str, Any] | None:
    body = raw.get(kind) if isinstance(raw, dict) else None
    return body if isinstance(body, dict) else None


def _result(raw: dict[str, Any], path: str, flaws: Flaws) -> CallResult:
    body = raw["toolResult"]
    given = [(_with_object(block, at, flaws), at) for block, at in numbered(body.get("content"), f"{path}.content")]
    content = [block for block, _ in flaws.sound(given, _flaw)]
    if not given:
        flaws.add("empty_message", path, "the result is empty", EMPTY_RESULT)
    content = content or [{"text": "(empty)"}]
    blocks, state = read_blocks(content), {"toolResult": {**body, "content": content}}
    rich = any(isinstance(block, Media) for block in blocks)
    return result_as_read(body.get("toolUseId"), blocks, rich=rich, is_error=body.get("status") == "error", state=state)


def _with_object(block: Any, path: str, flaws: Flaws) -> Any:
    if kind_of(block) != "json" or isinstance(block["json"], dict):
        return block
    flaws.add("bad_result", path, "the JSON of a result is not an object")
    value = block["json"]
    return {"text": value if isinstance(value, str) else json_text(value) or "(empty)"}


# -- what the model said --


def _assistant(blocks: list[Numbered], origin: tuple[int, int], names: CallNames) -> Entry:
    answer, apart = AnswerBuilder(names, RULES), _server_calls_apart(blocks)
    kept = answer.flaws.sound(blocks, lambda raw, path: _flaw(raw, path) or _unusable(raw, path) or apart.get(path))
    while kept and "reasoningContent" in kept[-1][0]:
        answer.flaws.add("reasoning_apart", kept.pop()[1], "reasoning is the last block of the message")
    for raw, path in kept:
        _add(raw, path, answer)
    return answer.reply(origin)


def _unusable(raw: dict[str, Any], path: str) -> Violation | None:
    thought = _body(_body(raw, "reasoningContent"), "reasoningText")
    if thought is not None and not thought.get("signature"):
        return RULES.violation("missing_signature", path, "the reasoning has no signature: it was cut, or is another's")
    result = _body(raw, "toolResult")
    if any(kind in raw and _body(raw, kind) is None for kind in ("toolUse", "toolResult", "reasoningContent")):
        return RULES.violation("not_a_message", path, "the block is not an object")
    if result is not None and not isinstance(result.get("toolUseId"), str):
        return RULES.violation("not_a_message", path, "the result names no call")
    return None


def _add(raw: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    use, thought = _body(raw, "toolUse"), _body(_body(raw, "reasoningContent"), "reasoningText")
    cited = _body(raw, "citationsContent")
    texts = [piece.get("text") for piece in objects_in(cited or {}, "content")]
    match texts:
        case [str(text)] if cited is not None and cited.get("citations") and text.strip():
            answer.text(text, {"citations": cited["citations"]})
            return
    if use is not None:
        _call(use, path, answer)
    elif thought is not None and thought.keys() <= {"text", "signature"} and isinstance(thought.get("text", ""), str):
        answer.reasoning(thought.get("text", ""), {"signature": thought["signature"]})
    elif kind_of(raw) == "text" and isinstance(raw["text"], str) and len(raw) == 1:
        answer.text(raw["text"])
    else:
        answer.provider(raw)


def _call(use: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    state = rest_of(use, "toolUseId", "name", "input") or None
    kind: CallKind = "server" if _is_server(use) else "function"
    at = f"{path}.toolUse.input"
    answer.call(use.get("toolUseId"), use.get("name"), use.get("input"), kind=kind, state=state, object_at=at)


def _is_server(use: Mapping[str, Any]) -> bool:
    return use.get("type") == "server_tool_use"


def _server_calls_apart(blocks: list[Numbered]) -> dict[str, Violation]:
    what = "a call that the service ran itself has no result, or a result has no call"
    asked = {_id(use) for raw, _ in blocks if (use := _body(raw, "toolUse")) is not None}
    answered = {_id(result) for raw, _ in blocks if (result := _body(raw, "toolResult")) is not None}
    return {
        path: RULES.violation("unanswered_call", path, what)
        for raw, path in blocks
        if ((use := _body(raw, "toolUse")) is not None and _is_server(use) and _id(use) not in answered)
        or ((result := _body(raw, "toolResult")) is not None and _id(result) not in asked)
    }


def _id(body: Mapping[str, Any]) -> str:
    return str(body.get("toolUseId"))


# -- messages out of a turn --

_RESULT_BLOCKS = frozenset({"json", "text", "image", "document", "video", "searchResult"})


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    blocks = numbered([block for part in answer.parts if (block := _render_part(part, answer)) is not None], "")
    apart = _server_calls_apart(blocks)
    kept = [block for block, path in blocks if path not in apart]
    while kept and "reasoningContent" in kept[-1]:
        kept.pop()
    return [{"role": "assistant", "content": kept}] if kept else []


def render_results(answer: Answer) -> list[dict[str, Any]]:
    return RESULT.as_messages([_render_result(result, answer) for result in answer.results])


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    blocks = native_blocks(prompt.blocks)
    kinds = {kind_of(block) for block in blocks}
    if "document" in kinds and "text" not in kinds:
        blocks.append(
            {"text": "."}
        )  # "A text block must be included when using documents." (archestra-ai/archestra#4220)
    return [{"role": prompt.role, "content": blocks}] if blocks else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    """Says by its text alone that the call failed: "This model doesn't support the status field"
    (strands-agents/harness-sdk#554), which is there for Nova and Claude only, who can do without
    (https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultBlock.html). Nor does every model
    take an empty one (strands-agents/harness-sdk#2122), or a blank one (NousResearch/hermes-agent#61318)."""
    kept = result.state.get("toolResult") if answer.own_wire and result.state is not None else None
    if isinstance(kept, dict):
        return {"toolResult": {**kept, "toolUseId": result.call_id}}
    content = _native_content(result.native)
    if not content:
        text = [Text(result.content if result.content.strip() else "(empty)")]
        content = native_blocks(result.blocks, own_wire=answer.own_wire) or native_blocks(text)
    return {"toolResult": {"toolUseId": result.call_id, "content": content}}


def _native_content(native: Any) -> list[Any]:
    if isinstance(native, str):
        return [{"text": native}] if native.strip() else []
    if isinstance(native, dict):
        return [native if len(native) == 1 and kind_of(native) in _RESULT_BLOCKS else {"json": native}]
    return list(native) if isinstance(native, list) else []


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        if call.kind == "server" and not answer.own_wire:
            return None
        body = {"name": PLAIN_NAMES.cleaned(call.name), "input": answer.arguments[call.call_id][1]}
        return {"toolUse": {"toolUseId": call.call_id, **body, **answer.state_of(call)}}
    if part.kind == "reasoning":
        # Unsigned, no model takes it back: "User messages cannot contain reasoning content" (can1357/oh-my-pi#9086).
        signed = {"text": part.text, "signature": state.get("signature")}
        return {"reasoningContent": {"reasoningText": signed}} if state.get("signature") else None
    if part.kind == "provider":
        return dict(state) if state else None
    if not part.text.strip():
        return None  # "The text field in the ContentBlock object is blank"
    if citations := state.get("citations"):
        return {"citationsContent": {"content": [{"text": part.text}], "citations": citations}}
    return {"text": part.text}


# -- blocks --

# The blocks of a message or a result, in both directions.
#
# A block has one key, which says what it is: ``{"text": …}``, ``{"image": {"format": …, "source": {"bytes": …}}}``.
# Bytes are written as `bytes`, which botocore encodes itself; whoever sends JSON without it encodes them in base64.

_FORMATS: dict[str, dict[str, str]] = {
    "image": {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"},
    "document": {
        "application/pdf": "pdf",
        "text/csv": "csv",
        "application/msword": "doc",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
        "application/vnd.ms-excel": "xls",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
        "text/html": "html",
        "text/plain": "txt",
        "text/markdown": "md",
    },
    "video": {
        "video/x-matroska": "mkv",
        "video/quicktime": "mov",
        "video/mp4": "mp4",
        "video/webm": "webm",
        "video/x-flv": "flv",
        "video/mpeg": "mpeg",
        "video/x-ms-wmv": "wmv",
        "video/3gpp": "three_gp",
    },
}  # by block: MIME types, and what the API calls them
_BLOCKS = {"image": "image", "file": "document", "video": "video"}
_KINDS = {"image": "image", "document": "file", "video": "video"}
_TYPES = {block: {name: mime for mime, name in names.items()} for block, names in _FORMATS.items()}
# "alphanumeric characters, whitespace characters (no more than one in a row), hyphens, parentheses, square brackets":
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_DocumentBlock.html (read 2026-11-21)
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9\s()\[\]-]+|\s+")


def kind_of(raw: object) -> str:
    if not isinstance(raw, dict):
        return ""
    return next((key for key, value in raw.items() if isinstance(key, str) and value is not None), "")


def read_blocks(content: object) -> tuple[Block, ...]:
    return tuple(read_block(raw) for raw in list_of(content) if isinstance(raw, dict))


def read_block(raw: dict[str, Any]) -> Block:
    kind = kind_of(raw)
    reader = _READERS.get(kind)
    return (reader(kind, raw) if reader is not None else None) or Opaque(raw)


def native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    return written(blocks, own_wire=own_wire, text=lambda text: {"text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    kind = _BLOCKS.get(media.kind, "")
    format_ = _FORMATS.get(kind, {}).get((media.mime_type or "").partition(";")[0])
    source: dict[str, Any] | None = None
    if media.data is not None:
        data = decoded(media.data)
        source = {"bytes": data} if data else None
    elif media.url is not None and media.url.startswith("s3://"):
        source = {"s3Location": {"uri": media.url}}
    if format_ is None or source is None:
        return None
    name = {"name": _NOT_IN_NAMES.sub(" ", media.filename or "").strip()[:200] or "document"}
    return {kind: {"format": format_, **(name if kind == "document" else {}), "source": source}}


# -- reading --


def _read_text(_: str, raw: dict[str, Any]) -> Block | None:
    return Text(text, state=raw) if isinstance(text := raw["text"], str) else None


def _read_json(_: str, raw: dict[str, Any]) -> Block | None:
    text = json_text(raw["json"])
    return Text(text, state=raw) if text is not None else None


def _read_media(kind: str, raw: dict[str, Any]) -> Block | None:
    body = raw[kind]
    source = body.get("source") if isinstance(body, dict) else None
    if not isinstance(source, dict):
        return None
    format_, name = body.get("format"), body.get("name")
    found: dict[str, Any] = {
        "mime_type": _TYPES[kind].get(format_) if isinstance(format_, str) else None,
        "filename": name if isinstance(name, str) else None,
    }
    location = source.get("s3Location")
    if isinstance(data := source.get("bytes"), (bytes, str)):
        found["data"] = encoded(data) if isinstance(data, bytes) else data
    elif isinstance(location, dict) and isinstance(uri := location.get("uri"), str):
        found["url"] = uri
    elif isinstance(text := source.get("text"), str):
        found["data"] = encoded(text)
    else:
        return text_block(read_blocks(source.get("content")), raw)
    return Media(kind=_KINDS[kind], state=raw, **found)  # type: ignore[arg-type]  # its values are Media's kinds


def _read_search_result(kind: str, raw: dict[str, Any]) -> Block | None:
    return text_block(read_blocks(object_of(raw[kind]).get("content")), raw)


_READERS: dict[str, Callable[[str, dict[str, Any]], Block | None]] = {
    "text": _read_text,
    "json": _read_json,
    "image": _read_media,
    "document": _read_media,
    "video": _read_media,
    "searchResult": _read_search_result,
}


# -- a whole answer as a stream --

_BESIDE = ("usage", "metrics", "trace", "performanceConfig", "serviceTier")


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    output = answer["output"]
    message = output["message"]
    beside = {key: answer[key] for key in _BESIDE if key in answer}
    return [
        {"messageStart": {**rest_of(output, "message"), **rest_of(message, "content")}},
        *(event for at, block in enumerate(objects_in(message, "content")) for event in _block(block, at)),
        {"messageStop": rest_of(answer, "output", "ResponseMetadata", *_BESIDE)},
        *([{"metadata": beside}] if beside else []),
    ]


def _block(block: Mapping[str, Any], at: int) -> Iterator[dict[str, Any]]:
    use = block.get("toolUse")
    if isinstance(use, dict):
        start = {**rest_of(block, "toolUse"), "toolUse": rest_of(use, "input")}
        yield {"contentBlockStart": {"contentBlockIndex": at, "start": start}}
        yield _delta(at, {"toolUse": {"input": json_text(use.get("input", {})) or ""}})
    elif isinstance(reasoning := block.get("reasoningContent"), dict):
        text = reasoning.get("reasoningText")
        pieces = {**rest_of(reasoning, "reasoningText"), **text} if isinstance(text, dict) else reasoning
        for key, value in pieces.items():
            yield _delta(at, {"reasoningContent": {key: value}})
        for key, value in rest_of(block, "reasoningContent").items():
            yield _delta(at, {key: value})
    elif isinstance(cited := block.get("citationsContent"), dict):
        for key, delta in (("content", None), ("citations", "citation")):
            for piece in cited[key] if isinstance(cited.get(key), list) else ():
                yield _delta(at, piece if delta is None and isinstance(piece, dict) else {delta or key: piece})
        for found in (rest_of(cited, "content", "citations"), rest_of(block, "citationsContent")):
            for key, value in found.items():
                yield _delta(at, {key: value})
    elif isinstance(result := block.get("toolResult"), dict):
        start = {**rest_of(block, "toolResult"), "toolResult": rest_of(result, "content")}
        yield {"contentBlockStart": {"contentBlockIndex": at, "start": start}}
        yield _delta(at, {"toolResult": result.get("content")})
    else:
        for key, value in block.items():
            yield _delta(at, {key: value})
    yield {"contentBlockStop": {"contentBlockIndex": at}}


def _delta(at: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": at, "delta": delta}}
