"""A guard decides what others see of a run."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..events import Event
    from ..observers import RunFacts


class Guard(Protocol):
    """Decides what is seen of a run by its observers, also late ones: recordings, spans, logs and pages among them.
    `streamtools.privacy.Privacy` is one.

    It may guard many runs. The state of a run is no copy, and an observer with ``sees_originals = True`` is a part of
    the run: neither asks it.
    """

    def step(self, run: RunFacts, names: Collection[str], /) -> Shown | None:
        """Returns what shows a step to observers, or the run's begin and end; None if they may see everything.

        Args:
            run: the step's run, the same object for all its steps.
            names: the names of the step's tools; a call of any other name is one that the model has made up.
        """
        ...

    def page(self, run: RunFacts, /) -> Shown | None:
        """Returns what shows a run to a person who may decide about its calls, on a page or in a response."""
        ...


class Shown(Protocol):
    """Shows the events of one step. None of the methods may wait. If one raises, its observers are dropped."""

    def event(self, event: Event, /) -> Sequence[Event]:
        """Returns what is seen of an event: itself, changed copies with numbers up to its own, or nothing. It is asked
        once, in the order of the events and for all observers together; again only if it was interrupted itself."""
        ...

    def fact(self, method: str, /, *facts: Any) -> Sequence[Any]:
        """Returns what is seen of the arguments of another method of observers: of ``on_item``, a piece of the body, a
        `Withheld`, say."""
        ...

    def words(self, error: BaseException, /) -> BaseException | None:
        """Returns what a log may have of a tool's exception; None for its type alone."""
        ...
