"""Gemini's responses: parts, whole calls, what the provider ran itself, ends, and what is passed over."""

from __future__ import annotations

from typing import Any

from every_wire import GEMINI
from gemini_streams import call, candidate, gemini, response, text
from profiles import every
from sansio import check_turn, codes, snapshot

from streamtools import StreamDecoder, Turn, Usage, parse
from streamtools.errors import ProviderError
from streamtools.events import ProviderItem, UnknownPayload


def read(*payloads: dict[str, Any], finish: str | None = "STOP", **options: Any) -> Turn:
    ends = [response(finish=finish)] if finish else []
    turn = parse([*payloads, *ends], wire=GEMINI, **options)
    check_turn(turn)
    return turn


def events(*payloads: dict[str, Any], wire: str | None = None) -> list[Any]:
    decoder = StreamDecoder(wire=wire)
    return [event for item in payloads for event in decoder.feed(item)] + decoder.finish()


# -- events ------------------------------------------------------------------------------------------------------------


def test_calls_of_one_response_are_calls_each_with_the_id_that_it_has_or_one_that_is_made_up() -> None:
    turn = read(response(call("f", {"a": 1}, id="x1"), call("f", {"a": 1}), call("g")))
    assert [(c.name, c.arguments, c.call_id_synthesized) for c in turn.calls] == [
        ("f", {"a": 1}, False),
        ("f", {"a": 1}, True),
        ("g", {}, True),
    ]
    assert turn.calls[0].call_id == "x1"
    assert all(c.dispatchable for c in turn.calls)


@every("args", [[1], 7, True, "no JSON", '["a"]'])
def test_arguments_that_are_no_object_do_not_run(args: Any) -> None:
    turn = read(response(call("f", args)))
    assert [c.status for c in turn.calls] == ["invalid"]


def test_numbers_keep_all_their_digits() -> None:
    body = (
        b'data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"n":%d,"x":0.10}}}]}}]}\r\n\r\n'
    )
    turn = parse(body % 2**70 + gemini()[-1])
    assert turn.calls[0].arguments == {"n": 2**70, "x": 0.1}


def test_numbers_keep_all_their_digits_in_other_spellings_too() -> None:
    part = b'{"function_call":{"name":"f","args":{"n_n":%d}}}'
    inner = b'{"candidates":[{"content":{"parts":[%s]},"finish_reason":"STOP"}]}' % part
    for body in (inner, b'{"response":%s}' % inner):
        turn = parse(b"data: " + body % 2**70 + b"\r\n\r\n")
        assert turn.calls[0].arguments == {"n_n": 2**70}
        assert turn.complete


def test_a_call_that_the_model_named_while_it_spoke_is_told_after_the_text_of_its_part() -> None:
    turn = read(response(call("f", {}) | {"text": "Now:"}), response(call("g", {}) | {"text": "hm", "thought": True}))
    assert [part.kind for part in turn.parts] == ["text", "call", "reasoning", "call"]
    assert turn.calls[1].provider_state == {"thought": True}


@every("body", [{}, {"willContinue": False}, {"args": None}, {"args": {}}])
def test_a_call_that_says_nothing_is_the_mark_of_an_end_that_was_there_already(body: dict[str, Any]) -> None:
    turn = read(response({"functionCall": body}))
    assert not turn.calls
    assert not turn.warnings


def test_reading_goes_on_after_a_finish_reason() -> None:
    turn = read(
        response(text("a"), finish="STOP"), response(text("b"), call("f", {})), response(finish="STOP"), finish=None
    )
    assert (turn.text, len(turn.calls), turn.finish, turn.complete) == ("ab", 1, "tool_calls", True)
    turn = read(response(text("a"), finish="STOP"), response(text("b")), finish=None)
    assert (turn.text, turn.finish, turn.complete) == ("ab", "stop", True)


def test_a_call_after_a_finish_reason_needs_another_or_a_done_line() -> None:
    body = b"".join(gemini(["a"], finish="STOP") + gemini([], [("f", {})], finish=None))
    turn = parse(body)
    assert (turn.complete, turn.error and turn.error.kind) == (False, "stream_truncated")
    assert [(c.status, c.dispatchable) for c in turn.calls] == [("ready", False)]
    for end in (b"data: [DONE]\n\n", b"".join(gemini())):
        turn = parse(body + end)
        assert (turn.complete, turn.calls[0].dispatchable) == (True, True)


