"""Clients that cannot forget text see each text once, whatever becomes of the attempts."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from asgi_client import Client
from streams import anthropic, chat, stream

from streamtools import Event, Retry, TextDelta, agent_loop, pipeline, tool
from streamtools.events import AttemptDiscarded, Observation
from streamtools.integrations import EventStreamResponse, RunEnd, encode_event
from streamtools.privacy import Privacy, redact_secrets

pytestmark = pytest.mark.anyio
CHAT = "openai.chat_completions"
AGAIN = Retry(backoff=0, after_output=True, attempts=2)
END = ["end answered"]


def words(event: Event | RunEnd) -> Any:
    """An encoder that says nothing of attempts."""
    if isinstance(event, TextDelta):
        return "shown", event.text.split("\n")
    if isinstance(event, Observation):
        return "shown", [f"{event.tool_name} {event.outcome}"]
    return ("shown", [f"end {event.outcome}"]) if isinstance(event, RunEnd) else None


class Retracting:
    """One that can say what is to be forgotten."""

    can_retract = True

    def __call__(self, event: Event | RunEnd) -> Any:
        return ("shown", ["undo"]) if isinstance(event, AttemptDiscarded) else words(event)


def broken(text: str) -> Any:
    return stream(chat([text[:1], text[1:]], finish=None))


def whole(text: str) -> Any:
    return stream(chat([text], finish="stop"))


async def shown(*bodies: Any, retry: Retry | None = AGAIN, privacy: Privacy | None = None, **options: Any) -> list[str]:
    left, client = list(bodies), Client()

    async def ask(messages: Any, tools: Any) -> Any:
        return left.pop(0)

    asked = [{"role": "user", "content": "Hi"}]
    run = agent_loop(ask, asked, wire=CHAT, retry=retry, privacy=privacy)
    with anyio.fail_after(20):
        await client.request(EventStreamResponse(run, **options))
    return [word for name, data in client.told if name == "shown" for word in data]


async def test_a_client_that_cannot_retract_gets_the_text_of_the_attempt_that_counts() -> None:
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"encode": words}, ["Sunny.", *END]),
        ({"encode": Retracting(), "can_retract": False}, ["Sunny.", *END]),
        ({"encode": Retracting()}, ["S", "u", "undo", "Sunny.", *END]),
        ({"encode": words, "can_retract": True}, ["S", "u", "Sunny.", *END]),
        ({"encode": words, "privacy": Privacy(redact=redact_secrets())}, ["Sunny.", *END]),
    ]
    for options, expected in cases:
        assert await shown(broken("Su"), whole("Sunny."), **options) == expected, options
    # What nobody asks for again is shown as far as it came, before its end.
    assert await shown(broken("Su"), broken("Sun"), encode=words) == ["S", "un", "end error"]
    # Without after_output nothing is taken back: the text streams, and the run is interrupted.
    assert await shown(broken("Su"), whole("Sunny."), encode=words, retry=Retry(backoff=0)) == ["S", "u", "end error"]

    client, bodies = Client(), [broken("Su"), whole("Sunny.")]
    await client.request(EventStreamResponse(pipeline(lambda: bodies.pop(0), wire=CHAT, retry=AGAIN)))
    assert [data["text"] for name, data in client.told if name == "text_delta"] == ["S", "u", "Sunny."]
    assert [data["from_seq"] for name, data in client.told if name == "attempt_discarded"] == [1]
    client, bodies = Client(), [broken("Su"), whole("Sunny.")]
    events = pipeline(lambda: bodies.pop(0), wire=CHAT, retry=AGAIN)
    await client.request(EventStreamResponse(events, encode=lambda event: encode_event(event)))
    assert [data["text"] for name, data in client.told if name == "text_delta"] == ["Sunny."]
    assert [name for name, _ in client.told if name == "attempt_discarded"] == []


async def test_text_that_is_held_back_streams_as_soon_as_its_answer_is_whole_while_the_calls_still_run() -> None:
    may_end = anyio.Event()

    @tool(effect="once")
    async def pay(amount: int) -> str:
        """Pay."""
        await may_end.wait()
        return "paid"

    async def on_body(body: bytes) -> None:
        if b"Now" in body:
            may_end.set()

    bodies = [
        stream(anthropic(["Now."], [("a", "pay", '{"amount": 3}')])),
        stream(anthropic(["Done."], stop="end_turn")),
    ]
    run = agent_loop(
        lambda *_: bodies.pop(0),
        [{"role": "user", "content": "Hi"}],
        tools=[pay],
        wire="anthropic.messages",
        retry=AGAIN,
    )
    client = Client(on_body)
    with anyio.fail_after(20):
        await client.request(EventStreamResponse(run, encode=words))
    assert [word for _, data in client.told for word in data] == ["Now.", "pay ok", "Done.", *END]
