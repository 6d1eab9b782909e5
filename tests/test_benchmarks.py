"""The workloads of the benchmarks are what they say: whole responses, and a limit that reads all of them. What decides
whether a figure is good says so of made-up ones, too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from array import array
from collections import Counter
from pathlib import Path

import orjson
import pytest

from benchmarks import bench_overhead, load
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


def test_the_overhead_of_a_call_is_measured_for_each_wire_effect_and_number_of_calls_with_and_without_spans() -> None:
    figures = bench_overhead.run(streams=2)
    assert len({figure.name for figure in figures}) == len(figures) == 2 * 2 * 2 * 2
    assert {figure.bar for figure in figures if "with spans" in figure.name} == {140}
    assert {figure.bar for figure in figures if "with spans" not in figure.name} == {90, 55}
    assert all(figure.value > 0 for figure in figures)


def test_the_load_sees_every_call_that_is_made() -> None:
    tally = asyncio.run(load.run(5, 0.1))
    observed = tally.outcomes.total()
    assert tally.ended
    assert tally.streams >= 1
    assert observed == tally.announced == tally.outcomes["ok"] == 4 * tally.streams
    assert len(tally.waits_s) == 3 * tally.streams, "what may start at its own end is timed, what waits for others not"


def seen(
    *,
    announced: int = 100,
    outcomes: dict[str, int] | None = None,
    waits_s: tuple[float, ...] = (0.01,) * 100,
    growth: float = 0.0,
    ended: bool = True,
) -> load.Tally:
    tally = load.Tally()
    tally.announced, tally.ended = announced, ended
    tally.outcomes = Counter({"ok": 100} if outcomes is None else outcomes)
    tally.waits_s = array("d", waits_s)
    tally.memory = [(float(at), int(100e6 * (1 + growth * at / 100))) for at in range(101)]
    return tally


@pytest.mark.parametrize(
    ("tally", "missed"),
    [
        (seen(), []),
        (seen(growth=0.01), []),  # half of it in the second half
        (seen(growth=-0.1), []),
        (seen(waits_s=(0.01,) * 98 + (0.19,) * 2), []),
        (seen(announced=99), ["calls not observed once"]),
        (seen(announced=101), ["calls not observed once"]),
        (seen(announced=0, outcomes={}, waits_s=()), ["calls not observed once", "end marker to start, p99"]),
        (seen(outcomes={"ok": 99, "cancelled": 1}), ["calls not ok"]),
        (seen(waits_s=(0.01,) * 98 + (0.21,) * 2), ["end marker to start, p99"]),
        (seen(growth=0.03), ["memory grows"]),
        (seen(ended=False), ["consumers that never ended"]),
    ],
)
def test_the_load_says_which_bars_are_missed(tally: load.Tally, missed: list[str]) -> None:
    told = load.figures(tally)
    if not load.HAS_STATM:
        missed = [name for name in missed if name != "memory grows"]
    assert [figure.name for figure in told if figure.verdict == "MISS"] == missed


def test_the_load_ends_with_a_status_that_says_whether_a_bar_was_missed() -> None:
    command = [sys.executable, "-m", "benchmarks.load", "--pipelines", "3", "--seconds", "0.3"]
    ran = subprocess.run(command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True, check=False)
    assert "calls not observed once" in ran.stdout
    assert ran.returncode == int("MISS" in ran.stdout)
