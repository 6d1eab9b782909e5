"""A call that must not happen twice: a store before, the executor in the middle, the store again behind.

Theory of operation. The claim is on the disk before the call is handed over, and the result before it is returned. What
is known not to have started gives its claim back. Whatever cuts the call after its start, be it a timeout, a
cancellation or a lost worker, leaves the claim open, and the next who comes with its key is told that nobody knows.
A tool that has failed has run to its end: it is answered with the same failure.

Once a call has its claim, nothing that the store does changes how the call ended: who waits for it is told how that
was, and apart from it that the store could not keep it, or would not take the claim back.

Take a call's place to run first, then come here: one that is cancelled behind its claim, while its executor still lets
it wait, cannot be told from one that was cut, unless `has_started` tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypeVar

from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import from_json, to_json

from ..content import ToolResult
from ..errors import LocalProtocolError, ToolError, ToolNotStarted, ToolOutcomeUnknown, ToolTimeout
from .executor import Invocation
from .results import decode_error, decode_result, encode_error, encode_result
from .store import Claim, Claimed, IdempotencyStore, Recorded, call_fingerprint

__all__ = ["Answer", "StoreFailed", "run_once"]

T = TypeVar("T")

StoreFailed: TypeAlias = Callable[[Literal["complete", "release"], Exception], object]
"""Takes what the store could not do for a call that it had claimed, and why. Either way the key stays claimed."""

_NOT_KEPT = "[the call has run before; the idempotency store could not keep its result]"
_TOO_LARGE = "[the call has run before; its result was larger than the idempotency store keeps]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a call gave."""

    value: Any = field(repr=False)
    recorded: bool = False
    """It comes from the store; nothing has run now."""
    not_kept: Exception | None = None
    """Why it could not be kept. The value is good. Next time the call is unknown, if the store failed; if it was the
    value, which JSON cannot say, there is on record what the model read of it."""


async def run_once(
    store: IdempotencyStore,
    call: Invocation,
    run: Callable[[], Awaitable[Any]],
    *,
    has_started: Callable[[], bool] = lambda: True,
    store_failed: StoreFailed | None = None,
) -> Answer:
    """Run a call unless it has run before.

    Args:
        store: where claims and results are kept.
        call: its `key` is claimed, for its tool and arguments.
        run: runs it, and raises as `Executor.run` does. It is not called if there is anything on record.
        has_started: whether the tool's code may have run. A call that is cut before gives its claim back.
        store_failed: is told of what the store could not do after the claim, which changes nothing else; an exception
            that is raised at the time has a note of it as well.

    Raises:
        ToolOutcomeUnknown: it was begun before and its end is not known, or it was begun now and was lost.
        ToolNotStarted: it has not run: the key is another call's, or the store or the executor refused.
        ToolError: it has failed, now or before.
    """
    claim = await _claimed(store, call, store_failed)
    if isinstance(claim, Recorded):
        return Answer(value=_recorded(call, claim), recorded=True)
    if not isinstance(claim, Claimed):
        raise ToolOutcomeUnknown("not run again: the call was begun before, and how that ended is not known")
    try:
        value = await run()
    except ToolNotStarted as error:
        await _release(store, call.key, error, store_failed)
        raise
    except (ToolOutcomeUnknown, ToolTimeout):
        raise
    except ToolError as error:
        await _fail(store, call, error, store_failed)
        raise
    except BaseException as error:
        if not has_started():
            await _release(store, call.key, error, store_failed)
        raise
    return await _answered(store, call, value, store_failed)


async def _claimed(store: IdempotencyStore, call: Invocation, store_failed: StoreFailed | None) -> Claim:
    """The store's answer. A claim that was made while this was being cancelled is given back."""
    fingerprint = call_fingerprint(call.tool, call.arguments)
    try:
        claim = await _shielded(store.claim(call.key, fingerprint))
    except ToolNotStarted:
        raise
    except Exception as error:  # a store of the user's, a full disk
        why = str(error) if isinstance(error, LocalProtocolError) else type(error).__name__  # ours: say, it is closed
        raise ToolNotStarted(f"not run: the idempotency store failed ({why})") from error
    if isinstance(claim, Claimed):
        try:
            await checkpoint_if_cancelled()
        except BaseException as error:
            await _release(store, call.key, error, store_failed)
            raise
    return claim


async def _shielded(work: Awaitable[T]) -> T:
    with CancelScope(shield=True):
        return await work
    raise AssertionError("nobody cancels a shield")


async def _release(store: IdempotencyStore, key: str, raised: BaseException, store_failed: StoreFailed | None) -> None:
    """Give the claim back; what is being raised is raised whether or not the store takes it."""
    try:
        await _shielded(store.release(key))
    except Exception as error:  # a store of the user's, a full disk
        raised.add_note(f"the idempotency store could not give its claim back ({type(error).__name__})")
        if store_failed is not None:
            store_failed("release", error)


async def _fail(store: IdempotencyStore, call: Invocation, raised: ToolError, store_failed: StoreFailed | None) -> None:
    error = await _keep(store, call.key, to_json({"error": encode_error(call.tool, raised)}), store_failed)
    if error is not None:
        raised.add_note(f"the idempotency store could not keep this ({type(error).__name__})")


async def _answered(store: IdempotencyStore, call: Invocation, value: Any, store_failed: StoreFailed | None) -> Answer:
    try:
        data, unsaid = encode_result(value), None
    except ToolError as error:  # it has run, and there is no way to keep what it returned
        if not isinstance(value, ToolResult):
            await _fail(store, call, error, store_failed)
            raise
        data, unsaid = _without_value(value), error
    failed = await _keep(store, call.key, data, store_failed)
    return Answer(value=value, not_kept=failed or unsaid)


def _without_value(result: ToolResult) -> bytes:
    """What is for the model, of a result that holds Python objects for the program."""
    for left in (replace(result, value=None, display=None), replace(result, value=None, display=None, native={})):
        try:
            return encode_result(left)
        except ToolError:
            continue
    return encode_result(ToolResult(blocks=[_NOT_KEPT], is_error=result.is_error))


async def _keep(store: IdempotencyStore, key: str, data: bytes, store_failed: StoreFailed | None) -> Exception | None:
    """Record how it ended, even if nobody waits for it any more."""
    try:
        await _shielded(store.complete(key, data))
    except Exception as error:  # a store of the user's, a full disk
        if store_failed is not None:
            store_failed("complete", error)
        return error
    return None


def _recorded(call: Invocation, claim: Recorded) -> Any:
    """The value on record.

    Raises:
        ToolError: the failure on record.
        ToolOutcomeUnknown: there is something on record, and it cannot be read.
    """
    if claim.result is None:
        return _TOO_LARGE
    try:
        said = from_json(claim.result)
        known = decode_error(said["error"]) if "error" in said else decode_result(claim.result)
    except Exception as error:  # a store of the user's, or what another version has written
        text = f"not run again: the call of {call.tool} has run before, and what is on record of it cannot be read"
        raise ToolOutcomeUnknown(text) from error
    if isinstance(known, ToolError):
        raise known
    return known
