"""Exports one tool for one wire, `export`, and makes a tool's definition, which can be told to every wire: `schema`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from typing_extensions import is_typeddict

from ..content import RequestHints
from ..errors import ExportError, ToolDefinitionError
from ..schema.translation.translate import canonical
from ..tools import Exported, Tool
from ..tools import tool as as_tool
from ..tools.entries import Constraints, EntryOptions, payload_of, translated
from ..tools.formats import find
from ..tools.typed_binder import docstring_of
from ..wires import Wire
from ..wires.tool_format import ToolFormat

__all__ = ["ToolDefinition", "export", "exported", "parts", "payload", "schema", "tool_of"]


def export(
    tool: Tool[..., Any] | Callable[..., Any],
    wire: Wire | str,
    *,
    strict: bool = False,
    inline_refs: bool = True,
    constraints: Constraints = "keep",
    hints: RequestHints | None = None,
) -> Exported:
    """Returns a tool in a provider's own shape, with the way back for the model's arguments.

    Computed once per tool and wire; the payload is a fresh copy each time. For all tools of a request, `export_all`.

    Args:
        tool: made by `streamtools.tool`, or a function, which is made a tool each time.
        wire: the wire that the request goes to, or its name; `targets` lists the names. ``.strict`` behind one is
            ``strict=True``. ``gemini.generate_content`` says the schema in ``parametersJsonSchema``; endpoints that do
            not know that (the Live API, older Vertex versions) want ``gemini.parameters``.
        strict: the form that the provider holds the model to; ``targets(strict=True)`` have one. Under it a map may
            travel as a list of entries, a value of no declared type as JSON text, and what may be left out as null
            where the provider wants every property required; `Exported.decode` turns each back. Gemini and Cohere are
            told by a field of the request: see ``Exports.request``.
        inline_refs: for ``mcp``: put definitions in their references' places, since some hosts resolve none. What
            contains itself stays a reference, which `Exported.losses` tells.
        constraints: ``description`` moves bounds into the descriptions, at every depth, for wires that would keep
            them as they were written.
        hints: in place of the tool's own.

    Raises:
        ExportError: the wire is unknown, has no strict form, or cannot carry this tool; the message names the place.
        ToolDefinitionError: this is no tool, and none can be made of it.
    """
    _check_strict(strict)
    found, strict = find(wire, strict)
    options = EntryOptions(strict=strict, inline_refs=inline_refs, constraints=constraints, hints=hints)
    return exported(tool_of(tool), found, options)


def _check_strict(strict: bool) -> None:
    if not isinstance(strict, bool):
        raise ExportError(f"strict must be True or False, not {strict!r}; export_all also takes 'where_possible'")


def tool_of(given: Any) -> Tool[..., Any]:
    """Returns a tool, also for a function.

    Raises:
        ToolDefinitionError: it is neither; the message says what to write.
    """
    if isinstance(given, Tool):
        return given
    if isinstance(given, Exported):
        name = given.tool.name
        raise ToolDefinitionError(f"tool {name!r}: is exported already; pass its tool, exported.tool", tool=name)
    if isinstance(given, (list, tuple)):
        message = "export() takes one tool, not several; write export_all([...], wire)"
        raise ToolDefinitionError(message, tool=type(given).__name__)
    return as_tool()(given)  # not `tool(None)`, which is a decorator


def payload(tool: Tool[..., Any] | Callable[..., Any], wire: Wire | str, *, strict: bool = False) -> dict[str, Any]:
    """Returns the payload alone, for a tool that needs no way back: as `Tool.to`, for functions, too.

    Raises:
        ExportError: it does, or the wire cannot carry the tool.
        ToolDefinitionError: this is no tool, and none can be made of it.
    """
    return payload_of(tool_of(tool), wire, EntryOptions(strict=strict))


def parts(one: Exported) -> dict[str, Any]:
    """Returns the parts of an export under the same names for every wire, to compare them: ``name``, ``description``,
    ``parameters``, ``output``, ``strict``, ``grammar``, ``title``, ``annotations``; what a payload does not say is not
    among them."""
    format, _ = find(one.wire, False)
    forms = (form for form in (format.freeform, format.function) if form is not None)
    entry = one.payload if format.namespace is None else format.namespace.entry_in(one.payload)
    said = next(said for form in forms if (said := form.read(entry)) is not None)
    found = {
        "name": said.name,
        "description": said.description,
        "parameters": said.schema,
        "output": said.output_schema,
        "strict": said.strict,
        "grammar": None if said.grammar is None else asdict(said.grammar),
        "title": said.title,
        "annotations": said.annotations,
    }
    return {name: value for name, value in found.items() if value is not None}


def exported(tool: Tool[..., Any], format: ToolFormat, options: EntryOptions) -> Exported:
    """Exports a tool in a format that is known."""
    made = translated(tool, format, options)
    return Exported(
        tool=tool,
        wire=format.name,
        strict=options.strict,
        name=made.name,
        payload=made.payload,
        decode=made.decode,
        rewritten=made.rewritten,
        losses=made.losses,
    )


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool's name, text and schemas, and each provider's shape of them. Made by `schema`."""

    tool: Tool[..., Any]

    @property
    def name(self) -> str:
        """The name under which the model calls it."""
        return self.tool.name

    @property
    def description(self) -> str:
        """The text that the model reads about it."""
        return self.tool.description

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON Schema 2020-12 of the arguments: a closed object, with ``$schema``; a fresh dict."""
        return canonical(self.tool.schema, self.tool.name)

    def to_json_schema(self) -> dict[str, Any]:
        """Returns ``name``, ``description``, ``parameters``, and ``output`` if the tool says what it returns."""
        made = {"name": self.name, "description": self.description, "parameters": self.parameters}
        output = self.tool.output_schema
        return made if output is None else {**made, "output": dict(output)}

    def to(
        self, wire: Wire | str, *, strict: bool = False, inline_refs: bool = True, constraints: Constraints = "keep"
    ) -> dict[str, Any]:
        """Returns the payload for a wire alone; the arguments are those of `export`. ``constraints="description"`` is
        worth its tokens where models read bounds rather than keep to them: Anthropic's.

        Raises:
            ExportError: the payload alone does not do, since what the model sends has to be turned back (strict ones
                mostly need that): then use `export_all`. Otherwise as for `export`.
        """
        _check_strict(strict)
        options = EntryOptions(strict=strict, inline_refs=inline_refs, constraints=constraints)
        return payload_of(self.tool, wire, options)


def schema(of: Tool[..., Any] | Callable[..., Any] | type[Any]) -> ToolDefinition:
    """Returns a tool's definition.

    Args:
        of: a tool; a function, which is made a tool as `streamtools.tool` would; or a pydantic model, dataclass or
            ``TypedDict``, whose fields are the arguments.

    Raises:
        ToolDefinitionError: no tool can be made of it.
    """
    if inspect.isclass(of) and (hasattr(of, "model_fields") or is_dataclass(of) or is_typeddict(of)):
        description = docstring_of(of).description or ""  # its own: pydantic's BaseModel has one, too
        return ToolDefinition(Tool.from_model(of, _returned(of), name=of.__name__, description=description))
    return ToolDefinition(tool_of(of))


def _returned(model: Any) -> Callable[..., Any]:
    """Returns a function of a model that gives the instance back."""

    def returned(value: Any) -> Any:
        return value

    returned.__annotations__ = {"value": model, "return": None}
    return returned
