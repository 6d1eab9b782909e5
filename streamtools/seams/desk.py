"""A desk says who was the first to decide about a call that waits, or to answer it."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from pydantic_core import to_jsonable_python

from ..content import PLACEHOLDERS
from ..errors import DecisionError
from ..ground.own import owned
from ..ground.text import one_line
from ..parts import ToolCall

if TYPE_CHECKING:
    from ..parts import Finding


_MOST_NAME_CHARS = 256
_MOST_ARGUMENT_CHARS = 256 << 10  # of edited arguments as JSON
_MASKS = ('"**********"', json.dumps("····")[1:-1], *PLACEHOLDERS.values())  # pydantic's, that of a growing text, ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Pending:
    """Something that a call waits for, as a `Desk` knows it."""

    key: str
    """The call's idempotency key. With `fingerprint` and `kind` it names what the call waits for, in any process."""
    fingerprint: str
    """A hash of what is shown: of the tool and its arguments, or of what a running call has asked."""
    kind: Literal["approval", "answer", "question"]
    """``approval``: a `Decision` about the call. ``answer``: its result, since it is done outside. ``question``: the
    answer to what it has asked while it runs."""
    call_id: str
    approvals: int = 1
    """How many people have to approve it, by different names. One denial is enough."""
    edited: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The arguments that it was approved with, if they were edited; only of a call that waits for its answer."""
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    """As `ApprovalRequested.findings`."""

    def is_settled(self, responses: Sequence[Response]) -> bool:
        """Returns whether these responses, in the order of their places, leave nothing to wait for."""
        last, is_full = responses[-1] if responses else None, len(responses) >= self.approvals
        return last is not None and (is_full or isinstance(last, WrittenAnswer) or not last.verdict)

    def check(self, decision: Decision) -> None:
        """Raises a `DecisionError` if several people have to approve the call, and this decision has no name, or
        arguments that only one of them has seen."""
        if self.approvals > 1 and (decision.by is None or decision.arguments is not None):
            needs = f"the call {one_line(self.call_id, 100)!r} requires {self.approvals} people, so each decision"
            if decision.by is None:
                raise DecisionError(self.call_id, "unnamed", f"{needs} says by= whom it is")
            raise DecisionError(self.call_id, "edited", f"{needs} is about the arguments that were shown to all")


@dataclass(frozen=True, slots=True)
class Deny:
    """The verdict that a call may not run, with the reason for the model to read.

    approve=lambda request: request.arguments["amount"] < 100 or Deny("more than 100 needs a manager")
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"Deny takes a text that the model reads, not {type(self.reason).__name__}")


class ShownCall(Protocol):
    """Anything that shows a call to whoever decides: an `ApprovalRequested`, or a `SuspendedCall`."""

    @property
    def call_id(self) -> str:
        """The call's identity, unique within its step."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the tool and the arguments that are shown."""
        ...


