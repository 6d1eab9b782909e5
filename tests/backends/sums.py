"""One run that every back end is sent: two steps of an agent with a name, one call that succeeds and one that fails."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import orjson
import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from streams import chat, chat_chunk, sse, stream
from telemetry.scripted import capturing

from streamtools import Trajectory, agent_loop, tool
from streamtools.telemetry import Tracing, configure

__all__ = ["AGENT", "ANSWER", "ARGUMENTS", "CONVERSATION", "FAILING", "MODEL", "SAYS", "SPANS", "USAGE", "Sent", "send"]

AGENT, CONVERSATION, MODEL = "sums", "thread-7", "m"
SAYS, ANSWER = "Let me add.", "It is 3."
ARGUMENTS = {"a": 1, "b": 2}
FAILING = {"n": 4}
USAGE = {"prompt_tokens": 21, "completion_tokens": 13}  # of each of two responses
SEND_S = 90  # for a server that has just started: it imports while it answers
NO_WAITS = {"wait": False}  # on a busy machine a call waits for long enough to have one
SPANS = [
    "chat m",
    "chat m",
    "execute_tool add",
    "execute_tool root",
    "invoke_agent sums",
    "streamtools.begin.run sums",
    "streamtools.step",
    "streamtools.step",
]


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool(effect="pure")
async def root(n: int) -> int:
    """Take a root."""
    raise ArithmeticError("there is no root here")


class Sent(SpanProcessor):
    """Remembers what was sent."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)

    @property
    def trace_id(self) -> str:
        """The id of the one trace, as 32 hexadecimal digits."""
        (found,) = {span.context.trace_id for span in self.spans if span.context}
        return f"{found:032x}"

    def ids(self, name: str) -> list[str]:
        """The ids of the spans of that name, in order of their end."""
        return [f"{span.context.span_id:016x}" for span in self.spans if span.name == name and span.context]


def send(endpoint: str | None, **settings: str) -> Sent:
    """Makes the run, and sends its spans by OTLP over HTTP, with their content.

    Args:
        endpoint: of the back end; None: what the environment says.
        settings: variables of the environment that the exporter reads.
    """
    sent = Sent()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", str(SEND_S))
        for name, value in settings.items():
            patch.setenv(name, value)
        _send(sent, endpoint)
    assert sorted(span.name for span in sent.spans) == SPANS
    return sent


def _send(sent: Sent, endpoint: str | None) -> None:
    with configure("otlp", endpoint=endpoint, service_name="backends", set_global=False) as telemetry:
        telemetry.provider.add_span_processor(sent)  # type: ignore[attr-defined]
        anyio.run(_run, capturing(telemetry.provider, capture=True, spans=NO_WAITS))
        assert telemetry.flush(SEND_S), "the back end has not taken the spans"


async def _run(tracing: Tracing) -> None:
    bodies = iter([_body(SAYS, _calls(), "tool_calls"), _body(ANSWER, [], "stop")])
    run = Trajectory(name=AGENT, conversation_id=CONVERSATION, observers=[tracing])
    question = [{"role": "user", "content": "1 + 2?"}]

    def ask(messages: Any, tools: Any) -> Any:
        return stream(next(bodies))

    wire = "openai.chat_completions"
    async with agent_loop(ask, question, tools=[add, root], wire=wire, trajectory=run) as events:
        await events.finish()


def _calls() -> list[tuple[str, str, str]]:
    return [("call_1", "add", _text(ARGUMENTS)), ("call_2", "root", _text(FAILING))]


def _body(text: str, calls: Iterable[tuple[str, str, str]], finish: str) -> list[bytes]:
    *events, done = chat([text], list(calls), finish)
    return [*events, *sse([{**chat_chunk({}), "choices": [], "usage": USAGE}]), done]


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
