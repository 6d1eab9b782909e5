"""Calls of a pydantic-ai agent that run once: the real agent, run with the same history again, and deferred."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from streamtools.dispatch import MemoryStore, SqliteStore
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

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]

effects: Counter[str] = Counter()
breaks: set[str] = set()


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
