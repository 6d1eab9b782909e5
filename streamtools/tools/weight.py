"""Weighs the work that pydantic would make of arguments, before it begins, in units of 0.1 µs.

The arguments are gone through beside the core schema, each part once for each schema that stands before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from pydantic_core import from_json

from .binder import LARGE_CHARS

# Nobody can stop pydantic, and no other thread runs while it validates. Mostly its work is linear in the text and fast.
# Three things are not:
#
# - A union is tried alternative by alternative, each to its end. One that contains itself doubles the work with each
#   level: 100 bytes can take seconds.
# - What does not fit costs twenty times as much as what fits.
# - Values of equal hashes make a set or a dict quadratic. Python's hashes of integers beyond 2**61, and of values made
#   of numbers (tuples, UUIDs), are known, so that a peer can choose such values; those of texts are not.
#   https://docs.python.org/3/library/stdtypes.html#hashing-of-numeric-types

_TRY = 10  # an alternative of a union, and 2 more for each level above it: errors have their path
_ERROR = 5
_OBJECT = 5
_ONE = 1
_HASHED_PAIRS = 16  # pairs of integers whose hashes are equal, for a unit
_COMPARED_PAIRS = 2  # the same of anything else: Python code may compare them
_PRIME = (1 << 61) - 1  # by which Python hashes numbers
_PRIME_DIGITS = 19
_BITS_PER_UNIT = 4  # of an integer that becomes a Decimal, which takes time quadratic in its digits
_FREE_BITS = 1024

_ANY = (dict, list)  # the containers of JSON
_SETS = ("set", "frozenset")
_FANNING = ("union", *_SETS)

_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "bool": (bool,),
    "none": (type(None),),
    "decimal": (int, float, str),
}  # the JSON that fits simple types as it is

_SAFE = frozenset({"str", "bytes", "bool", "none", "float", "literal", "enum", "url", "multi-host-url"}) | frozenset(
    {"date", "time", "datetime", "timedelta"}
)  # types without many values of equal hashes that somebody could choose


class TooHeavy(Exception):
    """Raised for more work than is allowed."""


class Weigher:
    def __init__(self, core: Any) -> None:
        self._core: Core = core
        self._definitions = definitions_of(core)
        has_fan = any(node["type"] in _FANNING for node in nodes_of(core))
        fan = fan_of(core, self._definitions) if has_fan else 1
        # Most tools have neither unions nor sets, and an ordinary call pays nothing.
        self.light_chars = LARGE_CHARS // fan if fan else 0  # the most that need not be weighed

    def weigh(self, arguments: Mapping[str, Any], most: int) -> int:
        """Returns the units of work for one validation; at the worst it takes as long as that itself. Raises `TooHeavy`
        if they are more than `most`, or the arguments are nested deeper than Python's recursion."""
        weighing = _Weighing(self._definitions, most)
        try:
            weighing.weigh(self._core, arguments, 0)
        except RecursionError:
            raise TooHeavy from None
        return most - weighing.left


