"""The way back: what the model sent, in the shape of the exported schema, to what the tool's own schema describes.

A plan is a tree that is built beside the exported schema, one node where that says something differently; None means
"as it is". `Inverse` holds the tree with the definitions that it refers to, and applies it.

What needs no guess is tolerated: a map that comes as an object although a list of entries was asked for, a value of no
declared type that is no text. What would need one is `InvalidArguments`: two entries with one key, a text that is no
JSON. Values that fit nothing pass as they are, and validation against the tool's own schema tells what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic_core import from_json

from ...errors import InvalidArguments
from ..paths import dotted

__all__ = ["Choice", "Entries", "Fields", "Inverse", "Items", "JsonText", "Named", "Plan", "Property", "Unwrapped"]

Path: TypeAlias = tuple[str | int, ...]


Fit: TypeAlias = Callable[[Any, dict[tuple[int, int], bool]], bool]
"""Whether a value has the form of an alternative; the second argument is `Inversion.found`."""


@dataclass(frozen=True, slots=True)
class Inversion:
    """What is turned back at a time: the arguments of one call."""

    definitions: Mapping[str, Plan]
    found: dict[tuple[int, int], bool] = field(default_factory=dict)
    """Which parts of the arguments have which form, as far as anybody asked: the alternatives inside alternatives
    would ask again and again."""


class _Step(Protocol):
    """A node: what it does to a value."""

    def decode(self, value: Any, path: Path, call: Inversion) -> Any: ...


Plan: TypeAlias = "_Step | None"
"""How one value is turned back; None leaves it alone."""


def _decode(plan: Plan, value: Any, path: Path, call: Inversion) -> Any:
    return value if plan is None else plan.decode(value, path, call)


@dataclass(frozen=True, slots=True)
class JsonText:
    """A value of no declared type travels as JSON text."""

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """The value of the text; what is no text is the value already."""
        if not isinstance(value, str):
            return value
        try:
            return from_json(value, allow_inf_nan=False)
        except (ValueError, TypeError):  # half a character is a TypeError; the messages quote the text
            rule = 'should be a JSON value written as JSON text (a plain text as "text", in quotes)'
            raise _refused(path, rule) from None


@dataclass(frozen=True, slots=True)
class Entries:
    """A map travels as a list of ``{"key": ..., "value": ...}``."""

    value: Plan = None

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """The map; an object is one already."""
        if isinstance(value, dict):
            return {key: _decode(self.value, inner, (*path, key), call) for key, inner in value.items()}
        if not isinstance(value, list):
            return value
        made: dict[str, Any] = {}
        for number, entry in enumerate(value):
            if not isinstance(entry, dict) or entry.keys() != {"key", "value"} or not isinstance(entry["key"], str):
                raise _refused((*path, number), "should be an object with a string `key` and a `value`, nothing else")
            if entry["key"] in made:
                raise _refused((*path, number, "key"), "is the key of an earlier entry, too; each key may occur once")
            made[entry["key"]] = _decode(self.value, entry["value"], (*path, number, "value"), call)
        return made


@dataclass(frozen=True, slots=True)
class Items:
    """The items of a list: the first ones each by its own plan, the rest by one."""

    rest: Plan = None
    first: tuple[Plan, ...] = ()

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """A list of the items turned back; anything else as it is."""
        if not isinstance(value, list):
            return value
        count = len(self.first)
        return [
            _decode(self.first[number] if number < count else self.rest, item, (*path, number), call)
            for number, item in enumerate(value)
        ]


@dataclass(frozen=True, slots=True)
class Property:
    """What becomes of one property."""

    name: str
    """Its name in the tool's own schema."""
    plan: Plan = None
    null_is_absent: bool = False
    """null stands for "left out"."""
    merged: bool = False
    """Its value is a map, whose entries are properties of the object itself."""


@dataclass(frozen=True, slots=True)
class Fields:
    """An object of which some properties travel differently."""

    properties: tuple[tuple[str, Property], ...] = ()
    """By the name under which they travel, those that need something."""
    values: Plan = None
    """For the properties that are not listed."""
    _listed: Mapping[str, Property] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_listed", dict(self.properties))

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """An object with the properties' own names and values."""
        if not isinstance(value, dict):
            return value
        listed = self._listed
        made: dict[str, Any] = {}
        for key, inner in value.items():
            known = listed.get(key)
            where = (*path, key)
            if known is None:
                _put(made, key, _decode(self.values, inner, where, call), where)
            elif inner is None and known.null_is_absent:
                continue
            else:
                back = _decode(known.plan, inner, where, call)
                if not known.merged:
                    _put(made, known.name, back, where)
                elif isinstance(back, dict):
                    for name, one in back.items():
                        _put(made, name, one, where)
                elif back is not None:  # null is what some models write for none
                    raise _refused(where, "should be a list of objects, each with a `key` and a `value`")
        return made


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that fits one of several schemas, which no value fits two of."""

    branches: tuple[tuple[Fit, Plan], ...] = field(compare=False)
    identity: tuple[Any, ...]
    """What two choices are compared by."""

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """By the plan of the branch that the value fits; a value that fits none is left alone."""
        for fits, plan in self.branches:
            if fits(value, call.found):
                return _decode(plan, value, path, call)
        return value


@dataclass(frozen=True, slots=True)
class Unwrapped:
    """A value that travels as the one property of an object."""

    key: str
    plan: Plan = None

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """The property's value; what is no such object is the value already."""
        if not isinstance(value, dict) or value.keys() != {self.key}:
            return value
        return _decode(self.plan, value[self.key], (*path, self.key), call)


@dataclass(frozen=True, slots=True)
class Named:
    """What a definition says."""

    name: str

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        """By the definition's plan."""
        return _decode(call.definitions[self.name], value, path, call)


@dataclass(frozen=True, slots=True)
class Inverse:
    """A plan with its definitions: the `decode` of an `Exported`."""

    tool: str
    """The tool's name, for errors."""
    root: Plan
    definitions: Mapping[str, Plan]

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What the model sent to what the tool takes. The arguments are not changed.

        Raises:
            InvalidArguments: they are not what the exported schema says.
        """
        try:
            value = _decode(self.root, dict(arguments), (), Inversion(self.definitions))
            if not isinstance(value, dict):
                raise _refused((), f"should be an object, not {type(value).__name__}")
        except InvalidArguments as error:
            lines = error.problems
            raise InvalidArguments(f"invalid arguments for {self.tool}: " + "; ".join(lines), problems=lines) from None
        except RecursionError:
            lines = ("the arguments: are nested too deep",)
            raise InvalidArguments(f"invalid arguments for {self.tool}: " + "; ".join(lines), problems=lines) from None
        return value


def _put(made: dict[str, Any], name: str, value: Any, path: Path) -> None:
    if name in made:
        raise _refused(path, "says again what another property says")
    made[name] = value


def _refused(path: Path, rule: str) -> InvalidArguments:
    where = dotted(path) or "the arguments"
    return InvalidArguments(rule, problems=[f"{where}: {rule}"])
