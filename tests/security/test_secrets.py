"""What a call is about is nobody else's business: arguments, results and what tools raise are in no repr, message, log
record, span or record of ours unless somebody asks for them."""

from __future__ import annotations

import json
import logging
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from kept_spans import kept_spans
from pydantic import BaseModel, field_validator
from streams import anthropic, chat, chat_chunk, sse, stream
from telemetry.scripted import capturing

from streamtools import ApprovalRequested, Limits, Observation, Pipeline, ToolContext, parse, pipeline, tool
from streamtools.content import ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.errors import StreamError
from streamtools.events import Event, ReasoningDelta, RefusalDelta, TextDelta
from streamtools.observers import Cursor
from streamtools.telemetry import Tracing
from streamtools.telemetry.setup import to_otlp
from streamtools.tools import Tool

SECRET = "hunter2-swordfish"
DIGITS = 8_675_309_1337
SECRETS = (SECRET, str(DIGITS))


class Login(BaseModel):
    user: str
    password: str

    @field_validator("user")
    @classmethod
    def _known(cls, user: str) -> str:
        if user != "known":
            raise ValueError("nobody of that name")
        return user


@tool(effect="pure")
async def give(value: str) -> dict[str, str]:
    """Give it back."""
    return {"value": value, "token": SECRET}


@tool(effect="pure")
async def blocks(value: str) -> ToolResult:
    """Give it as blocks."""
    return ToolResult(blocks=[SECRET], value={"token": SECRET})


@tool(effect="pure")
async def explode(value: str) -> str:
    """Fail."""
    raise RuntimeError(f"cannot log in with {value} and {SECRET}")


@tool(effect="pure")
def explode_in_a_thread(value: str) -> str:
    """Fail."""
    raise KeyError(value)


@tool(effect="pure", timeout=0.01)
async def hang(value: str) -> str:
    """Hang."""
    await anyio.sleep_forever()
    return value


@tool(effect="pure")
async def count(number: int, login: Login | None = None) -> int:
    """Count."""
    return number


@tool(effect="pure")
async def report(value: str, ctx: ToolContext) -> str:
    """Report progress."""
    ctx.progress({"so far": value})
    return value


@tool(effect="pure")
async def unwritable(value: str) -> Any:
    """Return what no JSON can hold."""
    return {SECRET: object()}


@tool(conflict_key=lambda arguments: [arguments["value"]], effect="idempotent")
async def keyless(value: str) -> str:
    """Have a key that is none."""
    return value


@tool
async def once(value: str) -> str:
    """Do it once."""
    return value


@tool(needs_approval=True)
async def gated(value: str) -> str:
    """Do it if it was approved."""
    return value


@tool(needs_approval=lambda arguments: [][arguments["value"]])
async def asks_badly(value: str) -> str:
    """Have a predicate that fails."""
    return value


FOREIGN = {
    "type": "object",
    "properties": {"value": {"type": "integer"}, "kind": {"enum": ["a"]}, "code": {"pattern": "^a$"}},
    "additionalProperties": False,
}


async def _foreign(**arguments: Any) -> str:
    return SECRET


foreign = Tool.from_schema(_foreign, FOREIGN, name="foreign", description="Foreign.", effect="pure")

TOOLS = [
    *(give, blocks, explode, explode_in_a_thread, hang, count, report, unwritable, keyless, once, gated),
    *(asks_badly, foreign),
]

CALLS: dict[str, tuple[str, str, str]] = {
    "ok": ("give", json.dumps({"value": SECRET}), "ok"),
    "blocks": ("blocks", json.dumps({"value": SECRET}), "ok"),
    "progress": ("report", json.dumps({"value": SECRET}), "ok"),
    "coerced": ("count", json.dumps({"number": str(DIGITS)}), "ok"),
    "raised": ("explode", json.dumps({"value": SECRET}), "failed"),
    "raised in a thread": ("explode_in_a_thread", json.dumps({"value": SECRET}), "failed"),
    "timed out": ("hang", json.dumps({"value": SECRET}), "timed_out"),
    "no key": ("keyless", json.dumps({"value": SECRET}), "failed"),
    "a predicate that fails": ("asks_badly", json.dumps({"value": SECRET}), "failed"),
    "unwritable": ("unwritable", json.dumps({"value": SECRET}), "failed"),
    "wrong type": ("count", json.dumps({"number": SECRET}), "invalid"),
    "wrong number": ("give", json.dumps({"value": DIGITS}), "invalid"),
    "wrong inside": ("count", json.dumps({"number": 1, "login": {"user": SECRET, "password": SECRET}}), "invalid"),
    "missing inside": ("count", json.dumps({"number": 1, "login": {"password": SECRET}}), "invalid"),
    "text inside": ("count", json.dumps({"number": 1, "login": json.dumps({"password": SECRET})}), "invalid"),
    "extra": ("give", json.dumps({"value": "x", "other": SECRET}), "invalid"),
    "foreign type": ("foreign", json.dumps({"value": SECRET}), "invalid"),
    "foreign enum": ("foreign", json.dumps({"kind": SECRET}), "invalid"),
    "foreign pattern": ("foreign", json.dumps({"code": SECRET}), "invalid"),
    "foreign extra": ("foreign", json.dumps({"other": {"deep": SECRET}}), "invalid"),
    "foreign ok": ("foreign", "{}", "ok"),
    "no json": ("give", f"{{value: {SECRET}", "invalid"),
    "no object": ("give", json.dumps([SECRET]), "invalid"),
    "two values": ("give", json.dumps({"value": SECRET}) * 2, "invalid"),
    "unknown tool": ("nothing", json.dumps({"value": SECRET}), "unknown_tool"),
    "cut": ("give", f'{{"value": "{SECRET}', "truncated"),
}


