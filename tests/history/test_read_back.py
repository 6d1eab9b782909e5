"""What is written is read back as it was, and every turn that is written is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from every_wire import COHERE
from profiles import every
from sansio import QUIRKS, body_of
from spoken_histories import NATIVE

from streamtools import Turn, parse
from streamtools.history import lint
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt, Reply, Returned

Message = dict[str, Any]


def turns_for(wire: str) -> Iterator[tuple[str, Turn]]:
    """The turns of the wire's own deviations, and of each fourth of the others', another fourth for each wire."""
    for place, quirk in enumerate(QUIRKS):
        if quirk["wire"] == wire or place % 4 == list(WIRES).index(wire) % 4:
            yield quirk["id"], parse(body_of(quirk), wire=quirk["wire"], tools=quirk.get("tools", ()))


def asked(wire: str, messages: list[Message]) -> list[Message]:
    """The messages of a turn, with the user's in front."""
    is_legacy = wire == COHERE and messages and messages[0].get("role") == "CHATBOT"
    return [{"role": "USER", "message": "Go."} if is_legacy else NATIVE[wire].user("Go."), *messages]


@every("wire", WIRES)
def test_every_turn_is_taken_by_every_wire(wire: str) -> None:
    for name, turn in turns_for(wire):
        messages = asked(wire, turn.messages(wire))
        found = lint(messages, wire, last=True)
        if turn.wire == wire:  # the ids that a provider gave go back to it, whatever they look like
            found = [violation for violation in found if violation.code != "bad_id"]
        assert found == [], name


@every("wire", WIRES)
def test_what_is_read_is_written_as_it_stood_there(wire: str) -> None:
    """Reading loses nothing that writing knows."""
    for name, turn in turns_for(wire):
        messages = turn.messages(wire)
        assert written_again(wire, messages) == messages, name


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
