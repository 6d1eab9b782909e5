"""A gate is the one way into a call that must not run twice, be it a stranger's or ours."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest
from once_turns import WAIT_S, Effects, run, said
from profiles import every
from streams import chat

from streamtools import Observation, agent_loop, tool
from streamtools.content import ToolResult
from streamtools.errors import RunTakenOver, ToolError, ToolNotStarted, ToolOutcomeUnknown
from streamtools.executors import Invocation
from streamtools.seams import CallEnd, GateView

pytestmark = pytest.mark.anyio


class Remembered:
    """A stranger's gate, which keeps calls in a dict."""

    def __init__(self) -> None:
        self.calls: dict[str, CallEnd | None] = {}

    async def look(self, call: GateView) -> CallEnd | None:
        return self.calls.get(call.key)

    async def enter(self, call: GateView) -> Inside | CallEnd:
        if call.key not in self.calls:
            self.calls[call.key] = None
            return Inside(self.calls, call.key)
        end = self.calls[call.key]
        if end is None:
            raise ToolOutcomeUnknown("not run again: the call was begun before")
        return end


class Inside:
    def __init__(self, calls: dict[str, CallEnd | None], key: str) -> None:
        self.calls, self.key = calls, key

    async def kept(self, end: CallEnd) -> None:
        self.calls[self.key] = end

    async def free(self) -> None:
        del self.calls[self.key]

    async def lost(self) -> None:
        return


@every("ends", ["done", {"id": 7}, ToolResult(blocks=["paid"]), ToolError("no money"), KeyError("x"), None])
async def test_a_call_that_a_strangers_gate_knows_is_answered_as_it_ended(ends: Any) -> None:
    gate, effects = Remembered(), Effects()
    first, again = [await run(said("pay"), effects.tool(ends), None, capabilities=[gate]) for _ in range(2)]
    assert (len(effects), first.only.recorded, again.only.recorded, again.only.attempts) == (1, False, True, 0)
    assert (again.only.outcome, again.only.model_content) == (first.only.outcome, first.only.model_content)


async def test_what_had_no_effect_may_enter_again_and_what_nobody_knows_may_not() -> None:
    for error, runs, then in (
        (ToolNotStarted("busy"), 2, "failed"),
        (ToolOutcomeUnknown("no answer"), 1, "unknown"),
    ):
        gate, effects = Remembered(), Effects()
        await run(said("pay"), effects.tool(error), None, capabilities=[gate])
        again = await run(said("pay"), effects.tool(error), None, capabilities=[gate])
        assert (len(effects), again.only.outcome) == (runs, then)


async def test_a_call_has_no_known_end_if_its_value_cannot_be_read() -> None:
    class Torn(list[int]):
        def __iter__(self) -> Any:
            raise ValueError("a secret")

    gate, effects = Remembered(), Effects()
    for _ in range(2):
        seen = (await run(said("pay"), effects.tool(Torn([1])), None, capabilities=[gate])).only
        assert (seen.outcome, "It may have taken effect." in seen.model_content, len(effects)) == ("unknown", True, 1)


class Failing(Remembered, Inside):
    def __init__(self, works: str, error: Exception) -> None:
        Remembered.__init__(self)
        self.works, self.error = works, error

    async def enter(self, call: GateView) -> Inside | CallEnd:
        if self.works == "enter":
            raise self.error
        return self

    def kept(self, end: CallEnd) -> Any:
        raise self.error  # before there is anything to await


async def test_a_gate_that_fails_runs_nothing_and_behind_the_body_it_changes_nothing() -> None:
    for works, error, expected in (
        ("enter", OSError("a secret"), ("failed", "Error: not run: the gate raised OSError", [], 0)),
        ("enter", ToolNotStarted("closed"), ("failed", "Error: closed", [], 0)),
        ("kept", OSError("a secret"), ("ok", "done", ["result_not_kept"], 1)),
    ):
        effects = Effects()
        seen = await run(said("pay"), effects.tool(), None, capabilities=[Failing(works, error)])
        assert (seen.only.outcome, seen.only.model_content, seen.warnings, len(effects)) == expected


class Odd(Remembered):
    """A gate that returns what is none of the seam's values."""

    def __init__(self, entered: Any = None, named: Any = "k") -> None:
        super().__init__()
        self.entered, self.named = entered, named

    def key(self, call: GateView) -> Any:
        return self.named

    async def look(self, call: GateView) -> Any:
        return self.entered

    async def enter(self, call: GateView) -> Any:
        return self.entered


