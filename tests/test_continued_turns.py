"""A response that was cut and is resumed is the response that was not cut, wherever it was cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from every_wire import framed, payloads_of, said
from profiles import every, mostly_thorough
from sansio import QUIRKS, body_of
from wire_cases.names import CHAT, INTERACTIONS

from streamtools import Turn, parse
from streamtools.wires import WIRES, find

RESUMABLE = [wire for wire in WIRES if find(wire).resumed_arguments is not None]
RICH: dict[str, Any] = {
    "text": ["Hé", "llo"],
    "reasoning": ["H", "m."],
    "calls": [("call_1", "f", '{"n": 1.10}'), ("call_2", "g", "{}"), ("call_3", "f", '{"n": 2}')],
    "pieces": 3,
}
AGAIN = ("interactions-said-again", "interactions-call-made-again", "interactions-texts-said-again")
"""Streams with a checkpoint: behind it they are resumed by their token."""
EARLY = "interactions-arguments-before-start"
"""A stream that may be cut behind arguments whose call has not begun: they are not kept, and the call is cut."""


def numbered(wire: str, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
    if wire == INTERACTIONS:
        return [{**payload, "event_id": f"e{number}"} for number, payload in enumerate(payloads)]
    return [{**payload, "sequence_number": number} for number, payload in enumerate(payloads)]


def same(turn: Turn) -> tuple[Turn, str]:
    """The turn, and its error in words: errors equal themselves alone. Warnings of what came are not compared."""
    return replace(turn, warnings=(), usage_raw=None, error=None), repr(turn.error)


INTERLEAVED = "responses-interleaved-items"
"""Its texts come by turns: said again, each is in one part."""


def check_every_cut(wire: str, payloads: list[dict[str, Any]], *, parts: bool = True) -> None:
    whole = parse(payloads, wire=wire)
    for cut in range(1, len(payloads)):
        first = parse(payloads[:cut], wire=wire)
        if first.resume_from is None:
            continue
        rest = parse(payloads[cut:], wire=wire, continues=first)
        assert (rest.text, rest.reasoning) == (whole.text, whole.reasoning), cut
        assert not parts or same(rest) == same(whole), cut
        assert rest.messages() == whole.messages(), cut


@every("wire", RESUMABLE)
def test_a_turn_that_was_cut_anywhere_and_resumed_is_the_whole_turn(wire: str) -> None:
    payloads = numbered(wire, payloads_of(b"".join(framed(wire, said(wire, **RICH)))))
    assert parse(payloads[:-1], wire=wire).resume_from is not None
    check_every_cut(wire, payloads)


@every("wire", RESUMABLE)
def test_a_turn_may_be_resumed_after_every_event(wire: str) -> None:
    payloads = numbered(wire, payloads_of(b"".join(framed(wire, said(wire, **RICH)))))
    whole, turn = parse(payloads, wire=wire), parse(payloads[:1], wire=wire)
    for payload in payloads[1:]:
        assert turn.resume_from.response_id == whole.response_id
        turn = parse([payload], wire=wire, continues=turn)
    assert same(turn) == same(whole)


@every("wire", RESUMABLE)
def test_the_turn_says_after_which_event_it_was_cut(wire: str) -> None:
    payloads = numbered(wire, payloads_of(b"".join(framed(wire, said(wire, **RICH)))))
    afters = [parse(payloads[:cut], wire=wire).resume_from for cut in range(1, len(payloads))]
    key = "event_id" if wire == INTERACTIONS else "sequence_number"
    assert [point and point.after for point in afters] == [payload[key] for payload in payloads[:-1]]


RESUMED = [quirk for quirk in QUIRKS if quirk["wire"] in RESUMABLE and quirk["id"] not in (*AGAIN, EARLY)]


@every("quirk", mostly_thorough(RESUMED, 30))
def test_what_real_servers_do_is_continued_as_well(quirk: dict[str, Any]) -> None:
    check_every_cut(quirk["wire"], payloads_of(body_of(quirk)), parts=quirk["id"] != INTERLEAVED)


def test_a_wire_that_cannot_resume_says_so() -> None:
    cut = parse(framed(CHAT, said(CHAT, text=["Hi"], ends=False)))
    with pytest.raises(ValueError, match=r"openai\.chat_completions has no way to resume a response"):
        parse(b"", continues=cut)


@every("wire", RESUMABLE)
def test_a_turn_that_is_complete_is_not_continued(wire: str) -> None:
    with pytest.raises(ValueError, match="it is complete"):
        parse(b"", continues=parse(framed(wire, said(wire, text=["Hi"]))))
