"""`PartialJSON` against pydantic-core at every prefix, and where it wants to differ."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples
from pydantic_core import from_json

from streamtools.stages.preview import EAGER_CHARACTERS, LAG, PartialJSON

# -- JSON texts in every spelling, built as text ------------------------------------------------------------------

SPACE = st.sampled_from(["", "", "", " ", "\n  ", "\t\r\n"])
NUMBERS = st.from_regex(r"\A-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?\Z")
FRAGMENTS = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]), max_size=6),
    st.sampled_from(
        [r"\n", r"\"", r"\\", r"\/", r"\b\f\r\t", r"\u0041", r"\u00e9", r"\uD83D\uDE00", r"\u0000", "\x7f"]
    ),
)
STRINGS = st.lists(FRAGMENTS, max_size=4).map(lambda fragments: f'"{"".join(fragments)}"')
KEYS = st.one_of(st.sampled_from(['"a"', '"b"', '""', r'"\u0061"']), STRINGS)
SCALARS = st.one_of(STRINGS, NUMBERS, st.sampled_from(["true", "false", "null"]))


def enclosed(opening: str, items: list[tuple[str, str]], closing: str) -> str:
    return opening + ",".join(f"{space}{item}{space}" for space, item in items) + closing


def containers(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    members = st.tuples(KEYS, SPACE, values).map(lambda member: f"{member[0]}{member[1]}:{member[1]}{member[2]}")
    lists = st.lists(st.tuples(SPACE, values), max_size=4).map(lambda items: enclosed("[", items, "]"))
    objects = st.lists(st.tuples(SPACE, members), max_size=4).map(lambda items: enclosed("{", items, "}"))
    return lists | objects


DOCUMENTS = st.tuples(SPACE, st.recursive(SCALARS, containers, max_leaves=8), SPACE).map("".join)
SHARDS = ["[", "]", "{", "}", '"', ":", ",", " ", "\n", "\\", "u", "n", "\x01", "x", "é", "😀", "\ud83d", "\ude00"]
SHARDS += ["0", "1", "-", ".", "e", "+", "t", "r", "true", "null", "fals", '"a":', r"\ud83d", r"\ude00", r"\u00", "d8"]
TEXTS = st.lists(st.sampled_from(SHARDS), max_size=14).map("".join)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=12)

several_hundred = settings(max_examples=examples(100), deadline=None, derandomize=True, database=None)


def cut(text: str, sizes: list[int]) -> Iterator[str]:
    """The text in pieces of these sizes, which are repeated as often as needed."""
    start = 0
    while start < len(text):
        for size in sizes:
            if text[start : start + size]:
                yield text[start : start + size]
            start += size


def views(pieces: Iterator[str] | list[str], partial: PartialJSON | None = None) -> Iterator[tuple[str, Any]]:
    """Each prefix at the cuts, and the live view of it."""
    partial = partial or PartialJSON()
    prefix = ""
    for piece in pieces:
        prefix += piece
        yield prefix, partial.read(piece)


def view_of(text: str) -> Any:
    return PartialJSON().read(text)


def state_of(text: str) -> str:
    partial = PartialJSON()
    partial.read(text)
    return partial.state()


def oracle(prefix: str) -> Any:
    """What pydantic-core makes of the prefix; a number that is cut is kept as far as it is one."""
    outside_strings = re.sub(r'"(?:[^"\\]|\\.)*+"', "", prefix, flags=re.DOTALL)
    if '"' not in outside_strings:
        prefix = re.sub(r"(?<=[0-9])(\.|[eE][+-]?)\Z", "", prefix)
    try:
        return from_json(prefix, allow_partial="trailing-strings", allow_inf_nan=False)
    except ValueError:
        return None


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], Any]:
    """Every path of a value with what is there; a container stands as its identity."""
    if not isinstance(value, (dict, list)):
        return {path: value}
    found: dict[tuple[str | int, ...], Any] = {path: id(value)}
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        found |= leaves(item, (*path, key))
    return found


# -- what is shown ------------------------------------------------------------------------------------------------


@several_hundred
@given(DOCUMENTS)
def test_every_prefix_shows_what_the_oracle_shows(document: str) -> None:
    for prefix, view in views(list(document)):
        assert repr(view) == repr(oracle(prefix)), prefix
    assert repr(view_of(document)) == repr(from_json(document))


@several_hundred
@given(st.one_of(TEXTS, DOCUMENTS), SIZES)
def test_no_cut_changes_view_or_state_of_a_text_that_may_be_broken(text: str, sizes: list[int]) -> None:
    partial = PartialJSON()
    for _ in views(cut(text, sizes), partial):
        pass
    assert repr(partial.read("")) == repr(view_of(text))
    assert partial.state() == state_of(text)


@several_hundred
@given(DOCUMENTS, SIZES)
def test_a_path_once_shown_stays_and_only_strings_and_tentative_numbers_change(document: str, sizes: list[int]) -> None:
    keys = [json.loads(key) for key in re.findall(r'"(?:[^"\\]|\\.)*+"', document)]
    unique = len(keys) == len(set(keys))
    partial = PartialJSON()
    before: dict[tuple[str | int, ...], Any] = {}
    tentative = None
    for _, view in views(cut(document, sizes), partial):
        now = {} if view is None else leaves(view)
        for path, value in before.items() if unique else ():
            if isinstance(value, str):
                assert now[path].startswith(value)
            elif path != tentative:
                assert repr(now[path]) == repr(value)
        before, tentative = now, partial.tentative()


@every(
    ("prefix", "path"),
    [
        ("[12", (0,)),
        ("[1, [2, 3.", (1, 1)),
        ('{"a": {"b": [0', ("a", "b", 0)),
        ("7", ()),
        ("[-", None),
        ("[12,", None),
        ("[12 ", None),
        ('{"a": "12', None),
        ("[01", None),
        ('{"a": 1, "a": -', None),
        ("", None),
    ],
)
def test_a_number_that_may_go_on_is_tentative(prefix: str, path: tuple[str | int, ...] | None) -> None:
    partial = PartialJSON()
    partial.read(prefix)
    assert partial.tentative() == path


# -- Unicode ------------------------------------------------------------------------------------------------------

HALVES = [("\\ud83d", "\\ude00"), ("\ud83d", "\ude00"), ("\\uD83D", "\ude00"), ("\ud83d", "\\uDE00")]


@every(("high", "low"), HALVES)
def test_half_a_pair_waits_for_the_other_half(high: str, low: str) -> None:
    partial = PartialJSON()
    shown = [view["k"] for _, view in views(['{"k": "a', *high, *low, "b"], partial)]
    assert shown == ["a"] * (len(high) + len(low)) + ["a😀", "a😀b"]
    partial.read(f'", "{high}')
    assert partial.read(f'{low}": 1}}') == {"k": "a😀b", "😀": 1}


# -- state --------------------------------------------------------------------------------------------------------


@several_hundred
@given(TEXTS.filter(lambda text: not re.search(r"[\ud800-\udfff]|\\u([dD][89a-f]|[0-9a-f]{0,3}[^0-9a-f])", text)))
def test_the_state_is_that_of_a_strict_parser(text: str) -> None:
    # Left out: surrogates, where strict parsers refuse what we replace, and a bad `\u`, which this one sees late.
    try:
        from_json(text, allow_inf_nan=False)
        expected = "complete"
    except ValueError as error:
        cut_off = str(error).startswith("EOF")
        expected = "empty" if not text.strip() else "partial" if cut_off else "broken"
    assert state_of(text) == expected


# -- limits -------------------------------------------------------------------------------------------------------


def test_nesting_deeper_than_allowed_is_broken() -> None:
    assert state_of("[" * 64 + "]" * 64) == "complete"
    assert state_of('{"a":' * 65) == "broken"
    partial = PartialJSON(max_depth=2)
    assert partial.read('{"a": [], "b": [[1]]}') == {"a": [], "b": []}
    assert partial.state() == "broken"


def test_an_integer_that_this_process_refuses_is_broken() -> None:
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert state_of("[" + "9" * 640 + "]") == "complete"
        assert state_of("[" + "9" * 641 + "]") == "broken"
    finally:
        sys.set_int_max_str_digits(limit)


# -- cost ---------------------------------------------------------------------------------------------------------


def test_a_long_string_is_shown_with_a_bounded_lag_and_exact_at_its_end() -> None:
    text = "line %d of a long é text 😀\n"
    value = "".join(text % i for i in range(400))
    document = json.dumps({"k": value})
    lags = []
    for prefix, view in views(cut(document, [5])):
        truth = (oracle(prefix) or {}).get("k", "")
        shown = view.get("k", "")
        assert truth.startswith(shown)
        lags.append(len(truth) - len(shown))
        assert lags[-1] * LAG < len(shown) if len(truth) > EAGER_CHARACTERS else lags[-1] == 0
    assert max(lags) > 0  # else the bound was not tried
    assert view == {"k": value}


SHAPES = {
    "string": lambda size: json.dumps({"k": "plain text, " * (size // 12)}),
    "escapes": lambda size: json.dumps({"k": '"é😀\n' * (size // 22)}),
    "halves": lambda size: '{"k": "' + r"\ud83d" * (size // 6) + '"}',
    "key": lambda size: json.dumps({"k" * size: 1}),
    "integers": lambda size: json.dumps([10**18] * (size // 21)),
    "fractions": lambda size: "[" + ",".join(["0." + "1" * 4000] * (size // 4000)) + "]",
    "records": lambda size: json.dumps(
        [{"id": i, "name": f"item {i}", "tags": ["a", None]} for i in range(size // 50)]
    ),
    "spaces": lambda size: "[" + " " * size + "]",
    "broken": lambda size: "[" + "]" * size,
}


@every("shape", SHAPES)
def test_the_work_is_linear_when_every_delta_is_viewed(shape: str) -> None:
    """Characters read twice or copied, as the parser counts them and as the strings that it shows betray them."""
    costs = []
    for size in (40_000, 160_000):
        partial = PartialJSON()
        last, shown = None, 0
        for piece in cut(SHAPES[shape](size), [5]):
            view = partial.read(piece)
            partial.state()
            value = view.get("k") if isinstance(view, dict) else None
            if value is not last and value is not None:
                last, shown = value, shown + len(value)
        costs.append(partial.copied + shown + size)
    assert costs[1] < 4.4 * costs[0]
