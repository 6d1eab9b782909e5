"""A result that is written in pieces is written as pydantic writes it whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from profiles import examples
from pydantic import BaseModel
from pydantic_core import to_json

from streamtools.dispatch.results import _PIECE_BYTES, _PIECE_CHARS, _pieces


@dataclass
class Place:
    city: Any
    at: Any = None


@dataclass
class Nothing:
    pass


class Model(BaseModel):
    name: Any


class Repeated:
    """Makes the same generator twice: it can be written only once."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items


def made(value: Any) -> Any:
    """The value, with fresh generators in it."""
    if isinstance(value, Repeated):
        return yielding(value.items)
    if isinstance(value, Place):
        return Place(made(value.city), made(value.at))
    if type(value) in (list, tuple):
        return type(value)(made(one) for one in value)
    if type(value) is dict:
        return {key: made(one) for key, one in value.items()}
    return value


def yielding(items: list[Any]) -> Iterator[Any]:
    for one in items:
        yield made(one)


KEYS = st.one_of(st.text(), st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False), st.binary(max_size=5))
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary())
HASHABLE = st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text()))
VALUES = st.recursive(
    PLAIN | st.builds(Nothing) | st.sets(HASHABLE, max_size=3) | st.frozensets(HASHABLE, max_size=3),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(Place, inner, inner),
        st.builds(Model, name=st.text() | st.integers()),
        st.builds(Repeated, st.lists(inner, max_size=3)),
    ),
    max_leaves=12,
)


def written(value: Any) -> bytes:
    return b"".join(_pieces(made(value), 0))


@settings(derandomize=True, deadline=None, max_examples=examples(100))
@given(VALUES)
@example("é" * (_PIECE_CHARS + 1))
@example(['\\\n"\u2028' * _PIECE_CHARS, "😀" * _PIECE_CHARS])
@example(bytes(range(256)) * 700)
@example({"a": bytes(_PIECE_BYTES + 1), "b": bytes(2 * _PIECE_BYTES), "c": bytes(_PIECE_BYTES + 2)})
@example({b"key": 1, None: 2, True: 3, 1.5: 4})
@example([[], (), {}, set(), Nothing(), Repeated([])])
def test_pieces_join_to_what_is_written_whole(value: Any) -> None:
    assert written(value) == to_json(made(value), bytes_mode="base64", inf_nan_mode="null")
