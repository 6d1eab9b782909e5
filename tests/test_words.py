"""Each vocabulary is one table: a word that is added there is spoken by everything, and no code uses another."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from test_architecture import MODULES, REPOSITORY, Module, called
from tolerated import TOLERATED

import streamtools
from streamtools.parts import OUTCOMES, RUN_OUTCOMES, STEP_OUTCOMES, WAITS, RunOutcome, StepOutcome, WaitReason
from streamtools.warning_codes import WARNINGS, Severity
from streamtools.wires.usage import UsageMap

PACKAGE = Path(streamtools.__file__).parent

ROWS = {  # what is added to the copy's vocabularies: one word, or one row, each
    "parts.py": [
        ('    "unknown",  # handed over', '    "snoozed",\n    "unknown",  # handed over'),
        (
            '    "skipped": OutcomeFacts(',
            '    "snoozed": OutcomeFacts(stage="dispatch", words="not run: it sleeps", sign="≈", tone="held"),\n'
            '    "skipped": OutcomeFacts(',
        ),
        ('    "thread",  # ', '    "quota",\n    "thread",  # '),
        (
            '    "thread": WaitFacts(',
            '    "quota": WaitFacts(words="quota", phrase="the quota"),\n    "thread": WaitFacts(',
        ),
        (
            '    """Those of `output_tokens` that were sound."""\n',
            '    """Those of `output_tokens` that were sound."""\n'
            "    scent_input_tokens: int | None = _count(\n"
            '        "of these in scents", "streamtools.usage.scent.input_tokens", part_of="input_tokens"\n'
            "    )\n",
        ),
    ],
}
MAKERS = {  # code that comes to the new words, so that a run has them; and waits that are too short to be shown
    "dispatch/endings.py": [('return Ending("failed", error, again', 'return Ending("snoozed", error, again')],
    "dispatch/pool.py": [('return "limit" if ', 'return "quota" if ')],
    "telemetry/tracing.py": [("SHORTEST_WAIT_S = 0.001", "SHORTEST_WAIT_S = 0.0")],
    "view/lanes.py": [("SHORTEST_S = 0.005", "SHORTEST_S = 0.0")],
    "wires/openai_chat/facts.py": [
        (
            '    "output_tokens": ("completion_tokens",),\n',
            '    "output_tokens": ("completion_tokens",),\n    "scent_input_tokens": ("scents",),\n',
        )
    ],
}

PROGRAM = """
import io, sys, json
from pathlib import Path
import anyio
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console
from streamtools import Limits, ToolError, Trajectory, Usage, pipeline, tool
from streamtools.record import Recording, record
from streamtools.telemetry import Metrics, Tracing
from streamtools.view import draw, page
from streamtools.view.terminal import show

def call(at):
    function = {"name": "look", "arguments": '{"at": %d}' % at}
    return {"index": at, "id": f"call_{at}", "type": "function", "function": function}

STREAM = [
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"tool_calls": [call(0), call(1)]}}]},
    {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"object": "chat.completion.chunk", "choices": [],
     "usage": {"prompt_tokens": 10, "completion_tokens": 5, "scents": 3}},
]
spans, reader, events = InMemorySpanExporter(), InMemoryMetricReader(), []
tracers = TracerProvider()
tracers.add_span_processor(SimpleSpanProcessor(spans))
prices = {"": {"input_tokens": 1.0, "scent_input_tokens": 100.0}}

@tool(effect="pure")
async def look(at: int) -> str:
    "Look."
    raise ToolError("busy, come again")

async def main():
    observers = [Tracing(tracers), Metrics(MeterProvider([reader])), record(sys.argv[1])]
    limits = Limits(max_concurrency=1)
    run = Trajectory(observers=observers)
    async with pipeline(STREAM, tools=[look], limits=limits, trajectory=run, start="turn_end") as running:
        events.extend([event async for event in running])
    return running.turn

turn = anyio.run(main)
assert [one.outcome for one in turn.observations] == ["snoozed"] * 2, turn.observations
assert "quota" in [wait.reason for wait in turn.observations[1].waits], turn.observations[1].waits
assert turn.warnings == (), turn.warnings
assert turn.usage.scent_input_tokens == 3, turn.usage
assert (turn.usage + Usage(scent_input_tokens=4)).scent_input_tokens == 7
assert "busy" in json.dumps(turn.messages())

