"""A tool in a provider's own shape: its entry in a request, and the way back for the arguments. Computed once."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ..content import Grammar
from ..errors import ExportError
from ..schema.bounds import schema_problem
from ..schema.dialects import DIALECTS
from ..schema.keywords import Column
from ..schema.translation.document import SchemaDocument, reference_of
from ..schema.translation.plan import Inverse
from ..schema.translation.said import DEFINITIONS
from ..schema.translation.translate import Made, make
from .shapes import ToolEntry
from .targets import Target, find

__all__ = ["Constraints", "EntryOptions", "TranslatedTool", "payload_of", "translated"]

Constraints = Literal["keep", "description"]
"""What becomes of bounds (``minimum``, ``pattern``): they stay, or the description tells them instead."""


class Described(Protocol):
    """A tool as far as a model reads it: `Tool` is one."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    @property
    def output_schema(self) -> Mapping[str, Any] | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def grammar(self) -> Grammar | None: ...
    @property
    def effect(self) -> str: ...
    @property
    def title(self) -> str | None: ...
    @property
    def annotations(self) -> Mapping[str, Any]: ...


class EntryOptions(NamedTuple):
    """How a tool is exported, beside the target."""

    strict: bool = False
    inline_refs: bool = True
    constraints: Constraints = "keep"
    name: str | None = None
    """The name to use instead of what the target makes of the tool's own."""


@dataclass(frozen=True, slots=True)
class TranslatedTool:
    """A tool for one target. It does not hold the tool, so that the cache keeps no tool alive."""

    name: str
    """The name under which the model calls."""
    pickled: bytes
    """The entry: our own bytes, and the quickest way to an exact copy."""
    decode: Callable[[Mapping[str, Any]], dict[str, Any]]
    rewritten: bool
    losses: tuple[str, ...]

    @property
    def payload(self) -> dict[str, Any]:
        """The entry for the request; a fresh copy."""
        copied: dict[str, Any] = pickle.loads(self.pickled)
        return copied


_CACHE: WeakKeyDictionary[Described, dict[tuple[str, EntryOptions], TranslatedTool]] = WeakKeyDictionary()


def translated(tool: Described, target: Target, options: EntryOptions) -> TranslatedTool:
    """Returns the tool for a target, computed once for each.

    Raises:
        ExportError: the target cannot carry this tool; the message names the place.
    """
    key = (target.name, options)
    kept = _CACHE.get(tool, {}).get(key)
    if kept is None:
        kept = _made(tool, target, options)
        _CACHE.setdefault(tool, {})[key] = kept
    return kept


def payload_of(tool: Described, target: str, *, strict: bool = False) -> dict[str, Any]:
    """Returns the entry alone, for a tool that needs no way back.

    Raises:
        ExportError: it does, or the target cannot carry the tool.
    """
    found, strict = find(target, strict)
    made = translated(tool, found, EntryOptions(strict=strict))
    if made.name != tool.name:
        raise ExportError(
            f"tool {tool.name!r}: {found.name} does not take this name; pass tool(..., name='...'), or "
            f"{_pass_exported(found.name, strict)}"
        )
    if made.rewritten:
        raise ExportError(
            f"tool {tool.name!r}: for {found.name} the arguments have to travel in another form than the tool takes; "
            f"{_pass_exported(found.name, strict)}"
        )
    return made.payload


def _pass_exported(target: str, strict: bool) -> str:
    arguments = f"tools, {target!r}{', strict=True' if strict else ''}"
    return f"use exported = export_all({arguments}), send exported.payloads, and pass pipeline(tools=exported)"


def _made(tool: Described, target: Target, options: EntryOptions) -> TranslatedTool:
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
    entry = ToolEntry(
        name=name,
        description=description,
        schema=made.schema,
        output_schema=None if output is None else output.schema,
        strict=options.strict,
        effect=tool.effect,
        title=tool.title,
        annotations=tool.annotations,
        grammar=tool.grammar,
    )
    needs_decoding = made.plan is not None and not freeform
    return TranslatedTool(
        name=name,
        pickled=pickle.dumps(shape(entry)),
        decode=Inverse(tool.name, made.plan, made.definitions) if needs_decoding else dict,
        rewritten=needs_decoding or name != tool.name,
        losses=(*(() if freeform else made.losses), *losses, *(() if output is None else output.losses)),
    )


def _check_strict(tool: Described, target: Target, schema: dict[str, Any], column: Column) -> None:
    problem = schema_problem(schema, column)
    if problem is None and target.strict_wants_required and not schema.get("required"):
        problem = f"{target.name} takes no strict tool without a parameter that is required"
    if problem is not None:
        raise ExportError(f"tool {tool.name!r}: {problem}; export it without strict")


def _description(tool: Described, freeform: bool) -> tuple[str, tuple[str, ...]]:
    """What the model reads; the grammar, too, where the target cannot hold the model to it."""
    if tool.grammar is None or freeform:
        return tool.description, ()
    text = f"{tool.description}\n\nThe input must match this {tool.grammar.syntax} grammar:\n{tool.grammar.definition}"
    return text.strip(), ("grammar: told in the description only",)


RESULT = "result"
"""The property that holds a result which is no object: hosts of MCP before 2026-07-28 take objects only."""


def _output(tool: Described, options: EntryOptions) -> Made | None:
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
    node = schema if reference is None else SchemaDocument(schema, tool).target(reference, "#")[1]
    return isinstance(node, dict) and node.get("type") == "object"
