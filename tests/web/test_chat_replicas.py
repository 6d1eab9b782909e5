"""Conversations whose requests go to any of several processes, on each kind of records that these can share."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import pytest
from chat_client import Answer, Page
from servers import Proxy
from test_chat_app import Program, decided, kinds, said, texts

from streamtools.durable.records import DeletePrefix, Put
from streamtools.durable.store_postgres import PostgresStore
from streamtools.durable.store_redis import RedisStore

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.asyncio_only,
    pytest.mark.parametrize("backend", ["sqlite", "postgres", "redis"]),
]
Replica: TypeAlias = Callable[..., Program]
"""Makes a process of its own, on the records of the test."""


@pytest.fixture
def replica(request: pytest.FixtureRequest, backend: str, tmp_path: Path) -> Iterator[Replica]:
    made: list[Any] = []

    def make(port: int | None = None, timeout: float = 5.0, **options: Any) -> Program:
        records: Any = tmp_path / "chats.db"
        port = None if backend == "sqlite" else port or request.getfixturevalue(backend).port
        if backend == "postgres":
            url = f"postgresql://tester@127.0.0.1:{port}/postgres?sslmode=disable"
            records = PostgresStore(url, schema=f"chats {tmp_path.name}"[-60:], timeout=timeout)
        elif backend == "redis":
            records = RedisStore(f"redis://127.0.0.1:{port}/0", prefix=f"{tmp_path}:", timeout=timeout)
        program = Program(records, **options)
        made.append(program.chats.journal.store)
        return program

    yield make
    for store in made:
        store.close()


def is_read(answer: Answer) -> bool:
    return b'b"}' in answer.body


async def test_any_replica_answers_joins_decides_stops_and_makes_another_answer(replica: Replica) -> None:
    here, there = replica(), replica()
    one, other = here.page(), there.page()
    assert texts((await one.ask("POST", "/", said("you"))).chunks) == "Hello, you"
    assert texts((await other.ask("POST", "/", said("you"))).chunks) == "Hello, you", "the same request again"
    asked = await other.ask("POST", "/", said("pay", id="m2"))
    assert (await one.ask("POST", "/", said("more", id="m3"))).json["error"]["code"] == "waiting"
    assert texts((await one.ask("POST", "/", decided(asked.chunks, "k/2"))).chunks).startswith("Done")
    assert (here.paid, there.paid) == ([5], [])
    loaded = [(await page.ask("GET", "/k")).json for page in (one, other)]
    assert loaded[0] == loaded[1]
    assert [part.get("output") for part in loaded[0]["messages"][3]["parts"] if "output" in part] == [
        "paid 5",
        "seen x",
    ]
    again = {"id": "k", "messages": said("pay", id="m2")["messages"], "trigger": "regenerate-message"}
    asked = await one.ask("POST", "/", again)
    await other.ask("POST", "/", decided(asked.chunks, "k/3", approved=False))
    edited = said("others", id="m1", messageId="m1")
    assert texts((await other.ask("POST", "/", edited)).chunks) == "Hello, others"
    assert (here.paid, there.paid) == ([5], [])

    await one.ask("POST", "/", said("slow", id="m4"), leave=is_read)
    async with anyio.create_task_group() as tasks:
        answers = other.begin(tasks, "GET", "/k/stream")
        assert (await one.ask("POST", "/", said("more", id="m5"))).json["error"]["code"] == "running"
        assert (await other.ask("POST", "/", said("more", id="m5"))).json["error"]["code"] == "running"
        assert (await other.ask("POST", "/k/stop", {})).status == 204
    assert kinds(answers[0])[-2:] == ["abort", "[DONE]"]
    loaded = [(await page.ask("GET", "/k")).json for page in (one, other)]
    assert loaded[0] == loaded[1]
    assert (await other.ask("DELETE", "/k")).status == 204
    assert [(await page.ask("GET", "/k")).status for page in (one, other)] == [404, 404]
    assert (await one.ask("POST", "/", said("you"))).chunks[0]["messageId"] == "k/6", "no id recurs"


@asynccontextmanager
async def following(here: Any, there: Any) -> AsyncIterator[tuple[list[Answer], list[float]]]:
    """A reader in the one replica of a run in the other, which has read its first deltas; with its answer, and when the
    last delta came."""
    await here.page().ask("POST", "/", said("slow"), leave=is_read)
    seen, times = anyio.Event(), list[float]()

    def watch(answer: Answer) -> bool:
        if is_read(answer):
            seen.set()
        if b'd"}' in answer.body:
            times.append(time.monotonic())
        return False

    async with anyio.create_task_group() as tasks:
        answers = there.page().begin(tasks, "GET", "/k/stream", leave=watch)
        await seen.wait()
        yield answers, times


async def test_readers_of_another_replicas_run_are_woken(replica: Replica) -> None:
    here, there = replica(), replica()
    async with following(here, there) as (answers, times):
        for _ in range(20):  # it waits for a change by now
            await anyio.wait_all_tasks_blocked()
        here.held.set()
        began = time.monotonic()
    assert times[0] - began < 0.9, "a reader that nobody wakes looks each second"
    assert (kinds(answers[0])[-2:], texts(answers[0].chunks), there.asked) == (["finish", "[DONE]"], "abcd", [])


async def test_a_reader_of_another_replicas_run_goes_on_with_it_once_its_process_is_gone(replica: Replica) -> None:
    here, there = replica(), replica()
    async with following(here, there) as (answers, _):
        there.held.set()
        await here.chats.journal.store.records.commit(DeletePrefix(("lease",)))  # as the time does
    assert (kinds(answers[0])[-2:], texts(answers[0].chunks)[-4:]) == (["finish", "[DONE]"], "abcd")
    assert len(there.asked) == 1


async def test_a_replica_that_stood_still_shows_a_run_as_those_do_that_went_on_with_it(replica: Replica) -> None:
    here, there = replica(), replica()
    await here.page().ask("POST", "/", said("slow"), leave=is_read)
    await here.chats.journal.store.records.commit(DeletePrefix(("lease",)))  # as the time does
    there.held.set()
    assert texts((await there.page().ask("GET", "/k/stream")).chunks)[-4:] == "abcd"
    loaded = [(await one.page().ask("GET", "/k")).json for one in (here, there)]
    assert loaded[0] == loaded[1]
    assert (await here.page().ask("GET", "/k/stream")).status == 204
    frames = (await here.page().ask("GET", "/k/events", last_event_id="1.0")).frames
    assert frames[-1][2]["outcome"] == "answered"
    assert texts((await here.page().ask("POST", "/", said("you", id="m2"))).chunks) == "Hello, you"


async def test_a_client_of_ag_ui_reads_the_same_from_a_replica_that_stood_still(replica: Replica) -> None:
    here, there = replica(), replica()
    slow = {"threadId": "k", "runId": "r", "messages": [{"id": "m1", "role": "user", "content": "slow"}]}
    begun, answers = anyio.Event(), dict[str, Answer]()

    def watch(answer: Answer) -> bool:
        if is_read(answer):
            begun.set()
        return False

    async def follow() -> None:
        answers["follows"] = await here.page().ask("POST", "/ag-ui", slow, leave=watch)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await begun.wait()
        await here.chats.journal.store.records.commit(DeletePrefix(("lease",)))  # as the time does
        there.held.set()
        answers["there"] = await there.page().ask("POST", "/ag-ui", slow)
        answers["here"] = await here.page().ask("POST", "/ag-ui", slow)
    for name, answer in answers.items():
        assert answer.chunks[-1]["type"] == "RUN_FINISHED", name
        assert texts(answer.chunks)[-4:] == "abcd", name
    loaded = [(await one.page().ask("GET", "/k/ag-ui")).json for one in (here, there)]
    assert loaded[0] == loaded[1]
    assert [one["content"] for one in loaded[0]["messages"]] == ["slow", "abcd"]


async def test_what_a_replica_leaves_is_gone_on_with_by_whoever_is_asked_next_or_recovers(replica: Replica) -> None:
    for act in ("join", "recover"):
        first = replica()
        for name in ("over", act):
            await first.page().ask("POST", "/", said("slow" if name == act else "you", chat=name), leave=is_read)
        await first.chats.aclose()
        second = replica()
        second.held.set()
        if act == "recover":
            assert await second.chats.recover() == [act]
        joined = await second.page().ask("GET", f"/{act}/stream")
        assert texts(joined.chunks).endswith("abcd")
        assert await replica().chats.recover() == []
        loaded = (await replica().page().ask("GET", f"/{act}")).json["messages"][-1]["parts"]
        assert [part["text"] for part in loaded if part["type"] == "text"] == ["abcd"]
        for known in ("1.3", "1.0"):
            frames = (await replica().page().ask("GET", f"/{act}/events", last_event_id=known)).frames
            assert [kind for kind, _, _ in frames].count("attempt_discarded") == (known == "1.3")
            assert frames[-1][2]["outcome"] == "answered"
        assert "".join(data["text"] for kind, _, data in frames if kind == "text_delta") == "abcd"


async def test_a_server_that_gives_no_answer_is_an_answer_in_time_and_no_request_is_lost(
    replica: Replica, backend: str, request: pytest.FixtureRequest
) -> None:
    if backend == "sqlite":  # a file that is locked: test_chat_unavailable
        return
    proxy = Proxy(request.getfixturevalue(backend).port)
    program = replica(port=proxy.listens, timeout=0.3)
    page = program.page()
    await page.ask("POST", "/", said("you"))
    for fault in ("swallow", "close"):
        for method, path, body in (("GET", "/", None), ("GET", "/k", None), ("POST", "/", said("more", id=fault))):
            proxy.does = lambda fault=fault: fault
            answer = await page.ask(method, path, body)
            assert (answer.status, answer.json["error"]["code"]) == (503, "unavailable"), (fault, path, answer.body)
            assert "retry-after" in answer.headers
            assert "127.0.0.1" not in answer.body.decode()
            proxy.does = lambda: "pass"
            with anyio.fail_after(20):
                while (again := await page.ask(method, path, body)).status == 503:  # it connects anew
                    continue
            assert again.status == 200, (fault, path, again.body)
    assert [messages[-1]["content"] for messages in program.asked] == ["you", "more", "more"]
    proxy.close()


async def test_a_person_has_a_list_of_the_own_conversations_in_pages(replica: Replica) -> None:
    program = replica()
    page = {name: Page(program.chats.app(may=lambda request, name=name: name)) for name in ("ann", "bob", True, False)}
    for number in range(5):
        await page["ann"].ask("POST", "/", said(f"Number {number}, {'and more ' * 30}", chat=f"a{number}"))
    await page["bob"].ask("POST", "/", said("pay", chat="b"))
    await page["bob"].ask("POST", "/", said("more", chat="a1", id="m2"))  # he may, and it stays hers
    listed = (await replica().page().ask("GET", "/")).json
    assert [one["id"] for one in listed["chats"]] == ["a1", "a4", "a3", "a2", "a0"]
    assert listed["chats"][1]["words"].startswith("Number 4, and more")
    assert len(listed["chats"][1]["words"]) < 101
    assert "before" not in listed
    seen, before = list[str](), ""
    for size in (2, 2, 1):
        found = (await page["ann"].ask("GET", f"/?limit=2{before}")).json
        assert len(found["chats"]) == size
        seen += [one["id"] for one in found["chats"]]
        before = f"&before={found.get('before')}"
    assert seen == [one["id"] for one in listed["chats"]]
    (bobs,) = (await page["bob"].ask("GET", "/")).json["chats"]
    assert (bobs["id"], bobs["owner"], bobs["is_open"], bobs["words"]) == ("b", "bob", True, "pay")
    for name in (True, False):
        assert (await page[name].ask("GET", "/")).json["error"]["code"] == "forbidden"
    for wrong in ("limit=0", "limit=101", "limit=x", "before=x", "before=" + "0" * 13):
        assert (await page["ann"].ask("GET", f"/?{wrong}")).status == 400, wrong


async def test_a_conversation_in_which_nothing_changes_is_removed_when_its_time_is_over(replica: Replica) -> None:
    program = replica(keep=3600.0)
    page, records = program.page(), program.chats.journal.store.records
    for name in ("old", "waits", "new"):
        await page.ask("POST", "/", said("pay" if name == "waits" else "you", chat=name))
    await page.ask("POST", "/", said("slow", chat="runs"), leave=is_read)
    for name in ("old", "waits", "runs"):
        await _age(records, name, 3601)
    assert await program.chats.recover() == []
    statuses = {name: (await page.ask("GET", f"/{name}")).status for name in ("old", "waits", "runs", "new")}
    assert statuses == {"old": 404, "waits": 404, "runs": 200, "new": 200}
    assert [one["id"] for one in (await page.ask("GET", "/")).json["chats"]] == ["runs", "new"]
    await _age(records, "new", 3601)
    number = 0
    while (await page.ask("GET", "/new")).status != 404:  # removed behind a request
        number += 1
        await page.ask("POST", "/", said("you", chat="next", id=f"m{number}"))
    program.held.set()


async def _age(records: Any, chat_id: str, seconds: float) -> None:
    """Does as the time."""
    (due,) = [one for one in await records.scan(("due",)) if one.key[-1] == chat_id]
    earlier = f"{int(due.key[1]) - int(seconds * 1e3):013d}"
    await records.commit(DeletePrefix(due.key), Put(("due", earlier, chat_id), b""))
