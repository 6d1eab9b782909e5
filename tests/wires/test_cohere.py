"""Cohere's chat: every event of v2 and v1, how a response ends, citations, and what goes back."""

from __future__ import annotations

from typing import Any

import pytest
from cohere_streams import (
    DONE,
    START,
    block,
    call,
    citation,
    cohere,
    cohere_v1,
    end,
    event,
    plan,
    v1,
    v1_calls,
    v1_chunk,
    v1_end,
    v1_text,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from sansio import ANTHROPIC, CHAT, byte_by_byte, check_histories, check_turn, snapshot
from streams import anthropic, chat, sse

from streamtools import Limits, ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, Turn, Usage, parse
from streamtools.events import (
    ProviderItem,
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UnknownPayload,
)
from streamtools.wires import detect, find

COHERE = "cohere.chat"
PARIS = ("get_weather_1x", "get_weather", '{"city": "Paris"}')


def read(body: list[bytes], **more: Any) -> Turn:
    turn = parse(body, wire=COHERE, **more)
    check_turn(turn)
    check_histories(turn)
    assert snapshot(parse(byte_by_byte(b"".join(body)), wire=COHERE, **more)) == snapshot(turn)
    return turn


def codes(turn: Turn) -> list[str]:
    return sorted({warning.code for warning in turn.warnings})


def events(*payloads: dict[str, Any]) -> list[Any]:
    decoder = StreamDecoder(wire=COHERE)
    return [told for payload in payloads for told in decoder.feed(payload)] + decoder.finish()


# -- v2: events --------------------------------------------------------------------------------------------------------


def test_a_plan_a_text_and_a_call_are_told_in_order() -> None:
    told = events(START, *plan("I", " look."), *block(0, "Hi", " you"), *call(0, *PARIS), end("TOOL_CALL"))
    assert [type(e) for e in told] == [
        StreamStart, ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningEnd, TextStart, TextDelta, TextDelta,
        TextEnd, ToolCallStart, ToolCallDelta, ToolCallEnd, StreamEnd,
    ]  # fmt: skip
    assert told[0].response_id == "1bbe"


def test_tokens_are_what_the_model_read_and_wrote() -> None:
    turn = read(cohere(*block(0, "Hi")))
    assert turn.usage == Usage(input_tokens=70, output_tokens=9, cached_input_tokens=48, reasoning_tokens=4)
    billed = end() | {"delta": {"finish_reason": "COMPLETE", "usage": {"billed_units": {"input_tokens": 5.0}}}}
    assert parse([START, billed], wire=COHERE).usage == Usage(input_tokens=5)
    nothing = end() | {"delta": {"finish_reason": "COMPLETE", "usage": "many"}}
    assert parse([START, nothing], wire=COHERE).usage is None


@pytest.mark.parametrize(
    ("word", "finish"),
    [
        ("COMPLETE", "stop"),
        ("complete", "stop"),
        ("STOP_SEQUENCE", "stop"),
        ("TOOL_CALL", "tool_calls"),
        ("MAX_TOKENS", "length"),
        ("ERROR_LIMIT", "length"),
        ("ERROR_TOXIC", "content_filter"),
        ("USER_CANCEL", "other"),
        ("BOREDOM", "other"),
    ],
)
def test_every_finish_reason_has_its_meaning(word: str, finish: str) -> None:
    for body in (cohere(*block(0, "Hi"), finish=word), cohere_v1(*v1_text("Hi"), v1_end("Hi", word))):
        turn = read(body)
        assert (turn.finish, turn.finish_raw, turn.complete, turn.error) == (finish, word, True, None)


@pytest.mark.parametrize("reason", ["", None, 7, {}])
def test_an_end_without_a_reason_is_an_end_after_which_nothing_runs(reason: Any) -> None:
    turn = read([*sse([START, *call(0, *PARIS), end(reason)]), DONE], tools=["get_weather"])
    assert (turn.finish, turn.complete, turn.calls[0].dispatchable) == (None, True, False)
    assert parse([START, {"type": "message-end"}], wire=COHERE).complete


# -- v2: content -------------------------------------------------------------------------------------------------------


def test_thinking_plan_and_text_are_parts_of_their_own() -> None:
    turn = read(cohere(*block(0, "A", "B", kind="thinking"), *plan("C"), *block(1, "D"), *block(2, "E")))
    assert [(part.kind, part.text) for part in turn.parts] == [
        ("reasoning", "AB"), ("reasoning", "C"), ("text", "D"), ("text", "E"),
    ]  # fmt: skip
    assert (turn.reasoning, turn.text) == ("ABC", "DE")


def test_a_plan_within_a_block_of_thinking_is_another_part() -> None:
    thoughts = block(0, "A", "B", kind="thinking")
    turn = read(cohere(*thoughts[:2], *plan("C"), *thoughts[2:]))
    assert [(part.kind, part.text) for part in turn.parts] == [("reasoning", text) for text in "ACB"]


def test_text_that_comes_with_the_start_is_told() -> None:
    both = event("content-start", 0, content={"type": "text", "text": "a"})
    assert read(cohere(both, event("content-delta", 0, content={"text": "b"}), event("content-end", 0))).text == "ab"


def test_blocks_may_interleave_and_come_without_start_or_end() -> None:
    deltas = [event("content-delta", index, content={"text": text}) for index, text in ((0, "a"), (1, "b"), (0, "c"))]
    turn = read(cohere(*deltas, event("content-end", 0)))
    assert [part.text for part in turn.parts] == ["a", "b", "c"]
    assert codes(turn) == ["delta_without_block", "interleaved_blocks"]
    turn = read(cohere(*block(0, "a"), event("content-delta", 0, content={"text": "b"}), event("content-end", 9)))
    assert (turn.text, codes(turn)) == ("ab", ["delta_after_stop", "stop_without_block"])


def test_a_block_that_another_outlasts_ends_without_ending_it() -> None:
    starts = [event("content-start", index, content={"type": "text", "text": ""}) for index in (0, 1)]
    delta = event("content-delta", 1, content={"text": "a"})
    turn = read(cohere(*starts, delta, event("content-end", 0), delta, event("content-end", 1)))
    assert ([part.text for part in turn.parts], codes(turn)) == (["aa"], [])


@pytest.mark.parametrize("content", [None, {}, [], "a", {"text": 7}, {"type": "image", "url": "x"}])
def test_content_that_is_neither_text_nor_thinking_is_told(content: Any) -> None:
    strange = event("content-delta", 0, content=content)
    told = events(START, strange, *block(1, "a"), end())
    assert [e.raw for e in told if isinstance(e, UnknownPayload)] == [strange]
    assert codes(read(cohere(strange, *block(1, "a")))) == ["delta_without_block", "unknown_block_type"]


def test_a_start_that_says_only_its_type_is_fine() -> None:
    start = event("content-start", 0, content={"type": "thinking"})
    assert read(cohere(start, event("content-delta", 0, content={"thinking": "A"}))).warnings == ()


def test_citations_are_told_at_once_and_split_no_text() -> None:
    text = block(0, "The tallest are ", "Emperor penguins", ".")
    told = events(START, *text[:3], *citation(0, 16, 32, "Emperor penguins"), *text[3:], end())
    assert [type(e) for e in told].count(TextStart) == 1
    turn = read(cohere(*text[:3], *citation(0, 16, 32, "Emperor penguins"), *text[3:], *citation(1, 4, 11, "tallest")))
    assert [part.kind for part in turn.parts] == ["text", "provider", "provider"]
    assert [cited["text"] for cited in turn.messages()[0]["citations"]] == ["Emperor penguins", "tallest"]


def test_a_citation_that_is_none_is_told_and_a_deep_one_left_out() -> None:
    deep: Any = "x"
    for _ in range(220):
        deep = [deep]
    strange, nested = event("citation-start", 0, citations=7), event("citation-start", 0, citations={"x": deep})
    assert [e.raw for e in events(START, strange, end()) if isinstance(e, UnknownPayload)] == [7]
    turn = read(cohere(*block(0, "a"), strange, nested))
    assert "citations" not in turn.messages()[0]
    assert codes(turn) == ["nested_too_deep"]


def test_what_is_kept_is_limited() -> None:
    cited = citation(0, 0, 1, "a")
    found = v1("search-results", documents=[])
    for bodies in (
        cohere(*block(0, "a"), *block(1, "b"), *block(2, "c")),
        cohere(*block(0, "a"), *cited, *cited),
        cohere_v1(found, found, found, v1_end()),
    ):
        assert parse(bodies, wire=COHERE, limits=Limits(max_open_blocks=3)).error is None
        error = parse(bodies, wire=COHERE, limits=Limits(max_open_blocks=2)).error
        assert error is not None
        assert (error.kind, "max_open_blocks=2" in str(error)) == ("limit_exceeded", True)
    for bodies in (cohere(*block(0, "abc", "d")), cohere_v1(*v1_text("abc", "d"), v1_end("abcd"))):
        assert parse(bodies, wire=COHERE, limits=Limits(max_text_bytes=4)).error is None
        turn = read(bodies, limits=Limits(max_text_bytes=3))
        assert (turn.text, turn.error and turn.error.kind) == ("abc", "limit_exceeded")


def test_what_is_kept_beside_the_text_counts_as_text() -> None:
    pieces = call(0, *PARIS)
    pieces[0]["delta"]["message"]["tool_calls"]["signature"] = "x" * 100
    found = v1("search-results", documents=[{"text": "x" * 100}])
    for body in (cohere(*citation(0, 0, 1, "x" * 100)), cohere(*pieces), cohere_v1(found, v1_end())):
        assert parse(body, wire=COHERE, limits=Limits(max_text_bytes=300)).error is None
        error = parse(body, wire=COHERE, limits=Limits(max_text_bytes=99)).error
        assert error is not None
        assert (error.kind, "max_text_bytes=99" in str(error)) == ("limit_exceeded", True)


def test_what_of_a_plan_is_no_text_is_told() -> None:
    told = events(START, event("tool-plan-delta", tool_plan=None), *plan(""), *plan("A"), end())
    assert [type(e) for e in told].count(UnknownPayload) == 1
    assert [e.text for e in told if isinstance(e, ReasoningDelta)] == ["A"]


def test_halves_of_surrogate_pairs_are_joined_in_both_versions() -> None:
    smile = "\N{GRINNING FACE}"
    for body in (
        cohere(*block(0, "a?", "!b"), *citation(0, 0, 1, "?")),
        cohere_v1(*v1_text("a?", "!b"), v1_end("a" + smile + "b")),
    ):
        raw = b"".join(body).replace(b"?", b"\\ud83d").replace(b"!", b"\\ude00")
        turn = read([raw])
        assert (turn.text, "text_differs" in codes(turn)) == (f"a{smile}b", False)


# -- v2: calls ---------------------------------------------------------------------------------------------------------


def test_calls_end_with_their_own_event() -> None:
    decoder = StreamDecoder(wire=COHERE, tools=["get_weather"])
    told = [type(e) for payload in [START, *call(0, *PARIS)] for e in decoder.feed(payload)]
    assert told == [StreamStart, ToolCallStart, ToolCallDelta, ToolCallEnd]


def test_parallel_calls_keep_their_pieces_apart() -> None:
    first, second = call(0, "a", "f", '{"x":', " 1}"), call(1, "b", "g", '{"y":', " 2}")
    mixed = [piece for pair in zip(first, second, strict=True) for piece in pair]
    turn = read(cohere(*mixed, finish="TOOL_CALL"), tools=["f", "g"])
    assert [(c.call_id, c.arguments, c.dispatchable) for c in turn.calls] == [
        ("a", {"x": 1}, True),
        ("b", {"y": 2}, True),
    ]
    assert turn.warnings == ()


def test_complete_with_calls_is_tool_calls() -> None:
    turn = read(cohere(calls=[PARIS]))
    assert (turn.finish, turn.finish_raw, codes(turn)) == ("tool_calls", "COMPLETE", ["finish_reason_normalized"])


def test_a_call_that_the_stream_cut_never_runs() -> None:
    body = cohere(calls=[PARIS], finish="TOOL_CALL")
    for kept in range(1, len(body) - 1):
        turn = read(body[:kept], tools=["get_weather"])
        assert (turn.complete, turn.error and turn.error.kind) == (False, "stream_truncated")
        assert not any(c.dispatchable for c in turn.calls)
        assert [c.status for c in turn.calls] == (["truncated"] if 2 <= kept <= 3 else ["ready"] if kept == 4 else [])


def test_done_alone_ends_nothing_well() -> None:
    turn = read([*cohere(*block(0, "Hi"))[:-2], DONE, *sse([end()])])
    assert (turn.complete, turn.error and turn.error.kind) == (False, "stream_truncated")


def test_a_call_without_its_end_is_ended_by_the_message_or_the_next_of_its_index() -> None:
    turn = read(cohere(*call(0, *PARIS)[:2], *call(0, "b", "g", "{}")[:2], finish="TOOL_CALL"))
    assert ([c.status for c in turn.calls], codes(turn)) == (["ready", "ready"], ["missing_block_stop"])


def test_arguments_after_the_end_and_ends_of_nothing_change_nothing() -> None:
    turn = read(cohere(*call(0, *PARIS), *call(0, "x", "y", "!")[1:], event("tool-call-end", 9), finish="TOOL_CALL"))
    assert [c.arguments for c in turn.calls] == [{"city": "Paris"}]
    assert codes(turn) == ["delta_after_stop", "duplicate_block_stop", "stop_without_block"]


def test_arguments_of_no_call_are_no_call() -> None:
    turn = read(cohere(event("tool-call-delta", 3, tool_calls={"function": {"arguments": "{}"}}), finish="TOOL_CALL"))
    assert (turn.calls, codes(turn)) == ((), ["delta_without_block"])


def test_an_index_may_be_missing() -> None:
    pieces = [{key: value for key, value in piece.items() if key != "index"} for piece in call(0, *PARIS)]
    assert [c.arguments for c in read(cohere(*pieces, finish="TOOL_CALL")).calls] == [{"city": "Paris"}]


@pytest.mark.parametrize("index", [0.0, 1.5, "a", None, [], {}, True])
def test_any_index_is_a_label_or_none(index: Any) -> None:
    pieces = [piece | {"index": index} for piece in (*block(0, "Hi"), *call(0, *PARIS))]
    turn = read([*sse([START, *pieces, end("TOOL_CALL")]), DONE])
    assert (turn.text, [c.arguments for c in turn.calls]) == ("Hi", [{"city": "Paris"}])


def test_objects_as_arguments_keep_every_digit() -> None:
    big = 2**64 + 1
    whole = {"id": "a", "function": {"name": "f", "arguments": {"n": 0}}}
    for held in (whole, [whole]):
        body = b"".join(
            cohere(event("tool-call-start", 0, tool_calls=held), event("tool-call-end", 0), finish="TOOL_CALL")
        )
        turn = read([body.replace(b'"n":0', b'"n":%d' % big)])
        assert ([c.arguments for c in turn.calls], codes(turn)) == ([{"n": big}], ["arguments_object"])


@pytest.mark.parametrize("held", [None, [], "f", [1], [{}, {}]])
def test_a_call_that_is_none_is_told(held: Any) -> None:
    told = events(START, *(event(kind, 0, tool_calls=held) for kind in ("tool-call-start", "tool-call-delta")), end())
    assert [type(e) for e in told].count(UnknownPayload) == 2


def test_what_stands_beside_a_call_goes_back_with_it() -> None:
    pieces = call(0, *PARIS)
    pieces[0]["delta"]["message"]["tool_calls"]["signature"] = "s"
    assert read(cohere(*pieces, finish="TOOL_CALL")).messages()[0]["tool_calls"][0]["signature"] == "s"


# -- v2: the envelope --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("delta", "message", "kind"),
    [
        ({"finish_reason": "ERROR", "error": "no", "error_type": "BAD_CALL"}, "no", "BAD_CALL"),
        ({"finish_reason": "ERROR"}, "the provider ended the generation with ERROR", None),
        ({"finish_reason": "TIMEOUT"}, "the provider ended the generation with TIMEOUT", None),
        ({"finish_reason": "COMPLETE", "error": {"message": "no"}}, "no", None),
        ({"error": "no"}, "no", None),
    ],
)
def test_an_error_at_the_end_is_the_providers_and_nothing_runs(delta: Any, message: str, kind: str | None) -> None:
    turn = read([*sse([START, *call(0, *PARIS), {"type": "message-end", "delta": delta}]), DONE], tools=["get_weather"])
    assert turn.error is not None
    assert (turn.error.kind, turn.error.message, getattr(turn.error, "type", None)) == ("provider_error", message, kind)
    assert (turn.finish, turn.complete, turn.calls[0].dispatchable) == ("error", False, False)


