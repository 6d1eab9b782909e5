"""One call: what goes out with it, what it reports, and how it fails."""

from __future__ import annotations

import json
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import FakeSession, listed, observed, text
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pydantic import BaseModel
from streams import chat, stream

from streamtools import Limits, ToolContext, ToolError, pipeline
from streamtools.errors import ToolFailed
from streamtools.events import ToolProgress
from streamtools.mcp import fetch_tools
from streamtools.telemetry import Tracing
from streamtools.telemetry.carrier import current_carrier
from streamtools.tools import Effect

pytestmark = pytest.mark.anyio


PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def extra(name: str) -> str:
    """What an extra of one package says that it needs."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    (wanted,) = project["optional-dependencies"][name]
    return str(wanted)


async def call(answer: Any, **options: Any) -> Any:
    tools = await fetch_tools(FakeSession(listed("f"), answer=answer), server="s", **options)
    return await observed(tools, "f")


# -- trace context -------------------------------------------------------------------------------------------------


def test_there_is_no_carrier_without_a_span() -> None:
    assert current_carrier() == {}


def test_the_carrier_is_the_current_span_without_baggage() -> None:
    token = context.attach(baggage.set_baggage("user", "me"))
    try:
        with TracerProvider().get_tracer("t").start_as_current_span("x") as span:
            ids = span.get_span_context()
            assert current_carrier() == {
                "traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"
            }
    finally:
        context.detach(token)


async def test_the_tools_span_goes_along_with_the_call() -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    session = FakeSession(listed("f"))
    tools = await fetch_tools(session, server="s")
    await observed(tools, "f", observers=[Tracing(provider)])
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "execute_tool f"]
    ids = span.get_span_context()
    assert ids is not None
    assert session.metas == [{"traceparent": f"00-{ids.trace_id:032x}-{ids.span_id:016x}-{ids.trace_flags:02x}"}]


async def test_without_a_span_nothing_goes_along() -> None:
    assert not trace.get_current_span().get_span_context().is_valid
    session = FakeSession(listed("f"))
    await observed(await fetch_tools(session, server="s"), "f", observers=[])
    assert session.metas == [None]


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
    assert seen == [{"progress": n, "message": "x" * 10 + "..."} for n in range(3)]


# -- failures ------------------------------------------------------------------------------------------------------


class RpcError(Exception):
    """In the shape of the SDK's ``McpError`` and ``MCPError``."""

    def __init__(self, code: Any, message: Any) -> None:
        super().__init__(message)
        self.error = SimpleNamespace(code=code, message=message)


@pytest.mark.parametrize(
    ("code", "message", "told"),
    [
        (-32602, "Unknown tool: f", "answered with error -32602: Unknown tool: f"),
        (-32000, "Out of paint", "answered with error -32000: Out of paint"),
        (-32603, "a\x00b\u202ec", "answered with error -32603: a\\u0000b\\u202ec"),
        (-32603, "x" * 10_000, f"answered with error -32603: {'x' * 512}..."),
    ],
)
async def test_an_error_of_the_protocol_is_told_to_the_model_bounded(code: int, message: str, told: str) -> None:
    observation = await call(RpcError(code, message))
    assert (observation.outcome, type(observation.error)) == ("failed", ToolError)
    assert observation.model_content == f"Error: the MCP server 's' {told}"


@pytest.mark.parametrize(
    "error", [RpcError("-1", "x"), RpcError(-1, None), RuntimeError("secret"), RpcError(-32000, ["x"])]
)
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


