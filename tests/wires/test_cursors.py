"""Cursors by themselves: which event came before, of those that are fed and of those that are only recognised."""

from __future__ import annotations

from typing import Any

from streamtools.wires.cursors import EventCursors, is_number


def event(cursor: Any, kind: Any = "text", **fields: Any) -> dict[str, Any]:
    return {"n": cursor, "type": kind, **fields}


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


FED = "comes_again"
RUN = "goes_on"
BACK = "take_back"
AFTER = "start_after"
LONG, LONGEST = "x" * 257, "x" * 256

# What is asked, and the answers.
SCRIPTS: dict[str, tuple[list[tuple[str, Any]], list[Any]]] = {
    "each is new": ([(FED, event(0)), (FED, event(1)), (FED, event(7)), (FED, event("a"))], [False] * 4),
    "one comes again": (
        [(FED, event(0)), (FED, event(1)), (FED, event(0)), (FED, event(1)), (FED, event(2))],
        [False, False, True, True, False],
    ),
    "a text comes again": (
        [(FED, event("a")), (FED, event("b")), (FED, event("a")), (FED, event("b")), (FED, event("c"))],
        [False, False, True, True, False],
    ),
    "what has no cursor is new": (
        [(FED, event(None)), (FED, event("")), (FED, event(-1)), (FED, event(LONG)), (FED, event(True)), (FED, {})] * 2,
        [False] * 12,
    ),
    "the longest cursor": ([(FED, event(LONGEST)), (FED, event(LONGEST))], [False, True]),
    "the latest again, with something else in it": (
        [(FED, event(0, a=1)), (FED, event(0, a=1)), (FED, event(0, a=2)), (FED, event(0, a=1)), (FED, event(0, a=2))],
        [False, True, False, False, False],
    ),
    "an older one, with something else in it": (
        [(FED, event(0, a=1)), (FED, event(1)), (FED, event(0, a=2))],
        [False, False, True],
    ),
    "one of another kind makes cursors useless": (
        [(FED, event(0)), (FED, event(1)), (FED, event(0, "call")), (FED, event(1)), (FED, event(0))],
        [False, False, False, False, False],
    ),
    "a kind that is no word": ([(FED, event(0, [1])), (FED, event(0, [2])), (FED, event(0, 3))], [False, False, False]),
    "only the newest are remembered": (
        [*((FED, event(number)) for number in range(65)), (FED, event(1)), (FED, event(0))],
        [False] * 65 + [True, False],
    ),
    "only the newest texts are remembered": (
        [*((FED, event(f"{number}")) for number in range(65)), (FED, event("1")), (FED, event("0"))],
        [False] * 65 + [True, False],
    ),
    "numbers that go on": (
        [(FED, event(4)), *((RUN, event(number)) for number in (5, 6, 7, 7, 9, 8, 6, 9))],
        [False, True, True, True, False, False, True, False, True],
    ),
    "numbers before any is fed": (
        [(RUN, event(0)), (RUN, event(1)), (FED, event(2)), (RUN, event(3))],
        [False] * 3 + [True],
    ),
    "a run comes again": (
        [
            *((FED, event(0)), (RUN, event(1)), (RUN, event(2)), (RUN, event(3)), (FED, event(4, "end"))),
            *((FED, event(1)), (FED, event(2)), (FED, event(3)), (FED, event(0)), (FED, event(4, "end"))),
            (FED, event(5)),
        ],
        [False, True, True, True, False, True, True, True, True, True, False],
    ),
    "a run comes again as another kind": (
        [
            *((FED, event(0)), (RUN, event(1)), (RUN, event(2)), (RUN, event(3)), (FED, event(4, "end"))),
            *((FED, event(2, "call")), (FED, event(2, "call"))),
        ],
        [False, True, True, True, False, False, True],
    ),
    "a gap comes later": (
        [
            *((FED, event(0)), (FED, event(1)), (FED, event(5)), (FED, event(3)), (FED, event(3))),
            *((FED, event(9)), (RUN, event(10)), (FED, event(20)), (FED, event(10)), (FED, event(9)), (FED, event(8))),
        ],
        [False, False, False, False, True, False, True, False, True, True, False],
    ),
    "the end of a run is the latest": (
        [(FED, event(0)), (RUN, event(1)), (RUN, event(2)), (FED, event(2)), (FED, event(1)), (FED, event(2, "end"))],
        [False, True, True, True, True, False],
    ),
    "a run with something else in its last": (
        [(FED, event(0, a=1)), (RUN, event(1)), (FED, event(1, a=2)), (FED, event(1, a=3))],
        [False, True, True, True],
    ),
    "texts that go on": (
        [
            *((FED, event("a")), (RUN, event("b")), (RUN, event("c")), (RUN, event("b")), (RUN, event("a"))),
            *((FED, event("b")), (FED, event("c")), (FED, event("d")), (RUN, event("d")), (RUN, event("e"))),
        ],
        [False, True, True, False, False, True, True, False, False, True],
    ),
    "a text too long to be a cursor": (
        [(RUN, event(LONG)), (RUN, event(LONGEST)), (RUN, event(LONGEST))],
        [False, True, False],
    ),
    "what has no cursor goes on": ([(RUN, event(None)), (RUN, {}), (RUN, event(1.5)), (RUN, event(True))], [True] * 4),
    "texts of two generations are remembered": (
        [
            *((RUN, event(f"{number}")) for number in range(127)),
            *((RUN, event("0")), (RUN, event("63")), (RUN, event("62")), (RUN, event("126")), (RUN, event("127"))),
            *((RUN, event("63")), (RUN, event("0"))),
        ],
        [True] * 127 + [True, False, True, False, True, False, False],
    ),
    "useless ones go on": (
        [
            *((FED, event(0)), (FED, event(0, "call")), (RUN, event(7)), (RUN, event(7)), (RUN, event("a"))),
            *((RUN, event("a")), (RUN, event(LONG)), (FED, event(0)), (FED, event(0))),
        ],
        [False, False, True, True, True, True, True, False, False],
    ),
    "one too deep to be compared": (
        [(FED, event(0, a=nested(50_000))), (FED, event(0, a=nested(50_000))), (FED, event(0))],
        [False, False, False],
    ),
    "one that was taken back": (
        [
            *((FED, event(0)), (RUN, event(1)), (BACK, None), (RUN, event(1)), (BACK, None), (FED, event(1))),
            *((FED, event(1)), (RUN, event(2))),
        ],
        [False, True, None, True, None, False, True, True],
    ),
    "a text that was taken back": (
        [(RUN, event("a")), (RUN, event("b")), (BACK, None), (FED, event("b")), (FED, event("b")), (FED, event("a"))],
        [True, True, None, False, True, True],
    ),
    "nothing was taken back": ([(BACK, None), (FED, event(0)), (FED, event(0))], [None, False, True]),
    "behind a cut": (
        [(FED, event(3)), (AFTER, 5), (FED, event(5)), (FED, event(6)), (FED, event(3)), (FED, event(6))],
        [False, None, True, False, False, True],
    ),
    "behind a cut, in a run": (
        [(AFTER, 5), (RUN, event(6)), (RUN, event(7)), (FED, event(8)), (FED, event(7)), (FED, event(8))],
        [None, True, True, False, False, True],
    ),
    "behind a cut, a text": (
        [(AFTER, "a"), (FED, event("a")), (FED, event("b")), (RUN, event("c")), (FED, event("a"))],
        [None, True, False, True, False],
    ),
    "behind a cut without a cursor": (
        [(FED, event(3)), (AFTER, None), (FED, event(3)), (FED, event(3))],
        [False, None, False, True],
    ),
}


