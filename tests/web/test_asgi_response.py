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
from profiles import examples
from streams import anthropic, chat, hanging, sse, stream

from streamtools import Event, Limits, TextDelta, ToolCallValidated, ToolError, Turn, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.events import EventBase
from streamtools.framing import SSEDecoder
from streamtools.integrations import EventStreamResponse, Run, RunEnd, encode_event
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
    assert client.start is not None
    assert client.start["status"] == 200
    assert dict(client.start["headers"]) == {
        b"content-type": b"text/event-stream; charset=utf-8",
        b"cache-control": b"no-cache, no-transform",
        b"x-accel-buffering": b"no",
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


@pytest.mark.anyio
async def test_your_own_encoding_may_add_to_the_default() -> None:
    def encode(event: Event | RunEnd) -> tuple[str, Any] | None:
        if isinstance(event, ToolCallValidated):
            return "arguments", event.call.arguments
        return ("text", event.text) if isinstance(event, TextDelta) else None

    client = Client()
    source = chat(["a\nb\r\n", "c"], calls=[("a", "look_up", '{"card": "4111"}')])
    await client.request(EventStreamResponse(pipeline(source, tools=[look_up]), encode=encode))
    assert b"data: a\ndata: b\ndata: \n\n" in client.body  # lines, as the format wants them
    assert b'data: {"card":"4111"}\n\n' in client.body
    assert client.body.count(b"event: ") == 3


@given(name=st.text(min_size=1).filter(lambda name: not set(name) & set("\r\n")), data=st.text())
@settings(derandomize=True, deadline=None, max_examples=examples(150))
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
    assert client.start is not None
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


@pytest.mark.anyio
async def test_events_that_are_not_sent_do_not_count_as_a_sign_of_life() -> None:
    comment = anyio.Event()

    async def see(piece: bytes) -> None:
        if piece == b": \n\n":
            comment.set()

    async def endless() -> Any:
        for item in anthropic(stop=None):
            yield item
        yield from_thinking({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking"}})
        while not comment.is_set():
            await anyio.lowlevel.checkpoint()
            delta = {"type": "thinking_delta", "thinking": "hm"}
            yield from_thinking({"type": "content_block_delta", "index": 0, "delta": delta})

    with anyio.fail_after(30):
        await Client(see).request(EventStreamResponse(pipeline(endless()), heartbeat=0.01))
    assert comment.is_set()


def from_thinking(payload: dict[str, Any]) -> bytes:
    return sse([payload], named=True)[0]


@pytest.mark.anyio
async def test_without_heartbeat_and_timeout_it_just_answers() -> None:
    client = Client()
    await client.request(EventStreamResponse(pipeline(chat(["Hello"])), heartbeat=None, send_timeout=None))
    assert client.told[-2:] == [("step_end", {"outcome": "complete"}), ("run_end", {"outcome": "complete"})]


# -- a client that goes ----------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_client_that_goes_while_a_tool_runs_cancels_it_and_every_call_is_observed_once() -> None:
    tools, stored, client = Tools(), Stored(), Client()
    source = ScriptedSource([b"".join(SLEEPS), anyio.Event()])  # both calls have come when the first runs

    async def leave() -> None:
        await tools.started.wait()
        client.gone.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(leave)
            await client.request(EventStreamResponse(pipeline(source, tools=tools.all), after=stored))
    assert (tools.cancelled, tools.charged, source.closed) == (1, 0, True)
    assert stored.outcomes == ["cancelled", "skipped"]
    assert [call.call_id for call in stored.turns[0].calls] == ["a", "b"]
    assert len(stored.turns[0].messages()[1]["content"]) == 2
    assert not client.ended


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["raises", "hangs"])
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
@pytest.mark.parametrize("how", ["disconnect", "raises"])
async def test_wherever_a_client_goes_every_call_has_one_observation_and_nothing_runs_on(how: str) -> None:
    pieces = calls = 0
    while calls < 2:
        left = pieces = pieces + 1
        tools, stored, client = Tools(), Stored(), Client()

        async def go(piece: bytes) -> None:
            nonlocal left
            left -= 1
            if left == 0 and how == "raises":
                raise OSError("the connection is closed")
            if left == 0:
                client.gone.set()
                await anyio.sleep_forever()

        client = Client(go)
        source = ScriptedSource([*SLEEPS, anyio.Event()])
        with anyio.fail_after(30):
            await client.request(EventStreamResponse(pipeline(source, tools=tools.all), encode=named, after=stored))
        (turn,) = stored.turns
        calls = len(turn.calls)
        assert [seen.call_id for seen in turn.observations] == [call.call_id for call in turn.calls]
        assert (source.closed, tools.charged, tools.cancelled) == (True, 0, int(tools.started.is_set()))
        assert not client.ended
    assert pieces > 5


def named(event: Event | RunEnd) -> tuple[str, Any]:
    return type(event).__name__, None


@pytest.mark.anyio
async def test_a_client_that_was_gone_before_the_beginning_leaves_nothing_running() -> None:
    tools, client, stored = Tools(), Client(), Stored()
    client.gone.set()
    source = ScriptedSource([*SLEEPS, anyio.Event()])
    with anyio.fail_after(30):
        await client.request(EventStreamResponse(pipeline(source, tools=tools.all), after=stored))
    assert not client.ended
    assert (tools.charged, source.closed) == (0, True)
    assert len(stored.turns) == 1


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


@pytest.mark.anyio
async def test_a_client_that_is_slow_makes_the_source_wait() -> None:
    source, permits = ScriptedSource(chat(["x"] * 200)), anyio.Semaphore(0)

    async def slowly(piece: bytes) -> None:
        await permits.acquire()

    response = EventStreamResponse(pipeline(source, limits=Limits(event_buffer=4)), encode=lambda event: ("event", 0))
    client = Client(slowly)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.request, response)
            for taken in range(1, 101):
                permits.release()
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
                assert source.position <= taken + 1 + 4 + 2
            for _ in range(200):
                permits.release()
    assert source.position == len(source.script)
    assert client.ended


# -- what goes wrong -------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_a_stream_error_is_the_last_event_by_its_kind_and_not_raised() -> None:
    client, stored = Client(), Stored()
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "org-12 is over its quota"}}
    source = [*anthropic(["Hello"], stop=None), *sse([error], named=True)]
    await client.request(EventStreamResponse(pipeline(source), after=stored))
    assert client.told[-1] == ("run_end", {"outcome": "error", "kind": "provider_error"})
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
@pytest.mark.parametrize(
    ("encoded", "error", "match"),
    [
        (ZeroDivisionError("secret"), ZeroDivisionError, "secret"),
        (("two\nlines", "secret"), ValueError, "expected one line of text"),
        ((3, "secret"), ValueError, "expected one line of text"),
        ({"secret": 1}, TypeError, "encode: expected .* got dict"),
        (("a", "b", "secret"), TypeError, "encode: expected"),
        (("odd", object()), TypeError, "not JSON serializable"),
    ],
    ids=lambda value: str(value)[:20],
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
async def test_a_server_whose_send_fails_gets_its_own_error_back() -> None:
    async def fail(piece: bytes) -> None:
        raise RuntimeError("out of order")

    tools = Tools()
    with pytest.raises(RuntimeError, match="out of order"):
        await Client(fail).request(EventStreamResponse(pipeline(hanging(SLEEPS), tools=tools.all)))


@pytest.mark.anyio
async def test_what_went_wrong_first_is_raised_also_if_the_client_can_no_longer_be_told() -> None:
    async def gone(piece: bytes) -> None:
        raise OSError

    def encode(event: Event | RunEnd) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await Client(gone).request(EventStreamResponse(pipeline(chat(["Hello"])), encode=encode))


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


@pytest.mark.anyio
async def test_a_pipeline_that_is_entered_elsewhere_is_refused_before_anything_is_sent() -> None:
    stored, client = Stored(), Client()
    async with pipeline(chat(["Hello"])) as events:
        with pytest.raises(LocalProtocolError, match="entered once"):
            await client.request(EventStreamResponse(events, after=stored))
    assert client.start is None
    assert stored.turns == []


@pytest.mark.parametrize("what", [None, [], pipeline, b"data: [DONE]\n\n"])
def test_what_is_no_pipeline_is_refused_with_what_to_write(what: Any) -> None:
    with pytest.raises(TypeError, match=r"write EventStreamResponse\(pipeline\(stream, tools=\[...\]\)\)"):
        EventStreamResponse(what)


@pytest.mark.anyio
@pytest.mark.parametrize(
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


def test_what_the_default_does_not_name_is_not_sent() -> None:
    assert encode_event(EventBase()) is None
