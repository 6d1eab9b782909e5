"""Output items: which of them are calls, who runs those, what is told of one so far, and which one an event means.

Theory of operation. An event names its item by its type, its place (``output_index``), its id, and sometimes the id of
its call. Call ids decide where they are known, since nothing else is as stable; then the place, because item ids may
differ on every event (GitHub Copilot, vercel/ai#18548); then the id (llama.cpp sends no places); and where none of them
says anything, the latest item of the type is meant. A place that several open items have says nothing.

    function, custom   we do: ``function_call``, ``custom_tool_call``, and of the built-in tools ``local_shell_call``,
                       ``apply_patch_call``, ``computer_call``, a ``tool_search_call`` whose execution is the client's,
                       and ``shell_call`` unless it has a container
    approval           the provider does, once it may: ``mcp_approval_request``
    server             the provider does: searches, code interpreter, images, MCP, ``shell_call`` in a container, and
                       xAI's own searches, which look like custom calls but for their id
    none               it is no call, and goes back as it came
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

from ...events import ToolCallFragment
from ...ground.text import well_formed
from ...parts import CallKind
from ..reading import Path, caller_of, list_of, object_of, read_text, rest_of
from .facts import ARGUMENTS, TEXT_DELTAS, TEXTS

TEXT_FIELDS: dict[str, str] = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""Calls whose arguments are a text that the model wrote, and the field that holds it."""

BUILT_IN: dict[str, tuple[str, ...]] = {
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("container_id", "code"),
    "image_generation_call": ("action", "revised_prompt"),
    "tool_search_call": ("arguments",),
    "computer_call": ("action", "actions", "pending_safety_checks"),
    "mcp_approval_request": ("server_label", "name", "arguments"),
}  # calls of the provider's own tools, and the fields that together are their arguments

ANSWERS: dict[str, str] = {
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
}  # of those that are not the provider's to run, the items that answer them

OPAQUE = frozenset({  # items that are known, kept whole and given back without being looked into
    "additional_tools", "apply_patch_call_output", "compaction", "compaction_summary", "computer_call_output",
    "context_compaction", "custom_tool_call_output", "function_call_output", "local_shell_call_output",
    "mcp_approval_response", "mcp_list_tools", "program", "program_output", "shell_call_output", "tool_search_output",
})  # fmt: skip

_OURS = frozenset({"local_shell_call", "apply_patch_call", "computer_call", "function_call"})


@dataclass(slots=True)
class Item:
    number: int  # the label of its call; no other item has it
    type: str
    place: int  # where it stands among the items; no other item stands there
    index: int | None = None  # the same as the wire has it
    head: dict[str, Any] = field(default_factory=dict)
    identity: str | None = None
    call_id: str | None = None
    name: str | None = None
    kind: CallKind | None = None
    announced: bool = False
    done: bool = False
    is_twin: bool = False  # another item of its type had its id before
    repeated: bool = False  # the list at the end has it, too
    shown: dict[str, list[str]] = field(default_factory=dict)
    """Its texts as they were told: ``text``, ``refusal``, ``summary``, ``content``."""
    paragraph: tuple[str, int | None] | None = None  # which one of its reasoning is being told
    paragraphs: list[tuple[str, int | None, int]] = field(default_factory=list)
    """Those that were told: their channel, their number, and the first of their pieces."""
    over: set[tuple[str, int | None]] = field(default_factory=set)
    """Those of its texts whose end came, by their channel and number."""
    over_at: dict[str, int] = field(default_factory=dict)  # how many pieces of each channel belong to these
    part_at: int = 0  # how many pieces were told in earlier parts than the one that is open
    corrected: bool = False  # not all pieces of the open part are as they were told
    # of a call
    call_number: int = 0  # its place among the calls of the response
    has_id: bool = False
    has_name: bool = False
    has_text: bool = False
    text_done: bool = False  # its arguments are whole, as far as the wire says
    cut: bool = False
    ended: bool = False

    @property
    def is_placeless_call(self) -> bool:
        """True for arguments of which no event has shown where they belong."""
        return self.kind is not None and not self.announced and self.index is None and self.has_text


def call_kind(type_: str, raw: Mapping[str, Any]) -> CallKind | None:
    if type_ in _OURS:
        return "function"
    if type_ == "custom_tool_call":
        call_id = raw.get("call_id")
        return "server" if isinstance(call_id, str) and call_id.startswith("xs_call_") else "custom"
    if type_ == "shell_call":
        place = object_of(raw.get("environment")).get("type")
        return "server" if isinstance(place, str) and place.startswith("container") else "function"
    if type_ == "tool_search_call":
        return "function" if raw.get("execution") == "client" else "server"
    if type_ == "mcp_approval_request":
        return "approval"
    return "server" if type_ == "mcp_call" or type_ in BUILT_IN else None


