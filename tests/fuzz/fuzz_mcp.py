"""Any list, any answer of an MCP server: taken or refused, told in printable words, within bounds of time and memory.

Run it with atheris where that is installed, else it mutates by itself; see the README beside it:

    python tests/fuzz/fuzz_mcp.py -max_total_time=60
    python tests/fuzz/fuzz_mcp.py --runs 20000 --seed 1

An input begins with two bytes: a seed, and a number by which one value is repeated. The rest is JSON, a value a line:
the pages of a list, then the answer to a call.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import math
import random
import sys
import time
import tracemalloc
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / folder) for folder in ("tests", ".")]

atheris: Any = None
with suppress(ImportError):
    atheris = importlib.import_module("atheris")

with atheris.instrument_imports(include=["streamtools"]) if atheris else nullcontext():
    import anyio
    from mutations import random_json, spoiled

    from streamtools import Limits, ToolError
    from streamtools.content import Media, Text
    from streamtools.mcp import FetchedTools, Pins, fetch_tools, tool_result

MAX_SIZE, HEAD = 64 << 10, 2
MAX_CPU_S = 10.0
"""Of one input, read once without the memory being watched. Some twenty times as much as a dear one takes."""
MAX_BYTES, MAX_BYTES_PER_BYTE = 48 << 20, 64
"""What reading may hold at its peak: so much, and so much for each byte that came. An empty list takes 64 for 3."""
MOST_SAID = 4096
REPEATED = (1, 2, 100, 3_000)
LIMITS = Limits(max_list_values=40_000, max_list_bytes=1 << 20)


class Session:
    """A session whose server sends these pages."""

    def __init__(self, pages: list[Any]) -> None:
        self.pages = pages

    async def list_tools(self, cursor: str | None = None) -> Any:
        """The page whose number is the cursor, if there is one."""
        at = int(cursor) if cursor is not None and cursor.isascii() and cursor.isdigit() else 0
        return self.pages[at % len(self.pages)] if self.pages else None

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Nobody calls."""


def parsed(data: bytes) -> list[Any]:
    """The values of an input, one of them repeated inside what holds it."""
    head, values = data[:HEAD].ljust(HEAD, b"\0"), []
    for line in data[HEAD:].split(b"\n"):
        with suppress(ValueError, RecursionError):
            values.append(json.loads(line.decode("utf-8", "replace")))
    dice, times = random.Random(head[0]), REPEATED[head[1] % len(REPEATED)]
    lists = [found for value in values for found in _lists(value)]
    if lists:
        chosen = dice.choice(lists)
        chosen[:] = (chosen * times)[: max(len(chosen), 20_000)]
    return values


def _lists(value: Any) -> list[list[Any]]:
    found, waiting = [], [value]
    while waiting:
        held = waiting.pop()
        if isinstance(held, list):
            found.append(held)
        if isinstance(held, (dict, list)):
            waiting.extend(held.values() if isinstance(held, dict) else held)
    return found


def check(data: bytes) -> FetchedTools:
    """Whether the invariant holds for an input. Raises AssertionError, or whatever should not have escaped."""
    values = parsed(data)
    size = len(json.dumps(values))
    began = time.process_time()
    _read(values)
    spent = time.process_time() - began
    tracemalloc.start()
    try:
        tools = _read(values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent <= MAX_CPU_S, f"{spent:.1f} s of CPU"
    assert peak <= MAX_BYTES + MAX_BYTES_PER_BYTE * size, f"{peak} bytes for {size}"
    _check_said(tools)
    return tools


def _read(values: list[Any]) -> FetchedTools:
    tools = anyio.run(_fetched, values)
    for value in values[-1:]:
        _check_answer(value)
    return tools


async def _fetched(values: list[Any]) -> FetchedTools:
    return await fetch_tools(Session(values), server="s", prefix="p", pins=Pins(), limits=LIMITS)


def _check_answer(answer: Any) -> None:
    with suppress(ToolError):
        result = tool_result(answer, limits=LIMITS)
        assert len(result.blocks) <= LIMITS.max_open_blocks + 1
        for block in result.blocks:
            assert isinstance(block, (Text, Media))
            assert not isinstance(block, Media) or block.placeholder().isprintable()


def _check_said(tools: FetchedTools) -> None:
    said = [f"{note.name} {note.reason}" for note in tools.refused]
    said += [line for tool in tools for line in (repr(tool), str(tool.title), *tool.check())]
    for line in said:
        assert line.isprintable(), ascii(line)[:300]
        assert len(line) <= MOST_SAID
    assert len({tool.name for tool in tools}) == len(tools) <= LIMITS.max_listed_tools
    assert tools.complete or tools.refused


# -- where inputs come from ------------------------------------------------------------------------------------------

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "string", "pattern": "^a+$"}, "b": {"$ref": "#/$defs/b"}, "c": {"default": [[], []]}},
    "required": ["a"],
    "$defs": {"b": {"anyOf": [{"type": "integer"}, {"enum": [1, "x", None]}], "not": {"const": 2}}},
    "unevaluatedProperties": False,
}
_ENTRY: dict[str, Any] = {
    "name": "f",
    "title": "F",
    "description": "Does it.",
    "inputSchema": _SCHEMA,
    "outputSchema": {"type": "object", "properties": {"d": {"type": "integer"}}},
    "annotations": {"readOnlyHint": True, "title": "F"},
    "execution": {"taskSupport": "optional"},
}
_ANSWER: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "hi"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png;a=b"},
        {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA"}},
    ],
    "structuredContent": {"d": 1},
    "isError": False,
}


