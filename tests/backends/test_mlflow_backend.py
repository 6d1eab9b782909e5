"""MLflow's tracking server, a real one: what it makes of a run, as its own client gives it back."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from backend_servers import eventually, free_ports, lacks, served
from sums import AGENT, ANSWER, ARGUMENTS, CONVERSATION, FAILING, MODEL, SAYS, SPANS, USAGE, Sent, send

if lacks("mlflow"):
    pytest.skip("MLFLOW IS NOT INSTALLED, nothing was sent: nox -s backends", allow_module_level=True)

# Those of MLflow's own dependencies, as it imports them.
pytestmark = pytest.mark.filterwarnings("default")

EXPERIMENT = "0"
RUN, STEP = f"invoke_agent {AGENT}", "streamtools.step"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the server."""
    (port,) = map(str, free_ports(1))
    folder = tmp_path_factory.mktemp("mlflow")
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--default-artifact-root", str(folder)]
    env = {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with served(command, f"http://127.0.0.1:{port}", "/health", folder, env) as url:
        yield url


@pytest.fixture(scope="session")
def sent(server: str) -> Sent:
    return send(server, OTEL_EXPORTER_OTLP_HEADERS=f"x-mlflow-experiment-id={EXPERIMENT}")


@pytest.fixture(scope="session")
def trace(server: str, sent: Sent) -> Any:
    """The run, by MLflow's client."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=server)

    def whole() -> Any:
        found = client.search_traces(locations=[EXPERIMENT])
        return next((one for one in found if len(one.data.spans) == len(SPANS)), None)

    return eventually(whole)


def named(trace: Any, name: str) -> list[Any]:
    return sorted((span for span in trace.data.spans if span.name == name), key=lambda span: span.start_time_ns)


def one(trace: Any, name: str) -> Any:
    (span,) = named(trace, name)
    return span


def test_mlflow_keeps_the_tree_of_the_run(trace: Any, sent: Sent) -> None:
    assert trace.info.trace_id == f"tr-{sent.trace_id}"
    assert trace.info.state == "OK", "a call that failed does not fail the run"
    names = {span.span_id: span.name for span in trace.data.spans}
    assert sorted(names.values()) == SPANS
    above = {span.name: names.get(span.parent_id) for span in trace.data.spans}
    assert above.pop(f"streamtools.begin.run {AGENT}") == RUN
    assert above == {RUN: None, STEP: RUN, "chat m": STEP, "execute_tool add": STEP, "execute_tool root": STEP}


def test_mlflow_knows_the_kind_of_each_span(trace: Any) -> None:
    kinds = Counter(span.span_type for span in trace.data.spans)
    assert kinds == {"AGENT": 1, "CHAT_MODEL": 2, "TOOL": 2, None: 3}


def test_mlflow_knows_the_agent_its_session_and_its_tokens(trace: Any) -> None:
    assert one(trace, RUN).attributes["gen_ai.agent.name"] == AGENT
    assert trace.info.trace_metadata["mlflow.trace.session"] == CONVERSATION
    asked, answered = USAGE.values()
    total = {"input_tokens": 2 * asked, "output_tokens": 2 * answered, "total_tokens": 2 * (asked + answered)}
    assert trace.info.token_usage == total, "the totals of the run are not added to those of its chats"
    for chat in named(trace, "chat m"):
        counted = chat.attributes["mlflow.chat.tokenUsage"]
        assert (counted["input_tokens"], counted["output_tokens"]) == (asked, answered)
        assert (chat.attributes["mlflow.llm.model"], chat.attributes["mlflow.llm.provider"]) == (MODEL, "openai")


def test_mlflow_shows_messages_and_calls(trace: Any) -> None:
    (first,), (second,) = (span.outputs for span in named(trace, "chat m"))
    text, *calls = first["parts"]
    assert (first["role"], first["finish_reason"], text) == (
        "assistant",
        "tool_calls",
        {"type": "text", "content": SAYS},
    )
    assert [(call["name"], call["arguments"]) for call in calls] == [("add", ARGUMENTS), ("root", FAILING)]
    assert second["parts"] == [{"type": "text", "content": ANSWER}]


def test_mlflow_shows_a_calls_arguments_and_its_result(trace: Any) -> None:
    added, failed = one(trace, "execute_tool add"), one(trace, "execute_tool root")
    assert (added.inputs, str(added.outputs)) == (ARGUMENTS, "3")
    assert failed.inputs == FAILING
    assert "ArithmeticError" in failed.outputs


def test_mlflow_links_a_call_to_its_chat_and_a_chat_to_the_results_it_was_sent(trace: Any) -> None:
    first, second = named(trace, "chat m")
    tools = [one(trace, f"execute_tool {name}") for name in ("add", "root")]
    for call in tools:
        assert [(link.span_id, link.attributes) for link in call.links] == [(first.span_id, _link("proposed_by"))]
    assert first.links == []
    observed = {link.span_id: link.attributes for link in second.links}
    assert observed == {call.span_id: _link("observed") for call in tools}


def test_mlflow_shows_the_failed_call_as_an_error_and_nothing_else(trace: Any) -> None:
    failed = one(trace, "execute_tool root")
    assert [span.name for span in trace.data.spans if span.status.status_code == "ERROR"] == [failed.name]
    assert failed.status.description == "the tool root raised ArithmeticError"
    assert [(event.name, event.attributes["exception.type"]) for event in failed.events] == [
        ("exception", "ArithmeticError")
    ]


def _link(kind: str) -> dict[str, str]:
    return {"streamtools.link.type": kind}
