"""Keeps a call from running twice, by a claim in a store that is made as the call begins and settled by its end.

Theory of operation. The claim is made inside ``begin()``: after the call has its place, thread and worker, and before
any of its tool's code. So a call that only waited has claimed nothing. A claim ends in one of three ways. The call has
an end: the end is put on record, also a failure in the tool's words. The call did not begin after all, since it was
cancelled while its claim was being made: the claim is given back. Nobody knows how the call ended (a timeout, a
cancellation, a lost worker): the claim is abandoned, and the next dispatch learns of that.

Once the claim is made, nothing that the store does changes how the call ended. Waits for a store are never shielded: a
store finishes by itself, once asked, even if its waiter is cancelled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from anyio.lowlevel import checkpoint_if_cancelled
from pydantic_core import from_json, to_json

from ..content import ToolResult
from ..errors import (
    BeginRefused,
    CallStillRunning,
    LocalProtocolError,
    ToolError,
    ToolNotStarted,
    ToolOutcomeUnknown,
    ToolTimeout,
)
from .executor import Emit, Executor, Invocation
from .results import decode_error, decode_result, encode_error, encode_result
from .store import Claimed, IdempotencyStore, Recorded, StillRunning, call_fingerprint

__all__ = ["CallValue", "CallClaim", "StoreFailed", "run_once"]

StoreFailed: TypeAlias = Callable[[Literal["complete", "release", "abandon"], Exception], object]
"""Takes a failure of the store after the claim: the work that it could not do, and the error. The key stays claimed."""

_NOT_KEPT = "[the call has run before; the idempotency store could not keep its result]"
_TOO_LARGE = "[the call has run before; its result was larger than the idempotency store keeps]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallValue:
    """The value of a call, and where it comes from."""

    value: Any = field(repr=False)
    recorded: bool = False
    """True if the value comes from the store, and nothing has run now."""
    not_kept: Exception | None = None
    """Why the value, which is good, could not be kept. If the store failed, the call is unknown next time; if JSON
    cannot express the value, the words that the model read are on record."""


@dataclass(slots=True, eq=False)
class CallClaim:
    """The claim of one call."""

    _store: IdempotencyStore
    _key: str
    _tool: str
    _failed: StoreFailed
    """Is called with the store's failures after the claim."""

    async def make(self, fingerprint: str) -> Recorded | None:
        """Claims the key for the call; returns the record of its end if it has run before.

        Raises:
            ToolNotStarted: the key is another call's, or the store refused or failed.
            CallStillRunning: the call runs elsewhere.
            ToolOutcomeUnknown: the call was begun before, and its end is not known.
        """
        try:
            claim = await self._store.claim(self._key, fingerprint)
        except ToolNotStarted:
            raise
        except Exception as error:  # a store of the user's, a full disk, a locked file
            ours = isinstance(error, LocalProtocolError)  # such as a store that is closed
            why = str(error) if ours else type(error).__name__
            raise ToolNotStarted(f"not run: the idempotency store failed ({why})") from error
        if isinstance(claim, Recorded):
            return claim
        if isinstance(claim, StillRunning):
            raise CallStillRunning(f"not run again: the call runs already (process {claim.pid} on {claim.host})")
        if not isinstance(claim, Claimed):
            raise ToolOutcomeUnknown("not run again: the call was begun before, and how that ended is not known")
        try:
            await checkpoint_if_cancelled()
        except BaseException:  # cancelled while the claim was being made: nothing has run, and nothing will
            await self.release()
            raise
        return None

    async def release(self) -> None:
        """Gives the claim back, since the call did not begin."""
        try:
            await self._store.release(self._key)
        except Exception as error:  # a store of the user's, a full disk
            self._failed("release", error)

    async def abandon(self) -> None:
        """Notes that nobody runs the call any more, and that its end is not known."""
        try:
            await self._store.abandon(self._key)
        except Exception as error:
            self._failed("abandon", error)

    async def fail(self, error: ToolError) -> None:
        """Puts the call's failure on record."""
        await self._keep(to_json({"error": encode_error(self._tool, error)}))

    async def complete(self, value: Any) -> Exception | None:
        """Puts the call's value on record; returns the error if the value could not be kept.

        Raises:
            ToolError: JSON cannot express the value. This error is then on record, as the call's failure.
        """
        try:
            data, unsaid = encode_result(value), None
        except ToolError as error:  # it has run, and there is no way to keep its value
            if not isinstance(value, ToolResult):
                await self.fail(error)
                raise
            data, unsaid = _without_value(value), error
        return await self._keep(data) or unsaid

    async def _keep(self, data: bytes) -> Exception | None:
        try:
            await self._store.complete(self._key, data)
        except Exception as error:  # a store of the user's, a full disk
            self._failed("complete", error)
            return error
        return None


