"""Runs as Chat Completions, read by the openai package itself."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx2
import openai
import pytest
from shown_runs import CLIENT_TOOL, Shown, Visit, fed, shown_runs

from streamtools.events import RefusalDelta, StepStart, TextDelta
from streamtools.pipelines.held import HeldBack
from streamtools.web.chat_completions import ChatCompletions
from streamtools.web.chat_requests import read_chat_request
from streamtools.web.encoding import framed

ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "Go."}]}
FAILS = {"error", "interrupted"}
FINISHES = {"length": "length", "filter": "content_filter", "max steps": "length"}


def client_of(body: bytes, *, kind: str = "text/event-stream", status: int = 200) -> openai.OpenAI:
    def answer(_: Any) -> httpx2.Response:
        return httpx2.Response(status, content=body, headers={"content-type": kind})

    transport = httpx2.Client(transport=httpx2.MockTransport(answer))
    return openai.OpenAI(api_key="none", base_url="http://agent", http_client=transport, max_retries=0)


def texts_of(visit: Iterable[Shown], kind: type = TextDelta) -> str:
    steps: dict[int, list[str]] = {}
    for event in visit:
        if isinstance(event, kind):
            steps.setdefault(event.step, []).append(event.text)  # type: ignore[attr-defined]
    return "\n\n".join(map("".join, steps.values()))


def responses() -> Iterable[tuple[str, Visit, Visit]]:
    """Each response with the events before it."""
    for name, visits in shown_runs().items():
        before: Visit = []
        for visit in visits:
            if name == "retried":  # as a reader holds it back
                held = HeldBack()
                *events, end = visit
                visit = [*(one for event in events for one in held.feed(event)), end]  # type: ignore[arg-type]
            yield name, before, visit
            before = [*before, *visit]


def encoder_after(before: Visit, **options: Any) -> ChatCompletions:
    encoder = ChatCompletions("m", **options)
    for event in before:
        encoder(event)
    return encoder


def test_the_openai_client_reads_every_run_streamed_and_whole() -> None:
    told: dict[str, list[str]] = {}
    for name, before, visit in responses():
        end = visit[-1]
        body = b"".join(map(framed, fed(encoder_after(before, include_usage=True), visit)))
        whole = encoder_after(before).whole(visit)
        status = 500 if "error" in whole else 200
        plain = client_of(json.dumps(whole).encode(), kind="application/json", status=status)
        waits = name in ("approved", "denied", "undecided", "a question", "answered later")
        if end.outcome in FAILS or (end.outcome == "suspended" and waits):  # type: ignore[union-attr]
            with pytest.raises(openai.APIError) as streamed:
                list(client_of(body).chat.completions.create(**ASKED, stream=True))
            with pytest.raises(openai.InternalServerError):
                plain.chat.completions.create(**ASKED)
            told.setdefault(name, []).append(streamed.value.message)
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
            assert (one.message.content or "") == texts_of(visit), name
        assert (other.message.refusal or "") == texts_of(visit, RefusalDelta)
        assert one.finish_reason == ("tool_calls" if other.message.tool_calls else FINISHES.get(name, "stop"))
        assert found.usage == again.usage, name
        told.setdefault(name, []).append(str([call.id for call in other.message.tool_calls or ()]))
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
    {"role": "user", "content": [{"type": "text", "text": "Now"}, {"type": "image_url", "image_url": {"url": "x"}}]},
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
    assert read == read_chat_request(json.loads(sent[0]))
    assert (read.model, read.stream, read.include_usage) == ("m", True, True)
    assert read.messages == (HISTORY[-1],)
    assert [(one.call_id, one.content) for one in read.results] == [("a@1", "B!")]
    assert [(one.name, one.parameters) for one in read.tools] == [("choose", {"type": "object"})]
    first = read_chat_request({**ASKED, "tools": [TOOL], "tool_choice": "none", "stream_options": None})
    assert (first.messages, first.tools, first.stream) == (({"role": "user", "content": "Go."},), (), False)
    assert "Go." not in repr(first)


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
        (b"secret", "the body: expected JSON"),
        (b"[]", "the body: expected an object, got a list"),
        (b"[" * 100_000, "the body: expected JSON"),
        (asking(x="y" * 1000), "the body: expected at most max_bytes=900, got 1"),
        (asking(model=None), "model: expected text, got nothing"),
        (asking(n=2), "n: expected 1"),
        (asking(stream="yes"), "stream: expected true or false, got text"),
        (asking(stream=True, stream_options={"include_usage": 1}), "stream_options.include_usage: expected true"),
        ({"model": "m"}, "messages: expected a list, got nothing"),
        (saying(), "messages: expected the user's message"),
        (saying(secret, {"role": "assistant", "content": "x"}), "messages: expected the user's message"),
        (saying({"role": "secret"}), r"messages\[0\].role: expected user or tool"),
        (saying(secret, "x"), r"messages\[1\]: expected an object, got text"),
        (saying({"role": "user"}), r"messages\[0\].content: expected text, or a list of parts"),
        (saying({"role": "user", "content": [{}]}), r"messages\[0\].content\[0\].type: expected text, got nothing"),
        (saying({"role": "tool", "content": "x"}), r"messages\[0\].tool_call_id: expected text, got nothing"),
        (saying(tool_result, tool_result), r"messages\[1\].tool_call_id: expected another call"),
        (saying({**tool_result, "content": [{"type": "image_url"}]}), r"\.content\[0\].type: expected text, since"),
        (asking(tools=[{"type": "custom"}]), r"tools\[0\].type: expected function"),
        (given(name="no space"), r"tools\[0\].function.name: expected 1 to 64 letters"),
        (given(name="a", parameters=[]), r"tools\[0\].function.parameters: expected an object, got a list"),
        (asking(tools=[TOOL, TOOL]), r"tools\[1\].function.name: expected another name"),
    ]
    for body, words in cases:
        with pytest.raises(ValueError, match=f"^{words}" if words[0] != chr(92) else words) as refused:
            read_chat_request(body, max_bytes=900 if not isinstance(body, bytes) else 1 << 20)
        assert "secret" not in str(refused.value)
