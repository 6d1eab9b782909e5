"""Calls of a pydantic-ai agent that run once: the real agent, run with the same history again, and deferred."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamtools import tool
from streamtools.dispatch import MemoryStore, SqliteStore
from streamtools.dispatch.endings import DONE_BEFORE
from streamtools.errors import ToolNotStarted

pytest.importorskip("pydantic_ai")
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    ApprovalRequired,
    BinaryContent,
    CallDeferred,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    ToolReturn,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from streamtools.integrations.pydantic_ai import CallsToolset

pytestmark = pytest.mark.anyio

effects: Counter[str] = Counter()
breaks: set[str] = set()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    effects.clear()
    breaks.clear()


class Receipt(BaseModel):
    to: str


def pay(n: int) -> Receipt:
    """Pay somebody."""
    effects[f"pay {n}"] += 1
    return Receipt(to=f"number {n}")


def words(n: int) -> str:
    """Say something."""
    effects[f"words {n}"] += 1
    return f"said {n}"


def charge(n: int) -> str:
    """Charge, and fail."""
    effects[f"charge {n}"] += 1
    raise ValueError("the receipt could not be printed")


def approved(ctx: Any, n: int) -> str:
    """Pay if a person agrees."""
    if not ctx.tool_call_approved:
        effects["asked"] += 1
        raise ApprovalRequired
    effects[f"approved {n}"] += 1
    return f"approved {n}"


approved.__annotations__ = {"ctx": RunContext, "n": int, "return": str}


def later(n: int) -> str:
    """Answer later."""
    effects[f"later {n}"] += 1
    raise CallDeferred


def picky(n: int) -> str:
    """Want another number."""
    effects[f"picky {n}"] += 1
    raise ModelRetry("smaller, please")


def closed(n: int) -> str:
    """Fail before anything has happened."""
    effects[f"closed {n}"] += 1
    raise ToolNotStarted("the bank is closed")


def picture(n: int) -> Any:
    """Return an image beside a text."""
    effects[f"picture {n}"] += 1
    return ToolReturn(f"drawn {n}", content=["look:", BinaryContent(b"png", media_type="image/png")], metadata={"n": n})


def agent_of(store: Any, *names: str, **more: Any) -> Any:
    """An agent as after a restart; its model makes these calls at first, and answers when there are results."""

    def model(messages: list[ModelMessage], _: Any) -> ModelResponse:
        last = messages[-1]
        if isinstance(last, ModelRequest) and any(part.part_kind == "tool-return" for part in last.parts):
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, {"n": 1}, f"call_{at}") for at, name in enumerate(names, 1)])

    tools = FunctionToolset([pay, words, charge, approved, later, picky, closed, picture])
    toolset = CallsToolset(tools, store=store, **more)
    return Agent(FunctionModel(model), toolsets=[toolset], output_type=[str, DeferredToolRequests])


def kept(messages: list[ModelMessage]) -> list[ModelMessage]:
    """A history as it comes out of a file."""
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


def results(messages: list[ModelMessage]) -> list[Any]:
    parts = [part for message in messages for part in message.parts]
    return [part.content for part in parts if part.part_kind in ("tool-return", "retry-prompt")]


async def history_of(store: Any, *names: str) -> list[ModelMessage]:
    """The history up to the model's answer, whose calls have run meanwhile."""
    seen: list[ModelMessage] = []
    async with agent_of(store, *names).iter("go") as run:
        try:
            async for _ in run:
                seen = list(run.all_messages())
        except (ValueError, ToolNotStarted):
            pass
        messages = run.all_messages()
    return kept((messages or seen)[:2])


async def test_the_same_history_again_after_a_crash_repeats_no_call(store: SqliteStore) -> None:
    history = await history_of(store, "pay", "picture")
    run = await agent_of(store).run(message_history=history)
    assert (run.output, effects) == ("done", {"pay 1": 1, "picture 1": 1})
    paid, drawn = results(run.all_messages())
    assert (paid, drawn) == ({"to": "number 1"}, "drawn 1")
    (prompt,) = [
        part for message in run.all_messages()[2:] for part in message.parts if part.part_kind == "user-prompt"
    ]
    assert [getattr(one, "data", one) for one in prompt.content] == ["look:", b"png"]


async def test_the_same_history_again_reads_the_failure_of_a_call(store: SqliteStore) -> None:
    history = await history_of(store, "charge")
    run = await agent_of(store).run(message_history=history)
    assert effects == {"charge 1": 1}
    assert results(run.all_messages()) == ["Error: the tool charge raised ValueError"]


async def test_a_call_that_has_had_no_effect_runs_again(store: SqliteStore) -> None:
    history = await history_of(store, "closed")
    with pytest.raises(ToolNotStarted):
        await agent_of(store).run(message_history=history)
    assert effects == {"closed 1": 2}


