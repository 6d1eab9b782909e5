"""Puts what a model has read into an index, by origin: a request with its history, results, what the model said.

The roles of the messages are believed. A user's message in the words of a text mode (``Observation: ...``) is a result;
a text that is marked `Untrusted` is nobody's word; a message that cannot be read is untrusted, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..content import Block, Media, Opaque, Text, ToolResult
from ..parts import Part
from ..wires import Wire, find
from ..wires.transcript import Prompt, Reply, Returned, id_as_read
from .index import Index, Origin

__all__ = ["Untrusted", "add_item", "add_request", "add_result", "add_said"]

_MESSAGES = ("messages", "input", "contents")
_SYSTEM = ("system", "instructions", "systemInstruction", "system_instruction")
_KEPT_ELSEWHERE = (
    "previous_response_id", "conversation", "previous_interaction_id", "cachedContent", "cached_content",
)  # fmt: skip
_OF_TEXT_MODES = "Observation:"

_USER, _SYSTEM_PROMPT = Origin("user", is_trusted=True), Origin("system", is_trusted=True)
_MARKED, _MODEL, _OTHER = Origin("marked"), Origin("model"), Origin("other")

Trusts = Callable[["str | None"], bool]
"""Returns whether a tool's results are trusted, by its name."""


class Untrusted(str):
    """Marks a text in a message of the user's that the user has not written: pasted, forwarded, read from a file.

        {"role": "user", "content": [{"type": "text", "text": "Pay this:"},
                                     {"type": "text", "text": Untrusted(pasted)}]}

    It is a str, and is sent like one. The mark is for one block: joining it with other texts would lose it, and raises
    a TypeError.
    """

    __slots__ = ()

    def _refuse(self, *_: object) -> Any:
        raise TypeError("Untrusted: a joined text has no mark; give the marked text a block of its own in the message")

    if not TYPE_CHECKING:  # to type checkers it is a str
        __add__ = __radd__ = __mod__ = __rmod__ = __format__ = _refuse


def add_request(index: Index, request: Mapping[str, Any], wire: Wire | str, trusts: Trusts) -> None:
    """Adds the texts of a request: its system prompt, and the messages of its history by their roles."""
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


def add_result(index: Index, result: ToolResult | None, text: str, origin: Origin) -> None:
    """Adds the result of a call as the model reads it; media in it is noted as unseen."""
    index.add(origin, text)
    if result is not None and (result.native or any(not isinstance(block, Text) for block in result.blocks)):
        index.unseen[origin] = None
        for text in _strings(result.native):
            index.add(origin, text)


def add_item(index: Index, item: Mapping[str, Any] | None) -> None:
    """Adds a part of a response that a tool of the provider's has made, such as search results."""
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
    """The messages of a history, on their way into the index."""

    def __init__(self, index: Index, messages: list[Mapping[str, Any]], trusts: Trusts) -> None:
        self._index = index
        self._messages = messages
        self._trusts = trusts
        self._tools: dict[str, str] = {}  # of the calls so far, by id

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
                self._add_all(message)

    def _add_all(self, message: Any) -> None:
        for text in _strings(message):
            self._index.add(_OTHER, text)

    def _add_prompt(self, prompt: Prompt) -> None:
        texts = [block.text for block in prompt.blocks if isinstance(block, Text)]
        natives = self._messages[slice(*prompt.origin)] if prompt.origin is not None else []
        marked = {str(text) for text in _strings(natives) if isinstance(text, Untrusted)}
        if marked - set(texts):  # the mark is of a text that was changed or joined in reading
            marked.update(texts)
        origin = _SYSTEM_PROMPT if prompt.role == "system" else _USER
        for text in texts:
            if text in marked:
                self._index.add(_MARKED, text)
            elif origin is _USER and text.lstrip().startswith(_OF_TEXT_MODES):
                self._index.add(Origin("result"), text)
            else:
                self._index.add(origin, text)
        self._note_unseen(prompt.blocks, origin)

    def _add_reply(self, reply: Reply) -> None:
        for call in reply.answer.calls.values():
            self._tools[id_as_read(call.call_id)] = call.name
        for part in reply.answer.parts:
            if part.kind == "provider":
                add_item(self._index, part.provider_state)
        add_said(self._index, reply.answer.parts)

    def _add_results(self, returned: Returned) -> None:
        for result in returned.results:
            call_id = id_as_read(result.call_id)
            tool = result.name or self._tools.get(call_id)
            origin = Origin("result", tool, call_id or None, self._trusts(tool))
            self._index.add(origin, result.content)
            self._note_unseen(result.blocks, origin)

    def _note_unseen(self, blocks: Iterable[Block], origin: Origin) -> None:
        for block in blocks:
            if isinstance(block, (Media, Opaque)):
                self._index.unseen[origin] = None
                if isinstance(block, Opaque):  # it may be a document or a search result with texts
                    for text in _strings(block.state):
                        self._index.add(Origin("other"), text)


def _as_mapping(message: Any) -> Mapping[str, Any]:
    dump = getattr(message, "model_dump", None)  # an SDK's object
    dumped = dump() if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else {"content": str(message)}


def _strings(value: Any) -> Iterator[str]:
    """Returns all texts in a JSON value, whatever its depth."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            left.extend(one.values())
        elif isinstance(one, (list, tuple)):
            left.extend(one)
