"""A call that must not happen twice: a store before, the executor in the middle, the store again behind.

Theory of operation. The claim is on the disk before the call is handed over, and the result before it is returned. What
is known not to have started gives its claim back. Whatever cuts the call after its start, be it a timeout, a
cancellation or a lost worker, leaves the claim open, and the next who comes with its key is told that nobody knows.
A tool that has failed has run to its end: it is answered with the same failure.

Take a call's place to run first, then come here: one that is cancelled behind its claim, while its executor still lets
it wait, cannot be told from one that was cut.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import from_json, to_json

from ...errors import ToolError, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from ..results import decode_error, decode_result, encode_error, encode_result
from ..store import Claim, Claimed, IdempotencyStore, Recorded, call_fingerprint
from .executor import Invocation

__all__ = ["Answer", "run_once"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call gave."""

    value: Any = field(repr=False)
    recorded: bool = False
    """It comes from the store; nothing has run now."""
    not_kept: Exception | None = None
    """Why the store could not keep it. The value is good, and the key stays claimed: the call would be unknown next
    time."""


async def run_once(store: IdempotencyStore, call: Invocation, run: Callable[[], Awaitable[Any]]) -> Answer:
    """Run a call unless it has run before.

    Args:
        store: where claims and results are kept.
        call: its `key` is claimed, for its tool and arguments.
        run: runs it, and raises as `Executor.run` does. It is not called if there is anything on record.

    Raises:
        ToolOutcomeUnknown: it was begun before and its end is not known, or it was begun now and was lost.
        ToolNotStarted: it has not run: the key is another call's, or the store or the executor refused.
        ToolError: it has failed, now or before.
    """
    claim = await _claimed(store, call)
    if isinstance(claim, Recorded):
        return Answer(value=_recorded(call, claim), recorded=True)
    if not isinstance(claim, Claimed):
        raise ToolOutcomeUnknown("not run again: the call was begun before, and how that ended is not known")
    try:
        value = await run()
    except ToolNotStarted:
        await _release(store, call.key)
        raise
    except (ToolOutcomeUnknown, ToolTimeout):
        raise
    except ToolError as error:
        await _keep(store, call.key, to_json({"error": encode_error(call.tool, error)}))
        raise
    return await _answered(store, call, value)


async def _claimed(store: IdempotencyStore, call: Invocation) -> Claim:
    """The store's answer. A claim that was made while this was being cancelled is given back."""
    fingerprint = call_fingerprint(call.tool, call.arguments)
    try:
        claim = await _shielded(store.claim(call.key, fingerprint))
    except ToolError:
        raise
    except Exception as error:  # a store of the user's, a full disk
        raise ToolNotStarted(f"not run: the idempotency store failed ({type(error).__name__})") from error
    if isinstance(claim, Claimed):
        try:
            await checkpoint_if_cancelled()
        except BaseException:
            await _release(store, call.key)
            raise
    return claim


async def _release(store: IdempotencyStore, key: str) -> None:
    await _shielded(store.release(key))


async def _shielded(work: Awaitable[T]) -> T:
    with CancelScope(shield=True):
        return await work
    raise AssertionError("nobody cancels a shield")


async def _answered(store: IdempotencyStore, call: Invocation, value: Any) -> Answer:
    try:
        data = encode_result(value)
    except ToolError as error:  # it has run, and there is no way to keep what it returned
        await _keep(store, call.key, to_json({"error": encode_error(call.tool, error)}))
        raise
    return Answer(value=value, not_kept=await _keep(store, call.key, data))


async def _keep(store: IdempotencyStore, key: str, data: bytes) -> Exception | None:
    """Record how it ended, even if nobody waits for it any more."""
    try:
        await _shielded(store.complete(key, data))
    except Exception as error:  # a store of the user's, a full disk
        return error
    return None


def _recorded(call: Invocation, claim: Recorded) -> Any:
    if claim.result is None:
        return "[the call has run before; its result was larger than the idempotency store keeps]"
    said = from_json(claim.result)
    if "error" in said:
        raise decode_error(said["error"])
    return decode_result(claim.result)
