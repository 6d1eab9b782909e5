"""One call: what goes out with it, what it reports, and how it fails."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from decisions import decisions_on
from kept_spans import kept_spans
from mcp_session import FakeSession, listed, observed, text
from profiles import every
from streams import chat, stream

from streamtools import Limits, Suspended, ToolError, pipeline, resume
from streamtools.dispatch import MemoryStore
from streamtools.events import ToolProgress
from streamtools.mcp import fetch_tools
from streamtools.telemetry import Tracing
from streamtools.tools import Effect

pytestmark = pytest.mark.anyio


async def call(answer: Any, **options: Any) -> Any:
    tools = await fetch_tools(FakeSession(listed("f"), answer=answer), server="s", **options)
    return await observed(tools, "f")


# -- trace context -------------------------------------------------------------------------------------------------


async def test_the_tools_span_goes_along_with_the_call() -> None:
    provider, exporter = kept_spans()
    session = FakeSession(listed("f"))
    tools = await fetch_tools(session, server="s")
    await observed(tools, "f", observers=[Tracing(provider)])
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "execute_tool f"]
    ids = span.get_span_context()
    assert session.metas == [{"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"}]


# -- progress ------------------------------------------------------------------------------------------------------


async def progress(*reports: tuple[Any, ...], limits: Limits = Limits()) -> list[Any]:
    async def answer(_: Any, on_progress: Any) -> Any:
        for report in reports:
            await on_progress(*report)
        return text("done")

    tools = await fetch_tools(FakeSession(listed("f"), answer=answer), server="s", limits=limits)
    async with pipeline(stream(chat([], [("c", "f", "{}")])), tools=tools) as events:
        return [event.value async for event in events if isinstance(event, ToolProgress)]


async def test_the_servers_progress_is_the_tools() -> None:
    reports = [(1, None, None), (2.5, 10, None), (3, 10, "three\u202e of ten")]
    assert await progress(*reports) == [
        {"progress": 1},
        {"progress": 2.5, "total": 10},
        {"progress": 3, "total": 10, "message": "three\\u202e of ten"},
    ]


async def test_progress_that_json_cannot_say_is_left_out() -> None:
    nan, infinite = float("nan"), float("inf")
    beyond_a_float = ((10**400, 1, None), (2, -(10**400), None), (True, None, None))
    shown = await progress((nan, 1, None), (infinite, None, None), (1, nan, None), *beyond_a_float)
    assert shown == [{"progress": 1}, {"progress": 2}]


async def test_progress_is_bounded_in_number_and_length() -> None:
    limits = Limits(max_progress_events=3, max_error_excerpt=10)
    seen = await progress(*[(n, None, "x" * 11) for n in range(5)], limits=limits)
    assert seen == [{"progress": n, "message": "x" * 10 + "…"} for n in range(3)]


# -- failures ------------------------------------------------------------------------------------------------------


class RpcError(Exception):
    """In the shape of the SDK's ``McpError`` and ``MCPError``."""

    def __init__(self, code: Any, message: Any) -> None:
        super().__init__(message)
        self.error = SimpleNamespace(code=code, message=message)


@every(
    ("code", "message", "told"),
    [
        (-32602, "Unknown tool: f", "answered with error -32602: Unknown tool: f"),
        (-32000, "Out of paint", "answered with error -32000: Out of paint"),
        (-32603, "a\x00b\u202ec", "answered with error -32603: a\\x00b\\u202ec"),
        (-32603, "x" * 10_000, f"answered with error -32603: {'x' * 512}…"),
    ],
)
async def test_an_error_of_the_protocol_is_told_to_the_model_bounded(code: int, message: str, told: str) -> None:
    observation = await call(RpcError(code, message))
    assert (observation.outcome, type(observation.error)) == ("failed", ToolError)
    assert observation.model_content == f"Error: the MCP server 's' {told}"


@every("error", [RpcError("-1", "x"), RpcError(-1, None), RuntimeError("secret"), RpcError(-32000, ["x"])])
async def test_of_any_other_failure_only_its_type_is_told(error: Exception) -> None:
    observation = await call(error)
    assert observation.model_content == f"Error: the tool f raised {type(error).__name__}"
    assert observation.error.__cause__ is error


LOST = [
    RpcError(-32000, "Connection closed"),
    ConnectionResetError("host"),
    anyio.ClosedResourceError(),
    ExceptionGroup("of a transport", [anyio.BrokenResourceError(), ExceptionGroup("x", [anyio.EndOfStream()])]),
]


@every("error", LOST)
@every(("effect", "outcome"), [("once", "unknown"), ("idempotent", "unknown"), ("pure", "failed")])
async def test_where_the_connection_is_lost_the_outcome_is_what_the_effect_demands(
    error: Exception, effect: Effect, outcome: str
) -> None:
    observation = await call(error, effect=effect)
    assert (observation.outcome, observation.error.__cause__) == (outcome, error)
    assert "the connection to the MCP server 's' was lost before the server answered" in observation.model_content


async def test_a_servers_own_error_is_what_the_model_reads() -> None:
    observation = await call(text("the file is locked", isError=True))
    assert (observation.outcome, observation.model_content) == ("failed", "Error: the file is locked")


# -- the function itself -------------------------------------------------------------------------------------------


async def test_the_model_cannot_set_what_is_not_an_argument() -> None:
    session = FakeSession(listed("f", inputSchema={"type": "object"}))
    tools = await fetch_tools(session, server="s")
    given = (
        '{"ctx": 1, "arguments": 2, "self": 3, "return": 4, "__class__": 5, "name": "g", "meta": {"traceparent": "x"}}'
    )
    assert (await observed(tools, "f", given, observers=[])).outcome == "ok"
    assert session.calls == [("f", json.loads(given))]
    assert session.metas == [None]


KEY = "a key that is long enough"
CALLS = [("a", "pay", "{}"), ("b", "pay", "{}"), ("l", "look", "{}")]


async def test_a_servers_tool_is_not_called_before_it_is_approved_also_when_it_is_resumed() -> None:
    session = FakeSession(listed("pay"), listed("look", annotations={"readOnlyHint": True}))
    tools = await fetch_tools(
        session,
        server="bank",
        trust_hints=True,
        needs_approval=lambda definition: not definition.annotations.get("readOnlyHint"),
    )
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=CALLS)), tools=tools) as events:
            _ = [event async for event in events]
            assert [name for name, _ in session.calls] == ["look"]
            assert events.approve("a")
            _ = [event async for event in events]
        assert [name for name, _ in session.calls] == ["look", "pay"]
        suspended = Suspended.from_text(events.suspended.to_text(KEY), KEY)
        turn = await resume(suspended, tools=tools, store=MemoryStore(), decisions=decisions_on(suspended, {"b": True}))
    assert [o.outcome for o in turn.observations] == ["ok"]
    assert [name for name, _ in session.calls] == ["look", "pay", "pay"]
