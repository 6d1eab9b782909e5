"""Source → decoder → dispatch → consumer: the one place that owns tasks.

Theory of operation. `Pipeline` is an async context manager and an async iterator, never an async generator that owns
a task group: leaving such a generator corrupts the consumer's cancel scopes (PEP 789; reproduced on asyncio and trio).
One pump task reads the source and drives the decoder; each call runs in a task of its own; every event, whoever made
it, goes through the `Step`, which numbers it, tells the observers and puts it into the outbox. Leaving the block
cancels what still runs, waits for it, and settles: each call has its observation, the source is closed, the step has
its end.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from types import TracebackType
from typing import Any, Literal, TypeAlias

import anyio
from anyio import CancelScope, create_task_group, current_effective_deadline
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from .decode import SLICE_BYTES, StreamDecoder, slices
from .dispatch import Dispatcher, DispatchPolicy
from .errors import LocalProtocolError, StreamError, TruncatedStream
from .events import Event, StreamEnd, Warning
from .limits import Limits
from .observers import Observer
from .outbox import Outbox
from .sources import Source, as_item, open_source
from .stages import DEFAULT, StageList
from .step import Step
from .tools import Tool, Toolset
from .trajectory import Trajectory
from .turn import Turn

__all__ = ["Pipeline", "Transform", "pipeline"]

Transform: TypeAlias = Callable[[AsyncIterator[Event]], AsyncIterator[Event]]
"""An async stage: an async generator function that takes the events and yields what goes on."""

_POLICIES = ("auto", "early", "turn_end")


def pipeline(
    stream: Any,
    *,
    tools: Iterable[Tool | Callable[..., Any]] | Toolset = (),
    wire: str | None = None,
    stages: StageList = DEFAULT,
    transforms: Sequence[Transform] = (),
    dispatch: DispatchPolicy = "auto",
    limits: Limits = Limits(),
    observers: Iterable[Observer] | None = None,
    trajectory: Trajectory | None = None,
    on_source_error: Literal["cancel", "drain"] = "cancel",
) -> Pipeline:
    """Wrap a stream that you hold: typed events come out, and the tools that the model calls are run.

        async with pipeline(stream, tools=[get_weather]) as events:
            async for event in events:
                ...
        messages += events.turn.messages()

    Args:
        stream: an SDK's stream, an httpx response, or an async iterable of bytes, text or payloads. It is read to its
            end and closed.
        tools: what the model may call: tools, or functions to make tools of.
        wire: the wire that the stream speaks; found from its first payload by default.
        stages: the sans-IO steps; see `streamtools.stages.DEFAULT`.
        transforms: async generator functions that the events pass after the stages.
        dispatch: when calls start; by default as each tool's `effect` allows.
        limits: bounds on everything.
        observers: see every event. By default spans, if OpenTelemetry is configured.
        trajectory: the run that this is a step of. It brings its own observers.
        on_source_error: what happens to calls that run when the stream fails: cancelled, or drained.

    Raises:
        TypeError: `stream` cannot be streamed from; the message says what to pass.
        ValueError: `wire` or an option is not known.
        ToolDefinitionError: a function cannot be a tool, or two tools share a name.
    """
    return Pipeline(
        stream,
        tools=tools if isinstance(tools, Toolset) else Toolset(tools),
        wire=wire,
        stages=stages,
        transforms=tuple(transforms),
        dispatch=dispatch,
        limits=limits,
        trajectory=_trajectory(trajectory, observers),
        on_source_error=on_source_error,
    )


def _trajectory(trajectory: Trajectory | None, observers: Iterable[Observer] | None) -> Trajectory:
    if trajectory is None:
        return Trajectory(observers=observers)
    if observers is not None:
        raise ValueError("give the observers to the Trajectory, which all its steps share, not to one pipeline")
    return trajectory


class Pipeline:
    """One stream and the calls in it; made by `pipeline`. Enter it with ``async with``, iterate inside the block.

    A stream error is raised at ``async for``, after the last event; a tool's error is an event; an error in the body of
    the block leaves it as it is. Leaving the block, however, cancels and awaits all that was started.
    """

    def __init__(
        self,
        stream: Any,
        *,
        tools: Toolset,
        wire: str | None,
        stages: StageList,
        transforms: tuple[Transform, ...],
        dispatch: DispatchPolicy,
        limits: Limits,
        trajectory: Trajectory,
        on_source_error: Literal["cancel", "drain"],
    ) -> None:
        if dispatch not in _POLICIES:
            raise ValueError(f"unknown dispatch {dispatch!r}; known: {', '.join(_POLICIES)}")
        if on_source_error not in ("cancel", "drain"):
            raise ValueError(f"unknown on_source_error {on_source_error!r}; known: cancel, drain")
        self._source: Source = open_source(stream)
        self._decoder = StreamDecoder(wire=wire, tools=tools, stages=stages, limits=limits)
        self._outbox = Outbox(limits.event_buffer)
        self._step = Step(trajectory, self._outbox)
        self._dispatcher = Dispatcher(tools, limits, dispatch, self._step, self._start_call)
        self._transforms = transforms
        self._limits = limits
        self._drain = on_source_error == "drain"
        self._state: Literal["new", "open", "left"] = "new"
        self._group: TaskGroup | None = None
        self._pump_scope: CancelScope | None = None
        self._pump_done: anyio.Event | None = None
        self._launched = False  # a call was started since the pump last let others run
        self._raised: Exception | None = None  # what the source, a transform or a stage raised
        self._error: BaseException | None = None  # to be raised at `async for`, once
        self._end: StreamEnd | None = None

    # -- for the consumer ----------------------------------------------------------------------------------------

    @property
    def turn(self) -> Turn:
        """What the response amounts to so far; final after the last event, and after the block."""
        return self._step.turn()

    @property
    def run_id(self) -> str:
        """The run that this step belongs to."""
        return self._step.run_id

    def __aiter__(self) -> Pipeline:
        self._check_open()
        return self

    async def __anext__(self) -> Event:
        if self._state != "open":
            self._check_open()
        outbox = self._outbox
        if outbox.queue or await outbox.wait():
            event = outbox.queue.popleft()
            if outbox.room_awaited is not None:
                outbox.took_one()
            return event
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop now, inside the block: no more events, calls cancelled, source closed. Idempotent."""
        if self._state != "open":
            return
        assert self._pump_scope is not None, "set when the block was entered"
        assert self._pump_done is not None, "set when the block was entered"
        self._error = None
        self._dispatcher.stop()
        self._pump_scope.cancel()
        self._dispatcher.cancel()
        self._outbox.discard()
        await self._pump_done.wait()
        await self._dispatcher.wait_idle()
        self._settle("abandoned")

    # -- the block -----------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Pipeline:
        if self._state != "new":
            raise LocalProtocolError("a pipeline is entered once; make a new one for the next stream")
        self._state = "open"
        self._pump_scope, self._pump_done = CancelScope(), anyio.Event()
        self._step.listen([StreamEnd], self._stream_ended)
        self._step.listen(Dispatcher.listens_to, self._dispatcher.on_event)
        self._step.begin()
        self._group = create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._pump)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._group is not None, "set when the block was entered"
        self._state = "left"
        self._dispatcher.stop()
        self._group.cancel_scope.cancel()  # before the outbox is closed: what waits for room must not go on
        self._outbox.discard()
        try:
            # The body's own exception is not given to the group, which would wrap it; it leaves the block as it is.
            await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            raise _unwrapped(group) from None
        finally:
            cancelled = kind is not None and issubclass(kind, anyio.get_cancelled_exc_class())
            self._settle("cancelled" if cancelled else "abandoned")

    def _check_open(self) -> None:
        if self._state == "open":
            return
        verb = "was left" if self._state == "left" else "was not entered"
        raise TypeError(
            f"the pipeline's block {verb}; write:  async with pipeline(stream, tools=[...]) as events:  "
            "async for event in events: ..."
        )

    # -- tasks ---------------------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Read the source to its end, let the calls finish, end the step."""
        assert self._pump_scope is not None, "set when the block was entered"
        assert self._pump_done is not None, "set when the block was entered"
        try:
            with self._pump_scope:
                try:
                    await self._read()
                except Exception as error:  # a transform or a stage raised
                    self._raised = self._raised or error
                except anyio.get_cancelled_exc_class() as error:
                    self._raised = self._raised or _stray(error)
                if self._failed() and not self._drain:
                    self._dispatcher.cancel()
                await self._dispatcher.wait_idle()
                self._settle(self._outcome())
                self._error = self._raised or (self._end.error if self._end else None)
                self._outbox.close()
        finally:
            self._pump_done.set()

    async def _read(self) -> None:
        """Emit everything that comes of the source, no faster than it is consumed; then close it."""
        # Entered before the source is opened, so that what it opens (scopes, task groups) is closed inside.
        with CancelScope() as closing:
            try:
                await self._read_to_the_end()
            finally:  # also when cancelled, within `cancel_grace` seconds
                closing.shield = True
                closing.deadline = anyio.current_time() + self._limits.cancel_grace
                await self._close_source()
        if closing.cancelled_caught:
            self._step.emit(Warning("source_unresponsive", f"closing took over {self._limits.cancel_grace:g} s"))

    async def _read_to_the_end(self) -> None:
        async with AsyncExitStack() as stack:
            batches = await stack.enter_async_context(aclosing(self._batches()))
            if not self._transforms:
                async for events in batches:
                    self._step.emit_all(events)
                return
            stream: AsyncIterator[Event] = await stack.enter_async_context(aclosing(_flat(batches)))
            for transform in self._transforms:
                stream = transform(stream)
                if isinstance(stream, AsyncGenerator):
                    await stack.enter_async_context(aclosing(stream))
            async for event in stream:
                self._step.emit(event)
                if self._must_pause():
                    await self._pause()

    def _must_pause(self) -> bool:
        return self._launched or len(self._outbox.queue) >= self._outbox.size

    async def _pause(self) -> None:
        """Let others run: calls that were launched, and a consumer who is behind."""
        if self._launched:  # a call that may start now does start now, however fast the source is
            self._launched = False
            await checkpoint()
        await self._outbox.wait_for_room()

    async def _batches(self) -> AsyncGenerator[list[Event], None]:
        """The events of each item of the source, and at last those of its end.

        Without transforms nobody has to see the events before they are emitted: they are emitted here, and only those
        of the end are yielded. That saves a hop, 0.1 µs an event.
        """
        decoder, step, outbox, direct = self._decoder, self._step, self._outbox, not self._transforms
        try:
            async for item in await self._source.items():
                for part in (item,) if type(item) is bytes and len(item) <= SLICE_BYTES else _parts(item):
                    events = decoder.feed(part)
                    if not direct:
                        yield events
                        continue
                    step.emit_all(events)
                    if self._launched or len(outbox.queue) >= outbox.size:
                        await self._pause()
                if decoder.done:
                    break
        except Exception as error:
            self._raised = error
        except anyio.get_cancelled_exc_class() as error:
            self._raised = _stray(error)
        yield decoder.finish(self._as_stream_error())

    async def _close_source(self) -> None:
        try:
            await self._source.aclose()
        except Exception as error:
            self._step.emit(Warning("source_close_failed", type(error).__name__))
        except anyio.get_cancelled_exc_class() as error:
            _stray(error)
            self._step.emit(Warning("source_close_failed", type(error).__name__))

    def _start_call(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        assert self._group is not None, "calls start inside the block"
        self._launched = True
        self._group.start_soon(run)

    # -- the end -------------------------------------------------------------------------------------------------

    def _stream_ended(self, event: Event) -> None:
        assert isinstance(event, StreamEnd), "that is what it listens to"
        self._end = event

    def _failed(self) -> bool:
        return self._raised is not None or (self._end is not None and self._end.error is not None)

    def _outcome(self) -> Literal["complete", "truncated", "error"]:
        error = self._end.error if self._end else None
        if isinstance(error, TruncatedStream):
            return "truncated"
        return "error" if self._failed() else "complete"

    def _as_stream_error(self) -> StreamError | None:
        """What the source raised, as the turn tells it."""
        if self._raised is None or isinstance(self._raised, StreamError):
            return self._raised
        error = TruncatedStream(f"the source raised {type(self._raised).__name__}")
        error.__cause__ = self._raised
        return error

    def _settle(self, outcome: Literal["complete", "truncated", "error", "cancelled", "abandoned"]) -> None:
        """Say what is left to say: no task runs any more. Idempotent."""
        if self._step.ended:
            return
        self._dispatcher.stop()
        if self._end is None:
            try:
                self._step.emit_all(self._decoder.finish(self._as_stream_error(), abandoned=self._raised is None))
            except Exception as error:  # a stage of the user's raised
                self._step.emit(Warning("stage_failed", type(error).__name__))
        if self._end is None:  # a transform or a stage swallowed it
            self._step.emit(StreamEnd(error=self._as_stream_error()))
        self._dispatcher.settle()
        self._step.end(outcome)


def _stray(error: BaseException) -> TruncatedStream:
    """A cancellation that nobody asked for (of a task that was awaited), as an error; any other is raised."""
    if current_effective_deadline() == -math.inf:
        raise error
    found = TruncatedStream("the source was cancelled from within")
    found.__cause__ = error
    return found


def _parts(item: Any) -> Iterable[bytes | Mapping[str, Any]]:
    """What a source yielded, in pieces that the decoder takes."""
    payload = as_item(item)
    return () if payload is None else slices(payload)


async def _flat(batches: AsyncIterator[list[Event]]) -> AsyncGenerator[Event, None]:
    async for events in batches:
        for event in events:
            yield event


def _unwrapped(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """A single exception by itself; several stay a group."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
