"""Counts processor instructions, which are the same on a busy machine as on an idle one.

    python -m benchmarks.instructions                     compare with the table; fail where a row is 2 % above it
    python -m benchmarks.instructions --update --reason "Check the size of each block"
    python -m benchmarks.instructions --calls             Python calls per tool call and turn

Each job runs under valgrind's cachegrind (Debian's package `valgrind`) with a small and with a large input, and the
difference is what one more delta, turn or call costs: see `benchmarks.counted`. Two counts of the same code in the
same place differ by less than 0.5 %; another path, home or seed of hashes lays objects elsewhere in memory, and a row
may move by some percent. So rows above the table are counted again with other seeds, and their lowest figure counts:
code that costs more does so in every layout. The bodies are those of the tests (`tests/wire_cases`), so that a new
wire has its rows at once.

The table, ``benchmarks/instructions.json``, holds for the versions that it names; with others nothing is compared. A
row whose figure moves by more than 2 % keeps its old figure until somebody says why (`--update --reason`), and the
table is committed together with the code that moved it. Smaller moves leave a row as it is, so that they cannot add
up unseen.
"""

from __future__ import annotations

import argparse
import compileall
import json
import marshal
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TABLE = Path(__file__).with_suffix(".json")
COUNTED = Path(__file__).with_name("counted.py")

TOLERANCE = 0.02
"""How far above its row a figure may be."""
SEEDS = ("0", "1", "2")
"""The seeds of hashes: the first for every row, the others for rows that stand above the table."""
DELTAS = (100, 400)
TURNS = (4, 36)
CALLS = (4, 8)
"""How many calls the turns have whose difference is the cost of one more call."""
OF_SPANS = {"spans": "one span", "batched": "one span, batched", "unsampled": "one span, sampled out"}
"""The rows of one more call's spans, by their modes."""
OF_TRIALS = ("a trial that is kept", "a trial that is dropped")
OF_TURNS = ("a turn without calls", "the first call of a turn", "one more call", *OF_SPANS.values(), *OF_TRIALS)
RUNS = {
    "the 100th step": ("run", 96, 104, 8),
    "a resume of 100 steps": ("resume", 4, 104, 1),
    "a run of 3 steps and 6 calls": ("run", 6, 30, 8),
}
"""The rows of runs: their mode, the steps of the small and of the large input, and how much more the latter is."""
CHAT = "openai.chat_completions"

_VERSIONS = ("orjson", "pydantic-core", "pydantic", "anyio", "opentelemetry-sdk")

Bodies = list[list[bytes]]
Job = tuple[str, str, str, str, Bodies, Bodies]
Figures = dict[str, dict[str, int]]
"""By row, and by mode."""


# -- jobs ------------------------------------------------------------------------------------------------------------


def _words(count: int) -> list[str]:
    dice = random.Random(1)
    return ["".join(dice.choices("etaoinshrdlu ,.", k=5)) for _ in range(count)]


def _arguments(pieces: int) -> str:
    """The arguments of `store`, as long as so many pieces of five characters."""
    head, tail = '{"rows":["', '"],"note":"abc"}'
    dice = random.Random(1)
    return head + "".join(dice.choices("abcdefgh jklmnop", k=pieces * 5 - len(head) - len(tail))) + tail


def _cases() -> tuple[Mapping[str, Any], Any, Any]:
    sys.path.insert(0, str(ROOT / "tests"))
    from every_wire import framed, said
    from wire_cases import CASES

    return CASES, framed, said