async def run_once(
    store: IdempotencyStore,
    executor: Executor,
    call: Invocation,
    emit: Emit = lambda report: None,
    *,
    seconds: float = math.inf,
    store_failed: StoreFailed = lambda work, error: None,
) -> CallValue:
    """Runs a call on an executor, unless it has run before.

    Args:
        store: where claims and results are kept.
        executor: runs the call, unless the store has a record of it.
        call: its `key` is claimed, for its tool and arguments.
        emit: takes the tool's reports.
        seconds: how long the call may run once it has begun.
        store_failed: is called with the store's failures after the claim, which change nothing else.

    Raises:
        ToolOutcomeUnknown: the call was begun, before or now, and its end is not known.
        ToolNotStarted: the call has not run: the key is another call's, or the store or the executor refused.
        ToolError: the call has failed, now or before.
    """
    claim = CallClaim(store, call.key, call.tool, store_failed)
    refused: Exception | None = None
    found: Recorded | None = None
    begun = False

    async def begin() -> float:
        nonlocal refused, found, begun
        try:
            found = await claim.make(call_fingerprint(call.tool, call.arguments))
            if found is not None:
                raise BeginRefused("not run: the call has run before")
        except Exception as error:
            refused = error
            raise
        begun = True
        return seconds

    try:
        value = await executor.run(call, begin, emit)
    except BaseException as error:
        if not begun:
            if found is not None:
                return CallValue(value=recorded_value(call.tool, found), recorded=True)
            if refused is not None and isinstance(error, Exception):
                raise refused from None
            raise
        told = _after_begin(error)
        if isinstance(told, ToolError) and not isinstance(told, (ToolOutcomeUnknown, ToolTimeout)):
            await claim.fail(told)
        else:
            await claim.abandon()
        if told is error:
            raise
        raise told from error
    return CallValue(value=value, not_kept=await claim.complete(value))


def _after_begin(error: BaseException) -> BaseException:
    """Returns the meaning of an error that came after the call had begun, too late to claim that it has not."""
    if isinstance(error, ToolNotStarted):
        return ToolOutcomeUnknown(f"the executor raised {type(error).__name__} after the call had begun")
    return error


def recorded_value(tool: str, claim: Recorded) -> Any:
    """Returns the value on record.

    Raises:
        ToolError: the failure on record.
        ToolOutcomeUnknown: the record cannot be read.
    """
    if claim.result is None:
        return _TOO_LARGE
    try:
        said = from_json(claim.result)
        known = decode_error(said["error"]) if "error" in said else decode_result(claim.result)
    except Exception as error:  # a user's own store, or a record that another version wrote
        text = f"not run again: the call of {tool} has run before, and its record cannot be read"
        raise ToolOutcomeUnknown(text) from error
    if isinstance(known, ToolError):
        raise known
    return known


def _without_value(result: ToolResult) -> bytes:
    """Returns the model's part of a result that contains Python objects for the program."""
    for left in (replace(result, value=None, display=None), replace(result, value=None, display=None, native={})):
        try:
            return encode_result(left)
        except ToolError:
            continue
    return encode_result(ToolResult(blocks=[_NOT_KEPT], is_error=result.is_error))
