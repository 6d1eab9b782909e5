"""``streamtools schema``: shows a tool as the providers see it."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from types import ModuleType
from typing import Any

from ..errors import StreamToolsError, ToolDefinitionError
from ..exports import Exported, diff, export, parts, targets
from ..ground import printable, type_name
from ..tools import Tool, tool
from ..tools.entries import STRICT, short_names
from ..wires import meant
from .common import FAILED, UsageError, add_command, listed

DESCRIPTION = """\
Shows a tool as each provider sees it, or the differences between providers.
The module is imported, so its code runs; no tool is called, and nothing is
sent."""

SHOW = """\
Prints, for each target, the tool's entry in a request, and the parts of the
schema that the target cannot express (validation still enforces these parts)."""

DIFF = """\
Prints the differences between the first target and each of the others in name,
description, and the schemas of arguments and result, one place per line:
+ only in the other, - only in the first, ~ different in both."""

MORE = """\
Append .strict to a target for the provider's strict mode: openai.strict. A
module without :function means all of its tools.

"""

EXAMPLES = """\
examples:
  streamtools schema show myapp.tools:add --targets openai,mcp
  streamtools schema diff myapp.tools:add --targets openai,openai.strict
  streamtools schema diff myapp.tools:add --targets openai,mcp --check
"""


def add(commands: Any) -> None:
    short = [f"{short} ({name})" for short, name in short_names().items()]
    epilog = listed("targets", targets()) + listed("short names", short) + MORE + EXAMPLES
    group = add_command(
        commands, "schema", None, help="show a tool as each provider sees it", description=DESCRIPTION, epilog=epilog
    )
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = add_command(actions, "show", _show, help="show the payload for each target", description=SHOW, epilog=epilog)
    compare = add_command(actions, "diff", _diff, help="show how targets differ", description=DIFF, epilog=epilog)
    for parser in (show, compare):
        parser.add_argument("tool", metavar="MODULE:FUNCTION", help="a tool, or a function to make into one")
        parser.add_argument("--json", action="store_true", help="print JSON, for programs")
    about: dict[str, Any] = {"type": _targets, "metavar": "A,B,..."}
    show.add_argument("--targets", default="openai", help="the targets (default: openai)", **about)
    compare.add_argument("--targets", required=True, help="the targets to compare", **about)
    compare.add_argument("--check", action="store_true", help="exit with 1 if there is a difference")


def _targets(text: str) -> list[str]:
    # A short name is the provider's (`openai`), and may have `.strict` behind it as the full one may.
    found = []
    strict = targets(strict=True)
    for name in filter(None, (part.strip() for part in text.split(","))):
        plain = name.removesuffix(STRICT)
        full = short_names().get(plain, plain)
        if full not in targets():
            raise argparse.ArgumentTypeError(f"unknown target {name!r}; {meant(plain, [*short_names(), *targets()])}")
        if plain != name and full not in strict:
            raise argparse.ArgumentTypeError(f"{full} has no strict mode; these targets have one: {', '.join(strict)}")
        found.append(full + name[len(plain) :])
    if not found:
        raise argparse.ArgumentTypeError("names no target")
    return found


# -- show --


def _show(options: argparse.Namespace) -> int:
    exported = [export(one, target) for one in load_tools(options.tool) for target in options.targets]
    if options.json:
        shown = [
            {"target": _name(e), "payload": e.payload, "needs_decoding": e.rewritten, "losses": e.losses}
            for e in exported
        ]
        print(json.dumps(shown, indent=2))
        return 0
    for number, one in enumerate(exported):
        print(("\n" if number else "") + f"# {_name(one)}")
        print(json.dumps(one.payload, indent=2, ensure_ascii=False))
        for loss in one.losses:
            print(f"# not said: {printable(loss)}")
        if one.rewritten:
            print("# the model's arguments must be translated back: pass export(...) to pipeline(tools=[...])")
    return 0


def _name(exported: Exported) -> str:
    return exported.wire + (STRICT if exported.strict else "")


# -- diff --


def _diff(options: argparse.Namespace) -> int:
    if len(options.targets) < 2:
        raise UsageError("argument --targets: pass two or more to compare, such as --targets openai,mcp")
    found: list[dict[str, Any]] = []
    for shown in load_tools(options.tool):
        first, *others = (export(shown, target) for target in options.targets)
        for other in others:
            changes = diff(parts(first), parts(other))
            found.append({"tool": shown.name, "from": _name(first), "to": _name(other), "changes": changes})
    if options.json:
        print(json.dumps(found, indent=2, default=_fields))
    else:
        sys.stdout.writelines(f"{line}\n" for line in _as_text(found))
    return FAILED if options.check and any(one["changes"] for one in found) else 0


def _fields(change: Any) -> dict[str, Any]:
    return {name: getattr(change, name) for name in ("path", "kind", "before", "after")}


def _as_text(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    for one in found:
        yield f"{one['tool']}: {one['from']} -> {one['to']}"
        yield from (f"  {printable(str(change))}" for change in one["changes"])
        if not one["changes"]:
            yield "  no difference"


def load_tools(reference: str) -> list[Tool]:
    """Returns the tools that a reference means: a tool, a function, a method or a list of them, or all of a module."""
    name, _, path = reference.partition(":")
    module = _imported(name, reference)
    if not path:
        # A tool may have several names in a module; it is shown once.
        found = {id(value): value for value in vars(module).values() if isinstance(value, Tool)}
        if not found:
            raise StreamToolsError(f"{reference}: the module has no tools; name a function: {reference}:function")
        return list(found.values())
    try:
        value: Any = reduce(getattr, path.split("."), module)
    except AttributeError as error:
        raise StreamToolsError(f"{reference}: {error}") from error
    values = value if isinstance(value, (list, tuple)) else [value]
    return [_as_tool(each, reference) for each in values]


def _as_tool(value: Any, reference: str) -> Tool:
    if isinstance(value, Tool):
        return value
    function: Callable[..., Any] = value
    try:
        return tool(function)
    except ToolDefinitionError as error:
        raise StreamToolsError(f"{reference}: {error}") from error


def _imported(name: str, reference: str) -> ModuleType:
    if not all(part.isidentifier() for part in name.split(".")):
        raise StreamToolsError(f"expected package.module:function, got {reference!r}")
    # As `python -m` has it: a console script has its own folder in front, and not the user's.
    if "" not in sys.path:
        sys.path.insert(0, "")
    # The module is code of the user's, and may raise any exception.
    try:
        return importlib.import_module(name)
    except Exception as error:
        hint = "; name the module without .py" if name.endswith(".py") else ""
        raise StreamToolsError(f"cannot import {name}: {type_name(error)}: {error}{hint}") from error
