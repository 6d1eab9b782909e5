"""Arguments against the tool's own schema: ready, or invalid with what is wrong and without the values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from profiles import every
from sansio import BUILT
from streams import anthropic, chat

from streamtools import Event, StreamDecoder, ToolCall, ToolCallValidated, tool
from streamtools.errors import InvalidArguments
from streamtools.events import ToolCallEnd
from streamtools.stages import DEFAULT
from streamtools.tools import Exported


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
    return next((event.call for event in events if isinstance(event, ToolCallValidated)), None)


@every("wire", BUILT)
def test_a_call_that_fits_is_ready_right_after_its_end(wire: str) -> None:
    events = events_of('{"city": "Oslo", "nights": 2}', wire)
    kinds = [type(event) for event in events]
    assert kinds.index(ToolCallValidated) == kinds.index(ToolCallEnd) + 1
    call = ready_of(events)
    assert call.arguments == {"city": "Oslo", "nights": 2}
    assert end_of(events).error is None


@every(
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


class Redact:
    """Changes the arguments of a call, in place or anew, after they were read."""

    def __init__(self, *, in_place: bool) -> None:
        self.in_place = in_place

    def feed(self, event: Event) -> list[Event]:
        if not isinstance(event, ToolCallEnd) or event.call.arguments is None:
            return [event]
        if self.in_place:
            event.call.arguments["city"] = "***"
            return [event]
        return [replace(event, call=replace(event.call, arguments={"city": "***"}))]

    def finish(self) -> list[Event]:
        return []


def city_of(decoder: StreamDecoder, name: str, arguments: str) -> Any:
    body = chat(calls=[("a", name, arguments)])
    events = [event for item in body for event in decoder.feed(item)] + decoder.finish()
    (ready,) = (event for event in events if isinstance(event, ToolCallValidated))
    return ready.invocation.by_name["city"]


@every("in_place", [True, False])
@every("where", ["insert_after finalize", "insert_before validate"])
def test_a_stage_between_finalize_and_validate_has_the_last_word_about_the_arguments(
    where: str, in_place: bool
) -> None:
    """The text of a call is not read again where somebody may have changed what it said."""
    how, name = where.split()
    stages = getattr(DEFAULT, how)(name, Redact(in_place=in_place))
    assert city_of(StreamDecoder(tools=[book], stages=stages), "book", '{"city": "Oslo"}') == "***"


def test_a_call_through_an_exported_tool_is_validated_as_it_was_decoded() -> None:
    shouting = Exported(
        tool=book,
        wire="t",
        name="book_it",
        payload={},
        decode=lambda arguments: {"city": str(arguments["town"])},
        rewritten=True,
    )
    assert city_of(StreamDecoder(tools=[shouting]), "book_it", '{"town": "Oslo"}') == "Oslo"
