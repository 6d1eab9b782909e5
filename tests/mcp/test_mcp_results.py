"""What comes back from a call: the model's blocks, the program's value, and what a server must not do with them."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from mcp_session import CITY, FakeSession, listed, observed, text
from profiles import every

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
    ({"type": "text"}, Text("[text; left out: its text is not a string]")),
    (
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        Text("[image; left out: its data is not base64]"),
    ),
    ({"type": "image", "data": PIXEL}, Text("[image; left out: it has no type]")),
    ({"type": "image", "data": PIXEL, "mimeType": "image/png\r\nX: y"}, Text("[image; left out: it has no type]")),
    ({"type": "image", "data": "é", "mimeType": "image/png"}, Text("[image; left out: its data is not base64]")),
    ({"type": "hologram", "data": 1}, Text("[hologram]")),
    ({"type": "\u202ex"}, Text("[\\u202ex]")),
    ({"type": ["text"]}, Text("[block of unknown type]")),
    ({}, Text("[block of unknown type]")),
]


@every(("block", "read"), BLOCKS)
def test_a_block_becomes_what_the_model_can_read(block: dict[str, Any], read: Text | Media) -> None:
    assert result({"content": [block]}).blocks == (read,)


def test_a_failed_call_speaks_to_the_model() -> None:
    failed = result(text("no such city", isError=True, structuredContent={"n": 1}))
    assert (failed.is_error, failed.blocks, failed.value) == (True, (Text("no such city"),), None)
    assert result({"content": [], "isError": True}).blocks == (Text("the tool failed and did not say why"),)


@every(
    ("answer", "says"),
    [
        ({"resultType": "input_required", "content": []}, "asks for input"),
        ({"inputRequests": {}}, "asks for input"),
        ({"resultType": "task\u202e", "content": []}, r"an unknown type: task\\u202e"),
        ({"resultType": 7, "content": []}, "an unknown type: int"),
        ({"content": "text"}, "its content is not a list"),
        ({"structuredContent": float("nan"), "content": 3}, "its content is not a list"),
        ({"structuredContent": object()}, "cannot be written as JSON"),
        ({"structuredContent": "x" * 1000}, "larger than max_result_media_bytes=1000"),
    ],
)
def test_an_answer_that_is_no_result_is_an_error_that_says_so(answer: dict[str, Any], says: str) -> None:
    with pytest.raises(ToolError, match=says):
        result(answer)


# -- the output schema ---------------------------------------------------------------------------------------------

DEGREES = {"type": "object", "properties": {"degrees": {"type": "integer"}}, "required": ["degrees"]}


async def forecast(answer: dict[str, Any]) -> Any:
    session = FakeSession(listed("forecast", outputSchema=DEGREES), answer=answer)
    return await observed(await fetch_tools(session, server="s"), "forecast")


async def test_a_result_that_fits_the_output_schema_is_the_value() -> None:
    observation = await forecast(text("21", structuredContent={"degrees": 21}))
    assert (observation.outcome, observation.value, observation.model_content) == ("ok", {"degrees": 21}, "21")
    assert observation.owner == "s"


async def test_a_result_that_does_not_fit_the_output_schema_fails_and_names_the_place_and_not_the_value() -> None:
    observation = await forecast(text("hot", structuredContent={"degrees": "secret"}))
    assert observation.outcome == "failed"
    assert "forecast has run, but" in observation.model_content
    assert "does not fit the tool's output schema: degrees: " in observation.model_content
    assert "secret" not in observation.model_content


async def test_a_declared_output_schema_asks_for_structured_content() -> None:
    observation = await forecast(text("21"))
    assert observation.outcome == "failed"
    assert "is missing, though the tool declares an output schema" in observation.model_content


async def test_arguments_are_checked_by_the_servers_schema_before_anything_is_sent() -> None:
    session = FakeSession(listed("forecast", inputSchema=CITY))
    tools = await fetch_tools(session, server="s")
    assert (await observed(tools, "forecast", '{"city": "Oslo", "days": 0}')).outcome == "invalid"
    assert session.calls == []
    assert (await observed(tools, "forecast", '{"city": "Oslo", "days": 2}')).outcome == "ok"
    assert session.calls == [("forecast", {"city": "Oslo", "days": 2})]


MEGABYTES = "A" * (3 << 20)
LARGE = [
    (MEGABYTES, True),
    ("\n".join((MEGABYTES, "AA==")), True),
    (f"{MEGABYTES}AA==AAAA", False),
    (f"AA=={MEGABYTES}", False),
    (f"{MEGABYTES}*", False),
    (f"{MEGABYTES}A", False),
]


@every(("data", "taken"), LARGE)
async def test_large_media_are_base64_from_their_first_to_their_last_character(data: str, taken: bool) -> None:
    (block,) = tool_result({"content": [{"type": "image", "data": data, "mimeType": "image/png"}]}).blocks
    assert isinstance(block, Media) is taken
