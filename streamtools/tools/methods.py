"""Tools in a class body: `@tool` on a method gives a `ToolMethod`, which is a tool once there is an instance.

The definition is checked, and its schema made, when the class is defined; each access only binds the function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import replace
from types import MethodType
from typing import Any

from .callables import class_body_of, refuse
from .definition import Tool

__all__ = ["ToolMethod", "is_method_in_class_body", "tools_of"]


def is_method_in_class_body(target: object) -> bool:
    """Whether `target` is a method, or a ``classmethod`` object, whose class is being defined right now.

    Raises:
        ToolDefinitionError: ``@tool`` stands below ``@classmethod``, where it would never see the class.
    """
    function = target.__func__ if isinstance(target, classmethod) else target
    if not inspect.isfunction(function) or class_body_of(function) is None:
        return False
    first = next(iter(inspect.signature(function).parameters), None)
    if first == "cls" and not isinstance(target, classmethod):
        raise refuse(function.__name__, "is a classmethod; write @tool above @classmethod")
    return first == "self" or isinstance(target, classmethod)


class ToolMethod:
    """A method that becomes a `Tool` when it is read off an instance, or, if a classmethod, off the class too.

    Args:
        method: the function of the class body, or the ``classmethod`` object.
        make: makes the tool of a bound method; called once, with one that is bound to nobody.
    """

    def __init__(self, method: Callable[..., Any] | classmethod[Any, Any, Any], make: Callable[[Any], Tool]) -> None:
        function = method.__func__ if isinstance(method, classmethod) else method
        functools.update_wrapper(self, function)
        self.of_class = isinstance(method, classmethod)
        """It belongs to the class: the tool exists without an instance."""
        self.function: Callable[..., Any] = function
        """The function as it was written."""
        self.template = make(MethodType(function, object()))
        """The tool, bound to nobody: its text and schema are those of each instance's."""
        self._runs = getattr(self.template.fn, "__func__", self.template.fn)

    def __get__(self, instance: object | None, owner: type | None = None) -> Any:
        """The tool, bound; the method itself where there is nothing to bind it to."""
        bound_to = (owner or type(instance)) if self.of_class else instance
        return self if bound_to is None else replace(self.template, fn=MethodType(self._runs, bound_to))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Calls the function itself, the instance first."""
        return self.function(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        """What a tool has, and this has not yet: there is no instance.

        Raises:
            AttributeError: always; it says what to write.
        """
        kind, _, method = self.function.__qualname__.rpartition(".")
        hint = f"; it becomes a tool on an instance: {kind}(...).{method}" if hasattr(Tool, name) else ""
        raise AttributeError(f"the tool method {self.function.__qualname__} has no attribute {name!r}{hint}")

    def __repr__(self) -> str:
        return f"<tool method {self.function.__qualname__}; its tool is read off an instance>"


def tools_of(instance: object) -> list[Tool]:
    """The tools among an object's methods, in the order of their definition, those of its base classes first.

        pipeline(stream, tools=tools_of(Library(database)))

    Args:
        instance: an object whose class has methods marked with ``@tool``; or the class, for those that need none.
    """
    kind = instance if isinstance(instance, type) else type(instance)
    names = dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base))
    marked: dict[int, str] = {}  # one that has a second name is still one
    for name in names:
        member = inspect.getattr_static(kind, name)
        if isinstance(member, (ToolMethod, Tool, staticmethod)):
            marked.setdefault(id(member), name)
    found = (getattr(instance, name) for name in marked.values())
    return [tool for tool in found if isinstance(tool, Tool)]