def delta_jobs() -> dict[str, list[Job]]:
    """Composes, for each wire, what counts one more delta of text, reasoning and arguments."""
    cases, framed, said = _cases()
    found: dict[str, list[Job]] = {}
    for wire, its in cases.items():
        kinds: dict[str, list[Bodies]] = {
            "text": [[framed(wire, said(wire, text=_words(count)))] for count in DELTAS],
        }
        if its.reasons:
            kinds["reasoning"] = [[framed(wire, said(wire, reasoning=_words(count)))] for count in DELTAS]
        if its.in_deltas:
            kinds["arguments"] = [
                [framed(wire, said(wire, calls=[("call_1", "store", _arguments(count))], pieces=count))]
                for count in DELTAS
            ]
        found[wire] = [
            (f"{wire} {kind}", mode, wire, its.framings[0], small, large)
            for kind, (small, large) in kinds.items()
            for mode in ("limit", "parse", "pipeline")
        ]
    return found


def turn(calls: int, finish: bytes = b"tool_calls") -> list[bytes]:
    """Composes a turn of the chat wire: one delta of text, then calls, each a name and three pieces of arguments."""
    _, framed, said = _cases()
    made = [(f"call_{at}", "add", '{"a": 1, "b": 2}') for at in range(calls)]
    body = framed(CHAT, said(CHAT, text=["Hello"], calls=made, pieces=3))
    return [chunk.replace(b'"tool_calls"}', b'"%s"}' % finish) for chunk in body]


def turn_jobs() -> list[Job]:
    """Composes what counts whole turns."""
    wanted = [("untried", calls, b"tool_calls") for calls in (0, 1, *CALLS)]
    wanted += [(mode, calls, b"tool_calls") for mode in ("pipeline", *OF_SPANS) for calls in CALLS]
    wanted += [(mode, calls, b"length") for mode in ("untried", "pipeline") for calls in CALLS]
    return [
        (f"turn of {calls} {finish!r}", mode, CHAT, "sse", *([turn(calls, finish)] * count for count in TURNS))
        for mode, calls, finish in wanted
    ]


def turn_figures(cost: Mapping[tuple[str, str], float]) -> Figures:
    """Derives the rows of turns and calls from the cost of whole turns."""
    one_more = {
        (mode, name[10:]): (figure - cost[f"turn of {CALLS[0]} {name[10:]}", mode]) / (CALLS[1] - CALLS[0])
        for (name, mode), figure in cost.items()
        if name.startswith(f"turn of {CALLS[1]} ")
    }
    well, cut = "b'tool_calls'", "b'length'"
    call, tried = one_more["untried", well], one_more["pipeline", well]
    none = cost[f"turn of 0 {well}", "untried"]
    spans = (one_more[mode, well] - tried for mode in OF_SPANS)
    trials = (tried - call, one_more["pipeline", cut] - one_more["untried", cut])
    found = (none, cost[f"turn of 1 {well}", "untried"] - none, call, *spans, *trials)
    return {row: {"pipeline": round(figure)} for row, figure in zip(OF_TURNS, found, strict=True)}