def test_words_beside_a_filter_are_no_error() -> None:
    turn = read([*sse([START, *block(0, "Hi"), end("ERROR_TOXIC", error="blocked")]), DONE])
    assert (turn.finish, turn.error) == ("content_filter", None)


@pytest.mark.parametrize(
    "error",
    [{"message": "internal server error"}, {"error": "internal server error"}, {"type": "error", "message": "x"}],
)
def test_an_error_in_the_middle_is_the_providers(error: dict[str, Any]) -> None:
    turn = read([*cohere(*block(0, "Hi"))[:3], *sse([error])])
    assert (turn.text, turn.error and turn.error.kind, turn.finish) == ("Hi", "provider_error", "error")


def test_a_second_start_is_the_same_message_or_an_error() -> None:
    again = read(cohere(START, *block(0, "Hi")))
    assert (again.text, codes(again)) == ("Hi", ["duplicate_message_start"])
    other = read(cohere(*block(0, "Hi"), START | {"id": "2"}))
    assert (other.text, other.error and other.error.kind) == ("Hi", "protocol_error")


def test_a_stream_without_its_start_is_read() -> None:
    for payload in (*block(0, "a")[:2], *plan("a"), *citation(0, 0, 1, "a")[:1], *call(0, *PARIS)[:2], end()):
        assert isinstance(events(payload)[0], StreamStart)


