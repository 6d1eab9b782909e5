"""Deviations of real servers: what each must amount to, whole, byte by byte and cut at random, wire given and found.

The cases stand in ``data/quirks``, a file for each wire. They leave out calls that the provider
runs itself, which are not compared. One that is ``only_named`` is not tried without its wire's name:
another wire takes its bytes, with other warnings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from every_wire import payloads_of
from profiles import FULL, every
from sansio import QUIRKS, body_of, byte_by_byte, checked, is_found, random_splits, tells
from tolerated import TOLERATED

from streamtools import ToolCall, Turn, parse
from streamtools.warning_codes import WARNINGS
from streamtools.wires import WIRES, find

SPLITS = 4 if FULL else 1
every_quirk = every("quirk", QUIRKS)


def ways(body: bytes, seed: str) -> Iterator[tuple[str, Any]]:
    yield "whole", body
    yield "byte by byte", byte_by_byte(body)
    yield "an event a chunk", re.findall(rb".*?(?:\r?\n){2}|.+", body, re.DOTALL)
    for number, chunks in enumerate(random_splits(body, SPLITS, seed)):
        yield f"split {number}", chunks


@every_quirk
def test_a_deviation_amounts_to_what_it_must_however_it_is_cut(quirk: dict[str, Any]) -> None:
    body = body_of(quirk)
    findable = tells(body, quirk["wire"]) and not quirk.get("only_named")
    for wire in (quirk["wire"], None) if findable else (quirk["wire"],):
        for how, chunks in ways(body, quirk["id"]) if wire else [("whole", body)]:
            turn = parse(chunks, wire=wire, tools=quirk["tools"])
            assert wire or is_found(turn.wire, quirk["wire"])
            difference = next(differences(quirk["expected"], turn), None)
            assert difference is None, f"{how}, wire={wire}: {difference}"


@every("quirk", QUIRKS if FULL else QUIRKS[1::2])
def test_a_deviations_histories_are_such_that_no_provider_refuses_them(quirk: dict[str, Any]) -> None:
    checked(parse(body_of(quirk), wire=quirk["wire"], tools=quirk["tools"]))


def differences(expected: dict[str, Any], turn: Turn) -> Iterator[str]:
    calls = [call for call in turn.calls if call.kind != "server"]
    said = {
        "text": (expected["text"], turn.text),
        "reasoning": (expected.get("reasoning", turn.reasoning), turn.reasoning),
        "names": ([call["name"] or "" for call in expected["tool_calls"]], [call.name for call in calls]),
        "finish": (expected["finish"], turn.finish),
        "complete": (expected["complete"], turn.complete),
        "error": (expected["error"] and expected["error"]["kind"], turn.error and turn.error.kind),
    }
    for field, (wanted, got) in said.items():
        if wanted != got:
            yield f"{field}: expected {wanted!r}, got {got!r}"
    if len(calls) != len(expected["tool_calls"]):
        return
    for number, (wanted, call) in enumerate(zip(expected["tool_calls"], calls, strict=True)):
        yield from call_differences(f"calls[{number}]", wanted, call)
    if len({call.call_id for call in calls}) < len(calls):
        yield f"call ids: expected unique ones, got {[call.call_id for call in calls]}"
    if unlisted := {warning.code for warning in turn.warnings} - set(WARNINGS):
        yield f"warnings: expected codes of WARNINGS, got {sorted(unlisted)}"
    if missing := set(expected["diagnostics"]) - {warning.code for warning in turn.warnings}:
        yield f"warnings: missing {sorted(missing)}"


def call_differences(where: str, expected: dict[str, Any], call: ToolCall) -> Iterator[str]:
    said = {
        "call_id_synthesized": (expected["id_synthesized"], call.call_id_synthesized),
        "call_id": (expected["id"] or call.call_id or "one that is made up", call.call_id),
        "status": (expected["status"], call.status),
        "dispatchable": (expected["dispatch"], call.dispatchable),
        "arguments": (
            expected.get("arguments", {"input": expected["input"]} if "input" in expected else None),
            call.arguments,
        ),
    }
    for field, (wanted, got) in said.items():
        if wanted != got:
            yield f"{where}.{field}: expected {wanted!r}, got {got!r}"


@every("table", TOLERATED)
def test_every_tolerance_has_a_case_that_shows_it(table: str) -> None:
    cases = {quirk["id"]: quirk for quirk in QUIRKS}
    for tolerance in TOLERATED[table]:
        assert tolerance.case in cases, tolerance
        case = cases[tolerance.case]
        turn = parse(body_of(case), wire=case["wire"], tools=case["tools"])
        if tolerance.warning:
            assert tolerance.warning in {warning.code for warning in turn.warnings}, tolerance


@every("wire", WIRES)
def test_a_payload_is_recognised_by_one_wire_at_most(wire: str) -> None:
    for quirk in (quirk for quirk in QUIRKS if quirk["wire"] == wire):
        for payload in payloads_of(body_of(quirk)):
            if isinstance(payload, dict):
                assert len([wire for wire in WIRES if find(wire).recognises(payload)]) <= 1, (quirk["id"], payload)


def test_the_cases_are_all_there() -> None:
    assert len({quirk["id"] for quirk in QUIRKS}) == len(QUIRKS) > 370
    counts = {wire: sum(quirk["wire"] == wire for quirk in QUIRKS) for wire in WIRES}
    assert all(count >= 12 for count in counts.values()), counts
    assert all(quirk["reference"] and quirk["why"] for quirk in QUIRKS)
