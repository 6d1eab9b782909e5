"""Keeps the times of runs, which frames do not have, and their ends: lines in a file beside the database."""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import AbstractContextManager
from pathlib import Path
from time import time
from typing import Any

from streamtools.errors import AnswerPending, ApprovalPending
from streamtools.events import (
    ApprovalRequested,
    ApprovalResolved,
    AttemptDiscarded,
    Event,
    Observation,
    StepStart,
    StreamEnd,
    ToolCallEnd,
    ToolCallStart,
    ToolStarted,
)
from streamtools.web.encoding import RunEnd

MARKS: dict[type[Event], str] = {
    StepStart: "from",
    StreamEnd: "to",
    ToolCallStart: "from",
    ToolCallEnd: "written",
    ApprovalRequested: "asked",
    ApprovalResolved: "decided",
    ToolStarted: "began",
    Observation: "to",
}


class Times:
    """The times of all runs, in milliseconds: of each step, and of each call as ``step/call_id``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: dict[str, dict[str, Any]] = {}
        if path.exists():
            whole, _, torn = path.read_text(encoding="utf-8").rpartition("\n")
            if torn:  # by the end of the process, or a full disk
                path.write_text(f"{whole}\n" if whole else "", encoding="utf-8")
        for line in self._lines():
            self._keep(*line)

    def of(self, chat_id: str) -> dict[str, Any]:
        """Returns the times of a conversation's runs, by their ids, and that of this machine."""
        runs = {run_id: run for run_id, run in self._runs.items() if run_id.rpartition("/")[0] == chat_id}
        return {"now": time() * 1000, "runs": runs}

    def note(self, run_id: str, key: str, mark: str | None, value: Any = None) -> None:
        """Notes what has happened just now; forgets a step's times if there is no mark."""
        line = (run_id, key, mark, time() * 1000 if value is None else value)
        self._keep(*line)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def forget(self, chat_id: str) -> None:
        """Removes the times of a conversation's runs, also from the file."""
        left = [line for line in self._lines() if line[0].rpartition("/")[0] != chat_id]
        beside = self._path.with_name(f"{self._path.name}.new")
        beside.write_text("".join(f"{json.dumps(line)}\n" for line in left), encoding="utf-8")
        beside.replace(self._path)
        self._runs = {run_id: run for run_id, run in self._runs.items() if run_id.rpartition("/")[0] != chat_id}

    def _lines(self) -> list[list[Any]]:
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text(encoding="utf-8").splitlines()]

    def _keep(self, run_id: str, key: str, mark: str | None, value: Any) -> None:
        run = self._runs.setdefault(run_id, {})
        if mark is None:
            for known in [one for one in run if one.partition("/")[0] == key]:
                del run[known]
        elif key:
            run.setdefault(key, {}).setdefault(mark, value)  # a step that goes on tells of its calls again
        else:
            run[mark] = value


class Watch:
    """Notes the times of one run: an observer of it."""

    event_types: Collection[type[Event]] | None = (*MARKS, AttemptDiscarded)

    def __init__(self, times: Times, run_id: str) -> None:
        self._times, self._run_id = times, run_id

    def on_event(self, event: Event) -> None:
        """Notes an event."""
        key = str(event.step)
        is_anew = isinstance(event, StepStart) and not event.continued
        if is_anew or isinstance(event, AttemptDiscarded):
            self._times.note(self._run_id, key, None)
        if isinstance(event, AttemptDiscarded):
            self._times.note(self._run_id, key, "from")
            return
        if isinstance(event, Observation) and isinstance(event.error, (ApprovalPending, AnswerPending)):
            return  # it is left, and waits
        call_id = getattr(event, "call_id", None)
        self._times.note(self._run_id, key if call_id is None else f"{key}/{call_id}", MARKS[type(event)])

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

    def end_run(self, outcome: str | None, error: BaseException | None, /) -> None:
        """Notes the end."""
        if outcome is not None:
            end = RunEnd(outcome=outcome, error=error if isinstance(error, Exception) else None)
            self._times.note(self._run_id, "", "end", {"outcome": outcome, "words": end.words, "at": time() * 1000})
