"""Adds the texts that a model has read to an index, by origin. The roles of the messages are trusted.

A user message in the form of a text mode (``Observation: ...``) is a result; a text that is marked `Untrusted`, and a
message that cannot be read, are untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from ..content import Block, Media, Opaque, Text, ToolResult
from ..parts import Part, ToolCall
from ..wires import Prompt, Reply, Returned, Wire, find, id_as_read
from .index import Index, Origin

_MESSAGES = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_KEPT_ELSEWHERE = (
    "previous_response_id", "conversation", "previous_interaction_id", "cachedContent", "cached_content",
)  # fmt: skip
_OF_TEXT_MODES = "Observation:"

_USER, _SYSTEM_PROMPT = Origin("user", is_trusted=True), Origin("system", is_trusted=True)
_MARKED, _MODEL, _OTHER, _ATTACHED = Origin("marked"), Origin("model"), Origin("other"), Origin("attached")

Trusts = Callable[["str | None"], bool]


class Untrusted(str):
    """Marks a text in a user message that the user did not write: pasted, forwarded, read from a file.

        {"role": "user", "content": [{"type": "text", "text": "Pay this:"},
                                     {"type": "text", "text": Untrusted(pasted)}]}

    It is a str, and is sent like one. Use it for a whole block: joining it with other texts would lose the mark, and
    raises a TypeError.
    """

    __slots__ = ()

    is_marked = True  # a message that is made of the text alone would lose the mark

    def _refuse(self, *_: object) -> Any:
        raise TypeError("Untrusted: joining loses the mark; put the marked text into a separate block of the message")

    if not TYPE_CHECKING:  # to type checkers it is a str
        __add__ = __radd__ = __mod__ = __rmod__ = __format__ = _refuse


def marked_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yields the way to each `Untrusted` text in JSON, which loses the mark when it is written."""
    if isinstance(value, Untrusted):
        yield path
    elif isinstance(value, (Mapping, list, tuple)):
        for key, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from marked_in(one, (*path, key))


def mark_again(value: Any, ways: Iterable[Sequence[str | int]]) -> None:
    for *way, last in ways:
        holder = value
        for key in way:
            holder = holder[key]
        holder[last] = Untrusted(holder[last])


def add_request(index: Index, request: Mapping[str, Any], wire: Wire | str, trusts: Trusts) -> None:
    if any(request.get(name) for name in _KEPT_ELSEWHERE):
        index.is_partial = True
    for name in _SYSTEM:
        for text in _strings(request.get(name)):
            index.add(_MARKED if isinstance(text, Untrusted) else _SYSTEM_PROMPT, text)
    messages = next((request[name] for name in _MESSAGES if request.get(name)), ())
    if isinstance(messages, str):
        index.add(_MARKED if isinstance(messages, Untrusted) else _USER, messages)
    elif isinstance(messages, Sequence):
        _History(index, [one if isinstance(one, Mapping) else _as_mapping(one) for one in messages], trusts).add(wire)


def add_result(
    index: Index, result: ToolResult | None, text: str, origin: Origin, asked: Mapping[str, Any] | None
) -> None:
    """Adds the result of a call as the model reads it; a trusted one does not vouch for what it was asked with."""
    if origin.is_trusted:
        index.note_asked(
            origin, to_jsonable_python(asked, fallback=str, serialize_unknown=True, inf_nan_mode="strings")
        )
    index.add(origin, text)
    if result is not None and (result.native or any(not isinstance(block, Text) for block in result.blocks)):
        index.unseen[origin] = None
        for text in _strings(result.native):
            index.add(origin, text)


def add_item(index: Index, item: Mapping[str, Any] | None) -> None:
    kind = (item or {}).get("type")
    for text in _strings(item):
        index.add(Origin("result", kind if isinstance(kind, str) else None), text)


def add_said(index: Index, parts: Iterable[Part]) -> None:
    """Adds the texts of a response. Those of the response that a call is in are added afterwards: they say nothing of
    where its arguments come from."""
    for part in parts:
        if part.kind in ("text", "reasoning", "refusal"):
            index.add(_MODEL, part.text)


