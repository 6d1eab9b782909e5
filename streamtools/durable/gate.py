"""Keeps calls from running twice by their claims in a store: the gate of ``store=``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from weakref import WeakKeyDictionary

from ..dispatch.results import AsRead
from ..errors import ModelRetry, ToolError, ToolFailed, contained
from ..ground import type_name
from ..seams import CallEnd, Entered, GateView
from .claims import CallClaim, recorded_value
from .operations import Operation
from .store import Claim, IdempotencyStore, Recorded


class StoreGate:
    """Lets a call in that it has claimed. A call of a tool with ``idempotency_key=`` is claimed under that.

    Args:
        store: has the claims, and the ends of calls.
        identity: names the answer that calls at hand stand in.
        claim: makes a claim in the store, in place of the store's own method.
    """

    def __init__(
        self,
        store: IdempotencyStore,
        identity: str | None = None,
        *,
        claim: Callable[[str, str], Awaitable[Claim]] | None = None,
    ) -> None:
        self._store = store
        self._identity = identity
        self._claim = claim
        self._operations: WeakKeyDictionary[GateView, Operation] = WeakKeyDictionary()

    def claiming(self, make: Callable[[IdempotencyStore, str, str], Awaitable[Claim]]) -> StoreGate:
        return StoreGate(self._store, self._identity, claim=partial(make, self._store))

    def key(self, call: GateView, /) -> str:
        operation = self._operation(call)
        return call.key if operation is None else operation.key

    async def look(self, call: GateView, /) -> CallEnd | None:
        """Claims the call, and gives it back at once: a store cannot be asked in another way."""
        operation, claim, fingerprint = self._found(call)
        found = await claim.make(fingerprint, call.seconds)
        if found is None:
            await claim.release()
        if found is None or (operation is not None and not operation.has_made(found.result)):
            return None
        return _end(call, operation, found)

    async def enter(self, call: GateView, /) -> Entered | CallEnd:
        operation, claim, fingerprint = self._found(call)
        found = await claim.make(fingerprint, call.seconds, partial(call.waits_for, "elsewhere"))
        return _Claimed(claim, operation) if found is None else _end(call, operation, found)

    def _found(self, call: GateView) -> tuple[Operation | None, CallClaim, str]:
        operation = self._operation(call)
        if operation is None:
            return None, CallClaim(self._store, call.key, call.tool_name, claim=self._claim), call.fingerprint
        claim = CallClaim(self._store, operation.key, call.tool_name, operation.noted, claim=self._claim)
        return operation, claim, operation.fingerprint

    def _operation(self, call: GateView) -> Operation | None:
        if call.operation is None:
            return None
        known = self._operations.get(call)
        if known is not None:
            return known
        conversation = call.conversation_id or ""
        # Calls at hand that have a name have no run that goes on: their conversation is what goes on.
        run = call.run_id if self._identity is None else conversation or self._identity
        scope_id = {"run": run, "conversation": conversation, "forever": ""}[call.scope]
        try:
            operation = self._operations[call] = Operation.of(call, scope_id)
        except BaseException as error:
            text = f"not run: the idempotency key of {call.tool_name} raised {type_name(error)}"
            raise ToolFailed(text) from contained(error)
        return operation


class _Claimed:
    def __init__(self, claim: CallClaim, operation: Operation | None) -> None:
        self._claim = claim
        self._operation = operation

    async def kept(self, end: CallEnd, /) -> None:
        # A call that is wanted with other arguments is another call, but may be the same operation.
        if self._operation is not None and isinstance(end.error, ModelRetry):
            await self.free()
        elif end.error is not None:
            _told(await self._claim.fail(end.error))
        else:
            value = end.value if end.content is None else AsRead(end.value, end.content)
            _told(await self._claim.complete(value))

    async def free(self) -> None:
        _told(await self._claim.release())

    async def lost(self) -> None:
        _told(await self._claim.abandon())


def _told(failure: Exception | None) -> None:
    if failure is not None:
        raise failure


def _end(call: GateView, operation: Operation | None, found: Recorded) -> CallEnd:
    by_another = operation is not None and not operation.has_made(found.result)
    try:
        value = recorded_value(call.tool_name, found)
    except ToolError as error:
        return CallEnd(error=error, by_another=by_another)
    if isinstance(value, AsRead):
        return CallEnd(value=value.value, content=value.content, by_another=by_another)
    return CallEnd(value=value, by_another=by_another)
