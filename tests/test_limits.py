"""Every bound of the sans-IO part: one below it, at it, and one beyond, through `parse`; the error names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import cohere_streams
import pytest
from every_wire import COHERE, FRAMES, FRAMINGS, IN_DELTAS, REFUSES, RESPONSES, framed, payloads_of, said
from profiles import FULL, every, mostly_thorough
from sansio import byte_by_byte, check_histories, check_turn, checked
from streams import chat, chat_chunk, sse
from wire_cases import CASES

from streamtools import Limits, StreamDecoder, StreamEnd, ToolCall, Turn, parse
from streamtools.errors import LimitExceeded
from streamtools.events import ToolCallEnd
from streamtools.wires import WIRES


def messages_body(*blocks: list[dict[str, Any]]) -> list[bytes]:
    end: list[dict[str, Any]] = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    return sse([{"type": "message_start", "message": {"id": "m"}}, *(event for b in blocks for event in b), *end])


def block(index: int, content: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": content},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def arguments(size: int) -> str:
    return '{"a":"' + "x" * (size - 8) + '"}'


def nested(depth: int) -> str:
    return '{"a":' * (depth - 1) + "{}" + "}" * (depth - 1)


# -- what ends the stream --------------------------------------------------------------------------------------------


@dataclass
class Stream:
    """A body that holds exactly so much of what a limit of the stream bounds."""

    setting: str
    limit: int
    make: Callable[[int], list[bytes]]


def comment(size: int) -> list[bytes]:
    return [b":" * size + b"\n", *chat(["Hi"], finish="stop")]


def last_line(size: int) -> list[bytes]:
    return [*chat(["Hi"], finish="stop")[:-1], b":" * size]


def lines_of_one_event(size: int) -> list[bytes]:
    """Data in lines each of which is short: joined they are as long as this."""
    (event,) = sse([chat_chunk({"content": "x"}, "stop")])
    head, tail = event[6:-2].split(b",", 1)
    blank = b" " * (size - len(head) - len(tail) - 2)
    half = len(blank) // 2
    lines = (head + b",", blank[:half], blank[half:-1] + tail)
    assert len(b"\n".join(lines)) == size
    return [b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"]


def whole_body(size: int) -> list[bytes]:
    body = chat(["Hi"], finish="stop")
    return [b":" * (size - len(b"".join(body)) - 1) + b"\n", *body]


def reasoning_details(size: int) -> list[bytes]:
    """What is kept of them: all that stands in an entry, once, and what grows in it."""
    detail = {"type": "reasoning.encrypted", "index": 0, "data": "x"}
    grown = size - len(str(detail["type"])) - 1
    return sse([*[chat_chunk({"reasoning_details": [detail]})] * grown, chat_chunk({}, "stop")])


def typed_blocks_and_refusal(size: int) -> list[bytes]:
    text = {"type": "text", "text": "x" * (size - 1)}
    return sse([chat_chunk({"content": [text]}), chat_chunk({"refusal": "y"}), chat_chunk({}, "stop")])


def calls_in_one_chunk(count: int) -> list[bytes]:
    heads = [{"index": number, "id": f"c{number}", "function": {"name": "f"}} for number in range(count)]
    return sse([chat_chunk({"tool_calls": heads}), chat_chunk({}, "tool_calls")])


def arguments_object(size: int) -> list[bytes]:
    function = {"name": "f", "arguments": json.loads(arguments(size))}
    call = {"index": 0, "id": "a", "function": function}
    return sse([chat_chunk({"tool_calls": [call]}), chat_chunk({}, "tool_calls")])


def input_at_the_start(size: int) -> list[bytes]:
    return messages_body(block(0, {"type": "tool_use", "id": "a", "name": "f", "input": json.loads(arguments(size))}))


def blocks_on_one_index(count: int) -> list[bytes]:
    return messages_body(*[block(0, {"type": "redacted_thinking", "data": "x"})] * count)


STREAMS = {
    "a comment": Stream("max_event_bytes", 400, comment),
    "a last line": Stream("max_event_bytes", 400, last_line),
    "data lines of one event": Stream("max_event_bytes", 400, lines_of_one_event),
    "the body": Stream("max_stream_bytes", 2000, whole_body),
    "the text of a think block": Stream("max_text_bytes", 20, lambda n: chat(["<think>", "x" * n, "</think>"])),
    "white space that may precede a think block": Stream("max_text_bytes", 20, lambda n: chat([" "] * n)),
    "text in typed blocks, and a refusal": Stream("max_text_bytes", 20, typed_blocks_and_refusal),
    "reasoning details": Stream("max_text_bytes", 40, reasoning_details),
    "calls in one chunk": Stream("max_tool_calls", 20, calls_in_one_chunk),
    "arguments as objects": Stream("max_total_argument_bytes", 40, arguments_object),
    "an input in the start of a block": Stream("max_total_argument_bytes", 40, input_at_the_start),
    "blocks that share an index": Stream("max_open_blocks", 20, blocks_on_one_index),
}


def check_bound(setting: str, limit: int, make: Callable[[int], list[bytes]], wire: str | None = None) -> None:
    """One less than the limit is taken, as much is, one more is not; however it is cut."""
    for held, exceeded in ((limit - 1, False), (limit, False), (limit + 1, True)):
        body = make(held)
        for chunks in (body, byte_by_byte(b"".join(body))) if FULL else (body,):
            turn = parse(chunks, wire=wire, limits=Limits(**{setting: limit}))
            check_turn(turn)
            if exceeded:
                error = turn.error
                assert isinstance(error, LimitExceeded), held
                assert (error.setting, error.limit, error.kind) == (setting, limit, "limit_exceeded")
                assert setting in str(error)
                assert not turn.complete
                assert turn.finish in ("error", None)
                assert not any(call.dispatchable for call in turn.calls)
                check_histories(turn)
            else:
                assert turn.error is None, held
                assert turn.complete


@every("name", STREAMS)
def test_the_stream_may_hold_as_much_as_the_limit_and_no_more(name: str) -> None:
    stream = STREAMS[name]
    check_bound(stream.setting, stream.limit, stream.make)


# -- the same on every wire ------------------------------------------------------------------------------------------


def some_calls(count: int) -> list[tuple[str, str, str]]:
    return [(f"c{number}", "f", "{}") for number in range(count)]


def two_calls(size: int) -> list[tuple[str, str, str]]:
    return [("a", "f", arguments(size - 10)), ("b", "f", arguments(10))]


SAID: dict[str, tuple[str, int, Callable[[int], dict[str, Any]]]] = {
    "text": ("max_text_bytes", 20, lambda n: {"text": ["x" * (n - 1), "y"]}),
    "text in one delta": ("max_text_bytes", 20, lambda n: {"text": ["x" * n]}),
    "reasoning": ("max_text_bytes", 20, lambda n: {"reasoning": ["x" * (n - 1), "y"]}),
    "reasoning and text": ("max_text_bytes", 20, lambda n: {"reasoning": ["x" * (n - 1)], "text": ["y"]}),
    "refusal": ("max_text_bytes", 20, lambda n: {"refusal": ["x" * (n - 1), "y"]}),
    "calls": ("max_tool_calls", 6, lambda n: {"calls": some_calls(n)}),
    "arguments of all calls": ("max_total_argument_bytes", 40, lambda n: {"calls": two_calls(n)}),
}


@every("wire", WIRES)
def test_on_every_wire_a_response_may_say_as_much_as_the_limit_and_no_more(wire: str) -> None:
    for name, (setting, limit, make) in SAID.items():
        if (name == "refusal" and wire not in REFUSES) or (name.startswith("reasoning") and not CASES[wire].reasons):
            continue
        beside = CASES[wire].signature_characters if name.startswith("reasoning") else 0

        def body(size: int, make: Any = make, beside: int = beside) -> list[bytes]:
            return framed(wire, said(wire, **make(size - beside)))

        check_bound(setting, limit, body, wire)
        exceeded = payloads_of(b"".join(body(limit + 1)))
        error = parse(exceeded, wire=wire, limits=Limits(**{setting: limit})).error
        assert error is not None, (name, "as mappings, too")


def before_the_end(wire: str, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """These payloads in a response that says nothing else."""
    begin = said(wire, ends=False)
    return [*begin, *payloads, *said(wire)[len(begin) :]]


@every("wire", WIRES)
def test_on_every_wire_a_response_may_have_as_many_blocks_as_the_limit_and_no_more(wire: str) -> None:
    def body(count: int) -> list[bytes]:
        return framed(wire, before_the_end(wire, CASES[wire].blocks(count)))

    check_bound("max_open_blocks", 6, body, wire)


def labelled(index: int, id_: str | None, arguments: str) -> dict[str, Any]:
    call = {"index": index, "function": {"name": "f" if index == 0 else None, "arguments": arguments}}
    return chat_chunk({"tool_calls": [call | ({"id": id_} if id_ else {})]})


def test_labels_of_one_call_are_remembered_up_to_the_limit_and_no_further() -> None:
    """A peer could give every piece of a call another label."""
    pieces = [labelled(0, "a", '{"a":'), *(labelled(number, "a", "") for number in range(1, 5))]
    body = sse([*pieces, labelled(4, None, "1}"), chat_chunk({}, "tool_calls")])
    turn = parse(body, limits=Limits(max_open_blocks=5))
    assert ([call.status for call in turn.calls], turn.error) == (["ready"], None)
    turn = parse(body, limits=Limits(max_open_blocks=4))
    assert [call.status for call in turn.calls] == ["truncated"]
    assert isinstance(turn.error, LimitExceeded)
    assert turn.error.setting == "max_open_blocks"


def test_texts_of_one_item_are_ended_one_by_one_up_to_the_limit_and_all_at_once_beyond() -> None:
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
    end = {"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0}
    ends = [{**end, "content_index": number, "text": f"{number},"} for number in range(9)]
    content = [{"type": "output_text", "text": end["text"], "annotations": []} for end in ends]
    begun, *_, ended = said(RESPONSES)
    payloads = [begun, {"type": "response.output_item.added", "output_index": 0, "item": item}, *ends]
    cut = parse(sse(payloads), wire=RESPONSES, limits=Limits(max_open_blocks=3))
    assert cut.text == "0,1,2,3,"
    whole = {**item, "status": "completed", "content": content}
    payloads += [{"type": "response.output_item.done", "output_index": 0, "item": whole}, ended]
    turn = parse(sse(payloads), wire=RESPONSES, limits=Limits(max_open_blocks=3))
    assert (turn.text, turn.complete) == ("".join(str(end["text"]) for end in ends), True)


def test_a_tool_plan_counts_like_text() -> None:
    def plan(size: int) -> list[bytes]:
        return framed(COHERE, before_the_end(COHERE, cohere_streams.plan(*"x" * size)))

    def legacy(size: int) -> list[bytes]:
        chunk = {"event_type": "tool-calls-chunk", "is_finished": False, "text": "x"}
        return sse([*[chunk] * size, {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE"}])

    check_bound("max_text_bytes", 20, plan, COHERE)
    check_bound("max_text_bytes", 20, legacy, COHERE)


FRAMED = [(wire, framing) for wire in WIRES for framing in FRAMINGS[wire]]


@every(("wire", "framing"), FRAMED)
def test_in_every_framing_an_event_may_be_as_large_as_the_limit_and_no_larger(wire: str, framing: str) -> None:
    frame = FRAMES[framing]

    def size_of(event: bytes) -> int:
        """Of a line, a value or a message: what is between them does not count."""
        return len(event) if framing == "aws_eventstream" else len(event.strip(b"[],\n" if framing != "sse" else b"\n"))

    def with_text(size: int) -> list[bytes]:
        return frame(said(wire, text=["y", "x" * size]))

    beside = max(map(size_of, with_text(2000))) - 2000

    def body(size: int) -> list[bytes]:
        return with_text(size - beside)

    assert max(map(size_of, body(900))) == 900
    check_bound("max_event_bytes", 900, body, wire)


@every(("wire", "framing"), FRAMED)
def test_in_every_framing_the_body_may_be_as_large_as_the_limit_and_no_larger(wire: str, framing: str) -> None:
    body = b"".join(FRAMES[framing](said(wire, text=["Hello"], calls=[("a", "f", '{"a":1}')])))
    for limit in (len(body), len(body) + 1):
        assert parse(body, wire=wire, limits=Limits(max_stream_bytes=limit)).complete
    lost = 1 + len(body) - len(body.rstrip())  # the end of the last event
    for chunks in (body, byte_by_byte(body)):
        error = parse(chunks, wire=wire, limits=Limits(max_stream_bytes=len(body) - lost)).error
        assert isinstance(error, LimitExceeded)
        assert error.setting == "max_stream_bytes"


# -- the same as payloads --------------------------------------------------------------------------------------------

BY_PAYLOAD = {name: s for name, s in STREAMS.items() if s.setting not in ("max_event_bytes", "max_stream_bytes")}


@every("name", BY_PAYLOAD)
def test_payloads_that_somebody_else_parsed_are_bounded_alike(name: str) -> None:
    stream = STREAMS[name]
    size = stream.limit
    for held, exceeded in ((size, False), (size + 1, True)):
        error = parse(payloads_of(b"".join(stream.make(held))), limits=Limits(**{stream.setting: size})).error
        assert (getattr(error, "setting", None) == stream.setting) is exceeded


def test_payloads_that_somebody_else_parsed_are_bounded_in_size() -> None:
    small, large = chat_chunk({"content": "x"}), chat_chunk({"content": "x" * 2000})
    turns = {
        "max_event_bytes": parse([small, large, small], limits=Limits(max_event_bytes=1000)),
        "max_stream_bytes": parse([small] * 50, limits=Limits(max_stream_bytes=1000)),
    }
    for setting, turn in turns.items():
        assert isinstance(turn.error, LimitExceeded)
        assert turn.error.setting == setting
        assert turn.text.startswith("x")
        assert len(turn.text) < 20


def test_what_was_said_before_the_limit_stays_however_the_stream_is_cut() -> None:
    body = b"".join(chat(["Hello", " you"], [("a", "f", '{"a":1}')]))
    for setting, limit in (("max_stream_bytes", 600), ("max_text_bytes", 7), ("max_event_bytes", 170)):
        limits = Limits(**{setting: limit})
        turns = [parse(chunks, limits=limits) for chunks in (body, byte_by_byte(body), [body[:300], body[300:]])]
        assert {type(turn.error) for turn in turns} == {LimitExceeded}
        assert len({(turn.text, turn.wire, len(turn.calls)) for turn in turns}) == 1


@every("setting", ["max_event_bytes", "max_stream_bytes"])
def test_what_follows_the_end_does_not_exceed_anything(setting: str) -> None:
    body = chat(["Hi"], finish="stop")
    limits = Limits(**{setting: len(b"".join(body))})
    for chunks in ([*body, b"x" * 5000], [b"".join(body) + b"x" * 5000], [*body, *byte_by_byte(b"x" * 5000)]):
        turn = parse(chunks, limits=limits)
        assert (turn.text, turn.finish, turn.complete, turn.error) == ("Hi", "stop", True, None)


def test_a_stream_that_exceeded_a_limit_can_be_fed_on_and_finished() -> None:
    for setting in ("max_event_bytes", "max_stream_bytes", "max_text_bytes"):
        decoder = StreamDecoder(limits=Limits(**{setting: 150}))
        for _ in range(20):
            decoder.feed(sse([chat_chunk({"content": "x" * 40})])[0])
        assert decoder.done
        end = decoder.finish()[-1]
        assert isinstance(end, StreamEnd)
        assert isinstance(end.error, LimitExceeded)
        assert end.error.setting == setting


# -- what concerns one call ------------------------------------------------------------------------------------------


def one_call(wire: str, call_id: str, name: str, text: str, limits: Limits) -> tuple[ToolCall, str]:
    """The call, and its error's text; beside it, a call that nothing is wrong with."""
    body = framed(wire, said(wire, calls=[(call_id, name, text), ("other", "g", "{}")], pieces=3))
    turn = parse(body, wire=wire, limits=limits)
    assert turn.error is None
    call, other = turn.calls
    assert (other.status, other.dispatchable, other.call_id) == ("ready", True, "other")
    checked(turn)
    decoder = StreamDecoder(wire=wire, limits=limits)
    events = [event for item in body for event in decoder.feed(item)] + decoder.finish()
    errors = [str(event.error or "") for event in events if isinstance(event, ToolCallEnd)]
    assert errors[1] == ""
    return call, errors[0]