def test_unknown_events_and_debugging_are_told() -> None:
    unknown: list[dict[str, Any]] = [{"type": "news"}, {"type": 7}, {"event_type": "news"}, {}, {"id": "7"}]
    told = events(START, *unknown, {"type": "debug", "prompt": "p"}, end())
    assert [e.raw for e in told if isinstance(e, UnknownPayload)] == [*unknown, {"type": "debug", "prompt": "p"}]
    assert codes(parse([START, {"type": "debug", "prompt": "p"}, end()], wire=COHERE)) == []


# -- v1 ----------------------------------------------------------------------------------------------------------------


def test_v1_text_is_told_once() -> None:
    turn = read(cohere_v1(*v1_text("H", "ola", "."), v1_end("Hola.")))
    assert (turn.text, turn.response_id, turn.finish, turn.warnings) == ("Hola.", "04f2", "stop", ())
    assert turn.usage == Usage(input_tokens=70, output_tokens=9, cached_input_tokens=48, reasoning_tokens=4)


def test_v1_as_an_event_stream_is_the_same() -> None:
    payloads = [v1("stream-start", generation_id="04f2"), *v1_text("Ho", "la"), v1_end("Hola")]
    assert parse(sse(payloads)) == parse(cohere_v1(*payloads[1:])) == parse(payloads)


