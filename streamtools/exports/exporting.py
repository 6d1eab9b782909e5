"""Exports one tool, or the type of an answer, for one wire, with the decoder of the model's arguments or answer."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, get_args, overload

from typing_extensions import is_typeddict

from ..content import RequestHints
from ..errors import ExportError, ToolDefinitionError
from ..schema.bounds import counts, schema_problem
from ..schema.names import PLAIN_NAMES
from ..schema.translation.plan import Inverse
from ..schema.translation.translate import canonical, make
from ..stages.output import ExportedOutput, answer_reader
from ..tools import AnyTools, Exported, Tool
from ..tools import tool as as_tool
from ..tools.entries import STRICT, Constraints, EntryOptions, find, payload_of, translated
from ..tools.typed import docstring_of
from ..wires import Wire, known
from ..wires.formats import RequestLimits, StructuredOutput, ToolFormat


def export(
    tool: Tool[..., Any] | Callable[..., Any],
    wire: Wire | str,
    *,
    strict: bool = False,
    inline_refs: bool = True,
    constraints: Constraints = "keep",
    hints: RequestHints | None = None,
) -> Exported:
    """Returns a tool in a provider's own shape, with `Exported.decode` for the model's arguments.

    Computed once per tool and wire; the payload is a fresh copy each time. For all tools of a request: `export_all`.

    Args:
        tool: made by `streamtools.tool`; or a function, which is made a tool each time.
        wire: the wire that the request goes to, or its name (see `targets`), in which a final ``.strict`` means
            ``strict=True``. ``gemini.generate_content`` writes the schema to ``parametersJsonSchema``; endpoints
            without that field (the Live API, older Vertex versions) need ``gemini.parameters``.
        strict: use the form that the provider enforces, which ``targets(strict=True)`` have. In it a map may travel as a
            list of entries, a value of no declared type as JSON text, and what may be left out as null where the
            provider requires every property; `Exported.decode` turns each back. Gemini and Cohere are
            made strict by a field of the request: see ``Exports.request``.
        inline_refs: for ``mcp``: put definitions in place of their references, since some hosts resolve none. A
            definition that contains itself stays a reference, and `Exported.losses` lists it.
        constraints: ``description`` moves bounds into the descriptions, at every depth, for wires that would keep
            them as written.
        hints: replace the tool's own.

    Raises:
        ExportError: the wire is unknown, has no strict form, or cannot carry this tool; the message names the place.
        ToolDefinitionError: `tool` is not a tool, and cannot be made one.
    """
    _check(strict, constraints)
    found, strict = find(wire, strict)
    options = EntryOptions(strict=strict, inline_refs=inline_refs, constraints=constraints, hints=hints)
    return exported(tool_of(tool), found, options)


def _check(strict: bool, constraints: Constraints) -> None:
    if not isinstance(strict, bool):
        raise ExportError(f"strict: expected True or False, got {strict!r}; export_all also takes 'where_possible'")
    if constraints not in get_args(Constraints):
        raise ExportError(f"constraints: expected {' or '.join(map(repr, get_args(Constraints)))}, got {constraints!r}")


def tool_of(given: Any) -> Tool[..., Any]:
    if isinstance(given, Tool):
        return given
    if isinstance(given, Exported):
        name = given.tool.name
        raise ToolDefinitionError(f"tool {name!r}: it is already exported; pass exported.tool", tool=name)
    if isinstance(given, (list, tuple)):
        message = "export() takes one tool, not several; write export_all([...], wire)"
        raise ToolDefinitionError(message, tool=type(given).__name__)
    return as_tool()(given)  # not `tool(None)`, which is a decorator


def exported(tool: Tool[..., Any], format: ToolFormat, options: EntryOptions) -> Exported:
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
    """Describes a tool, and writes it in each provider's shape. Made by `schema`."""

    tool: Tool[..., Any]

    @property
    def name(self) -> str:
        """The name that the model calls."""
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
        """Returns ``name``, ``description``, ``parameters``, and ``output`` if the tool declares its results."""
        made = {"name": self.name, "description": self.description, "parameters": self.parameters}
        output = self.tool.output_schema
        return made if output is None else {**made, "output": dict(output)}

    def to(
        self, wire: Wire | str, *, strict: bool = False, inline_refs: bool = True, constraints: Constraints = "keep"
    ) -> dict[str, Any]:
        """Returns only the payload for a wire; takes the arguments of `export`.

        ``constraints="description"`` is worth its tokens for models that read bounds rather than keep to them, as
        Anthropic's do.

        Raises:
            ExportError: the payload alone is not enough, because the model's arguments have to be decoded (usual for a
                strict form): use `export_all`. Otherwise as for `export`.
        """
        _check(strict, constraints)
        options = EntryOptions(strict=strict, inline_refs=inline_refs, constraints=constraints)
        return payload_of(self.tool, wire, options)

    def to_openai(self, *, strict: bool = False) -> dict[str, Any]:
        """Returns the payload for Chat Completions, as `to` does. For the Responses API: ``to("openai.responses")``."""
        return self.to("openai.chat_completions", strict=strict)

    def to_anthropic(self, *, constraints: Constraints = "description") -> dict[str, Any]:
        """Returns the payload for Anthropic's Messages, as `to` does; bounds move into the descriptions."""
        return self.to("anthropic.messages", constraints=constraints)

    def to_gemini(self) -> dict[str, Any]:
        """Returns a function declaration for Gemini, with ``parameters`` and types in capitals.

        ``to("gemini.generate_content")`` keeps more of the schema, in ``parametersJsonSchema``.
        """
        return self.to("gemini.parameters")

    def to_mcp(self, *, inline_refs: bool = True) -> dict[str, Any]:
        """Returns the tool as MCP's ``tools/list`` describes tools, with the schema of its results, as `to` does."""
        return self.to("mcp", inline_refs=inline_refs)


