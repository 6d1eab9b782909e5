"""Words of a peer in what people read (errors, warnings, reprs, reports, logs, terminals): never raw, never endless."""

from __future__ import annotations

import json
import logging
import traceback
from pathlib import Path
from typing import Any

import anyio
import pytest
from every_wire import framed, said
from hostile import FORGED, LONG, every_place, shown
from kept_spans import kept_spans
from profiles import every, mostly_thorough
from streams import anthropic, chat, hanging, sse, stream

from streamtools import Limits, Observation, StreamDecoder, pipeline, run_calls, tool
from streamtools.cli import main
from streamtools.dispatch import MemoryStore
from streamtools.errors import ProviderError
from streamtools.events import Event, StreamEnd, StreamWarning, ToolCallEnd
from streamtools.telemetry import Tracing
from streamtools.telemetry.setup import to_otlp
from streamtools.wires import WIRES

ENOUGH = 4096
"""Characters that any one message may have, however much the peer said."""


def decoded(body: list[bytes], wire: str | None = None) -> list[Event]:
    decoder = StreamDecoder(wire=wire)
    events = [event for chunk in body for event in decoder.feed(chunk)]
    return [*events, *decoder.finish()]


def messages(events: list[Event]) -> list[str]:
    """Every sentence of ours that these events hold."""
    found = []
    for event in events:
        if isinstance(event, StreamWarning):
            found += [event.code, event.detail]
        elif isinstance(event, (StreamEnd, ToolCallEnd)) and event.error is not None:
            found += [str(event.error), "".join(traceback.format_exception_only(event.error)).removesuffix("\n")]
    return found


# -- whatever the place ------------------------------------------------------------------------------------------


@pytest.mark.thorough
@every("wire", WIRES)
def test_no_place_of_any_wire_brings_control_characters_into_a_message_or_a_repr(wire: str) -> None:
    """Nor does any make a message long."""
    payloads = said(wire, text=["hi"], reasoning=["hm"], refusal=["no"], calls=[("call_1", "get", '{"a": 1}')])
    for place, changed in every_place(payloads, FORGED + LONG):
        events = decoded(framed(wire, changed), wire)
        try:
            for told in (*messages(events), *map(repr, events)):
                shown(told)
            assert max(map(len, messages(events)), default=0) <= ENOUGH
        except AssertionError as error:
            raise AssertionError(f"{wire}, {place}: {error}") from None


ERRORS: list[dict[str, Any]] = [
    {"error": {"message": "bad", "code": "c", "type": "t", "detail": "d"}},
    {"error": "bad", "code": "c"},
    {"type": "error", "message": "bad", "code": "c"},
    {"type": "error", "error": {"type": "overloaded_error", "message": "bad"}},
    {"object": "error", "message": "bad"},
    {"type": "response.failed", "response": {"status": "failed", "error": {"code": "c", "message": "bad"}}},
    {"throttlingException": {"message": "bad", "originalMessage": "worse"}},
    {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "bad"}},
    {"choices": [], "error": {"message": "bad"}},
    {"done": False, "error": "bad"},
]
"""Errors that providers send in band."""


@every("wire", [None, *WIRES])
@every("error", mostly_thorough(ERRORS, 4))
@every("text", [FORGED, LONG])
def test_a_providers_error_is_shown_escaped_and_cut(error: dict[str, Any], wire: str | None, text: str) -> None:
    for place, changed in every_place([error], text):
        events = decoded(framed(wire or WIRES[0], changed), wire)
        for told in messages(events):
            assert len(shown(told)) <= ENOUGH, place


def test_a_program_still_gets_a_providers_words_as_they_were() -> None:
    (end,) = (event for event in decoded(sse([{"error": {"message": FORGED}}])) if isinstance(event, StreamEnd))
    assert isinstance(end.error, ProviderError)
    assert end.error.message == FORGED


BODIES = {
    "html": f"<html>{FORGED}{LONG}</html>",
    "no json": "data: " + FORGED.replace("\r\n", "") + LONG + "\n\n",
    "error event": "event: error\ndata: " + FORGED.replace("\r\n", "") + LONG + "\n\n",
    "nothing known": f"data: {json.dumps({FORGED: 1, LONG: 2})}\n\n",
    "plain": FORGED + LONG,
}


@every("name", BODIES)
@every("wire", [None, *WIRES])
def test_a_body_that_is_no_stream_is_quoted_escaped_and_cut(name: str, wire: str | None) -> None:
    for told in messages(decoded([BODIES[name].encode()], wire)):
        assert len(shown(told)) <= ENOUGH


# -- a call, through the pipeline ---------------------------------------------------------------------------------


@tool(effect="pure")
def get(a: int) -> int:
    """Get it."""
    return a


@tool(effect="pure")
def fail(a: int) -> int:
    """Fail."""
    raise ValueError(FORGED)