def test_v1_calls_stream_and_end_with_the_list() -> None:
    decoder = StreamDecoder(wire=COHERE, tools=["f"])
    head = [
        v1_chunk(index=0.0, name="f"),
        v1_chunk(index=0.0, parameters='{"x":'),
        v1_chunk(index=0.0, parameters=" 1}"),
    ]
    told = [type(e) for payload in head for e in decoder.feed(payload)]
    assert told == [StreamStart, ToolCallStart, ToolCallDelta, ToolCallDelta]
    assert [type(e) for e in decoder.feed(v1_calls(("f", {"x": 1})))] == [ToolCallEnd]


def test_v1_plan_and_calls_are_told_once_and_keep_the_models_text() -> None:
    chunks = [
        v1("tool-calls-chunk", text="I "),
        v1_chunk(text="look."),
        v1_chunk(index=0, name="f"),
        v1_chunk(index=1, name="g"),
    ]
    chunks += [v1_chunk(index=1, parameters='{ "y":2, "x":1 }'), v1_chunk(index=0, parameters="{ }")]
    listed = [("f", {}), ("g", {"x": 1, "y": 2})]
    again = [{"name": name, "parameters": value} for name, value in listed]
    body = cohere_v1(*chunks, v1_calls(*listed, text="I look."), v1_end("I look.", tool_calls=again))
    turn = read(body, tools=["f", "g"])
    assert (turn.reasoning, turn.text, turn.finish, codes(turn)) == ("I look.", "", "tool_calls", [])
    assert [(c.arguments_text, c.arguments, c.dispatchable) for c in turn.calls] == [
        ("{ }", {}, True), ('{ "y":2, "x":1 }', {"x": 1, "y": 2}, True),
    ]  # fmt: skip
    assert all(c.call_id_synthesized for c in turn.calls)