@pytest.mark.parametrize("error", LOST, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(("effect", "outcome"), [("once", "unknown"), ("idempotent", "unknown"), ("pure", "failed")])
async def test_where_the_connection_is_lost_the_outcome_is_what_the_effect_demands(
    error: Exception, effect: Effect, outcome: str
) -> None:
    observation = await call(error, effect=effect)
    assert (observation.outcome, observation.error.__cause__) == (outcome, error)
    assert "the connection to the MCP server 's' was lost before it had answered" in observation.model_content


async def test_a_group_of_other_errors_is_the_calls_failure() -> None:
    observation = await call(ExceptionGroup("of a transport", [ConnectionError(), RuntimeError()]))
    assert (observation.outcome, type(observation.error)) == ("failed", ToolFailed)


async def test_an_answer_that_the_sdk_does_not_take_is_told_without_its_content() -> None:
    class Answer(BaseModel):
        content: list[str]

    async def answer(*_: Any) -> Any:
        return Answer.model_validate({"content": "secret"})

    observation = await call(answer)
    assert observation.model_content == "Error: the MCP server 's' answered with something that is not a tool result"


class WithoutArguments(FakeSession):
    """Its `call_tool` takes nothing that a call has."""

    async def call_tool(self) -> Any:  # type: ignore[override]
        raise AssertionError("it cannot be called with what there is")


class Refusing(FakeSession):
    """Checks its own requests as the SDK does, with a class of an earlier version: there `method` had no default."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:  # type: ignore[override]
        class CallToolRequest(BaseModel):
            method: str
            params: dict[str, Any]

        return CallToolRequest(params={"name": name})  # type: ignore[call-arg]


class RefusingAtOnce(Refusing):
    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:  # type: ignore[override]
        try:
            super().call_tool(name, arguments).send(None)
        except StopIteration:
            raise AssertionError("it refuses") from None


@pytest.mark.parametrize("session", [WithoutArguments, Refusing, RefusingAtOnce])
async def test_a_request_that_cannot_be_made_is_not_told_as_the_servers_fault(session: Any) -> None:
    observation = await observed(await fetch_tools(session(listed("f")), server="s"), "f")
    assert (observation.outcome, type(observation.error)) == ("failed", ToolError)
    assert observation.model_content == (
        f"Error: the MCP server 's' was not asked: {session.__name__} does not accept the request; "
        f"mcp {version('mcp')} is installed, and {extra('mcp')} is wanted"
    )


async def test_a_type_error_of_the_tools_way_back_is_not_told_as_a_request() -> None:
    observation = await call(TypeError("a callback of somebody's"))
    assert observation.model_content == "Error: the tool f raised TypeError"


async def test_a_list_that_cannot_be_asked_for_is_not_told_as_the_servers_fault() -> None:
    class WithoutCursor(FakeSession):
        async def list_tools(self, *, cursor: str | None = None, more: int) -> Any:  # type: ignore[override]
            raise AssertionError("it cannot be called with what there is")

    with pytest.raises(TypeError, match=r"^WithoutCursor does not accept the request; mcp .* is wanted$"):
        await fetch_tools(WithoutCursor(listed("f")), server="s")


async def test_a_servers_own_error_is_what_the_model_reads() -> None:
    observation = await call(text("the file is locked", isError=True))
    assert (observation.outcome, observation.model_content) == ("failed", "Error: the file is locked")


async def test_a_call_that_asks_for_input_fails_and_says_so() -> None:
    observation = await call({"resultType": "input_required", "inputRequests": {}})
    assert observation.outcome == "failed"
    assert "asks for input" in observation.model_content


# -- the function itself -------------------------------------------------------------------------------------------


async def test_the_tool_can_be_called_like_a_function() -> None:
    session = FakeSession(listed("f"))
    (made,) = await fetch_tools(session, server="s")
    assert (await made({}, ToolContext())).value == "done"


async def test_the_model_cannot_set_what_is_not_an_argument() -> None:
    session = FakeSession(listed("f", inputSchema={"type": "object"}))
    tools = await fetch_tools(session, server="s")
    given = (
        '{"ctx": 1, "arguments": 2, "self": 3, "return": 4, "__class__": 5, "name": "g", "meta": {"traceparent": "x"}}'
    )
    assert (await observed(tools, "f", given, observers=[])).outcome == "ok"
    assert session.calls == [("f", json.loads(given))]
    assert session.metas == [None]


async def test_calls_run_side_by_side() -> None:
    running = 0
    all_in = anyio.Event()

    async def answer(*_: Any) -> Any:
        nonlocal running
        running += 1
        if running == 3:
            all_in.set()
        await all_in.wait()
        return text("done")

    tools = await fetch_tools(FakeSession(listed("f"), answer=answer), server="s")
    calls = [(f"c{n}", "f", "{}") for n in range(3)]
    with anyio.fail_after(30):
        async with pipeline(stream(chat([], calls)), tools=tools) as events:
            async for _ in events:
                pass
    assert [seen.outcome for seen in events.turn.observations] == ["ok"] * 3
