"""Where the end of a text contradicts its deltas, the end is right: in the turn's text and in its messages alike."""

from __future__ import annotations

from typing import Any

from profiles import every
from responses_streams import (
    CREATED,
    Payload,
    added,
    done,
    ended,
    event,
    message,
    output_text,
    reasoning,
    summary,
    text,
)
from sansio import checked, codes
from streams import sse

from streamtools import Limits, StreamDecoder, TextDelta, Turn, parse
from streamtools.events import ReasoningEnd, TextEnd, ToolCallEnd
from streamtools.integrations.asgi import encode_event
from streamtools.stages import DEFAULT, split_think

WHOLE = message(output_text("Bye"))
OVERRIDES = ["done_overrides_delta"]


def text_done(whole: str, number: Any = 0) -> Payload:
    return event("output_text.done", 0, content_index=number, text=whole)


def read(*payloads: Payload, **options: Any) -> Turn:
    turn = checked(parse([CREATED, *payloads], **options))
    assert parse(sse([CREATED, *payloads]), **options) == turn
    return turn


ENDS = {
    "the text's": [text_done("Bye"), done(0, WHOLE), ended()],
    "only the text's": [text_done("Bye"), ended()],
    "the item's": [done(0, WHOLE), ended()],
    "all": [text_done("Bye"), done(0, WHOLE), ended(output=[WHOLE])],
    "the response's": [ended(output=[WHOLE])],
}


@every("ends", ENDS.values())
@every("deltas", [["Hi"], ["H", "i", "!"], ["Byee"], ["e"]])
def test_a_text_is_what_its_end_says(ends: list[Payload], deltas: list[str]) -> None:
    turn = read(added(0, message()), *(text(0, delta) for delta in deltas), *ends)
    assert (turn.text, [item["content"][0]["text"] for item in turn.messages()]) == ("Bye", ["Bye"])
    assert OVERRIDES[0] in codes(turn)


def test_the_deltas_stay_as_they_were_told_and_the_end_of_the_text_has_the_whole() -> None:
    decoder = StreamDecoder()
    events = [e for item in (CREATED, text(0, "Hi"), done(0, WHOLE), ended()) for e in decoder.feed(item)]
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["Hi"]
    [end] = [e for e in events if isinstance(e, TextEnd)]
    assert (end.whole, encode_event(end)) == ("Bye", ("text_replaced", {"text": "Bye"}))
    decoder = StreamDecoder()
    plain = [e for item in (CREATED, text(0, "Bye"), done(0, WHOLE)) for e in decoder.feed(item)]
    assert [(e.whole, encode_event(e)) for e in plain if isinstance(e, TextEnd)] == [(None, None)]


def test_only_the_text_that_is_contradicted_is_replaced() -> None:
    both = message(output_text("One."), output_text("Two."))
    deltas = [text(0, "Ome."), text_done("One."), text(0, "Two."), text_done("Two.", 1)]
    turn = read(added(0, message()), *deltas, done(0, both), ended())
    assert (turn.text, codes(turn), turn.messages()) == ("One.Two.", OVERRIDES, [both])
    turn = read(added(0, message()), text(0, "One."), text(0, "Twoo"), text_done("Two.", 1), done(0, both), ended())
    assert (turn.text, turn.messages()) == ("One.Two.", [both])
    cut = parse([CREATED, added(0, message()), *deltas[:2], text(0, "Tw")])
    assert (cut.text, cut.messages()[0]["content"][0]["text"]) == ("One.Tw", "One.Tw")


def test_an_end_that_comes_twice_is_told_once() -> None:
    for number in (0, None):
        turn = read(added(0, message()), text_done("Bye", number), text_done("Bye", number), done(0, WHOLE), ended())
        assert (turn.text, codes(turn)) == ("Bye", [])


def test_what_an_interrupted_text_has_told_before_is_kept_if_the_end_agrees_with_it() -> None:
    pieces = [added(0, message()), text(0, "By"), summary(1, "Hm"), text(0, "x"), done(0, WHOLE)]
    turn = read(*pieces, done(1, reasoning("Hm")), ended())
    assert (turn.text, turn.reasoning) == ("Bye", "Hm")


def test_reasoning_is_what_the_end_of_its_item_says() -> None:
    whole = reasoning("One.", "Two.")
    turn = read(added(0, reasoning()), summary(0, "On", 0), summary(0, "Tow", 1), done(0, whole), ended())
    assert (turn.reasoning, codes(turn)) == ("One.\n\nTwo.", OVERRIDES)
    decoder = StreamDecoder()
    ends = [e for item in (CREATED, summary(0, "No"), done(0, whole)) for e in decoder.feed(item)]
    assert [e.whole for e in ends if isinstance(e, ReasoningEnd)] == ["One.\n\nTwo."]