Asked: TypeAlias = ShownCall | ToolCall | str
"""A call that somebody was asked about, given as the event or record of it, or as its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict on one call, bound to the arguments that were shown to whoever decided.

    An id alone does not say what was approved: a model may use the same id again for another call, even in one run. So
    a decision repeats the fingerprint of the `ApprovalRequested` or `SuspendedCall` that was shown, and counts for no
    other call. From a page, both come back in the request:

        Decision(call_id=body["call_id"], fingerprint=body["fingerprint"], verdict=body["approved"], by=user)
    """

    call_id: str
    fingerprint: str
    """That of the event or record that was shown."""
    verdict: bool
    """True: the call may run. False: it may not."""
    by: str | None = None
    """Who decided, as your application names people: 1 to 256 characters. A tool with ``approvals=2`` needs it."""
    at: float = field(default_factory=time.time)
    """When, in seconds since 1970; by default now."""
    reason: str | None = field(default=None, repr=False)
    """Why; the model reads it if the call is denied."""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)
    """All arguments that the call is to run with instead of those that were shown, as JSON by the names in the tool's
    schema, at most 256 kB; None: as shown. They are validated and judged as the model's own, the model reads that they
    were changed, and a call for which they do not fit is denied. Only a call that one person decides takes them."""

    def __post_init__(self) -> None:
        for name in ("call_id", "fingerprint"):
            if not isinstance(value := getattr(self, name), str):
                raise TypeError(f"Decision: expected {name} as a str, got {type(value).__name__}")
        if not isinstance(self.verdict, bool):
            raise TypeError(f"Decision: expected True or False as verdict, got {type(self.verdict).__name__}")
        for name in ("by", "reason"):
            if not isinstance(value := getattr(self, name), (str, NoneType)):
                raise TypeError(f"Decision: expected {name} as a str or None, got {type(value).__name__}")
        if isinstance(self.at, bool) or not isinstance(self.at, (int, float)):
            raise TypeError(f"Decision: expected at in seconds since 1970, got {type(self.at).__name__}")
        if self.by is not None and not 0 < len(self.by) <= _MOST_NAME_CHARS:
            raise ValueError(f"Decision: expected by of 1 to {_MOST_NAME_CHARS} characters, got {len(self.by)}")
        if not 0 <= self.at < math.inf:
            raise ValueError("Decision: expected at in seconds since 1970, got no such time")
        if _ARGUMENTS.__get__(self) is not None:
            if not self.verdict:
                raise ValueError("Decision: expected no arguments with a denial")
            object.__setattr__(self, "arguments", _plain(_ARGUMENTS.__get__(self)))

    @classmethod
    def on(
        cls,
        shown: ShownCall,
        verdict: bool | Deny,
        *,
        by: str | None = None,
        at: float | None = None,
        reason: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Returns the decision about a call, given by the event or record that was shown; `arguments` are those that it
        is to run with, if they were edited."""
        if isinstance(verdict, Deny):
            reason, verdict = verdict.reason, False
        return cls(
            call_id=shown.call_id,
            fingerprint=shown.fingerprint,
            verdict=verdict,
            by=by,
            at=time.time() if at is None else at,
            reason=reason,
            arguments=arguments,
        )


def read_verdict(verdict: Any) -> tuple[bool | None, str | None]:
    """Returns whether a verdict approves, None if it decides nothing, and its reason; raises a `TypeError` for what is
    no verdict."""
    if verdict is None or isinstance(verdict, bool):
        return verdict, None
    if isinstance(verdict, Deny):
        return False, verdict.reason
    if isinstance(verdict, Decision):
        return verdict.verdict, verdict.reason
    raise TypeError(f'a verdict is True, False, Deny("why") or None, not {type(verdict).__name__}')


_ARGUMENTS: Any = vars(Decision)["arguments"]
Decision.arguments = owned(_ARGUMENTS)  # type: ignore[misc]


def _plain(arguments: Any) -> Any:
    """Raises a `TypeError` for what is not an object of JSON, a `ValueError` for what is too large."""
    written, plain = "", None
    try:
        written = json.dumps(to_jsonable_python(dict(arguments)), allow_nan=False)
        plain = json.loads(written)
        json.dumps(plain, ensure_ascii=False).encode()  # a lone surrogate could be sent to no model
    except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
        plain = None
    if plain is None or plain.keys() != arguments.keys():
        kind = type(arguments).__name__
        raise TypeError(f"Decision: expected arguments as a mapping of names to JSON, got another {kind}")
    if len(written) > _MOST_ARGUMENT_CHARS:
        most = _MOST_ARGUMENT_CHARS
        raise ValueError(f"Decision: expected arguments of at most {most} characters of JSON, got {len(written)}")
    if any(mask in written for mask in _MASKS):
        raise ValueError(
            "Decision: expected whole arguments, got one that is masked, as a policy or a SecretStr shows it"
        )
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """The result of a call that was done outside, or the answer to what a call has asked."""

    call_id: str
    fingerprint: str
    """That of the `Pending` that it answers."""
    record: bytes = field(repr=False)
    """The result as bytes, to be kept as they are."""


Response: TypeAlias = Decision | WrittenAnswer
"""What somebody says about a call that waits: a `Decision` for an approval, else a `WrittenAnswer`."""


class Desk(Protocol):
    """The one place that knows who was the first to decide or to answer. Without one, that is the run itself.

    A pending call has a place for each of those who have to approve it, and one for an answer. A response takes the
    next place, if that is free and is needed: the place behind an approval is, unless enough people have approved. The
    same response again, equal in all fields, takes no second place, nor does an approval by the name of an earlier one.
    """

    async def look(self, pending: Pending, /) -> Sequence[Response]:
        """Returns the responses that count so far, in the order of their places. It is called before anybody is asked,
        and again when there is news. If it raises, or returns anything else, the call goes on waiting, with a warning.
        """
        ...

    async def respond(self, pending: Pending, response: Response, /) -> Sequence[Response]:
        """Puts a response on record, unless no place is left for it; returns those that count then. The response counts
        if it is among them. If this raises, or returns anything else, the call goes on waiting, with a warning."""
        ...
