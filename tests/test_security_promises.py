"""SECURITY.md says of each threat which tests hold its promise; they are there, and no promise is without one."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from named_tests import missing
from security_promises import IN_SHORT, PROMISES

from streamtools import Limits

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def rows() -> dict[str, str]:
    """The rows of the page's tables: what stands in the first cell, without emphasis, and the last cell."""
    cells = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return {row[0].strip("* "): row[-1] for row in cells}


def named_in(text: str) -> tuple[str, ...]:
    """The tests and scripts that a text of the page names."""
    return tuple(re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py(?:::\w+)?)`", text))


def test_every_threat_has_its_promise() -> None:
    assert list(PROMISES) == [f"T{number}" for number in range(1, 33)]


@pytest.mark.parametrize("threat", PROMISES)
def test_a_promise_has_its_row_on_the_page_with_the_tests_that_hold_it(threat: str) -> None:
    title, held_by = PROMISES[threat]
    assert held_by
    assert named_in(rows()[title]) == held_by
    assert len(set(held_by)) == len(held_by)


@pytest.mark.parametrize("promise", IN_SHORT)
def test_a_promise_in_short_stands_on_the_page_with_the_tests_that_hold_it(promise: str) -> None:
    assert named_in(rows()[promise]) == IN_SHORT[promise]


def test_every_test_that_the_page_names_exists() -> None:
    names = set(re.findall(r"`((?:tests|benchmarks)/[^`]*)`", PAGE))
    assert len(names) > 100
    functions = {name for name in names if "::" in name or name.startswith("benchmarks/")}
    assert missing(sorted(functions)) == []
    assert [name for name in sorted(names - functions) if not (ROOT / name).exists()] == []


def test_every_row_of_the_page_is_one_of_these() -> None:
    promised = {title for title, _ in PROMISES.values()} | set(IN_SHORT)
    assert {title for title, cell in rows().items() if named_in(cell)} == promised


def test_the_page_names_each_limit_that_can_be_turned_off() -> None:
    (sentence,) = re.findall(r"can be turned off by an explicit None: (.*?)\.", PAGE, re.DOTALL)
    optional = {field.name for field in fields(Limits) if str(field.type).endswith("| None")}
    assert set(re.findall(r"`(\w+)`", sentence)) == optional


def test_every_limit_that_the_page_names_is_one() -> None:
    known = {field.name for field in fields(Limits)}
    assert set(re.findall(r"`(max_\w+|idle_timeout|tool_timeout)`", PAGE)) <= known
