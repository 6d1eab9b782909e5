"""Other packages' instrumentations of the openai SDK: theirs and ours draw the same response, and neither is the worse
for it.

Each package is tried in a process of its own (`foreign_run`), against a server on this machine.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from foreign_run import ARGUMENTS, BACKENDS, PACKAGES, REPLY, USAGE, WAYS

pytest.importorskip("openai", reason="THE openai SDK IS NOT INSTALLED: make test-integrations")

HERE = Path(__file__).resolve().parent
PATIENCE_S = 120  # for a process that takes some seconds, most of them imports

Span = dict[str, Any]


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    if not is_installed(name := str(request.param)):
        pytest.skip(f"{name} IS NOT INSTALLED: make test-integrations")
    return name


@pytest.fixture(params=BACKENDS)
def told(request: pytest.FixtureRequest, package: str) -> dict[str, Any]:
    """What came of each way of reading the stream, by one package."""
    return run_of(package)[request.param]  # type: ignore[no-any-return]


@functools.cache
def is_installed(package: str) -> bool:
    """Asked of another process: some packages patch the SDK when they are imported."""
    code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@functools.cache
def run_of(package: str) -> dict[str, Any]:
    paths = [HERE.parents[1], HERE.parent, HERE]
    done = subprocess.run(
        [sys.executable, str(HERE / "foreign_run.py"), package],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- theirs ----------------------------------------------------------------------------------------------------------


def theirs(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span["scope"] not in ("streamtools", "application")]


def ours(spans: list[Span]) -> list[Span]:
    return [span for span in spans if span["scope"] == "streamtools"]


def told_by(span: Span) -> tuple[int, int, str]:
    """The tokens and the output in a span of any of the packages; zeros and nothing where it has none."""
    found = span["attributes"]
    if span["scope"] == "langfuse-sdk":
        counted = json.loads(found.get("langfuse.observation.usage_details", "{}"))
        tokens = counted.get("prompt_tokens", 0), counted.get("completion_tokens", 0)
        return *tokens, found.get("langfuse.observation.output", "")
    if "openinference.span.kind" in found:
        tokens = found.get("llm.token_count.prompt", 0), found.get("llm.token_count.completion", 0)
        return *tokens, found.get("output.value", "")
    tokens = found.get("gen_ai.usage.input_tokens", 0), found.get("gen_ai.usage.output_tokens", 0)
    return *tokens, found.get("gen_ai.output.messages", "")


# -- what must hold with each of them --------------------------------------------------------------------------------


def test_the_turn_is_that_of_a_client_which_nobody_watches(told: dict[str, Any]) -> None:
    for way in ("whole", "loop"):
        turn = told[way]
        assert (turn["text"], turn["complete"], turn["error"]) == (REPLY, True, None)
        assert turn["calls"] == [["get_weather", ARGUMENTS]]
        assert turn["results"] == [["ok", "5 degrees"]]
        assert turn["tokens"] == [USAGE["prompt_tokens"], USAGE["completion_tokens"]]
    left = told["left"]
    assert (left["text"][:3], left["complete"], left["error"]) == ("Hel", False, None)


@pytest.mark.parametrize("way", WAYS)
def test_each_span_of_theirs_and_ours_is_ended_exactly_once(told: dict[str, Any], way: str) -> None:
    assert (told[way]["open"], told[way]["twice"]) == (0, 0)
    steps = 2 if way == "loop" else 1
    kinds = [span["name"].split()[0] for span in ours(told[way]["spans"])]
    tools = 0 if way == "left" else steps
    wanted = {"invoke_agent": 1, "streamtools.step": steps, "chat": steps, "execute_tool": tools}
    assert {kind: kinds.count(kind) for kind in wanted} == wanted


def test_their_span_has_the_tokens_and_the_output_since_we_read_their_wrapper(told: dict[str, Any]) -> None:
    for way, steps in (("whole", 1), ("loop", 2)):
        full = [seen for seen in map(told_by, theirs(told[way]["spans"])) if seen[0]]
        assert [seen[:2] for seen in full] == [(USAGE["prompt_tokens"], USAGE["completion_tokens"])] * steps
        assert all(REPLY in output or ARGUMENTS in json.dumps(output).replace("\\", "") for *_, output in full)
        assert all("get_weather" in output for *_, output in full)


def test_their_span_ends_with_what_was_read_where_the_block_is_left_early(told: dict[str, Any]) -> None:
    spans = theirs(told["left"]["spans"])
    assert spans
    assert "Hel" in "".join(told_by(span)[2] for span in spans)


@pytest.mark.parametrize("way", WAYS)
def test_all_spans_are_one_trace_and_every_parent_in_it_is_exported(told: dict[str, Any], way: str) -> None:
    spans: list[Span] = told[way]["spans"]
    ids = {span["id"]: span for span in spans}
    assert len({span["trace"] for span in spans}) == 1
    assert [span["name"] for span in spans if span["parent"] is None] == ["request"]
    assert {span["parent"] for span in spans} - {None} <= set(ids)
    names = {span["id"]: span["name"].split()[0] for span in spans}
    above = {"invoke_agent": "request", "streamtools.step": "invoke_agent"}
    for span in ours(spans):
        kind = span["name"].split()[0]
        assert names[span["parent"]] == above.get(kind, "streamtools.step"), kind


def test_their_span_is_below_the_callers_and_beside_ours(told: dict[str, Any]) -> None:
    spans: list[Span] = told["whole"]["spans"]
    names = {span["id"]: span["name"] for span in spans}
    assert {names[span["parent"]] for span in theirs(spans)} == {"request"}
