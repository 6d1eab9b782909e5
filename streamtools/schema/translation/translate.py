"""Translates a tool's schema into a target's, for every dialect; each kind of subschema has its translator."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from ..dialects import Action, Dialect
from .document import (
    ANNOTATIONS,
    DEFINITIONS,
    KEYWORDS_OF,
    NOTED,
    REFERENCES,
    Build,
    SchemaDocument,
    described,
    free_name,
    mapped,
    pointer,
    reference_of,
    without,
)
from .fits import Contradiction, Lose, Separation, fits, is_of, is_union, kind_of, merge, outermost, types_of
from .plan import Choice, Entries, Fields, Items, JsonText, Named, Plan, Property, Translation, Unwrapped

DRAFT = "https://json-schema.org/draft/2020-12/schema"
MAX_UNROLLED = 2
"""The number of levels to which a recursive definition is inlined before it is cut."""
MAX_BUILDS = 10  # the most builds of one schema; two or three settle it
WRAPPED = "arguments"  # the property that contains the arguments where they cannot be the outermost object themselves


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    schema: dict[str, Any]
    plan: Plan
    definitions: Mapping[str, Plan]
    losses: tuple[str, ...]
    """The losses, one line each: a JSON pointer into the tool's own schema, and the replacement of that part."""


def make(
    schema: Mapping[str, Any], tool: str, dialect: Dialect, *, inline: bool = False, note_bounds: bool = False
) -> Made:
    """Returns the schema of a tool's arguments in a provider's dialect; raises an `ExportError` if that cannot express
    it. `inline` puts definitions in their references' places, `note_bounds` bounds into descriptions, where the dialect
    would keep them."""
    document = SchemaDocument(schema, tool)
    if not dialect.keeps_references:
        return _anew(document, dialect)
    losses: dict[str, str] = {}

    def lose(place: str, what: str) -> None:
        losses.setdefault(place, what)

    if inline:
        document = SchemaDocument(inlined(document, lose), tool)
    root_translation, plan = verbatim(document, dialect, lose, note_bounds=note_bounds)
    return Made(schema=root_translation, plan=plan, definitions={}, losses=_lines(losses))


def canonical(schema: Mapping[str, Any], tool: str) -> dict[str, Any]:
    """Returns a tool's schema with everything explicit: its dialect, the type object, and closed by default."""
    root = outermost(SchemaDocument(schema, tool), lambda place, what: None, flat=False)
    own = copy.deepcopy({key: value for key, value in root.items() if key not in ("$schema", "type")})
    closed = {} if is_union(own) else {"properties": {}, "required": [], "additionalProperties": False}
    return {"$schema": schema.get("$schema", DRAFT), "type": "object", **closed, **own}


def _anew(document: SchemaDocument, dialect: Dialect) -> Made:
    known: dict[str, Translation] = {}
    for _ in range(MAX_BUILDS):
        build = Build(document, dialect, known, _subschema)
        root = outermost(document, build.lose, flat=dialect.rewrites("(root union)"))
        translation = build.translate(without(root, DEFINITIONS), "#")
        made_now = {name: one for name, one in build.definitions.items() if one is not None}
        # Without recursion, every definition was known before it was referred to.
        if made_now == known or not document.recursive:
            break
        known = made_now
    else:
        raise document.refused("#", "its recursive definitions cannot be distinguished")
    # Every provider wants an object at the root; a recursive definition may have become a reference, or JSON text.
    if translation.schema.get("type") != "object":
        translation = wrapped(translation, WRAPPED)
    made = dict(translation.schema)
    if made_now:
        made["$defs"] = {name: one.schema for name, one in made_now.items()}
    if dialect.openapi:
        made = _upper(made)
    plans = {name: one.plan for name, one in made_now.items()}
    return Made(schema=made, plan=translation.plan, definitions=plans, losses=_lines(build.losses))


