"""`EventStreamResponse` with a server played by the test, on asyncio and on trio."""

from __future__ import annotations

import gc
import logging
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from asgi_client import Client, told
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from streams import anthropic, chat, hanging, sse, stream

from streamtools import Event, ToolError, Turn, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.framing import SSEDecoder
from streamtools.integrations import EventStreamResponse, Run, RunEnd
from streamtools.testing import ScriptedSource
from streamtools.web.encoding import frame

SLEEPS = anthropic(["Let me see"], calls=[("a", "sleep", "{}"), ("b", "charge", "{}")], stop=None)


@tool(effect="pure")
async def look_up(card: str) -> str:
    """Look up a card."""
    if card == "4000":
        raise ToolError("the card 4000 is blocked")
    return f"the PIN of {card} is 1234"


class Tools:
    """A tool that sleeps until it is cancelled, one that is never reached, and what became of them."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.cancelled = self.charged = 0

        @tool(effect="pure")
        async def sleep() -> str:
            """Sleep until cancelled."""
            self.started.set()
            try:
                await anyio.sleep_forever()
            finally:
                self.cancelled += 1
            return "never"

        @tool(effect="once")
        async def charge() -> None:
            """Spend money."""
            self.charged += 1

        self.all = [sleep, charge]


class Stored:
    """What `after` was given."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def __call__(self, run: Run) -> None:
        await anyio.lowlevel.checkpoint()
        self.turns.append(run.turn)

    @property
    def outcomes(self) -> list[str]:
        (turn,) = self.turns
        return [observation.outcome for observation in turn.observations]


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    caplog.set_level(logging.WARNING)
    yield
    gc.collect()
    assert caplog.records == []


# -- what is sent ----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_client_reads_text_calls_and_outcomes_and_nothing_private() -> None:
    calls = [("a", "look_up", '{"card": "4111"}'), ("b", "look_up", '{"card": "4000"}'), ("c", "nope", "{}")]
    client, stored = Client(), Stored()
    source = stream(chat(["Hel", "lo"], calls=calls))
    await client.request(EventStreamResponse(pipeline(source, tools=[look_up]), after=stored))
    assert client.ended
    assert client.start["status"] == 200
    assert dict(client.start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-cache, no-transform",
        b"x-accel-buffering": b"no",
        b"x-content-type-options": b"nosniff",
    }
    assert [told for told in client.told if told[0] == "text_delta"] == [
        ("text_delta", {"text": "Hel"}),
        ("text_delta", {"text": "lo"}),
    ]
    assert ("tool_call_start", {"call_id": "a", "name": "look_up"}) in client.told
    assert ("tool_started", {"call_id": "a", "tool_name": "look_up"}) in client.told
    observed = {data["call_id"]: data["outcome"] for name, data in client.told if name == "observation"}
    assert observed == {"a": "ok", "b": "failed", "c": "unknown_tool"}
    assert client.told[-2:] == [("step_end", {"outcome": "complete"}), ("run_end", {"outcome": "complete"})]
    assert ("stream_end", {"finish": "tool_calls", "complete": True}) in client.told
    for secret in (b"4111", b"4000", b"1234", b"blocked"):
        assert secret not in client.body
    assert stored.outcomes == ["ok", "failed", "unknown_tool"]


@pytest.mark.anyio
async def test_each_event_has_its_seq_as_id() -> None:
    client = Client()

    def everything(event: Event | RunEnd) -> tuple[str, Any] | None:
        if isinstance(event, RunEnd):
            return None
        return type(event).__name__, event.seq

    await client.request(EventStreamResponse(pipeline(chat(["Hello"])), encode=everything))
    assert [seq for _, seq in client.told] == list(range(len(client.told)))
    assert b"event: TextDelta\nid: " in client.body
    assert all(f"\nid: {seq}\n".encode() in client.body for _, seq in client.told)


