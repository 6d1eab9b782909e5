"""Keeps calls that wait for an approval across a restart, as signed text.

The text is ``<JSON>.<HMAC-SHA256, in hex>``. The HMAC is of two hashes: of the JSON's bytes, and of `bound_to`. The
text is not encrypted: anyone who has it can read the arguments. For a run with a journal it is a ticket: the calls' ids
and fingerprints, and where they wait; `Journal.suspended` reads their arguments.

The order of reading is the defence: first the length and the form, then the signature over the raw bytes, and only then
is anything parsed. So a forged text costs one hash of at most `max_bytes`, however many keys there are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, ValidationInfo

from ..content import Caller
from ..dispatch.pool import Spent
from ..dispatch.states import Call
from ..errors import AlreadyDecided, AnswerError, DecisionError, LocalProtocolError, SuspendedError
from ..events import Observation
from ..ground import one_line, shown_by
from ..parts import CallKind, Carry, Finding
from ..seams import Decision, Pending, ShownCall, WrittenAnswer
from ..tools.options import MOST_APPROVERS
from ..waiting.answers import already_answered, unanswered, undecided, written_answer
from .desk import StoreDesk, decides, look_up, put_on_record
from .store import DecidingStore, IdempotencyStore

VERSION = 5
PURPOSE = b"streamtools suspended calls 5\n"  # so that no signature made for another purpose with the key fits
MIN_KEY_BYTES = 16
MOST_KEYS = 16  # of a ring; two or three are usual
MAX_BYTES = 256 << 10  # hashed in less than a millisecond; a few calls that write a page each
MAC_CHARS = 64
MOST_CARRIED = 16 << 10  # bytes of JSON; twice the bound of an id
WEEK_S = 7 * 24 * 3600.0


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key comes twice")
    return made


def _parsed_later(text: str | None, info: ValidationInfo) -> str | None:
    if text is not None and (info.field_name == "edited_text" or info.data.get("kind") != "custom"):
        try:
            parsed = json.loads(text, object_pairs_hook=_once)
            json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()  # no half of a character
            parsed.items()
        except (RecursionError, AttributeError):
            raise ValueError("expected an object") from None
    return text


def _small(carry: Carry | None) -> Carry | None:
    if carry is not None and (len(carry) != 1 or len(json.dumps([*carry.items(), carry.expires_at])) > MOST_CARRIED):
        raise ValueError("expected one field, of the size of an id")
    return carry


# Checked when a state is read.
_Count: TypeAlias = Annotated[int, Field(ge=0, lt=1 << 53)]  # of any size, the check of the types would take it
_Carry: TypeAlias = Annotated[Carry | None, AfterValidator(_small)]
_Object: TypeAlias = Annotated[str | None, AfterValidator(_parsed_later)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedCall:
    """A call that waits for an approval or an answer."""

    call_id: str
    tool_name: str
    """The name by which the model called the tool."""
    kind: CallKind = "function"
    arguments_text: _Object = field(default=None, repr=False)
    """The model's arguments, as JSON or a freeform tool's text; validated again before anything runs. None in a ticket:
    they are in the journal, see `Journal.suspended`."""
    fingerprint: str
    """A hash of tool and arguments, the same as in the `ApprovalRequested`."""
    idempotency_key: str
    """The call's idempotency key, the same as in the running tool and the observation."""
    index: _Count = 0
    """The call's position among the calls of its turn, from 0."""
    namespace: str | None = None
    """The namespace in the call, with which `tool_name` begins."""
    awaits: str | None = None
    """As `ToolCall.awaits`."""
    caller: Caller = "direct"
    """As `ToolCall.caller`."""
    findings: tuple[Finding, ...] = ()
    """As `ApprovalRequested.findings`."""
    approvals: Annotated[int, Field(ge=1, le=MOST_APPROVERS)] = 1
    """As `ApprovalRequested.approvals`."""
    waits_for: Literal["approval", "answer"] = "approval"
    """``answer``: the call is deferred, and waits for a `CallAnswer`."""
    edited_text: _Object = field(default=None, repr=False)
    """The approver's edited arguments, as JSON; only for a call that waits for its answer."""

    __repr__ = shown_by()

    @property
    def pending(self) -> Pending:
        """The waiting call, in the form of a `Desk`."""
        return Pending(
            key=self.idempotency_key,
            fingerprint=self.fingerprint,
            kind=self.waits_for,
            call_id=self.call_id,
            approvals=self.approvals,
            edited=self.edited,
            findings=self.findings,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The parsed arguments; a fresh copy.

        Raises:
            LocalProtocolError: the call is from a ticket, which has no arguments.
        """
        if self.arguments_text is None:
            raise LocalProtocolError("a ticket has no arguments; read them by `await journal.suspended(ticket)`")
        if self.kind == "custom":
            return {"input": self.arguments_text}
        parsed: dict[str, Any] = json.loads(self.arguments_text)
        return parsed

    @property
    def edited(self) -> dict[str, Any] | None:
        """The approver's edited arguments, parsed; a fresh copy."""
        parsed: dict[str, Any] | None = None if self.edited_text is None else json.loads(self.edited_text)
        return parsed


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The result of a deferred call, bound to the arguments that were shown.

    Pass it to `resume` or `Suspended.answer`. A page sends the id and the fingerprint back in its request:

        CallAnswer(call_id=body["call_id"], fingerprint=body["fingerprint"], result=body["result"])
    """

    call_id: str
    fingerprint: str
    """The fingerprint of the event or record that was shown."""
    result: Any = field(repr=False)
    """The call's result: text, JSON, or a `ToolResult`, limited and checked like any tool's result."""
    is_error: bool = False
    """True: the call has failed, and the result says why."""

    def __post_init__(self) -> None:
        for name in ("call_id", "fingerprint"):
            if not isinstance(value := getattr(self, name), str):
                raise TypeError(f"CallAnswer: expected {name} as a str, got {type(value).__name__}")
        if not isinstance(self.is_error, bool):
            raise TypeError(f"CallAnswer: expected True or False as is_error, got {type(self.is_error).__name__}")

    @classmethod
    def to(cls, shown: ShownCall, result: Any, *, is_error: bool = False) -> CallAnswer:
        """Returns the answer to a call; pass the event or record that was shown."""
        return cls(call_id=shown.call_id, fingerprint=shown.fingerprint, result=result, is_error=is_error)


Keys: TypeAlias = bytes | str | Sequence[bytes | str]
"""A secret of at least 16 bytes, the same in every process that resumes; or several, the newest first. The first one
signs, and all are accepted. To change keys, put the new one first, and remove the old one a week later."""

BoundTo: TypeAlias = str | Sequence[str] | Mapping[str, str] | None
"""Whom or what a state belongs to: a user, a tenant, a conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended:
    """The calls of one step that wait for an approval; from `Pipeline.suspended`. Pass it to `resume`."""

    calls: tuple[SuspendedCall, ...]
    run_id: str
    step: _Count
    seq: _Count
    """The number of the run's next event."""
    wire: str | None
    """The wire over which the calls came."""
    traceparent: str | None = None
    """The span of the step, as a W3C `traceparent`, if the step was traced: the resumed step is linked to it."""
    proposed_by: str | None = None
    """The span of the response that made the calls, in the same form: the spans of the calls are linked to it."""
    calls_spent: _Count = 0
    """The run's calls so far, without these: its `call_budget` continues from there."""
    tokens_spent: _Count = 0
    """The run's tokens so far, for its `token_budget`."""
    added_tools: tuple[str, ...] = ()
    """As `AgentLoop.added_tools`."""
    known_tools: tuple[str, ...] = ()
    """The tools that the model last knew, for a run whose tools may change."""
    carry: _Carry = None
    """As `AgentLoop.carry`, or `Turn.carry` for a step outside a run."""
    journal: str | None = None
    """Names the run in its journal, if it has one; then `to_text` returns a ticket."""

    __repr__ = shown_by()

    @classmethod
    def of(cls, calls: Iterable[Call], spent: Spent, **facts: Any) -> Suspended:
        """Returns these calls, suspended, with the amounts their run has spent and other `facts` of the step;
        `Pipeline.suspended` calls this."""
        held = tuple(calls)
        calls_spent = spent.calls - sum(call.counted for call in held)
        return cls(calls=tuple(map(_suspended, held)), calls_spent=calls_spent, tokens_spent=spent.tokens, **facts)

    def placeholders(self) -> list[Observation]:
        """Returns the observations that stand in a history for the calls while they wait."""
        ends = {"approval": undecided(), "answer": unanswered(None, is_kept=True)}
        return [
            Observation(
                call_id=call.call_id,
                tool_name=call.tool_name,
                outcome=ended.outcome,
                error=ended.error,
                model_content=f"Error: {ended.error}",
                index=call.index,
            )
            for call, ended in ((call, ends[call.waits_for]) for call in self.calls)
        ]

    async def answer(self, answers: Iterable[CallAnswer], store: IdempotencyStore) -> None:
        """Stores answers to these calls; the first answer to a call counts. Then resume without passing them, now or
        after a crash.

        Args:
            answers: each to a call as it was shown. Repeating an answer changes nothing.
            store: the run's store.

        Raises:
            AnswerError: the call already has another answer, the answer is to none of these calls, or the call differs
                from the one that was shown.
            TypeError: an answer is not a `CallAnswer`, its result is not JSON, or the store does not keep decisions.
            ValueError: a result is too large.
        """
        if self.journal is not None:
            raise TypeError(
                f"answer: the run {self.run_id!r} has a journal; `await journal.answer(run_id, call_id, ...)`"
            )
        checked = self.checked_answers(answers)
        if checked and not decides(store):
            raise TypeError(no_decisions(store))
        for call, record in checked:
            given = WrittenAnswer(call_id=call.call_id, fingerprint=call.fingerprint, record=record)
            if given not in await StoreDesk(store).respond(call.pending, given):  # type: ignore[arg-type]  # it decides
                raise already_answered(call.call_id)

    def checked_answers(self, answers: Iterable[CallAnswer]) -> list[tuple[SuspendedCall, bytes]]:
        """Returns the answered calls, each with its answer as bytes; `resume` calls this. See `answer`."""
        waiting = {call.call_id: call for call in self.calls if call.waits_for == "answer"}
        found = []
        for one in answers:
            if not isinstance(one, CallAnswer):
                raise TypeError(f"answers: expected a list of CallAnswer, got a {type(one).__name__} in it")
            call = waiting.get(one.call_id)
            if call is None:
                raise AnswerError(one.call_id, "unknown_call", "waits for no answer")
            if call.fingerprint != one.fingerprint:
                raise AnswerError(one.call_id, "changed_call", "has other arguments than the one that was answered")
            found.append((call, written_answer(one.result, is_error=one.is_error)))
        return found

    async def decide(self, decisions: Iterable[Decision], store: IdempotencyStore) -> None:
        """Stores decisions about these calls; the first decision about a call holds. Then resume without decisions, now
        or after a crash: the run continues with the stored ones.

        Args:
            decisions: each about a call as it was shown, and at most one about each. Repeating a decision, equal in all
                fields, changes nothing.
            store: the run's store.

        Raises:
            AlreadyDecided: a call was decided before; `AlreadyDecided.first` holds. If another process decided at the
                same moment, some of these decisions may be stored.
            DecisionError: a decision is about none of the calls, or about one that differs from the shown one, or it
                needs a name.
            TypeError: a decision is not a `Decision`, or the store does not keep decisions; or the run has a journal,
                which keeps them: see `Journal.decide`.
            ValueError: two decisions are about one call.
        """
        if self.journal is not None:
            raise TypeError(
                f"decide: the run {self.run_id!r} has a journal; `await journal.decide(suspended, *decisions)`"
            )
        checked = self.checked(decisions)
        if not checked:
            return
        if not decides(store):
            raise TypeError(no_decisions(store))
        waiting = {call.call_id: call for call in self.calls}
        for one in checked:  # all are looked up before the first is kept
            call = waiting[one.call_id]
            known = await look_up(store, call.pending)
            if one not in known and call.pending.is_settled(known):
                raise AlreadyDecided(one.call_id, known[-1])
        for one in checked:
            await put_on_record(store, waiting[one.call_id].pending, one)

    async def decisions(self, store: DecidingStore) -> tuple[Decision, ...]:
        """Returns the stored decisions about these calls, in the order of the calls; several about a call that requires
        several people."""
        return tuple([one for call in self.calls for one in await look_up(store, call.pending)])

    def checked(self, decisions: Iterable[Decision]) -> tuple[Decision, ...]:
        """Returns the decisions, each about one of these calls as it was shown; `resume` calls this. See `decide`."""
        waiting = {call.call_id: call for call in self.calls if call.waits_for == "approval"}
        found: dict[str, Decision] = {}
        for one in decisions:
            if not isinstance(one, Decision):
                raise TypeError(
                    f"decisions: expected a list of Decision, got a {type(one).__name__} in it; an id alone does not "
                    "say which arguments were shown, so write [Decision.on(call, True) for call in suspended.calls]"
                )
            shown, call = one_line(one.call_id, 100), waiting.get(one.call_id)
            if call is None:
                known = ", ".join(one_line(known, 100) for known in sorted(waiting))
                raise DecisionError(one.call_id, "unknown_call", f"no call {shown!r} is suspended; there are {known}")
            if call.fingerprint != one.fingerprint:
                why = f"the call {shown!r} that waits is not the one that was shown: its tool or arguments differ"
                raise DecisionError(one.call_id, "changed_call", why)
            if one.call_id in found:
                raise ValueError(f"decisions: two are about the call {shown!r}")
            call.pending.check(one)
            found[one.call_id] = one
        return tuple(found.values())

    def to_text(self, keys: Keys, *, bound_to: BoundTo = None, max_bytes: int = MAX_BYTES) -> str:
        """Returns the calls as signed text; for a run with a journal, a ticket without arguments. Store the history,
        too: `Turn.messages` has a result for each of the calls, which says that it waits.

        Args:
            keys: a secret of at least 16 bytes, the same in every process that resumes; or several, of which the first
                one signs.
            bound_to: whom the calls belong to, as a text, a list of texts or a mapping of names to texts (``{"user":
                ..., "conversation": ...}``): `from_text` reads the text only with an equal value. The text does not
                contain it.
            max_bytes: the largest text to return; `from_text` with the same limit reads it.

        Raises:
            SuspendedError: the text would be larger than `max_bytes`.
            TypeError: `bound_to` has another type.
            ValueError: a key is too short, or there is none, or there are more than 16.
        """
        secret, *_ = _secrets(keys)
        kept = asdict(self) if self.journal is None else _ticket(self)
        payload = json.dumps({"version": VERSION, "issued_at": int(time.time()), "suspended": kept})
        text = f"{payload}.{_mac(_hash(payload.encode()), secret, _bound(bound_to))}"
        if len(text) > max_bytes:
            raise SuspendedError(f"expected at most max_bytes={max_bytes}, got {len(text)} bytes")
        return text

    @classmethod
    def from_text(
        cls,
        text: str | bytes,
        keys: Keys,
        *,
        bound_to: BoundTo = None,
        max_age_s: float | None = WEEK_S,
        max_bytes: int = MAX_BYTES,
    ) -> Suspended:
        """Returns the calls that `to_text` wrote, after checking the signature.

        Args:
            text: the text, which may come from anywhere; nothing in it is parsed before its signature is checked.
            keys: the secret, or several, each of which is accepted.
            bound_to: as for `to_text`, but take it from the request that you serve, never from the text.
            max_age_s: the greatest age of the text in seconds; None: any age. A call that was right last month may not
                be right today.
            max_bytes: the largest text to accept; a larger one is refused unread.

        Raises:
            SuspendedError: the text has another form, was changed, was signed with another key or for another
                `bound_to`, or is too large or too old.
            TypeError: the text is neither a str nor bytes, or `bound_to` has another type.
            ValueError: a key is too short, or there is none, or there are more than 16.
        """
        if not isinstance(text, (str, bytes)):
            raise TypeError(f"expected the text that `to_text` returned, got {type(text).__name__}")
        kept = _read(_verified(text, _secrets(keys), _bound(bound_to), max_bytes))
        age = time.time() - kept.issued_at
        if max_age_s is not None and age > max_age_s:
            raise SuspendedError(f"the text is {age:.0f} s old (max_age_s={max_age_s:g})")
        return kept.suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    version: int
    issued_at: _Count
    suspended: Suspended


def _ticket(suspended: Suspended) -> dict[str, Any]:
    names = ("call_id", "tool_name", "fingerprint", "idempotency_key", "index", "approvals", "waits_for")
    calls = [{name: getattr(call, name) for name in names} for call in suspended.calls]
    run = {name: getattr(suspended, name) for name in ("run_id", "step", "seq", "wire", "journal")}
    return {"calls": calls, **run}


def written_suspended(suspended: Suspended) -> bytes:
    return json.dumps(asdict(suspended)).encode()


def read_suspended(written: bytes) -> Suspended:
    kept = json.loads(written)
    return _reader().validate_python({"version": VERSION, "issued_at": 0, "suspended": kept}).suspended


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
        approvals=max(held.needs, held.ready[0].approvals),
        waits_for="answer" if held.is_outside else "approval",
        edited_text=None if held.edited is None else _as_json(held.edited),
    )


