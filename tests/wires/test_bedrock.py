"""ConverseStream: blocks, their deltas and stops, ends, errors, what goes back as it came, and what is passed over."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from bedrock_streams import START, USAGE, chunk, converse, converse_events, end, events, message, text_deltas, tool_use
from profiles import every
from sansio import checked, codes, snapshot
from streams import anthropic, chat

from streamtools import StreamDecoder, Turn, Usage, parse
from streamtools.errors import LimitExceeded, ProviderError
from streamtools.events import UnknownPayload
from streamtools.limits import Limits

BEDROCK = "bedrock.converse_stream"
Payloads = list[dict[str, Any]]
CALL = ("tooluse_1", "f", '{"a":1}')


def delta(index: Any, **value: Any) -> dict[str, Any]:
    return {"contentBlockDelta": {"contentBlockIndex": index, "delta": value}}


def begin(index: Any, **start: Any) -> dict[str, Any]:
    return {"contentBlockStart": {"contentBlockIndex": index, "start": start}}


def stop(index: Any) -> dict[str, Any]:
    return {"contentBlockStop": {"contentBlockIndex": index}}


def use(index: Any, call_id: str = "tooluse_1", name: str = "f", **more: Any) -> dict[str, Any]:
    return begin(index, toolUse={"toolUseId": call_id, "name": name, **more})


def arguments(index: Any, text: Any) -> dict[str, Any]:
    return delta(index, toolUse={"input": text})


def reasoning(index: Any, **value: Any) -> dict[str, Any]:
    return delta(index, reasoningContent=value)


def read(*payloads: dict[str, Any], reason: Any = "tool_use", ends: bool = True) -> Turn:
    """The turn of these events, which is the same from bytes and from what was decoded already."""
    whole = [START, *payloads, *([end(reason), USAGE] if ends else [])]
    turn = parse(b"".join(events(whole)), wire=BEDROCK)
    assert snapshot(parse(copy.deepcopy(whole), wire=BEDROCK)) == snapshot(turn)
    return checked(turn)


def told(payloads: Payloads) -> list[Any]:
    decoder = StreamDecoder()
    return [event for payload in payloads for event in decoder.feed(payload)] + decoder.finish()


def content(turn: Turn) -> list[dict[str, Any]]:
    """The assistant's message to Bedrock."""
    blocks: list[dict[str, Any]] = turn.messages(BEDROCK)[0]["content"]
    return blocks


# -- events ------------------------------------------------------------------------------------------------------------


def test_reading_ends_with_the_usage_after_the_end_whichever_comes_first() -> None:
    for last in ([end("end_turn"), USAGE], [USAGE, end("end_turn")]):
        decoder = StreamDecoder()
        states = []
        for payload in [START, *text_deltas(["Hi"]), *last]:
            decoder.feed(payload)
            states.append(decoder.done)
        assert states == [False] * (len(states) - 1) + [True]
    assert parse([START, end("end_turn")]).complete, "the usage is not what completes it"


def test_input_tokens_include_what_the_cache_gave_and_took() -> None:
    usage = {"inputTokens": 9, "outputTokens": 5, "cacheReadInputTokens": 4, "cacheWriteInputTokens": 3}
    turn = parse([START, end("end_turn"), {"metadata": {"usage": usage}}])
    assert turn.usage == Usage(input_tokens=16, output_tokens=5, cached_input_tokens=4, cache_write_input_tokens=3)
    assert parse([START, end("end_turn"), {"metadata": {"metrics": {}}}]).usage is None


def test_what_has_no_place_in_a_turn_is_still_told() -> None:
    payloads = [
        START,
        {"messageStop": {"stopReason": "end_turn", "additionalModelResponseFields": {"x": 1}}},
        {"metadata": {"usage": {"inputTokens": 1}, "trace": {"guardrail": {"actionReason": "blocked"}}}},
    ]
    unknown = [event.raw for event in told(payloads) if isinstance(event, UnknownPayload)]
    assert unknown == [
        {"additionalModelResponseFields": {"x": 1}},
        {"trace": {"guardrail": {"actionReason": "blocked"}}},
    ]


# -- blocks ------------------------------------------------------------------------------------------------------------


def test_text_that_goes_on_in_another_block_is_another_part() -> None:
    turn = read(delta(0, text="a"), delta(1, text="b"), delta(0, text="c"), stop(0), stop(1), reason="end_turn")
    assert [part.text for part in turn.parts] == ["a", "b", "c"]
    assert codes(turn) == ["interleaved_blocks"]


