"""Gives pytest the fixture ``replayed``, which turns a recording into a test."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import anyio
import pytest

from ..observers import Observer
from ..record import replay
from ..stages import OutputType, StageList
from ..tools import AnyTools
from ..turn import Turn

__all__ = ["Replayed", "replayed"]


class Replayed:
    """Replays recordings, and fails where they decode to something else than was recorded."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(
        self,
        path: str | os.PathLike[str],
        *,
        tools: AnyTools | None = None,
        run_id: str | None = None,
        stages: StageList | None = None,
        output: OutputType | None = None,
        observers: Iterable[Observer] = (),
    ) -> Turn:
        """Replays a recording without running anything, and returns its last turn. `tools` are those of today: the
        recorded calls have to be judged by them as they were. `run_id`: of a file with several runs. Raises an
        `AssertionError` where something else comes out than was recorded."""
        path = self._directory / path
        run = replay(path, tools=tools, run_id=run_id, observers=observers, stages=stages, output=output)
        turn = anyio.run(run.finish)
        # A redacted recording has no bodies: its events are all that there is to compare.
        problems = [f"not decoded again: {reason}" for reason in run.unchecked] if not run.recording.redacted else []
        problems += map(str, run.differences)
        if problems:
            raise AssertionError("\n".join([f"{path} does not replay as it was recorded:", *problems]))
        return turn


# Not registered by an entry point of the package: pytest would then rewrite the whole library in every project that has
# it installed.
@pytest.fixture
def replayed(request: pytest.FixtureRequest) -> Replayed:
    """Replays recordings: ``replayed("run.jsonl", tools=[...])`` returns the last turn, and fails where something else
    comes out than was recorded."""
    return Replayed(request.path.parent)
