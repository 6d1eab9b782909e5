"""What whole runs cost, beside a hand-written loop of httpx and orjson that is given the same bytes.

A usual run has three steps and six calls: two answers of a few words and three calls each, then one of text. Its model
speaks Chat Completions: the first token half a second after the request, then 60 a second; a call takes half a second.
Both loops read through one `httpx.AsyncClient`, whose transport is this model, on an event loop that has a core to
itself (`measure.OneCore`). So many at once are begun within five seconds, and each run is followed by another. *CPU* is
that of the process, loops and event loop together, per run. *Late* is a chunk by as much as the loop asked for the next
one after it was due; those count that were due in the five seconds in which all went on.

A turn and a call cost what one more of them adds to a response that is at hand. Steps have a call each, and an answer
that is at hand; the 30th and the 300th are the medians of the twenty around them. A run that is resumed has a journal.
Memory: a fresh process opens runs, lets each come to the middle of its second answer and wait there, and reads by how
much the resident set has grown; streams wait in the middle of their call, and their sources alone are taken off.

*Early*: calls of 3, 2 and 1 s in that order, each 67 tokens long, and twelve of text. *Behind its brace* is a tool's
first instruction from the moment at which the chunk that closes its arguments was there.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Any

import httpx
import orjson

from streamtools import Limits, Tool, agent_loop, tool

from .bodies import CHAT, RESPONSES
from .measure import Figure, OneCore, best_of
from .workloads import NEXT_ROUND, WIRES, body, consume, exhaust, note, source, text

Loop = Callable[..., Awaitable[object]]

PACE, FIRST_TOKEN_S, TOOL_S = 60, 0.5, 0.5
URL, QUESTION = "http://model/", {"role": "user", "content": "Which of the three has what we look for?"}
RUNS, MANY, STREAMS, DELTAS = 100, 300, 300, 50
SPREAD_S = 5.0
LAST = 50  # tokens of the last answer
STEPS = (10, 100, 1000)
EARLY_S = (3, 2, 1)
SIZE = 310  # characters of a call's arguments that take a second to be written
DEPENDENCIES = "import anyio, asyncio, orjson; from pydantic import BaseModel, TypeAdapter"
STATM = Path("/proc/self/statm")


@tool(effect="pure")
async def look_up(query: str) -> dict[str, Any]:
    """Look something up."""
    await asyncio.sleep(TOOL_S)
    return {"query": query, "found": 3}


def run() -> list[Figure]:
    """Measure runs, steps, memory, early calls and the import."""
    with asyncio.Runner() as runner:
        figures = [*_parts(runner), *runner.run(_steps()), *(_streams(runner, wire) for wire in WIRES)]
    with asyncio.Runner(loop_factory=OneCore) as runner:
        figures += [*runner.run(_usual()), *runner.run(_early())]
    return [*figures, *(_memory() if STATM.exists() else ()), _import()]


def answers(name: str = look_up.name) -> list[list[bytes]]:
    """Returns what the model answers in a usual run."""
    calls = [(name, f'{{"query": "what we look for, number {number}"}}') for number in range(3)]
    return [body(CHAT, text=text(12), calls=calls), body(CHAT, text=text(13), calls=calls), body(CHAT, text=text(LAST))]


# -- the model, and the two loops ------------------------------------------------------------------------------------


class _Model(httpx.AsyncBaseTransport):
    """Answers a request by how many results it has. Notes how late chunks were and when the arguments of the first
    answer's calls were whole, and holds the second answer if asked to."""

    def __init__(self, bodies: Sequence[Sequence[bytes]], pace: int | None = PACE, wire: str = CHAT) -> None:
        self.pace, self.late, self.whole = pace, list[tuple[float, float]](), dict[int, float]()
        self.hold: Callable[[], Awaitable[object]] | None = None
        self._paced = [list(_paced(chunks, wire)) for chunks in bodies]
        calls = ((at, re.search(rb'"tool_calls":\[\{"index":(\d)', chunk)) for at, chunk in enumerate(bodies[0]))
        last = {int(found[1]): at for at, found in calls if found}
        self._closes = {at: number for number, at in last.items()}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        number = len(re.findall(rb'"role":"tool"|"function_call_output"', request.content)) // 3
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=self._told(number))

    async def _told(self, number: int) -> AsyncIterator[bytes]:
        now, paced = asyncio.get_running_loop().time, self._paced[number]
        begun = now() + FIRST_TOKEN_S
        for at, (chunk, tokens) in enumerate(paced):
            if self.hold is not None and number == 1 and at == len(paced) // 2:
                await self.hold()
            due = begun + tokens / (self.pace or 1)
            await asyncio.sleep(max(0.0, due - now()) if self.pace else 0)
            if number == 0 and at in self._closes:
                self.whole[self._closes[at]] = now()
            yield chunk
            self.late.append((due, now() - due))


