"""What differs between two schemas, place by place."""

from __future__ import annotations

from typing import Any

from profiles import every

from streamtools.exports import Change, diff


@every(
    ("before", "after", "lines"),
    [
        ({"type": "string"}, {"type": "string"}, []),
        ({"type": "string"}, {"type": "integer"}, ['~ /type: "string" -> "integer"']),
        ({"a": 1}, {"b": 1}, ["- /a: 1", "+ /b: 1"]),
        ({"required": ["a", "b"]}, {"required": ["b", "c"]}, ['- /required: "a"', '+ /required: "c"']),
        ({"enum": [1, 2]}, {"enum": [2, 1]}, []),
        ({"enum": [1]}, {"enum": [True]}, ["- /enum: 1", "+ /enum: true"]),
        ({"x": 1}, {"x": 1.0}, ["~ /x: 1 -> 1.0"]),
        ({"anyOf": [{"a": 1}, {"b": 1}]}, {"anyOf": [{"a": 2}]}, ["~ /anyOf/0/a: 1 -> 2", '- /anyOf/1: {"b":1}']),
        ({"anyOf": [{}]}, {"anyOf": [{}, {}]}, ["+ /anyOf/1: {}"]),
        ({"a/b": {"c~d": 1}}, {"a/b": {}}, ["- /a~1b/c~0d: 1"]),
        ({"a/b": 1}, {"a/b": 1, "c/d": 1}, ["+ /c~1d: 1"]),
        (1, "1", ['~ /: 1 -> "1"']),
    ],
)
def test_a_difference_is_a_line(before: Any, after: Any, lines: list[str]) -> None:
    assert [str(change) for change in diff(before, after)] == lines


def test_a_long_value_is_cut_in_its_line_and_whole_in_its_field() -> None:
    (change,) = diff({}, {"description": "x" * 500})
    assert change == Change(path="/description", kind="added", after="x" * 500)
    assert str(change).endswith("xxx... (502 characters)")
    assert len(str(change)) < 200


def test_of_two_long_values_the_line_shows_where_they_part() -> None:
    (change,) = diff("x" * 500 + "old end", "x" * 500 + "new end")
    line = str(change)
    assert 'old end" (509 characters)' in line
    assert 'new end" (509 characters)' in line
    assert len(line) < 200
