"""Keeps a server's tools as they were approved: a changed or new tool is not offered until it is approved."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from anyio import to_thread
from pydantic_core import from_json

from ..durable.fields import read_object
from ..exports import diff
from ..ground import one_line, type_name
from .definition import ServerTool, fields_of

MAX_LINES = 100
MAX_LINE_CHARS = 1024  # characters of one difference: a place in a schema, and its old and new value
MAX_PLACE_CHARS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChange:
    """Describes a tool that a server has added, renamed or changed since it was first used."""

    server: str
    name: str
    """The server's current name for the tool."""
    old: ServerTool | None = field(repr=False)
    """The approved definition; None if there is none. For a renamed tool, that of the approved tool with the same
    arguments that the server no longer lists."""
    new: ServerTool = field(repr=False)
    """The server's current definition."""

    @property
    def kind(self) -> Literal["added", "renamed", "changed"]:
        """What the server did to the tool."""
        return "added" if self.old is None else "changed" if self.old.name == self.name else "renamed"

    @property
    def lines(self) -> tuple[str, ...]:
        """The differences, one line each, for a person to read: long values are cut, invisible characters are codes."""
        before = {} if self.old is None else fields_of(self.old)
        changes = diff(before, fields_of(self.new))
        lines = [one_line(str(change), MAX_LINE_CHARS) for change in changes[:MAX_LINES]]
        rest = len(changes) - MAX_LINES
        return (*lines, f"and {rest} more") if rest > 0 else tuple(lines)


Approve: TypeAlias = Callable[[ToolChange], "bool | Awaitable[bool]"]  # decides about a change; only `True` approves it


class Pins:
    """Keeps the approved tools of each server.

        pins = Pins.loads(path.read_text(), on_change=ask_me)
        tools = await fetch_tools(session, server="github", pins=pins)
        path.write_text(pins.dumps())

    The tools of a server's first list are approved as they are. From then on, `fetch_tools` leaves out each tool that
    the server adds, renames or changes until it is approved: by `on_change`, or later by a person, with
    ``streamtools mcp pins approve`` on the file. It is listed among the refused tools; a call to it is a call to an
    unknown tool. If a server describes a tool differently to each caller, use pins for each caller.

    Args:
        approved: the `approved` of other pins.
        trust_on_first_use: approve the tools of a server without pins as they are. False asks `on_change` about them,
            too.
        on_change: asked about each tool that differs from what was approved; sync or async. Without it, such a tool is
            refused.
    """

    def __init__(
        self,
        approved: Mapping[str, Mapping[str, ServerTool]] | None = None,
        *,
        trust_on_first_use: bool = True,
        on_change: Approve | None = None,
    ) -> None:
        self._approved = {server: dict(tools) for server, tools in (approved or {}).items()}
        self._pending: dict[str, dict[str, ToolChange]] = {}
        self._trust_on_first_use = trust_on_first_use
        self._on_change = on_change

    @classmethod
    def loads(cls, text: str, *, trust_on_first_use: bool = True, on_change: Approve | None = None) -> Pins:
        """Reads pins as `dumps` wrote them.

        Raises:
            ValueError: the text was not written by `dumps`.
        """
        try:
            read = from_json(text, allow_inf_nan=False)
            approved = {
                server: {name: _tool(server, name, fields) for name, fields in tools.items()}
                for server, tools in read["pins"].items()
            }
            made = cls(approved, trust_on_first_use=trust_on_first_use, on_change=on_change)
            for server, changes in read.get("pending", {}).items():
                for name, change in changes.items():
                    old = None if change["old"] is None else approved.get(server, {}).get(change["old"])
                    made._wait(ToolChange(server=server, name=name, old=old, new=_tool(server, name, change["new"])))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            problem = one_line(str(error), 300) if isinstance(error, ValueError) else type_name(error)
            raise ValueError(f"the text was not written by Pins.dumps() ({problem})") from error
        return made

    def dumps(self) -> str:
        """Returns all approved tools, and the changes that wait for an approval, as deterministic JSON text."""
        # Sorted, with a line for each value: pins are kept under version control, and a change has to be a small diff.
        written: dict[str, Any] = {
            "pins": {
                server: {name: fields_of(definition) for name, definition in tools.items()}
                for server, tools in self._approved.items()
            }
        }
        for change in self.pending:
            entry = {"old": None if change.old is None else change.old.name, "new": fields_of(change.new)}
            written.setdefault("pending", {}).setdefault(change.server, {})[change.name] = entry
        return json.dumps(written, indent=1, sort_keys=True) + "\n"

    @property
    def approved(self) -> dict[str, dict[str, ServerTool]]:
        """The approved tools, by server and by the server's names; a copy."""
        return {server: dict(tools) for server, tools in self._approved.items()}

    @property
    def pending(self) -> tuple[ToolChange, ...]:
        """The changes that were refused, and wait for an approval, as each server last listed its tools."""
        return tuple(change for changes in self._pending.values() for change in changes.values())

    def approve(self, server: str, definition: ServerTool) -> None:
        """Approves a tool as it is defined now. A renamed tool is approved only under its new name."""
        tools = self._approved.setdefault(server, {})
        change = self._pending.get(server, {}).pop(definition.name, None)
        if change is not None and change.old is not None:
            tools.pop(change.old.name, None)
        tools[definition.name] = definition

    def compare(self, server: str, definitions: Iterable[ServerTool]) -> Comparison:
        """Compares a server's list with its approved tools; works in any thread, since hashing schemas takes long."""
        listed = {definition.name: definition for definition in definitions}
        approved = self._approved.get(server, {})
        gone = {_arguments(tool): tool for name, tool in sorted(approved.items()) if name not in listed}
        old = dict(approved)
        for name, tool in listed.items():
            if gone and name not in approved and (before := gone.pop(_arguments(tool), None)) is not None:
                old[name] = before
        for each in (*listed.values(), *old.values()):
            _ = each.fingerprint
        return Comparison(self, server, old)

    def _wait(self, change: ToolChange) -> None:
        self._pending.setdefault(change.server, {})[change.name] = change


