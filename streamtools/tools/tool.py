"""`tool`: a function becomes something that a model can call."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, get_args, overload

from typing_extensions import ParamSpec, TypeVar

from .binder import Binder, SchemaSource
from .callables import as_function, checked_name, inner_function, refuse
from .context import ToolContext
from .docstrings import parse_docstring
from .fingerprint import Grammar, fingerprint
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
    validated: bool = True
    """A schema was enforced; False behind an advisory boundary."""


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
    is_async: bool = field(repr=False)
    """`fn` is a coroutine function; others run in a thread."""
    kind: Literal["function", "custom"] = field(default="function", repr=False)
    """``custom``: a freeform tool, which takes one raw text (its argument ``input``) instead of an object."""
    grammar: Grammar | None = field(default=None, repr=False)
    """What the text of a ``custom`` tool has to match, for providers that can hold the model to it."""
    schema_source: SchemaSource = field(default="typed_signature", repr=False)
    """Where the schema comes from, for the record of each call."""
    owner: str | None = field(default=None, repr=False)
    """Who answers for a schema that was written by hand."""
    boundary: Literal["validated", "advisory"] = field(default="validated", repr=False)
    """``advisory``: there is no schema that could be enforced; only the tool's own check stands before it."""
    title: str | None = field(default=None, repr=False)
    """A name for people."""
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of what the tool returns, where that is known. Do not change it."""
    annotations: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Hints for people and hosts, in MCP's words (``readOnlyHint``, ``destructiveHint``). Untrusted if foreign."""
    _binder: Binder = field(repr=False)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema (2020-12, unless its ``$schema`` says otherwise) of the arguments. A fresh copy: change it as
        you like."""
        return copy.deepcopy(self._binder.schema)

    @property
    def validator(self) -> str | None:
        """The name of what judges the arguments (``pydantic``, ``jsonschema``); None where nothing does."""
        return self._binder.validator_name

    @property
    def fingerprint(self) -> str:
        """A hash of all that the model reads about the tool: name, description, schemas, grammar. The same in every
        process; another one as soon as anything changes."""
        return fingerprint(self.name, self.description, self._binder.schema, self.output_schema, self.grammar)

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
        values, coercions = self._binder.validate(arguments)
        args, kwargs = self._binder.arrange(values)
        validated = self.boundary == "validated"
        return Bound(args=args, kwargs=kwargs, by_name=values, coercions=coercions, validated=validated)

    def complete(self, bound: Bound, ctx: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for one run: `bound` with `ctx` wherever the function asks for a `ToolContext`."""
        injected = self._binder.injected
        if not injected:
            return bound.args, bound.kwargs
        return self._binder.arrange({**bound.by_name, **dict.fromkeys(injected, ctx)})

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
        _binder=Signature.of(function, name, require_hints=require_hints, descriptions=docstring.parameters),
    )


def _check_options(name: str, effect: object, timeout: object) -> None:
    if effect not in get_args(Effect):
        raise refuse(name, f"effect must be 'pure', 'idempotent' or 'once', not {effect!r}")
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
        raise refuse(name, f"timeout must be a number of seconds greater than 0, or None, not {timeout!r}")
