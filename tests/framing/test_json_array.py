"""A JSON array that grows: its values come out whole, however the body is cut, and in linear time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from sansio import byte_by_byte

from streamtools.errors import LimitExceeded, LocalProtocolError, RemoteProtocolError
from streamtools.framing import JSONArrayDecoder


def read(chunks: Iterable[bytes], **options: int) -> tuple[list[Any], JSONArrayDecoder]:
    decoder = JSONArrayDecoder(**options)
    values = [json.loads(payload) for chunk in chunks for payload in decoder.feed_payloads(chunk)]
    assert decoder.finish() == []
    return values, decoder


BODIES = [
    (b"[]", []),
    (b" \r\n\t[ \n] \n", []),
    (b'[{"a":1}]', [{"a": 1}]),
    (b'[{\n  "a": "]}[{"\n}\n,\r\n{\n  "b": [[1], {"c": "\\\\"}]\n}\n]\n', [{"a": "]}[{"}, {"b": [[1], {"c": "\\"}]}]),
    (b'[{"quote":"\\"","back":"\\\\","both":"\\\\\\"}"},{}]', [{"quote": '"', "back": "\\", "both": '\\"}'}, {}]),
    ('[{"é":"日本"}]'.encode(), [{"é": "日本"}]),
]


@every(("body", "values"), BODIES)
def test_values_come_out_whole_however_the_body_is_cut(body: bytes, values: list[Any]) -> None:
    for chunks in ([body], byte_by_byte(body), *([body[:at], b"", body[at:]] for at in range(len(body)))):
        found, decoder = read(chunks)
        assert found == values
        assert decoder.ended


def test_a_value_comes_out_with_its_last_byte() -> None:
    decoder = JSONArrayDecoder()
    assert decoder.feed_payloads(b'[{"a":1') == []
    assert decoder.feed_payloads(b'}\n,{"b"') == [b'{"a":1}']
    assert decoder.feed_payloads(b":2}") == [b'{"b":2}']
    assert not decoder.ended
    assert decoder.feed_payloads(b"]") == []
    assert decoder.ended


@every("body", [b"", b"[", b'[{"a":1', b'[{"a":"', b'[{"a":"\\', b"[{},"])
def test_what_is_pending_at_the_end_is_no_value(body: bytes) -> None:
    decoder = JSONArrayDecoder()
    assert decoder.feed_payloads(body) in ([], [b"{}"])
    assert decoder.finish() == []
    assert decoder.finish() == []
    assert not decoder.ended
    with pytest.raises(LocalProtocolError):
        decoder.feed_payloads(b"")


@every(
    "body",
    [
        b"{}", b"x", b"[1]", b'["a"]', b"[null]", b"[{} {}]", b"[{}{}]", b"[,{}]", b"[{},,{}]", b"[{},]", b"[{}] x",
        b"[{}][{}]", b"[}", b"]", b"[{}]]", b"[\x00]", b"[{}\xa0]",
    ],
)  # fmt: skip
def test_what_belongs_to_no_value_is_an_error_of_the_next_call(body: bytes) -> None:
    for chunks in ([body], byte_by_byte(body)):
        decoder = JSONArrayDecoder()
        with pytest.raises(RemoteProtocolError) as raised:
            for chunk in chunks:
                assert decoder.feed_payloads(chunk) in ([], [b"{}"])
            decoder.finish()
        assert raised.value.kind == "malformed_chunk"


def test_what_was_whole_before_an_error_comes_out_first() -> None:
    decoder = JSONArrayDecoder()
    assert decoder.feed_payloads(b'[{"a":1},x,{"b":2}]') == [b'{"a":1}']
    for call in (lambda: decoder.feed_payloads(b"{}"), decoder.finish):
        with pytest.raises(RemoteProtocolError):
            call()


def test_a_value_that_is_too_large_is_not_kept() -> None:
    decoder = JSONArrayDecoder(max_event_bytes=10)
    assert decoder.feed_payloads(b'[{"a":1234},{"a":12345}') == [b'{"a":1234}']
    with pytest.raises(LimitExceeded) as raised:
        decoder.feed_payloads(b"")
    assert (raised.value.setting, raised.value.limit) == ("max_event_bytes", 10)
    decoder = JSONArrayDecoder(max_event_bytes=10)
    for _ in range(4):
        assert decoder.feed_payloads(b'[{"' if _ == 0 else b"aaa") == []
    with pytest.raises(LimitExceeded):
        decoder.finish()


def test_space_between_values_is_not_counted_and_not_kept() -> None:
    values, _ = read([b"[", *[b" " * 1000] * 20, b"{}", *[b"\n" * 1000] * 20, b"]"], max_event_bytes=10)
    assert values == [{}]


@every(
    "value",
    [
        b'{"a":"' + b"\\n" * 2000 + b'"}',
        b'{"a":"' + b"\\\\" * 2000 + b'"}',
        b'{"a":[' + b'"",' * 2000 + b"1]}",
        b'{"a":[' + (b'"' + b'\\"' * 300 + b'",') * 20 + b"1]}",
        b'{"a":' + b"[" * 500 + b"]" * 500 + b"}",
    ],
)
def test_long_strings_and_many_of_them_are_passed_like_short_ones(value: bytes) -> None:
    body = b"[" + value + b',{"b":2}]'
    for size in (1, 7, 100, len(body)):
        chunks = [body[at : at + size] for at in range(0, len(body), size)]
        assert read(chunks)[0] == [json.loads(value), {"b": 2}]


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='a"\\{}[],: é\n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('k"\\]', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)
@given(st.lists(st.dictionaries(st.text(max_size=3), _JSON, max_size=3), max_size=4), st.data())
def test_any_values_come_out_as_they_went_in(values: list[Any], data: st.DataObject) -> None:
    text = json.dumps(values, indent=data.draw(st.sampled_from([None, 0, 2])), ensure_ascii=data.draw(st.booleans()))
    body = text.encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=6)))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    found, decoder = read(chunks)
    assert found == values
    assert decoder.ended
