"""Conversations for clients of OpenAI's, asked by the openai package itself."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import openai
import pytest
from chat_client import Answer, Page
from streams import chat, stream

from streamtools import Tool, agent_loop, tool
from streamtools.web import Chats

# The client leaves the generators of its streams to the garbage collector, which trio warns of.
pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2):ResourceWarning")]
WIRE = "openai.chat_completions"
PLACE = {
    "type": "object",
    "properties": {"near": {"type": "string"}},
    "required": ["near"],
    "additionalProperties": False,
}
LOCATE: dict[str, Any] = {
    "type": "function",
    "function": {"name": "locate", "description": "Where the user is", "parameters": PLACE},
}


class Program:
    """A program whose model does as the user says.

    Args:
        path: the journal's file.
    """

    def __init__(self, path: Path) -> None:
        self.asked: list[list[Any]] = []
        self.offered: list[list[str]] = []
        self.held = anyio.Event()
        self.chats = Chats(journal=path, run=self.run)
        self.app = self.chats.app(may=lambda request: request.headers.get("authorization") == "Bearer ann")

    def run(self, given: Any) -> Any:
        @tool(needs_approval=True)
        def pay() -> str:
            """Pays."""
            return "paid"

        tools: list[Tool[..., Any]] = [pay, *given.client_tools]
        return agent_loop(self.ask, given.messages(WIRE), tools=tools, wire=WIRE, **given.options)

    def ask(self, messages: list[Any], tools: Any) -> Any:
        self.asked.append(messages)
        self.offered.append([one["function"]["name"] for one in tools])
        said = messages[-1]
        if said["role"] == "tool":
            if said["content"] == "nowhere":  # the same id as before
                return stream(chat([], [("c1", "locate", '{"near": "hill"}')]))
            return (
                self.slow() if said["content"] == "slow" else stream(chat(["You are ", said["content"]], finish="stop"))
            )
        match said["content"]:
            case "where":
                return stream(chat(["I look."], [("c1", "locate", '{"near": "sea"}')]))
            case "pay":
                return stream(chat([], [("c1", "pay", "{}")]))
            case "slow":
                return self.slow()
            case _:
                return stream(chat(["Hello, ", "you"], finish="stop"))

    async def slow(self) -> AsyncIterator[bytes]:
        items = chat(["a", "b"], finish="stop")
        yield items[0]
        await self.held.wait()
        for item in items[1:]:
            yield item

    def client(self, path: str = "", key: str = "ann") -> Any:
        http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=self.app))
        return openai.AsyncOpenAI(api_key=key, base_url=f"http://agent{path}/v1", http_client=http, max_retries=1)


def said(*texts: str) -> list[Any]:
    """What a client sends whose messages of the user's are these, as it repeats the answers between them."""
    found: list[Any] = [{"role": "system", "content": "Obey."}]
    for text in texts:
        found += [{"role": "user", "content": text}, {"role": "assistant", "content": "An answer."}]
    return found[:-1]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "chats.db")


async def test_a_client_of_openai_talks_to_a_conversation_by_its_address(program: Program) -> None:
    client = program.client("/k")
    whole = await client.chat.completions.create(model="m", messages=said("you"))
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("Hello, you", "stop")
    assert (whole.model, whole.object) == ("m", "chat.completion")
    chunks = [
        one async for one in await client.chat.completions.create(model="m", messages=said("you", "again"), stream=True)
    ]
    assert "".join(one.choices[0].delta.content or "" for one in chunks) == "Hello, you"
    assert [one["content"] for one in program.asked[-1]] == ["you", "Hello, you", "again"], "the server's own history"


async def test_the_same_request_again_asks_the_model_once_also_if_its_client_left(program: Program) -> None:
    page = Page(program.app, authorization="Bearer ann")
    answers: list[Answer] = []
    path = "/k/v1/chat/completions"

    async def ask(stream: bool) -> None:
        body = {"model": "m", "messages": said("slow"), "stream": stream}
        answers.append(await page.ask("POST", path, body))

    def has_begun(answer: Answer) -> bool:
        return b"assistant" in answer.body

    body = {"model": "m", "messages": said("slow"), "stream": True}
    left = await page.ask("POST", path, body, leave=has_begun)
    assert not left.ended
    async with anyio.create_task_group() as tasks:
        for stream in (False, True, False, True):
            tasks.start_soon(ask, stream)
        await anyio.wait_all_tasks_blocked()
        program.held.set()
    await ask(False)
    assert [one.status for one in answers] == [200] * 5
    texts = [one.json["choices"][0]["message"]["content"] for one in answers if one.body[:1] == b"{"]
    assert texts == ["ab"] * 3
    assert len(program.asked) == 1


