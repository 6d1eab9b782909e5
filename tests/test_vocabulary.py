"""The words that everything speaks: errors, events and the turn."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any, get_args

import pytest
from streams import anthropic, chat

from streamtools import Observation, StreamToolsError, TextDelta, ToolCall, errors, events, parse
from streamtools.errors import (
    LimitExceeded,
    ProviderError,
    RemoteProtocolError,
    StreamError,
    ToolTimeout,
    TruncatedStream,
    UnknownTool,
)
from streamtools.events import CausedEvent, Event, EventBase
from streamtools.parts import Outcome
from streamtools.turn import TurnBuilder

# -- errors ------------------------------------------------------------------------------------------------------------


def error_classes() -> dict[str, type[BaseException]]:
    members = vars(errors).values()
    return {c.__name__: c for c in members if isinstance(c, type) and issubclass(c, StreamToolsError)}


def test_every_error_stands_in_the_tree_of_the_docstring_below_its_base() -> None:
    assert set(errors.__all__) == set(error_classes())
    tree: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        if name := next((word for word in line.replace("─", " ").split() if word in error_classes()), None):
            depth = line.index(name)
            bases = [above for column, above in tree if column < depth]
            assert not bases or issubclass(error_classes()[name], error_classes()[bases[-1]])
            tree = [*((column, above) for column, above in tree if column < depth), (depth, name)]
    assert all(name in (errors.__doc__ or "") for name in error_classes())


def test_an_error_can_be_caught_as_what_python_calls_it() -> None:
    assert issubclass(errors.LocalProtocolError, RuntimeError)
    assert issubclass(errors.ToolDefinitionError, TypeError)
    assert issubclass(errors.ExportError, ValueError)
    assert issubclass(errors.InvalidArguments, ValueError)
    assert not issubclass(StreamError, errors.ToolError)


def test_a_stream_error_has_a_code_for_programs_and_words_for_people() -> None:
    told = [
        (RemoteProtocolError("odd"), "protocol_error", "odd"),
        (RemoteProtocolError("odd", kind="malformed_chunk"), "malformed_chunk", "odd"),
        (TruncatedStream("cut"), "stream_truncated", "cut"),
        (ProviderError("no", code=429, type="t"), "provider_error", "no (429, t)"),
        (LimitExceeded("max_text_bytes", limit=3, value=4), "limit_exceeded", "max_text_bytes=3"),
    ]
    for error, kind, words in told:
        assert error.kind == kind
        assert words in str(error)
        assert str(error).startswith(error.message)


def test_an_error_about_one_call_names_what_would_have_been_right() -> None:
    assert "search, get_time" in str(UnknownTool("serch", available=["search", "get_time"]))
    assert "without a name" in str(UnknownTool("", available=["search"]))
    assert "none" in str(UnknownTool("x"))
    assert "2.5 s" in str(ToolTimeout(2.5))


# -- events ------------------------------------------------------------------------------------------------------------


def event_classes() -> list[type[Event]]:
    return [c for c in vars(events).values() if isinstance(c, type) and issubclass(c, EventBase)]


def test_the_union_of_events_has_each_event_that_can_be_made() -> None:
    bases = {EventBase, CausedEvent}
    assert set(get_args(Event)) == set(event_classes()) - bases


def test_every_event_is_slotted_and_says_what_it_is() -> None:
    for cls in event_classes():
        assert is_dataclass(cls)
        assert not hasattr(cls, "__dict__") or "__slots__" in vars(cls)
        assert inspect.getdoc(cls)
        names = [field.name for field in fields(cls)]
        assert names[:2] == ["seq", "step"]
        assert not issubclass(cls, CausedEvent) or names[2:4] == ["causes", "time"]


def test_every_event_is_promised_by_its_module() -> None:
    missing = {cls.__name__ for cls in event_classes()} - set(events.__all__)
    assert not missing


def test_an_observation_cannot_be_changed() -> None:
    observation = Observation(call_id="a", tool_name="f", outcome="ok", value={"x": 1}, model_content="secret")
    with pytest.raises(FrozenInstanceError):
        observation.outcome = "failed"  # type: ignore[misc]
    assert "secret" not in repr(observation)
    assert "secret" not in observation.report()
    for loaded in (pickle.loads(pickle.dumps(observation)), copy.copy(observation), replace(observation, seq=-1)):
        assert loaded == observation
        with pytest.raises(FrozenInstanceError):
            loaded.outcome = "failed"  # type: ignore[misc]


def test_an_observation_is_made_of_its_own_fields_alone() -> None:
    make: Any = Observation
    whole = {"call_id": "a", "tool_name": "f", "outcome": "ok"}
    for given in ({**whole, "color": "red"}, {"call_id": "a", "tool_name": "f"}, {}):
        with pytest.raises(TypeError, match="expected call_id, tool_name, outcome"):
            make(**given)


@pytest.mark.parametrize("outcome", get_args(Outcome))
def test_a_report_names_tool_call_and_outcome(outcome: Outcome) -> None:
    report = Observation(call_id="call_7", tool_name="f", outcome=outcome, still_running=True).report()
    assert all(word in report for word in ("call_7", "f", outcome, "not started", "still running"))


# -- the turn ----------------------------------------------------------------------------------------------------------


def test_a_turn_can_be_asked_for_before_its_stream_has_ended() -> None:
    builder = TurnBuilder()
    assert (builder.build().text, builder.build().complete, builder.build().calls) == ("", False, ())
    builder.add(TextDelta("Hel"))
    assert builder.build().text == "Hel"
    builder.add(TextDelta("lo"))
    builder.add(events.ToolCallStart("a", "f"))
    turn = builder.build()
    assert turn.text == "Hello"
    assert [(call.call_id, call.status, call.dispatchable) for call in turn.calls] == [("a", "truncated", False)]
    builder.add(Observation(call_id="a", tool_name="f", outcome="cancelled"))
    assert [observation.outcome for observation in builder.build().observations] == ["cancelled"]


def test_the_arguments_that_the_model_wrote_are_not_in_a_turns_repr() -> None:
    for body in (
        chat(["Paying."], [("a", "f", '{"hunter2": 1}')]),
        anthropic(["Paying."], [("a", "f", '{"hunter2": 1}')]),
    ):
        assert "hunter2" not in repr(parse(body))
        assert "text='Paying.'" in repr(parse(body))


def test_a_turn_and_its_calls_cannot_be_changed() -> None:
    turn = parse(chat(["Hi"], [("a", "f", "{}")]))
    with pytest.raises(FrozenInstanceError):
        turn.complete = False  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        turn.calls[0].dispatchable = True  # type: ignore[misc]
    assert isinstance(turn.calls[0], ToolCall)


def test_a_good_turn_has_no_error_to_raise() -> None:
    parse(chat(["Hi"], finish="stop")).raise_for_error()
    with pytest.raises(TruncatedStream):
        parse(chat(["Hi"], finish=None)).raise_for_error()
