"""The package's root: its names are a promise, so each one that comes or goes is a decision and changes `PUBLIC`."""

from __future__ import annotations

import inspect
import types
from typing import get_origin

import pytest

import streamtools
from streamtools import events

NAMES = """
    __version__
    pipeline Pipeline OpenPipeline Branch resume Suspended parse StreamDecoder
    tool Tool ToolContext Toolset run_tool
    Trajectory Limits
    Turn ToolCall Usage
    Event StepStart StreamStart TextStart TextDelta TextEnd ReasoningStart ReasoningDelta ReasoningEnd RefusalDelta
    ProviderItem ToolCallStart ToolCallDelta ToolCallEnd ToolCallValidated
    ApprovalRequested ApprovalResolved ToolStarted ToolProgress Observation
    StreamEnd StepEnd StreamWarning UnknownPayload EventsDropped
    StreamToolsError StreamError RemoteProtocolError TruncatedStream LimitExceeded ProviderError
    ToolDefinitionError ToolError ModelRetry
"""
PUBLIC = NAMES.split()

NOT_FOR_CONSUMERS = {events.Event, events.CausedEvent, events.ToolCallFragment}
"""Event classes that no consumer meets as such: the two bases, and what only stages see."""


def public(name: str) -> object:
    return getattr(streamtools, name)


def test_the_root_promises_these_names_and_no_others() -> None:
    assert sorted(streamtools.__all__) == sorted(PUBLIC)


def test_no_name_is_promised_twice() -> None:
    assert len(set(PUBLIC)) == len(PUBLIC)
    classes_and_functions = [public(name) for name in PUBLIC if name != "__version__"]
    assert len({id(value) for value in classes_and_functions}) == len(classes_and_functions)


def test_the_root_has_no_public_name_beside_the_promised() -> None:
    found = {
        name
        for name, value in vars(streamtools).items()
        if not name.startswith("_") and not isinstance(value, types.ModuleType) and name != "annotations"
    }
    assert found == set(PUBLIC) - {"__version__"}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_says_what_it_is_for(name: str) -> None:
    value = public(name)
    if name == "__version__":
        assert isinstance(value, str)
    elif get_origin(value) is None:  # an alias for a union or a literal cannot carry a docstring
        written = inspect.getdoc(value)
        assert written
        assert not written.startswith(f"{name}("), "a dataclass without a docstring shows its signature"


def test_every_event_that_a_consumer_meets_is_public() -> None:
    classes = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, events.Event) and value not in NOT_FOR_CONSUMERS
    }
    assert classes <= {public(name) for name in PUBLIC}


def test_the_root_tells_the_flow() -> None:
    assert "async with pipeline(" in (streamtools.__doc__ or "")
