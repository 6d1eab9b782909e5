"""Reads a tool as its untrusted server describes it, in any generation of the SDK's objects or as dicts; names it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic_core import from_json, to_json

from ..ground import one_line
from ..limits import Limits
from ..schema.names import TOOL_NAMES

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TITLE_CHARS = 256
_NAME_CHARS = 128
_REASON_CHARS = 2048  # a place in a schema takes up to half of them

MAX_PREFIX_CHARS = 32
HASH_DIGITS = 12

_PREFIXES = replace(TOOL_NAMES, length=MAX_PREFIX_CHARS)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BORDER_LIKE = re.compile(r"_(?=[_-]|$)")
TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
BORDER = "__"  # between prefix and name: ``github__create_issue``


@dataclass(frozen=True, kw_only=True)
class ServerTool:
    """Describes a tool of an MCP server in the server's own words. Do not trust it more than the server."""

    name: str
    """The server's own name for the tool."""
    title: str | None = None
    description: str = field(default="", repr=False)
    input_schema: Mapping[str, Any] = field(repr=False)
    """JSON Schema of the arguments, as written; ``type: object`` is added where it was left out. Do not change it."""
    output_schema: Mapping[str, Any] | None = field(default=None, repr=False)
    """JSON Schema of the structured result, if the tool declares one. Do not change it."""
    annotations: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The tool's boolean hints, by name: ``readOnlyHint``, ``destructiveHint``, ``idempotentHint``,
    ``openWorldHint``."""
    task_support: TaskSupport = field(default="forbidden", compare=False, repr=False)
    """Whether a server of MCP 2025-11-25 runs it as a task. Pins do not depend on it."""

    @cached_property
    def fingerprint(self) -> str:
        """The SHA-256 of all fields but `task_support`, in hexadecimal digits, which `Pins` compare."""
        # Not `Tool.fingerprint`: pins do not depend on the prefix, and hold for the hints, too, since `trust_hints`
        # reads an effect from them.
        text = json.dumps(fields_of(self), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedTool:
    """Names a tool that was refused, with the reason."""

    name: str | None
    """The server's name for it, in visible characters and bounded; None if the problem is the whole list."""
    reason: str
    """The reason, for people to read: also in visible characters and bounded."""


class Unacceptable(Exception):
    """Raised for a tool that is refused; its text is the reason."""


@dataclass(slots=True)
class Weight:
    size: int = 0  # bytes of descriptions and schemas as JSON
    values: int = 0  # JSON values in schemas


def fields_of(definition: ServerTool) -> dict[str, Any]:
    """Returns the fields that pins compare, by name, in plain JSON. Nothing is copied, so do not change the values."""
    return {each.name: getattr(definition, each.name) for each in fields(definition) if each.name != "task_support"}


def read_definition(raw: Any, limits: Limits, weight: Weight) -> ServerTool:
    """Reads an entry of ``tools/list`` without keeping any part of it; raises `Unacceptable` if it is malformed or
    exceeds a limit. `weight` counts what was read, even of a refused entry."""
    name = peek(raw, "name")
    if problem := name_problem(name, limits.max_name_bytes):
        raise Unacceptable(problem)
    support = peek(peek(raw, "execution"), "taskSupport", "task_support")
    # The Python SDK wrote `inputSchema` until 1.x and writes `input_schema` since 2.0; JSON always has the former.
    schema = _schema(peek(raw, "inputSchema", "input_schema"), "inputSchema", limits, weight)
    if schema is None:
        raise Unacceptable("it has no inputSchema")
    # MCP requires the type, and providers refuse requests without it; servers leave it out all the same.
    if schema.setdefault("type", "object") != "object":
        raise Unacceptable("inputSchema: expected the type 'object', got another")
    return ServerTool(
        name=name,
        title=_title(raw),
        description=_description(peek(raw, "description"), limits, weight),
        input_schema=schema,
        output_schema=_schema(peek(raw, "outputSchema", "output_schema"), "outputSchema", limits, weight),
        annotations=_hints(peek(raw, "annotations")),
        task_support=support if support in ("optional", "required") else "forbidden",
    )


def refused(raw: Any, reason: str) -> RefusedTool:
    name = peek(raw, "name")
    shown = one_line(name, _NAME_CHARS) if isinstance(name, str) else "(no name)"
    return RefusedTool(name=shown, reason=one_line(reason, _REASON_CHARS))


def _description(text: Any, limits: Limits, weight: Weight) -> str:
    if text is None:
        return ""
    if not isinstance(text, str):
        raise Unacceptable("its description is not text")
    if len(text) > limits.max_description_chars:
        raise Unacceptable(f"its description is longer than max_description_chars={limits.max_description_chars}")
    try:
        weight.size += len(text.encode())
    except UnicodeEncodeError:  # JSON may escape half a pair, which no request in UTF-8 can contain
        raise Unacceptable("its description has halves of surrogate pairs") from None
    return text


# What a person does not see, and a model reads: formatting and control characters, fillers, joiners, variation
# selectors and tags, which can spell whole sentences. https://www.unicode.org/reports/tr36/
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SEEN = r"(?<=[^\x00-\x7f\u200c\u200d\ufe0e\ufe0f])"  # after a letter or a picture
_JOINERS = re.compile(  # those that belong to what is seen: one in an emoji, one between two letters (Persian, Hindi)
    rf"{_SEEN}[\ufe0e\ufe0f]?[\u200c\u200d](?=[^\x00-\x7f])|{_SEEN}[\ufe0e\ufe0f]|(?<=[0-9#*])\ufe0f(?=\u20e3)"
)


