"""The exceptions of tools in the log of the developer's own process."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from single_calls import run_alone
from streams import chat, stream

from streamtools import ToolError, Trajectory, pipeline, run_calls, tool

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

SECRET = "4111-secret"


@tool(effect="pure")
def look_up(card: str) -> str:
    """Looks up a card."""
    raise KeyError(card)


@tool(effect="pure")
def refuse(card: str) -> str:
    """Refuses a card."""
    raise ToolError(f"no {card}")


@tool(needs_approval=lambda arguments: arguments["nothing"])
def gated(card: str) -> str:
    """Asks first."""
    raise AssertionError("it must not run")


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "streamtools"]


async def test_a_tools_exception_is_logged_with_its_type_and_frames_and_without_values(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Trajectory(run_id="r1", conversation_id="talk\nERROR forged")
    for _ in range(2):
        await run_calls([("c1", "look_up", {"card": SECRET})], [look_up], trajectory=run)
    assert logged(caplog) == ["look_up: failed: KeyError (call c1); STREAMTOOLS_DEBUG=1 shows why"] * 2
    *_, record = (record for record in caplog.records if record.name == "streamtools")
    shown = logging.Formatter("%(run_id)s %(conversation_id)s %(step)s %(call_id)s %(tool_name)s %(error_type)s")
    first, *frames = shown.format(record).splitlines()
    assert first == r"r1 talk\nERROR forged 1 c1 look_up KeyError"
    assert frames[0] == "Traceback (most recent call last):"
    assert frames[-2:] == ["    raise KeyError(card)", "KeyError"]
    assert record.exc_info[1] is not None
    assert SECRET not in caplog.text + repr(record.exc_info)
    assert record.levelno == logging.ERROR


async def test_records_that_a_program_makes_with_attributes_of_its_own_keep_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    made = logging.getLogRecordFactory()

    def make(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = made(*args, **kwargs)
        record.run_id = "the program's"
        return record

    logging.setLogRecordFactory(make)
    try:
        seen = await run_alone(look_up, {"card": SECRET}, call_id="c1")
    finally:
        logging.setLogRecordFactory(made)
    (record,) = [one for one in caplog.records if one.name == "streamtools"]
    assert (seen.outcome, vars(record)["run_id"], vars(record)["call_id"]) == ("failed", "the program's", "c1")


async def test_with_the_switch_for_debugging_the_exceptions_text_is_logged_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMTOOLS_DEBUG", "1")
    await run_alone(look_up, {"card": SECRET}, call_id="c1")
    assert f"KeyError: '{SECRET}'" in caplog.text
    assert logged(caplog) == ["look_up: failed: KeyError (call c1)"]


async def test_an_error_for_the_model_is_no_fault_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await run_alone(refuse, {"card": SECRET})
    await run_alone(look_up, {"no such": SECRET})
    assert logged(caplog) == []


async def test_a_hook_that_raises_is_logged_as_its_tool_is(caplog: pytest.LogCaptureFixture) -> None:
    await pipeline(stream(chat(calls=[("c1", "gated", '{"card": "x"}')])), tools=[gated])
    (text,) = logged(caplog)
    assert text == "gated: failed: KeyError (call c1); STREAMTOOLS_DEBUG=1 shows why"
