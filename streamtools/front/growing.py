"""Defines `Growing`, an argument that a tool's function reads while the model writes it, and what the tool makes of it.

The tools, whose room is below this one, know the type by its attribute ``__growing__``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, get_args, get_origin, overload

import anyio
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator
from typing_extensions import TypeVar

from ..errors import ToolOutcomeUnknown
from ..ground.text import type_name
from ..tools import Bound
from ..tools.callables import NO_VALUES, called_function, maker_of_growing, refuse
from ..tools.options import ToolOptions
from ..tools.schema import CONFIG, argument_of, at_once, compile_parameters
from ..tools.typed import TypedArguments, TypedBinder

if TYPE_CHECKING:
    from ..dispatch.transitions import Transitions
    from .growths import Growth, Growths

T = TypeVar("T")
Item = TypeVar("Item")

__all__ = ["Growing"]


class Growing(Generic[T]):
    """An argument that an async tool reads while the model writes it: ``Growing[str]`` or ``Growing[list[...]]``.

        @tool(effect="pure")
        async def speak(text: Growing[str]) -> str:
            \"""Say something aloud.\"""
            async for piece in text:
                await voice.say(piece)
            return "said"

    Iterating yields the pieces of the text, or the validated items of the list, in order; each iteration starts at the
    first one. If the whole text is already there, as without streaming, it is one piece. The pieces do not count if the
    call turns out not to, so the tool has to be ``pure``, or declare ``commit=`` and ``abort=``; see `tool`.

    Args:
        value: the whole text or list, for a test of your function.
    """

    def __init__(self, value: T | None = None) -> None:
        self._source: _Whole | Growth = _Whole(value)

    @overload
    def __aiter__(self: Growing[str]) -> AsyncIterator[str]: ...
    @overload
    def __aiter__(self: Growing[list[Item]]) -> AsyncIterator[Item]: ...
    def __aiter__(self: Growing[Any]) -> AsyncIterator[Any]:
        return _Pieces(self._source)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        return handler(*(get_args(source) or (Any,)))

    @staticmethod
    def __growing__(
        binder: TypedBinder, function: Callable[..., Any], tool: str, options: ToolOptions
    ) -> GrowingParameter:
        return _parameter(binder, function, tool, options)


class _Whole:
    """What `growths.Growth` is of a call that still comes."""

    is_over = True

    def __init__(self, value: Any) -> None:
        self._value, self.is_text = value, isinstance(value, str)
        self.pieces: Sequence[Any] = [value] if value and self.is_text else value or []

    async def whole(self) -> Any:
        return self._value


class _Pieces:
    def __init__(self, source: Any) -> None:
        self._source = source
        self._at = 0

    def __aiter__(self) -> _Pieces:
        return self

    async def __anext__(self) -> Any:
        source, at = self._source, self._at
        while at == len(source.pieces):
            if source.is_over:
                raise StopAsyncIteration
            await source.more()
        self._at = len(source.pieces) if source.is_text else at + 1  # what has come meanwhile is one piece of a text
        return source.pieces[at] if self._at == at + 1 else "".join(source.pieces[at:])


# -- the parameter of a tool --


