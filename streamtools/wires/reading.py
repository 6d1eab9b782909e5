"""Reads values that a peer sent, of any type: counts, names, errors, a value's size and JSON text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic_core import from_json, to_json

from ..content import Caller
from ..errors import ProviderError, RemoteProtocolError
from ..events import Event, UnknownPayload
from ..ground.text import well_formed
from ..parts import COUNTS, Usage

_NO_MESSAGE = "the provider sent an error without a message"


def caller_of(raw: Mapping[str, Any]) -> Caller | None:
    """Returns who made a call, by the ``caller`` that Anthropic and OpenAI put beside it; None if none is named. One
    that cannot be read is not the model itself, as far as anybody can tell."""
    caller = raw.get("caller")
    if caller is None:
        return None
    return "direct" if isinstance(caller, Mapping) and caller.get("type") == "direct" else "code"


def weight(value: object) -> int:
    """Returns how much a value holds: the characters of its strings, the bytes of its blobs, one for anything else."""
    size, waiting = 0, [value]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (dict, list)):
            size += 1
            waiting.extend(node if isinstance(node, list) else (part for item in node.items() for part in item))
        else:
            size += len(node) if isinstance(node, (str, bytes)) else 1
    return size


def provider_error(payload: Mapping[str, Any]) -> ProviderError | None:
    """Returns the error that a payload reports in the forms that most servers use; None if it reports none."""
    if (found := _inner_error(payload)) is not None:
        return found
    if payload.get("object") == "error" or payload.get("type") == "error":
        return _error(payload)
    return ProviderError(_NO_MESSAGE) if payload.get("error") else _exception(payload)


def named_error(payload: Mapping[str, Any]) -> ProviderError:
    """Returns the error that is in the payload's ``error``, or is the payload itself."""
    return _inner_error(payload) or _error(payload)


def _inner_error(payload: Mapping[str, Any]) -> ProviderError | None:
    error = payload.get("error")
    if isinstance(error, Mapping) and (error or len(payload) == 1):  # an empty one beside an answer says nothing
        return _error(error)
    if isinstance(error, str) and error:
        return ProviderError(well_formed(error), code=_code(payload.get("code")))
    return None


def _error(body: Mapping[str, Any]) -> ProviderError:
    message = body.get("message") or body.get("detail") or body.get("type")
    text = well_formed(message) if isinstance(message, str) else _NO_MESSAGE
    return ProviderError(text, code=_code(body.get("code")), type=read_text(body.get("type")))


def _exception(payload: Mapping[str, Any]) -> ProviderError | None:
    for name, body in payload.items():
        if isinstance(name, str) and name.endswith("Exception") and isinstance(body, Mapping):
            said = (body.get(key) for key in ("message", "Message", "originalMessage"))
            texts = dict.fromkeys(well_formed(text) for text in said if isinstance(text, str) and text)
            return ProviderError(": ".join(texts) or _NO_MESSAGE, code=_code(name))
    return None


def read_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if 0 <= value < 2**53 else None


def json_text(value: object) -> str | None:
    """Returns a value as JSON text; None if it is not JSON, as with NaN or half of a surrogate pair."""
    try:
        text = to_json(value, inf_nan_mode="constants").decode()
        if "NaN" in text or "Infinity" in text:  # likely in a string
            from_json(text, allow_inf_nan=False)
    except (ValueError, RecursionError):
        return None
    return text


def malformed(what: str) -> RemoteProtocolError:
    """Returns the error for a stream whose payloads break their wire format."""
    return RemoteProtocolError(what, kind="malformed_chunk")