def schema(of: Tool[..., Any] | Callable[..., Any] | type[Any]) -> ToolDefinition:
    """Returns a tool's definition.

    Args:
        of: a tool; a function, which is made a tool as `streamtools.tool` would; or a pydantic model, dataclass or
            ``TypedDict``, whose fields are the arguments.

    Raises:
        ToolDefinitionError: `of` cannot be made a tool.
    """
    # Only these classes: any other one is refused as a tool, with what to write.
    if inspect.isclass(of) and (hasattr(of, "model_fields") or is_dataclass(of) or is_typeddict(of)):
        description = docstring_of(of).description or ""  # its own: pydantic's BaseModel has one, too
        return ToolDefinition(Tool.from_model(of, _returned(of), name=of.__name__, description=description))
    return ToolDefinition(tool_of(of))


def _returned(model: Any) -> Callable[..., Any]:
    def returned(value: Any) -> Any:
        return value

    # Set by hand: an annotation `value: model` would be the text "model", which names nothing in this module.
    returned.__annotations__ = {"value": model, "return": None}
    return returned


# -- the type of an answer --


def export_output(
    kind: type[Any] | Mapping[str, Any], wire: Wire | str, *, strict: bool = True, name: str | None = None
) -> ExportedOutput:
    """Returns the fields of a request that ask for an answer of a type, with the decoder of the answer.

        answer = export_output(City, "openai.chat_completions")
        stream = await client.chat.completions.create(..., stream=True, **answer.request)
        async with pipeline(stream, output=answer) as events: ...

    Args:
        kind: a pydantic model, a dataclass or a ``TypedDict``; or a JSON Schema. It has to be an object.
        wire: the wire that the request goes to, or its name.
        strict: the provider makes the model follow the schema, whose parts may then travel in another form, as a
            tool's do; see `export`. False only shows the schema to the model, which OpenAI and Mistral allow; all
            others enforce any schema.
        name: the schema's name, for providers that want one; by default the type's, or the schema's title.

    Raises:
        ExportError: the wire is unknown or has no structured output, or cannot carry this schema; the message names the
            place.
        ToolDefinitionError: the type cannot be made into a schema.
        SchemaError: the schema is invalid or exceeds a limit.
    """
    # As for a tool: the provider enforces its form of the schema, and the answer is checked by the type's own.
    found, form = _form(wire)
    reader = answer_reader(kind)
    title = kind.get("title") if isinstance(kind, Mapping) else getattr(kind, "__name__", None)
    called = PLAIN_NAMES.fitted(name or (title if isinstance(title, str) and title else "answer"))
    dialect = form.strict.dialect if strict else form.loose
    if dialect is None:
        raise ExportError(f"{found} enforces every schema of an answer; leave out strict=False")
    try:
        made = make(reader.schema, called, dialect)
    except ExportError as error:
        raise ExportError(f"{found} cannot express the schema of the answer: {error}") from error
    # The bounds are those of the schema that is sent: a rewrite may have added properties and levels to it.
    if strict and (problem := schema_problem(made.schema, form.strict.bounds)) is not None:
        raise ExportError(f"the schema of the answer {called!r}: {problem}")
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
        why = "has no structured output" if name in forms or isinstance(wire, Wire) else "is not a known wire"
        able = ", ".join(name for name, form in forms.items() if form is not None)
        raise ExportError(f"{name!r} {why}; wires with structured output: {able}")
    return name, form