drawn = {span.name.partition(" ")[0]: span for span in spans.get_finished_spans()}
told = drawn["execute_tool"]
assert told.attributes["streamtools.call.outcome"] == "snoozed", dict(told.attributes)
assert told.attributes["streamtools.failure_stage"] in ("dispatch", "execution")
assert told.status.description == "not run: it sleeps", told.status.description
assert drawn["chat"].attributes["streamtools.usage.scent.input_tokens"] == 3
assert "quota" in [span.attributes.get("streamtools.wait.reason") for span in spans.get_finished_spans()]

points = [(one.name, dict(point.attributes)) for resource in reader.get_metrics_data().resource_metrics
          for scope in resource.scope_metrics for one in scope.metrics for point in one.data.data_points]
assert any(said.get("streamtools.call.outcome") == "snoozed" for _, said in points), points
assert any(said.get("streamtools.wait.reason") == "quota" for _, said in points), points

from streamtools.telemetry.names import cost_of
assert cost_of(prices, ("gpt",), turn.usage) == (7 * 1 + 3 * 100) / 1_000_000

picture, out = draw(events), io.StringIO()
show(picture, Console(file=out, width=120))
assert "≈" in out.getvalue() and "snoozed" in out.getvalue(), out.getvalue()
assert "quota" in {wait.reason for call in picture.calls for wait in call.waits}
html = page(picture)
for words in ('"snoozed":["snoozed","held"]', '"quota":"the quota"', '["scent_input_tokens","of these in scents"]'):
    assert words in html, words

(kept,) = Recording.read(Path(sys.argv[1])).turns
assert kept.usage == turn.usage and [one.outcome for one in kept.observations] == ["snoozed"] * 2
assert kept.observations[1].waits == turn.observations[1].waits
print("all speak them")
"""


@pytest.mark.costly
def test_a_word_that_is_added_to_its_table_is_spoken_everywhere(tmp_path: Path) -> None:
    """One outcome, one count and one reason to wait, each added to a copy of the package by its row alone."""
    copy = tmp_path / "streamtools"
    shutil.copytree(PACKAGE, copy)
    for changes in (ROWS, MAKERS):
        for name, pairs in changes.items():
            text = (copy / name).read_text(encoding="utf-8")
            for before, after in pairs:
                assert text.count(before) == 1, (name, before)
                text = text.replace(before, after)
            (copy / name).write_text(text, encoding="utf-8")
    made = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path / "run.jsonl")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert (made.stdout, made.returncode) == ("all speak them\n", 0), made.stderr


def test_every_word_has_its_row() -> None:
    assert tuple(STEP_OUTCOMES) == get_args(StepOutcome)
    assert tuple(RUN_OUTCOMES) == get_args(RunOutcome)
    assert tuple(WAITS) == get_args(WaitReason)
    assert {facts.severity for facts in WARNINGS.values()} == set(get_args(Severity))


def test_every_outcome_is_on_its_page() -> None:
    written = (REPOSITORY / "docs" / "guide" / "parallel-calls.md").read_text(encoding="utf-8")
    assert [outcome for outcome in OUTCOMES if f"| `{outcome}` |" not in written] == []


def test_a_count_that_usage_does_not_have_is_refused_where_the_map_is_made() -> None:
    with pytest.raises(ValueError, match=r"^expected counts of Usage \(input_tokens, .*\), got 'cached_tokens'$"):
        UsageMap({"input_tokens": ("in",), "cached_tokens": ("cached",)})


# -- warnings ----------------------------------------------------------------------------------------------------------


def test_every_code_that_is_emitted_is_in_the_table() -> None:
    written = {code for module in MODULES.values() for code in emitted(module)}
    written |= {row.warning for rows in TOLERATED.values() for row in rows if row.warning}
    assert written - set(WARNINGS) == set()


def test_every_code_in_the_table_is_emitted_somewhere() -> None:
    spoken = {
        node.value
        for name, module in MODULES.items()
        if name != "streamtools.warning_codes"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert sorted(set(WARNINGS) - spoken) == []


def emitted(module: Module) -> Iterator[str]:
    """The codes that a module gives to a `StreamWarning` or to a function that makes one."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and called(node).lstrip("_") in ("warn", "StreamWarning", "note"):
            for part in (part for given in node.args[:1] for part in ast.walk(given)):
                if isinstance(part, ast.Constant) and re.fullmatch(r"[a-z_]+", str(part.value)):
                    yield str(part.value)
