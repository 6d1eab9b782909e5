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
    """Runs code to its end, and returns its value.

    Args:
        code: a coroutine that has not begun.
        scope: a cancel scope around the caller.
        grace_s: for how many seconds the code's own cleanup may await after it was cancelled.
        blocked: is called with the seconds that a step took, if it took long.
    """
    with type(scope)() as grace:  # the same event loop's type: asking which loop runs costs as much as the scope
        try:
            return await _Driven(code, grace, grace_s, blocked)
        finally:
            if grace.shield:
                cleaning_up.set(None)
    await checkpoint()  # the grace is over: a scope that was cancelled around this is cancelled still
    raise anyio.get_cancelled_exc_class()("cancelled by the event loop, without a scope")


class _Driven:
    __slots__ = ("_blocked", "_code", "_grace", "_grace_s", "_nurseries", "_told")

    def __init__(
        self, code: Coroutine[Any, Any, Any], grace: CancelScope, grace_s: float, blocked: Callable[[float], object]
    ) -> None:
        self._code = code
        self._grace = grace
        self._grace_s = grace_s
        self._blocked = blocked
        self._nurseries = _open_nurseries()  # how many are open around the code
        self._told = False  # a cancellation has reached the code

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[Any], Any] = self._code.send
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
                    self._blocked(took)
            if self._told and not self._grace.shield:
                self._shield()
            try:
                given = yield wanted
                step = self._code.send
                error = None if given is None else getattr(given, "error", None)  # trio sends an outcome
            except GeneratorExit:
                self._code.close()
                raise
            except BaseException as raised:
                step, given, error = self._throw, raised, raised
            if error is not None and isinstance(error, anyio.get_cancelled_exc_class()):
                self._told = True

    def _throw(self, error: Any) -> Any:
        return self._code.throw(error)

    def _shield(self) -> None:
        """Shields the code if its cancellation came from outside; it may have come from a scope of the code's own."""
        if _open_nurseries() > self._nurseries:
            return
        if anyio.current_effective_deadline() > -math.inf:
            self._told = is_cancelled()
            if not self._told:
                return
        self._grace.shield = True
        if anyio.current_effective_deadline() == -math.inf:  # cancelled from within
            self._grace.shield = False
            return
        self._grace.deadline = anyio.current_time() + self._grace_s
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
