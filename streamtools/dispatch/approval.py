"""Handles approvals: which calls need one, how an approver is asked, and what an answer means.

Approvals fail closed: a predicate that raises fails its call, an approver that raises denies it.
"""

from __future__ import annotations

import inspect
import json
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Protocol, TypeAlias

import anyio
from anyio.lowlevel import EventLoopToken
from pydantic_core import to_jsonable_python

from ..errors import CallDenied, LocalProtocolError, ToolFailed
from ..event_loop import is_cancelled, is_in_loop
from ..events import ApprovalRequested
from ..text import type_name
from .states import Call, Ending

__all__ = [
    "Approver",
    "Decision",
    "Deny",
    "Resolution",
    "Verdict",
    "ask",
    "check_loop",
    "denied",
    "failed",
    "is_gated",
    "request",
    "resolution",
    "resolved",
    "verdict_of",
]

_MOST_NAME_CHARS = 256
_MOST_ARGUMENT_CHARS = 256 << 10  # of edited arguments as JSON
_MASKS = ('"**********"', json.dumps("····")[1:-1])  # pydantic's, and that of a growing text


@dataclass(frozen=True, slots=True)
class Deny:
    """The verdict that a call may not run, with the reason for the model to read.

    approve=lambda request: request.arguments["amount"] < 100 or Deny("more than 100 needs a manager")
    """

    reason: str

    def __post_init__(self) -> None:
        if not isinstance(self.reason, str):
            raise TypeError(f"Deny takes a text that the model reads, not {type(self.reason).__name__}")


Verdict: TypeAlias = "bool | Deny | Decision | None"
"""True: the call may run. False or `Deny`: it may not. A `Decision` says so by name. None: somebody else decides."""

