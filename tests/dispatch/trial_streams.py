"""Random Chat Completions streams for trials: what a run shows of one, with trials and without."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, fields
from typing import Any

import anyio
import anyio.lowlevel
from streams import Seeing, chat_chunk, sse

from streamtools import Limits, Retry, Tool, ToolContext, ToolError, Trajectory, pipeline, tool
from streamtools.content import FinalResult
from streamtools.dispatch import CallPool
from streamtools.events import (
    Event,
    Observation,
    StreamWarning,
    TextDelta,
    ToolProgress,
    ToolStarted,
)

__all__ = ["Program", "Ran", "ran", "shown"]

BODIES = ("value", "error", "raise", "progress", "pause", "generator", "again", "mutate")
_TIMES = {"seq", "causes", "time", "duration", "waits", "tried", "requested_at", "_source", "failed_attempts"}
_RUNNING = (ToolStarted, ToolProgress, Observation)


@dataclass
class Bodies:
    """The tools of one run, and how often their bodies have begun and ended."""

    begun: Counter[str] = field(default_factory=Counter)
    alive: int = 0

    def tools(self) -> list[Tool[..., Any]]:
        async def body(n: int, what: str, ctx: ToolContext, more: list[int]) -> Any:
            self.begun[ctx.call_id] += 1
            self.alive += 1
            try:
                return await _ends(n, what, ctx, more)
            finally:
                self.alive -= 1

        @tool(effect="pure")
        async def look(n: int, what: str, ctx: ToolContext, more: list[int] = []) -> Any:
            """Look."""
            return await body(n, what, ctx, more)

        @tool(effect="pure", retries=1, retry_delay_s=1e-6)
        async def again(n: int, what: str, ctx: ToolContext, more: list[int] = []) -> Any:
            """Look again."""
            return await body(n, what, ctx, more)

        @tool(effect="pure")
        async def plain(n: int, what: str = "value") -> int:
            """Look, without a context."""
            self.begun[f"plain {n}"] += 1
            return n

        @tool(effect="pure")
        async def each(n: int, what: str, ctx: ToolContext) -> AsyncIterator[int]:
            """Look at each."""
            self.begun[ctx.call_id] += 1
            for number in range(n % 3):
                yield number
            yield FinalResult(n)  # type: ignore[misc]

        @tool(effect="pure", exclusive=True)
        async def alone(n: int, what: str, ctx: ToolContext) -> Any:
            """Look alone."""
            return await body(n, what, ctx, [])

        @tool(effect="pure", conflict_key="n")
        async def keyed(n: int, what: str, ctx: ToolContext) -> Any:
            """Look at one thing."""
            return await body(n, what, ctx, [])

        @tool
        async def act(n: int, what: str, ctx: ToolContext) -> Any:
            """Act."""
            return await body(n, what, ctx, [])

        return [look, again, plain, each, alone, keyed, act]


async def _ends(n: int, what: str, ctx: ToolContext, more: list[int]) -> Any:
    match what:
        case "error":
            raise ToolError(f"no {n}")
        case "raise":
            raise ValueError(n)
        case "progress":
            ctx.progress(n)
            ctx.progress(-n)
        case "pause":
            await anyio.lowlevel.checkpoint()
        case "again" if ctx.attempt == 1:
            raise ValueError(n)
        case "mutate":
            more.append(n)
        case "forever":
            await anyio.sleep_forever()
        case _:
            pass
    return [n, *more]


class Program:
    """A stream, what its reader does, and the options of its pipeline, all from one seed."""

    def __init__(self, seed: int) -> None:
        dice = self.dice = random.Random(seed)
        # Where one failure cancels the others, times decide which ones, unless no body takes any.
        self.is_instant = dice.random() < 0.2
        self.items: list[list[bytes]] = [self._items(dice) for _ in range(2)]
        self.fails = dice.random() < 0.15
        self.options: dict[str, Any] = {"on_tool_error": "cancel"} if self.is_instant else {}
        if dice.random() < 0.2:
            self.options["limits"] = Limits(max_concurrency=dice.choice([1, 2]))
        elif dice.random() < 0.2:
            self.options["limits"] = Limits(call_budget=dice.choice([1, 2]))
        elif dice.random() < 0.1:
            self.options["limits"] = Limits(max_repeated_calls=1)
        if dice.random() < 0.2:
            self.options["on_source_error"] = "drain"
        if dice.random() < 0.2:
            self.options["start"] = dice.choice(["early", "turn_end", "pure", "manual"])
        if dice.random() < 0.1:
            self.options["pool"] = "shared"
        self.retries = dice.random() < 0.2
        if self.retries and self.options.get("start") in ("early", "manual"):
            del self.options["start"]

    def _items(self, dice: random.Random) -> list[bytes]:
        payloads = [chat_chunk({"role": "assistant", "content": ""})]
        calls = [_Written(dice, number, self.is_instant) for number in range(dice.randint(1, 3))]
        if dice.random() < 0.5:  # one after the other, as most models write
            pieces = [piece for call in calls for piece in call.pieces]
        else:
            waiting = [list(call.pieces) for call in calls]
            pieces = []
            while any(waiting):
                pieces.append(dice.choice([left for left in waiting if left]).pop(0))
        self.forever = any(call.what == "forever" for call in calls)
        payloads += [chat_chunk({"tool_calls": [piece]}) for piece in pieces]
        for _ in range(dice.choice([0, 0, 1])):
            at = dice.randint(1, len(payloads))
            payloads.insert(at, chat_chunk({"content": dice.choice(["hm", f"CANCEL c{dice.randint(0, 2)}"])}))
        ends = dice.random()
        if ends < 0.12:
            del payloads[dice.randint(1, len(payloads)) :]
            return sse(payloads)
        if ends < 0.2 or self.forever:
            payloads.insert(dice.randint(1, len(payloads)), chat_chunk({"content": "LEAVE"}))
        payloads.append(chat_chunk({}, dice.choice(["tool_calls"] * 6 + ["stop", "length", "content_filter"])))
        body = [*sse(payloads), b"data: [DONE]\n\n"]
        while dice.random() < 0.4 and len(body) > 2:  # several events in one chunk
            at = dice.randrange(len(body) - 1)
            both = body[at] + body[at + 1]
            if b"CANCEL" not in both and b"LEAVE" not in both:  # the reader acts before more comes
                body[at : at + 2] = [both]
        return body


class _Written:
    """One call, in pieces."""

    def __init__(self, dice: random.Random, number: int, is_instant: bool) -> None:
        self.what = dice.choice(BODIES[:4] if is_instant else BODIES) if dice.random() > 0.02 else "forever"
        names = ["look"] * 4 + ["plain", "alone", "keyed", "act"]
        name = dice.choice(names if is_instant else [*names, "again", "each"])
        text = f'{{"n": {dice.choice(["1", "2", "7", "true"]) if dice.random() > 0.05 else chr(34) * 2}, '
        text += f'"what": "{self.what}"'
        if name in ("look", "again") and dice.random() < 0.3:
            text += ', "more": [1, 2]'
        text += dice.choice(["}"] * 8 + ["} ", "}\n\n", "}}", '}{"n": 3}', "", ', "s": "}"}', "}" + text + "}"])
        cuts = sorted(dice.randint(0, len(text)) for _ in range(dice.randint(0, 4)))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        call_id = f"c{number}" if dice.random() > 0.05 else None
        head: dict[str, Any] = {"index": number, "type": "function", "function": {"name": name, "arguments": ""}}
        if call_id is not None:
            head["id"] = call_id
        if dice.random() < 0.2:
            head["function"]["arguments"] = parts.pop(0)
        self.pieces = [head, *({"index": number, "function": {"arguments": part}} for part in parts)]
        if dice.random() < 0.1 and len(self.pieces) > 1:
            dice.choice(self.pieces[1:])["id"] = dice.choice(["other", f"c{number}"])
        if dice.random() < 0.1:  # a gateway sends the call again, whole
            again = {**head, "function": {"name": name, "arguments": text}}
            self.pieces.append(again)
        if dice.random() < 0.1:  # white space of its own
            self.pieces.append({"index": number, "function": {"arguments": "  "}})


@dataclass
class Ran:
    events: list[Event]
    messages: list[Any]
    error: str | None
    bodies: Bodies
    begun_at_end: Counter[str]


async def ran(program: Program, *, trials: bool) -> Ran:
    bodies, seeing, asked = Bodies(), Seeing(), 0
    run = Trajectory(run_id="r", observers=[seeing], default_observers=False)

    async def stream() -> AsyncIterator[bytes]:
        nonlocal asked
        items = program.items[min(asked, 1)]
        asked += 1
        for item in items:
            for _ in range(8):  # the reader reads, trials go on, and what is due to stop stops
                await anyio.lowlevel.checkpoint()
            yield item
            if b"LEAVE" in item:
                await anyio.sleep_forever()
        if program.fails and asked == 1:
            raise ConnectionError("the connection broke")

    options = dict(program.options)
    if "pool" in options:
        options["pool"] = CallPool(Limits(max_concurrency=2))
    source: Any = stream()
    if program.retries:
        source, options["retry"] = stream, Retry(attempts=2, after_output=True, backoff=1e-6, jitter=lambda: 0.5)
    block = pipeline(source, tools=bodies.tools(), trajectory=run, trials=trials, **options)
    error: str | None = None
    try:
        async with block as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text == "LEAVE":
                    break
                if isinstance(event, TextDelta) and event.text.startswith("CANCEL"):
                    known = {getattr(one, "call_id", None) for one in seeing.events}
                    if (call_id := event.text.split()[1]) in known:
                        events.cancel(call_id)
    except Exception as raised:
        error = f"{type(raised).__name__}: {raised}"
    begun = bodies.begun.copy()
    assert bodies.alive == 0, "a body goes on"
    for _ in range(3):
        await anyio.lowlevel.checkpoint()
    assert bodies.begun == begun, "a body began later"
    return Ran(seeing.events, block.turn.messages(), error, bodies, begun)


def shown(events: list[Event]) -> tuple[list[Any], dict[str, list[Any]]]:
    """What the events say but for times: those of the stream in their order, and those of each call in theirs."""
    stream, calls = list[Any](), dict[str, list[Any]]()
    for event in events:
        if isinstance(event, StreamWarning) and event.code == "loop_blocked":
            continue  # of a busy machine
        facts = {one.name: getattr(event, one.name) for one in fields(event) if one.name not in _TIMES}
        if isinstance(event, Observation):
            facts["failed"] = [(one.number, one.error_type) for one in event.failed_attempts]
            facts["model_content"] = event.model_content
        line = (type(event).__name__, repr(facts))
        if isinstance(event, _RUNNING):
            calls.setdefault(event.call_id, []).append(line)
        else:
            stream.append(line)
    return stream, calls
