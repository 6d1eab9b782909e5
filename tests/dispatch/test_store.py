"""Idempotency stores: one claim per key, results that last, and no guess about what was cut."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import gethostname
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from profiles import every

from streamtools.content import Media, ToolResult
from streamtools.dispatch import Claimed, EndUnknown, MemoryStore, Recorded, SqliteStore, StillRunning
from streamtools.dispatch.results import decode_error, decode_result, encode_error, encode_result
from streamtools.errors import LocalProtocolError, ToolError, ToolFailed, ToolNotStarted, ToolTimeout
from streamtools.seams import call_fingerprint

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

Make = Callable[..., Any]


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes stores; those of a file or a server know the same calls."""
    made: list[Any] = []

    def make(**options: Any) -> Any:
        if request.param == "memory":
            return MemoryStore(**options)
        if request.param == "sqlite":
            made.append(SqliteStore(tmp_path / "calls.sqlite3", **options))
        else:
            made.append(server_store(request, tmp_path, options))
        return made[-1]

    yield make
    for store in made:
        store.close()


def server_store(request: pytest.FixtureRequest, tmp_path: Path, options: Any) -> Any:
    if "max_entries" in options:
        pytest.skip("servers forget by age, not by number")
    if "postgres" in request.node.callspec.params.values():
        from streamtools.durable.store_postgres import PostgresStore

        return PostgresStore(request.getfixturevalue("postgres").url, schema=tmp_path.name[-60:], **options)
    from streamtools.durable.store_redis import RedisStore

    return RedisStore(request.getfixturevalue("redis").url, prefix=f"{tmp_path}:", **options)


async def test_a_free_key_is_claimed_once(make: Make) -> None:
    store = make()
    assert await store.claim("key", "print") == Claimed()
    again = await store.claim("key", "print")
    assert isinstance(again, StillRunning)
    assert (again.host, again.pid) == (gethostname(), os.getpid())
    assert await store.claim("another", "print") == Claimed()


OTHERS = ToolNotStarted("belongs to a call with another tool or arguments")
NOBODYS = LocalProtocolError("not claimed")
BECOMES: dict[str, list[tuple[Any, ...]]] = {
    "abandoned": [("abandon",), (EndUnknown, "claim", "print"), ("complete", b"1"), ("abandon",)],
    "completed": [("complete", b"1"), ("release",), (NOBODYS, "complete", b"2")],
    "another's": [(OTHERS, "claim", "another"), (StillRunning, "claim", "print"), ("complete", b"1")],
    "noted": [
        ("note", "n"),
        (StillRunning, "claim", "print"),
        ("abandon",),
        (Claimed, "claim", "print"),
        ("complete", b"1"),
    ],
    "released": [("release",), ("release",), (NOBODYS, "complete", b"2"), (Claimed, "claim", "another call's")],
}


@pytest.mark.parametrize("leaves", [False, True])
@every("key", BECOMES)
async def test_a_key_becomes_what_is_done_with_it_although_nobody_waits(make: Make, key: str, leaves: bool) -> None:
    store = make()
    await store.abandon(key)
    assert await store.claim(key, "print") == Claimed()
    for step in BECOMES[key]:
        expected, verb, *given = step if not isinstance(step[0], str) else (None, *step)
        act = getattr(store, verb)
        if isinstance(expected, Exception):
            with pytest.raises(type(expected), match=str(expected)):
                await act(key, *given)
        elif expected is not None:
            assert type(await act(key, *given)) is expected
        else:
            with anyio.CancelScope() as scope:
                if leaves:
                    scope.cancel()
                await act(key, *given)
    if key != "released":
        assert await store.claim(key, "print") == Recorded(b"1")


async def test_a_noted_claim_that_nobody_holds_is_given_out_again_with_its_note(make: Make) -> None:
    store = make()
    with pytest.raises(LocalProtocolError, match="not claimed"):
        await store.note("key", "where")
    assert await store.claim("key", "print") == Claimed()
    await store.note("key", "where")
    await store.abandon("key")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await store.claim("key", "print")
    with pytest.raises(ToolNotStarted, match="another tool or arguments"):
        await store.claim("key", "another")
    for _ in range(2):
        assert await store.claim("key", "print") == Claimed("where")
        assert isinstance(await store.claim("key", "print"), StillRunning)
        await store.abandon("key")


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_a_claim_that_nobody_waits_for_is_not_made(make: Make) -> None:
    """Cancelled before, in the middle and behind; asyncio and trio turn differently."""
    store = make()
    answers: list[Any] = []

    async def claim() -> None:
        answers.append(await store.claim("key", "print"))

    for turns in range(40):
        async with anyio.create_task_group() as group:
            group.start_soon(claim)
            for _ in range(turns):
                await checkpoint()
            group.cancel_scope.cancel()
        if not answers:
            assert await store.claim("key", "print") == Claimed(), f"claimed for nobody behind {turns} turns"
        answers.clear()
        await store.release("key")


async def test_the_first_record_of_a_decision_counts(make: Make) -> None:
    store = make()
    assert await store.decide("a", None) is None
    assert [await store.decide("a", record) for record in (b"1", b"2", None)] == [b"1"] * 3


