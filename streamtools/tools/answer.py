"""Describes an answer that is asked for as a type: `ExportedOutput`, and the reader of such an answer.

Input: a pydantic model, a dataclass, a ``TypedDict`` or a JSON Schema. Output: a tool that does nothing but check an
answer as it would check its arguments, so that an answer is validated, coerced and bounded as a call is.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .definition import Tool

__all__ = ["ExportedOutput", "OutputType", "answer_reader"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExportedOutput:
    """The type of an answer for one wire, and the way back. Made by `streamtools.exports.export_output`.

    Add `request` to the provider's request, and pass the whole as ``output=``: the answer that comes goes through
    `decode` before it is validated.
    """

    reader: Tool[..., Any] = field(repr=False)
    """Checks the answer: by the type's own schema, whatever the provider was told."""
    wire: str
    """The name of the wire that it was exported for."""
    strict: bool
    """The provider holds the model to the request's schema."""
    name: str
    """The schema's name, for providers that want one."""
    decode: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    """Turns the model's answer back into the type's form: the inverse of all that the request says differently."""
    rewritten: bool = False
    """`decode` does something: the request alone does not do."""
    losses: tuple[str, ...] = ()
    """The parts of the schema that the wire cannot say, one line each. Validation still enforces them."""
    _pickled: bytes = field(repr=False)

    @property
    def request(self) -> dict[str, Any]:
        """The request's fields: ``client.chat.completions.create(..., **exported.request)``; a fresh copy."""
        copied: dict[str, Any] = pickle.loads(self._pickled)  # bytes of our own, and the quickest exact copy
        return copied


OutputType: TypeAlias = type[Any] | Mapping[str, Any] | ExportedOutput
"""A pydantic model, a dataclass or a ``TypedDict``; a JSON Schema; or either, as it was exported."""


def answer_reader(kind: type[Any] | Mapping[str, Any]) -> Tool[..., Any]:
    """Returns a tool that takes an answer for its arguments, and returns the value: a dict, by a schema.

    Raises:
        ToolDefinitionError: no schema can be made of the type.
        SchemaError: the schema is none, or exceeds a limit.
    """
    if isinstance(kind, Mapping):
        return Tool.from_schema(_same, kind, name="output", description="The answer.", takes="mapping")
    return Tool.from_model(kind, _same, name="output", description="The answer.")


def _same(value: Any) -> Any:
    """Returns the value."""
    return value
