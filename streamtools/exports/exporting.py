"""Exports one tool, or the type of an answer, for one wire, with the way back for the model's arguments.

`export` gives a tool's entry in a request, `export_output` the request's part of structured output. `schema` makes a
tool's definition, from which the entry for any wire can be made.

`table`, `output_table` and `keyword_table` compare the wires in Markdown. They read the tables that the exports use, so
that they cannot be out of date.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from typing_extensions import is_typeddict

from ..content import RequestHints
from ..errors import ExportError, ToolDefinitionError
from ..schema.bounds import schema_problem
from ..schema.dialects import COLUMNS, KEYWORDS, Action, Dialect
from ..schema.names import PLAIN_NAMES
from ..schema.translation.plan import Inverse
from ..schema.translation.translate import Made, canonical, make
from ..tools import Exported, Tool
from ..tools import tool as as_tool
from ..tools.answer import ExportedOutput, answer_reader
from ..tools.entries import STRICT, Constraints, EntryOptions, find, payload_of, tool_formats, translated
from ..tools.typed import docstring_of
from ..wires import Wire, known
from ..wires.tool_format import StrictForm, StructuredOutput, ToolFormat

__all__ = [
    "ToolDefinition", "export", "export_output", "exported", "keyword_table", "output_table", "parts", "payload",
    "schema", "table", "tool_of",
]  # fmt: skip


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
    described = next(described for form in forms if (described := form.read(entry)) is not None)
    found = {
        "name": described.name,
        "description": described.description,
        "parameters": described.schema,
        "output": described.output_schema,
        "strict": described.strict,
        "grammar": None if described.grammar is None else asdict(described.grammar),
        "title": described.title,
        "annotations": described.annotations,
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


# -- the wires compared, in Markdown -----------------------------------------------------------------------------------


_WORDS = {
    Action.KEEP: "kept",
    Action.DROP: "dropped",
    Action.NOTE: "in the description",
    Action.REWRITE: "said otherwise",
    Action.INLINE: "inlined",
    Action.REFUSE: "refused",
}


def table() -> str:
    """Returns each wire's place of the schema and of strictness, the names that it takes, and what else it
    tells."""
    head = ("Wire", "Schema in", "Strict", "Tool names", "Result schema", "Freeform tools")
    rows = [
        (
            f"`{format.name}`",
            f"`{'.'.join(format.schema_at)}`",
            "no" if format.strict is None else format.strict.said_at,
            "any" if format.names is None else f"`{format.names.pattern}`",
            "no" if format.function.output_at is None else f"`{format.function.output_at}`",
            "custom" if format.freeform is not None else "a function with `input`",
        )
        for format in tool_formats()
    ]
    return _markdown(head, rows)


def output_table() -> str:
    """Returns the field in which each wire's request asks for an answer by a schema, and whether the model may be told
    the schema without being held to it."""
    rows = [
        (f"`{wire.name}`", wire.structured.strict.said_at, "no" if wire.structured.loose is None else "yes")
        for wire in known()
        if wire.structured is not None
    ]
    return _markdown(("Wire", "Asked for by", "`strict=False`"), rows)


def keyword_table() -> str:
    """Returns the action for each keyword of JSON Schema in each dialect."""
    head = ("Keyword", *(f"`{column}`" for column in COLUMNS))
    rows = [
        (keyword if keyword.startswith("(") else f"`{keyword}`", *(_WORDS[row[column]] for column in COLUMNS))
        for keyword, row in KEYWORDS.items()
    ]
    return _markdown(head, rows)


def _markdown(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


# -- the type of an answer ---------------------------------------------------------------------------------------------


def export_output(
    kind: type[Any] | Mapping[str, Any], wire: Wire | str, *, strict: bool = True, name: str | None = None
) -> ExportedOutput:
    """Returns the fields of a request that ask for an answer of a type, with the way back for the answer.

        answer = export_output(City, "openai.chat_completions")
        stream = await client.chat.completions.create(..., stream=True, **answer.request)
        async with pipeline(stream, output=answer) as events: ...

    Args:
        kind: a pydantic model, a dataclass or a ``TypedDict``; or a JSON Schema. It has to be an object.
        wire: the wire that the request goes to, or its name.
        strict: the provider holds the model to the schema, whose parts may then travel in another form, as a tool's
            do; see `export`. False only tells the model, which OpenAI and Mistral allow; all others hold it to any
            schema.
        name: the schema's name, for providers that want one; by default the type's, or the schema's title.

    Raises:
        ExportError: the wire is unknown or has no structured output, or cannot carry this schema; the message names the
            place.
        ToolDefinitionError: no schema can be made of the type.
        SchemaError: the schema is none, or exceeds a limit.
    """
    found, form = _form(wire)
    reader = answer_reader(kind)
    called = PLAIN_NAMES.fitted(name or _name(kind))
    made = _held(reader.schema, called, form.strict) if strict else _advisory(reader.schema, called, found, form)
    return ExportedOutput(
        reader=reader,
        wire=found,
        strict=strict,
        name=called,
        decode=dict if made.plan is None else Inverse(called, made.plan, made.definitions),
        rewritten=made.plan is not None,
        losses=made.losses,
        _pickled=pickle.dumps(form.request(called, made.schema, strict)),
    )


def _form(wire: Wire | str) -> tuple[str, StructuredOutput]:
    name = wire.name if isinstance(wire, Wire) else wire.removesuffix(STRICT)
    forms = {one.name: one.structured for one in known()}
    form = wire.structured if isinstance(wire, Wire) else forms.get(name)
    if form is None:
        why = "has no structured output" if name in forms or isinstance(wire, Wire) else "is no wire that is known"
        able = ", ".join(name for name, form in forms.items() if form is not None)
        raise ExportError(f"{name!r} {why}; these ask for an answer by a schema: {able}")
    return name, form


def _name(kind: type[Any] | Mapping[str, Any]) -> str:
    named = kind.get("title") if isinstance(kind, Mapping) else getattr(kind, "__name__", None)
    return named if isinstance(named, str) and named else "answer"


def _held(schema: dict[str, Any], name: str, form: StrictForm) -> Made:
    made = _made(schema, name, form.dialect)
    if (problem := schema_problem(made.schema, form.bounds)) is not None:
        raise ExportError(f"the schema of the answer {name!r}: {problem}")
    return made


def _advisory(schema: dict[str, Any], name: str, wire: str, form: StructuredOutput) -> Made:
    if form.loose is None:
        raise ExportError(f"{wire} holds the model to every schema of an answer; leave out strict=False")
    return _made(schema, name, form.loose)


def _made(schema: dict[str, Any], name: str, dialect: Dialect) -> Made:
    try:
        return make(schema, name, dialect)
    except ExportError as error:
        raise ExportError(f"the schema of the answer cannot be said: {error}") from error
