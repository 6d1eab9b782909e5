"""Output items that are calls, as fragments for the accumulate stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from ...events import ToolCallFragment
from ..reading import caller_of, read_text
from .items import ANSWERS, BUILT_IN, TEXT_FIELDS, Item, name_of

__all__ = ["ObjectText", "Path", "announced", "arguments_of", "begun", "completed", "ended", "grown", "repeated"]

Path: TypeAlias = "tuple[str | int, ...]"
ObjectText: TypeAlias = "Callable[[object, Path], tuple[str, str | None]]"
"""A JSON value, and where it stands in the payload, as text; or what is wrong with it."""


def begun(item: Item) -> ToolCallFragment:
    """Returns the beginning of a call of which nothing else is known yet."""
    return _fragment(item, start=True, provider_state={"output_index": item.place, "item": {}})


def announced(item: Item, raw: Mapping[str, Any], kept: Mapping[str, Any], *, start: bool) -> ToolCallFragment:
    """Returns the fragment of a call whose item was announced. What that says of a call of ours is kept, so that one
    that is cut can be given back; nobody takes back the provider's own calls if they are cut."""
    state: dict[str, Any] = {"output_index": item.place}
    if item.kind != "server":
        unfinished = ("status", TEXT_FIELDS[item.type]) if item.type in TEXT_FIELDS else ()
        state["item"] = {key: value for key, value in kept.items() if key not in unfinished}
    namespace = read_text(raw.get("namespace"))
    return _fragment(
        item,
        id=_id(item, raw),
        name=_name(item, raw),
        namespace=namespace,
        caller=caller_of(raw),
        start=start,
        provider_state=state,
    )


def grown(item: Item, text: str) -> ToolCallFragment:
    """Returns more of the arguments."""
    item.has_text = True
    return _fragment(item, arguments=text)


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
    """Returns the end of an item, with which its call ends if it may.

    A call of ours that has no text at all is not: the list at the end may have what the item lacks, and a tool must not
    run with arguments that are merely missing.
    """
    item.cut = item.kind != "server" and raw.get("status") == "incomplete"
    item.has_text = item.has_text or bool(text or problem)
    item.ended = item.kind == "server" or (may_end and item.has_text)
    return _fragment(
        item,
        id=_id(item, raw),
        name=_name(item, raw),
        namespace=read_text(raw.get("namespace")),
        caller=caller_of(raw),
        whole=text or None,
        end=item.ended,
        cut=item.cut,
        problem=problem,
        provider_state=state,
    )


def ended(item: Item) -> ToolCallFragment:
    """Returns the end of a call at the end of the response."""
    item.ended = True
    return _fragment(item, end=True, cut=item.cut or not (item.done or item.text_done))


def arguments_of(type_: str, raw: Mapping[str, Any], path: Path, object_text: ObjectText) -> tuple[str, str | None]:
    """Returns the whole arguments in a call's item, and what is wrong with them; ``""`` if it has none."""
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


def _fragment(item: Item, **said: Any) -> ToolCallFragment:
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
    """Returns the call's name, once."""
    name = None if item.has_name else name_of(raw)
    item.has_name = item.has_name or name is not None
    return name
