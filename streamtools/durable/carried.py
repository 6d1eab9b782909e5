"""Carries pure and idempotent calls of a discarded attempt over to the next one, so that no tool runs twice for one
purpose: each gives its ending to one call that is the same word for word; the others are cancelled.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace

from anyio import CancelScope

from ..dispatch.states import Call, Ending, begin_wait, end_wait
from ..parts import OUTCOMES


@dataclass(slots=True, eq=False)
class Carried:
    _kept: dict[str, list[tuple[Call, Callable[[Call], Awaitable[None]]]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def keep(self, call: Call, wait: Callable[[Call], Awaitable[None]]) -> None:
        """Keeps a call of an attempt that is about to be discarded, if it has begun and was not told to stop; `wait`
        waits until no task works for it."""
        has_run = call.attempts or (call.ending is not None and call.ending.recorded)
        if not has_run or call.state not in ("running", "observed") or call.bound is None:
            return
        if call.tool is None or call.tool.effect == "once" or call.needs:
            return
        try:
            self._kept[call.fingerprint].append((call, wait))
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
        wanted = {call.fingerprint for call in calls if call.bound is not None} if self._kept else set()
        for fingerprint, kept in self._kept.items():
            for call, _ in () if fingerprint in wanted else kept:
                _cancel(call)

    async def drop(self) -> None:
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
    ending = call.ending
    if ending is None or OUTCOMES[ending.outcome].may_have_had_effect or OUTCOMES[ending.outcome].may_run_later:
        return None
    # Its own attempts end with its answer.
    return None if ending.again and call.tool is not None and call.tool.retries else ending
