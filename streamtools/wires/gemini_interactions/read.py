"""Steps in, entries out: what the user asked, what the model said, what its calls came to.

Steps of the model's that follow one another are one answer. Each goes on whole, with the place where it stands, as the
decoder leaves it. An input may be a list of contents without steps: those are the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeGuard

from ...content import Block, Media, Opaque, Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, result_as_read
from ..media import text_of
from ..reading import json_text, rest_of
from ..transcript import CallResult, Entry, Prompt, Returned
from .calls import name_of
from .facts import MEDIA, RULES, call_kind
from .steps import CONTENTS, contents_of

__all__ = ["read"]

_BLOCKS = MEDIA | {"text"}
_FROM_URL = str.maketrans("-_", "+/")
_KINDS: dict[str, Literal["image", "audio", "video", "file"]] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "document": "file",
}


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads steps as entries. What is no step gives none."""
    reader = _Reader(messages)
    for number, step in enumerate(messages):
        if _is_step(step):
            reader.take(number, step)
    reader.end()
    return reader.entries


class _Reader:
    def __init__(self, steps: Sequence[Mapping[str, Any]]) -> None:
        self.entries: list[Entry] = []
        self._names = CallNames()
        self._steps = steps
        self._run: list[int] = []  # the places of the steps of the model's that are being collected
        self._searches = {str(step.get("id")) for step in steps if _is_step(step) and _is_search_of_ours(step)}

    def take(self, number: int, step: Mapping[str, Any]) -> None:
        """Takes the next step."""
        type_ = step["type"]
        if type_ == "user_input" or type_ in _BLOCKS:
            self.end()
            self.entries.append(_prompt(step, number))
        elif type_ == "function_result" or (
            type_ == "tool_search_result" and str(step.get("call_id")) in self._searches
        ):
            self.end()
            self.entries.append(_returned(step, number))
        else:
            if self._run and self._run[-1] != number - 1:
                self.end()  # what stands between is no step
            self._run.append(number)

    def end(self) -> None:
        """Ends the answer that is being collected."""
        if not self._run:
            return
        answer = AnswerBuilder(self._names, RULES)
        for number in self._run:
            _say(self._steps[number], number - self._run[0], f"input[{number}]", answer)
        self.entries.append(answer.said((self._run[0], self._run[-1] + 1)))
        self._run = []


def _is_step(step: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(step, Mapping) and isinstance(type_ := step.get("type"), str) and type_ != ""


def _is_search_of_ours(step: Mapping[str, Any]) -> bool:
    return step["type"] == "tool_search_call" and call_kind("tool_search_call", step) == "function"


# -- what was asked, and what calls came to --


def _prompt(step: Mapping[str, Any], place: int) -> Prompt:
    if step["type"] != "user_input":
        return Prompt(role="user", blocks=(_read_block(dict(step)),), origin=(place, place + 1))
    flaws, content = Flaws(RULES), step.get("content")
    if isinstance(content, list) and any(not _is_step(raw) for raw in content):
        flaws.add("not_a_message", f"input[{place}]", "something in the step is no content, which has a type")
    beside = rest_of(step, "type", "content") or None
    blocks = _read_blocks(content)
    return Prompt(role="user", blocks=blocks, origin=(place, place + 1), state=beside, flaws=tuple(flaws.found))


def _returned(step: Mapping[str, Any], place: int) -> Returned:
    flaws, path = Flaws(RULES), f"input[{place}]"
    if not isinstance(step.get("call_id"), str) or not step["call_id"]:
        flaws.add("missing_field", f"{path}.call_id", "the result does not say which call it answers")
    result = step.get("result")
    if not isinstance(result, (str, list)) and step["type"] == "function_result":
        flaws.add("bad_result", path, "the result is neither a text nor a list of contents", "")
    found = _result(step, sound=not flaws.found)
    return Returned(results=(found,), origin=(place, place + 1), flaws=tuple(flaws.found))


def _result(step: Mapping[str, Any], *, sound: bool) -> CallResult:
    result = step.get("result")
    blocks = _read_blocks(result)
    is_told = isinstance(result, str) or (isinstance(result, list) and all(_is_told(raw) for raw in result))
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


def _is_told(raw: object) -> bool:
    return _is_step(raw) and raw["type"] in _BLOCKS


def _read_blocks(content: object) -> tuple[Block, ...]:
    """Reads contents. A text that stands for a list of one has no state."""
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read_block(raw) for raw in content if _is_step(raw)) if isinstance(content, list) else ()


def _read_block(raw: Mapping[str, Any]) -> Block:
    """Reads a content as a block. What no other provider has a word for is opaque."""
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


def _say(step: Mapping[str, Any], place: int, path: str, answer: AnswerBuilder) -> None:
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
        _say_contents(step, state, answer)
    else:
        answer.provider(state)


def _say_contents(step: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    """Says the texts of a step, and what stands between them; the step goes with the last of them, if that is one."""
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
