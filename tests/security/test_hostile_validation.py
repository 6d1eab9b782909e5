"""Calls made to cost much: each is judged or refused, for a bounded price, whatever the schema or the types are.

The bounds here are ten times what was found on two cores, where the event loop stood still for at most 50 ms.
"""

from __future__ import annotations

import time

import pytest
from hostile_validation import CASES
from profiles import every
from single_calls import run_alone

from streamtools.errors import SchemaError

pytestmark = [pytest.mark.anyio, pytest.mark.sweep]

MAX_CPU_S = 10.0


@every("name", CASES)
async def test_a_call_that_would_cost_much_is_judged_or_refused_for_a_bounded_price(name: str) -> None:
    case = CASES[name]
    before = time.process_time()
    try:
        made = case.make_tool()
    except SchemaError:
        assert time.process_time() - before < 1
        return
    text = case.make_text()
    before = time.process_time()
    seen = await run_alone(made, text)
    assert time.process_time() - before < MAX_CPU_S
    assert seen.outcome in ("ok", "invalid")
    assert len(seen.model_content) < 20_000
