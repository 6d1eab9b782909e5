"""Connections that carry several responses: an event that nobody knows changes no turn, wherever it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from profiles import FULL, every
from wire_cases import CASES, Response

from streamtools import Turn, pipeline, tool
from streamtools.errors import StreamError

pytestmark = pytest.mark.anyio

Payload = dict[str, Any]


@tool(effect="pure")
async def f(n: int) -> str:
    """Return n."""
    return f"got {n}"


class Connection:
    """A socket that has received some messages, and then closes."""

    def __init__(self, payloads: Iterable[Payload]) -> None:
        self._frames = [json.dumps(payload) for payload in payloads]

    async def recv(self) -> str:
        await anyio.lowlevel.checkpoint()
        if not self._frames:
            raise EOFError
        return self._frames.pop(0)


async def turns_of(payloads: Iterable[Payload]) -> list[Turn]:
    """Reads a connection to its end, a pipeline for each response."""
    connection, turns = Connection(payloads), list[Turn]()
    with anyio.fail_after(30):
        while True:
            events = pipeline(connection, tools=[f])
            try:
                async with events:
                    _ = [seen async for seen in events]
            except StreamError as error:
                if "no event" in str(error):  # between responses
                    return turns
            turns.append(events.turn)


def told(turns: Iterable[Turn]) -> list[Any]:
    """Returns all of the turns but what may be reported of an unknown event."""
    return [
        (turn.response_id, turn.text, turn.finish, turn.finish_raw, turn.complete, str(turn.error), turn.messages())
        for turn in turns
    ]


# -- a session of each wire --------------------------------------------------------------------------------------------

SAID = Response(text=("Let me ", "see."), calls=(("call00001", "f", '{"n": 1}'),))


def session_of(wire: str) -> list[Payload]:
    """Composes two responses with a text that streams, and a call; each event has its number where its wire has one."""
    first = CASES[wire].say(SAID)
    second: list[Payload] = json.loads(json.dumps(first).replace("resp_1", "resp_2"))
    payloads = [*first, *second]
    if wire == "openai.realtime":
        return [{**payload, "event_id": f"event_{number}"} for number, payload in enumerate(payloads)]
    if wire == "openai.responses":
        return [{**payload, "sequence_number": number} for number, payload in enumerate(payloads)]
    return payloads


NESTED = {"id": "x_1", "response": {"id": "resp_9"}, "item": {"id": "msg_9"}, "delta": "no", "list": [{"type": "text"}]}
UNKNOWN: list[Payload] = [
    {"type": "ping"},
    {"type": "keepalive", "event_id": "event_900"},
    {"type": "response.metadata", "metadata": {"a": "b"}, "sequence_number": 900},
    {"type": "response.brand_new", "event_id": "event_900"},
    {"type": "response.brand_new", "sequence_number": 900, "detail": NESTED},
    {"type": "brand.new", "event_id": "event_900", "detail": NESTED, "item": {"id": "msg_9"}},
    {"type": "warning", "warning": {"code": "slow", "message": "It takes its time", "detail": NESTED}},
]
UNKNOWN_TO_LIVE: list[Payload] = [
    {"brandNew": {}},
    {"brandNew": {"text": "no", "detail": NESTED}},
    {"event_id": "event_900", "brandNew": True},
    {"serverContent": {"brandNew": {"text": "no"}}},
    {"serverContent": {}, "brandNew": {"parts": [{"text": "no"}]}},
]


@every("wire", ["openai.realtime", "openai.responses", "gemini.live"])
async def test_an_unknown_event_changes_no_turn_and_holds_none_up_wherever_it_comes(wire: str) -> None:
    session = session_of(wire)
    plain = await turns_of(session)
    assert [turn.complete for turn in plain] == [True] * 2
    assert all(turn.error is None and not turn.warnings for turn in plain)
    changed: list[Any] = []
    for unknown in UNKNOWN_TO_LIVE if wire == "gemini.live" else UNKNOWN:
        for place in range(0, len(session) + 1, 1 if FULL else 6):
            turns = await turns_of([*session[:place], unknown, *session[place:]])
            if told(turns) != told(plain):
                changed.append((place, unknown, told(turns)))
    assert not changed, changed[:3]
