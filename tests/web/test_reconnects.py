"""A browser's `EventSource` repeats its request when a response ends or breaks, and no run is begun a second time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from asgi_client import Client, told
from served import client_of, serving
from streams import chat, exhaust

from streamtools import Limits, Suspended, agent_loop, pipeline, run_calls, tool
from streamtools.errors import LocalProtocolError
from streamtools.integrations import EventStreamResponse, Run
from streamtools.observers import Cursor
from streamtools.testing import ScriptedSource

CHAT = "openai.chat_completions"
PAYS = chat([], calls=[("a", "pay", '{"amount": 7}')])


class Payments:
    """A tool that pays, and what was asked, seen and stored beside."""

    def __init__(self, *, needs_approval: bool = False) -> None:
        self.paid: list[int] = []
        self.asked = 0
        self.stored: list[Any] = []
        self.cursor = Cursor()
        self.source = ScriptedSource(PAYS)

        @tool(needs_approval=needs_approval)
        async def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        self.tools = [pay]

    async def ask(self, messages: list[Any], tools: Any) -> Any:
        self.asked += 1
        return ScriptedSource(PAYS if self.asked % 2 else chat(["Done."], finish="stop"))

    async def request(self) -> Any:
        self.asked += 1
        return self.source

    async def store(self, run: Run) -> None:
        self.stored.append(run)

    def loop(self) -> Run:
        return agent_loop(self.ask, [], tools=self.tools, wire=CHAT)

    def suspended(self) -> Suspended:
        async def left() -> Suspended:
            async with pipeline(PAYS, tools=self.tools) as events:
                await exhaust(events)
            assert events.suspended is not None
            return events.suspended

        return anyio.run(left)


RUNS: dict[str, Callable[[Payments], Run]] = {
    "a pipeline": lambda made: pipeline(made.source, tools=made.tools, observers=[made.cursor]),
    "a pipeline of a request that was not awaited": lambda made: pipeline(made.request(), tools=made.tools),
    "a pipeline of a list": lambda made: pipeline(PAYS, tools=made.tools, observers=[made.cursor]),
    "a run": lambda made: made.loop(),
    "calls": lambda made: run_calls([("a", "pay", {"amount": 7})], made.tools, observers=[made.cursor]),
}


@pytest.mark.anyio
async def test_a_client_that_asks_again_is_told_to_stop_and_nothing_begins() -> None:
    for name, make in RUNS.items():
        made, client = Payments(), Client()
        run = make(made)
        response = EventStreamResponse(run, after=made.store, headers={"access-control-allow-origin": "*"})
        await client.request(response, last_event_id=b"12")
        assert client.start is not None, name
        assert (name, client.start["status"], client.body, client.ended) == (name, 204, b"", True)
        headers = dict(client.start["headers"])
        assert headers[b"access-control-allow-origin"] == b"*"
        assert b"content-type" not in headers
        assert (name, made.paid, made.asked, made.stored, list(made.cursor)) == (name, [], 0, [], [])
        if name == "a pipeline":
            assert (made.source.closed, made.source.position) == (True, 0)
        with pytest.raises(LocalProtocolError):
            await Client().request(response)
        if not name.startswith("a run"):
            with pytest.raises(LocalProtocolError, match="entered once"):
                async with run:  # type: ignore[union-attr]  # it is a pipeline
                    pass
    gc.collect()  # a request that nobody awaits would warn


@pytest.mark.anyio
async def test_an_opened_pipeline_is_closed_when_a_client_asks_again() -> None:
    made, client = Payments(), Client()
    async with anyio.create_task_group() as tasks:
        events = pipeline(made.source, tools=made.tools).open(tasks)
        await client.request(EventStreamResponse(events, after=made.store), last_event_id=b"12")
        assert (client.start["status"], made.source.closed, made.stored) == (204, True, [])


@pytest.mark.anyio
async def test_a_server_that_fails_is_told_and_a_client_that_is_gone_is_no_error() -> None:
    async def fail(error: Exception) -> None:
        raise error

    for error, is_raised in ((OSError(), False), (ZeroDivisionError(), True)):
        made = Payments()
        client = Client(lambda _, error=error: fail(error))  # type: ignore[misc]  # bound now
        response = EventStreamResponse(pipeline(made.source, tools=made.tools))
        if is_raised:
            with pytest.raises(ZeroDivisionError):
                await client.request(response, last_event_id=b"1")
        else:
            await client.request(response, last_event_id=b"1")
        assert made.source.closed


async def reconnecting(port: int, times: int) -> list[tuple[int, bytes]]:
    """Does as an `EventSource` that nobody closes: repeats its request until it is answered 204."""
    answers: list[tuple[int, bytes]] = []
    last = ""
    async with client_of(port) as client:
        while len(answers) < times and (not answers or answers[-1][0] != 204):
            response = await client.get("/chat", headers={"last-event-id": last} if last else {})
            answers.append((response.status_code, response.content))
            ids = [line[4:] for line in response.text.splitlines() if line.startswith("id: ")]
            last = ids[-1] if ids else last
    return answers


def test_an_event_source_that_nobody_closes_pays_once() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed: its endpoint was not tried")
    from fastapi import FastAPI
    from starlette.background import BackgroundTask

    made, done, app = Payments(), list[str](), FastAPI()

    async def finished() -> None:
        done.append("done")

    @app.get("/chat")
    async def answer() -> EventStreamResponse:
        response = EventStreamResponse(made.loop(), after=made.store)
        response.background = BackgroundTask(finished)
        return response

    async def run_to_its_end() -> list[tuple[int, bytes]]:
        async with serving(app) as port:
            return await reconnecting(port, 4)

    answers = anyio.run(run_to_its_end)
    assert [status for status, _ in answers] == [200, 204]
    assert told(answers[0][1])[-1] == ("run_end", {"outcome": "answered"})
    assert answers[1][1] == b""
    assert (made.paid, made.asked, len(made.stored), done) == ([7], 2, 1, ["done", "done"])


@pytest.mark.anyio
async def test_a_stream_that_does_not_close_is_given_up_after_the_grace() -> None:
    class Stuck:
        def __aiter__(self) -> Stuck:
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError("nobody reads it")

        async def aclose(self) -> None:
            await anyio.sleep_forever()

    with anyio.fail_after(20):
        await pipeline(Stuck(), limits=Limits(cancel_grace=0.01)).discard()
