"""Keeps calls that wait for an approval across a restart, as text that nobody can change unnoticed.

    text = events.suspended.to_text(key=SECRET)           keep it, or give it to a browser
    suspended = Suspended.from_text(text, key=SECRET)     in any process that has the key

The text is ``<JSON>.<HMAC-SHA256 of the JSON's bytes, in hex>``. It is signed, not encrypted: anybody who has it can
read the arguments. The signature proves that these calls, with these arguments, were suspended by somebody who has the
key; the application decides who may approve them. The store keeps a call from running twice when the text is used
twice.

The order of reading is the defence: first the length, then the signature over the bytes as they are, and only then is
anything parsed. So a stranger's text costs one hash of at most `max_bytes`.
"""

from __future__ import annotations

import hmac
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, TypeAlias

from pydantic import Field, TypeAdapter, ValidationError

from ..content import Caller
from ..errors import SuspendedError
from ..events import ApprovalRequested, Observation
from ..parts import CallKind, Finding, ToolCall
from ..text import shown_by
from .budgets import Spent
from .endings import undecided
from .states import Call

__all__ = ["Asked", "Suspended", "SuspendedCall"]

VERSION = 3
PURPOSE = b"streamtools suspended calls 3\n"  # so that no signature of something else with the same key fits
MIN_KEY_BYTES = 16
MAX_BYTES = 256 << 10  # hashed in less than a millisecond; a few calls that write a page each
MAC_CHARS = 64
WEEK_S = 7 * 24 * 3600.0

_Count: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]  # of any size, the check of the types would take it


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
    index: _Count = 0
    """The call's position among the calls of its turn, from 0."""
    namespace: str | None = None
    """The namespace that the call named, with which `tool_name` begins."""
    awaits: str | None = None
    """As `ToolCall.awaits`."""
    caller: Caller = "direct"
    """As `ToolCall.caller`."""
    findings: tuple[Finding, ...] = ()
    """As `ApprovalRequested.findings`."""

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
    step: _Count
    seq: _Count
    """The number at which the run's events go on."""
    wire: str | None
    """The wire over which the calls came."""
    traceparent: str | None = None
    """The span of the step, as W3C Trace Context has it, if the step was traced: the resumed step is linked to it."""
    calls_spent: _Count = 0
    """The run's calls so far, but for these: its `call_budget` goes on from there."""
    tokens_spent: _Count = 0
    """The run's tokens so far, for its `token_budget`."""

    __repr__ = shown_by()

    @classmethod
    def of(cls, calls: Iterable[Call], spent: Spent, **facts: Any) -> Suspended:
        """Returns these calls, suspended, with what their run has spent and the other `facts` of the step;
        `Pipeline.suspended` calls this."""
        held = tuple(calls)
        calls_spent = spent.calls - sum(call.counted for call in held)
        return cls(calls=tuple(map(_suspended, held)), calls_spent=calls_spent, tokens_spent=spent.tokens, **facts)

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

    def to_text(self, key: bytes | str, *, max_bytes: int = MAX_BYTES) -> str:
        """Returns the calls as signed text. Keep the history beside it: `Turn.messages` has a result for each of the
        calls that says that it waits.

        Args:
            key: a secret of at least 16 bytes, the same in every process that resumes.
            max_bytes: how large the text may be, so that `from_text` with the same bound will read it.

        Raises:
            SuspendedError: the text would be larger than `max_bytes`.
            ValueError: the key is too short.
        """
        secret = _secret(key)
        payload = json.dumps({"version": VERSION, "issued_at": int(time.time()), "suspended": asdict(self)})
        text = f"{payload}.{_mac(payload.encode(), secret)}"
        if len(text) > max_bytes:
            raise SuspendedError(f"expected at most max_bytes={max_bytes}, got {len(text)} bytes")
        return text

    @classmethod
    def from_text(
        cls, text: str | bytes, key: bytes | str, *, max_age_s: float | None = WEEK_S, max_bytes: int = MAX_BYTES
    ) -> Suspended:
        """Returns the calls that `to_text` wrote, if the signature proves that it did.

        Args:
            text: the text, from anywhere; nothing in it is parsed before its signature was checked.
            key: the secret.
            max_age_s: how old the text may be; None: any age. A call that was right last month may not be so today.
            max_bytes: how large the text may be; a larger one is refused without being looked at.

        Raises:
            SuspendedError: the text is something else, was changed, was signed with another key, is too large or too
                old.
            TypeError: the text is neither a str nor bytes.
            ValueError: the key is too short.
        """
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"expected the text that `to_text` returned, got {type(text).__name__}")
        kept = _read(_verified(text, _secret(key), max_bytes))
        age = time.time() - kept.issued_at
        if max_age_s is not None and age > max_age_s:
            raise SuspendedError(f"it is {age:.0f} s old (max_age_s={max_age_s:g})")
        return kept.suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """The payload of the text."""

    version: int
    issued_at: _Count
    suspended: Suspended


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
        caller=call.caller,
        findings=held.findings,
    )


def _as_json(arguments: Mapping[str, Any]) -> str:
    """Returns the arguments as JSON, hardly larger than the model wrote them: if they were within the limits, they
    should be so again."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def _secret(key: bytes | str) -> bytes:
    secret = key.encode() if isinstance(key, str) else key
    if not isinstance(secret, bytes) or len(secret) < MIN_KEY_BYTES:
        raise ValueError(f"key is a secret of at least {MIN_KEY_BYTES} bytes, say secrets.token_bytes(32)")
    return secret


def _mac(payload: bytes, secret: bytes) -> str:
    return hmac.new(secret, PURPOSE + payload, "sha256").hexdigest()


def _verified(text: str | bytes, secret: bytes, max_bytes: int) -> bytes:
    """Returns the payload of a text whose signature fits; the length comes first, since even a hash costs time."""
    if len(text) > max_bytes:
        raise SuspendedError(f"expected at most max_bytes={max_bytes}, got {len(text)}")
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    payload, dot, mac = raw[: -MAC_CHARS - 1], raw[-MAC_CHARS - 1 : -MAC_CHARS], raw[-MAC_CHARS:]
    if dot != b"." or not hmac.compare_digest(mac, _mac(payload, secret).encode()):
        raise SuspendedError("the signature does not fit: it was changed, or signed with another key")
    return payload


@cache
def _reader() -> TypeAdapter[_Kept]:
    """Returns the check of a payload, derived from the types; made when the first text is read."""
    return TypeAdapter(_Kept)


def _read(payload: bytes) -> _Kept:
    """Reads a payload that somebody with the key has signed, who may have signed something else with it."""
    try:
        parsed = json.loads(payload)
        version = parsed.get("version") if isinstance(parsed, dict) else None
        if version != VERSION:
            raise SuspendedError(f"expected version {VERSION}, got another one")
        return _reader().validate_json(payload, strict=True)
    except (ValidationError, RecursionError) as error:
        where = error.errors(include_input=False)[0]["loc"] if isinstance(error, ValidationError) else ("calls",)
        place = ".".join(map(str, where))
        raise SuspendedError(f"it is signed, and its {place} is not as `to_text` writes it") from None
    except SuspendedError:
        raise
    except ValueError:
        raise SuspendedError("it is signed, and not JSON") from None