def _lines(losses: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{place}: {what}" for place, what in losses.items())


def _upper(node: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with types as in OpenAPI's enumeration, and without ``additionalProperties: false``."""
    made: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword == "type":
            made[keyword] = value.upper()
        # Gemini of the field in OpenAPI's form: "Unknown name "additionalProperties": Cannot find field".
        elif keyword != "additionalProperties" or isinstance(value, dict):
            made[keyword] = mapped(keyword, value, "", lambda inner, _: _upper(inner))
    return made


def _subschema(build: Build, node: Any, place: str) -> Translation:
    if not isinstance(node, Mapping):
        raise build.refused(place, "accepts nothing, so no call could be valid")
    if "allOf" in node:
        return _all_of(build, node, place)
    if reference_of(node) is not None:
        return _reference(build, node, place)
    if "anyOf" in node or "oneOf" in node:
        return translate_union(build, node, place)
    kinds = kinds_of(node)
    if not kinds:
        return untyped(build, node, place)
    if len(kinds) > 1 and not may_stay_together(build, node, kinds):
        return split(build, node, kinds, place)
    if kinds in (["object"], ["array"]) and values_of(node) is not None:
        return data(build, node, kinds[0], place)
    if kinds == ["object"]:
        return translate_object(build, node, place)
    if kinds == ["array"]:
        return translate_array(build, node, place)
    return translate_scalar(build, node, kinds, place)


def _all_of(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    parts = node["allOf"]
    alone = len(parts) == 1 and isinstance(parts[0], Mapping) and parts[0].keys() == {"$ref"}
    if alone and not REFERENCES & node.keys():  # before draft 2019-09, a description could stand beside no reference
        return build.translate({**without(node, {"allOf"}), **parts[0]}, place)
    return build.translate(merge(build.document, [(place, node)], build.lose), place)


def _reference(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    at, target = build.document.target(reference_of(node) or "#", place)
    if build.dialect.action("$ref") is Action.INLINE:
        return _written_in_place(build, node, at, target, place)
    siblings = without(node, REFERENCES, DEFINITIONS)
    demands = [keyword for keyword in siblings if keyword not in ANNOTATIONS and not keyword.startswith("$")]
    if demands and at not in build.document.recursive:
        return build.translate(merge(build.document, [(place, node)], build.lose), place)
    # Merged with its target, a recursive definition would be unrolled without an end.
    for keyword in demands:
        build.lose(pointer(place, keyword), "not expressed beside a reference to a recursive schema")
    return _referred(build, {key: value for key, value in siblings.items() if key in ANNOTATIONS}, at, target, place)


def _referred(build: Build, annotations: Mapping[str, Any], at: str, target: Any, place: str) -> Translation:
    if at in build.document.recursive and build.dialect.action("(recursion)") is Action.REFUSE:
        # Anthropic compiles strict schemas to a grammar, and refuses recursion in them, as does Bedrock.
        why = "the schema contains itself, which strict tools of this target do not allow; export it without strict"
        raise build.refused(place, why)
    name = build.document.name(at)
    if name not in build.definitions:
        build.definitions[name] = None
        build.definitions[name] = build.translate(target, at)
    translation = build.defined(name)
    needs_plan = translation is not None and translation.plan is not None
    schema = build.finish(annotations, {"$ref": f"#/$defs/{name}"}, place)
    return Translation(schema, Named(name) if needs_plan else None)


def _written_in_place(build: Build, node: Mapping[str, Any], at: str, target: Any, place: str) -> Translation:
    if build.inlining.count(at) >= MAX_UNROLLED:
        return _cut(build, node, target, place)
    build.inlining.append(at)
    try:
        return build.translate(merge(build.document, [(place, node)], build.lose), at)
    finally:
        build.inlining.pop()


def _cut(build: Build, node: Mapping[str, Any], target: Any, place: str) -> Translation:
    """Translates a recursive definition beyond the unrolled levels: as JSON text, or anything of its type."""
    build.lose(place, f"not expressed beyond {MAX_UNROLLED} levels of a schema that contains itself")
    again = "the same again, as deep as needed"
    kept = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if build.dialect.rewrites("(no type)"):
        schema = {"type": "string"}
        return Translation(build.finish(kept, schema, place, more=[f"{again}, written as JSON text"]), JsonText())
    kind = target.get("type") if isinstance(target, Mapping) else None
    schema = {"type": kind} if isinstance(kind, str) else {}
    return Translation(build.finish(kept, schema, place, more=[again]))


# -- objects, maps and arrays --


FURTHER = "additional_properties"  # the property for further ones, which an object may have beyond its own
EXPLICIT_NULL = "explicit_null"
"""``{"explicit_null": null}`` is null itself, where null alone means that a property is left out."""

_OF_MAPS = frozenset({"minProperties", "maxProperties", "propertyNames", "patternProperties"})


def translate_object(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    if not _is_map(node):
        return _Object(build, node, place).translated()
    if node.get("required"):
        return _Object(build, {"additionalProperties": not node.get("patternProperties"), **node}, place).translated()
    if build.dialect.rewrites("(map)"):
        return _entries(build, node, place)
    return _open(build, node, place)


def _is_map(node: Mapping[str, Any]) -> bool:
    if node.get("properties"):
        return False
    if node.get("patternProperties"):
        return True
    further = node.get("additionalProperties", "properties" not in node)
    return further is not False


# -- maps --


def _entries(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    # OpenAI's strict form, Anthropic's and Bedrock's close every object; in Gemini's OpenAPI form a map arrives empty.
    key = build.translate({"type": "string", **_key_schema(node)}, pointer(place, "propertyNames"))
    value = _value(build, node, place)
    entry = {"type": "object", "properties": {"key": key.schema, "value": value.schema}, "required": ["key", "value"]}
    schema = {"type": "array", "items": _closed(build, entry)}
    rest = without(node, _OF_MAPS)
    for keyword, bound in (("minProperties", "minItems"), ("maxProperties", "maxItems")):
        if keyword in node:
            rest[bound] = node[keyword]
    more = ["each key once"]
    return Translation(build.finish(rest, schema, place, kinds=["array"], more=more), Entries(value.plan))


def _key_schema(node: Mapping[str, Any]) -> dict[str, Any]:
    names = node.get("propertyNames")
    demanded = dict(names) if isinstance(names, Mapping) else {}
    patterns = list(node.get("patternProperties") or ())
    # With several patterns, or further properties, a key need not match any one of them.
    if len(patterns) == 1 and node.get("additionalProperties") in (None, False):
        demanded.setdefault("pattern", patterns[0])
    return demanded


def _value(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    patterns = node.get("patternProperties") or {}
    translations = [build.translate(inner, pointer(place, "patternProperties", key)) for key, inner in patterns.items()]
    further = node.get("additionalProperties", not patterns)
    if further is not False:
        translations.append(build.translate(further, pointer(place, "additionalProperties")))
    if len(translations) > 1:
        build.lose(pointer(place, "patternProperties"), "not expressed: which keys have which values")
    return joined(build, translations, place)


def _open(build: Build, node: Mapping[str, Any], place: str) -> Translation:
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
        translation = build.translate(further, pointer(place, "additionalProperties"))
        schema["additionalProperties"] = translation.schema
        plan = None if translation.plan is None else Fields(values=translation.plan)
    return Translation(build.finish(node, schema, place, kinds=["object"], notes=notes), plan)


def _shown(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind if isinstance(kind, str) and len(schema) == 1 else schema


# -- objects with properties --


class _Object:
    def __init__(self, build: Build, node: Mapping[str, Any], place: str) -> None:
        self.build = build
        self.node = node
        self.place = place
        self.properties: dict[str, Any] = {}
        self.required: list[str] = []
        self.back: list[tuple[str, Property]] = []  # the changes to properties on the way back

    def translated(self) -> Translation:
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
        translated, null_is_absent = _property(self.build, inner, required, place)
        keys = self.build.dialect.keys
        used = {*self.properties, *(self.node.get("properties") or {})}
        key = name if keys is None else keys.fitted(name, used)
        self.properties[key] = translated.schema
        if key != name or null_is_absent or translated.plan is not None:
            self.back.append((key, Property(name, translated.plan, null_is_absent)))
        if null_is_absent or (required and not self._closes_a_circle(inner, place)):
            self.required.append(key)

    def _closes_a_circle(self, inner: Any, place: str) -> bool:
        # Gemini follows such a reference only through properties that are not required.
        build = self.build
        if not build.dialect.rewrites("(recursion)") or build.dialect.action("$ref") is Action.INLINE:
            return False
        opened = {name for name, translated in build.definitions.items() if translated is None}
        if not opened or opened.isdisjoint(map(build.document.name, build.document.references(inner, place))):
            return False
        build.lose(place, "not required here, since the schema contains itself at this place")
        return True

    def _further(self, schema: dict[str, Any]) -> Plan:
        build, node = self.build, self.node
        if build.dialect.rewrites("(map)"):
            if node.get("additionalProperties", False) is not False or node.get("patternProperties"):
                beyond = {key: node[key] for key in ("additionalProperties", "patternProperties") if key in node}
                translated = _entries(build, beyond, self.place)
                key = free_name(FURTHER, {*self.properties, *(node.get("properties") or {})})
                self.properties[key] = translated.schema
                self.required.append(key)
                self.back.append((key, Property(key, translated.plan, merged=True)))
            return None
        if build.dialect.action("additionalProperties") is Action.KEEP and "additionalProperties" in node:
            if isinstance(node["additionalProperties"], bool):
                schema["additionalProperties"] = node["additionalProperties"] or bool(node.get("patternProperties"))
                return None
            translated = build.translate(node["additionalProperties"], pointer(self.place, "additionalProperties"))
            schema["additionalProperties"] = translated.schema
            return translated.plan
        return None


def _property(build: Build, inner: Any, required: bool, place: str) -> tuple[Translation, bool]:
    """Translates a property; returns also whether null in it means "left out"."""
    translation = build.translate(inner, place)
    if required or not build.dialect.rewrites("(optional)"):
        return translation, False
    # OpenAI's strict form requires every property, so null has to mean "left out": otherwise the model could not ask
    # for the default.
    if "null" not in types_of(translation.schema, build.defined):
        return nullable(build, translation, place), True
    if isinstance(inner, Mapping) and "default" in inner and inner["default"] is None:
        return translation, True  # leaving it out and sending null are the same
    # Null is a value of its own here, so it gets a form that differs from "left out".
    null = {"type": "object", "properties": {EXPLICIT_NULL: {"type": "null"}}, "required": [EXPLICIT_NULL]}
    explicit = Translation(_closed(build, null), Unwrapped(EXPLICIT_NULL))
    schema = without(translation.schema, {"description"})
    made = joined(build, [explicit, Translation(schema, translation.plan)], place)
    text = f'(null leaves it out; {{"{EXPLICIT_NULL}": null}} is null itself)'
    before = translation.schema.get("description")
    return Translation({"description": f"{before} {text}" if before else text, **made.schema}, made.plan), True


def _beyond(node: Mapping[str, Any]) -> Any:
    patterns = list((node.get("patternProperties") or {}).values())
    further = node.get("additionalProperties", True)
    if not patterns:
        return further
    return {"anyOf": patterns if further is False else [*patterns, further]}


def _closed(build: Build, schema: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "additionalProperties": False} if build.dialect.rewrites("additionalProperties") else schema


def translate_array(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    first, rest = _shape(node)
    if first and build.dialect.action("prefixItems") is Action.KEEP:
        return _positions(build, node, first, rest, place)
    if first:
        return _any_of_them(build, node, first, rest, place)
    return _alike(build, node, rest, place)


def _shape(node: Mapping[str, Any]) -> tuple[list[Any], Any]:
    items = node.get("items")
    if isinstance(items, list):  # draft-07; the same is `prefixItems` and `items` in 2020-12
        return items, node.get("additionalItems")
    return list(node.get("prefixItems") or ()), items


def _alike(build: Build, node: Mapping[str, Any], items: Any, place: str) -> Translation:
    if items is False:
        node = {**node, "maxItems": 0}
        items = None
    if items is None and not build.dialect.rewrites("(array without items)"):
        return Translation(build.finish(node, {"type": "array"}, place, kinds=["array"]))
    translation = build.translate({} if items is None else items, pointer(place, "items"))
    schema = {"type": "array", "items": translation.schema}
    plan = None if translation.plan is None else Items(translation.plan)
    return Translation(build.finish(node, schema, place, kinds=["array"]), plan)


def _positions(build: Build, node: Mapping[str, Any], first: list[Any], rest: Any, place: str) -> Translation:
    translations = [build.translate(item, pointer(place, "prefixItems", number)) for number, item in enumerate(first)]
    schema: dict[str, Any] = {"type": "array", "prefixItems": [one.schema for one in translations]}
    plans = tuple(one.plan for one in translations)
    after: Plan = None
    if rest is False:
        node = {**node, "maxItems": min(node.get("maxItems", len(first)), len(first))}
    elif rest is not None:
        more = build.translate(rest, pointer(place, "items"))
        schema["items"], after = more.schema, more.plan
    planned = any(plan is not None for plan in (*plans, after))
    return Translation(build.finish(node, schema, place, kinds=["array"]), Items(after, plans) if planned else None)


def _any_of_them(build: Build, node: Mapping[str, Any], first: list[Any], rest: Any, place: str) -> Translation:
    """Translates a tuple as a list of anything that its items may be."""
    # Validation against the tool's own schema checks that each item is in its place.
    translations = [build.translate(item, pointer(place, "prefixItems", number)) for number, item in enumerate(first)]
    build.lose(pointer(place, "prefixItems"), "only the items are expressed, not their places")
    if rest is False:
        node = {**node, "maxItems": min(node.get("maxItems", len(first)), len(first))}
    elif node.get("maxItems", len(first) + 1) > len(first):
        translations.append(build.translate({} if rest is None else rest, pointer(place, "items")))
    items = joined(build, translations, pointer(place, "items"))
    schema = {"type": "array", "items": items.schema}
    order = f"items in order: {', '.join(map(_word, first))}"
    plan = None if items.plan is None else Items(items.plan)
    return Translation(build.finish(node, schema, place, kinds=["array"], more=[order]), plan)


def _word(item: Any) -> str:
    if not isinstance(item, Mapping):
        return "any"
    for keyword in ("title", "type"):
        if isinstance(item.get(keyword), str):
            return str(item[keyword])
    return str(item["$ref"]).rpartition("/")[2] if "$ref" in item else "one of the alternatives"


# -- unions --

# Where alternatives have different ways back, no value may fit two of them: an alternative that could be mistaken for
# another is put into an object with one key that names it (`{"entries": [...]}`). The alternative of a value then
# depends on its types, keys and constants alone, and decoding needs no guess.

_REFINING = frozenset({"required", "not", "minProperties", "maxProperties", "dependentRequired"})
"""Keywords that alone do not determine the form of an alternative's values."""
_DISCRIMINATOR = frozenset({"discriminator"})
MAX_DISTINGUISHED = 64
"""The most alternatives of one union that are compared with each other; a tool with more is of no use to a model."""


def translate_union(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    keyword = "anyOf" if "anyOf" in node else "oneOf"
    base = without(node, {keyword}, _DISCRIMINATOR, DEFINITIONS)
    demands = without(base, SILENT)
    branches = [(pointer(place, keyword, i), branch) for i, branch in enumerate(node[keyword]) if branch is not False]
    # `anyOf: [{"required": ["a"]}, {"required": ["b"]}]` is a demand on the one object, and not a choice of forms.
    if demands and all(isinstance(branch, Mapping) and branch.keys() <= _REFINING for _, branch in branches):
        build.lose(pointer(place, keyword), "not expressed")
        return build.translate(base, place)
    if any(branch is True or (isinstance(branch, Mapping) and branch.keys() <= SILENT) for _, branch in branches):
        return build.translate(base, place)  # an alternative that accepts anything makes the others superfluous
    if demands:
        branches = _refined(build, branches, (place, demands))
    if not branches:
        raise build.refused(pointer(place, keyword), "has no alternative that any value could fit")
    translation = joined(build, [build.translate(branch, at) for at, branch in branches], place)
    return _annotated(build, base, translation, place)


def split(build: Build, node: Mapping[str, Any], kinds: Sequence[str], place: str) -> Translation:
    bare = without(node, ANNOTATIONS, {"const", "enum"})
    values = values_of(node)
    translations = []
    for kind in kinds:
        one: dict[str, Any] = {**bare, "type": kind}
        if values is not None:
            one["enum"] = [value for value in values if is_of(value, [kind])]
        translations.append(build.translate(one, place))
    return _annotated(build, node, joined(build, translations, place), place)


def joined(build: Build, alternatives: Sequence[Translation], place: str) -> Translation:
    """Returns one schema for the values of all alternatives, with the way back from each."""
    several = list({_key(one): one for one in alternatives}.values())
    if len(several) == 1:
        return several[0]
    if build.dialect.openapi and any(one.schema == {"type": "null"} for one in several):
        rest = joined(build, [one for one in several if one.schema != {"type": "null"}], place)
        return Translation({**rest.schema, "nullable": True}, rest.plan)
    plan, several = _way_back(build, several, place)
    # A union inside the union is not one alternative, but several.
    parts = (one.schema["anyOf"] if one.schema.keys() == {"anyOf"} else [one.schema] for one in several)
    return Translation({"anyOf": [*chain.from_iterable(parts)]}, plan)


def nullable(build: Build, translation: Translation, place: str) -> Translation:
    kind = translation.schema.get("type")
    # A list of types is shorter than a union; an enum would have to list null, too.
    plain = (
        isinstance(kind, str) and kind not in ("object", "array") and not {"enum", "const"} & translation.schema.keys()
    )
    if plain and not build.dialect.rewrites("(type list)"):
        return Translation({**translation.schema, "type": [kind, "null"]}, translation.plan)
    description, bare = _parted(translation)
    made = joined(build, [bare, Translation({"type": "null"})], place)
    return Translation({**description, **made.schema}, made.plan)


def _refined(
    build: Build, branches: Sequence[tuple[str, Any]], base: tuple[str, dict[str, Any]]
) -> list[tuple[str, Any]]:
    """Returns the alternatives with the common demands merged into each, without those that contradict them."""
    made = []
    for at, branch in branches:
        try:
            made.append((at, merge(build.document, [(at, branch), base], build.lose)))
        except Contradiction:
            continue
    return made


def _annotated(build: Build, node: Mapping[str, Any], translation: Translation, place: str) -> Translation:
    annotations = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if not annotations:
        return translation
    inner, bare = _parted(translation)
    texts = [annotations.pop("description", None), inner.get("description")]
    annotations["description"] = " ".join(text for text in texts if text and isinstance(text, str)) or None
    return Translation(build.finish(annotations, bare.schema, place), translation.plan)


def _parted(translation: Translation) -> tuple[dict[str, str], Translation]:
    schema = dict(translation.schema)
    text = schema.pop("description", None)
    return ({} if text is None else {"description": text}), Translation(schema, translation.plan)


def _key(translation: Translation) -> tuple[str, Plan]:
    return json.dumps(translation.schema, sort_keys=True), translation.plan


def _way_back(build: Build, several: list[Translation], place: str) -> tuple[Plan, list[Translation]]:
    if all(one.plan == several[0].plan for one in several):
        return several[0].plan, several
    lone = _lone_plan(build, several)
    if lone is not None:
        return lone, several
    several = _distinguished(build, several, place)
    branches = tuple((partial(fits, one.schema, build.defined), one.plan) for one in several)
    return Choice(branches, tuple(map(_key, several))), several


def _lone_plan(build: Build, several: Sequence[Translation]) -> Plan:
    """Returns the plan of the only alternative that has one, if it leaves the values of all others alone."""
    planned = [one.plan for one in several if one.plan is not None]
    if len(planned) != 1 or type(planned[0]) not in _TOUCHED:
        return None
    others = [types_of(one.schema, build.defined) for one in several if one.plan is None]
    return None if _TOUCHED[type(planned[0])].intersection(*[frozenset().union(*others)]) else planned[0]


_TOUCHED: Mapping[type, frozenset[str]] = {  # types of the values that each kind of plan changes
    JsonText: frozenset({"string"}),
    Entries: frozenset({"array", "object"}),
    Items: frozenset({"array"}),
    Fields: frozenset({"object"}),
    Unwrapped: frozenset({"object"}),
}


def _distinguished(build: Build, several: Sequence[Translation], place: str) -> list[Translation]:
    """Returns the alternatives; wraps those with a plan that could be mistaken for another."""
    if len(several) > MAX_DISTINGUISHED:
        raise build.refused(place, f"has more than {MAX_DISTINGUISHED} alternatives to distinguish")
    names: set[str] = set()
    made = [one if one.plan is None or _stands_out(build, one, several) else _named(one, names) for one in several]
    if not all(one.plan is None or _stands_out(build, one, made) for one in made):
        raise build.refused(place, "its alternatives cannot be distinguished; give each a property with a constant")
    return made


def _stands_out(build: Build, one: Translation, several: Sequence[Translation]) -> bool:
    return all(Separation(build.defined).apart(one.schema, other.schema) for other in several if other.plan != one.plan)


def _named(translation: Translation, names: set[str]) -> Translation:
    match translation.plan:
        case Entries():
            plain = "entries"
        case JsonText():
            plain = "json"
        case Named(name=name):
            plain = name
        case _:
            plain = "alternative"
    key = free_name(plain, names)
    names.add(key)
    return wrapped(translation, key)


def wrapped(translation: Translation, key: str) -> Translation:
    schema = {
        "type": "object",
        "properties": {key: translation.schema},
        "required": [key],
        "additionalProperties": False,
    }
    return Translation(schema, Unwrapped(key, translation.plan))


# -- scalars, enums and values of no declared type --


_BOUNDS = frozenset[str]().union(*KEYWORDS_OF.values())
JSON_TEXT = "any JSON value, written as JSON text"

_INFERRED = (
    ("object", ("properties", "additionalProperties", "patternProperties", "propertyNames", "required")),
    ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
    ("string", ("pattern", "minLength", "maxLength")),
    ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
)


SILENT = ANNOTATIONS | {"$comment", "$schema", "$id", "$anchor", "$dynamicAnchor"}
"""Keywords without a demand on a value, including those that only name things."""


def values_of(node: Mapping[str, Any]) -> list[Any] | None:
    if "const" in node:
        return [node["const"]]
    values = node.get("enum")
    return list(values) if isinstance(values, list) else None


def kinds_of(node: Mapping[str, Any]) -> list[str]:
    """Returns the types of a schema without references and unions; empty if nothing in it shows a type."""
    # Without `type`, those of its values, or those that its keywords are about: people leave `type` out.
    declared = node.get("type")
    kinds: list[str] = [declared] if isinstance(declared, str) else list(dict.fromkeys(declared or ()))
    values = values_of(node)
    if values is not None and kinds:
        return [kind for kind in kinds if any(is_of(value, [kind]) for value in values)] or kinds
    if values is not None:
        found = list(dict.fromkeys(map(kind_of, values)))
        return [kind for kind in found if kind != "integer" or "number" not in found]
    if kinds:
        return kinds
    return [kind for kind, keywords in _INFERRED if any(keyword in node for keyword in keywords)]


def may_stay_together(build: Build, node: Mapping[str, Any], kinds: Iterable[str]) -> bool:
    if build.dialect.rewrites("(type list)") or {"object", "array"}.intersection(kinds):
        return False
    return all(type(value) in build.dialect.enums for value in values_of(node) or ())


def translate_scalar(build: Build, node: Mapping[str, Any], kinds: list[str], place: str) -> Translation:
    schema: dict[str, Any] = {"type": kinds[0] if len(kinds) == 1 else kinds}
    values = values_of(node)
    notes: dict[str, Any] = {}
    if values is not None and kinds != ["null"]:
        values = [value for value in values if is_of(value, kinds)]
        if not values:
            raise build.refused(place, "none of its values has its type, so no call could be valid")
        # Gemini's OpenAPI form has enums of strings only, and a model that reads `"1"` answers so: for 1, it is better
        # told in words.
        if not all(type(value) in build.dialect.enums for value in values):
            notes["enum"] = values
        elif "const" in node and build.dialect.action("const") is Action.KEEP:
            schema["const"] = values[0]
        else:
            schema["enum"] = values
    return Translation(build.finish(node, schema, place, kinds=kinds, notes=notes))


def untyped(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    if values_of(node) is not None:
        raise build.refused(place, "its enum is empty, so no call could be valid")
    if not build.dialect.rewrites("(no type)"):
        return Translation(build.finish(node, {}, place, kinds=KEYWORDS_OF))
    # Bounds of the value are not bounds of the text that it is written in.
    notes = {keyword: value for keyword, value in node.items() if keyword in _BOUNDS}
    return Translation(build.finish(node, {"type": "string"}, place, notes=notes, more=[JSON_TEXT]), JsonText())


def data(build: Build, node: Mapping[str, Any], kind: str, place: str) -> Translation:
    notes = {"enum": [value for value in values_of(node) or () if is_of(value, [kind])]}
    if not build.dialect.rewrites("(no type)"):
        return Translation(build.finish(node, {"type": kind}, place, notes=notes))
    return Translation(build.finish(node, {"type": "string"}, place, notes=notes, more=[JSON_TEXT]), JsonText())


# -- schemas copied as they were written --


_VERBATIM_BOUNDS = frozenset[str]().union(*KEYWORDS_OF.values()) - {"format", "patternProperties", "propertyNames"}
"""Keywords that bound values without giving them another form."""

MAX_DEPTH = 100  # the most levels of a schema


def verbatim(
    document: SchemaDocument, dialect: Dialect, lose: Lose, *, note_bounds: bool
) -> tuple[dict[str, Any], Plan]:
    """Returns the schema in a dialect that keeps references, and the plan of the way back."""
    document.spent = 0
    flat = dialect.rewrites("(root union)") and is_union(document.root)
    root = outermost(document, lose, flat=flat)
    schema = _Copy(document, dialect, lose, note_bounds=note_bounds).of(root, "#", 0)
    if dialect.wants_properties and not is_union(schema):
        schema.setdefault("properties", {})
    plan = _rename(schema, dialect)
    # References may lead into a part that has moved or got another name (`#/properties/a`), as some libraries write
    # them: refused here, and not by the provider.
    if flat or plan is not None:
        moved = SchemaDocument(schema, document.tool)
        moved.references(schema, "#")
    return schema, plan


class _Copy:
    def __init__(self, document: SchemaDocument, dialect: Dialect, lose: Lose, *, note_bounds: bool) -> None:
        self.document = document
        self.dialect = dialect
        self.lose = lose
        self.note_bounds = note_bounds

    def of(self, node: Any, place: str, depth: int) -> Any:
        self.document.spend(node, place)
        if depth > MAX_DEPTH:
            raise self.document.refused(place, f"the schema is nested deeper than {MAX_DEPTH} levels")
        if not isinstance(node, dict):
            return copy.deepcopy(node)
        bounds = _VERBATIM_BOUNDS if self.note_bounds else ()
        actions = {
            keyword: Action.NOTE if keyword in bounds else self.dialect.for_value(keyword, value)
            for keyword, value in node.items()
        }
        made = {
            keyword: self._value(keyword, value, pointer(place, keyword), depth + 1)
            for keyword, value in node.items()
            if actions[keyword] not in (Action.DROP, Action.NOTE)
        }
        noted = {keyword: node[keyword] for keyword, action in actions.items() if action is Action.NOTE}
        for keyword in noted:
            self.lose(pointer(place, keyword), NOTED)
        return {**made, "description": described(made.get("description"), noted)} if noted else made

    def _value(self, keyword: str, value: Any, place: str, depth: int) -> Any:
        made = mapped(keyword, value, place, lambda inner, at: self.of(inner, at, depth))
        return copy.deepcopy(value) if made is value else made


def _rename(schema: dict[str, Any], dialect: Dialect) -> Plan:
    """Gives the outermost properties names that the target accepts; the target checks no others."""
    if dialect.keys is None or not dialect.rewrites("(property name)"):
        return None
    properties: dict[str, Any] = schema.get("properties", {})
    names: dict[str, str] = {}
    for name in properties:
        names[name] = dialect.keys.fitted(name, {*properties, *names.values()})
    changed = tuple((key, Property(name)) for name, key in names.items() if key != name)
    if not changed:
        return None
    schema["properties"] = {names[name]: inner for name, inner in properties.items()}
    if "required" in schema:
        schema["required"] = [names.get(name, name) for name in schema["required"]]
    return Fields(changed)


def inlined(document: SchemaDocument, lose: Lose) -> dict[str, Any]:
    """Returns the whole schema without references; one that contains itself stays a definition, and `lose` reports it.
    Parts without references are shared with the original: do not change them."""
    document.spent = 0
    inlining = _Inline(document, lose)
    made: Any = inlining.inline(document.root, "#", 0)
    if made is False:
        raise document.refused("#", "accepts nothing, so no call could be valid")
    made = {} if made is True else made
    # `kept` grows meanwhile
    kept = {document.name(at): inlining.inline(document.target(at, at)[1], at, 1) for at in inlining.kept}
    return {**made, "$defs": kept} if kept else made


class _Inline:
    def __init__(self, document: SchemaDocument, lose: Lose) -> None:
        self.document = document
        self.lose = lose
        self.kept: list[str] = []

    def inline(self, node: Any, place: str, depth: int) -> Any:
        self.document.spend(node, place)
        if depth > MAX_DEPTH:
            raise self.document.refused(place, f"the schema with its references is deeper than {MAX_DEPTH} levels")
        if not isinstance(node, Mapping):
            return node
        copied = {
            keyword: mapped(
                keyword, value, pointer(place, keyword), lambda inner, at: self.inline(inner, at, depth + 1)
            )
            for keyword, value in without(node, REFERENCES, DEFINITIONS).items()
        }
        reference = reference_of(node)
        return copied if reference is None else self._reference(copied, reference, place, depth)

    def _reference(self, siblings: dict[str, Any], reference: str, place: str, depth: int) -> Any:
        at, target = self.document.target(reference, place)
        if at in self.document.recursive:
            self.lose(place, "stays a reference, since the schema contains itself")
            if at not in self.kept:
                self.kept.append(at)
            return {"$ref": f"#/$defs/{self.document.name(at)}", **siblings}
        whole = self.inline(target, at, depth + 1)
        if not siblings:
            return whole
        if isinstance(whole, dict) and all(key in ANNOTATIONS or key not in whole for key in siblings):
            return {**whole, **siblings}
        return {**siblings, "allOf": [*siblings.get("allOf", ()), whole]}
