"""Stages of one's own, put in by name; and chains of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from profiles import every
from sansio import check_turn
from streams import chat

from streamtools import Event, TextDelta, parse
from streamtools.errors import RemoteProtocolError
from streamtools.events import ToolCallEnd
from streamtools.stages import DEFAULT, StageList

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


@every(
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


@every(
    ("parts", "names"),
    [
        (["accumulate", Shout, "finalize", "validate"], ["accumulate", "Shout", "finalize", "validate"]),
        (["accumulate", "finalize", ("loud", lambda *_: Shout())], ["accumulate", "finalize", "loud"]),
        ([Shout, DEFAULT], ["Shout", "StageList"]),
    ],
)
def test_a_list_is_made_of_parts_in_any_order(parts: list[Any], names: list[str]) -> None:
    made = StageList(parts)
    assert list(made) == names
    assert parse(BODY, stages=made).text == "HELLO"


@every(
    ("parts", "words"),
    [
        (["acumulate"], "no stage called 'acumulate'; there are: accumulate, finalize, validate"),
        ("accumulate", "StageList takes a list of stages"),
        ([("loud", "Shout")], r"a pair in StageList is \(name, factory\)"),
        ([("loud",)], r"a pair in StageList is \(name, factory\)"),
        ([1], "a stage has feed"),
    ],
)
def test_parts_that_are_no_stages_are_refused_in_words(parts: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        StageList(parts)


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


def test_an_unknown_name_is_refused_with_those_there_are() -> None:
    for change in (DEFAULT.without, lambda name: DEFAULT.insert_before(name, Shout)):
        with pytest.raises(ValueError, match=r"no stage called 'finalise'; there are: accumulate, finalize, validate"):
            change("finalise")
    with pytest.raises(ValueError, match="no stage called"):
        DEFAULT.insert_after("", Shout)


@every("stage", [None, 7, "finalize", [Shout]])
def test_what_is_no_stage_is_refused(stage: Any) -> None:
    with pytest.raises(TypeError, match="a stage has feed"):
        DEFAULT.append(stage)
