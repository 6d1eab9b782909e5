"""`Pipeline.cancel`: one call is stopped, wherever it is, and the others go on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from profiles import every
from streams import anthropic, chat, double, stream

from streamtools import ApprovalRequested, Event, Observation, Tool, ToolContext, pipeline, tool
from streamtools.dispatch import EndUnknown, MemoryStore
from streamtools.dispatch.in_process import abandoned_threads
from streamtools.errors import LocalProtocolError
from streamtools.events import ToolCallStart, ToolStarted
from streamtools.front import agent_loop
from streamtools.history import lint
from streamtools.seams import call_fingerprint

pytestmark = pytest.mark.anyio

CUT_SHORT = "Error: the call was cancelled before it started: not needed"
BEGUN = "Error: the call was cancelled; it may have had its effect, or part of it"
MESSAGES = "anthropic.messages"
PATIENCE_S = 10


@dataclass
class World:
    """What a case's tools share with the test."""

    reached: anyio.Event = field(default_factory=anyio.Event)
    """The call is where it is to be cancelled."""
    go_on: anyio.Event = field(default_factory=anyio.Event)
    """It was cancelled: what else waits may go on."""
    go_on_in_thread: threading.Event = field(default_factory=threading.Event)
    ran: list[str] = field(default_factory=list)

    async def run(self, who: str) -> str:
        self.ran.append(who)
        if who == "busy":
            await self.go_on.wait()
        return who