# The keys of a core schema that changes nothing of what the model writes.
_PLAIN = {"type", "max_length", "min_length", "pattern", "regex_engine", "strict", "metadata", "ref", "items_schema"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GrowingParameter:
    name: str
    key: str  # its name in the schema
    runs: Callable[..., Any]  # the tool's function, and its commit or abort behind it
    grows: bool  # False: what the model writes is not what the function reads, so that it gets the whole alone
    most: int | None  # characters of a text
    item: SchemaValidator | None  # of a list; None: a text
    binder: TypedBinder
    others: TypedArguments  # the other parameters

    def growths(self, turn: Transitions) -> Growths:
        from .growths import Growths  # where a call of such a tool comes

        return Growths(turn)

    def bound(self, arguments: Mapping[str, Any], source: Growth) -> Bound:
        """Returns the others with what the function reads; raises `InvalidArguments` or `TakesLong`."""
        (_, others), coercions = self.others.validate(arguments, None, quick=True)
        growing = Growing[Any]()
        growing._source = source
        values = {**others, self.name: growing}
        return Bound(*self.binder.arrange(values, NO_VALUES), values, coercions)


def _parameter(binder: TypedBinder, function: Callable[..., Any], tool: str, options: ToolOptions) -> GrowingParameter:
    parameter, *more = [one for one in binder.placement.open if maker_of_growing(one.annotation) is not None]
    whole, variable = _bare(parameter.annotation), (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    kind = _bare(*(get_args(whole) or (None,))) if get_origin(whole) is Growing else None
    is_text, is_async = kind is str, inspect.iscoroutinefunction(called_function(function))
    is_one = not more and parameter.kind not in variable and parameter.default is parameter.empty
    for is_so, why in (
        (is_one, "a tool has at most one Growing parameter, and it has no default"),
        (is_text or get_origin(kind) is list, "expected Growing[str] or Growing[list[...]] as its whole type"),
        (is_async and options.lazy is None, "only an `async def` tool, neither a generator nor lazy, can read it"),
        ((options.commit is None) == (options.abort is None), "commit= and abort= belong together"),
        (
            options.effect == "pure" or options.commit is not None,
            f"a {options.effect!r} tool would take effect before its call has ended; say effect='pure', or give it "
            "commit= and abort=",
        ),
    ):
        if not is_so:
            raise refuse(tool, why, parameter.name)
    key, core = argument_of(parameter)
    key = key if binder.text is None else "input"  # of a freeform tool
    for names in (binder.schema["properties"], required := dict.fromkeys(binder.schema["required"])):
        names[key] = names.pop(key)  # last, since most models write the keys in this order
    binder.schema["required"] = list(required)
    others = compile_parameters([one for one in binder.placement.open if one is not parameter], tool, {})
    is_plain = core["type"] == ("str" if is_text else "list") and core.keys() <= _PLAIN
    return GrowingParameter(
        name=parameter.name,
        key=key,
        runs=_running(function, parameter.name, tool, options),
        grows=is_plain and options.validator is None and options.check is None,
        most=core.get("max_length") if is_text else None,
        item=None if is_text else SchemaValidator(at_once(TypeAdapter(*get_args(kind)).core_schema), CONFIG),
        binder=binder,
        others=TypedArguments(tool, others, options.coerce),
    )


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


# -- what runs --


def _running(function: Callable[..., Any], name: str, tool: str, options: ToolOptions) -> Callable[..., Any]:
    """Returns the function to run in the place of a tool's: it takes the whole as well, waits for the end of the call,
    and commits, or aborts."""
    if inspect.ismethod(function):
        return MethodType(_running(function.__func__, name, tool, options), function.__self__)
    signature, commit, abort = inspect.signature(function), options.commit, options.abort
    for option, closing, known in (
        ("commit", commit, [*signature.parameters]),
        ("abort", abort, [one for one in signature.parameters if one != name]),
    ):
        for wanted in inspect.signature(closing).parameters if closing else ():
            if wanted not in known:
                raise refuse(tool, f"{option}= takes {wanted!r}, and is given {', '.join(known)} by their names")

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values, growing = given.arguments, given.arguments[name]
        if not isinstance(growing, Growing):
            growing = values[name] = Growing(growing)
        try:
            value = await function(*given.args, **given.kwargs)
            await _close(commit, {**values, name: await growing._source.whole()})
        except BaseException:
            try:
                await _close(abort, values)
            except (Exception, anyio.get_cancelled_exc_class()) as error:
                raise ToolOutcomeUnknown(f"the call had begun, and undoing it raised {type_name(error)}") from error
            raise
        return value

    return run


async def _close(closing: Callable[..., Any] | None, values: Mapping[str, Any]) -> None:
    if closing is not None:
        made = closing(**{name: values[name] for name in inspect.signature(closing).parameters})
        if inspect.isawaitable(made):
            await made
