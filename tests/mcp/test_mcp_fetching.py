"""From a server's list to tools: pages, bounds, what is refused, and what each tool is."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import CITY, NO_ARGUMENTS, FakeSession, fetched, listed, observed, text

from streamtools import Limits, tool
from streamtools.errors import ToolDefinitionError
from streamtools.mcp import ServerTool, fetch_tools
from streamtools.tools import Toolset

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


async def test_the_observation_says_where_the_schema_comes_from() -> None:
    tools = await fetched(listed("f"))
    observation = await observed(tools, "f")
    assert (observation.outcome, observation.value) == ("ok", "done")
    assert (observation.schema_source, observation.validated) == ("protocol_fetch", True)
    assert "protocol_fetch" in observation.report()


@pytest.mark.parametrize(
    ("title", "kept"), [("x" * 256, "x" * 256), ("x" * 257, "x" * 256 + "..."), ("a\u202eb", "a\\u202eb"), (7, None)]
)
async def test_a_title_is_for_people_and_bounded(title: Any, kept: str | None) -> None:
    (by_title,) = await fetched(listed("f", title=title))
    (by_hint,) = await fetched(listed("f", annotations={"title": title}))
    assert by_title.title == by_hint.title == kept


async def test_a_tool_without_description_is_taken() -> None:
    (made,) = await fetched(listed("f"))
    assert made.description == ""


async def test_provenance_is_kept_under_the_name_that_the_model_uses() -> None:
    tools = await fetched(listed("list/files"), prefix="disk")
    (name,) = tools.definitions
    assert (tools.server, tools.definitions[name].name, tools[0].name) == ("s", "list/files", name)


async def test_the_call_goes_out_under_the_servers_own_name() -> None:
    session = FakeSession(listed("list/files"))
    tools = await fetch_tools(session, server="s", prefix="disk")
    await observed(tools, tools[0].name)
    assert session.calls == [("list/files", {})]


async def test_foreign_and_own_tools_stand_in_one_list() -> None:
    tools = await fetched(listed("a"), listed("b"))
    assert list(Toolset([*tools, local])) == ["a", "b", "local"]
    assert [made.name for made in tools[:1]] == ["a"]
    assert repr(tools) == "<FetchedTools of 's': a, b; 0 refused>"
    assert repr(await fetched()) == "<FetchedTools of 's': none; 0 refused>"


async def test_objects_of_either_sdk_generation_are_read_like_json() -> None:
    old = SimpleNamespace(name="a", title=None, description=None, inputSchema=CITY, outputSchema=None, annotations=None)
    hints = SimpleNamespace(model_dump=lambda **_: {"idempotentHint": True})
    new = SimpleNamespace(name="b", input_schema=CITY, output_schema={"type": "object"}, annotations=hints)
    page = SimpleNamespace(tools=[old, new], next_cursor=None)
    tools = await fetch_tools(FakeSession(pages=[page]), server="s")
    assert [made.schema for made in tools] == [CITY, CITY]
    assert (tools[1].annotations, tools[1].output_schema) == ({"idempotentHint": True}, {"type": "object"})


async def test_a_session_that_gives_the_bare_list_is_read() -> None:
    session = FakeSession(pages=[[listed("a")]])
    assert len(await fetch_tools(session, server="s")) == 1


async def test_a_session_that_knows_no_cursor_gives_its_only_page() -> None:
    class Simple:
        async def list_tools(self) -> Any:
            return {"tools": [listed("a")], "nextCursor": "1"}

        async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
            return text(f"{name} {arguments}")

    tools = await fetch_tools(Simple(), server="s")
    assert ([made.name for made in tools], tools.complete) == (["a"], False)
    assert "has no cursor" in tools.refused[0].reason
    assert (await observed(tools, "a")).value == "a {}"


class Hidden:
    """A method that does not tell what it takes."""

    __signature__ = "hidden"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    async def __call__(self, *given: Any, **named: Any) -> Any:
        assert named == {}
        return self.answer


async def test_a_session_that_hides_what_its_methods_take_is_asked_for_the_least() -> None:
    session = SimpleNamespace(list_tools=Hidden({"tools": [listed("a")]}), call_tool=Hidden(text("done")))
    assert (await observed(await fetch_tools(session, server="s"), "a")).value == "done"


@pytest.mark.parametrize(
    "session", [None, object(), SimpleNamespace(list_tools=print), SimpleNamespace(call_tool=print)]
)
async def test_what_is_no_session_is_refused_where_it_is_given(session: Any) -> None:
    with pytest.raises(TypeError, match=r"is not an MCP session: it has no method (list_tools|call_tool)\(\)"):
        await fetch_tools(session, server="s")


# -- what its schema says is enforced ------------------------------------------------------------------------------

RICH: dict[str, Any] = {
    "type": "object",
    "properties": {
        "unit": {"enum": ["C", "F"]},
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "null"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "days": {"type": "array", "items": {"type": "integer", "minimum": 1}, "maxItems": 2, "uniqueItems": True},
        "note": {"anyOf": [{"type": "string", "maxLength": 5}, {"type": "null"}], "default": None},
        "tree": {"$ref": "#/$defs/node"},
        "mixed": {"if": {"type": "string"}, "then": {"minLength": 2}, "not": {"const": 7}},
    },
    "required": ["place"],
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "minProperties": 1}},
    "propertyNames": {"maxLength": 5},
}

GIVEN: list[tuple[str, str, str]] = [
    ('{"place": {"city": "Oslo"}}', "ok", ""),
    ('{"place": {"city": "Oslo", "zip": null}, "note": null, "days": [1, 2], "unit": "C"}', "ok", ""),
    ('{"place": {"city": "Oslo"}, "tree": {"next": {"next": {"leaf": 1}}}, "mixed": 8}', "ok", ""),
    ("{}", "invalid", "place"),
    ('{"place": {"zip": "1"}}', "invalid", "place"),
    ('{"place": {"city": "Oslo", "street": 1}}', "invalid", "street"),
    ('{"place": {"city": 7}}', "invalid", "place.city"),
    ('{"place": {"city": "Oslo"}, "unit": "K"}', "invalid", "unit"),
    ('{"place": {"city": "Oslo"}, "days": [0]}', "invalid", "days[0]"),
    ('{"place": {"city": "Oslo"}, "days": [1, 1]}', "invalid", "days"),
    ('{"place": {"city": "Oslo"}, "days": [1, 2, 3]}', "invalid", "days"),
    ('{"place": {"city": "Oslo"}, "note": "too long"}', "invalid", "note"),
    ('{"place": {"city": "Oslo"}, "tree": {"next": {}}}', "invalid", "tree.next"),
    ('{"place": {"city": "Oslo"}, "mixed": "x"}', "invalid", "mixed"),
    ('{"place": {"city": "Oslo"}, "mixed": 7}', "invalid", "mixed"),
    ('{"place": {"city": "Oslo"}, "longer": 7}', "invalid", "longer"),
]


@pytest.mark.parametrize(("arguments", "outcome", "names"), GIVEN)
async def test_every_keyword_of_the_servers_schema_is_enforced_and_none_is_lost(
    arguments: str, outcome: str, names: str
) -> None:
    session = FakeSession(listed("f", inputSchema=RICH))
    (made,) = tools = await fetch_tools(session, server="s")
    assert made.schema == RICH
    observation = await observed(tools, "f", arguments)
    assert (observation.outcome, names in observation.model_content) == (outcome, True)
    assert [given for _, given in session.calls] == ([json.loads(arguments)] if outcome == "ok" else [])


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


@pytest.mark.parametrize(("hints", "untrusted", "trusted"), HINTS)
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


@pytest.mark.parametrize("options", [{"effect": "pur"}, {"effect": lambda _: None}, {"call_timeout": 0}])
async def test_what_the_caller_got_wrong_is_raised(options: Any) -> None:
    with pytest.raises(ToolDefinitionError, match=r"tool 'f': (effect|timeout): expected"):
        await fetched(listed("f"), **options)


async def test_a_calls_time_can_be_bounded() -> None:
    async def forever(*_: Any) -> None:
        await anyio.sleep_forever()

    tools = await fetch_tools(FakeSession(listed("f"), answer=forever), server="s", call_timeout=0.01)
    assert (tools[0].timeout, (await observed(tools, "f")).outcome) == (0.01, "timed_out")


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


async def test_the_order_of_the_list_does_not_matter() -> None:
    forth, back = await fetched(listed("a"), listed("b")), await fetched(listed("b"), listed("a"))
    assert [made.name for made in forth] == [made.name for made in back] == ["a", "b"]


async def test_pages_that_go_in_a_circle_end() -> None:
    session = FakeSession(pages=pages(3, circle=True))
    tools = await fetch_tools(session, server="s")
    assert [made.name for made in tools] == ["t0", "t1", "t2"]
    assert not tools.complete
    assert [(note.name, note.reason.split(":")[0]) for note in tools.refused] == [(None, "the list goes in a circle")]


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


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {"a": 1}}, {"tools": "abc"}, 7, None, "x"])
async def test_a_page_that_is_none_ends_the_list(page: Any) -> None:
    first = {"tools": [listed("a")], "nextCursor": "1"}
    tools = await fetch_tools(FakeSession(pages=[first, page]), server="s")
    assert ([made.name for made in tools], tools.complete) == (["a"], False)
    assert tools.refused[0].reason == "a page of the list has no list of tools"


@pytest.mark.parametrize("cursor", [7, "", None, ["1"]])
async def test_a_cursor_that_is_no_text_is_none(cursor: Any) -> None:
    session = FakeSession(pages=[{"tools": [], "nextCursor": cursor}])
    assert (await fetch_tools(session, server="s")).complete
    assert session.cursors == [None]


async def test_what_the_session_raises_when_it_cannot_list_goes_to_the_caller() -> None:
    with pytest.raises(ConnectionError):
        await fetch_tools(FakeSession(pages=[ConnectionError()]), server="s")


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
    (listed("x", execution={"taskSupport": "required"}), "task only"),
    (7, "its name is not text"),
    (None, "its name is not text"),
    ([], "its name is not text"),
]


@pytest.mark.parametrize(("entry", "why"), REFUSED)
async def test_a_tool_that_cannot_be_taken_is_refused_alone(entry: Any, why: str) -> None:
    limits = Limits(max_schema_bytes=1000, max_schema_values=400, max_description_chars=100)
    tools = await fetched(listed("a"), entry, listed("z"), limits=limits)
    assert [made.name for made in tools] == ["a", "z"]
    (refused,) = tools.refused
    assert any(word in refused.reason for word in why.split("|"))
    assert refused.name in ("x", "(no name)")
    assert tools.complete


@pytest.mark.parametrize(
    "schema",
    [{}, {"properties": {}}, LOCAL_REF, {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#"}],
)
async def test_schemas_that_servers_do_send_are_taken_and_are_of_objects(schema: dict[str, Any]) -> None:
    (made,) = await fetched(listed("f", inputSchema=schema))
    assert made.schema == {"type": "object", **schema}


async def test_the_size_of_a_schema_is_that_of_its_json() -> None:
    schema = {"type": "object", "description": "x" * 50}
    size = len(json.dumps(schema, separators=(",", ":")))
    assert len(await fetched(listed("f", inputSchema=schema), limits=Limits(max_schema_bytes=size + 1))) == 1
    (refused,) = (await fetched(listed("f", inputSchema=schema), limits=Limits(max_schema_bytes=size - 1))).refused
    assert refused.reason == f"inputSchema is larger than max_schema_bytes={size - 1}"


async def test_what_the_server_says_is_not_in_a_repr() -> None:
    tools = await fetched(listed("f", description="secret", inputSchema={"title": "secret"}, outputSchema={}))
    assert repr(tools.definitions["f"]) == "ServerTool(name='f', title=None)"


async def test_limits_are_exact() -> None:
    limits = Limits(max_description_chars=100, max_name_bytes=10)
    tools = await fetched(listed("x" * 10, description="y" * 100), limits=limits)
    assert (len(tools), tools.refused) == (1, ())


async def test_a_name_with_two_meanings_is_refused_both_times() -> None:
    one, other = listed("pay", description="Pays."), listed("pay", description="Pays somebody else.")
    tools = await fetched(one, listed("fine"), other, one)
    assert [made.name for made in tools] == ["fine"]
    assert {note.reason for note in tools.refused} == {"the server has several tools of this name"}


async def test_the_same_tool_on_two_pages_is_one() -> None:
    moved = [{"tools": [listed("a"), listed("b")], "nextCursor": "1"}, {"tools": [listed("b"), listed("c")]}]
    tools = await fetch_tools(FakeSession(pages=moved), server="s")
    assert ([made.name for made in tools], tools.refused) == (["a", "b", "c"], ())


async def test_two_names_that_become_one_are_not_both_taken() -> None:
    (mapped,) = await fetched(listed("files/read"))
    tools = await fetched(listed("files/read"), listed(mapped.name))
    assert len(tools) == 1
    assert "which another of the server's tools has" in tools.refused[0].reason


async def test_a_schema_is_not_shared_with_the_session() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    tools = await fetched(listed("f", inputSchema=schema))
    schema["properties"] = {}
    assert tools[0].schema != schema
    assert NO_ARGUMENTS == {"type": "object", "additionalProperties": False}
