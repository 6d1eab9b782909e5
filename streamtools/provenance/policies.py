"""Judges a call by the origins of its arguments: the values to check, the findings, the verdict of a policy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json, to_jsonable_python

from ..ground import cut, one_line
from ..parts import Finding
from .index import Index, Origin, Value

MAX_VALUES = 100  # of one call that are searched; a call with more of them is judged as if the rest were untrusted
_MAX_NAME = 64
_Leaf: TypeAlias = "str | int | float | Decimal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A rule about the values of a call that have to be trusted; made by `untrusted` and `only_from_user`."""

    rule: Literal["untrusted", "only_from_user"]
    """The name of the rule."""
    names: tuple[str, ...] = ()
    """The arguments that the rule is about; empty: all of them."""
    verdict: Literal["ask", "deny"] = "ask"
    """The verdict for a call that breaks the rule."""

    def asks(self) -> Policy:
        """Returns the policy with which a person decides, as for a tool with ``needs_approval=True``; the default."""
        return replace(self, verdict="ask")

    def denies(self) -> Policy:
        """Returns the policy that denies such a call: it does not run, and the model reads the reason."""
        return replace(self, verdict="deny")

    def is_against(self, finding: Finding) -> bool:
        """Returns whether a value breaks the rule."""
        if self.names and finding.argument not in self.names:
            return False
        if finding.is_trusted:
            return False
        if self.rule == "only_from_user":
            return True
        return (bool(finding.origins) and not finding.is_short) or not finding.is_complete

    def __call__(self, findings: Iterable[Finding]) -> bool | None:
        """Returns the verdict on a call: True, it runs; None, somebody is asked; False, it does not run."""
        if not any(map(self.is_against, findings)):
            return True
        return None if self.verdict == "ask" else False


def untrusted(*names: str) -> Policy:
    """Returns the policy against values that occur only in untrusted text: in results, in the model's own text, in text
    marked `Untrusted`. A value that occurs nowhere passes.

    Args:
        names: the arguments, by their names in the tool's schema; default: all.
    """
    return Policy(rule="untrusted", names=_names(names))


def only_from_user(*names: str) -> Policy:
    """Returns the policy against values that do not occur in trusted text: the user's messages, system prompts, and
    results of tools with ``trusted=True``.

    Args:
        names: the arguments, by their names in the tool's schema; default: all.
    """
    return Policy(rule="only_from_user", names=_names(names))


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"a policy expects argument names, not {type(name).__name__}")
    return names


# -- what is found --


def findings(
    index: Index | None,
    given: Mapping[str, Any],
    taken: Mapping[str, Any],
    schema: Mapping[str, Any],
    names: Iterable[str],
    tools: Iterable[str],
) -> tuple[Finding, ...]:
    """Returns what is known of the origins of a call's values, for the arguments of these `names`: `given` by the model
    (one that is missing is the tool's default), and as they are `taken` by the tool. `tools` are the names that may be
    shown."""
    found: list[Finding] = []
    known = frozenset(tools)
    for name in names:
        if name not in given:
            continue
        schemas = _below([schema], name, schema)
        value = _plain(taken[name]) if name in taken else given[name]
        for path, forms in _leaves(value, [given[name]], schemas, schema, name):
            if len(found) >= MAX_VALUES:
                found.append(Finding(argument=name, path=name, is_complete=False))
                return tuple(found)
            if forms != [""] or not any(one.get("default") == "" for one in schemas):
                found.append(_finding(index, forms, name, _shown(path), known))
    return tuple(found)


def _finding(index: Index | None, forms: list[_Leaf], argument: str, path: str, tools: frozenset[str]) -> Finding:
    if index is None:
        return Finding(argument=argument, path=path, is_complete=False)
    values = [value for form in forms if (value := _value(form)) is not None]
    trusted = next((origins for value in values if (origins := index.trusts(value))), ())
    if not trusted:
        trusted, parts = _parts(index, forms[0])
        values += parts
    origins = trusted or tuple(dict.fromkeys(origin for value in values for origin in index.others(value)))
    unseen = () if origins else tuple(index.unseen)
    return Finding(
        argument=argument,
        path=path,
        origins=tuple(dict.fromkeys(_words(origin, tools) for origin in origins)),
        is_trusted=bool(trusted),
        is_short=all(value.is_short for value in values),
        is_complete=not index.is_partial,
        unseen=tuple(dict.fromkeys(_words(origin, tools) for origin in unseen))[:4],
    )


_MAX_LIST = 300  # characters of a text whose parts are looked at
_PART = re.compile(
    r"[\w.+%-]++@[\w-]+(?:\.[\w-]+)+|(?:https?|ftp)://[^\s<>\"']+|(?<![^\W_])[A-Za-z]{2}\d\d(?: ?[A-Za-z0-9]{4}){3,7}"
)