def test_an_event_came_before_if_its_cursor_named_one_of_its_kind() -> None:
    for name, (script, expected) in SCRIPTS.items():
        cursors = EventCursors("n", ("type",))
        found = [
            getattr(cursors, asked)() if asked == BACK else getattr(cursors, asked)(argument)
            for asked, argument in script
        ]
        assert found == expected, name


def test_the_cursor_to_go_on_from_is_the_last_ones() -> None:
    cursors = EventCursors("n", ("type",))
    assert (cursors.field, cursors.last, cursors.is_useless) == ("n", None, False)
    for asked, argument, last in (
        (FED, event(3), 3),
        (FED, event(None), 3),
        (RUN, event(4), 4),
        (RUN, event(9), 4),
        (FED, event("é\ud83d"), "é\ud83d"),
        (RUN, event("b"), "b"),
        (RUN, event("\ud83d"), "\ud83d"),
        (AFTER, 8, 8),
        (AFTER, "c", "c"),
        (AFTER, None, None),
    ):
        getattr(cursors, asked)(argument)
        assert cursors.last == last, argument
    cursors.comes_again(event(1))
    cursors.comes_again(event(1, "call"))
    assert (cursors.last, cursors.is_useless) == (1, True)


def test_digits_are_a_number_as_json_writes_it() -> None:
    cases = {b"1": True, b"10": True, b"0": False, b"01": False, b"": False, b"-1": False, b"1a": False, b"1.0": False}
    cases |= {b"9" * 18: True, b"9" * 19: False}
    for written, expected in cases.items():
        assert is_number(written) is expected, written
    cursors = EventCursors("n", ("type",))
    cursors.comes_again(event(9))
    assert [cursors.digits_go_on(digits) for digits in (b"010", b"10", b"10", b"12", b"11", b"x")] == [
        *(False, True, False, False, True, False),
    ]
