"""From a server's list to tools: pages, bounds, what is refused, and what each tool is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import CITY, FakeSession, fetched, listed
from profiles import every

from streamtools import Limits, tool
from streamtools.mcp import ServerTool, fetch_tools

pytestmark = pytest.mark.anyio

LOCAL_REF = {
    "type": "object",
    "properties": {"tree": {"$ref": "#/$defs/node"}},
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}


@tool
def local(city: str) -> str:
    """A tool of ours."""
    return city


# -- what a tool is ------------------------------------------------------------------------------------------------


async def test_a_servers_tool_has_the_shape_of_any_tool() -> None:
    hints = {"readOnlyHint": True, "destructiveHint": "no", "unknown": True, "title": "Sky"}
    (made,) = await fetched(
        listed(
            "forecast", title="Forecast", description="The sky.", inputSchema=CITY, outputSchema={}, annotations=hints
        )
    )
    assert type(made) is type(local)
    assert (made.name, made.title, made.description) == ("forecast", "Forecast", "The sky.")
    assert (made.schema, made.output_schema) == (CITY, {})
    assert made.annotations == {"readOnlyHint": True}
    assert (made.schema_source, made.owner, made.effect, made.boundary) == ("protocol_fetch", "s", "once", "validated")


async def test_objects_of_either_sdk_generation_are_read_like_json() -> None:
    old = SimpleNamespace(name="a", title=None, description=None, inputSchema=CITY, outputSchema=None, annotations=None)
    hints = SimpleNamespace(model_dump=lambda **_: {"idempotentHint": True})
    new = SimpleNamespace(name="b", input_schema=CITY, output_schema={"type": "object"}, annotations=hints)
    page = SimpleNamespace(tools=[old, new], next_cursor=None)
    tools = await fetch_tools(FakeSession(pages=[page]), server="s")
    assert [made.schema for made in tools] == [CITY, CITY]
    assert (tools[1].annotations, tools[1].output_schema) == ({"idempotentHint": True}, {"type": "object"})


@every("session", [None, object(), SimpleNamespace(list_tools=print), SimpleNamespace(call_tool=print)])
async def test_what_is_no_session_is_refused_where_it_is_given(session: Any) -> None:
    with pytest.raises(TypeError, match=r"is not an MCP session: it has no method (list_tools|call_tool)\(\)"):
        await fetch_tools(session, server="s")


# -- what its schema says is enforced ------------------------------------------------------------------------------


async def test_a_pattern_that_cannot_be_enforced_is_told() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(?!secret)"}}}
    tools = await fetched(listed("f", inputSchema=schema, outputSchema=schema), listed("g", inputSchema=CITY))
    assert list(tools.unenforced) == ["f"]
    assert len(tools.unenforced["f"]) == 2
    assert "pattern" in tools.unenforced["f"][0]


# -- effects -------------------------------------------------------------------------------------------------------

HINTS = [
    ({}, "once", "once"),
    ({"readOnlyHint": True}, "once", "pure"),
    ({"idempotentHint": True}, "once", "idempotent"),
    ({"readOnlyHint": False, "idempotentHint": False}, "once", "once"),
    ({"readOnlyHint": "true"}, "once", "once"),
]


@every(("hints", "untrusted", "trusted"), HINTS)
async def test_hints_count_only_from_a_server_that_is_trusted(hints: Any, untrusted: str, trusted: str) -> None:
    entry = listed("f", annotations=hints)
    (careful,) = await fetched(entry)
    (trusting,) = await fetched(entry, trust_hints=True)
    assert (careful.effect, trusting.effect) == (untrusted, trusted)


async def test_the_caller_says_the_effect_for_all_or_for_each() -> None:
    def judge(definition: ServerTool) -> Any:
        return "pure" if definition.name.startswith("get") else "once"

    assert [made.effect for made in await fetched(listed("a"), listed("b"), effect="pure")] == ["pure", "pure"]
    assert [made.effect for made in await fetched(listed("get"), listed("put"), effect=judge)] == ["pure", "once"]


# -- pages ---------------------------------------------------------------------------------------------------------


def pages(count: int, *, circle: bool = False) -> list[Any]:
    made: list[dict[str, Any]] = [{"tools": [listed(f"t{n}")], "nextCursor": str(n + 1)} for n in range(count)]
    if circle:
        made[-1]["nextCursor"] = "1"
    else:
        del made[-1]["nextCursor"]
    return made


async def test_all_pages_are_read_and_sorted() -> None:
    session = FakeSession(pages=pages(12))
    tools = await fetch_tools(session, server="s")
    assert [made.name for made in tools] == sorted(f"t{n}" for n in range(12))
    assert session.cursors == [None, *map(str, range(1, 12))]
    assert tools.complete


async def test_pages_that_go_in_a_circle_end() -> None:
    session = FakeSession(pages=pages(3, circle=True))
    tools = await fetch_tools(session, server="s")
    assert [made.name for made in tools] == ["t0", "t1", "t2"]
    assert not tools.complete
    assert [(note.name, note.reason.split(":")[0]) for note in tools.refused] == [(None, "the list is circular")]


async def test_more_pages_than_allowed_are_left_out() -> None:
    tools = await fetch_tools(FakeSession(pages=pages(4)), server="s", limits=Limits(max_list_pages=3))
    assert (len(tools), tools.complete) == (3, False)
    assert "max_list_pages=3" in tools.refused[0].reason
    assert (await fetch_tools(FakeSession(pages=pages(3)), server="s", limits=Limits(max_list_pages=3))).complete


async def test_more_tools_than_allowed_are_left_out() -> None:
    tools = await fetched(*map(listed, "abcd"), limits=Limits(max_listed_tools=3))
    assert ([made.name for made in tools], tools.complete) == (["a", "b", "c"], False)
    assert [note.reason for note in tools.refused] == [
        "the list has more tools than max_listed_tools=3; the rest is left out"
    ]
    assert (await fetched(*map(listed, "abc"), limits=Limits(max_listed_tools=3))).complete


@every("page", [{}, {"tools": None}, {"tools": {"a": 1}}, {"tools": "abc"}, 7, None, "x"])
async def test_a_page_that_is_none_ends_the_list(page: Any) -> None:
    first = {"tools": [listed("a")], "nextCursor": "1"}
    tools = await fetch_tools(FakeSession(pages=[first, page]), server="s")
    assert ([made.name for made in tools], tools.complete) == (["a"], False)
    assert tools.refused[0].reason == "a page of the list has no list of tools"


async def test_listing_has_its_time() -> None:
    session = FakeSession()
    session.gate = anyio.Event()
    with pytest.raises(TimeoutError, match=r"'s' did not list its tools within 0.01 s"):
        await fetch_tools(session, server="s", list_timeout=0.01)


# -- what is refused alone -----------------------------------------------------------------------------------------

CYCLE: dict[str, Any] = {"type": "object"}
CYCLE["properties"] = {"again": CYCLE}
DEEP: dict[str, Any] = {"type": "object"}
for _ in range(5000):
    DEEP = {"type": "object", "properties": {"a": DEEP}}

DEEPER: list[Any] = []
for _ in range(300):
    DEEPER = [DEEPER]

REFUSED = [
    ({"name": "x"}, "has no inputSchema"),
    (listed("x", inputSchema=[]), "inputSchema is not an object"),
    (listed("x", inputSchema=True), "inputSchema is not an object"),
    (listed("x", inputSchema={"type": "string"}), "expected the type 'object'"),
    (listed("x", inputSchema={"type": ["object", "null"]}), "expected the type 'object'"),
    (listed("x", inputSchema=CYCLE), "inputSchema is larger than max_schema_bytes=1000"),  # it has no end
    (listed("x", inputSchema=DEEP), "inputSchema is larger than max_schema_bytes=1000"),
    (listed("x", inputSchema={"type": "object", "x": DEEPER}), "inputSchema cannot be written as JSON"),
    (listed("x", inputSchema={"type": "object", "x": [0] * 400}), "has more JSON values than max_schema_values=400"),
    (listed("x", inputSchema={"type": "object", "default": float("nan")}), "cannot be written as JSON"),
    (listed("x", inputSchema={"type": "object", "x": object()}), "cannot be written as JSON"),
    (listed("x", inputSchema={"type": "object", "x": "\ud800"}), "cannot be written as JSON"),
    (listed("x", inputSchema={"type": "object", "x": "y" * 2000}), "inputSchema is larger than max_schema_bytes=1000"),
    (listed("x", inputSchema={"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/s"}}}), "127.0.0.1"),
    (listed("x", inputSchema={"type": "object", "$schema": "https://example.com/mine"}), "dialect|schema"),
    (listed("x", inputSchema={"type": "object", "properties": 3}), "properties"),
    (listed("x", inputSchema={"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}), "nowhere"),
    (listed("x", outputSchema=[]), "outputSchema is not an object"),
    (listed("x", outputSchema={"$ref": "file:///etc/passwd"}), "passwd"),
    (listed("x", description=3), "description is not text"),
    (listed("x", description="x" * 101), "max_description_chars=100"),
    (listed("x", description="\ud800"), "surrogate"),
    (listed("x", execution={"taskSupport": "required"}), "only as a task"),
    (7, "its name is not text"),
    (None, "its name is not text"),
    ([], "its name is not text"),
]


@every(("entry", "why"), REFUSED)
async def test_a_tool_that_cannot_be_taken_is_refused_alone(entry: Any, why: str) -> None:
    limits = Limits(max_schema_bytes=1000, max_schema_values=400, max_description_chars=100)
    tools = await fetched(listed("a"), entry, listed("z"), limits=limits)
    assert [made.name for made in tools] == ["a", "z"]
    (refused,) = tools.refused
    assert any(word in refused.reason for word in why.split("|"))
    assert refused.name in ("x", "(no name)")
    assert tools.complete


@every(
    "schema",
    [{}, {"properties": {}}, LOCAL_REF, {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}],
)
async def test_schemas_that_servers_do_send_are_taken_and_are_of_objects(schema: dict[str, Any]) -> None:
    (made,) = await fetched(listed("f", inputSchema=schema))
    assert made.schema == {"type": "object", **schema}


async def test_a_name_with_two_meanings_is_refused_both_times() -> None:
    one, other = listed("pay", description="Pays."), listed("pay", description="Pays somebody else.")
    tools = await fetched(one, listed("fine"), other, one)
    assert [made.name for made in tools] == ["fine"]
    assert {note.reason for note in tools.refused} == {"the server has several tools of this name"}


async def test_two_names_that_become_one_are_not_both_taken() -> None:
    (mapped,) = await fetched(listed("files/read"))
    tools = await fetched(listed("files/read"), listed(mapped.name))
    assert len(tools) == 1
    assert "which another tool of the server has" in tools.refused[0].reason
