"""Runs as Chat Completions, read by the openai package itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import httpx2
import openai
import pytest
from shown_runs import CLIENT_TOOL, Visit, fed, responses, shown_runs, text_of

from streamtools.errors import BadRequest
from streamtools.events import (
    AnswerRequested,
    AttemptDiscarded,
    Observation,
    RefusalDelta,
    StepStart,
    StreamEnd,
    ToolStarted,
)
from streamtools.parts import Usage
from streamtools.web.chat_completions import ChatCompletions
from streamtools.web.chat_requests import ChatRequest, read_chat_request
from streamtools.web.client_input import ClientResult, ClientTool, UserFile, UserText
from streamtools.web.encoding import RunEnd, framed

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
FAILS = {"error", "interrupted"}
SUSPENDED = RunEnd(outcome="suspended", call_ids=("a",))
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


def test_only_calls_that_still_wait_for_the_client_are_handed_to_it() -> None:
    asked = AnswerRequested("a", CLIENT_TOOL, {}, fingerprint="f", seq=5)
    cases: list[tuple[str, list[Any], RunEnd]] = [
        ("tool_calls", [asked], SUSPENDED),
        ("suspended", [asked, Observation(call_id="a", tool_name=CLIENT_TOOL, outcome="timed_out")], SUSPENDED),
        ("suspended", [asked, ToolStarted("a", CLIENT_TOOL)], SUSPENDED),
        ("suspended", [asked, AttemptDiscarded(1, 1, "crash")], SUSPENDED),
        ("tool_calls", [asked, AttemptDiscarded(1, 6, "crash")], SUSPENDED),
        ("tool_calls", [asked, AttemptDiscarded(1, 1, "crash", step=1)], SUSPENDED),
        ("suspended", [replace(asked, question="which?")], SUSPENDED),
        ("stop", [asked], RunEnd(outcome="answered")),
        ("internal_error", [asked], RunEnd(outcome="answered", error=RuntimeError("secret"))),
    ]
    for expected, events, end in cases:
        whole = ChatCompletions("m").whole([StepStart("r"), *events, end])
        found = whole["error"]["code"] if "error" in whole else whole["choices"][0]["finish_reason"]
        assert found == expected, events
    before: Visit = [StepStart("r", seq=0), StreamEnd("length", usage=Usage(output_tokens=3), seq=1), SUSPENDED]
    later = encoder_after(before).whole([StepStart("r", seq=2), RunEnd(outcome="answered")])
    assert ("usage" in later, later["choices"][0]["finish_reason"]) == (False, "stop")


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
    found = read(sent[0])
    given, message = found.given, found.given.message
    assert (found.model, found.stream, found.include_usage) == ("m", True, True)
    assert (given.chat_id, given.trigger) == ("k", "submit")
    assert message is not None
    assert message.parts == (UserText("Now"), UserFile(media_type="image", url="https://a.example/x"))
    assert given.results == (ClientResult(call_id="a@1", value="B!"),)
    assert given.client_tools == (ClientTool(name="choose", description="", parameters={"type": "object"}),)
    first = read({**ASKED, "tools": [TOOL], "tool_choice": "none", "stream_options": None})
    assert (first.given.chat_id, first.given.client_tools, first.stream) == ("k", (), False)
    assert "Go." not in repr(first)
    resumed = read({"model": "m", "messages": HISTORY[:-1]}).given
    assert (resumed.trigger, resumed.message, resumed.results) == ("resume", None, given.results)
    document = {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}
    picture = {"url": "data:image/png;base64,AAAA", "detail": "low"}
    media = [
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
        {"type": "file", "file": document},
        {"type": "image_url", "image_url": picture},
    ]
    several = [{"role": "user", "content": "Two"}, {"role": "user", "content": media}]
    message = read({"model": "m", "messages": several}).given.message
    assert message is not None
    assert message.parts == (
        UserText("Two"),
        UserFile(media_type="audio/mpeg", url="data:audio/mpeg;base64,AAAA"),
        UserFile(media_type="application/pdf", url=document["file_data"], filename="a.pdf"),
        UserFile(media_type="image/png", url=picture["url"]),
    )
    ids = [message_id("a"), message_id("b"), message_id("a", "a"), message_id("a", "a", "a")]
    assert len(set(ids)) == 4
    assert ids == [message_id("a"), message_id("b"), message_id("forged", "a"), message_id("x", "y", "a")]


def read(asked: Any, **options: Any) -> ChatRequest:
    body = asked if isinstance(asked, bytes) else json.dumps(asked).encode()
    return read_chat_request(body, chat_id="k", **options)


def message_id(*texts: str) -> str:
    """The id of the last message of a conversation."""
    turns = [one for text in texts for one in ({"role": "user", "content": text}, {"role": "assistant"})][:-1]
    message = read({"model": "m", "messages": turns}).given.message
    assert message is not None
    return message.id


def test_a_request_that_cannot_be_served_is_refused_by_place_and_problem_without_its_values() -> None:
    secret = {"role": "user", "content": "secret"}
    file = {"type": "file", "file": {"file_id": "secret"}}
    tool_result = {"role": "tool", "tool_call_id": "secret", "content": "x"}

    def asking(**fields: Any) -> dict[str, Any]:
        return {"model": "m", "messages": [secret], **fields}

    def saying(*messages: Any) -> dict[str, Any]:
        return asking(messages=[*messages])

    def given(**function: Any) -> dict[str, Any]:
        return asking(tools=[{"type": "function", "function": function}])

    cases: list[tuple[Any, str]] = [
        (b"secret", "the body is not JSON"),
        (b"[]", "no JSON object"),
        (b"[" * 100_000, "max_depth=200"),
        (asking(x="y" * 1000), "too large (max_bytes=900)"),
        (asking(model=None), "model: "),
        (asking(n=2), "n: "),
        (asking(n=True), "n: "),
        (asking(stream="yes"), "stream: "),
        (asking(stream=True, stream_options={"include_usage": 1}), "stream_options.include_usage: "),
        ({"model": "m"}, "messages: "),
        (saying(), "messages: expected a message of the user's"),
        (saying(secret, {"role": "assistant", "content": "x"}), "messages: expected a message of the user's"),
        (saying({"role": "secret"}), "messages[0].role: "),
        (saying(secret, "x"), "messages[1]: "),
        (saying({"role": "user"}), "messages[0].content: "),
        (saying({"role": "user", "content": " "}), "messages[0]: the message says nothing"),
        (saying({"role": "user", "content": [{}]}), "messages[0].content[0]: "),
        (saying({"role": "user", "content": [file]}), "messages[0].content[0].file: "),
        (saying({"role": "tool", "content": "x"}), "messages[0].tool_call_id: "),
        (saying(tool_result, tool_result), "messages: the same id stands there twice"),
        (saying({**tool_result, "content": [{"type": "image_url"}]}), ".content[0].type: "),
        (asking(tools=[{"type": "custom"}]), "tools[0].type: "),
        (asking(tools=[TOOL] * 129), "max_length=128"),
        (given(name="a\nb"), "tools[0].function.name: "),
        (given(name="a", parameters=[]), "tools[0].function.parameters: "),
        (asking(tools=[TOOL, TOOL]), "tools: the same id stands there twice"),
    ]
    for body, words in cases:
        with pytest.raises(BadRequest) as refused:
            read(body, max_bytes=900 if "max_bytes" in words else 1 << 20)
        assert words in str(refused.value)
        assert "secret" not in str(refused.value)
