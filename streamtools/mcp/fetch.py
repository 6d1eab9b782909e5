"""Fetches the tools of an MCP server as tools, and caches its list for as long as the server allows."""

from __future__ import annotations

import hashlib
import json
import math
import secrets
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar, TypeVarTuple, Unpack, overload

import anyio
from anyio import CapacityLimiter, to_thread
from pydantic import ValidationError

from ..errors import SchemaError
from ..limits import Limits
from ..schema import Kept
from ..tools import Effect, NeedsApproval, Tool
from .calls import caller
from .definition import (
    RefusedTool,
    ServerTool,
    Unacceptable,
    Weight,
    checked_prefix,
    invisible,
    is_finite,
    namespaced,
    peek,
    read_definition,
    refused,
)
from .elicitation import Elicitation
from .peer import Peer
from .pins import Comparison, Pins

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

EffectOf: TypeAlias = Effect | Callable[[ServerTool], Effect]
"""One effect for all tools of a server, or a function that returns the effect of each."""

ApprovalOf: TypeAlias = bool | Callable[[ServerTool], NeedsApproval]
"""The tools of a server that wait for an approval: all, none, or a function that decides for each."""


@dataclass(frozen=True, eq=False, repr=False)
class FetchedTools(Sequence[Tool[..., Any]]):
    """Holds a server's tools, to pass as ``tools=`` or among others (``[*tools, mine]``). Made by `fetch_tools`."""

    _tools: tuple[Tool[..., Any], ...]
    server: str
    """The name that you gave to `fetch_tools`."""
    definitions: Mapping[str, ServerTool]
    """The server's definition of each tool, by the name that the model calls."""
    refused: tuple[RefusedTool, ...]
    """The tools that were refused, with the reasons."""
    unenforced: Mapping[str, tuple[str, ...]]
    """Parts of a tool's schemas that are not checked, by the tool's name: patterns that need backtracking."""
    complete: bool
    """True if the server's list was read completely."""

    @overload
    def __getitem__(self, index: int) -> Tool[..., Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tool[..., Any]]: ...
    def __getitem__(self, index: int | slice) -> Tool[..., Any] | Sequence[Tool[..., Any]]:
        return self._tools[index]

    def __len__(self) -> int:
        return len(self._tools)

    def __repr__(self) -> str:
        names = ", ".join(tool.name for tool in self._tools)
        return f"<FetchedTools of {self.server!r}: {names or 'none'}; {len(self.refused)} refused>"


