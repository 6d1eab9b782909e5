"""What may become a tool: a function, its name and text, and its parameters with their types resolved.

Whatever cannot become one is refused here with a `ToolDefinitionError` that says what to write instead.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from ..errors import ToolDefinitionError
from .context import ToolContext

__all__ = ["as_function", "checked_name", "inner_function", "is_injected", "parameters_of", "refuse", "reserved_names"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")

_INSTEAD_OF_GENERATOR = (
    "; write a function that returns the result, and report what comes before it through ctx.progress(value), "
    "where ctx is a parameter annotated with ToolContext"
)


def refuse(tool: str, why: str, parameter: str | None = None) -> ToolDefinitionError:
    """The error for a function that cannot be a tool."""
    where = f"tool {tool!r}" if parameter is None else f"tool {tool!r}, parameter {parameter!r}"
    return ToolDefinitionError(f"{where}: {why}", tool=tool, parameter=parameter)


def as_function(target: object) -> Callable[..., Any]:
    """The callable that the tool will run. A `staticmethod` object is opened."""
    if isinstance(target, staticmethod):
        return as_function(target.__func__)
    name = _own_name(inner_function(target))
    if isinstance(target, classmethod):
        raise refuse(name, "is an unbound classmethod; make the tool outside the class: tool(Class.method)")
    if isinstance(target, type):
        raise refuse(name, "is a class; pass a function, or an object that can be called")
    if not callable(target):
        raise refuse(name, "is not callable; pass a function")
    inner = inner_function(target)
    if inspect.isasyncgenfunction(inner):
        raise refuse(name, "is an async generator" + _INSTEAD_OF_GENERATOR)
    if inspect.isgeneratorfunction(inner):
        raise refuse(name, "is a generator" + _INSTEAD_OF_GENERATOR)
    return target


def inner_function(target: Any) -> Any:
    """The function that carries name, docstring and annotations: behind a partial, or an object's ``__call__``."""
    while isinstance(target, functools.partial):
        target = target.func
    is_object = callable(target) and not inspect.isroutine(target) and not isinstance(target, type)
    return target.__call__ if is_object else target


def _own_name(inner: Any) -> str:
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return type(inner.__self__).__name__ if name == "__call__" else name


def checked_name(target: Callable[..., Any], name: str | None) -> str:
    """The tool's name, given or taken from the function; providers refuse requests over odd ones."""
    if name is None:
        name = _own_name(inner_function(target))
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        rule = "a name is 1 to 64 letters, digits, '_', '.' or '-', and starts with a letter or '_'"
        raise refuse(str(name), f"{rule}; pass tool(..., name='...')")
    return name


def parameters_of(target: Callable[..., Any], tool: str, *, require_hints: bool) -> list[inspect.Parameter]:
    """The parameters that a caller may still pass, annotations resolved (`Parameter.empty` where there is none).

    Arguments that a `functools.partial` has bound are not among them: they are settled, and may be secret.
    """
    inner = inner_function(target)
    try:
        signature = inspect.signature(target)
    except (TypeError, ValueError, NameError) as error:
        raise refuse(tool, f"has no signature to read ({error})") from error
    bound = target.keywords if isinstance(target, functools.partial) else {}
    parameters = [p for p in signature.parameters.values() if p.name not in bound]
    if require_hints:
        _require_hints(parameters, signature, tool)
    namespace = _namespace(inspect.unwrap(inner))
    return [p.replace(annotation=_resolved(p, namespace, tool)) for p in parameters]


def reserved_names(target: Any) -> frozenset[str]:
    """Names that a ``**kwargs`` entry may not take: every parameter that Python lets be passed by name, also those
    that are bound, injected or ``self``."""
    if not isinstance(target, functools.partial):
        target = inner_function(target)
    parameters = inspect.signature(target).parameters.values()
    names = frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY))
    if isinstance(target, functools.partial):
        return names | reserved_names(target.func)
    return names | reserved_names(target.__func__) if inspect.ismethod(target) else names


def is_injected(parameter: inspect.Parameter, tool: str) -> bool:
    """Whether the dispatcher fills the parameter: its type is `ToolContext`, perhaps optional or annotated."""
    if not _mentions_context(parameter.annotation):
        return False
    kinds = [kind for kind in _alternatives(parameter.annotation) if kind is not type(None)]
    single = parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    if not single or not all(_is_context(kind) for kind in kinds):
        raise refuse(tool, "ToolContext must be the parameter's whole type", parameter.name)
    return True


def _is_context(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ToolContext)


def _mentions_context(annotation: Any) -> bool:
    return _is_context(annotation) or any(_mentions_context(part) for part in get_args(annotation))


def _alternatives(annotation: Any) -> list[Any]:
    origin = get_origin(annotation)
    if origin is Annotated:
        return _alternatives(get_args(annotation)[0])
    if origin is Union or origin is UnionType:
        return [kind for member in get_args(annotation) for kind in _alternatives(member)]
    return [annotation]


def _require_hints(parameters: list[inspect.Parameter], signature: inspect.Signature, tool: str) -> None:
    for position, parameter in enumerate(parameters):
        if parameter.annotation is not parameter.empty:
            continue
        if position == 0 and parameter.name in ("self", "cls"):
            raise refuse(tool, "is a method; make the tool from an instance: tool(instance.method)", parameter.name)
        raise refuse(
            tool,
            "has no type hint; add one, or accept any value with tool(..., require_hints=False)",
            parameter.name,
        )
    if signature.return_annotation is signature.empty:
        raise refuse(tool, "has no return annotation; add one (-> None if it returns nothing)")


def _namespace(function: Any) -> dict[str, Any]:
    """The names that annotations of the function may use: those of its module, and, while the function that it is
    defined in still runs, those of that function."""
    enclosing, is_local, _ = getattr(function, "__qualname__", "").rpartition(".<locals>.")
    local_names: Mapping[str, Any] = {}
    frame = sys._getframe() if is_local else None
    while frame is not None and not local_names:
        if frame.f_code.co_qualname == enclosing:
            local_names = frame.f_locals
        frame = frame.f_back
    type_params = {param.__name__: param for param in getattr(function, "__type_params__", ())}
    return {**getattr(function, "__globals__", {}), **local_names, **type_params}


def _resolved(parameter: inspect.Parameter, namespace: dict[str, Any], tool: str) -> Any:
    """The annotation as a type. Each is resolved alone, so that the error can name the parameter."""
    if parameter.annotation is parameter.empty:
        return parameter.empty

    def holder() -> None: ...

    holder.__annotations__ = {"it": parameter.annotation}
    try:
        return get_type_hints(holder, namespace, include_extras=True)["it"]
    except Exception as error:  # the annotation is code of the user's
        why = f"its annotation {parameter.annotation!r} cannot be resolved ({error})"
        hint = "it must exist at run time, so do not import it under `if TYPE_CHECKING:`"
        raise refuse(tool, f"{why}; {hint}", parameter.name) from error
