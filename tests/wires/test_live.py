"""Gemini Live: a call ends the response and starts at once; the socket is read beside the calls; results go back.

Google's session needs asyncio; a connection of websockets is tried on both event loops.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from google import genai
from google.genai import live, types
from profiles import every
from sockets import Server, connected, serving
from websockets.asyncio.client import connect

from streamtools import StreamDecoder, parse, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.events import ToolCallStart, ToolStarted, UnknownPayload
from streamtools.front import agent_loop
from streamtools.sources import responses
from streamtools.wires import detect
from streamtools.wires.gemini_live import client_messages, function_responses

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])

WIRE = "gemini.live"
Payload = dict[str, Any]
RAN: list[int] = []
SETUP: Payload = {"setupComplete": {"sessionId": "session-1"}}


@tool(effect="once")
async def f(n: int) -> str:
    """Return n."""
    RAN.append(n)
    return f"got {n}"


def said(words: str) -> Payload:
    return {"serverContent": {"modelTurn": {"role": "model", "parts": [{"text": words}]}}}


def over(**more: Any) -> Payload:
    usage = {"promptTokenCount": 20, "responseTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 27}
    return {"serverContent": {"turnComplete": True, **more}, "usageMetadata": usage}


def calling(*numbers: int) -> Payload:
    calls = [{"id": f"call-{number}", "name": "f", "args": {"n": number}} for number in numbers]
    return {"toolCall": {"functionCalls": calls}}


def saying(words: str) -> list[Payload]:
    return [said(words), {"serverContent": {"generationComplete": True}}, over()]


def cancelling(*numbers: int) -> Payload:
    return {"toolCallCancellation": {"ids": [f"call-{number}" for number in numbers]}}


def agent(request: Payload) -> list[Payload]:
    """The script of a session: a call for a question, words for a result."""
    if "setup" in request:
        return [SETUP]
    if "client_content" in request or "clientContent" in request:
        return [said("Let me see. "), calling(7)]
    asked = request.get("tool_response") or request["toolResponse"]
    return saying(f"It is {asked['functionResponses'][0]['response']['output']}.")


@asynccontextmanager
async def sdk(answer: Any, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Any, Server]]:
    """A session of Google's SDK, which knows encrypted sockets alone; the server here has no certificate."""

    def unencrypted(uri: str, **options: Any) -> Any:
        return connect(uri.replace("wss://", "ws://"), additional_headers=options.get("additional_headers"))

    monkeypatch.setattr(live, "ws_connect", unencrypted)
    async with serving(answer) as server:
        client = genai.Client(api_key="none", http_options={"base_url": f"http://{server.url}"})
        setup: Any = {"response_modalities": ["TEXT"], "tools": [{"function_declarations": [f.to(WIRE)]}]}
        async with client.aio.live.connect(model="m", config=setup) as session:
            yield session, server


# -- the response and its end ------------------------------------------------------------------------------------------


@every("start", ["auto", "turn_end", "pure"])
async def test_a_call_ends_the_response_so_that_even_a_call_that_waits_for_the_end_runs(start: Any) -> None:
    RAN.clear()
    turn = await pipeline([said("So. "), calling(1, 2), *saying("never read")], tools=[f], start=start)
    assert (turn.text, turn.finish, turn.finish_raw, turn.complete) == ("So. ", "tool_calls", "toolCall", True)
    assert ([1, 2] if start != "pure" else []) == sorted(RAN)


async def test_thoughts_are_output_and_counted() -> None:
    usage = parse(saying("Hi")).usage
    assert (usage.input_tokens, usage.output_tokens, usage.reasoning_tokens) == (20, 7, 3)


def test_sound_is_passed_on_and_not_kept_and_its_transcript_is_text() -> None:
    sound = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "QUJD" * 100}}
    payloads = [
        {"serverContent": {"modelTurn": {"parts": [sound]}}},
        {"serverContent": {"outputTranscription": {"text": "Hi there", "languageCode": "en"}}},
        over(),
    ]
    decoder = StreamDecoder(wire=WIRE)
    seen = [made for payload in payloads for made in decoder.feed(payload)] + decoder.finish()
    told = [made.raw for made in seen if isinstance(made, UnknownPayload)]
    assert told == [sound, {"languageCode": "en"}]
    turn = parse(payloads)
    assert turn.text == "Hi there"
    assert turn.messages() == [{"role": "model", "parts": [{"text": "Hi there"}]}]


# -- a session ---------------------------------------------------------------------------------------------------------


@on_asyncio
async def test_an_agent_runs_over_one_session_of_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    RAN.clear()
    async with sdk(agent, monkeypatch) as (session, server):

        async def call_model(contents: list[Any], _: list[Any]) -> Any:
            if answers := function_responses(contents):
                await session.send_tool_response(function_responses=answers)
            else:
                await session.send_client_content(turns=contents)
            return session

        question = {"role": "user", "parts": [{"text": "Go"}]}
        async with agent_loop(call_model, [question], tools=[f], wire=WIRE) as run:
            turn = await run.finish()
    assert (run.outcome, turn.text, RAN) == ("answered", "It is got 7.", [7])
    assert [next(iter(request)) for request in server.requests] == ["setup", "client_content", "tool_response"]
    [declared] = server.requests[0]["setup"]["tools"][0]["functionDeclarations"]
    assert declared["parameters"]["required"] == ["n"]


