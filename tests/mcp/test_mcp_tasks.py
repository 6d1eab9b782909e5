"""Calls that an MCP server runs as tasks: how they begin, go on and end, and what a server may not do with them."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from every_wire import framed, said
from kept_spans import kept_spans
from mcp import ClientSession
from mcp_servers import SDK2, sdk2_only, served_over_http, streamable_http_client
from mcp_session import observed
from mcp_task_server import ASKS, DONE, SECRET, V1, V2, WORKING, TaskServer, session_with
from profiles import every
from streams import chat, stream

from streamtools import Limits, Observation, Trajectory, agent_loop, pipeline
from streamtools.dispatch import MemoryStore
from streamtools.durable.journal import Journal
from streamtools.events import AnswerRequested, StreamWarning, ToolProgress
from streamtools.mcp import TASKS, BoundedHTTPTransport, Elicitation, fetch_tools
from streamtools.telemetry import Tracing

KNOWN = [V1] if SDK2 else importlib.import_module("mcp.shared.version").SUPPORTED_PROTOCOL_VERSIONS
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(V1 not in KNOWN, reason="needs an mcp that has tasks: 2025-11-25")]
WIRE = "openai.chat_completions"
BOTH = every("version", [V1, *([V2] if SDK2 else [])])


async def ended(
    server: TaskServer, *refs: str, name: str = "s", answers: bool | None = None, leaves: bool = False, **options: Any
) -> tuple[list[Observation], list[Any]]:
    """The ends of calls with these references, in order, and what was told; no span and no event shows a task's id. If
    `answers`, questions are answered once all calls ask, the last one first; None: nobody can be asked."""
    made, told, asked, shown = Elicitation(), list[Any](), list[AnswerRequested](), list[str]()
    provider, exporter = kept_spans()
    given: dict[str, Any] = {} if answers is None else {"elicitation_callback": made}
    declares: Any = {"extensions": TASKS} if server.version == V2 else {}
    fetches = {
        one: options.pop(one) for one in ("call_timeout", "limits", "needs_approval", "effect") if one in options
    }
    with anyio.fail_after(60):
        async with session_with(server, **given, **declares) as session:
            fetches["elicitation"] = None if answers is None else made
            tools = await fetch_tools(session, server=name, **fetches)
            calls = [(f"c{at}", "work", f'{{"ref": "{ref}"}}') for at, ref in enumerate(refs or "a")] if tools else []
            told += [one.reason for one in tools.refused]
            known = Trajectory(
                run_id="r", observers=[Tracing(provider)]
            )  # the same each time, so that it is the same call
            async with pipeline(stream(chat(calls=calls)), tools=tools, trajectory=known, **options) as events:
                async for event in events:
                    shown.append(repr(event))
                    if isinstance(event, (ToolProgress, StreamWarning)):
                        told.append(event.value if isinstance(event, ToolProgress) else event.detail)
                    if leaves and isinstance(event, ToolProgress):
                        break
                    if isinstance(event, AnswerRequested):
                        asked.append(event)
                    while (
                        answers and asked and (len(asked) == len(calls) or not SDK2)
                    ):  # mcp 1 hears one question at a time
                        one = asked.pop()
                        calls.pop()
                        assert (one.question["server"], one.question["message"]) == ("s", "Where?")
                        events.answer(one, {"city": f"Rome {one.call_id}"})
    shown += [span.to_json() for span in exporter.get_finished_spans()]
    assert (len(shown) > 3, [one for one in shown if SECRET in one]) == (True, [])
    return sorted(events.turn.observations, key=lambda seen: seen.call_id), told


@BOTH
async def test_calls_that_the_server_runs_as_tasks_are_followed_to_their_ends(version: str) -> None:
    server = TaskServer(version, WORKING, {**WORKING, "statusMessage": "half\u202e"}, WORKING, DONE)
    (seen,), told = await ended(server)
    assert (seen.outcome, seen.value) == ("ok", "done a")
    assert told == [{"status": "working"}, {"status": "working", "message": "half\\u202e"}, {"status": "working"}]
    end = ["tasks/result"] if version == V1 else []
    assert server.asked() == ["tools/list", "tools/call", *["tasks/get"] * 4, *end]
    server = TaskServer(version, *[{**WORKING, "statusMessage": f"{at}{'x' * 99}"} for at in range(9)], DONE)
    several, told = await ended(server, "a", "b", limits=Limits(max_progress_events=2, max_error_excerpt=9))
    assert [one.value for one in several] == ["done a", "done b"]
    assert [one.get("message") for one in told if "message" in one] == ["0" + "x" * 8 + "…"] * 2


SUPPORT = [("required", True, "done a"), ("optional", True, "done a"), ("forbidden", True, "plainly a")]
SUPPORT += [(None, True, "plainly a"), ("any", True, "plainly a"), ("optional", False, "plainly a")]


@every(("support", "offers", "value"), [*SUPPORT, ("required", False, None)])
async def test_a_tool_runs_as_a_task_where_it_and_the_server_allow_it(support: Any, offers: bool, value: Any) -> None:
    seen, told = await ended(TaskServer(V1, support=support, offers=offers))
    assert [one.value for one in seen] == [value] * (value is not None)
    assert [one for one in told if "only as a task" in one] == told[:1] * (value is None)


FAILED = {"status": "failed", "error": {"code": -32603, "message": "out of paint\u202e"}}
ENDS: list[Any] = [
    ({"busy": 1}, (WORKING, DONE), "ok", "done a"),
    pytest.param(
        {"busy": 5}, (DONE,), "unknown", "longer be asked about the task: [task] is busy", marks=pytest.mark.thorough
    ),
    ({}, (WORKING, FAILED), "failed", "answered with error -32603: out of paint\\u202e"),
    ({"result": {"content": [], "isError": True}}, (DONE,), "failed", "did not say why"),
    ({"result": {"rows": 1}}, (DONE,), "failed", "is not a tool result"),
    ({}, (WORKING, {"status": "cancelled"}), "failed", "cancelled the call"),
    ({"lost": True}, (WORKING,), "unknown", "no longer knows the task"),
    ({"get": {"taskId": "task-other"}}, (WORKING,), "unknown", "an answer that is not about the task"),
    ({"get": {"status": None}}, (WORKING,), "unknown", "an answer that is not about the task"),
    ({"made": {"taskId": None}}, (WORKING,), "unknown", "without giving its id"),
    ({"made": {"taskId": "x" * 1025}}, (WORKING,), "unknown", "without giving its id"),
]


@BOTH
@every(("says", "states", "outcome", "words"), ENDS)
async def test_an_end_that_is_no_success_is_told_as_what_it_is(
    version: str, says: Any, states: Any, outcome: str, words: str
) -> None:
    server = TaskServer(version, *states, **says)
    (seen,), _ = await ended(server)
    assert (seen.outcome, words in seen.model_content) == (outcome, True), seen
    assert server.asked("tools/call", "tasks/cancel") == ["tools/call"]
    if outcome == "unknown" and "busy" not in says:  # of a pure call nothing is lost but its value
        (seen,), _ = await ended(TaskServer(version, *states, **says), effect="pure")
        assert seen.outcome == "failed"


@BOTH
@every("says", [{}, {"poll": 1e300}, {"poll": -5}, {"poll": "soon"}, {"get": {"status": "thinking"}}])
@every("state", [WORKING, ASKS])
@every("leaves", [False, True])
async def test_a_task_that_does_not_end_is_cancelled_with_its_call(
    version: str, says: Any, state: Any, leaves: bool
) -> None:
    server = TaskServer(version, state, **says)
    (seen,), _ = await ended(server, call_timeout=60 if leaves else 0.1, leaves=leaves, answers=False)
    assert seen.outcome == ("cancelled" if leaves else "timed_out")
    assert server.asked("tools/call", "tasks/cancel") == ["tools/call", "tasks/cancel"]
    (cancelled,) = (one["params"]["taskId"] for one in server.received if one.get("method") == "tasks/cancel")
    assert cancelled == f"{SECRET}a"


@BOTH
async def test_tasks_ask_the_user_beside_each_other_and_each_gets_its_own_answer(version: str) -> None:
    server = TaskServer(version, WORKING, ASKS, DONE)
    seen, _ = await ended(server, "a", "b", answers=True)
    assert [one.outcome for one in seen] == ["ok", "ok"], seen
    assert {task["ref"]: task["city"] for task in server.tasks.values()} == {"a": "Rome c0", "b": "Rome c1"}


@sdk2_only
async def test_a_task_that_asks_where_nobody_answers_is_ended() -> None:
    server = TaskServer(V2, ASKS)
    (seen,), _ = await ended(server)
    assert (seen.outcome, "elicitation=Elicitation()" in seen.model_content) == ("failed", True)
    assert server.asked("tasks/cancel") == ["tasks/cancel"]


# -- a process that died -------------------------------------------------------------------------------------------

GOES_ON: list[tuple[str, str, Any, dict[str, Any], str, int]] = [
    *[("once", "s", state, {}, "ok", 1) for state in (DONE, WORKING, ASKS)],
    ("idempotent", "s", DONE, {}, "ok", 2),
    ("pure", "s", DONE, {}, "ok", 2),
    ("once", "s", WORKING, {"lost": True}, "unknown", 1),
    ("once", "another", DONE, {}, "unknown", 1),
    ("once", "s", WORKING, {"lost": True, "offers": False}, "unknown", 1),
]


@BOTH
@every(("effect", "name", "state", "says", "outcome", "calls"), GOES_ON)
@every("approved", [False, True])
async def test_a_once_call_is_gone_on_with_by_its_id_or_unknown_and_never_made_again(
    version: str, effect: Any, name: str, state: Any, says: Any, outcome: str, calls: int, approved: bool
) -> None:
    options: Any = {"store": MemoryStore(), "effect": effect, "needs_approval": approved, "approve": lambda asked: True}
    server = TaskServer(version, WORKING)
    (seen,), _ = await ended(server, leaves=True, answers=True, **options)
    assert seen.outcome == "cancelled"
    server.states, server.says, server.tasks[f"{SECRET}a"]["gets"] = (state, DONE), says, 0
    for _ in range(2):
        (seen,), _ = await ended(server, name=name, answers=True, **options)
        assert seen.outcome == outcome, seen
    assert len(server.asked("tools/call")) == (calls if not approved else 1) + (calls == 2 and not approved)


@BOTH
async def test_a_task_goes_on_while_its_run_is_left_that_has_a_journal(version: str) -> None:
    async def ask(messages: list[Any], tools: Any) -> AsyncIterator[bytes]:
        calls = [("c", "work", '{"ref": "a"}')] if len(messages) == 1 else []
        for chunk in framed(WIRE, said(WIRE, text=["x"], calls=calls)):
            yield chunk

    server, journal, outcomes = TaskServer(version, WORKING), Journal(MemoryStore()), list[Any]()
    for _ in range(2):
        async with session_with(server, **({"extensions": TASKS} if version == V2 else {})) as session:
            tools, known = await fetch_tools(session, server="s"), Trajectory(run_id="r")
            asked = [{"role": "user", "content": "x"}]
            async with agent_loop(ask, asked, tools=tools, wire=WIRE, journal=journal, trajectory=known) as run:
                async for event in run:
                    if isinstance(event, ToolProgress) and server.states == (WORKING,):
                        break
        server.states = (DONE,)
        outcomes.append((run.outcome, run.messages[2]["content"] if run.messages[2:] else ""))
    assert (outcomes[0][0], outcomes[1]) == ("left", ("answered", "done a"))
    assert server.asked("tools/call", "tasks/cancel") == ["tools/call"]


async def test_a_task_goes_on_where_its_id_cannot_be_noted_and_a_warning_says_so() -> None:
    class Full(MemoryStore):
        async def note(self, key: str, text: str, /) -> None:
            raise OSError(text)

    (seen,), told = await ended(TaskServer(V1, DONE), store=Full())
    assert (seen.outcome, ["could not record" in one for one in told[:1]]) == ("ok", [True]), told


@sdk2_only
@pytest.mark.asyncio_only
@pytest.mark.costly
async def test_a_server_of_the_sdk_runs_tasks_over_http(tmp_path: Path) -> None:
    import httpx2
    from mcp.server.mcpserver import MCPServer

    from examples.mcp_tasks import Tasks

    def make() -> Any:
        server = MCPServer("ci", extensions=[Tasks(tmp_path / "task")])
        server.tool()(build)
        return server

    def build() -> str:
        """Builds."""
        raise NotImplementedError

    with anyio.fail_after(60), served_over_http(make) as url:
        client = httpx2.AsyncClient(transport=BoundedHTTPTransport(httpx2.AsyncHTTPTransport()))
        async with (
            client,
            streamable_http_client(url, http_client=client) as streams,
            ClientSession(streams[0], streams[1], extensions=TASKS) as session,
        ):
            await session.discover()
            seen = await observed(await fetch_tools(session, server="s"), "build")
    assert (seen.outcome, seen.value, (tmp_path / "task").read_text()) == ("ok", {"result": "built main"}, "3")
