"""What the library ships for its users' tests: it passes what is right, and fails what is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from profiles import every
from single_calls import run_alone
from streams import chat

from streamtools import Observation, StreamDecoder, StreamEnd, ToolContext, pipeline, tool
from streamtools.errors import RemoteProtocolError, TruncatedStream
from streamtools.testing import FakeTool, ScriptedSource, feed_every_way

BODY = b"".join(chat(["Hel", "lo"], finish="stop"))

# -- feed_every_way ----------------------------------------------------------------------------------------------------


class Words:
    """Splits at blanks."""

    def __init__(self) -> None:
        self.rest = b""

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        *words, self.rest = (self.rest + chunk).split(b" ")
        return words

    def finish(self) -> Iterable[bytes]:
        return [self.rest]


class Forgetful(Words):
    """Forgets what stood before a chunk's end."""

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        *words, self.rest = chunk.split(b" ")
        return words


class Greedy(Words):
    """Tells a word before it is over."""

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        return [chunk] if chunk else []

    def finish(self) -> Iterable[bytes]:
        return []


class CountsChunks(Words):
    """Depends on how often it was fed."""

    fed = 0

    def feed(self, chunk: bytes) -> Iterable[bytes]:
        self.fed += 1
        return []

    def finish(self) -> Iterable[bytes]:
        return [str(self.fed).encode()]


def test_a_decoder_that_does_not_mind_the_cuts_passes() -> None:
    assert feed_every_way(Words, b"one two three") == [b"one", b"two", b"three"]
    assert feed_every_way(Words, b"") == [b""]
    assert feed_every_way(Words, b"x") == [b"x"]


@every("broken", [Forgetful, Greedy, CountsChunks])
def test_a_decoder_that_minds_the_cuts_fails_and_says_at_which(broken: type[Words]) -> None:
    with pytest.raises(AssertionError, match=r"(byte by byte|cut at|empty chunks).*: expected"):
        feed_every_way(broken, b"one two three")


def test_every_place_is_tried_unless_there_are_too_many() -> None:
    made: list[list[bytes]] = []

    class Remember(Words):
        def __init__(self) -> None:
            super().__init__()
            self.chunks: list[bytes] = []
            made.append(self.chunks)

        def feed(self, chunk: bytes) -> Iterable[bytes]:
            self.chunks.append(chunk)
            return super().feed(chunk)

    feed_every_way(Remember, b"0123456789")
    firsts = {chunks[0] for chunks in made if len(chunks) == 2}
    assert firsts == {b"0123456789"[:at] for at in range(1, 10)}
    made.clear()
    feed_every_way(Remember, b"x" * 1000, max_splits=20)
    assert 10 <= len([chunks for chunks in made if len(chunks) == 2]) <= 20


def test_what_trails_must_not_change_what_came_before() -> None:
    assert feed_every_way(Words, b"one two ", trailing=b"three four") == [b"one", b"two", b""]

    class Peeks(Words):
        def feed(self, chunk: bytes) -> Iterable[bytes]:
            words = list(super().feed(chunk))
            return words[::-1] if b"three" in chunk else words

    with pytest.raises(AssertionError, match="trailing bytes"):
        feed_every_way(Peeks, b"one two ", trailing=b"three four")


def test_errors_are_compared_by_type_and_text() -> None:
    """An exception is equal to itself only, and every way ends in one of its own."""
    events = feed_every_way(StreamDecoder, BODY[:-30])
    assert isinstance(events[-1], StreamEnd)
    assert isinstance(events[-1].error, TruncatedStream)

    @dataclass
    class Note:
        error: Exception

    class Complains(Words):
        def finish(self) -> Iterable[Note]:  # type: ignore[override]
            return [Note(RemoteProtocolError(str(len(self.rest))))]

    class ComplainsAtRandom(Words):
        count = 0

        def finish(self) -> Iterable[Note]:  # type: ignore[override]
            ComplainsAtRandom.count += 1
            return [Note(RemoteProtocolError(str(ComplainsAtRandom.count)))]

    feed_every_way(Complains, b"one")
    with pytest.raises(AssertionError, match="RemoteProtocolError"):
        feed_every_way(ComplainsAtRandom, b"one")