def _paced(chunks: Sequence[bytes], wire: str) -> Iterator[tuple[bytes, int]]:
    """Yields each chunk with the tokens up to it; heads and ends are none."""
    tokens, token = 0, rb'"(?:content|arguments)":"[^"]' if wire == CHAT else rb'"delta":"[^"]'
    for chunk in chunks:
        tokens += re.search(token, chunk) is not None
        yield chunk, tokens


async def by_hand(client: httpx.AsyncClient, one_tool: Tool = look_up) -> str:
    """Runs to the answer, as a loop written for this wire does."""
    messages: list[dict[str, Any]] = [QUESTION]
    while True:
        said, calls, rest = list[str](), dict[int, tuple[str, str, list[str]]](), b""
        async with client.stream("POST", URL, content=_request(messages, [one_tool.to(CHAT)])) as response:
            async for chunk in response.aiter_bytes():
                *blocks, rest = (rest + chunk).split(b"\n\n")
                for block in blocks:
                    if block == b"data: [DONE]":
                        continue
                    for choice in orjson.loads(block[6:])["choices"]:
                        delta = choice["delta"]
                        if content := delta.get("content"):
                            said.append(content)
                        for call in delta.get("tool_calls", ()):
                            if "id" in call:
                                calls[call["index"]] = (call["id"], call["function"]["name"], [])
                            calls[call["index"]][2].append(call["function"]["arguments"])
        if not calls:
            return "".join(said)
        made = [(call_id, name, "".join(parts)) for call_id, name, parts in calls.values()]
        results = await asyncio.gather(*(one_tool.fn(**orjson.loads(arguments)) for _, _, arguments in made))
        asked = [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in made
        ]
        messages.append({"role": "assistant", "content": "".join(said), "tool_calls": asked})
        messages += [
            {"role": "tool", "tool_call_id": call_id, "content": orjson.dumps(result).decode()}
            for (call_id, _, _), result in zip(made, results, strict=True)
        ]


async def by_us(client: httpx.AsyncClient, one_tool: Tool = look_up, wire: str = CHAT) -> str:
    """Runs to the answer by `agent_loop`."""

    async def ask(messages: Any, tools: Any) -> httpx.Response:
        return await client.send(client.build_request("POST", URL, content=_request(messages, tools)), stream=True)

    async with agent_loop(ask, [QUESTION], tools=[one_tool], wire=wire) as run:
        async for _ in run:
            pass
    outcomes = [one.outcome for turn in run.turns for one in turn.observations]
    assert outcomes == ["ok"] * 3 * (len(run.turns) - 1), "each call has run, once"
    return run.turn.text


def _request(messages: Any, tools: Any) -> bytes:
    return orjson.dumps({"model": "m", "stream": True, "messages": messages, "tools": tools})


async def _all(loop: Loop, model: _Model, count: int, spread_s: float = 0.0, rounds: int = 1) -> None:
    """Runs so many at once, which begin within a time, and each so often."""

    async def one(number: int) -> None:
        await asyncio.sleep(spread_s * number / count)
        for _ in range(rounds):
            await loop(client)

    async with httpx.AsyncClient(transport=model) as client, asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(one(number))


# -- a turn, a call, a run -------------------------------------------------------------------------------------------


def _given(wire: str) -> dict[str, Any]:
    return {"wire": wire, "tools": [look_up, note], "observers": []}


def _parts(runner: asyncio.Runner) -> list[Figure]:
    """What a turn, its first call and one more cost where all is at hand."""
    turns = {count: body(CHAT, text=["Hello"], calls=[(note.name, '{"query":"a"}')] * count) for count in (0, 1, 9)}

    async def many(chunks: Sequence[bytes]) -> None:
        for _ in range(50):
            await consume(source(chunks), **_given(CHAT))

    rivals = {str(count): lambda chunks=chunks: runner.run(many(chunks)) for count, chunks in turns.items()}
    none, one, nine = (took * 2e4 for took in best_of(rivals, repeats=9).values())
    costs = {"a turn without calls": none, "its first call": one - none, "one more call": (nine - one) / 8}
    return [Figure(name=f"{CHAT}: {name}", value=cost, unit="µs") for name, cost in costs.items()]