def type_of(raw: Mapping[str, Any]) -> str:
    return read_text(raw.get("type")) or ""


def name_of(raw: Mapping[str, Any]) -> str | None:
    type_ = type_of(raw)
    return type_ if type_ in BUILT_IN else read_text(raw.get("name"))


def identity(raw: Mapping[str, Any]) -> str | None:
    return read_text(raw.get("call_id")) or read_text(raw.get("id"))


def texts_of(raw: Mapping[str, Any], channel: str) -> list[str]:
    field, keys = _CHANNELS[channel]
    parts = raw.get(field)
    if channel == "text" and isinstance(parts, str):
        return [parts]
    if not isinstance(parts, list):
        return []
    found = [part.get(keys.get(type_of(part), "")) for part in parts if isinstance(part, dict)]
    return [text for text in found if isinstance(text, str)]


def has_news(item: Item, raw: Mapping[str, Any]) -> bool:
    """Returns whether `raw`, which is all of an item, has a text or arguments of which nothing came before."""
    told = item.has_text or any(item.shown.values())
    said = any(any(texts_of(raw, channel)) for channel in TEXTS.get(item.type, ()))
    return not told and (said or bool(raw.get(TEXT_FIELDS.get(item.type, ""))))


def message_so_far(item: Item, status: str) -> dict[str, Any]:
    head = {key: value for key in ("id", "phase") if (value := read_text(item.head.get(key)))}
    text, refusal = (well_formed("".join(item.shown.get(channel, ()))) for channel in ("text", "refusal"))
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    content += [{"type": "refusal", "refusal": refusal}] if refusal else []
    return {"type": "message", **head, "role": "assistant", "status": status, "content": content}


# Where a text stands in its item: the field, and the key within each part, by the part's type.
_CHANNELS: dict[str, tuple[str, dict[str, str]]] = {
    "text": ("content", {"output_text": "text", "text": "text", "output_audio": "transcript", "audio": "transcript"}),
    "refusal": ("content", {"refusal": "refusal"}),
    "summary": ("summary", {"summary_text": "text"}),
    "content": ("content", {"reasoning_text": "text", "text": "text"}),
}


class Register:
    def __init__(self) -> None:
        self.items: list[Item] = []
        self._by_index: dict[tuple[str, int], Item | None] = {}  # None: several have it
        self._named: dict[tuple[str, str], Item] = {}  # by id, and by the id of the call
        self._ids: set[str] = set()
        self._latest: dict[str, Item] = {}
        self._places: set[int] = set()
        self._next_place = 0

    def find(self, type_: str, index: object, id_: object, call_id: object = None) -> Item | None:
        place = (type_, index) if isinstance(index, int) else None
        there = self._by_index.get(place) if place is not None else None
        if there is not None and there.call_id == call_id:
            return there
        called, named = self._by_name(type_, call_id), self._by_name(type_, id_)
        # Some give one id to several: to calls (HKUDS/nanobot#3943), xAI to its reasoning before and after a search.
        if called is not None and _is_elsewhere(called, index):
            called = None
        if named is not None and named.done and type_ in TEXTS and _is_elsewhere(named, index):
            named = None
        for item in (called, there, named):
            if item is not None and _may_be(item, call_id):
                return item
        latest = self._latest.get(type_)
        placed = place is not None and (there is not None or place not in self._by_index)
        if latest is None or placed or (id_ is not None and latest.done) or not _may_be(latest, call_id):
            return None
        return latest

    def knows(self, index: object, id_: object) -> bool:
        return (isinstance(index, int) and index in self._places) or (isinstance(id_, str) and id_ in self._ids)

    def is_repeated(self, output: object) -> bool:
        listed = [raw for raw in list_of(output) if isinstance(raw, Mapping)]
        keys = ("id", "call_id")
        return any(self._by_name(type_of(raw), raw.get(key)) is not None for raw in listed for key in keys)

    def open(self, type_: str, index: object, id_: object) -> Item:
        free = isinstance(index, int) and index not in self._places
        place = index if isinstance(index, int) and free else self._next_place
        self._places.add(place)
        self._next_place = max(self._next_place, place + 1)
        item = self._latest[type_] = Item(len(self.items), type_, place, index if isinstance(index, int) else None)
        self.items.append(item)
        if isinstance(index, int):
            key = type_, index
            held = self._by_index.get(key)
            self._by_index[key] = item if key not in self._by_index or (held is not None and held.done) else None
        if isinstance(id_, str):
            item.is_twin = (type_, id_) in self._named
            self._ids.add(id_)
            self._named[type_, id_] = item
        return item

    def call(self, item: Item, call_id: object) -> None:
        if (known := read_text(call_id)) is not None:
            item.call_id = known
            self._named[item.type, known] = item

    def _by_name(self, type_: str, key: object) -> Item | None:
        return self._named.get((type_, key)) if isinstance(key, str) else None

    def repeated(self, output: Sequence[Any]) -> list[Item | None]:
        """Returns, for each item of the list at the end, the one that streamed of which it is the repetition. Ids alone
        do not decide: some servers make new ones for the list (vllm-project/vllm#38227), and a call must not run twice.
        So where no id agrees the place does, and then the order among those of the same type and name."""
        found: list[Item | None] = [None] * len(output)
        for key_of in _KEYS:
            waiting: dict[object, list[Item]] = {}
            for item in reversed(self.items):
                if not item.repeated:
                    waiting.setdefault(key_of(item.type, item.name, item.identity, item.place), []).append(item)
            for position, raw in enumerate(output):
                if found[position] is None and isinstance(raw, Mapping):
                    there = waiting.get(key_of(type_of(raw), name_of(raw), identity(raw), position))
                    if there:
                        item = found[position] = there.pop()
                        item.repeated = True
        return found