@every("wire", mostly_thorough(WIRES, 5))
@every(
    ("setting", "problem", "make"),
    [
        ("max_argument_bytes", "argument_too_large", lambda n: ("a", "f", arguments(n))),
        ("max_json_depth", "too_deep", lambda n: ("a", "f", nested(n))),
        ("max_json_depth", "too_deep", lambda n: ("a", "f", json.dumps(nested(n)))),
        ("max_json_depth", "too_deep", lambda n: ("a", "f", f"```json\n{nested(n)}\n```")),
        ("max_json_depth", "too_deep", lambda n: ("a", "f", '{"a":' + "[" * (n - 1) + "]" * (n - 1) + "}")),
        ("max_name_bytes", "name_too_long", lambda n: ("a", "f" * n, "{}")),
    ],
)
def test_a_call_may_be_as_large_as_the_limit_and_no_larger(
    wire: str, setting: str, problem: str, make: Callable[[int], tuple[str, str, str]]
) -> None:
    if wire not in IN_DELTAS and make(20)[2][:1] in ('"', "`"):
        return  # there arguments are no text
    limits = Limits(**{setting: 20})
    for size in (19, 20):
        call, error = one_call(wire, *make(size), limits)
        assert (call.status, call.problem, call.dispatchable, error) == ("ready", None, True, "")
    call, error = one_call(wire, *make(21), limits)
    assert (call.status, call.problem, call.dispatchable, call.arguments) == ("invalid", problem, False, None)
    assert f"{setting}=20" in error