def test_arguments_that_cannot_be_read_are_not_taken_for_none() -> None:
    for odd in ("x", 7, [1]):
        turn = read(use(0), delta(0, toolUse=odd), stop(0))
        assert (turn.error.kind, turn.calls[0].dispatchable, turn.calls[0].status) == (
            "malformed_chunk",
            False,
            "truncated",
        )
    for odd in ([1], True, {"a": {"b": [2]}}):
        (call,) = read(use(0), arguments(0, odd), stop(0)).calls
        assert call.dispatchable is isinstance(odd, dict)
        assert call.arguments == (odd if isinstance(odd, dict) else None)


@every(
    "payload",
    [
        {"messageStart": None},
        {"contentBlockStart": []},
        {"contentBlockDelta": "x"},
        {"metadata": 7},
        {"contentBlockStart": {"contentBlockIndex": 0, "start": "x"}},
        {"contentBlockDelta": {"contentBlockIndex": 0, "delta": None}},
        {"contentBlockStop": {"contentBlockIndex": [0]}},
        begin(0, toolUse="x"),
        delta({}, text="x"),
    ],
)
def test_an_event_that_breaks_the_wire_ends_the_stream(payload: dict[str, Any]) -> None:
    turn = read(payload)
    assert (turn.error.kind, turn.complete) == ("malformed_chunk", False)


def test_nothing_is_told_of_what_stands_beside_an_error() -> None:
    turn = parse([START, {"contentBlockDelta": None, "messageStop": {"stopReason": "end_turn"}, **USAGE}])
    assert (turn.error and turn.error.kind, turn.complete) == ("malformed_chunk", False)


# -- ends --------------------------------------------------------------------------------------------------------------


@every(
    ("word", "kind"), [("malformed_tool_use", "malformed_function_call"), ("malformed_model_output", "provider_error")]
)
def test_what_the_service_could_not_read_is_an_error(word: str, kind: str) -> None:
    turn = read(*text_deltas(["x"]), *tool_use(1, CALL), reason=word)
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.kind, turn.error.code, turn.finish) == (kind, word, "error")
    assert (turn.text, turn.calls[0].dispatchable, turn.usage is not None) == ("x", False, True)


def test_a_stop_without_a_reason_completes_but_runs_nothing() -> None:
    for word in (None, "", 7):
        turn = read(*tool_use(0, CALL), reason=word)
        assert (turn.complete, turn.finish, turn.calls[0].dispatchable) == (True, None, False)


# -- errors ------------------------------------------------------------------------------------------------------------

EXCEPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"throttlingException": {"message": "Too many tokens"}}, "Too many tokens"),
    ({"internalServerException": {"message": "try again"}}, "try again"),
    ({"serviceUnavailableException": {"Message": "not now"}}, "not now"),
    ({"validationException": {"message": "too long"}}, "too long"),
    ({"modelTimeoutException": {}}, "the provider sent an error without a message"),
    ({"modelStreamErrorException": {"originalMessage": "crashed", "originalStatusCode": 500}}, "crashed"),
    ({"modelStreamErrorException": {"message": "failed", "originalMessage": "crashed"}}, "failed: crashed"),
    ({"modelStreamErrorException": {"message": "failed", "originalMessage": "failed"}}, "failed"),
]


@every(("payload", "text"), EXCEPTIONS)
@every("before", [[], [START, *tool_use(0, CALL)]])
def test_an_exception_is_the_providers_error_under_its_own_name(
    payload: dict[str, Any], text: str, before: Payloads
) -> None:
    for body in (events([*before, payload]), [*before, payload]):
        error = parse(body).error
        assert isinstance(error, ProviderError)
        assert (error.message, error.code) == (text, next(iter(payload)))


def test_an_error_without_a_model_stands_in_the_headers() -> None:
    body = [
        *converse(["Hi"], stop=None),
        message({":message-type": "error", ":error-code": "E", ":error-message": "m"}),
    ]
    error = parse(body).error
    assert isinstance(error, ProviderError)
    assert (error.message, error.code) == ("m", "E")


def test_an_exception_after_the_end_is_an_error_too() -> None:
    turn = parse([START, *tool_use(0, CALL), end("tool_use"), {"internalServerException": {"message": "m"}}])
    assert (turn.error and turn.error.kind, turn.complete, turn.calls[0].dispatchable) == (
        "provider_error",
        False,
        False,
    )


def test_another_message_inside_is_an_error() -> None:
    turn = read(use(0), arguments(0, '{"a":'), START, use(0, "tooluse_2"), stop(0))
    assert (turn.error and turn.error.kind, [call.status for call in turn.calls]) == ("protocol_error", ["truncated"])


