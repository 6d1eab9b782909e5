"""`Tap` under a synchronous client, where no event loop runs: its copies are read in a thread of the tap's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from anyio import to_thread
from streams import anthropic
from tapping import CALL, Server, kinds

from streamtools import Event, Observation, pipeline
from streamtools.integrations.httpx import Tap

PATIENCE_S = 10
TEXT = anthropic(["Hel", "lo"], stop="end_turn")
LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])


class Waiting:
    """Chunks of which some come only when an event is set."""

    def __init__(self, *items: bytes | threading.Event) -> None:
        self._items = items

    def __iter__(self) -> Iterator[bytes]:
        for item in self._items:
            if isinstance(item, threading.Event):
                assert item.wait(PATIENCE_S)
            else:
                yield item


def read(client: Any) -> list[bytes]:
    with client.stream("POST", "http://model/") as response:
        return list(response.iter_raw())


@LIBRARIES
def test_a_response_passes_unchanged_and_its_events_are_told(library: Any) -> None:
    seen: list[Event] = []
    tap = Tap(Server(TEXT, library=library).sync_transport(), on_event=seen.append)
    with library.Client(transport=tap) as client:
        assert read(client) == TEXT
    assert next(kinds(seen)) == "StepStart"
    assert list(kinds(seen))[-1] == "StepEnd"
    assert tap.warnings == {}


def test_a_call_starts_before_its_response_ends_and_its_run_is_the_answer() -> None:
    started, keys = threading.Event(), list[str]()

    def look_up(key: str) -> str:
        """Looks a key up."""
        keys.append(key)
        started.set()
        return key.upper()

    def answer(_: Any) -> Any:
        head = {"content-type": "text/event-stream"}
        return httpx.Response(200, headers=head, content=Waiting(*CALL[0], started, *CALL[1]))

    tap = Tap(httpx.MockTransport(answer))
    early = tap.tool(look_up, effect="pure")
    with httpx.Client(transport=tap) as client:
        assert read(client) == CALL[0] + CALL[1]
        assert early("a") == "A"
        assert keys == ["a"]
    assert tap.warnings == {}


def test_a_call_that_is_asked_for_before_the_copy_is_decoded_gets_its_run() -> None:
    keys: list[str] = []

    def look_up(key: str) -> str:
        """Looks a key up."""
        keys.append(key)
        return key.upper()

    tap = Tap(Server([b"".join(CALL[0]), *CALL[1]]).sync_transport())
    early = tap.tool(look_up, effect="pure")
    with httpx.Client(transport=tap) as client, client.stream("POST", "http://model/") as response:
        chunks = response.iter_raw()
        next(chunks)
        assert early("a") == "A"
        assert list(chunks) == CALL[1]
    assert keys == ["a"]
    assert tap.summary().missed == {}


def test_a_response_that_is_left_takes_its_unclaimed_runs_along() -> None:
    started, over, seen = threading.Event(), threading.Event(), list[Event]()

    async def look_up(key: str) -> str:
        """Looks a key up."""
        started.set()
        await anyio.sleep_forever()
        return key

    def note(event: Event) -> None:
        seen.append(event)
        if isinstance(event, Observation):
            over.set()

    tap = Tap(Server([*CALL[0], *CALL[1]]).sync_transport(), on_event=note)
    tap.tool(look_up, effect="pure")
    with httpx.Client(transport=tap) as client, client.stream("POST", "http://model/") as response:
        chunks = response.iter_raw()
        for _ in CALL[0]:
            next(chunks)
        assert started.wait(PATIENCE_S)
    assert over.wait(PATIENCE_S)
    assert [event.outcome for event in seen if isinstance(event, Observation)] == ["cancelled"]
    assert tap.warnings == {}


@pytest.mark.anyio
async def test_a_pipeline_over_a_tapped_response_has_it_to_itself() -> None:
    seen: list[Event] = []
    tap = Tap(Server(TEXT).sync_transport(), on_event=seen.append)
    with httpx.Client(transport=tap) as client:
        request = client.build_request("POST", "http://model/")
        response = await to_thread.run_sync(lambda: client.send(request, stream=True))
        assert (await pipeline(response)).text == "Hello"
    assert seen == []
