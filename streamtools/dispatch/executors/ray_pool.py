"""Keeps the actors of one resource demand: starts them when first needed, replaces dead ones, picks the least busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import ray
from anyio.lowlevel import EventLoopToken, current_token
from ray.exceptions import RayError

from ...errors import ToolNotStarted
from ...event_loop import call_soon

__all__ = ["Actor", "ActorPool"]

STARTS = 3  # Ray may choose a dying node until it knows of its death


@dataclass(slots=True, eq=False)
class Actor:
    """One actor, as the executor sees it."""

    handle: Any
    open: int = 0
    """The number of calls that have a place on it."""
    is_ready: bool = False
    """True once the actor has answered, so that it came up."""
    is_retired: bool = False
    """True once the actor gets no more calls."""

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the actor's and waits for its answer, on any event loop.

        Raises:
            ray.exceptions.RayError: there will be no answer.
        """
        token, done = current_token(), anyio.Event()
        future = self.tell(method, *arguments).future()
        future.add_done_callback(lambda _: call_soon(token, done.set))
        await done.wait()
        return future.result()

    def tell(self, method: str, *arguments: Any) -> Any:
        """Calls a method of the actor's without waiting, and returns Ray's reference to the answer."""
        return getattr(self.handle, method).remote(*arguments)

    def drop(self, number: str) -> None:
        """Lets the actor forget a call, if it is there."""
        with suppress(RayError):
            self.tell("cancel", number)


@dataclass(slots=True, eq=False)
class _Waiter:
    came: anyio.Event = field(default_factory=anyio.Event)
    actor: Actor | None = None
    error: ToolNotStarted | None = None


@dataclass(slots=True, eq=False)
class ActorPool:
    """Places on actors that are alike."""

    start: Callable[[], Any]
    """Starts an actor, and does not wait for it."""
    size: int
    """The number of actors."""
    max_concurrency: int
    """The number of calls that an actor runs at once; more wait, in order."""
    start_timeout_s: float
    """How long a call waits while no actor has come up."""
    _failed_starts: int = 0
    _token: EventLoopToken | None = None
    _actors: list[Actor] = field(default_factory=list)
    _waiting: deque[_Waiter] = field(default_factory=deque)

    async def take(self) -> Actor:
        """Waits for a place on the least busy actor. Give it back in any case.

        Raises:
            ToolNotStarted: no actor came up.
        """
        self._token = self._token or current_token()  # callbacks run in no task, and cannot ask
        self._fill()
        waiter = _Waiter()
        self._waiting.append(waiter)
        self._serve()
        try:
            while waiter.actor is None and waiter.error is None:
                with anyio.move_on_after(self.start_timeout_s) as patience:
                    await waiter.came.wait()
                if patience.cancelled_caught and not any(actor.is_ready for actor in self._actors):
                    waiter.error = self._not_there(f"none came up within {self.start_timeout_s:g} s")
        except BaseException:
            if waiter.actor is not None:
                self.give_back(waiter.actor)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        if waiter.actor is not None:
            return waiter.actor
        assert waiter.error is not None, "one of them ended the loop"
        raise waiter.error

    def give_back(self, actor: Actor) -> None:
        """Gives a place back."""
        actor.open -= 1
        if actor.is_retired and not actor.open:
            _kill(actor)
        self._serve()

    def retire(self, actor: Actor) -> None:
        """Gives no more calls to an actor that is dead or out of reach, and starts another one instead."""
        if actor in self._actors:
            self._actors.remove(actor)
            actor.is_retired = True
            self._fill()

    def kill(self) -> None:
        """Ends all actors."""
        for actor in self._actors:
            _kill(actor)
        self._actors.clear()

    def _fill(self) -> None:
        while len(self._actors) < self.size:
            actor = Actor(self.start())
            self._actors.append(actor)
            future = actor.tell("ready").future()
            future.add_done_callback(partial(self._came_up, actor))

    def _came_up(self, actor: Actor, future: Any) -> None:  # in a thread of Ray's
        assert self._token is not None, "an actor is started for a call"
        call_soon(self._token, partial(self._take_up, actor, future.exception()))

    def _take_up(self, actor: Actor, error: BaseException | None) -> None:
        if actor not in self._actors:
            return
        if error is None:
            actor.is_ready = True
            self._failed_starts = 0
            self._serve()
            return
        self._actors.remove(actor)  # its node has just died, or its environment is not right
        self._failed_starts += 1
        if self._failed_starts < STARTS * self.size:
            self._fill()
            return
        self._failed_starts = 0
        while self._waiting and not self._actors:  # the next call tries again
            waiter = self._waiting.popleft()
            waiter.error = self._not_there(f"none can be started ({type(error).__name__})")
            waiter.came.set()

    def _serve(self) -> None:
        while self._waiting and (actor := self._least_busy()) is not None:
            actor.open += 1
            waiter = self._waiting.popleft()
            waiter.actor = actor
            waiter.came.set()

    def _least_busy(self) -> Actor | None:
        ready = (actor for actor in self._actors if actor.is_ready)
        found = min(ready, key=lambda actor: actor.open, default=None)
        return found if found is not None and found.open < self.max_concurrency else None

    def _not_there(self, why: str) -> ToolNotStarted:
        return ToolNotStarted(f"not run: there is no Ray actor for it: {why}")


def _kill(actor: Actor) -> None:
    if ray.is_initialized():
        ray.kill(actor.handle)
