"""Describes the tools and the form of the answer to a model that gets no list of tools from its API.

In words, for the system prompt; or as a schema that a provider enforces for the whole answer, with a variant per tool,
an answer and a scratchpad:

    {"type": "object", "properties": {"response": {"anyOf": [
        {"type": "object", "properties": {"tool": {"enum": ["add"]}, "arguments": {...}}, ...},
        {"type": "object", "properties": {"answer": {"type": "string"}}, ...},
        {"type": "object", "properties": {"scratchpad": {"type": "string"}}, ...}]}}, ...}

OpenAI takes no union at the root ("The root level object of a schema must be an object and not use anyOf",
https://platform.openai.com/docs/guides/structured-outputs#root-objects-must-not-be-anyof-and-must-be-an-object), so the
union stands in the one property of an object. Every object is closed, and requires all of its properties. Definitions
under a tool's ``$defs`` move to the root's, where references find them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from ..schema.translation.document import LISTS, MAPS, ONE
from ..tools import AnyTools, Tool, Toolset
from .reading import WRAPPER

__all__ = ["named_tools", "payload_schema", "tool_prompt", "with_system_prompt"]

_SYSTEM_ROLES = ("system", "developer")

_FORM = """\
Reply with one JSON object and nothing else. To call a tool, one at a time:
{"tool": "<name>", "arguments": {<arguments by name>}}
To give the final answer:
{"answer": "<text>"}
To think first, begin any of these with a key "scratchpad"."""


def tool_prompt(tools: AnyTools) -> str:
    """Returns the tools and the form of the answer as text, for the system prompt of a model that gets them in no other
    way.

    The same tools give the same text, to the byte.

    Args:
        tools: the tools that the model may call.
    """
    lines = [_line(name, tool) for name, tool in named_tools(tools)]
    if not lines:
        return "There are no tools.\n\n" + _FORM
    return "\n".join(["Available tools:", *lines, "", _FORM])


def _line(name: str, tool: Tool) -> str:
    description = " ".join(tool.description.split())
    return f"- {name}: {description}\n  arguments: {orjson.dumps(tool.schema).decode()}"


def named_tools(tools: AnyTools) -> list[tuple[str, Tool]]:
    """Returns each tool with the name under which the model calls it.

    Raises:
        ToolDefinitionError: a function cannot be a tool, or two have one name.
    """
    return [(name, tool) for name, tool in Toolset(tools).items() if tool is not None]


def with_system_prompt(messages: Sequence[Mapping[str, Any]], prompt: str) -> list[dict[str, Any]]:
    """Returns the messages with `prompt` as system prompt: added to the first message if that is one, since many
    templates take only one."""
    copies = [dict(message) for message in messages]
    first = copies[0] if copies else {}
    content = first.get("content")
    if first.get("role") not in _SYSTEM_ROLES or not isinstance(content, (str, list)):
        return [{"role": "system", "content": prompt}, *copies]
    first["content"] = (
        f"{content}\n\n{prompt}" if isinstance(content, str) else [*content, {"type": "text", "text": prompt}]
    )
    return copies


_DEFS = "#/$defs/"


def payload_schema(
    tools: Iterable[tuple[str, str, Mapping[str, Any]]], *, wrapped: bool, scratchpad: bool
) -> dict[str, Any]:
    """Returns the schema of an answer.

    Args:
        tools: name, description and parameters of each tool.
        wrapped: put the union in a property; otherwise at the root.
        scratchpad: give calls and answers a scratchpad, too.
    """
    defs: dict[str, Any] = {}
    variants = []
    for name, description, parameters in tools:
        arguments = _moved(name, parameters, defs)
        members = {"tool": {"type": "string", "enum": [name]}, "arguments": arguments}
        variants.append({"description": description, **_closed(members, scratchpad=scratchpad)})
    variants.append(
        {"description": "The final answer.", **_closed({"answer": {"type": "string"}}, scratchpad=scratchpad)}
    )
    variants.append({"description": "Only think.", **_closed({}, scratchpad=True)})
    root = _closed({WRAPPER: {"anyOf": variants}}, scratchpad=False) if wrapped else {"anyOf": variants}
    return {**root, "$defs": defs} if defs else root


def _closed(members: dict[str, Any], *, scratchpad: bool) -> dict[str, Any]:
    """Returns an object with exactly these members. The scratchpad is first, since models write members in this
    order."""
    if scratchpad:
        members = {"scratchpad": {"type": "string"}, **members}
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _moved(tool: str, parameters: Mapping[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters for use in a larger schema; moves their definitions into `defs`."""
    own: Mapping[str, Any] = parameters.get("$defs", {})
    bare = {key: value for key, value in parameters.items() if key not in ("$defs", "$schema")}
    names = {name: _free(f"{tool}_{name}", defs, own) for name in own}
    root: list[str] = []  # the name of the parameters themselves, if a reference needs it

    def place(reference: str) -> str:
        if reference[:2] not in ("#", "#/"):
            return reference  # an anchor or an $id, which means the same everywhere
        head, slash, tail = reference.removeprefix(_DEFS).partition("/")
        if reference.startswith(_DEFS) and head in names:
            return f"{_DEFS}{names[head]}{slash}{tail}"
        if not root:
            root.append(_free(tool, defs, own))
        return f"{_DEFS}{root[0]}{reference.removeprefix('#')}"

    moved = {names[name]: _with_references(schema, place) for name, schema in own.items()}
    arguments: dict[str, Any] = _with_references(bare, place)
    defs.update(moved)
    if root:
        defs[root[0]] = arguments
        return {"$ref": f"{_DEFS}{root[0]}"}
    return arguments


def _free(wanted: str, *taken: Mapping[str, Any]) -> str:
    """Returns a key that is not taken, of characters that every provider takes and no pointer has to escape."""
    wanted = re.sub(r"[^a-zA-Z0-9_-]", "_", wanted)
    name, number = wanted, 1
    while any(name in names for names in taken):
        number += 1
        name = f"{wanted}_{number}"
    return name


def _with_references(schema: Any, place: Callable[[str], str]) -> Any:
    """Returns a copy of a schema with each reference put through `place`. Values that are no schemas stay as they
    are."""
    if isinstance(schema, list):  # of schemas
        return [_with_references(inner, place) for inner in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy = dict(schema)
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str):
            copy[key] = place(value)
        elif key in MAPS and isinstance(value, Mapping):
            copy[key] = {name: _with_references(inner, place) for name, inner in value.items()}
        elif key in LISTS | ONE:
            copy[key] = _with_references(value, place)
    return copy
