"""The law that nothing a provider sends is lost: each string comes out in an event or in the turn.

Texts, arguments, ids, names, signatures and the values of fields that no provider has yet are marked, at any place of
any payload, and found again in a typed field, or in an `UnknownPayload` or a `ProviderItem`, which are for what nobody
understands. Copies of payloads beside that do not count, but for the counts of tokens, whose copy is
`StreamEnd.usage_raw`. The exceptions of a wire stand in its cases (`not_found_again`), each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from found_again import WAYS, Edit, Way, alike, edits_of, excuse, lost, place_of, skeletons
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import examples
from wire_cases import CASES

from streamtools.wires import WIRES

every_wire = pytest.mark.parametrize("wire", WIRES)


def unexcused(wire: str, places: set[str]) -> list[str]:
    return sorted(place for place in places if excuse(wire, place) is None)


def named(edits: list[Edit]) -> dict[str, Edit]:
    """Each edit by a mark of its own, none of which is a part of another."""
    return {f"mark{number:04}": edit for number, edit in enumerate(edits)}


def rare(wire: str) -> Iterator[tuple[str, set[str]]]:
    """The place of each edit that some exception is about, and the places of which it loses something."""
    for payloads in skeletons(wire):
        edits = edits_of(payloads)
        for edit in edits:
            if excuse(wire, place := place_of(payloads, edit)) is not None:
                for way in WAYS:
                    yield place, lost(wire, payloads, named(alike(edits, edit)), way)


@every_wire
@settings(max_examples=examples(60), derandomize=True, deadline=None)
@given(data=st.data())
def test_every_string_that_a_provider_sends_is_found_again(wire: str, data: st.DataObject) -> None:
    payloads = data.draw(st.sampled_from(skeletons(wire)))
    edits = edits_of(payloads)
    chosen = data.draw(st.lists(st.sampled_from(edits), min_size=1, max_size=4, unique=True))
    if data.draw(st.booleans()):
        chosen = alike(edits, chosen[0])
    way = data.draw(st.builds(Way, framed=st.booleans(), deep=st.booleans(), instead=st.booleans()))
    assert unexcused(wire, lost(wire, payloads, named(chosen), way)) == []


@every_wire
def test_a_new_field_of_every_object_is_found_again_wherever_the_response_has_it(wire: str) -> None:
    """A sweep over the composed responses, which have each event of the wire: every object, one at a time, and the
    same object of all payloads at once."""
    for payloads in skeletons(wire)[:2]:
        edits = [edit for edit in edits_of(payloads) if edit.old is None]
        for number, edit in enumerate(edits):
            for chosen in ([edit], alike(edits, edit)):
                way = WAYS[number % len(WAYS)]
                assert unexcused(wire, lost(wire, payloads, named(chosen), way)) == []


@every_wire
@pytest.mark.thorough
def test_a_string_at_every_place_is_found_again(wire: str) -> None:
    for payloads in skeletons(wire):
        edits = edits_of(payloads)
        for number, edit in enumerate(edits):
            way = WAYS[number % len(WAYS)]
            assert unexcused(wire, lost(wire, payloads, named([edit]), way)) == []
            assert unexcused(wire, lost(wire, payloads, named(alike(edits, edit)), way)) == []


@every_wire
def test_every_exception_excuses_something_and_has_its_reason(wire: str) -> None:
    used = {excuse(wire, place) for place, gone in rare(wire) if place in gone}
    assert used == CASES[wire].not_found_again.keys()
    assert all(CASES[wire].not_found_again.values())
