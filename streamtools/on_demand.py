"""Loads modules when something in them is first used, so that a program does not pay for the rest.

Both functions stand in the ``else`` of an ``if TYPE_CHECKING:``, whose imports name the same things.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

# A module-level `__getattr__` in sight of a type checker would hide misspelt names from it. The branch that it reads
# has the imports instead, and so has the law against circles.


def names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns a package's ``__getattr__`` (PEP 562) for names that it re-exports.

    Args:
        package: the package's ``__name__``.
        homes: by module below it, the names that the module has, with blanks between them.
    """
    home_of = {name: home for home, listed in homes.items() for name in listed.split()}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f".{home_of[name]}", package), name)
        # Python asks `__getattr__` only for what the module does not have, so that the next use costs nothing.
        setattr(sys.modules[package], name, value)
        return value

    return load


def functions(package: str, *places: str) -> Iterator[Callable[..., Any]]:
    """Yields a function for each place, which loads the real one when it is called.

    Args:
        package: the package's ``__name__``.
        places: each a module of the same package, or ``module:function`` where their names differ.
    """
    for place in places:
        home, _, name = place.partition(":")
        yield _function(package, home, name or home.rpartition(".")[2])


def _function(package: str, home: str, name: str) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        return getattr(import_module(f".{home}", package), name)(*args, **options)

    call.__name__ = call.__qualname__ = name
    return call