class Comparison:
    def __init__(self, pins: Pins, server: str, old: Mapping[str, ServerTool]) -> None:
        self._pins = pins
        self._server = server
        self._old = old
        self._is_first = self._is_trusted = False

    def begin(self) -> None:
        """Notes that the server is used. Changes wait for an approval only while the server still lists them."""
        self._is_first = self._server not in self._pins._approved
        self._is_trusted = self._is_first and self._pins._trust_on_first_use
        self._pins._pending.pop(self._server, None)
        if self._is_trusted:  # also a server without tools has been used then
            self._pins._approved.setdefault(self._server, {})

    async def check(self, definition: ServerTool) -> str | None:
        """Returns why a tool must not be offered; None if it may be, and remembers that."""
        # By the server's own name: the prefix is this program's choice, and may change.
        old = self._old.get(definition.name)
        if old is not None and old.fingerprint == definition.fingerprint:
            return None
        if self._is_trusted:
            self._pins.approve(self._server, definition)
            return None
        change = ToolChange(server=self._server, name=definition.name, old=old, new=definition)
        self._pins._wait(change)
        if self._pins._on_change is not None:
            answer = self._pins._on_change(change)
            # Only `True`: a typed "no" is true as well.
            if (await answer if inspect.isawaitable(answer) else answer) is True:
                self._pins.approve(self._server, definition)
                return None
        if old is None:
            return "it was never approved" if self._is_first else "the server has added it, and it was never approved"
        lines = await to_thread.run_sync(lambda: change.lines, abandon_on_cancel=True)
        places = (one_line(line.partition(":")[0], MAX_PLACE_CHARS) for line in lines[:3])
        return f"it differs from what was approved: {'; '.join(places)}"


def _tool(server: str, name: str, written: Mapping[str, Any]) -> ServerTool:
    tool: ServerTool = read_object(ServerTool, {**written, "name": name}, label=f"{server}.{name}")
    return tool


def _arguments(tool: ServerTool) -> str:
    return hashlib.sha256(json.dumps(tool.input_schema, sort_keys=True).encode()).hexdigest()
