"""A server's words in what people read: reasons, titles, errors, reports."""

from __future__ import annotations

from typing import Any

import pytest
from hostile import FORGED, LONG, every_place, shown
from mcp_session import CITY, FakeSession, listed, observed, text
from profiles import every

from streamtools.content import Media
from streamtools.mcp import Pins, ToolChange, fetch_tools, tool_result

pytestmark = pytest.mark.anyio

ENOUGH = 4096
ENTRY = listed(
    "forecast",
    title="Forecast",
    description="Tells the weather.",
    inputSchema=CITY,
    outputSchema={"type": "object", "properties": {"degrees": {"type": "integer"}}},
    annotations={"title": "Forecast", "readOnlyHint": True},
)
ANSWER = text("cold", structuredContent={"degrees": 3}, isError=False)
ARGUMENTS = '{"city": "Oslo"}'


@every("words", [FORGED, LONG])
async def test_no_place_of_a_list_brings_control_characters_or_endless_words_into_what_is_said_of_it(
    words: str,
) -> None:
    refused = 0
    for place, changed in every_place([ENTRY], words):
        tools = await fetch_tools(FakeSession(*changed), server="s", prefix="p")
        refused += len(tools.refused)
        said = [f"{entry.name} {entry.reason}" for entry in tools.refused]
        said += [line for lines in tools.unenforced.values() for line in lines]
        said += [f"{tool.name} {tool.title} {tool.owner} {tool!r}" for tool in tools]
        for tool in tools:
            said += tool.check()
            said += (await observed(tools, tool.name, '{"city": 1}')).report().split("\n")
        for told in said:
            assert len(shown(told)) <= ENOUGH, place
    assert refused > 3


@every("words", [FORGED, LONG])
async def test_no_place_of_an_answer_does_either(words: str) -> None:
    for place, (changed,) in every_place([ANSWER], words):
        tools = await fetch_tools(FakeSession(ENTRY, answer=changed), server="s")
        observation = await observed(tools, "forecast", ARGUMENTS)
        said = observation.report().split("\n")
        if observation.outcome == "failed" and changed.get("isError") is not True:
            said += str(observation.error).split("\n")
        for told in said:
            assert len(shown(told)) <= ENOUGH, place


KINDS: list[dict[str, Any]] = [
    {"type": "image", "data": "AAAA", "mimeType": "image/png;name=a.png"},
    {"type": "audio", "data": "*", "mimeType": "audio/wav"},
    {"type": "resource_link", "name": "plan", "uri": "file:///plan", "mimeType": "text/plain;charset=utf-8"},
    {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "video/mp4;codecs=x"}},
    {"type": "resource", "resource": {"uri": "file:///b", "text": "\n"}},
    {"type": "unheard_of"},
]
"""Blocks of which nothing but our own words and their names, types and addresses reaches the model as text."""


@every("words", [FORGED, LONG])
async def test_no_type_name_or_address_in_a_result_brings_escapes_into_what_the_model_reads(words: str) -> None:
    for block in KINDS:
        for place, (changed,) in every_place([block], words):
            blocks = tool_result({"content": [changed]}).blocks
            if changed.get("type") == "text" or place.endswith("resource/text"):
                continue  # what the tool says: not a name of anything
            for each in blocks:
                told = each.placeholder() if isinstance(each, Media) else getattr(each, "text", "")
                for line in told.split("\n"):
                    assert len(shown(line)) <= ENOUGH, place


@every("words", [FORGED, LONG])
async def test_no_place_of_a_changed_tool_does_either(words: str) -> None:
    for place, changed in every_place([ENTRY], words):
        pins, asked = Pins(), list[ToolChange]()
        await fetch_tools(FakeSession(ENTRY), server="s", pins=pins)
        asking = Pins(pins.approved, on_change=lambda change, asked=asked: bool(asked.append(change)))  # type: ignore[misc]
        tools = await fetch_tools(FakeSession(*changed), server="s", pins=asking)
        said = [f"{entry.name} {entry.reason}" for entry in tools.refused]
        for change in asked:
            said += [repr(change), *change.lines]
        for told in said:
            assert len(shown(told)) <= ENOUGH, place