def _parts(index: Index, form: _Leaf) -> tuple[tuple[Origin, ...], list[Value]]:
    """Returns the origins of a list of addresses in one text, if all of them are trusted; else those of its parts that
    are not: addresses, hosts of links, accounts."""
    text = form if isinstance(form, str) and len(form) <= _MAX_LIST else ""
    doubtful: list[Value] = []
    origins: list[Origin] = []
    for found in _PART.finditer(text):
        if found[0] == text and "://" not in text:  # as it was looked for
            break
        host = re.sub(r"^\w+://(?:[^/?#]*@)?([^/?#:]*).*", r"\1", found[0])
        value = Value.of_text(host)
        if value is not None and (trusted := index.trusts(value)):
            origins.extend(trusted if host == found[0] else ())
        elif value is not None:
            doubtful.append(value)
    whole = bool(origins) and not doubtful and not re.sub(r"[\s,;<>]+", "", _PART.sub("", text))
    return tuple(dict.fromkeys(origins)) if whole and "://" not in text else (), doubtful


_WORDS = {
    "user": "the user's message",
    "system": "the system prompt",
    "model": "the model's own text",
    "marked": "text marked as untrusted",
    "attached": "an attachment of the user's message",
    "other": "a message that could not be read",
}


def _words(origin: Origin, tools: frozenset[str]) -> str:
    if origin.kind != "result":
        return _WORDS[origin.kind]
    if origin.tool not in tools:  # the name may be anybody's words
        return "the result of a tool"
    return f"the result of `{cut(one_line(origin.tool), _MAX_NAME)}`"


def _shown(path: str) -> str:
    return cut(one_line(path), 2 * _MAX_NAME)


def _value(leaf: _Leaf) -> Value | None:
    return Value.of_text(leaf) if isinstance(leaf, str) else Value.of_number(leaf)


def _plain(value: Any) -> Any:
    """Returns a validated value as JSON; what cannot be is its text."""
    return to_jsonable_python(value, fallback=str, serialize_unknown=True, inf_nan_mode="strings")


# -- the values that are looked at --


def _leaves(
    value: Any, given: Sequence[Any], schemas: Sequence[Mapping[str, Any]], root: Mapping[str, Any], path: str
) -> Iterator[tuple[str, list[_Leaf]]]:
    """Returns the texts and numbers of a value, but for those that the schema lists, each with its path; also as the
    model gave it, if that is another form. A key that the schema does not have is the model's word, too, and no part of
    the path."""
    if isinstance(value, (Mapping, list, tuple)):
        given = [_parsed(one) if isinstance(one, str) else one for one in given]
    if isinstance(value, Mapping):
        objects = [one for one in given if isinstance(one, Mapping)]
        for number, (key, below) in enumerate(value.items()):
            before = [one[key] for one in objects if key in one]
            if objects and len(objects) == len(given) and not before:
                continue
            declared = _below(schemas, key, root)
            at = f"{path}.{key}" if declared else f"{path}.*{number}"
            if not declared:
                yield f"{at} (its name)", [str(key)]
            yield from _leaves(below, before, declared or _below(schemas, None, root), root, at)
    elif isinstance(value, (list, tuple)):
        before = [item for one in given if isinstance(one, (list, tuple)) for item in one]
        for number, one in enumerate(value):
            yield from _leaves(one, before, _below(schemas, number, root), root, f"{path}[{number}]")
    elif _is_leaf(value) and not any(value in _listed(schema) for schema in _branches(schemas, root)):
        other = given[0] if len(given) == 1 and _is_leaf(given[0]) and given[0] != value else value
        yield path, [value] if other is value else [value, other]


def _parsed(text: str) -> Any:
    try:
        return from_json(text)
    except ValueError:
        return text


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (str, int, float, Decimal)) and not isinstance(value, bool)


def _listed(schema: Mapping[str, Any]) -> Sequence[Any]:
    listed = schema.get("enum")
    return [*(listed if isinstance(listed, list) else ()), *([schema["const"]] if "const" in schema else ())]


def _branches(schemas: Iterable[Mapping[str, Any]], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    left, found, seen = [*schemas], [], set()
    while left:
        schema = left.pop()
        if not isinstance(schema, Mapping) or id(schema) in seen:
            continue
        seen.add(id(schema))
        found.append(schema)
        if isinstance(reference := schema.get("$ref"), str):
            left.append(_referred(reference, root))
        for word in ("anyOf", "oneOf", "allOf"):
            left.extend(branch for branch in schema.get(word) or () if isinstance(branch, Mapping))
    return found


def _referred(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    at: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        at = at.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(at, Mapping) and step else at
    return at if isinstance(at, Mapping) else {}


def _below(
    schemas: Iterable[Mapping[str, Any]], key: str | int | None, root: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Returns the schemas of a property or an item; None: of properties that are not declared."""
    found: list[Mapping[str, Any]] = []
    for schema in _branches(schemas, root):
        if isinstance(key, int):
            listed = schema.get("prefixItems")
            one = listed[key] if isinstance(listed, list) and key < len(listed) else schema.get("items")
        elif key is None:
            one = schema.get("additionalProperties")
        else:
            properties = schema.get("properties")
            one = properties.get(key) if isinstance(properties, Mapping) else None
        if isinstance(one, Mapping):
            found.append(one)
    return found
