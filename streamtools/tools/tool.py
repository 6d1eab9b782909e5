"""`tool`: a function becomes something that a model can call."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, get_args, overload

from typing_extensions import ParamSpec, TypeVar

from .callables import as_function, checked_name, inner_function, refuse
from .context import ToolContext
from .docstrings import parse_docstring
from .signature import Signature

__all__ = ["Bound", "Effect", "Tool", "tool"]

P = ParamSpec("P", default=...)
R = TypeVar("R", default=Any)

Effect = Literal["pure", "idempotent", "once"]
"""What a second run of the same call does. ``pure``: nothing, it only computes or looks up. ``idempotent``: nothing
more than the first. ``once``: it must not happen, the careful default. When a call may start, and whether it may be
retried, follows from it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Valid arguments, typed as the function wants them."""

    args: tuple[Any, ...] = field(repr=False)
    """To pass by position; injected parameters are not among them."""
    kwargs: dict[str, Any] = field(repr=False)
    """To pass by name; injected parameters are not among them."""
    by_name: dict[str, Any] = field(repr=False)
    """Every argument by its parameter's name, defaults included."""
    coercions: tuple[str, ...] = ()
    """What had to be decoded to make the arguments fit: path and kind (``people: json_string``)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool(Generic[P, R]):
    """A function with a name, a text and a schema, made by `tool`. It can still be called as the function.

    Pass it to ``pipeline(..., tools=[...])``, and `to` ``(target)`` to the provider's request.
    """

    name: str
    """The name under which the model calls it."""
    description: str = field(repr=False)
    """What the model reads about it: the prose of the docstring."""
    effect: Effect = "once"
    """What a second run of the same call does."""
    timeout: float | None = None
    """Seconds that one run may take; None leaves it to ``Limits(tool_timeout=...)``."""
    fn: Callable[P, R] = field(repr=False)
    """The function that runs."""
    schema_source: Literal["signature"] = field(default="signature", repr=False)
    """Where the schema comes from, for the record of each call."""
    is_async: bool = field(repr=False)
    """`fn` is a coroutine function; others run in a thread."""
    _signature: Signature = field(repr=False)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12) of the arguments. A fresh copy: change it as you like."""
        return copy.deepcopy(self._signature.schema)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function itself: nothing is validated, injected or recorded."""
        return self.fn(*args, **kwargs)

    def validate(self, arguments: Mapping[str, Any]) -> Bound:
        """Check a call's arguments, and turn them into the Python values that the function wants.

        Args:
            arguments: plain JSON values by name. They are not changed, and no part of them is kept.

        Raises:
            InvalidArguments: they do not fit; its ``problems`` say where and why, for the model to read.
        """
        values, coercions = self._signature.validate(arguments)
        args, kwargs = self._signature.arrange(values)
        return Bound(args=args, kwargs=kwargs, by_name=values, coercions=coercions)

    def complete(self, bound: Bound, ctx: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for one run: `bound` with `ctx` wherever the function asks for a `ToolContext`."""
        injected = self._signature.injected
        if not injected:
            return bound.args, bound.kwargs
        return self._signature.arrange({**bound.by_name, **dict.fromkeys(injected, ctx)})

    def to(self, target: str) -> Any:
        """The tool as a provider's request wants it; a fresh dict (as Any, since each SDK has a type of its own).

        Args:
            target: the wire's name: ``openai.chat_completions``, ``anthropic.messages`` and so on. Gemini's goes into
                the list ``functionDeclarations`` of a tool, any other into the request's list of tools.

        Raises:
            ExportError: the target is unknown, or cannot carry this tool.
        """
        from ..exports import export  # the layer above: here for `tool.to(...)`

        return export(self, target).payload


@overload
def tool(
    fn: Callable[P, R],
    /,
    *,
    name: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    require_hints: bool = True,
) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    require_hints: bool = True,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    fn: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    effect: Effect = "once",
    timeout: float | None = None,
    require_hints: bool = True,
) -> Any:
    """Make a tool of a function. Use it as a decorator, with or without arguments, or call it.

        @tool(effect="pure")
        async def get_weather(city: str, days: int = 1) -> Forecast:
            \"""Weather forecast for a city.

            Args:
                city: City name, as a person would write it.
                days: How many days ahead, 1 to 14.
            \"""

    Docstring, type hints and return annotation are required, so that a mistake shows here and not in production. The
    docstring (Google, NumPy, Sphinx or epytext) gives the descriptions; ``Annotated[str, "text"]`` and pydantic's
    ``Field`` work, too. A parameter annotated with `ToolContext` is filled when the tool runs; the model neither sees
    nor sets it.

    Args:
        fn: a sync or async function, bound method, `functools.partial` or object with ``__call__``.
        name: the tool's name; by default the function's.
        effect: what a second run of the same call does: ``pure``, ``idempotent`` or ``once``.
        timeout: seconds that one run may take; None leaves it to ``Limits(tool_timeout=...)``.
        require_hints: False accepts parameters without a type hint (they take any value), and a missing return
            annotation.

    Raises:
        ToolDefinitionError: the function cannot be a tool; the message names the tool, the parameter and the way out.
    """

    def make(function: Callable[..., Any]) -> Tool[..., Any]:
        return _make(function, name, effect, timeout, require_hints)

    return make if fn is None else make(fn)


def _make(
    target: object, name: str | None, effect: Effect, timeout: float | None, require_hints: bool
) -> Tool[..., Any]:
    if isinstance(target, Tool):
        raise refuse(target.name, "is a tool already; to make another of its function, pass tool.fn")
    function = as_function(target)
    name = checked_name(function, name)
    _check_options(name, effect, timeout)
    inner = inner_function(function)
    docstring = parse_docstring(inner.__doc__ or inspect.getdoc(inner) or "")  # an overriding method's may be inherited
    if not docstring.description:
        raise refuse(name, "has no docstring; write one, the model decides by it when to call the tool")
    return Tool(
        name=name,
        description=docstring.description,
        effect=effect,
        timeout=timeout,
        fn=function,
        is_async=inspect.iscoroutinefunction(inner),
        _signature=Signature.of(function, name, require_hints=require_hints, descriptions=docstring.parameters),
    )


def _check_options(name: str, effect: object, timeout: object) -> None:
    if effect not in get_args(Effect):
        raise refuse(name, f"effect must be 'pure', 'idempotent' or 'once', not {effect!r}")
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise refuse(name, f"timeout must be a number of seconds greater than 0, or None, not {timeout!r}")