Approver: TypeAlias = Callable[[ApprovalRequested], "Verdict | Awaitable[Verdict]"]
"""Decides about one call: returns a verdict, or an awaitable of one. If the approver raises, the call is denied."""


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
    """Who decided, as your application names people: 1 to 256 characters. A tool with ``requires=2`` needs it."""
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
        if self.arguments is not None:
            if not self.verdict:
                raise ValueError("Decision: expected no arguments with a denial")
            object.__setattr__(self, "arguments", _plain(self.arguments))

    @classmethod
    def on(
        cls,
        shown: Shown,
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


def _plain(arguments: Any) -> Any:
    """Returns edited arguments as a copy that is JSON.

    Raises:
        TypeError: they are no object of JSON.
        ValueError: they are too large.
    """
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
    from ..privacy.secrets import PLACEHOLDERS  # few calls are edited

    if any(mask in written for mask in (*_MASKS, *PLACEHOLDERS)):
        raise ValueError(
            "Decision: expected whole arguments, got one that is masked, as a policy or a SecretStr shows it"
        )
    return plain


class Shown(Protocol):
    """Anything that shows a call to whoever decides: an `ApprovalRequested`, or a `SuspendedCall`."""

    @property
    def call_id(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Resolution:
    """The end of a call's approval, however it was made."""

    approved: bool
    reason: str | None = None
    """Why the call is denied, for the model to read."""
    error: BaseException | None = None
    """The approver's exception, if it raised one."""
    by: tuple[str, ...] = ()
    """Who decided: those who approved, or the one who denied."""
    at: float = field(default_factory=time.time)
    """When, in seconds since 1970."""
    arguments: Mapping[str, Any] | None = None
    """Those that the call is to run with, if whoever approved it has changed them."""


def is_gated(call: Call) -> bool:
    """Returns whether the call waits for an approval, by its tool's own predicate.

    Raises:
        ToolFailed: the tool's own predicate raised, or did not return a bool.
    """
    tool, bound = call.ready
    gate = tool.needs_approval
    if isinstance(gate, bool):
        return gate
    try:
        answer = gate(dict(bound.by_name))
    except Exception as error:
        raise ToolFailed(f"not run: the needs_approval of {tool.name} raised {type_name(error)}") from error
    if not isinstance(answer, bool):
        kind = type(answer).__name__
        raise ToolFailed(f"not run: the needs_approval of {tool.name} returned {kind}, not True or False")
    return answer


def request(call: Call) -> ApprovalRequested:
    """Returns the event that requests approval of a call."""
    tool, bound = call.ready
    asked, made = dict(bound.by_name), call.call
    return ApprovalRequested(
        made.call_id,
        tool.name,
        asked,
        fingerprint=call.fingerprint,
        index=made.index,
        caller=made.caller,
        findings=call.findings,
        requires=call.requires,
    )


def resolution(verdict: Any) -> Resolution | None:
    """Returns the resolution that a verdict stands for; None if it decides nothing.

    Raises:
        TypeError: this is no verdict.
    """
    if verdict is None or isinstance(verdict, bool):
        return None if verdict is None else Resolution(verdict)
    if isinstance(verdict, Deny):
        return Resolution(False, verdict.reason)
    if isinstance(verdict, Decision):
        return Resolution(
            verdict.verdict, verdict.reason, by=_names([verdict]), at=verdict.at, arguments=verdict.arguments
        )
    raise TypeError(f'an approval is True, False, Deny("why") or None, not {type(verdict).__name__}')


def resolved(decisions: Sequence[Decision], requires: int) -> Resolution | None:
    """Returns the end of an approval that these decisions make; None if it needs another one. One denial ends it."""
    if not decisions or (decisions[-1].verdict and len(decisions) < requires):
        return None
    last = decisions[-1]
    if requires > 1 and any(one.arguments is not None for one in decisions):  # it required one when it was decided
        return Resolution(False, "its arguments were edited, and it requires several people", at=last.at)
    by = _names(decisions if last.verdict else [last])
    return Resolution(last.verdict, last.reason, by=by, at=last.at, arguments=last.arguments)


def _names(decisions: Iterable[Decision]) -> tuple[str, ...]:
    return tuple(one.by for one in decisions if one.by is not None)


async def verdict_of(approver: Approver | None, event: ApprovalRequested) -> Verdict:
    """Returns what an approver says of a call, whether it is async or not; None if there is no approver."""
    verdict = None if approver is None else approver(event)
    return await verdict if inspect.isawaitable(verdict) else verdict


async def ask(approver: Approver, event: ApprovalRequested) -> Resolution | None:
    """Asks an approver and returns its resolution, or None if it made none. Of the approver's exceptions, only a
    cancellation that was requested here comes out."""
    try:
        verdict = await verdict_of(approver, event)
        if isinstance(verdict, Decision) and (verdict.call_id, verdict.fingerprint) != (
            event.call_id,
            event.fingerprint,
        ):
            raise LocalProtocolError("the approver has decided about another call than it was asked about")
        return resolution(verdict)
    except Exception as error:
        return failed(error)
    except anyio.get_cancelled_exc_class() as error:
        if is_cancelled():
            raise
        return failed(error)  # the cancellation of a task that the approver awaited


def failed(error: BaseException) -> Resolution:
    """Returns the resolution by an approver that has raised."""
    return Resolution(False, f"asking for its approval failed ({type_name(error)})", error)


def check_loop(runs_in: EventLoopToken | None, act: str) -> None:
    """Refuses an act, a method of the pipeline, unless it comes from the event loop that the calls run in.

    Raises:
        LocalProtocolError: this thread runs another event loop, or none.
    """
    if runs_in is None or not is_in_loop(runs_in):
        raise LocalProtocolError(
            f"{act} calls in the pipeline's event loop; from another thread "
            f"anyio.from_thread.run_sync(events.{act}, call, token=...), with its anyio.lowlevel.current_token()"
        )


def denied(resolved: Resolution) -> Ending:
    """Returns the ending of a call that was not approved."""
    why = f": {resolved.reason}" if resolved.reason else ""
    error = CallDenied(f"not run: the call was not approved{why}")
    error.__cause__ = resolved.error
    return Ending("denied", error)