# -- the tools of one request --

# Names, budgets and, for some providers, strictness concern the request as a whole, so tools are added one after
# the other: the first one keeps its name, and spends what is left of a budget. The order is the caller's, since a
# provider's prompt cache wants the same bytes from request to request.

Strictness = Literal["where_possible"] | bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Exports(Sequence[Exported]):
    """Holds the exported tools of one request: a sequence for ``pipeline(..., tools=exports)``, with its `request`.

    It is cached for the next request with the same tools, so do not change the payloads of its items. You can add to
    `payloads` and `request`, and change anything in a `copy`.
    """

    wire: str
    """The name of the wire's format."""
    fallbacks: Mapping[str, str] = field(default_factory=dict)
    """Why a tool is not strict where others could be (``strict="where_possible"``), by the tool's name."""
    _items: tuple[Exported, ...] = field(repr=False)
    _format: ToolFormat = field(repr=False)

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """The entries for the request's list of tools: a new list, to whose entries you can add keys.

        Everything inside the entries is shared; to change it, use `copy`.
        """
        payloads: list[dict[str, Any]] = []
        for one in self._items:
            payload = dict(one.payload)
            hints = one.tool.hints
            # All tools of an Anthropic toolset have the same entry, ``computer_toolset_20260801``, which is sent once.
            if hints is None or hints.entry is None or payload not in payloads:
                payloads.append(payload)
        return payloads if self._format.namespace is None else self._format.namespace.joined(payloads)

    @property
    def request(self) -> dict[str, Any]:
        """The request's fields that concern its tools: ``client.chat(..., **exports.request)``.

        Gemini's declarations are wrapped, Bedrock's are in ``toolConfig``, and the fields that make Gemini and Cohere
        strict are included.
        """
        return self._format.request(self.payloads, any(one.strict for one in self._items))

    @property
    def losses(self) -> dict[str, tuple[str, ...]]:
        """The parts of each schema that the wire cannot express, by the tool's name, for tools that have any."""
        return {one.tool.name: one.losses for one in self._items if one.losses}

    def copy(self) -> list[dict[str, Any]]:
        """Returns the payloads as deep copies."""
        return copy.deepcopy(self.payloads)

    @overload
    def __getitem__(self, index: int) -> Exported: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Exported, ...]: ...

    def __getitem__(self, index: int | slice) -> Exported | tuple[Exported, ...]:
        return self._items[index]

    def __len__(self) -> int:
        return len(self._items)


def export_all(
    tools: AnyTools, wire: Wire | str, *, strict: Strictness = False, limits: RequestLimits | None = None
) -> Exports:
    """Returns the tools of a request in a provider's own shapes, in the order given. Computed once for the same tools.

    Args:
        tools: made by `streamtools.tool`, or functions to make tools of.
        wire: see `export`.
        strict: True for all, or ``where_possible``: as many as can be, in the order given; `Exports.fallbacks` has the
            reasons for the others. Where strictness applies to the whole request (Cohere, Gemini), it is all or none.
        limits: the endpoint's limits for one request; by default those that the provider documents.

    Raises:
        ExportError: the wire cannot carry a tool, two tools have one name, or the limits are exceeded.
        ToolDefinitionError: an item is not a tool, and cannot be made one.
        TypeError: `tools` cannot be iterated over.
    """
    if not isinstance(strict, bool) and strict != "where_possible":
        raise ExportError(f"strict: expected True, False or 'where_possible', got {strict!r}")
    if isinstance(tools, (str, Tool, Exported)) or not isinstance(tools, Iterable):
        what = type(tools).__name__
        raise TypeError(f"export_all() takes a list of tools, not a single {what}; write export_all([...], {wire!r})")
    made = tuple(tool_of(one) for one in tools)
    return _export_all(made, wire, strict, limits)