def run_jobs() -> list[Job]:
    """Composes what counts steps and runs: one long run, whose steps have a call each, or short ones in a row."""
    _, framed, said = _cases()

    def step(at: int, calls: int) -> list[bytes]:
        made = [(f"call_{at}_{number}", "add", f'{{"a": {at}, "b": {number}}}') for number in range(calls)]
        body: list[bytes] = framed(CHAT, said(CHAT, text=["Hello"], calls=made, pieces=3))
        return body

    def steps(row: str, count: int) -> Bodies:
        if "3 steps" in row:
            return [step(0, 3), step(1, 3), step(2, 0)] * (count // 3)
        return [*(step(at, 1) for at in range(1, count)), step(count, 0)]

    return [
        (row, mode, CHAT, "sse", steps(row, small), steps(row, large)) for row, (mode, small, large, _) in RUNS.items()
    ]


# -- counting --------------------------------------------------------------------------------------------------------


def _environment(root: Path | None, seed: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    return {**kept, "PYTHONHASHSEED": seed, **({"PYTHONPATH": str(root)} if root else {})}


def _valgrind(arguments: Sequence[str], root: Path | None, seed: str) -> tuple[str, dict[int, int]]:
    """Runs Python under valgrind: its output, and the instructions of each of its processes by their ids."""
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", sys.executable]
    done = subprocess.run(
        [*command, "-P", *arguments],
        capture_output=True,
        text=True,
        env=_environment(root, seed),
        cwd=ROOT,
        check=False,
    )
    found = re.findall(r"^==(\d+)== I\s+refs:\s+([\d,]+)", done.stderr, re.MULTILINE)
    if done.returncode or not found:
        raise SystemExit(f"valgrind {' '.join(arguments)}:\n{done.stderr[-2000:]}")
    return done.stdout, {int(pid): int(count.replace(",", "")) for pid, count in found}


def _costs(jobs: Sequence[Job], root: Path | None, seed: str) -> dict[tuple[str, str], float]:
    """Counts the instructions of each job, by its name and mode, per delta or turn."""
    with tempfile.NamedTemporaryFile(suffix=".jobs") as file:
        marshal.dump(list(jobs), file)
        file.flush()
        output, counts = _valgrind([str(COUNTED), file.name], root, seed)
    of_fork = {tuple(line.split("\t")[:3]): counts[int(line.split("\t")[3])] for line in output.splitlines()}
    costs = {}
    for name, mode, *_ in jobs:
        small, large = (
            of_fork[name, mode, size] - of_fork[name, mode, f"before {size}"] for size in ("small", "large")
        )
        low, high = TURNS if name.startswith("turn of") else DELTAS
        costs[name, mode] = (large - small) / (RUNS[name][-1] if name in RUNS else high - low)
    return costs


def _deltas(jobs: Sequence[Job], root: Path | None, seed: str) -> Figures:
    figures: Figures = {}
    for (name, mode), cost in _costs(jobs, root, seed).items():
        figures.setdefault(name, {})[mode] = round(cost)
    return figures


def _import(root: Path | None, seed: str) -> Figures:
    """Counts an import in a fresh process."""
    statement = "from streamtools import pipeline, tool"
    with_it, without = (sum(_valgrind(["-c", code], root, seed)[1].values()) for code in (statement, ""))
    return {"import": {"import": with_it - without}}


def measure(only: str | None = None, *, jobs: int = 2, root: Path | None = None, seed: str = SEEDS[0]) -> Figures:
    """Counts every row whose name contains `only`, in that many processes at a time, with that seed of hashes."""
    # What a fork imports first is compiled there, and counted, where no earlier process has compiled it.
    compileall.compile_dir((root or ROOT) / "streamtools", quiet=1)
    # A wire's jobs stay together, since the interpreter's warm-up by one is part of what another costs.
    groups = {wire: its for wire, its in delta_jobs().items() if only is None or any(only in job[0] for job in its)}
    tasks: dict[Any, str] = {}
    found: dict[str, Figures] = {}
    with ThreadPoolExecutor(jobs) as pool:
        if only is None or only in "import":
            tasks[pool.submit(_import, root, seed)] = "import"
        if only is None or any(only in row for row in OF_TURNS):
            tasks[pool.submit(lambda: turn_figures(_costs(turn_jobs(), root, seed)))] = "turns and calls"
        tasks |= {pool.submit(_deltas, its, root, seed): wire for wire, its in groups.items()}
        if only is None or any(only in row for row in RUNS):
            tasks[pool.submit(_deltas, run_jobs(), root, seed)] = "runs"
        for number, task in enumerate(as_completed(tasks), 1):
            found[tasks[task]] = task.result()
            print(f"  {number}/{len(tasks)} {tasks[task]}", file=sys.stderr, flush=True)
    ordered = [*groups, "turns and calls", "runs", "import"]
    rows = {row: by_mode for group in ordered for row, by_mode in found.get(group, {}).items()}
    return {row: by_mode for row, by_mode in rows.items() if only is None or only in row}


# -- the table -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one figure of the table."""

    row: str
    mode: str
    was: int | None
    now: int | None

    @property
    def change(self) -> float:
        """The change as a fraction; 0 where there is nothing to compare."""
        return self.now / self.was - 1 if self.now is not None and self.was else 0.0

    @property
    def word(self) -> str:
        """``ABOVE`` fails; ``better``, ``new`` and ``gone`` are for the next update; else empty."""
        if self.was is None or self.now is None:
            return "new" if self.was is None else "gone"
        if round(abs(self.change), 6) <= TOLERANCE:
            return ""
        return "ABOVE" if self.change > 0 else "better"


def conditions() -> dict[str, str]:
    """Returns what the counts depend on beside the code; without valgrind its version is empty."""
    valgrind = ""
    if shutil.which("valgrind"):
        done = subprocess.run(["valgrind", "--version"], capture_output=True, text=True, check=False)
        valgrind = done.stdout.strip().removeprefix("valgrind-")
    cpuinfo = Path("/proc/cpuinfo")
    # The C library picks its routines for memory by what the processor can do, under valgrind too.
    wide = cpuinfo.exists() and re.search(r"^flags\s*:.*\bavx2\b", cpuinfo.read_text(), re.MULTILINE)
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "compiler": platform.python_compiler(),
        "machine": platform.machine() + (" with AVX2" if wide else ""),
        "valgrind": valgrind,
        **{name: version(name) for name in _VERSIONS},
    }


def compare(rows: Mapping[str, Mapping[str, Any]], figures: Figures) -> list[Verdict]:
    """Compares figures with the table's rows, mode by mode; `limit` is not ours and is left out."""
    pairs = [(row, figures.get(row, {}), rows.get(row, {})) for row in dict.fromkeys([*figures, *rows])]
    return [
        Verdict(row, mode, was.get(mode), now.get(mode))
        for row, now, was in pairs
        for mode in dict.fromkeys([*now, *was])
        if mode not in ("limit", "reason")
    ]


def lowest(rows: Mapping[str, Mapping[str, Any]], figures: Figures, again: Callable[[str], Figures]) -> Figures:
    """Returns the figures, with those above the table replaced by the lowest of further counts.

    Args:
        rows: The rows of the table.
        figures: What the first seed gave.
        again: Counts the rows again with a seed; not called where no row stands above the table.
    """
    for seed in SEEDS[1:]:
        above = [verdict for verdict in compare(rows, figures) if verdict.word == "ABOVE"]
        if not above:
            break
        names = ", ".join(f"{verdict.row} {verdict.mode} {verdict.change:+.1%}" for verdict in above)
        print(f"Above the table, so counted again with seed {seed}: {names}", file=sys.stderr)
        more = again(seed)
        figures = {
            row: {mode: min(figure, more[row][mode]) for mode, figure in by_mode.items()}
            for row, by_mode in figures.items()
        }
    return figures


def updated(
    rows: Mapping[str, Mapping[str, Any]], figures: Figures, reason: str, *, every: bool = False
) -> dict[str, dict[str, Any]]:
    """Returns the table's rows with those replaced that moved by more than the tolerance.

    Args:
        rows: The rows of the table.
        figures: The figures that were counted; rows without any are gone.
        reason: Why rows moved; stands in each row that is replaced.
        every: Replace all rows, as where versions have changed.
    """
    moved = {verdict.row for verdict in compare(rows, figures) if verdict.word}
    return {
        row: {**by_mode, "reason": reason} if every or row in moved else dict(rows[row])
        for row, by_mode in figures.items()
    }


def _written(table: Mapping[str, Any]) -> str:
    """The table as JSON, a row a line."""
    rows = ",\n".join(f"  {json.dumps(row)}: {json.dumps(entry)}" for row, entry in table["rows"].items())
    return f'{{\n "conditions": {json.dumps(table["conditions"], indent=2)},\n "rows": {{\n{rows}\n }}\n}}\n'


def _show(rows: Mapping[str, Mapping[str, Any]], figures: Figures) -> list[Verdict]:
    """Prints a line for each figure, and what has to be said about it."""
    verdicts = compare(rows, figures)
    width = max(len(verdict.row) for verdict in verdicts)
    print(f"{'instructions':{width}}  {'':8} {'table':>13} {'now':>13} {'change':>8} {'x limit':>8}")
    for verdict in verdicts:
        of_limit = figures.get(verdict.row, {}).get("limit")
        was, now = (f"{figure:,}" if figure is not None else "-" for figure in (verdict.was, verdict.now))
        ratio = f"{verdict.now / of_limit:8.2f}" if of_limit and verdict.now is not None else " " * 8
        print(
            f"{verdict.row:{width}}  {verdict.mode:8} {was:>13} {now:>13} {verdict.change:+8.1%} {ratio} {verdict.word}"
        )
    return verdicts


def _judge(verdicts: Iterable[Verdict]) -> int:
    words = [verdict.word for verdict in verdicts]
    if "better" in words:
        print(f"{words.count('better')} figures are better than the table: tighten it with --update --reason.")
    if "new" in words or "gone" in words:
        print("Rows are new or gone: put that into the table with --update --reason.")
    if "ABOVE" in words:
        print(f"{words.count('ABOVE')} figures are more than {TOLERANCE:.0%} above the table.")
        print("Make them cheaper, or say why they cost more: --update --reason, committed with the code.")
    return int(any(word in ("ABOVE", "new", "gone") for word in words))


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts, compares or updates, as the command line says."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.instructions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--update", action="store_true", help="write what has moved into the table")
    parser.add_argument("--reason", metavar="TEXT", help="why rows moved; stands in the table with each of them")
    parser.add_argument("--only", metavar="TEXT", help="only rows that contain this: anthropic, 'reasoning', import")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time (default: 2)")
    parser.add_argument("--root", type=Path, metavar="CHECKOUT", help="count the package of another checkout")
    parser.add_argument("--calls", action="store_true", help="count Python calls instead, per tool call and turn")
    options = parser.parse_args(arguments)
    if options.update and not options.reason:
        parser.error("--update needs --reason: a row that moves says why")
    if options.update and (options.only or options.root):
        parser.error("--update counts every row of this checkout: leave out --only and --root")
    if options.calls:
        from .footprint import show_calls

        show_calls()
        return 0
    return _run(options)