# -- signatures --------------------------------------------------------------------------------------------------------


def test_a_signed_part_is_never_joined_with_another() -> None:
    turn = read(
        response(text("a"), text("b", signature="cw=="), text("c"), text("", signature="dA==")),
        response(text("x", thought=True), text("y", thought=True, signature="dQ==")),
    )
    assert [(p.kind, p.text, p.provider_state) for p in turn.parts] == [
        ("text", "a", None),
        ("text", "b", {"thoughtSignature": "cw=="}),
        ("text", "c", None),
        ("text", "", {"thoughtSignature": "dA=="}),
        ("reasoning", "x", None),
        ("reasoning", "y", {"thoughtSignature": "dQ=="}),
    ]


def test_a_signature_without_any_data_is_one_of_empty_text() -> None:
    turn = read(response({"thoughtSignature": "cw=="}))
    assert turn.messages() == [{"role": "model", "parts": [{"text": "", "thoughtSignature": "cw=="}]}]


@every("signature", ["", 7, ["x"], {"a": 1}])
def test_a_signature_that_is_none_does_not_go_back(signature: Any) -> None:
    parts = [text("a"), call("f", {}), {"inlineData": {"data": ""}}]
    turn = read(response(*(part | {"thoughtSignature": signature} for part in parts)))
    assert turn.messages()[0]["parts"] == parts


def test_what_else_a_part_has_stays_with_it() -> None:
    turn = read(response(text("a") | {"partMetadata": {"my_key": 1}}, call("f", {}) | {"partMetadata": {"k": None}}))
    assert turn.messages()[0]["parts"] == [
        {"text": "a", "partMetadata": {"my_key": 1}},
        {
            "functionCall": {"name": "f", "args": {}},
            "partMetadata": {"k": None},
        },
    ]


# -- what the provider runs itself, and what goes back as it came ------------------------------------------------------


def test_the_providers_own_calls_are_reported_and_never_dispatched() -> None:
    code = {"executableCode": {"id": "e1", "language": "PYTHON", "code": "1"}, "thoughtSignature": "cw=="}
    search = {"toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["q"]}}}
    turn = read(
        response(code, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}),
        response(search, {"toolResponse": {"id": "s1", "response": {"a_b": None}}}, {"toolCall": {}}),
    )
    assert [(c.kind, c.name, c.call_id_synthesized, c.dispatchable) for c in turn.calls] == [
        ("server", "code_execution", False, False),
        ("server", "GOOGLE_SEARCH_WEB", False, False),
        ("server", "tool_call", True, False),
    ]
    assert turn.calls[0].arguments == {"id": "e1", "language": "PYTHON", "code": "1"}
    assert turn.calls[1].arguments == {"queries": ["q"]}
    assert turn.finish == "stop"
    assert turn.messages()[0]["parts"] == [
        code,
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        search,
        {"toolResponse": {"id": "s1", "response": {"a_b": None}}},
    ], "the last call has no response, and must not go back without"


@every("kind", ["inlineData", "fileData", "functionResponse", "codeExecutionResult", "toolResponse"])
def test_parts_that_are_not_looked_into_go_back_as_they_came(kind: str) -> None:
    part = {kind: {"a": [1, {"b": "c"}]}, "thoughtSignature": "cw=="}
    told = events(response(text("x"), part, finish="STOP"))
    assert [event.raw for event in told if isinstance(event, ProviderItem)] == [part]
    assert read(response(text("x"), part)).messages()[0]["parts"] == [{"text": "x"}, part]


def test_a_part_of_an_unknown_kind_goes_back_too_and_is_reported() -> None:
    turn = read(response({"hologram": {"x": 1}}))
    assert turn.messages() == [{"role": "model", "parts": [{"hologram": {"x": 1}}]}]
    assert [(w.code, w.detail) for w in turn.warnings] == [("unknown_block_type", "hologram")]