def _may_be(item: Item, call_id: object) -> bool:
    """Returns whether nothing speaks against it. Calls of ours keep their ids; a client's tool search does not."""
    known = item.call_id if item.type in ("function_call", "custom_tool_call") else None
    return known is None or call_id is None or known == call_id


def _is_elsewhere(item: Item, index: object) -> bool:
    return isinstance(index, int) and item.index not in (None, index)


_KEYS: tuple[Callable[[str, str | None, str | None, int], object], ...] = (
    lambda type_, name, identity, place: (type_, identity) if identity else object(),  # without, nothing is the same
    lambda type_, name, identity, place: (type_, name, place),
    lambda type_, name, identity, place: (type_, name),
)


# -- items that are calls --

ObjectText: TypeAlias = "Callable[[object, Path], tuple[str, str | None]]"
"""A JSON value, and where it stands in the payload, as text; or what is wrong with it."""


def begun(item: Item) -> ToolCallFragment:
    return _fragment(item, start=True, provider_state={"output_index": item.place, "item": {}})


def announced(item: Item, raw: Mapping[str, Any], kept: Mapping[str, Any], *, start: bool) -> ToolCallFragment:
    """Returns the fragment of a call whose item was announced. What that says of a call of ours is kept, so that one
    that is cut can be given back; nobody takes back the provider's own calls if they are cut."""
    state: dict[str, Any] = {"output_index": item.place}
    if item.kind != "server":
        unfinished = ("status", TEXT_FIELDS[item.type]) if item.type in TEXT_FIELDS else ()
        state["item"] = rest_of(kept, *unfinished)
    return _fragment(item, raw, start=start, provider_state=state, disorder=None if start else "again")


def said_again(item: Item) -> ToolCallFragment:
    return _fragment(item, disorder="again")


def grown(item: Item, text: str, problem: str | None = None) -> ToolCallFragment:
    """Returns more of the arguments; they are out of order if the item has ended."""
    if item.done or item.text_done:
        return _fragment(item, arguments=text, disorder="late")
    item.has_text = True
    return _fragment(item, arguments=text, problem=problem)


def repeated(item: Item, raw: Mapping[str, Any], text: str, problem: str | None) -> ToolCallFragment:
    """Returns all of the arguments, which are over; the item is not over yet. The event has neither the call's id nor
    its namespace, so its name counts only if the item was announced: else the item's end has all three."""
    item.text_done = True
    item.has_text = item.has_text or bool(text or problem)
    return _fragment(item, name=_name(item, raw) if item.has_id else None, whole=text or None, problem=problem)


