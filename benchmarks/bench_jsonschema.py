"""Validating the arguments of a tool whose schema somebody else wrote: six properties, as MCP servers for issues have.

Bar: `validate` of the own engine takes 10 µs at most. jsonschema-rs and jsonschema judge the same value in the same
run, where they are installed; the detail says how many times the own engine's time they take.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from streamtools.schema.validation import compile

from .measure import Figure, best_of, show

__all__ = ["run"]

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 256, "description": "Title of the issue"},
        "state": {"type": "string", "enum": ["open", "closed", "all"]},
        "labels": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        "page": {"type": "integer", "minimum": 1, "maximum": 100},
        "body": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "repository": {
            "type": "object",
            "properties": {"owner": {"type": "string"}, "name": {"type": "string", "pattern": "^[a-z-]+$"}},
            "required": ["owner", "name"],
            "additionalProperties": False,
        },
    },
    "required": ["title", "repository"],
    "additionalProperties": False,
}
VALUE: dict[str, Any] = {
    "title": "It does not start",
    "state": "open",
    "labels": ["bug", "help wanted", "startup"],
    "page": 3,
    "body": None,
    "repository": {"owner": "someone", "name": "some-thing"},
}
INVALID = {**VALUE, "page": 0, "state": "ajar"}
CALLS = 2_000
MAX_MICROSECONDS = 10.0


def run() -> list[Figure]:
    """Measure the engines and the building of a validator."""
    own = compile(SCHEMA)
    rivals: dict[str, Callable[[], object]] = {
        "valid": _repeated(own.validate, VALUE),
        "is_valid": _repeated(own.is_valid, VALUE),
        "invalid": _repeated(own.validate, INVALID),
        "auto": _repeated(compile(SCHEMA, engine="auto").validate, VALUE),
        **_foreign(),
        "build": _repeated(compile, SCHEMA, calls=CALLS // 50),
    }
    best = best_of(rivals)
    times = {name: seconds / (CALLS // 50 if name == "build" else CALLS) * 1e6 for name, seconds in best.items()}
    names = {
        "valid": "own engine: validate, valid",
        "is_valid": "own engine: is_valid, valid",
        "invalid": "own engine: validate, two problems",
        "auto": "engine='auto': validate, valid",
        "build": "own engine: compile",
    }
    return [
        Figure(
            name=names.get(name, name),
            value=value,
            unit="µs",
            bar=MAX_MICROSECONDS if name == "valid" else None,
            detail=f"{value / times['valid']:.2f} of the own engine's validate",
        )
        for name, value in times.items()
    ]


def _repeated(call: Callable[[Any], object], value: Any, *, calls: int = CALLS) -> Callable[[], object]:
    def repeated() -> None:
        for _ in range(calls):
            call(value)

    return repeated


def _foreign() -> dict[str, Callable[[], object]]:
    """What is installed of others."""
    found: dict[str, Callable[[], object]] = {}
    for module, name in (("jsonschema_rs", "jsonschema-rs: is_valid"), ("jsonschema", "jsonschema: is_valid")):
        try:
            validator = importlib.import_module(module).Draft202012Validator(SCHEMA)
        except ImportError:
            continue
        calls = CALLS if module == "jsonschema_rs" else CALLS // 20
        once = _repeated(validator.is_valid, VALUE, calls=calls)
        found[name] = once if calls == CALLS else _times(once, CALLS // calls)
    return found


def _times(call: Callable[[], object], times: int) -> Callable[[], object]:
    def repeated() -> None:
        for _ in range(times):
            call()

    return repeated


if __name__ == "__main__":
    show(run())
