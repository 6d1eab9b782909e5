"""Conversations whose file is locked, full, removed, closed or broken: what is answered, and that nothing is lost."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from chat_client import Answer, Page
from profiles import every
from streams import chat, stream
from test_chat_app import WIRE, Program, said, texts

from streamtools import agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.durable.store_postgres import PostgresStore
from streamtools.web import Chats

pytestmark = pytest.mark.anyio
_ASKED = {"id": "m2", "role": "user", "content": "you", "parts": [{"type": "text", "text": "you"}]}
_ROUTES: dict[tuple[str, str], Any] = {
    ("POST", "/"): {"id": "k", "messages": [_ASKED]},
    ("GET", "/k"): None,
    ("GET", "/k/stream"): None,
    ("POST", "/k/stop"): {},
    ("POST", "/k/events"): {"id": "k", "messages": [_ASKED]},
    ("GET", "/k/events"): None,
    ("POST", "/ag-ui"): {"threadId": "k", "runId": "r", "messages": [_ASKED]},
    ("GET", "/k/ag-ui"): None,
    ("DELETE", "/k"): None,
}


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds a file as a backup does, for longer than anybody waits."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.rollback()
        connection.close()


@contextmanager
def removed(path: Path) -> Iterator[None]:
    kept = path.rename(path.with_suffix(".kept"))
    yield
    kept.rename(path)


@contextmanager
def replaced(path: Path) -> Iterator[None]:
    with removed(path):
        path.write_text("a note")
        yield


def store_at(path: Path) -> SqliteStore:
    return SqliteStore(path, busy_timeout=0.5)


@every("fault, status", [(locked, 503), (removed, 500), (replaced, 500)])
async def test_a_file_that_cannot_be_used_is_an_answer_on_each_route_and_no_request_is_lost(
    tmp_path: Path, fault: Any, status: int
) -> None:
    path = tmp_path / f"{fault.__name__}.db"
    program = Program(store_at(path))  # type: ignore[arg-type]
    page = program.page(**{"last-event-id": "1.0"})
    await page.ask("POST", "/", said("first"))
    for (method, route), body in _ROUTES.items():
        asked = len(program.asked)
        with fault(path):
            answer = await page.ask(method, route, body)
        if status == 503 and (method, route) not in (("POST", "/"), ("DELETE", "/k")):  # who reads waits for nobody
            assert answer.status in (200, 204), (route, answer.body)
            continue
        assert answer.status == status, (route, answer.body)
        assert answer.json["error"]["code"] == ("unavailable" if status == 503 else "internal_error")
        assert ("retry-after" in answer.headers) == (status == 503), route
        assert str(path) not in answer.body.decode()
        assert answer.headers["content-type"] == "application/json"
        assert len(program.asked) == asked
        again = await page.ask(method, route, body)
        assert again.status in (200, 204), (route, again.body)
        begins = method == "POST" and route == "/"
        assert len(program.asked) == asked + begins, "the same message begins one run, whichever protocol tells it"


async def test_a_disk_that_is_full_or_a_store_that_is_closed_is_an_answer_on_each_route(tmp_path: Path) -> None:
    for fault in ("full", "closed"):
        store = store_at(tmp_path / f"{fault}.db")
        program = Program(store)  # type: ignore[arg-type]
        page = program.page()
        await page.ask("POST", "/", said("first"))
        if fault == "full":
            shrink = partial(store.records.transact, lambda file: file.execute("PRAGMA max_page_count=1").fetchall())
            await store.records.handed(shrink)()
        else:
            await program.chats.aclose()
            store.close()
        for (method, route), body in _ROUTES.items():
            answer = await page.ask(method, route, _large(body) if fault == "full" else body)
            if fault == "closed" or (method == "POST" and route != "/k/stop"):
                assert answer.status == (503 if fault == "full" else 500), (fault, route, answer.body)
                assert answer.json["error"]["code"] in ("unavailable", "internal_error")
        store.close()


async def test_a_program_that_is_mistaken_is_told_so_in_its_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = PostgresStore("postgresql://somebody@127.0.0.1:1/chats", timeout=0.1)
    async with Program(nowhere).chats:  # type: ignore[arg-type]
        assert "requests are refused until they can: Postgres did not answer" in caplog.text
    nowhere.close()
    chats = Chats(records=tmp_path / "chats.db", run=lambda chat: None)  # type: ignore[arg-type, return-value]
    async with chats:
        await Page(chats.app(may=lambda request: True)).ask("POST", "/", said("you"))
    assert "run must return an agent_loop(...), not NoneType" in caplog.text


def _large(body: Any) -> Any:
    """A request that needs room in the file."""
    return body and json.loads(json.dumps(body).replace('"you"', json.dumps("you" * 20_000)))


class Locking:
    """A program whose file is locked at a moment in its first run.

    Args:
        path: the file.
        moment: ``run``: as the run is made; ``ask``: as the model is asked.
    """

    def __init__(self, path: Path, moment: str) -> None:
        self.asked = 0
        self.paid: list[int] = []
        self.is_locked = False
        self._path, self._moment = path, moment
        self._lock = locked(path)
        self.chats = Chats(journal=store_at(path), run=self.run)

    def pass_by(self, moment: str) -> None:
        if moment == self._moment:
            self._moment, self.is_locked = "", True
            self._lock.__enter__()

    def unlock(self) -> None:
        assert self.is_locked
        self._lock.__exit__(None, None, None)

    def run(self, given: Any) -> Any:
        @tool(effect="once")
        def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return "paid"

        def ask(messages: list[Any], tools: Any) -> Any:
            self.asked += 1
            self.pass_by("ask")
            if messages[-1]["role"] == "tool":
                return stream(chat(["Done."], finish="stop"))
            return stream(chat([], [("c1", "pay", '{"amount": 5}')]))

        self.pass_by("run")
        return agent_loop(ask, given.messages(WIRE), tools=[pay], wire=WIRE, **given.options)


async def test_a_run_that_cannot_be_made_again_for_a_moment_is_not_ended_by_that(tmp_path: Path) -> None:
    class Failing(Program):
        fails = 2

        def run(self, given: Any) -> Any:
            self.fails -= 1
            if self.fails >= 0:
                raise ConnectionRefusedError
            return super().run(given)

    first, second = Program(tmp_path / "chats.db"), Failing(tmp_path / "chats.db")
    await first.page().ask("POST", "/", said("slow"), leave=lambda answer: b'b"}' in answer.body)
    await first.chats.aclose()
    second.held.set()
    assert [(await second.page().ask("GET", "/k/stream")).status for _ in range(2)] == [503, 503]
    assert texts((await second.page().ask("GET", "/k/stream")).chunks).endswith("abcd")


@every("moment", ["run", "ask"])
async def test_a_run_whose_file_fails_says_so_and_goes_on_with_the_same_request(tmp_path: Path, moment: str) -> None:
    program = Locking(tmp_path / f"{moment}.db", moment)
    page = Page(program.chats.app(may=lambda request: True))
    broken = await page.ask("POST", "/", said("go"))
    assert (broken.status, broken.ended) == (200, True)
    assert broken.chunks[-2:] == [{"type": "error", "errorText": "The answer broke off (unavailable)."}, "[DONE]"]
    assert program.is_locked
    program.unlock()
    again = await page.ask("POST", "/", said("go"))
    assert (program.paid, texts(again.chunks)) == ([5], "Done."), "however often it is asked, it pays once"


@pytest.mark.thorough
@every("method, route", [key for key in _ROUTES if key[1] not in ("/k", "/k/ag-ui", "/k/stop")])
async def test_a_stream_that_has_begun_ends_with_the_error_of_its_protocol(
    tmp_path: Path, method: str, route: str
) -> None:
    """Another process goes on with the run: its log is read from the file."""
    path = tmp_path / "chats.db"
    for name in tmp_path.glob("chats.db*"):  # noqa: ASYNC240 - of the case before
        name.unlink()
    program, other = Program(store_at(path)), Program(store_at(path))  # type: ignore[arg-type]
    body = _ROUTES[method, route]
    if body is not None:
        body = {**json.loads(json.dumps(body).replace('"you"', '"slow"')), "stream": True}
    begins: tuple[str, Any] = (route, body) if method == "POST" else ("/", said("slow"))
    await program.page().ask("POST", *begins, leave=lambda answer: b"b" in answer.body)
    away = path.with_name("away")

    def watch(answer: Answer) -> bool:
        if path.exists() and b'b"' in answer.body:
            path.rename(away)  # whoever reads needs no lock
        return False

    answer = await other.page().ask(method, route, body, leave=watch)
    assert (answer.status, answer.ended) == (200, True)
    last = [one for one in answer.chunks if one != "[DONE]"][-1]
    told = {"error": last.get("errorText"), "RUN_ERROR": last.get("code"), None: last.get("error", {}).get("code")}
    code = last["kind"] if last.get("event") == "run_end" else told[last.get("type")]
    assert "unavailable" in code
    away.rename(path)
    program.held.set()
    joined = await other.page().ask("GET", "/k/events")
    assert joined.status in (200, 204)
    await program.chats.aclose()
