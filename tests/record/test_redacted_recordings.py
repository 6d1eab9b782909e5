"""A redacted recording holds no secret in any place, and replays as far as that lets it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from record.recorded import lines, run_loop
from sansio import QUIRKS, body_of
from streams import anthropic, stream
from wire_cases.names import ANTHROPIC

from streamtools import Deny, StreamError, ToolError, pipeline, tool
from streamtools.content import ToolResult
from streamtools.events import (
    ApprovalRequested,
    ApprovalResolved,
    Observation,
    TextDelta,
    TextEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolProgress,
)
from streamtools.privacy import Privacy
from streamtools.record import Recording, record, replay

pytestmark = pytest.mark.anyio

SECRET = "sk-4711-tulip"
CARD = 4111111111111111


def redact(text: str) -> str:
    return text.replace(SECRET, "<key>").replace(str(CARD), "<card>")


POLICY = Privacy(redact=redact)


@tool(effect="idempotent", needs_approval=True)
async def pay(key: str, card: int) -> AsyncIterator[Any]:
    """Pay."""
    yield {"at": [key]}
    yield ToolResult(blocks=(f"paid by {key}",), value={key: (card, key.encode())}, display=key)


@tool(effect="idempotent")
async def fail(key: str) -> str:
    """Fail."""
    raise ToolError(f"{key} is refused") from ValueError(key)


ASKS = anthropic(
    ["With sk-47", "11-tu", "lip."],
    [
        ("c1", "pay", '{"key": "sk-4711-\\u0074ulip", "card": 4111111111111111}'),
        ("c2", "fail", '{"key": "sk-4711-tulip"}'),
        ("c3", "pay", '{"key": "sk-4711-tulip", "card": "sk-4711-tulip"}'),
        ("c4", "pay", '{"key": "sk-4711-tulip", "card": 1}'),
        ("c5", "gone", '{"key": "sk-4711-tul'),
    ],
)
ENDS = anthropic(["sk-4711-tulip"], stop="end_turn")


async def approve(asked: ApprovalRequested) -> bool | Deny:
    return True if asked.call_id == "c1" else Deny(f"no {SECRET}")


async def test_no_secret_is_written_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(
        ASKS, ENDS, tools=[pay, fail], observers=[record(path)], privacy=POLICY, wire=ANTHROPIC, approve=approve
    )
    written = path.read_text(encoding="utf-8")
    for trace in ("sk-4711", "4711-", "tulip", "\\u0074ulip", str(CARD), "c2stNDcxMS10dWxpcA"):
        assert trace not in written
    found = Recording.read(path)
    assert found.redacted
    ends = [event.whole for event in found.events if isinstance(event, TextEnd)]
    assert ends == ["With <key>.", "<key>"]
    assert [turn.text for turn in found.turns] == ends
    calls = {event.call_id: event.call for event in found.events if isinstance(event, ToolCallEnd)}
    assert calls["c1"].arguments == {"key": "<key>", "card": "<card>"}
    assert calls["c1"].arguments_text == '{"key": "<key>", "card": "<card>"}'
    assert set(calls["c5"].arguments_text) == {"·"}
    assert {event.text for event in found.events if isinstance(event, TextDelta)} <= {"·" * n for n in range(1, 20)}
    assert all(set(event.delta) <= {"·"} for event in found.events if isinstance(event, ToolCallDelta))
    seen = {event.call_id: event for event in found.events if isinstance(event, Observation)}
    assert seen["c1"].value == {"<key>": ("<card>", b"<key>")}
    assert seen["c1"].model_content == "paid by <key>"
    assert seen["c2"].model_content == "Error: <key> is refused"
    assert seen["c4"].outcome == "denied"
    assert [one.value for one in found.events if isinstance(one, ToolProgress)] == [{"at": ["<key>"]}]
    assert [one.reason for one in found.events if isinstance(one, ApprovalResolved)] == [None, "no <key>"]


async def test_boundaries_and_times_of_the_body_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ENDS, observers=[record(path)], privacy=POLICY, wire=ANTHROPIC)
    (body,) = Recording.read(path).bodies
    assert [(chunk.item, chunk.size) for chunk in body] == [(None, len(chunk)) for chunk in ENDS]


async def test_it_replays_its_redacted_events(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    await run_loop(ASKS, ENDS, tools=[pay, fail], observers=[record(path)], privacy=POLICY, wire=ANTHROPIC)
    run = replay(path)
    assert (await run).text == "With <key>."
    assert run.unchecked == ("the recording is redacted",)
    assert run.differences == ()


@pytest.mark.asyncio_only  # nothing in it knows which one runs
async def test_with_every_text_gone_all_events_are_still_there(tmp_path: Path) -> None:
    for quirk in QUIRKS[::7]:
        path, open_path = tmp_path / f"{quirk['id']}.jsonl", tmp_path / f"{quirk['id']}.open.jsonl"
        for to, privacy in ((path, Privacy(redact=lambda text: "x")), (open_path, None)):
            body, observers = stream([body_of(quirk)]), [record(to)]
            async with pipeline(body, wire=quirk["wire"], observers=observers, privacy=privacy) as events:
                async for event in _until_error(events):
                    assert event
        hidden, shown = Recording.read(path), Recording.read(open_path)
        assert [type(event) for event in hidden.events] == [type(event) for event in shown.events]
        assert [event.seq for event in hidden.events] == [event.seq for event in shown.events]


async def _until_error(events: Any) -> AsyncIterator[Any]:
    try:
        async for event in events:
            yield event
    except StreamError:
        return


async def test_a_redaction_that_fails_writes_nothing_more(tmp_path: Path) -> None:
    def fails(text: str) -> str:
        raise KeyError(text)

    for broken in (fails, lambda text: None):
        path = tmp_path / f"{broken.__name__.strip('<>')}.jsonl"
        turn = await pipeline(stream(ENDS), observers=[record(path)], privacy=Privacy(redact=broken))  # type: ignore[arg-type]
        assert turn.text == SECRET
        assert [one.code for one in turn.warnings] == ["observer_failed"]
        assert SECRET.encode() not in path.read_bytes()
        assert not re.search(rb"StreamEnd", b"".join(lines(path)))


def test_redact_has_to_be_a_function() -> None:
    with pytest.raises(TypeError, match="redact: expected a function from text to text, got str"):
        Privacy(redact="secret")  # type: ignore[arg-type]
