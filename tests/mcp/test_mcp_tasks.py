"""Calls that an MCP server runs as tasks: how they begin, go on and end, and what a server may not do with them."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp_servers import SDK2
from mcp_task_server import ASKS, DONE, SECRET, V1, V2, WORKING, TaskServer, session_with
from profiles import every
from streams import chat, stream

from streamtools import Limits, Observation, pipeline
from streamtools.events import ToolProgress
from streamtools.mcp import TASKS, Elicitation, fetch_tools

pytestmark = pytest.mark.anyio
VERSIONS = [V1, *([V2] if SDK2 else [])]
BOTH = every("version", VERSIONS)


async def ended(
    server: TaskServer, *refs: str, elicitation: Elicitation | None = None, effect: Any = "once", **options: Any
) -> tuple[list[Observation], list[Any]]:
    """The ends of calls with these references, in order, and what was reported."""
    asks: Any = {} if elicitation is None else {"elicitation_callback": elicitation}
    declares: Any = {"extensions": TASKS} if server.version == V2 else {}
    given = {name: options.pop(name) for name in ("call_timeout", "limits") if name in options}
    with anyio.fail_after(60):
        async with session_with(server, **asks, **declares) as session:
            tools = await fetch_tools(
                session, server="s", effect=effect, elicitation=elicitation, **given
            )
            if tools.refused:
                return [], [one.reason for one in tools.refused]
            calls = [(f"c{at}", "work", f'{{"ref": "{ref}"}}') for at, ref in enumerate(refs or "a")]
            async with pipeline(stream(chat(calls=calls)), tools=tools, **options) as events:
                told = [event.value async for event in events if isinstance(event, ToolProgress)]
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