async def fetch_tools(
    session: Any,
    *,
    server: str,
    prefix: str | None = None,
    credentials: Credentials = None,
    version: str | None = None,
    cache: SchemaCache | None = None,
    pins: Pins | None = None,
    effect: EffectOf = "once",
    needs_approval: ApprovalOf = False,
    trust_hints: bool = False,
    allow_invisible: bool = False,
    call_timeout: float | None = None,
    list_timeout: float = 30.0,
    elicitation: Elicitation | None = None,
    limits: Limits = Limits(),
) -> FetchedTools:
    """Returns the tools of an MCP server, ready for ``pipeline(..., tools=...)``.

        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await fetch_tools(session, server="github", prefix="github")

    A call's arguments are checked against the server's own schema before anything is sent; the result is checked
    against its output schema. The server is not trusted: a tool that cannot be accepted is refused, and is listed in
    `FetchedTools.refused` with the reason; the others stay. The tools are sorted by the server's names, so the same
    tools make the same request. Keep the session open while the tools are in use.

    Args:
        session: an initialised session: the SDK's ``ClientSession`` (1.x or 2.x) or ``Client``, or any object with its
            ``list_tools`` and ``call_tool``. ``Client`` also answers a server that asks for input in the middle of a
            call; but it checks results itself, with a regular expression engine that a hostile server can block.
        server: your name for this server, the same each time and for no other one; ``Tool.owner`` of its tools.
        prefix: put before each name to keep two servers' tools apart: ``github__create_issue``.
        credentials: what tells the server's callers apart, if several share the cache. They are hashed.
        version: the server's version; for another version the tools are listed anew. Default: the version that the
            session knows.
        cache: asked first; without one, the server is asked each time.
        pins: the tools approved before; a tool that was added, renamed or changed since is refused.
        allow_invisible: also accept tools whose descriptions or schemas have invisible characters: people do not see
            them, and models read them. Those within emoji and between the letters of scripts that need them are
            always accepted.
        effect: the effect of a second run of the same call, for all tools or by tool.
        needs_approval: which of the tools are called only after an approval: all, none, or those that a function of the
            tool's definition chooses.
        trust_hints: trust this server: ``readOnlyHint`` makes a tool ``pure``, ``idempotentHint`` ``idempotent``,
            whatever `effect` says.
        call_timeout: seconds that one call may take; None leaves it to ``Limits(tool_timeout=...)``.
        list_timeout: seconds that listing may take, all pages together, and making the tools; the time for an answer of
            ``Pins(on_change=...)`` does not count.
        elicitation: lets the server ask the user in the middle of a call, one call at a time.
        limits: bounds on what the server may send.

    Raises:
        TypeError: `session` is not a session, or does not accept a request as this version makes it.
        ValueError: `prefix` cannot be part of a name.
        ToolDefinitionError: `effect` is not an effect, or `call_timeout` not a time.
        TimeoutError: the server did not list its tools in time.
        Exception: any error that the session raises if it cannot list them.
    """
    maker = _Maker(
        peer=Peer(session),
        server=server,
        prefix=checked_prefix(prefix),
        effect=effect,
        needs_approval=needs_approval,
        trust_hints=trust_hints,
        allow_invisible=allow_invisible,
        call_timeout=call_timeout,
        elicitation=elicitation,
        limits=limits,
    )
    listing = made = None
    with anyio.move_on_after(list_timeout):
        listing = await maker.listing(cache, credentials, version)
        made = await maker.make(listing.definitions, pins)
    if listing is None or made is None:
        raise TimeoutError(f"the MCP server {server!r} did not list its tools within {list_timeout:g} s")
    # Outside the time for listing, since `Pins(on_change=...)` may ask a person. And last, so that no person is asked
    # about a tool that is refused anyway.
    if maker.comparison is not None:
        maker.comparison.begin()
    for each in made:
        await maker.add(each)
    return FetchedTools(
        tuple(maker.tools.values()),
        server=server,
        definitions=maker.definitions,
        refused=(*listing.refused, *maker.refused),
        unenforced=maker.unenforced,
        complete=listing.complete,
    )


_Plan: TypeAlias = tuple[str, ServerTool, Effect, NeedsApproval]


