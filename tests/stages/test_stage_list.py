"""Stages of one's own, put in by name; and chains of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from sansio import check_turn
from streams import chat

from streamtools import Event, Limits, StreamDecoder, StreamEnd, TextDelta, parse
from streamtools.errors import LimitExceeded, RemoteProtocolError
from streamtools.events import StreamWarning, ToolCallEnd, ToolCallFragment, ToolCallStart
from streamtools.stages import DEFAULT, Chain, StageList

BODY = chat(["Hel", "lo"], [("a", "f", '{"a":1}')])


class Shout:
    """Upper-case text."""

    def feed(self, event: Event) -> Iterable[Event]:
        return [replace(event, text=event.text.upper())] if isinstance(event, TextDelta) else [event]

    def finish(self) -> Iterable[Event]:
        return []


class Hold:
    """Keeps text back until the end."""

    handles = frozenset({TextDelta})

    def __init__(self) -> None:
        self.held: list[Event] = []

    def feed(self, event: Event) -> Iterable[Event]:
        self.held.append(event)
        return ()

    def finish(self) -> Iterable[Event]:
        return self.held


class Forget:
    """A stage that drops the ends of calls."""

    def feed(self, event: Event) -> Iterable[Event]:
        return [] if isinstance(event, ToolCallEnd) else [event]

    def finish(self) -> Iterable[Event]:
        return ()


def test_the_stages_of_every_stream_have_names() -> None:
    assert list(DEFAULT) == ["accumulate", "finalize", "validate"]


@pytest.mark.parametrize(
    ("change", "names"),
    [
        (lambda s: s.insert_before("accumulate", Shout), ["Shout", "accumulate", "finalize", "validate"]),
        (lambda s: s.insert_after("finalize", Shout), ["accumulate", "finalize", "Shout", "validate"]),
        (lambda s: s.append(Shout), ["accumulate", "finalize", "validate", "Shout"]),
        (lambda s: s.append(Shout()), ["accumulate", "finalize", "validate", "Shout"]),
        (
            lambda s: s.append(Shout).insert_after("Shout", Hold),
            ["accumulate", "finalize", "validate", "Shout", "Hold"],
        ),
    ],
)
def test_a_stage_is_put_in_by_name_and_the_list_it_came_from_stays(
    change: Callable[[StageList], StageList], names: list[str]
) -> None:
    changed = change(DEFAULT)
    assert list(changed) == names
    assert repr(changed) == f"StageList({', '.join(names)})"
    assert list(DEFAULT) == ["accumulate", "finalize", "validate"]
    assert parse(BODY, stages=changed).text == "HELLO"


def test_a_stage_is_taken_out_by_name() -> None:
    stages = DEFAULT.append(Shout).without("validate")
    assert list(stages) == ["accumulate", "finalize", "Shout"]
    assert parse(BODY, stages=stages).calls[0].status == "ready"
    assert parse(BODY, stages=stages.without("Shout")).text == "Hello"


def test_a_class_is_made_anew_for_every_stream_and_an_object_is_kept() -> None:
    made: list[Hold] = []

    def hold() -> Hold:
        made.append(Hold())
        return made[-1]

    stages = DEFAULT.append(hold)
    for _ in range(2):
        parse(BODY, stages=stages)
    assert [len(stage.held) for stage in made] == [2, 2]
    kept = Hold()
    for _ in range(2):
        parse(BODY, stages=DEFAULT.append(kept))
    assert len(kept.held) == 4


def test_what_a_stage_holds_goes_through_those_after_it() -> None:
    assert parse(BODY, stages=DEFAULT.append(Hold).append(Shout)).text == "HELLO"
    assert parse(BODY, stages=DEFAULT.append(Shout).append(Hold)).text == "HELLO"


def test_a_stage_sees_only_what_it_handles() -> None:
    seen: list[type[Event]] = []

    class Watch:
        handles = frozenset({TextDelta, StreamEnd})

        def feed(self, event: Event) -> Iterable[Event]:
            seen.append(type(event))
            return [event]

        def finish(self) -> Iterable[Event]:
            return ()

    parse(BODY, stages=DEFAULT.append(Watch))
    assert seen == [TextDelta, TextDelta, StreamEnd]


def test_a_stage_may_give_several_events_for_one() -> None:
    class Remark:
        handles = frozenset({TextDelta})

        def feed(self, event: Event) -> Iterable[Event]:
            yield event
            yield StreamWarning("remarked")

        def finish(self) -> Iterable[Event]:
            return ()

    assert [warning.code for warning in parse(BODY, stages=DEFAULT.append(Remark)).warnings] == ["remarked"]


def test_a_stage_that_drops_the_end_of_a_call_leaves_one_that_cannot_run() -> None:
    turn = parse(BODY, stages=DEFAULT.append(Forget))
    check_turn(turn)
    assert [(call.status, call.dispatchable) for call in turn.calls] == [("truncated", False)]
    assert len(turn.messages()) == 2


def test_a_stages_stream_error_ends_the_stream_and_any_other_exception_is_its_own() -> None:
    def raising(error: Exception) -> Any:
        class Raise:
            handles = frozenset({TextDelta})

            def feed(self, event: Event) -> Iterable[Event]:
                raise error

            def finish(self) -> Iterable[Event]:
                return ()

        return DEFAULT.append(Raise)

    refused = RemoteProtocolError("not in this house")
    turn = parse(BODY, stages=raising(refused))
    assert (turn.error, turn.complete, turn.text) == (refused, False, "")
    with pytest.raises(ZeroDivisionError):
        parse(BODY, stages=raising(ZeroDivisionError()))


class CallsAtTheEnd:
    """Finds three calls when the stream has ended."""

    found = False

    def feed(self, event: Event) -> Iterable[Event]:
        if isinstance(event, StreamEnd) and not self.found:
            self.found = True
            yield from (ToolCallFragment(index=n, id=f"c{n}", name="f", arguments="{}") for n in range(3))
        yield event

    def finish(self) -> Iterable[Event]:
        return ()


def test_calls_that_end_when_a_limit_ends_the_stream_at_its_end_have_begun() -> None:
    decoder = StreamDecoder(
        stages=DEFAULT.insert_before("accumulate", CallsAtTheEnd), limits=Limits(max_tool_calls=2), tools=["f"]
    )
    events = [event for chunk in chat(["Hello"]) for event in decoder.feed(chunk)] + decoder.finish()
    begun = [event.call_id for event in events if isinstance(event, ToolCallStart)]
    ended = [event.call_id for event in events if isinstance(event, ToolCallEnd)]
    assert begun == ended == ["c0", "c1"]
    end = events[-1]
    assert isinstance(end, StreamEnd)
    assert isinstance(end.error, LimitExceeded)


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    for change in (DEFAULT.without, lambda name: DEFAULT.insert_before(name, Shout)):
        with pytest.raises(ValueError, match=r"no stage called 'finalise'; there are: accumulate, finalize, validate"):
            change("finalise")
    with pytest.raises(ValueError, match="no stage called"):
        DEFAULT.insert_after("", Shout)


@pytest.mark.parametrize("stage", [None, 7, "finalize", [Shout]])
def test_what_is_no_stage_is_refused(stage: Any) -> None:
    with pytest.raises(TypeError, match="a stage has feed"):
        DEFAULT.append(stage)


def test_a_chain_of_no_stages_passes_everything() -> None:
    chain = Chain([])
    event = TextDelta("x")
    assert chain.feed(event) == [event]
    assert chain.finish() == []
    assert chain.passes(TextDelta)


def test_a_chain_is_a_stage() -> None:
    turn = parse(BODY, stages=DEFAULT.append(lambda: Chain([Shout(), Hold()])))
    assert turn.text == "HELLO"