def encoded(*values: Any, seed: int = 0, times: int = 0) -> bytes:
    """An input of these values."""
    return bytes([seed, times]) + b"\n".join(json.dumps(value).encode() for value in values)


def seeds() -> list[bytes]:
    """A list of one page and of two, an answer, and each with something in it many times."""
    pages = [{"tools": [_ENTRY, {**_ENTRY, "name": "g/h"}], "nextCursor": "1", "ttlMs": 5}, {"tools": [_ENTRY]}]
    return [
        encoded(*values, seed=seed, times=times)
        for values in ([{"tools": [_ENTRY]}, _ANSWER], [*pages, _ANSWER])
        for seed, times in ((0, 0), (1, 2), (2, 3), (3, 3), (4, 3))
    ]


def mutated(data: bytes, dice: random.Random) -> bytes:
    """An input like this one, with values in it exchanged, or what is repeated."""
    values = [json.loads(line) for line in data[HEAD:].split(b"\n") if line]
    for _ in range(dice.randint(1, 4)):
        at = dice.randrange(len(values))
        with suppress(RecursionError):  # it was nested deep already
            values[at] = spoiled(dice, values[at], [_ENTRY, _ANSWER, random_json(dice)])
    try:
        return encoded(*copy.copy(values), seed=dice.randrange(256), times=dice.randrange(256))
    except RecursionError:
        return data


def run(count: int | None, seed: int, *, seconds: float = math.inf) -> int:
    """Check the seeds, then so many mutations of them and of one another, or as many as there is time for. Return
    their number."""
    until = time.monotonic() + seconds
    dice = random.Random(seed)
    pool = seeds()
    for data in pool:
        checked(data)
    for number in range(sys.maxsize if count is None else count):
        if time.monotonic() > until:
            return number
        data = mutated(dice.choice(pool), dice)
        if len(data) > MAX_SIZE:
            continue
        checked(data)
        if number % 10 == 0:
            pool[dice.randrange(len(pool))] = data
    return count or 0


def checked(data: bytes) -> None:
    """`check`; an input that fails is shown, so that it can be run again."""
    try:
        check(data)
    except BaseException:
        print(f"failing input: {data!r}", file=sys.stderr)
        raise


def main() -> None:
    """With atheris, take libFuzzer's options; without, `--runs` and `--seed`."""
    if atheris is None or any(argument.startswith("--") for argument in sys.argv[1:]):
        parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
        parser.add_argument("--runs", type=int, help="mutated inputs; 2,000, or as many as --seconds allow")
        parser.add_argument("--seconds", type=float, default=math.inf, help="end after so long, whatever --runs says")
        parser.add_argument("--seed", type=int, default=0, help="what they are derived from")
        options = parser.parse_args()
        runs = options.runs or (2000 if options.seconds == math.inf else None)
        count = run(runs, options.seed, seconds=options.seconds)
        print(f"{count} inputs of seed {options.seed}: the invariant holds")
        return
    atheris.Setup(sys.argv, lambda data: checked(data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
