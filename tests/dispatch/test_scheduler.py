"""The scheduler alone: every law of its docstring, over histories that hypothesis makes up."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Hashable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from profiles import examples
from steps import steps

from streamtools.dispatch.pool import Job, Scheduler

LIMIT_OF = {"free": None, "one": 1, "two": 2}


class Laws(RuleBasedStateMachine):
    """A scheduler beside plain lists of what should be so."""

    @initialize(most=st.integers(1, 5))
    def begin(self, most: int) -> None:
        self.scheduler = Scheduler(most)
        self.jobs: list[Job] = []
        self.line: list[Job] = []  # of all keys, in the order of entering

    def _of(self, *states: str) -> list[Job]:
        return [job for job in self.jobs if job.state in states]

    def _enter(self) -> None:
        """Whoever may, enters the line of its key: released, and behind no older one of its owner that conflicts."""
        for job in self.jobs:
            older = [other for other in self._same_key(job) if other.owner == job.owner and other.number < job.number]
            outside = [other for other in older if other.state != "over" and other not in self.line]
            if job.state == "waiting" and job not in self.line and all(job.shared and o.shared for o in outside):
                self.line.append(job)

    def _same_key(self, job: Job) -> list[Job]:
        return [other for other in self.jobs if job.key is not None and other.key == job.key and other is not job]

    def _free(self, job: Job) -> bool:
        """Its key lets it run."""
        if job.key is None:
            return True
        ahead = self.line[: self.line.index(job)] if job in self.line else self._same_key(job)
        known = [other for other in ahead if other.key == job.key and other.state != "over"]
        return job in self.line and all(job.shared and other.shared for other in known)

    def _saw(self, before: list[Job], started: list[Job]) -> None:
        """What was returned is what now runs, nobody twice, each allowed at its time."""
        assert len({id(job) for job in started}) == len(started)
        assert set(map(id, started)) == {id(job) for job in self._of("running")} - set(map(id, before))
        for job in started:  # it had entered before it was started
            job.state = "waiting"
        self._enter()
        for job in started:
            job.state = "running"

    @rule(
        tool=st.sampled_from(sorted(LIMIT_OF)),
        owner=st.integers(0, 3),
        key=st.sampled_from([None, None, "x", "y"]),
        shared=st.booleans(),
        exclusive=st.sampled_from([False, False, False, True]),
        at_once=st.booleans(),
    )
    def add(self, tool: str, owner: int, key: Hashable, shared: bool, exclusive: bool, at_once: bool) -> None:
        job = Job(tool, owner, key, shared, exclusive, LIMIT_OF[tool])
        self.jobs.append(job)
        self.scheduler.add(job)
        if at_once:
            running = self._of("running")
            self._saw(running, self.scheduler.release(job))

    @precondition(lambda self: self._of("held"))
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        job = data.draw(st.sampled_from(self._of("held")))
        running = self._of("running")
        self._saw(running, self.scheduler.release(job))
        assert self.scheduler.release(job) == []

    @precondition(lambda self: self._of("running"))
    @rule(data=st.data())
    def finish(self, data: Any) -> None:
        self._over(data.draw(st.sampled_from(self._of("running"))))

    @precondition(lambda self: self._of("held", "waiting"))
    @rule(data=st.data())
    def give_up(self, data: Any) -> None:
        self._over(data.draw(st.sampled_from(self._of("held", "waiting"))))

    def _over(self, job: Job) -> None:
        others = [other for other in self._of("running") if other is not job]
        self._saw(others, self.scheduler.finish(job))
        assert self.scheduler.finish(job) == []

    @invariant()
    def limits_hold(self) -> None:
        running = self._of("running")
        assert self.scheduler.running == len(running) <= self.scheduler.max_running
        assert self.scheduler.alive == len(self._of("held", "waiting", "running"))
        for tool, count in Counter(job.tool for job in running).items():
            limit = LIMIT_OF[tool]
            assert limit is None or count <= limit

    @invariant()
    def a_barrier_runs_alone(self) -> None:
        running = self._of("running")
        assert len(running) == 1 or not any(job.exclusive for job in running)

    @invariant()
    def a_key_is_one_writers_or_only_readers_and_in_order(self) -> None:
        for job in self._of("running"):
            assert self._free(job)

    @invariant()
    def nobody_waits_who_might_run(self) -> None:
        running = self._of("running")
        ready = [job for job in self._of("waiting") if self._free(job)]
        if len(running) == self.scheduler.max_running or any(job.exclusive for job in running):
            return
        barrier = min((job.number for job in ready if job.exclusive), default=None)
        for job in ready:
            limit = LIMIT_OF[job.tool]
            full = limit is not None and sum(other.tool == job.tool for other in running) >= limit
            behind = barrier is not None and job.number > barrier
            assert full or behind or (job.exclusive and running)

    def teardown(self) -> None:
        """When all that runs ends and nobody is held back, everybody gets to run, and nothing is left."""
        if not hasattr(self, "scheduler"):
            return
        for job in self._of("held"):
            before = self._of("running")
            self._saw(before, self.scheduler.release(job))
        while running := self._of("running"):
            self._over(running[0])
            self.limits_hold()
            self.nobody_waits_who_might_run()
        assert {job.state for job in self.jobs} <= {"over"}
        assert not any(
            vars(self.scheduler)[name] for name in ("alive", "running", "_keys", "_owners", "_heaps", "_barriers")
        )


TestLaws = Laws.TestCase
TestLaws.settings = settings(derandomize=True, deadline=None, max_examples=examples(150), stateful_step_count=40)


def released(scheduler: Scheduler, *jobs: Job) -> list[Job]:
    started = []
    for job in jobs:
        scheduler.add(job)
        started += scheduler.release(job)
    return started


def drained(scheduler: Scheduler, running: list[Job]) -> list[Job]:
    """End what runs, the oldest first, until nothing runs; returns all in the order in which they started."""
    order = list(running)
    for job in order:  # grows on the way
        order += scheduler.finish(job)
    return order


def test_an_owner_with_many_jobs_gets_one_place_at_a_time() -> None:
    scheduler = Scheduler(1)
    many = [Job("t", "many") for _ in range(5)]
    few = [Job("t", "few") for _ in range(2)]
    order = drained(scheduler, released(scheduler, *many, *few))
    assert [job.owner for job in order] == ["many", "many", "few", "many", "few", "many", "many"]


def test_owners_that_keep_coming_do_not_starve_one_that_waits() -> None:
    scheduler = Scheduler(1)
    (running,) = released(scheduler, Job("t", "first"))
    waiting = Job("t", "old")
    released(scheduler, waiting)
    for number in range(3):
        released(scheduler, Job("t", f"new {number}"))
    assert scheduler.finish(running) == [waiting]


def test_turns_are_fair_among_those_that_wait_for_one_tool() -> None:
    scheduler = Scheduler(10)
    jobs = [Job("t", "many", tool_limit=1) for _ in range(4)] + [Job("t", "few", tool_limit=1)]
    order = drained(scheduler, released(scheduler, *jobs))
    assert [job.owner for job in order] == ["many", "many", "few", "many", "many"]


def test_of_one_owner_the_oldest_goes_first_even_if_its_key_came_free_late() -> None:
    scheduler = Scheduler(2)
    writer, other = Job("t", "o", "k"), Job("t", "o")
    behind, young = Job("t", "o", "k"), Job("t", "o")
    assert released(scheduler, writer, other, behind, young) == [writer, other]
    assert scheduler.finish(writer) == [behind]


def test_a_held_job_keeps_its_place_among_its_owners_in_its_key_and_holds_up_nobody_else() -> None:
    scheduler = Scheduler(4)
    held, same, barrier, free = Job("t", 1, "k"), Job("t", 1, "k"), Job("t", 1, "k", exclusive=True), Job("t", 3)
    scheduler.add(held)
    assert released(scheduler, same, barrier, free) == [free]
    assert scheduler.release(held) == [held]
    assert scheduler.finish(held) == [same]
    assert scheduler.finish(free) == []
    assert scheduler.finish(same) == [barrier]


def test_a_held_job_holds_up_no_other_owner_and_stands_in_its_keys_line_from_its_release() -> None:
    scheduler = Scheduler(4)
    held, others, later = Job("t", 1, "k"), Job("t", 2, "k"), Job("t", 2, "k")
    scheduler.add(held)
    assert released(scheduler, others) == [others]
    assert scheduler.release(held) == []
    assert released(scheduler, later) == []
    assert scheduler.finish(others) == [held]
    assert scheduler.finish(held) == [later]


def test_held_readers_hold_up_the_writers_of_their_owner_alone() -> None:
    scheduler = Scheduler(4)
    held, reader, writer = Job("t", 1, "k", shared=True), Job("t", 1, "k", shared=True), Job("t", 1, "k")
    scheduler.add(held)
    assert released(scheduler, reader, writer) == [reader]
    assert scheduler.finish(reader) == []
    assert scheduler.finish(held) == [writer]


def test_a_barrier_lets_what_is_older_go_first_and_nothing_younger() -> None:
    scheduler = Scheduler(2)
    first, second = Job("t", 1), Job("t", 1)
    older, barrier, younger = Job("t", 1), Job("t", 2, exclusive=True), Job("t", 3)
    assert released(scheduler, first, second, older, barrier, younger) == [first, second]
    assert scheduler.finish(first) == [older]
    assert scheduler.finish(second) == []
    assert scheduler.finish(older) == [barrier]
    assert scheduler.finish(barrier) == [younger]


def test_an_event_costs_the_same_however_many_owners_wait() -> None:
    def cost(owners: int) -> float:
        scheduler = Scheduler(8)
        running = released(
            scheduler, *(Job(f"t{n % 5}", n, tool_limit=2 if n % 2 else None) for n in range(owners) for _ in range(4))
        )
        begun = time.process_time()
        assert len(drained(scheduler, running)) == 4 * owners
        return (time.process_time() - begun) / (4 * owners)

    scheduler, jobs = Scheduler(8), iter([Job("t", n, tool_limit=2) for n in range(2)])
    assert steps(lambda: released(scheduler, next(jobs))) < 30, "nobody waits: there is nothing to order"
    # A factor of 20 in owners; what looks at all of them would cost some 20 times as much.
    assert min(cost(2_000) for _ in range(3)) < 5 * min(cost(100) for _ in range(3))


def test_what_is_left_of_lines_that_were_given_up_does_not_pile_up() -> None:
    scheduler = Scheduler(1)
    (runs,) = released(scheduler, Job("t", "runs"))
    waits = Job("t", "waits")
    released(scheduler, waits)
    sizes = []
    for number in range(5_000):
        job = Job("t", number)
        released(scheduler, job)
        scheduler.finish(job)
        sizes.append(sum(len(heap._entries) for heap in scheduler._heaps.values()))
    assert max(sizes) < 100
    last = Job("t", "last")
    released(scheduler, last)
    scheduler.finish(waits)
    assert scheduler.finish(runs) == [last]


# -- beside one that looks at every job each time ----------------------------------------------------------------------


class Plain:
    """Decides the same by looking at all jobs."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.jobs: list[Job] = []  # by age
        self.lines: dict[Hashable, list[Job]] = {}
        self.admitted: list[Job] = []  # those without a key, and those whose turn at it has come
        self.turns: dict[Hashable, int] = {}  # of owners with ready jobs
        self.turn = 0

    def add(self, job: Job) -> None:
        self.jobs.append(job)
        job.state = "held"
        if job.key is None:
            self.admitted.append(job)

    def release(self, job: Job) -> list[Job]:
        if job.state != "held":
            return []
        job.state = "waiting"
        self.enter(job)
        return self.start()

    def finish(self, job: Job) -> list[Job]:
        if job.state == "over":
            return []
        job.state = "over"
        for line in self.lines.values():
            if job in line:
                line.remove(job)
        self.enter(job)
        return self.start()

    def enter(self, moved: Job) -> None:
        line, left = self.lines.setdefault(moved.key, []), list[Job]()
        for job in self.jobs:
            if job.key != moved.key or job.owner != moved.owner or job in line or job.state in ("over", "running"):
                continue
            if moved.key is not None and job.state == "waiting" and all(job.shared and one.shared for one in left):
                line.append(job)
            else:
                left.append(job)
        for at, job in enumerate(line):
            if job not in self.admitted and all(job.shared and ahead.shared for ahead in line[:at]):
                self.admitted.append(job)
                self.give_turn(job)
        if moved.key is None:
            self.give_turn(moved)
        ready = {job.owner for job in self.ready()}
        self.turns = {owner: turn for owner, turn in self.turns.items() if owner in ready}

    def give_turn(self, job: Job) -> None:
        if job.state == "waiting" and not job.exclusive and job.owner not in self.turns:
            self.turn += 1
            self.turns[job.owner] = self.turn

    def ready(self, *, exclusive: bool = False) -> list[Job]:
        return [
            job for job in self.jobs if job.state == "waiting" and job in self.admitted and job.exclusive is exclusive
        ]

    def running(self) -> list[Job]:
        return [job for job in self.jobs if job.state == "running"]

    def has_room(self, job: Job) -> bool:
        same = [other for other in self.running() if other.tool == job.tool]
        return job.tool_limit is None or len(same) < job.tool_limit

    def next(self) -> Job | None:
        running = self.running()
        if len(running) >= self.most or any(job.exclusive for job in running):
            return None
        ready = [job for job in self.ready() if self.has_room(job)]
        if barriers := self.ready(exclusive=True):
            older = [job for job in ready if self.jobs.index(job) < self.jobs.index(barriers[0])]
            return older[0] if older else None if running else barriers[0]
        return min(ready, key=lambda job: (self.turns[job.owner], self.jobs.index(job)), default=None)

    def start(self) -> list[Job]:
        started = []
        while (job := self.next()) is not None:
            job.state = "running"
            started.append(job)
            still = {other.owner for other in self.ready()}
            if self.turns.pop(job.owner, None) is not None and job.owner in still:
                self.turn += 1
                self.turns[job.owner] = self.turn
            elif job.owner in still:
                self.give_turn(next(other for other in self.ready() if other.owner == job.owner))
        return started

    def holds_up(self, job: Job) -> str:
        if job not in self.admitted:
            return "key"
        if job.exclusive or self.ready(exclusive=True) or any(other.exclusive for other in self.running()):
            return "exclusive"
        return "limit" if self.has_room(job) else "tool_limit"


