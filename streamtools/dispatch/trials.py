"""Tries the bodies of pure calls before their calls have ended, on wires where calls end only with the response.

Theory of operation. A call ends when the wire says so, and is then judged, queued and begun like any other. Before
that its body may be *tried*: once the JSON object of its arguments has closed and fits the schema, the body runs in a
task of its own, in a place of the pool that is free. Nothing of it is emitted. When the call's own attempt begins,
`Trial.kept` replaces the body: it passes on what was reported, and returns the body's result. A trial counts for
nothing else, neither in a budget nor in the order.

It is *dropped* if the call ends in another way than by that attempt, if its arguments turn out to be different, or if a
call needs the place. Its task is then cancelled, and awaited like that of any call; its result is ignored.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import anyio
from anyio import CancelScope

from ..errors import InvalidArguments, ToolError, ToolOutcomeUnknown, ToolTimeout
from ..events import ToolProgress
from ..ground.own import FIXED
from ..stages import Chain, arguments_of
from ..stages.accumulate import OnClose
from ..stages.arguments import BLANK, Checked
from ..tools import LARGE_CHARS, Bound, TakesLong, Tool
from .event_loop import ring
from .in_process import run_in_process, stepped
from .log import log_blocked
from .pool import Job
from .states import Call, seconds_of

if TYPE_CHECKING:
    from .transitions import Transitions


class Trials:
    """The trials of one response's calls. `noticed` is called in the middle of decoding; call `begin` once the events
    are out."""

    def __init__(self, chain: Chain, noticed: Callable[[], None], turn: Transitions) -> None:
        self._turn = turn
        self._noticed = noticed
        self._closed: list[tuple[str, str]] = []  # ids and texts of calls
        self._known: dict[str, Checked] = {}
        chain.watch(OnClose(cache(self._wants), self._close), self._known)

    def _wants(self, name: str) -> bool:
        tool = self._turn.attempts.tools.get(name)
        if tool is None or tool.effect != "pure" or not tool.is_async or not tool.trial or tool.growing is not None:
            return False
        return may_be_early(tool, self._turn)

    def _close(self, call_id: str, text: str) -> None:
        self._closed.append((call_id, text))
        self._noticed()

    def begin(self) -> None:
        closed, self._closed = self._closed, []
        for call_id, text in closed:
            call = self._turn.calls.get(call_id)
            if call is not None and call.trial is None and may_run_early(call, self._turn):
                self._begin(call, text.rstrip(BLANK))

    def _begin(self, call: Call, text: str) -> None:
        turn, name = self._turn, call.call.name
        tool = turn.attempts.tools.get(name)
        found = arguments_of(text, turn.limits) if len(text) <= LARGE_CHARS else ""
        if tool is None or isinstance(found, str) or found[1]:
            return
        try:
            given = turn.attempts.tools.decode(name, found[0])
            bound = tool.validate(given, text=text if given is found[0] else None, quick=True)
        except (InvalidArguments, TakesLong):
            return
        checked = Checked(text, found[0], bound)
        trial = Trial(turn, call, tool, bound, turn.host.new_scope())
        if turn.take_free_place(trial.job, partial(turn.work, call, trial.run, trial.scope)):
            self._known[call.call_id], call.trial = checked, trial


def may_be_early(tool: Tool[..., Any], turn: Transitions) -> bool:
    keeps_order = tool.exclusive or tool.conflict_key is not None
    is_asked_about = tool.needs_approval is not False or tool.policy is not None
    if keeps_order or is_asked_about or tool.deferred or tool.middleware is not None:
        return False
    return tool.name not in turn.options.executors


def may_run_early(call: Call, turn: Transitions) -> bool:
    calls = turn.calls.values()
    if call.state != "announced" or turn.stopped is not None or turn.end is not None or call.before is not None:
        return False
    if turn.rules is not None and turn.rules.concern(call.call.name):
        return False
    tools = map(turn.attempts.tools.get, {other.call.name for other in calls})
    if any(tool is not None and tool.exclusive for tool in tools):  # no younger call may start before it
        return False
    most = turn.limits.max_repeated_calls
    return turn.budgets.have_room(len(calls)) and turn.host.counts.have_room(len(calls), most)


@dataclass(slots=True, eq=False)
class Trial:
    turn: Transitions
    call: Call
    tool: Tool[..., Any]
    bound: Bound
    scope: CancelScope  # the body's
    growth: Any = None  # the `front.growths.Growth` that it reads: then its `ToolStarted` is out
    job: Job = field(init=False)
    began: float | None = None  # these two on time.monotonic
    ended: float | None = None
    is_dropped: bool = False
    _report: Callable[[Any], None] | None = None  # of the attempt that has taken it up
    notes: dict[str, Any] | None = None
    _asks: Callable[[Any], Awaitable[Any]] | None = None
    _held: list[Callable[[Callable[[Any], None]], object]] = field(default_factory=list)  # what it will be told
    _lost: int = 0  # reports for which there was no room
    _due: float = math.inf  # the loop's time at which it must stop
    _change: anyio.Event | None = None  # it is over, or was taken up
    _then: Callable[[], None] | None = None
    _is_cancelled: bool = False
    _has_value: bool = False
    _value: Any = None
    _error: ToolError | None = None

    def __post_init__(self) -> None:
        tool = self.tool
        self.job = Job(tool=tool.name, owner=self.turn, shared=True, tool_limit=tool.max_concurrency)

    # -- the body --

    async def run(self) -> None:
        turn, call, tool, timer, leave_tool = self.turn, self.call, self.tool, None, None
        if self.is_dropped:
            self.leave()
            return
        self.began = time.monotonic() if self.growth is None else self.growth.tell_start()
        try:
            with self.scope:
                if self.growth is None and (seconds := seconds_of(tool, turn.limits)) != math.inf:
                    call.stops_at = self._due = turn.host.now() + seconds
                    timer = turn.attempts.due(self._due, self.scope)
                leave_tool = turn.host.enter_tool(call.call_id)
                bound, invocation = self.bound, None
                if self.growth is None and not FIXED.issuperset(map(type, bound.by_name.values())):
                    bound = tool.copied(bound)  # the record keeps its own
                if tool.wants_context:
                    invocation = turn.attempts.invocation(call, tool, {})
                    self._asks, invocation.services["ask"] = invocation.services["ask"], self._ask
                    self.notes = invocation.notes
                body = run_in_process(tool, bound, invocation, _begun, self._reports, turn.attempts.pool, 0)
                self._value = await stepped(body, self.scope, turn.limits.cancel_grace, self._blocked)
                self._has_value = True
        except ToolError as error:
            self._error = error
        finally:
            if leave_tool is not None:
                leave_tool()
            if timer is not None:
                timer.stop()
            if not self._is_cancelled:
                call.stops_at = math.inf
            self.ended = time.monotonic()
            self.leave()
            self._changed()
            if self._then is not None:
                self._then()

    def leave(self) -> None:
        self.turn.attempts.pool.finish(self.job)

    def _reports(self, value: Any) -> None:
        host, most = self.turn.host, self.turn.limits.max_waiting_progress
        if self._report is not None:
            self._report(value)
        elif self.growth is not None and host.behind < most:
            host.emit(ToolProgress(self.call.call_id, self.tool.name, value))
        elif self.growth is None and len(self._held) < most:
            self._held.append(lambda report: report(value))
        else:
            self._lost += 1

    def _blocked(self, seconds: float) -> None:
        warning = log_blocked(self.tool.name, self.call.label, seconds)
        if self._report is not None or self.growth is not None:
            self.turn.host.emit(warning)
        else:
            self._held.append(lambda _: self.turn.host.emit(warning))

    async def _ask(self, question: Any) -> Any:
        while self._report is None:
            await self._wait()
        assert self._asks is not None, "a tool that wants its context can ask"
        return await self._asks(question)

    # -- its end --

    @property
    def fits(self) -> bool:
        if self.is_dropped or self.began is None:
            return False
        return self.call.bound is self.bound if self.growth is None else self.growth.agrees

    @property
    def is_told(self) -> bool:
        return self.growth is not None and self.began is not None

    def ends_before(self, then: Callable[[], None]) -> bool:
        self._then = then
        return self.ended is None and self.call.tasks > 0

    @property
    def lost(self) -> ToolError | None:
        goes_on = self.ended is None and self.tool.effect != "pure"
        error = ToolOutcomeUnknown("the call began with partial arguments, and still runs") if goes_on else self._error
        return error if isinstance(error, ToolOutcomeUnknown) else None

    def due(self, now: float) -> float:
        if self.growth is not None:  # what it waited for was the model
            return now + seconds_of(self.tool, self.turn.limits)
        if self.ended is None or self.began is None:
            return self._due
        return now + seconds_of(self.tool, self.turn.limits) - (self.ended - self.began)

    async def kept(self, begin: Callable[[], Awaitable[float]], report: Callable[[Any], None]) -> Any:
        await begin()
        self._report = report
        for tell in self._held:
            tell(report)
        for value in repeat(None, self._lost):  # as many as there is no room for
            report(value)
        self._changed()
        if self.growth is not None:
            self.growth.settle()
        try:
            await self.wait_over()
        except anyio.get_cancelled_exc_class():
            self._cancel()
            with CancelScope(shield=True):
                await self.wait_over()
            if self._error is None and not self._has_value:
                raise
        if self._error is not None:
            raise self._error
        if not self._has_value:
            raise ToolTimeout(self.call.seconds(self.turn.limits))
        return self._value

    async def wait_over(self) -> None:
        while self.began is not None and self.ended is None:
            await self._wait()

    async def _wait(self) -> None:
        self._change = self._change or anyio.Event()
        await self._change.wait()

    def _changed(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            ring(change)

    def drop(self) -> None:
        if self._report is None and not self.is_dropped:
            self.is_dropped = True
            self._cancel()

    def make_room(self, waiting: Call) -> None:
        needs_it = waiting is self.call or self.job.state == "running"
        if self.ended is None and (needs_it if self.growth is None else waiting is self.call and not self.fits):
            self.drop()

    def _cancel(self) -> None:
        self._is_cancelled = True
        if self.began is not None and self.ended is None:
            self.scope.cancel()
            if self.growth is not None and self._report is None and not self.turn.is_settling:
                self.call.stops_at = self.turn.host.now()
                self.turn.warn_later(self.call.stops_at)


async def _begun() -> float:
    return math.inf  # the trial keeps the time itself