def _as_json(arguments: Mapping[str, Any]) -> str:
    """Returns the arguments as JSON, hardly larger than the model wrote them, to stay within the limits."""
    return json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))


def no_decisions(store: object) -> str:
    return (
        f"decisions: the store {type(store).__name__} has no `decide`, so a second decision might replace the first; "
        "use a SqliteStore, PostgresStore or RedisStore, or add the method to your store (see DecidingStore)"
    )


def _secrets(keys: Keys) -> list[bytes]:
    ring = [keys] if isinstance(keys, (bytes, str)) else list(keys) if isinstance(keys, Sequence) else [b""]
    secrets = [one.encode() if isinstance(one, str) else one for one in ring if isinstance(one, (bytes, str))]
    if len(secrets) < len(ring) or any(len(one) < MIN_KEY_BYTES for one in secrets):
        raise ValueError(f"each key is a secret of at least {MIN_KEY_BYTES} bytes, say secrets.token_bytes(32)")
    if not 0 < len(secrets) <= MOST_KEYS:
        raise ValueError(f"expected 1 to {MOST_KEYS} keys, got {len(secrets)}")
    return secrets


def _bound(to: BoundTo) -> bytes:
    """Returns a hash of `bound_to`; values of different shapes have different hashes."""
    shape: Any = to
    if isinstance(to, Mapping):
        shape = dict(to)
        texts = [*shape, *shape.values()]
    elif isinstance(to, Sequence) and not isinstance(to, str):
        shape = texts = list(to)
    else:
        texts = [to or ""]
    if not all(isinstance(one, str) for one in texts):
        raise TypeError("bound_to is a text, a list of texts, or a mapping of names to texts")
    return _hash(json.dumps(shape, sort_keys=True).encode())


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _mac(digest: bytes, secret: bytes, bound: bytes) -> str:
    return hmac.new(secret, PURPOSE + bound + digest, "sha256").hexdigest()


