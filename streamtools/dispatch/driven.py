"""A call's code driven step by step: seen when it blocks the event loop, and given time to clean up.

Theory of operation. A cancellation of anyio or trio is a level: each further ``await`` is cancelled, too, so that a
rollback in a tool's ``finally`` would be cut where ``asyncio.Task.cancel()`` would let it finish. Here, after the first
cancellation from outside that arrives, the next suspension raises a shield around the code, until the grace is over. A
step is the code between two suspensions; one that takes long has kept everything else in the event loop from running.

On trio the shield waits until the nurseries are closed that the code has open: a nursery takes a cancellation for its
own, and swallows it, if none around it is to be seen. A cleanup within such a nursery is cut, as trio has it.
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

BLOCKED_S = 0.2  # a step of that length is told of


async def driven(
    code: Coroutine[Any, Any, Any], scope: CancelScope, grace_s: float, blocked: Callable[[float], object]
) -> Any:
    """Run code to its end, and return its value.

    Args:
        code: a coroutine that has not begun.
        scope: one that is around this.
        grace_s: how long its own cleanup may await after it was cancelled.
        blocked: is told how long a step took, in seconds, if that was long.
    """
    with type(scope)() as grace:  # of the same event loop: asking for that costs as much as the scope
        try:
            return await _Driven(code, grace, grace_s, blocked)
        finally:
            if grace.shield:
                cleaning_up.set(None)
    await checkpoint()  # the grace was over: what was cancelled around this is cancelled still
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
        self._nurseries = _open_nurseries()  # around the code
        self._told = False  # a cancellation has reached it

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
        """Gives the code its time, if what it was cancelled by is around it. A scope of its own may have been."""
        if _open_nurseries() > self._nurseries:
            return
        if anyio.current_effective_deadline() > -math.inf:
            self._told = is_cancelled()
            if not self._told:
                return
        self._grace.shield = True
        if anyio.current_effective_deadline() == -math.inf:  # from within
            self._grace.shield = False
            return
        self._grace.deadline = anyio.current_time() + self._grace_s
        cleaning_up.set(anyio.get_current_task().id)


def _open_nurseries() -> int:
    """Returns how many nurseries of trio's this task has open; 0 on asyncio, where a group tells whose it is."""
    trio = sys.modules.get("trio")
    if trio is None:
        return 0
    try:
        return len(trio.lowlevel.current_task().child_nurseries)
    except RuntimeError:  # another loop runs
        return 0
