"""How each flow finds what it needs among the contributions, and how it says that there is nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from ..errors import ExportError
from .contributions import Contribution
from .formats import raw_formats

__all__ = ["adapter_for", "first", "fitting_first", "unknown", "unreachable"]

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


def first(
    contributions: Iterable[Contribution],
    pieces: Callable[[Contribution], Iterable[T]],
    key: Callable[[T], K],
) -> dict[K, T]:
    """Of all pieces with the same key the one that comes first."""
    found: dict[K, T] = {}
    for contribution in contributions:
        for piece in pieces(contribution):
            found.setdefault(key(piece), piece)
    return found


def adapter_for(adapters: Mapping[tuple[str | None, str], T], source: str, format: str) -> T | None:
    """The adapter for this very pair, or the one that writes the format whatever it comes from."""
    return adapters.get((source, format)) or adapters.get((None, format))


def fitting_first(formats: Sequence[str], *, raw: bool) -> list[str]:
    """Formats in the order in which to try them: those of the same kind of payload before the others."""
    raw_ones = raw_formats()
    return sorted(formats, key=lambda format: (format in raw_ones) is not raw)


def unknown(what: str, given: Mapping[str, Any]) -> ExportError:
    """No accessor takes it."""
    keys = ", ".join(sorted(str(key) for key in given)[:12]) or "none"
    return ExportError(f"no accessor knows this {what} (its keys: {keys}); contribute one for its format")


def unreachable(what: str, name: str, source: str, wanted: Sequence[str]) -> ExportError:
    """No adapter leads there."""
    return ExportError(
        f"the {what} of {name!r} is {source}, and no adapter writes it as {' or '.join(wanted)}; contribute one"
    )
