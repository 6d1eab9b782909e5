"""Patterns: forms of ECMA-262 that the engine reads otherwise, and what becomes of those that cannot be enforced."""

from __future__ import annotations

import time

import pytest
from profiles import every

from streamtools.errors import SchemaError
from streamtools.schema.validation import compile


@every(
    ("pattern", "matching", "others"),
    [
        ("b", ["b", "abc"], ["", "B"]),
        (r"^\d+$", ["12"], ["١٢", "1a", "1\n"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\v"], ["\u0085", "\x1c", "a"]),
        (r"^\cA\cz$", ["\x01\x1a"], ["A"]),
        (r"^\0$", ["\0"], ["0"]),
        (r"^\uD83D\uDE00$", ["😀"], ["\ufffd"]),
        (r"^\p{Script=Greek}+$", ["αβ"], ["ab"]),
        (r"^[\w-.]+$", ["a-b.c"], ["a,b"]),
        (r"^[\w-z]+$", ["-z"], ["."]),
        (r"^[a-\d]+$", ["a-1"], ["b"]),
        (r"^[^]$", ["a", "\n", "\u2028"], [""]),
        (r"^{a}$", ["{a}"], ["a"]),
        (r"^x{,2}$", ["x{,2}"], ["xx"]),
        (r"^(?:ab)+(?<name>c|d)$", ["ababc"], ["abc2"]),
        (r"^\/\-\.\$\{$", ["/-.${"], ["/"]),
        (r"^\<caf\bé\B$", ["<café"], ["café", "<cafe"]),
    ],
)
def test_a_pattern_means_what_ecma_262_says(pattern: str, matching: list[str], others: list[str]) -> None:
    for schema in ({"pattern": pattern}, {"propertyNames": {"pattern": pattern}}):
        validator = compile(schema)
        given = [text if "pattern" in schema else {text: 1} for text in (*matching, *others)]
        assert validator.unenforced == ()
        assert [not validator.validate(value) for value in given] == [True] * len(matching) + [False] * len(others)
    named = compile({"patternProperties": {pattern: False}})
    assert [name for name in (*matching, *others) if named.validate({name: 1})] == matching


@every(
    ("pattern", "why"),
    [
        *((pattern, "look-around, flags and back references") for pattern in (r"(?=a)b", r"(?<!a)b", r"(a)\1")),
        *(
            (pattern, "is not a regular expression")
            for pattern in ("(a", "[z-a]", "*a", "a{2,1}", "a\\", r"\p{Nonsense}")
        ),
        ("\ud83d", "is not a regular expression"),
        ("[" * 1000, "is not a regular expression"),
    ],
)
def test_a_pattern_that_cannot_be_enforced_says_so(pattern: str, why: str) -> None:
    validator = compile({"properties": {"a": {"pattern": pattern, "maxLength": 3}}})
    (line,) = validator.unenforced
    assert line.startswith(f"#/properties/a/pattern: {why}")
    assert validator.validate({"a": "xyz"}) == []
    assert [problem.keyword for problem in validator.validate({"a": "wxyz"})] == ["maxLength"]


def test_names_that_an_unenforced_pattern_may_match_are_let_pass() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}},
        "patternProperties": {"^(?!x)": {"type": "string"}, "^n": {"type": "null"}},
        "additionalProperties": False,
    }
    validator = compile(schema)
    assert [line.partition(":")[0] for line in validator.unenforced] == ["#/patternProperties/^(?!x)"]
    assert validator.validate({"a": 1, "other": 5, "n": None}) == []
    assert validator.validate({"a": "x"})
    assert validator.validate({"n": 5})
    outer = compile({"allOf": [{"patternProperties": {"^(?!x)": {}}}], "unevaluatedProperties": False})
    assert outer.validate({"other": 1}) == []


def test_each_place_of_an_unenforced_pattern_is_told_up_to_64() -> None:
    schema = {"properties": {f"p{number}": {"pattern": "(?=x)"} for number in range(100)}}
    lines = compile(schema).unenforced
    assert len(lines) == 64
    assert lines[1].startswith("#/properties/p1/pattern: ")


@every("pattern", [r"\p{L}{100}", r"(\p{L}{100}){2}", "((a{100}){100}){100}", "((a{999}){999}){999}"])
def test_a_pattern_that_compiles_to_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaError, match=r"^#/properties/a/pattern: .* larger than 256 KiB once compiled"):
        compile({"properties": {"a": {"pattern": pattern}}})


def test_a_pattern_that_stands_in_many_places_is_measured_once() -> None:
    before = time.process_time()
    compile({"allOf": [{"pattern": r"\p{L}{5}"}] * 9000})
    assert time.process_time() - before < 3


def test_patterns_that_compile_to_too_much_together_are_refused() -> None:
    schema = {"properties": {f"p{number}": {"pattern": rf"\p{{L}}{{2}}{number}x"} for number in range(1000)}}
    with pytest.raises(SchemaError, match=r"^#/properties/p\d+/pattern: .* larger than 8 MiB together"):
        compile(schema)


def test_a_text_with_half_a_surrogate_pair_matches_no_pattern() -> None:
    assert compile({"pattern": "a"}).validate("a\ud800")
