"""Reads and writes calls in the formats of the wires, and keeps those that came corrupt from being run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from ..errors import ExportError
from ..limits import Limits
from ..stages.arguments import arguments_of
from ..text import deeper_than
from ..wires import find
from ..wires.call_format import CallFormat
from .contributions import InspectedCall, ToolCallAccessor, ToolCallAdapter
from .formats import STORED_WIRE

__all__ = ["SanitizedCall", "accessor_of", "adapter_of", "arguments_text", "stored_call"]

JSON: TypeAlias = Mapping[str, Any]

_LIMITS = Limits()


class SanitizedCall(dict[str, Any]):
    """A call whose arguments were corrupt and are now empty: fit for a history, never to be dispatched.

    It equals, and is written as, the plain dict that the provider takes. Its attributes stay in the program: `raw` is
    neither stored nor sent.
    """

    __slots__ = ("problem", "raw")

    def __init__(self, call: JSON, *, raw: Any, problem: str) -> None:
        super().__init__(call)
        self.raw = raw
        """The arguments as they came. They may hold anything: log them with care."""
        self.problem = problem
        """Code of the problem with them (``incomplete_json``)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restored, (dict(self), self.raw, self.problem))

    def __repr__(self) -> str:
        return f"SanitizedCall({dict(self)!r}, problem={self.problem!r})"


def _restored(call: JSON, raw: Any, problem: str) -> SanitizedCall:
    return SanitizedCall(call, raw=raw, problem=problem)


# -- the formats of the wires ------------------------------------------------------------------------------------------


def accessor_of(format: CallFormat) -> ToolCallAccessor:
    """Returns the reader of a format's calls."""
    return ToolCallAccessor(format.name, partial(_inspected, format), format.replaced)


def adapter_of(format: CallFormat) -> ToolCallAdapter:
    """Returns the writer of calls in a format."""
    return ToolCallAdapter(format.name, partial(_written, format))


def stored_call(call_id: str, name: str, arguments: str, *, raw: bool) -> dict[str, Any]:
    """Writes a call as a stored history has it.

    Args:
        call_id, name: the call's.
        arguments: the text of a JSON object, or the raw text.
        raw: True for the latter.
    """
    return next(format for format in find(STORED_WIRE).calls if format.raw is raw).write(name, call_id, arguments)


def _inspected(format: CallFormat, call: JSON) -> InspectedCall | None:
    found = format.read(call)
    if found is None:
        return None
    name, call_id, arguments, namespace, extra = found
    payload, metadata, problem = (_raw_text if format.raw else _arguments)(arguments)
    if extra:
        metadata["extra"] = extra
    return InspectedCall(
        tool_name=name,
        call_id=call_id,
        payload=payload,
        payload_kind="raw" if format.raw else "object",
        payload_format=format.name,
        namespace=namespace,
        payload_metadata=metadata,
        problem=problem,
    )


def _raw_text(given: object) -> tuple[str | None, dict[str, Any], str | None]:
    """Returns payload, metadata and problem of a raw call's text."""
    return (given, {}, None) if isinstance(given, str) else (None, {}, "missing_input")


def _arguments(given: object) -> tuple[dict[str, Any] | None, dict[str, Any], str | None]:
    """Returns payload, metadata and problem of a function call's arguments, be they text or a value."""
    if isinstance(given, Mapping):
        problem = _misfit(given)
        return (dict(given), {}, None) if problem is None else (None, {}, problem)
    if given is None:  # no arguments at all: how some servers write none
        return {}, {"normalizations": ("empty_arguments",)}, None
    if not isinstance(given, str):
        return None, {}, "non_object_arguments"
    metadata: dict[str, Any] = {"arguments_text": given}
    if len(given) > _LIMITS.max_argument_bytes:
        return None, metadata, "argument_too_large"
    found = arguments_of(given, _LIMITS)
    if isinstance(found, str):
        return None, metadata, found
    value, steps = found
    return value, metadata | ({"normalizations": steps} if steps else {}), None


def _misfit(arguments: JSON) -> str | None:
    """Returns the code of the problem that keeps a value from being the arguments of a call; None if there is none."""
    if deeper_than(_LIMITS.max_json_depth, arguments):
        return "too_deep"
    try:
        text = to_json(arguments, inf_nan_mode="constants")
    except ValueError:  # half a surrogate pair, or no JSON at all
        return "malformed_json"
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:  # NaN and Infinity, which JSON has no words for
        return "number_out_of_range"
    return None


def _written(format: CallFormat, call: InspectedCall) -> dict[str, Any]:
    arguments = _text(call) if format.raw else arguments_text(call) if format.as_text else call.arguments or {}
    return format.write(call.tool_name, call.call_id, arguments, namespace=call.namespace)


def arguments_text(call: InspectedCall) -> str:
    """Returns the arguments as the text of a JSON object: verbatim if they came as one, ``{}`` if they may not run."""
    text = call.payload_metadata.get("arguments_text")
    if isinstance(text, str) and call.dispatchable and not call.payload_metadata.get("normalizations"):
        return text
    return to_json(call.arguments or {}).decode()


def _text(call: InspectedCall) -> str:
    """Returns the raw text of a call."""
    arguments = call.arguments or {}
    text = arguments.get("input", "")
    if arguments.keys() - {"input"} or not isinstance(text, str):
        raise ExportError(f"the call of {call.tool_name!r} carries an object, which a custom call cannot")
    return text