@every("wire", WIRES)
def test_a_longer_id_is_replaced(wire: str) -> None:
    limits = Limits(max_id_bytes=20)
    for size in (19, 20):
        call, _ = one_call(wire, "i" * size, "f", "{}", limits)
        assert (call.call_id, call.call_id_synthesized) == ("i" * size, False)
    call, _ = one_call(wire, "i" * 21, "f", "{}", limits)
    assert call.call_id_synthesized
    assert len(call.call_id) < 40
    assert call.dispatchable


def test_a_name_that_comes_in_endless_pieces_is_not_kept() -> None:
    pieces = [chat_chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": f"p{i}_"}}]}) for i in range(500)]
    (call,) = parse([*pieces, chat_chunk({}, "tool_calls")], limits=Limits(max_name_bytes=64)).calls
    assert (call.problem, call.dispatchable) == ("name_too_long", False)
    assert len(call.name) <= 64


def test_of_arguments_that_are_too_large_no_more_than_the_limit_is_kept() -> None:
    for text in ('{"a":1}' + " " * 100, arguments(1000)):
        turn = parse(chat(calls=[("a", "f", text)]), limits=Limits(max_argument_bytes=20))
        assert len(turn.calls[0].arguments_text) <= 20
        assert turn.messages()[0]["tool_calls"][0]["function"]["arguments"] == "{}"
    pieces = [
        chat_chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in ['{"a":1}', " " * 30]
    ]
    head = chat_chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f"}}]})
    turn = parse([head, *pieces, chat_chunk({}, "tool_calls")], limits=Limits(max_argument_bytes=20))
    assert turn.calls[0].problem == "argument_too_large"
    assert turn.messages()[0]["tool_calls"][0]["function"]["arguments"] == "{}", "what was kept is not the whole"


def test_the_history_of_a_call_does_not_depend_on_the_default_limits() -> None:
    text = nested(100)
    turn = parse(chat(calls=[("a", "f", text)]), limits=Limits(max_json_depth=100))
    assert turn.calls[0].dispatchable
    assert turn.messages()[0]["tool_calls"][0]["function"]["arguments"] == text


# -- what an error may quote, and what the turn may collect ----------------------------------------------------------


@every("body", [b"data: " + b"x" * 5000 + b"\n\n", b"y" * 5000, b"<html>" + b"\x00\xff" * 3000])
def test_an_error_quotes_no_more_of_the_peer_than_the_limit(body: bytes) -> None:
    for limit in (1, 20, 512):
        error = parse(body, wire=WIRES[0], limits=Limits(max_error_excerpt=limit)).error
        assert error is not None
        assert len(str(error)) < 6 * limit + 100
        assert str(error).isprintable()


def warned(turn: Turn) -> int:
    return sum(len(warning.code) + len(warning.detail) for warning in turn.warnings)


def test_a_warning_does_not_hold_what_the_peer_chose_to_send() -> None:
    long = "T" * 10_000
    turn = parse(
        messages_body(
            block(0, {"type": long}, {"type": "text_delta", "text": "x"}, {"type": long}),
            block(1, {"type": "text"}, {"type": long}, {"type": "input_json_delta", "partial_json": "{}"}),
        )
    )
    assert warned(turn) < 2000


def test_warnings_do_not_pile_up() -> None:
    deltas = [{"type": f"new_delta_{number}"} for number in range(5000)]
    assert len(parse(messages_body(block(0, {"type": "text"}, *deltas))).warnings) < 500


# -- the limits themselves -------------------------------------------------------------------------------------------


def test_a_limit_is_a_number_greater_than_zero() -> None:
    optional = ("tool_timeout", "idle_timeout", "first_chunk_timeout", "step_timeout", "run_timeout")
    for field in (field.name for field in fields(Limits)):
        values: list[Any] = [0, -1, "1", None, True, float("nan")]
        if field in (*optional, "max_repeated_calls", "call_budget", "token_budget"):
            nothing: Any = {field: values.pop(3)}
            assert getattr(Limits(**nothing), field) is None
        for value in values:
            with pytest.raises(ValueError, match=field):
                Limits(**{field: value})


def test_the_default_limits_take_what_providers_send() -> None:
    limits = Limits()
    assert limits.max_event_bytes >= 1 << 20
    assert limits.max_argument_bytes <= limits.max_total_argument_bytes <= limits.max_stream_bytes
    turn = parse(chat(["x" * 1_000_000], [("a", "f", arguments(1_000_000))]))
    assert (turn.complete, turn.calls[0].dispatchable) == (True, True)
