"""Gives calls their places: decides which may run now, by limits, conflicts, barriers and fairness, and starts them;
keeps the budgets.

A `CallPool` holds the places of one pipeline's calls, or of several pipelines that share them. Its `Scheduler` decides,
without a clock, a task or a lock. Each of these rules alone can make a job wait:

* **Limits.** At most `max_running` jobs run, and at most `Job.tool_limit` of one tool.
* **Conflicts.** Jobs with one `key` run one at a time; readers (`shared`) of a key run side by side. Jobs of one owner
  do so in the order in which they were added: a job that is not released yet keeps its place before the younger ones of
  its owner. Such a job holds up no other owner: among owners, a key's order is that of the releases.
* **Barriers.** An `exclusive` job runs alone: as soon as it has its key, no younger job starts before it.
* **Fairness.** Owners take turns; of one owner the oldest job that may run goes first. A job that waits for its tool or
  its key holds up no other job.

Theory of operation. A job *enters* its key's line when it is released and no older conflicting job of its owner is
still outside. It is *admitted* when those before it in that line are over; released and admitted, it is *ready*. Ready
jobs stand in lines, one for each owner and group; a group is a tool that has a limit, or all tools that have none. Each
group keeps its lines by the turn of their owner. An owner that arrives, or has been served, gets the last turn. So an
event costs the number of limited tools times the logarithm of the number of owners, however many jobs wait. A barrier
is rare, and looks once at all ready jobs: those older than itself go before it, by age.

No job starves: an owner waits for those before it, each once; a barrier waits for older jobs, which are finite in
number; and a job that is not released holds up only its own key.
"""

from __future__ import annotations

import heapq
import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from operator import attrgetter
from typing import Literal, Protocol, TypeAlias

from anyio import CapacityLimiter
from anyio.lowlevel import EventLoopToken, current_token

from ..errors import BudgetExceeded
from ..limits import Limits, checked_bound
from ..parts import COUNTS, Outcome, Usage, WaitReason
from .event_loop import is_called_in_a_task, is_in_loop, is_running


