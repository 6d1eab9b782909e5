"""Dispatch, looked at for what breaks it: starts that come too late, and what streams share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from streams import anthropic, chat, stream

from streamtools import Event, Limits, Observation, TextDelta, parse, pipeline, tool
from streamtools.errors import TruncatedStream
from streamtools.events import ToolStarted
from streamtools.stages import DEFAULT
from streamtools.tools import Toolset

asynchronous = pytest.mark.anyio


# -- a call that is observed never starts ------------------------------------------------------------------------


@asynchronous
async def test_a_sync_call_that_was_skipped_does_not_start_although_it_has_just_got_its_thread() -> None:
    """A limiter gives its place behind a shield; trio runs what may run in any order, hence many times."""
    ran: list[int] = []

    @tool(effect="idempotent")
    def write() -> None:
        """Write."""
        ran.append(1)

    body = anthropic(calls=[("a", "write", "{}")], stop=None)
    for _ in range(40):
        seen: list[Event] = []
        with anyio.fail_after(30):
            async with pipeline(stream(body), tools=[write]) as events:
                with pytest.raises(TruncatedStream):
                    async for event in events:
                        seen.append(event)
        (observation,) = [event for event in seen if isinstance(event, Observation)]
        started = [event for event in seen if isinstance(event, ToolStarted)]
        assert all(event.seq < observation.seq for event in started)
        if observation.outcome == "skipped":
            assert (observation.attempts, started) == (0, [])


# -- which stages want an event ----------------------------------------------------------------------------------


class Shouts:
    """Takes text once it was told to, and wants nothing before."""

    def __init__(self, wanted: Any) -> None:
        self.wanted = wanted

    @property
    def handles(self) -> Any:
        return self.wanted

    def feed(self, event: Event) -> Iterable[Event]:
        return [TextDelta(event.text.upper())] if isinstance(event, TextDelta) else [event]

    def finish(self) -> Iterable[Event]:
        return ()


class Kinds:
    """A collection that changes, although it can be hashed."""

    def __init__(self, *kinds: type[Event]) -> None:
        self.kinds = set(kinds)

    def __contains__(self, kind: object) -> bool:
        return kind in self.kinds


def said(stage: Shouts) -> str:
    return parse(chat(["a", "b"], finish="stop"), stages=DEFAULT.append(lambda: stage)).text


def test_what_one_stream_wants_is_not_what_another_wants_whose_stages_look_alike() -> None:
    changes = Shouts(frozenset())
    chain = DEFAULT.append(lambda: changes).build(Toolset([]), Limits())
    changes.wanted = frozenset({TextDelta})  # after the chain was made
    chain.feed(TextDelta("x"))
    assert said(Shouts(frozenset())) == "ab"
    assert said(Shouts(frozenset({TextDelta}))) == "AB"


def test_a_collection_that_changes_between_two_streams_is_looked_at_by_each() -> None:
    kinds = Kinds()
    assert said(Shouts(kinds)) == "ab"
    kinds.kinds.add(TextDelta)
    assert said(Shouts(kinds)) == "AB"
