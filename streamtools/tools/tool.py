"""`tool`: a function becomes something that a model can call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, overload

from typing_extensions import ParamSpec, TypeVar

from .callables import refuse
from .definition import Tool
from .making import of_function
from .methods import ToolMethod, is_method_in_class_body
from .options import ToolKeywords, ToolOptions

__all__ = ["tool"]

P = ParamSpec("P")
R = TypeVar("R")

_DEFAULTS = ToolOptions()


@overload
def tool(fn: Tool[P, R], /) -> Tool[P, R]: ...
@overload
def tool(fn: Callable[P, R], /, **options: Unpack[ToolKeywords]) -> Tool[P, R]: ...
@overload
def tool(**options: Unpack[ToolKeywords]) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(fn: Callable[..., Any] | None = None, /, **options: Unpack[ToolKeywords]) -> Any:
    """Makes a tool of a function. Use it as a decorator, with or without arguments, or call it.

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

    On a method in a class body it works as well: ``instance.method`` is then the tool, and `tools_of` ``(instance)``
    lists them all. A tool that is passed without options comes back as it is.

    Args:
        fn: a sync or async function, bound method, `functools.partial` or object with ``__call__``; or an async
            generator function, whose values are progress up to its `streamtools.content.FinalResult`.
        name: the tool's name; by default the function's.
        effect: what a second run of the same call does: ``pure``, ``idempotent`` or ``once``.
        needs_approval: True, and no call runs before somebody has approved it (`Pipeline.approve`); or a plain function
            of the validated arguments by name that says so for one call. If that function raises, the call fails.
        timeout: seconds that one run may take; None leaves it to ``Limits(tool_timeout=...)``.
        max_concurrency: how many calls of this tool may run at once; more wait.
        conflict_key: what a call works on: the name of an argument, or a function of the validated arguments by name.
            Calls with equal keys, of whatever tool, run one at a time and in call order; those of ``pure`` tools side
            by side. None as a key conflicts with nothing. Keys of different kinds want to be told apart:
            ``lambda arguments: ("order", arguments["id"])``.
        exclusive: a call of this tool runs alone: no other runs beside it, whatever the tool.
        retries: how often a run that raised or timed out is tried again; for ``pure`` and ``idempotent`` tools.
        retry_delay_s: seconds before the first retry, twice that before the next, and so on, 60 at most. The call keeps
            its place meanwhile.
        require_hints: False accepts parameters without a type hint (they take any value), and a missing return
            annotation.
        kind: ``custom`` makes a freeform tool, for providers that have those: the function takes one text, which the
            model writes as it is and not as JSON.
        grammar: what the text of a freeform tool has to match; makes it one.
        coerce: ``lax`` turns a value of another type into the wanted one where nothing is lost (``"1"`` for an
            integer), and the call's record says so; ``strict`` refuses the call.
        lazy: a function without parameters that returns the one to run, called at the first call of the tool, in its
            thread and within its timeout; `fn` then gives only name, text and signature.

    Raises:
        ToolDefinitionError: the function cannot be a tool; the message names the tool, the parameter and the way out.
    """
    chosen = ToolOptions(**options)

    def make(target: Callable[..., Any]) -> Any:
        return _make(target, chosen)

    return make if fn is None else make(fn)


def _make(target: Any, options: ToolOptions) -> Tool[..., Any] | ToolMethod:
    if isinstance(target, Tool):
        if options == _DEFAULTS:
            return target
        raise refuse(target.name, "is a tool already; to make another of its function, pass tool.fn")
    if isinstance(target, ToolMethod):
        raise refuse(target.function.__name__, "is a method; make the tool from an instance: instance.method is one")
    if is_method_in_class_body(target):
        return ToolMethod(target, lambda bound: Tool(**of_function(bound, options)))
    return Tool(**of_function(target, options))