class _Made(NamedTuple):
    name: str
    definition: ServerTool
    tool: Tool[..., Any]
    unenforced: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Maker:
    peer: Peer
    server: str
    prefix: str
    effect: EffectOf
    needs_approval: ApprovalOf
    trust_hints: bool
    allow_invisible: bool
    call_timeout: float | None
    elicitation: Elicitation | None
    limits: Limits
    tools: dict[str, Tool[..., Any]] = field(default_factory=dict)
    definitions: dict[str, ServerTool] = field(default_factory=dict)
    unenforced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: list[RefusedTool] = field(default_factory=list)
    comparison: Comparison | None = None

    async def listing(self, cache: SchemaCache | None, credentials: Credentials, version: str | None) -> Listing:
        ask = partial(list_all, self.peer, self.limits)
        if cache is None:
            return await ask()
        version = self.peer.server_version if version is None else version
        return await cache.resolve(self.server, ask, credentials=credentials, version=version, limits=self.limits)

    async def make(self, definitions: Iterable[ServerTool], pins: Pins | None) -> list[_Made]:
        plans = list[_Plan]()
        names = set[str]()
        for definition in definitions:
            name = namespaced(self.prefix, definition.name)
            if name in names:
                self._refuse(definition, f"its name becomes {name}, which another tool of the server has")
                continue
            names.add(name)
            if definition.task_support == "required" and not self.peer.runs_as_task(definition):
                self._refuse(definition, "it runs only as a task (taskSupport), which the session does not offer")
                continue
            # The user's own functions are called in the event loop, as the program expects.
            gate = self.needs_approval(definition) if callable(self.needs_approval) else self.needs_approval
            plans.append((name, definition, self._effect(definition), gate))
        # Compiling schemas takes long: a thousand tools of 180 kB are seconds in which the event loop would stand
        # still.
        aside = Aside()
        return await aside.run(self._make, plans, pins, aside)

    def _make(self, plans: Iterable[_Plan], pins: Pins | None, aside: Aside) -> list[_Made]:
        made = []
        for plan in plans:
            if aside.is_left:  # the listing has timed out, and no caller waits for the tools
                break
            if not self.allow_invisible and (why := invisible(plan[1])):
                self._refuse(plan[1], why)
                continue
            try:
                made.append(self._tool(plan))
            except SchemaError as problem:
                self._refuse(plan[1], str(problem))
                continue
        if pins is not None:
            self.comparison = pins.compare(self.server, (each.definition for each in made))
        return made

    async def add(self, made: _Made) -> None:
        name, definition, tool, unenforced = made
        if self.comparison is not None and (why := await self.comparison.check(definition)):
            self._refuse(definition, why)
            return
        self.tools[name], self.definitions[name] = tool, definition
        if unenforced:
            self.unenforced[name] = unenforced

    def _refuse(self, definition: ServerTool, why: str) -> None:
        self.refused.append(refused(definition, why))

    def _tool(self, plan: _Plan) -> _Made:
        name, definition, effect, needs_approval = plan
        # Kept: definition, tool and compiled checks share one schema, since a list may have megabytes of them.
        output = None if definition.output_schema is None else Kept(dict(definition.output_schema))
        tool = Tool.from_schema(
            caller(
                self.peer,
                self.server,
                definition.name,
                effect=effect,
                structured=output is not None,
                limits=self.limits,
                elicitation=self.elicitation,
                as_task=self.peer.runs_as_task(definition),
            ),
            Kept(dict(definition.input_schema)),
            name=name,
            description=definition.description,
            owner=self.server,
            effect=effect,
            needs_approval=needs_approval,
            timeout=self.call_timeout,
            pass_as="mapping",
            schema_source="protocol_fetch",
            output_schema=output,
            annotations=definition.annotations,
            title=definition.title,
            limits=self.limits,
        )
        return _Made(name, definition, tool, tuple(tool.check()))

    def _effect(self, definition: ServerTool) -> Effect:
        # "Clients MUST consider tool annotations to be untrusted unless they come from trusted servers": by a wrong
        # `readOnlyHint` a call that acts would run twice.
        # https://modelcontextprotocol.io/specification/2025-11-25/server/tools
        if self.trust_hints and definition.annotations.get("readOnlyHint"):
            return "pure"
        if self.trust_hints and definition.annotations.get("idempotentHint"):
            return "idempotent"
        return self.effect(definition) if callable(self.effect) else self.effect


# -- the list of a server's tools --


