"""Ctrl-C at any moment: does each program end in time, with every observation made?

    python -m benchmarks.soak_interrupts 500 --seed 1

Each trial is one program of `interrupted` that gets SIGINT at a random moment, half of the times followed by one to
five more within milliseconds. Most trials share a process, which catches what comes out and goes on; every tenth one
is a process of its own, measured to its exit. Prints one line of figures, then each failure with its seed and number.
``--plain`` runs the same without streamtools: what the event loop itself makes of the signals.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BOUND_S = 2.0
PER_PROCESS = 50
WHOLE_EVERY = 10
START_S = 30.0

_NOISE = re.compile(
    r"never retrieved|was destroyed|never awaited|Exception ignored|unhandled exception|RuntimeError|Traceback"
)
_OURS = re.compile(r"/streamtools/|streamtools\.|coroutine '(Calls|Pipeline|Runner|Timers|Transitions|CallAttempts)\.")


@dataclass
class Tally:
    """What came of some trials."""

    trials: int = 0
    signals: int = 0
    announced: int = 0
    took: list[float] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    noise: list[str] = field(default_factory=list)
    loop_noise: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        took = sorted(self.took) or [0.0]
        points = ", ".join(f"{name} {took[int(share * (len(took) - 1))]:.3f}" for name, share in _POINTS)
        return (
            f"hung {len(self.hung)}, over {BOUND_S:g} s {len(self.late)}, missing {len(self.missing)}, "
            f"twice {len(self.twice)}, words of ours {len(self.noise)} (of the event loop's {len(self.loop_noise)}); "
            f"of {self.trials} trials with {self.signals} SIGINTs and {self.announced} calls; "
            f"seconds to the exit: {points}"
        )

    @property
    def failures(self) -> list[str]:
        """Every failure, the worst first."""
        return [*self.hung, *self.missing, *self.late, *self.twice, *self.noise, *self.loop_noise]


_POINTS = (("median", 0.5), ("95 %", 0.95), ("99 %", 0.99), ("most", 1.0))


def soak(trials: int, seed: int, *, plain: bool = False, whole_every: int = WHOLE_EVERY) -> Tally:
    """Run trials, and count what came of them."""
    tally, shared = Tally(), trials - trials // whole_every
    for first in range(0, shared, PER_PROCESS):
        last, begin = min(first + PER_PROCESS, shared), first
        while begin < last:
            begin = _process(tally, seed, begin, last, plain=plain, whole=False)
    for number in range(shared, trials):
        _process(tally, seed, number, number + 1, plain=plain, whole=True)
    return tally


def _process(tally: Tally, seed: int, first: int, last: int, *, plain: bool, whole: bool) -> int:
    """Run some trials in one process; returns the first that it has not come to."""
    with tempfile.TemporaryDirectory(prefix="interrupts-") as directory:
        options = [*(["--plain"] if plain else []), *(["--whole"] if whole else [])]
        numbers = map(str, (seed, first, last))
        command = [sys.executable, "-m", "benchmarks.interrupted", directory, *numbers, *options]
        errors = Path(directory, "stderr")
        with errors.open("wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr, env=os.environ | {"PYTHONFAULTHANDLER": "1"})
            try:
                process.wait(START_S + 15.0 * (last - first))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        exited, text = time.monotonic(), errors.read_text(errors="replace")
        results = Path(directory, "results")
        rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    said = _by_trial(text)
    for row in rows:
        _count(tally, seed, row, said.get(row["trial"], ""), exited if whole else None)
    done = first + len(rows)
    if done < last:
        early = whole and process.returncode != 3  # interrupted before its first line
        how = f"exit {process.returncode}" if early else "hung"
        (tally.noise if early else tally.hung).append(f"--seed {seed}, trial {done}: {how}\n{said.get(done, text)}")
        tally.trials += 1
        done += 1
    return done


def _by_trial(text: str) -> dict[int, str]:
    parts = re.split(r"^TRIAL (\d+)", text, flags=re.MULTILINE)
    return {int(number): said for number, said in zip(parts[1::2], parts[2::2], strict=True)}


def _count(tally: Tally, seed: int, row: dict[str, Any], said: str, exited: float | None) -> None:
    where = f"--seed {seed}, trial {row['trial']} ({row['runner']}, {row['program']}, {row['signals']} signals)"
    tally.trials += 1
    tally.announced += row["announced"]
    if row["first"] is not None:
        took = row["took"] if exited is None else exited - row["first"]
        tally.signals += row["signals"]
        tally.took.append(max(0.0, took))
        if took > BOUND_S:
            tally.late.append(f"{where}: {took:.2f} s")
    if row["missing"]:
        tally.missing.append(f"{where}: missing {row['missing']}\n{said}")
    if row["twice"]:
        tally.twice.append(f"{where}: observed twice {row['twice']}")
    if (whose := _noise_of(row, said)) is not None:
        (tally.noise if whose == "ours" else tally.loop_noise).append(f"{where}: raised {row['raised']}; said {said}")


def _noise_of(row: dict[str, Any], said: str) -> str | None:
    """Returns whose words stderr holds beyond the traceback of one KeyboardInterrupt: ours, the loop's, or nobody's.

    A closing that is itself interrupted has asyncio say things, whatever runs in it (see ``--plain``): a loop "stopped
    before its future completed", tasks that are destroyed, coroutines that nobody awaited.
    """
    words = f"{_without_interrupt(said)}\n{row['raised'] or ''}"
    if not any(_NOISE.search(line) for line in words.splitlines()):
        return None
    is_trios = "github.com/python-trio/trio/issues/new" in words  # a second interrupt has met trio's own code
    return "ours" if _OURS.search(words) and not is_trios else "loop"


def _without_interrupt(said: str) -> str:
    """What is left when the traceback that Python prints for a program's own KeyboardInterrupt is taken away."""
    body = re.sub(
        r"object address.*\n(object .*\n)*object repr[^:]*: KeyboardInterrupt\(\)\nlost sys.stderr",
        "KeyboardInterrupt",
        said,
    ).rstrip()  # an interrupt in the printing of the traceback
    if body.endswith("KeyboardInterrupt") and (at := body.find("Traceback (most recent call last)")) >= 0:
        return body[:at]
    return body


def main(arguments: Sequence[str]) -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trials", type=int, nargs="?", default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--whole-every", type=int, default=WHOLE_EVERY)
    options = parser.parse_args(arguments)
    tally = soak(options.trials, options.seed, plain=options.plain, whole_every=options.whole_every)
    print(tally)
    print("\n".join(tally.failures))
    return int(bool(tally.hung or tally.late or tally.missing or tally.twice))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
