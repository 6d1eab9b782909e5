"""A guard decides what others see of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..events import Event
    from ..observers import RunFacts


class Guard(Protocol):
    """Decides what observers see of a run: recordings, spans, logs and pages, also those that join late.
    `streamtools.privacy.Privacy` is one.

    One guard may serve many runs. It is not asked about the state of a run, nor for an observer with
    ``sees_originals = True``: both belong to the run itself.
    """

    def step(self, run: RunFacts, names: Collection[str], /) -> Shown | None:
        """Returns what shows a step, or the run's begin and end, to observers; None if they may see everything.

        Args:
            run: the step's run, the same object for all its steps.
            names: the names of the step's tools; the model made up any other name in a call.
        """
        ...

    def page(self, run: RunFacts, /) -> Shown | None:
        """Returns what shows a run to a person who may decide about its calls, on a page or in a response."""
        ...


class Shown(Protocol):
    """Shows the events of one step. The methods must not block. If one raises, the observers it serves are dropped."""

    def event(self, event: Event, /) -> Sequence[Event]:
        """Returns what observers see of an event: itself, changed copies with numbers up to its own, or nothing. It is
        called once for each event, in order, for all observers together; again only if it was interrupted itself."""
        ...

    def fact(self, method: str, /, *facts: Any) -> Sequence[Any]:
        """Returns what observers see of the arguments of their other methods: for ``on_item`` and its piece of the
        body, a `Withheld`, say."""
        ...

    def words(self, error: BaseException, /) -> BaseException | None:
        """Returns what a log may contain of a tool's exception; None for only its type."""
        ...
