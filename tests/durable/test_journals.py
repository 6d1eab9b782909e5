"""A journal on each kind of records: the same run, the same words, whoever goes on with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pipelines.test_journal import ANSWER, Bank
from profiles import every
from servers import PostgresServer, RedisServer
from streams import chat, until

from streamtools import Decision, tool
from streamtools.cli import main
from streamtools.dispatch import Journal, MemoryStore, PostgresStore, RedisStore, SqliteStore
from streamtools.durable.record_store import RecordStore
from streamtools.durable.records import Done, Put, Rev
from streamtools.errors import AlreadyDecided, JournalError, RunStillRunning, RunTakenOver
from streamtools.events import ApprovalRequested, ToolStarted

pytestmark = [pytest.mark.anyio, pytest.mark.costly]
Make = Callable[[], RecordStore]


@pytest.fixture
def stores(postgres: PostgresServer, redis: RedisServer, tmp_path: Path) -> Iterator[dict[str, Make]]:
    """Makes stores of one place, each as another process has it."""
    memory, made = MemoryStore(), list[RecordStore]()

    def kept(store: RecordStore) -> RecordStore:
        made.append(store)
        return store

    yield {
        "memory": lambda: memory,
        "sqlite": lambda: kept(SqliteStore(tmp_path / "runs.db")),
        "postgres": lambda: kept(PostgresStore(postgres.url, schema=tmp_path.name[-60:])),
        "redis": lambda: kept(RedisStore(redis.url, prefix=f"{tmp_path}:")),
    }
    for store in made:
        store.close()


class Program(Bank):
    """Pays at once, and pays back when it may."""

    def __init__(self, *bodies: Any) -> None:
        super().__init__(*bodies)

        @tool(effect="once", needs_approval=True)
        async def refund(to: str) -> str:
            """Pay back."""
            self.paid.append(f"back {to}")
            return f"paid back {to}"

        self.tools.append(refund)


CALLS = chat(calls=[("a", "pay", '{"to": "x"}'), ("r", "refund", '{"to": "x"}')])


@every("kind", ["memory", "sqlite", "postgres", "redis"])
async def test_a_run_goes_on_from_its_records_whatever_keeps_them(stores: dict[str, Make], kind: str) -> None:
    with anyio.fail_after(60):
        make = stores[kind]
        program, first = Program(CALLS, ANSWER), Journal(make())
        async with program.run(first) as run:
            async for event in run:
                if isinstance(event, ApprovalRequested):
                    with pytest.raises(RunStillRunning):
                        await program.run(Journal(make(), wait=0)).finish()
        assert (run.outcome, program.paid) == ("suspended", ["x"])
        other = Journal(make())  # of another process
        waiting = await other.suspended("order-7")
        assert waiting is not None
        assert [call.tool_name for call in waiting.calls] == ["refund"]
        yes, no = (Decision.on(waiting.calls[0], verdict, by="ann") for verdict in (True, False))
        await other.say("order-7", "And?")
        await other.decide(waiting, yes)
        await first.decide(waiting, yes)
        with pytest.raises(AlreadyDecided):
            await first.decide(waiting, no)
        assert len(await other.news("order-7")) == 1
        run = program.run(other)
        await run.finish()
        assert (run.outcome, program.paid) == ("answered", ["x", "back x"])
        assert [seen.model_content for seen in run.turns[0].observations] == ["paid x", "paid back x"]
        assert program.asked[1][-1] == {"role": "user", "content": "And?"}
        assert (await program.run(first).finish()).text == "All paid."  # on record
        assert [(one.run_id, one.outcome, one.steps) for one in await other.runs()] == [("order-7", "answered", 2)]
        with pytest.raises(JournalError, match="is over"):
            await first.stop("order-7")
        assert await first.erase("order-7") == []
        assert (await first.runs(), await first.store.calls(completed=True)) == ([], [])


@every("kind", ["memory", "sqlite", "postgres", "redis"])
async def test_whoever_has_lost_the_lease_of_a_run_writes_and_begins_nothing(
    stores: dict[str, Make], kind: str
) -> None:
    with anyio.fail_after(60):
        two = chat(calls=[("b", "pay", '{"to": "y"}')], finish="tool_calls")
        program, journal = Program(chat(calls=[("a", "pay", '{"to": "x"}')]), two, two, ANSWER), Journal(stores[kind]())
        with pytest.raises(RunTakenOver):
            async with program.run(journal) as run:
                async for event in run:
                    if isinstance(event, ToolStarted):
                        (lease,) = await journal.store.records.scan(("lease",))
                        other = Put(lease.key, lease.value, Rev(lease.rev), stale_in=0.001)
                        assert isinstance(await journal.store.records.commit(other), Done)
        assert (run.outcome, program.paid) == ("error", ["x"])
        assert [(one.outcome, one.steps) for one in await journal.runs()] == [(None, 0)]
        assert (await program.run(Journal(stores[kind]())).finish()).text == "All paid."
        assert program.paid == ["x", "y"]


def test_a_person_settles_calls_of_a_server_by_its_url_which_is_not_printed(
    postgres: PostgresServer, redis: RedisServer, capsys: pytest.CaptureFixture[str]
) -> None:
    def prints(*command: str) -> str:
        assert main([*command]) == 0
        return capsys.readouterr().out

    async def makes(url: str) -> None:
        program = Program(CALLS)
        program.hangs = True
        async with program.run(url, run_id="order-8") as run:
            await until(run, ToolStarted)

    for url in (postgres.url, redis.url):
        anyio.run(makes, url)
        (key,) = re.findall(r"order-8:\S+", prints("store", "list", url))
        report = prints("runs", "report", url)
        assert f"{key}: unknown" in report
        assert f"streamtools store release {url.partition('//')[0]}//... KEY" in report
        assert prints("store", "complete", url, key, "--result", '"paid"').startswith("completed")
        assert prints("store", "list", url) == "no call is running or has an unknown outcome\n"
    for wrong in (
        *(re.sub(r":\d+/", ":1/", url) for url in (postgres.url, redis.url)),
        "mysql://u:secret@h/d",
        "redis://h:secret",
    ):
        assert main(["store", "list", wrong]) == 1
        error = capsys.readouterr().err
        assert (f"cannot use {wrong.partition('//')[0]}//...: " in error, "secret" in error) == (True, False), error
