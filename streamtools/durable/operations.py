"""Names the operation that a call of a tool with ``idempotency_key=`` asks for, and claims the call under it, whatever
its id.

The record names the call that had the effect, so that any other call which it answers reads that this was done before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json, to_json

from ..seams import GateView

_MOST_SCOPE_CHARS = 256  # a key is a text of 1,024 at most
DIGEST_CHARS = 32  # characters at the end of an operation's key


@dataclass(frozen=True, slots=True)
class Operation:
    key: str  # the key in the store, one for all calls that ask for it in its scope
    fingerprint: str  # a hash of the tool's name and of what is done
    call_key: str

    @classmethod
    def of(cls, call: GateView, scope_id: str) -> Operation:
        """`scope_id` is the run or the conversation; empty if the operation is for ever. Raises what `call.operation`
        raises, or an error for what is no plain value."""
        assert call.operation is not None, "else it has no operation"
        text = json.dumps([call.tool_name, _plain(call.operation())], sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return cls(f"{operation_prefix(call.scope, scope_id)}{digest[:DIGEST_CHARS]}", digest, call.key)

    def noted(self, record: bytes) -> bytes:
        return record[:-1] + b',"call":' + to_json(self.call_key) + b"}"

    def has_made(self, record: bytes | None) -> bool:
        try:
            return record is not None and bool(from_json(record).get("call") == self.call_key)
        except (ValueError, AttributeError):  # a person has settled it
            return False


def operation_prefix(scope: str, scope_id: str) -> str:
    if len(scope_id) > _MOST_SCOPE_CHARS:
        scope_id = hashlib.sha256(scope_id.encode("utf-8", "replace")).hexdigest()
    return f"operation:{scope}:{scope_id}:"


def _plain(value: Any) -> Any:
    """Returns a value as JSON, the same in every process: a set, which has no order, as a sorted list."""
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(one) for one in value), key=lambda one: json.dumps(one, sort_keys=True))
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, BaseModel):
        return {name: _plain(one) for name, one in value}
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return from_json(to_json(value))