def test_the_text_of_the_end_counts_towards_the_limit_and_has_no_halves_of_pairs() -> None:
    payloads = [CREATED, text(0, "Hi"), done(0, message(output_text("x" * 100))), ended()]
    turn = parse(payloads, limits=Limits(max_text_bytes=50))
    assert (turn.error.kind, turn.text) == ("limit_exceeded", "Hi")
    body = b"".join(sse([CREATED, text(0, "Hi"), done(0, message(output_text("HALF"))), ended()]))
    assert parse(body.replace(b"HALF", b"\\ud83d")).text == "\ufffd"


def test_a_stage_that_reads_the_text_keeps_what_it_has_read() -> None:
    whole = message(output_text("<think>a</think>Bye"))
    turn = parse(
        [CREATED, text(0, "<think>a</think>Hi"), done(0, whole), ended()],
        stages=DEFAULT.insert_before("accumulate", split_think()),
    )
    assert (turn.text, turn.reasoning, codes(turn)[-1:]) == ("Hi", "a", OVERRIDES)


CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "f", "arguments": '{"a": 1}'}
BARE = CALL | {"arguments": ""}
THOUGHT = reasoning("Hm", encrypted_content="gAAA")
ONLY_AT_THE_END: dict[str, tuple[list[Payload], Payload]] = {
    "a call": ([], CALL),
    "arguments": ([added(0, BARE)], CALL),
    "arguments, behind the item's end": ([added(0, BARE), done(0, BARE)], CALL),
    "a text": ([added(0, message())], WHOLE),
    "a thought": ([added(0, reasoning())], THOUGHT),
}
BEFORE: dict[str, tuple[list[Payload], Payload]] = {
    "arguments in the item's end": ([added(0, BARE), done(0, CALL)], CALL),
    "arguments in pieces": ([added(0, BARE), event("function_call_arguments.delta", 0, delta='{"a": 1}')], CALL),
    "arguments at their own end": (
        [added(0, BARE), event("function_call_arguments.done", 0, arguments='{"a": 1}')],
        CALL,
    ),
    "a text in pieces": ([added(0, message()), text(0, "Bye")], WHOLE),
    "a thought in pieces": ([added(0, reasoning()), summary(0, "Hm")], THOUGHT),
}


def test_a_text_or_arguments_that_only_the_last_event_has_are_taken_from_there_with_a_warning() -> None:
    for table, expected in ((ONLY_AT_THE_END, ["terminal_backfill"]), (BEFORE, [])):
        for name, (payloads, whole) in table.items():
            turn = read(*payloads, ended(output=[whole]))
            assert codes(turn) == expected, name
            said = (turn.text, turn.reasoning, [call.arguments for call in turn.calls])
            assert said == {"message": ("Bye", "", []), "reasoning": ("", "Hm", [])}.get(
                whole["type"], ("", "", [{"a": 1}])
            )
            session = {"type": "response.done", "response": {"id": "resp_1", "status": "completed", "output": [whole]}}
            if whole is CALL:
                live = parse([CREATED, *payloads, session], wire="openai.realtime")
                assert codes(live) == expected, name
                assert [call.arguments for call in live.calls] == [{"a": 1}]
    first = {
        "response": {"text": "Bye", "tool_calls": [{"name": "f", "parameters": {"a": 1}}]},
        "finish_reason": "COMPLETE",
    }
    cohere = parse([{"event_type": "stream-start"}, {"event_type": "stream-end", **first}])
    assert (codes(cohere), [call.arguments for call in cohere.calls]) == (["terminal_backfill"], [{"a": 1}])


def test_a_call_whose_arguments_are_whole_and_whose_end_is_missing_is_told_so() -> None:
    for word, shown in (("the end of the call never came", '{"a": 1}'), ("is incomplete", '{"a": ')):
        whole, piece = CALL | {"arguments": shown}, event("function_call_arguments.delta", 0, delta=shown)
        for wire, payloads in (
            ("openai.realtime", [added(0, BARE), done(0, whole)]),
            ("openai.realtime", [added(0, BARE), piece]),
            ("openai.responses", [added(0, BARE), piece]),
        ):
            decoder = StreamDecoder(wire=wire)
            seen = [one for payload in (CREATED, *payloads) for one in decoder.feed(payload)] + decoder.finish()
            (end,) = [one for one in seen if isinstance(one, ToolCallEnd)]
            assert (end.call.status, word in str(end.error)) == ("truncated", True), (wire, shown)