MAX_CURSOR_CHARS = 16_384
"""Characters of a page's cursor, which is sent back as it came; those of real servers have some hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    definitions: tuple[ServerTool, ...]  # the tools that can be accepted, sorted by the server's names
    refused: tuple[RefusedTool, ...]
    complete: bool
    ttl_s: float | None
    """Seconds for which the list is valid according to the server (``ttlMs``); None if the server does not say."""
    public: bool  # True if the server says that the list is the same for all callers (``cacheScope``)


@dataclass(slots=True)
class _Found:
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
            found.stop("the MCP SDK refuses this page of the list: it breaks the protocol")
            return False
        more = await aside.run(_read_page, page, limits, found, aside)
        cursor = _next_cursor(page)
        # It may be large, and the next one is on its way.
        del page
        if not more:
            return False
        if cursor is None:
            return True
        if not peer.has_pages:
            found.stop("the list has another page, which this session cannot request: its list_tools() has no cursor")
            return False
        if len(cursor) > MAX_CURSOR_CHARS:
            found.stop(f"the list has another page, whose cursor is longer than {MAX_CURSOR_CHARS} characters")
            return False
        # Not only the cursor before: a circle may have any length.
        if cursor in used:
            found.stop("the list is circular: a page leads back to an earlier one")
            return False
        used.add(cursor)
    found.stop(f"the list has more pages than max_list_pages={limits.max_list_pages}")
    return False


def _read_page(page: Any, limits: Limits, found: _Found, aside: Aside) -> bool:
    tools = page if isinstance(page, list) else peek(page, "tools")
    if not isinstance(tools, (list, tuple)):
        found.stop("a page of the list has no list of tools")
        return False
    _note_caching(page, found)
    for raw in tools:
        if found.seen >= limits.max_listed_tools:
            found.stop(f"the list has more tools than max_listed_tools={limits.max_listed_tools}; the rest is left out")
            return False
        found.seen += 1
        definition = _read(raw, limits, found)
        # After the reading: a refused entry has taken time and memory, too.
        if why := _too_much(found.weight, limits):
            found.stop(f"the list {why}; the rest is left out")
            return False
        if definition is not None:
            _add(definition, raw, found)
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


def _add(definition: ServerTool, raw: Any, found: _Found) -> None:
    known = found.by_name.get(definition.name)
    if definition.name in found.ambiguous or (known is not None and known.fingerprint != definition.fingerprint):
        # It is unknown which of the two would run. The same tool again is normal where a list moved between two pages.
        found.by_name.pop(definition.name, None)
        found.ambiguous.add(definition.name)
        found.refused.append(refused(raw, "the server has several tools of this name"))
        return
    found.by_name[definition.name] = definition


def _note_caching(page: Any, found: _Found) -> None:
    # The SDK's objects have defaults where the server has sent nothing, and say which fields were set.
    fields_set = getattr(page, "model_fields_set", None)
    if fields_set is None or "ttl_ms" in fields_set or "ttlMs" in fields_set:
        ttl = peek(page, "ttlMs", "ttl_ms")
        if is_finite(ttl):
            found.ttls.append(max(ttl, 0) / 1000)
    found.public = found.public and peek(page, "cacheScope", "cache_scope") == "public"


def _next_cursor(page: Any) -> str | None:
    cursor = peek(page, "nextCursor", "next_cursor")
    return cursor if isinstance(cursor, str) and cursor else None  # servers without pages may send ""


# -- the cache of lists --


Credentials: TypeAlias = str | bytes | Mapping[str, str] | None
"""What tells a server's callers apart: a token, or the headers of a request."""

LIST_CHANGED = "notifications/tools/list_changed"


class MessageHandler(Protocol):
    async def __call__(self, message: Any) -> None:
        """Handles a message of the server."""


class _Key(NamedTuple):
    server: str
    partition: bytes | None  # a hash of the credentials; None: for all callers
    version: str | None
    limits: Limits


