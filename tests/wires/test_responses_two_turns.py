"""Two responses on one connection are two turns; and an answer to what the client sent is no part of either."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from responses_streams import CREATED, Payload, added, done, ended, event, function, message, output_text, text
from sansio import byte_by_byte
from streams import sse

from streamtools import Limits, StreamDecoder, Turn, parse, pipeline, tool
from streamtools.errors import ProviderError
from streamtools.events import StreamWarning, UnknownPayload
from streamtools.front import agent_loop

OTHER = {"type": "response.created", "response": {"id": "resp_2"}}
ANSWER = [added(0, message()), text(0, "Hi"), done(0, message(output_text("Hi")))]


def ended_other(output: Any = ()) -> Payload:
    return {"type": "response.completed", "response": {"id": "resp_2", "status": "completed", "output": list(output)}}


def on(lane: str, *payloads: Payload) -> list[Payload]:
    return [{**payload, "stream_id": lane} for payload in payloads]


def call(number: int) -> Payload:
    return done(0, function(number, "{}"))


def told(turn: Turn) -> list[tuple[str, str]]:
    return [(warning.code, warning.detail) for warning in turn.warnings if warning.code != "item_without_added"]


def ids(turn: Turn) -> list[str]:
    return [call.call_id for call in turn.calls]


INSIDE = [
    pytest.param([CREATED, OTHER, call(2), ended_other(), call(1), ended()], [], id="before any item"),
    pytest.param([CREATED, call(1), OTHER, call(2), ended_other([function(3, "{}")]), ended()], ["call_1"], id="later"),
    pytest.param([CREATED, call(1), ended(), OTHER, call(2), ended_other()], ["call_1"], id="after the end"),
    pytest.param([CREATED, call(1), ended_other([function(2, "{}")]), ended()], ["call_1"], id="only its end"),
]


@every(("payloads", "calls"), INSIDE)
def test_only_the_first_of_two_responses_is_followed_and_the_other_is_named(
    payloads: list[Payload], calls: list[str]
) -> None:
    for turn in (parse(payloads), parse(sse(payloads)), parse(byte_by_byte(b"".join(sse(payloads))))):
        assert (ids(turn), turn.complete, turn.error, turn.response_id) == (calls, True, None, "resp_1")
        assert told(turn) == [("other_response", "resp_2")]


def test_a_lane_of_its_own_is_another_response_even_at_the_same_places() -> None:
    mine, other = [CREATED, *ANSWER, ended()], [OTHER, added(0, message()), text(0, "No"), call(2), ended_other()]
    mixed = [pair for both in zip(on("a", *mine), on("b", *other), strict=True) for pair in both]
    turn = parse(mixed)
    assert (turn.text, ids(turn), turn.complete) == ("Hi", [], True)
    assert told(turn) == [("other_response", "resp_2")]
    lost = [*on("a", CREATED, added(0, message()), text(0, "Hi")), *on("b", text(0, "No")), *on("a", ended())]
    assert (parse(lost).text, told(parse(lost))[0]) == ("Hi", ("other_response", "b"))


def test_text_that_interrupts_the_first_response_without_an_id_is_the_others() -> None:
    turn = parse([CREATED, added(0, message()), text(0, "Hi"), OTHER, text(0, "No"), ended()])
    assert turn.text == "Hi"
    named = {**text(0, "No"), "response_id": "resp_2"}
    assert parse([CREATED, added(0, message()), text(0, "Hi"), named, text(0, "!"), ended()]).text == "Hi!"


def test_a_text_that_names_another_response_is_not_taken_for_ours_although_nothing_has_shown_it_before() -> None:
    text_of = [text(0, piece) for piece in ("H", "i", "!")]
    for other in ({"stream_id": "b"}, {"response_id": "resp_2"}):
        turn = parse([CREATED, added(0, message()), *text_of, {**text(0, "No"), **other}, *text_of, ended()])
        assert (turn.text, [code for code, _ in told(turn)][:1]) == ("Hi!Hi!", ["other_response"])


def test_an_error_ends_the_response_of_its_lane_and_without_a_lane_every_response() -> None:
    error = {"type": "error", "error": {"type": "e", "code": "c", "message": "no"}}
    for payload, failed in ((*on("b", error), False), (*on("a", error), True), (error, True)):
        turn = parse([*on("a", CREATED), payload, *on("a", *ANSWER, ended())])
        assert (turn.error is not None, turn.complete) == (failed, not failed)


def test_the_name_of_another_response_is_cut_and_escaped() -> None:
    odd = {"type": "response.created", "response": {"id": "\x1b[2J\n" + "x" * 1000}}
    [(code, detail)] = told(parse([CREATED, odd, ended()], limits=Limits(max_name_bytes=9)))
    assert (code, detail) == ("other_response", "\\x1b[2J\\nxxxx")


def test_a_response_whose_every_event_has_another_id_is_one_response() -> None:
    waiting = {"type": "response.in_progress", "response": {"id": "b"}}
    last: Payload = {"type": "response.completed", "response": {"id": "c", "status": "completed"}}
    turn = parse([CREATED, waiting, call(1), last])
    assert (ids(turn), turn.complete, told(turn)) == (["call_1"], True, [])
    last["response"] |= {"output": [function(1, "{}", id="fc_9")]}  # only the id of the call is the same
    turn = parse([CREATED, call(1), last])
    assert (ids(turn), turn.complete, told(turn)) == (["call_1"], True, [])


def test_a_failure_under_an_unknown_id_keeps_its_reason_and_runs_no_call() -> None:
    reason = {"code": "rate_limit_exceeded", "message": "slow down"}
    for kind in ("response.failed", "response.completed"):
        failed = {"type": kind, "response": {"id": "resp_9", "status": "failed", "error": reason}}
        for payloads in ([], [added(0, message()), text(0, "Hi")], [call(1)]):
            turn = parse([CREATED, *payloads, failed])
            assert isinstance(turn.error, ProviderError)
            assert (turn.error.code, turn.error.message, told(turn)) == ("rate_limit_exceeded", "slow down", [])
        turn = parse([CREATED, call(1), OTHER, failed, ended()])
        assert (turn.error, turn.complete, ids(turn)) == (None, True, ["call_1"]), "it is the other's"


@every("odd", [None, 7, [], {}, "", {"id": 7}, {"id": []}])
def test_an_event_whose_response_has_no_id_belongs_to_the_one_that_was_named_last(odd: Any) -> None:
    last = {"type": "response.completed", "response": odd, "response_id": odd, "stream_id": None}
    assert parse([CREATED, *ANSWER, last]).complete
    assert not parse([CREATED, OTHER, last]).complete
    assert told(parse([CREATED, call(1), {"type": "response.created", "response": odd}])) == [
        ("other_response", "without an id")
    ]


# -- answers to what the client sent -----------------------------------------------------------------------------------


STEER = {"previous_response_id": "resp_1", "input": "Shorter"}
REFUSAL = {"type": "invalid_request_error", "code": "invalid_input", "message": "no"}
NOTICES = [
    (event("steer.accepted", steer={"id": "steer_1", **STEER}), []),
    (event("steer.pending", reason="waiting_for_required_input", required_input=[], steer=STEER), []),
    (event("steer.failed", steer=STEER, error=REFUSAL), [("steer_failed", "invalid_input")]),
    (event("inject.created", response_id="resp_1"), []),
    (event("inject.failed", response_id="resp_0", error=REFUSAL, input=[]), [("inject_failed", "invalid_input")]),
]


@every(("notice", "warnings"), NOTICES)
def test_an_answer_to_what_the_client_sent_is_passed_on_and_changes_no_turn(
    notice: Payload, warnings: list[tuple[str, str]]
) -> None:
    payloads = [CREATED, *ANSWER, ended()]
    plain = parse(payloads)
    for place in range(1, len(payloads) + 1):
        decoder = StreamDecoder()
        events = [e for item in (*payloads[:place], notice, *payloads[place:]) for e in decoder.feed(item)]
        assert [e.raw for e in events if isinstance(e, UnknownPayload)] == [notice]
        assert [(e.code, e.detail) for e in events if isinstance(e, StreamWarning)] == warnings
        turn = parse([*payloads[:place], notice, *payloads[place:]])
        assert (turn.text, turn.complete, turn.error, turn.messages()) == ("Hi", True, None, plain.messages())


STEERED = ended("incomplete", incomplete_details={"reason": "steered"})


@pytest.mark.anyio
async def test_a_response_that_another_input_redirects_starts_no_call_that_waited_for_its_end() -> None:
    ran: list[str] = []

    @tool(effect="once")
    async def f() -> str:
        """Note that it ran."""
        ran.append("f")
        return "done"

    async with pipeline([CREATED, call(1), STEERED, OTHER, call(2), ended_other()], tools=[f]) as events:
        _ = [event async for event in events]
    turn = events.turn
    assert (turn.finish, turn.finish_raw, turn.complete, turn.error) == ("steered", "steered", True, None)
    assert ([seen.outcome for seen in turn.observations], ran) == (["skipped"], [])


@pytest.mark.anyio
async def test_a_run_goes_on_with_the_successor_of_a_response_that_was_redirected() -> None:
    successor = [OTHER, added(0, message()), text(0, "Bye"), done(0, message(output_text("Bye"))), ended_other()]
    bodies = iter([[CREATED, *ANSWER, STEERED], successor])
    asked: list[list[Any]] = []

    async def ask(messages: list[Any], _: list[Any]) -> list[Payload]:
        asked.append(messages)
        return next(bodies)

    async with agent_loop(ask, [{"role": "user", "content": "Go"}], wire="openai.responses") as run:
        turn = await run.finish()
    assert (run.outcome, turn.text, [one.finish for one in run.turns]) == ("answered", "Bye", ["steered", "stop"])
    assert asked[1][1:] == [message(output_text("Hi"))]
