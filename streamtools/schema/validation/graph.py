"""Analyses a document before it judges any value: whether validation ends, and how much work one value takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from ...errors import SchemaError
from ...limits import Limits
from .compiler import ENTRIES_PER_STEP
from .document import Document, Place
from .values import refuse_size

MAX_CHAIN = 4
"""The most schemas that may apply one another to the same value, as a multiple of ``max_schema_depth``."""

MAX_HEIGHT = 2
"""The depth with references above which a document counts as recursive, as a multiple of ``max_schema_depth``."""

Edges = Callable[[Place], Iterable[Place]]


class Outline(NamedTuple):
    """Holds the result of analysing the references of a document."""

    is_recursive: bool
    """True if validation may follow a value to any depth."""
    peak: int
    """An upper bound of the schemas applied to any one value inside the arguments; 0 for a recursive document."""


def outline(document: Document, limits: Limits) -> Outline:
    """Analyses all schemas and references, in time linear in them; raises a `SchemaError` if some schema refers back to
    itself without going deeper into the value, or is too long a chain of references to follow."""
    order, cycle = _bottom_up(document.places, _same_value)
    # "A schema MUST NOT be run into an infinite loop against an instance": one that applies itself to the same value,
    # by a chain of `$ref`, `allOf` and the like, has no meaning.
    # https://json-schema.org/draft/2020-12/json-schema-core#section-9.4.1
    if cycle is not None:
        raise SchemaError("refers back to itself without going deeper into the value", path=cycle.pointer)
    longest = MAX_CHAIN * limits.max_schema_depth
    if _height(order, _same_value) > longest:
        what = f"applies more than {longest} schemas to one value, each by the one before; the most follows from"
        raise refuse_size(what, "max_schema_depth", limits.max_schema_depth)
    # A schema that applies itself to parts inside the value is recursive: the value determines how deep it goes.
    order, cycle = _bottom_up(document.places, _everywhere)
    if cycle is not None or document.is_dynamic or _height(order, _everywhere) > MAX_HEIGHT * limits.max_schema_depth:
        return Outline(True, 0)
    return Outline(False, _peak(order, document.root))


def _same_value(place: Place) -> Iterator[Place]:
    yield from place.references.values() if place.dynamic_name is None else ()
    for _, applicator, places in place.applicators():
        if applicator.where == "same":
            yield from places


def _everywhere(place: Place) -> Iterator[Place]:
    yield from place.references.values()
    for _, applicator, places in place.applicators():
        if applicator.where != "nowhere":
            yield from places


def _bottom_up(places: Iterable[Place], edges: Edges) -> tuple[list[Place], Place | None]:
    """Returns all places, each after the targets of its edges; and a place on a cycle, if there is one."""
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
    """Returns an upper bound of the schemas that are applied to one value, counted from below."""
    own: dict[Place, int] = {}
    below: dict[Place, int] = {}
    peak: dict[Place, int] = {}
    for place in order:
        same = list(_same_value(place))
        entries = sum(len(value) for value in place.keywords.values() if isinstance(value, (list, dict)))
        own[place] = 1 + entries // ENTRIES_PER_STEP + sum(own[inner] for inner in same)
        below[place] = sum(below[inner] for inner in same) + _inside(place, peak)
        peak[place] = max(own[place], below[place])
    return peak[root]


def _inside(place: Place, peak: dict[Place, int]) -> int:
    """Returns the number of schemas that a place's own keywords apply inside the value."""
    # To one part of the value, one schema of `properties` applies, but every pattern may.
    total = 0
    for keyword, applicator, places in place.applicators():
        if applicator.where == "below" and places:
            one_only = keyword in ("properties", "prefixItems", "items")
            peaks = [peak[inner] for inner in places]
            total += max(peaks) if one_only else sum(peaks)
    return total