class _Weighing:
    def __init__(self, definitions: Mapping[str, Core], most: int) -> None:
        self._definitions = definitions
        self._known: dict[tuple[int, int], int] = {}  # the weight of a value by a schema, both by their ids
        self._kept: list[Any] = []  # values whose ids are among these: no other value may get such an id
        self.left = most
        self._alternatives = 0  # that are open

    def weigh(self, core: Core, value: Any, depth: int) -> None:
        core = judging(core, self._definitions)
        if not isinstance(value, (dict, list)):
            self._spend(_ONE)
            self._leaf(core, value, depth)
            return
        kind = core["type"]
        types, container = _CONTAINERS.get(kind) or (_ANY, _EITHER.get(kind, _Weighing._unknown))
        if not isinstance(value, types):
            container = _Weighing._misfit
        if not self._alternatives:  # then each value is looked at once
            self._spend(_OBJECT)
            container(self, core, value, depth + 1)
            return
        # Weighed once for each schema, and charged each time: else weighing would double with each level, too.
        key = id(core), id(value)
        known = self._known.get(key)
        if known is None:
            before = self.left
            self._spend(_OBJECT)
            container(self, core, value, depth + 1)
            self._known[key] = before - self.left
        else:
            self._spend(known)

    def _spend(self, units: int) -> None:
        self.left -= units
        if self.left < 0:
            raise TooHeavy

    # -- the value at one place --

    def _leaf(self, core: Core, value: Any, depth: int) -> None:
        kind = core["type"]
        if kind in _EITHER:
            _EITHER[kind](self, core, value, depth)
        elif kind in _CONTAINERS or type(value) not in _TYPES.get(kind, (type(value),)):
            self._spend(_ERROR)
        elif kind == "decimal" and type(value) is int and (bits := value.bit_length()) > _FREE_BITS:
            self._spend(bits // _BITS_PER_UNIT)

    def _misfit(self, core: Core, value: Any, depth: int) -> None:
        self._spend(_ERROR)

    def _unknown(self, core: Core, value: Any, depth: int) -> None:
        # Such a type may look at all parts of the value by each schema inside it; one without any is simple.
        held = schemas_in(core)
        if not held and core["type"] != "any":
            self._spend(_ERROR)
        for schema in held:
            for item in value.values() if isinstance(value, dict) else value:
                self.weigh(schema, item, depth)

    def _union(self, core: Core, value: Any, depth: int) -> None:
        self._alternatives += 1
        for choice in schemas_in(core):
            self._spend(_TRY + 2 * depth)
            self.weigh(choice, value, depth)
        self._alternatives -= 1

    def _tagged_union(self, core: Core, value: Any, depth: int) -> None:
        tag = tag_of(core["discriminator"], value)
        chosen = core["choices"].get(tag) if isinstance(tag, (str, int)) else None
        if chosen is None:
            self._spend(_ERROR)
        else:
            self.weigh(chosen, value, depth)

    def _chain(self, core: Core, value: Any, depth: int) -> None:
        for step in core["steps"]:
            self.weigh(step, value, depth)

    def _json(self, core: Core, value: Any, depth: int) -> None:
        inner = core.get("schema")
        if inner is None or not isinstance(value, str):
            return
        try:
            held = from_json(value)
        except ValueError:
            self._spend(_ERROR)
            return
        self._kept.append(held)
        self.weigh(inner, held, depth)

    # -- containers --

    def _fields(self, core: Core, value: Any, depth: int) -> None:
        if isinstance(value, list):  # a named tuple
            for (_, schema), item in zip(fields_of(core), value, strict=False):
                self.weigh(schema, item, depth)
            return
        for names, schema in fields_of(core):
            found = [name for name in names if name in value]
            if not found:
                self._spend(_ONE)
            for name in found:
                self.weigh(schema, value[name], depth)
        if extra := core.get("extras_schema") or core.get("var_kwargs_schema"):
            for item in value.values():
                self.weigh(extra, item, depth)

    def _list(self, core: Core, value: Any, depth: int) -> None:
        items = core.get("items_schema")
        if items is not None:
            self._items(judging(items, self._definitions), value, depth)

    def _set(self, core: Core, value: Any, depth: int) -> None:
        self._list(core, value, depth)
        self._hashed(core.get("items_schema") or {"type": "any"}, value)

    def _tuple(self, core: Core, value: Any, depth: int) -> None:
        items, variadic = core["items_schema"], core.get("variadic_item_index")
        for position, item in enumerate(value):
            if position < len(items):
                self.weigh(items[position], item, depth)
            elif variadic is not None:
                self.weigh(items[variadic], item, depth)
            else:
                self._spend(_ERROR)

    def _dict(self, core: Core, value: Any, depth: int) -> None:
        if keys := core.get("keys_schema"):
            self._items(judging(keys, self._definitions), list(value), depth)
            self._hashed(keys, value)
        if values := core.get("values_schema"):
            self._items(judging(values, self._definitions), list(value.values()), depth)

    def _items(self, core: Core, items: list[Any], depth: int) -> None:
        types = _TYPES.get(core["type"])
        if types is None or core["type"] == "decimal":
            for item in items:
                self.weigh(core, item, depth)
            return
        misfits = sum(type(item) not in types for item in items)
        self._spend(len(items) // 2 + _ERROR * misfits)

    def _hashed(self, core: Core, items: Iterable[Any]) -> None:
        """Counts the possible cost of putting items into a set, or keys into a dict, if their hashes are equal."""
        kinds = self._kinds(core)
        if kinds <= _SAFE:
            return
        # Integers below Python's prime are hashed as themselves, so only larger ones can be chosen to be alike.
        if kinds <= _SAFE | {"int"}:
            alike = sum(map(_may_collide, items))
            self._spend(alike * alike // _HASHED_PAIRS)
        else:
            count = sum(1 for _ in items)
            self._spend(count * count // _COMPARED_PAIRS)

    def _kinds(self, core: Core) -> set[str]:
        core = judging(core, self._definitions)
        if core["type"] != "union":
            return {core["type"]}
        return {kind for choice in schemas_in(core) for kind in self._kinds(choice)}


def _may_collide(item: Any) -> bool:
    """Returns whether a JSON value may become an integer that Python does not hash as itself."""
    if type(item) is str:
        return len(item) >= _PRIME_DIGITS
    return isinstance(item, (int, float)) and not -_PRIME < item < _PRIME


_FIELDS = ("model-fields", "named-tuple", "typed-dict", "dataclass-args", "arguments", "arguments-v3")
_CONTAINERS: Mapping[str, tuple[tuple[type, ...], Callable[[_Weighing, Core, Any, int], None]]] = {
    **dict.fromkeys(_FIELDS, (_ANY, _Weighing._fields)),  # a named tuple comes as a list
    **dict.fromkeys(("list", "generator", "deque"), ((list,), _Weighing._list)),
    **dict.fromkeys(_SETS, ((list,), _Weighing._set)),
    "tuple": ((list,), _Weighing._tuple),
    **dict.fromkeys(("dict", "frozendict", "ordered-dict", "counter"), ((dict,), _Weighing._dict)),
}  # the JSON of each container, and the method that weighs it

_EITHER: Mapping[str, Callable[[_Weighing, Core, Any, int], None]] = {
    "union": _Weighing._union,
    "tagged-union": _Weighing._tagged_union,
    "chain": _Weighing._chain,
    "json": _Weighing._json,
}  # types of simple values and of containers alike, with the method that weighs each


# -- pydantic's core schemas --

# https://docs.pydantic.dev/latest/api/pydantic_core_schema/

Core: TypeAlias = Mapping[str, Any]

NO_SCHEMAS = frozenset(
    {"default", "metadata", "expected", "members", "config", "cls", "function", "custom_error_context"}
    | {"serialization", "computed_fields", "json_schema_input_schema"}  # schemas that validate no argument
)
"""Keys of a core schema without one below them that validates. What is below any other key, and of any kind, is gone
through: a later pydantic may have more of both."""

FAN_OF_A_SET = 4  # a set's items, compared with each other, count as if so many alternatives were tried for each

_WRAPPERS = ("definitions", "nullable", "default", "model", "dataclass", "custom-error", "missing-sentinel")
_FUNCTIONS = ("function-before", "function-after", "function-wrap")
_INNER: Mapping[str, str] = {
    **dict.fromkeys((*_WRAPPERS, *_FUNCTIONS, "model-field", "typed-dict-field", "dataclass-field"), "schema"),
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
    "call": "arguments_schema",
}  # schemas that pass the same value on to another one


def schemas_in(core: Core) -> list[Core]:
    return [schema for key, value in core.items() if key not in NO_SCHEMAS for schema in _schemas_at(value)]


def _schemas_at(value: Any) -> Iterator[Core]:
    if isinstance(value, Mapping):
        if isinstance(value.get("type"), str):
            yield value
            return
        value = value.values()  # by the names of fields or tags, which may be called anything: `type`, too
    elif not isinstance(value, (list, tuple)):
        return
    for one in value:
        yield from _schemas_at(one)


def nodes_of(core: Core, definitions: Mapping[str, Core] | None = None) -> Iterator[Core]:
    """Yields a schema and all inside it, each once, without recursion; with `definitions`, those that it refers to
    instead of those that it contains."""
    waiting, seen = [core], {id(core)}
    while waiting:
        node = waiting.pop()
        yield node
        for part in schemas_in(node) if definitions is None else _parts(node, definitions):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def definitions_of(core: Core) -> dict[str, Core]:
    return {node["ref"]: node for node in nodes_of(core) if "ref" in node}


def judging(core: Core, definitions: Mapping[str, Core]) -> Core:
    while True:
        kind = core["type"]
        if kind == "definition-ref":
            core = definitions[core["schema_ref"]]
        elif kind in _INNER and _INNER[kind] in core:
            core = core[_INNER[kind]]
        else:
            return core


def tag_of(discriminator: Any, value: Any) -> Any:
    """Returns the tag of a value, by its name, one of several paths, or a function of the tool's author."""
    if callable(discriminator):
        try:
            return discriminator(value)
        except Exception:  # pydantic asks again, and says so
            return None
    paths = [[discriminator]] if isinstance(discriminator, str) else discriminator
    for path in paths:
        found = value
        for part in path:
            found = found.get(part) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


def fields_of(core: Core) -> Iterable[tuple[tuple[str, ...], Core]]:
    if "arguments_schema" in core:
        for argument in core["arguments_schema"]:
            yield (argument["name"], *_aliases(argument.get("alias"))), argument["schema"]
        return
    fields = core["fields"]
    named = fields.items() if isinstance(fields, Mapping) else ((field["name"], field) for field in fields)
    for name, field in named:
        yield (name, *_aliases(field.get("validation_alias"))), field["schema"]


def _aliases(alias: Any) -> tuple[str, ...]:
    if isinstance(alias, str):
        return (alias,)
    if not isinstance(alias, (list, tuple)):
        return ()
    if alias and isinstance(alias[0], (list, tuple)):
        return tuple(name for path in alias for name in _aliases(path))
    return (alias[0],) if alias and isinstance(alias[0], str) else ()


def fan_of(core: Core, definitions: Mapping[str, Core]) -> int:
    """Returns the most alternatives that may be tried for any place of a value; 0 for no bound."""
    known: dict[int, int] = {}

    def of(node: Core) -> int:
        fan = known.get(id(node))
        if fan is None:
            known[id(node)] = 1  # for a schema that contains itself
            fans = [of(part) for part in _parts(node, definitions)]
            fan = known[id(node)] = sum(fans) if node["type"] == "union" else max(fans, default=1)
            if node["type"] in _SETS:
                fan = known[id(node)] = fan * FAN_OF_A_SET
        return fan

    try:
        fan = of(core)
    except RecursionError:
        return 0
    unions = [node for node in nodes_of(core, definitions) if node["type"] == "union"]
    # A union that contains itself multiplies its alternatives with each level of the value: no bound.
    if any(node is union for union in unions for part in schemas_in(union) for node in nodes_of(part, definitions)):
        return 0
    return fan


def _parts(node: Core, definitions: Mapping[str, Core]) -> list[Core]:
    if node["type"] == "definition-ref":
        return [definitions[node["schema_ref"]]]
    return [node["schema"]] if node["type"] == "definitions" else schemas_in(node)
