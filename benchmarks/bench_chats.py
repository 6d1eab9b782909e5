"""What a run costs that its pages join: per event, per reader, at a late join, and in its log.

All requests are made in this process, by an ASGI server that does nothing, so that no figure has a server's own work.
The model's stream waits a round of the event loop before each of its deltas, so that no reader gets two events at once
that it could join but for those of the milliseconds in which readers are not woken again.

CPU per event: process time of a run of 20,000 deltas that one reader reads, over that of the same run read and encoded
in a loop, in pairs that take turns. Readers: what one adds to the memory that Python has allocated, beyond
one of an event stream in ten lines of Starlette. Readers that stand still may not slow a run. A body that is posted
holds the event loop for so much CPU at a time. A late joiner has its first byte in wall time (99 of 100 joins). The log
takes batches of 64.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.responses import StreamingResponse

from streamtools import agent_loop
from streamtools.dispatch import Journal
from streamtools.durable.records import Put
from streamtools.events import TextDelta
from streamtools.integrations.asgi import EventStreamResponse
from streamtools.web import Chats, OwnEvents
from streamtools.web.encoding import framed
from streamtools.web.log import RunLog
from streamtools.web.ui_requests import read_ui_request

from .bodies import CHAT
from .measure import Figure, best_of
from .workloads import NEXT_ROUND, body, source, text

DELTAS, PAIRS = 10_000, 5
READERS, READ_DELTAS, STILL_PAIRS = 1000, 100, 2
JOINS = 200
BATCH, BATCHES = 64, 400
TURNS, CHATS, OPEN = 1_000, 50_000, 10


def run(
    deltas: int = DELTAS, readers: int = READERS, joins: int = JOINS, turns: int = TURNS, chats: int = CHATS
) -> list[Figure]:
    """Measure the events, the readers, the joins, the log, long conversations, and many."""
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures += _posted()
        figures += asyncio.run(_events(folder, deltas))
        figures += asyncio.run(_log(folder))
        figures += asyncio.run(_joins(folder, deltas, joins))
        figures += asyncio.run(_still(folder, deltas, readers))
        figures += asyncio.run(_readers(folder, readers))
        figures += asyncio.run(_long(folder, turns))
        figures += asyncio.run(_recovered(folder, chats))
    return figures


# -- bodies that are posted --------------------------------------------------------------------------------------------


def _posted() -> list[Figure]:
    said = [{"id": f"m{at}", "role": "user", "parts": [{"type": "text", "text": "x" * 130}]} for at in range(2_000)]
    body = json.dumps({"id": "k", "messages": said}).encode()
    name = f"useChat with 2,000 messages ({len(body) / 1e6:.1f} MB): holds the event loop"
    best = best_of({"read": lambda: read_ui_request(body)}, repeats=9, clock=time.thread_time)
    return [Figure(name=name, value=best["read"] * 1e3, unit="ms")]


# -- a program, and a server that does nothing -------------------------------------------------------------------------


class _Program:
    """Conversations with a model that writes `deltas`, and waits before its end until `held` is set; if it is gated,
    also after its first chunk, until `gate` is set."""

    def __init__(self, path: Path, deltas: int, *, is_held: bool = False, is_gated: bool = False) -> None:
        self.chunks = body(CHAT, text=text(deltas))
        self.held, self.gate, self.is_written = asyncio.Event(), asyncio.Event(), asyncio.Event()
        if not is_held:
            self.held.set()
        if not is_gated:
            self.gate.set()
        self.chats = Chats(journal=path, run=self._run)
        self.app = self.chats.app(may=lambda request: True)

    def _run(self, chat: Any) -> Any:
        return agent_loop(self.ask, chat.messages(CHAT), wire=CHAT, tools=[], **chat.options)

    async def ask(self, messages: Any, tools: Any) -> AsyncIterator[bytes]:
        async for chunk in source(self.chunks[:-2], NEXT_ROUND):
            yield chunk
            await self.gate.wait()
        self.is_written.set()
        await self.held.wait()
        for chunk in self.chunks[-2:]:
            yield chunk

    def loop(self) -> Any:
        return agent_loop(self.ask, [{"role": "user", "content": "Write."}], wire=CHAT, tools=[])

    async def begin(self, chat_id: str, send: Any) -> None:
        await _served(self.app, "POST", f"/{chat_id}/events", send, _message(chat_id, "m", "Write."))

    async def over(self) -> None:
        """Waits until no run is there, nor its writing."""
        while self.chats._live:
            await NEXT_ROUND()

    async def join(self, chat_id: str, send: Any) -> None:
        await _served(self.app, "GET", f"/{chat_id}/events", send)


def _message(chat_id: str, message_id: str, text: str) -> bytes:
    message = {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}
    return json.dumps({"id": chat_id, "messages": [message], "trigger": "submit-message"}).encode()


async def _served(app: Any, method: str, path: str, send: Any, body: bytes = b"") -> None:
    given = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return given.pop() if given else await asyncio.Event().wait()

    scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
    await app(scope, receive, send)


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110  # what is awaited has no event
        await asyncio.sleep(0.05)


async def _to_nobody(message: Any) -> None:
    return


# -- events ------------------------------------------------------------------------------------------------------------


async def _events(folder: Path, deltas: int) -> list[Figure]:
    program = _Program(folder / "events.db", deltas)
    count = 0

    async def alone() -> None:
        encode = OwnEvents()
        async with program.loop() as events:
            async for event in events:
                b"".join([framed(one, id=event.seq) for one in encode(event)])

    async def conversation() -> None:
        nonlocal count
        count += 1
        await program.begin(f"k{count}", _to_nobody)
        await program.over()

    async def response() -> None:
        await _served(EventStreamResponse(program.loop(), encode=OwnEvents()), "GET", "/", _to_nobody)

    rivals: dict[str, Callable[[], Awaitable[None]]] = {"a run of Chats": conversation, "EventStreamResponse": response}
    took: dict[str, list[float]] = {name: [] for name in (*rivals, "alone")}
    for turn in range(PAIRS + 1):
        for name, rival in ({"alone": alone} | rivals).items():
            gc.collect()
            began = time.process_time()
            await rival()
            if turn:
                took[name].append(time.process_time() - began)
    figures = []
    for name in rivals:
        ratios = [one / other for one, other in zip(took[name], took["alone"], strict=True)]
        each, bare = (statistics.median(took[which]) / deltas * 1e6 for which in (name, "alone"))
        detail = f"{each:.1f} µs an event, {bare:.1f} alone; {min(ratios):.2f} to {max(ratios):.2f}"
        name = f"{name}, one reader, CPU over run and encoding alone"
        figures.append(Figure(name=name, value=statistics.median(ratios), unit="x", detail=detail))
    return figures


# -- readers -----------------------------------------------------------------------------------------------------------


async def _readers(folder: Path, readers: int) -> list[Figure]:
    """Memory while all of them wait for more, then what each has read at the end."""
    program = _Program(folder / "readers.db", READ_DELTAS, is_held=True)
    bodies: list[list[bytes]] = [[] for _ in range(readers)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.begin("k", _to_nobody))
        await program.is_written.wait()
        tracemalloc.start()
        ours, read = await _memory(lambda send: program.join("k", send), bodies)
        plain_bodies: list[list[bytes]] = [[] for _ in range(readers)]
        theirs, plain = await _memory(lambda send: _served(_ten_lines(program.held), "GET", "/", send), plain_bodies)
        tracemalloc.stop()
        program.held.set()
        await asyncio.gather(*read, *plain)
    whole = "".join(text(READ_DELTAS))
    each = Figure(
        name=f"memory of one of {readers} readers, over ten lines of Starlette",
        value=(ours - theirs) / 1e3,
        unit="kB",
        detail=f"{ours / 1e3:.1f} kB, and {theirs / 1e3:.1f} kB",
    )
    late = sum(_text(body) != whole for body in bodies)
    return [
        each,
        Figure(name=f"of {readers} late readers, with another text", value=late, unit=""),
        await _live_readers(folder, readers, whole),
    ]


async def _live_readers(folder: Path, readers: int, whole: str) -> Figure:
    """Readers from the first event on, each of which is sent every event."""
    program = _Program(folder / "live.db", READ_DELTAS, is_gated=True)
    bodies = [list[bytes]() for _ in range(readers)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.begin("k", _to_nobody))
        await asyncio.sleep(0.2)
        for one in bodies:
            tasks.create_task(program.join("k", _into(one)))
        await _until(lambda: all(bodies))
        began = time.process_time()
        program.gate.set()
    took = time.process_time() - began
    frames = sum(len(one) for one in bodies)
    return Figure(
        name=f"of {readers} live readers, with another text",
        value=sum(_text(one) != whole for one in bodies),
        unit="",
        detail=f"{frames} bodies of {READ_DELTAS} deltas, {took / frames * 1e6:.0f} µs each",
    )


def _into(bodies: list[bytes]) -> Any:
    async def send(message: Any) -> None:
        if message.get("body"):
            bodies.append(message["body"])

    return send


def _text(bodies: Sequence[bytes]) -> str:
    lines = b"".join(bodies).decode().split("\n")
    events = [json.loads(line[6:]) for line in lines if line.startswith("data: ")]
    return "".join(event["text"] for event in events if event["event"] == "text_delta")


async def _memory(serve: Callable[[Any], Any], bodies: Sequence[list[bytes]]) -> tuple[float, list[Any]]:
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    tasks: list[Any] = [asyncio.ensure_future(serve(_into(one))) for one in bodies]
    await _until(lambda: all(bodies))
    gc.collect()
    return (tracemalloc.get_traced_memory()[0] - before) / len(bodies), tasks


def _ten_lines(held: asyncio.Event) -> Any:
    async def events() -> AsyncIterator[bytes]:
        yield b"data: begun\n\n"
        await held.wait()
        yield b"data: ended\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def _still(folder: Path, deltas: int, readers: int) -> list[Figure]:
    """A run with readers that make no room, over the same run without any."""
    ratios = []
    for turn in range(STILL_PAIRS + 1):
        took = []
        for count in (0, readers):
            program = _Program(folder / f"still{turn}-{count}.db", deltas, is_gated=True)
            async with _standing(program, count) as run:
                began = time.process_time()
                await run()
                took.append(time.process_time() - began)
        if turn:
            ratios.append(took[1] / took[0])
    detail = f"{min(ratios):.2f} to {max(ratios):.2f}"
    name = f"a run with {readers} readers that stand still, CPU over one without"
    return [Figure(name=name, value=statistics.median(ratios), unit="x", detail=detail)]


@asynccontextmanager
async def _standing(program: _Program, readers: int) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    room, standing = asyncio.Event(), 0

    async def send(message: Any) -> None:
        nonlocal standing
        if message["type"] == "http.response.body":
            standing += 1
            await room.wait()

    async def run() -> None:
        program.gate.set()
        await program.over()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(program.begin("k", send))
        await _until(lambda: standing > 0)
        for _ in range(readers):
            tasks.create_task(program.join("k", send))
        await _until(lambda: standing > readers)
        gc.collect()
        yield run
        room.set()


# -- late joiners ------------------------------------------------------------------------------------------------------


async def _joins(folder: Path, deltas: int, joins: int) -> list[Figure]:
    program = _Program(folder / "here.db", deltas, is_held=True)
    begun = asyncio.ensure_future(program.begin("k", _to_nobody))
    await program.is_written.wait()
    await asyncio.sleep(0.5)
    here = await _joined(program, joins)
    program.held.set()
    await begun
    command = [sys.executable, "-m", "benchmarks.bench_chats", str(folder / "there.db"), str(deltas)]
    other = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert other.stdin is not None
    assert other.stdout is not None
    assert (await other.stdout.readline()).strip() == b"written"
    there = await _joined(_Program(folder / "there.db", 0), joins)
    other.stdin.close()
    await other.wait()
    name = f"first byte of a late joiner of {deltas} events, 99 of {{}}, {{}}".format
    return [
        Figure(
            name=name(joins, place),
            value=took[int(len(took) * 0.99)] * 1e3,
            unit="ms",
            detail=f"median {statistics.median(took) * 1e3:.1f} ms, {cpu * 1e3:.1f} ms of CPU",
        )
        for place, (took, cpu) in (("from memory", here), ("from the log of another process", there))
    ]


async def _joined(program: _Program, joins: int) -> tuple[list[float], float]:
    """Returns the times to a first byte, sorted, and the median of the CPU time."""
    took, cpu = [], []
    for _ in range(joins):
        first = asyncio.Event()

        async def send(message: Any, first: asyncio.Event = first) -> None:
            if message.get("body"):
                first.set()

        began, worked = time.perf_counter(), time.process_time()
        reading = asyncio.ensure_future(program.join("k", send))
        await first.wait()
        took.append(time.perf_counter() - began)
        cpu.append(time.process_time() - worked)
        reading.cancel()
        await asyncio.wait([reading])
    return sorted(took), statistics.median(cpu)


async def _hold(path: Path, deltas: int) -> None:
    """Go on with a run in a process of its own until its standard input is closed."""
    program = _Program(path, deltas, is_held=True)
    begun = asyncio.ensure_future(program.begin("k", _to_nobody))
    await program.is_written.wait()
    await asyncio.sleep(0.5)
    print("written", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    program.held.set()
    await begun
    await program.chats.aclose()


# -- the log -----------------------------------------------------------------------------------------------------------


async def _log(folder: Path) -> list[Figure]:
    journal = Journal(folder / "log.db")
    lease, _ = await journal.begin("k/1", "first", None)
    log = RunLog(journal.store.records)
    words = text(BATCH * BATCHES)
    here, there, whole = [], [], []
    for at in range(BATCHES):
        first = at * BATCH
        batch = [TextDelta(word, seq=first + place, step=0) for place, word in enumerate(words[first : first + BATCH])]
        began, worked, own = time.perf_counter(), time.process_time(), time.thread_time()
        waiter = log.append("k/1", batch, lease)
        here.append(time.perf_counter() - began)
        await waiter()
        there.append((time.process_time() - worked) - (time.thread_time() - own))
        whole.append(time.perf_counter() - began)
    await lease.end(None, [])()
    each = {name: statistics.median(took) / BATCH * 1e6 for name, took in (("here", here), ("there", there))}
    detail = f"{statistics.median(whole) / BATCH * 1e6:.1f} µs until it is on disk"
    name = f"RunLog.append of {BATCH} events, each in the thread of the "
    return [
        Figure(name=f"{name}event loop", value=each["here"], unit="µs"),
        Figure(name=f"{name}store, CPU", value=each["there"], unit="µs", detail=detail),
    ]


# -- a long conversation, and many of them -----------------------------------------------------------------------------


async def _long(folder: Path, turns: int) -> list[Figure]:
    program = _Program(folder / "long.db", 20)
    asked: dict[str, list[float]] = {"long": [], "empty": [], "read": []}

    async def say(kind: str, chat_id: str, number: int) -> None:
        given = _message(chat_id, f"m{number}", "Write. " * 40)
        began = time.process_time()
        await _served(program.app, "POST", "/", _to_nobody, given)
        asked[kind].append(time.process_time() - began)

    for number in range(turns):
        await say("long", "k", number)
    asked["long"].clear()
    for number in range(PAIRS * 3):
        await say("long", "k", turns + number)
        await say("empty", f"new{number}", 0)
        began = time.process_time()
        await _served(program.app, "GET", "/k", _to_nobody)
        asked["read"].append(time.process_time() - began)
    took = {kind: statistics.median(each) * 1e3 for kind, each in asked.items()}
    detail = f"{took['long']:.1f} ms, {took['empty']:.1f} into an empty one"
    name = f"A conversation of {turns} turns"
    return [
        Figure(name=f"{name}: CPU of a GET", value=took["read"], unit="ms"),
        Figure(name=f"{name}: CPU of a POST", value=took["long"] / took["empty"], unit="x", detail=detail),
    ]


async def _recovered(folder: Path, chats: int) -> list[Figure]:
    """Copies of a conversation that is over, and some whose process has died."""
    program = _Program(folder / "many.db", 20, is_held=True)
    for number in range(OPEN):
        begun = asyncio.ensure_future(program.begin(f"open{number}", _to_nobody))
        await program.is_written.wait()
        program.is_written.clear()
    await program.chats.aclose()
    await begun
    program.held.set()
    await program.begin("over", _to_nobody)
    records = program.chats.journal.store.records
    for kind in ("chat", "turn", "said", "added", "answer", "log", "due"):
        for record in await records.scan((kind,)):
            if "over" in record.key:
                for at in range(0, chats, 1_000):
                    keys = [tuple(f"c{at + n}" if one == "over" else one for one in record.key) for n in range(1_000)]
                    await records.commit(*(Put(key, record.value) for key in keys))
    began = time.perf_counter()
    found = await program.chats.recover()
    took = time.perf_counter() - began
    assert len(found) == OPEN, found
    await program.over()
    return [Figure(name=f"recover() of {chats} conversations, {OPEN} open", value=took * 1e3, unit="ms")]


if __name__ == "__main__":
    asyncio.run(_hold(Path(sys.argv[1]), int(sys.argv[2])))
