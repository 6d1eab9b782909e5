"""What must not happen twice happens once, whichever call asks for it, and the model reads that it had happened."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import anyio
import pytest
from once_turns import run, said
from pydantic import BaseModel
from streams import chat, stream

from streamtools import Observation, Tool, ToolContext, Trajectory, agent_loop, run_calls, tool
from streamtools.content import Text, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.dispatch.results import encode_result
from streamtools.errors import ModelRetry, ToolDefinitionError, ToolError, ToolNotStarted, ToolOutcomeUnknown

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

DONE = "An earlier call already did this, so it was not done again. The result of that call:"
FAILED = "An earlier call already tried this, so it was not tried again. That call ended like this:"
NOT_AGAIN = "It may have taken effect. Do not call it again for the same purpose: first find out, or tell the user."


class Bank:
    """Counts what was paid."""

    def __init__(self, ends: Callable[[], Any] = lambda: "paid", **options: Any) -> None:
        self.paid: list[str] = []

        @tool(**{"idempotency_key": ("to", "amount"), **options})
        async def pay(ctx: ToolContext, to: str, amount: int, memo: str = "", on: date | None = None) -> Any:
            """Pay somebody."""
            self.paid.append(ctx.idempotency_key)
            await anyio.lowlevel.checkpoint()
            value = ends()
            if isinstance(value, Exception):
                raise value
            return value

        self.pay = pay

    async def call(
        self, call_id: str, store: Any, run_id: str = "r", conversation_id: str | None = None, **more: Any
    ) -> Observation:
        calls = [(call_id, "pay", {"to": "Ada", "amount": 7, **more})]
        trajectory = Trajectory(run_id=run_id, conversation_id=conversation_id)
        return (await run_calls(calls, [self.pay], store=store, trajectory=trajectory)).observations[0]


async def test_a_repetition_under_another_id_is_answered_from_the_record_and_says_so() -> None:
    bank, store = Bank(), MemoryStore()
    first, again, other = [await bank.call(*each) for each in (("a", store), ("b", store), ("c", store))]
    same = await bank.call("a", store)
    elsewhere = await bank.call("d", store, amount=8)
    assert [len(bank.paid), first.model_content, same.model_content] == [2, "paid", "paid"]
    assert [one.recorded for one in (first, again, other, same, elsewhere)] == [False, True, True, True, False]
    assert again.model_content == other.model_content == f"{DONE}\npaid"
    assert (again.outcome, again.value, again.attempts) == ("ok", "paid", 0)
    assert first.idempotency_key == again.idempotency_key == bank.paid[0] != bank.paid[1]


async def test_parallel_repetitions_in_one_turn_have_one_effect() -> None:
    bank, store = Bank(), MemoryStore()
    calls = [said("pay", call_id, to="Ada", amount=7, memo=call_id) for call_id in "abcde"]
    seen = await run(calls, bank.pay, store)
    assert len(bank.paid) == 1
    assert sorted(one.model_content for one in seen.observations.values()) == [*[f"{DONE}\npaid"] * 4, "paid"]


async def test_how_a_repetition_ends_follows_from_how_the_first_call_ended() -> None:
    cases: list[tuple[str, Any, int, str]] = [
        ("a value", {"id": 7}, 1, f'{DONE}\n{{"id":7}}'),
        ("blocks", ToolResult(blocks=["paid"]), 1, f"{DONE}\npaid"),
        ("a complaint", ToolResult(blocks=["no money"], is_error=True), 1, f"{FAILED}\nError: no money"),
        ("words", ToolError("no money"), 1, f"Error: {FAILED} no money"),
        ("an exception", KeyError("x"), 1, f"Error: {FAILED} the tool pay raised KeyError"),
        ("no effect", ToolNotStarted("the bank is closed"), 2, "Error: the bank is closed"),
        (
            "unsure",
            ToolOutcomeUnknown("no answer"),
            1,
            f"Error: not run again: the call was begun before, and its end is unknown\n{NOT_AGAIN}",
        ),
    ]
    wrong = []
    for name, end, times, text in cases:
        bank, store = Bank(lambda end=end: end), MemoryStore()  # type: ignore[misc]
        first, again = await bank.call("a", store), await bank.call("b", store)
        if (len(bank.paid), again.model_content) != (times, text) or again.outcome != first.outcome:
            wrong.append((name, len(bank.paid), again.outcome, again.model_content))
    assert wrong == []
    assert isinstance(again.result, ToolResult | None)


async def test_the_blocks_of_a_repetition_begin_with_a_note() -> None:
    bank, store = (
        Bank(lambda: ToolResult(blocks=["paid"], native={"anthropic.messages": [{"type": "text"}]})),
        MemoryStore(),
    )
    first, again = await bank.call("a", store), await bank.call("b", store)
    assert (again.result.blocks, again.result.native) == ((Text(DONE), *first.result.blocks), {})


async def test_an_operation_is_one_thing_per_run_per_conversation_or_for_ever() -> None:
    places = [("r1", "c1"), ("r2", "c1"), ("r3", "c2")]
    for scope, effects in (("run", 3), ("conversation", 2), ("forever", 1)):
        bank, store = Bank(scope=scope), MemoryStore()
        for number, (run_id, talk) in enumerate(places):
            await bank.call(f"call_{number}", store, run_id, talk)
        assert len(bank.paid) == effects, scope


async def test_what_is_done_is_named_by_validated_arguments_and_their_defaults() -> None:
    whole = ("to", "amount", "memo", "on")
    cases: list[tuple[Any, dict[str, Any], dict[str, Any], bool]] = [
        (("to", "amount"), {"amount": 7}, {"amount": "7"}, True),
        (("to", "amount"), {"memo": "x"}, {"memo": "y"}, True),
        (whole, {}, {"memo": ""}, True),
        (whole, {"on": "2026-01-02"}, {"on": "2026-01-02T00:00:00"}, True),
        (whole, {"memo": "x"}, {"memo": "y"}, False),
        ("to", {"amount": 7}, {"amount": 8}, True),
        (lambda given: given["to"].casefold(), {"to": "ADA"}, {"to": "ada"}, True),
        (lambda given: {"b": given["amount"], "a": 1}, {"amount": 1}, {"amount": 2}, False),
    ]
    for number, (operation, one, other, is_same) in enumerate(cases):
        bank, store = Bank(idempotency_key=operation), MemoryStore()
        await bank.call("a", store, **one)
        await bank.call("b", store, **other)
        assert (len(bank.paid) == 1) is is_same, number


class Payment(BaseModel):
    to: str
    amount: int = 7
    tags: set[int] = set()


async def test_an_operation_is_named_alike_whatever_has_made_the_tool_and_however_a_set_is_ordered() -> None:
    paid: list[str] = []

    def with_model(payment: Payment) -> str:
        paid.append("")
        return "paid"

    @tool(idempotency_key=("to", "tags"))
    def with_set(to: str, tags: set[int]) -> str:
        """Pay."""
        paid.append("")
        return "paid"

    @tool(idempotency_key=lambda given: [given["payment"]])
    def whole(payment: Payment) -> str:
        """Pay."""
        paid.append("")
        return "paid"

    def foreign(arguments: dict[str, Any]) -> str:
        paid.append("")
        return "paid"

    schema = {"type": "object", "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}}}
    by_schema = Tool.from_schema(
        foreign, schema, name="by_schema", description="Pay.", pass_as="mapping", idempotency_key=("to", "amount")
    )
    by_model = Tool.from_model(
        Payment, with_model, name="by_model", description="Pay.", idempotency_key=("to", "amount")
    )
    ada, back_and_forth = {"to": "Ada"}, [{"to": "Ada", "tags": tags} for tags in ([0, 8], [8, 0])]  # 0 and 8 collide
    cases: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
        (by_model, {**ada, "tags": [1]}, {**ada, "amount": 7}),
        (with_set, *back_and_forth),
        (whole, {"payment": back_and_forth[0]}, {"payment": back_and_forth[1]}),
        (by_schema, ada, {**ada, "more": 1}),
    ]
    for made, one, other in cases:
        paid.clear()
        calls = [("a", made.name, one), ("b", made.name, other)]
        turn = await run_calls(calls, [made], store=MemoryStore(), identity="m")
        ends = sorted((seen.outcome, seen.recorded) for seen in turn.observations)  # either thread may be the first
        assert ends == [("ok", False), ("ok", True)], made.name
        assert len(paid) == 1


async def test_a_call_that_is_wanted_with_other_arguments_is_not_on_record_for_its_operation() -> None:
    ends: list[Any] = [ModelRetry("the memo is too long"), "paid"]
    bank, store = Bank(lambda: ends.pop(0)), MemoryStore()
    first, again = await bank.call("a", store, memo="x" * 99), await bank.call("b", store, memo="x")
    assert (first.outcome, again.outcome, again.value, again.recorded) == ("failed", "ok", "paid", False)


async def test_a_conversation_goes_on_in_the_next_run_and_in_calls_at_hand() -> None:
    bank, store = Bank(scope="conversation"), MemoryStore()
    bodies = iter([chat(calls=[said("pay", "a", to="Ada", amount=7)]), chat(["Done."], finish="stop")] * 2)

    async def ask(messages: Any, tools: Any) -> Any:
        return stream(next(bodies))

    for _ in range(2):
        await agent_loop(
            ask,
            [{"role": "user", "content": "Pay Ada."}],
            tools=[bank.pay],
            wire="openai.chat_completions",
            store=store,
            conversation_id="c1",
        )
    assert len(bank.paid) == 1
    for scope in ("run", "conversation"):
        other = Bank(scope=scope)
        for identity in ("m1", "m2"):  # calls at hand have no run but their conversation
            talk = Trajectory(conversation_id="c2")
            calls = [("a", "pay", {"to": "Ada", "amount": 7})]
            await run_calls(calls, [other.pay], store=store, identity=identity, trajectory=talk)
        assert len(other.paid) == 1, scope


async def test_a_call_whose_idempotency_key_cannot_be_made_does_not_run() -> None:
    for operation in (lambda given: given["nothing"], lambda given: None, lambda given: object()):
        bank = Bank(idempotency_key=operation)
        seen = await bank.call("a", MemoryStore())
        assert (seen.outcome, bank.paid) == ("failed", [])
        assert seen.model_content.startswith("Error: not run: the idempotency key of pay raised ")


async def test_a_result_that_a_person_has_put_on_record_answers_a_repetition() -> None:
    bank, store = Bank(lambda: ToolOutcomeUnknown("no answer")), MemoryStore()
    first = await bank.call("a", store)
    await store.complete(first.idempotency_key, encode_result("paid by hand"))
    assert (await bank.call("b", store)).model_content == f"{DONE}\npaid by hand"


async def test_what_an_operation_needs_is_said_before_anything_runs() -> None:
    bank = Bank(scope="conversation")
    with pytest.raises(TypeError, match=r"idempotency_key= of pay needs a store .*: store=SqliteStore\(path\)"):
        run_calls([("a", "pay", {})], [bank.pay])
    with pytest.raises(
        TypeError, match=r"idempotency_key= of pay is per conversation; name the conversation: trajectory=Trajectory\("
    ):
        run_calls([("a", "pay", {})], [bank.pay], store=MemoryStore(), identity="x")
    for options, text in (
        (
            {"idempotency_key": ("to", "amout")},
            r"idempotency_key: expected one of its arguments \(to, amount, .*\), got 'amout'",
        ),
        ({"idempotency_key": 7}, "idempotency_key: expected the names of arguments, or a plain function"),
        ({"idempotency_key": ()}, "idempotency_key: expected the names of arguments"),
        ({"idempotency_key": "to", "effect": "pure"}, "idempotency_key: a 'pure' tool may run again"),
        (
            {"idempotency_key": None, "scope": "forever"},
            "scope='forever' belongs to an idempotency key; pass idempotency_key=, too",
        ),
        ({"scope": "day"}, "scope: expected 'run', 'conversation' or 'forever', got 'day'"),
    ):
        with pytest.raises(ToolDefinitionError, match=text):
            Bank(**options)
