"""Tools as they were approved: a server that changes one afterwards is found out.

A server may describe a harmless tool when it is looked at and another one a week later, under the same name. Against
that, what was approved is kept, and what differs is not offered to the model until somebody has agreed.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from anyio import to_thread

from ..exports.diff import diff
from .definition import ServerTool, said
from .reading import excerpt

__all__ = ["Approve", "Pins", "ToolChange"]

MAX_LINES = 100
"""Differences that a `ToolChange` lists."""
MAX_LINE_CHARS = 1024
"""Of one of them: a place in a schema, and what stood and stands there."""
MAX_PLACE_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """A tool that is not what it was, or that is seen for the first time."""

    server: str
    name: str
    """The server's own name for it."""
    old: ServerTool | None = field(repr=False)
    """What was approved; None if nothing was."""
    new: ServerTool = field(repr=False)
    """What the server says now."""

    @property
    def lines(self) -> tuple[str, ...]:
        """What differs, one line each, for a person to read: what is long is cut, invisible characters are codes."""
        before = {} if self.old is None else said(self.old)
        changes = diff(before, said(self.new))
        lines = [excerpt(str(change), MAX_LINE_CHARS) for change in changes[:MAX_LINES]]
        rest = len(changes) - MAX_LINES
        return (*lines, f"and {rest} more") if rest > 0 else tuple(lines)


Approve: TypeAlias = Callable[[ToolChange], "bool | Awaitable[bool]"]
"""Asked about a change; only ``True`` approves it."""


class Pins:
    """Approved tools, by server and name.

        pins = Pins.loads(path.read_text(), on_change=ask_me)
        tools = await fetch_tools(session, server="github", pins=pins)
        path.write_text(pins.dumps())

    A tool that changed is left out of what `fetch_tools` gives, and stands among its refused ones; a call to it is a
    call to an unknown tool. A server that describes a tool differently to each caller needs pins for each caller.

    Args:
        approved: what `approved` of another one gave.
        trust_on_first_use: a tool that was never seen is approved as it is. False asks `on_change` about it, too.
        on_change: asked about each tool that differs from what was approved; sync or async. Without it, a changed tool
            is refused.
    """

    def __init__(
        self,
        approved: Mapping[str, Mapping[str, ServerTool]] | None = None,
        *,
        trust_on_first_use: bool = True,
        on_change: Approve | None = None,
    ) -> None:
        self._approved = {server: dict(tools) for server, tools in (approved or {}).items()}
        self._trust_on_first_use = trust_on_first_use
        self._on_change = on_change

    @classmethod
    def loads(cls, text: str, *, trust_on_first_use: bool = True, on_change: Approve | None = None) -> Pins:
        """Pins as `dumps` wrote them.

        Raises:
            ValueError: the text is none of its.
        """
        try:
            servers: dict[str, dict[str, Any]] = json.loads(text)["pins"]
            approved = {
                server: {name: ServerTool(**{**told, "name": name}) for name, told in tools.items()}
                for server, tools in servers.items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError(f"these are no pins as Pins.dumps() writes them ({type(error).__name__})") from error
        return cls(approved, trust_on_first_use=trust_on_first_use, on_change=on_change)

    def dumps(self) -> str:
        """All that is approved, as JSON text: the same for the same pins, with a line for each value, to keep under
        version control."""
        servers = {
            server: {name: said(definition) for name, definition in tools.items()}
            for server, tools in self._approved.items()
        }
        return json.dumps({"pins": servers}, indent=1, sort_keys=True) + "\n"

    @property
    def approved(self) -> dict[str, dict[str, ServerTool]]:
        """What is approved, by server and by the server's names; a copy."""
        return {server: dict(tools) for server, tools in self._approved.items()}

    def approve(self, server: str, definition: ServerTool) -> None:
        """Approve a tool as it is defined now."""
        self._approved.setdefault(server, {})[definition.name] = definition

    def prepare(self, server: str, definition: ServerTool) -> None:
        """Take what `check` compares, which takes its time with large schemas. It may run in any thread."""
        old = self._approved.get(server, {}).get(definition.name)
        for each in (definition, old):
            _ = each and each.fingerprint

    async def check(self, server: str, definition: ServerTool) -> str | None:
        """Why a tool must not be offered; None if it may, which is remembered."""
        old = self._approved.get(server, {}).get(definition.name)
        if old is not None and old.fingerprint == definition.fingerprint:
            return None
        if old is None and self._trust_on_first_use:
            self.approve(server, definition)
            return None
        change = ToolChange(server=server, name=definition.name, old=old, new=definition)
        if self._on_change is not None:
            answer = self._on_change(change)
            if (await answer if inspect.isawaitable(answer) else answer) is True:
                self.approve(server, definition)
                return None
        if old is None:
            return "it was never approved"
        lines = await to_thread.run_sync(lambda: change.lines, abandon_on_cancel=True)
        return f"it is not what was approved: {'; '.join(_place(line) for line in lines[:3])}"


def _place(line: str) -> str:
    return excerpt(line.partition(":")[0], MAX_PLACE_CHARS)
