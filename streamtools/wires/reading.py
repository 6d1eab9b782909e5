"""Reading what a peer sent: counts, names and errors, whatever stands where they should be; and how to quote it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic_core import from_json, to_json

from ..errors import ProviderError, RemoteProtocolError
from ..text import well_formed

__all__ = [
    "json_text",
    "label_of",
    "malformed",
    "provider_error",
    "read_count",
    "read_text",
    "weight",
]


def weight(value: object) -> int:
    """How much a value holds: the characters of its strings, the bytes of its blobs, one for anything else in it."""
    size, waiting = 0, [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (dict, list)):
            size += 1
            waiting.extend(node if isinstance(node, list) else (part for item in node.items() for part in item))
        else:
            size += len(node) if isinstance(node, (str, bytes)) else 1
    return size


def provider_error(payload: Mapping[str, Any], *, named_error: bool = False) -> ProviderError | None:
    """The error that a payload reports, in any of the shapes that servers use; None if it reports none.

    `named_error`: the frame itself was called "error", so that the payload is one whatever it looks like.
    """
    error = payload.get("error")
    if isinstance(error, Mapping) and (error or len(payload) == 1):  # an empty one beside an answer says nothing
        body: Mapping[str, Any] = error
    elif isinstance(error, str) and error:
        return ProviderError(well_formed(error), code=_code(payload.get("code")))
    elif named_error or payload.get("object") == "error" or payload.get("type") == "error":
        body = payload
    elif error:
        return ProviderError("the provider sent an error without a message")
    else:
        return _exception(payload)
    message = body.get("message") or body.get("detail") or body.get("type")
    return ProviderError(
        well_formed(message) if isinstance(message, str) else "the provider sent an error without a message",
        code=_code(body.get("code")),
        type=read_text(body.get("type")),
    )


def _exception(payload: Mapping[str, Any]) -> ProviderError | None:
    """An exception of AWS's event streams: ``{"throttlingException": {"message": …}}``."""
    for name, body in payload.items():
        if isinstance(name, str) and name.endswith("Exception") and isinstance(body, Mapping):
            said = (body.get(key) for key in ("message", "Message", "originalMessage"))
            texts = dict.fromkeys(well_formed(text) for text in said if isinstance(text, str) and text)
            return ProviderError(": ".join(texts) or "the provider sent an error without a message", code=_code(name))
    return None


def read_count(value: object) -> int | None:
    """A token count, if that is what `value` is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**53 else None


def json_text(value: object) -> str | None:
    """A value as JSON text; None if it is no JSON, which has neither NaN nor halves of surrogate pairs."""
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
        if "NaN" in text or "Infinity" in text:  # likely in a string
            from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None
    return text


def malformed(what: str) -> RemoteProtocolError:
    """A payload that is not what the wire promises."""
    return RemoteProtocolError(what, kind="malformed_chunk")


def _code(code: object) -> str | int | None:
    if isinstance(code, str):
        return well_formed(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def label_of(index: object) -> int | str:
    """What a wire numbers its blocks by, as the label of a call."""
    return index if isinstance(index, (int, str)) else str(index)


def read_text(value: object) -> str | None:
    """A short text (an id, a name), if that is what `value` is; without halves of surrogate pairs."""
    return well_formed(value) if isinstance(value, str) and value else None
