"""Token counts: a wire's usage objects in, one `Usage` out.

A provider may count in several payloads. So the newest of each count is kept under the wire's own path, and the counts
become ours only at the end: a sum is then of the newest, whichever came last. What is kept is bounded by the map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..parts import COUNTS, Usage
from .reading import read_count


@dataclass(frozen=True, slots=True)
class Derived:
    """A count that is made of others."""

    paths: tuple[str, ...]
    make: Callable[[Sequence[int | None]], int | None]
    """Makes it of them, which are in the order of the paths; None stands for one that never came."""


Count: TypeAlias = tuple[str, ...] | Derived
"""Where a count stands in a usage object: dotted paths, the first with a count first; or what it is made of."""


def total(*paths: str) -> Derived:
    """Returns the sum of the counts at `paths`, which is no count where the first is missing."""
    return Derived(paths, lambda counts: None if counts[0] is None else sum(count or 0 for count in counts))


class UsageMap:
    """Reads the token counts of one wire, and makes a `Usage` of them. Each key of *counts* is a field of `Usage`."""

    __slots__ = ("_paths", "counts", "names", "on_request", "request")

    def __init__(
        self,
        counts: Mapping[str, Count],
        *,
        request: str = "",
        on_request: Callable[[str], object] = lambda model: False,
    ) -> None:
        if unknown := sorted(counts.keys() - COUNTS.keys()):
            raise ValueError(f"expected counts of Usage ({', '.join(COUNTS)}), got {unknown[0]!r}")
        self.counts: Mapping[str, Count] = counts
        """The origin of each field of `Usage`; one that the wire does not count is left out."""
        self.request = request  # the part of a request that asks for the counts, where they come on request alone
        self.on_request = on_request  # returns a true value if this model's counts come on request alone
        paths = (where.paths if isinstance(where, Derived) else where for where in counts.values())
        steps = ((path, path.split(".")) for path in dict.fromkeys(path for each in paths for path in each))
        self._paths = [(path, first, rest) for path, (first, *rest) in steps]
        self.names = frozenset(key for _, key, _ in self._paths)

    def read(self, usage: object, newest: dict[str, int]) -> None:
        """Puts the counts of a usage object into `newest`, by path; one that the object leaves out, or has as 0, stays
        as it was: gateways fill in what they do not know."""
        if not isinstance(usage, dict):
            return
        for path, key, rest in self._paths:
            value = usage.get(key)
            for inner in rest:
                value = value.get(inner) if isinstance(value, dict) else None
            if (count := read_count(value)) or (count is not None and path not in newest):
                newest[path] = count

    def usage(self, newest: Mapping[str, int]) -> Usage | None:
        """Returns our counts, made of those that were read; None if there are none."""
        if not newest:
            return None
        found = {name: count for name, where in self.counts.items() if (count := _find(where, newest)) is not None}
        return Usage(**found) if found else None


def _find(where: Count, newest: Mapping[str, int]) -> int | None:
    if isinstance(where, Derived):
        return where.make([newest.get(path) for path in where.paths])
    for path in where:
        if path in newest:
            return newest[path]
    return None


NO_COUNTS = UsageMap({})
