"""A server's words in what people read: reasons, titles, errors, reports."""

from __future__ import annotations

from typing import Any

import pytest
from hostile import FORGED, LONG, every_place, shown
from mcp_session import CITY, FakeSession, listed, observed, text

from streamtools.mcp import fetch_tools

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


@pytest.mark.parametrize("words", [FORGED, LONG], ids=["forged", "long"])
async def test_no_place_of_a_list_brings_control_characters_or_endless_words_into_what_is_said_of_it(
    words: str,
) -> None:
    refused = 0
    for place, changed in every_place([ENTRY], words):
        tools = await fetch_tools(FakeSession(*changed), server="s", prefix="p")
        refused += len(tools.refused)
        said = [f"{entry.name} {entry.reason}" for entry in tools.refused]
        said += [f"{tool.name} {tool.title} {tool.owner} {tool!r}" for tool in tools]
        for tool in tools:
            said += tool.check()
            said += (await observed(tools, tool.name, '{"city": 1}')).report().split("\n")
        for told in said:
            assert len(shown(told)) <= ENOUGH, place
    assert refused > 3


@pytest.mark.parametrize("words", [FORGED, LONG], ids=["forged", "long"])
async def test_no_place_of_an_answer_does_either(words: str) -> None:
    for place, (changed,) in every_place([ANSWER], words):
        tools = await fetch_tools(FakeSession(ENTRY, answer=changed), server="s")
        observation = await observed(tools, "forecast", ARGUMENTS)
        said = observation.report().split("\n")
        if observation.outcome == "failed" and changed.get("isError") is not True:
            said += str(observation.error).split("\n")
        for told in said:
            assert len(shown(told)) <= ENOUGH, place


class Refused(Exception):
    """As an SDK raises what a server answers by the protocol."""

    def __init__(self, message: Any) -> None:
        super().__init__(message)
        self.error = type("Error", (), {"code": -32000, "message": message, "data": message})()


@pytest.mark.parametrize("words", [FORGED, LONG], ids=["forged", "long"])
async def test_a_servers_refusal_is_told_escaped_and_cut(words: str) -> None:
    tools = await fetch_tools(FakeSession(ENTRY, answer=Refused(words)), server="s")
    observation = await observed(tools, "forecast", ARGUMENTS)
    assert observation.outcome == "failed"
    for told in (*observation.report().split("\n"), str(observation.error), observation.model_content):
        assert len(shown(told)) <= ENOUGH