def test_a_part_nested_too_deep_is_not_given_back() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    turn = read(response(text("a"), {"hologram": deep}))
    assert turn.messages() == [{"role": "model", "parts": [{"text": "a"}]}]
    assert "nested_too_deep" in codes(turn)


# -- the end -----------------------------------------------------------------------------------------------------------


@every(
    ("reason", "kind"),
    [
        ("MALFORMED_FUNCTION_CALL", "malformed_function_call"),
        ("UNEXPECTED_TOOL_CALL", "malformed_function_call"),
        ("TOO_MANY_TOOL_CALLS", "provider_error"),
        ("MISSING_THOUGHT_SIGNATURE", "provider_error"),
        ("MALFORMED_RESPONSE", "provider_error"),
    ],
)
@every("message", [None, "said so"])
def test_the_providers_verdict_is_an_error_of_a_complete_response_in_which_nothing_runs(
    reason: str, kind: str, message: str | None
) -> None:
    payload = {"candidates": [candidate([call("f", {})], reason, finishMessage=message)], "usageMetadata": {}}
    turn = read(payload, response(finish="STOP"), finish=None)
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.kind, turn.error.code, turn.error.message) == (kind, reason, message or reason)
    assert (turn.finish, turn.complete) == ("error", True)
    assert [(c.status, c.dispatchable) for c in turn.calls] == [("ready", False)]


def test_a_later_reason_counts_if_it_is_bad_news() -> None:
    for reasons, finish, warned in (
        (("STOP", "STOP"), "stop", ["repeated_finish_reason"]),
        (("STOP", "MAX_TOKENS"), "length", ["conflicting_finish_reason"]),
        (("SAFETY", "STOP"), "content_filter", ["conflicting_finish_reason"]),
        (("FINISH_REASON_UNSPECIFIED", "STOP", ""), "stop", []),
        ((1, 0), "stop", ["numeric_finish_reason"]),
        ((5,), "other", ["numeric_finish_reason"]),
    ):
        turn = read(*(response(finish=reason) for reason in reasons), finish=None)
        assert (turn.finish, codes(turn)) == (finish, warned)


@every("reason", [True, 1.5, ["STOP"], {"reason": "STOP"}])
def test_a_reason_that_is_none_is_reported_and_ends_nothing(reason: Any) -> None:
    turn = read(response(text("a"), finish=reason), finish=None)
    assert (turn.finish, turn.complete, turn.error and turn.error.kind) == (None, False, "stream_truncated")
    assert reason in [event.raw for event in events(response(finish=reason)) if isinstance(event, UnknownPayload)]


def test_a_response_that_may_go_on_says_how() -> None:
    payload = {"candidates": [candidate([text("a")], "CONTINUATION", continuationToken="dG9r")]}
    [item] = [event for event in events(payload) if isinstance(event, ProviderItem)]
    assert (item.type, item.raw) == ("continuationToken", {"continuationToken": "dG9r"})
    assert parse([payload]).messages() == [{"role": "model", "parts": [{"text": "a"}]}], "the token is the request's"


