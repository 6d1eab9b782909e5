"""Runs many schedules of programs that meet at the same calls, and prints the seeds of those that went wrong.

    python tests/simulation/simulate.py --schedules 100000 --jobs 2
    python tests/simulation/simulate.py --show 4711           one schedule, told as it went

A schedule is drawn from its seed alone: what is printed once can be shown again. See `schedules` for what is tried, and
for what may come of it.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import multiprocessing
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

if __name__ == "__main__":  # beside the package that `PYTHONPATH` names, if it names one
    here = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(here)]
    sys.path.append(str(here.parent))

from simulation.schedules import Schedule, problems

__all__ = ["main", "search", "shown"]

_AT_A_TIME = 50
_MOST_PARTS = 100  # of schedules in one process
KINDS = ("approved", "elsewhere", "named", "together")
"""The switches of a schedule by which one kind can be asked for."""


def search(seeds: Sequence[int], stop_after_s: float | None = None, at_once: bool = False) -> dict[int, list[str]]:
    """Runs the schedules of these seeds; returns the problems of those that have any.

    Args:
        seeds: the seeds.
        stop_after_s: for how many seconds at most.
        at_once: stop at the first problem.
    """
    logging.disable(logging.CRITICAL)  # the tools fail on purpose
    began, found = time.monotonic(), {}
    try:
        for seed in seeds:
            if stop_after_s is not None and time.monotonic() - began > stop_after_s:
                break
            if texts := problems(Schedule(str(seed))):
                found[seed] = texts
                if at_once:
                    break
    finally:
        logging.disable(logging.NOTSET)
    return found


def shown(seed: int) -> str:
    """Returns one schedule as text, with what went wrong."""
    logging.disable(logging.CRITICAL)  # the tools fail on purpose
    schedule = Schedule(str(seed))
    try:
        texts = problems(schedule)
    finally:
        logging.disable(logging.NOTSET)
    lines = [f"seed {seed}: {schedule}"]
    for call_id, plan in schedule.plans.items():
        effects = [visit.number for visit in schedule.effects[call_id]]
        lines.append(f"  {call_id}: {plan}, effects in the visits {effects}")
    lines += [f"  {visit}" for visit in schedule.visits]
    lines += [f"  killed: visit {visit.number} after {after:.3f} s" for visit, after in schedule.kills]
    lines += [f"  {answer}" for answer in schedule.answers]
    return "\n".join([*lines, *(f"  WRONG: {text}" for text in texts)])


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs schedules, and returns 1 if one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=1000, metavar="N", help="how many (default: 1000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the first one's seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that run them (default: 1)")
    parser.add_argument("--first", action="store_true", help="stop at the first that goes wrong")
    parser.add_argument("--kind", choices=KINDS, help="only schedules of this kind; `named`: a model repeats itself")
    parser.add_argument("--show", type=int, metavar="SEED", help="show one schedule")
    options = parser.parse_args(arguments)
    if options.show is not None:
        print(shown(options.show))
        return 0
    began = time.monotonic()
    numbers = itertools.count(options.seed)
    wanted = numbers if options.kind is None else (one for one in numbers if getattr(Schedule(str(one)), options.kind))
    seeds = list(itertools.islice(wanted, options.schedules))
    parts = [seeds[at : at + _AT_A_TIME] for at in range(0, len(seeds), _AT_A_TIME)]
    found: dict[int, list[str]] = {}
    run = partial(search, at_once=options.first)
    # Processes are replaced in time: the loops of killed programs are never let go of.
    forks = multiprocessing.get_context("forkserver")
    with forks.Pool(options.jobs, maxtasksperchild=_MOST_PARTS) if options.jobs > 1 else nullcontext() as pool:
        for number, problems_by_seed in enumerate((map if pool is None else pool.imap)(run, parts), 1):
            found |= problems_by_seed
            if sys.stderr.isatty():
                print(f"\r{min(number * _AT_A_TIME, len(seeds))} of {len(seeds)}", end="", file=sys.stderr, flush=True)
            if found and options.first:
                break
    for seed, texts in list(found.items())[:20]:
        print(f"seed {seed}: {texts[0]}" + (f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""))
    print(f"{len(seeds)} schedules, {len(found)} went wrong, {time.monotonic() - began:.1f} s")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