def invisible(definition: ServerTool) -> str | None:
    waiting: list[tuple[str, Any]] = [(name, value) for name, value in fields_of(definition).items() if name != "title"]
    while waiting:
        place, held = waiting.pop()
        if isinstance(held, Mapping):
            waiting += [(place, each) for pair in held.items() for each in pair]
        elif isinstance(held, list):
            waiting += [(place, each) for each in held]
        elif isinstance(held, str) and (found := _INVISIBLE.search(held)) and (found := _hidden(held)):
            return f"its {place} has invisible characters (U+{ord(found[0]):04X}); allow_invisible=True accepts it"
    return None


def _hidden(text: str) -> re.Match[str] | None:
    return _INVISIBLE.search(_JOINERS.sub("", text))


def _title(raw: Any) -> str | None:
    title = peek(raw, "title") or peek(peek(raw, "annotations"), "title")
    return one_line(title, _TITLE_CHARS) if isinstance(title, str) else None


def _hints(annotations: Any) -> dict[str, bool]:
    given = plain(annotations)
    return {hint: given[hint] for hint in _HINTS if isinstance(given.get(hint), bool)}


def _schema(schema: Any, where: str, limits: Limits, weight: Weight) -> dict[str, Any] | None:
    if schema is None:
        return None
    if not isinstance(schema, Mapping):
        raise Unacceptable(f"{where} is not an object")
    # Values are bounded as well as bytes: an empty list takes twenty times its text in memory. Of a refused schema only
    # the values that were looked at count; otherwise a few such schemas would use up the whole list's allowance.
    count, chars, is_whole = weighed(schema, limits.max_schema_values, limits.max_schema_bytes)
    weight.values += count
    if not is_whole:
        raise Unacceptable(f"{where} has more JSON values than max_schema_values={limits.max_schema_values}")
    if chars > limits.max_schema_bytes:
        raise _too_large(where, limits)
    try:
        written = to_json(schema)
        if len(written) > limits.max_schema_bytes:
            raise _too_large(where, limits)
        copy: dict[str, Any] = from_json(written, allow_inf_nan=False)  # plain: no object of the SDK stays
    except (ValueError, TypeError, RecursionError):  # depth, or values that JSON does not have
        raise Unacceptable(f"{where} cannot be written as JSON") from None
    weight.size += len(written)
    return copy


def _too_large(where: str, limits: Limits) -> Unacceptable:
    return Unacceptable(f"{where} is larger than max_schema_bytes={limits.max_schema_bytes}")


# -- names for the model --

# With a prefix, `create_issue` of the server `github` becomes `github__create_issue`. The first `__` is the border, so
# that `a_` with `b` and `a` with `_b` stay apart: the prefix is written so that it neither contains `__` nor ends in
# `_`, by a `-` after each `_` that would do so.


def checked_prefix(prefix: str | None) -> str:
    """Returns the text before each name, "" for none; raises a ValueError if `prefix` cannot be used."""
    if prefix is None:
        return ""
    if not _PREFIXES.accepts(prefix):
        rule = f"1 to {MAX_PREFIX_CHARS} letters, digits, '_', '.' or '-', the first a letter or '_'"
        raise ValueError(f"prefix: expected {rule}, got {prefix!r}; or leave it out")
    return _BORDER_LIKE.sub("_-", prefix) + BORDER


def name_problem(name: object, max_chars: int) -> str | None:
    if not isinstance(name, str) or not name:
        return "its name is not text"
    if len(name) > max_chars:
        return f"its name is longer than max_name_bytes={max_chars}"
    if not name.isascii():  # not replaced by other characters, since `sеarch` with a Cyrillic letter poses as `search`
        return "its name has characters beyond ASCII, which can make one name look like another"
    if _CONTROL.search(name):
        return "its name has control characters"
    return None


def namespaced(prefix: str, name: str) -> str:
    """A name that fits is kept as it is. Any other (``files/read``, or one of 100 characters) keeps its valid part and
    ends in a hash of the whole."""
    whole = prefix + name
    if TOOL_NAMES.accepts(whole):
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_DIGITS]
    kept = TOOL_NAMES.cleaned(whole)
    # The hash is that of prefix and name, so that two names do not become one: `files/read` and `files_read`.
    return f"{kept[: TOOL_NAMES.length - HASH_DIGITS - 1]}-{digest}"


# -- values of any generation and type --


def peek(value: Any, *names: str) -> Any:
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def is_finite(value: Any) -> bool:
    """Returns whether a peer's value is a number that a float can hold: JSON's integers have any number of digits."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, dict) else {}


class Weighed(NamedTuple):
    values: int
    chars: int  # characters of its texts and keys
    is_whole: bool  # True if it has no more values than allowed; all were counted unless there are too many characters


def weighed(value: Any, max_values: int, max_chars: int) -> Weighed:
    # Step by step, in place of the length of its JSON: writing that is one step of native code, during which no other
    # thread runs.
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
