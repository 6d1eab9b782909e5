"""`Tap` under a synchronous client, where no event loop runs: its copies are read in a thread of the tap's own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
from tapping import CALL

from streamtools.integrations.httpx import Tap

PATIENCE_S = 10


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