class _History:
    def __init__(self, index: Index, messages: list[Mapping[str, Any]], trusts: Trusts) -> None:
        self._index = index
        self._messages = messages
        self._trusts = trusts
        self._calls: dict[str, list[ToolCall]] = {}  # so far, by id; without one, by name

    def add(self, wire: Wire | str) -> None:
        read = [False] * len(self._messages)
        for entry in find(wire).entries(self._messages):
            if entry.origin is not None:
                read[slice(*entry.origin)] = [True] * (entry.origin[1] - entry.origin[0])
            if isinstance(entry, Prompt):
                self._add_prompt(entry)
            elif isinstance(entry, Reply):
                self._add_reply(entry)
            else:
                self._add_results(entry)
        for message, known in zip(self._messages, read, strict=True):
            if not known:
                for text in _strings(message):
                    self._index.add(_OTHER, text)

    def _add_prompt(self, prompt: Prompt) -> None:
        texts = [block.text for block in prompt.blocks if isinstance(block, Text)]
        natives = self._messages[slice(*prompt.origin)] if prompt.origin is not None else []
        marked = {str(text) for text in _strings(natives) if isinstance(text, Untrusted)}
        if marked - set(texts):  # the mark is of a text that was changed or joined in reading
            marked.update(texts)
        origin = _SYSTEM_PROMPT if prompt.role == "system" else _USER
        quoted = {text for native in natives for text in _quoted(native)}
        for text in quoted:
            self._index.add(_ATTACHED, text)
        for text in texts:
            if text in marked:
                self._index.add(_MARKED, text)
            elif quoted and not any(text == own for native in natives for own in _own(native)):
                self._index.add(_ATTACHED, text)
            elif origin is _USER and text.lstrip().startswith(_OF_TEXT_MODES):
                self._index.add(Origin("result"), text)
            else:
                self._index.add(origin, text)
        self._note_unseen(prompt.blocks, origin)

    def _add_reply(self, reply: Reply) -> None:
        begun: set[str] = set()
        for call in reply.answer.calls.values():
            key = id_as_read(call.call_id)
            if key and key not in begun:  # a later response may use an id again
                self._calls[key] = []
            begun.add(key)
            self._calls.setdefault(key or f"\0{call.name}", []).append(call)
        for part in reply.answer.parts:
            if part.kind == "provider":
                add_item(self._index, part.provider_state)
        add_said(self._index, reply.answer.parts)

    def _add_results(self, returned: Returned) -> None:
        for result in returned.results:
            call_id = id_as_read(result.call_id)
            calls = self._calls.get(call_id or f"\0{result.name}", [])
            names = {call.name for call in calls} | ({result.name} if result.name else set())
            trusted = bool(calls) and not result.is_error and all(map(self._trusts, names))
            origin = Origin("result", min(names) if len(names) == 1 else None, call_id or None, trusted)
            if trusted:
                self._index.note_asked(origin, [call.arguments or call.arguments_text for call in calls])
            self._index.add(origin, result.content)
            self._note_unseen(result.blocks, origin)

    def _note_unseen(self, blocks: Iterable[Block], origin: Origin) -> None:
        for block in blocks:
            if isinstance(block, (Media, Opaque)):
                self._index.unseen[origin] = None
                if isinstance(block, Opaque):  # it may be a document or a search result with texts
                    for text in _strings(block.state):
                        self._index.add(Origin("other"), text)


_OWN_BLOCKS = (None, "text", "input_text")
_RESULTS = ("tool_result", "functionResponse", "function_response", "toolResult")


def _own(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content", message.get("parts"))
    for block in content if isinstance(content, (list, tuple)) else [content]:
        if isinstance(block, str):
            yield block
        elif isinstance(block, Mapping) and block.get("type") in _OWN_BLOCKS and isinstance(block.get("text"), str):
            yield block["text"]


def _quoted(message: Mapping[str, Any]) -> Iterator[str]:
    content = message.get("content", message.get("parts"))
    for block in content if isinstance(content, (list, tuple)) else ():
        if not isinstance(block, Mapping) or block.get("type") in _RESULTS or any(name in block for name in _RESULTS):
            continue
        if block.get("type") not in _OWN_BLOCKS or not isinstance(block.get("text"), str):
            yield from (text for text in _strings(block) if not _IS_DATA.match(text))


_IS_DATA = re.compile(r"data:|[A-Za-z0-9+/_-]{200}")  # bytes as text


def _as_mapping(message: Any) -> Mapping[str, Any]:
    dump = getattr(message, "model_dump", None)  # an SDK's object
    dumped = dump() if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else {"content": str(message)}


def _strings(value: Any) -> Iterator[str]:
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
