"""Reads a pipeline or a run from a program without an event loop.

Theory of operation. A thread runs an event loop (anyio's blocking portal), in which one task enters and leaves the
block. Each event is fetched by a call into that loop, which costs some 50 µs; all else that the block can do is called
there, too, so that nothing is read while it changes. An exception in the caller's body, an interrupt too, leaves the
block as it would leave an ``async with``. Tools run in the loop and its threads, with the caller's context variables.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from anyio import to_thread
from anyio.from_thread import BlockingPortal, start_blocking_portal
from anyio.lowlevel import current_token

from ..errors import LocalProtocolError
from ..events import Event, Observation, ToolCallValidated
from ..parts import Failure, RunOutcome, ToolCall, Usage
from ..pipelines.runner import Runner
from ..seams import Again, Attempts, Cut, Rest, Sight
from ..turn import Turn
from .calls_face import CallsFace, When, turned_to

if TYPE_CHECKING:
    from ..durable.suspended import Suspended

T = TypeVar("T")


class _There(Generic[T]):
    """An attribute of the block, read in its event loop."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, sync: SyncBlock, owner: type) -> T:
        there: T = sync._ask(lambda: getattr(sync._block, self._name))
        return there


_END: Any = object()


class SyncBlock(CallsFace):
    """A pipeline or a run for a program without an event loop. Enter it with ``with``, and iterate inside."""

    turn: _There[Turn] = _There()
    suspended: _There[Suspended | None] = _There()

    if not TYPE_CHECKING:  # type checkers see the mistake themselves
        __getattr__ = turned_to("events.turn")

    def __init__(self, block: Any, backend: str) -> None:
        self._block = block
        self._backend = backend
        self._stack: ExitStack | None = None
        self._portal: BlockingPortal | None = None
        self._left = False

    def __enter__(self) -> Self:
        if self._stack is not None or self._left:
            raise LocalProtocolError("a pipeline can be entered once; make a new one for the next stream")
        _refuse_a_running_loop()
        with ExitStack() as stack:
            self._portal = stack.enter_context(start_blocking_portal(self._backend))
            stack.enter_context(self._portal.wrap_async_context_manager(self._block))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        stack, self._stack, self._portal, self._left = self._stack, None, None, True
        assert stack is not None, "left by the statement that entered it"
        stack.__exit__(kind, error, traceback)

    def __iter__(self) -> Self:
        self._there()
        return self

    def __next__(self) -> Event:
        event = self._wait(self._next)
        if event is _END:
            raise StopIteration
        return event  # type: ignore[no-any-return]

    def finish(self) -> Turn:
        """Reads to the end, or until calls wait for an approval, ignoring the events; returns the turn. Without a
        block, it enters and leaves one.

            turn = pipeline(stream, tools=[get_weather]).sync().finish()

        Raises:
            StreamError: the stream failed.
        """
        if self._stack is None and not self._left:
            with self:
                return self.finish()
        self._wait(self._rest)
        return self.turn

    def run_call(self, call: ToolCall | ToolCallValidated | str) -> Observation:
        observation: Observation = self._wait(partial(self._block.run_call, call))
        return observation

    def _in_step(self, act: Callable[[Runner], bool]) -> bool:
        return self._ask(lambda: bool(self._block._in_step(act)))

    def _there(self) -> BlockingPortal:
        if self._portal is None:
            verb = "was left" if self._left else "was not entered"
            raise TypeError(f"the block {verb}; write:  with pipeline(stream, tools=[...]).sync() as events:  ...")
        return self._portal

    def _ask(self, read: Callable[[], T]) -> T:
        """Reads something in the event loop; in this thread before the block and after it."""
        if self._portal is None:
            return read()
        return self._portal.call(read)

    def _wait(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Does work in the event loop, and waits for it; the work is cancelled if an interrupt ends the waiting."""
        done = self._there().start_task_soon(work)
        try:
            return done.result()
        except CancelledError:
            raise LocalProtocolError("the event loop of the block has ended") from None
        except BaseException:
            done.cancel()
            raise

    async def _next(self) -> Any:
        try:
            return await self._block.__anext__()
        except StopAsyncIteration:
            return _END

    async def _rest(self) -> None:
        while await self._next() is not _END:
            pass


class SyncPipeline(SyncBlock):
    """A pipeline for a program without an event loop; from `Pipeline.sync`."""

    run_id: _There[str] = _There()
    resting: _There[bool] = _There()


class SyncAgentLoop(SyncBlock):
    """A run for a program without an event loop; from `AgentLoop.sync`."""

    outcome: _There[RunOutcome | None] = _There()
    turns: _There[tuple[Turn, ...]] = _There()
    messages: _There[list[Any]] = _There()
    usage: _There[Usage] = _There()
    unread: _There[tuple[dict[str, Any], ...]] = _There()

    def say(self, message: str | Mapping[str, Any], *, when: When = "next") -> str:
        """Adds a message of the user's, from any thread; see `AgentLoop.say`."""
        return self._ask(lambda: str(self._block.say(message, when=when)))

    def stop(self) -> bool:
        """Ends the run in good order, from any thread; see `AgentLoop.stop`."""
        return self._ask(lambda: bool(self._block.stop()))


def in_threads(call_model: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that makes its request in a thread, since a client that blocks would hold up the event
    loop; the same function if it is async."""
    if iscoroutinefunction(call_model) or iscoroutinefunction(getattr(call_model, "__call__", None)):  # noqa: B004
        return call_model

    async def asked(*arguments: Any, **named: Any) -> Any:
        made = await to_thread.run_sync(partial(call_model, *arguments, **named))
        return await made if isawaitable(made) and not hasattr(made, "__aiter__") else made

    return asked


class AttemptsInThreads:
    """A policy for attempts whose requests are made in threads; see `in_threads`."""

    def __init__(self, policy: Attempts) -> None:
        self._policy = policy
        self.after_output = getattr(policy, "after_output", False)

    def broke(self, failure: Failure, sight: Sight, /) -> Again | Rest | Cut | None:
        chosen = self._policy.broke(failure, sight)
        if isinstance(chosen, (Again, Rest)) and chosen.request is not None:
            return replace(chosen, request=in_threads(chosen.request))
        return chosen


def _refuse_a_running_loop() -> None:
    try:
        current_token()
    except RuntimeError:
        return
    text = "an event loop runs in this thread, and sync() would block it; write `async with` instead"
    raise LocalProtocolError(text)
