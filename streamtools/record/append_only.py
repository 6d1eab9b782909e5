"""An observer that says where a step's request is no continuation of the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ..events import Event, StepStart, StreamEnd, StreamStart
from ..history import Violation, lint
from ..observers import Observer

__all__ = ["append_only"]

_logger = logging.getLogger("streamtools")


class _AppendOnly(Observer):
    sees_originals = True

    def __init__(self, report: Callable[[int, Violation, int | None], None]) -> None:
        self._report = report
        self._wire: str | None = None
        self._model: str | None = None
        self._tokens: int | None = None
        self._before: Mapping[str, Any] | None = None

    @property
    def event_types(self) -> Collection[type[Event]]:
        return (StepStart, StreamStart, StreamEnd)

    def on_event(self, event: Event) -> None:
        if isinstance(event, StreamStart):
            self._wire, self._model = event.wire, event.model
        elif isinstance(event, StreamEnd) and event.usage is not None:
            self._tokens = event.usage.input_tokens
        elif isinstance(event, StepStart) and event.request is not None:
            request, before = event.request, self._before
            self._before = request
            if before is not None and self._wire is not None:
                for one in lint(request, self._wire, model=self._model, previous=before):
                    if one.code == "changed_prefix":
                        self._report(event.step, one, self._tokens)


def append_only(report: Callable[[int, Violation, int | None], None] | None = None) -> Observer:
    """Returns an observer that warns where a step's request does not begin with the whole request of the step before.

        Trajectory(observers=[append_only()])

    It compares the ``request=`` of each step: whatever you pass to `pipeline`; of an `agent_loop` the messages alone.
    What your `ask` changes on the way it does not see: there, call `lint` with the request that you send, and
    ``previous=`` the one that you sent before.

    Args:
        report: is called with the number of the step, the place, and how many tokens the input had before, all of
            which may be read anew: None if that is not known. By default this is a warning in the log.
    """
    return _AppendOnly(report or _warn)


def _warn(step: int, found: Violation, tokens: int | None) -> None:
    at_stake = "" if tokens is None else f"; up to {tokens} tokens are read anew"
    _logger.warning("step %d does not only append: %s%s", step, found, at_stake)