def _verified(text: str | bytes, secrets: Iterable[bytes], bound: bytes, max_bytes: int) -> bytes:
    """Returns the payload of a text whose signature fits; checks the length first, since even a hash costs time."""
    if len(text) > max_bytes:
        raise SuspendedError(f"expected at most max_bytes={max_bytes}, got {len(text)}")
    if text.isascii():  # as all texts of `to_text` are
        raw = text.encode() if isinstance(text, str) else text
        payload, dot, mac = raw[: -MAC_CHARS - 1], raw[-MAC_CHARS - 1 : -MAC_CHARS], raw[-MAC_CHARS:]
        digest = _hash(payload) if dot == b"." else b""
        for secret in secrets if digest else ():
            if hmac.compare_digest(mac, _mac(digest, secret, bound).encode()):
                return payload
    raise SuspendedError(
        "the signature does not fit: the text was changed, or signed with another key or for another `bound_to`"
    )


@cache
def _reader() -> TypeAdapter[_Kept]:
    return TypeAdapter(_Kept)


def _read(payload: bytes) -> _Kept:
    try:
        parsed = json.loads(payload, object_pairs_hook=_once)
        version = parsed.get("version") if isinstance(parsed, dict) else None
        if version != VERSION:
            raise SuspendedError(f"expected version {VERSION}, got another one")
        kept = _reader().validate_json(payload, strict=True)
        if kept.suspended.journal is None and any(call.arguments_text is None for call in kept.suspended.calls):
            raise SuspendedError("the signed text has neither the arguments of its calls nor the name of a journal")
        return kept
    except (ValidationError, RecursionError) as error:
        where = error.errors(include_input=False)[0]["loc"] if isinstance(error, ValidationError) else ("calls",)
        place = ".".join(map(str, where)) or "text"  # half a character is found before any field
        raise SuspendedError(f"the text is signed, but its {place} is not as `to_text` writes it") from None
    except SuspendedError:
        raise
    except ValueError:
        raise SuspendedError("the text is signed, but is not JSON, or has a key twice in one object") from None
