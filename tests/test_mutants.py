"""The mutants are changes of behaviour in one place each, the same for the same seed, and meet tests that exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.mutants import TESTED_BY, Mutant, chosen_for, main, mutants_of, pick, verdict_of

ROOT = Path(__file__).resolve().parent.parent

SOURCE = '''"""A module."""

from __future__ import annotations

__all__ = ["judge"]


def judge(words: list[str], most: int = 3) -> str | None:
    """Judge."""
    if not words and most >= 1:
        return None
    most += 1
    if len(words) == most:
        raise ValueError("expected fewer words")
    words.append("é")
    return words[0] + words[most - 1]
'''


def test_every_module_and_every_test_of_the_table_exists() -> None:
    named = [*TESTED_BY, *(test for tests in TESTED_BY.values() for test in tests)]
    assert [name for name in named if not (ROOT / name).is_file()] == []
    assert [path for path, tests in TESTED_BY.items() if len(set(tests)) < len(tests)] == []


def test_each_kind_of_change_is_made_in_its_place_only() -> None:
    found = {
        (mutant.kind, line[1:].strip())
        for mutant in mutants_of("a.py", SOURCE)
        for line in mutant.diff(SOURCE).splitlines()
        if line.startswith("+") and not line.startswith("+++")
    }
    assert found == {
        ("off by one", "def judge(words: list[str], most: int = (4)) -> str | None:"),
        ("off by one", "def judge(words: list[str], most: int = (2)) -> str | None:"),
        ("negation", "if (not (not words and most >= 1)):"),
        ("and/or", "if (not words or most >= 1):"),
        ("not removed", "if (words) and most >= 1:"),
        ("comparison", "if not words and (most > 1):"),
        ("off by one", "if not words and most >= (2):"),
        ("off by one", "if not words and most >= (0):"),
        ("deletion", "pass"),
        ("off by one", "most += (2)"),
        ("off by one", "most += (0)"),
        ("negation", "if (not len(words) == most):"),
        ("comparison", "if (len(words) != most):"),
        ("constant", "words.append(('é?'))"),
        ("None returned", "return None"),
        ("arithmetic", "return (words[0] - words[most - 1])"),
        ("off by one", "return words[(1)] + words[most - 1]"),
        ("off by one", "return words[(-1)] + words[most - 1]"),
        ("arithmetic", "return words[0] + words[(most + 1)]"),
        ("off by one", "return words[0] + words[most - (2)]"),
        ("off by one", "return words[0] + words[most - (0)]"),
    }


def test_every_mutant_of_the_modules_is_a_program_and_differs_from_its_module() -> None:
    for path in TESTED_BY:
        source = (ROOT / path).read_text(encoding="utf-8")
        for mutant in pick(mutants_of(path, source), "1"):
            assert ast.dump(ast.parse(mutant.source)) != ast.dump(ast.parse(source)), mutant.diff(source)
            break
        assert len(mutants_of(path, source)) > 50, path


def test_a_seed_picks_the_same_mutants_again_and_all_of_them_in_the_end() -> None:
    made = mutants_of("a.py", SOURCE)
    first, again, other = (list(pick(made, seed)) for seed in ("1", "1", "2"))
    assert first == again
    assert first != other
    assert set(first) == set(other) == set(made)


def test_a_mutant_meets_the_tests_of_its_whole_statement_in_the_tables_order() -> None:
    path, (first, second, *_) = next(iter(TESTED_BY.items()))
    lines = {4: [f"{second}::test_b"], 5: [f"{first}::test_a", f"{second}::test_b"], 6: [first, second]}
    cases = {
        range(4, 5): [f"{second}::test_b"],
        range(4, 6): [f"{first}::test_a", f"{second}::test_b"],
        range(4, 7): list(TESTED_BY[path]),  # a line that runs at the import is every test's
        range(9, 10): [],
    }
    for statement, expected in cases.items():
        mutant = Mutant(path, statement.start, statement, "deletion", "")
        assert chosen_for(mutant, lines) == expected, statement
    # So is one that another test happened to import first.
    for mutant in mutants_of(path, "TABLE = {1: 2}\n\ndef use(place=3):\n    return place + 1\n"):
        one = [f"{second}::test_b"]
        assert chosen_for(mutant, {mutant.line: one}) == (list(TESTED_BY[path]) if mutant.line < 4 else one)


def test_a_run_past_its_bound_kills_a_mutant_only_by_a_tests_own_deadline() -> None:
    cases = (
        (1, "", "killed"),
        (-9, "", "killed"),
        (0, "", "survived"),
        (5, "no tests ran", "survived"),
        (2, "", "broken"),
        (None, "....", "not judged"),
        (None, "..F\nFAILED tests/a.py::test_b[1 2] - Failed: tests/a.py::test_b took 3 s", "not judged"),
        (None, "\nexpected tests/a.py::test_b[1 2] (call) to end within 10 s\n", "killed"),
    )
    for code, output, verdict in cases:
        assert verdict_of(code, output) == verdict, (code, output)


def test_a_module_that_is_not_in_the_table_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--module", "nonsense"])
    assert "expected a part of one of" in capsys.readouterr().err
