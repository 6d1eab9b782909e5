"""What it costs to look for calls and reasoning in the text, per delta. Stated, no bar.

Twice for each dialect: prose in which there is nothing to find, and a response that is one call of 10,000 characters,
in deltas of five, as a model of that dialect writes it. Each is read by `parse` with the stage and without it, where it
is all text; the figure is the difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import orjson

from streamtools import Turn, parse, tool
from streamtools.stages import DEFAULT, DIALECTS, StageList, StageRecipe, split_think, text_calls

from .measure import Figure, best_of, show
from .workloads import CHAT, body, pieces, text

__all__ = ["SPELLED", "run", "write_file"]

DELTAS = 2000
CHARACTERS = 10_000
REPEATS = 9

Spell = Callable[[str, str], str]  # of the two arguments


@tool(effect="pure")
async def write_file(path: str, content: str) -> None:
    """Write a file."""


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


# -- how a model of each dialect writes a call ---------------------------------------------------------------------


def _json(path: str, content: str) -> str:
    return orjson.dumps({"path": path, "content": content}).decode()


def _named(path: str, content: str, key: str = "arguments") -> str:
    return f'{{"name": "write_file", "{key}": {_json(path, content)}}}'


def _qwen3_coder(path: str, content: str) -> str:
    given = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in _pairs(path, content))
    return f"<tool_call>\n<function=write_file>\n{given}</function>\n</tool_call>"


def _deepseek(path: str, content: str) -> str:
    call = f"<｜tool▁call▁begin｜>write_file<｜tool▁sep｜>{_json(path, content)}<｜tool▁call▁end｜>"
    return f"<｜tool▁calls▁begin｜>{call}<｜tool▁calls▁end｜>"


def _kimi(path: str, content: str) -> str:
    begin = "<|tool_call_begin|>functions.write_file:0<|tool_call_argument_begin|>"
    return f"<|tool_calls_section_begin|>{begin}{_json(path, content)}<|tool_call_end|><|tool_calls_section_end|>"


def _glm(path: str, content: str) -> str:
    given = "".join(
        f"<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n" for key, value in _pairs(path, content)
    )
    return f"<tool_call>write_file\n{given}</tool_call>"


def _minimax(path: str, content: str) -> str:
    given = "".join(f'<parameter name="{key}">{value}</parameter>\n' for key, value in _pairs(path, content))
    return f'<minimax:tool_call>\n<invoke name="write_file">\n{given}</invoke>\n</minimax:tool_call>'


def _pythonic(path: str, content: str) -> str:
    given = ", ".join(f"{key}={orjson.dumps(value).decode()}" for key, value in _pairs(path, content))
    return f"[write_file({given})]"


def _pairs(path: str, content: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("path", path), ("content", content)


SPELLED: dict[str, Spell] = {
    "hermes": lambda path, content: f"<tool_call>\n{_named(path, content)}\n</tool_call>",
    "qwen3_coder": _qwen3_coder,
    "llama3": lambda path, content: f"<|python_tag|>{_named(path, content, 'parameters')}",
    "mistral": lambda path, content: f"[TOOL_CALLS]write_file[ARGS]{_json(path, content)}",
    "deepseek": _deepseek,
    "kimi": _kimi,
    "glm": _glm,
    "minimax": _minimax,
    "pythonic": _pythonic,
    "json": lambda path, content: f"```json\n{_named(path, content)}\n```",
}


if __name__ == "__main__":
    show(run())
