"""Fetches the tools of an MCP server as tools: `fetch_tools`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, TypeAlias, overload

import anyio

from ..errors import SchemaError
from ..event_loop import Aside
from ..limits import Limits
from ..schema import Kept
from ..tools import Effect, NeedsApproval, Tool
from .cache import Credentials, SchemaCache
from .calls import caller
from .definition import RefusedTool, ServerTool, checked_prefix, namespaced, refused
from .listing import Listing, list_all
from .peer import Peer
from .pins import Pins

__all__ = ["ApprovalOf", "EffectOf", "FetchedTools", "fetch_tools"]

EffectOf: TypeAlias = Effect | Callable[[ServerTool], Effect]
"""One effect for all tools of a server, or a function that returns it for each."""

ApprovalOf: TypeAlias = bool | Callable[[ServerTool], NeedsApproval]
"""The tools of a server that wait for an approval: all, none, or a function that decides for each."""


@dataclass(frozen=True, eq=False, repr=False)
class FetchedTools(Sequence[Tool[..., Any]]):
    """The tools of a server, to pass as ``tools=`` or among others (``[*tools, mine]``). Made by `fetch_tools`."""

    _tools: tuple[Tool[..., Any], ...]
    server: str
    """The name that `fetch_tools` was given."""
    definitions: Mapping[str, ServerTool]
    """The definition of each tool by its server, by the name under which the model calls the tool."""
    refused: tuple[RefusedTool, ...]
    """The tools that were not taken, with the reasons."""
    unenforced: Mapping[str, tuple[str, ...]]
    """Parts of a tool's schemas that are not checked, by the tool's name: patterns that no linear engine takes."""
    complete: bool
    """True if the server's list was read to its end."""

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
    call_timeout: float | None = None,
    list_timeout: float = 30.0,
    limits: Limits = Limits(),
) -> FetchedTools:
    """Returns the tools of an MCP server, ready for ``pipeline(..., tools=...)``.

        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = await fetch_tools(session, server="github", prefix="github")

    A call's arguments are checked against the server's own schema before anything is sent; the result is checked
    against its output schema. The server is not trusted: a tool that cannot be taken is refused alone, and is listed in
    `FetchedTools.refused` with the reason. The tools come sorted by the server's names, so that the same tools make the
    same request. Keep the session open while the tools are in use.

    A list is read and its tools are made in a thread, so that the event loop goes on.

    Args:
        session: an initialised session: the SDK's ``ClientSession`` (1.x or 2.x) or ``Client``, or any object with its
            ``list_tools`` and ``call_tool``. ``Client`` also answers a server that asks for input in the middle of a
            call; but it checks results itself, with a regular expression engine that a hostile server can hold up.
        server: your name for this server, the same each time and for no other one; ``Tool.owner`` of its tools.
        prefix: put before each name, so that two servers' tools stay apart: ``github__create_issue``.
        credentials: the means by which the server tells its callers apart, if several share the cache. They are hashed.
        version: the server's version; another one is listed anew. By default the version that the session knows.
        cache: asked first; without one, the server is asked each time.
        pins: the tools approved before; a tool that differs is refused.
        effect: the effect of a second run of the same call, for all tools or by tool.
        needs_approval: which of the tools are called only after an approval: all, none, or those that a function of the
            tool's definition chooses.
        trust_hints: trust this server: ``readOnlyHint`` makes a tool ``pure``, ``idempotentHint`` ``idempotent``,
            whatever `effect` says.
        call_timeout: seconds that one call may take; None leaves it to ``Limits(tool_timeout=...)``.
        list_timeout: seconds that listing may take, all pages together, and making the tools; the time for an answer of
            ``Pins(on_change=...)`` does not count.
        limits: bounds on what the server may send.

    Raises:
        TypeError: `session` is no session, or does not take a request in the form made here.
        ValueError: `prefix` cannot stand before a name.
        ToolDefinitionError: `effect` is no effect, or `call_timeout` no time.
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
        call_timeout=call_timeout,
        limits=limits,
    )
    listing = made = None
    with anyio.move_on_after(list_timeout):
        listing = await maker.listing(cache, credentials, version)
        made = await maker.make(listing.definitions, pins)
    if listing is None or made is None:
        raise TimeoutError(f"the MCP server {server!r} did not list its tools within {list_timeout:g} s")
    for each in made:
        await maker.take(each, pins)
    return FetchedTools(
        tuple(maker.tools.values()),
        server=server,
        definitions=maker.definitions,
        refused=(*listing.refused, *maker.refused),
        unenforced=maker.unenforced,
        complete=listing.complete,
    )


_Plan: TypeAlias = tuple[str, ServerTool, Effect, NeedsApproval]
"""The name of a tool that is to be made, its definition, and the caller's decisions about it."""


