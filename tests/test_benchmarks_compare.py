"""The comparison: its readers find what is there, and its pages show the stored figures and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.compare import __main__ as compare
from benchmarks.compare.figures import STORED, fastest, load, save, short, table
from benchmarks.compare.peers import PEERS, Peer
from benchmarks.compare.plot import BEGIN, END, block, svg, with_block
from benchmarks.compare.work import WORKLOADS, Answer, Work, save_report, verdict
from benchmarks.workloads import arguments, text

REPOSITORY = Path(__file__).resolve().parent.parent
FIGURES = load(STORED)
WORK = Work(deltas=tuple(text(20)), calls=((save_report.name, arguments(1000)), (save_report.name, arguments(1100))))
OURS = ("limit", "ours_parse", "ours_pipeline", "ours_pipeline_sdk")
SDKS = ("openai_raw", "openai_stream", "anthropic_raw", "anthropic_stream")
READERS = [(peer, wire) for peer in PEERS if peer.key in OURS + SDKS for wire in peer.wires]


# -- readers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("peer", "wire"), READERS, ids=lambda value: getattr(value, "key", value))
def test_a_reader_finds_text_and_calls(peer: Peer, wire: str) -> None:
    for sdk in {"openai", "anthropic"} & set(peer.distributions(wire)):
        pytest.importorskip(sdk)
    answer = asyncio.run(peer.reader(wire, WORK.chunks(wire))())
    assert answer == (None if peer.key == "limit" else WORK.answer)


RIGHT = Answer("abc", [("f", {"x": 1}), ("g", {})])


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (RIGHT, "right"),
        (replace(RIGHT, text="ab"), "text differs: 2 of 3 characters"),
        (replace(RIGHT, calls=[("f", {"x": 1})]), "1 of 2 calls"),
        (
            replace(RIGHT, calls=[("fg", '{"x":1}{}')]),
            "1 of 2 calls; call 1 has another name; call 1 has other arguments",
        ),
        (replace(RIGHT, calls=[("f", {"x": 2}), ("g", {})]), "call 1 has other arguments"),
    ],
)
def test_what_is_wrong_with_an_answer_is_told(answer: Answer, told: str) -> None:
    assert verdict(answer, RIGHT) == told


def test_a_reader_that_is_not_installed_is_left_out_loudly(capsys: pytest.CaptureFixture[str]) -> None:
    if find_spec("litellm"):
        pytest.skip("it is installed here")
    compare.main(["--peers", "litellm", "--rounds", "1"])
    told = capsys.readouterr().err
    assert "SKIPPED litellm" in told
    assert "pip install -e '.[compare-litellm]'" in told


# -- figures -------------------------------------------------------------------------------------------------------


def test_the_fastest_round_counts_but_an_answer_that_was_wrong_once_is_wrong() -> None:
    slow, fast = {"microseconds": 2.0, "answer": "1 of 2 calls"}, {"microseconds": 1.0, "answer": "right"}
    assert fastest([slow, fast]) == {"microseconds": 1.0, "answer": "1 of 2 calls"}
    assert fastest([fast, {"answer": "raised ValueError"}]) == {"microseconds": 1.0, "answer": "raised ValueError"}


def test_every_reader_was_measured_on_each_of_its_wires() -> None:
    measured = {(row.peer, row.wire, row.workload) for row in FIGURES.rows}
    assert measured == {(peer.key, wire, workload) for peer in PEERS for wire in peer.wires for workload in WORKLOADS}
    assert set(FIGURES.versions) == {peer.key for peer in PEERS}


def test_the_stored_figures_are_as_they_would_be_written_again(tmp_path: Path) -> None:
    save(FIGURES, tmp_path / "figures.json")
    assert (tmp_path / "figures.json").read_bytes() == STORED.read_bytes()


def test_the_table_has_every_figure() -> None:
    lines = table(FIGURES)
    for row in FIGURES.rows:
        [name] = [peer.name for peer in PEERS if peer.key == row.peer]
        assert row.ratio is not None
        shown = (f"{row.microseconds:.2f}", f"{row.ratio:.1f}")
        assert any(name in line and set(shown) <= set(line.split()) for line in lines), (name, shown)


# -- pages ---------------------------------------------------------------------------------------------------------


def test_the_plot_is_made_of_the_stored_figures_byte_for_byte() -> None:
    """Else: ``python -m benchmarks.compare.plot --page docs/figures.md``."""
    assert (REPOSITORY / "docs" / "compare.svg").read_text(encoding="utf-8") == svg(FIGURES)


def test_the_plot_shows_every_figure() -> None:
    shown = ["".join(element.itertext()) for element in ElementTree.fromstring(svg(FIGURES)).iter()]
    for row in FIGURES.rows:
        assert f"{short(row.microseconds)} µs · {short(row.ratio)}×" in shown


def test_a_wrong_answer_and_one_that_raised_are_shown_as_such() -> None:
    lost, raised, *rest = FIGURES.rows
    lost = replace(lost, answer="2 of 3 calls")
    raised = replace(raised, microseconds=None, limit_microseconds=None, answer="raised KeyError")
    figures = replace(FIGURES, rows=(lost, raised, *rest))
    for page in (svg(figures), "\n".join(table(figures)), block(figures)):
        assert "2 of 3 calls" in page or "Wrong answers: limit." in page
    assert "raised KeyError" in svg(figures)
    assert "raised KeyError" in "\n".join(table(figures))


def test_the_page_of_figures_has_the_stored_ones() -> None:
    page = (REPOSITORY / "docs" / "figures.md").read_text(encoding="utf-8")
    assert with_block(page, FIGURES) == page


def test_the_block_of_the_page_is_made_anew_between_its_markers() -> None:
    page = with_block(f"before\n{BEGIN}\nold\n{END}\nafter\n", FIGURES)
    assert page == f"before\n{block(FIGURES)}\nafter\n"
    with pytest.raises(ValueError, match="the page has no"):
        with_block("no markers", FIGURES)