# -- what goes back ----------------------------------------------------------------------------------------------------


def test_a_signature_goes_back_byte_for_byte_with_its_text() -> None:
    turn = read(
        *(
            reasoning(0, text="I "),
            reasoning(0, text="think"),
            reasoning(0, signature="RX+F"),
            reasoning(0, signature="/Q="),
        ),
        *(stop(0), *tool_use(1, CALL)),
    )
    assert content(turn)[0] == {"reasoningContent": {"reasoningText": {"text": "I think", "signature": "RX+F/Q="}}}


def test_a_signature_may_stand_for_text_that_is_withheld() -> None:
    turn = read(reasoning(0, signature="Uw=="), stop(0), *text_deltas(["Hi"], 1), reason="end_turn")
    assert content(turn)[0] == {"reasoningContent": {"reasoningText": {"text": "", "signature": "Uw=="}}}
    between = read(delta(1, text="a"), reasoning(0, signature="Uw=="), stop(0), delta(1, text="b"), reason="end_turn")
    assert (between.text, between.reasoning) == ("ab", "")


@every(
    "payloads",
    [
        [reasoning(0, text="Hm"), stop(0)],
        [reasoning(0, text="Hm"), reasoning(0, signature=""), stop(0)],
        [reasoning(0, text="H"), delta(1, text="x"), reasoning(0, text="m"), reasoning(0, signature="S"), stop(0)],
        [reasoning(0, text="H"), delta(1, text="x"), reasoning(0, signature="S"), stop(0)],
    ],
)
def test_reasoning_without_a_signature_of_all_of_it_does_not_go_back(payloads: Payloads) -> None:
    turn = read(*payloads, *text_deltas(["Hi"], 2), reason="end_turn")
    assert turn.reasoning
    assert not any("reasoningContent" in block for block in content(turn))


def test_reasoning_that_was_signed_before_another_block_came_goes_back() -> None:
    turn = read(reasoning(0, text="Hm"), reasoning(0, signature="S"), *text_deltas(["Hi"], 1), reason="end_turn")
    assert [next(iter(block)) for block in content(turn)] == ["reasoningContent", "text"]


def test_half_a_signature_of_a_cut_response_does_not_go_back() -> None:
    turn = read(*text_deltas(["Hi"]), reasoning(1, text="Hm"), reasoning(1, signature="S"), ends=False)
    assert turn.parts[1].provider_state is None


REDACTED: list[tuple[list[Any], Any]] = [
    (["QUJD"], "QUJD"),
    (["opaque, and no base64"], "opaque, and no base64"),
    (["QUJDRA==", "RQ=="], "QUJDREU="),
    ([b"ABCD", b"\xff"], b"ABCD\xff"),
    (["QUJDRA==", b"E"], "QUJDREU="),
]


@every(("pieces", "whole"), REDACTED)
@every("name", ["redactedContent", "data"])
def test_redacted_reasoning_goes_back_in_the_form_that_it_came_in(pieces: list[Any], whole: Any, name: str) -> None:
    deltas = [reasoning(0, **{name: piece}) for piece in pieces]
    turn = parse([START, *deltas, stop(0), *tool_use(1, CALL), end("tool_use"), USAGE])
    assert content(turn)[0] == {"reasoningContent": {"redactedContent": whole}}
    assert turn.messages(BEDROCK) == turn.messages(BEDROCK)


@every("odd", [["?", "QQ=="], [b"A", "?"], ["é", "QQ=="], [7], [["QQ=="]]])
def test_redacted_reasoning_that_cannot_be_joined_is_told_as_unknown(odd: list[Any]) -> None:
    payloads = [START, *(reasoning(0, redactedContent=piece) for piece in odd), stop(0), end("end_turn"), USAGE]
    assert any(isinstance(event, UnknownPayload) for event in told(payloads))
    assert parse(payloads).messages(BEDROCK) == []


def test_a_block_with_deltas_that_are_not_understood_does_not_go_back() -> None:
    turn = read(reasoning(0, redactedContent="QQ=="), delta(0, newDelta=1), stop(0), *text_deltas(["x"], 1))
    assert [next(iter(block)) for block in content(turn)] == ["text"]


CITATION = {
    "title": "t",
    "source": "s",
    "sourceContent": [{"text": "x"}],
    "location": {"web": {"url": "u", "domain": "d"}},
}


