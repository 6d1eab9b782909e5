"""One reader in a process of its own: ``python -m benchmarks.compare.child PEER WIRE`` prints its figures as JSON.

``python -m benchmarks.compare.child --versions`` prints which distributions this interpreter has.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
import warnings
from functools import partial
from importlib.metadata import distributions
from typing import Any

import orjson

from ..bench_runs import LAST, answers
from ..measure import best_of
from ..workloads import CHAT, limit, note, text
from .peers import PEERS, Peer
from .transport import offline
from .work import RUN, WORKLOADS, Work, verdict

BUDGET = 1.5  # seconds of one workload
REPEATS = (3, 25)  # at least and at most


def versions() -> dict[str, str | None]:
    """The version of each distribution that some peer needs; None: it is not here."""
    needed = {name for peer in PEERS for wire in peer.wires for name in peer.distributions(wire)}
    here = {(found.name or "").lower().replace("_", "-"): found.version for found in distributions()}
    return {name: here.get(name) for name in sorted(needed)}


def measure(peer: Peer, wire: str) -> dict[str, dict[str, Any]]:
    """The figures of each workload."""
    with asyncio.Runner() as runner:
        found = {name: _measure(runner, peer, wire, work) for name, work in WORKLOADS.items()}
        return found | (_measure_run(runner, peer) if wire == CHAT else {})


def _measure_run(runner: asyncio.Runner, peer: Peer) -> dict[str, dict[str, Any]]:
    """A usual run, all at hand: its "event" is the run, and its limit the loop that is written by hand."""
    given = answers(note.name)
    run, by_hand = peer.loop(given), PEERS[0].loop(given)
    if run is None or by_hand is None:
        return {}
    try:
        said = runner.run(run())
        best = best_of({"run": lambda: runner.run(run()), "by hand": lambda: runner.run(by_hand())}, repeats=15)
    except Exception as error:
        traceback.print_exc()
        return {RUN: {"answer": f"raised {type(error).__name__}"}}
    took, least = (round(best[name] * 1e6, 3) for name in ("run", "by hand"))
    right = "right" if said == "".join(text(LAST)) else "another text"
    return {RUN: {"events": 1, "microseconds": took, "limit_microseconds": least, "answer": right}}


def _measure(runner: asyncio.Runner, peer: Peer, wire: str, work: Work) -> dict[str, Any]:
    chunks = work.chunks(wire)
    try:
        read = peer.reader(wire, chunks)
        runner.run(read())  # all code is loaded
        start = time.process_time()
        answer = runner.run(read())
        repeats = min(max(int(BUDGET / (time.process_time() - start)), REPEATS[0]), REPEATS[1])
        floor = partial(limit, wire, chunks)
        best = best_of({"before": floor, "reader": lambda: runner.run(read()), "after": floor}, repeats=repeats)
    except Exception as error:
        traceback.print_exc()
        return {"answer": f"raised {type(error).__name__}"}
    events, least = limit(wire, chunks), min(best["before"], best["after"])
    took = least if answer is None else best["reader"]  # no answer: it is the limit itself
    return {
        "events": events,
        "microseconds": round(took / events * 1e6, 3),
        "limit_microseconds": round(least / events * 1e6, 3),
        "answer": "" if answer is None else verdict(answer, work.answer),
    }


def _main(arguments: list[str]) -> None:
    if arguments == ["--versions"]:
        found: object = versions()
    else:
        key, wire = arguments
        [peer] = [peer for peer in PEERS if peer.key == key]
        offline()
        warnings.simplefilter("ignore")
        found = measure(peer, wire)
    sys.stdout.buffer.write(orjson.dumps(found) + b"\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
