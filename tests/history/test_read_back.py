"""What is written is read back as it was, and every turn that is written is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from every_wire import COHERE
from sansio import QUIRKS, body_of
from spoken_histories import NATIVE

from streamtools import Turn, parse
from streamtools.history import lint, repair
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt, Reply, Returned

Message = dict[str, Any]


def turn_of(quirk: dict[str, Any]) -> Turn:
    return parse(body_of(quirk), wire=quirk["wire"], tools=quirk.get("tools", ()))


def asked(wire: str, messages: list[Message]) -> list[Message]:
    """The messages of a turn, with the user's in front."""
    is_legacy = wire == COHERE and messages and messages[0].get("role") == "CHATBOT"
    return [{"role": "USER", "message": "Go."} if is_legacy else NATIVE[wire].user("Go."), *messages]


@pytest.mark.parametrize("wire", WIRES)
def test_every_turn_is_taken_by_every_wire(wire: str) -> None:
    """All recorded deviations, on their own wire and on all others."""
    for quirk in QUIRKS:
        turn = turn_of(quirk)
        messages = asked(wire, turn.messages(wire))
        found = lint(messages, wire, last=True)
        if turn.wire == wire:  # the ids that a provider gave go back to it, whatever they look like
            found = [violation for violation in found if violation.code != "bad_id"]
        assert found == [], quirk["id"]


@pytest.mark.parametrize("wire", WIRES)
def test_what_is_read_is_written_as_it_stood_there(wire: str) -> None:
    """All turns, from all wires: reading loses nothing that writing knows."""
    for quirk in QUIRKS:
        messages = turn_of(quirk).messages(wire)
        assert written_again(wire, messages) == messages, quirk["id"]


def written_again(wire: str, messages: list[Message]) -> list[Message]:
    """The messages of a turn, read and written."""
    read, write_prompt = find(wire).read, find(wire).render_prompt
    assert read is not None
    assert write_prompt is not None
    entries = read(messages)
    behind = [message for entry in entries if isinstance(entry, Prompt) for message in write_prompt(entry)]
    answers = [entry.answer for entry in entries if isinstance(entry, Reply)]
    results = [result for entry in entries if isinstance(entry, Returned) for result in entry.results]
    if not answers:
        return behind
    [answer] = answers
    given = tuple(replace(r, call_id=call.call_id) for call, r in zip(answer.our_calls, results, strict=True))
    return [*find(wire).render(replace(answer, results=given)), *behind]


@pytest.mark.parametrize("wire", WIRES)
def test_a_turn_that_was_cut_is_repaired_to_nothing_new(wire: str) -> None:
    """What `Turn.messages` writes needs no repair, but for ids that were the provider's own."""
    for quirk in QUIRKS:
        turn = turn_of(quirk)
        if turn.wire != wire:
            messages = asked(wire, turn.messages(wire))
            assert repair(messages, wire, last=True) is messages, quirk["id"]


ODD: list[Any] = [
    None, 3, "text", [], {}, {"role": None}, {"role": 3}, {"role": []}, {"role": "user"}, {"role": "assistant"},
    {"role": "tool"}, {"role": "user", "content": 3}, {"role": "user", "content": [None, 3, [], {}]},
    {"role": "assistant", "content": 3}, {"role": "assistant", "content": [None, {"type": None}, {"type": []}]},
    {"role": "assistant", "tool_calls": 3}, {"role": "assistant", "tool_calls": [None, 3, {}, {"function": 3}]},
    {"role": "assistant", "tool_calls": [{"id": 3, "function": {"name": 3, "arguments": 3}}]},
    {"role": "assistant", "tool_calls": [{"id": {}, "function": {"name": None, "arguments": None}}]},
    {"role": "assistant", "content": "a", "reasoning_details": 3, "refusal": 3, "citations": 3, "thinking": 3},
    {"role": "tool", "tool_call_id": 3, "content": 3}, {"role": "tool", "content": [None, {"type": "image_url"}]},
    {"role": "user", "content": [{"type": "image_url", "image_url": 3}, {"type": "input_audio", "input_audio": None}]},
    {"role": "user", "content": [{"type": "file", "file": 3}, {"type": "document_url", "document_url": 3}]},
    {"role": "user", "content": "a", "images": 3}, {"role": "user", "content": "a", "images": [None, ""]},
    {"role": "CHATBOT", "message": 3, "tool_calls": [3]}, {"role": "TOOL", "tool_results": 3},
    {"role": "TOOL", "tool_results": [3, {"call": 3, "outputs": 3}, {"call": {"name": 3}, "outputs": [3]}]},
    {"role": "USER", "message": 3}, {"role": "function"}, {"role": "assistant", "function_call": {"name": 3}},
    {"role": "user", "content": [{"toolResult": 3}]}, {"role": "assistant", "content": [{"toolUse": 3}]},
    {"role": "model", "parts": 3}, {"role": "model", "parts": [{"functionCall": 3}]}, {"parts": [{"text": 3}]},
    {"type": "function_call", "call_id": 3}, {"type": "function_call_output"}, {"type": "message", "role": 3},
    {"type": "reasoning"}, {"type": 3}, {"type": []},
]  # fmt: skip


@pytest.mark.parametrize("wire", WIRES)
def test_reading_never_raises(wire: str) -> None:
    native = NATIVE[wire]
    for odd in ODD:
        history = [native.user("Look."), odd, native.user("Well?")]
        found = lint(history, wire)
        repaired = repair(history, wire)
        assert (repaired is history) == (found == []), odd
        assert lint(repaired, wire) == [], odd