class SlowStore(MemoryStore):
    """A store that has not answered yet."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    async def claim(self, key: str, fingerprint: str, /) -> Any:
        self.world.reached.set()
        await self.world.go_on.wait()
        return await super().claim(key, fingerprint)


def plain(world: World, **options: Any) -> Tool[..., Any]:
    @tool(name="target", **options)
    async def target(n: int) -> str:
        """Be cancelled."""
        return await world.run("target")

    return target


def stays(world: World) -> Tool[..., Any]:
    @tool(name="target", effect="pure")
    async def target(n: int) -> str:
        """Stay."""
        world.ran.append("target")
        world.reached.set()
        await anyio.sleep_forever()
        return "never"

    return target


def stays_in_a_thread(world: World) -> Tool[..., Any]:
    token = anyio.lowlevel.current_token()

    @tool(name="target", effect="pure")
    def target(n: int, ctx: ToolContext) -> str:
        """Stay, until somebody is seen to have cancelled."""
        anyio.from_thread.run_sync(world.reached.set, token=token)
        world.go_on_in_thread.wait(45)
        world.ran.append(f"target saw {ctx.cancelled}")
        return "late"

    return target


def fails_first(world: World) -> Tool[..., Any]:
    @tool(name="target", effect="pure", retries=1, retry_delay_s=50)
    async def target(n: int) -> str:
        """Fail."""
        world.ran.append("target")
        world.reached.set()
        raise OSError

    return target


Case = tuple[Callable[[World], Tool[..., Any]], type[Event] | None, dict[str, Any], list[str], str]

# The call's tool; the event at which it is where it should be, if any; options; what runs; what the model reads.
CASES: dict[str, Case] = {  # of those that no model of a turn tries
    "announced": (lambda w: plain(w), ToolCallStart, {}, ["busy"], CUT_SHORT),
    "asked": (lambda w: plain(w, effect="pure", needs_approval=True), ApprovalRequested, {}, ["busy"], CUT_SHORT),
    "being claimed": (lambda w: plain(w), None, {"start": "early", "store": SlowStore}, ["busy"], CUT_SHORT),
    "running": (stays, None, {}, ["busy", "target"], BEGUN),
    "in a thread": (stays_in_a_thread, None, {}, ["busy", "target saw True"], BEGUN),
    "between retries": (fails_first, None, {}, ["busy", "target"], BEGUN),
}


async def gated(items: list[bytes], at: int, gate: anyio.Event) -> AsyncIterator[bytes]:
    for number, item in enumerate(items):
        if number == at:
            await gate.wait()
        yield item


@every("opened", [False, True])
@every("case", CASES)
async def test_one_call_is_cancelled_wherever_it_is_and_the_others_go_on(case: str, opened: bool) -> None:
    make, sign, options, ran, content = CASES[case]
    world, seen, said = World(), list[Event](), list[bool]()
    if "store" in options:
        options = {**options, "store": SlowStore(world)}

    @tool(effect="idempotent", conflict_key=lambda arguments: "x")
    async def busy(n: int) -> str:
        """Be in the way."""
        return await world.run("busy")

    body = anthropic(calls=[("b", "busy", '{"n": 1}'), ("t", "target", '{"n": 2}'), ("s", "double", '{"n": 3}')])
    cut = 5 if case == "announced" else 7  # within its text, or behind its end
    block = pipeline(gated(body, cut, world.go_on), tools=[busy, make(world), double], **options)

    async def cancel(events: Any) -> None:
        await world.reached.wait()
        await anyio.wait_all_tasks_blocked()
        said.append(events.cancel("t", "not needed"))
        said.append(events.cancel("t", "again"))
        with pytest.raises(LocalProtocolError, match="no such call"):
            events.cancel("other")
        world.go_on.set()

    async def consume(events: Any) -> None:
        async for event in events:
            seen.append(event)
            if sign is not None and type(event) is sign and getattr(event, "call", event).call_id == "t":
                world.reached.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            if opened:
                events: Any = block.open(group)
                group.start_soon(cancel, events)
                await consume(events)
                await events.aclose()
            else:
                async with block as events:
                    group.start_soon(cancel, events)
                    await consume(events)
        world.go_on_in_thread.set()
        while abandoned_threads():  # noqa: ASYNC110  # a thread ends, and has no event to wait for
            await anyio.sleep(0.001)
    assert said == [True, False]
    assert events.cancel("t") is False
    assert sorted(world.ran) == ran
    turn = events.turn
    assert turn.complete
    found = {observation.call_id: observation for observation in turn.observations}
    assert [found[one].outcome for one in "bts"] == ["ok", "cancelled", "ok"]
    assert found["t"].model_content == content
    assert found["t"].still_running is (case == "in a thread")
    assert lint([{"role": "user", "content": "Go."}, *turn.messages()], MESSAGES) == []
    assert [event.seq for event in seen] == list(range(len(seen)))


async def test_a_call_that_is_cancelled_between_two_attempts_leaves_a_claim_that_says_unknown() -> None:
    """Its observation is made at once; the store must not take it for running, for as long as the process lives."""
    world, store = World(), MemoryStore()

    @tool(effect="pure", needs_approval=True, retries=1, retry_delay_s=50)
    async def target(n: int) -> str:
        """Fail."""
        world.reached.set()
        raise OSError

    body = stream(chat(calls=[("t", "target", '{"n": 2}')]))
    with anyio.fail_after(30):
        async with pipeline(body, tools=[target], store=store, approve=lambda request: True) as events:
            await world.reached.wait()
            await anyio.wait_all_tasks_blocked()
            assert events.cancel("t")
            seen = [event async for event in events if isinstance(event, Observation)]
    claim = await store.claim(seen[0].idempotency_key, call_fingerprint("target", {"n": 2}))
    assert (seen[0].outcome, type(claim)) == ("cancelled", EndUnknown)


async def test_a_call_of_a_run_is_cancelled_and_the_model_reads_so() -> None:
    world, asked = World(), list[Any]()
    bodies = [chat(calls=[("t", "target", '{"n": 2}'), ("s", "double", '{"n": 3}')]), chat(["Done."], finish="stop")]

    def ask(messages: list[Any], tools: list[Any]) -> AsyncIterator[bytes]:
        asked.append(messages)
        return stream(bodies[len(asked) - 1])

    wire = "openai.chat_completions"
    with anyio.fail_after(30):
        async with agent_loop(
            ask, [{"role": "user", "content": "Go."}], tools=[stays(world), double], wire=wire
        ) as run:
            with pytest.raises(LocalProtocolError, match="no step is in progress"):
                run.cancel("t")
            async for event in run:
                if isinstance(event, ToolStarted) and event.call_id == "t":
                    assert run.cancel(event)
    assert run.outcome == "answered"
    assert [message["content"] for message in asked[1] if message["role"] == "tool"] == [BEGUN, "6"]
    assert lint(run.messages, wire) == []


async def test_before_the_block_nothing_can_be_cancelled_and_after_it_nothing_changes() -> None:
    block = pipeline(stream(chat(calls=[("s", "double", '{"n": 3}')])), tools=[double])
    with pytest.raises(TypeError, match="was not entered"):
        block.cancel("s")
    async with block as events:
        _ = [event async for event in events]
    assert events.cancel("s") is False
    with pytest.raises(LocalProtocolError, match="no such call"):
        events.cancel("t")


def test_a_callback_of_the_event_loop_may_cancel_though_it_is_no_task() -> None:
    """anyio finds asyncio's loop by the task that runs, unless `anyio.run` has started the loop."""
    started = asyncio.Event()

    @tool(effect="pure")
    async def wait() -> str:
        """Waits."""
        started.set()
        await anyio.sleep_forever()
        return ""

    async def main() -> list[str]:
        async with pipeline(stream(anthropic([], [("a", "wait", "{}")])), tools=[wait]) as events:
            there = asyncio.create_task(events.finish())
            await started.wait()
            asyncio.get_running_loop().call_soon(events.cancel, "a", context=Context())
            turn = await asyncio.wait_for(there, PATIENCE_S)
            return [seen.outcome for seen in turn.observations]

    assert asyncio.run(main()) == ["cancelled"]