class SchemaCache:
    """Keeps the tool lists of MCP servers, one for each server and caller.

    A list is valid for as long as the server says (``ttlMs``, MCP 2026-07-28; 0 means that it is never kept), else for
    `default_ttl_s`. It is dropped earlier when the server announces a change (`message_handler`), on `invalidate`, and
    for a session whose server has another version. Callers share a list only if the server says that all see the same
    (``cacheScope: public``). Credentials are not kept.

    Simultaneous calls of `resolve` share one ``tools/list``. Use one cache in one event loop at a time.

    Args:
        default_ttl_s: seconds for which a list is valid when the server does not say; 0 keeps none.
        max_ttl_s: the longest time that a server may ask for (one day, as in the MCP SDK).
        max_entries: the number of lists kept; the oldest is dropped first.
        clock: seconds from any start, for tests.
    """

    def __init__(
        self,
        *,
        default_ttl_s: float = 300.0,
        max_ttl_s: float = 86_400.0,
        max_entries: int = 64,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_entries < 1:
            raise ValueError(f"max_entries: expected at least 1, got {max_entries}")
        self._default_ttl_s = default_ttl_s
        self._max_ttl_s = max_ttl_s
        self._max_entries = max_entries
        self._clock = clock
        self._salt = secrets.token_bytes(32)  # so that the kept hashes cannot be compared with those of guessed tokens
        self._entries: dict[_Key, tuple[Listing, float]] = {}  # each with the time at which it expires
        self._flights: dict[_Key, anyio.Event] = {}
        self._changes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<SchemaCache of {len(self)} lists>"

    async def resolve(
        self,
        server: str,
        ask: Callable[[], Awaitable[Listing]],
        *,
        credentials: Credentials = None,
        version: str | None = None,
        limits: Limits = Limits(),
    ) -> Listing:
        """Returns the list of a server: the cached one if it is still valid, else the one that `ask` gets.

        Args:
            server: its name in this program; two servers never share one.
            ask: gets the list from the server.
            credentials: what tells the server's callers apart.
            version: the server's version; each version has its own list.
            limits: the limits that `ask` reads the list by.
        """
        key = _Key(server, self._hash(credentials), version, limits)
        while True:
            # The list of these credentials, or the one that, as the server says, all callers share.
            for candidate in (key, key._replace(partition=None)):
                if (listing := self._fresh(candidate)) is not None:
                    return listing
            if (flight := self._flights.get(key)) is None:
                return await self._fly(key, ask)
            # One request for all that wait. Its list may be stale by now, or it failed: then the next one asks itself.
            await flight.wait()

    def invalidate(self, server: str | None = None) -> None:
        """Drops the lists of a server, or all lists; lists that are being fetched are not kept either."""
        self._changes += 1
        gone = [key for key in self._entries if server is None or key.server == server]
        for key in gone:
            del self._entries[key]

    def message_handler(self, server: str, then: MessageHandler | None = None) -> MessageHandler:
        """Returns a handler for ``ClientSession(..., message_handler=...)`` that drops a changed list.

        Servers of MCP 2026-07-28 announce a change only to clients that listen for it (``subscriptions/listen``).

        Args:
            server: the name that you pass to `fetch_tools`.
            then: also receives every message.
        """

        async def handle(message: Any) -> None:
            if peek(getattr(message, "root", message), "method") == LIST_CHANGED:  # SDK 1 wraps it in a `root`
                self.invalidate(server)
            if then is not None:
                await then(message)

        return handle

    def _fresh(self, key: _Key) -> Listing | None:
        listing, expires_at = self._entries.get(key, (None, math.inf))
        if self._clock() >= expires_at:
            del self._entries[key]
            return None
        return listing

    async def _fly(self, key: _Key, ask: Callable[[], Awaitable[Listing]]) -> Listing:
        flight = self._flights[key] = anyio.Event()
        asked_at, changes = self._clock(), self._changes
        try:
            listing = await ask()
            # A change that was announced while the list was on its way may or may not be in it.
            if changes == self._changes:
                self._keep(key, listing, asked_at)
            return listing
        finally:
            del self._flights[key]
            flight.set()

    def _keep(self, key: _Key, listing: Listing, asked_at: float) -> None:
        ttl_s = self._default_ttl_s if listing.ttl_s is None else min(listing.ttl_s, self._max_ttl_s)
        # An incomplete list is asked for again: the page that failed may be there the next time.
        if ttl_s <= 0 or not listing.complete:
            return
        if listing.public:
            key = key._replace(partition=None)
        self._entries.pop(key, None)  # so that it is kept as the newest
        while len(self._entries) >= self._max_entries:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = listing, asked_at + ttl_s

    def _hash(self, credentials: Credentials) -> bytes:
        # Only a key in memory is needed: neither a dump nor a `repr` of the cache shows a token.
        if credentials is None:
            return b""
        if isinstance(credentials, Mapping):
            credentials = json.dumps(sorted(credentials.items()))
        if isinstance(credentials, str):
            credentials = credentials.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(credentials, key=self._salt).digest()


class Aside:
    """Runs one piece of work after the other in a thread; the task that waits can be cancelled at once. The thread
    cannot: the work has to check `is_left` between bounded steps, and end."""

    def __init__(self) -> None:
        self._limiter = CapacityLimiter(1)  # its own, so that it does not wait for other threads
        self._left = threading.Event()

    @property
    def is_left(self) -> bool:
        return self._left.is_set()

    async def run(self, work: Callable[[Unpack[Ts]], T], *arguments: *Ts) -> T:
        done = False
        try:
            result = await to_thread.run_sync(work, *arguments, abandon_on_cancel=True, limiter=self._limiter)
            done = True
            return result
        finally:
            if not done:
                self._left.set()
