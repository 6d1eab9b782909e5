"""The fuzz target of the MCP reader itself works: a short run, the same each time."""

from __future__ import annotations

import fuzz_mcp
import pytest


@pytest.mark.thorough
def test_the_invariant_holds_for_some_mutations_of_a_list_and_an_answer() -> None:
    fuzz_mcp.run(60, seed=1)


def test_the_seeds_hold_tools_that_are_taken() -> None:
    assert [tool.name for tool in fuzz_mcp.check(fuzz_mcp.seeds()[0])] == ["p__f"]


def test_an_input_that_costs_too_much_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_mcp, "MAX_BYTES", 0)
    monkeypatch.setattr(fuzz_mcp, "MAX_BYTES_PER_BYTE", 0)
    with pytest.raises(AssertionError, match="bytes for"):
        fuzz_mcp.check(fuzz_mcp.seeds()[0])


@pytest.mark.thorough
def test_it_runs_as_a_script_without_anything_installed_for_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["fuzz_mcp.py", "--runs", "2"])
    fuzz_mcp.main()
    assert capsys.readouterr().out == "2 inputs of seed 0: the invariant holds\n"
