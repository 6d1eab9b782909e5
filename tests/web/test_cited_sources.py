"""Sources that a model names: pages get each once, in the stream as in the finished messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from chat_client import Page
from streams import stream
from test_chat_app import said

from streamtools import agent_loop, tool
from streamtools.events import AttemptDiscarded, StepEnd, StepStart, TextDelta, TextEnd, TextStart
from streamtools.privacy import Privacy
from streamtools.web import Chats, UIMessages

WIRE = "anthropic.messages"
ONE, TWO = "https://one.example/", "https://two.example/"
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
    {"type": "web_search_result", "url": ONE, "title": "One", "encrypted_content": "SECRET"}]}  # fmt: skip


def cited(url: str, title: str) -> dict[str, Any]:
    return {"type": "web_search_result_location", "url": url, "title": title, "encrypted_index": "SECRET"}


def answer(*blocks: tuple[dict[str, Any], list[dict[str, Any]]], stop: str) -> Any:
    head = {"id": f"msg-{stop}", "type": "message", "role": "assistant", "content": [], "model": "m", "usage": {}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": head}]
    for index, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {}}, {"type": "message_stop"}]
    return stream([f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events])


def text(words: str, *citations: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    deltas = [{"type": "citations_delta", "citation": one} for one in citations]
    return {"type": "text", "text": ""}, [{"type": "text_delta", "text": words}, *deltas]


def app_of(path: Path, privacy: Privacy | None = None, **options: Any) -> Page:
    @tool(effect="pure")
    def look() -> str:
        """Looks."""
        return "seen"

    def ask(messages: list[Any], tools: Any) -> Any:
        if len(messages) == 1:
            search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
            call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
            first = text("As One says,", cited(ONE, "One"), cited(TWO, "Two"), cited("javascript:alert(1)", "X"))
            return answer((search, []), (SEARCHED, []), first, (call, []), stop="tool_use")
        page = {"type": "page_location", "document_title": "A book", "document_index": 0, "start_page_number": 1}
        return answer(text("Two and a book say so.", cited(TWO, "Two"), page, page), stop="end_turn")

    def run(given: Any) -> Any:
        return agent_loop(ask, given.messages(WIRE), tools=[look], wire=WIRE, **given.options)

    return Page(Chats(journal=path, run=run, privacy=privacy).app(may=lambda request: True, **options))


EXPECTED = [
    {"type": "source-url", "sourceId": "0.0", "url": ONE, "title": "One"},
    {"type": "source-url", "sourceId": "0.1", "url": TWO, "title": "Two"},
    {"type": "source-document", "sourceId": "1.0", "mediaType": "application/pdf", "title": "A book"},
]


def sources(parts: list[Any]) -> list[Any]:
    return [one for one in parts if one != "[DONE]" and one["type"].startswith("source-")]


@pytest.mark.anyio
async def test_each_source_is_shown_once_in_the_stream_and_in_the_finished_messages(tmp_path: Path) -> None:
    for version in (7, 6):
        page = app_of(tmp_path / f"{version}.db", ai_version=version)
        streamed = await page.ask("POST", "/", said("who says so?"))
        again = await page.ask("POST", "/", said("who says so?"))  # from the log
        loaded = (await page.ask("GET", "/k")).json["messages"][1]["parts"]
        assert sources(streamed.chunks) == sources(again.chunks) == sources(loaded) == EXPECTED
        kinds = [one["type"] for one in loaded if not one["type"].startswith("tool-")]
        assert kinds == ["step-start", "source-url", "text", "source-url", "step-start", "text", "source-document"]
        own = await page.ask("GET", "/k/events", last_event_id="1.0")
        named = [one["sources"] for one in own.chunks if one.get("sources")]
        assert named == [
            [{"url": ONE, "title": "One"}],  # of the search
            [{"url": ONE, "title": "One"}, {"url": TWO, "title": "Two"}],
            [{"url": TWO, "title": "Two"}, {"title": "A book"}],
        ]
        assert b"SECRET" not in streamed.body + again.body + own.body
    hidden = app_of(tmp_path / "hidden.db", Privacy(redact=lambda text: text.replace("Two", "***")))
    streamed = await hidden.ask("POST", "/", said("who says so?"))
    loaded = (await hidden.ask("GET", "/k")).json["messages"][1]["parts"]
    assert sources(streamed.chunks) == sources(loaded)
    assert [one["title"] for one in sources(loaded)] == ["One", "***", "A book"]


def test_sources_of_an_attempt_that_is_taken_back_are_named_again_and_bedrocks_are_read() -> None:
    place = {"location": {"web": {"url": ONE}}, "title": "One"}
    document = {"location": {"documentPage": {"documentIndex": 0}}, "title": "A book"}
    state = {"citations": [place, document, {"location": 3}, "other", {"title": "nothing"}]}
    text = [TextStart(seq=1), TextDelta("x", seq=2), TextEnd(provider_state=state, seq=3)]
    encoder, found = UIMessages(), list[Any]()
    for event in (StepStart("r", seq=0), *text, AttemptDiscarded(1, 1, "stream_truncated", seq=4), *text, StepEnd()):
        found += [data for _, data in encoder(event)]
    assert sources(found) == 2 * [
        {"type": "source-url", "sourceId": "0.0", "url": ONE, "title": "One"},
        {"type": "source-document", "sourceId": "0.1", "mediaType": "application/octet-stream", "title": "A book"},
    ]