async def _usual() -> list[Figure]:
    """CPU and lateness by how many run at once: one, a hundred, three hundred."""
    figures: list[Figure] = []
    loops: dict[str, Loop] = {"by hand": by_hand, "agent_loop": by_us}
    for loop in loops.values():
        await _all(loop, _Model(answers(), pace=None), 10)
    for count, rounds in ((1, 9), (RUNS, 2), (MANY, 1)):
        costs, late = dict.fromkeys(loops, float("inf")), dict[str, list[float]]()
        for _ in range(rounds):
            for name, loop in loops.items():
                model, cpu, begun = _Model(answers()), time.process_time(), asyncio.get_running_loop().time()
                await _all(loop, model, count, SPREAD_S, 2)
                took = (time.process_time() - cpu) / count / 2 * 1e3
                if took < costs[name]:
                    steady = (one for due, one in model.late if SPREAD_S < due - begun < 2 * SPREAD_S)
                    costs[name], late[name] = took, sorted(steady)
        hand, ours = costs.values()
        hand_late, our_late = (found[int(len(found) * 0.99)] * 1e3 for found in late.values())
        told = f"{ours:.1f} ms a run, by hand {hand:.1f}"
        figures.append(Figure(name=f"{count} at once: CPU of a run", value=ours / hand, unit="x by hand", detail=told))
        told = f"by hand {hand_late:.1f} ms"
        figures.append(Figure(name=f"{count} at once: late, 99 of 100", value=our_late, unit="ms", detail=told))
    return figures


# -- steps -----------------------------------------------------------------------------------------------------------


async def _steps() -> list[Figure]:
    figures: list[Figure] = []
    calling, last = body(CHAT, text=text(5), calls=[(note.name, '{"query":"a"}')]), body(CHAT, text=text(5))
    asked: list[float] = []

    async def stepped(steps: int, **options: Any) -> float:
        asked.clear()

        async def ask(messages: Any, tools: Any) -> Any:
            asked.append(time.process_time())
            return source(calling if len(asked) < steps else last)

        begun = time.process_time()
        given: dict[str, Any] = {"max_steps": steps, "limits": Limits(max_repeated_calls=None), **options}
        async with agent_loop(ask, [QUESTION], tools=[note], wire=CHAT, **given) as run:
            async for _ in run:
                pass
        assert run.turn.text
        return time.process_time() - begun

    await stepped(3)
    for steps in STEPS:
        value = min([await stepped(steps) for _ in range(3 if steps < 1000 else 1)])
        figures.append(Figure(name=f"a run of {steps:,} steps", value=value, unit="s of CPU"))
    each = [after - before for before, after in pairwise(asked)]
    early, late = statistics.median(each[20:40]), statistics.median(each[290:310])
    told = f"{late * 1e3:.1f} ms, and {early * 1e3:.1f} ms"
    figures.append(Figure(name="the 300th step", value=late / early, unit="x the 30th", detail=told))
    with tempfile.TemporaryDirectory() as folder:
        kept = {"journal": str(Path(folder, "runs.db")), "run_id": "r"}
        await stepped(100, **kept)
        again = min([await stepped(100, **kept) for _ in range(3)])
        assert not asked, "the answers are on record"
    return [*figures, Figure(name="a run of 100 steps, answered, is resumed", value=again, unit="s of CPU")]


# -- many at once ----------------------------------------------------------------------------------------------------


def _streams(runner: asyncio.Runner, wire: str) -> Figure:
    chunks = _response(wire)

    async def concurrent() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(STREAMS):
                group.create_task(consume(source(chunks, NEXT_ROUND), **_given(wire)))

    async def sequential() -> None:
        for _ in range(STREAMS):
            await consume(source(chunks, NEXT_ROUND), **_given(wire))

    rivals = {"sequential": lambda: runner.run(sequential()), "concurrent": lambda: runner.run(concurrent())}
    best = best_of(rivals, repeats=3)
    told = f"{best['concurrent']:.2f} s of CPU, {best['sequential']:.2f} s one after the other"
    name, value = f"{wire}: {STREAMS:,} concurrent streams", best["concurrent"] / best["sequential"]
    return Figure(name=name, value=value, unit="x sequential", detail=told)


def _response(wire: str) -> list[bytes]:
    query = "a question of a hundred characters, give or take a few; " * 2
    return body(wire, text=text(DELTAS), calls=[(note.name, f'{{"query":"{query}"}}')])


