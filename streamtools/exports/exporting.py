"""`export`: one tool for one target, computed once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from ..errors import ExportError, ToolDefinitionError
from ..tools import Exported, Tool
from ..tools import tool as as_tool
from .budgets import schema_problem
from .dialect import DIALECTS
from .document import Document, reference_of
from .keywords import Column
from .making import Made, make
from .plan import Inverse
from .said import DEFINITIONS
from .shapes import Parts
from .targets import Target, find

__all__ = ["Constraints", "export", "parts", "payload"]

Constraints = Literal["keep", "description"]
"""What becomes of bounds (``minimum``, ``pattern``): they stay, or the description tells them instead."""


class Options(NamedTuple):
    """How a tool is exported, beside the target."""

    strict: bool = False
    inline_refs: bool = True
    constraints: Constraints = "keep"
    name: str | None = None
    """The name to use instead of what the target makes of the tool's own."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An export as it is kept: without its tool, so that the cache keeps no tool alive."""

    name: str
    payload: bytes
    decode: Callable[[Mapping[str, Any]], dict[str, Any]]
    rewritten: bool
    losses: tuple[str, ...]


_CACHE: WeakKeyDictionary[Tool[..., Any], dict[tuple[str, Options], _Kept]] = WeakKeyDictionary()


def export(
    tool: Tool[..., Any] | Callable[..., Any],
    target: str,
    *,
    strict: bool = False,
    inline_refs: bool = True,
    constraints: Constraints = "keep",
) -> Exported:
    """A tool in a provider's own shape, and the way back from what the model sends.

    Computed once per tool and target; the payload is a fresh copy each time. For all tools of a request, `export_all`.

    Args:
        tool: made by `streamtools.tool`, or a function, which is made a tool each time.
        target: the name of the wire that the request goes to; `TARGETS` lists them. ``.strict`` behind it is
            ``strict=True``. ``gemini.generate_content`` says the schema in ``parametersJsonSchema``; endpoints that do
            not know that (the Live API, older Vertex versions) want ``gemini.parameters``.
        strict: the form that the provider holds the model to; `STRICT_TARGETS` have one. Under it a map may travel
            as a list of entries, a value of no declared type as JSON text, and what may be left out as null where the
            target wants every property required; `Exported.decode` turns each back. Gemini and Cohere are told by a
            field of the request: see ``Exports.request``.
        inline_refs: for ``mcp``: put definitions in their references' places, since some hosts resolve none. What
            contains itself stays a reference, which `Exported.losses` tells.
        constraints: ``description`` moves bounds into the descriptions, at every depth, for targets that would keep
            them as they were written.

    Raises:
        ExportError: the target is unknown, has no strict form, or cannot carry this tool; the message names the place.
        ToolDefinitionError: this is no tool, and none can be made of it.
    """
    if not isinstance(strict, bool):
        raise ExportError(f"strict must be True or False, not {strict!r}; export_all also takes 'where_possible'")
    found, strict = find(target, strict)
    options = Options(strict=strict, inline_refs=inline_refs, constraints=constraints)
    return exported(tool_of(tool), found, options)


