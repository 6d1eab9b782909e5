"""What the library ships for its users' tests: it passes what is right, and fails what is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import anyio
import pytest
from streams import chat

from streamtools import RemoteProtocolError, StreamDecoder, StreamEnd, TextDelta, TruncatedStream, pipeline
from streamtools.testing import ScriptedSource, feed_every_way

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


@pytest.mark.parametrize("broken", [Forgetful, Greedy, CountsChunks])
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


@pytest.mark.anyio
async def test_every_item_is_a_place_to_be_cancelled_at() -> None:
    source = ScriptedSource([b"a"] * 1000)
    with anyio.CancelScope() as scope:
        async for _ in source:
            scope.cancel()
    assert scope.cancelled_caught
    assert source.position == 1


@pytest.mark.anyio
async def test_a_pipeline_reads_a_script_and_closes_it() -> None:
    source = ScriptedSource(chat(["Hel", "lo"], finish="stop"))
    async with pipeline(source) as events:
        text = [event.text async for event in events if isinstance(event, TextDelta)]
    assert (text, source.closed) == (["Hel", "lo"], True)
    assert events.turn.text == "Hello"


@pytest.mark.anyio
async def test_a_pipeline_that_is_left_closes_the_source_where_it_stands() -> None:
    gate = anyio.Event()
    source = ScriptedSource([*chat(["Hel"], finish=None), gate, b"never"])
    with anyio.fail_after(5):
        async with pipeline(source) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    break
    assert source.closed
    assert not source.exhausted
    assert source.position < len(source.script) - 1
