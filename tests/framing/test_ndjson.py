"""JSON lines, however they are cut."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from sansio import byte_by_byte

from streamtools.errors import LimitExceeded, LocalProtocolError
from streamtools.framing import NDJSONDecoder


def read(chunks: list[bytes], limit: int = 1 << 20) -> list[bytes]:
    decoder = NDJSONDecoder(max_event_bytes=limit)
    lines = [payload for chunk in chunks for payload in decoder.feed_payloads(chunk)]
    return [*lines, *(frame.data for frame in decoder.finish())]  # type: ignore[list-item]


@settings(deadline=None, derandomize=True, database=None, max_examples=examples(60))
@given(st.lists(st.dictionaries(st.text(max_size=3), st.text(max_size=5), max_size=3)), st.data())
def test_each_line_is_a_payload_wherever_it_is_cut(values: list[dict[str, str]], data: st.DataObject) -> None:
    body = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    cut = data.draw(st.integers(0, len(body)))
    for chunks in ([body], [body[:cut], body[cut:]], byte_by_byte(body)):
        assert [json.loads(line) for line in read(chunks)] == values


def test_blank_lines_are_none_and_a_last_line_needs_no_end() -> None:
    body = b'\n \r\n{"a":1}\r\n\n\t\n{"b":2}'
    for chunks in ([body], byte_by_byte(body)):
        assert [json.loads(line) for line in read(chunks)] == [{"a": 1}, {"b": 2}]


@every("whole", [True, False])
def test_a_line_may_be_as_long_as_the_limit_and_no_longer(whole: bool) -> None:
    for size, exceeded in ((19, False), (20, False), (21, True)):
        body = b'{"a":1}\n' + b"x" * size + (b"\n" if whole else b"")
        for chunks in ([body], [body[:9], body[9:]]):
            decoder = NDJSONDecoder(max_event_bytes=20)
            lines = [line for chunk in chunks for line in decoder.feed_payloads(chunk)]
            assert lines[0] == b'{"a":1}', "what was whole before the limit comes out"
            if exceeded:
                for call in (lambda: decoder.feed_payloads(b"{}\n"), decoder.finish):
                    with pytest.raises(LimitExceeded) as caught:
                        call()
                    assert (caught.value.setting, caught.value.limit, caught.value.value) == ("max_event_bytes", 20, 21)
            else:
                assert len([*lines, *decoder.finish()]) == 2


def test_out_of_order_calls_are_refused_and_the_end_may_come_twice() -> None:
    decoder = NDJSONDecoder()
    decoder.feed_payloads(b"{}")
    assert [frame.data for frame in decoder.finish()] == [b"{}"]
    assert decoder.finish() == []
    with pytest.raises(LocalProtocolError, match="after finish"):
        decoder.feed_payloads(b"{}")