class CallPool:
    """Lets calls start when limits and conflicts allow it. Each pipeline has its own, unless several share one:

        shared = CallPool(Limits(max_concurrency=32))
        async with pipeline(stream, tools=tools, pool=shared) as events: ...

    ``max_concurrency`` and ``max_threads``, and each tool's ``max_concurrency``, ``conflict_key`` and ``exclusive``,
    then hold across all of them, also in different event loops and threads; only ``max_threads`` counts for each loop.
    The pool tells tools apart by name. The pipelines take turns, however many calls each has. If a tool runs a pipeline
    and waits for it, give that pipeline another pool: in the same pool, the tool would hold a place while it waits for
    one.

    Args:
        limits: the pool uses ``max_concurrency`` and ``max_threads``; each pipeline has its own for the rest.
        call_budget, token_budget: the budgets of all runs in this process that share the pool. Each run also keeps the
            budgets of these names in its own `Limits`.
    """

    # Theory of operation. A shared pool notes the event loop of each call. Its scheduler decides under a lock, in any
    # of the loops. A call of another loop than that is started by a task in its own loop, and may be over by then. So
    # its start is taken out of `_starts` in the call's own loop, by the start or by the end.

    def __init__(
        self, limits: Limits = Limits(), *, call_budget: int | None = None, token_budget: int | None = None
    ) -> None:
        if not isinstance(limits, Limits):
            raise TypeError(f"limits: expected a streamtools.Limits, got {type(limits).__name__}")
        self.limits = limits
        self.call_budget = None if call_budget is None else checked_bound("call_budget", call_budget)
        self.token_budget = None if token_budget is None else checked_bound("token_budget", token_budget)
        self._budget: PoolBudget | None = None  # made when a pipeline shares the pool
        self._scheduler = Scheduler(limits.max_concurrency)
        self._starts: dict[Job, Callable[[], None]] = {}
        self._threads: CapacityLimiter | None = None  # of a pool that is not shared, made when first needed
        # Of a shared pool:
        self._lock = threading.RLock()  # a signal's or the garbage collector's code may come back in
        self._loops: dict[int, EventLoopToken] = {}  # by thread
        self._homes: dict[Job, EventLoopToken] = {}
        self._limiters: dict[EventLoopToken, CapacityLimiter] = {}

    @property
    def budget(self) -> PoolBudget:
        """The budget of the pipelines that share the pool."""
        with self._lock:
            if self._budget is None:
                self._budget = PoolBudget(self.call_budget, self.token_budget, self._lock)
            return self._budget

    @property
    def spent(self) -> Spent:
        """The calls and tokens used so far by the pipelines that share the pool."""
        return self.budget.spent

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return self._scheduler.running

    @property
    def waiting(self) -> int:
        """The number of calls that wait, for a place or for the end of their turn."""
        return self._scheduler.alive - self._scheduler.running

    @property
    def threads(self) -> CapacityLimiter:
        """The limiter of the threads for sync tools in this event loop."""
        if (loop := self._loops.get(threading.get_ident())) is not None:
            return self._limiters[loop]
        if self._threads is None:
            self._threads = CapacityLimiter(self.limits.max_threads)
        return self._threads

    def join(self) -> None:
        """Accepts calls of this event loop from now on. Each pipeline that shares the pool calls this before its first
        call."""
        loop, thread = current_token(), threading.get_ident()
        if self._loops.get(thread) == loop:
            return
        with self._lock:
            self._leave_ended_loops()
            self._loops[thread] = loop
            self._limiters.setdefault(loop, CapacityLimiter(self.limits.max_threads))

    def add(self, job: Job, start: Callable[[], None]) -> None:
        """Gives a call its place in the order. `start` is called in this event loop when the call may run, perhaps
        because of another pipeline; it must not wait, call the pool, or raise."""
        self._starts[job] = start
        if not self._loops:
            self._scheduler.add(job)
            return
        with self._lock:
            self._homes[job] = self._loops[threading.get_ident()]
            self._scheduler.add(job)

    def release(self, job: Job) -> None:
        """Lets a call run when its turn comes."""
        self._start(self._decided(self._scheduler.release, job))

    def holds_up(self, job: Job) -> WaitReason:
        """Returns what a released call waits for."""
        with self._lock:
            return self._scheduler.holds_up(job)

    def finish(self, job: Job) -> None:
        """Removes a call that is over or will never run from the order, and starts the calls that may run now."""
        self._starts.pop(job, None)
        self._homes.pop(job, None)
        self._start(self._decided(self._scheduler.finish, job))

    def _decided(self, decide: Callable[[Job], list[Job]], job: Job) -> list[Job]:
        if not self._loops:
            return decide(job)
        with self._lock:
            return decide(job)

    def _start(self, jobs: list[Job]) -> None:
        for job in jobs:
            home = self._homes.get(job)
            if home is None or is_in_loop(home):
                self._grant(job)
            elif not is_called_in_a_task(home, partial(self._grant, job)):
                self.finish(job)

    def _grant(self, job: Job) -> None:
        start = self._starts.pop(job, None)
        if start is not None:  # else the call was given up meanwhile
            start()

    def _leave_ended_loops(self) -> None:
        """Gives up the places of calls whose event loop has ended without leaving their blocks."""
        for thread in [thread for thread, loop in self._loops.items() if not is_running(loop)]:
            self._limiters.pop(self._loops.pop(thread), None)
        for job in [job for job, loop in self._homes.items() if not is_running(loop)]:
            self.finish(job)


# -- which jobs may run --


_age = attrgetter("number")


@dataclass(slots=True, eq=False)
class Job:
    tool: str
    owner: Hashable = None  # the owner of the call: owners take turns
    key: Hashable | None = None  # the thing that the call works on; None conflicts with nothing
    shared: bool = False  # True if the call only reads the thing that `key` names
    exclusive: bool = False
    tool_limit: int | None = None  # how many jobs of this tool may run at once
    number: int = field(default=-1, init=False)  # the job's age: the smaller, the older
    state: Literal["new", "held", "waiting", "running", "over"] = field(default="new", init=False)
    entered: bool = field(default=False, init=False)  # True once the job stands in its key's line, or is past it
    admitted: bool = field(default=False, init=False)
    """True once no job before this one in its key's line stands in its way."""


