"""Drives a call's code step by step: notices when it blocks the event loop, and gives it time to clean up.

Theory of operation. Cancellation in anyio and trio is level-triggered: each further ``await`` is cancelled, too, so
that a rollback in a tool's ``finally`` would be cut off where ``asyncio.Task.cancel()`` would let it finish. Here,
after the first cancellation that arrives from outside, the next suspension raises a shield around the code, until the
grace is over. A step is the code between two suspensions; a step that takes long has kept everything else in the event
loop from running.

On trio the shield is not raised before the nurseries that the code has open are closed: a nursery takes a cancellation
for its own, and swallows it, if it sees none around it. A cleanup within such a nursery is cut off, as usual on trio.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint

from ..event_loop import cleaning_up, is_cancelled

__all__ = ["BLOCKED_S", "driven"]

BLOCKED_S = 0.2  # a step that takes so long is reported


async def driven(
    code: Coroutine[Any, Any, Any], scope: CancelScope, grace_s: float, blocked: Callable[[float], object]
) -> Any:
    """Runs a coroutine that has not begun, and returns its value. `scope` is any around the caller.

    Args:
        grace_s: for how many seconds the code's own cleanup may await after it was cancelled.
        blocked: is called with the seconds that a step took, if it took long.
    """
    with type(scope)() as grace:  # the same event loop's type: asking which loop runs costs as much as the scope
        try:
            return await _Driven(code, grace, grace_s, blocked, _open_nurseries())
        finally:
            if grace.shield:
                cleaning_up.set(None)
    await checkpoint()  # the grace is over: a scope that was cancelled around this is cancelled still
    raise anyio.get_cancelled_exc_class()("cancelled by the event loop, without a scope")


@dataclass(slots=True, eq=False)
class _Driven:
    code: Coroutine[Any, Any, Any]
    grace: CancelScope
    grace_s: float
    blocked: Callable[[float], object]
    nurseries: int
    """The number that are open around the code."""
    told: bool = False
    """True once a cancellation has reached the code."""

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self.code.send
        given: Any = None
        error: BaseException | None
        while True:
            begun = perf_counter()
            try:
                wanted = step(given)
            except StopIteration as done:
                return done.value
            finally:
                took = perf_counter() - begun
                if took >= BLOCKED_S:
                    self.blocked(took)
            if self.told and not self.grace.shield:
                self._shield()
            try:
                given = yield wanted
                step = self.code.send
                error = None if given is None else getattr(given, "error", None)  # trio sends an outcome
            except GeneratorExit:
                self.code.close()
                raise
            except BaseException as raised:
                step, given, error = self._throw, raised, raised
            if error is not None and isinstance(error, anyio.get_cancelled_exc_class()):
                self.told = True

    def _throw(self, error: Any) -> Any:
        return self.code.throw(error)

    def _shield(self) -> None:
        """Shields the code if its cancellation came from outside; it may have come from a scope of the code's own."""
        if _open_nurseries() > self.nurseries:
            return
        if anyio.current_effective_deadline() > -math.inf:
            self.told = is_cancelled()
            if not self.told:
                return
        self.grace.shield = True
        if anyio.current_effective_deadline() == -math.inf:  # cancelled from within
            self.grace.shield = False
            return
        self.grace.deadline = anyio.current_time() + self.grace_s
        cleaning_up.set(anyio.get_current_task().id)


def _open_nurseries() -> int:
    """Returns how many trio nurseries this task has open; 0 on asyncio, where a group knows its own cancellation."""
    trio = sys.modules.get("trio")
    if trio is None:
        return 0
    try:
        return len(trio.lowlevel.current_task().child_nurseries)
    except RuntimeError:  # another loop runs
        return 0
