"""The targets of all figures, in one table, and the page that is made by it: ``python -m benchmarks.targets`` writes
docs/figures.md anew from benchmarks/figures.json, which ``make bench ARGS="--json benchmarks/figures.json"`` writes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import orjson

from .measure import Figure

STORED = Path(__file__).with_name("figures.json")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "figures.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"


@dataclass(frozen=True, slots=True)
class Target:
    """A row of the page: the figures that it is about, and what each of them should be."""

    what: str
    of: str
    """A pattern of their names, which begin with their group; the first row that matches has them."""
    most: float | None = None
    least: float | None = None

    def verdict(self, figure: Figure) -> str:
        """Returns ``pass`` or ``MISS``; nothing where there is no target."""
        if self.most is None and self.least is None:
            return ""
        is_met = figure.value <= self.most if self.most is not None else figure.value >= (self.least or 0.0)
        return "pass" if is_met else "MISS"

    def __str__(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else "" if self.most is None else f"{self.most:g}"


TARGETS = (
    # -- runs
    Target("A run of 3 steps and 6 calls at 60 tokens/s: its CPU; 1, 100 and 300 at once", "runs: * CPU of a run", 2.6),
    Target("300 such runs in one process: 99 of 100 chunks are late by", "runs: 300 at once: late*", 30),
    Target("1 and 100 such runs: 99 of 100 chunks are late by", "runs: * at once: late*"),
    Target("Memory of such a run, waiting in its second answer", "runs: a run that waits", 60),
    Target("A run of 1,000 steps", "runs: a run of 1,000 steps", 4),
    Target("A run of 10 and of 100 steps", "runs: a run of 10* steps"),
    Target("The 300th step", "runs: the 300th step", 1.3),
    Target("A run of 100 steps that was answered is resumed", "runs: a run of 100 steps, answered*", 0.25),
    Target("Calls of 3, 2 and 1 s on Chat Completions start behind their braces by at most", "runs: calls*brace*", 2),
    Target("The run with these calls is shorter than a loop with `gather` by", "runs: calls*gather", least=2),
    Target("The run with these calls is longer than on Responses by", "runs: calls*Responses", 3),
    Target("A turn without calls, its first call, one more call, all at hand", "runs: openai.chat*call*"),
    Target("The import", "runs: import*", 1.4),
    Target("CPU of 300 concurrent streams", "runs: *concurrent streams", 1.3),
    Target("Memory of a waiting stream: Chat Completions, Anthropic", "runs: *: a stream that waits", 30),
    # -- deltas
    Target("2,000 text deltas of Chat Completions", "text: openai.chat*: pipeline(), [ar]*", 2.5),
    Target("2,000 text deltas of Bedrock: `pipeline`, `parse`", "text: bedrock*: p*(), [ar]*"),
    Target("2,000 text deltas of Ollama", "text: ollama*: pipeline(), [ar]*", 3.5),
    Target("2,000 text deltas of the other wires", "text: *: pipeline(), [ar]*", 3.5),
    Target("2,000 text deltas without an event loop (`parse`)", "text: *: parse()*", 2.5),
    Target("2,000 text deltas, the source waits before each chunk", "text: *: pipeline(), the source*"),
    Target("A live `preview` of growing arguments, read at every delta: 10 kB to 1 MB", "arguments: *: previews*", 1.5),
    Target("A live `preview` of growing arguments: the exponent of its time by size", "arguments: *: growth*", 1.1),
    # -- calls
    Target("8 calls of 100 ms, from first start to last end", "dispatch: *: 8 calls*", 115),
    Target("A sync tool starts beside a source that never waits", "dispatch: *start, sync, [a6]*"),
    Target("A `pure` tool starts after its call's end marker", "dispatch: *start*", 1),
    Target("CPU from the chunk that lets a call start to its tool, with spans", "overhead: *, with spans*", 140),
    Target("CPU from the chunk that lets a call start to its tool, one call", "overhead: *: 1 *", 90),
    Target("CPU from the chunk that lets a call start to its tool, each of eight", "overhead: *: 8 *", 55),
    Target("5 arguments validated, beyond the bare function: from JSON text, from a dict", "tools: 5 arguments*", 2),
    Target("5 arguments validated where one is coerced; by a foreign schema", "tools: the same*"),
    # -- spans, taps, pages, records
    Target("Spans for a step of 2,000 deltas", "telemetry: *: spans add", 3),
    Target("Spans with content for a step of 2,000 deltas", "telemetry: *: spans with content add", 8),
    Target("Observers by default, and no provider, for a step of 2,000 deltas", "telemetry: *no provider*"),
    Target("Spans of a call", "telemetry: *: spans of a call", 60),
    Target("A chunk's way through a tap", "tap: *way*", 50),
    Target("A tap's CPU beyond that of a pipeline whose events are read", "tap: *: CPU*", 0.5),
    Target("A tool as long as the rest of its response, under a tap: what is not won", "tap: *: time not won", 10),
    Target("A posted body of 2,000 messages holds the event loop for", "chats: useChat*", 5),
    Target("A run that a page reads: its CPU, beside running and encoding alone", "chats: *one reader*", 1.5),
    Target("Memory of one of 1,000 readers", "chats: memory*", 40),
    Target("Of 1,000 readers, those with another text", "chats: of *", 0),
    Target("1,000 readers stand still: the run's CPU", "chats: a run with*", 1.1),
    Target("The first byte of a late joiner, 99 of 100", "chats: first byte*", 50),
    Target("An event in the log, in either thread", "chats: RunLog*", 6),
    Target("A conversation of 1,000 turns: CPU of a GET", "chats: *of a GET", 30),
    Target("A conversation of 1,000 turns: CPU of a POST, beside one into an empty one", "chats: *of a POST", 1.5),
    Target("`recover()` of 50,000 conversations, 10 of them open", "chats: recover*", 300),
    Target("A claim with its completion, on a disk", "records: *: a claim*, on a disk", 2.5),
    Target("A claim with its completion, where nothing waits for a disk", "records: *: a claim*", 0.8),
    Target("A step of a run, which is one commit, on a disk", "records: *: a step, on a disk", 1.5),
    Target("A step of a run, where nothing waits for a disk", "records: *: a step", 2),
    Target("Another process knows of a change, 99 of 100", "records: *knows", 50),
)


def target_of(figure: Figure) -> Target:
    """Returns the row of a figure.

    Raises:
        LookupError: there is none.
    """
    for target in TARGETS:
        if fnmatchcase(figure.name, target.of):
            return target
    raise LookupError(f"no row of TARGETS has {figure.name!r}")


def show(figures: Iterable[Figure]) -> None:
    """Prints a table of the figures, those that miss their targets first."""
    rows = [("figure", "value", "target", "", "detail")]
    for figure in sorted(figures, key=lambda one: target_of(one).verdict(one) != "MISS"):
        target = target_of(figure)
        value = f"{figure.value:.2f} {figure.unit}"
        rows.append((figure.name, value, str(target), target.verdict(figure), figure.detail))
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for row in rows:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]).rstrip())


def load(path: Path = STORED) -> tuple[dict[str, Any], list[Figure]]:
    """Returns the machine's facts and the figures that were written."""
    stored = orjson.loads(path.read_bytes())
    return stored["environment"], [Figure(**figure) for figure in stored["figures"]]


