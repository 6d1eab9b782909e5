"""Frameworks that own the loop, with a tap under their client: a call's tool starts while its response still streams.

The server sends the rest of a response only when the tool has started, so each test here fails unless it starts early.
The frameworks are in venvs of their own: `nox -s agents strands`.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
from gemini_streams import call, response, text
from loopback import Loopback
from responses_streams import CREATED, added, arguments, done, ended, event, function, message, output_text
from streams import anthropic, exhaust, sse

import streamtools
from streamtools.errors import ToolDefinitionError
from streamtools.integrations.httpx import Tap

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

PATIENCE_S = 50  # a run takes a second; a busy machine, some more
QUESTION = "Look a up."
CALL = function(name="look_up", arguments='{"key":"a"}', status="completed")
USAGE = {
    "input_tokens": 1,
    "output_tokens": 1,
    "total_tokens": 2,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
KEY = {"api_key": "none"}
ASKED: dict[str, Any] = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": QUESTION}]}


def installed(name: str) -> Any:
    return pytest.importorskip(name, reason=f"{name} IS NOT INSTALLED: nox -s agents strands")


class LookUp:
    """A tool that knows when it has started."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.keys: list[str] = []

    def asynchronous(self) -> Callable[..., Any]:
        async def look_up(key: str) -> str:
            """Looks a key up.

            Args:
                key: The key.
            """
            return self._found(key)

        return look_up

    def synchronous(self) -> Callable[..., Any]:
        def look_up(key: str) -> str:
            """Looks a key up.

            Args:
                key: The key.
            """
            return self._found(key)

        return look_up

    def _found(self, key: str) -> str:
        self.keys.append(key)
        self.started.set()
        return key.upper()