def test_v1_the_list_is_right_where_the_stream_was_not() -> None:
    for streamed in ('{"x": 2}', '{"x": 1', ""):
        body = cohere_v1(
            v1_chunk(index=0, name="f"), v1_chunk(index=0, parameters=streamed), v1_calls(("f", {"x": 1})), v1_end()
        )
        assert [(c.arguments, c.dispatchable) for c in read(body, tools=["f"]).calls] == [({"x": 1}, True)]


@pytest.mark.parametrize("at_the_end", [False, True])
def test_v1_calls_may_come_whole(at_the_end: bool) -> None:
    calls = [{"name": "f", "parameters": {"x": 1}}, {"name": "g"}, 7, {"name": "h", "id": "abc", "parameters": "{}"}]
    lists = (
        [v1_end("I look.", tool_calls=calls)]
        if at_the_end
        else [v1("tool-calls-generation", tool_calls=calls, text="I look.")]
    )
    turn = read(cohere_v1(*lists, *([] if at_the_end else [v1_end("I look.")])))
    assert [(c.name, c.arguments) for c in turn.calls] == [("f", {"x": 1}), ("g", {}), ("h", {})]
    assert (turn.calls[2].call_id, turn.reasoning, turn.text) == ("abc", "I look.", "")


def test_v1_a_streamed_call_that_is_not_listed_is_cut() -> None:
    streamed = [v1_chunk(index=0, name="f"), v1_chunk(index=0, parameters="{}")]
    for rest in ([v1_end()], [v1_calls(("g", {})), v1_end()], []):
        turn = read(cohere_v1(*streamed, *rest), tools=["f", "g"])
        assert [(c.name, c.status, c.dispatchable) for c in turn.calls] == [
            ("f", "truncated", False), *([("g", "ready", True)] if len(rest) == 2 else []),
        ]  # fmt: skip
        assert codes(turn) == (["missing_block_stop"] if rest else [])


