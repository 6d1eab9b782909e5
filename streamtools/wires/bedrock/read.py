"""Converse messages in, entries out: what the user asked, what the model said, what its calls came to.

A user's message holds results and other blocks side by side; it is read as `Returned` and `Prompt`, in the order in
which they stand, both with the same origin. Blocks that the service would refuse are left out, each with a flaw that
says so: blank text, reasoning without a signature or at the very end, and what is left of a pair when the service ran a
call itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...content import Media
from ...parts import CallKind
from ..answer_builder import AnswerBuilder, CallNames, Flaws, Numbered, numbered, result_as_read, results_and_prompts
from ..history_rules import Violation
from ..reading import json_text, rest_of
from ..transcript import CallResult, Entry, Prompt
from .content import is_blank, kind_of, read_block, read_blocks
from .facts import BLANK_TEXT, DOCUMENT_WITHOUT_TEXT, EMPTY_RESULT, RULES

__all__ = ["read"]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        content = _list(message, "content")
        blocks = numbered(content, f"messages[{index}].content")
        if role == "assistant":
            entries.append(_assistant(blocks, (index, index + 1), names))
        elif role == "system":
            entries.append(Prompt(role="system", blocks=read_blocks(content), origin=(index, index + 1)))
        elif role == "user":
            entries.extend(_user(blocks, Prompt(role="user", blocks=(), origin=(index, index + 1))))
    return entries


def _list(message: object, key: str) -> list[Any]:
    value = message.get(key) if isinstance(message, Mapping) else None
    return value if isinstance(value, list) else []


def _flaw(raw: object, path: str) -> Violation | None:
    """Returns what is wrong with a block wherever it stands."""
    if kind := kind_of(raw):
        blank = kind == "text" and is_blank(raw)
        return RULES.violation("empty_message", path, "the text block is blank", BLANK_TEXT) if blank else None
    return RULES.violation("not_a_message", path, "this is no content block, which is an object with one key")


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
    """Adds a flaw to a prompt that has a document and no text."""
    kinds = {kind_of(block.state) for block in prompt.blocks}
    if "document" not in kinds or "text" in kinds or prompt.origin is None:
        return prompt
    path, what = f"messages[{prompt.origin[0]}]", "a document stands without any text beside it"
    flaw = RULES.violation("empty_message", path, what, DOCUMENT_WITHOUT_TEXT)
    return replace(prompt, flaws=(*prompt.flaws, flaw))


def _body(raw: object, kind: str) -> dict[str, Any] | None:
    """Returns the object under a block's key; None if the block is of another kind."""
    body = raw.get(kind) if isinstance(raw, dict) else None
    return body if isinstance(body, dict) else None


def _result(raw: dict[str, Any], path: str, flaws: Flaws) -> CallResult:
    body = raw["toolResult"]
    given = [(_with_object(block, at, flaws), at) for block, at in numbered(body.get("content"), f"{path}.content")]
    content = [block for block, _ in flaws.sound(given, _flaw)]
    if not given:
        flaws.add("empty_message", path, "the result says nothing", EMPTY_RESULT)
    content = content or [{"text": "(empty)"}]
    blocks, state = read_blocks(content), {"toolResult": {**body, "content": content}}
    rich = any(isinstance(block, Media) for block in blocks)
    return result_as_read(body.get("toolUseId"), blocks, rich=rich, is_error=body.get("status") == "error", state=state)


def _with_object(block: Any, path: str, flaws: Flaws) -> Any:
    """Returns the block; JSON that is no object as its text."""
    if kind_of(block) != "json" or isinstance(block["json"], dict):
        return block
    flaws.add("bad_result", path, "the JSON of a result is no object")
    value = block["json"]
    return {"text": value if isinstance(value, str) else json_text(value) or "(empty)"}


# -- what the model said --


def _assistant(blocks: list[Numbered], origin: tuple[int, int], names: CallNames) -> Entry:
    answer, apart = AnswerBuilder(names, RULES), _server_calls_apart(blocks)
    kept = answer.flaws.sound(
        blocks, lambda raw, path: _flaw(raw, path) or _unusable(raw, path) or (_apart(path) if path in apart else None)
    )
    while kept and "reasoningContent" in kept[-1][0]:
        answer.flaws.add("reasoning_apart", kept.pop()[1], "reasoning is the last block of the message")
    for raw, path in kept:
        _say(raw, path, answer)
    return answer.said(origin)


def _unusable(raw: dict[str, Any], path: str) -> Violation | None:
    thought = _body(_body(raw, "reasoningContent"), "reasoningText")
    if thought is not None and not thought.get("signature"):
        return RULES.violation("missing_signature", path, "the reasoning has no signature: it was cut, or is another's")
    result = _body(raw, "toolResult")
    if any(kind in raw and _body(raw, kind) is None for kind in ("toolUse", "toolResult", "reasoningContent")):
        return RULES.violation("not_a_message", path, "the block is no object")
    if result is not None and not isinstance(result.get("toolUseId"), str):
        return RULES.violation("not_a_message", path, "the result names no call")
    return None


def _apart(path: str) -> Violation:
    what = "a call that the service ran itself stands without its result, or a result without its call"
    return RULES.violation("unanswered_call", path, what)


def _say(raw: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    use, thought = _body(raw, "toolUse"), _body(_body(raw, "reasoningContent"), "reasoningText")
    cited = _body(raw, "citationsContent")
    texts = [piece.get("text") for piece in _list(cited, "content") if isinstance(piece, dict)]
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


def _server_calls_apart(blocks: list[Numbered]) -> set[str]:
    """Finds calls that the service ran itself and whose result is missing, and results without a call; their paths."""
    asked = {_id(use) for raw, _ in blocks if (use := _body(raw, "toolUse")) is not None}
    answered = {_id(result) for raw, _ in blocks if (result := _body(raw, "toolResult")) is not None}
    return {
        path
        for raw, path in blocks
        if ((use := _body(raw, "toolUse")) is not None and _is_server(use) and _id(use) not in answered)
        or ((result := _body(raw, "toolResult")) is not None and _id(result) not in asked)
    }


def _id(body: Mapping[str, Any]) -> str:
    return str(body.get("toolUseId"))