# -- ScriptedSource ----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_script_is_followed_and_what_was_done_is_known() -> None:
    source = ScriptedSource([b"a", "b", {"c": 1}])
    assert [item async for item in source] == [b"a", "b", {"c": 1}]
    assert (source.position, source.exhausted, source.closed) == (3, True, False)
    assert [item async for item in source] == []


@pytest.mark.anyio
async def test_a_gate_is_waited_for() -> None:
    gate = anyio.Event()
    source = ScriptedSource([b"a", gate, b"b"])
    read: list[object] = []

    async def reader() -> None:
        read.extend([item async for item in source])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reader)
        await anyio.wait_all_tasks_blocked()
        assert (source.position, source.exhausted) == (1, False)
        gate.set()
    assert read == [b"a", b"b"]


@pytest.mark.anyio
async def test_an_exception_is_raised_at_its_place() -> None:
    source = ScriptedSource([b"a", ConnectionResetError("gone"), b"never"])
    assert await anext(source) == b"a"
    with pytest.raises(ConnectionResetError, match="gone"):
        await anext(source)
    assert (source.position, source.exhausted) == (2, True)


@pytest.mark.anyio
async def test_where_the_reader_left_is_known() -> None:
    source = ScriptedSource([b"a", b"b", b"c"])
    await anext(source)
    await source.aclose()
    assert (source.closed, source.position, source.exhausted) == (True, 1, False)
    with pytest.raises(StopAsyncIteration):
        await anext(source)


# -- FakeTool ----------------------------------------------------------------------------------------------------------


def get_weather(city: str, ctx: ToolContext, /, days: int = 1) -> str:
    """Weather."""
    raise AssertionError("its body never runs")


async def observed(fake: FakeTool, *arguments: str) -> list[Observation]:
    calls = [(f"c{number}", fake.tool.name, text) for number, text in enumerate(arguments)]
    turn = await pipeline(ScriptedSource(chat(calls=calls)), tools=[fake.tool])
    return list(turn.observations)


@pytest.mark.anyio
@every("source", [get_weather, tool(get_weather, effect="pure")])
async def test_a_fake_tool_has_the_schema_of_what_it_stands_for_and_results_of_its_own(source: Any) -> None:
    fake = FakeTool(source, results=["rain", {"sun": 1}])
    assert fake.tool.schema == tool(get_weather).schema
    assert fake.tool.description == "Weather."
    (first,) = await observed(fake, '{"city": "Rome"}')
    (second,) = await observed(fake, '{"city": "Oslo", "days": "2"}')
    assert (first.value, second.value) == ("rain", {"sun": 1})
    assert fake.calls == [{"city": "Rome", "days": 1}, {"city": "Oslo", "days": 2}]
    assert second.validated_args == {"city": "Oslo", "days": 2}


@pytest.mark.anyio
async def test_a_fake_tool_raises_what_its_script_says_and_fails_when_it_is_over() -> None:
    fake = FakeTool(get_weather, results=[ConnectionError("lost")])
    (first,) = await observed(fake, '{"city": "Rome"}')
    (second,) = await observed(fake, '{"city": "Oslo"}')
    assert isinstance(first.error and first.error.__cause__, ConnectionError)
    assert isinstance(second.error and second.error.__cause__, AssertionError)
    assert "get_weather was called 2 times" in str(second.error and second.error.__cause__)


@pytest.mark.anyio
async def test_a_fake_tool_may_answer_by_what_it_is_asked() -> None:
    fake = FakeTool(get_weather, results=lambda arguments: {"Rome": "sun"}[arguments["city"]])
    known, unknown = await observed(fake, '{"city": "Rome"}', '{"city": "Oslo"}')
    assert (known.value, unknown.outcome) == ("sun", "failed")
    assert len(fake.calls) == 2


@pytest.mark.anyio
async def test_a_fake_tool_waits_at_its_gates() -> None:
    gate = anyio.Event()
    fake = FakeTool("wait", results=[gate, "done"])
    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            results: list[Any] = []

            async def call() -> None:
                results.append((await run_alone(fake.tool, {"x": 1})).unwrap())

            group.start_soon(call)
            while not fake.calls:  # a tool tells nobody that it has begun
                await anyio.lowlevel.checkpoint()
            assert results == []
            gate.set()
    assert results == ["done"]
