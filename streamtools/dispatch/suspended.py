"""Keeps calls that wait for an approval across a restart, as JSON that nobody can change unnoticed.

    text = events.suspended.to_json(key=SECRET)           keep it, or give it to a browser
    suspended = Suspended.from_json(text, key=SECRET)     in any process that has the key

Anybody who has the text can read the arguments: it is signed (HMAC-SHA256 over all that it contains), not encrypted.
The signature proves that these calls, with these arguments, were suspended by somebody who has the key; the application
decides who may approve them. The store keeps a call from running twice when the text is used twice.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self, TypeAlias

from ..display import shown_by
from ..errors import SuspendedError
from ..events import ApprovalRequested, Observation
from ..parts import CallKind, ToolCall
from .call import Call
from .endings import undecided

__all__ = ["Asked", "Suspended", "SuspendedCall"]

VERSION = 2
PURPOSE = b"streamtools suspended calls 1\n"  # so that no signature of something else with the same key fits
MIN_KEY_BYTES = 16
MAX_CHARS = 64 << 20  # eight times the arguments of a turn (`Limits.max_total_argument_bytes`), escaped as JSON
WEEK_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedCall:
    """A call that waits for an approval."""

    call_id: str
    tool_name: str
    """The tool as the model called it."""
    arguments_text: str = field(repr=False)
    """The arguments as the model gave them, JSON or a freeform tool's text; validated again before anything runs."""
    kind: CallKind = "function"
    fingerprint: str
    """A hash of tool and arguments, the same as that of the `ApprovalRequested`."""
    idempotency_key: str
    """The call's idempotency key, which the running tool and the observation have, too."""
    index: int = 0
    """The call's position among the calls of its turn, from 0."""
    namespace: str | None = None
    """The namespace that the call named, with which `tool_name` begins."""
    awaits: str | None = None
    """As `ToolCall.awaits`."""

    __repr__ = shown_by()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments, parsed; a fresh copy."""
        if self.kind == "custom":
            return {"input": self.arguments_text}
        parsed: dict[str, Any] = json.loads(self.arguments_text)
        return parsed


Asked: TypeAlias = ApprovalRequested | SuspendedCall | ToolCall | str
"""A call that somebody was asked about, given as the event or record of it, or as its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The calls of one step that wait for an approval; from `Pipeline.suspended`. Pass it to `resume`."""

    calls: tuple[SuspendedCall, ...]
    run_id: str
    step: int
    seq: int
    """The number at which the run's events go on."""
    wire: str | None
    """The wire over which the calls came."""
    traceparent: str | None = None
    """The span of the step, as W3C Trace Context has it, if the step was traced: the resumed step is linked to it."""

    __repr__ = shown_by()

    @classmethod
    def of(cls, calls: Iterable[Call], **facts: Any) -> Suspended:
        """Returns these calls, suspended, with the other `facts` of the step; `Pipeline.suspended` calls this."""
        return cls(calls=tuple(map(_suspended, calls)), **facts)

    def placeholders(self) -> list[Observation]:
        """Returns the observations that a history contains for the calls as long as nobody has decided."""
        ended = undecided()
        return [
            Observation(
                call_id=call.call_id,
                tool_name=call.tool_name,
                outcome=ended.outcome,
                error=ended.error,
                model_content=f"Error: {ended.error}",
                index=call.index,
            )
            for call in self.calls
        ]

    def to_json(self, key: bytes | str) -> str:
        """Returns the calls as signed JSON. Keep the history beside it: `Turn.messages` has a result for each of the
        calls that says that it waits.

        Args:
            key: a secret of at least 16 bytes, the same in every process that resumes.

        Raises:
            ValueError: the key is too short, or the calls are larger than `from_json` reads.
        """
        said = {"version": VERSION, "issued_at": int(time.time()), **asdict(self)}
        text = json.dumps({**said, "signature": _signature(said, key)})
        if len(text) > MAX_CHARS:
            raise ValueError(f"suspended calls: their text is larger than {MAX_CHARS} characters")
        return text

    @classmethod
    def from_json(cls, text: str | bytes, key: bytes | str, *, max_age_s: float | None = WEEK_S) -> Self:
        """Returns the calls that `to_json` wrote, if the signature proves that it did.

        Args:
            text: the text, from anywhere; nothing in it is believed before the signature is.
            key: the secret.
            max_age_s: how old the text may be; None: any age. A call that was right last month may not be so today.

        Raises:
            SuspendedError: the text is something else, was changed, was signed with another key, or is too old.
            TypeError: this is no text.
            ValueError: the key is too short.
        """
        said = _parsed(text)
        signature = said.pop("signature", None)
        if not isinstance(signature, str) or not hmac.compare_digest(
            signature.encode("utf-8", "replace"), _signature(said, key).encode()
        ):
            raise SuspendedError("the signature does not fit: it was changed, or signed with another key")
        if said.pop("version", None) != VERSION:
            raise SuspendedError(f"it is of another version than {VERSION}, which this streamtools reads")
        age = time.time() - said.pop("issued_at")
        if max_age_s is not None and age > max_age_s:
            raise SuspendedError(f"it is {age:.0f} s old (max_age_s={max_age_s:g})")
        calls = tuple(SuspendedCall(**call) for call in said.pop("calls"))
        return cls(calls=calls, **said)


def _suspended(held: Call) -> SuspendedCall:
    call = held.call
    assert call.arguments is not None, "only a ready call waits for an approval"
    custom = call.kind == "custom"
    return SuspendedCall(
        call_id=call.call_id,
        tool_name=call.name,
        arguments_text=call.arguments["input"] if custom else _as_json(call.arguments),
        kind=call.kind,
        fingerprint=held.fingerprint,
        idempotency_key=held.key,
        index=call.index,
        namespace=call.namespace,
        awaits=call.awaits,
    )


def _as_json(arguments: Mapping[str, Any]) -> str:
    """Returns the arguments as JSON, hardly larger than the model wrote them: if they were within the limits, they
    should be so again."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _parsed(text: str | bytes) -> dict[str, Any]:
    if not isinstance(text, (str, bytes)):
        raise TypeError(f"the text of suspended calls is what `to_json` gave, not {type(text).__name__}")
    if len(text) > MAX_CHARS:
        raise SuspendedError(f"it is larger than {MAX_CHARS} characters")
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        raise SuspendedError("it is no JSON") from None
    if not isinstance(said, dict):
        raise SuspendedError("it is no JSON object")
    return said


def _signature(said: Mapping[str, Any], key: bytes | str) -> str:
    secret = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or len(secret) < MIN_KEY_BYTES:
        raise ValueError(f"key is a secret of at least {MIN_KEY_BYTES} bytes, say secrets.token_bytes(32)")
    canonical = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(secret, PURPOSE + canonical, "sha256").hexdigest()
