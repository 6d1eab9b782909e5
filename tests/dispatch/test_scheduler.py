"""The scheduler alone: whose turn it is, and histories beside one that looks at every job each time."""

from __future__ import annotations

import random
import time
from collections.abc import Hashable

from line_counts import steps

from streamtools.dispatch.pool import Job, Scheduler

LIMIT_OF = {"free": None, "one": 1, "two": 2}


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
            moved(scheduler, plain, twins, "release" if move == "release" else "finish", one, other)
        for one, other in twins:  # in the end everybody gets to run, and nothing is left
            if one.state == "held":
                moved(scheduler, plain, twins, "release", one, other)
        while found := [twin for twin in twins if twin[0].state == "running"]:
            moved(scheduler, plain, twins, "finish", *found[0])
        assert {one.state for one, _ in twins} <= {"over"}
        assert not any(vars(scheduler)[name] for name in ("_keys", "_owners", "_groups", "_barriers"))


def moved(scheduler: Scheduler, plain: Plain, twins: list[tuple[Job, Job]], act: str, one: Job, other: Job) -> None:
    """Do the same to both, and see that nothing tells them apart; a second time changes nothing."""
    started, expected = getattr(scheduler, act)(one), getattr(plain, act)(other)
    place = {id(job): at for at, twin in enumerate(twins) for job in twin}
    assert [place[id(job)] for job in started] == [place[id(job)] for job in expected], len(twins)
    assert getattr(scheduler, act)(one) == []
    for one, other in twins:
        assert one.state == other.state
        if one.state == "waiting":
            assert scheduler.holds_up(one) == plain.holds_up(other)
    assert scheduler.running == len(plain.running())
    assert scheduler.alive == sum(job.state != "over" for job in plain.jobs)
