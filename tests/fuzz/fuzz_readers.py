"""Any file of ours: read, and shown and used whole, or refused in words of ours, within a bounded time.

Run it with atheris where that is installed, else it mutates by itself; see the README beside it:

    python tests/fuzz/fuzz_readers.py -max_total_time=60
    python tests/fuzz/fuzz_readers.py --runs 20000 --seed 1 --kind recording

An input begins with a byte that says of which kind it is, and one that chooses what is done with it. The rest is the
file: lines of JSON, of which some were spoiled.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import math
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("tests", ".")]

atheris: Any = None
with suppress(ImportError):
    atheris = importlib.import_module("atheris")

with atheris.instrument_imports(include=["streamtools"]) if atheris else nullcontext():
    import anyio
    from decisions import decisions_on
    from mcp.types import Tool as Listed
    from mutations import random_json, shuffled, spoiled
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from record.recorded import answers
    from spoken_histories import NATIVE, Call
    from streams import anthropic
    from telemetry.scripted import capturing
    from view.stored import spellings

    from streamtools import Suspended, Trajectory, agent_loop, history, resume, tool
    from streamtools.dispatch import MemoryStore
    from streamtools.dispatch.suspended import _bound, _hash, _mac
    from streamtools.errors import ExportError, StreamToolsError, SuspendedError
    from streamtools.mcp import Pins, fetch_tools
    from streamtools.record import Recording, RecordingError, record, replay
    from streamtools.telemetry.setup import to_jaeger
    from streamtools.view import chrome_trace, draw_recordings, draw_traces, is_trace, page
    from streamtools.view.span_files import load_documents
    from streamtools.wires import WIRES

MAX_SIZE, HEAD = 256 << 10, 2
MAX_CPU_S = 10.0
"""Of one input. Some twenty times as much as a dear one takes."""
MOST_SAID = 1000
KEY = b"k" * 32


# -- what is done with a file ------------------------------------------------------------------------------------------


def check(data: bytes) -> bool:
    """Whether the invariant holds for an input. Raises AssertionError, or whatever should not have escaped. Returns
    whether the file was read."""
    head, rest = data[:HEAD].ljust(HEAD, b"\0"), data[HEAD:]
    kind = list(KINDS)[head[0] % len(KINDS)]
    began = time.process_time()
    read = KINDS[kind](rest, head[1])
    spent = time.process_time() - began
    assert spent <= MAX_CPU_S, f"{spent:.1f} s of CPU"
    return read


def _refused(error: Exception, *words: str) -> None:
    text = str(error)
    assert text.isprintable(), ascii(text)[:300]
    assert len(text) <= MOST_SAID
    assert not words or any(word in text for word in words), text


def _check_recording(rest: bytes, how: int) -> bool:
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(rest)
        file.flush()
        try:
            found = Recording.read_all(file.name)
        except RecordingError as error:
            _refused(error, f"{file.name}, line ", "it has no whole line")
            return False
    for recording in found:
        for shown in (recording, *recording.turns, *recording.entries):
            assert repr(shown).isprintable()
        for turn in recording.turns:
            turn.messages(WIRES[how % len(WIRES)])
        for event in recording.events:
            assert type(event).__eq__(event, event)
        try:
            anyio.run(replay(recording).finish)
        except RecordingError as error:
            _refused(error)
    _check_picture(draw_recordings(found))
    return True


def _check_picture(picture: Any) -> None:
    page(picture).encode("utf-8", "replace")
    json.dumps(chrome_trace(picture), allow_nan=False)


def _check_spans(rest: bytes, how: int) -> bool:
    try:
        documents = [one for one in load_documents(rest).documents if is_trace(one)]
        picture = draw_traces(*documents[: how + 1])
    except (ValueError, RecursionError) as error:
        if not isinstance(error, (json.JSONDecodeError, UnicodeDecodeError, RecursionError)):
            _refused(error, "expected spans named", "a run has begun, but no response")
        return False
    _check_picture(picture)
    return True


def _check_suspended(rest: bytes, how: int) -> bool:
    """The bytes as they are, which nobody has signed; and signed, by somebody who has the key."""
    signed = rest + b"." + _mac(_hash(rest), KEY, _bound(None)).encode()
    for text in (rest, signed[: how % len(signed)], signed):
        try:
            suspended = Suspended.from_text(text, KEY, max_age_s=None)
        except SuspendedError as error:
            _refused(error)
            continue
        assert text == signed
        assert repr(suspended).isprintable()
        suspended.placeholders()
        suspended.to_text(KEY, max_bytes=sys.maxsize)
        anyio.run(_resumed, suspended, how)
        return True
    return False


async def _resumed(suspended: Suspended, how: int) -> None:
    # A ticket to a run in a journal is refused: only the journal has the arguments.
    with suppress(StreamToolsError, *([TypeError] if suspended.journal is not None else [])):
        decisions = decisions_on(suspended, {call.call_id: how % 2 == 0 for call in suspended.calls})
        await resume(suspended, tools=TOOLS, store=MemoryStore(), decisions=decisions, observers=[])


def _check_pins(rest: bytes, how: int) -> bool:
    try:
        text = rest.decode("utf-8", "replace")
        pins = Pins.loads(text)
    except ValueError as error:
        _refused(error)
        return False
    assert Pins.loads(pins.dumps()).dumps() == pins.dumps()
    for change in pins.pending:
        assert all(line.isprintable() for line in change.lines)
    for server in (*pins.approved, "s"):
        tools = anyio.run(partial(fetch_tools, _Session(), server=server, pins=pins))
        for refused in tools.refused:
            assert refused.reason.isprintable()
    return True


class _Session:
    """A session whose server has one tool."""

    async def list_tools(self, cursor: str | None = None) -> Any:
        return {"tools": [_LISTED.model_dump(by_alias=True)]}

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Nobody calls."""


