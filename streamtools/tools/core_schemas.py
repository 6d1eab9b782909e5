"""Reads pydantic's core schemas: their parts, and the number of ways through them.

https://docs.pydantic.dev/latest/api/pydantic_core_schema/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

__all__ = [
    "NO_SCHEMAS",
    "Core",
    "choices_of",
    "fan_of",
    "fields_of",
    "judging",
    "nodes_of",
    "schemas_in",
    "tag_of",
]

Core: TypeAlias = Mapping[str, Any]

NO_SCHEMAS = frozenset({"default", "metadata", "serialization", "expected", "members", "config", "cls", "function"})
"""Keys of a core schema under which no other one stands."""

FAN_OF_A_SET = 4
"""A set's items, compared with each other, count as if so many alternatives were tried for each."""

_WRAPPERS = ("definitions", "nullable", "default", "model", "dataclass", "custom-error")
_FUNCTIONS = ("function-before", "function-after", "function-wrap")
_INNER: Mapping[str, str] = {
    **dict.fromkeys((*_WRAPPERS, *_FUNCTIONS, "model-field", "typed-dict-field", "dataclass-field"), "schema"),
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
    "call": "arguments_schema",
}
"""Schemas that hand the same value on to another one."""


def nodes_of(core: Any) -> Iterator[dict[str, Any]]:
    """Yields the schemas in a core schema, its definitions among them; without recursion."""
    waiting, seen = [core], set[int]()
    while waiting:
        node = waiting.pop()
        if not isinstance(node, (dict, list, tuple)) or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, dict):
            yield node
            waiting.extend(value for key, value in node.items() if key not in NO_SCHEMAS)
        else:
            waiting.extend(node)


def judging(core: Core, definitions: Mapping[str, Core]) -> Core:
    """Returns the schema that judges, behind those that hand the value on."""
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


def choices_of(core: Core) -> list[Core]:
    """Returns the alternatives of a union."""
    choices = core["choices"]
    found = choices.values() if isinstance(choices, Mapping) else choices
    return [choice[0] if isinstance(choice, tuple) else choice for choice in found]


def schemas_in(core: Core) -> list[Core]:
    """Returns the schemas that a schema holds, those of its fields and the like among them; none within those."""
    found: list[Core] = []
    waiting: list[Any] = [value for key, value in core.items() if key not in NO_SCHEMAS]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Mapping):
            if isinstance(node.get("type"), str) and "schema" not in node:
                found.append(node)
            else:
                waiting.extend(value for key, value in node.items() if key not in NO_SCHEMAS)
        elif isinstance(node, (list, tuple)):
            waiting.extend(node)
    return found


def fields_of(core: Core) -> Iterable[tuple[tuple[str, ...], Core]]:
    """Yields the fields of an object, each with the names that it may come under and its schema."""
    if "arguments_schema" in core:
        for argument in core["arguments_schema"]:
            yield (argument["name"], *_aliases(argument.get("alias"))), argument["schema"]
        return
    fields = core["fields"]
    named = fields.items() if isinstance(fields, Mapping) else ((field["name"], field) for field in fields)
    for name, field in named:
        yield (name, *_aliases(field.get("validation_alias"))), field["schema"]


def _aliases(alias: Any) -> tuple[str, ...]:
    """Returns the keys that an alias begins with: one name, a path, or several of either."""
    if isinstance(alias, str):
        return (alias,)
    if not isinstance(alias, (list, tuple)):
        return ()
    if alias and isinstance(alias[0], (list, tuple)):
        return tuple(name for path in alias for name in _aliases(path))
    return (alias[0],) if alias and isinstance(alias[0], str) else ()


def fan_of(core: Core, definitions: Mapping[str, Core]) -> int:
    """Returns the most alternatives that may be tried for any place of a value; 0 if a union holds itself, so that
    there is no bound."""
    known: dict[int, int] = {}

    def of(node: Any) -> int:
        fan = known.get(id(node))
        if fan is None:
            known[id(node)] = 1  # for what holds itself
            fans = [of(part) for part in _parts(node, definitions)]
            fan = known[id(node)] = sum(fans) if _type(node) == "union" else max(fans, default=1)
            if _type(node) in ("set", "frozenset"):
                fan = known[id(node)] = fan * FAN_OF_A_SET
        return fan

    try:
        fan = of(core)
    except RecursionError:
        return 0
    unions = [node for node in _reached(core, definitions) if _type(node) == "union"]
    if any(node is union for union in unions for part in choices_of(union) for node in _reached(part, definitions)):
        return 0
    return fan


def _reached(core: Any, definitions: Mapping[str, Core]) -> Iterator[Any]:
    """Yields all that a schema holds or refers to, itself included, each once; without recursion."""
    waiting, seen = [core], {id(core)}
    while waiting:
        node = waiting.pop()
        yield node
        for part in _parts(node, definitions):
            if id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)


def _parts(node: Any, definitions: Mapping[str, Core]) -> list[Any]:
    if isinstance(node, (list, tuple)):
        parts = list(node)
    elif not isinstance(node, Mapping):
        return []
    elif node.get("type") == "union":
        parts = list(choices_of(node))
    elif node.get("type") == "definition-ref":
        parts = [definitions[node["schema_ref"]]]
    else:
        parts = [value for key, value in node.items() if key not in NO_SCHEMAS and key != "definitions"]
    return [part for part in parts if isinstance(part, (Mapping, list, tuple))]


def _type(node: Any) -> Any:
    return node.get("type") if isinstance(node, Mapping) else None