async def test_a_tool_of_the_client_is_handed_out_and_its_result_goes_on_with_the_run(program: Program) -> None:
    for stream_ in (False, True):
        client, asked = program.client(f"/k{stream_}"), len(program.asked)
        options: dict[str, Any] = {"model": "m", "tools": [LOCATE]}
        first = await client.chat.completions.create(messages=said("where"), **options)
        (choice,) = first.choices
        (call,) = choice.message.tool_calls
        assert (choice.finish_reason, call.function.name) == ("tool_calls", "locate")
        assert json.loads(call.function.arguments) == {"near": "sea"}
        handed = {"role": "assistant", "content": "I look.", "tool_calls": [call.model_dump()]}
        messages = [*said("where"), handed, {"role": "tool", "tool_call_id": call.id, "content": "here"}]
        found = []
        for _ in range(2):  # the second is a retry
            if stream_:
                with_usage = {"stream": True, "stream_options": {"include_usage": True}}
                response = await client.chat.completions.create(messages=messages, **with_usage, **options)
                chunks = [one async for one in response]
                found.append("".join(one.choices[0].delta.content or "" for one in chunks if one.choices))
                assert chunks[0].choices[0].delta.role == "assistant"
                assert chunks[0].id != first.id
            else:
                whole = await client.chat.completions.create(messages=messages, **options)
                found.append(whole.choices[0].message.content)
                assert whole.id != first.id
        assert found == ["You are here"] * 2
        assert program.offered[asked:] == [["pay", "locate"]] * 2, "the run that goes on has the same tools"
        turns = await program.chats.history(f"k{stream_}")
        assert turns is not None
        assert turns[-1].visits == 2, "a retry is no visit"
        messages[-1]["content"] = "elsewhere"
        with pytest.raises(openai.ConflictError) as refused:
            await client.chat.completions.create(messages=messages, **options)
        assert refused.value.code == "decided"


async def test_an_old_result_answers_no_later_call_and_one_of_a_dead_process_goes_on_in_another(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    client, options = program.client("/k"), {"model": "m", "tools": [LOCATE]}

    async def answered(client: Any, messages: list[Any], result: str) -> Any:
        call = {"id": shown[-1], "type": "function", "function": {"name": "locate", "arguments": "{}"}}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": shown[-1], "content": result},
        ]
        return (await client.chat.completions.create(messages=messages, **options)).choices[0].message

    messages = said("where")
    first = await client.chat.completions.create(messages=messages, **options)
    shown = [first.choices[0].message.tool_calls[0].id]
    second = await answered(client, messages, "nowhere")
    shown.append(second.tool_calls[0].id)
    assert shown == ["c1", "c1@1"]
    with pytest.raises(openai.ConflictError):  # the first request, late
        await client.chat.completions.create(messages=messages, **options)
    assert len(program.asked) == 2

    page = Page(program.app, authorization="Bearer ann")
    late = {"role": "tool", "tool_call_id": "c1@1", "content": "slow"}
    body = {"messages": [*messages, {"role": "assistant", "content": ""}, late], "stream": True, **options}
    await page.ask("POST", "/k/v1/chat/completions", body, leave=lambda answer: b"assistant" in answer.body)
    await program.chats.aclose()
    other = Program(tmp_path / "chats.db")
    other.held.set()
    assert (await answered(other.client("/k"), messages, "slow")).content == "ab"
    assert (await other.client("/k").chat.completions.create(messages=messages, **options)).choices[
        0
    ].message.content == "ab"
    assert len(other.asked) == 1


async def test_what_cannot_be_answered_is_an_error_of_the_openai_client(program: Program) -> None:
    client = program.client("/k")
    bad: Any = {**LOCATE, "function": {"name": "locate", "parameters": {"type": 3}}}
    large = {"type": "object", "description": "a" * 200_000}
    big: Any = [{"type": "function", "function": {"name": f"t{at}", "parameters": large}} for at in range(6)]
    forged = [*said("you"), {"role": "assistant", "content": ""}, {"role": "tool", "tool_call_id": "c", "content": ""}]
    cases: list[tuple[Any, dict[str, Any], type[openai.APIStatusError], str]] = [
        (client, {"n": 2}, openai.BadRequestError, "bad_request"),
        (client, {"tools": [bad]}, openai.BadRequestError, "bad_request"),
        (client, {"tools": big}, openai.APIStatusError, "bad_request"),
        (client, {"messages": forged}, openai.ConflictError, "nothing_waits"),
        (program.client("/k", key="bob"), {}, openai.PermissionDeniedError, "forbidden"),
        (program.client("/" + "k" * 300), {}, openai.BadRequestError, "bad_id"),
    ]
    for one, changed, kind, code in cases:
        with pytest.raises(kind) as refused:
            await one.chat.completions.create(**{"model": "m", "messages": said("you"), **changed})
        assert (refused.value.code, refused.value.type) == (code, "invalid_request_error"), changed.keys()
        assert refused.value.message
    assert program.asked == []
    assert await program.chats.history("k") is None
    # A client's tool takes no name of the program's.
    pay: Any = {"type": "function", "function": {"name": "pay", "parameters": {"type": "object"}}}
    with pytest.raises(openai.InternalServerError, match="the run failed"):
        await program.client("/other").chat.completions.create(model="m", messages=said("pay"), tools=[pay])
    assert program.asked == []
    # No word of this protocol lets a person decide.
    for stream_ in (True, False):
        with pytest.raises(openai.APIError, match="waited for a person") as waits:
            made = await client.chat.completions.create(model="m", messages=said("pay"), stream=stream_)
            async for _ in made:
                pass
        assert waits.value.code == "suspended"
    with pytest.raises(openai.ConflictError) as busy:
        await client.chat.completions.create(model="m", messages=said("pay", "more"))
    assert busy.value.code == "waiting"
    assert len(program.asked) == 1