def _check_history(rest: bytes, how: int) -> bool:
    wire, target = WIRES[how % len(WIRES)], WIRES[how // len(WIRES) % len(WIRES)]
    messages = [message for message in map(_loads, rest.split(b"\n")) if message is not None]
    before = json.dumps(messages)
    history.lint(messages, wire)
    try:
        after = history.repair(messages, wire, last=True)
        history.convert(messages, wire, target)
    except ExportError as error:  # nothing in it is a message of this wire, but something is one of another
        _refused(error)
    else:
        assert history.lint(after, wire, last=True) == []
        assert history.repair(after, wire, last=True) is after
    assert json.dumps(messages) == before
    return True


KINDS: Mapping[str, Callable[[bytes, int], bool]] = {
    "recording": _check_recording,
    "suspended": _check_suspended,
    "pins": _check_pins,
    "jaeger": _check_spans,
    "otlp": _check_spans,
    "history": _check_history,
}


def _loads(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


# -- where inputs come from ------------------------------------------------------------------------------------------


@tool(effect="pure")
async def get_weather(city: str) -> dict[str, Any]:
    """Get the weather."""
    return {"city": city, "sky": ("rain", b"\0", {1: 2.5}), "inf": math.inf}


@tool(effect="idempotent", retries=1, retry_delay_s=0.001)
async def fail() -> str:
    """Fail."""
    raise ConnectionError("the bank does not answer")


@tool(needs_approval=True)
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


TOOLS = [get_weather, fail, pay]
_LISTED = Listed(name="f", description="Does it.", inputSchema={"type": "object", "properties": {"a": {}}})
_ASKS = anthropic(
    ["Loo", "king. "],
    [
        ("c1", "get_weather", '{"city": "Oslo"}'),
        ("c2", "fail", "{}"),
        ("c3", "gone", "{}"),
        ("c4", "pay", '{"amount": "a"}'),
    ],
)
_PAYS = anthropic(["Paying."], [("c1", "pay", '{"amount": 5}'), ("c2", "pay", '{"amount": 6}')])
_ENDS = anthropic(["Rain", "."], stop="end_turn")
_CUT = _ENDS[:-1]
_BROKEN = [
    *_ENDS[:2],
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}\n\n',
]


@cache
def seeds() -> tuple[bytes, ...]:
    """A file of each kind, and of recordings and histories some more."""
    return tuple(anyio.run(_seeds))


async def _seeds() -> list[bytes]:
    found: list[tuple[str, int, bytes]] = []
    for bodies in ((_ASKS, _ENDS), (_CUT,), (_BROKEN,), (_PAYS,)):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            suspended = await _run(*bodies, observers=[record(path)])
            found.append(("recording", 0, path.read_bytes()))
        if suspended is not None:
            found.append(("suspended", 0, suspended.to_text(KEY).rpartition(".")[0].encode()))
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    await _run(_ASKS, _ENDS, observers=[capturing(provider, capture=True)])
    spans = exporter.get_finished_spans()
    found.append(("jaeger", 0, json.dumps(to_jaeger(spans)).encode()))
    for written in spellings(spans).values():
        lines = [{"resourceSpans": [one]} for one in written.get("result", written)["resourceSpans"]]
        found.append(("otlp", 0, b"\n".join(json.dumps(one).encode() for one in (written, *lines))))
    pins = Pins()
    await fetch_tools(_Session(), server="s", pins=pins)
    listed = pins.approved["s"]["f"]
    pins = Pins({"s": {"f": replace(listed, title="F")}, "t": {"g": replace(listed, name="g")}, "u": {}})
    for server in pins.approved:
        await fetch_tools(_Session(), server=server, pins=pins)
    found.append(("pins", 0, json.dumps(json.loads(pins.dumps())).encode()))
    calls = [Call("call_1", "get_weather", '{"city": "Oslo"}'), Call("call_2", "fail", "{}")]
    for number, (wire, native) in enumerate(NATIVE.items()):
        messages = [native.user("Hi"), *native.said("So.", calls), *native.came(calls), *native.said("Done.", [])]
        system = [native.system("Be brief.")] if native.system is not None else []
        lines = b"\n".join(json.dumps(message).encode() for message in (*system, *messages))
        found.append(("history", WIRES.index(wire) + len(WIRES) * (number % len(WIRES)), lines))
    return [bytes([list(KINDS).index(kind), how]) + rest for kind, how, rest in found]


async def _run(*bodies: list[bytes], observers: list[Any]) -> Suspended | None:
    run = Trajectory(name="guide", conversation_id="talk", observers=observers)
    with suppress(StreamToolsError):
        async with agent_loop(
            answers(*bodies), [], tools=TOOLS, wire="anthropic.messages", store=MemoryStore(), trajectory=run
        ) as loop:
            async for _ in loop:
                pass
        return loop.suspended
    return None


def mutated(data: bytes, dice: random.Random) -> bytes:
    """An input like this one, with values in its lines exchanged, or its lines, or its bytes."""
    head, lines = bytearray(data[:HEAD].ljust(HEAD, b"\0")), data[HEAD:].split(b"\n")
    if dice.random() < 0.3:
        head[1] = dice.randrange(256)
    others = [other for other in seeds() if other[0] % len(KINDS) == head[0] % len(KINDS)]
    other = dice.choice(others)[HEAD:].split(b"\n")
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(lines))
        value = _loads(lines[at])
        if value is not None and dice.random() < 0.8:
            with suppress(RecursionError):  # it was nested deep already
                value = spoiled(dice, value, [_loads(dice.choice(other)), random_json(dice)])
                lines[at] = json.dumps(value).encode()
        elif dice.random() < 0.7:
            lines = shuffled(dice, lines, other, 1) or [b""]
        else:
            begin, end = sorted(dice.randrange(len(lines[at]) + 1) for _ in range(2))
            lines[at] = lines[at][:begin] + dice.choice((b"", b"\xff", b'"', b"{", b"[" * 2000)) + lines[at][end:]
    return bytes(head) + b"\n".join(lines)


