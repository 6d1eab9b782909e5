"""The exceptions of tools in the log of the developer's own process."""

from __future__ import annotations

import logging

import pytest
from alone import run_alone
from streams import chat, stream

from streamtools import ToolError, pipeline, tool

pytestmark = pytest.mark.anyio

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
    await run_alone(look_up, {"card": SECRET}, call_id="c1")
    (text,) = logged(caplog)
    first, *frames = text.splitlines()
    assert first == "look_up: failed: KeyError (call c1)"
    assert "raise KeyError(card)" in frames[-1]
    assert "test_developer_log.py" in text
    assert SECRET not in caplog.text
    assert [record.levelno for record in caplog.records if record.name == "streamtools"] == [logging.ERROR]


async def test_with_the_switch_for_debugging_the_exceptions_text_is_logged_too(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STREAMTOOLS_DEBUG", "1")
    await run_alone(look_up, {"card": SECRET}, call_id="c1")
    assert f"KeyError: '{SECRET}'" in caplog.text


async def test_an_error_for_the_model_is_no_fault_and_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await run_alone(refuse, {"card": SECRET})
    await run_alone(look_up, {"no such": SECRET})
    assert logged(caplog) == []


async def test_a_hook_that_raises_is_logged_as_its_tool_is(caplog: pytest.LogCaptureFixture) -> None:
    async with pipeline(stream(chat(calls=[("c1", "gated", '{"card": "x"}')])), tools=[gated]) as events:
        async for _ in events:
            pass
    (text,) = logged(caplog)
    assert text.startswith("gated: failed: KeyError (call c1)\n")