@dataclass
class Told:
    """All that the library said of a run, by where it said it."""

    by_place: dict[str, str] = field(default_factory=dict)
    observations: list[Observation] = field(default_factory=list)

    def check(self) -> None:
        for place, text in self.by_place.items():
            for secret in SECRETS:
                assert secret not in text, f"{place}: …{text[max(0, text.find(secret) - 200) :][:400]}"


def of_errors(error: BaseException | None) -> Iterator[str]:
    """An error as it prints, and what stands behind it, but for what a tool of the user's raised itself."""
    while error is not None:
        yield "".join(traceback.format_exception_only(error))
        yield repr(error)
        yield str(vars(error))
        if type(error).__name__ in ("ToolFailed", "ToolTimeout"):
            return
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


async def run(body: list[bytes], caplog: pytest.LogCaptureFixture, **options: Any) -> Told:
    (provider, exporter), told = kept_spans(), Told()
    cursor = Cursor()
    observers = [Tracing(provider), cursor]
    caplog.set_level(logging.DEBUG)
    seen: list[Event] = []
    raised: BaseException | None = None
    events: Pipeline | None = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            async with pipeline(stream(body), tools=TOOLS, observers=observers, **options) as events:
                async for event in events:
                    seen.append(event)
        except StreamError as error:
            raised = error
    turn, spans = events.turn, exporter.get_finished_spans()
    assert spans
    told.observations = list(turn.observations)
    told.by_place = {
        "events": "\n".join(repr(e) for e in seen if not isinstance(e, (TextDelta, ReasoningDelta, RefusalDelta))),
        "turn": repr(turn),
        "calls": repr(turn.calls),
        "pipeline": repr(events),
        "cursor": repr(cursor) + "".join(map(str, cursor)),
        "reports": "\n".join(observation.report() for observation in turn.observations),
        "errors": "\n".join(text for o in turn.observations for text in of_errors(o.error)),
        "validation errors": "\n".join(observation.validation_error or "" for observation in turn.observations),
        "coercions": "\n".join(str(observation.coercions) for observation in turn.observations),
        "raised": "\n".join(of_errors(raised)),
        "log": "\n".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records),
        "python's warnings": "\n".join(str(warning.message) for warning in caught),
        "spans": "\n".join(span.to_json() for span in spans),
        "otlp": json.dumps(to_otlp(spans)),
    }
    provider.shutdown()
    return told


@pytest.mark.anyio
@pytest.mark.parametrize("case", CALLS)
async def test_a_secret_of_a_call_is_told_nowhere(case: str, caplog: pytest.LogCaptureFixture) -> None:
    name, arguments, outcome = CALLS[case]
    body = (anthropic if outcome == "truncated" else chat)(calls=[("call_1", name, arguments)])
    if outcome == "truncated":
        body = chat(calls=[("call_1", name, arguments)], finish="length")
    told = await run(body, caplog)
    (observation,) = told.observations
    assert observation.outcome == outcome
    told.check()


def fails(event: ApprovalRequested) -> bool:
    raise RuntimeError(str(event.arguments))


