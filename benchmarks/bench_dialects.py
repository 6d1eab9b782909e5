"""What it costs to look for calls and reasoning in the text, per delta. Stated, no bar.

Twice for each dialect: prose in which there is nothing to find, and a response that is one call of 10,000 characters,
in deltas of five, as a model of that dialect writes it. Each is read by `parse` with the stage and without it, where it
is all text; the figure is the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from streamtools import Turn, parse, tool
from streamtools.stages import DEFAULT, DIALECTS, StageList, StageRecipe, split_think, text_calls

from .measure import Figure, best_of, show
from .spelled import SPELLED as SPELL
from .workloads import CHAT, body, pieces, text

__all__ = ["SPELLED", "run", "write_file"]

DELTAS = 2000
CHARACTERS = 10_000
REPEATS = 9


@tool(effect="pure")
async def write_file(path: str, content: str) -> None:
    """Write a file."""


def _spelled(name: str) -> Callable[[str, str], str]:
    return lambda path, content: SPELL[name]("write_file", {"path": path, "content": content})


SPELLED = {name: _spelled(name) for name in DIALECTS}
"""A call of `write_file` in each dialect, by its two arguments."""


def run() -> list[Figure]:
    """Measure every dialect, then the reasoning between tags."""
    prose = "".join(text(CHARACTERS // 4))[:CHARACTERS].strip()
    figures = [
        figure
        for name in DIALECTS
        for figure in _stage(name, _with(text_calls(name)), pieces(SPELLED[name]("report.md", prose)), _found_call)
    ]
    thought = pieces(f"Well. <think>{prose}</think>Done.")
    return [*figures, *_stage("split_think", _with(split_think()), thought, _found_thought)]


def _with(recipe: StageRecipe) -> StageList:
    return DEFAULT.insert_before("accumulate", recipe)


def _stage(name: str, stages: StageList, spelled: Sequence[str], found: Callable[[Turn], bool]) -> list[Figure]:
    assert found(_read(body(CHAT, text=spelled), stages)), f"{name}: found"
    return [
        _added(f"{name}: adds to prose", body(CHAT, text=text(DELTAS)), stages, DELTAS),
        _added(f"{name}: adds to what it finds", body(CHAT, text=spelled), stages, len(spelled)),
    ]


def _added(name: str, chunks: Sequence[bytes], stages: StageList, deltas: int) -> Figure:
    best = best_of(
        {"with": partial(_read, chunks, stages), "without": partial(_read, chunks, DEFAULT)},
        repeats=REPEATS,
    )
    having, lacking = (seconds / deltas * 1e6 for seconds in best.values())
    detail = f"{having:.2f} µs per delta with the stage, {lacking:.2f} without"
    return Figure(name=name, value=having - lacking, unit="µs per delta", detail=detail)


def _read(chunks: Sequence[bytes], stages: StageList) -> Turn:
    return parse(chunks, tools=[write_file], stages=stages)


def _found_call(turn: Turn) -> bool:
    return [call.status for call in turn.calls] == ["ready"]


def _found_thought(turn: Turn) -> bool:
    return bool(turn.reasoning) and turn.text == "Well. Done."


if __name__ == "__main__":
    show(run())
