"""Lists the tools of a server: reads all pages of ``tools/list``, bounded."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from ..event_loop import Aside
from ..limits import Limits
from .definition import RefusedTool, ServerTool, Unacceptable, Weight, read_definition, refused
from .peer import Peer
from .reading import peek

__all__ = ["Listing", "list_all"]

MAX_CURSOR_CHARS = 16_384
"""Characters of a page's cursor, which is sent back as it came; those of real servers have some hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A server's tools, as they were listed, independent of any session."""

    definitions: tuple[ServerTool, ...]
    """The tools that can be taken, sorted by the server's names."""
    refused: tuple[RefusedTool, ...]
    complete: bool
    """True if the list was read to its end."""
    ttl_s: float | None
    """Seconds for which the list is valid according to the server (``ttlMs``); None if the server does not say."""
    public: bool
    """True if the server says that the list is the same for everybody (``cacheScope``)."""


@dataclass(slots=True)
class _Found:
    """The content of the pages read so far."""

    by_name: dict[str, ServerTool] = field(default_factory=dict)
    refused: list[RefusedTool] = field(default_factory=list)
    ambiguous: set[str] = field(default_factory=set)
    seen: int = 0
    weight: Weight = field(default_factory=Weight)
    ttls: list[float] = field(default_factory=list)
    public: bool = True

    def stop(self, reason: str) -> None:
        self.refused.append(RefusedTool(name=None, reason=reason))


async def list_all(peer: Peer, limits: Limits) -> Listing:
    """Asks for every page. This ends whatever the server answers; problems are listed in `Listing.refused`. Pages are
    read in a thread, not in the event loop.

    Raises:
        Exception: any error that the session raises when it cannot ask, or is answered with an error.
    """
    found = _Found()
    complete = await _read_pages(peer, limits, found)
    definitions = (found.by_name[name] for name in sorted(found.by_name))
    return Listing(
        definitions=tuple(definitions),
        refused=tuple(found.refused),
        complete=complete,
        ttl_s=min(found.ttls, default=None),
        public=found.public,
    )


async def _read_pages(peer: Peer, limits: Limits, found: _Found) -> bool:
    cursor: str | None = None
    used: set[str] = set()
    aside = Aside()
    for _ in range(limits.max_list_pages):
        try:
            page = await peer.page(cursor)
        except ValidationError:
            found.stop("the MCP SDK does not take this page of the list: it breaks the protocol")
            return False
        more = await aside.run(_read_page, page, limits, found, aside)
        cursor = _next_cursor(page)
        del page  # it may be large, and the next one is on its way
        if not more:
            return False
        if cursor is None:
            return True
        if not peer.has_pages:
            found.stop("the list has another page, for which this session cannot ask: its list_tools() takes no cursor")
            return False
        if len(cursor) > MAX_CURSOR_CHARS:
            found.stop(f"the list has another page, whose cursor is longer than {MAX_CURSOR_CHARS} characters")
            return False
        if cursor in used:
            found.stop("the list goes in a circle: a page leads to one before it")
            return False
        used.add(cursor)
    found.stop(f"the list has more pages than max_list_pages={limits.max_list_pages}")
    return False


def _read_page(page: Any, limits: Limits, found: _Found, aside: Aside) -> bool:
    """Takes a page's tools; returns False if there is nothing more to take."""
    tools = page if isinstance(page, list) else peek(page, "tools")
    if not isinstance(tools, (list, tuple)):
        found.stop("a page of the list holds no list of tools")
        return False
    _note_caching(page, found)
    for raw in tools:
        if found.seen >= limits.max_listed_tools:
            found.stop(f"the list has more tools than max_listed_tools={limits.max_listed_tools}; the rest is left out")
            return False
        found.seen += 1
        definition = _read(raw, limits, found)
        if why := _too_much(found.weight, limits):
            found.stop(f"the list {why}; the rest is left out")
            return False
        if definition is not None:
            _take(definition, raw, found)
        if aside.is_left:
            return False
    return True


def _too_much(weight: Weight, limits: Limits) -> str | None:
    if weight.size > limits.max_list_bytes:
        return f"is larger than max_list_bytes={limits.max_list_bytes}"
    if weight.values > limits.max_list_values:
        return f"has schemas of more JSON values than max_list_values={limits.max_list_values}"
    return None


def _read(raw: Any, limits: Limits, found: _Found) -> ServerTool | None:
    try:
        return read_definition(raw, limits, found.weight)
    except Unacceptable as reason:
        found.refused.append(refused(raw, str(reason)))
        return None


def _take(definition: ServerTool, raw: Any, found: _Found) -> None:
    known = found.by_name.get(definition.name)
    if definition.name in found.ambiguous or (known is not None and known.fingerprint != definition.fingerprint):
        # It is unknown which of the two would run. The same tool again is normal where a list moved between two pages.
        found.by_name.pop(definition.name, None)
        found.ambiguous.add(definition.name)
        found.refused.append(refused(raw, "the server has several tools of this name"))
        return
    found.by_name[definition.name] = definition


def _note_caching(page: Any, found: _Found) -> None:
    """Notes ``ttlMs`` and ``cacheScope``. The SDK fills them in where the server omitted them, which its objects
    show."""
    said = getattr(page, "model_fields_set", None)
    if said is None or "ttl_ms" in said or "ttlMs" in said:
        ttl = peek(page, "ttlMs", "ttl_ms")
        if isinstance(ttl, (int, float)) and not isinstance(ttl, bool) and math.isfinite(ttl):
            found.ttls.append(max(ttl, 0) / 1000)
    found.public = found.public and peek(page, "cacheScope", "cache_scope") == "public"


def _next_cursor(page: Any) -> str | None:
    cursor = peek(page, "nextCursor", "next_cursor")
    return cursor if isinstance(cursor, str) and cursor else None  # servers without pages may send ""
