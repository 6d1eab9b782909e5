"""The fuzz target itself works: a short run, the same each time."""

from __future__ import annotations

import fuzz_parse
import pytest

from streamtools.wires import WIRES


def test_the_invariant_holds_for_some_mutations_of_the_known_deviations() -> None:
    fuzz_parse.run(200, seed=1, every=16)


def test_every_wire_and_every_form_is_among_the_seeds() -> None:
    inputs = [fuzz_parse.Input(seed) for seed in fuzz_parse.seeds()]
    assert {given.wire for given in inputs} == set(WIRES)
    assert {given.form for given in inputs} == set(fuzz_parse.FORMS)
    assert {given.limits for given in inputs} <= set(fuzz_parse.LIMITS)


def test_it_runs_as_a_script_without_anything_installed_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz_parse.py", "--runs", "5", "--every", "50"])
    fuzz_parse.main()
    assert capsys.readouterr().out == "5 inputs of seed 0: the invariant holds\n"
