"""The programs that `soak_interrupts` interrupts: each runs pipelines, and sends SIGINT to itself.

    python -m benchmarks.interrupted DIRECTORY SEED FIRST LAST [--whole] [--plain]

Everything about a trial is drawn from its seed and number: what runs, in which event loop, and when the signals come,
from before the block is entered until the closing of the loop. One line of JSON per trial goes to
``DIRECTORY/results``. A trial that hangs is dumped, every thread and every task, and ends the process.
"""

from __future__ import annotations

import asyncio
import atexit
import faulthandler
import gc
import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

HUNG_S = 10.0
LIFE_S = 0.3
GRACE_S = 1.0
RUNNERS = ("asyncio", "asyncio", "asyncio", "asyncio", "anyio", "trio")
PROGRAMS = ("read", "read", "leave", "trajectory", "open", "two", "busy")


class Trial:
    """What one trial is, and what came of it."""

    def __init__(self, seed: int, number: int, *, whole: bool, plain: bool) -> None:
        self.draw = draw = random.Random(f"{seed}:{number}")
        self.number = number
        self.whole = whole
        self.runner = draw.choice(RUNNERS)
        self.program = "plain" if plain else draw.choice(PROGRAMS)
        self.store = draw.choice(("memory", "sqlite"))
        self.endless = draw.random() < 0.2
        self.at = draw.uniform(0.0, LIFE_S)
        more = draw.randint(1, 5) if draw.random() < 0.5 else 0
        spread = draw.choice((0.0005, 0.004, 0.03))
        self.gaps = [draw.uniform(0.0, spread) for _ in range(more)]
        self.first_signal: float | None = None
        self.over = threading.Event()
        self.sent = threading.Event()
        self.release = threading.Event()
        self.seen: list[tuple[str, str]] = []  # what an observer was told, as kind and call
        self.turns: list[Callable[[], Any]] = []
        self.raised: str | None = None
        self.runs = count()

    def send(self) -> None:
        """The body of the thread that sends the signals."""
        time.sleep(self.at)
        self.first_signal = time.monotonic()
        if not self.over.is_set():
            os.kill(os.getpid(), signal.SIGINT)
            for gap in self.gaps:
                time.sleep(gap)
                if self.over.is_set():
                    break
                os.kill(os.getpid(), signal.SIGINT)
        self.sent.set()

    def report(self, ended: float) -> dict[str, Any]:
        announced = [call for kind, call in self.seen if kind == "ToolCallStart"]
        observed = [call for kind, call in self.seen if kind == "Observation"]
        missing = sorted(set(announced) - set(observed))
        twice = sorted({call for call in observed if observed.count(call) > 1})
        for turn in self.turns:
            built = turn()
            have = [seen.call_id for seen in built.observations]
            missing += [f"turn: {call.call_id}" for call in built.calls if call.call_id not in have]
        return {
            "trial": self.number,
            "runner": self.runner,
            "program": self.program,
            "signals": 1 + len(self.gaps),
            "announced": len(announced),
            "missing": missing,
            "twice": twice,
            "raised": self.raised,
            "took": None if self.first_signal is None else ended - self.first_signal,
            "first": self.first_signal,
        }


class Witness:
    """An observer of one run."""

    event_types = None

    def __init__(self, trial: Trial) -> None:
        self._seen = trial.seen
        self._run = next(trial.runs)
        self._numbers: set[int] = set()  # an observer that is interrupted while it is told is told again

    def on_event(self, event: Any) -> None:
        kind = type(event).__name__
        if kind in ("ToolCallStart", "Observation") and event.seq not in self._numbers:
            self._seen.append((kind, f"{self._run}/{event.step}/{event.call_id}"))
            self._numbers.add(event.seq)

    def around_tool(self, call_id: str) -> None:
        return None


