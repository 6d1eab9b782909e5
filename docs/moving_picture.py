"""Makes the moving picture of the README: ``python docs/moving_picture.py``.

The same answer of a model, in Chat Completions and paced like a hosted one, is read twice: by a loop on the SDK, whose
calls begin when the response has ended, all at once; and by `agent_loop` on the same SDK, whose calls begin as soon as
they are written. Both run with the `openai` package on trio's mock clock, which jumps over every wait: the times are
those of the pace and of the tools alone, and the picture is the same on every machine.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, fields, replace
from html import escape
from pathlib import Path
from typing import Any

import httpx2
import trio
import trio.testing
from openai import AsyncOpenAI

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from streamtools import Tool, agent_loop, tool  # noqa: E402  # the repository comes first

PICTURE = ROOT / "docs" / "pictures" / "overlap.svg"

FIRST_BYTE = 0.35  # seconds from the request to the first chunk
PACE = 40.0  # chunks a second
QUESTION = "Which is the cheapest flight from Lisbon: Tokyo, Oslo or Lima?"
FARES = {"Tokyo": (1.6, 874), "Oslo": (0.7, 212), "Lima": (0.5, 655)}
"""By destination: how long the search takes, in seconds, and the fare in euros."""
ANSWER = "Oslo is the cheapest, at 212 euros. Lima costs 655 and Tokyo 874."
MODEL, WIRE = "scripted", "openai.chat_completions"


@dataclass
class Lane:
    """What happened when, in seconds since the run began."""

    name: str
    waits: list[tuple[float, float]] = field(default_factory=list)
    writes: list[tuple[float, float]] = field(default_factory=list)
    arguments: dict[str, tuple[float, float]] = field(default_factory=dict)
    runs: dict[str, tuple[float, float]] = field(default_factory=dict)
    end: float = 0.0


# -- the model -------------------------------------------------------------------------------------------------------


def _pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _deltas(first: bool) -> Iterable[tuple[str, dict[str, Any]]]:
    """The deltas of an answer, each with the destination of the call that it belongs to."""
    yield "", {"role": "assistant", "content": ""}
    for piece in _pieces("Let me look that up." if first else ANSWER, 5):
        yield "", {"content": piece}
    for at, city in enumerate(FARES if first else ()):
        head = {"id": f"call_{at}", "type": "function", "function": {"name": "search_flights", "arguments": ""}}
        yield city, {"tool_calls": [{"index": at, **head}]}
        arguments = json.dumps({"origin": "Lisbon", "destination": city, "date": "2027-03-14", "seats": 1})
        for piece in _pieces(arguments, 4):
            yield city, {"tool_calls": [{"index": at, "function": {"arguments": piece}}]}


class Model(httpx2.AsyncBaseTransport):
    """Answers the first request with three calls, the second with text, and notes when it wrote what."""

    def __init__(self, lane: Lane) -> None:
        self.lane = lane

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answers a request with a paced stream."""
        body = self._body(first=not self.lane.writes)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=body)

    async def _body(self, first: bool) -> AsyncIterator[bytes]:
        lane, asked = self.lane, trio.current_time()
        await trio.sleep(FIRST_BYTE)
        began = trio.current_time()
        lane.waits.append((asked, began))
        for call, delta in _deltas(first):
            if call:
                lane.arguments[call] = (lane.arguments.get(call, (trio.current_time(), 0.0))[0], trio.current_time())
            yield _chunk(delta)
            await trio.sleep(1 / PACE)
        lane.writes.append((began, trio.current_time()))
        yield _chunk({}, "tool_calls" if first else "stop")
        yield b"data: [DONE]\n\n"


def _chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode()


def _tool(lane: Lane) -> Tool:
    @tool(effect="pure")
    async def search_flights(origin: str, destination: str, date: str, seats: int) -> int:
        """Find the lowest fare in euros."""
        began = trio.current_time()
        await trio.sleep(FARES[destination][0])
        lane.runs[destination] = (began, trio.current_time())
        return FARES[destination][1]

    return search_flights


# -- the two loops ---------------------------------------------------------------------------------------------------


