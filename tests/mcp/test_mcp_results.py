"""What comes back from a call: the model's blocks, the program's value, and what a server must not do with them."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp_session import CITY, FakeSession, fetched, listed, observed, text

from streamtools import Limits, ToolError
from streamtools.content import Media, Text, ToolResult
from streamtools.mcp import fetch_tools, tool_result

pytestmark = pytest.mark.anyio

PIXEL = base64.b64encode(b"\x89PNG pixels").decode()
LIMITS = Limits(max_open_blocks=3, max_result_media_bytes=1000)


def result(answer: Any, **options: Any) -> ToolResult:
    return tool_result(answer, **{"limits": LIMITS, **options})


BLOCKS: list[tuple[dict[str, Any], Text | Media]] = [
    ({"type": "text", "text": "hi"}, Text("hi")),
    ({"type": "text", "text": "half \ud83d"}, Text("half \ufffd")),
    (
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        Media(kind="image", mime_type="image/png", data=PIXEL),
    ),
    (
        {"type": "audio", "data": f"{PIXEL[:4]}\r\n{PIXEL[4:]}", "mimeType": "audio/wav"},
        Media(kind="audio", mime_type="audio/wav", data=PIXEL),
    ),
    (
        {"type": "resource_link", "uri": "file:///plan.md", "name": "plan", "mimeType": "text/markdown"},
        Text("[resource: plan, file:///plan.md, text/markdown]"),
    ),
    ({"type": "resource_link", "uri": 7}, Text("[resource: ]")),
    (
        {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "inside"}},
        Text("[resource: file:///a.txt]\ninside"),
    ),
    (
        {"type": "resource", "resource": {"uri": "file:///a.mp4", "blob": PIXEL, "mimeType": "video/mp4"}},
        Media(kind="video", mime_type="video/mp4", data=PIXEL, filename="file:///a.mp4"),
    ),
    (
        {"type": "resource", "resource": {"blob": PIXEL}},
        Media(kind="file", mime_type="application/octet-stream", data=PIXEL, filename="without an address"),
    ),
    (
        {"type": "resource", "resource": {"uri": "x:", "blob": "*"}},
        Text("[resource: x:; left out: its data is not base64]"),
    ),
    ({"type": "resource"}, Text("[resource: without an address; left out: its data is not base64]")),
    ({"type": "text"}, Text("[text; left out: its text is not text]")),
    (
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        Text("[image; left out: its data is not base64]"),
    ),
    ({"type": "image", "data": PIXEL}, Text("[image; left out: it has no type]")),
    ({"type": "image", "data": PIXEL, "mimeType": "image/png\r\nX: y"}, Text("[image; left out: it has no type]")),
    ({"type": "image", "data": "é", "mimeType": "image/png"}, Text("[image; left out: its data is not base64]")),
    ({"type": "hologram", "data": 1}, Text("[hologram]")),
    ({"type": "\u202ex"}, Text("[\\u202ex]")),
    ({"type": ["text"]}, Text("[block of no known kind]")),
    ({}, Text("[block of no known kind]")),
]


@pytest.mark.parametrize(("block", "read"), BLOCKS)
def test_a_block_becomes_what_the_model_can_read(block: dict[str, Any], read: Text | Media) -> None:
    assert result({"content": [block]}).blocks == (read,)


def test_structured_content_may_be_as_large_as_the_limit() -> None:
    assert result({"structuredContent": "x" * 998}).value == "x" * 998  # and two quotes
    with pytest.raises(ToolError, match="larger than"):
        result({"structuredContent": "x" * 999})


def test_an_address_is_bounded() -> None:
    (block,) = result({"content": [{"type": "resource_link", "uri": "x" * 5000}]}).blocks
    assert block == Text(f"[resource: {'x' * 1024}...]")


@pytest.mark.parametrize("junk", [7, None, "text", ["x"]])
def test_a_block_that_is_no_object_is_a_placeholder(junk: Any) -> None:
    assert result({"content": [junk]}).blocks == (Text("[block of no known kind]"),)


def test_the_value_is_the_structured_content_or_else_the_text() -> None:
    assert result(text("a", structuredContent={"n": 1})).value == {"n": 1}
    assert result(text("a", structuredContent=0)).value == 0
    assert result({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}).value == "a\nb"
    assert result({"content": []}).value == ""


def test_structured_content_without_text_is_what_the_model_reads() -> None:
    assert result({"structuredContent": {"n": 1}}).blocks == (Text('{"n":1}'),)


def test_a_failed_call_speaks_to_the_model() -> None:
    failed = result(text("no such city", isError=True, structuredContent={"n": 1}))
    assert (failed.is_error, failed.blocks, failed.value) == (True, (Text("no such city"),), None)
    assert result({"content": [], "isError": True}).blocks == (Text("the tool failed and did not say why"),)


def test_only_true_is_an_error() -> None:
    assert not result({"content": [], "isError": "false"}).is_error


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"resultType": "input_required", "content": []}, "asks for input"),
        ({"inputRequests": {}}, "asks for input"),
        ({"resultType": "task\u202e", "content": []}, r"kind that is not known here: task\\u202e"),
        ({"resultType": 7, "content": []}, "kind that is not known here: int"),
        ({"content": "text"}, "its content is not a list"),
        ({"structuredContent": float("nan"), "content": 3}, "its content is not a list"),
        ({"structuredContent": object()}, "cannot be written as JSON"),
        ({"structuredContent": "x" * 1000}, "larger than max_result_media_bytes=1000"),
    ],
)
def test_an_answer_that_is_no_result_is_an_error_that_says_so(answer: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolError, match=says):
        result(answer)


def test_more_blocks_than_a_message_may_have_are_cut() -> None:
    given = result({"content": [{"type": "text", "text": str(n)} for n in range(5)]})
    assert given.blocks == (Text("0"), Text("1"), Text("2"), Text("[cut: 2 more blocks]"))
    assert len(result({"content": [{"type": "text", "text": "a"}] * 3}).blocks) == 3


def test_objects_are_read_like_json_whichever_way_they_spell() -> None:
    class Block:
        def model_dump(self, **options: Any) -> dict[str, Any]:
            assert options == {"mode": "json", "by_alias": True, "exclude_none": True}
            return {"type": "text", "text": "hi"}

    old = SimpleNamespace(content=[Block()], structuredContent={"n": 1}, isError=False)
    new = SimpleNamespace(content=[Block()], structured_content={"n": 1}, is_error=False, result_type="complete")
    for answer in (old, new):
        assert (result(answer).value, result(answer).blocks) == ({"n": 1}, (Text("hi"),))


# -- the output schema ---------------------------------------------------------------------------------------------

DEGREES = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}


async def forecast(answer: dict[str, Any]) -> Any:
    session = FakeSession(listed("forecast", outputSchema=DEGREES), answer=answer)
    return await observed(await fetch_tools(session, server="s"), "forecast")


async def test_a_result_that_fits_the_output_schema_is_the_value() -> None:
    observation = await forecast(text("21", structuredContent={"degrees": 21}))
    assert (observation.outcome, observation.value, observation.model_content) == ("ok", {"degrees": 21}, "21")


async def test_a_result_that_does_not_fit_the_output_schema_fails_and_names_the_place_and_not_the_value() -> None:
    observation = await forecast(text("hot", structuredContent={"degrees": "secret"}))
    assert observation.outcome == "failed"
    assert "forecast has run, but" in observation.model_content
    assert "does not fit the tool's output schema: degrees: " in observation.model_content
    assert "secret" not in observation.model_content


async def test_of_many_problems_with_a_result_the_first_are_told() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "integer"}}
    many = {f"key{number}": "x" for number in range(20)}
    session = FakeSession(listed("f", outputSchema=schema), answer={"structuredContent": many})
    told = (await observed(await fetch_tools(session, server="s"), "f")).model_content
    assert [f"key{number}: " in told for number in (0, 15, 16)] == [True, True, False]
    assert told.endswith("and 4 more")


async def test_a_declared_output_schema_asks_for_structured_content() -> None:
    observation = await forecast(text("21"))
    assert observation.outcome == "failed"
    assert "is missing, though the tool declares an output schema" in observation.model_content


async def test_a_failed_call_need_not_fit_the_output_schema() -> None:
    observation = await forecast(text("no data", isError=True))
    assert (observation.outcome, observation.model_content) == ("failed", "Error: no data")


async def test_a_schema_that_allows_null_is_met_by_no_structured_content() -> None:
    session = FakeSession(listed("f", outputSchema={"type": ["object", "null"]}))
    assert (await observed(await fetch_tools(session, server="s"), "f")).outcome == "ok"


async def test_an_image_reaches_the_history_as_an_image() -> None:
    session = FakeSession(listed("f"), answer={"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]})
    observation = await observed(await fetch_tools(session, server="s"), "f")
    assert observation.result is not None
    assert observation.result.blocks == (Media(kind="image", mime_type="image/png", data=PIXEL),)


async def test_large_content_is_cut_like_any_result() -> None:
    session = FakeSession(listed("f"), answer=text("x" * 100))
    observation = await observed(await fetch_tools(session, server="s"), "f", limits=Limits(max_result_bytes=10))
    assert observation.outcome == "ok"
    assert len(observation.model_content) < 100


async def test_arguments_are_checked_by_the_servers_schema_before_anything_is_sent() -> None:
    session = FakeSession(listed("forecast", inputSchema=CITY))
    tools = await fetch_tools(session, server="s")
    assert (await observed(tools, "forecast", '{"city": "Oslo", "days": 0}')).outcome == "invalid"
    assert session.calls == []
    assert (await observed(tools, "forecast", '{"city": "Oslo", "days": 2}')).outcome == "ok"
    assert session.calls == [("forecast", {"city": "Oslo", "days": 2})]


async def test_an_empty_list_of_tools_is_an_empty_sequence() -> None:
    tools = await fetched()
    assert (len(tools), list(tools), tools.refused, tools.complete) == (0, [], (), True)


MEGABYTES = "A" * (3 << 20)
LARGE = [
    (MEGABYTES, True),
    ("\n".join((MEGABYTES, "AA==")), True),
    (f"{MEGABYTES}AA==AAAA", False),
    (f"AA=={MEGABYTES}", False),
    (f"{MEGABYTES}*", False),
    (f"{MEGABYTES}A", False),
]


@pytest.mark.parametrize(("data", "taken"), LARGE, ids=range(len(LARGE)))
async def test_large_media_are_base64_from_their_first_to_their_last_character(data: str, taken: bool) -> None:
    (block,) = tool_result({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}).blocks
    assert isinstance(block, Media) is taken


async def test_other_tasks_go_on_while_a_large_result_is_read() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "integer", "minimum": 0}}}}
    session = FakeSession(listed("f", outputSchema=schema), answer=text("", structuredContent={"a": [1] * 300_000}))
    tools = await fetch_tools(session, server="s")
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            beats += 1
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        assert (await observed(tools, "f")).outcome == "ok"
        group.cancel_scope.cancel()
    assert beats > 300


async def test_structured_content_of_too_many_values_is_refused_before_it_is_written() -> None:
    with pytest.raises(ToolError, match="is larger than max_result_media_bytes=1000"):
        result({"content": [], "structuredContent": {"a": [[]] * 1_000}})
