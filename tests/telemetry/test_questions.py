"""The nine questions that somebody has at night, answered from the traces alone, as Jaeger has them.

The answers are in a table of ``docs/see/traces.md``. ``tests/backends/test_jaeger_backend.py`` asks a Jaeger.
"""

from __future__ import annotations

from pathlib import Path

from night_questions import unanswered


def test_the_nine_questions_are_answered_by_the_traces_of_runs_that_were_refused_waited_died_and_went_on(
    tmp_path: Path,
) -> None:
    assert unanswered(tmp_path, str(tmp_path / "spans")) == {}