async def with_the_sdk(lane: Lane, client: AsyncOpenAI) -> None:
    """Runs the loop of the SDK's documentation, except that its calls run side by side."""
    search = _tool(lane)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    while True:
        async with client.chat.completions.stream(model=MODEL, messages=messages, tools=[search.to(WIRE)]) as stream:
            message = (await stream.get_final_completion()).choices[0].message
        results: list[Any] = []

        async def answer(call: Any, results: list[Any] = results) -> None:
            fare = await search.fn(**json.loads(call.function.arguments))
            results.append({"role": "tool", "tool_call_id": call.id, "content": str(fare)})

        async with trio.open_nursery() as nursery:
            for call in message.tool_calls or ():
                nursery.start_soon(answer, call)
        if not results:
            return
        messages += [message.model_dump(exclude_none=True), *results]


async def with_streamtools(lane: Lane, client: AsyncOpenAI) -> None:
    """Runs the loop of the README."""

    async def ask(messages: Any, tools: Any) -> Any:
        return await client.chat.completions.create(model=MODEL, messages=messages, tools=tools, stream=True)

    question = [{"role": "user", "content": QUESTION}]
    async with agent_loop(ask, question, tools=[_tool(lane)], wire=WIRE) as run:
        async for _ in run:
            pass


def measured() -> list[Lane]:
    """Runs both loops, each on a clock of its own. Its times are exact to the order in which trio has added them up."""
    lanes = [Lane("loop on the SDK"), Lane("streamtools")]
    for lane, loop in zip(lanes, (with_the_sdk, with_streamtools), strict=True):

        async def run(lane: Lane = lane, loop: Any = loop) -> None:
            client = AsyncOpenAI(
                api_key="none", http_client=httpx2.AsyncClient(transport=Model(lane)), base_url="http://model.invalid"
            )
            client._platform = "Unknown"  # else a thread finds out, and the clock jumps on meanwhile
            began = trio.current_time()
            await loop(lane, client)
            lane.end = trio.current_time() - began

        trio.run(run, clock=trio.testing.MockClock(autojump_threshold=0.01))
    return [replace(lane, **{one.name: _rounded(getattr(lane, one.name)) for one in fields(lane)}) for lane in lanes]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_rounded, value))
    return round(value, 6) if isinstance(value, float) else value


# -- the picture -----------------------------------------------------------------------------------------------------

WIDTH, HEIGHT, LEFT, RIGHT = 840, 374, 150, 40
HOLD = 2.2  # seconds for which the finished picture stands
ROW, BAR, THIN = 25, 14, 5

STYLE = """
svg { --ink: #1b1f24; --soft: #59636e; --card: #ffffff; --line: #d8dee4; --wait: #c4cad1; --model: #4a67c8;
  --arguments: #1f8a8a; --run: #1a7f4b; --now: #c2410c }
@media (prefers-color-scheme: dark) { svg { --ink: #e8ecf1; --soft: #9aa5b1; --card: #14181d; --line: #2b323a;
  --wait: #4b535c; --model: #8aa0f0; --arguments: #52bcbc; --run: #4cbd84; --now: #fb923c } }
text { font: 13px system-ui, sans-serif; fill: var(--ink) }
.name { font-weight: 650; font-size: 15px } .soft { fill: var(--soft); font-size: 12px } .end { font-weight: 650 }
.right { text-anchor: end }
.wait { fill: var(--wait) } .model { fill: var(--model) }
.arguments { fill: var(--arguments) } .run { fill: var(--run) }
.bar { transform-box: fill-box; transform-origin: left }
@media (prefers-reduced-motion: reduce) { * { animation: none !important } .now { display: none } }
"""


