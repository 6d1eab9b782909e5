"""Translates objects, maps with keys of the model's choosing, and arrays, including tuples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..dialects import Action
from . import unions
from .document import free_name, pointer, without
from .fits import types_of
from .plan import Entries, Fields, Items, JsonText, Plan, Property, Translation, Unwrapped
from .state import Build

__all__ = ["say_array", "say_object"]


FURTHER = "additional_properties"
"""The property for those that an object may have beyond its own."""
EXPLICIT_NULL = "explicit_null"
"""``{"explicit_null": null}`` is null itself, where null alone means that a property is left out."""

_OF_MAPS = frozenset({"minProperties", "maxProperties", "propertyNames", "patternProperties"})


def say_object(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema of type object."""
    if not _is_map(node):
        return _Object(build, node, place).said()
    if node.get("required"):
        return _Object(build, {"additionalProperties": not node.get("patternProperties"), **node}, place).said()
    if build.dialect.rewrites("(map)"):
        return _entries(build, node, place)
    return _open(build, node, place)


def _is_map(node: Mapping[str, Any]) -> bool:
    """Returns whether all keys of an object are of the model's choosing."""
    if node.get("properties"):
        return False
    if node.get("patternProperties"):
        return True
    further = node.get("additionalProperties", "properties" not in node)
    return further is not False


# -- maps ----------------------------------------------------------------------------------------------------------


