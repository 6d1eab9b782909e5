"""Binds arguments by a schema that was not derived from the function: written by hand, fetched, or none at all."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, Union, get_args, get_origin

from ..errors import InvalidArguments
from ..ground.own import own
from ..ground.text import dotted
from . import checks
from .binder import LARGE_CHARS, Binder, Coerce, TakesLong
from .callables import NO_VALUES, RESERVED, Injected, Placement, parameters_of
from .checks import Checks, Enforced
from .typed import as_json, from_text, refuse_not_finite

T = TypeVar("T")

PassAs: TypeAlias = Literal["keywords", "mapping"]
"""The way in which the function gets the arguments: each by its own name, or all in one dict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Foreign:
    # No model is built of it: building models of schemas gets some 60 to 70 % of the official suite right, since a
    # model says less or something else than its schema.

    tool: str
    schema: dict[str, Any]  # as it was given. Do not change it.
    judge: Enforced | None
    """The validator of the schema; None where a validator of the user's takes its place, or there is no schema."""
    checks: Checks
    coerce: Coerce
    pass_as: PassAs
    placement: Placement
    names: frozenset[str]  # the function's parameters that an argument may be passed to

    @property
    def validator_name(self) -> str | None:
        judge = self.checks.validator or self.judge
        return None if judge is None else judge.name

    @property
    def injected(self) -> Mapping[str, Injected]:
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        values, chars = self._copied(arguments, text, quick)
        coercions = self._judged(values, chars, quick)
        # A schema may be open where the function is not: Python's own TypeError would come out of the tool's run.
        if self.pass_as == "keywords":
            if lines := self._misplaced(values):
                raise self._refusal(lines)
            # A default that a run can change, such as `[]`, would keep the change.
            values = {**own({p.name: p.default for p in self.placement.named if p.default.__hash__ is None}), **values}
        self.checks.run(values, values)
        return values, coercions

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        placement = self.placement
        if self.pass_as == "mapping":
            return placement.arrange({placement.named[0].name: values}, injected)
        if placement.var_keyword is not None:  # as one dict, so that no key can take the place of a parameter
            extra = {key: value for key, value in values.items() if key not in self.names}
            values = {key: value for key, value in values.items() if key in self.names}
            values[placement.var_keyword] = extra
        return placement.arrange(values, injected)

    def drift(self) -> list[str]:
        lines = [] if self.pass_as == "mapping" else drift(self.schema, self.placement)
        if self.judge is not None:
            lines += [f"{what}; it is not enforced" for what in self.judge.unenforced]
        return lines

    def _copied(self, arguments: Mapping[str, Any], text: str | None, quick: bool) -> tuple[dict[str, Any], int]:
        # By way of JSON text: the copy is plain, and shares nothing with the record of the call.
        data = as_json(self.tool, arguments) if text is None else text
        if quick and len(data) > LARGE_CHARS:
            raise TakesLong
        if type(data) is bytes and (b"NaN" in data or b"Infinity" in data):
            refuse_not_finite(self.tool, data)
        return from_text(self.tool, data), len(data)

    def _judged(self, values: dict[str, Any], chars: int, quick: bool) -> tuple[str, ...]:
        self.checks.judge(values, values)
        if self.judge is None:
            return ()
        lines, decoded = self.judge.judge(values, decode=self.coerce == "lax", chars=chars, quick=quick)
        if lines:
            raise self._refusal(lines)
        return decoded

    def _misplaced(self, values: dict[str, Any]) -> list[str]:
        placement, names = self.placement, self.names
        extra = [key for key in values if key not in names]
        lines = [
            f"{dotted((p.name,))}: is required but missing"
            for p in placement.named
            if p.default is p.empty and p.name not in values
        ]
        if placement.var_keyword is None:
            return [*lines, *checks.unknown(extra, (p.name for p in placement.named))]
        return [*lines, *(f"{dotted((key,))}: {RESERVED}" for key in placement.clashes(extra))]

    def _refusal(self, lines: list[str] | tuple[str, ...]) -> InvalidArguments:
        return checks.refusal(self.tool, checks.listed(lines))


_JSON_TYPES: Mapping[Any, frozenset[str]] = {
    str: frozenset({"string"}),
    int: frozenset({"integer"}),
    float: frozenset({"number", "integer"}),
    bool: frozenset({"boolean"}),
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
    type(None): frozenset({"null"}),
}


def drift(schema: Mapping[str, Any], placement: Placement) -> list[str]:
    """Compares only names, which arguments are required, and types that are simple on both sides."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    required = schema.get("required", [])
    lines: list[str] = []
    for parameter in placement.named:
        name = parameter.name
        if name not in properties:
            lines.append(f"{name}: is a parameter of the function, but missing in the schema")
        else:
            lines.extend(_disagreements(parameter, properties[name], in_required=name in required))
    if placement.var_keyword is None:
        names = {parameter.name for parameter in placement.named}
        superfluous = (name for name in properties if name not in names)
        lines.extend(f"{name}: is in the schema, but not a parameter of the function" for name in superfluous)
    return lines


def _disagreements(parameter: Parameter, described: Any, *, in_required: bool) -> list[str]:
    name, needed = parameter.name, parameter.default is Parameter.empty
    lines = []
    if needed and not in_required:
        lines.append(f"{name}: is required by the function, but optional in the schema")
    elif in_required and not needed:
        lines.append(f"{name}: is required in the schema, but optional for the function")
    accepted = _json_types(parameter.annotation)
    given = described.get("type") if isinstance(described, Mapping) else None
    types_given = {given} if isinstance(given, str) else set(given) if isinstance(given, (list, tuple)) else set()
    if accepted and not types_given <= accepted:
        lines.append(f"{name}: is {_spelled(types_given)} in the schema, but {_spelled(accepted)} for the function")
    return lines


def _json_types(annotation: Any) -> frozenset[str]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _json_types(get_args(annotation)[0])
    # `Optional[int]` has the one as its origin, `int | None` the other.
    if origin is Union or origin is types.UnionType:
        members = [_json_types(member) for member in get_args(annotation)]
        return frozenset[str]().union(*members) if all(members) else frozenset()
    return _JSON_TYPES.get(origin or annotation, frozenset())


def _spelled(names: set[str] | frozenset[str]) -> str:
    return " or ".join(sorted(names))


class Rerouted:
    def __init__(self, binder: Binder, function: Callable[..., Any], tool: str) -> None:
        self._binder = binder
        self._placement = Placement.of(function, parameters_of(function, tool, require_hints=False), tool)
        self._parameter = self._placement.only(tool, "the function behind it takes one dict, in its one parameter").name
        self.schema, self.validator_name, self.drift = binder.schema, binder.validator_name, binder.drift
        self.injected: Mapping[str, Injected] = self._placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        self._binder.validate(arguments, text, quick=quick)
        # Plain values: a framework behind the function makes its own types of them.
        return own(dict(arguments)), ()

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return self._placement.arrange({self._parameter: values}, injected)
