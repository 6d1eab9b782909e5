"""Idempotency stores: one claim per key, results that last, and no guess about what was cut."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from streamtools.content import Media, Text, ToolResult
from streamtools.dispatch.executors import (
    Claimed,
    IdempotencyStore,
    Invocation,
    MemoryStore,
    Recorded,
    SqliteStore,
    Unknown,
    call_fingerprint,
    run_once,
)
from streamtools.dispatch.results import decode_error, decode_result, encode_error, encode_result
from streamtools.errors import (
    LocalProtocolError,
    ToolError,
    ToolFailed,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)

pytestmark = pytest.mark.anyio

Make = Callable[..., Any]


@pytest.fixture
def make(make_store: Make) -> Make:
    return make_store


async def test_a_free_key_is_claimed_once(make: Make) -> None:
    store = make()
    assert await store.claim("key", "print") == Claimed()
    assert isinstance(await store.claim("key", "print"), Unknown)
    assert await store.claim("another", "print") == Claimed()


async def test_of_many_who_claim_at_once_one_gets_the_key(make: Make) -> None:
    store, answers = make(), []

    async def claim() -> None:
        answers.append(type(await store.claim("key", "print")))

    async with anyio.create_task_group() as group:
        for _ in range(20):
            group.start_soon(claim)
    assert sorted(answers, key=str) == sorted([Claimed] + [Unknown] * 19, key=str)


async def test_a_completed_call_is_answered_with_its_result(make: Make) -> None:
    store = make()
    await store.claim("key", "print")
    await store.complete("key", b'"done"')
    assert await store.claim("key", "print") == Recorded(b'"done"')


async def test_a_released_key_is_free_again(make: Make) -> None:
    store = make()
    await store.claim("key", "print")
    await store.release("key")
    await store.release("key")
    assert await store.claim("key", "another call's") == Claimed()


async def test_a_completed_key_is_not_released(make: Make) -> None:
    store = make()
    await store.claim("key", "print")
    await store.complete("key", b"1")
    await store.release("key")
    assert await store.claim("key", "print") == Recorded(b"1")


async def test_a_key_with_another_fingerprint_is_refused(make: Make) -> None:
    store = make()
    await store.claim("key", "print")
    with pytest.raises(ToolNotStarted, match="'key' belongs to a call with another tool or arguments"):
        await store.claim("key", "another")


@pytest.mark.parametrize("complete_first", [False, True])
async def test_a_result_without_a_claim_is_refused(make: Make, complete_first: bool) -> None:
    store = make()
    if complete_first:
        await store.claim("key", "print")
        await store.complete("key", b"1")
    with pytest.raises(LocalProtocolError, match="not claimed"):
        await store.complete("key", b"2")


@pytest.mark.parametrize("key", ["", "k" * 1025, 5])
async def test_what_is_no_key_is_refused(make: Make, key: Any) -> None:
    with pytest.raises(ValueError, match="1 to 1024 characters"):
        await make().claim(key, "print")


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
    assert isinstance(await store.claim("open", "print"), Unknown)
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


# -- SQLite alone --


async def test_what_a_file_holds_outlives_its_store(tmp_path: Path) -> None:
    before = SqliteStore(tmp_path / "calls")
    for key in ("open", "done"):
        await before.claim(key, "print")
    await before.complete("done", b"1")
    before.close()
    after = SqliteStore(tmp_path / "calls")
    assert isinstance(await after.claim("open", "print"), Unknown)
    assert await after.claim("done", "print") == Recorded(b"1")
    after.close()


def test_stores_of_one_file_in_many_threads_claim_a_key_once(tmp_path: Path) -> None:
    """As several processes would, each with a connection and an event loop of its own."""
    answers: list[str] = []

    def claim_all() -> None:
        async def claim() -> None:
            store = SqliteStore(tmp_path / "calls")
            for number in range(20):
                answers.append(type(await store.claim(f"key {number}", "print")).__name__)
            store.close()

        anyio.run(claim)

    threads = [threading.Thread(target=claim_all) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == ["Claimed"] * 20 + ["Unknown"] * 60


def test_a_new_file_that_another_process_is_about_to_set_up_is_waited_for(tmp_path: Path) -> None:
    """Workers of one program open it at the same time, and SQLite does not wait before it changes the kind of log."""
    other = sqlite3.connect(tmp_path / "calls", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    ends = threading.Timer(0.1, other.rollback)
    ends.start()
    SqliteStore(tmp_path / "calls").close()
    ends.join()
    other.close()


async def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "calls")
    store.close()
    store.close()
    with pytest.raises(LocalProtocolError, match="closed"):
        await store.claim("key", "print")


def test_a_file_of_another_version_is_refused_and_closed(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "calls")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(LocalProtocolError, match="version 99"):
        SqliteStore(tmp_path / "calls")


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "calls").write_text("no database, but long enough to be looked at" * 50)
    with pytest.raises(sqlite3.DatabaseError):
        SqliteStore(tmp_path / "calls")


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


@pytest.mark.parametrize("value", [float("nan"), object(), {1, 2}])
def test_arguments_without_json_have_no_fingerprint(value: Any) -> None:
    with pytest.raises(ValueError, match="no plain JSON") as caught:
        call_fingerprint("order", {"a": value})
    assert repr(value) not in str(caught.value)


RESULTS = [
    None,
    "text",
    {"a": [1, 2.5, None], "value": "result"},
    ToolResult(blocks=["a", Media(kind="image", data="AAAA", mime_type="image/png")], value=3, is_error=True),
    ToolResult(native={"anthropic.messages": [{"type": "x"}]}, display={"shown": 1}),
]


@pytest.mark.parametrize("value", RESULTS, ids=lambda value: type(value).__name__)
def test_a_result_comes_back_equal(value: Any) -> None:
    assert decode_result(encode_result(value)) == value


def test_a_value_without_json_is_the_tools_failure() -> None:
    with pytest.raises(ToolFailed, match="a lock, which cannot"):
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


@pytest.mark.parametrize(("error", "kind", "text"), FAILURES, ids=lambda value: type(value).__name__)
def test_a_failure_comes_back_as_its_words(error: BaseException, kind: type[ToolError], text: str) -> None:
    back = decode_error(encode_error("order", error))
    assert (type(back), str(back)) == (kind, text)


@pytest.mark.parametrize("kind", ["StreamError", "Sequence", "annotations", "nothing"])
def test_a_failure_of_no_kind_of_ours_is_a_failed_tool(kind: str) -> None:
    assert type(decode_error({"kind": kind, "text": "words"})) is ToolFailed


# -- a store before a call --

CALL = Invocation(tool="order", arguments={"what": "a book"}, key="order:7")


def ran(result: Any = None) -> tuple[list[str], Callable[[], Awaitable[Any]]]:
    """A call that returns or raises, and a list that grows with each run."""
    runs: list[str] = []

    async def run() -> Any:
        runs.append("run")
        if isinstance(result, BaseException):
            raise result
        return result

    return runs, run


async def test_a_call_runs_once_and_its_result_is_kept(make: Make) -> None:
    store = make()
    value = ToolResult(blocks=[Text("done")], value=1)
    runs, run = ran(value)
    first, second = [await run_once(store, CALL, run) for _ in range(2)]
    assert (first.value, first.recorded, second.value, second.recorded) == (value, False, value, True)
    assert runs == ["run"]


ENDS: list[tuple[BaseException, bool, type[ToolError]]] = [
    (ToolNotStarted("no worker"), True, ToolNotStarted),
    (ToolOutcomeUnknown("lost"), False, ToolOutcomeUnknown),
    (ToolTimeout(1), False, ToolOutcomeUnknown),
    (ToolError("sold out"), False, ToolError),
    (ToolFailed("the tool order raised ValueError"), False, ToolFailed),
]
"""How a call ends; whether it may run again; what the next one with its key is told."""


@pytest.mark.parametrize(("end", "again", "told"), ENDS, ids=lambda value: type(value).__name__)
async def test_only_what_has_not_started_runs_again(
    make: Make, end: BaseException, again: bool, told: type[ToolError]
) -> None:
    store = make()
    runs, run = ran(end)
    for expected in (type(end), told):
        with pytest.raises(ToolError) as caught:
            await run_once(store, CALL, run)
        assert type(caught.value) is expected
    assert len(runs) == 1 + again


async def test_a_key_of_another_call_runs_nothing(make: Make) -> None:
    store = make()
    runs, run = ran("done")
    await run_once(store, CALL, run)
    with pytest.raises(ToolNotStarted, match="another tool or arguments"):
        await run_once(store, replace(CALL, arguments={"what": "two books"}), run)
    assert runs == ["run"]


async def test_a_failure_on_record_has_the_same_words(make: Make) -> None:
    store = make()
    _, run = ran(ToolError("sold out"))
    for _ in range(2):
        with pytest.raises(ToolError, match=r"\Asold out\Z"):
            await run_once(store, CALL, run)


async def test_a_call_that_was_cancelled_while_it_ran_is_unknown(make: Make) -> None:
    store = make()
    with anyio.CancelScope() as scope:

        async def run() -> None:
            scope.cancel()
            await anyio.sleep_forever()

        await run_once(store, CALL, run)
    _, run_again = ran()
    with pytest.raises(ToolOutcomeUnknown, match="begun before"):
        await run_once(store, CALL, run_again)


async def test_a_call_that_was_cancelled_before_it_ran_gives_its_claim_back(make: Make) -> None:
    store = make()
    runs, run = ran("done")
    with anyio.CancelScope() as scope:
        scope.cancel()
        await run_once(store, CALL, run)
    assert runs == []
    assert (await run_once(store, CALL, run)).recorded is False


async def test_a_result_is_kept_even_if_nobody_waits_for_it_any_more(make: Make) -> None:
    store = make()
    with anyio.CancelScope() as scope:

        async def run() -> str:
            scope.cancel()
            return "done"

        await run_once(store, CALL, run)
    _, run_again = ran()
    assert (await run_once(store, CALL, run_again)).value == "done"


async def test_a_result_that_was_too_large_to_keep_says_so_and_nothing_runs(make: Make) -> None:
    store = make(max_result_bytes=10)
    runs, run = ran("x" * 100)
    assert (await run_once(store, CALL, run)).value == "x" * 100
    answer = await run_once(store, CALL, run)
    assert (answer.recorded, "has run before" in answer.value, runs) == (True, True, ["run"])


async def test_a_value_that_cannot_be_kept_is_a_failure_on_record(make: Make) -> None:
    store = make()
    runs, run = ran(threading.Lock())
    for _ in range(2):
        with pytest.raises(ToolFailed, match="cannot be written as JSON"):
            await run_once(store, CALL, run)
    assert runs == ["run"]


class FailingStore(MemoryStore):
    """A disk that is full, for one operation."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        self.failing = failing

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        if self.failing == "claim":
            raise OSError("disk full")
        return await super().claim(key, fingerprint)

    async def complete(self, key: str, result: bytes, /) -> None:
        raise OSError("disk full")

    async def release(self, key: str, /) -> None:
        raise OSError("disk full")


async def test_that_a_store_takes_no_claim_back_or_keeps_no_failure_is_noted_on_what_is_raised() -> None:
    for end, text in ((ToolNotStarted("no worker"), "give its claim back"), (ToolError("sold out"), "keep this")):
        _, run = ran(end)
        with pytest.raises(type(end)) as caught:
            await run_once(FailingStore("complete"), CALL, run)
        assert caught.value.__notes__ == [f"the idempotency store could not {text} (OSError)"]


async def test_without_a_claim_nothing_runs() -> None:
    runs, run = ran()
    with pytest.raises(ToolNotStarted, match=r"idempotency store failed \(OSError\)"):
        await run_once(FailingStore("claim"), CALL, run)
    assert runs == []


async def test_a_result_that_the_store_cannot_keep_is_not_lost() -> None:
    store: IdempotencyStore = FailingStore("complete")
    runs, run = ran("done")
    answer = await run_once(store, CALL, run)
    assert (answer.value, type(answer.not_kept)) == ("done", OSError)
    with pytest.raises(ToolOutcomeUnknown):
        await run_once(store, CALL, run)
    assert runs == ["run"]