def test_v1_a_name_may_come_late_and_an_index_never() -> None:
    late = read(cohere_v1(v1_chunk(index=0, parameters="{}"), v1_calls(("f", {})), v1_end()))
    assert [(c.name, c.status) for c in late.calls] == [("f", "ready")]
    pieces = [
        v1_chunk(name="f"),
        v1_chunk(parameters="{"),
        v1_chunk(parameters="}"),
        v1_chunk(name="g"),
        v1_chunk(parameters="{}"),
    ]
    turn = read(cohere_v1(*pieces, v1_calls(("f", {}), ("g", {})), v1_end()))
    assert [(c.name, c.arguments_text, c.status) for c in turn.calls] == [("f", "{}", "ready"), ("g", "{}", "ready")]


def test_v1_text_that_only_the_end_has_is_told_then() -> None:
    assert read(cohere_v1(v1_end("Hola."))).text == "Hola."
    assert read(cohere_v1(*v1_text("Ho"), v1_end("Hola."))).text == "Hola."
    trimmed = read(cohere_v1(*v1_text(" Hola. "), v1_end("Hola.")))
    assert (trimmed.text, codes(trimmed)) == (" Hola. ", [])
    differs = read(cohere_v1(*v1_text("Hola"), v1_end("Bonjour")))
    assert (differs.text, codes(differs)) == ("Bonjour", ["text_differs"])
    planned = read(cohere_v1(v1_chunk(text="A"), v1_calls(("f", {})), v1_end("B")))
    assert (planned.reasoning, codes(planned)) == ("A", ["text_differs"])


def test_v1_searches_and_citations_are_told_and_do_not_go_back() -> None:
    queries = v1("search-queries-generation", search_queries=[{"text": "q"}])
    results = v1("search-results", documents=[{"id": "web_0"}])
    cited = v1("citation-generation", citations=[{"start": 0, "end": 1, "text": "a", "document_ids": ["web_0"]}])
    told = events(v1("stream-start"), queries, results, *v1_text("a"), cited, v1_end("a"))
    assert [e.type for e in told if isinstance(e, ProviderItem)] == [
        "search-queries-generation", "search-results", "citation",
    ]  # fmt: skip
    turn = read(cohere_v1(queries, results, *v1_text("a"), cited, v1("citation-generation", citations=7), v1_end("a")))
    assert turn.messages() == [{"role": "CHATBOT", "message": "a"}]


