"""What holds of a response on every wire: its parts in their order, its finish, no half of a character anywhere."""

from __future__ import annotations

from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, IN_DELTAS, MISTRAL, OLLAMA, Payload, framed, said
from found_again import edits_of, skeletons
from profiles import FULL, every
from sansio import checked
from wire_cases import CASES

from streamtools import ReasoningDelta, StreamDecoder, StreamEnd, TextDelta, parse
from streamtools.events import (
    ReasoningEnd,
    ReasoningStart,
    StreamStart,
    StreamWarning,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from streamtools.turn import TurnBuilder
from streamtools.wires import WIRES


@every("wire", WIRES)
def test_parts_are_told_in_order_each_between_its_start_and_its_end(wire: str) -> None:
    call = ("call00001", "look", '{"at":1}')
    response = said(wire, reasoning=["H", "m"], text=["Hi", "!"], calls=[call], pieces=2)
    expected: list[type] = [StreamStart]
    if CASES[wire].reasons:
        expected += [ReasoningStart, ReasoningDelta, ReasoningDelta, ReasoningEnd]
    expected += [TextStart, TextDelta, TextDelta, TextEnd, ToolCallStart]
    expected += [*[ToolCallDelta] * (2 if wire in IN_DELTAS else 1), ToolCallEnd, StreamEnd]
    for items in (response, framed(wire, response)):
        decoder = StreamDecoder(wire=wire)
        events = [event for item in items for event in decoder.feed(item)] + decoder.finish()
        assert [type(event) for event in events if not isinstance(event, StreamWarning)] == expected


HALF = "x\ud83d"


def put(value: Any, old: str, new: str) -> Any:
    """The value with another text in the place of each that is `old`."""
    if isinstance(value, dict):
        return {name: put(one, old, new) for name, one in value.items()}
    if isinstance(value, list):
        return [put(one, old, new) for one in value]
    return new if value == old else value


@every("wire", WIRES)
def test_no_half_of_a_character_leaves_the_library_anywhere(wire: str) -> None:
    """Whatever text of a response it stands in, and as the name and the value of a field that nobody knows."""
    for payloads in skeletons(wire)[:1]:
        for number, edit in enumerate(edits_of(payloads)):
            changed: list[Payload] = payloads if edit.old is None else put(payloads, edit.old, f"{edit.old}\ud83d")
            if edit.old is None:
                at: Any = changed[edit.at]
                for key in edit.path:
                    at = at[key]
                at[HALF] = [HALF]
            for items in (changed, framed(wire, changed)) if FULL else ((changed, framed(wire, changed))[number % 2],):
                decoder, builder = StreamDecoder(wire=wire), TurnBuilder()
                events = [event for item in items for event in decoder.feed(item)] + decoder.finish()
                builder.add_all(events)
                turn = builder.build()
                told = [
                    vars(turn.error) if turn.error else None,
                    str(turn.error),
                    turn.parts,
                    turn.calls,
                    turn.warnings,
                ]
                told += [turn.finish_raw, turn.model, turn.response_id, turn.messages(wire)]
                assert "\\ud83d" not in ascii(told), edit
            if edit.old is None:
                at.pop(HALF)


@every("wire", WIRES)
def test_a_turn_goes_to_every_other_wire_without_what_only_its_own_understands(wire: str) -> None:
    turn = checked(parse(said(wire, reasoning=["Hm"], text=["Hi"], calls=[("call00001", "look", "{}")]), wire=wire))
    for other in WIRES:
        if CASES[other].provider != CASES[wire].provider:
            assert "c2ln" not in str(turn.messages(other)), "a signature"


def finishes(**by_finish: str) -> dict[str, str]:
    """The finish of each word, from the words of each finish."""
    return {word: finish for finish, words in by_finish.items() for word in words.split()}


# Of each wire the word that `said` ends with, and the words that its servers have.
FINISHES = {
    ANTHROPIC: ("end_turn", finishes(
        stop="end_turn stop_sequence", tool_calls="tool_use", length="max_tokens model_context_window_exceeded",
        pause="pause_turn compaction", content_filter="refusal", other="bored",
    )),
    BEDROCK: ("end_turn", finishes(
        stop="end_turn stop_sequence", tool_calls="tool_use", length="max_tokens model_context_window_exceeded",
        content_filter="guardrail_intervened content_filtered", other="bored",
    )),
    CHAT: ("stop", finishes(
        stop="stop eos eos_token stop_sequence end_turn COMPLETE STOP", tool_calls="tool_calls function_call tool_use",
        length="length max_tokens model_length MAX_TOKENS", content_filter="content_filter", error="error",
        other="bored",
    )),
    COHERE: ("COMPLETE", finishes(
        stop="COMPLETE complete STOP_SEQUENCE", tool_calls="TOOL_CALL", length="MAX_TOKENS ERROR_LIMIT",
        content_filter="ERROR_TOXIC", other="USER_CANCEL BOREDOM",
    )),
    GEMINI: ("STOP", finishes(
        stop="STOP stop", tool_calls="FUNCTION_CALL", length="MAX_TOKENS", pause="CONTINUATION",
        other="OTHER NO_IMAGE A_NEW_ONE",
        content_filter="SAFETY RECITATION LANGUAGE BLOCKLIST SPII ESCALATION PROHIBITED_CONTENT MODEL_ARMOR"
        " IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION",
    )),
    MISTRAL: ("stop", finishes(
        stop="stop", tool_calls="tool_calls", length="length model_length", content_filter="content_filter",
        error="error", other="boredom",
    )),
    OLLAMA: ("stop", finishes(stop="stop", tool_calls="tool_calls", length="length", other="load unload bored")),
}  # fmt: skip


@every("wire", FINISHES)
def test_a_finish_is_ours_and_the_providers_word_is_kept(wire: str) -> None:
    usual, words = FINISHES[wire]
    for word, finish in words.items():
        payloads = put(said(wire, text=["x"]), usual, word)
        for items in (payloads, framed(wire, payloads)):
            turn = parse(items, wire=wire)
            assert (turn.finish, turn.finish_raw, turn.complete) == (finish, word, True), word
