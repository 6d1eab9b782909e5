"""Finds the definitions of a schema that refer to each other in circles, in time linear in the references."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def on_circles(edges: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Returns the names on a circle, or on a way from one circle to another; `edges` has the targets of each name."""
    backwards: dict[str, set[str]] = {at: set() for at in edges}
    for at, targets in edges.items():
        for target in targets:
            backwards[target].add(at)
    return frozenset(_peeled(edges, backwards) & _peeled(backwards, edges))


def _peeled(edges: Mapping[str, Collection[str]], backwards: Mapping[str, Collection[str]]) -> set[str]:
    # Those that are left after removing, again and again, all that lead nowhere: without recursion.
    leading = {at: len(targets) for at, targets in edges.items()}
    waiting = [at for at, count in leading.items() if count == 0]
    left = set(edges)
    while waiting:
        at = waiting.pop()
        left.discard(at)
        for before in backwards[at]:
            leading[before] -= 1
            if leading[before] == 0:
                waiting.append(before)
    return left