@pytest.mark.parametrize(
    "last",
    [
        v1_end("Ho", "ERROR"),
        v1_end("Ho", error="no"),
        v1("stream-error", err="no"),
        v1("stream-error"),
        {"message": "no"},
    ],
)
def test_v1_errors_are_the_providers(last: dict[str, Any]) -> None:
    turn = read(cohere_v1(*v1_text("Ho"), last))
    assert (turn.text, turn.finish, turn.error and turn.error.kind) == ("Ho", "error", "provider_error")


def test_v1_cut_is_truncated() -> None:
    turn = read(cohere_v1(*v1_text("Ho")))
    assert (turn.finish, turn.complete, turn.error and turn.error.kind) == (None, False, "stream_truncated")


def test_v1_streams_held_arguments_within_the_limit() -> None:
    body = cohere_v1(v1_chunk(index=0, name="f"), *[v1_chunk(index=0, parameters="xxxx")] * 3, v1_end())
    error = parse(body, wire=COHERE, limits=Limits(max_total_argument_bytes=8)).error
    assert error is not None
    assert (error.kind, "max_total_argument_bytes=8" in str(error)) == ("limit_exceeded", True)


def test_v1_without_a_start_or_with_nothing_in_it_is_read() -> None:
    empty: list[dict[str, Any]] = [
        v1("text-generation"),
        v1("tool-calls-chunk"),
        v1("tool-calls-generation"),
        v1("stream-end"),
    ]
    turn = parse(empty, wire=COHERE)
    assert (turn.complete, turn.finish, turn.calls, turn.text) == (True, None, (), "")
    late = parse([*v1_text("a", "b"), v1("stream-start", generation_id="x"), v1_end("ab")], wire=COHERE)
    assert (late.text, late.response_id) == ("ab", None)


# -- the way back ------------------------------------------------------------------------------------------------------


def results_of(turn: Turn) -> list[str]:
    return [str(message["content"]) for message in turn.messages() if message["role"] == "tool"]


def test_text_and_thinking_go_back_as_content() -> None:
    turn = read(cohere(*block(0, "A", kind="thinking"), *block(1, "a", "b")))
    content = [{"type": "thinking", "thinking": "A"}, {"type": "text", "text": "ab"}]
    assert turn.messages() == [{"role": "assistant", "content": content}]


