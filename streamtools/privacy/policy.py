"""Defines the policy of a run for everything that copies it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ..text import type_name

Redact: TypeAlias = Callable[[str], str]
"""Returns a text as it may be kept. A number is shown to it as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The policy of a run. Recordings, spans, metrics, pages, views, logs and web frames obey it.

        Trajectory(privacy=Privacy(redact=redact_secrets()))

    Without one, recordings and pages hold all content, and spans hold none. The state of a run (its store, `Suspended`,
    the history) is always whole.

    Args:
        redact: what a copy may hold of a text: `redact_secrets`, which also masks texts while they grow; or a function
            from a whole text to the text to keep, where growing texts are masked and shown as a whole at their end.
            None keeps everything.
        content_in_spans: put arguments, results, the response's text and exceptions' messages into the spans. None asks
            the environment variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``.

    Raises:
        TypeError: `redact` is not a function.
    """

    redact: Redact | None = None
    content_in_spans: bool | None = None

    def __post_init__(self) -> None:
        if self.redact is not None and not callable(self.redact):
            raise TypeError(f"redact: expected a function from text to text, got {type_name(self.redact)}")