CALLS: dict[str, tuple[str, str, str]] = {
    "id": (FORGED, "get", '{"a": 1}'),
    "id of a call that fails": (FORGED, "fail", '{"a": 1}'),
    "name": ("c", FORGED, '{"a": 1}'),
    "key": ("c", "get", json.dumps({"a": 1, FORGED: 1})),
    "value": ("c", "get", json.dumps({"a": FORGED})),
    "no json": ("c", "get", FORGED),
    "cut": (FORGED, "get", '{"a": '),
    "long": ("c" + LONG, "n" + LONG, '{"a": 1}'),
    "long key": ("c", "get", json.dumps({"a": 1, LONG: 1})),
}


async def run(call: tuple[str, str, str], **options: Any) -> Observation:
    turn = await pipeline(stream(chat(calls=[call])), tools=[get, fail], **options)
    (observation,) = turn.observations
    return observation


@pytest.mark.anyio
@every("case", CALLS)
async def test_the_record_of_a_call_has_the_lines_that_it_should_and_no_forged_ones(case: str) -> None:
    observation = await run(CALLS[case])
    lines = observation.report(values=True).split("\n")
    labels = [line.partition(": ")[0] for line in map(shown, lines)]
    expected = await run(("c", "get" if observation.error is None else "fail", '{"a": 1}'))
    assert labels == [line.partition(": ")[0] for line in expected.report().split("\n")]
    assert max(map(len, lines)) <= ENOUGH
    shown(repr(observation))


@pytest.mark.anyio
@pytest.mark.parametrize("case", CALLS)
async def test_a_trace_holds_no_control_character(case: str) -> None:
    provider, exporter = kept_spans()
    await run(CALLS[case], observers=[Tracing(provider)])
    spans = exporter.get_finished_spans()
    for text in (*(span.to_json(indent=None) for span in spans), json.dumps(to_otlp(spans))):
        shown(text)
    assert max(len(str(value)) for span in spans for value in (span.attributes or {}).values()) <= 1024
    provider.shutdown()


@pytest.mark.anyio
@pytest.mark.parametrize("case", CALLS)
async def test_only_a_tools_exception_is_logged_and_nothing_of_the_wire_raw(
    case: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.NOTSET)
    await run(CALLS[case])
    for record in caplog.records:
        if record.name.startswith("streamtools"):
            first, *frames = logging.Formatter("%(message)s").format(record).splitlines()
            assert first.startswith("fail: failed: ValueError (call ")
            assert shown(first)
            assert (frames[0], frames[-1]) == ("Traceback (most recent call last):", "ValueError")
    assert capfd.readouterr() == ("", "")


@pytest.mark.anyio
async def test_the_name_of_an_exceptions_class_is_shown_escaped_and_cut(caplog: pytest.LogCaptureFixture) -> None:
    """A client of a service may make its classes of the faults that the service names."""
    name = FORGED.replace("\0", "")
    forged = type(name + LONG, (Exception,), {"__module__": name})

    def fails(*_: Any) -> Any:
        raise forged("no")

    async def fails_async(*_: Any) -> Any:
        raise forged("no")

    class Watching:
        event_types = None
        on_event = staticmethod(fails)

    class Store(MemoryStore):
        claim = fails_async

    async def fail() -> None:
        """Fail."""
        raise forged("no")

    caplog.set_level(logging.DEBUG)
    provider, exporter = kept_spans()
    ways: list[dict[str, Any]] = [
        {},
        {"observers": [Watching()]},
        {"observers": [Tracing(provider)]},
        {"middleware": fails_async},
        {"store": Store(), "identity": "i"},
        {"approve": fails},
    ]
    for way in ways:
        turn = await run_calls([("c1", "fail", {})], [tool(needs_approval="approve" in way)(fail)], **way)
        (seen,) = turn.observations
        for text in (str(seen.error), seen.model_content, seen.report(), *(one.detail for one in turn.warnings)):
            assert len(text) <= ENOUGH, way
            shown(text.replace("\n", ""))
    for record in caplog.records:
        for line in logging.Formatter("%(message)s").format(record).split("\n"):
            shown(line)
    for span in exporter.get_finished_spans():
        shown(span.to_json(indent=None))
    provider.shutdown()


@pytest.mark.anyio
async def test_a_warning_about_a_call_names_it_in_printable_words() -> None:
    told = anyio.Event()

    @tool(effect="pure", timeout=0.01)
    async def stay() -> str:
        """Go on, until the warning has been seen."""
        with anyio.CancelScope(shield=True):
            await told.wait()
        return "late"

    body = anthropic(calls=[(FORGED, "stay", "{}")], stop=None)
    with anyio.fail_after(30):
        async with pipeline(hanging(body), tools=[stay], limits=Limits(cancel_grace=0.02)) as events:
            async for event in events:
                if isinstance(event, StreamWarning):
                    told.set()
                    break
    (warning,) = events.turn.warnings
    assert warning.code == "tool_unresponsive"
    assert "forged" in shown(warning.detail)


# -- terminals ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize("case", CALLS)
def test_the_command_line_shows_a_capture_without_obeying_it(
    case: str, options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = tmp_path / "capture.sse"
    capture.write_bytes(b"".join(chat(text=[FORGED], calls=[CALLS[case]])))
    main(["decode", str(capture), *options])
    out, err = capsys.readouterr()
    for line in (*out.split("\n"), *err.split("\n")):
        shown(line)