def _entries(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a map as a list of entries."""
    key = build.say({"type": "string", **_key_schema(node)}, pointer(place, "propertyNames"))
    value = _value(build, node, place)
    entry = {"type": "object", "properties": {"key": key.schema, "value": value.schema}, "required": ["key", "value"]}
    schema = {"type": "array", "items": _closed(build, entry)}
    told = without(node, _OF_MAPS)
    for keyword, bound in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if keyword in node:
            told[bound] = node[keyword]
    more = ["each key once"]
    return Translation(build.finish(told, schema, place, kinds=["array"], more=more), Entries(value.plan))


def _key_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a map's keys."""
    names = node.get("propertyNames")
    demanded = dict(names) if isinstance(names, Mapping) else {}
    patterns = list(node.get("patternProperties") or ())
    if len(patterns) == 1 and node.get("additionalProperties") in (None, False):
        demanded.setdefault("pattern", patterns[0])
    return demanded


def _value(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates the values of a map, whatever their keys."""
    patterns = node.get("patternProperties") or {}
    said = [build.say(inner, pointer(place, "patternProperties", key)) for key, inner in patterns.items()]
    further = node.get("additionalProperties", not patterns)
    if further is not False:
        said.append(build.say(further, pointer(place, "additionalProperties")))
    if len(said) > 1:
        build.lose(pointer(place, "patternProperties"), "not said which keys have which values")
    return unions.joined(build, said, place)


def _open(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a map as it is."""
    schema: dict[str, Any] = {"type": "object"}
    further = node.get("additionalProperties", True)
    notes: dict[str, Any] = {}
    plan: Plan = None
    if build.dialect.action("(map)") is Action.NOTE:
        if not isinstance(further, bool):
            notes["additionalProperties"] = _shown(further)
    elif isinstance(further, bool):
        schema["additionalProperties"] = further or bool(node.get("patternProperties"))
    else:
        said = build.say(further, pointer(place, "additionalProperties"))
        schema["additionalProperties"] = said.schema
        plan = None if said.plan is None else Fields(values=said.plan)
    return Translation(build.finish(node, schema, place, kinds=["object"], notes=notes), plan)


def _shown(schema: Any) -> Any:
    """Returns a map's values for a note: the type alone if it says all."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) and len(schema) == 1 else schema


# -- objects with properties ---------------------------------------------------------------------------------------


class _Object:
    """One object, while its properties are translated."""

    def __init__(self, build: Build, node: Mapping[str, Any], place: str) -> None:
        self.build = build
        self.node = node
        self.place = place
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.back: list[tuple[str, Property]] = []
        """The changes to properties on the way back, where there are any."""

    def said(self) -> Translation:
        build, node = self.build, self.node
        required = [name for name in node.get("required", ()) if isinstance(name, str)]
        own = {**dict.fromkeys(required, _beyond(node)), **(node.get("properties") or {})}
        for name in [*(node.get("properties") or {}), *required]:
            if name in own:
                self._add(name, own.pop(name), name in required)
        schema: dict[str, Any] = {"type": "object", "properties": self.properties}
        values = self._further(schema)
        if self.required or build.dialect.rewrites("(optional)"):
            schema["required"] = self.required
        if build.dialect.openapi and not self.properties and self.place != "#":
            # 400 otherwise: "properties: should be non-empty for OBJECT type"
            text = build.finish(node, {"type": "string"}, self.place, more=["an empty object, written as JSON text"])
            return Translation(text, JsonText())
        rest = without(node, {"patternProperties", "propertyNames"}) if build.dialect.rewrites("(map)") else node
        if values is not None:  # `values` is for properties beyond its own, so all of its own are listed
            listed = {key for key, _ in self.back}
            self.back.extend((key, Property(key)) for key in self.properties if key not in listed)
        plan = Fields(tuple(self.back), values) if self.back else None
        return Translation(build.finish(rest, _closed(build, schema), self.place, kinds=["object"]), plan)

    def _add(self, name: str, inner: Any, required: bool) -> None:
        if inner is False and not required:
            return  # the property can never be sent
        place = pointer(self.place, "properties", name)
        said, null_is_absent = _property(self.build, inner, required, place)
        keys = self.build.dialect.keys
        taken = {*self.properties, *(self.node.get("properties") or {})}
        key = name if keys is None else keys.fitted(name, taken)
        self.properties[key] = said.schema
        if key != name or null_is_absent or said.plan is not None:
            self.back.append((key, Property(name, said.plan, null_is_absent)))
        if null_is_absent or (required and not self._closes_a_circle(inner, place)):
            self.required.append(key)

    def _closes_a_circle(self, inner: Any, place: str) -> bool:
        """Returns whether the property leads back into a definition being translated, which Gemini follows only through
        properties that are not required."""
        build = self.build
        if not build.dialect.rewrites("(recursion)") or build.dialect.action("$ref") is Action.INLINE:
            return False
        opened = {name for name, said in build.definitions.items() if said is None}
        if not opened or opened.isdisjoint(map(build.document.name, build.document.references(inner, place))):
            return False
        build.lose(place, "not said to be required, since the schema contains itself here")
        return True

    def _further(self, schema: dict[str, Any]) -> Plan:
        """Adds the properties that the object may have beyond its own; returns the plan of those that are sent as they
        are."""
        build, node = self.build, self.node
        if build.dialect.rewrites("(map)"):
            if node.get("additionalProperties", False) is not False or node.get("patternProperties"):
                beyond = {key: node[key] for key in ("additionalProperties", "patternProperties") if key in node}
                said = _entries(build, beyond, self.place)
                key = free_name(FURTHER, {*self.properties, *(node.get("properties") or {})})
                self.properties[key] = said.schema
                self.required.append(key)
                self.back.append((key, Property(key, said.plan, merged=True)))
            return None
        if build.dialect.action("additionalProperties") is Action.KEEP and "additionalProperties" in node:
            if isinstance(node["additionalProperties"], bool):
                schema["additionalProperties"] = node["additionalProperties"] or bool(node.get("patternProperties"))
                return None
            said = build.say(node["additionalProperties"], pointer(self.place, "additionalProperties"))
            schema["additionalProperties"] = said.schema
            return said.plan
        return None


def _property(build: Build, inner: Any, required: bool, place: str) -> tuple[Translation, bool]:
    """Translates a property; returns also whether null in it means "left out"."""
    said = build.say(inner, place)
    if required or not build.dialect.rewrites("(optional)"):
        return said, False
    if "null" not in types_of(said.schema, build.defined):
        return unions.nullable(build, said, place), True
    if isinstance(inner, Mapping) and "default" in inner and inner["default"] is None:
        return said, True  # leaving it out and sending null are the same
    null = {"type": "object", "properties": {EXPLICIT_NULL: {"type": "null"}}, "required": [EXPLICIT_NULL]}
    explicit = Translation(_closed(build, null), Unwrapped(EXPLICIT_NULL))
    schema = without(said.schema, {"description"})
    made = unions.joined(build, [explicit, Translation(schema, said.plan)], place)
    text = f'(null leaves it out; {{"{EXPLICIT_NULL}": null}} is null itself)'
    before = said.schema.get("description")
    return Translation({"description": f"{before} {text}" if before else text, **made.schema}, made.plan), True


def _beyond(node: Mapping[str, Any]) -> Any:
    """Returns the schema of the properties that an object has beyond its own."""
    patterns = list((node.get("patternProperties") or {}).values())
    further = node.get("additionalProperties", True)
    if not patterns:
        return further
    return {"anyOf": patterns if further is False else [*patterns, further]}


def _closed(build: Build, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if build.dialect.rewrites("additionalProperties") else schema


def say_array(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema of type array."""
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
