"""Arize Phoenix, a real server: what it makes of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from backend_servers import eventually, free_ports, lacks, served
from sums import AGENT, ANSWER, ARGUMENTS, CONVERSATION, FAILING, MODEL, SAYS, SPANS, USAGE, Sent, send

if lacks("arize-phoenix"):
    pytest.skip("ARIZE PHOENIX IS NOT INSTALLED, nothing was sent: nox -s backends", allow_module_level=True)

Node = dict[str, Any]
Seen = tuple[Sent, list[Node]]

PROJECT = "sums"


@pytest.fixture(scope="session")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server."""
    http, grpc = map(str, free_ports(2))
    folder = tmp_path_factory.mktemp("phoenix")
    env = {
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": http,
        "PHOENIX_GRPC_PORT": grpc,
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    command = [sys.executable, "-m", "phoenix.server.main", "serve"]
    with served(command, f"http://127.0.0.1:{http}", "/healthz", folder, env) as url:
        yield url


@pytest.fixture(scope="session")
def seen(phoenix: str) -> Seen:
    """What was sent, and the spans that Phoenix gives back."""
    sent = send(phoenix, OTEL_RESOURCE_ATTRIBUTES=f"openinference.project.name={PROJECT}")
    return sent, eventually(lambda: _spans(phoenix, PROJECT))


def _spans(url: str, project: str) -> list[Node] | None:
    """All spans of a project, in order of their end; None while some are missing."""
    answer = httpx.get(f"{url}/v1/projects/{project}/spans", params={"limit": 100}, timeout=30, trust_env=False)
    found: list[Node] = answer.json()["data"] if answer.is_success else []
    return sorted(found, key=lambda node: node["end_time"]) if len(found) == len(SPANS) else None


def named(nodes: list[Node], name: str) -> list[Node]:
    return [node for node in nodes if node["name"] == name]


def one(nodes: list[Node], name: str) -> Node:
    (node,) = named(nodes, name)
    return node


def test_phoenix_keeps_the_tree_of_the_run(seen: Seen) -> None:
    sent, nodes = seen
    assert {node["context"]["trace_id"] for node in nodes} == {sent.trace_id}
    names = {node["context"]["span_id"]: node["name"] for node in nodes}
    assert sorted(names.values()) == SPANS
    above = {node["name"]: names.get(node["parent_id"]) for node in nodes}
    run, step = f"invoke_agent {AGENT}", "streamtools.step"
    assert above.pop(f"streamtools.begin.run {AGENT}") == run
    assert above == {run: None, step: run, "chat m": step, "execute_tool add": step, "execute_tool root": step}


def test_phoenix_knows_the_kind_of_each_span(seen: Seen) -> None:
    kinds = {node["name"].split()[0]: node["span_kind"] for node in seen[1]}
    wanted = {"invoke_agent": "AGENT", "chat": "LLM", "execute_tool": "TOOL", "streamtools.step": "UNKNOWN"}
    wanted["streamtools.begin.run"] = "UNKNOWN"
    assert kinds == wanted


def test_phoenix_knows_the_agent_its_session_and_its_tokens(seen: Seen) -> None:
    nodes = seen[1]
    run = one(nodes, f"invoke_agent {AGENT}")["attributes"]
    assert (run["gen_ai.agent.name"], run["session.id"]) == (AGENT, CONVERSATION)
    totals = [count * 2 for count in USAGE.values()]
    assert [run["llm.token_count.prompt"], run["llm.token_count.completion"]] == totals
    for chat in named(nodes, "chat m"):
        found = chat["attributes"]
        assert [found["llm.token_count.prompt"], found["llm.token_count.completion"]] == list(USAGE.values())
        assert (found["llm.system"], found["session.id"]) == ("openai", CONVERSATION)


def test_phoenix_reads_messages_and_calls_from_the_names_of_opentelemetry(seen: Seen) -> None:
    first, second = (node["attributes"] for node in named(seen[1], "chat m"))
    assert first["gen_ai.response.model"] == MODEL
    said = "llm.output_messages.0.message"
    assert [found[f"{said}.role"] for found in (first, second)] == ["assistant"] * 2
    assert [found[f"{said}.content"] for found in (first, second)] == [SAYS, ANSWER]
    for index, (name, arguments) in enumerate([("add", ARGUMENTS), ("root", FAILING)]):
        function = f"{said}.tool_calls.{index}.tool_call.function"
        assert (first[f"{function}.name"], json.loads(first[f"{function}.arguments"])) == (name, arguments)
    assert [found["llm.finish_reason"] for found in (first, second)] == ["tool_calls", "stop"]


def test_phoenix_shows_a_calls_arguments_and_its_result(seen: Seen) -> None:
    nodes = seen[1]
    for name, arguments, result in (("add", ARGUMENTS, "3"), ("root", FAILING, "ArithmeticError")):
        found = one(nodes, f"execute_tool {name}")["attributes"]
        assert found["tool.name"] == name
        assert {key: found[f"tool.parameters.{key}"] for key in arguments} == arguments
        assert result in found["output.value"]


def test_phoenix_shows_the_failed_call_as_an_error_and_nothing_else(seen: Seen) -> None:
    nodes = seen[1]
    assert [node["name"] for node in nodes if node["status_code"] == "ERROR"] == ["execute_tool root"]
    failed = one(nodes, "execute_tool root")
    assert failed["status_message"] == "the tool root raised ArithmeticError"
    assert [event["attributes"]["exception.type"] for event in failed["events"]] == ["ArithmeticError"]