def body(calls: list[tuple[str, str, str]], text: int = 2) -> list[bytes]:
    """A Chat Completions body, an event an item."""

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        said = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return b"data: " + json.dumps(said).encode() + b"\n\n"

    items = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": "word "}) for _ in range(text))]
    for index, (call_id, name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": arguments}
        items.append(chunk({"tool_calls": [{"index": index, "id": call_id, "type": "function", "function": function}]}))
    return [*items, chunk({}, "tool_calls" if calls else "stop"), b"data: [DONE]\n\n"]


async def stream(items: list[bytes], pause: float) -> AsyncIterator[bytes]:
    import anyio

    for item in items:
        await anyio.sleep(pause)
        yield item


def tools_of(trial: Trial) -> list[Any]:
    import anyio

    from streamtools import tool

    @tool(effect="pure")
    async def look(n: int) -> int:
        """Sleeps, and cleans up."""
        try:
            await anyio.sleep(n / 1000)
        finally:
            await anyio.sleep(n / 4000)
        return n

    @tool(effect="pure")
    def block(n: int) -> int:
        """Sleeps in a thread."""
        time.sleep(n / 1000)
        return n

    @tool(effect="once")
    async def spend(n: int) -> int:
        """Runs once."""
        await anyio.sleep(n / 1000)
        return n

    @tool(effect="pure")
    def never(n: int) -> int:
        """Never ends."""
        while not (trial.release.is_set() and not trial.whole):
            time.sleep(0.01)
        return n

    return [look, block, spend, never]


def calls_of(trial: Trial, most: int, longest_ms: int) -> list[tuple[str, str, str]]:
    names = ["look", "block", "spend", "look"]
    calls = []
    for number in range(trial.draw.randint(1, most)):
        arguments = f'{{"n": {trial.draw.randint(0, longest_ms)}}}'
        calls.append((f"c{number}", trial.draw.choice(names), arguments))
    if trial.endless:
        calls.insert(0, ("e", "never", '{"n": 0}'))
    return calls


def interrupted_main(trial: Trial, directory: str) -> Callable[[], Coroutine[Any, Any, None]]:
    """Returns the user's main function."""
    if trial.program == "plain":
        return partial(plain, trial)
    import anyio

    from streamtools import Limits, Trajectory, agent_loop, pipeline
    from streamtools.dispatch import MemoryStore, SqliteStore

    tools = tools_of(trial)
    store = MemoryStore() if trial.store == "memory" else SqliteStore(Path(directory, f"s{trial.number}.db"))
    options: dict[str, Any] = {"store": store, "limits": Limits(cancel_grace=GRACE_S)}
    pause = trial.draw.choice((0.0, 0.002, 0.01))

    def made(most: int = 8, longest_ms: int = 250) -> Any:
        block = pipeline(
            stream(body(calls_of(trial, most, longest_ms)), pause), tools=tools, observers=[Witness(trial)], **options
        )
        trial.turns.append(lambda: block.turn)
        return block

    async def read(most: int = 8, longest_ms: int = 250) -> None:
        async with made(most, longest_ms) as events:
            async for _ in events:
                pass

    async def leave() -> None:
        async with made() as events:
            async for _ in events:
                await anyio.sleep(trial.draw.uniform(0, 0.03))
                if trial.draw.random() < 0.1:
                    break

    async def loop() -> None:
        def ask(messages: Any, tools: Any) -> Any:
            return stream(body(calls_of(trial, 4, 60)), pause)

        run = Trajectory(observers=[Witness(trial)])
        async with agent_loop(
            ask, [], tools=tools, wire="openai.chat_completions", trajectory=run, max_steps=4, **options
        ) as steps:
            async for _ in steps:
                pass

    async def opened() -> None:
        async with anyio.create_task_group() as group:
            events = made().open(group)
            try:
                async for _ in events:
                    pass
            finally:
                await events.aclose()

    async def two() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            group.start_soon(read)

    busy = partial(read, 30, 3)
    programs = {"read": read, "leave": leave, "trajectory": loop, "open": opened, "two": two, "busy": busy}
    one = programs[trial.program]

    async def again() -> None:
        until = time.monotonic() + trial.at + trial.draw.uniform(-0.05, 0.3)
        await one()
        while time.monotonic() < until:
            await one()

    return again


async def plain(trial: Trial) -> None:
    """The same without streamtools: what the event loop itself makes of the signals."""
    import anyio

    async def look(seconds: float) -> None:
        try:
            await anyio.sleep(seconds)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(seconds / 4)

    while True:
        async with anyio.create_task_group() as group:
            for _ in range(trial.draw.randint(1, 30)):
                group.start_soon(look, trial.draw.uniform(0, 0.25 if trial.number % 2 else 0.003))


def run(trial: Trial, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    if trial.runner == "trio":
        import trio

        trio.run(main)
    elif trial.runner == "anyio":
        import anyio

        anyio.run(main)
    else:
        asyncio.run(main())


def watch(trial: Trial, done: threading.Event) -> None:
    """Dumps a trial that hangs, and ends the process."""
    if done.wait(HUNG_S + LIFE_S):
        return
    print(f"\nHUNG {trial.number} {trial.runner} {trial.program} gaps {trial.gaps}", file=sys.stderr, flush=True)
    faulthandler.dump_traceback(all_threads=True)
    for task in [found for found in gc.get_objects() if isinstance(found, asyncio.Task) and not found.done()]:
        print(repr(task)[:300], file=sys.stderr)
        with suppress(Exception):
            task.print_stack(file=sys.stderr)
    sys.stderr.flush()
    os._exit(3)


def interrupted(trial: Trial, directory: str) -> float:
    """Runs a trial, catching what comes out; returns when it was over."""
    main = interrupted_main(trial, directory)
    threading.Thread(target=trial.send, daemon=True).start()
    ended = 0.0
    try:
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            run(trial, main)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            ended = time.monotonic()
            trial.over.set()
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if not is_interrupt(error):
            trial.raised = f"{type(error).__name__}: {error}"
            traceback.print_exc()
    ended = ended or time.monotonic()
    trial.over.set()
    trial.sent.wait()
    trial.release.set()
    return ended


def is_interrupt(error: BaseException) -> bool:
    """Whether that is what a program's own task groups make of a KeyboardInterrupt."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_interrupt(inner) for inner in error.exceptions)
    return isinstance(error, KeyboardInterrupt)


def settle() -> None:
    """Does what the end of the interpreter would do."""
    gc.collect()
    if "streamtools" in sys.modules:
        from streamtools.dispatch.event_loop import settle_open

        settle_open()


def last_words(trial: Trial, write: Callable[[Trial, float], None]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    write(trial, time.monotonic())


def main() -> None:
    directory, seed, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    whole, plain = "--whole" in sys.argv, "--plain" in sys.argv
    results = Path(directory, "results")

    def write(trial: Trial, ended: float) -> None:
        with results.open("a") as file:
            file.write(json.dumps(trial.report(ended)) + "\n")

    if not whole:  # many share the process: an import that is interrupted would spoil those behind it
        import anyio._backends._asyncio
        import anyio._backends._trio  # noqa: F401
        import trio  # noqa: F401

        import streamtools.front.runs  # noqa: F401

    for number in range(first, last):
        trial = Trial(seed, number, whole=whole, plain=plain)
        done = threading.Event()
        print(f"TRIAL {number} {trial.runner} {trial.program}", file=sys.stderr, flush=True)
        if whole:  # a program of its own: nobody catches anything
            # Before streamtools is imported: called after what that registers.
            atexit.register(last_words, trial, write)
            main = interrupted_main(trial, directory)
            threading.Thread(target=watch, args=(trial, done), daemon=True).start()
            threading.Thread(target=trial.send, daemon=True).start()
            run(trial, main)
            return
        threading.Thread(target=watch, args=(trial, done), daemon=True).start()
        ended = interrupted(trial, directory)
        settle()
        write(trial, ended)
        done.set()


if __name__ == "__main__":
    main()
