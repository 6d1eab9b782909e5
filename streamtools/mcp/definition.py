"""Reads a tool as its server describes it: checked and bounded, before a tool is made of it; and names it.

Input: the SDK's objects of either generation, or plain dicts: the Python SDK wrote ``inputSchema`` until 1.x and writes
``input_schema`` since 2.0; JSON always has the former. The values may be of any type, and are untrusted. Output: a
`ServerTool`, or the reason why there is none.

The name for the model is valid at every provider, and no two are alike. With a prefix, ``create_issue`` of the server
``github`` becomes ``github__create_issue``. The first ``__`` is the border: the prefix is written so that it neither
contains one nor ends in ``_`` (each ``_`` that would do so is followed by ``-``), so that ``a_`` with ``b`` and ``a``
with ``_b`` stay apart.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from pydantic_core import from_json, to_json

from ..limits import Limits
from ..schema.names import TOOL_NAMES
from ..text import cut, well_formed

__all__ = [
    "RefusedTool", "ServerTool", "Unacceptable", "Weight", "checked_prefix", "excerpt", "name_problem", "namespaced",
    "peek", "plain", "read_definition", "refused", "said", "weighed",
]  # fmt: skip


_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TITLE_CHARS = 256
_NAME_CHARS = 128
_REASON_CHARS = 2048  # a place in a schema takes up to half of them

MAX_PREFIX_CHARS = 32
HASH_DIGITS = 12

_PREFIXES = replace(TOOL_NAMES, length=MAX_PREFIX_CHARS)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BORDER_LIKE = re.compile(r"_(?=[_-]|$)")
BORDER = "__"


@dataclass(frozen=True, kw_only=True)
class ServerTool:
    """A tool of an MCP server, as the server describes it. None of it is to be trusted more than the server."""

    name: str
    """The server's own name for the tool."""
    title: str | None = None
    description: str = field(default="", repr=False)
    input_schema: Mapping[str, Any] = field(repr=False)
    """JSON Schema of the arguments, as written; ``type: object`` is added where it was left out. Do not change it."""
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the structured result, if the tool declares one. Do not change it."""
    annotations: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The tool's hints, as far as they are booleans: ``readOnlyHint``, ``destructiveHint``, ``idempotentHint``,
    ``openWorldHint``."""

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all of the above, in hexadecimal digits, which `Pins` compare. Unlike `Tool.fingerprint`, it does
        not depend on the prefix, and it changes with the hints, too, since an effect may be taken from them."""
        text = json.dumps(said(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTool:
    """A tool that was not taken, with the reason."""

    name: str | None
    """The server's name for it, in visible characters and bounded; None if the problem is the list and not one tool."""
    reason: str
    """The reason, for a person to read: in visible characters and bounded, too."""


class Unacceptable(Exception):
    """Raised for a tool that is not taken; its text is the reason."""


@dataclass(slots=True)
class Weight:
    """The share of a list that has been read."""

    size: int = 0
    """Bytes of descriptions and schemas as JSON."""
    values: int = 0
    """JSON values in schemas."""


def said(definition: ServerTool) -> dict[str, Any]:
    """Returns all fields of a definition, by name, in plain JSON. Nothing is copied, so do not change the values."""
    return {each.name: getattr(definition, each.name) for each in fields(definition)}


def read_definition(raw: Any, limits: Limits, weight: Weight) -> ServerTool:
    """Reads an entry of ``tools/list``.

    Args:
        raw: the entry; no part of it is kept.
        limits: bounds on the entry.
        weight: counts what was read, also of an entry that is not taken.

    Raises:
        Unacceptable: the entry is malformed, or exceeds a limit.
    """
    name = peek(raw, "name")
    if problem := name_problem(name, limits.max_name_bytes):
        raise Unacceptable(problem)
    if peek(peek(raw, "execution"), "taskSupport", "task_support") == "required":
        raise Unacceptable("it runs as a task only (taskSupport), which is not supported")
    schema = _schema(peek(raw, "inputSchema", "input_schema"), "inputSchema", limits, weight)
    if schema is None:
        raise Unacceptable("it has no inputSchema")
    if schema.setdefault("type", "object") != "object":  # MCP requires it, providers refuse requests without it
        raise Unacceptable("inputSchema: its type must be 'object'")
    return ServerTool(
        name=name,
        title=_title(raw),
        description=_description(peek(raw, "description"), limits, weight),
        input_schema=schema,
        output_schema=_schema(peek(raw, "outputSchema", "output_schema"), "outputSchema", limits, weight),
        annotations=_hints(peek(raw, "annotations")),
    )


def refused(raw: Any, reason: str) -> RefusedTool:
    """Returns the note about an entry, or a definition, that is not taken."""
    name = peek(raw, "name")
    shown = excerpt(name, _NAME_CHARS) if isinstance(name, str) else "(no name)"
    return RefusedTool(name=shown, reason=excerpt(reason, _REASON_CHARS))