@every(
    ("feedback", "message"),
    [
        ({"blockReason": "SAFETY"}, "SAFETY"),
        ({"blockReason": "OTHER", "blockReasonMessage": "language"}, "language"),
        ({"blockReason": 1}, "the prompt was blocked"),
    ],
)
def test_a_refused_prompt_is_an_error(feedback: dict[str, Any], message: str) -> None:
    turn = parse([{"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 7}}])
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.kind, turn.error.message, turn.finish, turn.complete) == ("blocked", message, "error", False)
    assert turn.usage == Usage(input_tokens=7)


@every("feedback", [None, 3, {}, {"safetyRatings": []}, {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}])
def test_feedback_that_refuses_nothing_is_passed_over(feedback: Any) -> None:
    turn = read({"promptFeedback": feedback}, response(text("a")))
    assert (turn.text, turn.complete, turn.error) == ("a", True, None)


def test_a_warning_about_the_prompt_beside_an_answer_refuses_nothing() -> None:
    turn = read(response(text("a"), promptFeedback={"blockReason": "SAFETY"}))
    assert (turn.text, turn.error) == ("a", None)


def test_an_error_in_the_stream_has_googles_status_for_its_type() -> None:
    error = {"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}
    turn = read(response(text("a")), {"error": error, "usageMetadata": {"candidatesTokenCount": 2}})
    assert isinstance(turn.error, ProviderError)
    assert (turn.error.code, turn.error.type, turn.error.message) == (429, "RESOURCE_EXHAUSTED", "slow down")
    assert (turn.finish, turn.usage) == ("error", Usage(output_tokens=2))
    assert read({"error": {"message": "m", "type": "t"}}, finish=None).error.type == "t"  # type: ignore[union-attr]
    assert read(response(text("a"), error=None)).error is None


# -- counts ------------------------------------------------------------------------------------------------------------


def counted(*usages: Any) -> Usage | None:
    fast = [response(text("a"), usageMetadata=usage) for usage in usages]
    slow = [response(text("a"), text("b"), usageMetadata=usage) for usage in usages]
    assert read(*fast).usage == read(*slow).usage
    return read(*fast).usage


def test_thoughts_are_output_and_are_not_counted_twice() -> None:
    apart = {"promptTokenCount": 10, "candidatesTokenCount": 5, "thoughtsTokenCount": 40, "totalTokenCount": 55}
    assert counted(apart) == Usage(input_tokens=10, output_tokens=45, reasoning_tokens=40)
    assert counted({"thoughtsTokenCount": 40}) == Usage(output_tokens=40, reasoning_tokens=40)
    inside = apart | {"candidatesTokenCount": 45}
    assert counted(inside) == Usage(input_tokens=10, output_tokens=45, reasoning_tokens=40)
    with_tools = inside | {"toolUsePromptTokenCount": 3, "totalTokenCount": 58}
    assert counted(with_tools) == Usage(input_tokens=10, output_tokens=45, reasoning_tokens=40, tool_use_input_tokens=3)


# -- candidates --------------------------------------------------------------------------------------------------------


def test_one_candidate_is_followed_the_first() -> None:
    two = {
        "candidates": [{"content": {"parts": [text("a")]}}, {"content": {"parts": [text("b")]}, "finishReason": "STOP"}]
    }
    turn = read(two, finish=None)
    assert (turn.text, turn.complete, codes(turn)) == ("a", False, ["extra_candidate"])
    second = {"candidates": [candidate([text("c")], "STOP", index=1)]}
    third = {"candidates": [candidate([text("d")], "STOP", index=2), candidate([text("e")], "STOP", index=1)]}
    turn = read(second, third, finish=None)
    assert (turn.text, turn.complete) == ("ce", True)


# -- anything else -----------------------------------------------------------------------------------------------------


@every("candidates", [{"a": 1}, "x", 7, [1], [None], [["a"]], [candidate(), "x"]])
def test_candidates_that_are_none_end_the_stream(candidates: Any) -> None:
    turn = parse([{"candidates": candidates}], wire=GEMINI)
    assert turn.error.kind == "malformed_chunk"


@every(
    "spoiled_candidate",
    [
        {"content": "x"},
        {"content": ["x"]},
        {"content": [call("f", {"a": 1})]},
        {"content": {"parts": {"text": "x"}}},
        candidate(["x"]),
        candidate([{"text": 7}]),
        candidate([{"functionCall": "x"}]),
        candidate([{"functionCall": {"partialArgs": [1], "willContinue": True}}]),
    ],
)
def test_what_is_not_understood_inside_a_candidate_is_reported(spoiled_candidate: Any) -> None:
    told = events({"candidates": [spoiled_candidate]}, response(text("a"), finish="STOP"))
    assert any(isinstance(event, UnknownPayload) for event in told)
    assert told[-1].complete


def test_a_wrapped_response_is_read_like_one() -> None:
    payloads = [response(text("a")), response(call("f", {"n": 2**70}), finish="STOP")]
    plain, wrapped = parse(payloads), parse([{"response": payload, "traceId": "t"} for payload in payloads])
    assert codes(wrapped) == ["wrapped_response"]
    assert snapshot(wrapped) | {"warnings": ()} == snapshot(plain)
