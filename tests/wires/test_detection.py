"""The marks of wires: a wire is found without being loaded, and its record says the same as its marks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from every_wire import payloads_of
from test_quirks import QUIRKS, body_of
from test_whole_answers import ANSWERS

from streamtools.wires import WIRES, answering, find
from streamtools.wires.marks import MARKS


def payloads() -> Iterator[dict[str, Any]]:
    for quirk in QUIRKS:
        yield from (payload for payload in payloads_of(body_of(quirk)) if isinstance(payload, dict))


def answers() -> Iterator[dict[str, Any]]:
    """Whole answers, and each without one of its fields, or with null, a text or an empty list there."""
    for answer in ANSWERS.values():
        yield answer
        for name in answer:
            yield {key: value for key, value in answer.items() if key != name}
            yield from ({**answer, name: other} for other in (None, "x", [], {}, [None], [{}]))


def test_the_record_of_a_wire_recognises_payloads_by_its_mark() -> None:
    assert [name for name in WIRES if find(name).recognises is not MARKS[name].recognises] == []


def test_whole_answers_are_those_that_the_wire_is_marked_for_and_each_can_be_rewritten() -> None:
    problems = set()
    for name, marks in MARKS.items():
        wire = find(name)
        if wire.is_answer is not marks.is_answer:
            problems.add(f"{name}: the record and its row disagree")
        for answer in [*answers(), *payloads()]:
            whole = wire.whole if marks.is_answer is not None and marks.is_answer(answer) else None
            if whole is not None and not all(isinstance(payload, dict) for payload in whole(answer)):
                problems.add(f"{name}: {json.dumps(answer)[:100]}")
    assert not problems
    assert all(wire in {found.name for found in answering(answer)} for wire, answer in ANSWERS.items())
