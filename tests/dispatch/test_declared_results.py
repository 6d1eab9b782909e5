"""A tool that declares its results: one that does not fit reaches neither the model nor the program, nor a store."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from once_turns import run, said
from placed_tools import FORMS, SECRET, marks
from pydantic import BaseModel, field_serializer
from single_calls import run_alone

from streamtools import Limits, Observation, Tool, tool
from streamtools.dispatch import MemoryStore
from streamtools.errors import InvalidResult
from streamtools.executors import LocalExecutor, ProcessExecutor

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

MISSING = "weigh has run, but its result is missing, though the tool declares an output schema"
UNFIT = "weigh has run, but its result does not fit the tool's output schema: kilos: should be an integer"
ENDS = {
    "well": ("ok", '{"kilos":2}'),
    "wrong": ("failed", f"Error: {UNFIT}"),
    "blocks": ("ok", "two kilos"),
    "wrong blocks": ("failed", f"Error: {UNFIT}"),
    "no value": ("failed", f"Error: {MISSING}"),
    "error": ("failed", "Error: no scales"),
}
UNFIT_ENDS = ("wrong", "wrong blocks", "no value")


def withheld(observation: Observation) -> bool:
    """Nothing of a result is left in the call's record."""
    shown = (observation.value, observation.result, observation.outcome, type(observation.error))
    assert SECRET not in observation.report(values=True)
    return shown == (None, None, "failed", InvalidResult)


PLACES: list[Any] = [
    pytest.param(None, id="here"),
    pytest.param(LocalExecutor, marks=pytest.mark.costly),
    pytest.param(ProcessExecutor, marks=pytest.mark.thorough),
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("make", PLACES)
async def test_a_result_that_does_not_fit_fails_its_call_which_is_not_run_again(
    make: Any, form: str, tmp_path: Path
) -> None:
    calls = [said("weigh", how, how=how, path=str(tmp_path / how)) for how in ENDS]
    async with AsyncExitStack() as stack:
        place = {} if make is None else {"executor": await stack.enter_async_context(make([FORMS[form]["weigh"]]))}
        seen = (await run(calls, FORMS[form]["weigh"], None, **place)).observations
    assert {how: (one.outcome, one.model_content) for how, one in seen.items()} == ENDS
    assert {how for how, one in seen.items() if withheld(one)} == set(UNFIT_ENDS)
    assert [(seen[how].attempts, len(marks(tmp_path / how))) for how in ENDS] == [(1, 1)] * len(ENDS)


async def test_a_store_keeps_what_was_checked(tmp_path: Path) -> None:
    store = MemoryStore()
    weigh = tool(FORMS["async"]["weigh"].fn, name="weigh", output_schema=FORMS["async"]["weigh"].output_schema)
    calls = [said("weigh", how, how=how, path=str(tmp_path / how)) for how in ENDS]
    first = (await run(calls, weigh, store)).observations
    again = (await run(calls, weigh, store)).observations
    for how, one in again.items():
        assert (one.outcome, one.model_content) == (first[how].outcome, first[how].model_content) == ENDS[how]
        assert (one.recorded, type(one.error)) == (True, type(first[how].error))
        assert len(marks(tmp_path / how)) == 1


# -- declarations ------------------------------------------------------------------------------------------------------

INTEGERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}


def returning(value: Any) -> Any:
    def give() -> list[int]:
        """Give."""
        return value() if callable(value) else value  # type: ignore[no-any-return]

    return give


class Numbers(BaseModel):
    """No arguments."""


async def test_a_declaration_is_a_schema_a_type_or_the_annotation() -> None:
    for declared in (INTEGERS, list[int], True):
        for value, outcome in (([1, 2], "ok"), ((1, 2), "ok"), (["1"], "failed"), (None, "failed"), ("[1]", "failed")):
            assert (await run_alone(tool(returning(value), output_schema=declared), {})).outcome == outcome
        assert tool(returning(1), output_schema=declared).output_schema == INTEGERS


async def test_nothing_is_checked_that_was_not_declared() -> None:
    assert (await run_alone(tool(returning("no list")), {})).value == "no list"


async def test_tools_from_schemas_and_models_declare_their_results_too() -> None:
    made = [
        Tool.from_schema(lambda: "x", {"type": "object"}, name="f", description="", output_schema=INTEGERS),
        Tool.from_model(Numbers, lambda numbers: "x", name="f", description="Give.", output_schema=list[int]),
    ]
    for one in made:
        assert (await run_alone(one, {})).outcome == "failed"


async def test_a_value_is_judged_as_the_model_would_read_it() -> None:
    """Not as Python has it: an iterator is written once, and what JSON lacks has its usual form."""

    def numbers() -> Iterator[int]:
        yield from (1, 2)

    good = await run_alone(tool(returning(numbers), output_schema=INTEGERS), {})
    assert (good.outcome, good.model_content) == ("ok", "[1,2]")
    nulls = {"type": "array", "items": {"type": "null"}}
    assert (await run_alone(tool(returning([float("nan")]), output_schema=nulls), {})).model_content == "[null]"


async def test_a_text_for_the_model_is_checked_before_it_is_cut() -> None:
    limits = Limits(max_result_bytes=10)
    for last, outcome in ((1, "ok"), ("x", "failed")):
        seen = await run_alone(tool(returning([1] * 30_000 + [last]), output_schema=INTEGERS), {}, limits=limits)
        assert (seen.outcome, len(seen.model_content) < 200) == (outcome, True)


async def test_a_result_that_is_too_large_to_be_checked_is_not_sent_on() -> None:
    limits = Limits(max_result_media_bytes=1000)
    seen = await run_alone(tool(returning([1] * 2000), output_schema=INTEGERS), {}, limits=limits)
    assert seen.outcome == "failed"
    assert "is larger than max_result_media_bytes=1000, too large to check" in seen.model_content


async def test_a_result_that_is_much_work_by_its_schema_is_judged_outside_the_event_loop() -> None:
    threads: list[int] = []

    class Picked(BaseModel):
        numbers: list[int]

        @field_serializer("numbers")
        def written(self, numbers: list[int]) -> list[int]:
            threads.append(threading.get_ident())
            return numbers

    dear = {"properties": {"numbers": {"items": {"oneOf": [{"const": number} for number in range(4000)]}}}}
    for count, elsewhere in ((1, False), (10, True)):
        value = Picked(numbers=list(range(3990, 3990 + count)))
        assert (await run_alone(tool(returning(value), output_schema=dear), {})).outcome == "ok"
        assert (threads[-1] != threading.get_ident()) is elsewhere
