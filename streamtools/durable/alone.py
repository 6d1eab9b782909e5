"""Runs any function once for a key, in any framework or worker: `once`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar, get_type_hints

from anyio.from_thread import start_blocking_portal
from pydantic import TypeAdapter

from ..errors import ToolError, ToolNotStarted
from ..ground import type_name
from .claims import CallClaim, recorded_value
from .record_store import RecordStore
from .records import Records
from .store import IdempotencyStore, Recorded

P = ParamSpec("P")
R = TypeVar("R")
_logger = logging.getLogger("streamtools")


def once(
    store: IdempotencyStore | Records,
    *,
    key: Callable[..., str],
    name: str | None = None,
    wait: float = 60.0,
    no_effect: tuple[type[Exception], ...] = (),
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Returns a decorator of functions, async or not, that run once for a key; each later call returns the same answer.

        @once(PostgresStore(url), key=lambda order, **_: f"charge:{order}")
        async def charge(order: str, *, cents: int) -> str:
            return (await bank.charge(order, cents)).receipt

    The key is claimed before the function runs, and its value is stored once it returns. If the same key is running
    elsewhere, the call waits for the result. If the process dies, or the function raises or is cancelled, its effect is
    unknown: every later call raises `ToolOutcomeUnknown`, until a person checks and settles the call
    (`SqliteStore.settle`, or ``streamtools store``).

    Args:
        store: keeps the claims and values; or the `Records` that keep them.
        key: makes the key from the function's arguments: a text of at most 1,024 characters, unique to this call.
        name: the function's name in the store, which stays when you rename it. A key used by another name is refused.
        wait: seconds for which a call waits while the same call is running.
        no_effect: errors of the function that mean that it had no effect, so it may run again. `ToolNotStarted` always
            means that.

    The function must return JSON values: later calls read the result from JSON, as the annotated return type.

    Raises (the decorated function):
        ToolOutcomeUnknown: the call was begun before, and its end is unknown.
        CallStillRunning: the same call is still running after `wait` seconds.
        ToolNotStarted: the function did not run: the key is another function's, or the store failed.
    """
    kept: Any = RecordStore(store) if hasattr(store, "commit") else store  # type: ignore[arg-type]

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        label = name or f"{function.__module__}.{function.__qualname__}"
        is_async = inspect.iscoroutinefunction(function)
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"once: {label} is a generator; pass a function that returns its value")
        if not is_async and hasattr(kept, "renew"):
            raise TypeError(f"once: {label} is not async, but this store needs that to renew its leases; make it async")
        frees = (*no_effect, ToolNotStarted)

        @cache
        def answer() -> TypeAdapter[Any]:  # made before the claim, so that an invalid annotation runs nothing
            return TypeAdapter(get_type_hints(function).get("return", Any))

        def read(found: Recorded) -> Any:
            return answer().validate_python(recorded_value(label, found))

        async def ended(claim: CallClaim, error: BaseException) -> None:
            failure = await (claim.release() if isinstance(error, frees) else claim.abandon())
            _warn(label, failure)

        async def kept_value(claim: CallClaim, value: Any) -> None:
            try:
                _warn(label, await claim.complete(value))
            except ToolError as error:  # it has run, but JSON cannot express its value
                _warn(label, error)

        @wraps(function)
        async def run_async(*args: P.args, **kwargs: P.kwargs) -> Any:
            answer()
            claim = CallClaim(kept, key(*args, **kwargs), label)
            if (found := await claim.make(label, wait)) is not None:
                return read(found)
            try:
                value = await function(*args, **kwargs)  # type: ignore[misc]
            except BaseException as error:
                await ended(claim, error)
                raise
            await kept_value(claim, value)
            return value

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> Any:
            answer()
            claim = CallClaim(kept, key(*args, **kwargs), label)
            with start_blocking_portal() as portal:  # an event loop may run in this thread
                if (found := portal.call(claim.make, label, wait)) is not None:
                    return read(found)
                try:
                    value = function(*args, **kwargs)
                except BaseException as error:
                    portal.call(ended, claim, error)
                    raise
                portal.call(kept_value, claim, value)
            return value

        return run_async if is_async else run  # type: ignore[return-value]

    return decorate


def _warn(label: str, failure: Exception | None) -> None:
    if failure is not None:
        _logger.warning("%s has ended, but its end could not be stored (%s)", label, type_name(failure))
