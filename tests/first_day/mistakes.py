"""Mistakes of a first day: the lines that a new user wrote, and the words of the error that say what to write.

Each program starts with `PRELUDE`, which has the names that README and the guide import. `await` is allowed at its top.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MISTAKES", "PRELUDE", "Mistake"]

PRELUDE = '''
import httpx
from pydantic import BaseModel

from streamtools import *
from streamtools.dispatch import CallPool, MemoryStore
from streamtools.exports import export_output
from streamtools.history import convert, lint, repair, with_results
from streamtools.integrations import EventStreamResponse
from streamtools.integrations.httpx import Tap
from streamtools.telemetry import configure
from streamtools.testing import FakeTool, ScriptedSource
from streams import anthropic, chat

CHAT = "openai.chat_completions"
stream = chat(["Let me see"], [("c1", "get_weather", '{"city": "Rome"}')])
paying = chat(["At once"], [("c1", "pay", '{"to": "Ada"}')])
messages = [{"role": "user", "content": "How is the weather?"}]


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return "sunny"


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    return "paid"


def plain(city: str) -> str:
    """Weather in a city."""
    return "sunny"


async def ask(messages, tools):
    return chat(["It is sunny."], finish="stop")


def served(status, **content):
    answer = httpx.MockTransport(lambda request: httpx.Response(status, **content))
    return httpx.AsyncClient(transport=answer, base_url="http://model")


async def called(tool, arguments):
    (seen,) = (await run_calls([("c1", tool.name, arguments)], [tool])).observations
    return seen


async def waiting():
    async with pipeline(paying, tools=[pay]) as events:
        await events.finish()
    return events.suspended
'''


class Mistake(NamedTuple):
    """A mistake, and how it is answered."""

    name: str
    wrote: str
    error: str
    """The type of the error, or one that it is derived from."""
    says: str
    """The part of the message that says what to write, or what was expected."""


WIRES_BY_OTHER_NAMES = {
    **dict.fromkeys(["openai.chat", "openai_chat", "chat", "GPT-5", "azure", "groq"], "openai.chat_completions"),
    "openai.response": "openai.responses",
    "openai.realtme": "openai.realtime",
    **dict.fromkeys(["claude", "anthropic", "anthropic.chat", "anthropic_messages"], "anthropic.messages"),
    **dict.fromkeys(["gemini", "google", "vertex_ai", "gemini.chat", "google-genai"], "gemini.generate_content"),
    **dict.fromkeys(["bedrock", "aws.anthropic", "converse"], "bedrock.converse_stream"),
    "mistralai": "mistral.chat",
    "ollama": "ollama.chat",
}

# -- the stream ----------------------------------------------------------------------------------------------------

STREAMS = [
    Mistake(
        "a function of functions",
        "async def requests():\n    return ask\nawait pipeline(requests())",
        "TypeError",
        "a function that was not called",
    ),
    Mistake("the function, not its stream", "pipeline(ask)", "TypeError", "a function that was not called"),
    Mistake("a function without a return", "pipeline(print(end=''))", "TypeError", "None; return it from the function"),
    Mistake("the address", "pipeline('https://api.openai.com/v1')", "TypeError", "make the request, and pass its resp"),
    Mistake("the client", "await pipeline(served(200))", "TypeError", "client.stream(...)"),
    Mistake(
        "the request itself", "pipeline(httpx.Request('POST', 'http://model'))", "TypeError", "a response of httpx"
    ),
    Mistake("the messages", "await pipeline(messages)", "StreamError", "no known wire"),
    Mistake("the words of the answer", "await pipeline(['Hello', ' you'])", "StreamError", "is no event stream"),
    Mistake("tuples of LangGraph", "await pipeline([(stream, {})])", "TypeError", "the provider's payload, a dict"),
    Mistake("a list of numbers", "await pipeline([1, 2])", "TypeError", "the provider's payload, a dict"),
    Mistake(
        "a generator, read before",
        "once = iter(stream)\nawait pipeline(once)\nawait pipeline(once)",
        "StreamError",
        "was it read before?",
    ),
    Mistake(
        "a key that the provider refuses",
        "refusal = {'error': {'message': 'Incorrect API key', 'code': 'invalid_api_key'}}\n"
        "async with served(401, json=refusal) as client:\n"
        "    await pipeline(client.stream('POST', '/'))",
        "ProviderError",
        "Incorrect API key (invalid_api_key) The response has the HTTP status 401.",
    ),
    Mistake(
        "a path that leads to a page",
        "async with served(404, html='<html><body>Not Found</body></html>') as client:\n"
        "    await pipeline(client.stream('POST', '/'))",
        "StreamError",
        "<html><body>Not Found</body></html> The response has the HTTP status 404.",
    ),
    Mistake(
        "a server that is down",
        "async with served(502) as client:\n    await pipeline(client.stream('POST', '/'))",
        "StreamError",
        "The response has the HTTP status 502.",
    ),
    Mistake(
        "a client that is closed",
        "client = served(200)\nawait client.aclose()\nawait pipeline(client.stream('POST', '/'))",
        "RuntimeError",
        "the client has been closed",
    ),
    Mistake(
        "a response of a block that was left",
        "async def parts():\n    for part in stream:\n        yield part\n"
        "async with served(200, content=parts()) as client:\n"
        "    async with client.stream('POST', '/') as response: pass\n"
        "    await pipeline(response)",
        "httpx.StreamError",
        "the stream has been closed",
    ),
    Mistake(
        "another wire", "await pipeline(stream, wire='anthropic.messages')", "StreamError", "leave out wire= to find"
    ),
]

# -- the block -----------------------------------------------------------------------------------------------------

BLOCKS = [
    Mistake("no block", "async for event in pipeline(stream): pass", "TypeError", "async with pipeline(stream, tools"),
    Mistake(
        "no block around a run",
        "async for event in agent_loop(ask, messages, wire=CHAT): pass",
        "TypeError",
        "async with agent_loop(...) as run",
    ),
    Mistake(
        "`with` without async", "with pipeline(stream) as events: pass", "TypeError", "async with pipeline(...) as"
    ),
    Mistake(
        "`for` without async",
        "async with pipeline(stream) as events:\n    for event in events: pass",
        "TypeError",
        "async for event in events",
    ),
    Mistake("`for` without async or block", "list(pipeline(stream))", "TypeError", "async for event in events"),
    Mistake(
        "`with` without async around a run",
        "with agent_loop(ask, messages, wire=CHAT) as run: pass",
        "TypeError",
        "async with agent_loop(...) as run",
    ),
    Mistake("a run in a list", "list(agent_loop(ask, messages, wire=CHAT))", "TypeError", "async for event in run"),
    Mistake(
        "a loop behind the block",
        "async with pipeline(stream) as events:\n    await events.finish()\nasync for event in events: pass",
        "TypeError",
        "the pipeline's block was left; write",
    ),
    Mistake(
        "a pipeline used twice",
        "events = pipeline(stream)\nawait events\nasync with events: pass",
        "LocalProtocolError",
        "make a new one for the next stream",
    ),
    Mistake(
        "a run used twice",
        "run = agent_loop(ask, messages, wire=CHAT)\nawait run\nasync with run: pass",
        "LocalProtocolError",
        "make a new one for the next run",
    ),
    Mistake("a pipeline for its turn", "pipeline(stream).text", "AttributeError", "write events.turn.text"),
    Mistake(
        "a run for its turn", "agent_loop(ask, messages, wire=CHAT).calls", "AttributeError", "write run.turn.calls"
    ),
    Mistake(
        "messages of the block",
        "async with pipeline(stream) as events:\n    await events.finish()\nevents.messages()",
        "AttributeError",
        "the turn has it, write events.turn.messages",
    ),
    Mistake(
        "a call run by hand that starts by itself",
        "async with pipeline(stream, tools=[get_weather]) as events:\n    await events.finish()\n"
        "    await events.run_call('c1')",
        "LocalProtocolError",
        "start='manual'",
    ),
    Mistake(
        "a tool's name in place of a call",
        "async with pipeline(stream, tools=[get_weather]) as events:\n    await events.finish()\n"
        "    events.cancel('get_weather')",
        "LocalProtocolError",
        "pass one of its calls, or its call_id",
    ),
]

# -- options -------------------------------------------------------------------------------------------------------

OPTIONS = [
    Mistake("one tool", "pipeline(stream, tools=get_weather)", "TypeError", "write tools=[...]"),
    Mistake("one function", "pipeline(stream, tools=plain)", "TypeError", "write tools=[...]"),
    Mistake("a number of tools", "pipeline(stream, tools=1)", "TypeError", "write tools=[...]"),
    Mistake("tools by name", "pipeline(stream, tools={'w': get_weather})", "TypeError", "pass its values: tools=[...]"),
    Mistake("names of tools", "pipeline(stream, tools=['get_weather'])", "TypeError", "pass the tool or the function"),
    Mistake(
        "the request's tools",
        "pipeline(stream, tools=[get_weather.to(CHAT)])",
        "ToolDefinitionError",
        "the tool itself, since its .to(...) is for the request",
    ),
    Mistake(
        "a tool that was called",
        "called = get_weather('Rome')\ntry:\n    pipeline(stream, tools=[called])\nfinally:\n    called.close()",
        "ToolDefinitionError",
        "pass a function itself, without calling it",
    ),
    Mistake("a list in the list", "pipeline(stream, tools=[[plain]])", "ToolDefinitionError", "tools=[*these, that]"),
    Mistake(
        "a model as a tool",
        "class City(BaseModel):\n    name: str\npipeline(stream, tools=[City])",
        "ToolDefinitionError",
        "is a class; pass a function",
    ),
    Mistake(
        "two tools of one name",
        "pipeline(stream, tools=[plain, tool(name='plain')(get_weather.fn)])",
        "ToolDefinitionError",
        "pass tool(..., name='...')",
    ),
    Mistake("a fake as a tool", "pipeline(stream, tools=[FakeTool(plain)])", "ToolDefinitionError", "or its .tool"),
    Mistake("a wire's short name", "pipeline(stream, wire='openai')", "ValueError", "openai.chat_completions"),
    Mistake("the export's short name", "get_weather.to('openai')", "ExportError", "write 'openai.chat_completions'"),
    *(
        Mistake(
            f"a wire by another name, {name}", f"get_weather.to({name!r})", "ExportError", f"; write {wire!r}; known:"
        )
        for name, wire in WIRES_BY_OTHER_NAMES.items()
    ),
    Mistake(
        "an unknown start", "pipeline(stream, start='eager')", "ValueError", "known: auto, early, turn_end, manual"
    ),
    Mistake("an unknown choice", "pipeline(stream, on_tool_error='raise')", "ValueError", "known: continue, cancel"),
    Mistake("limits as a dict", "pipeline(stream, limits={'tool_timeout': 3})", "TypeError", "streamtools.Limits(...)"),
    Mistake("a negative limit", "Limits(tool_timeout=-1)", "ValueError", "tool_timeout=-1): must be a number greater"),
    Mistake("a limit as a text", "Limits(tool_timeout='30')", "ValueError", "must be a number greater than 0"),
    Mistake("no limit at all", "Limits(max_concurrency=None)", "ValueError", "must be an integer greater than 0"),
    Mistake("an observer, no list", "pipeline(stream, observers=print)", "TypeError", "write observers=[...]"),
    Mistake(
        "a function as an observer", "pipeline(stream, observers=[print])", "TypeError", "a method on_event(event)"
    ),
    Mistake("a number as the pool", "pipeline(stream, pool=4)", "TypeError", "streamtools.dispatch.CallPool()"),
    Mistake("a path as the store", "pipeline(stream, store='calls.db')", "TypeError", "say MemoryStore()"),
    Mistake("a store's class", "pipeline(stream, store=MemoryStore)", "TypeError", "not the class MemoryStore"),
    Mistake("a word as the executor", "pipeline(stream, executor='process')", "TypeError", "enter one and pass it"),
    Mistake(
        "True as the approver", "pipeline(paying, approve=True)", "TypeError", "a function of an ApprovalRequested"
    ),
    Mistake(
        "an approver of two things",
        "pipeline(paying, approve=lambda name, arguments: True)",
        "TypeError",
        "approve=lambda request: ...",
    ),
    Mistake(
        "text as a verdict",
        "turn = await pipeline(paying, tools=[pay], approve=lambda request: 'yes')\n"
        "raise turn.observations[0].error.__cause__",
        "TypeError",
        'True, False, Deny("why") or None, not str',
    ),
    Mistake(
        "a type of no object", "export_output(int, CHAT)", "ToolDefinitionError", "a pydantic BaseModel, a dataclass"
    ),
    Mistake(
        "an answer that is a list",
        "pipeline(stream, output=list[int])",
        "ToolDefinitionError",
        "got list[int]; of another type make a field of such a class",
    ),
    Mistake(
        "an answer by an example",
        "class City(BaseModel):\n    name: str\nparse(stream, output=City(name='Rome'))",
        "ToolDefinitionError",
        "as a class, got an object of City",
    ),
    Mistake(
        "an answer that is none", "parse(stream, output=BaseModel).output_as(BaseModel)", "ValueError", "no output: "
    ),
    Mistake("an unknown exporter", "configure('jaeger')", "ValueError", "must be one of otlp, jaeger-file"),
]

# -- a run, and what is kept of one ----------------------------------------------------------------------------------

RUNS = [
    Mistake(
        "the request was made already",
        "request = ask(messages, [])\n"
        "try:\n    agent_loop(request, messages, wire=CHAT)\nfinally:\n    request.close()",
        "TypeError",
        "call_model is a function of messages and tools",
    ),
    Mistake(
        "a request without tools",
        "async def ask_alone(messages): ...\nagent_loop(ask_alone, messages, wire=CHAT)",
        "TypeError",
        "async def ask(messages, tools): ...",
    ),
    Mistake(
        "a request that returns nothing",
        "async def forget(messages, tools): await ask(messages, tools)\nawait agent_loop(forget, messages, wire=CHAT)",
        "TypeError",
        "None; return it from the function",
    ),
    Mistake("a question, no messages", "agent_loop(ask, 'Hello?', wire=CHAT)", "TypeError", "write messages=[...]"),
    Mistake("one message", "agent_loop(ask, messages[0], wire=CHAT)", "TypeError", "write messages=[...]"),
    Mistake(
        "messages of another wire",
        "agent_loop(ask, [{'role': 'user', 'parts': [{'text': 'Hello?'}]}], wire=CHAT)",
        "ExportError",
        "they look like those of gemini.generate_content",
    ),
    Mistake(
        "another library's option", "agent_loop(ask, messages, wire=CHAT, max_turns=3)", "TypeError", "max_steps=..."
    ),
    Mistake(
        "a limit as an option",
        "agent_loop(ask, messages, wire=CHAT, tool_timeout=3)",
        "TypeError",
        "write limits=Limits(tool_timeout=...)",
    ),
    Mistake("a timeout", "agent_loop(ask, messages, wire=CHAT, timeout=3)", "TypeError", "limits=Limits(tool_timeout"),
    Mistake(
        "an option of the request",
        "agent_loop(ask, messages, wire=CHAT, temperature=0)",
        "TypeError",
        "belongs to the request, which call_model makes",
    ),
    Mistake(
        "observers of a run",
        "agent_loop(ask, messages, wire=CHAT, observers=[])",
        "TypeError",
        "trajectory=Trajectory(observers=[...])",
    ),
    Mistake("observers as the run", "agent_loop(ask, messages, wire=CHAT, trajectory=[])", "TypeError", "Trajectory()"),
    Mistake("no step at all", "agent_loop(ask, messages, wire=CHAT, max_steps=0)", "ValueError", "greater than 0"),
    Mistake(
        "a decision too early", "agent_loop(ask, messages, wire=CHAT).approve('c1')", "LocalProtocolError", "after its"
    ),
    Mistake(
        "the text of calls that wait", "resume('{}', tools=[pay], store=MemoryStore())", "TypeError", "Suspended.from"
    ),
    Mistake("no store", "resume(await waiting(), tools=[pay], store=None)", "TypeError", "say SqliteStore(path)"),
    Mistake(
        "a decision by an id alone",
        "resume(await waiting(), tools=[pay], store=MemoryStore(), decisions={'c1': True})",
        "TypeError",
        "write [Decision.on(call, True) for call in suspended.calls]",
    ),
    Mistake("a short secret", "(await waiting()).to_text(b'secret')", "ValueError", "say secrets.token_bytes(32)"),
    Mistake(
        "another secret",
        "Suspended.from_text((await waiting()).to_text(b'1' * 32), b'2' * 32)",
        "SuspendedError",
        "signed with another key",
    ),
    Mistake(
        "a turn as a response", "EventStreamResponse(await pipeline(stream))", "TypeError", "pipeline(stream, tools=["
    ),
    Mistake(
        "a run as a response", "EventStreamResponse(Trajectory())", "TypeError", "takes a pipeline or an agent_loop"
    ),
    Mistake("no function", "EventStreamResponse(pipeline(stream), after=1)", "TypeError", "after: expected a function"),
    Mistake(
        "a history by a provider", "convert(messages, 'openai', 'anthropic')", "ExportError", "openai.chat_completions"
    ),
    Mistake("a message, no history", "lint(messages[0], CHAT)", "TypeError", "pass its list of messages"),
    Mistake("no history", "repair(None, CHAT)", "TypeError", "expected a list of messages"),
    Mistake(
        "results by the tool's name",
        "turn = await pipeline(stream)\nturn.messages(results={'get_weather': 'sunny'})",
        "ValueError",
        "'get_weather' is not one of the turn's",
    ),
    Mistake("a response to parse", "parse(httpx.Response(200))", "TypeError", "pass its content"),
    Mistake("a payload as the script", "ScriptedSource({'choices': []})", "TypeError", "ScriptedSource([...])"),
]

# -- tools ---------------------------------------------------------------------------------------------------------


def defined(signature: str, *, above: str = "@tool", body: str = '"""Do it."""') -> str:
    return f"{above}\n{signature}\n    {body}"


TOOLS = [
    Mistake(
        "no docstring", defined("def f() -> int:", body="return 1"), "ToolDefinitionError", "has no docstring; write"
    ),
    Mistake("no type hint", defined("def f(a) -> int:"), "ToolDefinitionError", "'a': has no type hint; add one"),
    Mistake("no return annotation", defined("def f(a: int):"), "ToolDefinitionError", "add one (-> None if it returns"),
    Mistake(
        "bare **kwargs", defined("def f(**kwargs) -> int:"), "ToolDefinitionError", "'kwargs': has no type hint; add"
    ),
    Mistake("a bare context", defined("def f(ctx) -> int:"), "ToolDefinitionError", "'ctx': has no type hint; add one"),
    Mistake(
        "a description of no parameter",
        defined("def f(a: int) -> int:", body="'Do it.\\n\\n:param b: How often.\\n'"),
        "ToolDefinitionError",
        "the docstring describes 'b', which is no parameter; its parameters are a",
    ),
    Mistake("a lambda", "tool(lambda city: 'sunny')", "ToolDefinitionError", "pass tool(..., name='...')"),
    Mistake(
        "the name alone", defined("def f() -> int:", above="@tool('f')"), "ToolDefinitionError", "@tool(name='...')"
    ),
    Mistake("a class", "tool(httpx.Client)", "ToolDefinitionError", "is a class; pass a function"),
    Mistake("a description", "tool(description='Weather')", "TypeError", "the docstring is the description"),
    Mistake("strict too early", "tool(strict=True)", "TypeError", "tool.to(wire, strict=True)"),
    Mistake("an unknown option", "tool(cache=True)", "TypeError", "the options are "),
    Mistake(
        "a type without a schema",
        "class Thing: ...\n" + defined("def f(a: Thing) -> int:"),
        "ToolDefinitionError",
        "a model, a dataclass or a TypedDict",
    ),
    Mistake("an unknown type", defined("def f(a: 'Thing') -> int:"), "ToolDefinitionError", "must exist at run time"),
    Mistake("an unknown effect", "tool(effect='read')(plain)", "ToolDefinitionError", "'pure', 'idempotent' or 'once'"),
    Mistake("a timeout as a text", "tool(timeout='10s')(plain)", "ToolDefinitionError", "a number of seconds"),
    Mistake("retries of a payment", "tool(retries=2)(plain)", "ToolDefinitionError", "say effect='idempotent'"),
    Mistake("a name with a space", "tool(name='get weather')(plain)", "ToolDefinitionError", "letters, digits, '_'"),
    Mistake(
        "an async gate", "tool(needs_approval=ask)(plain)", "ToolDefinitionError", "a plain function of the arguments"
    ),
    Mistake("a key of no argument", "tool(conflict_key='path')(plain)", "ToolDefinitionError", "its arguments (city)"),
    Mistake("options for a tool", "tool(effect='pure')(pay)", "ToolDefinitionError", "pass tool.fn"),
    Mistake(
        "a method without its object",
        "class Shop:\n    @tool\n    def count(self, item: str) -> int:\n        'Count.'\n"
        "pipeline(stream, tools=[Shop.count])",
        "ToolDefinitionError",
        "instance.method is one",
    ),
    Mistake(
        "a generator",
        "from collections.abc import Iterator\n" + defined("def f() -> Iterator[str]:", body="'Do it.'\n    yield ''"),
        "ToolDefinitionError",
        "yield FinalResult(value)",
    ),
    Mistake(
        "a result of no JSON",
        defined("def get_weather(city: str) -> object:", body="'Do it.'\n    return object()")
        + "\nturn = await pipeline(stream, tools=[get_weather])\nraise turn.observations[0].error",
        "ToolError",
        "a value of type object, which cannot be written as JSON",
    ),
    Mistake(
        "a tool that raises",
        defined("def f() -> object:", body="'Do it.'\n    return {}['city']") + "\n(await called(f, {})).unwrap()",
        "KeyError",
        "city",
    ),
    Mistake(
        "an async generator without an end",
        "from collections.abc import AsyncIterator\n"
        + defined("async def f() -> AsyncIterator[str]:", body="'Do it.'\n    yield 'one'")
        + "\n(await called(f, {})).unwrap()",
        "ToolError",
        "the tool f ended without a result",
    ),
    Mistake(
        "arguments that do not fit",
        "(await called(get_weather, {'town': 'Rome'})).unwrap()",
        "InvalidArguments",
        "town: is not an argument of this tool, which takes city",
    ),
    Mistake(
        "arguments of no JSON", "(await called(get_weather, 'Rome')).unwrap()", "InvalidArguments", "no valid JSON"
    ),
    Mistake(
        "a schema as a text",
        "Tool.from_schema(plain, '{}', owner='me')",
        "SchemaError",
        "expected a JSON object, got str",
    ),
    Mistake("a schema of a text", "Tool.from_schema(plain, {'type': 'string'})", "SchemaError", "which arguments are"),
    Mistake(
        "a model that is none", "Tool.from_model(int, plain)", "ToolDefinitionError", "expected a pydantic BaseModel"
    ),
]

# -- under a framework ---------------------------------------------------------------------------------------------

TAPS = [
    Mistake("a tap of a client", "Tap(httpx.AsyncClient())", "TypeError", "say httpx.AsyncHTTPTransport()"),
    Mistake("a tap of a class", "Tap(httpx.AsyncHTTPTransport)", "TypeError", "say httpx.AsyncHTTPTransport()"),
    Mistake(
        "no function for events",
        "Tap(httpx.AsyncHTTPTransport(), on_event=1)",
        "TypeError",
        "on_event: expected a function",
    ),
    Mistake(
        "an asynchronous transport for a client that is not",
        "httpx.Client(transport=Tap(httpx.AsyncHTTPTransport())).get('http://model')",
        "TypeError",
        "write Tap(httpx.HTTPTransport(...))",
    ),
    Mistake(
        "a synchronous transport for a client that is not",
        "await httpx.AsyncClient(transport=Tap(httpx.HTTPTransport())).get('http://model')",
        "TypeError",
        "write Tap(httpx.AsyncHTTPTransport(...))",
    ),
    Mistake(
        "a synchronous transport in the client's block",
        "async with httpx.AsyncClient(transport=Tap(httpx.HTTPTransport())): pass",
        "TypeError",
        "write Tap(httpx.AsyncHTTPTransport(...))",
    ),
    Mistake(
        "an asynchronous transport in the client's block",
        "with httpx.Client(transport=Tap(httpx.AsyncHTTPTransport())): pass",
        "TypeError",
        "write Tap(httpx.HTTPTransport(...))",
    ),
]

MISTAKES = {"stream": STREAMS, "block": BLOCKS, "options": OPTIONS, "run": RUNS, "tools": TOOLS, "tap": TAPS}
"""The mistakes by their subject."""
