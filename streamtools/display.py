"""Shows our objects as a developer looks for them: what they are, the model's text cut short, and no secrets.

In: an object, and the names of its attributes. Out: one printable line, as ``repr()`` gives it. A value that is its
field's default is left out. Text is quoted, so that control characters and halves of characters are escaped, and cut.
Of content, which may be secret (arguments, results, data of the provider's), only the type and the size are shown,
unless the environment variable ``STREAMTOOLS_DEBUG`` is ``1``. Content is each field of a dataclass with
``repr=False``; `ALWAYS` and `NEVER` are the metadata of fields that are shown, or left out, whatever their value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from .text import one_line

__all__ = ["ALWAYS", "NEVER", "class_name", "described", "is_debugging", "shown_by"]

ALWAYS: Mapping[str, str] = MappingProxyType({"shown": "always"})
NEVER: Mapping[str, str] = MappingProxyType({"shown": "never"})

_MAX_TEXT = 100  # characters of a text
_MAX_ERROR = 300  # characters of an error's message
_MAX_CONTENT = 1000  # characters of content, where it is shown
_MAX_ITEMS = 10  # of a tuple
_SIZED = (str, bytes, list, tuple, dict, set, frozenset)
_PLAIN = (str, bool, int, float, tuple, type(None))  # may be compared with a default


class _Shown(NamedTuple):
    """An attribute to show."""

    name: str
    default: Any
    """The value that is not shown; MISSING if any is."""
    is_content: bool


def shown_by(*names: str, last: Iterable[str] = ()) -> Any:  # to pyright, a callable's type is no method's
    """Returns a ``__repr__`` that shows these attributes, which may be properties; by default the fields of a
    dataclass, those in `last` behind the others."""
    plans: dict[type, list[_Shown]] = {}

    def __repr__(self: Any) -> str:
        kind = type(self)
        if kind not in plans:
            plans[kind] = _plan(kind, names, tuple(last))
        shown_items = ((one, getattr(self, one.name, MISSING)) for one in plans[kind])
        parts = [
            f"{one.name}={_value(value, one)}" for one, value in shown_items if not _is_default(value, one.default)
        ]
        return f"{kind.__name__}({', '.join(parts)})"

    return __repr__


def class_name(value: object) -> str:
    """Returns the name of a value's class, with its module unless that is ``builtins``."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def is_debugging() -> bool:
    """Returns whether ``STREAMTOOLS_DEBUG`` is set to ``1``: content may be shown, and tools' exceptions logged
    whole."""
    return os.environ.get("STREAMTOOLS_DEBUG") == "1"


def described(value: object) -> str:
    """Returns the type of a value, and its size if it has one: ``dict of 2``."""
    kind = type(value).__name__
    return f"{kind} of {len(value)}" if isinstance(value, _SIZED) else kind


def _plan(kind: type, names: tuple[str, ...], last: tuple[str, ...]) -> list[_Shown]:
    known: dict[str, Field[Any]] = {one.name: one for one in fields(kind)} if is_dataclass(kind) else {}
    chosen = names or (*(name for name in known if name not in last), *(name for name in last if name in known))
    return [_shown(name, known.get(name)) for name in chosen if name not in known or _may_be_shown(known[name])]


def _may_be_shown(one: Field[Any]) -> bool:
    """Returns whether a field is neither internal nor marked."""
    return not one.name.startswith("_") and one.metadata != NEVER and (one.repr or one.compare)


def _shown(name: str, one: Field[Any] | None) -> _Shown:
    if one is None:  # a property: text that may be empty, or an object
        return _Shown(name, "", False)
    default = one.default if one.default_factory is MISSING else one.default_factory()
    return _Shown(name, MISSING if one.metadata == ALWAYS else default, not one.repr)


def _is_default(value: object, default: object) -> bool:
    return value is default or (isinstance(value, _PLAIN) and type(value) is type(default) and value == default)


def _value(value: object, one: _Shown) -> str:
    if not one.is_content:
        return _container(value)
    return one_line(_safely(value), _MAX_CONTENT) if is_debugging() else f"<{described(value)}>"


def _container(value: object) -> str:
    """Returns a value that is no content."""
    tell = next((tell for kind, tell in _TELLERS if isinstance(value, kind)), _safely)
    return tell(value)


def _quoted(text: str, most: int = _MAX_TEXT) -> str:
    return repr(text) if len(text) <= most else f"{text[:most]!r}…"


def _error(error: BaseException) -> str:
    return f"{type(error).__name__}({_quoted(str(error), _MAX_ERROR)})"


def _items(items: tuple[Any, ...]) -> str:
    shown_items = [_container(item) for item in items[:_MAX_ITEMS]]
    if len(items) > _MAX_ITEMS:
        shown_items.append(f"… {len(items) - _MAX_ITEMS} more")
    return f"({', '.join(shown_items)}{',' if len(items) == 1 else ''})"


def _safely(value: object) -> str:
    """Returns a value as Python shows it; a user's own ``__repr__`` may fail at that."""
    try:
        return repr(value)
    except Exception:
        return f"<a {type(value).__name__} that cannot be shown>"


_TELLERS: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (str, _quoted),
    (float, lambda value: repr(round(value, 6))),  # a duration
    (tuple, _items),
    (BaseException, _error),
)
