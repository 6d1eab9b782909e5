"""Arguments made to cost much, by schemas and types that let them: how long does the event loop stand still for them?

Each case is one call in a stream, through a pipeline, beside a task that ticks. Bars, on a machine with two cores and
CPython 3.11: the loop stands still for 50 ms at most, a call is judged or refused within 1 s of CPU, and it takes 50 MB
at most beyond its arguments as Python objects. The cases are those of ``tests/hostile_validation.py``.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from streamtools import Observation, pipeline
from streamtools.errors import SchemaError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from hostile_validation import CASES, Case  # after the path to it

__all__ = ["Measured", "measure"]

MAX_STANDSTILL_MS, MAX_CPU_S, MAX_MEGABYTES = 50.0, 1.0, 50.0
PIECE_CHARS = 16 << 10
TICK_S = 0.001


@dataclass(frozen=True, slots=True)
class Measured:
    """One case."""

    outcome: str
    why: str
    standstill_ms: float
    cpu_s: float
    megabytes: float
    input_megabytes: float


def measure(case: Case) -> Measured:
    """Run a case once."""
    try:
        tool = case.make_tool()
    except SchemaError as error:
        return Measured("refused schema", str(error), 0.0, 0.0, 0.0, 0.0)
    text = case.make_text()
    gc.collect()
    before = _resident()
    held = json.loads(text)
    input_megabytes = max(0.0, _resident() - before)
    del held
    gc.collect()
    _reset_peak()
    before, cpu = _resident(), time.process_time()
    seen, standstill = anyio.run(_run, tool, list(_stream(tool.name, text)))
    return Measured(
        outcome=seen.outcome,
        why=str(seen.error or ""),
        standstill_ms=standstill * 1000,
        cpu_s=time.process_time() - cpu,
        megabytes=max(0.0, _peak() - before - input_megabytes),
        input_megabytes=input_megabytes,
    )


async def _run(tool: Any, payloads: list[dict[str, Any]]) -> tuple[Any, float]:
    longest, seen = 0.0, None

    async def tick() -> None:
        nonlocal longest
        last = time.perf_counter()
        while True:
            await anyio.sleep(TICK_S)
            now = time.perf_counter()
            longest = max(longest, now - last - TICK_S)
            last = now

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        await anyio.sleep(0.01)
        async with pipeline(payloads, tools=[tool], wire="openai.chat_completions") as events:
            async for event in events:
                if isinstance(event, Observation):
                    seen = event
        group.cancel_scope.cancel()
    return seen, longest


def _stream(name: str, text: str) -> Iterator[dict[str, Any]]:
    yield _chunk({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": name, "arguments": ""}}]})
    for at in range(0, len(text), PIECE_CHARS):
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": text[at : at + PIECE_CHARS]}}]})
    yield {
        "id": "1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
    }


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    return {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def _resident() -> float:
    return _status("VmRSS:")


def _peak() -> float:
    return _status("VmHWM:")


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main(wanted: list[str]) -> None:
    """Print a line for each case, the worst of each column at the end."""
    measured: dict[str, Measured] = {}
    print(f"{'case':60} {'outcome':15} {'still ms':>9} {'CPU s':>7} {'MB':>6} {'input MB':>9}")
    for name, case in CASES.items():
        if wanted and not any(word in name for word in wanted):
            continue
        one = measured[name] = measure(case)
        over = one.standstill_ms > MAX_STANDSTILL_MS or one.cpu_s > MAX_CPU_S or one.megabytes > MAX_MEGABYTES
        print(
            f"{name[:60]:60} {one.outcome:15} {one.standstill_ms:9.1f} {one.cpu_s:7.2f} {one.megabytes:6.1f} "
            f"{one.input_megabytes:9.1f}{'  MISSED' if over else ''}",
            flush=True,
        )
    still, cpu, megabytes = (
        max(getattr(one, name) for one in measured.values()) for name in ("standstill_ms", "cpu_s", "megabytes")
    )
    print(
        f"{len(measured)} cases; at most {still:.0f} ms of standstill (<= {MAX_STANDSTILL_MS:g}), "
        f"{cpu:.2f} s of CPU (<= {MAX_CPU_S:g}), {megabytes:.0f} MB (<= {MAX_MEGABYTES:g})"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