async def test_a_call_that_asks_for_another_is_a_failure_in_its_words_also_from_the_record(store: SqliteStore) -> None:
    history = await history_of(store, "picky")
    run = await agent_of(store).run(message_history=history)
    assert (effects, len(results(run.all_messages()))) == ({"picky 1": 1}, 1)
    assert "smaller, please" in str(results(run.all_messages())[0])


async def test_of_parallel_calls_of_which_one_is_deferred_each_has_run_once_in_the_end(store: SqliteStore) -> None:
    first = await agent_of(store, "pay", "approved", "later").run("go")
    assert [call.tool_name for call in first.output.approvals + first.output.calls] == ["approved", "later"]
    # Another process has asked the person, from the history before the results were put into it.
    for history in (kept(first.all_messages()), kept(first.all_messages())):
        given = DeferredToolResults(approvals={"call_2": True}, calls={"call_3": "it came"})
        run = await agent_of(store).run(message_history=history, deferred_tool_results=given)
        assert sorted(map(str, results(run.all_messages()))) == ["approved 1", "it came", "{'to': 'number 1'}"]
    assert effects == {"pay 1": 1, "asked": 1, "approved 1": 1, "later 1": 1}


async def test_two_answers_that_reuse_an_id_are_two_calls(store: SqliteStore) -> None:
    first = await agent_of(store, "pay").run("go")
    await agent_of(store, "pay").run("again", message_history=kept(first.all_messages()))
    assert effects == {"pay 1": 2}


async def test_a_history_without_ids_is_refused_before_anything_runs_unless_it_has_a_name() -> None:
    store = MemoryStore()
    history = [ModelRequest([UserPromptPart("go")]), ModelResponse([ToolCallPart("pay", {"n": 1}, "call_1")])]
    with pytest.raises(TypeError, match=r"response has no run_id; keep the history.*identity=lambda ctx: "):
        await agent_of(store).run(message_history=history)
    assert effects == {}
    for identity in ("order-7", lambda ctx: f"order-{ctx.tool_name}"):
        effects.clear()
        for _ in range(2):
            await agent_of(store, identity=identity).run(message_history=history)
        assert effects == {"pay 1": 1}


async def test_an_identity_that_names_nothing_is_refused() -> None:
    with pytest.raises(TypeError, match="CallsToolset: identity is a text"):
        agent_of(MemoryStore(), identity="")
    with pytest.raises(TypeError, match="identity= has to return a text that is not empty, not NoneType"):
        await agent_of(MemoryStore(), "pay", identity=lambda ctx: None).run("go")


PROGRAM = """
import asyncio, os, signal, sys
from pathlib import Path
from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from streamtools.dispatch import SqliteStore
from streamtools.integrations.pydantic_ai import CallsToolset

folder, first = Path(sys.argv[1]), sys.argv[2] == "first"

def note(text):
    with open(folder / "effects", "a") as file:
        file.write(text + " ")

async def pay(n: int) -> str:
    note("pay")
    return "paid"

async def die(n: int) -> str:
    note("die")
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return "lived"

def model(messages, info):
    if len(messages) > 1:
        return ModelResponse([TextPart("done")])
    return ModelResponse([ToolCallPart(name, {"n": 1}, name) for name in ("pay", "die")])

async def main(store):
    tools = CallsToolset(FunctionToolset([pay, die], sequential=True), store=store)
    agent = Agent(FunctionModel(model), toolsets=[tools])
    if first:
        async with agent.iter("go") as run:
            async for node in run:
                (folder / "history").write_bytes(ModelMessagesTypeAdapter.dump_json(run.all_messages()))
    else:
        history = ModelMessagesTypeAdapter.validate_json((folder / "history").read_bytes())
        run = await agent.run(message_history=history)
        print([part.content for part in run.all_messages()[2].parts])

with SqliteStore(folder / "calls.db") as store:
    asyncio.run(main(store))
"""


def test_after_a_kill_in_the_middle_the_next_process_repeats_no_call(
    tmp_path: Path, run_after_a_kill: Callable[[str], str]
) -> None:
    printed = run_after_a_kill(PROGRAM)
    assert (tmp_path / "effects").read_text() == "pay die "
    assert "how that ended is not known" in printed


async def test_an_operation_happens_once_in_its_conversation_and_the_model_reads_that_it_had(
    store: SqliteStore,
) -> None:
    known = [tool(one, operation="n") for one in (pay, words, picture)]
    first = await agent_of(store, "pay", "words", "picture", tools=known).run("go")
    again = await agent_of(store, "pay", "words", "picture", tools=known).run(
        "again", message_history=kept(first.all_messages())
    )
    assert effects == {"pay 1": 1, "words 1": 1, "picture 1": 1}
    messages = again.new_messages()
    assert results(messages)[1] == f"{DONE_BEFORE}\nsaid 1"
    assert str(messages).count(DONE_BEFORE) == 3
    assert results(messages)[2] == "drawn 1"
    with pytest.raises(TypeError, match="operation= of pay needs a store"):
        agent_of(None, "pay", tools=known)