def _code(code: object) -> str | int | None:
    if isinstance(code, str):
        return well_formed(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def label_of(index: object) -> int | str:
    return index if isinstance(index, (int, str)) else str(index)


def read_text(value: object) -> str | None:
    """Returns a short text (an id, a name) without halves of surrogate pairs; None for other or empty values."""
    return well_formed(value) if isinstance(value, str) and value else None


def says_something(value: object) -> bool:
    return value is not None and value not in ("", [], {})


def object_of(value: object) -> Mapping[str, Any]:
    """Returns the value if it is a JSON object, else an empty object."""
    return value if isinstance(value, (dict, Mapping)) else {}  # a dict is told faster


def list_of(value: object) -> list[Any]:
    """Returns the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def objects_in(raw: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    """Returns the objects in a list field; an empty list for any other value."""
    return [one for one in list_of(raw.get(key)) if isinstance(one, dict)]


def rest_of(raw: Mapping[str, Any], *known: str) -> dict[str, Any]:
    """Returns the fields of an object that are not `known`."""
    return {key: value for key, value in raw.items() if key not in known}


# -- fields that nobody reads --

# Finds the fields of a payload that a wire does not read, so that they can be passed on.
#
# Input: a payload, and the `KnownFields` of each of its levels. Output: the other fields that have a value, with the
# path of the object that they stand in. The cost is that of one comparison of names for each level in the table;
# levels that the table does not have are not looked at.

Path: TypeAlias = "tuple[str | int, ...]"


class KnownFields:
    """The fields of an object that a wire knows: those that are read whole, kept whole, or meaningless; and `inside`,
    those with an object or a list of objects, with their known fields."""

    __slots__ = ("inside", "known")

    def __init__(self, *known: str, **inside: KnownFields) -> None:
        self.known = frozenset(known) | inside.keys()
        self.inside = tuple(inside.items())

    def but(self, *known: str, **inside: KnownFields) -> KnownFields:
        """Returns these fields and more; an `inside` of the same name replaces the one here."""
        return KnownFields(*self.known, *known, **{**dict(self.inside), **inside})


ERROR = KnownFields("code", "message", "type")
ERROR_PAYLOAD = KnownFields("code", "message", "type", "event_type", "object", error=ERROR)


def unread(found: Mapping[str, Any], fields: KnownFields, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yields the unknown fields of an object and of those inside it, with their paths, the innermost first."""
    for key, inner in fields.inside:
        value = found.get(key)
        if isinstance(value, Mapping):
            yield from unread(value, inner, (*path, key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, Mapping):
                    yield from unread(item, inner, (*path, key, number))
    if not found.keys() <= (known := fields.known):
        rest = {key: value for key, value in found.items() if key not in known and says_something(value)}
        if rest:
            yield path, rest


def beside_error(payload: Mapping[str, Any]) -> list[Event]:
    return [UnknownPayload(rest, place_of(path)) for path, rest in unread(payload, ERROR_PAYLOAD)]


def place_of(path: Path) -> str:
    """Returns a path as `UnknownPayload.place` words it: ``choices[0].delta``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).removeprefix(".")


# -- counts of tokens: a wire's usage objects in, one `Usage` out --

# A provider may count in several payloads. So the newest of each count is kept under the wire's own path, and the
# counts become ours only at the end: a sum is then of the newest, whichever came last. What is kept is bounded by the
# map.


@dataclass(frozen=True, slots=True)
class Derived:
    """A count that is computed from others."""

    paths: tuple[str, ...]
    make: Callable[[Sequence[int | None]], int | None]
    """Computes it from the others, in the order of the paths; None for one that never came."""


Count: TypeAlias = tuple[str, ...] | Derived
"""The place of a count in a usage object: dotted paths, of which the first with a count is used; or its computation."""


def total(*paths: str) -> Derived:
    """Returns the sum of the counts at `paths`, which is no count where the first is missing."""
    return Derived(paths, lambda counts: None if counts[0] is None else sum(count or 0 for count in counts))


class UsageMap:
    """Reads the token counts of one wire into a `Usage`. Each key of *counts* is a field of `Usage`."""

    __slots__ = ("_paths", "counts", "names", "on_request", "request")

    def __init__(
        self,
        counts: Mapping[str, Count],
        *,
        request: str = "",
        on_request: Callable[[str], object] = lambda model: False,
    ) -> None:
        if unknown := sorted(counts.keys() - COUNTS.keys()):
            raise ValueError(f"expected counts of Usage ({', '.join(COUNTS)}), got {unknown[0]!r}")
        self.counts: Mapping[str, Count] = counts
        """The origin of each field of `Usage`; one that the wire does not count is left out."""
        self.request = request  # the part of a request that asks for the counts, where they come on request alone
        self.on_request = on_request  # returns a true value if this model's counts come on request alone
        paths = (where.paths if isinstance(where, Derived) else where for where in counts.values())
        steps = ((path, path.split(".")) for path in dict.fromkeys(path for each in paths for path in each))
        self._paths = [(path, first, rest) for path, (first, *rest) in steps]
        self.names = frozenset(key for _, key, _ in self._paths)

    def read(self, usage: object, newest: dict[str, int]) -> None:
        """Adds the counts of a usage object to `newest`, by path. A count that is absent or 0 leaves the old one, since
        gateways write 0 for unknown counts."""
        if not isinstance(usage, dict):
            return
        for path, key, rest in self._paths:
            value = usage.get(key)
            for inner in rest:
                value = value.get(inner) if isinstance(value, dict) else None
            if (count := read_count(value)) or (count is not None and path not in newest):
                newest[path] = count

    def usage(self, newest: Mapping[str, int]) -> Usage | None:
        """Returns the `Usage` made from the counts that were read; None if there are none."""
        if not newest:
            return None
        found = {name: count for name, where in self.counts.items() if (count := _find(where, newest)) is not None}
        return Usage(**found) if found else None


def _find(where: Count, newest: Mapping[str, int]) -> int | None:
    if isinstance(where, Derived):
        return where.make([newest.get(path) for path in where.paths])
    for path in where:
        if path in newest:
            return newest[path]
    return None


NO_COUNTS = UsageMap({})