def test_calls_go_back_with_their_plan_and_one_result_each() -> None:
    turn = read(cohere(*plan("I look."), calls=[PARIS, ("b", "f", "")], finish="TOOL_CALL"))
    [message, *results] = turn.messages()
    assert message == {
        "role": "assistant",
        "tool_plan": "I look.",
        "tool_calls": [
            {"id": PARIS[0], "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}},
            {"id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}},
        ],
    }
    assert [(result["role"], result["tool_call_id"]) for result in results] == [("tool", PARIS[0]), ("tool", "b")]


def test_text_beside_calls_becomes_the_plan() -> None:
    turn = read(cohere(*block(0, "A", kind="thinking"), *plan("I look."), *block(1, "Wait."), calls=[PARIS]))
    message = turn.messages()[0]
    assert message["tool_plan"] == "I look.\n\nWait."
    assert message["content"] == [{"type": "thinking", "thinking": "A"}]
    foreign = parse(chat(["Wait."], [("call_1", "f", "{}")])).messages(COHERE)[0]
    assert (foreign["tool_plan"], "content" in foreign) == ("Wait.", False)


@pytest.mark.parametrize("said", [[], plan("I look."), block(0, "A", kind="thinking"), block(0, " ")])
def test_what_has_neither_text_nor_calls_is_no_message(said: list[dict[str, Any]]) -> None:
    assert read(cohere(*said)).messages() == []


def test_a_v1_turn_goes_back_in_v1s_shape() -> None:
    body = cohere_v1(v1_chunk(text="I look."), v1_calls(("f", {"x": 1}), ("g", {})), v1_end("I look."))
    [message, results] = read(body).messages()
    calls = [{"name": "f", "parameters": {"x": 1}}, {"name": "g", "parameters": {}}]
    assert message == {"role": "CHATBOT", "message": "I look.", "tool_calls": calls}
    assert [result["call"] for result in results["tool_results"]] == calls
    assert [list(output) for result in results["tool_results"] for output in result["outputs"]] == [["output"]] * 2
    assert read(cohere_v1(*v1_text("a"), v1_end("a"))).messages() == [{"role": "CHATBOT", "message": "a"}]


def test_a_turn_of_coheres_goes_to_other_wires_without_its_plan() -> None:
    for body in (
        cohere(*plan("I look."), *block(0, "a"), *citation(0, 0, 1, "a"), calls=[PARIS], finish="TOOL_CALL"),
        cohere_v1(*v1_text("a"), v1_chunk(text="I look."), v1_calls(("get_weather", {"city": "Paris"})), v1_end("a")),
    ):
        turn = read(body)
        message = turn.messages(CHAT)[0]
        assert message.keys() == {"role", "content", "tool_calls"}
        assert message["content"] == "a"
        assert [part["type"] for part in turn.messages(ANTHROPIC)[0]["content"]] == ["text", "tool_use"]


def test_turns_of_other_wires_come_without_their_reasoning() -> None:
    payloads = [
        {"choices": [{"index": 0, "delta": delta}]} for delta in ({"reasoning_content": "R"}, {"refusal": "No."})
    ]
    turn = parse([*payloads, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}])
    assert turn.messages(COHERE) == [{"role": "assistant", "content": [{"type": "text", "text": "No."}]}]
    turn = parse(anthropic(["a"], [("toolu.1", "f", "{}")]))
    [message, result] = turn.messages(COHERE)
    assert message["tool_calls"][0]["id"] == result["tool_call_id"] != "toolu.1"


# -- detection, garbage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload", [START, *block(0, "a"), *plan("a"), *call(0, *PARIS), *citation(0, 0, 1, "a"), end()]
)
def test_every_event_of_v2_is_certainly_coheres(payload: dict[str, Any]) -> None:
    assert detect(payload) == COHERE


def test_v1_is_found_by_what_only_its_chat_sends() -> None:
    sure = ["stream-start", "search-queries-generation", "search-results", "citation-generation", "tool-calls-chunk"]
    assert {detect(v1(kind)) for kind in [*sure, "tool-calls-generation"]} == {COHERE}
    not_sure: list[dict[str, Any]] = [
        v1("text-generation", text="a"),
        v1("stream-end"),
        {"type": "debug"},
        {"event_type": 7},
    ]
    assert not any(find(COHERE).recognises(payload) for payload in not_sure)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KINDS = sorted({payload["type"] for payload in (START, *block(0, "a"), *plan("a"), *call(0, *PARIS), end())})
KINDS_V1 = ["stream-start", "text-generation", "tool-calls-chunk", "tool-calls-generation", "citation-generation"]
calls = st.dictionaries(st.sampled_from(["id", "name", "parameters", "function"]), json_values, max_size=3)
messages = st.dictionaries(
    st.sampled_from(["content", "tool_plan", "tool_calls", "citations"]),
    calls | st.dictionaries(st.sampled_from(["type", "text", "thinking"]), json_values) | json_values,
    max_size=3,
)
payloads = st.dictionaries(
    st.sampled_from(
        ["index", "delta", "id", "text", "tool_calls", "tool_call_delta", "citations", "response", "error"]
    ),
    messages.map(lambda message: {"message": message}) | calls | st.lists(calls, max_size=2) | json_values,
    max_size=5,
)
tagged = st.tuples(payloads, st.sampled_from([*KINDS, "citation-start", "debug"])).map(lambda p: p[0] | {"type": p[1]})
tagged_v1 = st.tuples(payloads, st.sampled_from([*KINDS_V1, "search-results", "stream-end", "stream-error"])).map(
    lambda p: p[0] | {"event_type": p[1]}
)


@given(st.lists(tagged | tagged_v1, max_size=8))
@settings(max_examples=examples(60), deadline=None)
def test_anything_in_any_field_is_taken_without_an_exception(items: list[dict[str, Any]]) -> None:
    turn = parse(items, wire=COHERE)
    check_turn(turn)
    check_histories(turn)
