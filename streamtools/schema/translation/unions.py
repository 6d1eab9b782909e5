"""Translates unions, so that the alternative of a value can be determined afterwards.

Where alternatives have different ways back, no value may fit two of them: an alternative that could be taken for
another is put into an object with one key that names it (``{"entries": [...]}``). The alternative of a value then
depends on its types, keys and constants alone, and needs no guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from . import scalars
from .document import pointer
from .fits import Fits
from .forms import Definitions, defined, is_closed, kinds_in, same, values_in
from .merge import Contradiction, merge
from .plan import Choice, Entries, Fields, Items, JsonText, Named, Plan, Unwrapped
from .said import ANNOTATIONS, DEFINITIONS, Translation, without
from .state import Build

__all__ = ["apart", "joined", "nullable", "say", "split", "types_of"]

_REFINING = frozenset({"required", "not", "minProperties", "maxProperties", "dependentRequired"})
"""Keywords that alone do not determine the form of an alternative's values."""
_DISCRIMINATOR = frozenset({"discriminator"})
MAX_TOLD_APART = 64
"""Most alternatives of one union that are compared with each other; a tool with more is of no use to a model."""


def say(build: Build, node: Mapping[str, Any], place: str) -> Translation:
    """Translates a schema with ``anyOf`` or ``oneOf``."""
    keyword = "anyOf" if "anyOf" in node else "oneOf"
    base = without(node, {keyword}, _DISCRIMINATOR, DEFINITIONS)
    demands = without(base, scalars.SILENT)
    branches = [(pointer(place, keyword, i), branch) for i, branch in enumerate(node[keyword]) if branch is not False]
    if demands and all(isinstance(branch, Mapping) and branch.keys() <= _REFINING for _, branch in branches):
        build.lose(pointer(place, keyword), "not said")
        return build.say(base, place)
    if any(scalars.takes_anything(branch) for _, branch in branches):
        return build.say(base, place)  # an alternative that takes anything makes the others superfluous
    if demands:
        branches = _refined(build, branches, (place, demands))
    if not branches:
        raise build.refused(pointer(place, keyword), "has no alternative that anything could fit")
    said = joined(build, [build.say(branch, at) for at, branch in branches], place)
    return _annotated(build, base, said, place)


def split(build: Build, node: Mapping[str, Any], kinds: Sequence[str], place: str) -> Translation:
    """Translates a schema of several types as a union with one alternative for each."""
    bare = without(node, ANNOTATIONS, {"const", "enum"})
    values = scalars.values_of(node)
    said = []
    for kind in kinds:
        one: dict[str, Any] = {**bare, "type": kind}
        if values is not None:
            one["enum"] = [value for value in values if scalars.is_of(value, [kind])]
        said.append(build.say(one, place))
    return _annotated(build, node, joined(build, said, place), place)


def joined(build: Build, alternatives: Sequence[Translation], place: str) -> Translation:
    """Returns one schema that takes every value that any of the alternatives takes, with the way back from each."""
    several = list({_key(one): one for one in alternatives}.values())
    if len(several) == 1:
        return several[0]
    if build.dialect.openapi and any(one.schema == {"type": "null"} for one in several):
        rest = joined(build, [one for one in several if one.schema != {"type": "null"}], place)
        return Translation({**rest.schema, "nullable": True}, rest.plan)
    plan, several = _way_back(build, several, place)
    return Translation({"anyOf": [part for one in several for part in _flat(one.schema)]}, plan)


def nullable(build: Build, said: Translation, place: str) -> Translation:
    """Returns a translation that takes null as well."""
    kind = said.schema.get("type")
    plain = isinstance(kind, str) and kind not in ("object", "array") and not {"enum", "const"} & said.schema.keys()
    if plain and not build.dialect.rewrites("(type list)"):
        return Translation({**said.schema, "type": [kind, "null"]}, said.plan)
    description, bare = _parted(said)
    made = joined(build, [bare, Translation({"type": "null"})], place)
    return Translation({**description, **made.schema}, made.plan)


def _refined(
    build: Build, branches: Sequence[tuple[str, Any]], base: tuple[str, dict[str, Any]]
) -> list[tuple[str, Any]]:
    """Returns the alternatives with the common demands merged into each; leaves out those that contradict them."""
    made = []
    for at, branch in branches:
        try:
            made.append((at, merge(build.document, [(at, branch), base], build.lose)))
        except Contradiction:
            continue
    return made


def _annotated(build: Build, node: Mapping[str, Any], said: Translation, place: str) -> Translation:
    annotations = {key: value for key, value in node.items() if key in ANNOTATIONS}
    if not annotations:
        return said
    inner, bare = _parted(said)
    texts = [annotations.pop("description", None), inner.get("description")]
    annotations["description"] = " ".join(text for text in texts if text and isinstance(text, str)) or None
    return Translation(build.finish(annotations, bare.schema, place), said.plan)


def _parted(said: Translation) -> tuple[dict[str, str], Translation]:
    """Returns the description, and the rest."""
    schema = dict(said.schema)
    text = schema.pop("description", None)
    return ({} if text is None else {"description": text}), Translation(schema, said.plan)


def _key(said: Translation) -> tuple[str, Plan]:
    return json.dumps(said.schema, sort_keys=True), said.plan


def _flat(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]