@every("gate", [Odd(), Odd("x"), Odd(True), Odd({"kept": 1}), Odd(Inside({}, "k"), named=None)])
async def test_nothing_runs_that_a_gate_could_not_be_told_the_end_of(gate: Odd) -> None:
    effects = Effects()
    seen = await run(said("pay"), effects.tool(), None, capabilities=[gate])
    assert (seen.only.outcome, seen.only.model_content) == ("failed", "Error: not run: the gate raised TypeError")
    assert effects == []


async def test_what_a_gate_raises_for_itself_ends_neither_the_call_nor_the_run() -> None:
    effects = Effects()
    error: Any = SystemExit("a secret")
    seen = await run(said("pay"), effects.tool(), None, capabilities=[Failing("kept", error)])
    assert (seen.only.outcome, seen.warnings, len(effects)) == ("ok", ["result_not_kept"], 1)


class Overtaken:
    """An executor of a run whose lease goes to somebody else while a call of it enters."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        return

    async def run(self, call: Invocation, begin: Any, emit: Any, /) -> Any:
        with closing(sqlite3.connect(self.path, isolation_level=None)) as file:
            file.execute("BEGIN IMMEDIATE")  # the claim waits for this
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.overtake, file)
                await begin()
        raise AssertionError("it began")

    async def overtake(self, file: sqlite3.Connection) -> None:
        await anyio.wait_all_tasks_blocked()
        file.execute("UPDATE records SET rev = 1 WHERE kind = 'lease'")
        file.execute("COMMIT")


async def ask(messages: list[Any], tools: Any) -> AsyncIterator[Any]:
    for item in chat(calls=[said("pay")]) if len(messages) == 1 else chat(text=["Paid."], finish="stop"):
        await anyio.lowlevel.checkpoint()
        yield item


TOLD = [{"role": "user", "content": "Pay."}]


async def test_with_a_journal_a_call_enters_a_strangers_gate_once_its_response_is_on_record(tmp_path: Path) -> None:
    class Looking(Remembered):
        async def enter(self, call: GateView) -> Inside | CallEnd:
            with closing(sqlite3.connect(tmp_path / "runs.db")) as file:
                found.append(file.execute("SELECT count(*) FROM records WHERE kind = 'response'").fetchone()[0])
            return await super().enter(call)

    found, gate, effects = list[int](), Looking(), Effects()
    options: Any = {"wire": "openai.chat_completions", "journal": tmp_path / "runs.db", "run_id": "order-7"}
    loop = agent_loop(ask, TOLD, tools=[effects.tool()], capabilities=[gate], **options)
    await loop.finish()
    assert (loop.outcome, found, len(effects), len(gate.calls)) == ("answered", [1], 1, 1)


async def test_a_gate_that_looks_and_says_nothing_sensible_leaves_the_ends_of_calls_unknown(tmp_path: Path) -> None:
    effects, seen = Effects(), list[str]()
    gates = [Failing("enter", ToolNotStarted("busy")), Odd("x"), Odd(Inside({}, "k"), named=None)]
    for number, gate in enumerate(gates):
        options: Any = {"wire": "openai.chat_completions", "journal": tmp_path / "runs.db", "run_id": "order-7"}
        with anyio.fail_after(WAIT_S):
            async with agent_loop(ask, TOLD, tools=[effects.tool()], capabilities=[gate], **options) as loop:
                async for event in loop:
                    if isinstance(event, Observation):
                        seen.append(event.outcome)
                        break
    assert (seen, effects) == (["failed", "unknown", "failed"], [])


async def test_a_call_whose_run_loses_its_lease_while_it_enters_does_not_run_and_claims_nothing(tmp_path: Path) -> None:
    @tool(effect="once")
    async def pay() -> str:
        """Pay."""
        raise AssertionError("it ran")

    path, seen = tmp_path / "runs.db", list[Observation]()
    options: Any = {"wire": "openai.chat_completions", "journal": path, "run_id": "order-7"}
    with anyio.fail_after(WAIT_S), pytest.raises(RunTakenOver):
        async with agent_loop(ask, TOLD, tools=[pay], executor=Overtaken(path), **options) as loop:
            async for event in loop:
                if isinstance(event, Observation):
                    seen.append(event)
    assert [(one.outcome, one.attempts) for one in seen] == [("failed", 0)]
    assert isinstance(seen[0].error, ToolNotStarted)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT count(*) FROM records WHERE kind = 'call'").fetchone() == (0,)