@given(name=st.text(min_size=1).filter(lambda name: not set(name) & set("\r\n")), data=st.text())
@settings(derandomize=True, deadline=None, max_examples=examples(60))
def test_a_frame_is_read_as_the_one_event_that_was_written(name: str, data: str) -> None:
    name, data = (text.encode("utf-8", "replace").decode() for text in (name, data))
    decoder = SSEDecoder()
    (read,) = [*decoder.feed(frame((name, data), id=7)), *decoder.finish()]
    lines = data.replace("\r\n", "\n").replace("\r", "\n")  # the format knows one line end
    assert (read.event, read.data.decode(), read.id) == (name, lines, "7")
    json_text = told(frame((name, {"text": data})))
    assert json_text == [(name, {"text": data})]


@pytest.mark.anyio
async def test_headers_of_yours_come_beside_ours_or_in_their_place() -> None:
    client = Client()
    headers = {"X-Run": "7", "Cache-Control": "no-store"}
    await client.request(EventStreamResponse(pipeline([]), status_code=201, headers=headers))
    assert client.start["status"] == 201
    assert (b"x-run", b"7") in client.start["headers"]
    assert [value for name, value in client.start["headers"] if name == b"cache-control"] == [b"no-store"]


@pytest.mark.anyio
async def test_silence_is_filled_with_comments_which_are_no_events() -> None:
    release = anyio.Event()
    comments = 0

    async def count(piece: bytes) -> None:
        nonlocal comments
        comments += piece == b": \n\n"
        if comments == 3:
            release.set()

    client = Client(count)
    first, *rest = chat(["Hello"])
    with anyio.fail_after(30):
        source = ScriptedSource([first, release, *rest])
        await client.request(EventStreamResponse(pipeline(source), heartbeat=0.01))
    assert comments >= 3
    assert ("text_delta", {"text": "Hello"}) in client.told
    assert client.told[-2:] == [("step_end", {"outcome": "complete"}), ("run_end", {"outcome": "complete"})]


# -- a client that goes ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@every("how", ["raises", "hangs"])
async def test_a_client_that_takes_nothing_more_is_gone(how: str) -> None:
    tools, stored = Tools(), Stored()

    async def refuse(piece: bytes) -> None:
        if b"tool_started" in piece:
            await tools.started.wait()
            if how == "raises":
                raise OSError("the connection is closed")
            await anyio.sleep_forever()

    with anyio.fail_after(30):
        response = EventStreamResponse(
            pipeline(hanging(SLEEPS), tools=tools.all), after=stored, send_timeout=0.05 if how == "hangs" else 60
        )
        await Client(refuse).request(response)
    assert (tools.cancelled, tools.charged) == (1, 0)
    assert stored.outcomes == ["cancelled", "skipped"]


@pytest.mark.anyio
async def test_a_server_that_cancels_the_request_gets_its_tools_cancelled_and_the_turn_stored() -> None:
    tools, stored = Tools(), Stored()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                Client().request,
                EventStreamResponse(pipeline(hanging([b"".join(SLEEPS)]), tools=tools.all), after=stored),
            )
            await tools.started.wait()
            tasks.cancel_scope.cancel()
    assert tools.cancelled == 1
    assert stored.outcomes == ["cancelled", "skipped"]


# -- what goes wrong -------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_stream_error_is_the_last_event_by_its_kind_and_not_raised() -> None:
    client, stored = Client(), Stored()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "org-12 is over its quota"}}
    source = [*anthropic(["Hello"], stop=None), *sse([error], named=True)]
    await client.request(EventStreamResponse(pipeline(source), after=stored))
    assert client.told[-1] == ("run_end", {"outcome": "error", "kind": "overloaded"})
    assert b"org-12" not in client.body
    assert client.ended
    assert stored.turns[0].error is not None


