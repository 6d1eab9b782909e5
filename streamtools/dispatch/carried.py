"""Carries calls of a discarded attempt over to the next one, so that no tool runs twice for one purpose.

In: the pure and idempotent calls that had begun when their answer broke off, and the calls of the next answer. Out: the
ending of the first ones for those of the second that are the same: word for word, each once. The others are cancelled.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from anyio import CancelScope

from ..parts import OUTCOMES
from .states import Call, Ending, begin_wait, end_wait


class _Owner(Protocol):
    async def wait_task(self, call: Call) -> None: ...


@dataclass(slots=True, eq=False)
class Carried:
    """The calls of a step's discarded attempts that may serve calls of its next one."""

    _kept: dict[str, list[tuple[Call, Callable[[Call], Awaitable[None]]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def keep(self, call: Call, owner: _Owner) -> None:
        """Keeps a call of an attempt that is about to be discarded, if it has begun and was not told to stop."""
        has_run = call.attempts or (call.ending is not None and call.ending.recorded)
        if not has_run or call.state not in ("running", "observed") or call.bound is None:
            return
        if call.tool is None or call.tool.effect == "once" or call.gated:
            return
        try:
            self._kept[call.fingerprint].append((call, owner.wait_task))
        except ValueError:  # its arguments are no plain JSON
            return

    async def serves(self, call: Call) -> bool:
        """Gives a call that has its place the ending of one that is the same, once that has ended; returns False if
        there is none, or it ended in a way that another run may mend."""
        try:
            kept = self._kept.get(call.fingerprint)
        except ValueError:
            return False
        if not kept:
            return False
        earlier, wait = kept.pop(0)
        begin_wait(call, "elsewhere")
        try:
            with CancelScope() as call.scope:
                await wait(earlier)
        finally:
            end_wait(call, time.monotonic())
            if call.seen is not None and call.seen.outcome == "discarded":  # the next attempt may want it
                kept.append((earlier, wait))
            elif earlier.tasks:  # nobody else wants it
                _cancel(earlier)
        ending = _ending(earlier)
        if call.state == "starting" and ending is not None:
            call.ending = replace(ending, recorded=True, again=False)
        return call.ending is not None or call.state != "starting"

    def cancel_all_but(self, calls: Iterable[Call]) -> None:
        """Cancels those that none of these calls, which are all of the next answer, is the same as."""
        wanted = {call.fingerprint for call in calls if call.bound is not None} if self._kept else set()
        for fingerprint, kept in self._kept.items():
            for call, _ in () if fingerprint in wanted else kept:
                _cancel(call)

    async def drop(self) -> None:
        """Cancels the calls that have served none, and waits until they have ended."""
        left = [one for kept in self._kept.values() for one in kept]
        self._kept.clear()
        for call, _ in left:
            _cancel(call)
        for call, wait in left:
            await wait(call)


def _cancel(call: Call) -> None:
    if call.tasks and call.scope is not None:
        call.scope.cancel()


def _ending(call: Call) -> Ending | None:
    """Returns the ending that a call had, if it may stand for another's."""
    ending = call.ending
    if ending is None or OUTCOMES[ending.outcome].may_have_had_effect or OUTCOMES[ending.outcome].may_run_later:
        return None
    # Its own attempts end with its answer.
    return None if ending.again and call.tool is not None and call.tool.retries else ending
