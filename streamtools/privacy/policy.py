"""Defines the privacy policy of a run for everything that copies its content."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..ground import type_name

if TYPE_CHECKING:
    from ..observers import RunFacts
    from .copies import Copies
    from .secrets import Redact


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """The privacy policy of a run, obeyed by recordings, spans, metrics, pages, views, logs and web frames.

        Trajectory(privacy=Privacy(redact=redact_secrets()))

    Without one, recordings and pages contain all content, and spans none. The state of a run (its store, `Suspended`,
    the history) is never redacted.

    Args:
        redact: `redact_secrets`, which also masks growing texts; or a function from a whole text to the text to keep,
            with which growing texts stay masked until their end. None keeps everything.
        content_in_spans: put arguments, results, the response's text and exception messages into the spans. None:
            decided by the environment variable ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT``.

    Raises:
        TypeError: `redact` is not a function.
    """

    redact: Redact | None = None
    content_in_spans: bool | None = None

    def __post_init__(self) -> None:
        if self.redact is not None and not callable(self.redact):
            raise TypeError(f"redact: expected a function from text to text, got {type_name(self.redact)}")

    def step(self, run: RunFacts, names: Collection[str], /) -> Copies | None:
        """Returns the view that observers get of a step, as a `Guard`."""
        return self._shown(run, names, for_pages=False)

    def page(self, run: RunFacts, /) -> Copies | None:
        """Returns the view of a run for people who may decide about its calls."""
        return self._shown(run, (), for_pages=True)

    def _shown(self, run: RunFacts, names: Collection[str], *, for_pages: bool) -> Copies | None:
        if self.redact is None:
            return None
        from .copies import Copies  # which a policy that redacts nothing does not need

        return Copies(self.redact, run, names, for_pages=for_pages)
