"""Input items in, entries out: what the user asked, what the model said, what its calls came to.

Items of the model's that follow one another are one answer. Each goes on whole, with the place where it stands, as the
decoder leaves it. Before that, a list that the API would refuse is put right (`sound_items`): items that are there
twice, reasoning without what followed it, calls without their reasoning.

An ``item_reference`` stands for an item that the provider stores. A history with one is known in part, so that outputs
whose call is not in it are passed on with the model's items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...content import Block, Media, Opaque, Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import read_data_url, text_of
from ..reading import json_text, read_text, rest_of
from ..transcript import CallResult, Entry, Prompt, Returned
from .facts import RULES
from .item_repair import is_item, is_prompt, sound_items
from .items import ANSWERS, BUILT_IN, TEXT_FIELDS, call_kind, name_of, texts_of, type_of

__all__ = ["read"]

_ANSWERED = {answer: call for call, answer in ANSWERS.items()}
_OUTPUTS = frozenset({"custom_tool_call_output", "function_call_output", *_ANSWERED})
_WRITTEN = frozenset({"custom_tool_call_output", "function_call_output"})  # by us, and always with an output
_BLOCK_TEXTS = frozenset({"input_text", "output_text", "text"})


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads items as entries. What is no item gives none."""
    reader = _Reader(messages)
    for number, item in enumerate(messages):
        if is_item(item):
            reader.take(number, item)
    reader.end()
    return reader.entries


class _Reader:
    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self.entries: list[Entry] = []
        self._names = CallNames()
        self._items, self._flaws = sound_items(items)
        self._run: list[int] = []  # the places of the items of the model's that are being collected
        self._served = {_call_id(item) or str(item.get("id")) for item in items if _is_served(item)}
        self._refers = any(is_item(item) and type_of(item) == "item_reference" for item in items)
        self._known = defaultdict[str, set[str]](set)  # by id: which types of calls have it
        for item in items:
            if is_item(item) and (type_of(item).endswith("_call") or type_of(item) in ANSWERS):
                self._known[_call_id(item)].add(type_of(item))

    def take(self, number: int, item: Mapping[str, Any]) -> None:
        """Takes the next item."""
        if is_prompt(item):
            self.end()
            sound = self._items[number]
            assert sound is not None, "a prompt may be empty, but it stays one"
            self.entries.append(_prompt(sound, number, self._flaws.get(number, ())))
        elif self._is_result(item):
            self.end()
            flaws = tuple(self._output_flaws(item, f"input[{number}]"))
            self.entries.append(Returned(results=(_result(item, flaws),), origin=(number, number + 1), flaws=flaws))
        else:
            if self._run and self._run[-1] != number - 1:
                self.end()  # what stands between is no item
            self._run.append(number)

    def end(self) -> None:
        """Ends the answer that is being collected."""
        if not self._run:
            return
        answer = AnswerBuilder(self._names, RULES)
        for number in self._run:
            answer.flaws.found += self._flaws.get(number, ())
            if (item := self._items[number]) is not None:
                _say(item, {"output_index": number - self._run[0], "item": item}, answer)
        self.entries.append(answer.said((self._run[0], self._run[-1] + 1)))
        self._run = []

    def _is_result(self, item: Mapping[str, Any]) -> bool:
        """Returns whether this is a result of a call of ours; those of the provider's own calls are items of its."""
        call_id = _call_id(item)
        if type_of(item) not in _OUTPUTS or call_id in self._served:
            return False
        if type_of(item) == "tool_search_output" and item.get("execution") != "client":
            return call_id in self._known
        return call_id in self._known or not self._refers

    def _output_flaws(self, item: Mapping[str, Any], path: str) -> Iterator[Violation]:
        """Yields what is wrong with a result."""
        type_, output = type_of(item), item.get("output")
        calls = self._known.get(_call_id(item))
        if calls and _ANSWERED.get(type_, type_.removesuffix("_output")) not in calls:
            yield RULES.violation("orphan_result", path, f"a {type_} answers a call of another type")
        if type_ not in _WRITTEN or isinstance(output, (str, list)):
            return
        if output is None:
            text = f"Missing required parameter: '{path}.output'."
            yield RULES.violation("missing_field", path, "a result has to have an output, if only an empty text", text)
        else:
            yield RULES.violation("bad_result", path, "the output is neither a text nor a list of blocks")


def _is_served(item: object) -> bool:
    """Returns whether this is a call that the provider runs itself."""
    return is_item(item) and call_kind(type_of(item), item) == "server"


