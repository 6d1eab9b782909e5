"""The workloads of the benchmarks are what they say: whole responses, and a limit that reads all of them."""

from __future__ import annotations

import orjson
import pytest

from benchmarks.bench_dialects import SPELLED, write_file
from benchmarks.workloads import ALL_WIRES, CHAT, arguments, body, limit, pieces, text
from streamtools import parse
from streamtools.stages import DEFAULT, DIALECTS, text_calls
from streamtools.wires import WIRES

DELTAS = text(40)
CALLS = [("save_report", arguments(1000)), ("save_report", arguments(1200))]
AFTER = text(5)


@pytest.mark.parametrize("wire", ALL_WIRES)
def test_a_composed_response_is_read_whole_and_without_a_warning(wire: str) -> None:
    if wire not in WIRES:
        pytest.skip("there is no such wire yet")
    turn = parse(body(wire, text=DELTAS, calls=CALLS, after=AFTER), wire=wire)
    assert turn.complete
    assert turn.finish == "tool_calls"
    assert turn.text == "".join([*DELTAS, *AFTER])
    assert [(call.name, call.arguments) for call in turn.calls] == [(name, orjson.loads(text)) for name, text in CALLS]
    assert [call.status for call in turn.calls] == ["ready", "ready"]
    assert turn.warnings == ()


@pytest.mark.parametrize("wire", ALL_WIRES)
def test_the_limit_loads_every_payload(wire: str) -> None:
    chunks = body(wire, text=DELTAS, calls=CALLS)
    assert limit(wire, chunks) == sum(1 for chunk in chunks if b"[DONE]" not in chunk)


@pytest.mark.parametrize("wire", ALL_WIRES)
def test_a_response_is_the_same_at_every_run(wire: str) -> None:
    assert body(wire, text=DELTAS, calls=CALLS) == body(wire, text=DELTAS, calls=CALLS)


@pytest.mark.parametrize("name", DIALECTS)
def test_a_call_in_the_text_is_spelled_so_that_its_dialect_finds_it(name: str) -> None:
    content = "a few words, no markup; 日本語, and “quotes”"
    stages = DEFAULT.insert_before("accumulate", text_calls(name))
    turn = parse(body(CHAT, text=pieces(SPELLED[name]("a.md", content))), tools=[write_file], stages=stages)
    [call] = turn.calls
    assert (call.status, call.arguments) == ("ready", {"path": "a.md", "content": content})
