"""Exports the type of an answer for one wire: `export_output`, the request's part of structured output."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

from ..errors import ExportError
from ..schema.bounds import schema_problem
from ..schema.dialects import Dialect
from ..schema.names import PLAIN_NAMES
from ..schema.translation.plan import Inverse
from ..schema.translation.translate import Made, make
from ..tools.answer import ExportedOutput, answer_reader
from ..tools.formats import STRICT
from ..wires import Wire, known
from ..wires.tool_format import StrictForm, StructuredOutput

__all__ = ["export_output"]


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
    made = _held(reader.schema, called, form.strict) if strict else _told(reader.schema, called, found, form)
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


def _told(schema: dict[str, Any], name: str, wire: str, form: StructuredOutput) -> Made:
    if form.loose is None:
        raise ExportError(f"{wire} holds the model to every schema of an answer; leave out strict=False")
    return _made(schema, name, form.loose)


def _made(schema: dict[str, Any], name: str, dialect: Dialect) -> Made:
    try:
        return make(schema, name, dialect)
    except ExportError as error:
        raise ExportError(f"the schema of the answer cannot be said: {error}") from error