class _Made(NamedTuple):
    """A tool that was made, with the parts of its schemas that cannot be enforced."""

    name: str
    definition: ServerTool
    tool: Tool[..., Any]
    unenforced: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class _Maker:
    """Makes tools of one server's definitions, and keeps the tools and the refusals."""

    peer: Peer
    server: str
    prefix: str
    effect: EffectOf
    needs_approval: ApprovalOf
    trust_hints: bool
    call_timeout: float | None
    limits: Limits
    tools: dict[str, Tool[..., Any]] = field(default_factory=dict)
    definitions: dict[str, ServerTool] = field(default_factory=dict)
    unenforced: dict[str, tuple[str, ...]] = field(default_factory=dict)
    refused: list[RefusedTool] = field(default_factory=list)

    async def listing(self, cache: SchemaCache | None, credentials: Credentials, version: str | None) -> Listing:
        ask = partial(list_all, self.peer, self.limits)
        if cache is None:
            return await ask()
        version = self.peer.server_version if version is None else version
        return await cache.resolve(self.server, ask, credentials=credentials, version=version, limits=self.limits)

    async def make(self, definitions: Iterable[ServerTool], pins: Pins | None) -> list[_Made]:
        """Makes the tools of these definitions; notes those that cannot be made. The user's functions are called here,
        in the event loop; the rest is done in a thread."""
        plans = list[_Plan]()
        names = set[str]()
        for definition in definitions:
            name = namespaced(self.prefix, definition.name)
            if name in names:
                self._refuse(definition, f"its name becomes {name}, which another of the server's tools has")
                continue
            names.add(name)
            plans.append((name, definition, self._effect(definition), self._needs_approval(definition)))
        aside = Aside()
        return await aside.run(self._make, plans, pins, aside)

    def _make(self, plans: Iterable[_Plan], pins: Pins | None, aside: Aside) -> list[_Made]:
        made = []
        for plan in plans:
            if aside.is_left:
                break
            try:
                made.append(self._tool(plan))
            except SchemaError as problem:
                self._refuse(plan[1], str(problem))
                continue
            if pins is not None:
                pins.prepare(self.server, plan[1])
        return made

    async def take(self, made: _Made, pins: Pins | None) -> None:
        """Takes a tool, or notes why not. Pins come last, so that nobody is asked about a tool that cannot be taken
        anyway."""
        name, definition, tool, unenforced = made
        if pins is not None and (why := await pins.check(self.server, definition)):
            self._refuse(definition, why)
            return
        self.tools[name], self.definitions[name] = tool, definition
        if unenforced:
            self.unenforced[name] = unenforced

    def _refuse(self, definition: ServerTool, why: str) -> None:
        self.refused.append(refused(definition, why))

    def _tool(self, plan: _Plan) -> _Made:
        name, definition, effect, needs_approval = plan
        output = None if definition.output_schema is None else Kept(dict(definition.output_schema))
        tool = Tool.from_schema(
            caller(
                self.peer,
                self.server,
                definition.name,
                effect=effect,
                structured=output is not None,
                limits=self.limits,
            ),
            Kept(dict(definition.input_schema)),
            name=name,
            description=definition.description,
            owner=self.server,
            effect=effect,
            needs_approval=needs_approval,
            timeout=self.call_timeout,
            takes="mapping",
            schema_source="protocol_fetch",
            output_schema=output,
            annotations=definition.annotations,
            title=definition.title,
            limits=self.limits,
        )
        return _Made(name, definition, tool, tuple(tool.check()))

    def _effect(self, definition: ServerTool) -> Effect:
        if self.trust_hints and definition.annotations.get("readOnlyHint"):
            return "pure"
        if self.trust_hints and definition.annotations.get("idempotentHint"):
            return "idempotent"
        return self.effect(definition) if callable(self.effect) else self.effect

    def _needs_approval(self, definition: ServerTool) -> NeedsApproval:
        return self.needs_approval(definition) if callable(self.needs_approval) else self.needs_approval
