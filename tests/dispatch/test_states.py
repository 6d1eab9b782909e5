"""The table of a call's states: closed, complete, carried out whole."""

from __future__ import annotations

from typing import get_args

from profiles import every

from streamtools.dispatch.states import OPEN, TRANSITIONS, Effect, Input, State, advance
from streamtools.dispatch.transitions import _EFFECTS, _EFFECTS_OF_GIVEN

STATES, INPUTS, EFFECTS = get_args(State), get_args(Input), get_args(Effect)
DISPATCHED = [state for state in STATES if state != "left_alone"]
ENDS = {effect for effect in EFFECTS if effect.startswith("end_")}


class Thing:
    def __init__(self, state: State) -> None:
        self.state: State = state


@every("state", DISPATCHED)
def test_a_call_in_any_state_is_observed_when_all_is_settled(state: State) -> None:
    thing = Thing(state)
    advance(thing, "settled")
    assert thing.state == "observed"


@every("happened", INPUTS)
def test_nothing_moves_a_call_that_has_its_observation_or_is_left_alone(happened: Input) -> None:
    for last in ("observed", "left_alone"):
        thing = Thing(last)
        assert advance(thing, happened) == ()
        assert thing.state == last


def test_no_row_leads_out_of_the_declared_words_and_each_of_them_is_used() -> None:
    assert {state for state, _ in TRANSITIONS} | {row.state for row in TRANSITIONS.values()} == set(STATES)
    assert {happened for _, happened in TRANSITIONS} == set(INPUTS)
    assert {effect for row in TRANSITIONS.values() for effect in row.effects} == set(EFFECTS)
    assert set(STATES) > OPEN


def test_every_effect_has_its_method_and_no_method_is_left_over() -> None:
    assert [*sorted(_EFFECTS | _EFFECTS_OF_GIVEN)] == sorted([*_EFFECTS, *_EFFECTS_OF_GIVEN]) == sorted(EFFECTS)


def test_a_call_is_observed_by_exactly_one_effect_the_last_of_the_rows_that_end_it() -> None:
    for (state, happened), row in TRANSITIONS.items():
        made = [effect for effect in row.effects if effect in ENDS]
        assert made == (list(row.effects[-1:]) if row.state == "observed" else []), (state, happened)


def test_every_state_is_reached_from_the_first_and_code_runs_behind_a_begin_alone() -> None:
    reached: set[State] = {"announced"}
    while new := {row.state for (state, _), row in TRANSITIONS.items() if state in reached} - reached:
        reached |= new
    assert reached == set(STATES)
    into_running = {happened for (_, happened), row in TRANSITIONS.items() if row.state == "running"}
    assert into_running == {"begun"}
    assert {state for state, happened in TRANSITIONS if happened == "begun"} == {"starting", "retrying"}


def test_what_may_not_start_any_more_cannot_begin() -> None:
    """After a bad end, a leave or a cancellation every way is an end, but for the code that runs already."""
    for happened in ("bad_end", "stopped", "cancelled", "settled"):
        for state in DISPATCHED:
            thing = Thing(state)
            advance(thing, happened)
            assert thing.state in ("observed", "stopping", state)
            if thing.state == state and happened in ("stopped", "cancelled"):
                # What streams is refused when it is whole, by the word about the turn.
                assert state in ("announced", "ended", "stopping", "observed")
            if thing.state == state and happened == "bad_end":
                assert state in ("announced", "running", "retrying", "stopping", "observed")