@on_asyncio
async def test_the_messages_of_the_sdks_own_receive_are_read_to_the_call_and_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    RAN.clear()
    async with sdk(agent, monkeypatch) as (session, _):
        await session.send_client_content(turns={"role": "user", "parts": [{"text": "Go"}]})
        first = await pipeline(session.receive(), tools=[f])
        await session.send_tool_response(function_responses=function_responses(first.messages()))
        second = await pipeline(session.receive(), tools=[f])
    assert ([first.text, second.text], RAN, first.wire) == (["Let me see. ", "It is got 7."], [7], WIRE)


@on_asyncio
async def test_fields_that_the_sdks_types_do_not_know_are_told_where_the_session_is_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(request: Payload) -> list[Payload]:
        return [SETUP] if "setup" in request else [{**said("a"), "brandNew": {"x": 1}}, over()]

    async with sdk(answer, monkeypatch) as (session, _):
        await session.send_client_content(turns={"role": "user", "parts": [{"text": "Go"}]})
        async with pipeline(session) as events:
            told = [seen.raw async for seen in events if isinstance(seen, UnknownPayload)]
    assert told == [{"brandNew": {"x": 1}}]


async def test_a_model_that_does_not_wait_goes_on_in_the_next_response() -> None:
    script = [said("One moment. "), calling(1), said("Meanwhile, "), said("this."), over(), *saying("Done.")]
    async with serving(lambda _: script) as server, connected(server) as socket:
        await socket.send("{}")
        turns = [await pipeline(socket, tools=[f]) for _ in range(3)]
    assert [turn.text for turn in turns] == ["One moment. ", "Meanwhile, this.", "Done."]
    assert [len(turn.observations) for turn in turns] == [1, 0, 0]


async def test_a_session_that_closes_before_the_end_runs_nothing_of_the_open_response() -> None:
    RAN.clear()
    pieces = {"toolCall": {"functionCalls": [{"id": "call-1", "name": "f", "willContinue": True}]}}
    async with serving(lambda _: [said("a"), pieces]) as server, connected(server) as socket:
        await socket.send("{}")
        with pytest.raises(TruncatedStream):
            async with pipeline(socket, tools=[f]) as events:
                async for seen in events:
                    if isinstance(seen, ToolCallStart):
                        await server.hang_up()
    assert RAN == []


SOUND: Payload = {
    "serverContent": {"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm", "data": "QQ=="}}]}}
}


def heard(words: str, **more: Any) -> Payload:
    return {"serverContent": {"outputTranscription": {"text": words, **more}}}


async def test_a_transcript_that_comes_after_its_turn_is_not_the_next_turns_text() -> None:
    user, start = {"serverContent": {"inputTranscription": {"text": "And?"}}}, [SOUND, heard("One")]
    for between, aside, second in (
        ([heard(" two.")], 1, "Three."),
        ([heard(" two"), {"sessionResumptionUpdate": {}}, heard(".", finished=True)], 3, "Three."),
        ([heard(" two."), user, heard("So: ")], 2, "So: Three."),
        ([heard(" two.", finished=True), heard("So: ")], 1, "So: Three."),
        ([user, heard("So: ")], 1, "So: Three."),
    ):
        script = [*start, over(), *between, SOUND, heard("Three."), over()]
        async with serving(lambda _, script=script: script) as server, connected(server) as socket:  # type: ignore[misc]
            await socket.send("{}")
            with anyio.fail_after(30):
                texts = [(await pipeline(socket)).text for _ in range(2)]
            assert (texts, list(responses(socket).asides)) == (["One", second], between[:aside])
    assert parse([*start, over(), heard(" two."), heard("")]).text == "One two."
    turn = parse([*start, over(), heard(" two"), user, heard("Three."), SOUND, heard("Four.")])
    assert (turn.text, turn.complete) == ("One two", True)


async def test_a_transcript_begins_a_turn_behind_one_that_was_not_spoken() -> None:
    script = [SOUND, heard("a"), over(), *saying("b"), heard("c"), SOUND, over()]
    async with serving(lambda _: script) as server, connected(server) as socket:
        await socket.send("{}")
        with anyio.fail_after(30):
            assert [(await pipeline(socket)).text for _ in range(3)] == ["a", "b", "c"]


async def test_a_late_interruption_does_not_end_the_next_turn() -> None:
    interrupted, end = {"serverContent": {"interrupted": True}}, {"serverContent": {"turnComplete": True}}
    both = {"serverContent": {"interrupted": True, "turnComplete": True}}
    for late in ([interrupted], [interrupted, end], [both]):
        script = [*saying("a"), *late, *saying("b")]
        async with serving(lambda _, script=script: script) as server, connected(server) as socket:  # type: ignore[misc]
            await socket.send("{}")
            with anyio.fail_after(30):
                turns = [await pipeline(socket) for _ in range(2)]
            assert [(turn.text, turn.finish, turn.finish_raw) for turn in turns] == [
                ("a", "stop", "turnComplete"),
                ("b", "stop", "turnComplete"),
            ]
            assert list(responses(socket).asides) == late
    assert parse([interrupted, *saying("b")]).finish == "stop"
    assert parse([interrupted, over()]).finish == parse([said("b"), interrupted, over()]).finish == "other"