def _way_back(build: Build, several: list[Translation], place: str) -> tuple[Plan, list[Translation]]:
    if all(one.plan == several[0].plan for one in several):
        return several[0].plan, several
    lone = _lone_plan(build, several)
    if lone is not None:
        return lone, several
    several = _told_apart(build, several, place)
    branches = tuple((Fits(one.schema, build.defined), one.plan) for one in several)
    return Choice(branches, tuple(map(_key, several))), several


def _lone_plan(build: Build, several: Sequence[Translation]) -> Plan:
    """Returns the plan of the only alternative that has one, if it leaves values of all the others alone."""
    planned = [one.plan for one in several if one.plan is not None]
    if len(planned) != 1 or type(planned[0]) not in _TOUCHED:
        return None
    others = [types_of(one.schema, build.defined) for one in several if one.plan is None]
    return None if _TOUCHED[type(planned[0])].intersection(*[frozenset().union(*others)]) else planned[0]


_TOUCHED: Mapping[type, frozenset[str]] = {
    JsonText: frozenset({"string"}),
    Entries: frozenset({"array", "object"}),
    Items: frozenset({"array"}),
    Fields: frozenset({"object"}),
    Unwrapped: frozenset({"object"}),
}
"""Types of the values that each kind of plan changes."""


def _told_apart(build: Build, several: Sequence[Translation], place: str) -> list[Translation]:
    """Returns the alternatives; wraps those with a plan that could be taken for another."""
    if len(several) > MAX_TOLD_APART:
        raise build.refused(place, f"has more than {MAX_TOLD_APART} alternatives that have to be told apart")
    names: set[str] = set()
    made = [one if one.plan is None or _stands_out(build, one, several) else _wrapped(one, names) for one in several]
    if not all(one.plan is None or _stands_out(build, one, made) for one in made):
        raise build.refused(place, "its alternatives cannot be told apart; give each a property with a constant")
    return made


def _stands_out(build: Build, one: Translation, several: Sequence[Translation]) -> bool:
    """Returns whether no value fits both `one` and an alternative with another way back."""
    return all(apart(one.schema, other.schema, build.defined) for other in several if other.plan != one.plan)


def _wrapped(said: Translation, names: set[str]) -> Translation:
    match said.plan:
        case Entries():
            plain = "entries"
        case JsonText():
            plain = "json"
        case Named(name=name):
            plain = name
        case _:
            plain = "alternative"
    key, number = plain, 2
    while key in names:
        key, number = f"{plain}_{number}", number + 1
    names.add(key)
    schema = {"type": "object", "properties": {key: said.schema}, "required": [key], "additionalProperties": False}
    return Translation(schema, Unwrapped(key, said.plan))


# -- whether two exported schemas can have a value in common ---------------------------------------------------------

ALL = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_NUMBERS = frozenset({"integer", "number"})
MAX_STEPS = 200
"""Pairs of schemas that are compared before two count as not apart: schemas may refer to themselves."""


def types_of(schema: Mapping[str, Any], definitions: Definitions) -> frozenset[str]:
    """Returns the JSON types that a schema takes; all of them where they are not known (yet)."""
    return _types(schema, definitions, set())


def apart(one: Mapping[str, Any], other: Mapping[str, Any], definitions: Definitions) -> bool:
    """Returns True if certainly no value fits both, by types, keys and constants."""
    return _Comparison(definitions).apart(one, other)


class _Comparison:
    def __init__(self, definitions: Definitions) -> None:
        self.definitions = definitions
        self.steps = 0

    def apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        self.steps += 1
        if self.steps > MAX_STEPS:
            return False
        for this, that in ((one, other), (other, one)):
            if "$ref" in this:
                meant = defined(this, self.definitions)
                return meant is None or self.apart(meant, that)  # not known yet: the next build knows
            if "anyOf" in this:
                return all(self.apart(branch, that) for branch in this["anyOf"]) and self._null_apart(this, that)
        these, those = types_of(one, self.definitions), types_of(other, self.definitions)
        if not _overlap(these, those):
            return True
        values, rivals = values_in(one), values_in(other)
        if values is not None and rivals is not None:
            return not any(same(value, rival) for value in values for rival in rivals)
        return these == those == {"object"} and self._objects_apart(one, other)

    def _null_apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        return not one.get("nullable") or "null" not in types_of(other, self.definitions)

    def _objects_apart(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        for this, that in ((one, other), (other, one)):
            if is_closed(that) and not set(this.get("required", ())) <= that.get("properties", {}).keys():
                return True
        shared = [name for name in one.get("required", ()) if name in other.get("required", ())]
        return any(self.apart(one["properties"][name], other["properties"][name]) for name in shared)


def _types(schema: Mapping[str, Any], definitions: Definitions, seen: set[str]) -> frozenset[str]:
    """Returns the types of a schema; adds to `seen`, whose references add nothing again."""
    if "$ref" in schema:
        meant = defined(schema, definitions)
        if meant is None:
            return ALL
        if schema["$ref"] in seen:
            return frozenset()
        seen.add(schema["$ref"])
        return _types(meant, definitions, seen)
    if "anyOf" in schema:
        found = frozenset[str]().union(*(_types(branch, definitions, seen) for branch in schema["anyOf"]))
        return found | {"null"} if schema.get("nullable") else found
    kinds = kinds_in(schema)
    return ALL if kinds is None else frozenset(kinds)


def _overlap(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one & other) or bool(one & _NUMBERS and other & _NUMBERS)
