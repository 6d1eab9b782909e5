"""Writes a tool in the shape of MCP or of a wire: its entry in a request, and the way back for the arguments."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol
from weakref import WeakKeyDictionary

from ..content import Grammar, Namespace, RequestHints
from ..errors import ExportError
from ..schema.bounds import schema_problem
from ..schema.dialects import MCP as MCP_DIALECT
from ..schema.names import NameRule, qualified
from ..schema.translation.document import DEFINITIONS, SchemaDocument, reference_of
from ..schema.translation.plan import Inverse
from ..schema.translation.translate import make
from ..wires import Wire, known, meant, names
from ..wires import find as find_wire
from ..wires.formats import JSON, EntryFormat, StrictForm, ToolEntry, ToolFormat

Constraints = Literal["keep", "description"]
"""The policy for bounds (``minimum``, ``pattern``): they stay, or move into the description."""


class _Described(Protocol):
    """Declares a tool as far as a model reads it: `Tool` is one."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> dict[str, Any]: ...
    @property
    def output_schema(self) -> Mapping[str, Any] | None: ...
    @property
    def checks_results(self) -> bool: ...
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
    @property
    def namespace(self) -> Namespace | None: ...
    @property
    def hints(self) -> RequestHints | None: ...


class EntryOptions(NamedTuple):
    strict: bool = False
    inline_refs: bool = True
    constraints: Constraints = "keep"
    name: str | None = None
    hints: RequestHints | None = None


@dataclass(frozen=True, slots=True)
class TranslatedTool:
    # Without a reference to the tool, so that the cache keeps no tool alive.

    name: str  # the name under which the model calls
    pickled: bytes  # the entry, as bytes of our own: unpickling is the quickest way to an exact copy
    decode: Callable[[Mapping[str, Any]], dict[str, Any]]
    rewritten: bool
    losses: tuple[str, ...]

    @property
    def payload(self) -> dict[str, Any]:
        """A fresh copy."""
        copied: dict[str, Any] = pickle.loads(self.pickled)
        return copied


_CACHE: WeakKeyDictionary[_Described, dict[tuple[ToolFormat, EntryOptions], TranslatedTool]] = WeakKeyDictionary()


def translated(tool: _Described, format: ToolFormat, options: EntryOptions) -> TranslatedTool:
    key = (format, options)
    kept = _CACHE.get(tool, {}).get(key)
    if kept is None:
        kept = _made(tool, format, options)
        _CACHE.setdefault(tool, {})[key] = kept
    return kept


def payload_of(tool: _Described, wire: Wire | str, options: EntryOptions) -> dict[str, Any]:
    found, strict = find(wire, options.strict)
    made = translated(tool, found, options._replace(strict=strict))
    # The payload alone drops the way back: calls would be of unknown tools, or be refused for the nulls and lists of
    # entries that the form makes the model write.
    if made.name != tool.name:
        raise ExportError(
            f"tool {tool.name!r}: {found.name} does not accept this name; pass tool(..., name='...'), or "
            f"{_pass_exported(found.name, strict)}"
        )
    if made.rewritten:
        raise ExportError(
            f"tool {tool.name!r}: for {found.name} the arguments have another form than the tool's; "
            f"{_pass_exported(found.name, strict)}"
        )
    return made.payload


def _pass_exported(wire: str, strict: bool) -> str:
    arguments = f"tools, {wire!r}{', strict=True' if strict else ''}"
    return f"use exported = export_all({arguments}), send exported.payloads, and pass pipeline(tools=exported)"


def _made(tool: _Described, format: ToolFormat, options: EntryOptions) -> TranslatedTool:
    held = format.strict if options.strict else None
    group = None if format.namespace is None else tool.namespace
    own = tool.name if group is None else tool.name.removeprefix(f"{group.name}.")
    name = options.name or (own if format.names is None else format.names.fitted(own))
    called = name if group is None else qualified(group.name, name)
    freeform = format.freeform if tool.kind == "custom" else None
    # Also for a freeform tool: it is a function with one text where the provider has no freeform tools.
    made = make(
        tool.schema,
        tool.name,
        format.dialect if held is None else held.dialect,
        # For MCP alone, whose hosts may resolve no references; any other dialect says itself what it does with them.
        inline=format.exports_results and options.inline_refs,
        note_bounds=options.constraints == "description",
    )
    if held is not None and freeform is None:  # a freeform tool has no schema that could be strict
        _check_strict(tool, format.name, held, made.schema)
    description, losses = _description(tool, freeform is not None)
    form, needs_decoding = freeform or format.function, made.plan is not None and freeform is None
    hints = options.hints or tool.hints
    given = None if hints is None else hints.entry
    output, unsaid = _output(tool, format, form, options)
    hinted, untold = _hints_of(hints if given is None else None, form, format.name, rewritten=needs_decoding)
    entry = ToolEntry(
        name=name,
        description=description,
        schema=made.schema,
        output_schema=output,
        strict=options.strict,
        title=tool.title,
        annotations={**HINTS[tool.effect], **tool.annotations},
        grammar=tool.grammar,
        any_text=tool.grammar is None,
        hints=hinted,
    )
    if given is None:
        payload = form.write(entry)
    else:  # the provider's own tool, which it calls by its own name
        payload, called = dict(given), tool.name
    if group is not None and format.namespace is not None:
        payload = format.namespace.write(group, [payload])
    return TranslatedTool(
        name=called,
        pickled=pickle.dumps(payload),
        decode=Inverse(tool.name, made.plan, made.definitions) if needs_decoding else dict,
        rewritten=needs_decoding or called != tool.name,
        losses=(*(made.losses if freeform is None else ()), *losses, *untold, *(unsaid if given is None else ())),
    )


