"""Analyses a document before any value comes: whether validation ends, and how much work one value takes.

A schema that applies itself to the same value again (by a chain of ``$ref``, ``allOf`` and the like) has no meaning,
and is refused. A schema that applies itself to parts inside the value is recursive: the value determines how deep it
goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...errors import SchemaError
from ...limits import Limits
from .compiler import ENTRIES_PER_STEP
from .document import Document, Place
from .values import refuse_size

__all__ = ["Outline", "outline"]

MAX_CHAIN = 4
"""Most schemas that may apply one another to the same value, as a multiple of ``max_schema_depth``."""

MAX_HEIGHT = 2
"""Depth with references above which a document counts as recursive, as a multiple of ``max_schema_depth``."""

Edges = Callable[[Place], Iterable[Place]]


class Outline(NamedTuple):
    """The result of analysing the references of a document."""

    is_recursive: bool
    """True if validation may follow a value to any depth."""
    peak: int
    """Upper bound of the schemas applied to any one value inside the arguments; only if the document is not
    recursive."""


def outline(document: Document, limits: Limits) -> Outline:
    """Analyses all schemas and references, in time linear in them.

    Raises:
        SchemaError: some schema refers back to itself without going deeper into the value, or is so long a chain of
            references that following it would be too deep.
    """
    order, cycle = _bottom_up(document.places, _here)
    if cycle is not None:
        raise SchemaError("refers back to itself without going deeper into the value", path=cycle.pointer)
    longest = MAX_CHAIN * limits.max_schema_depth
    if _height(order, _here) > longest:
        what = f"applies more than {longest} schemas to one value, each by the one before; that comes of"
        raise refuse_size(what, "max_schema_depth", limits.max_schema_depth)
    order, cycle = _bottom_up(document.places, _everywhere)
    if cycle is not None or document.is_dynamic or _height(order, _everywhere) > MAX_HEIGHT * limits.max_schema_depth:
        return Outline(True, 0)
    return Outline(False, _peak(order, document.root))


def _here(place: Place) -> Iterator[Place]:
    """Yields the schemas that a schema applies to the same value."""
    yield from place.references.values() if place.dynamic_name is None else ()
    for _, applicator, places in place.applicators():
        if applicator.where == "here":
            yield from places


def _everywhere(place: Place) -> Iterator[Place]:
    """Yields the schemas that a schema applies to any value."""
    yield from place.references.values()
    for _, applicator, places in place.applicators():
        if applicator.where != "nowhere":
            yield from places


def _bottom_up(places: Iterable[Place], edges: Edges) -> tuple[list[Place], Place | None]:
    """Returns all places, each after the targets of its edges; and one on a cycle, if there is a cycle."""
    order: list[Place] = []
    begun: set[Place] = set()
    done: set[Place] = set()
    for start in places:
        if start in begun:
            continue
        begun.add(start)
        path = [(start, iter(edges(start)))]
        while path:
            place, following = path[-1]
            inner = next(following, None)
            if inner is None:
                path.pop()
                done.add(place)
                order.append(place)
            elif inner not in begun:
                begun.add(inner)
                path.append((inner, iter(edges(inner))))
            elif inner not in done:
                return order, inner
    return order, None


def _height(order: Iterable[Place], edges: Edges) -> int:
    """Returns the length of the longest path down."""
    heights: dict[Place, int] = {}
    for place in order:
        heights[place] = 1 + max((heights[inner] for inner in edges(place)), default=0)
    return max(heights.values())


def _peak(order: Iterable[Place], root: Place) -> int:
    """Returns the most schemas that are applied to one value, counted from below; an upper bound."""
    here: dict[Place, int] = {}
    below: dict[Place, int] = {}
    peak: dict[Place, int] = {}
    for place in order:
        same = list(_here(place))
        entries = sum(len(value) for value in place.keywords.values() if isinstance(value, (list, dict)))
        here[place] = 1 + entries // ENTRIES_PER_STEP + sum(here[inner] for inner in same)
        below[place] = sum(below[inner] for inner in same) + _inside(place, peak)
        peak[place] = max(here[place], below[place])
    return peak[root]


def _inside(place: Place, peak: dict[Place, int]) -> int:
    """Returns the number of schemas that its own keywords apply inside the value: one of ``properties``, but all that
    may match."""
    total = 0
    for keyword, applicator, places in place.applicators():
        if applicator.where == "below" and places:
            one_only = keyword in ("properties", "prefixItems", "items")
            peaks = [peak[inner] for inner in places]
            total += max(peaks) if one_only else sum(peaks)
    return total
