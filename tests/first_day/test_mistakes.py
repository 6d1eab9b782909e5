"""Mistakes of a first day: each is answered by an error that says what to write.

Each program starts with `PRELUDE`, and may have `await` at its top.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from typing import Any, NamedTuple

import httpx
import pytest

from streamtools import errors

INTERNALS = re.compile(r" at 0x[0-9a-f]+|__\w+__|object is not|object has no|positional argument")
MOST_CHARACTERS = 420  # of a message: a list of all wires is the longest part of any
pytestmark = pytest.mark.anyio

PRELUDE = '''
import httpx

from streamtools import *
from streamtools.integrations import EventStreamResponse
from streamtools.integrations.httpx import Tap
from streams import anthropic, chat

CHAT = "openai.chat_completions"
stream = chat(["Let me see"], [("c1", "get_weather", '{"city": "Rome"}')])
messages = [{"role": "user", "content": "How is the weather?"}]


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city."""
    return "sunny"


async def ask(messages, tools):
    return chat(["It is sunny."], finish="stop")


def served(status, **content):
    answer = httpx.MockTransport(lambda request: httpx.Response(status, **content))
    return httpx.AsyncClient(transport=answer, base_url="http://model")

'''


class Mistake(NamedTuple):
    """A mistake, and how it is answered."""

    name: str
    wrote: str
    error: str
    """The type of the error, or one that it is derived from."""
    says: str
    """The part of the message that says what to write, or what was expected."""


# -- the stream ----------------------------------------------------------------------------------------------------

STREAMS = [
    Mistake("the client", "await pipeline(served(200))", "TypeError", "client.stream(...)"),
    Mistake(
        "the request itself", "pipeline(httpx.Request('POST', 'http://model'))", "TypeError", "a response of httpx"
    ),
    Mistake("the messages", "await pipeline(messages)", "StreamError", "no known wire"),
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
]

# -- the block -----------------------------------------------------------------------------------------------------

BLOCKS = [
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
        "`with` without async around a run",
        "with agent_loop(ask, messages, wire=CHAT) as run: pass",
        "TypeError",
        "async with agent_loop(...) as run",
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
]

# -- under a framework ---------------------------------------------------------------------------------------------

TAPS = [
    Mistake("a tap of a client", "Tap(httpx.AsyncClient())", "TypeError", "such as httpx.AsyncHTTPTransport()"),
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

# -- words of other libraries --------------------------------------------------------------------------------------

WORDS = [
    Mistake(f"{wrote}: {word}", wrote.format(word), "TypeError", says)
    for wrote, word, says in (
        ("pipeline(stream, {}=1)", "tool_choice", "put it into your request"),
        ("pipeline(stream, {}=1)", "max_turns", "write max_steps=... in agent_loop"),
        ("pipeline(stream, {}=1)", "max_tool_calls", "write limits=Limits(max_tool_calls=...)"),
        ("agent_loop(ask, messages, wire=CHAT, {}=1)", "stopWhen", "write stop="),
        ("agent_loop(ask, messages, wire=CHAT, {}=1)", "needs_approval", "write it on the tool"),
        ("agent_loop(ask, messages, wire=CHAT, {}=1)", "deps", "write context="),
        ("agent_loop(ask, messages, wire=CHAT, {}=1)", "observers", "which all steps share"),
        ("agent_loop(ask, messages, wire=CHAT, {}=1)", "aprove", "did you mean 'approve'?"),
        ("from streamtools.web import Chats\nChats(run=ask, {}=1)", "db", "write records="),
    )
]

MISTAKES = {"stream": STREAMS, "block": BLOCKS, "tap": TAPS, "word": WORDS}
"""The mistakes by their subject."""


async def fault_of(mistake: Mistake) -> str | None:
    """Runs a program; returns what is wrong with the answer, or None."""
    names: dict[str, Any] = {}
    exec(compile(PRELUDE, "prelude", "exec"), names)
    program = compile(mistake.wrote, mistake.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    try:
        if inspect.isawaitable(waiting := eval(program, names)):
            await waiting
    except Exception as error:
        return fault_in(error, mistake)
    return "nothing was raised"


def fault_in(error: Exception, mistake: Mistake) -> str | None:
    said = " ".join([str(error), *getattr(error, "__notes__", [])])
    good = (
        isinstance(error, type_named(mistake.error))
        and mistake.says in said
        and len(said) <= MOST_CHARACTERS
        and "\n" not in said
        and not INTERNALS.search(said)
    )
    return None if good else f"{type(error).__name__}: {said}"


def type_named(name: str) -> type[BaseException]:
    module, _, own = name.rpartition(".")
    found = getattr(httpx if module else errors, own, None) or getattr(builtins, own)
    assert issubclass(found, BaseException)
    return found


@pytest.mark.parametrize("subject", MISTAKES)
async def test_a_mistake_is_answered_by_what_to_write(subject: str) -> None:
    faults = {mistake.name: await fault_of(mistake) for mistake in MISTAKES[subject]}
    assert {name: fault for name, fault in faults.items() if fault is not None} == {}