def completed(
    item: Item,
    raw: Mapping[str, Any],
    text: str,
    problem: str | None,
    state: Mapping[str, Any],
    *,
    may_end: bool = True,
) -> ToolCallFragment:
    """Returns the end of an item, with which its call ends if it may. A call of ours that has no text at all is not:
    the list at the end may have what the item lacks, and a tool must not run with arguments that are merely missing."""
    item.cut = item.kind != "server" and raw.get("status") == "incomplete"
    item.has_text = item.has_text or bool(text or problem)
    item.ended = item.kind == "server" or (may_end and item.has_text)
    return _fragment(item, raw, whole=text or None, end=item.ended, cut=item.cut, problem=problem, provider_state=state)


def ended(item: Item, *, whole: bool) -> ToolCallFragment:
    item.ended = True
    marked = item.done or item.text_done
    return _fragment(item, end=True, cut=item.cut or not (marked or whole), disorder=None if marked else "unmarked")


def arguments_of(type_: str, raw: Mapping[str, Any], path: Path, object_text: ObjectText) -> tuple[str, str | None]:
    key = TEXT_FIELDS.get(type_)
    if key is not None:
        value = raw.get(key)
        if value is None or isinstance(value, str):
            return value or "", None
        return object_text(value, (*path, key))
    texts = []
    for key in BUILT_IN[type_]:
        if key in raw:
            text, problem = object_text(raw[key], (*path, key))
            if problem is not None:
                return "", problem
            texts.append(f'"{key}":{text}')
    return "{" + ",".join(texts) + "}", None


def _fragment(item: Item, raw: Mapping[str, Any] | None = None, **said: Any) -> ToolCallFragment:
    if raw is not None:
        said |= {"id": _id(item, raw), "name": _name(item, raw), "caller": caller_of(raw)}
        said["namespace"] = read_text(raw.get("namespace"))
    awaits = None if item.kind == "server" else ANSWERS.get(item.type)
    return ToolCallFragment(item.number, kind=item.kind or "function", awaits=awaits, **said)


def _id(item: Item, raw: Mapping[str, Any]) -> str | None:
    """Returns the id by which a result answers the call, once; the provider's own calls are answered by nobody."""
    call_id = None if item.has_id else read_text(raw.get("call_id"))
    if call_id is None and item.kind in ("server", "approval") and not item.has_id:
        call_id = read_text(raw.get("id"))
    item.has_id = item.has_id or call_id is not None
    return call_id


def _name(item: Item, raw: Mapping[str, Any]) -> str | None:
    name = None if item.has_name else name_of(raw)
    item.has_name = item.has_name or name is not None
    return name


# -- the account of a cut turn --

# A response that was cut, as events: what its stream had said, each text in one piece.
#
# A decoder that is fed these stands where the cut one stood. The arguments of a call that was growing are not here:
# they are in the turn.

Told: TypeAlias = "tuple[dict[str, Any], int | None]"
"""An event; and the number of the call whose arguments belong into it."""

_DELTAS = {(type_, channel): (event, number) for event, (type_, channel, number) in TEXT_DELTAS.items()}
_ARGUMENTS = {type_: event for event, (type_, _) in ARGUMENTS.items()}


def account(
    response: Mapping[str, Any], lane: Mapping[str, Any], items: Iterable[Item], elsewhere: str | None
) -> Iterator[Told]:
    yield {"type": "response.created", "response": dict(response), **lane}, None
    for item in items:
        for event, number in _of_item(item):
            yield {**event, **lane}, number
    if elsewhere is not None:
        yield {"type": "response.created", "response": {"id": elsewhere}, **lane}, None


def _of_item(item: Item) -> Iterator[Told]:
    place: dict[str, Any] = {} if item.index is None else {"output_index": item.index}
    if item.announced:
        yield {"type": "response.output_item.added", **place, "item": dict(item.head)}, None
    if item.done:
        yield {"type": "response.output_item.done", **place, "item": dict(item.head)}, None
        return
    for event in _texts(item):
        yield event | place, None
    if item.kind is not None and (prefix := _ARGUMENTS.get(item.type)) is not None:
        yield {"type": f"{prefix}.delta", **place, "delta": ""}, item.call_number
        if item.text_done:
            yield {"type": f"{prefix}.done", **place, "arguments": ""}, None


def _texts(item: Item) -> Iterator[dict[str, Any]]:
    ends = {channel: len(pieces) for channel, pieces in item.shown.items()}
    for (channel, paragraph, start), following in pairwise([*item.paragraphs, ("", None, 0)]):
        end = following[2] if following[0] == channel else ends[channel]
        if text := "".join(item.shown[channel][start:end]):
            event, number = _DELTAS[item.type, channel]
            yield {"type": event, **({} if paragraph is None else {number: paragraph}), "delta": text}