def _hints_of(
    given: RequestHints | None, form: EntryFormat, wire: str, *, rewritten: bool
) -> tuple[JSON, tuple[str, ...]]:
    hints = {} if given is None else given.given()
    losses = {name: f"{wire} has no field for it" for name in hints if name not in form.hints}
    # Examples are arguments of the tool's own schema, and would contradict the one that the model reads.
    if rewritten and "examples" in hints and "examples" not in losses:
        losses["examples"] = f"for {wire} the arguments have another form"
    kept = {name: value for name, value in hints.items() if name not in losses}
    return kept, tuple(f"{name}: {why}" for name, why in losses.items())


def _check_strict(tool: _Described, wire: str, form: StrictForm, schema: dict[str, Any]) -> None:
    problem = schema_problem(schema, form.bounds)
    if problem is None and form.wants_required and not schema.get("required"):
        problem = f"{wire} requires at least one required parameter in a strict tool"
    if problem is not None:
        raise ExportError(f"tool {tool.name!r}: {problem}; export it without strict")


def _description(tool: _Described, freeform: bool) -> tuple[str, tuple[str, ...]]:
    if tool.grammar is None or freeform:
        return tool.description, ()
    text = f"{tool.description}\n\nThe input must match this {tool.grammar.syntax} grammar:\n{tool.grammar.definition}"
    return text.strip(), ("grammar: in the description only",)


RESULT = "result"  # the property of a result other than an object: hosts of MCP before 2026-07-28 accept objects only


def _output(
    tool: _Described, format: ToolFormat, form: EntryFormat, options: EntryOptions
) -> tuple[JSON | None, tuple[str, ...]]:
    # A schema that the tool does not declare, and that nothing enforces, is for MCP alone, whose clients expect one.
    if tool.output_schema is None or not (tool.checks_results or format.exports_results):
        return None, ()
    if form.output_at is None:
        return None, (f"output_schema: {format.name} has no field for it",)
    # Wrapped for the translation, which makes objects of what is outermost; only MCP keeps the wrapping.
    schema, is_wrapped = dict(tool.output_schema), False
    if not _is_object(schema, tool.name):
        definitions = {key: schema.pop(key) for key in DEFINITIONS if key in schema}
        schema = {"type": "object", "properties": {RESULT: schema}, "required": [RESULT], **definitions}
        is_wrapped = True
    try:
        made = make(schema, tool.name, format.dialect, inline=format.exports_results and options.inline_refs)
    except ExportError as error:
        return None, (f"output_schema: left out; {error}",)
    if made.plan is not None:  # nothing turns a result into another form
        return None, (f"output_schema: left out; for {format.name} it would have another form than the result",)
    losses = tuple(f"{form.output_at} {line}" for line in made.losses)
    return (_unwrapped(made.schema) if is_wrapped and not format.exports_results else made.schema), losses


def _unwrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema["properties"][RESULT], **{key: schema[key] for key in DEFINITIONS if key in schema}}


def _is_object(schema: Mapping[str, Any], tool: str) -> bool:
    reference = reference_of(schema)
    node = schema if reference is None else SchemaDocument(schema, tool).target(reference, "#")[1]
    return isinstance(node, dict) and node.get("type") == "object"


# -- the formats of entries --


# `once` needs none: by default, MCP takes a tool for one that writes, may destroy, and is not idempotent.
HINTS: Mapping[str, Mapping[str, bool]] = {
    "pure": {"readOnlyHint": True},
    "idempotent": {"idempotentHint": True},
    "once": {},
}
"""The annotations for each effect. https://modelcontextprotocol.io/specification/2025-11-25/schema#tool"""

# MCP is not a wire, since models do not speak it, but its `tools/list` describes tools as the wires do.
MCP = ToolFormat(
    name="mcp",
    dialect=MCP_DIALECT,
    # https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names
    names=NameRule("a-zA-Z0-9_.-", "a-zA-Z0-9_.-", 128),
    function=EntryFormat(name="mcp.tool", schema_at=("inputSchema",), output_at="outputSchema", titled=True),
    exports_results=True,
)


STRICT = ".strict"


def tool_formats() -> tuple[ToolFormat, ...]:
    """Returns every format: the wires', in the order of detection, and MCP's."""
    return tuple(_by_name(known()).values())


def targets(*, strict: bool = False) -> tuple[str, ...]:
    """Returns the names for `export`: of the wires, of second forms of one (``gemini.parameters``), and ``mcp``.

    Args:
        strict: only those that have a strict form.
    """
    return tuple(format.name for format in tool_formats() if not strict or format.strict is not None)


def short_names() -> dict[str, str]:
    return {wire.short_name: wire.name for wire in known() if wire.short_name is not None}


def find(wire: Wire | str, strict: bool) -> tuple[ToolFormat, bool]:
    if isinstance(wire, Wire):
        plain, found = wire.name, next(iter(wire.tools), None)
        if found is None:
            raise ExportError(f"{plain} has no tool format; give it one: Wire(..., tools=(ToolFormat(...),))")
    else:
        plain = wire.removesuffix(STRICT)
        strict = strict or plain != wire
        own = find_wire(plain).tools if plain in names() else ()  # most are called so, and no other wire is loaded
        found = next((one for one in own if one.name == plain), None) or _by_name(known()).get(plain)
        if found is None:
            raise ExportError(f"unknown wire {plain!r}; {meant(plain, targets())}")
    if strict and found.strict is None:
        raise ExportError(f"{plain} has no strict form; these have one: {', '.join(targets(strict=True))}")
    return found, strict


@lru_cache(maxsize=1)
def _by_name(wires: tuple[Wire, ...]) -> Mapping[str, ToolFormat]:
    return {format.name: format for format in (*(format for wire in wires for format in wire.tools), MCP)}