def test_citations_go_back_with_the_text_of_their_block() -> None:
    turn = read(delta(0, citation=CITATION), *text_deltas(["Warm."]), *text_deltas(["So."], 1), reason="end_turn")
    cited = {"citationsContent": {"content": [{"text": "Warm."}], "citations": [CITATION]}}
    assert content(turn) == [cited, {"text": "So."}]
    assert all(set(block) == {"type", "text"} for block in turn.messages("anthropic.messages")[0]["content"])


def test_a_citation_of_no_text_is_told_as_unknown() -> None:
    payloads = [START, delta(0, citation=CITATION), stop(0), end("end_turn"), USAGE]
    assert [event.raw for event in told(payloads) if isinstance(event, UnknownPayload)] == [{"citations": [CITATION]}]


SERVER = [
    use(0, "tooluse_s", "nova_grounding", type="server_tool_use"),
    *(arguments(0, '{"query":"x"}'), stop(0)),
]
RESULT = [
    begin(1, toolResult={"toolUseId": "tooluse_s", "type": "nova_grounding_result", "status": "success"}),
    *(delta(1, toolResult=[{"text": "found"}]), delta(1, toolResult=[{"json": {"n": [1]}}]), stop(1)),
]


def test_a_call_that_the_service_runs_itself_is_reported_and_goes_back_with_its_result() -> None:
    turn = read(*SERVER, *RESULT, *text_deltas(["Warm."], 2), reason="end_turn")
    (call,) = turn.calls
    assert (call.kind, call.arguments, call.dispatchable, turn.finish) == ("server", {"query": "x"}, False, "stop")
    asked = {"toolUseId": "tooluse_s", "name": "nova_grounding", "input": {"query": "x"}, "type": "server_tool_use"}
    answered = {"toolUseId": "tooluse_s", "type": "nova_grounding_result", "status": "success"}
    answered |= {"content": [{"text": "found"}, {"json": {"n": [1]}}]}
    assert turn.messages() == [
        {"role": "assistant", "content": [{"toolUse": asked}, {"toolResult": answered}, {"text": "Warm."}]}
    ]
    assert turn.messages("openai.chat_completions") == [{"role": "assistant", "content": "Warm."}]


@every("payloads", [SERVER, RESULT, [*SERVER, begin(1, toolResult={"status": "success"}), stop(1)]])
def test_half_of_such_a_pair_does_not_go_back(payloads: Payloads) -> None:
    turn = read(*payloads, *text_deltas(["x"], 2), reason="end_turn")
    assert content(turn) == [{"text": "x"}]


def test_the_type_of_a_call_of_ours_does_not_go_back() -> None:
    turn = read(use(0, type="tool_use", newField="x"), arguments(0, "{}"), stop(0))
    assert content(turn) == [{"toolUse": {"toolUseId": "tooluse_1", "name": "f", "input": {}, "newField": "x"}}]


@every(
    ("deltas", "image"),
    [
        ([{"source": {"bytes": "QUJD"}}, {"source": {"bytes": "RA=="}}], {"source": {"bytes": "QUJDRA=="}}),
        (
            [{"source": {"bytes": "QUJD"}, "error": {"message": "m"}}],
            {"source": {"bytes": "QUJD"}, "error": {"message": "m"}},
        ),
        ([{"source": {"s3Location": {"uri": "s3://b/k"}}}], {"source": {"s3Location": {"uri": "s3://b/k"}}}),
    ],
)
def test_an_image_goes_back_whole(deltas: Payloads, image: dict[str, Any]) -> None:
    turn = read(begin(0, image={"format": "png"}), *(delta(0, image=d) for d in deltas), stop(0), reason="end_turn")
    assert content(turn) == [{"image": {"format": "png", **image}}]


@every("deltas", [[], [{"error": {"message": "m"}}], ["x"]])
def test_an_image_without_a_source_is_told_as_unknown(deltas: list[Any]) -> None:
    payloads = [
        START,
        begin(0, image={"format": "png"}),
        *(delta(0, image=d) for d in deltas),
        stop(0),
        end("end_turn"),
    ]
    assert any(isinstance(event, UnknownPayload) for event in told(payloads))
    assert parse(payloads).messages(BEDROCK) == []


def test_opaque_parts_of_a_cut_response_do_not_go_back() -> None:
    turn = read(
        *text_deltas(["x"]), begin(1, toolResult={"toolUseId": "t"}), reasoning(2, redactedContent="QQ=="), ends=False
    )
    assert content(turn) == [{"text": "x"}]


