"""Defines `Growing`, an argument that a tool's function reads while the model writes it, and what the tool makes of it.

The tools, whose room is below this one, know the type by its attribute ``__growing__``.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, get_args, get_origin, overload

import anyio
from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError, to_json
from typing_extensions import TypeVar

from ..errors import InvalidArguments, ToolOutcomeUnknown
from ..ground.text import type_name
from ..tools import Bound
from ..tools.callables import NO_VALUES, called_function, maker_of_growing, refuse
from ..tools.options import ToolOptions
from ..tools.schema import CONFIG, argument_of, at_once, compile_parameters
from ..tools.typed import TypedArguments, TypedBinder

if TYPE_CHECKING:
    from ..dispatch.transitions import Transitions
    from .growths import Growths

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

    Iterating gives the pieces of the text, or the validated items of the list, in their order, and each time from the
    first one on. Where the whole is there already, as without streaming, a text is one piece. The pieces are void if
    the call is, so the tool has to be ``pure``, or to declare ``commit=`` and ``abort=``; see `tool`.

    Args:
        value: the whole text or list, for a test of your function.
    """

    def __init__(self, value: T | None = None) -> None:
        self._source: ComingPieces = _Whole(value)

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


class ComingPieces(Protocol):
    is_text: bool
    is_over: bool  # no more pieces come

    @property
    def pieces(self) -> Sequence[Any]: ...

    async def more(self) -> None: ...  # waits for a piece, or for the end

    async def whole(self) -> Any: ...  # waits until the call has ended well and may take effect


class _Whole:
    is_over = True

    def __init__(self, value: Any) -> None:
        self._value, self.is_text = value, isinstance(value, str)
        self.pieces: Sequence[Any] = [value] if value and self.is_text else value or []

    async def more(self) -> None:
        raise AssertionError("the whole is there")

    async def whole(self) -> Any:
        return self._value


class _Pieces:
    def __init__(self, source: ComingPieces) -> None:
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


_OF_TEXT = frozenset({"type", "max_length", "min_length", "pattern", "regex_engine", "strict", "metadata", "ref"})
_OF_LIST = frozenset({"type", "max_length", "min_length", "items_schema", "fail_fast", "strict", "metadata", "ref"})


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

    def bound(self, arguments: Mapping[str, Any], source: ComingPieces) -> Bound:
        """Returns the others with what the function reads; raises `InvalidArguments` or `TakesLong`."""
        (_, others), coercions = self.others.validate(arguments, None, quick=True)
        growing = Growing[Any]()
        growing._source = source
        values = {**others, self.name: growing}
        return Bound(*self.binder.arrange(values, NO_VALUES), values, coercions)

    def checked(self, item: Any) -> Any:
        assert self.item is not None, "a list has items"
        try:
            return self.item.validate_json(to_json(item))
        except ValidationError:
            raise InvalidArguments("an item does not fit") from None


def _parameter(binder: TypedBinder, function: Callable[..., Any], tool: str, options: ToolOptions) -> GrowingParameter:
    parameter, *more = [one for one in binder.placement.open if maker_of_growing(one.annotation) is not None]
    name, whole = parameter.name, _bare(parameter.annotation)
    kind = _bare(*(get_args(whole) or (None,))) if get_origin(whole) is Growing else None
    if more:
        raise refuse(tool, f"{name!r} grows already, and one parameter can", more[0].name)
    if kind is not str and get_origin(kind) is not list:
        raise refuse(tool, "expected Growing[str] or Growing[list[...]] as its whole type", name)
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.default is not parameter.empty:
        raise refuse(tool, "a Growing parameter is one, without a default", name)
    if options.lazy is not None or not inspect.iscoroutinefunction(called_function(function)):
        raise refuse(tool, "only an async def function reads a Growing; its progress is ctx.progress(value)", name)
    if (options.commit is None) != (options.abort is None):
        raise refuse(tool, "commit= and abort= belong together", name)
    if options.effect != "pure" and options.commit is None:
        why = f"a {options.effect!r} tool would take effect before its call has ended"
        raise refuse(tool, f"{why}; say effect='pure', or give it commit= and abort=", name)
    key, core = argument_of(parameter)
    key = key if binder.text is None else "input"  # of a freeform tool
    for names in (binder.schema["properties"], required := dict.fromkeys(binder.schema["required"])):
        names[key] = names.pop(key)  # last, since most models write the keys in this order
    binder.schema["required"] = list(required)
    is_plain = core["type"] == ("str" if kind is str else "list") and core.keys() <= (
        _OF_TEXT if kind is str else _OF_LIST
    )
    return GrowingParameter(
        name=name,
        key=key,
        runs=_running(function, name, tool, options),
        grows=is_plain and options.validator is None and options.check is None,
        most=core.get("max_length") if kind is str else None,
        item=None if kind is str else SchemaValidator(at_once(TypeAdapter(*get_args(kind)).core_schema), CONFIG),
        binder=binder,
        others=TypedArguments(
            tool,
            compile_parameters([one for one in binder.placement.open if one is not parameter], tool, {}),
            options.coerce,
        ),
    )


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if hasattr(annotation, "__metadata__") else annotation


# -- what runs --


_Close: TypeAlias = "Callable[[Mapping[str, Any]], Awaitable[None]]"


def _running(function: Callable[..., Any], name: str, tool: str, options: ToolOptions) -> Callable[..., Any]:
    """Returns the function to run in the place of a tool's: it takes the whole as well, waits for the end of the call,
    and commits, or aborts."""
    if inspect.ismethod(function):
        return MethodType(_running(function.__func__, name, tool, options), function.__self__)
    signature = inspect.signature(function)
    known = list(signature.parameters)
    commit = _closing(options.commit, known, tool, "commit")
    abort = _closing(options.abort, [one for one in known if one != name], tool, "abort")

    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        values, growing = given.arguments, given.arguments[name]
        if not isinstance(growing, Growing):
            growing = values[name] = Growing(growing)
        try:
            value = await function(*given.args, **given.kwargs)
            await commit({**values, name: await growing._source.whole()})
        except BaseException:
            await _undo(abort, values)
            raise
        return value

    return run


async def _undo(abort: _Close, values: Mapping[str, Any]) -> None:
    try:
        await abort(values)
    except anyio.get_cancelled_exc_class() as error:
        raise ToolOutcomeUnknown("the call had begun, and undoing it was cut off") from error
    except Exception as error:
        raise ToolOutcomeUnknown(f"the call had begun, and undoing it raised {type_name(error)}") from error


def _closing(closing: Callable[..., Any] | None, known: Sequence[str], tool: str, option: str) -> _Close:
    names = () if closing is None else tuple(inspect.signature(closing).parameters)
    for name in names:
        if name not in known:
            raise refuse(tool, f"{option}= takes {name!r}, and is given {', '.join(known)} by their names")

    async def close(values: Mapping[str, Any]) -> None:
        if closing is not None:
            made = closing(**{name: values[name] for name in names})
            if inspect.isawaitable(made):
                await made

    return close
