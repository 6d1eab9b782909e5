"""Realtime: calls run after a completed response only; a session's socket stays open; results go back as client events.

OpenAI's connection needs asyncio; one of websockets is tried on both event loops.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from openai.types.realtime import ConversationItemParam, RealtimeClientEventParam
from profiles import every
from pydantic import TypeAdapter
from sockets import Server, client_of, connected, serving

from streamtools import StreamDecoder, parse, pipeline, tool
from streamtools.errors import ProviderError
from streamtools.events import TextDelta, ToolCallStart, UnknownPayload
from streamtools.front import agent_loop
from streamtools.sources import responses
from streamtools.wires import detect
from streamtools.wires.openai_realtime import client_events

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

WIRE = "openai.realtime"
Payload = dict[str, Any]
RAN: list[int] = []
_CLIENT_EVENTS: TypeAdapter[Any] = TypeAdapter(list[RealtimeClientEventParam])
_ITEMS: TypeAdapter[Any] = TypeAdapter(list[ConversationItemParam])


@tool(effect="pure")
async def f(n: int) -> str:
    """Return n."""
    RAN.append(n)
    return f"got {n}"


def event(kind: str, **more: Any) -> Payload:
    return {"type": kind, "event_id": "event_1", **more}


def inside(kind: str, id_: str = "resp_1", index: int = 0, **more: Any) -> Payload:
    return event(f"response.{kind}", response_id=id_, output_index=index, **more)


def created(id_: str = "resp_1") -> Payload:
    return event("response.created", response={"object": "realtime.response", "id": id_, "status": "in_progress"})


def over(*items: Payload, id_: str = "resp_1", status: str = "completed", **details: Any) -> Payload:
    usage = {
        "input_tokens": 20,
        "output_tokens": 7,
        "input_token_details": {"cached_tokens": 12, "audio_tokens": 5},
        "output_token_details": {"audio_tokens": 3},
    }
    head = {"object": "realtime.response", "id": id_, "status": status, "output": [*items], "usage": usage}
    return event("response.done", response={**head, "status_details": {"type": status, **details}})


def call(number: int = 1) -> Payload:
    ids = {"id": f"item_{number}", "object": "realtime.item", "call_id": f"call_{number}"}
    return {**ids, "type": "function_call", "name": "f", "arguments": f'{{"n":{number}}}', "status": "completed"}


def message(words: str) -> Payload:
    content = [{"type": "output_text", "text": words}]
    return {"id": "item_m", "type": "message", "role": "assistant", "status": "completed", "content": content}


def whole(item: Payload, id_: str = "resp_1") -> list[Payload]:
    return [
        inside("output_item.added", id_, item={**item, "status": "in_progress"}),
        inside("output_item.done", id_, item=item),
    ]


def calling(number: int = 1, id_: str = "resp_1") -> list[Payload]:
    return [created(id_), *whole(call(number), id_), over(call(number), id_=id_)]


def saying(words: str, id_: str = "resp_1") -> list[Payload]:
    return [created(id_), *whole(message(words), id_), over(message(words), id_=id_)]


def agent(request: Payload) -> list[Any]:
    """The script of a session: a call for a question, words for a result."""
    agent_items = [request["item"]] if request["type"] == "conversation.item.create" else []
    _LAST.extend(agent_items)
    if request["type"] != "response.create":
        return [event("conversation.item.added", item=item) for item in agent_items]
    last = _LAST[-1]
    return calling(7) if last["type"] == "message" else saying(f"It is {last['output']}.", "resp_2")


_LAST: list[Payload] = []


@asynccontextmanager
async def sdk(respond: Any) -> AsyncIterator[tuple[Any, Server]]:
    async with (
        serving(respond) as server,
        client_of(server) as client,
        client.realtime.connect(model="m") as connection,
    ):
        yield connection, server


# -- when calls run ----------------------------------------------------------------------------------------------------


@every(
    ("last", "outcome"),
    [
        (over(call()), "ok"),
        (over(call(), status="cancelled", reason="turn_detected"), "truncated"),
        (over(call(), status="cancelled", reason="client_cancelled"), "truncated"),
        (over(call(), status="incomplete", reason="max_output_tokens"), "truncated"),
        (over(call(), status="in_progress"), "truncated"),
    ],
)
async def test_a_pure_call_waits_for_the_end_of_the_response_and_runs_only_if_that_is_completed(
    last: Payload, outcome: str
) -> None:
    RAN.clear()
    asked = anyio.Event()
    arguments = inside("function_call_arguments.done", item_id="item_1", call_id="call_1", arguments='{"n":1}')

    async def session() -> AsyncIterator[Payload]:
        for payload in (created(), whole(call())[0], arguments, whole(call())[1]):
            yield payload
        await anyio.wait_all_tasks_blocked()
        assert RAN == [], "the item is done; the response is not"
        asked.set()
        yield last

    turn = await pipeline(session(), tools=[f])
    assert asked.is_set()
    assert [seen.outcome for seen in turn.observations] == [outcome]
    assert ([1] if outcome == "ok" else []) == RAN


async def test_the_reason_of_a_response_that_was_not_completed_is_told() -> None:
    turn = parse([created(), *whole(call()), over(call(), status="cancelled", reason="turn_detected")], tools=[f])
    assert (turn.finish, turn.finish_raw, turn.complete) == ("other", "turn_detected", True)
    failed = over(status="failed", error={"type": "server_error", "code": "oops", "message": "no"})
    turn = parse([created(), *whole(call()), failed], tools=[f])
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.code, turn.error.message, [call.status for call in turn.calls]) == ("oops", "no", ["truncated"])


async def test_counts_are_those_of_text_sound_and_cache() -> None:
    usage = parse(saying("Hi")).usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.audio_input_tokens) == (20, 12, 5)
    assert (usage.output_tokens, usage.audio_output_tokens) == (7, 3)


# -- a session ---------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_an_agent_runs_over_one_session_of_the_sdk() -> None:
    RAN.clear()
    _LAST.clear()
    async with sdk(agent) as (connection, server):
        sent = 0

        async def call_model(items: list[Any], _: list[Any]) -> Any:
            nonlocal sent
            for each in client_events(items[sent:]):
                await connection.send(each)
            sent = len(items)
            return connection

        question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go"}]}
        async with agent_loop(call_model, [question], tools=[f], wire=WIRE) as run:
            turn = await run.finish()
    assert (run.outcome, turn.text, RAN) == ("answered", "It is got 7.", [7])
    items = [request.get("item", {}).get("type") for request in server.requests]
    assert items == ["message", None, "function_call_output", None]
    _CLIENT_EVENTS.validate_python(server.requests)


async def test_responses_at_once_are_a_turn_each_and_the_sessions_own_events_are_aside() -> None:
    start, late = event("session.created", session={"model": "m"}), event("input_audio_buffer.speech_started")
    both = [each for pair in zip(saying("a"), saying("b", "resp_2"), strict=True) for each in pair]
    script = [start, *both, late, *saying("c", "resp_3")]
    async with serving(lambda _: script) as server, connected(server) as socket:
        await socket.send("{}")
        texts = [(await pipeline(socket)).text for _ in range(3)]
        assert (texts, list(responses(socket).asides)) == (["a", "b", "c"], [start, late])


async def test_an_error_refuses_a_request_but_does_not_end_a_response() -> None:
    error = event("error", error={"type": "invalid_request_error", "code": "busy", "message": "no"})
    script = [error, *saying("a")[:2], error, *saying("a")[2:]]
    async with serving(lambda _: script) as server, connected(server) as socket:
        await socket.send("{}")
        with pytest.raises(ProviderError, match="no"):
            await pipeline(socket)
        turn = await pipeline(socket)
    assert (turn.text, turn.complete, [warning.code for warning in turn.warnings]) == ("a", True, ["session_error"])


# -- items -------------------------------------------------------------------------------------------------------------


def test_results_become_client_events_and_what_the_model_made_does_not() -> None:
    turn = parse(calling(), tools=[f])
    sent = client_events(turn.messages())
    assert [each["type"] for each in sent] == ["conversation.item.create", "response.create"]
    assert sent[0]["item"]["type"] == "function_call_output"
    assert client_events([], respond=False) == []
    history = client_events(turn.messages(), with_model=True, respond=False)
    assert [each["item"]["type"] for each in history] == ["function_call", "function_call_output"]
    _CLIENT_EVENTS.validate_python([*sent, *history])


@every("decision", [True, "not today"])
async def test_an_approval_of_an_mcp_call_is_answered_and_the_server_runs_it(decision: bool | str) -> None:
    request = {
        "id": "mcpr_1",
        "type": "mcp_approval_request",
        "server_label": "docs",
        "name": "find",
        "arguments": "{}",
    }

    turn = await pipeline([created(), *whole(request), over(request)], wire=WIRE, approve=lambda _: decision)
    *_, answer = turn.messages()
    assert (answer["type"], answer["approval_request_id"], answer["approve"]) == (
        "mcp_approval_response",
        "mcpr_1",
        decision is True,
    )
    assert client_events([answer])[0]["item"] == answer
    _ITEMS.validate_python([answer])


# -- detection ---------------------------------------------------------------------------------------------------------


def test_a_session_is_told_from_the_responses_api() -> None:
    for payload in (*saying("a"), event("session.created", session={}), event("rate_limits.updated", rate_limits=[])):
        assert detect(payload) == WIRE
    numbered = {"type": "response.created", "sequence_number": 0, "response": {"id": "r", "object": "response"}}
    for payload in (numbered, {**numbered, "event_id": "e"}, {"type": "response.output_text.delta", "delta": "x"}):
        assert detect(payload) == "openai.responses"


def test_sound_and_the_sessions_events_are_passed_on() -> None:
    beside = [inside("output_audio.delta", delta="QUJD"), event("input_audio_buffer.speech_started")]
    decoder = StreamDecoder(wire=WIRE)
    seen = [made for payload in (created(), *beside, over()) for made in decoder.feed(payload)] + decoder.finish()
    assert [made.raw for made in seen if isinstance(made, UnknownPayload) and "type" in made.raw] == beside
    assert not any(isinstance(made, ToolCallStart) for made in seen)


# -- other servers' words ----------------------------------------------------------------------------------------------


def test_text_streams_in_the_words_of_the_beta_too() -> None:
    sounds = [inside(f"audio.{piece}", item_id="item_m", content_index=0) for piece in ("delta", "done")]
    for words in ("text", "audio_transcript", "output_text", "output_audio_transcript"):
        field = "transcript" if "transcript" in words else "text"
        item = {**message(""), "content": [{"type": "audio" if field == "transcript" else "text", field: "Hi there"}]}
        pieces = [
            inside(f"{words}.delta", item_id="item_m", content_index=0, delta=each) for each in ("Hi", " the", "re")
        ]
        last = inside(f"{words}.done", item_id="item_m", content_index=0, **{field: "Hi there"})
        added, done = whole(item)
        added["item"]["content"] = []
        for ends, warnings in (([done, over(item)], []), ([over()], ["missing_block_stop"])):
            decoder = StreamDecoder(wire=WIRE)
            payloads = [created(), added, *pieces, last, *sounds, *ends]
            seen = [made for payload in payloads for made in decoder.feed(payload)] + decoder.finish()
            assert [made.text for made in seen if isinstance(made, TextDelta)] == ["Hi", " the", "re"], words
            assert [made.raw for made in seen if isinstance(made, UnknownPayload)] == sounds
            turn = parse(payloads)
            assert (turn.text, turn.complete, turn.wire) == ("Hi there", True, WIRE)
            assert [warning.code for warning in turn.warnings] == warnings
            assert parse([created(), added, last, *ends]).text == "Hi there"
