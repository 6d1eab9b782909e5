"""Tools of a server that somebody has to approve."""

from __future__ import annotations

import anyio
import pytest
from decisions import decisions_on
from mcp_session import FakeSession, listed
from streams import chat, stream

from streamtools import Suspended, pipeline, resume
from streamtools.dispatch import MemoryStore
from streamtools.mcp import fetch_tools

pytestmark = pytest.mark.anyio

KEY = "a key that is long enough"
CALLS = [("a", "pay", "{}"), ("b", "pay", "{}"), ("l", "look", "{}")]


async def test_a_servers_tool_is_not_called_before_it_is_approved_also_when_it_is_resumed() -> None:
    session = FakeSession(listed("pay"), listed("look", annotations={"readOnlyHint": True}))
    tools = await fetch_tools(
        session,
        server="bank",
        trust_hints=True,
        needs_approval=lambda definition: not definition.annotations.get("readOnlyHint"),
    )
    with anyio.fail_after(30):
        async with pipeline(stream(chat(calls=CALLS)), tools=tools) as events:
            _ = [event async for event in events]
            assert [name for name, _ in session.calls] == ["look"]
            assert events.approve("a")
            _ = [event async for event in events]
        assert [name for name, _ in session.calls] == ["look", "pay"]
        assert events.suspended is not None
        suspended = Suspended.from_text(events.suspended.to_text(KEY), KEY)
        async with resume(
            suspended, tools=tools, store=MemoryStore(), decisions=decisions_on(suspended, {"b": True})
        ) as later:
            _ = [event async for event in later]
    assert [o.outcome for o in later.turn.observations] == ["ok"]
    assert [name for name, _ in session.calls] == ["look", "pay", "pay"]
