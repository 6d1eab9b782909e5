"""A desk knows who was first to decide about a waiting call, or to answer it."""

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
    """What a call waits for, as a `Desk` sees it."""

    key: str
    """The call's idempotency key. With `fingerprint` and `kind`, it names what the call waits for in any process."""
    fingerprint: str
    """A hash of what is shown: the tool and its arguments, or the question of a running call."""
    kind: Literal["approval", "answer", "question"]
    """``approval``: a `Decision` about the call. ``answer``: its result, since it runs outside the pipeline.
    ``question``: the answer to a question that it asked while running."""
    call_id: str
    approvals: int = 1
    """How many people, under different names, have to approve it. One denial is enough."""
    edited: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    """The edited arguments that it was approved with, if there are any; set only while it waits for its answer."""
    findings: tuple[Finding, ...] = field(default=(), compare=False)
    """As `ApprovalRequested.findings`."""

    def is_settled(self, responses: Sequence[Response]) -> bool:
        """Returns whether these responses, in the order of their places, settle what the call waits for."""
        last, is_full = responses[-1] if responses else None, len(responses) >= self.approvals
        return last is not None and (is_full or isinstance(last, WrittenAnswer) or not last.verdict)

    def check(self, decision: Decision) -> None:
        """Raises a `DecisionError` if several people have to approve the call, and this decision has no name or has
        edited arguments."""
        if self.approvals > 1 and (decision.by is None or decision.arguments is not None):
            needs = f"the call {one_line(self.call_id, 100)!r} requires {self.approvals} people, so each decision"
            if decision.by is None:
                raise DecisionError(self.call_id, "unnamed", f"{needs} needs by=, the name of the person")
            raise DecisionError(self.call_id, "edited", f"{needs} must keep the arguments as shown; drop arguments=")


@dataclass(frozen=True, slots=True)
class Deny:
    """A verdict that denies a call, with a reason for the model to read.

    approve=lambda request: request.arguments["amount"] < 100 or Deny("more than 100 needs a manager")
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"Deny: expected reason as a str for the model to read, got {type(self.reason).__name__}")


class ShownCall(Protocol):
    """Anything that shows a call to the person who decides: an `ApprovalRequested` or a `SuspendedCall`."""

    @property
    def call_id(self) -> str:
        """The call's identity, unique within its step."""
        ...

    @property
    def fingerprint(self) -> str:
        """A hash of the tool and the arguments that are shown."""
        ...


Asked: TypeAlias = ShownCall | ToolCall | str
"""A call that waits for a decision: its event, its record, or its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A verdict on one call, bound to the arguments that were shown to the person who decided.

    An id alone does not say what was approved: a model may use the same id again for another call, even in one run. So
    a decision repeats the fingerprint of the `ApprovalRequested` or `SuspendedCall` that was shown, and counts for no
    other call. From a page, both come back in the request:

        Decision(call_id=body["call_id"], fingerprint=body["fingerprint"], verdict=body["approved"], by=user)
    """

    call_id: str
    fingerprint: str
    """The fingerprint of the event or record that was shown."""
    verdict: bool
    """True: the call may run. False: it may not."""
    by: str | None = None
    """Who decided, as your application names people: 1 to 256 characters. A tool with ``approvals=2`` needs it."""
    at: float = field(default_factory=time.time)
    """When it was made, in seconds since 1970; by default now."""
    reason: str | None = field(default=None, repr=False)
    """Why; the model reads it if the call is denied."""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, hash=False)
    """All arguments to run the call with instead of those shown, as JSON by the names in the tool's schema, at most
    256 kB; None keeps them as shown. They are validated and judged like the model's own: if they do not fit, the call
    is denied. The model reads that they were changed. Only a call that a single person decides takes them."""

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
            raise ValueError("Decision: expected at in seconds since 1970, got a negative or infinite number")
        if _ARGUMENTS.__get__(self) is not None:
            if not self.verdict:
                raise ValueError("Decision: expected no arguments with a denial; drop arguments=")
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
        """Returns a decision about a call from the event or record that was shown. To run the call with edited
        arguments, pass all of them as `arguments`."""
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
    """Returns whether a verdict approves, None if it decides nothing, and its reason; raises a `TypeError` for anything
    else."""
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
    """Raises a `TypeError` if the arguments are not a JSON object, a `ValueError` if they are too large or masked."""
    written, plain = "", None
    try:
        written = json.dumps(to_jsonable_python(dict(arguments)), allow_nan=False)
        plain = json.loads(written)
        json.dumps(plain, ensure_ascii=False).encode()  # a lone surrogate cannot be sent to a model
    except (TypeError, ValueError, RecursionError):  # the error's text quotes the value
        plain = None
    if plain is None or plain.keys() != arguments.keys():
        kind = type(arguments).__name__
        raise TypeError(f"Decision: expected arguments as a mapping of names to JSON, but this {kind} is not")
    if len(written) > _MOST_ARGUMENT_CHARS:
        most = _MOST_ARGUMENT_CHARS
        raise ValueError(f"Decision: expected arguments of at most {most} characters of JSON, got {len(written)}")
    if any(mask in written for mask in _MASKS):
        raise ValueError("Decision: expected arguments in full, got a masked one, as a policy or a SecretStr shows it")
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """The result of a call that ran outside the pipeline, or the answer to a call's question."""

    call_id: str
    fingerprint: str
    """The fingerprint of the `Pending` that it answers."""
    record: bytes = field(repr=False)
    """The result as bytes. Store them unchanged."""


Response: TypeAlias = Decision | WrittenAnswer
"""A response to a waiting call: a `Decision` for an approval, else a `WrittenAnswer`."""


class Desk(Protocol):
    """The one place that knows who was first to decide or to answer. Without a desk, the run itself keeps track.

    A pending call has a place for each person who has to approve it, or one place for an answer. A response takes the
    next place if that is free and still needed: after an approval it is, until enough people have approved. A response
    that equals an earlier one in all fields takes no second place, nor does a second approval under the same name.
    """

    async def look(self, pending: Pending, /) -> Sequence[Response]:
        """Returns the responses that count so far, in the order of their places. It is called before anyone is asked,
        and again when there is news. If it raises, or returns anything else, the call keeps waiting, with a warning.
        """
        ...

    async def respond(self, pending: Pending, response: Response, /) -> Sequence[Response]:
        """Records a response if there is a place for it, and returns the responses that count then. This response
        counts if it is among them. If this raises, or returns anything else, the call keeps waiting, with a warning."""
        ...
