"""Draws the figures: ``python -m benchmarks.compare.plot [FIGURES] [SVG] [--page docs/figures.md]``.

The same figures give the same bytes. ``--page`` also writes the plot and its paragraph between the two markers of
that file. The colours follow the reader's theme; the plot brings its own background, so that it can be read where the
page's theme is another than the system's.
"""

from __future__ import annotations

import argparse
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from ..targets import between
from ..workloads import WIRES
from .figures import STORED, Figures, Row, load, paragraph, short, versions
from .peers import Peer
from .work import WORKLOADS

BEGIN, END = "<!-- compare: begin -->", "<!-- compare: end -->"
PLOT = Path("docs/compare.svg")
TITLES = {"openai.chat_completions": "OpenAI Chat Completions", "anthropic.messages": "Anthropic Messages"}
LEGEND = {"text": "2,000 deltas of text", "calls": "three tool calls, 10 kB of arguments in pieces"}

WIDTH = 860
LEFT, RIGHT = 280, 740  # where the bars begin, and where the last tick is
LEAST, MOST = 0.5, 1000.0  # µs at these two
TICKS = (1, 10, 100, 1000)
BAR, GAP, ROW = 10, 2, 34
HEAD, SECTION = 70, 44  # heights: above the first section, and of a section's title
FOOT_LINE = 16
STYLE = """
  text { font: 12px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; fill: #1f2328 }
  .title { font-size: 17px; font-weight: 600 }
  .wire { font-size: 13px; font-weight: 600 }
  .small { font-size: 11px; fill: #59636e }
  .value { font-size: 10.5px; fill: #59636e }
  .name { text-anchor: end }
  .tick { text-anchor: middle }
  .mine { font-weight: 600 }
  .wrong { fill: #d1242f; font-weight: 600 }
  .card { fill: #ffffff; stroke: #d1d9e0 }
  .grid { stroke: #e6eaef; stroke-width: 1 }
  .text { fill: #818b98 } .calls { fill: #c8d1da }
  .mine.text { fill: #0969da } .mine.calls { fill: #80ccff }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .small, .value { fill: #9198a1 }
    .wrong { fill: #f85149 }
    .card { fill: #0d1117; stroke: #3d444d }
    .grid { stroke: #262c36 }
    .text { fill: #9198a1 } .calls { fill: #4a525c }
    .mine.text { fill: #4493f8 } .mine.calls { fill: #1f4f8f }
  }
"""


def svg(figures: Figures) -> str:
    """The plot."""
    sections = [(wire, _sorted(figures, wire)) for wire in WIRES]
    foot = _foot(figures)
    bottom = HEAD + sum(SECTION + ROW * len(rows) for _, rows in sections if rows)
    height = bottom + 34 + FOOT_LINE * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img">',
        "<title>CPU time per event of streamtools, the SDKs and other libraries</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
        *_head(),
    ]
    top = HEAD
    for wire, rows in sections:
        if rows:
            parts += _section(wire, rows, top)
            top += SECTION + ROW * len(rows)
    parts += (
        f'<text class="small" x="24" y="{bottom + 30 + FOOT_LINE * number}">{escape(line)}</text>'
        for number, line in enumerate(foot)
    )
    return "\n".join([*parts, "</svg>", ""])


def _sorted(figures: Figures, wire: str) -> list[tuple[Peer, dict[str, Row]]]:
    """The fastest with text first."""
    return sorted(figures.peers(wire), key=lambda found: found[1]["text"].microseconds or math.inf)


def _head() -> Iterator[str]:
    yield '<text class="title" x="24" y="32">CPU time per event of a response, decoded to its end</text>'
    x = 24
    for workload in WORKLOADS:
        for extra in ("mine ", ""):
            yield f'<rect class="{extra}{workload}" x="{x}" y="47" width="{BAR}" height="{BAR}" rx="2"/>'
            x += BAR + 3
        yield f'<text class="small" x="{x + 4}" y="56">{LEGEND[workload]}</text>'
        x += 150
    yield f'<text class="small" x="{WIDTH - 24}" y="56" text-anchor="end">µs, logarithmic · times the limit</text>'


def _section(wire: str, rows: Sequence[tuple[Peer, Mapping[str, Row]]], top: int) -> Iterator[str]:
    yield f'<text class="wire" x="24" y="{top + 24}">{TITLES[wire]}</text>'
    for tick in TICKS:
        x, end = _x(tick), top + SECTION + ROW * len(rows) - 8
        yield f'<text class="small tick" x="{x:.1f}" y="{top + 24}">{tick:,} µs</text>'
        yield f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top + 32}" y2="{end}"/>'
    for number, (peer, measured) in enumerate(rows):
        y = top + SECTION + ROW * number
        mine = " mine" if peer.ours else ""
        yield f'<text class="name{mine}" x="{LEFT - 10}" y="{y + BAR + 5}">{escape(peer.name)}</text>'
        for at, workload in enumerate(WORKLOADS):
            if row := measured.get(workload):
                yield from _bar(row, y + (BAR + GAP) * at, mine)


def _bar(row: Row, y: int, mine: str) -> Iterator[str]:
    end = float(LEFT)
    told = []
    if row.microseconds is not None and row.ratio is not None:
        end = _x(row.microseconds)
        kind = f"{row.workload}{mine}"
        yield f'<rect class="{kind}" x="{LEFT}" y="{y}" width="{end - LEFT:.1f}" height="{BAR}" rx="2"/>'
        told.append(f"{short(row.microseconds)} µs · {short(row.ratio)}×")
    wrong = f'<tspan class="wrong"> {escape(row.answer)}</tspan>' if row.wrong else ""
    yield f'<text class="value" x="{end + 6:.1f}" y="{y + BAR - 1}">{"".join(told)}{wrong}</text>'


def _foot(figures: Figures) -> list[str]:
    about = (
        "CPU time, the same bytes from memory, one event per chunk; the limit is a split and orjson.loads of each "
        f"payload, in the same process. Fastest of {figures.rounds} processes. Python {figures.python}, "
        f"{figures.date}: {', '.join(versions(figures))}."
    )
    return textwrap.wrap(about, 145, break_on_hyphens=False)


def _x(microseconds: float) -> float:
    share = math.log(max(microseconds, LEAST) / LEAST) / math.log(MOST / LEAST)
    return LEFT + share * (RIGHT - LEFT)


def with_block(page: str, figures: Figures) -> str:
    """The page with what is between its markers made anew."""
    picture = "![CPU time per event of streamtools, the SDKs and other libraries](compare.svg)"
    told = textwrap.fill(paragraph(figures), 120, break_on_hyphens=False, break_long_words=False)
    return between(page, BEGIN, END, f"{picture}\n\n{told}")


def main() -> None:
    """Draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare.plot", description="Draw the comparison.")
    parser.add_argument("figures", type=Path, nargs="?", default=STORED)
    parser.add_argument("svg", type=Path, nargs="?", default=PLOT)
    parser.add_argument("--page", type=Path, metavar="FILE", help="write plot and paragraph between FILE's markers")
    options = parser.parse_args()
    figures = load(options.figures)
    options.svg.write_text(svg(figures), encoding="utf-8")
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_block(page, figures), encoding="utf-8")


if __name__ == "__main__":
    main()
