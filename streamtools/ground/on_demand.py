"""Loads modules when something in them is first used, so that a program does not pay for the rest.

Both functions stand in the ``else`` of an ``if TYPE_CHECKING:``, whose imports name the same things.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

# A module-level `__getattr__` in sight of a type checker would hide misspelt names from it. The branch that it reads
# has the imports instead, and so has the law against circles.


def names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a package's ``__getattr__`` (PEP 562) for names that it re-exports; `homes` has those of each module
    below it, or with a dot before it of each beside it."""
    home_of = {name: home for home, listed in homes.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise _unknown(package, name, sys._getframe(1).f_code.co_name == "_handle_fromlist")
        value = getattr(import_module(f".{home_of[name]}", package), name)
        # Python asks `__getattr__` only for what the module does not have, so that the next use costs nothing.
        setattr(sys.modules[package], name, value)
        return value

    return load


def _unknown(package: str, name: str, is_imported: bool) -> Exception:
    module, hint = sys.modules[package], ""
    if any(Path(folder, f"{name}{suffix}").exists() for folder in module.__path__ for suffix in ("", ".py")):
        hint, is_imported = f"; write: import {package}.{name}", False  # Python goes on to import it
    elif not name.startswith("_") and name in (homes := _homes()):
        hint = f"; write: from {homes[name]} import {name}"
    if hint and is_imported:  # Python drops the words of an AttributeError that ends a `from ... import`
        return ImportError(f"cannot import name {name!r} from {package!r}{hint}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{hint}", name=name, obj=module)


@cache
def _homes() -> Mapping[str, str]:
    """Returns the module to import each public name from, as the sources say: an error imports nothing."""
    from ast import literal_eval  # only for a mistake

    root, homes = Path(__file__).parent.parent, dict[str, str]()
    places = {path.parent if path.stem == "__init__" else path.with_suffix(""): path for path in root.rglob("*.py")}
    for place in sorted(places, key=lambda place: (len(place.parts), place)):
        text = places[place].read_text(encoding="utf-8")
        listed = re.search(r"^__all__ = (\[.*?\])", text, re.DOTALL | re.MULTILINE)
        for name in literal_eval(listed[1]) if listed else ():
            homes.setdefault(name, ".".join(place.relative_to(root.parent).parts))
    return homes


def functions(package: str, *places: str) -> Iterator[Callable[..., Any]]:
    """Yields a function for each place, a module of the same package or ``module:function``, which loads the real one
    when it is called."""
    for place in places:
        home, _, name = place.partition(":")
        yield _function(package, home, name or home.rpartition(".")[2])


def _function(package: str, home: str, name: str) -> Callable[..., Any]:
    @cache
    def loaded() -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(import_module(f".{home}", package), name)
        return found

    def call(*args: Any, **options: Any) -> Any:
        return loaded()(*args, **options)

    call.__name__ = call.__qualname__ = name
    return call