class _Picture:
    """Collects shapes, and the moments at which they appear."""

    def __init__(self, longest: float) -> None:
        self.longest, self.cycle = longest, longest + HOLD
        self.shapes: list[str] = []
        self.moments: list[str] = []

    def x(self, at: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT - 40) * at / self.longest

    def _moves(self, frames: str) -> str:
        """An animation of those frames, as the attribute of a shape."""
        name = f"m{len(self.moments)}"
        self.moments.append(f"@keyframes {name} {{ {frames} }}")
        return f'style="animation: {name} {self.cycle:.2f}s linear infinite"'

    def bar(self, kind: str, span: tuple[float, float], y: float, height: int) -> None:
        began, ended = (100 * at / self.cycle for at in span)
        moves = self._moves(
            f"0%, {began:.2f}% {{ transform: scaleX(0) }} {ended:.2f}%, 100% {{ transform: scaleX(1) }}"
        )
        x, width = self.x(span[0]), self.x(span[1]) - self.x(span[0])
        self.shapes.append(
            f'<rect class="bar {kind}" x="{x:.1f}" y="{y - height / 2:.1f}" width="{width:.1f}" height="{height}" '
            f'rx="2" {moves}/>'
        )

    def text(self, text: str, x: float, y: float, kind: str = "", at: float | None = None) -> None:
        moves = ""
        if at is not None:
            shown = 100 * at / self.cycle
            moves = self._moves(f"0%, {shown:.2f}% {{ opacity: 0 }} {shown + 0.5:.2f}%, 100% {{ opacity: 1 }}")
        self.shapes.append(f'<text class="{kind}" x="{x:.1f}" y="{y + 4.5:.1f}" {moves}>{escape(text)}</text>')

    def lane(self, lane: Lane, words: str, top: float) -> None:
        self.text(lane.name, 24, top, "name")
        self.text(words, LEFT + 20, top, "soft")
        self.text("model", 24, top + ROW, "soft")
        for waited in lane.waits:
            self.bar("wait", waited, top + ROW, THIN)
        for wrote in lane.writes:
            self.bar("model", wrote, top + ROW, BAR)
        self.text(f"{lane.end:.1f} s", self.x(lane.end) + 8, top + ROW, "end", lane.end)
        for at, (city, ran) in enumerate(sorted(lane.runs.items(), key=lambda item: list(FARES).index(item[0])), 2):
            y = top + at * ROW
            self.text(f"flights to {city}", 24, y, "soft")
            self.bar("arguments", lane.arguments[city], y, THIN)
            self.bar("run", ran, y, BAR)
            self.text(f"{FARES[city][1]} \u20ac", self.x(ran[1]) + 8, y, "soft", ran[1])

    def now(self, top: float, bottom: float) -> None:
        far = self.x(self.longest) - LEFT
        ended = 100 * self.longest / self.cycle
        moves = self._moves(
            f"0% {{ transform: translateX(0) }} {ended:.2f}%, 100% {{ transform: translateX({far:.1f}px) }}"
        )
        self.shapes.append(
            f'<line class="now" x1="{LEFT}" x2="{LEFT}" y1="{top}" y2="{bottom}" stroke="var(--now)" {moves}/>'
        )

    def legend(self, y: float) -> None:
        """Draws what the colours mean, and which wire it is."""
        x = 24.0
        for kind, words in (
            ("wait", "model is asked"), ("model", "model writes"), ("arguments", "arguments"), ("run", "tool runs"),
        ):  # fmt: skip
            self.shapes.append(f'<rect class="{kind}" x="{x}" y="{y - 5}" width="10" height="10" rx="2"/>')
            self.text(words, x + 16, y, "soft")
            x += 34 + 6.4 * len(words)
        wire = f"OpenAI Chat Completions, {PACE:.0f} chunks a second"
        self.text(wire, WIDTH - 24, y, "soft right")


def drawn(lanes: list[Lane]) -> str:
    """Draws the lanes below each other, on one axis of time, as an SVG that plays by itself."""
    picture = _Picture(max(lane.end for lane in lanes))
    picture.lane(lanes[0], "its calls begin, all at once, when the response has ended", 34)
    picture.lane(lanes[1], "each call begins as soon as it is written", 190)
    picture.now(48, 306)
    picture.legend(348)
    sdk, ours = (lane.end for lane in lanes)
    words = (
        f"The same answer with three calls, read twice. A loop on the SDK starts them when the response has ended and "
        f"takes {sdk:.1f} s; streamtools starts each as soon as it is written and takes {ours:.1f} s."
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        f'role="img"><title>{escape(words)}</title><style>{STYLE}{chr(10).join(picture.moments)}</style>'
        f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" fill="var(--card)" '
        f'stroke="var(--line)"/><line x1="24" x2="{WIDTH - 24}" y1="164" y2="164" stroke="var(--line)"/>'
        + "\n".join(picture.shapes)
        + "</svg>\n"
    )


if __name__ == "__main__":
    PICTURE.write_text(drawn(measured()), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
