"""Cohere's chat: every event of v2 and v1, how a response ends, citations, and what goes back."""

from __future__ import annotations

from typing import Any

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
from profiles import every
from sansio import byte_by_byte, checked, snapshot
from streams import chat, sse

from streamtools import StreamDecoder, Turn, Usage, parse
from streamtools.events import (
    ProviderItem,
    StreamStart,
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
    turn = checked(parse(body, wire=COHERE, **more))
    assert snapshot(parse(byte_by_byte(b"".join(body)), wire=COHERE, **more)) == snapshot(turn)
    return turn


def codes(turn: Turn) -> list[str]:
    return sorted({warning.code for warning in turn.warnings})


def events(*payloads: dict[str, Any]) -> list[Any]:
    decoder = StreamDecoder(wire=COHERE)
    return [told for payload in payloads for told in decoder.feed(payload)] + decoder.finish()


# -- v2: events --------------------------------------------------------------------------------------------------------


def test_tokens_are_what_the_model_read_and_wrote() -> None:
    turn = read(cohere(*block(0, "Hi")))
    assert turn.usage == Usage(input_tokens=70, output_tokens=9, cached_input_tokens=48, reasoning_tokens=4)
    billed = end() | {"delta": {"finish_reason": "COMPLETE", "usage": {"billed_units": {"input_tokens": 5.0}}}}
    assert parse([START, billed], wire=COHERE).usage == Usage(input_tokens=5)
    nothing = end() | {"delta": {"finish_reason": "COMPLETE", "usage": "many"}}
    assert parse([START, nothing], wire=COHERE).usage is None


@every("reason", ["", None, 7, {}])
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


@every("content", [None, {}, [], "a", {"text": 7}, {"type": "image", "url": "x"}])
def test_content_that_is_neither_text_nor_thinking_is_told(content: Any) -> None:
    strange = event("content-delta", 0, content=content)
    told = events(START, strange, *block(1, "a"), end())
    assert [e.raw for e in told if isinstance(e, UnknownPayload)] == [strange]
    assert codes(read(cohere(strange, *block(1, "a")))) == ["delta_without_block", "unknown_block_type"]


def test_citations_are_told_at_once_and_split_no_text() -> None:
    text = block(0, "The tallest are ", "Emperor penguins", ".")
    told = events(START, *text[:3], *citation(0, 16, 32, "Emperor penguins"), *text[3:], end())
    assert [type(e) for e in told].count(TextStart) == 1
    turn = read(cohere(*text[:3], *citation(0, 16, 32, "Emperor penguins"), *text[3:], *citation(1, 4, 11, "tallest")))
    assert [part.kind for part in turn.parts] == ["text", "provider", "provider"]
    assert [cited["text"] for cited in turn.messages()[0]["citations"]] == ["Emperor penguins", "tallest"]


# -- v2: calls ---------------------------------------------------------------------------------------------------------


def test_complete_with_calls_is_tool_calls() -> None:
    turn = read(cohere(calls=[PARIS]))
    assert (turn.finish, turn.finish_raw, codes(turn)) == ("tool_calls", "COMPLETE", ["finish_reason_normalized"])


def test_a_call_without_its_end_is_ended_by_the_message_or_the_next_of_its_index() -> None:
    turn = read(cohere(*call(0, *PARIS)[:2], *call(0, "b", "g", "{}")[:2], finish="TOOL_CALL"))
    assert ([c.status for c in turn.calls], codes(turn)) == (["ready", "ready"], ["missing_block_stop"])


def test_arguments_after_the_end_and_ends_of_nothing_change_nothing() -> None:
    turn = read(cohere(*call(0, *PARIS), *call(0, "x", "y", "!")[1:], event("tool-call-end", 9), finish="TOOL_CALL"))
    assert [c.arguments for c in turn.calls] == [{"city": "Paris"}]
    assert codes(turn) == ["delta_after_stop", "duplicate_block_stop", "stop_without_block"]


def test_objects_as_arguments_keep_every_digit() -> None:
    big = 2**64 + 1
    whole = {"id": "a", "function": {"name": "f", "arguments": {"n": 0}}}
    for held in (whole, [whole]):
        body = b"".join(
            cohere(event("tool-call-start", 0, tool_calls=held), event("tool-call-end", 0), finish="TOOL_CALL")
        )
        turn = read([body.replace(b'"n":0', b'"n":%d' % big)])
        assert ([c.arguments for c in turn.calls], codes(turn)) == ([{"n": big}], ["arguments_object"])


@every("held", [None, [], "f", [1], [{}, {}]])
def test_a_call_that_is_none_is_told(held: Any) -> None:
    told = events(START, *(event(kind, 0, tool_calls=held) for kind in ("tool-call-start", "tool-call-delta")), end())
    assert [type(e) for e in told].count(UnknownPayload) == 2


# -- v2: the envelope --------------------------------------------------------------------------------------------------


@every(
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
    assert (turn.error.kind, turn.error.message, getattr(turn.error, "type", None)) == ("provider_error", message, kind)
    assert (turn.finish, turn.complete, turn.calls[0].dispatchable) == ("error", False, False)


def test_words_beside_a_filter_are_no_error() -> None:
    turn = read([*sse([START, *block(0, "Hi"), end("ERROR_TOXIC", error="blocked")]), DONE])
    assert (turn.finish, turn.error) == ("content_filter", None)


@every(
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


@every("at_the_end", [False, True])
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


@every(
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


# -- the way back ------------------------------------------------------------------------------------------------------


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


@every("said", [[], plan("I look."), block(0, "A", kind="thinking"), block(0, " ")])
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


# -- detection --------------------------------------------------------------------------------------------------------


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
