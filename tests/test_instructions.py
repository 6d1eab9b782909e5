"""The table of instructions has a row for every wire and a reason for every row, and says when code became dearer."""

from __future__ import annotations

import json
import re
import sys
from typing import Any

import pytest
from wire_cases import CASES

from benchmarks import counted, footprint, instructions
from benchmarks.instructions import (
    OF_TURNS,
    SEEDS,
    TABLE,
    compare,
    conditions,
    delta_jobs,
    lowest,
    main,
    turn_jobs,
    updated,
)
from streamtools.wires import WIRES

ROWS: dict[str, dict[str, Any]] = {
    "a": {"limit": 10, "parse": 1000, "pipeline": 2000, "reason": "first"},
    "b": {"parse": 1000, "reason": "first"},
}


def figures(**changed: dict[str, int]) -> dict[str, dict[str, int]]:
    return {"a": {"limit": 10, "parse": 1000, "pipeline": 2000}, "b": {"parse": 1000}} | changed


def test_the_table_has_each_row_once_with_its_reason() -> None:
    table = json.loads(TABLE.read_text(encoding="utf-8"))
    rows = table["rows"]
    wanted = {job[0] for jobs in delta_jobs().values() for job in jobs} | {*OF_TURNS, "import"}
    assert set(rows) == wanted, "make instructions ARGS='--update --reason ...'"
    assert {name for name, row in rows.items() if not row["reason"].strip()} == set()
    assert set(table["conditions"]) == set(conditions())
    for wire in WIRES:
        kinds = {name.removeprefix(f"{wire} ") for name in rows if name.startswith(f"{wire} ")}
        has = {"text": True, "reasoning": CASES[wire].reasons, "arguments": CASES[wire].in_deltas}
        assert kinds == {kind for kind, there in has.items() if there}


def test_a_figure_is_judged_by_two_percent_and_the_limit_is_not_judged() -> None:
    cases: list[tuple[dict[str, dict[str, int]], set[tuple[str, str, str]]]] = [
        (figures(), set()),
        (figures(b={"parse": 1020}), set()),
        (figures(b={"parse": 1021}), {("b", "parse", "ABOVE")}),
        (figures(b={"parse": 979}), {("b", "parse", "better")}),
        (figures(a={"limit": 99, "parse": 1000, "pipeline": 2050}), {("a", "pipeline", "ABOVE")}),
        (figures(c={"parse": 1}), {("c", "parse", "new")}),
        ({"a": figures()["a"]}, {("b", "parse", "gone")}),
    ]
    for now, expected in cases:
        verdicts = {(each.row, each.mode, each.word) for each in compare(ROWS, now) if each.word}
        assert verdicts == expected, now


def test_only_a_figure_above_the_table_in_every_layout_of_memory_stays_above() -> None:
    counted_again: list[str] = []

    def again(seed: str) -> dict[str, dict[str, int]]:
        counted_again.append(seed)
        return figures(a={"limit": 10, "parse": 1019, "pipeline": 2100}, b={"parse": 1100 + int(seed)})

    assert lowest(ROWS, figures(), again) == figures()
    assert counted_again == []
    first = figures(a={"limit": 10, "parse": 1030, "pipeline": 2000}, b={"parse": 1101})
    now = lowest(ROWS, first, again)
    assert now == figures(a={"limit": 10, "parse": 1019, "pipeline": 2000}, b={"parse": 1101})
    assert counted_again == list(SEEDS[1:])
    assert [each.row for each in compare(ROWS, now) if each.word] == ["b"]


def test_an_update_changes_only_rows_that_moved_and_gives_them_the_reason() -> None:
    moved = figures(a={"limit": 11, "parse": 1010, "pipeline": 2010}, b={"parse": 1100}, c={"parse": 1})
    rows = updated(ROWS, moved, "checks more")
    assert rows == {
        "a": ROWS["a"],
        "b": {"parse": 1100, "reason": "checks more"},
        "c": {"parse": 1, "reason": "checks more"},
    }
    assert updated(ROWS, moved, "new versions", every=True)["a"] == {**moved["a"], "reason": "new versions"}


def test_an_update_without_a_reason_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--update"], ["--update", "--reason", ""], ["--update", "--reason", "x", "--only", "import"]):
        with pytest.raises(SystemExit):
            main(arguments)
        assert "--update" in capsys.readouterr().err


def test_without_valgrind_or_with_other_versions_nothing_is_compared_and_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = json.loads(TABLE.read_text(encoding="utf-8"))["conditions"]
    for changed, said in (({"valgrind": ""}, "valgrind is not installed"), ({"orjson": "0"}, "orjson")):
        monkeypatch.setattr(instructions, "conditions", lambda changed=changed: known | changed)
        assert main([]) == 0
        assert said in capsys.readouterr().out


def test_every_job_does_what_its_row_says() -> None:
    """Each body is read to its end, and longer input has so many deltas more; under valgrind that is hours too late."""
    for jobs in delta_jobs().values():
        for name, mode, wire, framing, small, large in jobs:
            assert len(large[0]) - len(small[0]) == instructions.DELTAS[1] - instructions.DELTAS[0], name
            counted.work(mode, wire, framing, small)
    for _, mode, wire, framing, small, _ in turn_jobs():
        counted.work(mode, wire, framing, small)


def test_calls_and_modules_are_counted() -> None:
    found = footprint.calls()
    assert list(found) == list(OF_TURNS[:3])
    for name, entered in found.items():
        assert 0 < len({module for module, _ in entered}) <= entered.total(), name
    before = sys.getprofile()
    assert before is None or "count" not in repr(before)
    assert footprint.modules("anthropic.messages")
    page = (instructions.ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    way = page.partition("## The way of a call\n")[2].partition("\n## ")[0]
    named = {name.replace("/", ".").removesuffix(".__init__") for name in re.findall(r"`([a-z_/]+)`", way)}
    assert set(footprint.files_of(found["the first call of a turn"])) <= named, "the page names each file of a call"