# Tools and wires are keys by their identity. 16 is more sets of tools than an application uses at a time; the cache
# keeps them alive.
@lru_cache(maxsize=16)
def _export_all(
    tools: tuple[Tool[..., Any], ...], wire: Wire | str, strict: Strictness, limits: RequestLimits | None
) -> Exports:
    format, asked = find(wire, strict is True)
    if strict == "where_possible":
        find(wire, True)  # raises where there is no strict form
    limits = limits or format.limits
    # Before anything is exported: no form of the tools would help.
    if limits.tools is not None and len(tools) > limits.tools:
        raise ExportError(f"{format.name}: expected at most {limits.tools} tools in a request, got {len(tools)}")
    batch = _Batch(format, limits)
    if strict != "where_possible" or asked:
        batch.add_all(tools, strict=asked)
    elif format.strict is not None and format.strict.whole_request:
        # Cohere's `strict_tools` and Gemini's mode `VALIDATED` are fields of the request: one tool that cannot be
        # strict keeps all others from it.
        batch = _all_or_none(tools, format, limits)
    else:
        batch.add_where_possible(tools)
    return Exports(wire=format.name, fallbacks=batch.fallbacks, _items=tuple(batch.items), _format=format)


def _all_or_none(tools: Sequence[Tool[..., Any]], format: ToolFormat, limits: RequestLimits) -> _Batch:
    batch = _Batch(format, limits)
    batch.add_where_possible(tools)
    if batch.fallbacks:
        reason = f"{format.name} is strict only for a whole request, and cannot be for {', '.join(batch.fallbacks)}"
        fallbacks = {one.name: batch.fallbacks.get(one.name, reason) for one in tools}
        batch = _Batch(format, limits)
        batch.add_all(tools, strict=False)
        batch.fallbacks = fallbacks
    return batch


class _Batch:
    def __init__(self, format: ToolFormat, limits: RequestLimits) -> None:
        self.format = format
        self.limits = limits
        self.items: list[Exported] = []
        self.fallbacks: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.used = dict.fromkeys((one.name for one in fields(RequestLimits)), 0)

    def add(self, tool: Tool[..., Any], *, strict: bool) -> None:
        one = exported(tool, self.format, EntryOptions(strict=strict))
        if tool.name in self.names.values():
            raise ExportError(f"two tools are called {tool.name!r}; pass tool(..., name='...') to one of them")
        # A changed name ends in a hash. So two are alike only if six digits of their hashes are, which a longer hash
        # fixes; or if a tool is called by the changed name of another, which can get no other name and is refused.
        if one.name in self.names:
            rule = self.format.names
            assert rule is not None, "only a rule changes names"
            name = rule.fitted(tool.name, self.names)
            if name in self.names:
                raise ExportError(f"the tools {tool.name!r} and {self.names[name]!r} would both be called {name!r}")
            one = exported(tool, self.format, EntryOptions(strict=strict, name=name))
        if strict:
            self._use(one)
        self.names[one.name] = tool.name
        self.items.append(one)

    def add_all(self, tools: Iterable[Tool[..., Any]], *, strict: bool) -> None:
        for one in tools:
            self.add(one, strict=strict)

    def add_where_possible(self, tools: Iterable[Tool[..., Any]]) -> None:
        for one in tools:
            try:
                self.add(one, strict=True)
            except ExportError as error:
                self.fallbacks[one.name] = str(error)
                self.add(one, strict=False)

    def _use(self, one: Exported) -> None:
        groups = self.format.namespace
        schema: Any = one.payload if groups is None else groups.entry_in(one.payload)
        if "custom" in (one.tool.kind, schema.get("type")) and self.format.freeform is not None:
            return  # its text is held to a grammar, not to a schema
        # The schema as it is sent: a rewrite changes how many properties are optional, and how many unions there are.
        for step in self.format.schema_at:
            schema = schema.get(step, {})
        found = counts(schema)
        counted = ("optional_properties", "unions", "properties")
        more = {"strict_tools": 1, **{what: found[what] for what in counted}}
        # All limits come first: `add_where_possible` continues after a refusal, with nothing of this tool counted.
        for what, count in more.items():
            limit = getattr(self.limits, what)
            if limit is not None and self.used[what] + count > limit:
                words = what.replace("_", " ")
                raise ExportError(
                    f"tool {one.tool.name!r}: {self.format.name}: expected at most {limit} {words} in the strict tools "
                    f"of a request, got {self.used[what] + count} with this one"
                )
        for what, count in more.items():
            self.used[what] += count