# -- calls that are taken back -----------------------------------------------------------------------------------------


async def test_a_call_that_the_session_cancels_is_stopped_while_it_runs_and_the_others_go_on() -> None:
    stopped, go_on = anyio.Event(), anyio.Event()

    @tool(name="f", effect="once")
    async def slow(n: int) -> str:
        """Wait."""
        try:
            await (go_on.wait() if n == 2 else anyio.sleep_forever())
        finally:
            if n == 1:
                stopped.set()
        return f"done {n}"

    async with serving(lambda _: [calling(1, 2)]) as server, connected(server) as socket:
        await socket.send("{}")
        async with pipeline(socket, tools=[slow]) as events:
            started = 0
            async for seen in events:
                if isinstance(seen, ToolStarted) and (started := started + 1) == 2:
                    await server.send({"serverContent": {"interrupted": True}}, cancelling(1), over(), *saying("Yes?"))
                    with anyio.fail_after(30):
                        await stopped.wait()
                    go_on.set()
        turn = events.turn
        outcomes = {seen.call_id: (seen.outcome, seen.value) for seen in turn.observations}
        assert outcomes["call-1"][0] == "cancelled"
        assert outcomes["call-2"] == ("ok", "done 2")
        assert [answer["id"] for answer in function_responses(turn.messages(), leave_out=["call-1"])] == ["call-2"]
        assert (await pipeline(socket)).text == "Yes?", "what came meanwhile waits for its reader"


async def test_a_call_that_the_session_cancels_before_its_turn_to_run_never_runs() -> None:
    RAN.clear()
    gate = anyio.Event()

    @tool(name="f", effect="once", max_concurrency=1)
    async def queued(n: int) -> str:
        """Wait."""
        RAN.append(n)
        await gate.wait()
        return "done"

    async with serving(lambda _: [calling(1, 2)]) as server, connected(server) as socket:
        await socket.send("{}")
        async with pipeline(socket, tools=[queued]) as events:
            async for seen in events:
                if isinstance(seen, ToolStarted):
                    await server.send(cancelling(2, 9))
                if isinstance(seen, UnknownPayload):
                    gate.set()
    assert RAN == [1]
    assert {seen.call_id: seen.outcome for seen in events.turn.observations} == {"call-1": "ok", "call-2": "cancelled"}


async def test_a_cancellation_that_comes_when_all_calls_are_over_is_aside_and_the_next_response_is_read() -> None:
    async with serving(lambda _: [calling(1)]) as server, connected(server) as socket:
        await socket.send("{}")
        assert [seen.outcome for seen in (await pipeline(socket, tools=[f])).observations] == ["ok"]
        await server.send(cancelling(1), *saying("Next."))
        assert (await pipeline(socket)).text == "Next."
        assert list(responses(socket).asides) == [cancelling(1)]


async def test_a_socket_that_closes_while_calls_run_ends_no_call() -> None:
    closed = anyio.Event()

    @tool(name="f", effect="once")
    async def slow(n: int) -> str:
        """Wait."""
        await closed.wait()
        return "done"

    async with serving(lambda _: [calling(1)]) as server, connected(server) as socket:
        await socket.send("{}")
        async with pipeline(socket, tools=[slow]) as events:
            async for seen in events:
                if isinstance(seen, ToolStarted):
                    await server.hang_up()
                    closed.set()
        assert [seen.outcome for seen in events.turn.observations] == ["ok"]


# -- messages ----------------------------------------------------------------------------------------------------------


def test_results_become_one_message_and_a_history_another() -> None:
    turn = parse([said("a"), calling(1, 2)], tools=[f])
    [answer] = client_messages(turn.messages(), scheduling="SILENT")
    asked = answer["toolResponse"]["functionResponses"]
    assert [(each["id"], each["name"], each["scheduling"]) for each in asked] == [
        ("call-1", "f", "SILENT"),
        ("call-2", "f", "SILENT"),
    ]
    types.LiveClientToolResponse.model_validate(answer["toolResponse"])
    [history] = client_messages(turn.messages(), with_model=True)
    assert history["clientContent"]["turns"] == turn.messages()
    types.LiveClientContent.model_validate(history["clientContent"])
    question = {"role": "user", "parts": [{"text": "Go"}]}
    assert client_messages([question]) == [{"clientContent": {"turns": [question], "turnComplete": True}}]
    assert client_messages([]) == []


def test_a_session_is_told_from_generate_content() -> None:
    for payload in (SETUP, *saying("a"), calling(1), cancelling(1), {"goAway": {"timeLeft": "1s"}}):
        assert detect(payload) == WIRE
    assert detect({"server_content": {"turn_complete": True}, "usage_metadata": {}}) == WIRE
    assert detect({"usageMetadata": {"promptTokenCount": 1}}) == "gemini.generate_content"
