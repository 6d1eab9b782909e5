"""Checks a class whose methods are meant to be tools, by the functions and, if available, their source."""

from __future__ import annotations

import ast
import builtins
import enum
import inspect
import textwrap
from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

from ..errors import ToolDefinitionError
from ..tools.definition import Tool


def validate_tool_class(cls: type, *, raise_on_issue: bool = False) -> list[str]:
    """Returns the mistakes in the tools of a class, one per line, in the order of definition.

    It checks the public methods of the class and its bases, except those of ``object``.

    Args:
        cls: the class.
        raise_on_issue: raise instead of returning lines.

    Raises:
        ToolDefinitionError: with `raise_on_issue`, if there is an issue; the message lists them all.
    """
    members = {name: value for base in reversed(cls.__mro__[:-1]) for name, value in vars(base).items()}
    found = [
        issue
        for name, value in members.items()
        if not name.startswith("_") and (function := _function(value)) is not None
        for issue in _issues(name, value, function)
    ]
    if found and raise_on_issue:
        raise ToolDefinitionError(f"{cls.__qualname__}: {'; '.join(found)}", tool=cls.__qualname__)
    return found


def _function(value: Any) -> FunctionType | None:
    if isinstance(value, (staticmethod, classmethod)):
        return _function(value.__func__)
    if isinstance(value, Tool):
        value = value.fn
        while isinstance(value, partial):
            value = value.func
    inner = inspect.unwrap(value) if callable(value) else value
    return inner if isinstance(inner, FunctionType) else None


def _tool(value: Any) -> Any:
    """Returns the tool that a member of the class is, or will be once there is an instance; else something else."""
    return _tool(value.__func__) if isinstance(value, staticmethod) else getattr(value, "template", value)


def _issues(name: str, value: Any, function: FunctionType) -> Iterator[str]:
    made = _tool(value)
    if not isinstance(made, Tool):
        yield f"Method '{name}' missing @tool decorator"
    parameters = list(inspect.signature(function).parameters.values())
    if parameters and parameters[0].name in ("self", "cls") and parameters[0].annotation is inspect.Parameter.empty:
        del parameters[0]
    unhinted = [p.name for p in parameters if p.annotation is inspect.Parameter.empty]
    if unhinted:
        yield f"Method '{name}' missing type hints: {', '.join(unhinted)}"
    if not inspect.getdoc(function):
        yield f"Method '{name}' missing docstring"
    if inspect.signature(function).return_annotation is inspect.Signature.empty:
        yield f"Method '{name}' missing return annotation"
    if isinstance(made, Tool):
        yield from (f"Method '{name}': {line}" for line in made.check())
    node = _source(function)
    if node is not None:
        yield from _default_issues(name, node, parameters)
        known = {*vars(builtins), *function.__globals__, *function.__code__.co_freevars, "__class__"}
        known |= {param.__name__ for param in getattr(function, "__type_params__", ())}
        yield from (f"Method '{name}' uses the undefined name '{missing}'" for missing in _undefined(node, known))


def _source(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return None
    node = tree.body[0]
    return node if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def _default_issues(
    name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, parameters: list[inspect.Parameter]
) -> Iterator[str]:
    # A member of an enum is not a literal in the source, and as good as one: a schema can express it.
    members = {p.name for p in parameters if isinstance(p.default, enum.Enum)}
    for parameter, default in _defaults(node.args):
        if parameter in members:
            continue
        if any(isinstance(inner, ast.Lambda) for inner in ast.walk(default)):
            yield f"Method '{name}' has a lambda as default of '{parameter}'"
        elif not _is_literal(default):
            yield f"Method '{name}' has a default for '{parameter}' that is not a literal"


def _defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr]]:
    positional = [*arguments.posonlyargs, *arguments.args]
    required: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    parameters = [*positional, *arguments.kwonlyargs]
    for parameter, default in zip(parameters, [*required, *arguments.defaults, *arguments.kw_defaults], strict=True):
        if default is not None:
            yield parameter.arg, default


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError):
        return False
    return True


def _undefined(node: ast.FunctionDef | ast.AsyncFunctionDef, known: set[str]) -> list[str]:
    """Returns the names that the body reads and nothing in it or around it defines; each once, in order."""
    # Scopes are not distinguished: a name that is defined anywhere in the method counts as defined, so that no correct
    # method is reported.
    defined = set(known)
    for inner in ast.walk(node):
        match inner:
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                defined.add(name)
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                defined.add(name)
            case ast.alias(name=name, asname=asname):
                defined.add(asname or name.partition(".")[0])
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                defined.add(name)
            case ast.MatchMapping(rest=str(name)):
                defined.add(name)
            case _:
                pass
    read = (inner for statement in node.body for inner in ast.walk(statement))
    names = (inner.id for inner in read if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load))
    return [name for name in dict.fromkeys(names) if name not in defined]