_Group: TypeAlias = "tuple[str, int] | None"


def _group_of(job: Job) -> _Group:
    return None if job.tool_limit is None else (job.tool, job.tool_limit)


@dataclass(slots=True, eq=False)
class _Owner:
    turn: int
    lines: dict[_Group, _Line] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Line:
    """The ready jobs of one owner in one group, by age; never empty."""

    owner: _Owner
    jobs: list[Job] = field(default_factory=list)


_turn = attrgetter("owner.turn")


@dataclass(slots=True, eq=False)
class _Key:
    admitted: int = 0
    writing: bool = False  # the admitted job is no reader
    waiting: deque[Job] = field(default_factory=deque)

    def admit(self) -> list[Job]:
        found: list[Job] = []
        while self.waiting and not self.writing and (self.waiting[0].shared or not self.admitted):
            job = self.waiting.popleft()
            job.admitted = True
            self.admitted += 1
            self.writing = not job.shared
            found.append(job)
        return found


class Scheduler:
    def __init__(self, max_running: int) -> None:
        self.max_running = max_running
        self.running = 0
        self.alive = 0  # how many jobs were added and are not over
        self._numbers = count()
        self._turns = count()
        self._alone: Job | None = None  # the exclusive job that runs
        self._by_tool: dict[str, int] = {}  # how many jobs of each tool run
        self._keys: dict[Hashable, _Key] = {}
        self._outside: dict[tuple[Hashable, Hashable], list[Job]] = {}  # by owner and key: not in the key's line yet
        self._owners: dict[Hashable, _Owner] = {}  # those with ready jobs
        self._groups: dict[_Group, list[_Line]] = {}  # those with ready jobs: their lines, by the turns of the owners
        self._barriers: list[Job] = []  # ready exclusive jobs, by age; they stand in no line
        self._older: dict[_Group, list[tuple[int, Job]]] = {}  # while there is a barrier: ready jobs by age

    def add(self, job: Job) -> None:
        job.number, job.state = next(self._numbers), "held"
        self.alive += 1
        if job.key is None:
            job.admitted = True
        else:
            self._outside.setdefault((job.owner, job.key), []).append(job)

    def release(self, job: Job) -> list[Job]:
        """Lets a job run when its turn comes. Returns the jobs that start now, perhaps this one among them."""
        if job.state != "held":
            return []
        job.state = "waiting"
        if job.key is not None:
            self._enter(job.owner, job.key)
            return self._start()
        if not self._groups and not self._barriers and not job.exclusive and self._may_run(job):
            self._run(job)  # no job waits: the path below would do the same at ten times the cost
            return [job]
        self._ready(job)
        return self._start()

    def holds_up(self, job: Job) -> WaitReason:
        if not job.admitted:
            return "key"
        if job.exclusive or self._alone is not None or self._barriers:
            return "exclusive"
        return "limit" if self._has_room(_group_of(job)) else "tool_limit"

    def finish(self, job: Job) -> list[Job]:
        """Drops a job that is over, or was given up before it ran. Returns the jobs that start now."""
        if job.state in ("new", "over"):
            return []
        if job.state == "running":
            self._stopped(job)
        elif job.state == "waiting" and job.admitted:
            self._take(job)
        job.state = "over"
        self.alive -= 1
        if job.key is not None:
            self._leave(job, job.key)
        return self._start()

    # -- places --

    def _stopped(self, job: Job) -> None:
        self.running -= 1
        left = self._by_tool.pop(job.tool) - 1
        if left:
            self._by_tool[job.tool] = left
        if self._alone is job:
            self._alone = None

    def _enter(self, owner: Hashable, name: Hashable) -> None:
        """Lets an owner's released jobs into the line of their key, unless an older one holds them up."""
        key, left = self._keys.setdefault(name, _Key()), list[Job]()
        writer_left = False
        for job in self._outside.pop((owner, name), ()):
            if job.state == "waiting" and not (writer_left if job.shared else left):
                job.entered = True
                key.waiting.append(job)
            else:
                left.append(job)
                writer_left |= not job.shared
        if left:
            self._outside[owner, name] = left
        self._admit(name, key)

    def _leave(self, job: Job, name: Hashable) -> None:
        if not job.entered:
            self._outside[job.owner, name].remove(job)
            self._enter(job.owner, name)
        else:
            key = self._keys[name]
            if job.admitted:
                key.admitted -= 1
                key.writing = False
            else:
                key.waiting.remove(job)
            self._admit(name, key)

    def _admit(self, name: Hashable, key: _Key) -> None:
        for job in key.admit():
            self._ready(job)
        if not key.admitted and not key.waiting:
            del self._keys[name]

    def _ready(self, job: Job) -> None:
        """Makes a job ready: only limits, barriers and the turns of others still stand in its way."""
        if job.exclusive:
            if not self._barriers:
                self._look_back()
            insort(self._barriers, job, key=_age)
            return
        owner = self._owners.get(job.owner)
        if owner is None:
            owner = self._owners[job.owner] = _Owner(next(self._turns))
        group = _group_of(job)
        line = owner.lines.get(group)
        if line is None:
            line = owner.lines[group] = _Line(owner)
            insort(self._groups.setdefault(group, []), line, key=_turn)
        insort(line.jobs, job, key=_age)
        if self._barriers:
            heapq.heappush(self._older.setdefault(group, []), (job.number, job))

    def _take(self, job: Job) -> None:
        if job.exclusive:
            self._barriers.remove(job)
            if self._barriers:
                self._look_back()
            return
        group = _group_of(job)
        owner = self._owners[job.owner]
        line = owner.lines[group]
        line.jobs.remove(job)
        if line.jobs:
            return
        del owner.lines[group]
        if not owner.lines:
            del self._owners[job.owner]
        lines = self._groups[group]
        del lines[bisect_left(lines, owner.turn, key=_turn)]
        if not lines:
            del self._groups[group]

    # -- who is next --

    def _start(self) -> list[Job]:
        started: list[Job] = []
        if not self._groups and not self._barriers:
            return started  # no job waits
        while self.running < self.max_running and self._alone is None and (job := self._next()) is not None:
            self._take(job)
            if (owner := self._owners.get(job.owner)) is not None:
                for lines in map(self._groups.__getitem__, owner.lines):
                    lines.append(lines.pop(bisect_left(lines, owner.turn, key=_turn)))
                owner.turn = next(self._turns)
            self._run(job)
            started.append(job)
        return started

    def _may_run(self, job: Job) -> bool:
        return self.running < self.max_running and self._alone is None and self._has_room(_group_of(job))

    def _run(self, job: Job) -> None:
        job.state = "running"
        self.running += 1
        self._by_tool[job.tool] = self._by_tool.get(job.tool, 0) + 1
        if job.exclusive:
            self._alone = job

    def _next(self) -> Job | None:
        if self._barriers:
            return self._next_by_age(self._barriers[0])
        firsts = (lines[0] for group, lines in self._groups.items() if self._has_room(group))
        line = min(firsts, key=lambda line: (line.owner.turn, line.jobs[0].number), default=None)
        return None if line is None else line.jobs[0]

    def _next_by_age(self, barrier: Job) -> Job | None:
        """Returns the oldest ready job that has room, if older than the barrier; else the barrier once nothing runs."""
        best: Job | None = None
        for group, jobs in self._older.items():
            while jobs and jobs[0][1].state != "waiting":
                heapq.heappop(jobs)
            if jobs and self._has_room(group) and (best is None or jobs[0][0] < best.number):
                best = jobs[0][1]
        if best is not None and best.number < barrier.number:
            return best
        return None if self.running else barrier

    def _has_room(self, group: _Group) -> bool:
        return group is None or self._by_tool.get(group[0], 0) < group[1]

    def _look_back(self) -> None:
        """Orders all ready jobs by age, since a barrier has come, or another one is now the first."""
        self._older = {}
        for owner in self._owners.values():
            for group, line in owner.lines.items():
                self._older.setdefault(group, []).extend((job.number, job) for job in line.jobs)
        for jobs in self._older.values():
            heapq.heapify(jobs)


