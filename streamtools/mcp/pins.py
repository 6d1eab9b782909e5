"""Keeps tools as they were approved, so that a server that changes one afterwards is detected.

A server may describe a harmless tool at first and another one a week later, under the same name. A tool that differs
from the approved one is not offered to the model until it was approved again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from anyio import to_thread
from pydantic_core import from_json

from ..exports.exporting import diff
from ..fields import read_object
from ..text import one_line, type_name
from .definition import ServerTool, excerpt, fields_of

__all__ = ["Approve", "Pins", "ToolChange"]

MAX_LINES = 100
"""The most differences that a `ToolChange` lists."""
MAX_LINE_CHARS = 1024
"""Characters of one difference: a place in a schema, and its old and new value."""
MAX_PLACE_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """Describes a tool that has changed, or is seen for the first time."""

    server: str
    name: str
    """The server's own name for the tool."""
    old: ServerTool | None = field(repr=False)
    """The approved definition; None if there is none."""
    new: ServerTool = field(repr=False)
    """The server's present definition."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The differences, one line each, for a person to read: long values are cut, invisible characters are codes."""
        before = {} if self.old is None else fields_of(self.old)
        changes = diff(before, fields_of(self.new))
        lines = [excerpt(str(change), MAX_LINE_CHARS) for change in changes[:MAX_LINES]]
        rest = len(changes) - MAX_LINES
        return (*lines, f"and {rest} more") if rest > 0 else tuple(lines)


Approve: TypeAlias = Callable[[ToolChange], "bool | Awaitable[bool]"]
"""Decides about a change; only ``True`` approves it."""


class Pins:
    """Keeps the approved tools, by server and name.

        pins = Pins.loads(path.read_text(), on_change=ask_me)
        tools = await fetch_tools(session, server="github", pins=pins)
        path.write_text(pins.dumps())

    `fetch_tools` leaves a tool that changed out, and lists it among its refused ones; a call to it is a call to an
    unknown tool. A server that describes a tool differently to each caller needs pins for each caller.

    Args:
        approved: the value of another one's `approved`.
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
        """Reads pins as `dumps` wrote them.

        Raises:
            ValueError: the text was not written by `dumps`.
        """
        try:
            servers: dict[str, dict[str, Any]] = from_json(text, allow_inf_nan=False)["pins"]
            approved = {
                server: {
                    name: read_object(ServerTool, {**fields, "name": name}, label=f"{server}.{name}")
                    for name, fields in tools.items()
                }
                for server, tools in servers.items()
            }
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            problem = one_line(str(error), 300) if isinstance(error, ValueError) else type_name(error)
            raise ValueError(f"expected a text of Pins.dumps(), got another ({problem})") from error
        return cls(approved, trust_on_first_use=trust_on_first_use, on_change=on_change)

    def dumps(self) -> str:
        """Returns all approved tools as JSON text, the same for the same pins."""
        # Sorted, with a line for each value: pins are kept under version control, and a change has to be a small diff.
        servers = {
            server: {name: fields_of(definition) for name, definition in tools.items()}
            for server, tools in self._approved.items()
        }
        return json.dumps({"pins": servers}, indent=1, sort_keys=True) + "\n"

    @property
    def approved(self) -> dict[str, dict[str, ServerTool]]:
        """The approved tools, by server and by the server's names; a copy."""
        return {server: dict(tools) for server, tools in self._approved.items()}

    def approve(self, server: str, definition: ServerTool) -> None:
        """Approves a tool as it is defined now."""
        self._approved.setdefault(server, {})[definition.name] = definition

    def prepare(self, server: str, definition: ServerTool) -> None:
        """Computes the fingerprints that `check` compares; may run in any thread."""
        # `check` runs in the event loop, which a hash of a large schema would hold up.
        old = self._approved.get(server, {}).get(definition.name)
        for each in (definition, old):
            _ = each and each.fingerprint

    async def check(self, server: str, definition: ServerTool) -> str | None:
        """Returns the reason for which a tool must not be offered; None if it may, and remembers that."""
        # By the server's own name: the prefix is this program's choice, and may change.
        old = self._approved.get(server, {}).get(definition.name)
        if old is not None and old.fingerprint == definition.fingerprint:
            return None
        if old is None and self._trust_on_first_use:
            self.approve(server, definition)
            return None
        change = ToolChange(server=server, name=definition.name, old=old, new=definition)
        if self._on_change is not None:
            answer = self._on_change(change)
            # Only `True`: the text that somebody typed, "no", is true as well.
            if (await answer if inspect.isawaitable(answer) else answer) is True:
                self.approve(server, definition)
                return None
        if old is None:
            return "it was never approved"
        lines = await to_thread.run_sync(lambda: change.lines, abandon_on_cancel=True)
        places = (excerpt(line.partition(":")[0], MAX_PLACE_CHARS) for line in lines[:3])
        return f"it is not what was approved: {'; '.join(places)}"