_NAMED_BY_ID = frozenset({"local_shell_call_output", "mcp_approval_request"})


def _call_id(item: Mapping[str, Any]) -> str:
    """Returns the id that says which call this is, or answers. A local shell's output may have it as its own."""
    type_ = type_of(item)
    found = item.get("call_id") or (item.get("id") if type_ in _NAMED_BY_ID else item.get("approval_request_id"))
    return found if isinstance(found, str) else ""


# -- what was asked, and what calls came to --


def _prompt(item: Mapping[str, Any], place: int, flaws: Sequence[Violation]) -> Prompt:
    beside = rest_of(item, "role", "content")
    if item["role"] == "developer":
        beside["role"] = "developer"
    return Prompt(
        role="user" if item["role"] == "user" else "system",
        blocks=_read_blocks(item["content"]),
        origin=(place, place + 1),
        state=beside or None,
        flaws=tuple(flaws),
    )


def _result(item: Mapping[str, Any], flaws: Sequence[Violation]) -> CallResult:
    if type_of(item) == "mcp_approval_response":
        approved, reason = item.get("approve") is True, read_text(item.get("reason"))
        content = "approved" if approved else reason or "not approved"
        return CallResult(call_id=_call_id(item), content=content, is_error=not approved, state=None if flaws else item)
    output = item.get("tools", "") if item.get("output") is None else item["output"]
    blocks = _read_blocks(output)
    is_told = isinstance(output, str) or len(blocks) == (len(output) if isinstance(output, list) else -1)
    return CallResult(
        call_id=_call_id(item),
        content=text_of(blocks) if is_told and not _has_chunks(output) else json_text(output) or "",
        is_error=item.get("status") == "failed",
        blocks=blocks if any(isinstance(block, Media) for block in blocks) else (),
        state=None if flaws else item,
    )


def _has_chunks(output: object) -> bool:
    """Returns whether this is a shell's output: each chunk has its own streams and its own end."""
    return isinstance(output, list) and any(isinstance(chunk, dict) and "outcome" in chunk for chunk in output)


def _read_blocks(content: object) -> tuple[Block, ...]:
    """Reads the blocks of a message or of an output. A text that stands for a list of one has no state."""
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read_block(raw) for raw in content if isinstance(raw, dict)) if isinstance(content, list) else ()


def _read_block(raw: dict[str, Any]) -> Block:
    kind = type_of(raw)
    if kind in _BLOCK_TEXTS and isinstance(text := raw.get("text"), str):
        return Text(text, state=raw)
    found: dict[str, str] = {}
    if kind == "input_image":
        found = _where(raw.get("image_url"), raw.get("image_url"), raw.get("file_id"))
    elif kind == "input_file":
        found = _where(raw.get("file_data"), raw.get("file_url"), raw.get("file_id"))
    if not found:
        return Opaque(raw)
    name = raw.get("filename")
    filename = name if isinstance(name, str) else None
    return Media(kind="image" if kind == "input_image" else "file", filename=filename, state=raw, **found)


def _where(data: object, url: object, file_id: object) -> dict[str, str]:
    """Returns where the bytes are, in the words of `Media`; empty if nowhere."""
    if isinstance(data, str) and (read := read_data_url(data)) is not None:
        return ({"mime_type": read[0]} if read[0] else {}) | {"data": read[1]}
    if isinstance(url, str):
        return {"url": url}
    return {"file_id": file_id} if isinstance(file_id, str) else {}


# -- what the model said --


def _say(item: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    type_ = type_of(item) or "message"
    kind = call_kind(type_, item)
    if kind is not None:
        id_ = item.get("call_id") or (item.get("id") if kind in ("server", "approval") else None)
        namespace = item.get("namespace")
        answer.call(id_, name_of(item), _arguments(type_, item), kind=kind, state=state, namespace=namespace)
    elif type_ == "message":
        _say_message(item, state, answer)
    elif type_ == "reasoning":
        texts = texts_of(item, "summary") or texts_of(item, "content")
        answer.reasoning("\n\n".join(texts), state)
    else:
        answer.provider(state)


def _arguments(type_: str, item: Mapping[str, Any]) -> object:
    if type_ in TEXT_FIELDS:
        value = item.get(TEXT_FIELDS[type_])
        return "" if value is None else value
    return {key: item[key] for key in BUILT_IN[type_] if key in item}


def _say_message(item: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    text, refusal = ("".join(texts_of(item, channel)) for channel in ("text", "refusal"))
    if text or not refusal:
        answer.text(text, state)
    if refusal:
        answer.refusal(refusal)
        if not text:
            answer.provider(state)
