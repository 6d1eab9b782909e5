"""What holds for every encoder: it is pure, it can be cut at every event, and its frames can be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest
from asgi_client import Client
from shown_runs import CLIENT_TOOL, Shown, fed, random_runs, shown_runs
from streams import chat, stream

from streamtools import agent_loop, pipeline
from streamtools.events import EventBase, TextDelta
from streamtools.integrations import EventStreamResponse
from streamtools.web.ag_ui import AGUI
from streamtools.web.chat_completions import ChatCompletions
from streamtools.web.encoding import Encoder, framed
from streamtools.web.own import OwnEvents
from streamtools.web.plain_text import PlainText
from streamtools.web.ui_messages import UIMessages

ENCODERS: list[Callable[[], Encoder]] = [
    OwnEvents,
    PlainText,
    lambda: AGUI(thread_id="t"),
    lambda: AGUI(thread_id="t", run_id="r", answered=["a"]),
    lambda: ChatCompletions("m"),
    UIMessages,
    lambda: UIMessages(version=6, message_id="m"),
    lambda: ChatCompletions("m", include_usage=True, reasoning=True, tools=[CLIENT_TOOL]),
]


def written(frames: Any) -> bytes:
    return b"".join(map(framed, frames))


class Other(EventBase):
    """An event that no encoder knows."""


def test_an_encoder_that_was_fed_silently_goes_on_with_the_same_bytes() -> None:
    """At every event of every run, in one response and over several."""
    for make in ENCODERS:
        for name, visits in {**shown_runs(), **random_runs(20)}.items():
            events = [event for visit in visits for event in visit]
            first = make()
            frames = [written(first.begin()), *(written(first(event)) for event in events)]
            for cut in range(len(events) + 1):
                again = make()
                again.begin()
                for event in events[:cut]:
                    again(event)
                rest = [written(again(event)) for event in [Other(), *events[cut:]]]
                assert rest == [b"", *frames[cut + 1 :]], (name, cut)


def test_a_response_that_begins_later_has_a_head_and_only_what_is_new() -> None:
    for make in ENCODERS:
        for name, visits in shown_runs().items():
            shown: list[Shown] = []
            for visit in visits:
                encoder = make()
                for event in shown:
                    encoder(event)
                frames = fed(encoder, visit)
                texts = "".join(str(frame[1] if isinstance(frame, tuple) else frame.decode()) for frame in frames)
                for event in shown:
                    assert not isinstance(event, TextDelta) or event.text not in texts, name
                shown += visit


def test_every_encoder_is_one_and_shows_no_exception_and_no_state_of_a_provider() -> None:
    for make in ENCODERS:
        assert isinstance(make(), Encoder)
        for name, visits in shown_runs().items():
            for visit in visits:
                assert b"secret" not in written(fed(make(), visit)), name


@pytest.mark.anyio
async def test_a_response_has_the_headers_and_the_head_of_its_encoder_and_no_comments_in_a_text() -> None:
    async def slow() -> Any:
        for item in chat(["Hi ", "you"], finish="stop"):
            await anyio.sleep(0.01)
            yield item

    client = Client()
    await client.request(EventStreamResponse(pipeline(slow()), encode=PlainText(), heartbeat=0.001))
    assert client.body == b"Hi you"
    assert client.start is not None
    assert (b"content-type", b"text/plain; charset=utf-8") in client.start["headers"]
    client = Client()
    body = chat(["Hi"], finish="stop")
    run = agent_loop(lambda *_: stream(body), [], wire="openai.chat_completions")
    await client.request(EventStreamResponse(run, encode=ChatCompletions("m"), headers={"x-a": "b"}))
    assert client.body.endswith(b"data: [DONE]\n\n")
    assert client.start is not None
    assert {(b"x-a", b"b"), (b"cache-control", b"no-cache, no-transform")} <= {*client.start["headers"]}


def test_a_plain_text_is_the_answer_and_the_words_of_an_end_that_is_none() -> None:
    cases = {
        "text": ["Done."],
        "three steps": ["Let me see.\r\n\n\nTwo: \U0001f600\u2028é."],
        "refusal": ["I cannot."],
        "silence": [""],
        "denied": ["Well. \n\n[the run was left while calls waited for a person]\n", "Done."],
        "broken": ["Half\n\n[the run failed: stream truncated]\n"],
        "refused": ["[the run failed: internal error]\n"],
        "max steps": ["Well. \n\n[the run would have gone on, with results, thoughts or a message]\n"],
        "crashed, with a gap": ["Ha\n\nWhole"],
        "contradicted": ["ByeNo."],
        "an answer without a word": [""],
    }
    for name, texts in cases.items():
        encoder = PlainText()
        assert [written(fed(encoder, visit)).decode() for visit in shown_runs()[name]] == texts, name
    assert written(fed(PlainText(between=" "), shown_runs()["crashed, with a gap"][0])) == b"Ha Whole"
