"""Compares the arguments that a framework calls a function with with those that the model sent in a stream.

A framework passes on JSON as it came (``"2"`` for an integer), coerced (``2.0``), or values of the function's types. So
the tool validates both sides: values that only look alike (``True`` and ``1``, two secrets) are not the same.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ..tools import Tool


@dataclass(frozen=True, slots=True)
class Asked:
    given: Mapping[str, Any]  # by parameter name as they were given, defaults included
    validated: Mapping[str, Any] | None  # the same as the tool validates them; None if it refuses them
    as_json: Mapping[str, Any]  # those that were given, as JSON; empty if they have none

    def are(self, wanted: Mapping[str, Any]) -> bool:
        return self.given.keys() == wanted.keys() and all(self._is(name, value) for name, value in wanted.items())

    def _is(self, name: str, wanted: Any) -> bool:
        if self.validated is not None and same(self.validated.get(name), wanted):
            return True
        # A framework that has validated a value itself may give one that cannot be validated again (a secret, whose
        # JSON is masked; a validator that wants the text). JSON that the tool accepts is what a model has sent, for
        # this call or another: where validation changes a value each time, 2 ends one call and begins the next.
        given = self.given[name]
        is_sent = self.validated is not None and name in self.as_json and same(self.as_json[name], given)
        return not is_sent and same(given, wanted)


class Signature:
    def __init__(self, tool: Tool[..., Any]) -> None:
        self._tool = tool
        self._signature = inspect.signature(tool.fn)
        self._names = frozenset(tool.schema.get("properties", ()))
        kinds = {parameter.kind: name for name, parameter in self._signature.parameters.items()}
        self._keywords = kinds.get(inspect.Parameter.VAR_KEYWORD)

    def asked(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Asked:
        given = self._signature.bind(*args, **kwargs)
        try:
            plain = to_jsonable_python(given.arguments)
            validated = self.validated(self._as_sent(plain))
        except Exception:  # of the values' or the validators' own code, or the tool refuses them
            plain, validated = {}, None
        given.apply_defaults()
        return Asked(given.arguments, validated, plain)

    def validated(self, sent: Mapping[str, Any]) -> Mapping[str, Any]:
        valid = self._tool.validate(sent)
        bound = self._signature.bind(*valid.args, **valid.kwargs)
        bound.apply_defaults()
        return bound.arguments

    def _as_sent(self, plain: dict[str, Any]) -> Mapping[str, Any]:
        """Returns arguments by parameter name as a model sends them: a parameter may stand for all of them."""
        if len(plain) == 1 and not plain.keys() <= self._names:
            (value,) = plain.values()
            if self._tool.kind == "custom":
                return {"input": value}
            if isinstance(value, dict):  # all arguments as one model or dict, or those of `**kwargs`
                return value
        if self._keywords in plain and self._keywords not in self._names:
            return {**plain[self._keywords], **{name: value for name, value in plain.items() if name != self._keywords}}
        return plain


def same(one: Any, other: Any) -> bool:
    """Returns whether two values are the same to a function that gets them; raises what their own comparison raises."""
    if one is other:
        return True
    for kind, are_same in _BY_KIND:
        if isinstance(one, kind) and isinstance(other, kind):
            return are_same(one, other)
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseModel):
        return same(_of_model(one), _of_model(other))
    if is_dataclass(one):
        return all(same(getattr(one, name), getattr(other, name)) for name in (each.name for each in fields(one)))
    if getattr(type(one), "__eq__", None) is object.__eq__ and hasattr(one, "__dict__"):
        return same(vars(one), vars(other))
    # One moment in two time zones is equal, and so are 1.10 and 1.1 of a Decimal.
    return bool(one == other) and str(one) == str(other)


def _same_numbers(one: float, other: float) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return False  # of the same ones, there is one object each
    if one == 0 == other:
        return math.copysign(1, one) == math.copysign(1, other)
    return one == other or (one != one and other != other)


def _same_mappings(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> bool:
    return len(one) == len(other) and all(key in other and same(value, other[key]) for key, value in one.items())


_BY_KIND: tuple[tuple[Any, Callable[[Any, Any], bool]], ...] = (
    ((int, float), _same_numbers),
    (Mapping, _same_mappings),
    ((list, tuple), lambda one, other: len(one) == len(other) and all(map(same, one, other))),
)


def _of_model(model: BaseModel) -> dict[str, Any]:
    return {**model.__dict__, **(model.__pydantic_extra__ or {})}
