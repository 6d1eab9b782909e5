"""Warns where the request of a step changes messages of the request before it."""

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
    """Returns an observer that warns if a step's request does not begin with the whole previous request.

        Trajectory(observers=[append_only()])

    It compares the ``request=`` of the steps: the one that you pass to `pipeline`, or the messages of an `agent_loop`.
    It does not see changes that your `ask` makes: there, call `lint` with the request that you send, and ``previous=``
    the one before it.

    Args:
        report: called with the number of the step, the place of the change, and the number of input tokens before it,
            which may be read anew (None if unknown). By default it logs a warning.
    """
    return _AppendOnly(report or _warn)


def _warn(step: int, found: Violation, tokens: int | None) -> None:
    at_stake = "" if tokens is None else f"; up to {tokens} tokens may be read anew"
    _logger.warning("the request of step %d changes earlier messages: %s%s", step, found, at_stake)