@pytest.fixture(params=["asynchronous", "synchronous"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def responses(gate: threading.Event) -> list[list[Any]]:
    before = [CREATED, added(0, {**CALL, "arguments": "", "status": "in_progress"}), arguments(0, CALL["arguments"])]
    ends = [event("function_call_arguments.done", item_id="fc_1", arguments=CALL["arguments"]), done(0, CALL)]
    return [
        [*numbered([*before, *ends]), gate, *numbered([ended(output=[CALL], usage=USAGE, **REST)])],
        said_by_responses("A"),
    ]


REST: dict[str, Any] = {
    "object": "response",
    "created_at": 0,
    "model": "m",
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
}


def numbered(payloads: list[dict[str, Any]]) -> list[bytes]:
    filled = [
        {**payload, "response": {**REST, **payload["response"]}} if "response" in payload else payload
        for payload in payloads
    ]
    return sse([{"sequence_number": number, **payload} for number, payload in enumerate(filled)], named=True)


def said_by_responses(text: str) -> list[bytes]:
    part = output_text(text)
    whole = message(part)
    return numbered(
        [
            CREATED,
            added(0, message(status="in_progress")),
            event("content_part.added", item_id="msg_1", content_index=0, part=output_text("")),
            event("output_text.delta", item_id="msg_1", content_index=0, delta=text, logprobs=[]),
            event("output_text.done", item_id="msg_1", content_index=0, text=text, logprobs=[]),
            event("content_part.done", item_id="msg_1", content_index=0, part=part),
            done(0, whole),
            ended(output=[whole], usage=USAGE),
        ]
    )


def messages(gate: threading.Event) -> list[list[Any]]:
    """The bodies of two Messages responses; the end of the first waits for the gate."""
    first = counted(anthropic([], [("toolu_1", "look_up", '{"key": "a"}')]))
    return [[*first[:-2], gate, *first[-2:]], counted(anthropic(["A"], stop="end_turn"))]


def counted(body: list[bytes]) -> list[bytes]:
    """A Messages body with the counts that its readers insist on."""
    return [chunk.replace(b'"usage":{}', b'"usage":{"input_tokens":1,"output_tokens":1}') for chunk in body]


BODIES = {"openai.responses": responses, "anthropic.messages": messages}


@asynccontextmanager
async def tapped(
    bodies: list[list[Any]], library: str = "httpx2", **options: Any
) -> AsyncIterator[tuple[Loopback, Tap, Any]]:
    """Gives a server, a tap, and a client whose transport is the tap."""
    httpx = installed(library)
    tap = Tap(httpx.AsyncHTTPTransport(), **options)
    with Loopback(*bodies) as server, anyio.fail_after(PATIENCE_S):
        async with httpx.AsyncClient(transport=tap, trust_env=False) as client:
            yield server, tap, client


def library_of(sdk: Any) -> str:
    """The HTTP library whose clients an SDK takes: httpx2 since their major versions of 2026."""
    base: Any = importlib.import_module(f"{sdk.__name__}._base_client")
    return "httpx2" if hasattr(base, "httpx2") else "httpx"


async def test_openai_agents(how: str) -> None:
    agents, openai = installed("agents"), installed("openai")
    agents.set_tracing_disabled(True)
    tool = LookUp()
    async with tapped(responses(tool.started), library_of(openai)) as (server, tap, client):
        model = agents.OpenAIResponsesModel("m", openai.AsyncOpenAI(base_url=server.url, http_client=client, **KEY))
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        agent = agents.Agent(name="a", model=model, tools=[agents.function_tool(look_up)])
        run = agents.Runner.run_streamed(agent, QUESTION)
        await exhaust(run.stream_events())
        assert run.final_output == "A"
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


@pytest.mark.parametrize("wire", BODIES)
async def test_pydantic_ai(how: str, wire: str) -> None:
    pydantic_ai = installed("pydantic_ai")
    tool = LookUp()
    sdk = installed("openai" if wire.startswith("openai") else "anthropic")
    async with tapped(BODIES[wire](tool.started), library_of(sdk)) as (server, tap, client):
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        agent = pydantic_ai.Agent(pydantic_model(wire, server.url, client), tools=[look_up])
        async with agent.run_stream(QUESTION) as run:
            assert await run.get_output() == "A"
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


def pydantic_model(wire: str, url: str, client: Any) -> Any:
    if wire == "openai.responses":
        models, providers = installed("pydantic_ai.models.openai"), installed("pydantic_ai.providers.openai")
        sdk = installed("openai").AsyncOpenAI(base_url=url, http_client=client, **KEY)
        return models.OpenAIResponsesModel("gpt-5", provider=providers.OpenAIProvider(openai_client=sdk))
    models, providers = installed("pydantic_ai.models.anthropic"), installed("pydantic_ai.providers.anthropic")
    sdk = installed("anthropic").AsyncAnthropic(base_url=url, http_client=client, **KEY)
    return models.AnthropicModel("m", provider=providers.AnthropicProvider(anthropic_client=sdk))


async def test_create_react_agent(how: str) -> None:
    prebuilt, langchain_openai = installed("langgraph.prebuilt"), installed("langchain_openai")
    tool, conversation = LookUp(), ContextVar[str]("conversation")
    body, library = responses(tool.started), library_of(installed("openai"))
    async with tapped(body, library, scope=conversation.get) as (server, tap, client):
        conversation.set("of this user")  # LangGraph runs model and tools in tasks apart from each other
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        model = langchain_openai.ChatOpenAI(
            model="m", base_url=server.url, http_async_client=client, use_responses_api=True, **KEY
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has moved to langchain
            agent = prebuilt.create_react_agent(model, [look_up])
        said = ""
        async for chunk, _ in agent.astream({"messages": [("user", QUESTION)]}, stream_mode="messages"):
            said += chunk.text if isinstance(chunk.text, str) else chunk.text()
        assert said.endswith("A")
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


async def test_tool_runner_of_anthropic() -> None:
    sdk = installed("anthropic")
    tool = LookUp()
    async with tapped(messages(tool.started), library_of(sdk)) as (server, tap, client):
        look_up = sdk.beta_async_tool(tap.tool(tool.asynchronous(), effect="pure"))
        runner = sdk.AsyncAnthropic(base_url=server.url, http_client=client, **KEY).beta.messages.tool_runner(
            **ASKED, tools=[look_up], stream=True
        )
        last: Any = None
        async for stream in runner:
            last = await stream.get_final_message()
        assert last.content[0].text == "A"
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


def test_tool_runner_of_anthropic_with_its_synchronous_client(anyio_backend: str) -> None:
    sdk = installed("anthropic")
    httpx = installed(library_of(sdk))
    tool = LookUp()
    tap = Tap(httpx.HTTPTransport())
    with Loopback(*messages(tool.started)) as server, httpx.Client(transport=tap, trust_env=False) as client:
        look_up = sdk.beta_tool(tap.tool(tool.synchronous(), effect="pure"))
        runner = sdk.Anthropic(base_url=server.url, http_client=client, **KEY).beta.messages.tool_runner(
            **ASKED, tools=[look_up], stream=True
        )
        last: Any = None
        for stream in runner:
            last = stream.get_final_message()
        assert last.content[0].text == "A"
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


async def test_strands(how: str) -> None:
    strands, models = installed("strands"), installed("strands.models.anthropic")
    tool = LookUp()
    async with tapped(messages(tool.started), library_of(installed("anthropic"))) as (server, tap, client):
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        arguments = {"base_url": server.url, "http_client": client, **KEY}
        model = models.AnthropicModel(client_args=arguments, model_id="m", max_tokens=100)
        agent = strands.Agent(model=model, tools=[strands.tool(look_up)], callback_handler=None)
        last = await agent.invoke_async(QUESTION)
        assert str(last).strip() == "A"
        assert (tool.keys, tap.warnings) == (["a"], {})
        assert result_sent(server) == "A"


async def test_agno(how: str) -> None:
    agno, models, openai = installed("agno.agent"), installed("agno.models.openai"), installed("openai")
    tool = LookUp()
    async with tapped(responses(tool.started), library_of(openai)) as (server, tap, client):
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        model = models.OpenAIResponses(id="m", base_url=server.url, http_client=client, **KEY)
        agent = agno.Agent(model=model, tools=[look_up], telemetry=False)
        said = [event.content async for event in agent.arun(QUESTION, stream=True) if event.content]
        assert said[-1] == "A"
        assert (tool.keys, tap.warnings, tap.summary().missed) == (["a"], {}, {})
        assert result_sent(server) == "A"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_llama_index(how: str) -> None:
    workflow, llms = installed("llama_index.core.agent.workflow"), installed("llama_index.llms.openai")
    tool, conversation = LookUp(), ContextVar[str]("conversation")
    body, library = responses(tool.started), library_of(installed("openai"))
    async with tapped(body, library, scope=conversation.get) as (server, tap, client):
        conversation.set("of this user")  # its workflow runs model and tools in tasks apart from each other
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        llm = llms.OpenAIResponses(model="gpt-5", api_base=server.url, async_http_client=client, **KEY)
        agent = workflow.FunctionAgent(tools=[look_up], llm=llm)
        assert str(await agent.run(QUESTION)) == "A"
        assert (tool.keys, tap.warnings, tap.summary().missed) == (["a"], {}, {})
        assert result_sent(server) == "A"


async def test_agent_framework(how: str) -> None:
    framework, theirs = installed("agent_framework"), installed("agent_framework.openai")
    openai = installed("openai")
    tool = LookUp()
    async with tapped(responses(tool.started), library_of(openai)) as (server, tap, client):
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        sdk = openai.AsyncOpenAI(base_url=server.url, http_client=client, **KEY)
        agent = framework.Agent(client=theirs.OpenAIChatClient(model="m", async_client=sdk), tools=[look_up])
        said = "".join([update.text async for update in agent.run(QUESTION, stream=True)])
        assert "A" in said
        assert (tool.keys, tap.warnings, tap.summary().missed) == (["a"], {}, {})
        assert result_sent(server) == "A"


async def test_automatic_function_calling_of_google_genai(how: str) -> None:
    genai = installed("google.genai")
    tool = LookUp()
    body = [*sse([response(call("look_up", {"key": "a"}))]), tool.started, *sse([response(finish="STOP")])]
    async with tapped([body, sse([response(text("A"), finish="STOP")])], "httpx") as (server, tap, client):
        look_up = tap.tool(getattr(tool, how)(), effect="pure")
        options = {"base_url": server.url, "api_version": "v1beta", "httpx_async_client": client}
        sdk = genai.Client(http_options=options, **KEY)
        said = ""
        async for chunk in await sdk.aio.models.generate_content_stream(
            model="m", contents=QUESTION, config={"tools": [look_up]}
        ):
            said += chunk.text or ""
        assert said == "A"
        assert (tool.keys, tap.warnings, tap.summary().missed) == (["a"], {}, {})
        assert "A" in str(server.requests[1][1]["contents"][-1])


async def test_parameters_that_these_frameworks_fill_are_not_the_model_s() -> None:
    kinds = [
        ("agno.run", "RunContext"),
        ("agno.agent", "Agent"),
        ("llama_index.core.workflow", "Context"),
        ("agent_framework", "FunctionInvocationContext"),
        ("agent_framework", "AgentContext"),
        ("agent_framework", "AgentSession"),
    ]
    for module, name in kinds:
        kind = getattr(installed(module), name)

        def look_up(key: str, ctx: Any) -> str:
            """Looks a key up."""
            return key

        look_up.__annotations__["ctx"] = kind
        made = streamtools.tool(look_up, effect="pure")
        assert list(made.schema["properties"]) == ["key"], name
        with pytest.raises(ToolDefinitionError, match="pass the function itself to the framework"):
            Tap(object_with_transport()).tool(look_up, effect="pure")


def object_with_transport() -> Any:
    return installed("httpx").AsyncHTTPTransport()


def result_sent(server: Loopback) -> str:
    """The result of the call in the second request, whichever way it is written there."""
    (_, _), (_, body) = server.requests
    last = (body.get("input") or body["messages"])[-1]
    found = last.get("output") or last["content"]
    while not isinstance(found, str):
        found = found[-1].get("content") or found[-1].get("text") if isinstance(found, list) else found["text"]
    return found