def _run(options: argparse.Namespace) -> int:
    now = conditions()
    if not now["valgrind"]:
        print("valgrind is not installed (Debian: apt install valgrind): no instructions were counted.")
        return 0
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else {"conditions": {}, "rows": {}}
    differing = [
        f"{name} {table['conditions'].get(name, 'unknown')} there, {found} here"
        for name, found in now.items()
        if table["conditions"].get(name) != found
    ]
    if differing and not (options.update or options.only):
        print(f"The table of instructions holds for other conditions: {'; '.join(differing)}.")
        print("No instructions were compared; --update --reason makes the table anew.")
        return 0
    print("Counting instructions under valgrind: about a minute on two idle cores.", file=sys.stderr)
    figures = measure(options.only, jobs=options.jobs, root=options.root)
    rows = table["rows"] if not options.only else {row: table["rows"][row] for row in figures if row in table["rows"]}
    if not differing:
        figures = lowest(
            rows, figures, lambda seed: measure(options.only, jobs=options.jobs, root=options.root, seed=seed)
        )
    verdicts = _show(rows, figures)
    if options.update:
        rows = updated(table["rows"], figures, options.reason, every=bool(differing))
        TABLE.write_text(_written({"conditions": now, "rows": rows}), encoding="utf-8")
        print(f"Wrote {TABLE.relative_to(ROOT)}.")
        return 0
    return 0 if differing else _judge(verdicts)


if __name__ == "__main__":
    sys.exit(main())