# -- budgets --
#
# Calls and tokens are counted against the budgets of a run, and of the runs that share a pool. A call takes its place
# in each budget before anyone is asked about it, and gives it back if it does not begin.

_whole_counts = attrgetter(*(name for name, facts in COUNTS.items() if facts.part_of is None))


@dataclass(slots=True, eq=False)
class Spent:
    calls: int = 0  # calls that have begun, wait to begin, or wait for an approval
    tokens: int = 0
    """Tokens of the responses that have ended: input and output, including cached ones, reasoning, and the provider's
    own tools."""


def tokens_of(usage: Usage | None) -> int | None:
    counts = () if usage is None else [count for count in _whole_counts(usage) if count is not None]
    return sum(counts) if counts else None


class PoolBudget:
    """Keeps the budget of the runs that share a pool. Any thread may use it. None: no limit."""

    __slots__ = ("_lock", "calls", "spent", "tokens")

    def __init__(self, calls: int | None, tokens: int | None, lock: threading.RLock) -> None:
        self.calls = calls
        self.tokens = tokens
        self.spent = Spent()
        self._lock = lock

    def take_call(self) -> BudgetExceeded | None:
        with self._lock:
            if self.calls is not None and self.spent.calls >= self.calls:
                return BudgetExceeded("call_budget", self.calls, "pool")
            self.spent.calls += 1
        return None

    def give_back_call(self) -> None:
        with self._lock:
            self.spent.calls -= 1

    def add_tokens(self, tokens: int) -> None:
        with self._lock:
            self.spent.tokens += tokens

    def tokens_exceeded(self) -> BudgetExceeded | None:
        if self.tokens is None or self.spent.tokens < self.tokens:
            return None
        return BudgetExceeded("token_budget", self.tokens, "pool")


