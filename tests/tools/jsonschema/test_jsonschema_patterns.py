"""Patterns by their ECMA-262 meaning, and what becomes of those that cannot be enforced."""

from __future__ import annotations

from typing import Any

import pytest

from streamtools.schema.validation import compile


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("b", ["b", "abc"], ["", "B"]),
        ("", ["", "x"], []),
        (r"^a", ["ab"], ["ba", "\na"]),
        (r"a$", ["ba"], ["a\n", "ab"]),
        (r"^$", [""], ["\n", " "]),
        (r"^a|b$", ["ax", "xb"], ["xax"]),
        (r"^\d+$", ["12"], ["١٢", "1a", "1\n"]),
        (r"^\D$", ["a", "١"], ["1"]),
        (r"^\w+$", ["aZ_9"], ["é", "a-b"]),
        (r"^\W$", ["é", "-", "😀"], ["a", "_"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\u2028", "\v", " "], ["\u0085", "\x1c", "a"]),
        (r"^\S$", ["\u0085", "a"], ["\u00a0", "\ufeff"]),
        (r"^.$", ["a", "\u0085", "😀"], ["\n", "\r", "\u2028", "\u2029", ""]),
        (r"\bfoo\b", ["a foo b", "éfoo"], ["xfoo", "foo_"]),
        (r"\Boo", ["foo"], ["oo"]),
        (r"^\cA\cz$", ["\x01\x1a"], ["A"]),
        (r"^\t\n\v\f\r\0$", ["\t\n\v\f\r\0"], ["tnvfr0"]),
        (r"^\x41\u0042\u{1F600}$", ["AB😀"], ["ab"]),
        (r"^\uD83D\uDE00$", ["😀"], ["\ufffd"]),
        (r"^\p{Letter}\P{L}$", ["é1"], ["1é"]),
        (r"^\p{Script=Greek}+$", ["αβ"], ["ab"]),
        (r"^[a-c\d]+$", ["a1c"], ["d"]),
        (r"^[^\d\s]+$", ["ab"], ["a1", "a b"]),
        (r"^[\D]$", ["a"], ["1"]),
        (r"^[\w-.]+$", ["a-b.c"], ["a,b"]),
        (r"^[\w-z]+$", ["-z"], ["."]),
        (r"^[a-\d]+$", ["a-1"], ["b"]),
        (r"^[a-]+$", ["a-"], ["b"]),
        (r"^[-a]+$", ["a-"], ["b"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^[[&&~~^-]+$", ["[&~-^"], ["]", "a"]),
        (r"^[\p{Lu}0]$", ["É", "0"], ["é"]),
        (r"^[\]\\]+$", ["]\\"], ["["]),
        (r"[]", [], ["", "a"]),
        (r"^[^]$", ["a", "\n", "\u2028"], [""]),
        (r"^a{2}$", ["aa"], ["a"]),
        (r"^a{2,}?$", ["aaa"], ["a"]),
        (r"^a{0}$", [""], ["a"]),
        (r"^a{1,2}b*?c+d??$", ["aac", "abbcd"], ["c"]),
        (r"^{a}$", ["{a}"], ["a"]),
        (r"^x{$", ["x{"], ["x"]),
        (r"^x{,2}$", ["x{,2}"], ["xx"]),
        (r"^]}$", ["]}"], [""]),
        (r"^(?:ab)+(?<name>c|d)$", ["ababc"], ["abc2"]),
        (r"^(a|(b|c)){2}$", ["ac"], ["a"]),
        (r"^\/\-\.\$\{$", ["/-.${"], ["/"]),
        ("^é #$", ["é #"], ["é"]),
    ],
)
@pytest.mark.parametrize("engine", ["own", "auto"])
def test_a_pattern_means_what_ecma_262_says(engine: Any, pattern: str, matching: list[str], others: list[str]) -> None:
    validator = compile({"pattern": pattern}, engine=engine)
    assert validator.unenforced == ()
    assert [text for text in matching if not validator.is_valid(text)] == []
    assert [text for text in others if validator.is_valid(text)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(?=a)b", "look-around and flags are not supported"),
        (r"(?<!a)b", "look-around and flags are not supported"),
        (r"(?i)a", "look-around and flags are not supported"),
        (r"(a)\1", "back references are not supported"),
        (r"(?<n>a)\k<n>", "back references are not supported"),
        (r"(a", "a group is not closed"),
        (r"a)", "a parenthesis is not opened"),
        (r"[a", "a class is not closed"),
        (r"[a-", "a class is not closed"),
        (r"[z-a]", "invalid character class range"),
        (r"*a", "expected something that '*' could repeat"),
        (r"a**", "expected something that '*' could repeat"),
        (r"a++", "expected something that '+' could repeat"),
        (r"^*", "expected something that '*' could repeat"),
        (r"(|+)", "expected something that '+' could repeat"),
        (r"\b{2}", "expected something that '{' could repeat"),
        (r"a{2,1}", "its numbers out of order"),
        (r"\a", "is not an escape of ECMA-262"),
        (r"a\Z", "is not an escape of ECMA-262"),
        (r"\01", "is not an escape of ECMA-262"),
        (r"\c1", "is not an escape of ECMA-262"),
        ("a\\", "a lone backslash"),
        (r"\uD83D", "not a character"),
        (r"\u{110000}", "not a character"),
        ("\ud83d", "half a surrogate pair"),
        (r"\p{Nonsense}", "property not found"),
        (r"((a{100}){100}){100}", "too many"),
        (r"(\p{L}{100}){2}", "too many"),
    ],
)
@pytest.mark.parametrize("engine", ["own", "auto"])
def test_a_pattern_that_cannot_be_enforced_says_so(engine: Any, pattern: str, why: str) -> None:
    validator = compile({"properties": {"a": {"pattern": pattern, "maxLength": 3}}}, engine=engine)
    assert validator.name == "jsonschema"
    (line,) = validator.unenforced
    assert line.startswith("#/properties/a/pattern: ")
    assert why in line
    assert validator.is_valid({"a": "xyz"})
    assert [problem.keyword for problem in validator.validate({"a": "wxyz"})] == ["maxLength"]


def test_names_that_an_unenforced_pattern_may_match_are_let_pass() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}},
        "patternProperties": {"^(?!x)": {"type": "string"}, "^n": {"type": "null"}},
        "additionalProperties": False,
    }
    validator = compile(schema)
    assert [line.partition(":")[0] for line in validator.unenforced] == ["#/patternProperties/^(?!x)"]
    assert validator.is_valid({"a": 1, "other": 5, "n": None})
    assert not validator.is_valid({"a": "x"})
    assert not validator.is_valid({"n": 5})
    outer = compile({"allOf": [{"patternProperties": {"^(?!x)": {}}}], "unevaluatedProperties": False})
    assert outer.is_valid({"other": 1})


def test_each_place_of_an_unenforced_pattern_is_told_up_to_64() -> None:
    schema = {"properties": {f"p{number}": {"pattern": "(?=x)"} for number in range(100)}}
    lines = compile(schema).unenforced
    assert len(lines) == 64
    assert lines[1] == "#/properties/p1/pattern: look-around and flags are not supported"


def test_a_text_with_half_a_surrogate_pair_matches_no_pattern() -> None:
    for engine in ("own", "auto"):
        assert not compile({"pattern": "a"}, engine=engine).is_valid("a\ud800")  # type: ignore[arg-type]