def test_it_decides_as_one_that_looks_at_every_job_each_time() -> None:
    for seed in range(150):
        dice = random.Random(seed)
        most = dice.choice((1, 2, 2, 3, 5))
        scheduler, plain = Scheduler(most), Plain(most)
        twins: list[tuple[Job, Job]] = []
        rare = dice.random() < 0.5
        for _ in range(60):
            move = dice.choice(("add", "add", "release", "release", "finish", "finish", "give up"))
            if move == "add":
                tool = dice.choice(sorted(LIMIT_OF))
                key = dice.choice((None, None, "x", "y"))
                exclusive = not rare and dice.random() < 0.15
                facts = (tool, dice.randrange(4), key, dice.random() < 0.5, exclusive, LIMIT_OF[tool])
                twins.append((Job(*facts), Job(*facts)))
                scheduler.add(twins[-1][0])
                plain.add(twins[-1][1])
                continue
            states = {"release": ("held",), "finish": ("running",), "give up": ("held", "waiting")}[move]
            found = [twin for twin in twins if twin[1].state in states]
            if not found:
                continue
            one, other = dice.choice(found)
            act = "release" if move == "release" else "finish"
            started = getattr(scheduler, act)(one)
            expected = getattr(plain, act)(other)
            place = {id(job): at for at, twin in enumerate(twins) for job in twin}
            assert [place[id(job)] for job in started] == [place[id(job)] for job in expected], (seed, len(twins))
            for one, other in twins:
                assert one.state == other.state, seed
                if one.state == "waiting":
                    assert scheduler.holds_up(one) == plain.holds_up(other), seed
            assert scheduler.running == len(plain.running())
            assert scheduler.alive == sum(job.state != "over" for job in plain.jobs)
