"""Chrome trace events: valid for a viewer, whatever the run was."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import orjson
import pytest
from profiles import mostly_thorough
from view.seen_runs import many_events, watched

from streamtools.view import Picture, Watch, chrome_trace, draw

PHASES = {"X", "M", "i", "s", "f"}


def checked(picture: Picture) -> list[dict[str, Any]]:
    """The events, once they keep the rules of the format."""
    events: list[dict[str, Any]] = orjson.loads(orjson.dumps(chrome_trace(picture)))["traceEvents"]
    slices: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        assert event["ph"] in PHASES
        assert isinstance(event["name"], str)
        assert all(isinstance(event[key], int) and event[key] >= 0 for key in ("ts", "pid", "tid"))
        if event["ph"] == "X":
            assert event["dur"] >= 0
            slices[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    assert set(slices) <= threads
    for (_, thread), taken in slices.items():
        if thread != 2:  # pieces of one stream may interleave
            nested(taken)
    flows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["ph"] in ("s", "f"):
            flows[event["id"]].append(event)
            assert any(start <= event["ts"] < end for start, end in slices[event["pid"], event["tid"]])
    assert all([one["ph"] for one in pair] == ["s", "f"] and pair[1]["bp"] == "e" for pair in flows.values())
    return events


def nested(slices: list[tuple[int, int]]) -> None:
    """Slices of one track lie beside or inside each other."""
    open_until: list[int] = []
    for start, end in sorted(slices, key=lambda one: (one[0], -one[1])):
        while open_until and open_until[-1] <= start:
            open_until.pop()
        assert not open_until or end <= open_until[-1]
        open_until.append(end)


@pytest.mark.anyio
async def test_a_run_has_its_steps_calls_waits_attempts_and_causes_in_the_trace() -> None:
    watch = Watch("Trip")
    await watched(watch)
    events = checked(watch.picture)
    names = [event["name"] for event in events if event["ph"] == "X"]
    assert names.count("attempt 3") == 1
    assert "wait: approval" in names
    assert {"step 1", "step 2", "step 3", "get_weather", "text"} <= set(names)
    assert sum(event["ph"] == "s" for event in events) == len(watch.picture.arrows) > 0
    assert {event["args"]["name"] for event in events if event["name"] == "process_name"} == {"Trip"}


@pytest.mark.parametrize("kept", mostly_thorough(range(5, 1500, 60), 5))
def test_a_run_that_was_cut_anywhere_is_a_valid_trace(kept: int) -> None:
    assert checked(draw(many_events(1500)[:kept]))
