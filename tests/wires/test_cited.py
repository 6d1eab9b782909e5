"""Sources and files that a model names or makes, on each wire: one form for all, whatever stands in their place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from cited_answers import ANSWERS, ONE, PNG
from every_wire import framed
from sansio import byte_by_byte
from wire_cases.names import CHAT

from streamtools import Limits, StreamDecoder, Turn, parse
from streamtools.web import AGUI, OwnEvents, UIMessages
from streamtools.web.encoding import json_bytes


def read(turn: Turn) -> tuple[Any, Any]:
    files = tuple((file.mime_type, file.data) for file in turn.files)
    return tuple((source.url, source.title) for source in turn.sources), files


def test_each_wire_names_its_sources_and_files_in_the_turn_each_once() -> None:
    for name, answer in ANSWERS.items():
        turn = parse(answer.payloads, wire=answer.wire)
        assert turn.complete, name
        assert turn.error is None, name
        assert read(turn) == (answer.sources, answer.files), name
        history = json.dumps(turn.messages())
        for url, title in answer.sources:
            assert (json.dumps(url or title) in history) is answer.goes_back, name
        for _, data in answer.files:
            assert data in history, name  # the provider gets its image back
        body = framed(answer.wire, answer.payloads)
        assert read(parse(byte_by_byte(b"".join(body)), wire=answer.wire)) == (answer.sources, answer.files), name


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Each place in a value: the object or the list, and the name or the number in it."""
    for key, one in [*value.items()] if isinstance(value, dict) else [*enumerate(value)]:
        yield value, key
        if isinstance(one, (dict, list)):
            yield from places(one)


DEEP: Any = "https://deep.example"
for _ in range(300):
    DEEP = [DEEP]
ODD: tuple[Any, ...] = (
    None,
    True,
    3,
    "",
    "x",
    "https://\ud800.example",
    "https://a.example\n/",
    [],
    {},
    [3],
    {"url": 3},
    DEEP,
)


def test_whatever_stands_in_place_of_a_source_nothing_is_raised_and_only_addresses_are_shown() -> None:
    for name, answer in ANSWERS.items():
        payloads = copy.deepcopy(answer.payloads)
        for number, (holder, key) in enumerate([place for payload in payloads for place in places(payload)]):
            kept, holder[key] = holder[key], ODD[number % len(ODD)]
            decoder, encoders = StreamDecoder(wire=answer.wire), (UIMessages(), AGUI(thread_id="t"), OwnEvents())
            events = [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()
            for frame in (frame for event in events for encode in encoders for frame in encode(event)):
                json_bytes(frame[1])
            sources, files = read(parse(payloads, wire=answer.wire))
            assert all(url is None or (url.startswith("http") and url.isprintable()) for url, _ in sources), name
            assert all(data is None or data.isalnum() or data == PNG for _, data in files), name
            holder[key] = kept


def test_long_lists_and_addresses_are_bounded() -> None:
    def gemini(*chunks: dict[str, Any]) -> list[dict[str, Any]]:
        content = {"role": "model", "parts": [{"text": "a"}]}
        about = {"groundingMetadata": {"groundingChunks": list(chunks)}, "finishReason": "STOP"}
        return [{"candidates": [{"content": content, **about}]}]

    many = gemini(*({"web": {"uri": f"https://{number}.example"}} for number in range(5000)))
    assert len(parse(many).sources) == 1024
    long = gemini({"web": {"uri": "https://a.example/" + 9000 * "a"}}, {"web": {"uri": ONE, "title": 9000 * "t"}})
    assert [(one.url, len(one.title or "")) for one in parse(long).sources] == [(ONE, 1024)]
    small = parse(many, limits=Limits(max_text_bytes=2000))
    assert "max_text_bytes" in str(small.error)
    again = parse([*ANSWERS["chat's annotations"].payloads[:2]] * 2000, wire=CHAT)
    assert "max_open_blocks" in str(again.error)
