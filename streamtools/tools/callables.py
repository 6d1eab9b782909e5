"""Reads the functions that become tools: name, parameters with their types resolved, and how they are called.

A `Placement` calls a function with values that are known by name: ``*args`` takes a list under its own name and
``**kwargs`` a dict, so that no position can shift and no key can take the place of a parameter. A function that cannot
become a tool is refused with a `ToolDefinitionError` that says what to write instead.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import CoroutineType, FrameType
from typing import Any, get_type_hints

from ..errors import ToolDefinitionError
from ..schema.names import TOOL_NAMES
from .injection import Injected, injected_of

__all__ = [
    "NO_VALUES",
    "TAKEN",
    "Placement",
    "as_function",
    "called_function",
    "checked_name",
    "class_body_of",
    "inner_function",
    "parameters_of",
    "refuse",
    "reserved_names",
    "returned_by",
    "takes",
]


_INSTEAD_OF_GENERATOR = (
    "; make it an async generator, whose values are progress up to `yield FinalResult(value)`, or write a function "
    "that returns the result, and report what comes before it through ctx.progress(value), where ctx is a parameter "
    "annotated with ToolContext"
)

_INSTEAD_OF: Mapping[type, str] = {
    str: ", and options by their names: @tool(name='...')",
    dict: " or the tool itself, since its .to(...) is for the request; a schema becomes a tool by "
    "Tool.from_schema(function, schema)",
    CoroutineType: " itself, without calling it",
    list: ", and those of a list one by one: tools=[*these, that]",
}


def refuse(tool: str, why: str, parameter: str | None = None) -> ToolDefinitionError:
    """Returns the error for a function that cannot be a tool."""
    where = f"tool {tool!r}" if parameter is None else f"tool {tool!r}, parameter {parameter!r}"
    return ToolDefinitionError(f"{where}: {why}", tool=tool, parameter=parameter)


def as_function(target: object) -> Callable[..., Any]:
    """Returns the callable that the tool will run. A `staticmethod` object is opened."""
    if isinstance(target, staticmethod):
        return as_function(target.__func__)
    name = _own_name(inner_function(target))
    if isinstance(target, classmethod):
        raise refuse(name, "is an unbound classmethod; make the tool outside the class: tool(Class.method)")
    if isinstance(target, type):
        raise refuse(name, "is a class; pass a function, or an object that can be called")
    if not callable(target):
        instead = ", or its .tool" if hasattr(target, "tool") else _INSTEAD_OF.get(type(target), "")
        raise refuse(name, f"is not callable; pass a function{instead}")
    inner = called_function(target)
    if inspect.isgeneratorfunction(inner):
        raise refuse(name, "is a generator" + _INSTEAD_OF_GENERATOR)
    return target


def takes(function: Callable[..., Any], count: int) -> bool:
    """Returns whether a function can be called with so many arguments; True if it has no signature to tell."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some of Python's own
        return True
    return True


def inner_function(target: Any) -> Any:
    """Returns the function that carries name, docstring and annotations: behind a partial, inside a wrapper, or else
    its ``__call__``."""
    called = called_function(target)
    wrapped = inspect.unwrap(target) if called is not target and callable(target) else target
    return wrapped if inspect.isfunction(wrapped) else called


def called_function(target: Any) -> Any:
    """Returns the function whose body runs: behind a partial, or an object's ``__call__``."""
    while isinstance(target, functools.partial):
        target = target.func
    is_object = callable(target) and not inspect.isroutine(target) and not isinstance(target, type)
    return target.__call__ if is_object else target


def _own_name(inner: Any) -> str:
    name: str = getattr(inner, "__name__", type(inner).__name__)
    return type(inner.__self__).__name__ if name == "__call__" else name


def checked_name(target: Callable[..., Any], name: str | None) -> str:
    """Returns the tool's name, given or taken from the function; providers refuse requests over odd ones."""
    if name is None:
        name = _own_name(inner_function(target))
    if not isinstance(name, str) or not TOOL_NAMES.takes(name):
        rule = "a name is 1 to 64 letters, digits, '_', '.' or '-', and starts with a letter or '_'"
        raise refuse(str(name), f"{rule}; pass tool(..., name='...')")
    return name


def returned_by(target: Callable[..., Any]) -> Any:
    """Returns the function's return type, resolved; `Parameter.empty` where there is none, or none that resolves."""
    inner = inspect.unwrap(inner_function(target))
    said = getattr(inner, "__annotations__", {}).get("return", inspect.Parameter.empty)
    if said is inspect.Parameter.empty:
        return said
    try:
        return _as_type(said, _namespace(inner))
    except Exception:  # the annotation is code of the user's, and only tools with outputs need it
        return inspect.Parameter.empty


