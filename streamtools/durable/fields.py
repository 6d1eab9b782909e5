"""Reads objects from untrusted files, with checks derived from the types of their fields.

The class's code is not run. A wrong field raises a `ValueError` that names it, and never contains the value. A check
knows more than a type checker does: a number is finite and of a size that JSON readers hold, or within its `Range`; a
datetime has its zone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds a number: ``Annotated[int, Range(0, 10)]``."""

    least: float
    most: float


# JSON readers hold 64 bits, signed or unsigned. No two of our times are 30,000 years apart, so a difference, in
# microseconds or of two integers, is of that size, too.
_DEFAULT_RANGES: Mapping[type, Range] = {int: Range(-(1 << 62), 1 << 62), float: Range(-1e12, 1e12)}


def read_object(
    kind: type,
    written: Mapping[str, Any],
    *,
    label: str | None = None,
    read: Callable[[Any], Any] = lambda value: value,
    unwritten: Collection[str] = (),
) -> Any:
    """Returns an object with these fields, made without calling its class. `label` names it in messages; `read`
    converts a field's value to Python's before the check; fields in `unwritten` get their default. Raises a
    `ValueError` if a field is missing, unknown, or of another type."""
    # `__init__` and `__post_init__` may do anything with the fields, checked or not.
    made: Any = object.__new__(kind)
    label = kind.__name__ if label is None else label
    dot = "." if label else ""
    left = set(written)
    for one in _fields(kind):
        if one.name in written and one.name not in unwritten:
            left.discard(one.name)
            value = read(written[one.name])
            value = value if one.convert is None else one.convert(value)
            _check(f"{label}{dot}{one.name}", value, one.hint)
        elif one.default is not None:
            value = one.default()
        else:
            raise ValueError(f"{label}{dot}{one.name} is missing")
        object.__setattr__(made, one.name, value)
    if left:
        raise ValueError(f"{label or 'it'} has the unknown field {min(left)[:50]!r}")
    return made


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Checks attributes against the annotations of a class that is not a dataclass; other attributes are allowed.
    Raises a `ValueError` if one is missing, or of another type."""
    for name, hint in hints_of(kind).items():
        if name in values:
            _check(f"{kind.__name__}.{name}", values[name], hint)
        elif not hasattr(kind, name):
            raise ValueError(f"{kind.__name__}.{name} is missing")


def _check(place: str, value: Any, hint: Any) -> None:
    check = _check_of(hint)
    if not check.is_one(value):
        raise ValueError(f"{place}: expected {check.words}, got {_got(value)}")


# -- the fields of a class --


class _Field(NamedTuple):
    name: str
    hint: Any
    default: Callable[[], Any] | None
    convert: Callable[[Any], Any] | None


@cache
def _fields(kind: type) -> tuple[_Field, ...]:
    hints = hints_of(kind)
    return tuple(_Field(one.name, hints[one.name], _default(one), _conversion(hints[one.name])) for one in fields(kind))


@cache
def hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _default(one: Any) -> Callable[[], Any] | None:
    if one.default_factory is not MISSING:
        made: Callable[[], Any] = one.default_factory
        return made
    return None if one.default is MISSING else lambda: one.default


def _conversion(hint: Any) -> Callable[[Any], Any] | None:
    """Returns the conversion of a field's value from JSON: a list to a tuple, a text to a datetime."""
    if get_origin(hint) is tuple:
        return lambda value: tuple(value) if type(value) is list else value
    return _moment if hint is datetime else None


def _moment(value: Any) -> Any:
    try:
        return datetime.fromisoformat(value) if type(value) is str else value
    except ValueError:
        return value


# -- checks --


class _Check(NamedTuple):
    words: str  # what is expected
    is_one: Callable[[Any], bool]


@cache
def _check_of(hint: Any) -> _Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return _Check("Any", lambda value: True)
    if origin is Literal:
        return _Check(f"one of {', '.join(arguments)}", lambda value: type(value) is str and value in arguments)
    if origin is None:
        return _of_class(hint)
    if origin is Annotated:
        of, bound = _check_of(arguments[0]), arguments[1]
        words = f"{of.words} from {bound.least:g} to {bound.most:g}"
        return _Check(words, lambda value: of.is_one(value) and bound.least <= value <= bound.most)
    all_words, checks = zip(*(_check_of(one) for one in arguments if one is not Ellipsis), strict=True)
    if origin in (Union, UnionType):
        return _Check(" or ".join(all_words), lambda value: any(is_one(value) for is_one in checks))
    if origin is tuple and arguments[-1] is Ellipsis:
        (each,) = checks
        return _Check(f"tuple[{all_words[0]}, ...]", lambda value: type(value) is tuple and all(map(each, value)))
    if origin is tuple:
        return _Check(f"tuple[{', '.join(all_words)}]", lambda value: type(value) is tuple and _fit(checks, value))
    assert issubclass(dict, origin), f"a field of type {hint} cannot be read"
    is_key, is_value = checks
    return _Check(
        "an object",
        lambda value: type(value) is dict and all(map(is_key, value)) and all(map(is_value, value.values())),
    )


def _fit(checks: Sequence[Callable[[Any], bool]], value: Sequence[Any]) -> bool:
    return len(value) == len(checks) and all(is_one(part) for is_one, part in zip(checks, value, strict=True))


def _of_class(kind: Any) -> _Check:
    # By the exact type, so that a bool is not a number; errors, which are caught by their bases, may be of a subclass.
    if kind is datetime:
        return _Check("datetime with a zone", lambda value: type(value) is datetime and value.tzinfo is not None)
    words = "None" if kind is NoneType else kind.__name__
    if kind in _DEFAULT_RANGES:
        bound, kinds = _DEFAULT_RANGES[kind], (int, float) if kind is float else (int,)
        return _Check(words, lambda value: type(value) in kinds and bound.least <= value <= bound.most)
    if issubclass(kind, BaseException):
        return _Check(words, lambda value: isinstance(value, kind))
    return _Check(words, lambda value: type(value) is kind)


def _got(value: Any) -> str:
    kind: Any = type(value)
    if kind in (int, float):
        bound = _DEFAULT_RANGES[kind]
        return f"{kind.__name__}{'' if bound.least <= value <= bound.most else ' out of range'}"
    return f"another {kind.__name__}" if kind is str else str(kind.__name__)