@pytest.mark.anyio
async def test_an_error_of_the_source_is_the_last_event_and_raised_to_the_server_as_it_was() -> None:
    client, stored = Client(), Stored()
    with pytest.raises(KeyError, match="secret"):
        await client.request(
            EventStreamResponse(pipeline(stream(chat(["Hello"], finish=None), then=KeyError("secret"))), after=stored)
        )
    assert client.told[-1] == ("run_end", {"outcome": "error", "kind": "stream_truncated"})
    assert b"secret" not in client.body
    assert client.ended
    assert len(stored.turns) == 1


@pytest.mark.anyio
@every(
    ("encoded", "error", "match"),
    [
        (ZeroDivisionError("secret"), ZeroDivisionError, "secret"),
        (("two\nlines", "secret"), ValueError, "expected one line of text"),
        ((3, "secret"), ValueError, "expected one line of text"),
        ({"secret": 1}, TypeError, "encode: expected .* got dict"),
        (("a", "b", "secret"), TypeError, "encode: expected"),
        (("odd", object()), TypeError, "not JSON serializable"),
    ],
)
async def test_an_encoding_that_fails_ends_the_stream_and_is_raised_to_the_server(
    encoded: Any, error: type[Exception], match: str
) -> None:
    def encode(event: Event | RunEnd) -> Any:
        if isinstance(encoded, Exception):
            raise encoded
        return encoded

    client = Client()
    with pytest.raises(error, match=match):
        await client.request(EventStreamResponse(pipeline(chat(["Hello"])), encode=encode))
    assert client.told == [("run_end", {"outcome": "error", "kind": "internal_error"})]
    assert client.ended


@pytest.mark.anyio
async def test_the_run_ends_for_the_client_when_it_is_stored() -> None:
    client = Client()
    seen: list[list[str]] = []

    async def after(run: Run) -> None:
        await anyio.lowlevel.checkpoint()
        seen.append([name for name, _ in client.told])

    await client.request(EventStreamResponse(pipeline(chat(["Hello"], finish="stop")), after=after))
    names = [name for name, _ in client.told]
    assert "text_delta" in names
    assert seen == [names[:-1]]
    assert (names[-1], client.ended) == ("run_end", True)


@pytest.mark.anyio
async def test_a_failing_after_is_raised_to_the_server_and_the_response_breaks_off() -> None:
    async def after(run: Run) -> None:
        raise ZeroDivisionError

    client = Client()
    with pytest.raises(ZeroDivisionError):
        await client.request(EventStreamResponse(pipeline(chat(["Hello"])), after=after))
    assert not client.ended
    assert "run_end" not in [name for name, _ in client.told]


# -- misuse ----------------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_response_answers_one_request_of_http() -> None:
    stored = Stored()
    response = EventStreamResponse(pipeline(chat(["Hello"])), after=stored)
    with pytest.raises(LocalProtocolError, match="requests of type http, not websocket"):
        await Client().request(response, kind="websocket")
    await Client().request(response)
    with pytest.raises(LocalProtocolError, match="answers one request"):
        await Client().request(response)
    assert len(stored.turns) == 1


@every("what", [None, [], pipeline, b"data: [DONE]\n\n"])
def test_what_is_no_pipeline_is_refused_with_what_to_write(what: Any) -> None:
    with pytest.raises(TypeError, match=r"write EventStreamResponse\(pipeline\(stream, tools=\[...\]\)\)"):
        EventStreamResponse(what)


@pytest.mark.anyio
@every(
    ("options", "match"),
    [
        ({"headers": {"bad name": "x"}}, "expected the name of a header"),
        ({"headers": {"": "x"}}, "expected the name of a header"),
        ({"headers": {"x-a": "1\r\nset-cookie: a=b"}}, "begin another header"),
        ({"heartbeat": 0}, r"heartbeat=0: must be"),
        ({"heartbeat": float("nan")}, r"heartbeat=nan: must be"),
        ({"send_timeout": True}, r"send_timeout=True: must be"),
        ({"send_timeout": "1"}, r"send_timeout='1': must be"),
    ],
)
async def test_an_option_that_cannot_be_used_is_refused(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        EventStreamResponse(pipeline([]), **options)