def save(path: Path, facts: dict[str, Any], figures: Sequence[Figure]) -> None:
    """Writes figures down, with the machine's facts."""
    written = {"environment": facts, "figures": [asdict(figure) for figure in figures]}
    path.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n")


def page(written: str, facts: dict[str, Any], figures: Sequence[Figure]) -> str:
    """Returns the page with the figures in it, between its two marks."""
    return between(written, BEGIN, END, "\n".join(_block(facts, figures)))


def between(written: str, begin: str, end: str, made: str) -> str:
    """Returns the page with other lines between two marks of its own."""
    before, *rest = written.split(f"{begin}\n")
    _, *after = "".join(rest).split(end)
    assert len(rest) == len(after) == 1, f"the page has no {begin} and {end}"
    return f"{before}{begin}\n{made}\n{end}{after[0]}"


def _block(facts: dict[str, Any], figures: Sequence[Figure]) -> Iterator[str]:
    of: dict[Target, list[Figure]] = {}
    for figure in figures:
        of.setdefault(target_of(figure), []).append(figure)
    rows: dict[str, list[str]] = {"MISS": [], "pass": [], "": []}
    for target in TARGETS:
        if found := of.get(target):
            verdicts = {target.verdict(figure) for figure in found}
            missed = [figure for figure in found if target.verdict(figure) == "MISS"]
            told = f", {len(missed)} of {len(found)} missed" if missed and len(found) > 1 else ""
            row = f"| {target.what} | {_range(found)}{told} |"
            rows["MISS" if missed else min(verdicts)].append(f"{row} {target} |" if str(target) else row)
    busy = facts["load"][0] / facts["cores"] if facts["load"] else 0.0
    machine = f"{facts['cores']} cores of {facts['processor']}, {facts['python']}"
    yield f"{machine}; {busy:.1f} tasks wanted each core before it began, which shows in times,"
    yield "and least in ratios of one run."
    for head, verdict in (("Missed", "MISS"), ("Met", "pass"), ("Without a target", "")):
        if rows[verdict]:
            names = " | measured | target |" if verdict else " | measured |"
            yield from ("", f"### {head}", "", f"|{names}", f"|{'---|' * names.count('|')}", *rows[verdict])
    yield ""


def _range(figures: Sequence[Figure]) -> str:
    low, high = (pick(figure.value for figure in figures) for pick in (min, max))
    values = [_short(value) for value in dict.fromkeys((low, high))]
    unit = re.sub(r"^x\b", "×", figures[0].unit)
    return f"{' to '.join(dict.fromkeys(values))} {unit}".strip()


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 1 else f"{value:.2g}"


def main() -> None:
    """Writes the page anew."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), *load()), encoding="utf-8")
    print(f"wrote {PAGE.name}")


if __name__ == "__main__":
    main()
