"""However a call is cut around its begin, it has its effect once."""

from __future__ import annotations

import math
from typing import Any

import pytest

from benchmarks.soak_double_runs import BUSY_S, Tally, soak
from streamtools.dispatch.executor import Begin, Emit
from streamtools.dispatch.executors import Invocation, LocalExecutor
from streamtools.testing.executors import mark_sync

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

CALLS = 50  # six times, which makes 300; benchmarks/soak_double_runs.py makes as many as one likes


@pytest.mark.parametrize("busy_s", BUSY_S)
async def test_no_call_runs_twice_however_it_is_cut_around_its_begin(busy_s: float, anyio_backend_name: str) -> None:
    tally = Tally()
    await soak(CALLS, busy_s=busy_s, seed=len(anyio_backend_name), tally=tally)
    assert (tally.calls, tally.doubles, tally.wrong) == (CALLS, 0, 0), tally


class BeginningLate(LocalExecutor):
    """An executor that begins a call when it has run."""

    async def run(self, call: Invocation, begin: Begin, emit: Emit, /) -> Any:
        async def at_once() -> float:
            return math.inf

        value = await super().run(call, at_once, emit)
        await begin()
        return value


async def test_calls_that_run_twice_are_seen() -> None:
    tally = Tally()
    await soak(CALLS, busy_s=0, seed=1, tally=tally, make=lambda: BeginningLate([mark_sync]))
    assert tally.doubles > 0
