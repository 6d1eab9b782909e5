"""Analyses a plain schema before it judges any value: whether validation ends, and how deep it goes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

from ...errors import SchemaError
from ...limits import Limits
from ..circles import on_circles
from .plain import BELOW, PREFIX, SAME, Plain, parts
from .reading import refuse_size

MAX_CHAIN = 4  # the most schemas that may apply one another to the same value, as a multiple of `max_schema_depth`
MAX_HEIGHT = 4  # the depth of a schema with its references followed, as a multiple of `max_schema_depth`
MAX_CIRCULAR = 200  # definitions that refer to each other in circles, whose references are followed from each of them

Edges = Callable[[Any], Iterable[Any]]


class Outline(NamedTuple):
    circular: dict[str, frozenset[str]]
    """The definitions that lead back to themselves, so that the value decides how deep validation goes, each with all
    that it leads to and that lead to it."""
    same_value: list[Any]  # all schemas (objects), each after those that it applies to the same value
    everywhere: list[Any]


def outline(plain: Plain, limits: Limits) -> Outline:
    """Analyses all schemas and references, in time linear in them. Raises a `SchemaError` if some schema refers back to
    itself without going deeper into the value, or is too long a chain of references to follow."""

    def same_value(node: Any) -> Iterator[Any]:
        if "$ref" in node:
            yield from _objects([plain.target(node)])
        for _, held in parts(node, SAME):
            yield from _objects(held)

    def everywhere(node: Any) -> Iterator[Any]:
        if "$ref" in node and node["$ref"].removeprefix(PREFIX) not in circles:
            yield from _objects([plain.target(node)])
        for _, held in parts(node, (*SAME, *BELOW)):
            yield from _objects(held)

    nodes = list(plain.objects(plain.schema, *plain.definitions.values()))
    # "A schema MUST NOT be run into an infinite loop against an instance": one that applies itself to the same value,
    # by a chain of `$ref`, `allOf` and the like, has no meaning.
    # https://json-schema.org/draft/2020-12/json-schema-core#section-9.4.1
    try:
        same = _bottom_up(nodes, same_value)
    except CycleError as error:
        where = plain.pointer(error.args[1][0])
        raise SchemaError("refers back to itself without going deeper into the value", path=where) from None
    longest = MAX_CHAIN * limits.max_schema_depth
    if _height(same, same_value) > longest:
        what = f"applies a chain of more than {longest} schemas to one value; the limit follows from"
        raise refuse_size(what, "max_schema_depth", limits.max_schema_depth)
    targets = {
        name: {inner["$ref"].removeprefix(PREFIX) for inner in plain.objects(node) if "$ref" in inner}
        for name, node in plain.definitions.items()
    }
    circles = on_circles(targets)
    if len(circles) > MAX_CIRCULAR:
        raise SchemaError(f"has {len(circles)} definitions that refer to each other in circles; {MAX_CIRCULAR} may")
    deep = _bottom_up(nodes, everywhere)
    longest = MAX_HEIGHT * limits.max_schema_depth
    if _height(deep, everywhere) > longest:
        what = f"is deeper than {longest} levels with its references followed; the limit follows from"
        raise refuse_size(what, "max_schema_depth", limits.max_schema_depth)
    reached = {name: _reached(name, targets, circles) for name in circles}
    circular = {
        name: frozenset(other for other in reached[name] if name in reached[other])
        for name in plain.definitions
        if name in circles
    }
    return Outline(circular, same, deep)


def _reached(start: str, targets: dict[str, set[str]], circles: frozenset[str]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        more = (targets[waiting.pop()] & circles) - found
        found |= more
        waiting.extend(more)
    return found


def _objects(nodes: Iterable[Any]) -> Iterator[Any]:
    return (node for node in nodes if isinstance(node, dict))


def _bottom_up(nodes: Iterable[Any], edges: Edges) -> list[Any]:
    """Returns all schemas, each after the targets of its edges; raises a `CycleError` if there is no such order."""
    by_id = {id(node): node for node in nodes}
    before = {key: [id(inner) for inner in edges(node)] for key, node in by_id.items()}
    return [by_id[key] for key in TopologicalSorter(before).static_order()]


def _height(order: Iterable[Any], edges: Edges) -> int:
    heights: dict[int, int] = {}
    for node in order:
        heights[id(node)] = 1 + max((heights[id(inner)] for inner in edges(node)), default=0)
    return max(heights.values(), default=0)
