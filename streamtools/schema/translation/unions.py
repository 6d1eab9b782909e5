"""Translates unions, so that the alternative of a value can be determined afterwards.

Where alternatives have different ways back, no value may fit two of them: an alternative that could be taken for
another is put into an object with one key that names it (``{"entries": [...]}``). The alternative of a value then
depends on its types, keys and constants alone, and needs no guess.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from . import scalars
from .document import ANNOTATIONS, DEFINITIONS, free_name, pointer, without
from .fits import apart, fits, is_of, types_of
from .merge import Contradiction, merge
from .plan import Choice, Entries, Fields, Items, JsonText, Named, Plan, Translation, Unwrapped
from .state import Build

__all__ = ["joined", "nullable", "say", "split", "wrapped"]

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
            one["enum"] = [value for value in values if is_of(value, [kind])]
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
    # A union inside the union is no alternative, but several.
    parts = (one.schema["anyOf"] if one.schema.keys() == {"anyOf"} else [one.schema] for one in several)
    return Translation({"anyOf": [*chain.from_iterable(parts)]}, plan)


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


def _way_back(build: Build, several: list[Translation], place: str) -> tuple[Plan, list[Translation]]:
    if all(one.plan == several[0].plan for one in several):
        return several[0].plan, several
    lone = _lone_plan(build, several)
    if lone is not None:
        return lone, several
    several = _told_apart(build, several, place)
    branches = tuple((partial(fits, one.schema, build.defined), one.plan) for one in several)
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
    made = [one if one.plan is None or _stands_out(build, one, several) else _named(one, names) for one in several]
    if not all(one.plan is None or _stands_out(build, one, made) for one in made):
        raise build.refused(place, "its alternatives cannot be told apart; give each a property with a constant")
    return made


def _stands_out(build: Build, one: Translation, several: Sequence[Translation]) -> bool:
    """Returns whether no value fits both `one` and an alternative with another way back."""
    return all(apart(one.schema, other.schema, build.defined) for other in several if other.plan != one.plan)


def _named(said: Translation, names: set[str]) -> Translation:
    """Returns an alternative in an object whose one key names it."""
    match said.plan:
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
    return wrapped(said, key)


def wrapped(said: Translation, key: str) -> Translation:
    """Returns a translation whose values are sent as the one property of an object."""
    schema = {"type": "object", "properties": {key: said.schema}, "required": [key], "additionalProperties": False}
    return Translation(schema, Unwrapped(key, said.plan))