async def test_of_many_who_claim_at_once_one_gets_the_key(make: Make) -> None:
    store, answers = make(), []

    async def claim() -> None:
        answers.append(type(await store.claim("key", "print")))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(claim)
    assert sorted(answers, key=str) == sorted([Claimed] + [StillRunning] * 19, key=str)


@pytest.mark.parametrize("key", ["", "k" * 1025, 5])
async def test_what_is_no_key_is_refused(make: Make, key: Any) -> None:
    store = make()
    with pytest.raises(ValueError, match="1 to 1024 characters"):
        await store.claim(key, "print")
    with pytest.raises(ValueError, match="1 to 1024 characters"):
        await store.decide(key, b"1")
    assert isinstance(await store.claim("k" * 1024, "print"), Claimed)


async def test_a_result_beyond_the_limit_is_remembered_without_its_bytes(make: Make) -> None:
    store = make(max_result_bytes=4)
    for key, result in (("fits", b"1234"), ("large", b"12345")):
        await store.claim(key, "print")
        await store.complete(key, result)
    assert await store.claim("fits", "print") == Recorded(b"1234")
    assert await store.claim("large", "print") == Recorded(None)


async def test_a_full_store_forgets_the_oldest_completed_call_and_no_open_one(make: Make) -> None:
    store = make(max_entries=3)
    for key in ("open", "first", "second"):
        await store.claim(key, "print")
    await store.complete("second", b"2")
    await store.complete("first", b"1")
    assert await store.claim("new", "print") == Claimed()
    assert isinstance(await store.claim("open", "print"), StillRunning)
    assert await store.claim("second", "print") == Recorded(b"2")
    assert await store.claim("first", "print") == Claimed()


async def test_a_store_full_of_open_calls_takes_no_more(make: Make) -> None:
    store = make(max_entries=1)
    await store.claim("open", "print")
    with pytest.raises(ToolNotStarted, match="max_entries=1"):
        await store.claim("new", "print")


@pytest.mark.parametrize("bound", [0, -1, True, 1.5])
@pytest.mark.parametrize("name", ["max_entries", "max_result_bytes"])
def test_a_bound_that_is_none_is_refused(make: Make, name: str, bound: Any) -> None:
    with pytest.raises(ValueError, match=f"{name}=.*integer greater than 0"):
        make(**{name: bound})


# -- fingerprints and bytes --


def test_a_fingerprint_knows_tool_and_arguments_and_no_order_of_keys() -> None:
    said = call_fingerprint("order", {"a": 1, "b": {"c": [1, 2], "d": "\ud83d"}})
    assert said == call_fingerprint("order", {"b": {"d": "\ud83d", "c": [1, 2]}, "a": 1})
    others = [
        ("order", {"a": 2, "b": 1}),
        ("cancel", {"a": 1, "b": {"c": [1, 2], "d": "\ud83d"}}),
        ("order", {"a": "1"}),
    ]
    assert len({said, *(call_fingerprint(tool, arguments) for tool, arguments in others)}) == 4
    # Stores in files have it from before: another form would make each call of theirs another one.
    kept = "41e996e0eb5510bd7b2d63dca09124d289e4f2545b76b026833c9b77a187f517"
    assert call_fingerprint("order", {"b": [1, 2.5, None], "a": "\xe9"}) == kept


@every("value", [float("nan"), object(), {1, 2}])
def test_arguments_without_json_have_no_fingerprint(value: Any) -> None:
    with pytest.raises(ValueError, match="are not plain JSON") as caught:
        call_fingerprint("order", {"a": value})
    assert repr(value) not in str(caught.value)


RESULTS = [
    None,
    "text",
    {"a": [1, 2.5, None], "value": "result"},
    ToolResult(blocks=["a", Media(kind="image", data="AAAA", mime_type="image/png")], value=3, is_error=True),
    ToolResult(native={"anthropic.messages": [{"type": "x"}]}, display={"shown": 1}),
]


@every("value", RESULTS)
def test_a_result_comes_back_equal(value: Any) -> None:
    assert decode_result(encode_result(value)) == value


def test_a_value_without_json_is_the_tools_failure() -> None:
    with pytest.raises(ToolFailed, match="a value of type lock, which cannot"):
        encode_result(threading.Lock())


class Broken(ToolError):
    def __str__(self) -> str:
        raise KeyError("no text")


FAILURES = [
    (ToolError("words for the model"), ToolError, "words for the model"),
    (ToolFailed("words"), ToolFailed, "words"),
    (ToolTimeout(3), ToolFailed, "the tool did not finish within 3 s"),  # its text does not make it
    (ValueError("a secret"), ToolFailed, "the tool order raised ValueError"),
    (Broken(), ToolFailed, "the tool order raised Broken"),
]


@every(("error", "kind", "text"), FAILURES)
def test_a_failure_comes_back_as_its_words(error: BaseException, kind: type[ToolError], text: str) -> None:
    back = decode_error(encode_error("order", error))
    assert (type(back), str(back)) == (kind, text)


@every("kind", ["StreamError", "Sequence", "annotations", "nothing"])
def test_a_failure_of_no_kind_of_ours_is_a_failed_tool(kind: str) -> None:
    assert type(decode_error({"kind": kind, "text": "words"})) is ToolFailed