def test_opaque_parts_that_are_never_stopped_are_closed_by_the_end() -> None:
    turn = read(reasoning(0, redactedContent="QQ=="), *text_deltas(["x"], 1), reason="end_turn")
    assert codes(turn) == ["missing_block_stop"]
    assert [part.kind for part in turn.parts] == ["text", "provider"]


# -- the other ways in -------------------------------------------------------------------------------------------------


def test_the_same_events_may_come_through_invoke_model() -> None:
    payloads = converse_events(["Hi"], [CALL])
    payloads[-1] = payloads[-1] | {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 9}}
    assert snapshot(parse([chunk(payload) for payload in payloads])) == snapshot(parse(converse(["Hi"], [CALL])))


def test_a_model_that_speaks_another_wire_is_decoded_by_it() -> None:
    payloads = [json.loads(event.partition(b"data: ")[2]) for event in anthropic(["Hi"], [("toolu_1", "f", "{}")])]
    payloads[-1] |= {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 9}}
    turn = parse([chunk(payload) for payload in payloads])
    assert snapshot(turn) == snapshot(parse(anthropic(["Hi"], [("toolu_1", "f", "{}")])))
    cut = parse([*(chunk(payload) for payload in payloads[:4]), *events([EXCEPTIONS[0][0]])])
    assert (cut.wire, cut.error and cut.error.kind) == ("anthropic.messages", "provider_error")


def test_a_model_that_speaks_no_wire_is_an_error_that_shows_its_keys() -> None:
    error = parse([chunk({"outputText": "Hi", "completionReason": "FINISH"})]).error
    assert (error.kind, "completionReason, outputText" in str(error)) == ("unknown_wire", True)


# -- bounds -----------------------------------------------------------------------------------------------------------


@every(
    "payload",
    [
        delta(0, citation={"title": "x" * 50}),
        delta(0, toolResult=[{"text": "x" * 50}]),
        delta(0, image={"source": {"bytes": "x" * 50}}),
        begin(0, toolResult={"toolUseId": "t", "x": "x" * 50}),
        reasoning(0, data="x" * 50),
    ],
)
def test_what_is_kept_beside_the_text_counts_like_text(payload: dict[str, Any]) -> None:
    for body in ([START, payload, end("end_turn")], events([START, payload, end("end_turn")])):
        error = parse(body, wire=BEDROCK, limits=Limits(max_text_bytes=49)).error
        assert isinstance(error, LimitExceeded)
        assert error.setting == "max_text_bytes"


_WHOLE = [
    START,
    *(reasoning(0, text="Hm"), reasoning(0, signature="S"), stop(0)),
    *(reasoning(1, redactedContent="QQ=="), reasoning(1, redactedContent="QQ=="), stop(1)),
    *(delta(2, citation=CITATION), delta(2, text="Hi"), delta(2, text="!"), stop(2)),
    *(*tool_use(3, CALL, pieces=2), *SERVER, *RESULT),
    *(begin(4, image={"format": "png"}), delta(4, image={"source": {"bytes": "QQ=="}}), stop(4)),
    *(end("tool_use"), USAGE),
]


# -- botocore's own model of the API, for who has it installed ---------------------------------------------------------


def test_botocore_takes_the_messages_and_yields_the_same_events() -> None:
    session = pytest.importorskip("botocore.session").get_session()
    from botocore.eventstream import EventStream  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from botocore.parsers import EventStreamJSONParser  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from botocore.validate import ParamValidator  # type: ignore[import-not-found,import-untyped,unused-ignore]

    operation = session.get_service_model("bedrock-runtime").operation_model("ConverseStream")

    class Body:
        def stream(self) -> Any:
            yield from events(_WHOLE)

    shape = operation.output_shape.members["stream"]
    decoded = list(EventStream(Body(), shape, EventStreamJSONParser(), "ConverseStream"))
    from_botocore, from_bytes = parse(decoded), parse(events(_WHOLE))
    assert [part.text for part in from_botocore.parts] == [part.text for part in from_bytes.parts]
    blobs = [
        turn.messages()[0]["content"][1]["reasoningContent"]["redactedContent"] for turn in (from_botocore, from_bytes)
    ]
    assert blobs == [b"\x41\x41", "QUE="], "each in the form that its own client takes"
    for turn in (from_botocore, from_bytes, parse(chat(["Hi"], [("a", "f", '{"a":[1,{}]}')])), parse(anthropic(["x"]))):
        report = ParamValidator().validate({"modelId": "m", "messages": turn.messages(BEDROCK)}, operation.input_shape)
        assert not report.has_errors(), report.generate_report()
