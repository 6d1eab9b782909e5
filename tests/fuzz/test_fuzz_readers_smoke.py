"""The fuzz target of the readers of files itself works: a short run, the same each time."""

from __future__ import annotations

import fuzz_readers
import pytest


def test_the_invariant_holds_for_some_mutations_of_each_kind() -> None:
    assert all(map(fuzz_readers.check, fuzz_readers.seeds()))
    fuzz_readers.run(100, seed=1)


@pytest.mark.thorough
def test_it_runs_as_a_script_without_anything_installed_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz_readers.py", "--runs", "2"])
    monkeypatch.setattr("logging.disable", lambda: None)
    fuzz_readers.main()
    assert capsys.readouterr().out == "2 inputs of seed 0: the invariant holds\n"