class Counted(Protocol):
    counted: bool
    attempts: int


class Budgets:
    """Keeps the budgets of one pipeline: that of its run, by its limits, and that of its pool if it shares one."""

    __slots__ = ("_limits", "_pool", "_run", "limits_tokens")

    def __init__(self, limits: Limits, run: Spent, pool: PoolBudget | None) -> None:
        self._limits = limits
        self._run = run
        self._pool = pool
        self.limits_tokens = limits.token_budget is not None or (pool is not None and pool.tokens is not None)

    def admit(self, call: Counted) -> BudgetExceeded | None:
        exceeded = self.tokens_exceeded()
        if exceeded is not None or call.counted:
            return exceeded
        most = self._limits.call_budget
        if most is not None and self._run.calls >= most:
            return BudgetExceeded("call_budget", most, "run")
        if self._pool is not None and (exceeded := self._pool.take_call()) is not None:
            return exceeded
        self._run.calls += 1
        call.counted = True
        return None

    def have_room(self, calls: int) -> bool:
        """Returns whether the budgets now have room for `calls` more calls."""
        most, pool = self._limits.call_budget, self._pool
        if self.tokens_exceeded() is not None or (most is not None and self._run.calls + calls > most):
            return False
        return pool is None or pool.calls is None or pool.spent.calls + calls <= pool.calls

    def ended(self, call: Counted, outcome: Outcome) -> None:
        if call.counted and not call.attempts and outcome != "unknown":
            call.counted = False
            self._run.calls -= 1
            if self._pool is not None:
                self._pool.give_back_call()

    def add(self, usage: Usage | None, before: Usage | None = None) -> None:
        """Counts the tokens of a response that has ended; `before`: those already counted when it was cut."""
        if usage is not None and (tokens := tokens_of(usage)):
            if before is not None:
                tokens = max(0, tokens - (tokens_of(before) or 0))
            self._run.tokens += tokens
            if self._pool is not None:
                self._pool.add_tokens(tokens)

    def leaves_tokens(self, usage: Usage | None) -> bool:
        tokens, most, pool = tokens_of(usage) or 0, self._limits.token_budget, self._pool
        if most is not None and self._run.tokens + tokens >= most:
            return False
        return pool is None or pool.tokens is None or pool.spent.tokens + tokens < pool.tokens

    def tokens_exceeded(self) -> BudgetExceeded | None:
        if not self.limits_tokens:
            return None
        most = self._limits.token_budget
        if most is not None and self._run.tokens >= most:
            return BudgetExceeded("token_budget", most, "run")
        return None if self._pool is None else self._pool.tokens_exceeded()
