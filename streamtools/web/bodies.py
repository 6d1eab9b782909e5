"""Reads the JSON that a client sent with a pydantic model; anything wrong is a `BadRequest`, without values.

Size and the number of values are looked at before anything is parsed; the parser bounds the depth, and takes no halves
of surrogate pairs and no numbers that JSON does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import anyio.to_thread
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from ..errors import BadRequest

T = TypeVar("T")

MAX_BYTES = 8 << 20
"""Bytes of a body, unless the program says otherwise: clients send their whole chat each time, with its pictures."""
MAX_VALUES = 200_000  # values in a body: a chat of 10,000 messages has about as many
MAX_ID_CHARS = 4096
"""Characters of an id. Those of approvals name a run, a step, a call and its arguments, with escapes."""
MAX_REASON_CHARS = 10_000  # characters of the reason for an approval, which the model may read
_AT_ONCE = 64 << 10  # bytes that are read in the event loop's own thread, in less than a millisecond
_MAX_DEPTH = 200  # of pydantic's parser
_MOST_ERRORS = 1_000  # of which the first is told; pydantic makes objects of all before it tells one


# -- what is posted --


def printable(text: str) -> str:
    """Returns a text; raises a ValueError if it has characters that cannot be printed."""
    if not text.isprintable():
        raise ValueError("expected printable characters")
    return text


CallId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARS)]
"""The id of a call, which its provider may have made of anything."""
Id = Annotated[CallId, AfterValidator(printable)]  # an id: some printable characters
Reason = Annotated[str, Field(max_length=MAX_REASON_CHARS)]  # the reason for an approval


class Posted(BaseModel):
    """An object that a client sends. Fields without a place here are ignored."""

    model_config = ConfigDict(alias_generator=to_camel, allow_inf_nan=False)


class StopRequest(Posted):
    """The run to stop; without it the one that goes on."""

    run: Id | None = None


# -- reading --


def _check(body: bytes, max_bytes: int) -> None:
    if len(body) > max_bytes:
        raise BadRequest("the body is too large", limit=f"max_bytes={max_bytes}", status=413)
    if _values(body) > MAX_VALUES:  # perhaps in texts
        plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
        # Of so many values no more are names and texts.
        if plain.count(b'"') > 4 * MAX_VALUES + 2 or _values(b"".join(plain.split(b'"')[::2])) > MAX_VALUES:
            raise BadRequest("the body has too many values", limit=f"max_values={MAX_VALUES}", status=413)


def _values(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{")))


def parsed(body: bytes, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    _check(body, max_bytes)
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        limit = f"max_depth={_MAX_DEPTH}" if "recursion limit" in str(error) else None
        raise BadRequest(f"the body is not JSON: {error}", limit=limit) from None
    if not isinstance(value, dict):
        raise BadRequest("the body is not a JSON object")
    return value


def glimpsed(adapter: TypeAdapter[T], body: bytes, max_bytes: int = MAX_BYTES) -> T:
    """Returns what a type has of a body, without making Python values of anything else in it. Raises a `BadRequest` if
    it does not fit, or is too large."""
    _check(body, max_bytes)
    try:
        return adapter.validate_json(body)
    except ValidationError:
        return read(adapter, parsed(body, max_bytes))  # says what is wrong, and where


def read(adapter: TypeAdapter[T], value: Any, path: str = "") -> T:
    """Raises a `BadRequest` if the value, which stands at a path of a body, does not fit."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        if error.error_count() > _MOST_ERRORS:
            raise BadRequest(f"more than {_MOST_ERRORS} values are wrong", path=path) from None
        found = error.errors(include_url=False, include_input=False)[0]
    kind, about = found["type"], found.get("ctx", {})
    most = about.get("max_length")
    raise BadRequest(
        # pydantic's words would show the tag
        f"expected one of {about['expected_tags']}" if kind == "union_tag_invalid" else found["msg"],
        path=_path(path, found["loc"], value),
        limit=None if most is None else f"max_length={most}",
        status=413 if kind == "too_long" else 400,
    )


def _path(path: str, location: Sequence[int | str], value: Any) -> str:
    """Returns a place in a body, without the names of types that pydantic has among those of fields."""
    for at, key in enumerate(location, 1):
        if isinstance(key, int) and isinstance(value, list):
            path, value = f"{path}[{key}]", value[key]
        elif isinstance(value, dict) and (key in value or at == len(location)):
            path, value = f"{path}.{key}" if path else str(key), value.get(key)
    return path


async def apart(work: Callable[[bytes], T], body: bytes) -> T:
    return work(body) if len(body) <= _AT_ONCE else await anyio.to_thread.run_sync(work, body)


def unique(found: Iterable[T], name: Callable[[T], str], path: str) -> tuple[T, ...]:
    seen: dict[str, T] = {}
    for value in found:
        if name(value) in seen:
            raise BadRequest("the same id occurs twice", path=path)
        seen[name(value)] = value
    return tuple(seen.values())