def _description(text: Any, limits: Limits, weight: Weight) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Unacceptable("its description is no text")
    if len(text) > limits.max_description_chars:
        raise Unacceptable(f"its description is longer than max_description_chars={limits.max_description_chars}")
    try:
        weight.size += len(text.encode())
    except UnicodeEncodeError:
        raise Unacceptable("its description has halves of surrogate pairs") from None
    return text


def _title(raw: Any) -> str | None:
    title = peek(raw, "title") or peek(peek(raw, "annotations"), "title")
    return excerpt(title, _TITLE_CHARS) if isinstance(title, str) else None


def _hints(annotations: Any) -> dict[str, bool]:
    given = plain(annotations)
    return {hint: given[hint] for hint in _HINTS if isinstance(given.get(hint), bool)}


def _schema(schema: Any, where: str, limits: Limits, weight: Weight) -> dict[str, Any] | None:
    """Returns a copy of a schema in plain JSON values, bounded before anything is made of it."""
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise Unacceptable(f"{where} is no object")
    count, chars, is_whole = weighed(schema, limits.max_schema_values, limits.max_schema_bytes)
    weight.values += count
    if not is_whole:
        raise Unacceptable(f"{where} holds more JSON values than max_schema_values={limits.max_schema_values}")
    if chars > limits.max_schema_bytes:
        raise _too_large(where, limits)
    try:
        written = to_json(schema)
        if len(written) > limits.max_schema_bytes:
            raise _too_large(where, limits)
        copy: dict[str, Any] = from_json(written, allow_inf_nan=False)
    except (ValueError, TypeError, RecursionError):  # depth, or values that JSON does not have
        raise Unacceptable(f"{where} cannot be written as JSON") from None
    weight.size += len(written)
    return copy


def _too_large(where: str, limits: Limits) -> Unacceptable:
    return Unacceptable(f"{where} is larger than max_schema_bytes={limits.max_schema_bytes}")


# -- names for the model -----------------------------------------------------------------------------------------------


def checked_prefix(prefix: str | None) -> str:
    """Returns the text before each name; "" for none.

    Raises:
        ValueError: `prefix` is no name, or too long to leave room for one.
    """
    if prefix is None:
        return ""
    if not _PREFIXES.takes(prefix):
        rule = f"1 to {MAX_PREFIX_CHARS} letters, digits, '_', '.' or '-', the first a letter or '_'"
        raise ValueError(f"prefix={prefix!r}: must be {rule}; or leave it out")
    return _BORDER_LIKE.sub("_-", prefix) + BORDER


def name_problem(name: object, max_chars: int) -> str | None:
    """Returns why a server's name for a tool is refused; None if it is not.

    Characters beyond ASCII are refused, not replaced, since one name can disguise as another with them.
    """
    if not isinstance(name, str) or not name:
        return "its name is no text"
    if len(name) > max_chars:
        return f"its name is longer than max_name_bytes={max_chars}"
    if not name.isascii():
        return "its name has characters beyond ASCII, by which one name can look like another"
    if _CONTROL.search(name):
        return "its name has control characters"
    return None


def namespaced(prefix: str, name: str) -> str:
    """Returns the name under which the model calls the tool: a `checked_prefix`, and the server's own name.

    A name that fits is kept as it is. Any other (``files/read``, or one of 100 characters) keeps its valid part and
    ends in a hash of the whole, so that two names do not become one.
    """
    whole = prefix + name
    if TOOL_NAMES.takes(whole):
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_DIGITS]
    kept = TOOL_NAMES.cleaned(whole)
    return f"{kept[: TOOL_NAMES.length - HASH_DIGITS - 1]}-{digest}"


# -- values of any generation and type ---------------------------------------------------------------------------------


def peek(value: Any, *names: str) -> Any:
    """Returns the first of the named keys or attributes that is there and not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def plain(value: Any) -> dict[str, Any]:
    """Returns an SDK object as its JSON object; a mapping as it is; anything else as an empty object."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, dict) else {}


def excerpt(text: str, max_chars: int) -> str:
    """Returns a peer's text for a message: on one line, bounded, and with codes (``\\u202e``) for characters that are
    invisible or move visible ones."""
    shown = well_formed(text[: max_chars + 1])
    if not shown.isprintable():
        shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in shown)
    return cut(shown, max_chars)


class Weighed(NamedTuple):
    """The size of a JSON value, as far as it was measured."""

    values: int
    chars: int
    """Characters of its texts and keys."""
    is_whole: bool
    """True if it has no more values than allowed; all were counted unless there are too many characters."""


def weighed(value: Any, max_values: int, max_chars: int) -> Weighed:
    """Measures a JSON value until it exceeds a bound. Writing it is one step that holds up every thread, so it is
    measured first."""
    waiting = [value]
    count = chars = 0
    while waiting and chars <= max_chars:
        held = waiting.pop()
        count += 1
        if isinstance(held, str):
            chars += len(held)
        elif isinstance(held, (Mapping, list, tuple)):
            if count + len(waiting) + len(held) > max_values:
                return Weighed(count, chars, False)
            if isinstance(held, Mapping):
                chars += sum(len(key) for key in held if isinstance(key, str))
                held = held.values()
            waiting.extend(held)
    return Weighed(count, chars, True)
