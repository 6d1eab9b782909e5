"""How a provider's history writes a call and its result, as data: which field holds what.

    CallFormat(name="bedrock.tool_spec", inside="toolUse", id="toolUseId", id_inside=True, arguments="input")
    {"toolUse": {"toolUseId": "t1", "name": "find", "input": {"path": "README.md"}}}

Nothing is judged here: arguments are read as they stand, be they a value, a text or missing. The content of a result is
written by a wire's `render` and read by its `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..errors import ExportError
from ..schema.names import qualified

__all__ = ["CallFormat", "CallRead", "ResultFormat"]

CallRead: TypeAlias = tuple[str, str | None, Any, str | None, dict[str, Any]]
"""Name and id of a call, its arguments as they stand there, if any do, the namespace that is a part of the name, and
the fields that other calls lack."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallFormat:
    """One way to write a call."""

    name: str
    """The format's name: its wire, and what a tool is there (``openai.responses.custom``)."""
    type: str | None = None
    """The value of the field ``type``; None where there is no such field."""
    type_optional: bool = False
    """A call without a type is one of these, too."""
    inside: str | None = None
    """The field whose object holds name and arguments; None where they stand in the call itself."""
    name_at: str = "name"
    """The field of the tool's name."""
    namespace: str | None = None
    """The field of the tool's namespace; None where calls have none."""
    id: str | None = None
    """The field of the id; None where calls have none."""
    id_inside: bool = False
    """The id stands beside the name, in the object `inside`."""
    id_optional: bool = False
    """A call may be written without an id."""
    arguments: str = "arguments"
    """The field of the arguments."""
    as_text: bool = False
    """The arguments are the text of a JSON object, not the object."""
    raw: bool = False
    """The arguments are one raw text, which is no JSON."""
    run_by_provider: tuple[str, ...] = ()
    """Types of calls that are written in the same way and run by the provider itself."""
    never: frozenset[str] = frozenset()
    """Fields that show that a call is of another format, which looks the same otherwise; so does an id that is
    missing."""
    only: frozenset[str] = frozenset()
    """All the fields that a call may have, where nothing else tells what is one."""
    _fields: frozenset[str | None] = field(init=False, repr=False)
    """The fields that every call has."""

    def __post_init__(self) -> None:
        inner = (self.name_at, self.arguments) if self.inside is None else (self.inside,)
        fields = frozenset({"type", *inner, self.namespace, None if self.id_inside else self.id})
        object.__setattr__(self, "_fields", fields)

    @property
    def bare(self) -> bool:
        """True if such calls have no mark of their own, so that this format is to be asked after all others."""
        return self.type is None and self.inside is None

    def read(self, call: Mapping[str, Any]) -> CallRead | None:
        """Reads a call; None for anything that is not of this format."""
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
        group = self._namespace_in(call, name)
        return qualified(group, name), call_id, body.get(self.arguments), group, extra

    def _namespace_in(self, call: Mapping[str, Any], name: str) -> str | None:
        group = None if self.namespace is None else call.get(self.namespace)
        return group if isinstance(group, str) and group and group != name else None

    def write(
        self, name: str, call_id: str | None, arguments: str | dict[str, Any], *, namespace: str | None = None
    ) -> dict[str, Any]:
        """Returns a call with these arguments.

        Args:
            name: the tool's, with its namespace.
            call_id: the call's, if it has one.
            arguments: the object, its text, or the raw text.
            namespace: the first part of the name, if that is a namespace.

        Raises:
            ExportError: there is no id, and this format needs one.
        """
        if call_id is None and self.id is not None and not self.id_optional:
            raise ExportError(f"the call of {name!r} has no id, which this format needs; give it one first")
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
    """The place of a result, and its mark."""

    recognises: Callable[[Mapping[str, Any]], bool]
    """Returns whether a dict is such a result."""
    list_key: str | None = None
    """Results are blocks of one message, in this field; None where each is a message or an item."""
    head: Mapping[str, Any] = field(default_factory=lambda: {"role": "user"})
    """The other fields of that message, which say whose it is."""
    call_id_key: str | None = None
    """The field of a message or an item that says which call it answers."""
    id_optional: bool = False
    """Results may come without ids, and are then paired by name and order."""
    raw_type: str | None = None
    """The value of the field ``type`` where the call was one of raw text; None where results do not differ."""
    is_message: bool = False
    """A result is a message of its own, not an item among messages."""

    def as_messages(self, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns results as messages that hold them."""
        return list(results) if self.list_key is None else [{**self.head, self.list_key: list(results)}]

    def of_messages(self, messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Returns the results that stand in messages of nothing else: the inverse of `as_messages`."""
        if self.list_key is None:
            return list(messages)
        return [block for message in messages for block in message[self.list_key]]
