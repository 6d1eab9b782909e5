"""Translates arrays, including tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dialects import Action
from . import scalars, unions
from .document import pointer
from .plan import Items, Plan, Translation
from .state import Build

__all__ = ["say"]


def say(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema of type array."""
    if scalars.values_of(node) is not None:
        return scalars.data(build, node, "array", place)
    first, rest = _shape(node)
    if first and build.dialect.action("prefixItems") is Action.KEEP:
        return _positions(build, node, first, rest, place)
    if first:
        return _any_of_them(build, node, first, rest, place)
    return _alike(build, node, rest, place)


def _shape(node: Mapping[str, Any]) -> tuple[list[Any], Any]:
    """Returns the schemas of the first items, and that of the rest (None if there is none)."""
    items = node.get("items")
    if isinstance(items, list):  # draft-07
        return items, node.get("additionalItems")
    return list(node.get("prefixItems") or ()), items


def _alike(build: Build, node: Mapping[str, Any], items: Any, place: str) -> Translation:
    """Translates a list of items of one kind."""
    if items is False:
        node = {**node, "maxItems": 0}
        items = None
    if items is None and not build.dialect.rewrites("(array without items)"):
        return Translation(build.finish(node, {"type": "array"}, place, kinds=["array"]))
    said = build.say({} if items is None else items, pointer(place, "items"))
    schema = {"type": "array", "items": said.schema}
    plan = None if said.plan is None else Items(said.plan)
    return Translation(build.finish(node, schema, place, kinds=["array"]), plan)


def _positions(build: Build, node: Mapping[str, Any], first: list[Any], rest: Any, place: str) -> Translation:
    """Translates a tuple as it is."""
    said = [build.say(item, pointer(place, "prefixItems", number)) for number, item in enumerate(first)]
    schema: dict[str, Any] = {"type": "array", "prefixItems": [one.schema for one in said]}
    plans = tuple(one.plan for one in said)
    after: Plan = None
    if rest is False:
        node = {**node, "maxItems": min(node.get("maxItems", len(first)), len(first))}
    elif rest is not None:
        more = build.say(rest, pointer(place, "items"))
        schema["items"], after = more.schema, more.plan
    planned = any(plan is not None for plan in (*plans, after))
    return Translation(build.finish(node, schema, place, kinds=["array"]), Items(after, plans) if planned else None)


def _any_of_them(build: Build, node: Mapping[str, Any], first: list[Any], rest: Any, place: str) -> Translation:
    """Translates a tuple as a list of anything that its items may be; validation checks that each is in its place."""
    said = [build.say(item, pointer(place, "prefixItems", number)) for number, item in enumerate(first)]
    build.lose(pointer(place, "prefixItems"), "only the items are said, not their places")
    if rest is False:
        node = {**node, "maxItems": min(node.get("maxItems", len(first)), len(first))}
    elif node.get("maxItems", len(first) + 1) > len(first):
        said.append(build.say({} if rest is None else rest, pointer(place, "items")))
    items = unions.joined(build, said, pointer(place, "items"))
    schema = {"type": "array", "items": items.schema}
    order = f"items in order: {', '.join(map(_word, first))}"
    plan = None if items.plan is None else Items(items.plan)
    return Translation(build.finish(node, schema, place, kinds=["array"], more=[order]), plan)


def _word(item: Any) -> str:
    """Describes an item in a word or two: its title, its type, or the name that it refers to."""
    if not isinstance(item, Mapping):
        return "any"
    for keyword in ("title", "type"):
        if isinstance(item.get(keyword), str):
            return str(item[keyword])
    return str(item["$ref"]).rpartition("/")[2] if "$ref" in item else "one of the alternatives"