def tool_of(given: Any) -> Tool[..., Any]:
    """A tool, where a function was given, too.

    Raises:
        ToolDefinitionError: it is neither; the message says what to write.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Exported):
        name = given.tool.name
        raise ToolDefinitionError(f"tool {name!r}: is exported already; pass its tool, exported.tool", tool=name)
    if isinstance(given, (list, tuple)):
        message = "export() takes one tool, not several; write export_all([...], target)"
        raise ToolDefinitionError(message, tool=type(given).__name__)
    return as_tool()(given)  # not `tool(None)`, which is a decorator


def payload(tool: Tool[..., Any] | Callable[..., Any], target: str, *, strict: bool = False) -> dict[str, Any]:
    """The payload alone, for a tool that needs no way back.

    Raises:
        ExportError: it does, or the target cannot carry the tool.
        ToolDefinitionError: this is no tool, and none can be made of it.
    """
    tool = tool_of(tool)
    made = export(tool, target, strict=strict)
    if made.name != tool.name:
        raise ExportError(
            f"tool {tool.name!r}: {made.target} does not take this name; pass tool(..., name='...'), or "
            f"{_pass_exported(made)}"
        )
    if made.rewritten:
        raise ExportError(
            f"tool {tool.name!r}: for {made.target} the arguments have to travel in another form than the tool takes; "
            f"{_pass_exported(made)}"
        )
    return made.payload


def _pass_exported(made: Exported) -> str:
    arguments = f"tools, {made.target!r}{', strict=True' if made.strict else ''}"
    return f"use exported = export_all({arguments}), send exported.payloads, and pass pipeline(tools=exported)"


def parts(one: Exported) -> dict[str, Any]:
    """The parts of an export under the same names for every target, to compare them: ``name``, ``description``,
    ``parameters``, ``output``, ``strict``, ``format``; what a payload does not say is not among them."""
    found, _ = find(one.target, False)
    flat: dict[str, Any] = {}
    body: Any = one.payload
    for step in ("function", "custom", "toolSpec"):
        body = body.get(step, body)
    for key, value in body.items():
        if key in _NAMES:
            flat[_NAMES[key]] = value
        elif key != "type":
            flat[key] = value
    if found.schema_at[-1] == "json" and "parameters" in flat:
        flat["parameters"] = flat["parameters"]["json"]
    return flat


_NAMES = {
    "parameters": "parameters",
    "input_schema": "parameters",
    "inputSchema": "parameters",
    "parametersJsonSchema": "parameters",
    "outputSchema": "output",
}


def exported(tool: Tool[..., Any], target: Target, options: Options) -> Exported:
    """As `export`, for a target that is known."""
    key = (target.name, options)
    kept = _CACHE.get(tool, {}).get(key)
    if kept is None:
        kept = _made(tool, target, options)
        _CACHE.setdefault(tool, {})[key] = kept
    return Exported(
        tool=tool,
        target=target.name,
        strict=options.strict,
        name=kept.name,
        payload=pickle.loads(kept.payload),  # our own bytes; the quickest exact copy
        decode=kept.decode,
        rewritten=kept.rewritten,
        losses=kept.losses,
    )


def _made(tool: Tool[..., Any], target: Target, options: Options) -> _Kept:
    column = target.strict if options.strict and target.strict is not None else target.column
    name = options.name or (tool.name if target.names is None else target.names.fitted(tool.name))
    freeform = tool.kind == "custom" and target.custom is not None
    shape = target.custom if freeform and target.custom is not None else target.shape
    made = make(
        tool.schema,
        tool.name,
        DIALECTS[column],
        inline=target.outputs and options.inline_refs,
        tell=options.constraints == "description",
    )
    if options.strict and not freeform:
        _check_strict(tool, target, made.schema, column)
    description, losses = _description(tool, freeform)
    output = _output(tool, options) if target.outputs else None
    all_parts = Parts(
        tool=tool,
        name=name,
        description=description,
        schema=made.schema,
        output_schema=None if output is None else output.schema,
        strict=options.strict,
    )
    needs_decoding = made.plan is not None and not freeform
    return _Kept(
        name=name,
        payload=pickle.dumps(shape(all_parts)),
        decode=Inverse(tool.name, made.plan, made.definitions) if needs_decoding else dict,
        rewritten=needs_decoding or name != tool.name,
        losses=(*(() if freeform else made.losses), *losses, *(() if output is None else output.losses)),
    )


def _check_strict(tool: Tool[..., Any], target: Target, schema: dict[str, Any], column: Column) -> None:
    problem = schema_problem(schema, column)
    if problem is None and target.strict_wants_required and not schema.get("required"):
        problem = f"{target.name} takes no strict tool without a parameter that is required"
    if problem is not None:
        raise ExportError(f"tool {tool.name!r}: {problem}; export it without strict")


def _description(tool: Tool[..., Any], freeform: bool) -> tuple[str, tuple[str, ...]]:
    """What the model reads; the grammar, too, where the target cannot hold the model to it."""
    if tool.grammar is None or freeform:
        return tool.description, ()
    text = f"{tool.description}\n\nThe input must match this {tool.grammar.syntax} grammar:\n{tool.grammar.definition}"
    return text.strip(), ("grammar: told in the description only",)


RESULT = "result"
"""The property that holds a result which is no object: hosts of MCP before 2026-07-28 take objects only."""


def _output(tool: Tool[..., Any], options: Options) -> Made | None:
    if tool.output_schema is None:
        return None
    schema = dict(tool.output_schema)
    if not _takes_objects(schema, tool.name):
        definitions = {key: schema.pop(key) for key in DEFINITIONS if key in schema}
        schema = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT], **definitions}
    made = make(schema, tool.name, DIALECTS["mcp"], inline=options.inline_refs)
    losses = tuple(f"outputSchema {line}" for line in made.losses)
    return Made(schema=made.schema, plan=None, definitions={}, losses=losses)


def _takes_objects(schema: Mapping[str, Any], tool: str) -> bool:
    reference = reference_of(schema)
    node = schema if reference is None else Document(schema, tool).target(reference, "#")[1]
    return isinstance(node, dict) and node.get("type") == "object"
