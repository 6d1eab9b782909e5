"""Describes, as data, how a provider writes calls, results and tools.

    CallFormat(name="bedrock.tool_spec", inside="toolUse", id="toolUseId", id_inside=True, arguments="input")
    {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"path": "README.md"}}}

Nothing is judged here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from ..content import Grammar, Namespace
from ..errors import ExportError
from ..schema.bounds import SchemaBound
from ..schema.dialects import Dialect
from ..schema.names import NameRule, qualified

CallRead: TypeAlias = tuple[str, str | None, Any, str | None, dict[str, Any]]
"""The name and id of a call, its arguments as they are (if any), the namespace that is a part of the name, and the
fields that other calls lack."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallFormat:
    """One way to write a call."""

    name: str
    """The format's name: its wire, and what a tool is there (``openai.responses.custom``)."""
    type: str | None = None
    """The value of the field ``type``; None where there is no such field."""
    type_optional: bool = False
    """A call without a type is of this format, too."""
    inside: str | None = None
    """The field whose object contains name and arguments; None where the call itself does."""
    name_at: str = "name"
    """The field of the tool's name."""
    namespace: str | None = None
    """The field of the tool's namespace; None where calls have none."""
    id: str | None = None
    """The field of the id; None where calls have none."""
    id_inside: bool = False
    """The id is beside the name, in the object `inside`."""
    id_optional: bool = False
    """A call may be written without an id."""
    arguments: str = "arguments"
    """The field of the arguments."""
    as_text: bool = False
    """The arguments are the text of a JSON object, not the object."""
    raw: bool = False
    """The arguments are one raw text, not JSON."""
    run_by_provider: tuple[str, ...] = ()
    """Types of calls that are written in the same way, but run by the provider."""
    never: frozenset[str] = frozenset()
    """Fields that only calls of another, otherwise equal format have; those may lack the id."""
    only: frozenset[str] = frozenset()
    """All the fields that a call may have, where nothing else identifies a call."""
    _fields: frozenset[str | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        inner = (self.name_at, self.arguments) if self.inside is None else (self.inside,)
        fields = frozenset({"type", *inner, self.namespace, None if self.id_inside else self.id})
        object.__setattr__(self, "_fields", fields)

    @property
    def bare(self) -> bool:
        """True if such calls have no mark of their own, so that this format is tried last."""
        return self.type is None and self.inside is None

    def read(self, call: Mapping[str, Any]) -> CallRead | None:
        """Reads a call; returns None for anything of another format."""
        if self.type is not None and call.get("type") != self.type and not (self.type_optional and "type" not in call):
            return None
        if self.never and (self.id not in call or call.keys() & self.never):
            return None
        body = call if self.inside is None else call.get(self.inside)
        if not isinstance(body, (dict, Mapping)) or (self.only and call.keys() - self.only):  # a dict is told faster
            return None
        if not isinstance(name := body.get(self.name_at), str):
            return None
        call_id = None if self.id is None else (body if self.id_inside else call).get(self.id)
        extra = {key: value for key, value in call.items() if key not in self._fields}
        call_id = call_id if isinstance(call_id, str) and call_id else None
        group = None if self.namespace is None else call.get(self.namespace)
        group = group if isinstance(group, str) and group and group != name else None
        return qualified(group, name), call_id, body.get(self.arguments), group, extra

    def write(
        self, name: str, call_id: str | None, arguments: str | dict[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        """Returns a call of the tool `name`; raises an `ExportError` if this format needs an id, and there is none."""
        if call_id is None and self.id is not None and not self.id_optional:
            raise ExportError(f"the call of {name!r} has no id, which this format needs; give the call an id first")
        id_ = {} if self.id is None or call_id is None else {self.id: call_id}
        type_ = {} if self.type is None else {"type": self.type}
        group: dict[str, Any] = {}
        if self.namespace is not None and namespace is not None:
            group, name = {self.namespace: namespace}, name.removeprefix(f"{namespace}.")
        body = {self.name_at: name, **group, self.arguments: self._written(arguments)}
        if self.inside is None:
            return {**type_, **id_, **body}
        return {**type_, self.inside: {**id_, **body}} if self.id_inside else {**id_, **type_, self.inside: body}

    def replaced(self, call: Mapping[str, Any], arguments: str | dict[str, Any]) -> dict[str, Any]:
        """Returns a copy of a call of this format with other arguments."""
        changed = {self.arguments: self._written(arguments)}
        return {**call, **changed} if self.inside is None else {**call, self.inside: {**call[self.inside], **changed}}

    def _written(self, arguments: str | dict[str, Any]) -> str | dict[str, Any]:
        return to_json(arguments).decode() if self.as_text and isinstance(arguments, dict) else arguments


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ResultFormat:
    """Describes where a result is written, and how it is recognised."""

    recognises: Callable[[Mapping[str, Any]], bool]
    """Returns whether a dict is such a result."""
    list_key: str | None = None
    """The field of the message whose blocks are results; None where each result is a message or an item."""
    head: Mapping[str, Any] = field(default_factory=lambda: {"role": "user"})
    """The other fields of that message, such as its role."""
    call_id_key: str | None = None
    """The field that contains the id of the call."""
    id_optional: bool = False
    """Results may come without ids, and are then paired by name and order."""
    raw_type: str | None = None
    """The value of the field ``type`` for a call of raw text; None where results do not differ."""
    is_message: bool = False
    """A result is a separate message, not an item among messages."""

    def as_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the messages that contain the results; an empty list for none."""
        held = list(results)
        return [{**self.head, self.list_key: held}] if self.list_key is not None and held else held

    def of_messages(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the results in messages that contain nothing else: the inverse of `as_messages`."""
        if self.list_key is None:
            return list(messages)
        return [block for message in messages for block in message[self.list_key]]


# -- tools in a request --

# How a provider's requests tell their tools, as data: which field holds what, and what the provider takes.
#
#     EntryFormat(name="bedrock.tool_spec", inside="toolSpec", schema_at=("inputSchema", "json"))
#     {"toolSpec": {"name": "find", "inputSchema": {"json": {"type": "object", "properties": {}}}}}
#
# `streamtools.exports` writes tools by these rows, and `streamtools.interop` reads them, too. Nothing is judged here:
# a schema is taken as it stands.

JSON: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool as plain values, to be written into a request or read from one."""

    name: str
    description: str = ""
    """An empty description is left out, since some services require at least one character."""
    schema: JSON | None = None
    """JSON Schema of the arguments; None where the entry has none."""
    output_schema: JSON | None = None
    strict: bool | None = None
    """True if the model is held to the schema; None where the entry does not say."""
    title: str | None = None
    annotations: JSON | None = None
    grammar: Grammar | None = None
    any_text: bool = False
    """True if a freeform tool's entry says that there is no grammar."""
    hints: JSON = field(default_factory=dict)
    """The hints that have a field in the entry, by the fields of `RequestHints`."""
    extra: JSON = field(default_factory=dict)
    """Fields that were read, and have no meaning in other formats."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EntryFormat:
    """One way to write a tool in a request. All but freeform tools have a place for a schema."""

    name: str
    """The format's name: its wire, and what a tool is there (``openai.responses.custom``)."""
    type: str | None = None
    """The value of the field ``type``; None where there is no such field."""
    type_optional: bool = False
    """An entry without a type is of this format, too."""
    inside: str | None = None
    """The field whose object contains name and schema; None where the entry itself does."""
    name_at: str = "name"
    """The field of the tool's name."""
    description_at: str = "description"
    """The field of its description."""
    schema_at: tuple[str, ...] = ()
    """The path of the schema, relative to the name; empty for a freeform tool."""
    schema_optional: bool = False
    """A function without parameters is written without a schema."""
    strict: Literal["never", "where_strict", "always"] = "never"
    """True if the entry has a field ``strict``."""
    output_at: str | None = None
    """The field of the result's schema."""
    titled: bool = False
    """True if the entry has title and annotations."""
    freeform: bool = False
    """True if the tool takes one raw text."""
    grammar_at: str | None = None
    """The object in ``format`` that contains a grammar; None where ``format`` itself contains syntax and definition."""
    hints: Mapping[str, Callable[[Any], JSON]] = field(default_factory=dict)
    """Writes the entry's fields for each field of `RequestHints` that the provider knows."""
    never: frozenset[str] = frozenset()
    """Fields that show that an entry is of another format."""
    alike: frozenset[str] = frozenset()
    """Formats of other providers whose entries may look the same, so that those pass there unchanged."""
    bare: bool = False
    """True if entries have no mark of their own, so that this format is tried last."""
    in_own_words: Callable[[JSON], JSON] | None = None
    """Returns an entry with synonyms of fields replaced by the names here."""

    def __post_init__(self) -> None:
        if self.freeform is bool(self.schema_at):
            wanted = "has no schema_at" if self.freeform else "needs schema_at, the path to its schema"
            raise ValueError(f"the format {self.name!r} {wanted}")

    def write(self, entry: ToolEntry) -> dict[str, Any]:
        """Returns the entry for a request. Schemas are not copied."""
        body: dict[str, Any] = {self.name_at: entry.name}
        if entry.description:
            body[self.description_at] = entry.description
        body |= self._text(entry) if self.freeform else self._parameters(entry)
        if self.strict == "always" or (self.strict == "where_strict" and entry.strict):
            body["strict"] = bool(entry.strict)
        if self.output_at is not None and entry.output_schema is not None:
            body[self.output_at] = entry.output_schema
        if self.titled:
            body |= {k: v for k, v in (("title", entry.title), ("annotations", entry.annotations)) if v}
        for name, value in entry.hints.items():
            body |= self.hints[name](value)
        type_ = {} if self.type is None else {"type": self.type}
        return {**type_, **body} if self.inside is None else {**type_, self.inside: body}

    def read(self, tool: JSON) -> ToolEntry | None:
        """Returns the tool that an entry describes; None if the entry is not of this format. Schemas are not copied."""
        tool = tool if self.in_own_words is None else self.in_own_words(tool)
        body = self._body(tool)
        if body is None or not (isinstance(name := body.get(self.name_at), str) and name):
            return None
        written = body.get(self.description_at)
        said, format_ = body.get("strict"), _object(body.get("format")) if self.freeform else None
        annotations = _object(body.get("annotations")) if self.titled else None
        known = self._fields()
        return ToolEntry(
            name=name,
            description=written if isinstance(written, str) else "",
            schema=None if self.freeform else _object(_at(body, self.schema_at)),
            output_schema=None if self.output_at is None else _object(body.get(self.output_at)),
            strict=said if self.strict != "never" and isinstance(said, bool) else None,
            title=_title(body, annotations) if self.titled else None,
            annotations=annotations,
            grammar=None if format_ is None else _grammar(_at(format_, (self.grammar_at,))),
            any_text=format_ is not None and format_.get("type") == "text",
            extra={key: value for key, value in {**tool, **body}.items() if key not in known},
        )

    def _body(self, tool: JSON) -> JSON | None:
        if self.type is not None and tool.get("type", self.type if self.type_optional else None) != self.type:
            return None
        if tool.keys() & self.never:
            return None
        body = _object(tool if self.inside is None else tool.get(self.inside))
        marked = self.type is not None or self.inside is not None or self.bare
        return body if marked or body is None or isinstance(body.get(self.schema_at[0]), Mapping) else None

    def _parameters(self, entry: ToolEntry) -> dict[str, Any]:
        schema = entry.schema or {}
        if self.schema_optional and not schema.get("properties"):
            return {}
        outer, *inner = self.schema_at
        value: Any = schema
        for key in reversed(inner):
            value = {key: value}
        return {outer: value}

    def _text(self, entry: ToolEntry) -> dict[str, Any]:
        if entry.grammar is None:
            return {"format": {"type": "text"}} if entry.any_text else {}
        grammar = {"syntax": entry.grammar.syntax, "definition": entry.grammar.definition}
        return {"format": {"type": "grammar", **(grammar if self.grammar_at is None else {self.grammar_at: grammar})}}

    def _fields(self) -> frozenset[str | None]:
        strict = None if self.strict == "never" else "strict"
        titled = ("title", "annotations") if self.titled else ()
        own = ("format",) if self.freeform else (self.schema_at[0], self.output_at, strict, *titled)
        return frozenset({"type", self.inside, self.name_at, self.description_at, *own})


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictForm:
    """Describes how a provider holds a model to a schema."""

    dialect: Dialect
    location: str
    """The place where a request asks for strictness, in words."""
    whole_request: bool = False
    """True if either all tools of a request are strict or none."""
    wants_required: bool = False
    """True if a tool needs at least one required property."""
    bounds: tuple[SchemaBound, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredOutput:
    """Describes how a request asks for an answer that fits a schema."""

    request: Callable[[str, dict[str, Any], bool], dict[str, Any]]
    """Makes the request's fields from a name, a schema, and whether the model is held to it."""
    strict: StrictForm
    loose: Dialect | None = None
    """The dialect of a schema that the model only reads; None where it is held to every schema."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolChanges:
    """Says how a request tells behind its messages that its tools have changed. Its own list of tools stays."""

    takes: Callable[[str], bool]  # whether the model of that name is known to take it
    render: Callable[[Sequence[JSON], Sequence[str]], Sequence[JSON]]
    """Makes messages of definitions that come, and of names that go."""
    read: Callable[[JSON], tuple[Sequence[JSON], Sequence[str]] | None]  # the inverse, of one; None for others
    changes: bool = False  # a tool may come again with another definition, and may go; else one that goes stays
    beside: Mapping[str, Any] = field(default_factory=dict)  # the fields that such a request has beside its messages


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits on all tools of one request together. None: no limit. Pass your own to `export_all` if your endpoint
    accepts more or less."""

    tools: int | None = None
    """The number of tools, strict or not."""
    strict_tools: int | None = None
    optional_properties: int | None = None
    """Optional properties of all strict tools."""
    unions: int | None = None
    """Places with several types (``anyOf`` or a list of types), of all strict tools."""
    properties: int | None = None
    """Properties of all strict tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceFormat:
    """The entry of a group of tools: ``{"type": "namespace", "name": "billing", "description": "", "tools": []}``."""

    type: str
    list_key: str = "tools"

    def write(self, namespace: Namespace, entries: list[JSON]) -> dict[str, Any]:
        """Returns the entry of a group with these tools."""
        said = {"name": namespace.name, "description": namespace.description or namespace.name}
        return {"type": self.type, **said, self.list_key: entries}

    def entry_in(self, payload: JSON) -> JSON:
        """Returns the first entry of a group; any other payload unchanged."""
        entry: JSON = payload[self.list_key][0] if payload.get("type") == self.type else payload
        return entry

    def name_of(self, payload: JSON) -> str | None:
        """Returns the name of a group; None for any other payload."""
        name, tools = payload.get("name"), payload.get(self.list_key)
        single = isinstance(tools, list) and len(tools) == 1 and isinstance(tools[0], Mapping)
        return name if single and payload.get("type") == self.type and isinstance(name, str) and name else None

    def split(self, payload: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns a group of one tool for each tool of a group; any other payload unchanged."""
        tools = payload.get(self.list_key) if payload.get("type") == self.type else None
        return [{**payload, self.list_key: [one]} for one in tools] if isinstance(tools, list) else [payload]

    def joined(self, payloads: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns payloads with the tools of each group joined in one entry."""
        groups: dict[object, dict[str, Any]] = {}
        for number, payload in enumerate(payloads):
            if payload.get("type") != self.type:
                groups[number] = payload
            elif (known := groups.get(payload["name"])) is None:
                groups[payload["name"]] = {**payload, self.list_key: list(payload[self.list_key])}
            else:
                known[self.list_key] += payload[self.list_key]
        return list(groups.values())


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ToolFormat:
    """Describes the tools in one provider's requests, and the schemas that it accepts. Hashable."""

    name: str
    """The name of the wire, or another name for a second form."""
    dialect: Dialect
    """The dialect of its schemas."""
    strict: StrictForm | None = None
    """The strict form; None if there is none."""
    names: NameRule | None
    """The tool names that the provider accepts; None: all."""
    function: EntryFormat
    freeform: EntryFormat | None = None
    """The format of freeform tools; None: such a tool becomes a function with one text."""
    request: Callable[[list[dict[str, Any]], bool], dict[str, Any]] = lambda entries, strict: {"tools": entries}
    """Makes the request's fields around the entries; the second argument says whether any entry is strict."""
    choice: JSON = field(default_factory=dict)
    """The request's fields that let the model choose a tool; empty if there are none. Their objects are merged with
    those of `request`. `streamtools.interop` adds them."""
    hosted: Callable[[JSON], str | None] | None = None
    """Returns the name of a tool that the provider runs itself; None for other entries."""
    namespace: NamespaceFormat | None = None
    """The form of a group of tools; None: the group's name becomes a part of each tool's name."""
    limits: RequestLimits = field(default_factory=RequestLimits)
    """The limits that the provider documents."""
    exports_results: bool = False
    """True if tools are exported with title and annotations, with resolved references, and with the schema of their
    result even if it was not declared."""

    @property
    def schema_at(self) -> tuple[str, ...]:
        """The path of the schema in a function's entry."""
        return (
            self.function.schema_at
            if self.function.inside is None
            else (self.function.inside, *self.function.schema_at)
        )


def _at(value: Any, path: tuple[str | None, ...]) -> Any:
    for key in path:
        value = value if key is None else value.get(key) if isinstance(value, Mapping) else None
    return value


def _object(value: object) -> JSON | None:
    return value if isinstance(value, Mapping) else None


def _title(body: JSON, annotations: JSON | None) -> str | None:
    title = body.get("title") or (annotations or {}).get("title")
    return title if isinstance(title, str) else None


def _grammar(found: object) -> Grammar | None:
    syntax, definition = _at(found, ("syntax",)), _at(found, ("definition",))
    if syntax in ("lark", "regex") and isinstance(definition, str):
        return Grammar(syntax=syntax, definition=definition)
    return None