def run(count: int | None, seed: int, *, seconds: float = math.inf, kind: str | None = None) -> int:
    """Check the seeds, then so many mutations of them and of one another, or as many as there is time for. Return
    their number."""
    dice = random.Random(seed)
    # Each kind in turn, however many seeds it has.
    pools = [
        [data for data in seeds() if data[0] == number] for number, name in enumerate(KINDS) if kind in (None, name)
    ]
    for data in (data for pool in pools for data in pool):
        checked(data)
    until, turns = time.monotonic() + seconds, cycle(pools)
    for number in range(sys.maxsize if count is None else count):
        if time.monotonic() > until:
            return number
        pool = next(turns)
        data = mutated(dice.choice(pool), dice)
        if len(data) > MAX_SIZE:
            continue
        # Of files that are read the most is to be seen.
        if checked(data) and number % 40 < len(pools):
            pool[dice.randrange(len(pool))] = data
    return count or 0


def checked(data: bytes) -> bool:
    """`check`; an input that fails is shown, so that it can be run again."""
    try:
        return check(data)
    except BaseException:
        print(f"failing input: {data!r}", file=sys.stderr)
        raise


def main() -> None:
    """With atheris, take libFuzzer's options; without, `--runs` and `--seed`."""
    logging.disable()
    warnings.simplefilter("ignore")
    if atheris is None or any(argument.startswith("--") for argument in sys.argv[1:]):
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--runs", type=int, help="mutated inputs; 2,000, or as many as --seconds allow")
        parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long, whatever --runs says")
        parser.add_argument("--seed", type=int, default=0, help="what they are derived from")
        parser.add_argument("--kind", choices=KINDS, help="this kind alone; by default all, in turn")
        options = parser.parse_args()
        runs = options.runs or (2000 if options.seconds == math.inf else None)
        count = run(runs, options.seed, seconds=options.seconds, kind=options.kind)
        print(f"{count} inputs of seed {options.seed}: the invariant holds")
        return
    atheris.Setup(sys.argv, lambda data: checked(data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
