"""Fakes streams and tools for tests: a stream that follows a script, a tool with your results; and cuts bytes in every
way."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, TypeAlias, TypeVar

import anyio
import anyio.lowlevel

from ..tools import Binder, Effect, Tool, tool

__all__ = ["Decoder", "FakeTool", "ScriptedSource", "Waitable", "feed_every_way"]

Out = TypeVar("Out", covariant=True)
T = TypeVar("T")


class Decoder(Protocol[Out]):
    """Any object that is fed bytes and then finished: `StreamDecoder`, `SSEDecoder`, or one of yours."""

    def feed(self, chunk: bytes, /) -> Iterable[Out]: ...

    def finish(self) -> Iterable[Out]: ...


def feed_every_way(
    make_decoder: Callable[[], Decoder[T]], data: bytes, *, trailing: bytes = b"", max_splits: int = 256
) -> list[T]:
    """Feeds `data` whole, byte by byte, and in two pieces cut at every place; the output must always be the same.

    Args:
        make_decoder: makes a new decoder for each way.
        data: the bytes to feed.
        trailing: bytes after `data` that must not change the output of `data` before `finish`. They are fed separately,
            and in one piece with it.
        max_splits: the number of places to cut at, spread evenly in longer data. Each costs a whole decoding.

    Returns:
        The output of the decoder for `data` fed whole, `finish` included.

    Raises:
        AssertionError: one way gave a different output. Values are compared by type and fields, errors by type and
            text.
    """
    # Byte by byte finds what is decided too early, empty chunks what an end of input is mistaken for, a cut at every
    # place what is looked for in one chunk alone.
    fed, finished = _feed(make_decoder(), [data])
    whole = _comparable([*fed, *finished])
    for how, chunks in _ways(data, max_splits):
        again, rest = _feed(make_decoder(), chunks)
        if (got := _comparable([*again, *rest])) != whole:
            raise AssertionError(f"{how}: expected {whole!r}, got {got!r}")
    # Apart, trailing bytes come after the end; joined, the decoder has them together with the last ones.
    if trailing:
        start = _comparable(fed)
        for how, chunks in (("trailing bytes apart", [data, trailing]), ("trailing bytes joined", [data + trailing])):
            longer, _ = _feed(make_decoder(), chunks)
            if (got := _comparable(longer[: len(fed)])) != start:
                raise AssertionError(f"{how}: expected it to begin with {start!r}, got {got!r}")
    return [*fed, *finished]


def _ways(data: bytes, max_splits: int) -> Iterator[tuple[str, list[bytes]]]:
    yield "byte by byte", [data[at : at + 1] for at in range(len(data))]
    yield "with empty chunks", [b"", data, b""]
    step = max(1, -(-(len(data) - 1) // max_splits))
    for at in range(1, len(data), step):
        yield f"cut at {at}", [data[:at], data[at:]]


def _feed(decoder: Decoder[T], chunks: Iterable[bytes]) -> tuple[list[T], list[T]]:
    fed: list[T] = []
    for chunk in chunks:
        fed.extend(decoder.feed(chunk))
    return fed, list(decoder.finish())


def _comparable(value: Any) -> Any:
    """Returns `value` in a form that is equal for equal content: an exception itself equals no other."""
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if is_dataclass(value) and not isinstance(value, type):
        compared = {field.name: _comparable(getattr(value, field.name)) for field in fields(value) if field.compare}
        return type(value).__name__, compared
    if isinstance(value, Mapping):
        return {key: _comparable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_comparable(item) for item in value]
    return value


class Waitable(Protocol):
    """An object to wait for: an event of anyio, asyncio or trio."""

    def wait(self) -> Awaitable[object]:
        """Returns when it has happened."""
        ...


Step: TypeAlias = "bytes | str | Mapping[str, Any] | Waitable | BaseException"


class ScriptedSource:
    """A stream for `pipeline` that follows a script, and records how it was read and closed.

    Args:
        script: the steps in order: it yields bytes, text and mappings, waits for events, and raises exceptions. After
            the last step the stream ends.

    >>> source = ScriptedSource([b"data: [DONE]\\n\\n"])
    >>> source.closed, source.position
    (False, 0)
    """

    def __init__(self, script: Iterable[Step]) -> None:
        if isinstance(script, (bytes, str, Mapping)):
            raise TypeError("a script is a list of items to yield, not a single item; write ScriptedSource([...])")
        self.script = tuple(script)
        self.position = 0
        """Steps that are done: the reader's position, also after it closed the stream."""
        self.closed = False
        """True once `aclose` was called."""
        self.exhausted = False
        """True once the script came to its end, or to an exception."""

    def __aiter__(self) -> ScriptedSource:
        return self

    async def __anext__(self) -> Any:
        # As a network does: a reader that is cancelled can be stopped between any two items.
        await anyio.lowlevel.checkpoint()
        while not self.closed and self.position < len(self.script):
            step: Any = self.script[self.position]
            if isinstance(step, BaseException):
                self.position, self.exhausted = self.position + 1, True
                raise step
            if isinstance(step, (bytes, str, Mapping)):
                self.position += 1
                return step
            # An event is done when it has happened. A reader that is cancelled here left before it.
            await step.wait()
            self.position += 1
        self.exhausted = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Closes the stream; its reader must call this at the end."""
        self.closed = True
        await anyio.lowlevel.checkpoint()


class FakeTool:
    """A tool with a real schema and your results. Its arguments are validated as usual.

        fake = FakeTool(get_weather, results=["rain", ConnectionError()])
        async with pipeline(stream, tools=[fake.tool]) as events: ...
        assert fake.calls == [{"city": "Rome", "days": 1}]

    Args:
        source: the tool or function to replace, whose body never runs; or the name of a tool that has no function.
        schema: JSON Schema of the arguments, where `source` is a name; by default any object.
        results: the results of calls, in the order in which they start (trio starts calls of one turn in any order): an
            exception is raised, and an event is waited for before the next result. A call after the last result fails.
            Or a function of the arguments. By default every call returns None.
        effect: the tool's effect, where `source` is a name.
    """

    def __init__(
        self,
        source: Tool | Callable[..., Any] | str,
        *,
        schema: Mapping[str, Any] | None = None,
        results: Iterable[Any] | Callable[[dict[str, Any]], Any] | None = None,
        effect: Effect = "pure",
    ) -> None:
        if isinstance(source, str):
            given = {"type": "object"} if schema is None else schema
            source = Tool.from_schema(_stand_in, given, name=source, effect=effect, pass_as="mapping")
        elif schema is not None:
            raise TypeError("FakeTool(schema=...) requires a name as source; a tool or function has its own schema")
        # The tool's own binder validates, so that a call is refused here if the real tool would refuse it.
        original = tool(source)
        self.tool: Tool = replace(original, fn=self._run, is_async=True, _binder=_ByName(original._binder))
        """The tool to put into ``tools=[...]``."""
        self.calls: list[dict[str, Any]] = []
        """The validated arguments of each call that ran, by name, in order. Refused calls are not listed."""
        self._answer = results if callable(results) else None
        self._results = None if results is None or callable(results) else iter(results)

    async def _run(self, arguments: dict[str, Any]) -> Any:
        self.calls.append(arguments)
        await anyio.lowlevel.checkpoint()
        if self._results is None:
            return None if self._answer is None else self._answer(arguments)
        for result in self._results:
            if isinstance(result, BaseException):
                raise result
            if not hasattr(result, "wait"):
                return result
            await result.wait()
        raise AssertionError(
            f"{self.tool.name} was called {len(self.calls)} times, but has fewer results; pass more in results="
        )


def _stand_in(arguments: dict[str, Any]) -> None:
    """Stands for a tool of a test."""


class _ByName:
    injected: Mapping[str, Any] = {}

    def __init__(self, binder: Binder) -> None:
        self.schema = binder.schema
        self.validator_name = binder.validator_name
        self.validate = binder.validate
        self.drift = binder.drift

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (values,), {}
