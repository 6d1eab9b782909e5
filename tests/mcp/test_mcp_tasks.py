"""Calls that an MCP server runs as tasks: how they begin, go on and end, and what a server may not do with them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import mcp
import pytest
from mcp import ClientSession
from mcp_servers import SDK2, sdk2_only, served_over_http, streamable_http_client
from mcp_session import observed
from mcp_task_server import ASKS, DONE, SECRET, V1, V2, WORKING, TaskServer, session_with
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from profiles import every
from streams import chat, stream

from streamtools import Limits, Observation, Trajectory, pipeline
from streamtools.dispatch import MemoryStore
from streamtools.events import AnswerRequested, StreamWarning, ToolProgress
from streamtools.mcp import TASKS, BoundedHTTPTransport, Elicitation, fetch_tools
from streamtools.telemetry import Tracing

pytestmark = pytest.mark.anyio
VERSIONS = [V1, *([V2] if SDK2 else [])]
BOTH = every("version", VERSIONS)


async def ended(
    server: TaskServer,
    *refs: str,
    elicitation: Elicitation | None = None,
    city: str | None = None,
    effect: Any = "once",
    **options: Any,
) -> tuple[list[Observation], list[Any]]:
    """The ends of calls with these references, in order, and what was reported. With a `city`, questions are answered
    once all calls ask, the last one first."""
    elicitation = Elicitation() if city else elicitation
    asked, told = list[AnswerRequested](), list[Any]()
    asks: Any = {} if elicitation is None else {"elicitation_callback": elicitation}
    declares: Any = {"extensions": TASKS} if server.version == V2 else {}
    given = {name: options.pop(name) for name in ("call_timeout", "limits", "needs_approval") if name in options}
    warned = options.pop("on_warning", told.append)
    server_name = options.pop("server_name", "s")
    with anyio.fail_after(60):
        async with session_with(server, **asks, **declares) as session:
            tools = await fetch_tools(session, server=server_name, effect=effect, elicitation=elicitation, **given)
            if tools.refused:
                return [], [one.reason for one in tools.refused]
            calls = [(f"c{at}", "work", f'{{"ref": "{ref}"}}') for at, ref in enumerate(refs or "a")]
            async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
                async for event in events:
                    if isinstance(event, ToolProgress):
                        told.append(event.value)
                    if isinstance(event, StreamWarning):
                        warned(event.detail)
                    if isinstance(event, AnswerRequested):
                        assert (event.question["server"], event.question["message"]) == ("s", "Where?")
                        asked.append(event)
                    while city and len(asked) == len(calls):
                        for one in reversed(asked):
                            events.answer(one, {"city": f"{city} {one.call_id}"})
                        asked.clear()
    return sorted(events.turn.observations, key=lambda seen: seen.call_id), told


@BOTH
async def test_a_call_that_the_server_runs_as_a_task_is_followed_to_its_end(version: str) -> None:
    server = TaskServer(version, WORKING, {**WORKING, "statusMessage": "half\u202e"}, WORKING, DONE)
    (seen,), told = await ended(server)
    assert (seen.outcome, seen.value) == ("ok", "done a")
    assert told == [{"status": "working"}, {"status": "working", "message": "half\\u202e"}, {"status": "working"}]
    end = ["tasks/result"] if version == V1 else []
    assert server.asked() == ["tools/list", "tools/call", *["tasks/get"] * 4, *end]


@every(
    ("support", "offers", "method"),
    [
        ("required", True, "task"),
        ("optional", True, "task"),
        ("forbidden", True, "plain"),
        (None, True, "plain"),
        ("something", True, "plain"),
        ("optional", False, "plain"),
        ("required", False, "refused"),
    ],
)
async def test_a_tool_runs_as_a_task_where_it_and_the_server_allow_it(support: Any, offers: bool, method: str) -> None:
    server = TaskServer(V1, support=support, offers=offers)
    seen, told = await ended(server)
    values = {"task": ["done a"], "plain": ["plainly a"], "refused": []}
    assert ([one.value for one in seen], bool(server.asked("tasks/get"))) == (values[method], method == "task")
    assert ["as a task only" in one for one in told if method == "refused"] == [True] * (method == "refused")


@BOTH
async def test_several_calls_run_at_once_and_each_gets_its_own_answer(version: str) -> None:
    seen, _ = await ended(TaskServer(version, WORKING, DONE), "a", "b", "c")
    assert [one.value for one in seen] == ["done a", "done b", "done c"]


FAILED = {"status": "failed", "error": {"code": -32603, "message": "out of paint\u202e"}}
ENDS: list[tuple[str, dict[str, Any], tuple[dict[str, Any], ...], str, str]] = [
    ("failed", {}, (WORKING, FAILED), "failed", "answered with error -32603: out of paint\\u202e"),
    ("is an error", {"result": {"content": [], "isError": True}}, (DONE,), "failed", "did not say why"),
    ("is no result", {"result": {"rows": 1}}, (DONE,), "failed", "is not a tool result"),
    ("cancelled", {}, (WORKING, {"status": "cancelled"}), "failed", "has cancelled the call"),
    ("lost", {"lost": True}, (WORKING,), "unknown", "does not know the task any more"),
    ("another's", {"get": {"taskId": "task-other"}}, (WORKING,), "unknown", "something that is not the task"),
    ("no status", {"get": {"status": None}}, (WORKING,), "unknown", "something that is not the task"),
    ("no id", {"made": {"taskId": None}}, (WORKING,), "unknown", "has not said which"),
    ("long id", {"made": {"taskId": "x" * 1025}}, (WORKING,), "unknown", "has not said which"),
]


@BOTH
@every(("name", "says", "states", "outcome", "words"), ENDS)
async def test_an_end_that_is_no_success_is_told_as_what_it_is(
    version: str, name: str, says: Any, states: Any, outcome: str, words: str
) -> None:
    server = TaskServer(version, *states, **says)
    (seen,), _ = await ended(server)
    assert (seen.outcome, words in seen.model_content) == (outcome, True), seen
    assert (server.asked("tools/call", "tasks/cancel"), SECRET in seen.model_content) == (["tools/call"], False)
    if outcome == "unknown":  # of a pure call nothing is lost but its value
        (seen,), _ = await ended(TaskServer(version, *states, **says), effect="pure")
        assert seen.outcome == "failed"


@BOTH
@every(
    ("state", "says"),
    [
        (WORKING, {}),
        (WORKING, {"poll": 1e300}),
        (WORKING, {"poll": -5}),
        (WORKING, {"poll": "soon"}),
        ({"status": "thinking"}, {}),
    ],
)
@every("leaves", ["timeout", "consumer"])
async def test_a_task_that_does_not_end_is_cancelled_with_its_call(
    version: str, state: Any, says: Any, leaves: str
) -> None:
    server = TaskServer(version, state, **says)
    if leaves == "timeout":
        (seen,), _ = await ended(server, call_timeout=0.15)
        assert seen.outcome == "timed_out"
    else:
        declares: Any = {"extensions": TASKS} if version == V2 else {}
        async with session_with(server, **declares) as session:
            tools = await fetch_tools(session, server="s")
            async with pipeline(stream(chat(calls=[("c", "work", '{"ref": "a"}')])), tools=tools) as events:
                async for event in events:
                    if isinstance(event, ToolProgress):
                        break
        assert [seen.outcome for seen in events.turn.observations] == ["cancelled"]
    assert server.asked("tools/call", "tasks/cancel") == ["tools/call", "tasks/cancel"]
    assert server.received[-1]["params"]["taskId"] == f"{SECRET}a"


async def test_reports_of_a_task_are_bounded() -> None:
    states = [{**WORKING, "statusMessage": f"{at}{'x' * 99}"} for at in range(9)]
    _, told = await ended(TaskServer(V1, *states, DONE), limits=Limits(max_progress_events=3, max_error_excerpt=9))
    assert [one.get("message") for one in told] == [None, "0" + "x" * 8 + "…", "1" + "x" * 8 + "…"]


# -- questions -----------------------------------------------------------------------------------------------------


@BOTH
async def test_tasks_ask_the_user_beside_each_other_and_each_gets_its_own_answer(version: str) -> None:
    server = TaskServer(version, WORKING, ASKS, DONE)
    seen, _ = await ended(server, "a", "b", city="Rome")
    assert [one.outcome for one in seen] == ["ok", "ok"], seen
    given = {task["ref"]: task["answers"]["content"]["city"] for task in server.tasks.values()}
    assert given == {"a": "Rome c0", "b": "Rome c1"}
    assert server.asked("tools/call") == ["tools/call"] * 2


@every(
    ("version", "outcome", "words"), [(V2, "failed", "pass fetch_tools(..., elicitation=Elicitation())")][: SDK2 + 0]
)
async def test_a_task_that_asks_where_nobody_answers_is_ended(version: str, outcome: str, words: str) -> None:
    server = TaskServer(version, ASKS, DONE)
    (seen,), _ = await ended(server)
    assert (seen.outcome, words in seen.model_content) == (outcome, True)
    assert server.asked("tasks/cancel") == ["tasks/cancel"]


@BOTH
async def test_a_question_goes_with_its_task_when_nobody_answers_in_time(version: str) -> None:
    server = TaskServer(version, ASKS, DONE)
    (seen,), told = await ended(server, elicitation=Elicitation(), call_timeout=0.1)
    assert (seen.outcome, told) == ("timed_out", [{"status": "working"}, {"status": "input_required"}])
    assert server.asked("tasks/cancel", "tasks/update") == ["tasks/cancel"]


# -- a process that died -------------------------------------------------------------------------------------------


@BOTH
@every("state", [DONE, WORKING, ASKS])
@every(("effect", "made"), [("once", 1), ("idempotent", 2), ("pure", 2)])
async def test_a_once_call_is_gone_on_with_by_its_id_and_others_are_made_again(
    version: str, state: Any, effect: Any, made: int
) -> None:
    options: Any = {"store": MemoryStore(), "effect": effect}
    server = TaskServer(version, WORKING)
    (seen,), _ = await ended(server, call_timeout=0.1, trajectory=Trajectory(run_id="r"), **options)
    assert seen.outcome == "timed_out"
    server.states = (state, DONE)
    server.tasks[f"{SECRET}a"]["gets"] = 0
    (seen,), _ = await ended(server, city="Rome", trajectory=Trajectory(run_id="r"), **options)
    assert (seen.outcome, seen.value[:6]) == ("ok", "done a")
    assert len(server.asked("tools/call")) == made


LOST: list[tuple[str, Any, dict[str, Any]]] = [
    ("the server has lost the task", "s", {"lost": True}),
    ("another server's", "other", {}),
    ("the server runs no tasks any more", "s", {"lost": True, "offers": False}),
]


@BOTH
@every(("name", "server_name", "says"), LOST)
@every("approved", [False, True])
async def test_a_once_call_whose_task_is_lost_stays_unknown_and_is_never_made_again(
    version: str, name: str, server_name: str, says: dict[str, Any], approved: bool
) -> None:
    options: Any = {"store": MemoryStore(), "approve": lambda asked: True} if approved else {"store": MemoryStore()}
    server = TaskServer(version, WORKING)
    given: Any = {"needs_approval": approved, **options}
    (seen,), _ = await ended(server, call_timeout=0.1, trajectory=Trajectory(run_id="r"), **given)
    assert seen.outcome == "timed_out"
    server.says = says
    for _ in range(2):
        (seen,), _ = await ended(server, server_name=server_name, trajectory=Trajectory(run_id="r"), **given)
        assert (seen.outcome, SECRET in seen.model_content) == ("unknown", False), seen
    assert server.asked("tools/call") == ["tools/call"]


async def test_a_task_goes_on_where_its_id_cannot_be_noted_and_a_warning_says_so() -> None:
    class Full(MemoryStore):
        async def note(self, key: str, text: str, /) -> None:
            raise OSError(text)

    warned: list[str] = []
    (seen,), _ = await ended(TaskServer(V1, WORKING, DONE), store=Full(), on_warning=warned.append)
    assert seen.outcome == "ok"
    assert [SECRET in one for one in warned] == [False], warned


async def test_an_answer_that_is_late_or_lost_is_asked_for_again() -> None:
    busy = {"error": {"code": -32603, "message": "busy"}}
    server = TaskServer(V1, DONE, once=[busy], result=None)
    (seen,), _ = await ended(server)
    assert (seen.outcome, seen.value) == ("ok", "done a")
    gone = {"error": {"code": -32602, "message": "gone"}}
    (seen,), _ = await ended(TaskServer(V1, DONE, result=gone))
    assert (seen.outcome, "does not know the task any more" in seen.model_content) == ("unknown", True)


@BOTH
async def test_the_id_of_a_task_is_in_no_span_event_or_log(version: str, caplog: pytest.LogCaptureFixture) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    events: list[Any] = []
    observers = [Tracing(provider), SimpleNamespace(event_types=None, on_event=events.append)]
    with caplog.at_level("DEBUG", logger="streamtools"):
        for state in (DONE, {"status": "cancelled"}):
            await ended(TaskServer(version, WORKING, state), observers=observers)
    shown = [span.to_json() for span in exporter.get_finished_spans()]
    assert (len(shown) > 2, len(events) > 9) == (True, True)
    assert SECRET not in "".join([*shown, *map(repr, events), caplog.text])


# -- a server of the SDK -------------------------------------------------------------------------------------------


@sdk2_only
@pytest.mark.asyncio_only
@pytest.mark.costly
@every("over_http", [False, True])
async def test_a_server_of_the_sdk_runs_tasks_in_memory_and_over_http(over_http: bool) -> None:
    asked: list[str] = []

    def make() -> Any:
        from mcp.server.extension import Extension, MethodBinding
        from mcp.server.mcpserver import MCPServer
        from mcp.types import RequestParams, TextContent
        from pydantic import Field

        class OfTask(RequestParams):
            task_id: str = Field(alias="taskId")

        def state(status: str, **more: Any) -> dict[str, Any]:
            at = {"createdAt": "2026-12-01T10:00:00Z", "lastUpdatedAt": "2026-12-01T10:00:00Z"}
            return {"taskId": "t-1", "status": status, "ttlMs": None, "pollIntervalMs": 1, **at, **more}

        class Tasks(Extension):
            identifier = next(iter(TASKS))

            async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
                self.ended = await call_next(ctx)
                return state("working", resultType="task")

            async def get(self, ctx: Any, params: OfTask) -> Any:
                asked.append(params.task_id)
                result = self.ended.model_dump(by_alias=True, mode="json")
                return state("working") if len(asked) < 2 else state("completed", result=result)

            def methods(self) -> Any:
                return [MethodBinding("tasks/get", OfTask, self.get)]

        server = MCPServer("sdk", extensions=[Tasks()])

        @server.tool()
        def work(ref: str) -> Any:
            """Works."""
            return TextContent(type="text", text=f"done {ref}")

        return server

    async def run(session: Any) -> None:
        tools = await fetch_tools(session, server="s")
        seen = await observed(tools, "work", '{"ref": "a"}')
        assert (seen.outcome, seen.value, asked) == ("ok", "done a", ["t-1"] * 2)

    asked.clear()
    with anyio.fail_after(60):
        if not over_http:
            async with mcp.Client(make(), extensions=[mcp.client.extension.advertise(next(iter(TASKS)))]) as client:
                await run(client.session)
            return
        import httpx2

        with served_over_http(make) as url:
            client = httpx2.AsyncClient(transport=BoundedHTTPTransport(httpx2.AsyncHTTPTransport()))
            async with (
                client,
                streamable_http_client(url, http_client=client) as streams,
                ClientSession(streams[0], streams[1], extensions=TASKS) as session,
            ):
                await session.discover()
                await run(session)
