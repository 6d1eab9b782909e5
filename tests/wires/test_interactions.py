"""Gemini's Interactions: hops, checkpoints, steps that go back; beyond the quirks and the laws over all wires."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from profiles import every
from sansio import codes
from wire_cases.names import INTERACTIONS

from streamtools import Turn, parse, pipeline, tool
from streamtools.history import convert, lint, repair

Payload = dict[str, Any]
OUTPUT = {"type": "model_output"}
CALL = {"type": "function_call", "id": "k1", "name": "look", "arguments": {}}
TOKEN = {
    "event_type": "interaction.status_update",
    "interaction_id": "v1_a",
    "status": "in_progress",
    "continuation_token": "t1",
}


def created(id_: str = "v1_a") -> Payload:
    interaction = {"id": id_, "status": "in_progress", "object": "interaction", "model": "m"}
    return {"event_type": "interaction.created", "interaction": interaction}


def completed(id_: str = "v1_a", status: str = "completed", **more: Any) -> Payload:
    usage = {"total_input_tokens": 53, "total_output_tokens": 15, "total_thought_tokens": 65, "total_tokens": 133}
    return {
        "event_type": "interaction.completed",
        "interaction": {"id": id_, "status": status, "usage": usage, **more},
    }


def start(index: int, step: Payload) -> Payload:
    return {"event_type": "step.start", "index": index, "step": step}


def delta(index: int, **body: Any) -> Payload:
    return {"event_type": "step.delta", "index": index, "delta": body}


def text(index: int, said: str) -> Payload:
    return delta(index, type="text", text=said)


def arguments(index: int, said: str) -> Payload:
    return delta(index, type="arguments_delta", arguments=said)


def stop(index: int) -> Payload:
    return {"event_type": "step.stop", "index": index}


def call(index: int, said: str, **more: Any) -> list[Payload]:
    return [start(index, {**CALL, **more}), arguments(index, said), stop(index)]


def read(*payloads: Payload) -> Turn:
    return parse([created(), *payloads], tools=["look"])


ASKED = CALL | {"arguments": {"at": 1}}
BARE = {key: value for key, value in CALL.items() if key != "arguments"}
ANSWERED = {"type": "model_output", "content": [{"type": "text", "text": "Hi"}]}
ONLY_AT_THE_END: dict[str, tuple[list[Payload], list[Payload], list[str]]] = {
    # what streamed, the list at the end, the warnings
    "arguments": ([start(0, CALL), stop(0)], [ASKED], ["terminal_backfill"]),
    "arguments of a step without them": ([start(0, BARE), stop(0)], [ASKED], ["terminal_backfill"]),
    "arguments, and no stop": ([start(0, CALL)], [ASKED], ["terminal_backfill"]),
    "arguments behind a beginning of theirs": (
        [start(0, CALL), arguments(0, '{"a')],
        [ASKED],
        ["done_overrides_delta"],
    ),
    "nothing": ([start(0, CALL), arguments(0, '{"at": 1}'), stop(0)], [ASKED], []),
    "nothing, since they began so": ([start(0, ASKED), stop(0)], [ASKED], []),
    "a text": ([start(0, {"type": "model_output"}), stop(0)], [ANSWERED, ASKED], ["terminal_backfill"]),
    "no text": ([start(0, {"type": "model_output"}), text(0, "Hi"), stop(0), *call(1, '{"at": 1}')], [ANSWERED], []),
}


def test_what_only_the_list_of_steps_at_the_end_has_is_taken_from_there_with_a_warning() -> None:
    for name, (payloads, steps, expected) in ONLY_AT_THE_END.items():
        turn = read(*payloads, completed(status="requires_action", steps=steps))
        assert (codes(turn), [call.arguments for call in turn.calls]) == (expected, [{"at": 1}]), name
        assert (turn.text, turn.finish) == ("Hi" * (ANSWERED in steps), "tool_calls"), name
    unsaid = read(start(0, CALL), stop(0), completed(status="requires_action", steps=[CALL]))
    assert (codes(unsaid), [call.arguments for call in unsaid.calls]) == ([], [{}])


# -- steps that go back ------------------------------------------------------------------------------------------------


def test_every_step_goes_back_as_it_came_and_each_call_of_ours_with_its_result() -> None:
    signed = {**CALL, "signature": "c2ln"}
    search: Payload = {"type": "google_search_call", "id": "s1", "arguments": {"queries": ["q"]}, "signature": "QUI="}
    found: Payload = {"type": "google_search_result", "call_id": "s1", "result": [{"search_suggestions": "x"}]}
    citation = {"type": "url_citation", "url": "https://example.com", "start_index": 0, "end_index": 2}
    turn = read(
        start(0, {"type": "thought"}),
        delta(0, type="thought_summary", content={"type": "text", "text": "H"}),
        delta(0, type="thought_summary", content={"type": "text", "text": "m"}),
        delta(0, type="thought_signature", signature="QUI="),
        stop(0),
        start(1, {"type": "google_search_call", "id": "s1"}),
        delta(1, type="google_search_call", arguments=search["arguments"], signature="QUI="),
        stop(1),
        start(2, found),
        stop(2),
        start(3, OUTPUT),
        text(3, "Hi"),
        text(3, " there"),
        delta(3, type="text_annotation_delta", annotations=[citation]),
        delta(3, type="image", mime_type="image/png", data="QUI="),
        text(3, "!"),
        stop(3),
        start(4, signed),
        arguments(4, '{"at": 1}'),
        stop(4),
        completed(status="requires_action"),
    )
    *steps, result = turn.messages()
    assert steps == [
        {"type": "thought", "signature": "QUI=", "summary": [{"type": "text", "text": "Hm"}]},
        search,
        found,
        {
            "type": "model_output",
            "content": [
                {"type": "text", "text": "Hi there", "annotations": [citation]},
                {"type": "image", "mime_type": "image/png", "data": "QUI="},
                {"type": "text", "text": "!"},
            ],
        },
        {**signed, "arguments": {"at": 1}},
    ]
    assert (result["type"], result["call_id"], result["name"]) == ("function_result", "k1", "look")
    assert [each.kind for each in turn.calls] == ["server", "function"]
    assert lint(turn.messages(), INTERACTIONS) == []
    assert repair(turn.messages(), INTERACTIONS) == turn.messages()


def test_a_tool_search_of_the_clients_waits_for_its_answer() -> None:
    search = {"type": "tool_search_call", "id": "k1", "execution": "client", "arguments": {"function_names": ["f"]}}
    turn = parse([created(), start(0, search), stop(0), completed(status="requires_action")])
    (waiting,) = turn.calls
    assert (waiting.kind, waiting.name, waiting.awaits) == ("function", "tool_search_call", "tool_search_result")
    assert turn.messages()[0] == search
    assert turn.messages()[1]["type"] == "tool_search_result"
    assert (
        parse([created(), start(0, {**search, "execution": "server"}), stop(0), completed()]).calls[0].kind == "server"
    )


def test_the_legacy_schema_is_refused_with_a_word_about_the_new_one() -> None:
    turn = parse([{"event_type": "interaction.start", "interaction": {"id": "v1_a"}}])
    assert turn.wire == INTERACTIONS
    with pytest.raises(Exception, match=r"legacy schema.*update google-genai"):
        turn.raise_for_error()


# -- hops and checkpoints ----------------------------------------------------------------------------------------------


def test_the_hops_of_one_turn_are_one_turn_and_their_usage_is_the_sum() -> None:
    turn = read(
        start(0, OUTPUT),
        text(0, "One "),
        stop(0),
        completed(status="requires_continuation", continuation_token="t1"),
        created("v1_b"),
        start(0, OUTPUT),
        text(0, "two"),
        stop(0),
        *call(1, '{"at": 2}'),
        completed("v1_b", "requires_action"),
    )
    assert (turn.text, turn.finish, turn.complete, turn.response_id) == ("One two", "tool_calls", True, "v1_b")
    assert (turn.usage.input_tokens, turn.usage.output_tokens) == (106, 160)
    assert [step["type"] for step in turn.messages()] == [
        *("model_output", "model_output", "function_call", "function_result")
    ]
    assert codes(turn) == []


def test_an_interaction_that_waits_to_be_resumed_has_its_token() -> None:
    turn = read(start(0, OUTPUT), text(0, "One"), completed(status="requires_continuation", continuation_token="t1"))
    assert turn.finish == "pause"
    assert turn.parts[-1].provider_state == {"continuation_token": "t1"}
    assert turn.messages() == [{"type": "model_output", "content": [{"type": "text", "text": "One"}]}]


def test_a_second_hop_that_is_cut_leaves_a_turn_that_is_cut() -> None:
    turn = read(*call(0, "{}"), completed(status="requires_continuation"), created("v1_b"), start(0, OUTPUT))
    assert (turn.complete, turn.finish, turn.calls[0].dispatchable) == (False, None, False)


def test_the_text_behind_a_checkpoint_is_replaced_by_what_is_said_again() -> None:
    cut = [created(), start(0, OUTPUT), text(0, "One "), TOKEN, text(0, "tw")]
    again = [created("v1_b"), start(0, OUTPUT), text(0, "two"), stop(0), completed("v1_b")]
    turn = parse([*cut, *again])
    assert (turn.text, codes(turn)) == ("One two", ["said_again"])
    assert "".join(step["content"][0]["text"] for step in turn.messages()) == "One two"


@pytest.mark.anyio
@every(("call_id", "calls"), [("k1", [("k1", "ready")]), ("k2", [("k1", "truncated"), ("k2", "ready")])])
async def test_a_call_behind_a_checkpoint_runs_only_if_it_is_made_again_and_with_the_arguments_of_then(
    call_id: str, calls: list[tuple[str, str]]
) -> None:
    ran: list[int] = []

    @tool(effect="pure")
    async def look(at: int) -> str:
        """Look."""
        ran.append(at)
        return "seen"

    stream = [created(), TOKEN, *call(0, '{"at": 1}'), created("v1_b"), *call(0, '{"at": 2}', id=call_id)]
    stream.append(completed("v1_b", "requires_action"))
    with anyio.fail_after(30):
        turn = await pipeline(stream, tools=[look])
    assert ran == [2]
    assert [(each.call_id, each.status) for each in turn.calls] == calls
    sent = [(step.get("id", step.get("call_id")), step.get("arguments")) for step in turn.messages()]
    assert sent == [(call_id, {"at": 2}), (call_id, None)]


def test_the_next_checkpoint_ends_the_calls_behind_the_last() -> None:
    stream = [created(), TOKEN, *call(0, '{"at": 1}'), {**TOKEN, "continuation_token": "t2"}]
    turn = parse([*stream, created("v1_b"), *call(0, '{"at": 2}', id="k2"), completed("v1_b", "requires_action")])
    assert [each.status for each in turn.calls] == ["ready", "ready"]
    assert codes(turn) == []


def test_texts_that_ended_behind_a_checkpoint_are_not_told_twice() -> None:
    said = [start(0, OUTPUT), text(0, "One"), stop(0)]
    turn = parse([created(), TOKEN, *said, created("v1_b"), *said, completed("v1_b")])
    assert (turn.error.kind, turn.text) == ("said_again", "One")


def test_contents_without_a_step_are_the_users() -> None:
    moved = convert([{"type": "text", "text": "Hi"}], INTERACTIONS, "openai.chat_completions").messages
    assert moved == [{"role": "user", "content": "Hi"}]
