"""The figures of one comparison: kept as JSON, shown as a table, told in a paragraph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from ..workloads import WIRES
from .peers import PEERS, Peer
from .work import RUN, WORKLOADS

STORED = Path(__file__).with_name("figures.json")
"""Those that the plot and the README show."""
RIGHT = "right"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One reader on one workload of one wire, in the process in which it was fastest."""

    peer: str
    wire: str
    workload: str
    answer: str
    """``right``, or what was wrong; empty where there is none to give."""
    events: int = 0
    microseconds: float | None = None
    """CPU time per event of the event stream; None: it raised."""
    limit_microseconds: float | None = None
    """The limit's, in the same process."""

    @property
    def ratio(self) -> float | None:
        """How many times the limit."""
        if self.microseconds is None or self.limit_microseconds is None:
            return None
        return self.microseconds / self.limit_microseconds

    @property
    def wrong(self) -> bool:
        return self.answer not in ("", RIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One comparison."""

    date: str
    python: str
    rounds: int
    versions: dict[str, dict[str, str]]
    """Of what each peer needs, by its key."""
    rows: tuple[Row, ...]

    def peers(self, wire: str) -> Iterator[tuple[Peer, dict[str, Row]]]:
        """The peers that were measured on that wire, each with its row for each workload."""
        for peer in PEERS:
            rows = {row.workload: row for row in self.rows if (row.peer, row.wire) == (peer.key, wire)}
            if rows:
                yield peer, rows


def load(path: Path) -> Figures:
    """Read what `save` wrote."""
    stored = orjson.loads(path.read_bytes())
    return Figures(**{**stored, "rows": tuple(Row(**row) for row in stored["rows"])})


def save(figures: Figures, path: Path) -> None:
    """Write the figures as JSON."""
    path.write_bytes(orjson.dumps(asdict(figures), option=orjson.OPT_INDENT_2) + b"\n")


def fastest(rounds: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Of what the rounds measured, the fastest; but an answer that was wrong once is wrong."""
    measured = list(rounds)
    best = min(measured, key=lambda one: one.get("microseconds", float("inf")))
    wrong = [one["answer"] for one in measured if one["answer"] not in ("", RIGHT)]
    return {**best, "answer": wrong[0]} if wrong else best


# -- a table for a terminal ----------------------------------------------------------------------------------------


def table(figures: Figures) -> list[str]:
    """The lines of a table, with the versions below it."""
    heads = [f"{name}, {what}" for name in WORKLOADS for what in ("µs", "x limit")] + [f"{RUN}, µs", "x by hand"]
    rows: list[list[str]] = [["CPU time per event", *heads, "answer"]]
    for wire in WIRES:
        rows.append([wire])
        for peer, measured in figures.peers(wire):
            cells = [cell for name in (*WORKLOADS, RUN) for cell in _cells(measured.get(name))]
            rows.append([f"  {peer.name}", *cells, _answer(measured.values())])
    widths = [max(len(row[at]) for row in rows if len(row) > at) for at in range(1 + len(heads))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    taken = f"Python {figures.python}, {figures.date}, the best of {figures.rounds}"
    return [*lines, "", taken, ", ".join(versions(figures))]


def versions(figures: Figures) -> Iterator[str]:
    """What was measured, in words; where two versions of one distribution were, who has which."""
    who: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for key, needed in figures.versions.items():
        for name, version in needed.items():
            who[name][version].append(key)
    for name, found in sorted(who.items()):
        for version, keys in sorted(found.items()):
            few = len(found) > 1 and len(keys) == 1
            yield f"{name} {version}" + (f" ({keys[0]})" if few else "")


def _cells(row: Row | None) -> tuple[str, str]:
    if row is None or row.microseconds is None or row.ratio is None:
        return "-", "-"
    return f"{row.microseconds:.2f}", f"{row.ratio:.1f}"


def _answer(rows: Iterable[Row]) -> str:
    told = [f"{row.workload}: {row.answer}" if row.wrong else row.answer for row in rows]
    return ", ".join(filter(None, dict.fromkeys(told)))


def _padded(row: list[str], widths: list[int]) -> Iterator[str]:
    yield row[0].ljust(widths[0])
    yield from (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=False))
    yield from row[len(widths) :]


# -- a paragraph for the README ------------------------------------------------------------------------------------


def paragraph(figures: Figures) -> str:
    """What the README says below the plot. Every peer must have been measured, on both wires and both workloads."""
    found = {(row.peer, row.wire, row.workload): row for row in figures.rows}

    def both(chat: str, anthropic: str, workload: str = "text") -> str:
        first, second = (
            found[key, wire, workload].microseconds for key, wire in zip((chat, anthropic), WIRES, strict=True)
        )
        return f"{short(first)} and {short(second)} µs"

    ours = ("ours_pipeline_sdk", "ours_pipeline_sdk")
    frameworks, runs = (
        [row.microseconds for row in figures.rows if row.peer in _FRAMEWORKS and (row.workload == RUN) is whole]
        for whole in (False, True)
    )
    by_hand, plain, sdk, openai = (
        short(found[key, WIRES[0], RUN].microseconds, 1000)
        for key in ("limit", "ours_pipeline", "ours_pipeline_sdk", "openai_raw")
    )
    wrong = sorted({row.peer for row in figures.rows if row.wrong})
    return (
        "CPU time per event from the same bytes in memory to the final text and the calls' arguments, on Chat "
        f"Completions and Anthropic Messages: `pipeline` around the SDK's stream takes {both(*ours)} for text, and "
        f"{both(*ours, 'calls')} for calls, which it validates and runs. Iterating over the SDK's own objects takes "
        f"{both('openai_raw', 'anthropic_raw')}, its `.stream()` helper {both('openai_stream', 'anthropic_stream')}, a "
        f"framework {_span(frameworks)} µs. A whole run of 3 steps and 6 calls on Chat Completions, all at hand, takes "
        f"`agent_loop` {plain} ms, and {sdk} ms on the SDK's stream; a loop by hand {by_hand} ms, one on the SDK's "
        f"chunks {openai} ms, a framework {_span(runs, 1000)} ms. "
        + (f"Wrong answers: {', '.join(wrong)}. " if wrong else "All of them read every stream correctly. ")
        + "`make compare` measures it on your machine; `benchmarks/compare/` explains how."
    )


_FRAMEWORKS = {"pydantic_ai", "openai_agents", "langchain_events", "langchain_sum", "litellm"}


def _span(values: Iterable[float | None], unit: int = 1) -> str:
    known = [value for value in values if value is not None]
    return f"{short(min(known), unit)} to {short(max(known), unit)}"


def short(value: float | None, unit: int = 1) -> str:
    """Two digits, or as many as stand before the point; of a larger unit if wanted."""
    assert value is not None, "it was measured"
    return f"{value / unit:.0f}" if value / unit >= 10 else f"{value / unit:.1f}"
