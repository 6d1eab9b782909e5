"""Converse messages in, entries out: what the user asked, what the model said, what its calls came to.

A user's message holds results and other blocks side by side; it is read as `Returned` and `Prompt`, in the order in
which they stand, both with the same origin. Blocks that the service would refuse are left out, each with a flaw that
says so: blank text, reasoning without a signature or at the very end, and what is left of a pair when the service ran a
call itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from ...content import Block, Media
from ...parts import CallKind
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import text_of
from ..reading import json_text
from ..transcript import CallResult, Entry, Prompt, Returned
from .content import is_blank, kind_of, read_block, read_blocks
from .facts import BLANK_TEXT, DOCUMENT_WITHOUT_TEXT, EMPTY_RESULT, RULES

__all__ = ["read"]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        numbered = [(raw, f"messages[{index}].content[{n}]") for n, raw in enumerate(_list(message, "content"))]
        if role == "assistant":
            entries.append(_assistant(numbered, (index, index + 1), names))
        elif role == "system":
            blocks = read_blocks([raw for raw, _ in numbered])
            entries.append(Prompt(role="system", blocks=blocks, origin=(index, index + 1)))
        elif role == "user":
            entries.extend(_user(numbered, (index, index + 1)))
    return entries


def _list(message: object, key: str) -> list[Any]:
    value = message.get(key) if isinstance(message, Mapping) else None
    return value if isinstance(value, list) else []


def _flaw(raw: object, path: str) -> Violation | None:
    """What is wrong with a block wherever it stands."""
    if kind := kind_of(raw):
        blank = kind == "text" and is_blank(raw)
        return RULES.violation("empty_message", path, "the text block is blank", BLANK_TEXT) if blank else None
    return RULES.violation("not_a_message", path, "this is no content block, which is an object with one key")


# -- what was asked, and what calls came to --


def _user(numbered: list[tuple[Any, str]], origin: tuple[int, int]) -> Iterator[Entry]:
    if not numbered:
        yield Prompt(role="user", blocks=(), origin=origin)
    for are_results, run in groupby(numbered, lambda pair: _body(pair[0], "toolResult") is not None):
        flaws: list[Violation] = []
        if are_results:
            results = tuple(_result(raw["toolResult"], path, flaws) for raw, path in run)
            yield Returned(results=results, origin=origin, flaws=tuple(flaws))
        else:
            blocks = tuple(_sound(run, flaws))
            if _lacks_text(blocks):
                what = "a document stands without any text beside it"
                flaws.append(RULES.violation("empty_message", f"messages[{origin[0]}]", what, DOCUMENT_WITHOUT_TEXT))
            yield Prompt(role="user", blocks=blocks, origin=origin, flaws=tuple(flaws))


def _lacks_text(blocks: tuple[Block, ...]) -> bool:
    kinds = {kind_of(block.state) for block in blocks}
    return "document" in kinds and "text" not in kinds


def _body(raw: object, kind: str) -> dict[str, Any] | None:
    """What stands under a block's key, if it is of that kind."""
    body = raw.get(kind) if isinstance(raw, dict) else None
    return body if isinstance(body, dict) else None


def _sound(numbered: Iterator[tuple[Any, str]], flaws: list[Violation]) -> Iterator[Block]:
    for raw, path in numbered:
        if flaw := _flaw(raw, path):
            flaws.append(flaw)
        else:
            yield read_block(raw)


def _result(body: dict[str, Any], path: str, flaws: list[Violation]) -> CallResult:
    given = [_with_object(block, f"{path}.content[{n}]", flaws) for n, block in enumerate(_list(body, "content"))]
    told = [(block, _flaw(block, f"{path}.content[{n}]")) for n, block in enumerate(given)]
    content = [block for block, flaw in told if flaw is None]
    flaws += [flaw for _, flaw in told if flaw is not None]
    if not content:
        if not told:
            flaws.append(RULES.violation("empty_message", path, "the result says nothing", EMPTY_RESULT))
        content = [{"text": "(empty)"}]
    blocks, call_id = read_blocks(content), body.get("toolUseId")
    return CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        is_error=body.get("status") == "error",
        blocks=blocks if any(isinstance(block, Media) for block in blocks) else (),
        state={"toolResult": {**body, "content": content}},
    )


def _with_object(block: Any, path: str, flaws: list[Violation]) -> Any:
    """The block; JSON that is no object as its text."""
    if kind_of(block) != "json" or isinstance(block["json"], dict):
        return block
    flaws.append(RULES.violation("bad_result", path, "the JSON of a result is no object"))
    value = block["json"]
    return {"text": value if isinstance(value, str) else json_text(value) or "(empty)"}


# -- what the model said --


def _assistant(numbered: list[tuple[Any, str]], origin: tuple[int, int], names: CallNames) -> Entry:
    answer = AnswerBuilder(names)
    apart = _server_calls_apart([raw for raw, _ in numbered])
    kept = []
    for place, (raw, path) in enumerate(numbered):
        if flaw := _flaw(raw, path) or _unusable(raw, path) or (_apart(path) if place in apart else None):
            answer.flaw(flaw)
        else:
            kept.append((raw, path))
    while kept and "reasoningContent" in kept[-1][0]:
        answer.flaw(RULES.violation("reasoning_apart", kept.pop()[1], "reasoning is the last block of the message"))
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
    state = {key: value for key, value in use.items() if key not in ("toolUseId", "name", "input")} or None
    kind: CallKind = "server" if _is_server(use) else "function"
    given = use.get("input")
    call = answer.call(use.get("toolUseId"), use.get("name"), given, kind=kind, state=state)
    if isinstance(given, str) and call.status == "ready":
        what = "the arguments are the text of an object"
        answer.flaw(RULES.violation("arguments_not_object", f"{path}.toolUse.input", what))


def _is_server(use: Mapping[str, Any]) -> bool:
    return use.get("type") == "server_tool_use"


def _server_calls_apart(blocks: list[Any]) -> set[int]:
    """The places of calls that the service ran itself and whose result is missing, and of results without a call."""
    asked = {_id(use) for raw in blocks if (use := _body(raw, "toolUse")) is not None}
    answered = {_id(result) for raw in blocks if (result := _body(raw, "toolResult")) is not None}
    return {
        place
        for place, raw in enumerate(blocks)
        if ((use := _body(raw, "toolUse")) is not None and _is_server(use) and _id(use) not in answered)
        or ((result := _body(raw, "toolResult")) is not None and _id(result) not in asked)
    }


def _id(body: Mapping[str, Any]) -> str:
    return str(body.get("toolUseId"))
