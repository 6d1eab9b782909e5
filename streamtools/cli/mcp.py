"""``streamtools mcp pins``: shows the changed tools of MCP servers, and approves them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..durable.files import write_private
from ..errors import StreamToolsError
from ..ground import one_line
from .common import FAILED, UsageError, add_command, file_actions, print_table

if TYPE_CHECKING:
    from ..mcp import Pins, ServerTool, ToolChange

DESCRIPTION = """\
Shows the tools of MCP servers, and which ones a server has added, renamed or
changed since it was first used. The model does not see such a tool until you
approve it. FILE contains the output of Pins.dumps()."""

LIST = """\
Prints the tools of each server, one per line, with their states. The exit
status is 1 if changes wait for an approval."""

SHOW = """\
Prints the changes of each tool line by line, or the definition of a tool that
has not changed. Invisible characters are printed as codes."""

APPROVE = """\
Approves the current definitions of tools, and writes FILE. Restart a running
program, because it keeps its pins in memory. With --fingerprint, a tool that
has changed since you looked at it is not approved."""

EXAMPLES = """\
examples:
  streamtools mcp pins list pins.json
  streamtools mcp pins show pins.json github
  streamtools mcp pins show pins.json github create_issue
  streamtools mcp pins approve pins.json github create_issue
  streamtools mcp pins approve pins.json github create_issue --fingerprint 3fb1a0
  streamtools mcp pins approve pins.json github --all
"""

_DIGITS = 16  # of a fingerprint, as it is shown; fewer may be given, but not so few that another tool is likely to fit
_LEAST_DIGITS = 6


def add(commands: Any) -> None:
    help = "show and approve changed tools of MCP servers"
    group = add_command(commands, "mcp", None, help=help, description=DESCRIPTION, epilog=EXAMPLES)
    subjects = group.add_subparsers(title="subjects", metavar="SUBJECT", required=True)
    help = "the approved definitions of tools"
    action = file_actions(subjects, "pins", help, DESCRIPTION, EXAMPLES, file="the file with the pins")
    action("list", _list, "list the tools of each server and their states", LIST)
    show = action("show", _show, "show the changes of a tool", SHOW)
    approve = action("approve", _approve, "approve a changed tool", APPROVE)
    for parser in (show, approve):
        parser.add_argument("server", metavar="SERVER", help="the name of the server, as listed")
        parser.add_argument("tools", metavar="TOOL", nargs="*", help="a tool's name on the server")
    approve.add_argument("--all", action="store_true", help="approve all changes of the server")
    approve.add_argument("--fingerprint", metavar="HEX", help="the beginning of the tool's fingerprint, as shown")


def _list(options: argparse.Namespace) -> int | None:
    pins = _read(options.file)
    states = {(change.server, change.name): _state(change) for change in pins.pending}
    approved = {(server, name): "approved" for server, tools in pins.approved.items() for name in tools}
    lines = (_lines(*key, state) for key, state in sorted((approved | states).items()))
    print_table([("SERVER", "TOOL", "STATE"), *lines])
    return FAILED if states else None


def _state(change: ToolChange) -> str:
    before = f", was {change.old.name}" if change.kind == "renamed" and change.old is not None else ""
    return f"{change.kind}{before}: waits for an approval"


def _show(options: argparse.Namespace) -> None:
    pins = _read(options.file)
    changes = {change.name: change for change in pins.pending if change.server == options.server}
    approved = pins.approved.get(options.server, {})
    names = options.tools or list(changes)
    _known(options.server, names, changes | approved)
    if not names:
        print("no change waits for an approval")
    for name in names:
        change = changes.get(name)
        head = "approved" if change is None else _state(change)
        print(*_lines(f"{options.server} {name}: {head}"))
        for line in _definition(approved[name]) if change is None else change.lines:
            print(f"  {line}")
        print(f"  fingerprint: {_fingerprint(approved[name] if change is None else change.new)}")


def _definition(tool: ServerTool) -> Iterable[str]:
    values = ((one.name, getattr(tool, one.name)) for one in fields(tool) if one.compare)
    return (f"{name}: {json.dumps(value)}" for name, value in values if value)


def _approve(options: argparse.Namespace) -> None:
    pins = _read(options.file)
    changes = {change.name: change for change in pins.pending if change.server == options.server}
    names = list(changes) if options.all else options.tools
    if bool(options.tools) is options.all:
        raise UsageError("name the tools to approve, or write --all")
    _known(options.server, names, changes)
    if (wanted := options.fingerprint) is not None:
        if len(names) != 1 or len(wanted) < _LEAST_DIGITS:
            raise UsageError(f"--fingerprint takes {_LEAST_DIGITS} digits or more of one tool's fingerprint")
        if not changes[names[0]].new.fingerprint.startswith(wanted.lower()):
            raise StreamToolsError(f"{names[0]} has changed since it was shown; nothing was approved: look at it again")
    for name in names:
        pins.approve(options.server, changes[name].new)
    write_private(options.file, pins.dumps())
    for name in names:
        print(*_lines(f"approved: {options.server} {name} ({_fingerprint(changes[name].new)})"))


def _fingerprint(tool: ServerTool) -> str:
    return tool.fingerprint[:_DIGITS]


def _known(server: str, names: Iterable[str], known: Iterable[str]) -> None:
    if unknown := [name for name in names if name not in known]:
        there = ", ".join(sorted(known)[:10]) or "none"
        raise StreamToolsError(f"{server} has no such tool or change: {unknown[0]}. Known: {there}")


def _lines(*texts: str) -> tuple[str, ...]:
    # Names are texts of servers and files: none may steer the terminal, or begin a row of its own.
    return tuple(one_line(text, 256) for text in texts)


def _read(path: Path) -> Pins:
    from ..mcp import Pins  # a tenth of a second, which the other commands do not take

    try:
        return Pins.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise StreamToolsError(f"cannot read {path}: {error}") from error
