"""Arguments against the tool's own schema: ready, or invalid with what is wrong and without the values."""

from __future__ import annotations

import pytest
from sansio import BUILT
from streams import anthropic, chat

from streamtools import Event, StreamDecoder, ToolCall, ToolCallEnd, ToolCallReady, tool
from streamtools.errors import InvalidArguments


@tool
def book(city: str, nights: int = 1, *, tags: list[str] | None = None) -> str:
    """Book a room."""
    return ""


def events_of(arguments: str, wire: str = BUILT[0], *tools: object) -> list[Event]:
    body = (chat if wire == BUILT[0] else anthropic)(calls=[("a", "book", arguments)])
    decoder = StreamDecoder(tools=tools or [book])  # type: ignore[arg-type]
    return [event for item in body for event in decoder.feed(item)] + decoder.finish()


def end_of(events: list[Event]) -> ToolCallEnd:
    (end,) = (event for event in events if isinstance(event, ToolCallEnd))
    return end


def ready_of(events: list[Event]) -> ToolCall | None:
    return next((event.call for event in events if isinstance(event, ToolCallReady)), None)


@pytest.mark.parametrize("wire", BUILT)
def test_a_call_that_fits_is_ready_right_after_its_end(wire: str) -> None:
    events = events_of('{"city": "Oslo", "nights": 2}', wire)
    kinds = [type(event) for event in events]
    assert kinds.index(ToolCallReady) == kinds.index(ToolCallEnd) + 1
    call = ready_of(events)
    assert call is not None
    assert call.arguments == {"city": "Oslo", "nights": 2}
    assert end_of(events).error is None


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ("{}", "city"),
        ('{"city": 7}', "city"),
        ('{"city": "Oslo", "nights": "many"}', "nights"),
        ('{"city": "Oslo", "floor": 3}', "floor"),
        ('{"city": "Oslo", "tags": ["a", 1]}', "tags"),
        ('{"city": null}', "city"),
    ],
)
def test_a_call_that_does_not_fit_is_invalid_and_says_where_but_not_what(arguments: str, where: str) -> None:
    events = events_of(arguments)
    end = end_of(events)
    assert ready_of(events) is None
    assert (end.call.status, end.call.problem, end.call.arguments) == ("invalid", "invalid_arguments", None)
    assert isinstance(end.error, InvalidArguments)
    assert any(where in problem for problem in end.error.problems)
    assert not any(value in str(end.error) for value in ("Oslo", "many"))
    assert end.call.arguments_text == arguments


def test_a_tool_that_is_known_by_its_name_only_does_not_judge() -> None:
    events = events_of('{"anything": [1]}', BUILT[0], "book")
    assert end_of(events).call.arguments == {"anything": [1]}
    assert end_of(events).error is None


def test_an_unknown_tool_is_not_judged_here() -> None:
    end = end_of(events_of('{"anything": 1}', BUILT[0], "other"))
    assert (end.call.status, end.call.name) == ("ready", "book")


def test_a_plain_function_serves_as_a_tool() -> None:
    def book(city: str) -> str:
        """Book a room."""
        return city

    assert end_of(events_of("{}", BUILT[0], book)).call.problem == "invalid_arguments"
    assert end_of(events_of('{"city": "Oslo"}', BUILT[0], book)).call.status == "ready"
