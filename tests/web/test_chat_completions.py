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
