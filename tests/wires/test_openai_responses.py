"""The Responses wire: its events, item by item, and the way back. Deviations are in ``test_quirks.py``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
from profiles import every
from responses_streams import (
    CREATED,
    Payload,
    added,
    arguments,
    custom,
    done,
    ended,
    event,
    function,
    message,
    output_text,
    reasoning,
    summary,
    text,
)
from sansio import check_histories, checked, codes
from wire_cases.responses import check_items

from streamtools import Limits, Observation, StreamDecoder, Turn, parse
from streamtools.events import ProviderItem, RefusalDelta, ToolCallEnd, UnknownPayload

RESPONSES = "openai.responses"


def read(*payloads: Payload, end: Payload | None = None, **options: Any) -> Turn:
    return checked(parse([CREATED, *payloads, *([ended()] if end is None else [end] if end else [])], **options))


def events_of(*payloads: Payload, tools: tuple[str, ...] = ()) -> list[Any]:
    decoder = StreamDecoder(tools=tools)
    return [event for item in payloads for event in decoder.feed(item)] + decoder.finish()


def observed(turn: Turn, content: str, outcome: Any = "ok") -> Turn:
    """The turn, each call of ours answered."""
    ours = [call for call in turn.calls if call.kind != "server"]
    answers = [
        Observation(call_id=call.call_id, tool_name=call.name, outcome=outcome, model_content=content) for call in ours
    ]
    return replace(turn, observations=tuple(answers))


# -- events ----------------------------------------------------------------------------------------------------------


def test_a_call_ends_with_its_item_which_alone_says_whether_it_was_cut() -> None:
    decoder = StreamDecoder()
    for payload in (CREATED, added(0, function()), arguments(0, "{}")):
        assert not any(isinstance(event, ToolCallEnd) for event in decoder.feed(payload))
    whole = event("function_call_arguments.done", 0, arguments="{}")
    assert not any(isinstance(event, ToolCallEnd) for event in decoder.feed(whole))
    assert any(isinstance(event, ToolCallEnd) for event in decoder.feed(done(0, function(arguments="{}"))))


def test_a_call_whose_item_never_ends_is_as_good_as_its_arguments_end() -> None:
    whole = event("function_call_arguments.done", 0, arguments="{}", name="g")
    turn = read(added(0, function(name="")), whole)
    assert [(call.name, call.status, call.dispatchable) for call in turn.calls] == [("g", "ready", True)]
    for end, ready in ((ended(), True), (ended(output=[message(output_text("Hi"))]), False)):
        (call,) = read(added(0, function()), arguments(0, "{}"), end=end).calls
        assert call.dispatchable is ready


# -- ends ------------------------------------------------------------------------------------------------------------

INCOMPLETE = {"reason": "max_output_tokens"}
FINISHES = [
    (ended(), "stop", "completed"),
    (ended("incomplete", incomplete_details=INCOMPLETE), "length", "max_output_tokens"),
    (ended("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter", "content_filter"),
    (ended("incomplete", incomplete_details={"reason": "bored"}), "other", "bored"),
    (ended("incomplete"), "other", "incomplete"),
    (ended("incomplete", event="completed", incomplete_details=INCOMPLETE), "length", "max_output_tokens"),
    (ended("cancelled"), "other", "cancelled"),
    (ended("completed", event="done"), "stop", "completed"),
    (ended("in_progress", event="completed"), "stop", "completed"),
    ({"type": "response.completed"}, "stop", "completed"),
]


@every(("end", "finish", "raw"), FINISHES)
def test_a_finish_is_ours_and_the_providers_word_is_kept(end: Payload, finish: str, raw: str) -> None:
    turn = read(added(0, message()), text(0, "Hi"), done(0, message(output_text("Hi"))), end=end)
    assert (turn.finish, turn.finish_raw, turn.complete, turn.error) == (finish, raw, True, None)


def test_a_completed_response_with_calls_of_ours_finishes_by_them() -> None:
    assert read(done(0, function(arguments="{}"))).finish == "tool_calls"
    assert read(done(0, custom("x"))).finish == "tool_calls"
    assert read(done(0, {"type": "web_search_call", "id": "ws_1", "action": {}})).finish == "stop"


ERRORS: list[tuple[Payload, str, Any]] = [
    (ended("failed", error={"code": "server_error", "message": "boom"}), "boom", "server_error"),
    (ended("failed", error=None), "the response failed; the provider gave no reason", None),
    ({"type": "error", "code": None, "message": "boom", "param": None}, "boom", None),
    ({"type": "error", "error": {"type": "tokens", "code": "rate_limit", "message": "boom"}}, "boom", "rate_limit"),
    ({"type": "response.error", "error": {"message": "boom"}}, "boom", None),
    ({"error": {"message": "boom"}}, "boom", None),
]


@every(("end", "said", "code"), ERRORS)
def test_an_error_ends_the_stream_and_runs_nothing(end: Payload, said: str, code: Any) -> None:
    turn = read(done(0, function(arguments="{}")), end, end={})
    assert (turn.error.kind, turn.error.message, vars(turn.error)["code"]) == ("provider_error", said, code)
    assert (turn.finish, turn.complete, turn.calls[0].dispatchable) == ("error", False, False)


# -- text and reasoning ----------------------------------------------------------------------------------------------


def test_paragraphs_of_a_summary_are_set_apart() -> None:
    payloads = [summary(0, "A", 0), summary(0, "B", 0), summary(0, "C", 1)]
    assert read(added(0, reasoning()), *payloads, done(0, reasoning("AB", "C"))).reasoning == "AB\n\nC"
    assert read(done(0, reasoning("AB", "C"))).reasoning == "AB\n\nC"


def test_reasoning_is_told_once_from_its_summary_or_from_its_content() -> None:
    whole = reasoning("S", content=[{"type": "reasoning_text", "text": "C"}])
    deltas = {"summary": summary(0, "S"), "content": event("reasoning_text.delta", 0, content_index=0, delta="C")}
    assert read(added(0, reasoning()), done(0, whole)).reasoning == "S"
    assert read(added(0, reasoning()), deltas["summary"], done(0, whole)).reasoning == "S"
    assert read(added(0, reasoning()), deltas["content"], done(0, whole)).reasoning == "C"
    assert read(added(0, reasoning()), *deltas.values(), done(0, whole)).reasoning == "S\n\nC"
    assert read(done(0, reasoning(content=[{"type": "reasoning_text", "text": "C"}]))).reasoning == "C"


@every(
    ("kind", "more", "field"),
    [
        ("output_text.done", {"text": "x"}, "text"),
        ("refusal.done", {"refusal": "x"}, "refusal"),
        ("reasoning_summary_text.done", {"text": "x"}, "reasoning"),
        ("reasoning_text.done", {"text": "x"}, "reasoning"),
    ],
)
def test_a_text_without_deltas_is_told_at_its_end_and_once(kind: str, more: Payload, field: str) -> None:
    for first in ([], [added(0, reasoning() if field == "reasoning" else message())]):
        turn = read(*first, event(kind, 0, **more), event(kind, 0, **more))
        assert getattr(turn, field) == "x"


def test_a_refusal_is_told_and_given_back() -> None:
    refused = message({"type": "refusal", "refusal": "No."})
    delta = event("refusal.delta", 0, content_index=0, delta="No.")
    for payloads in ([added(0, message()), delta, done(0, refused)], [done(0, refused)], [delta, done(0, refused)]):
        turn = read(*payloads)
        assert (turn.text, turn.refusal, turn.messages()) == ("", "No.", [refused])
        assert sum(isinstance(event, RefusalDelta) for event in events_of(CREATED, *payloads, ended())) == 1


@every("content", ["Hi", [{"type": "text", "text": "Hi"}], [output_text("H"), output_text("i")]])
def test_a_messages_text_may_have_any_of_its_shapes(content: Any) -> None:
    assert read(done(0, message() | {"content": content})).text == "Hi"


def test_what_the_deltas_lack_is_told_at_the_end() -> None:
    turn = read(added(0, message()), text(0, "Hel"), done(0, message(output_text("Hello"))))
    assert (turn.text, codes(turn)) == ("Hello", ["done_overrides_delta"])


def test_an_end_without_text_says_nothing_about_it() -> None:
    turn = read(added(0, message()), text(0, "Hi"), done(0, message()))
    assert (turn.text, codes(turn)) == ("Hi", [])


def test_deltas_after_the_items_end_are_not_added() -> None:
    late = event("output_text.done", 0, text="Hi!")
    turn = read(added(0, message()), text(0, "Hi"), done(0, message(output_text("Hi"))), text(0, "!"), late)
    assert (turn.text, codes(turn)) == ("Hi", ["delta_after_stop"])
    whole = event("function_call_arguments.done", 0, arguments="{}")
    turn = read(added(0, function()), whole, arguments(0, "}"), whole, done(0, function(arguments="{}")))
    assert (turn.calls[0].arguments, codes(turn)) == ({}, ["delta_after_stop"])


def test_items_may_interleave_and_keep_their_places() -> None:
    first, second = reasoning("Hm", encrypted_content="x"), message(output_text("Hello"))
    payloads = [added(0, reasoning()), summary(0, "H"), added(1, message()), text(1, "Hel"), summary(0, "m")]
    turn = read(*payloads, text(1, "lo"), done(1, second), done(0, first))
    assert (turn.text, turn.reasoning, turn.messages()) == ("Hello", "Hm", [first, second])


# -- calls -----------------------------------------------------------------------------------------------------------

ACTION = {"action": {"type": "exec", "command": ["ls"]}}
COMMANDS = {"action": {"commands": ["ls"]}}
PATCH = {"operation": {"type": "delete_file", "path": "p"}}
SEARCH = {"action": {"query": "q", "type": "search"}}
CODE = {"container_id": "k", "code": "1"}
GOAL = {"arguments": {"goal": "g"}}
MCP = {"name": "f", "server_label": "s", "arguments": '{"a": 1}', "output": "o"}


def built_in(type_: str, **more: Any) -> Payload:
    return {"type": type_, "id": "x", "call_id": "c", **more}


# An item at its end, and the kind, name and arguments of the call that it is.
CALLS: list[tuple[Payload, str, str, Any]] = [
    (function(arguments='{"a": 1}'), "function", "f", {"a": 1}),
    (function(arguments={"a": 2**70}), "function", "f", {"a": 2**70}),
    (function(arguments=None), "function", "f", {}),
    (custom("ls -l"), "custom", "f", {"input": "ls -l"}),
    (custom(""), "custom", "f", {"input": ""}),
    (custom('{"query": "x"}', call_id="xs_call_1"), "server", "f", {"query": "x"}),
    (built_in("local_shell_call", **ACTION), "function", "local_shell_call", ACTION),
    (built_in("shell_call", **COMMANDS, environment=None), "function", "shell_call", COMMANDS),
    (built_in("shell_call", **COMMANDS, environment={"type": "local"}), "function", "shell_call", COMMANDS),
    (built_in("shell_call", **COMMANDS, environment={"type": "container_auto"}), "server", "shell_call", COMMANDS),
    (built_in("apply_patch_call", **PATCH), "function", "apply_patch_call", PATCH),
    (built_in("web_search_call", **SEARCH), "server", "web_search_call", SEARCH),
    (built_in("file_search_call", queries=["q"], results=None), "server", "file_search_call", {"queries": ["q"]}),
    (built_in("code_interpreter_call", **CODE, outputs=[]), "server", "code_interpreter_call", CODE),
    (built_in("image_generation_call", result="iVBOR"), "server", "image_generation_call", {}),
    (built_in("mcp_call", **MCP), "server", "f", {"a": 1}),
    (built_in("tool_search_call", **GOAL, execution="server"), "server", "tool_search_call", GOAL),
    (built_in("tool_search_call", **GOAL, execution="client"), "function", "tool_search_call", GOAL),
    ({"type": "web_search_call", "id": "x", **SEARCH}, "server", "web_search_call", SEARCH),
]


@every(("item", "kind", "name", "value"), CALLS)
def test_an_item_that_is_a_call_is_of_its_kind(item: Payload, kind: str, name: str, value: Any) -> None:
    for payloads in ([done(0, item)], [added(0, item), done(0, item)], []):
        turn = read(*payloads, end=ended(output=[item]))
        (call,) = turn.calls
        assert (call.kind, call.name, call.arguments, call.status) == (kind, name, value, "ready")
        assert call.call_id == item.get("call_id", "x")
        assert call.dispatchable == (kind != "server")
        own, *outputs = turn.messages()
        if isinstance(item.get("arguments", ""), str):
            assert own == item
        assert len(outputs) == (kind != "server")
    cut = parse([CREATED, added(0, item | {"arguments": "", "input": ""})])
    assert (cut.calls[0].status, cut.calls[0].kind) == ("truncated", kind)
    check_histories(cut)
    assert bool(cut.messages()) == (kind != "server"), "nobody takes back a server's call that was cut"


@every("type_", ["mcp_list_tools", "program", "new_item"])
def test_any_other_item_is_kept_whole_and_given_back(type_: str) -> None:
    item = {"type": type_, "id": "x", "call_id": "c", "y": {"z": [1]}}
    turn = read(added(0, {"type": type_, "id": "x"}), done(0, item))
    assert (turn.calls, turn.messages()) == ((), [item])
    assert codes(turn) == (["unknown_block_type"] if type_ == "new_item" else [])
    (told,) = (event for event in events_of(CREATED, done(0, item), ended()) if isinstance(event, ProviderItem))
    assert (told.type, told.raw) == (type_, {"output_index": 0, "item": item})


def test_events_about_an_item_that_is_known_are_silent_and_those_about_none_are_not() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "action": {"query": "q"}}
    progress = {"type": "response.web_search_call.searching", "item_id": "ws_1"}
    assert codes(read(added(0, search), progress, done(0, search))) == []
    turn = read(progress)
    assert [(warning.code, warning.detail) for warning in turn.warnings] == [("unknown_event", progress["type"])]
    assert any(isinstance(event, UnknownPayload) for event in events_of(CREATED, progress, ended()))


def test_mcp_arguments_stream_and_are_not_ours_to_run() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "f", "server_label": "s", "arguments": ""}
    payloads = [event("mcp_call_arguments.delta", 0, item_id="mcp_1", delta=piece) for piece in ('{"a"', ": 1}")]
    turn = read(added(0, item), *payloads, done(0, item | {"arguments": '{"a": 1}', "output": "o"}))
    (call,) = turn.calls
    assert (call.call_id, call.kind, call.arguments, call.dispatchable) == ("mcp_1", "server", {"a": 1}, False)


def test_items_without_ids_are_the_same_only_if_they_are_alike() -> None:
    one, two = ({"type": "message", "content": [output_text(text)]} for text in ("a", "b"))
    turn = parse([CREATED, *({"type": "response.output_item.done", "item": item} for item in (one, one, two)), ended()])
    assert (turn.text, codes(turn)) == ("ab", ["item_without_added", "duplicate_block_stop"])


def test_an_item_announced_after_its_end_is_the_same() -> None:
    turn = read(done(0, function(arguments="{}")), added(0, function()))
    assert (len(turn.calls), codes(turn)) == (1, ["item_without_added", "duplicate_block_start"])


def test_an_item_is_found_by_its_place_else_by_its_id_else_it_is_the_latest() -> None:
    delta = {"type": "response.function_call_arguments.delta", "delta": '{"a":1}'}
    for address, code in (
        ({"output_index": 0, "item_id": "rotated"}, ["item_id_rotated"]),
        ({"output_index": 7, "item_id": "fc_1"}, []),
        ({"item_id": "fc_1"}, []),
        ({"item_id": "rotated"}, ["item_id_rotated"]),
        ({"item_id": "call_1"}, ["item_id_rotated"]),
        ({"call_id": "call_1"}, []),
        ({}, []),
    ):
        turn = read(added(0, function()), delta | address, done(0, function(arguments='{"a":1}')))
        assert ([call.arguments for call in turn.calls], codes(turn)) == ([{"a": 1}], code)


def test_the_end_of_a_call_is_found_by_its_call_id_first() -> None:
    one, two = function(1, '{"a":1}'), function(2, '{"b":2}')
    nameless = [item | {"id": None} for item in (two, one)]
    for places in ((0, 1), (0, 0), (None, None)):
        ends = [done(None, item) for item in nameless]
        turn = read(added(places[0], function(1)), added(places[1], function(2)), *ends)
        assert [(call.call_id, call.arguments) for call in turn.calls] == [("call_1", {"a": 1}), ("call_2", {"b": 2})]
    stray = read(added(0, function(1)), done(0, two), done(0, one), done(None, function(3, "{}")))
    assert [call.call_id for call in stray.calls] == ["call_1", "call_2", "call_3"]
    assert [call.arguments for call in stray.calls] == [{"a": 1}, {"b": 2}, {}]


def test_one_call_in_two_items_is_one_call() -> None:
    turn = read(done(0, function(1, "{}")), done(1, function(1, "{}") | {"id": "fc_2"}))
    assert [(call.dispatchable, call.call_id_synthesized) for call in turn.calls] == [(True, False)]
    assert "call_resent" in {warning.code for warning in turn.warnings}


def test_a_call_that_only_deltas_told_of_cannot_run() -> None:
    for kind in ("function_call_arguments", "custom_tool_call_input", "mcp_call_arguments"):
        turn = read(event(f"{kind}.delta", 0, delta="{}"))
        assert [(call.problem, call.dispatchable) for call in turn.calls] == [("missing_name", False)]


def test_the_list_at_the_end_repeats_what_streamed_and_adds_what_did_not() -> None:
    one, two, other = function(1, "{}"), function(2, "{}"), function(3, "{}")
    turn = read(done(0, two), end=ended(output=[one, two, "odd", message(output_text("Hi")), other | {"name": "g"}]))
    assert [call.call_id for call in turn.calls] == ["call_2", "call_1", "call_3"]
    assert turn.text == "Hi"
    renamed = [item | {"id": f"new_{at}", "call_id": f"new_{at}"} for at, item in enumerate((reasoning(), one, two))]
    turn = read(done(0, one), done(1, two), end=ended(output=renamed))
    assert [call.call_id for call in turn.calls] == ["call_1", "call_2"]


# -- the way back ----------------------------------------------------------------------------------------------------

STATE = "gAAAA" + "\u2028\u00e9\\n" + "=" * 8


def test_a_turn_goes_back_item_by_item_byte_for_byte() -> None:
    items = [
        reasoning("Hm", encrypted_content=STATE, content=[]),
        message(output_text("Hi", logprobs=[], annotations=[{"type": "x"}]), phase="commentary"),
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q", "type": "search"}},
        reasoning(encrypted_content=STATE) | {"id": "rs_2"},
        function(1, '{"a" : 1.0}', namespace="n", status="completed"),
        custom("x\ny") | {"call_id": "call_2"},
    ]
    streamed = [payload for at, item in enumerate(items) for payload in (added(at, item), done(at, item))]
    for payloads, end in ((streamed, ended()), (streamed, ended(output=items)), ([], ended(output=items))):
        turn = parse([CREATED, *payloads, end])
        assert orjson.dumps(turn.messages()[:-2]) == orjson.dumps(items)
        outputs = [(item["type"], item["call_id"]) for item in turn.messages()[-2:]]
        assert outputs == [("function_call_output", "call_1"), ("custom_tool_call_output", "call_2")]
        check_items(turn.messages())


def test_reasoning_that_nobody_keeps_does_not_go_back() -> None:
    forgetful = CREATED | {"response": {"id": "resp_1", "store": False}}
    for item, kept in (
        (reasoning("Hm"), False),
        (reasoning("Hm", encrypted_content=STATE), True),
        (reasoning(content=[{"type": "reasoning_text", "text": "x"}]), True),
    ):
        turn = parse([forgetful, added(0, item), done(0, item), done(1, function(arguments="{}")), ended()])
        assert [item["type"] for item in turn.messages()][: 1 + kept] == ["reasoning", "function_call"][1 - kept :]
    open_message = [added(0, message()), text(0, "Hi"), done(1, reasoning("Hm"))]
    turn = parse([forgetful, *open_message, done(0, message(output_text("Hi"))), ended()])
    assert [item["type"] for item in turn.messages()] == ["message"]
    unseen = [added(0, message()), text(0, "Hi"), added(1, reasoning()), done(1, reasoning())]
    assert [item["type"] for item in parse([forgetful, *unseen, ended()]).messages()] == ["message"]


@every("ends", [True, False])
def test_reasoning_without_what_follows_it_does_not_go_back(ends: bool) -> None:
    item = reasoning("Hm", encrypted_content=STATE)
    first = [CREATED, added(0, item), done(0, item), added(1, reasoning()), summary(1, "Hm")]
    end: list[Payload] = [ended("incomplete", incomplete_details=INCOMPLETE)] if ends else []
    assert parse([*first, *end]).messages() == []
    cut = parse([*first[:3], added(1, function()), arguments(1, '{"a'), *end])
    assert [item["type"] for item in cut.messages()] == ["reasoning", "function_call", "function_call_output"]
    assert cut.messages()[1] == {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}
    check_histories(cut)


def test_reasoning_alone_or_at_the_end_of_a_turn_does_not_go_back() -> None:
    item = reasoning(encrypted_content=STATE)
    assert read(done(0, item)).messages() == []
    assert [item["type"] for item in read(done(0, message(output_text("Hi"))), done(1, item)).messages()] == ["message"]


def test_a_message_that_was_cut_goes_back_as_far_as_it_came() -> None:
    refusal = event("refusal.delta", 0, content_index=1, delta="No.")
    turn = read(added(0, message(phase="commentary")), text(0, "Hel"), refusal, end={})
    (item,) = turn.messages()
    assert item == message(output_text("Hel"), {"type": "refusal", "refusal": "No."}) | {
        "status": "incomplete",
        "phase": "commentary",
    }
    assert read(text(0, "Hel"), end={}).messages()[0]["content"] == [output_text("Hel")]
    assert read(added(0, message()), end={}).messages() == []
    two = [added(0, message()), text(0, "a"), added(1, message() | {"id": "msg_2"}), text(1, "b")]
    assert [item["content"] for item in read(*two, end={}).messages()] == [[output_text("a")], [output_text("b")]]


def test_who_made_an_item_is_said_and_not_taken_back() -> None:
    output = {"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
    item = {"type": "shell_call_output", "call_id": "c", "output": [output | {"created_by": "u"}, 7], "created_by": "u"}
    assert read(done(0, item)).messages() == [{"type": "shell_call_output", "call_id": "c", "output": [output, 7]}]
    assert read(done(0, item | {"output": None})).messages() == [
        {"type": "shell_call_output", "call_id": "c", "output": None}
    ]


@every("odd", [None, "", 7])
def test_an_id_or_a_status_that_is_none_is_left_out(odd: Any) -> None:
    item, _ = read(done(0, function(arguments="{}") | {"id": odd, "status": odd})).messages()
    assert item == {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"}


def test_what_is_nested_too_deep_for_any_encoder_is_not_kept() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    turn = read(
        done(0, message(output_text("Hi", logprobs=deep))),
        done(1, {"type": "program", "x": deep}),
        added(2, function(x=deep)),
        done(2, function(arguments="{}", x=deep)),
    )
    said, call, _ = turn.messages()
    assert said == message(output_text("Hi"))
    assert call == {"type": "function_call", "arguments": "{}", "call_id": "call_1", "name": "f"}


@every(("outcome", "failed"), [("ok", False), ("failed", True)])
def test_each_call_is_answered_in_its_own_shape(outcome: str, failed: bool) -> None:
    caller = {"type": "program", "caller_id": "prog_1"}
    items = [
        function(1, "{}", caller=caller),
        custom("x", call_id="call_2"),
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "call_3", "status": "completed"} | ACTION,
        {"type": "shell_call", "call_id": "call_4", "action": {"commands": ["ls"], "max_output_length": 9}},
        {"type": "shell_call", "call_id": "call_5", "action": None},
        {"type": "apply_patch_call", "call_id": "call_6", "operation": {"type": "delete_file", "path": "p"}},
    ]
    turn = observed(read(*(done(at, item) for at, item in enumerate(items))), "said", outcome)
    chunk = {
        "stdout": "" if failed else "said",
        "stderr": "said" if failed else "",
        "outcome": {"type": "exit", "exit_code": int(failed)},
    }
    assert turn.messages()[len(items) :] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "said", "caller": caller},
        {"type": "custom_tool_call_output", "call_id": "call_2", "output": "said"},
        {"type": "local_shell_call_output", "call_id": "call_3", "output": "said"},
        {"type": "shell_call_output", "call_id": "call_4", "output": [chunk], "max_output_length": 9},
        {"type": "shell_call_output", "call_id": "call_5", "output": [chunk]},
        {"type": "apply_patch_call_output", "call_id": "call_6"}
        | {"status": "failed" if failed else "completed", "output": "said"},
    ]


# -- whatever comes --------------------------------------------------------------------------------------------------


def test_more_items_than_allowed_end_the_stream() -> None:
    limits = Limits(max_open_blocks=2)
    items = [done(at, function(at, "{}")) for at in range(3)]
    assert parse([CREATED, *items[:2], ended()], limits=limits).error is None
    many = [event(f"output_text.{kind}", at, delta="x", text="x") for at, kind in enumerate(("delta", "delta", "done"))]
    opened = [added(at, function(at)) for at in range(3)]
    for payloads in (items, opened, many, [ended(output=[item["item"] for item in items])]):
        turn = parse([CREATED, *payloads, ended()], limits=limits)
        assert (turn.error.kind, turn.complete) == ("limit_exceeded", False)
        assert "max_open_blocks=2" in str(turn.error)


@every("odd", [None, 7, [], {}])
def test_a_delta_that_is_no_text_is_passed_on_as_unknown(odd: Any) -> None:
    kinds = ("output_text", "refusal", "reasoning_summary_text", "function_call_arguments", "custom_tool_call_input")
    for kind in kinds:
        payload = event(f"{kind}.delta", 0, delta=odd)
        assert [event.raw for event in events_of(CREATED, payload, ended()) if isinstance(event, UnknownPayload)] == [
            payload
        ]


def test_reasoning_that_has_the_id_of_reasoning_elsewhere_is_an_item_of_its_own() -> None:
    first, second = ({**reasoning(words), "id": "rs_1"} for words in ("One", "Two"))
    items = [first, function(1, "{}"), second, message(output_text("Hi"))]
    streamed = [CREATED]
    for place, item in enumerate(items):
        streamed.append(added(place, item if "summary" not in item else {**item, "summary": []}))
        streamed += [summary(place, part["text"]) | {"item_id": "rs_1"} for part in item.get("summary", ())]
        streamed.append(done(place, item))
    deltas = [payload for payload in streamed if payload["type"] != "response.output_item.added"]
    ends = [payload for payload in streamed if not payload["type"].endswith(".delta")]
    for payloads in (streamed, deltas, ends):
        for output in (items, []):
            turn = parse([*payloads, ended(output=output)])
            assert (turn.reasoning, turn.text, turn.complete) == ("OneTwo", "Hi", True)
            kept = [*items[:2], {key: value for key, value in second.items() if key != "id"}, items[3]]
            assert [item for item in turn.messages() if item["type"] != "function_call_output"] == kept
    again = parse([*streamed, streamed[1], done(0, first), ended(output=items)])
    assert (again.reasoning, [warning.code for warning in again.warnings]) == (
        "OneTwo",
        ["duplicate_block_start", "duplicate_block_stop"],
    )


def test_a_message_whose_end_leaves_its_text_out_goes_back_with_what_streamed() -> None:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": []}
    delta = {"type": "response.output_text.delta", "output_index": 0, "item_id": "msg_1", "delta": "Hi"}
    added, done = (
        {"type": f"response.output_item.{word}", "output_index": 0, "item": item} for word in ("added", "done")
    )
    turn = parse([CREATED, added, delta, done, ended()], wire=RESPONSES)
    assert turn.text == "Hi"
    assert turn.messages() == [{**item, "content": [{"type": "output_text", "text": "Hi", "annotations": []}]}]


def test_arguments_nested_too_deep_to_be_written_are_refused() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    for item in (function(arguments={"a": deep}), {"type": "local_shell_call", "call_id": "call_1", "action": deep}):
        turn = read(added(0, item | {"arguments": ""}), done(0, item))
        assert [(call.status, call.problem) for call in turn.calls] == [("invalid", "too_deep")]
