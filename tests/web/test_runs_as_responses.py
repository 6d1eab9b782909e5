"""`EventStreamResponse` for whole runs and opened pipelines, its frames, and clients that a run outlives."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from asgi_client import Client
from decisions import decisions_on
from streams import chat, stream

from streamtools import Event, TextDelta, agent_loop, pipeline, tool
from streamtools.durable.memory import MemoryStore
from streamtools.events import StepEnd
from streamtools.integrations import EventStreamResponse, Run, RunEnd
from streamtools.privacy import Privacy

pytestmark = pytest.mark.anyio

WIRE = "openai.chat_completions"
CALL = chat(["Wait. "], [("c1", "pay", '{"amount": 3, "card": "4111"}')])
ANSWER = chat(["Done."], finish="stop")


@tool(effect="once")
def pay(amount: int, card: str) -> str:
    """Pays an amount."""
    return f"paid {amount}"


@tool(needs_approval=True, name="pay")
def pay_if_approved(amount: int, card: str) -> str:
    """Pays an amount."""
    return f"paid {amount}"


def loop_of(*bodies: list[bytes], **options: Any) -> Any:
    left = list(bodies)
    return agent_loop(lambda *_: stream(left.pop(0)), [{"role": "user", "content": "Go."}], wire=WIRE, **options)


class Kept:
    """The run that `after` was given."""

    def __init__(self) -> None:
        self.runs: list[Any] = []
        self.event = anyio.Event()

    async def __call__(self, run: Run) -> None:
        self.runs.append(run)
        self.event.set()


async def test_a_run_that_waits_for_an_approval_ends_its_response_and_goes_on_in_the_next() -> None:
    client, kept = Client(), Kept()
    await client.request(EventStreamResponse(loop_of(CALL, tools=[pay_if_approved]), after=kept))
    assert client.told[-1] == ("run_end", {"outcome": "suspended", "call_ids": ["c1"]})
    (asked,) = [data for name, data in client.told if name == "approval_requested"]
    assert asked["arguments"] == {"amount": 3, "card": "4111"}
    run = kept.runs[0]
    assert run.suspended is not None
    again, client = [ANSWER], Client()
    next_run = agent_loop(
        lambda *_: stream(again.pop(0)),
        run.messages,
        wire=WIRE,
        tools=[pay_if_approved],
        suspended=run.suspended,
        decisions=decisions_on(run.suspended, {"c1": True}),
        store=MemoryStore(),
    )
    await client.request(EventStreamResponse(next_run, after=kept))
    assert ("observation", {"call_id": "c1", "tool_name": "pay", "outcome": "ok"}) in client.told
    assert client.told[-1] == ("run_end", {"outcome": "answered"})


async def test_arguments_to_approve_are_redacted_first_and_approved_by_their_fingerprint() -> None:
    policy = Privacy(redact=lambda text: text.replace("41", "…"))
    client, kept = Client(), Kept()
    loop = loop_of(CALL, tools=[pay_if_approved], privacy=policy)
    await client.request(EventStreamResponse(loop, after=kept))
    (asked,) = [data for name, data in client.told if name == "approval_requested"]
    assert asked["arguments"] == {"amount": 3, "card": "…11"}
    assert b"4111" not in client.body
    suspended = kept.runs[0].suspended
    assert [call.fingerprint for call in suspended.calls] == [asked["fingerprint"]]


async def test_a_run_whose_request_fails_says_so_by_its_kind_and_raises_it_to_the_server() -> None:
    def ask(*_: Any) -> Any:
        raise ConnectionRefusedError("secret.example refused")

    client = Client()
    with pytest.raises(ConnectionRefusedError):
        await client.request(EventStreamResponse(agent_loop(ask, [], wire=WIRE)))
    assert client.told[-2:] == [
        ("step_end", {"outcome": "error"}),
        ("run_end", {"outcome": "error", "kind": "connection_lost"}),
    ]
    assert "secret.example" not in str(client.body)


async def test_an_opened_pipeline_is_read_to_its_end_and_closed() -> None:
    client = Client()
    async with anyio.create_task_group() as tasks:
        events = pipeline(stream(CALL), tools=[pay]).open(tasks)
        await client.request(EventStreamResponse(events))
    assert client.told[-1] == ("run_end", {"outcome": "complete"})
    assert [seen.value for seen in events.turn.observations] == ["paid 3"]


async def test_a_protocol_of_ones_own_has_unnamed_frames_several_per_event_and_its_own_end() -> None:
    def encode(event: Event | RunEnd) -> Any:
        if isinstance(event, RunEnd):
            return b"data: [DONE]\n\n"
        if isinstance(event, TextDelta):
            return [b'data: {"type":"text-start"}\n\n', ("delta", event.text), b"data: {}\n\n"]
        return [] if isinstance(event, StepEnd) else None

    client = Client()
    await client.request(EventStreamResponse(pipeline(ANSWER), encode=encode))
    head, seq, rest = client.body.decode().partition("event: delta\nid: ")
    assert (head, seq) == ('data: {"type":"text-start"}\n\n', "event: delta\nid: ")
    assert rest.endswith("\ndata: Done.\n\ndata: {}\n\ndata: [DONE]\n\n")
