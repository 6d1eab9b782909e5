"""Sources that a model names: pages get each once, in the stream as in the finished messages."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from chat_client import Page
from cited_answers import ANSWERS, PNG, CitedAnswer
from every_wire import framed
from profiles import FULL
from streams import stream
from test_chat_app import said

from streamtools import StreamDecoder, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.durable.records import DeletePrefix
from streamtools.events import StepEnd, StepStart
from streamtools.privacy import Privacy, Redact, redact_secrets
from streamtools.web import AGUI, Chats
from streamtools.web.encoding import RunEnd

WIRE = "anthropic.messages"
ONE, TWO = "https://one.example/", "https://two.example/"
SEARCHED = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [
    {"type": "web_search_result", "url": ONE, "title": "One", "encrypted_content": "SECRET"}]}  # fmt: skip

QUICK = dict([*ANSWERS.items()][:: 1 if FULL else 3])


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


def page_of(answer: CitedAnswer, path: Path, privacy: Privacy | None = None, **options: Any) -> Page:
    def run(given: Any) -> Any:
        def ask(messages: list[Any], tools: Any) -> Any:
            return stream(framed(answer.wire, answer.payloads))

        return agent_loop(ask, given.messages(answer.wire), wire=answer.wire, **given.options)

    chats = Chats(records=path, run=run, privacy=privacy)
    return Page(chats.app(may=lambda request: True, **options))


def shown(parts: list[Any]) -> tuple[list[Any], list[Any]]:
    """The sources and files among chunks, or parts of a message."""
    named = [(one.get("url"), one.get("title")) for one in sources(parts)]
    files = [one for one in parts if one != "[DONE]" and one["type"] == "file"]
    return named, [(one["mediaType"], one["url"]) for one in files]


@pytest.mark.anyio
async def test_pages_have_the_sources_and_files_of_every_wire_in_the_stream_and_when_the_log_is_gone(
    tmp_path: Path,
) -> None:
    for number, (name, answer) in enumerate(QUICK.items()):
        wanted = [*answer.sources], [(type, f"data:{type};base64,{data}") for type, data in answer.files]
        page = page_of(answer, tmp_path / f"{number}.db")
        streamed = await page.ask("POST", "/", said("who says so?"))
        assert shown(streamed.chunks) == wanted, name
        own = await page.ask("GET", "/k/events", last_event_id="1.0")
        files = [one for frame in own.chunks for one in frame.get("files", ())]
        assert files == [{"media_type": type, "url": url} for type, url in wanted[1]], name
        named = {one.get("url") or one["title"] for frame in own.chunks for one in frame.get("sources", ())}
        assert named == {url or title for url, title in answer.sources}, name
        for _ in range(2):  # and when its log has dropped
            loaded = (await page.ask("GET", "/k")).json["messages"][1]["parts"]
            assert shown(loaded) == wanted, name
            ids = [one["sourceId"] for one in sources(loaded)]
            assert sorted(ids) == sorted(one["sourceId"] for one in sources(streamed.chunks)), name
            with SqliteStore(tmp_path / f"{number}.db") as store:
                await store.records.commit(DeletePrefix(("log",)))
        assert b"SECRET" not in streamed.body + own.body, name


@pytest.mark.anyio
async def test_a_policy_that_cannot_read_an_image_lets_none_leave(tmp_path: Path) -> None:
    policies: dict[str, Redact] = {"plain": lambda text: text.replace("One", "***"), "shapes": redact_secrets()}
    for number, (name, answer) in enumerate(QUICK.items()):
        for policy, redact in policies.items():
            page = page_of(answer, tmp_path / f"{policy}{number}.db", Privacy(redact=redact))
            streamed = await page.ask("POST", "/", said("who says so?"))
            loaded = await page.ask("GET", "/k")
            own = await page.ask("GET", "/k/events", last_event_id="1.0")
            named, files = shown(streamed.chunks)
            assert shown(loaded.json["messages"][1]["parts"]) == (named, files), name
            assert len(named) == len(answer.sources), name
            assert len(files) == (len(answer.files) if policy == "shapes" else 0), name
            if policy == "plain":
                bodies = streamed.body + own.body + loaded.body
                assert not any(one.encode() in bodies for one in (PNG, "AAAA", '"One"')), name
    # The bytes are judged: in base64 a secret does not look like one, and other bytes may.
    key = b64encode(b"\xff\x00 sk-abcdefghijklmnopqrst \xff").decode()
    other = "A" * 67 + "+eyJwMJVJrneVKjVksWGWXwABL8pb5qGJ"
    assert "[token]" in redact_secrets()(other)
    for number, (name, answer) in enumerate(QUICK.items()):
        for data in (key, other) if answer.files else ():
            made = replace(answer, payloads=json.loads(json.dumps(answer.payloads).replace(PNG, data)))
            page = page_of(made, tmp_path / f"{len(data)}-{number}.db", Privacy(redact=redact_secrets()))
            streamed = shown((await page.ask("POST", "/", said("who says so?"))).chunks)
            assert streamed == shown((await page.ask("GET", "/k")).json["messages"][1]["parts"]), name
            assert len(streamed[1]) == (len(answer.files) if data is other else 0), name


def parsed(answer: CitedAnswer) -> list[Any]:
    """The events of an answer, as the log has them."""
    decoder = StreamDecoder(wire=answer.wire)
    events = [event for payload in answer.payloads for event in decoder.feed(payload)] + decoder.finish()
    return [replace(event, seq=seq) for seq, event in enumerate([StepStart("r"), *events, StepEnd("complete")])]


def test_ag_uis_clients_are_told_of_sources_and_files_by_custom_events() -> None:
    for name, answer in ANSWERS.items():
        encoder = AGUI(thread_id="t", run_id="r")
        events = [*parsed(answer), *parsed(answer), RunEnd(outcome="answered")]
        frames = [*encoder.begin(), *(frame for event in events for frame in encoder(event))]
        sent: list[Any] = [data for _, data in frames]
        custom = [(data["name"], data["value"]) for data in sent if data["type"] == "CUSTOM"]
        named = [(one.get("url"), one.get("title")) for kind, one in custom if kind == "source"]
        assert named == [*answer.sources], name
        files = [(one["mimeType"], one["url"]) for kind, one in custom if kind == "file"]
        assert files == 2 * [(type, f"data:{type};base64,{data}") for type, data in answer.files], name
