"""`Moments` by themselves: text of three shapes in deltas of five characters, fed and viewed at every delta.

Shapes: ``blob`` is one long string with escapes and characters beyond ASCII, ``records`` a list of small objects, and
``mixed`` half of each, as `benchmarks.workloads.arguments` makes them. Bars: 1.5 µs per delta, all included, and time
that grows with size to the power of 1.1 at most. Beside each figure stands how many times as long as one
``pydantic_core.from_json`` of the whole text all the views together take, and for the smallest size what that costs if
it is called anew at every delta, which grows with the square of the size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import orjson
from pydantic_core import from_json

from streamtools.stages.preview import Moments

from .measure import Figure, best_of, show
from .workloads import arguments, pieces

__all__ = ["run"]

SIZES = {"10 kB": 10_000, "100 kB": 100_000, "1 MB": 1_000_000}
REPEATS = 9
MAX_MICROSECONDS = 1.5
MAX_EXPONENT = 1.1


def run() -> list[Figure]:
    """Measure every shape at every size, all taking turns, then what parsing anew at every delta costs."""
    texts = {f"{shape}: {name}": build(size) for shape, build in SHAPES.items() for name, size in SIZES.items()}
    rivals: dict[str, Callable[[], object]] = {}
    for name, text in texts.items():
        rivals[name] = partial(_view_each, pieces(text))
        rivals[f"{name}, once"] = partial(from_json, text)
    best = best_of(rivals, repeats=REPEATS)
    figures: list[Figure] = []
    for shape in SHAPES:
        points = {name: (len(text), best[name]) for name, text in texts.items() if name.startswith(shape)}
        figures += [_cost(name, *point, best[f"{name}, once"]) for name, point in points.items()]
        figures.append(_growth(shape, list(points.values())))
    return [*figures, _anew("10 kB")]


def _cost(name: str, size: int, seconds: float, once: float) -> Figure:
    deltas = math.ceil(size / 5)
    return Figure(
        name=name,
        value=seconds / deltas * 1e6,
        unit="µs per delta",
        bar=MAX_MICROSECONDS,
        detail=f"{seconds * 1e3:.2f} ms for {deltas}: {seconds / once:.0f} x from_json once",
    )


def _growth(shape: str, points: Sequence[tuple[int, float]]) -> Figure:
    """The exponent from each size to the next; the worst has to pass."""
    exponents = [math.log(more / less) / math.log(large / small) for (small, less), (large, more) in pairwise(points)]
    detail = f"exponents {' and '.join(f'{exponent:.2f}' for exponent in exponents)}"
    return Figure(name=f"{shape}: growth", value=max(exponents), unit="exponent", bar=MAX_EXPONENT, detail=detail)


def _anew(name: str) -> Figure:
    deltas = pieces(_mixed(SIZES[name]))
    best = best_of({"anew": partial(_parse_each, deltas)}, repeats=5)["anew"]
    return Figure(name=f"from_json at every delta, mixed: {name}", value=best / len(deltas) * 1e6, unit="µs per delta")


def _mixed(size: int) -> str:
    return arguments(size)


def _blob(size: int) -> str:
    return _half(size, "content")


def _records(size: int) -> str:
    return _half(size, "rows")


def _half(size: int, key: str) -> str:
    """One half of twice as much."""
    return orjson.dumps({key: orjson.loads(arguments(2 * size))[key]}).decode()


SHAPES: dict[str, Callable[[int], str]] = {"mixed": _mixed, "blob": _blob, "records": _records}


def _view_each(deltas: Sequence[str]) -> None:
    growing = Moments()
    for delta in deltas:
        growing.feed(delta)
        growing.at(growing.length)
    assert growing.state() == "complete"


def _parse_each(deltas: Sequence[str]) -> None:
    text = ""
    for delta in deltas:
        text += delta
        from_json(text, allow_partial="trailing-strings")


if __name__ == "__main__":
    show(run())