def parameters_of(target: Callable[..., Any], tool: str, *, require_hints: bool) -> list[inspect.Parameter]:
    """Returns the parameters that a caller may still pass, annotations resolved (`Parameter.empty` where there is
    none).

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
    """Returns the names that a ``**kwargs`` entry may not take: every parameter that Python lets be passed by name,
    also those that are injected or ``self``, and those of the wrappers around the function; and all that is bound."""
    if isinstance(target, functools.partial):
        return frozenset(target.keywords) | reserved_names(target.func)
    names: set[str] = set()
    waiting = [called_function(target), inspect.unwrap(target)]
    while waiting:
        function = waiting.pop()
        if inspect.ismethod(function):
            waiting.append(function.__func__)
            continue
        if hasattr(function, "__wrapped__"):
            waiting.append(function.__wrapped__)
        names.update(_names_of(function))
    return frozenset(names)


def _names_of(function: Any) -> list[str]:
    """Returns the names that this very function takes, whatever it wraps."""
    try:
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):  # written in C (`functools.lru_cache`), which takes what the wrapped one takes
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


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


def class_body_of(function: Any) -> Mapping[str, Any] | None:
    """Returns the names of the class body that the function is being defined in; None if no such body is at work."""
    enclosing, _, _ = str(getattr(function, "__qualname__", "")).rpartition(".")
    if not enclosing or enclosing.endswith("<locals>"):
        return None
    return next((names for names in _frames(enclosing) if names.get("__qualname__") == enclosing), None)


def _namespace(function: Any) -> dict[str, Any]:
    """Returns the names that annotations of the function may use: those of its module, and those of the functions and
    the class body that it is defined in, while they still run."""
    found: dict[str, Any] = dict(getattr(function, "__globals__", {}))
    *scopes, _ = str(getattr(function, "__qualname__", "")).split(".")
    for depth in range(1, len(scopes) + 1):
        if scopes[depth - 1] != "<locals>":
            found.update(next(_frames(".".join(scopes[:depth])), {}))
    found.update((param.__name__, param) for param in getattr(function, "__type_params__", ()))
    return found


def _frames(qualname: str) -> Iterator[Mapping[str, Any]]:
    """Yields the local names of the code called `qualname` that is at work now, innermost first."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_qualname == qualname:
            yield frame.f_locals
        frame = frame.f_back


def _resolved(parameter: inspect.Parameter, namespace: dict[str, Any], tool: str) -> Any:
    """Returns the annotation as a type. Each is resolved alone, so that the error can name the parameter."""
    if parameter.annotation is parameter.empty:
        return parameter.empty
    try:
        return _as_type(parameter.annotation, namespace)
    except Exception as error:  # the annotation is code of the user's
        why = f"its annotation {parameter.annotation!r} cannot be resolved ({error})"
        hint = "it must exist at run time, so do not import it under `if TYPE_CHECKING:`"
        raise refuse(tool, f"{why}; {hint}", parameter.name) from error


def _as_type(annotation: Any, namespace: dict[str, Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"it": annotation}
    return get_type_hints(holder, namespace, include_extras=True)["it"]


NO_VALUES: Mapping[str, Any] = {}
TAKEN = "is a parameter of the tool itself, and cannot be set here"
"""The rule that an entry of ``**kwargs`` breaks which is one of `Placement.clashes`."""
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The parameters of one function, and where a value for each of them goes."""

    open: tuple[Parameter, ...]
    """Parameters that a caller fills, annotations resolved; neither injected nor bound by a `functools.partial`."""
    injected: Mapping[str, Injected]
    """Parameters that the program fills, by name."""
    positional: tuple[str, ...]
    """Parameters to pass by position, injected ones included."""
    defaults: Mapping[str, Any]
    """The defaults of those that have one: a later one must not take the place of one that is left out."""
    var_positional: str | None
    var_keyword: str | None
    reserved: frozenset[str]
    """Names that an entry of ``**kwargs`` may not take."""

    @classmethod
    def of(cls, function: Callable[..., Any], parameters: Sequence[Parameter], tool: str) -> Placement:
        """Reads a function whose parameters `callables.parameters_of` has resolved.

        Raises:
            ToolDefinitionError: the program cannot fill a parameter that only it may fill; see `injection`.
        """
        found = ((p.name, injected_of(p, tool)) for p in parameters)
        injected = {name: one for name, one in found if one is not None}
        kinds = {p.kind: p.name for p in parameters}
        # *args can only follow parameters that are passed by position.
        last = Parameter.POSITIONAL_OR_KEYWORD if Parameter.VAR_POSITIONAL in kinds else Parameter.POSITIONAL_ONLY
        positional = [p for p in parameters if p.kind <= last]
        return cls(
            open=tuple(p for p in parameters if p.name not in injected),
            injected=injected,
            positional=tuple(p.name for p in positional),
            defaults={p.name: p.default for p in positional if p.name not in injected and p.default is not p.empty},
            var_positional=kinds.get(Parameter.VAR_POSITIONAL),
            var_keyword=kinds.get(Parameter.VAR_KEYWORD),
            reserved=reserved_names(function),
        )

    @property
    def named(self) -> tuple[Parameter, ...]:
        """The open parameters that take one value each."""
        return tuple(p for p in self.open if p.kind not in _VARIABLE)

    def only(self, tool: str, why: str) -> Parameter:
        """Returns the one open parameter.

        Raises:
            ToolDefinitionError: there are none or more, or it takes several values; `why` says what it is for.
        """
        if len(self.open) != 1 or len(self.named) != 1:
            raise refuse(tool, f"{why}; this has: {', '.join(p.name for p in self.open) or 'none'}")
        return self.named[0]

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function. A parameter that neither argument names is left to its
        default."""
        if not self.positional and self.var_positional is None and self.var_keyword is None:
            return (), {**values, **injected} if injected else values
        named = {**self.defaults, **values, **injected} if self.positional else {**values, **injected}
        args = [named.pop(name) for name in self.positional if name in named]
        if self.var_positional is not None:
            args.extend(named.pop(self.var_positional))
        if self.var_keyword is not None:
            named.update(named.pop(self.var_keyword, NO_VALUES))
        return tuple(args), named

    def clashes(self, keys: Iterable[str]) -> list[str]:
        """Returns those `keys` of ``**kwargs`` that are parameters of the function itself: they could set what is
        injected or bound."""
        return [key for key in keys if key in self.reserved]
