"""Describes the way in which a family of models writes calls: its markers, and the parsers that read from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from .reader import Markers
from .writer import Parser

__all__ = ["TextDialect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDialect:
    """The way in which a family of models writes calls."""

    name: str
    anywhere: Mapping[str, Parser]
    """The markers that begin a call anywhere, with the parsers that read from there."""
    at_line_start: Mapping[str, Parser] = field(default_factory=dict)
    """The markers that begin a call only if nothing but blanks stands before them in their line."""
    at_beginning: Mapping[str, Parser] = field(default_factory=dict)
    """The markers that begin a call only if nothing but blanks stands before them in the text."""
    example: str
    """A call of the tool ``f`` with the argument ``a``, which is 1."""
    tolerates: str = ""
    """The forms that are read beside it, for the documentation."""
    closers: tuple[str, ...] = ()
    """The markers that end a call or a section."""
    inner: tuple[str, ...] = ()
    """The closing markers inside a call, which are orphans outside of one."""
    markers: Markers = field(init=False, repr=False)
    """All markers to look for between calls."""
    stops: Markers | None = field(init=False, repr=False)
    """The markers that end a call, whatever its arguments are."""
    orphans: frozenset[str] = field(init=False, repr=False)
    """The closing markers that are dropped where there is nothing to close. A fence is none: it may open one."""
    begins: re.Pattern[str] = field(init=False, repr=False)
    """Finds the beginning of a marker: three characters of it, or fewer at the end of a text."""

    def __post_init__(self) -> None:
        begin = {*self.anywhere, *self.at_line_start}
        orphans = [marker for marker in (*self.closers, *self.inner) if marker not in begin]
        markers = [*begin, *orphans]
        stops = [*self.anywhere, *self.closers]
        beginnings = {re.escape(marker[:3]) for marker in markers}
        beginnings |= {re.escape(marker[:size]) + r"\Z" for marker in markers for size in (1, 2)}
        set_field = partial(object.__setattr__, self)  # it is frozen
        set_field("markers", Markers(markers))
        set_field("stops", Markers(stops) if stops else None)
        set_field("orphans", frozenset(orphans))
        set_field("begins", re.compile("|".join(sorted(beginnings))))
