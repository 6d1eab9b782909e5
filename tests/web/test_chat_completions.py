"""Runs as Chat Completions, read by the openai package itself."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import openai
import pytest
from shown_runs import CHAT, CLIENT_TOOL, Visit, fed, responses, shown_runs, text_of
from streams import chat, stream

from streamtools import AgentLoop, CallAnswer, agent_loop, tool
from streamtools.dispatch.store import MemoryStore
from streamtools.errors import BadRequest
from streamtools.events import RefusalDelta, StepStart
from streamtools.integrations import EventStreamResponse
from streamtools.web.chat_completions import ChatCompletions
from streamtools.web.chat_requests import read_chat_request
from streamtools.web.client_input import UserFile, UserText, to_wire
from streamtools.web.encoding import framed

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
FAILS = {"error", "interrupted"}
FINISHES = {"length": "length", "filter": "content_filter", "max steps": "length"}


def client_of(body: bytes, *, kind: str = "text/event-stream", status: int = 200) -> openai.OpenAI:
    def answer(_: Any) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers={"content-type": kind})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://agent", http_client=transport, max_retries=0)


def encoder_after(before: Visit, **options: Any) -> ChatCompletions:
    encoder = ChatCompletions("m", **options)
    for event in before:
        encoder(event)
    return encoder


def test_the_openai_client_reads_every_run_streamed_and_whole() -> None:
    told: dict[str, list[str]] = {}
    for name, before, visit in responses(shown_runs()):
        end = visit[-1]
        body = b"".join(map(framed, fed(encoder_after(before, include_usage=True), visit)))
        whole = encoder_after(before).whole(visit)
        status = 500 if "error" in whole else 200
        plain = client_of(json.dumps(whole).encode(), kind="application/json", status=status)
        waits = name.rstrip(" 1") in ("approved", "denied", "undecided", "a question", "answered later")
        if end.outcome in FAILS or (end.outcome == "suspended" and waits):  # type: ignore[union-attr]
            with pytest.raises(openai.APIError) as streamed:
                list(client_of(body).chat.completions.create(**ASKED, stream=True))
            with pytest.raises(openai.InternalServerError):
                plain.chat.completions.create(**ASKED)
            told.setdefault(name.rstrip(" 0123456789"), []).append(streamed.value.message)
            continue
        with client_of(body).chat.completions.stream(**ASKED) as stream:
            for _ in stream:  # `until_done` would raise where the finish reason is `length`
                pass
            found = stream.current_completion_snapshot
        again = plain.chat.completions.create(**ASKED)
        assert again.id == found.id
        (one,), (other,) = found.choices, again.choices
        assert (one.message.content or None, one.finish_reason) == (other.message.content, other.finish_reason), name
        if name not in ("crashed, with a gap", "contradicted"):  # where the deltas are not the whole truth
            assert (one.message.content or "") == text_of(visit), name
        assert (other.message.refusal or "") == text_of(visit, RefusalDelta, "")
        assert one.finish_reason == ("tool_calls" if other.message.tool_calls else FINISHES.get(name, "stop"))
        assert found.usage == again.usage, name
        told.setdefault(name.rstrip(" 0123456789"), []).append(
            str([call.id for call in other.message.tool_calls or ()])
        )
    assert told["answered by the client, ids recurring"] == ["['a']", "['a@1', 'c']", "[]"]
    assert told["a client's call beside an approval"] == ["['a']", "[]"]
    assert told["undecided"] == ["the run was left while calls waited for a person"]
    assert told["broken"] == ["the run failed: stream truncated"]
    assert len(told) == len(shown_runs())


def test_calls_for_the_client_have_their_arguments_and_ids_of_their_own() -> None:
    first, second, _ = shown_runs()["answered by the client, ids recurring"]
    whole = encoder_after(first, tools=[CLIENT_TOOL]).whole(second)
    calls = [call["function"] for call in whole["choices"][0]["message"]["tool_calls"]]
    assert [json.loads(call["arguments"]) for call in calls] == [
        {"question": "2", "due": "2026-01-01"},
        {"question": "é\ufffd", "due": "2026-01-01"},
    ]
    assert "tool_calls" not in str(fed(ChatCompletions("m", tools=["another"]), first))
    assert whole["id"] != ChatCompletions("m").whole(first)["id"]
    assert ChatCompletions("m", id="x").whole(first)["id"] == "x"


def test_reasoning_and_tokens_are_there_on_request() -> None:
    (visit,) = shown_runs()["reasoning"]
    message = ChatCompletions("m", reasoning=True).whole(visit)["choices"][0]["message"]
    assert message["reasoning_content"] == "Hm, so\n\nAnd"
    assert "reasoning_content" not in str(fed(ChatCompletions("m"), visit))
    assert "usage" not in str(fed(ChatCompletions("m"), visit))
    usage = ChatCompletions("m").whole(visit)["usage"]
    assert (usage["prompt_tokens"], usage["total_tokens"]) == (14, 20)
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 4}
    # Tokens of an attempt that was discarded were used, too.
    assert ChatCompletions("m").whole(shown_runs()["crashed, with a gap"][0])["usage"]["total_tokens"] == 6
    assert "usage" not in ChatCompletions("m").whole(shown_runs()["contradicted"][0])


def test_what_follows_a_text_that_cannot_be_taken_back_is_set_apart() -> None:
    (visit,) = shown_runs()["crashed, with a gap"]
    assert ChatCompletions("m", between=" | ").whole(visit)["choices"][0]["message"]["content"] == "Ha | Whole"
    assert StepStart in map(type, visit)


# -- requests ----------------------------------------------------------------------------------------------------------

TOOL = {"type": "function", "function": {"name": "choose", "parameters": {"type": "object"}, "strict": True}}
HISTORY: list[dict[str, Any]] = [
    {"role": "system", "content": "Obey."},
    {"role": "user", "content": "Before"},
    {"role": "assistant", "content": "forged", "tool_calls": []},
    {"role": "tool", "tool_call_id": "a@1", "content": [{"type": "text", "text": "B"}, {"type": "text", "text": "!"}]},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Now"},
            {"type": "image_url", "image_url": {"url": "https://a.example/x"}},
        ],
    },
]


def test_a_request_of_the_openai_client_is_read_up_to_what_is_new() -> None:
    sent: list[bytes] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        sent.append(request.read())
        return httpx2.Response(200, content=b"data: [DONE]\n\n", headers={"content-type": "text/event-stream"})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    client: Any = openai.OpenAI(api_key="none", base_url="http://agent", http_client=transport)
    options = {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "tools": [TOOL]}
    client.chat.completions.create(model="m", messages=HISTORY, **options)
    read = read_chat_request(sent[0])
    assert read == read_chat_request(json.loads(sent[0])) == read_chat_request(sent[0])
    assert (read.model, read.stream, read.include_usage) == ("m", True, True)
    (message,) = read.messages
    assert message.parts == (UserText("Now"), UserFile(media_type="image", url="https://a.example/x"))
    assert [(one.call_id, one.value) for one in read.results] == [("a@1", "B!")]
    assert [(one.name, one.parameters) for one in read.tools] == [("choose", {"type": "object"})]
    given = read.as_input("chat")
    assert (given.chat_id, given.trigger, given.message, given.results) == ("chat", "submit", message, read.results)
    assert read_chat_request({"model": "m", "messages": HISTORY[:-1]}).as_input("chat").trigger == "resume"
    first = read_chat_request({**ASKED, "tools": [TOOL], "tool_choice": "none", "stream_options": None})
    assert (first.messages[0].parts, first.tools, first.stream) == ((UserText("Go."),), (), False)
    assert first.messages[0].id != message.id
    assert "Go." not in repr(first)
    document = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
    sound = {"data": "AAAA", "format": "wav"}
    media = [{"type": "input_audio", "input_audio": sound}, {"type": "file", "file": document}]
    parts = read_chat_request({"model": "m", "messages": [{"role": "user", "content": media}]}).messages[0].parts
    assert [(one.media_type, one.filename) for one in parts if isinstance(one, UserFile)] == [
        ("audio/wav", None),
        ("application/pdf", "a.pdf"),
    ]


def test_a_request_that_cannot_be_served_is_refused_by_place_and_problem_without_its_values() -> None:
    secret = {"role": "user", "content": "secret"}
    tool_result = {"role": "tool", "tool_call_id": "secret", "content": "x"}

    def asking(**fields: Any) -> dict[str, Any]:
        return {"model": "m", "messages": [secret], **fields}

    def saying(*messages: Any) -> dict[str, Any]:
        return asking(messages=[*messages])

    def given(**function: Any) -> dict[str, Any]:
        return asking(tools=[{"type": "function", "function": function}])

    cases: list[tuple[Any, str]] = [
        (b"secret", "the body is not JSON"),
        (b"[]", "expected an object, got a list"),
        (b"[" * 100_000, "nested too deeply"),
        (asking(x="y" * 1000), "too large (max_bytes=900)"),
        (asking(model=None), "model: is missing"),
        (asking(n=2), "n: expected 1"),
        (asking(stream="yes"), "stream: expected true or false, got text"),
        (asking(stream=True, stream_options={"include_usage": 1}), "stream_options.include_usage: expected true"),
        ({"model": "m"}, "messages: is missing"),
        (saying(), "messages: expected a message of the user's"),
        (saying(secret, {"role": "assistant", "content": "x"}), "messages: expected a message of the user's"),
        (saying({"role": "secret"}), "messages[0].role: expected one of"),
        (saying(secret, "x"), "messages[1]: expected an object, got text"),
        (saying({"role": "user"}), "messages[0].content: is missing"),
        (saying({"role": "user", "content": " "}), "messages[0]: the message says nothing"),
        (saying({"role": "user", "content": [{}]}), "messages[0].content[0].type: is missing"),
        (saying({"role": "tool", "content": "x"}), "messages[0].tool_call_id: is missing"),
        (saying(tool_result, tool_result), "messages[1].tool_call_id: the same id stands there twice"),
        (saying({**tool_result, "content": [{"type": "image_url"}]}), ".content[0].type: expected one of text"),
        (asking(tools=[{"type": "custom"}]), "tools[0].type: expected one of function"),
        (asking(tools=[TOOL] * 129), "max_tools=128"),
        (given(name="a\nb"), "tools[0].function.name: expected a name of printable"),
        (given(name="a", parameters=[]), "tools[0].function.parameters: expected an object, got a list"),
        (asking(tools=[TOOL, TOOL]), "tools[1].function.name: the same id stands there twice"),
    ]
    for body, words in cases:
        with pytest.raises(BadRequest) as refused:
            read_chat_request(body, max_bytes=900 if "max_bytes" in words else 1 << 20)
        assert words in str(refused.value)
        assert "secret" not in str(refused.value)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # openai leaves generators open, at which trio warns
async def test_a_client_runs_its_tool_in_the_middle_of_a_run_and_the_answer_goes_on() -> None:
    """The whole way: requests of the client, responses of one run in two visits."""

    @tool(name=CLIENT_TOOL, external=True, rests=True)
    def choose(question: str) -> str:
        """Ask the user."""
        raise AssertionError("nothing here runs it")

    class Logged(ChatCompletions):
        def __call__(self, event: Any, /) -> Any:
            shown.append(event)
            return super().__call__(event)

    bodies = [chat(["Wait. "], [("a", CLIENT_TOOL, '{"question": "Which?"}')]), chat(["Rome it is."], finish="stop")]
    shown: Visit = []
    runs: list[AgentLoop] = []
    store = MemoryStore()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked = read_chat_request((await receive())["body"])
        options: dict[str, Any] = {"messages": to_wire(asked.messages[0], CHAT)} if asked.messages else {}
        if runs:
            before, given = runs[-1], {one.call_id: one.value for one in asked.results}
            assert before.suspended is not None
            answers = [CallAnswer.to(call, given[call.call_id]) for call in before.suspended.calls]
            options = {"messages": before.messages, "suspended": before.suspended, "answers": answers}
        run = agent_loop(lambda *_: stream(bodies.pop(0)), tools=[choose], wire=CHAT, store=store, **options)
        runs.append(run)
        encoder = Logged("m")
        for event in shown[:]:
            ChatCompletions.__call__(encoder, event)
        await EventStreamResponse(run, encode=encoder)(scope, receive, send)

    transport = httpx2.AsyncClient(transport=httpx2.ASGITransport(app))
    client: Any = openai.AsyncOpenAI(api_key="none", base_url="http://agent", http_client=transport)
    messages: list[Any] = [{"role": "user", "content": "Where?"}]
    async with client.chat.completions.stream(model="m", messages=messages, tools=[TOOL]) as answer:
        first = (await answer.get_final_completion()).choices[0].message
    assert (first.content, [call.id for call in first.tool_calls]) == ("Wait. ", ["a"])
    messages += [first.to_dict(), {"role": "tool", "tool_call_id": "a", "content": "Rome"}]
    async with client.chat.completions.stream(model="m", messages=messages, tools=[TOOL]) as answer:
        second = (await answer.get_final_completion()).choices[0].message
    assert (second.content, second.tool_calls) == ("Rome it is.", None)
    assert [one["content"] for one in runs[-1].messages if one["role"] == "tool"] == ["Rome"]
