"""Calls made to cost much: each is judged or refused, for a bounded price, whatever the schema or the types are.

The bounds here are ten times what ``python -m benchmarks.bench_hostile`` finds, which also watches the event loop.
"""

from __future__ import annotations

import time

import pytest
from alone import run_alone
from hostile_validation import CASES

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

MAX_CPU_S = 10.0


def test_there_are_at_least_sixty_cases_and_each_is_small_enough_to_be_judged() -> None:
    assert len(CASES) >= 60
    sizes = {name: len(case.make_text()) for name, case in CASES.items()}
    assert not {name: size for name, size in sizes.items() if size > 1 << 20}


@pytest.mark.parametrize("name", CASES)
async def test_a_call_that_would_cost_much_is_judged_or_refused_for_a_bounded_price(name: str) -> None:
    case = CASES[name]
    made, text = case.make_tool(), case.make_text()
    before = time.process_time()
    seen = await run_alone(made, text)
    assert time.process_time() - before < MAX_CPU_S
    assert seen.outcome in ("ok", "invalid")
    assert len(seen.model_content) < 20_000