APPROVERS: dict[str, tuple[Any, str]] = {
    "approved": (lambda event: True, "ok"),
    "denied": (lambda event: "not today", "denied"),
    "failing": (fails, "denied"),
    "undecided": (None, "skipped"),
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", APPROVERS)
async def test_a_call_that_waits_for_an_approval_tells_nothing(case: str, caplog: pytest.LogCaptureFixture) -> None:
    approve, outcome = APPROVERS[case]
    told = await run(chat(calls=[("c", "gated", json.dumps({"value": SECRET}))]), caplog, approve=approve)
    assert [observation.outcome for observation in told.observations] == [outcome]
    assert "ApprovalRequested" in told.by_place["events"]
    told.by_place["errors"] = "\n".join(
        repr(observation.error) for observation in told.observations
    )  # not their causes
    told.check()


@pytest.mark.anyio
async def test_a_call_that_a_store_knows_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore()
    for _ in range(2):
        told = await run(chat(calls=[("c", "once", json.dumps({"value": SECRET}))]), caplog, store=store)
        told.check()
    assert SECRET not in repr(store)


@pytest.mark.anyio
@pytest.mark.parametrize("wire", [chat, anthropic], ids=["chat", "anthropic"])
async def test_a_stream_that_breaks_in_a_call_tells_nothing_of_it(wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    whole = wire(calls=[("call_1", "once", json.dumps({"value": SECRET}))])
    for end in range(3, len(whole)):
        caplog.clear()
        told = await run(whole[:end], caplog)
        told.check()


@pytest.mark.anyio
async def test_a_limit_that_a_call_exceeds_tells_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    calls = [(f"c{number}", "once", json.dumps({"value": SECRET})) for number in range(3)]
    for setting in ("max_argument_bytes", "max_total_argument_bytes", "max_tool_calls", "max_event_bytes"):
        caplog.clear()
        limits = Limits(**{setting: 2 if setting == "max_tool_calls" else 60 if "total" in setting else 20})
        told = await run(chat(calls=calls), caplog, limits=limits)
        told.check()


@pytest.mark.anyio
async def test_who_leaves_while_a_call_runs_leaves_nothing_of_it(caplog: pytest.LogCaptureFixture) -> None:
    provider, exporter = kept_spans()
    caplog.set_level(logging.DEBUG)

    @tool(effect="pure")
    async def wait(value: str) -> str:
        """Wait."""
        try:
            await anyio.sleep_forever()
        finally:
            raise RuntimeError(value)

    body = chat(calls=[("c", "wait", json.dumps({"value": SECRET}))])
    async with pipeline(stream(body), tools=[wait], observers=[Tracing(provider)]) as events:
        async for event in events:
            if type(event).__name__ == "ToolStarted":
                break
    (observation,) = events.turn.observations
    text = observation.report() + repr(observation) + repr(events.turn) + caplog.text
    text += "".join(span.to_json() for span in exporter.get_finished_spans())
    assert SECRET not in text
    provider.shutdown()


def test_of_a_response_a_turns_repr_shows_the_beginning_of_its_text_alone() -> None:
    delta = {"content": "x" * 200 + SECRET, "reasoning_content": "y" * 200 + SECRET, "refusal": "z" * 200 + SECRET}
    turn = parse(sse([chat_chunk(delta), chat_chunk({}, "stop")]))
    assert all(text.endswith(SECRET) for text in (turn.text, turn.reasoning, turn.refusal))
    shown = repr(turn)
    assert SECRET not in shown
    assert all(f"{letter * 100}'…" in shown for letter in "xyz")


@pytest.mark.anyio
async def test_content_is_in_reprs_where_the_developers_variable_is_set_to_1_alone(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value, places in (("1", ("events", "turn", "calls", "pipeline", "cursor")), ("0", ()), ("", ())):
        monkeypatch.setenv("STREAMTOOLS_DEBUG", value)
        told = await run(chat(calls=[("c", "give", json.dumps({"value": SECRET}))]), caplog)
        for place in places:
            assert SECRET in told.by_place.pop(place), place
        told.check()


def test_what_a_provider_wants_back_is_in_no_repr() -> None:
    body = sse(
        [
            {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": SECRET}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "redacted_thinking", "data": SECRET}},
            {"type": "content_block_stop", "index": 1},
            {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": "hi"}},
            {"type": "content_block_stop", "index": 2},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
            {"type": "message_stop"},
        ]
    )
    turn = parse(body)
    assert SECRET in json.dumps(turn.messages())
    assert SECRET not in repr(turn) + repr(turn.parts)


@pytest.mark.anyio
async def test_what_is_told_is_found_by_these_tests() -> None:
    """Where content is asked for it is there: the search looks at the right places."""
    provider, exporter = kept_spans()
    body = chat(calls=[("c", "give", json.dumps({"value": SECRET}))])
    turn = await pipeline(stream(body), tools=[give], observers=[capturing(provider, capture=True)])
    (observation,) = turn.observations
    assert SECRET in "".join(span.to_json() for span in exporter.get_finished_spans())
    assert SECRET in observation.report(values=True)
    assert SECRET in observation.model_content
    provider.shutdown()
