"""Decodes the model's arguments: from the shape of the exported schema to that of the tool's own schema.

A plan is a tree with a node where that schema differs from the tool's; None means "as it is".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pydantic_core import from_json

from ...errors import InvalidArguments
from ...ground.text import dotted

# Deviations that need no guess are tolerated: a map that is an object although a list of entries was asked for, a value
# of no declared type that is not text. Those that would need a guess raise `InvalidArguments`: two entries with one
# key, a text that is not JSON. Values that fit no schema pass as they are: validation against the tool's own schema
# reports the problems.

Path: TypeAlias = tuple[str | int, ...]


Fit: TypeAlias = Callable[[Any, dict[tuple[int, int], bool]], bool]
"""Returns whether a value has the form of an alternative; the second argument is `Inversion.found`."""


@dataclass(frozen=True, slots=True)
class Inversion:
    definitions: Mapping[str, Plan]
    # Alternatives inside alternatives would ask again and again.
    found: dict[tuple[int, int], bool] = field(default_factory=dict)
    """The known results of whether parts of the arguments have a form."""


class _Step(Protocol):
    def decode(self, value: Any, path: Path, call: Inversion) -> Any: ...


Plan: TypeAlias = "_Step | None"  # the way in which one value is decoded; None leaves it alone


def _decode(plan: Plan, value: Any, path: Path, call: Inversion) -> Any:
    return value if plan is None else plan.decode(value, path, call)


@dataclass(frozen=True, slots=True)
class Translation:
    schema: dict[str, Any]
    plan: Plan = None


@dataclass(frozen=True, slots=True)
class JsonText:
    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return from_json(value, allow_inf_nan=False)
        except (ValueError, TypeError):  # half a surrogate pair is a TypeError; the messages quote the text
            rule = 'should be a JSON value written as JSON text (a string as "text", with quotes)'
            raise _refused(path, rule) from None


@dataclass(frozen=True, slots=True)
class Entries:
    """Decodes a list of ``{"key": ..., "value": ...}`` to a map."""

    value: Plan = None

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        # Models that are not held to the schema write the map as such.
        if isinstance(value, dict):
            return {key: _decode(self.value, inner, (*path, key), call) for key, inner in value.items()}
        if not isinstance(value, list):
            return value
        made: dict[str, Any] = {}
        for number, entry in enumerate(value):
            if not isinstance(entry, dict) or entry.keys() != {"key", "value"} or not isinstance(entry["key"], str):
                raise _refused((*path, number), "should be an object with a string `key` and a `value`, nothing else")
            if entry["key"] in made:  # which of the two was meant would be a guess
                raise _refused((*path, number, "key"), "is the key of an earlier entry, too; each key may occur once")
            made[entry["key"]] = _decode(self.value, entry["value"], (*path, number, "value"), call)
        return made


@dataclass(frozen=True, slots=True)
class Items:
    rest: Plan = None
    first: tuple[Plan, ...] = ()

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        if not isinstance(value, list):
            return value
        count = len(self.first)
        return [
            _decode(self.first[number] if number < count else self.rest, item, (*path, number), call)
            for number, item in enumerate(value)
        ]


@dataclass(frozen=True, slots=True)
class Property:
    name: str  # the property's name in the tool's own schema
    plan: Plan = None
    null_is_absent: bool = False  # True if null means "left out"
    merged: bool = False  # True if its value is a map, whose entries are properties of the object itself


@dataclass(frozen=True, slots=True)
class Fields:
    properties: tuple[tuple[str, Property], ...] = ()
    """The properties that change, by the name under which they are sent."""
    values: Plan = None  # the plan for the properties that are not listed
    _listed: Mapping[str, Property] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_listed", dict(self.properties))

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
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
                # A strict schema requires every property, and a union with null stands for what is optional:
                # https://platform.openai.com/docs/guides/structured-outputs. It is left out again, so that the tool's
                # own default holds.
                continue
            else:
                back = _decode(known.plan, inner, where, call)
                if not known.merged:
                    _put(made, known.name, back, where)
                elif isinstance(back, dict):
                    for name, one in back.items():
                        _put(made, name, one, where)
                elif back is not None:  # some models write null for an empty list
                    raise _refused(where, "should be a list of objects, each with a `key` and a `value`")
        return made


@dataclass(frozen=True, slots=True)
class Choice:
    """Decodes a value that fits one of several schemas; no value fits two of them."""

    branches: tuple[tuple[Fit, Plan], ...] = field(compare=False)
    identity: tuple[Any, ...]  # the values by which two choices are compared

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        for fits, plan in self.branches:
            if fits(value, call.found):
                return _decode(plan, value, path, call)
        return value


@dataclass(frozen=True, slots=True)
class Unwrapped:
    key: str
    plan: Plan = None

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        if not isinstance(value, dict) or value.keys() != {self.key}:
            return value
        return _decode(self.plan, value[self.key], (*path, self.key), call)


@dataclass(frozen=True, slots=True)
class Named:
    name: str

    def decode(self, value: Any, path: Path, call: Inversion) -> Any:
        return _decode(call.definitions[self.name], value, path, call)


@dataclass(frozen=True, slots=True)
class Inverse:
    tool: str  # the tool's name, for errors
    root: Plan
    definitions: Mapping[str, Plan]

    def __call__(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        lines: Sequence[str]
        try:
            value = _decode(self.root, dict(arguments), (), Inversion(self.definitions))
            if isinstance(value, dict):
                return value
            lines = [f"the arguments: should be an object, not {type(value).__name__}"]
        except InvalidArguments as error:
            lines = error.problems
        except RecursionError:
            lines = ["the arguments: are nested too deeply"]
        raise InvalidArguments(f"invalid arguments for {self.tool}: " + "; ".join(lines), problems=lines)


def _put(made: dict[str, Any], name: str, value: Any, path: Path) -> None:
    if name in made:
        raise _refused(path, "repeats another property")
    made[name] = value


def _refused(path: Path, rule: str) -> InvalidArguments:
    where = dotted(path) or "the arguments"
    return InvalidArguments(rule, problems=[f"{where}: {rule}"])