def _memory() -> list[Figure]:
    ours, hand = (_kilobytes(what, MANY) for what in ("agent_loop", "by hand"))
    figures = [Figure(name="a run that waits", value=ours, unit="kB", detail=f"by hand {hand:.1f} kB")]
    for wire in WIRES:
        whole, alone = (_kilobytes(f"{what} {wire}", STREAMS) for what in ("pipeline", "source"))
        told = f"{whole:.1f} with the pipeline, {alone:.1f} for the source alone"
        figures.append(Figure(name=f"{wire}: a stream that waits", value=whole - alone, unit="kB", detail=told))
    return figures


def _kilobytes(what: str, count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.bench_runs", what]
    grown = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return grown / count / 1e3


async def _held(what: str) -> int:
    """Opens all, and returns by how many bytes the resident set grew until all of them were waiting."""
    gate, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def hold() -> None:
        waiting.release()
        await gate.wait()

    kind, _, wire = what.partition(" ")
    if kind in ("pipeline", "source"):
        count, chunks = STREAMS, _response(wire)
        read = partial(consume, **_given(wire)) if kind == "pipeline" else exhaust

        async def stopping() -> AsyncIterator[bytes]:
            middle = len(chunks) - 13
            async for chunk in source(chunks[:middle], NEXT_ROUND):
                yield chunk
            await hold()

        async def go(held: bool, number: int) -> None:
            async with asyncio.TaskGroup() as group:
                for _ in range(number):
                    group.create_task(read(stopping() if held else source(chunks)))
    else:
        count = MANY

        async def go(held: bool, number: int) -> None:
            model = _Model(answers(), pace=None)
            model.hold = hold if held else None
            await _all(by_us if what == "agent_loop" else by_hand, model, number)

    await go(held=False, number=20)
    gc.collect()
    before = _resident()
    held = asyncio.ensure_future(go(held=True, number=count))
    for _ in range(count):
        await waiting.acquire()
    for _ in range(10):  # until the consumers have taken what is there
        await asyncio.sleep(0)
    grown = _resident() - before
    held.cancel()
    return grown


def _resident() -> int:
    return int(STATM.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- early calls -----------------------------------------------------------------------------------------------------


async def _early() -> list[Figure]:
    ways = ((by_us, CHAT), (by_us, RESPONSES), (by_hand, CHAT))
    (chat, behind), (responses, _), (gathered, _) = [
        min([await _alone(loop, wire) for _ in range(5)]) for loop, wire in ways
    ]
    told = f"{chat:.2f} s, with `gather` {gathered:.2f}, on Responses {responses:.2f}"
    name = f"calls of {', '.join(map(str, EARLY_S))} s"
    return [
        Figure(name=f"{name}: behind its brace, the latest", value=max(behind) * 1e3, unit="ms", detail=told),
        Figure(name=f"{name}: shorter than with gather", value=gathered - chat, unit="s", detail=told),
        Figure(name=f"{name}: longer than on Responses", value=(chat / responses - 1) * 100, unit="%", detail=told),
    ]


async def _alone(loop: Loop, wire: str) -> tuple[float, list[float]]:
    """Returns how long a run takes, and how late each call began."""
    begun, now = dict[int, float](), asyncio.get_running_loop().time

    @tool(effect="pure")
    async def wait(seconds: int, why: str) -> str:
        """Take some seconds."""
        begun[EARLY_S.index(seconds)] = now()
        await asyncio.sleep(seconds)
        return why

    calls = [(wait.name, orjson.dumps({"seconds": one, "why": f"{one}" * SIZE}).decode()) for one in EARLY_S]
    model = _Model([body(wire, text=text(5), calls=calls, after=text(12)), body(wire, text=text(20))], wire=wire)
    async with httpx.AsyncClient(transport=model) as client:
        began = now()
        await (loop(client, wait) if loop is by_hand else loop(client, wait, wire))
        took = now() - began
    return took, [begun[number] - whole for number, whole in model.whole.items()]


# -- the import ------------------------------------------------------------------------------------------------------


def _import() -> Figure:
    best = dict.fromkeys(("", DEPENDENCIES, "from streamtools import agent_loop, pipeline, tool"), float("inf"))
    for _ in range(7):
        for statement in best:
            before = getrusage(RUSAGE_CHILDREN)
            subprocess.run([sys.executable, "-c", statement], check=True)
            after = getrusage(RUSAGE_CHILDREN)
            took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            best[statement] = min(best[statement], took)
    bare, theirs, ours = best.values()
    ours, theirs = ours - bare, theirs - bare
    told = f"{ours * 1e3:.0f} ms of CPU, {theirs * 1e3:.0f} for: {DEPENDENCIES}"
    return Figure(name="import streamtools", value=ours / theirs, unit="x its dependencies", detail=told)


if __name__ == "__main__":
    print(asyncio.run(_held(sys.argv[1])))
