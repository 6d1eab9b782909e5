"""Defines the contract of every store that keeps calls from running twice, and its answers.

A claim that is never completed stays, even across a restart: this distinguishes a call whose process died in the middle
from one that was never made. A person who has found out how such a call ended settles it with `complete` or `release`.
A claim notes its host and process, and a lease, which the store renews until the claim ends. Once the lease has
expired, or the process is gone, the call's end is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Claimed:
    """The key was free, and the caller has it now: run the call, then `complete` or `release` it."""

    noted: str | None = field(default=None, repr=False)
    """The text that `LeasingStore.note` kept for the call, which was begun before: continue it from there."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The call has already run to its end."""

    result: bytes | None = field(repr=False)
    """The result that was passed to `complete`; None if it was larger than the store keeps."""


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The call is running, in this process or another one: it was begun, and its claim is alive."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970; the same in every answer about the same claim."""
    host: str
    """The name of the machine that runs it."""
    pid: int
    """The process on that machine."""


@dataclass(frozen=True, slots=True)
class EndUnknown:
    """The call was begun before, its claim is no longer alive, and its end is unknown."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970."""


Claim: TypeAlias = Claimed | Recorded | StillRunning | EndUnknown


class IdempotencyStore(Protocol):
    """Keeps claims and results. `MemoryStore` forgets them with the process; `SqliteStore` keeps them for the processes
    of one machine, `RedisStore` for those of several.

    Callers do not shield their wait for a store. If a wait for `claim` is cancelled, the store ensures that the key is
    not claimed; `complete`, `release` and `abandon` finish even if their wait is cancelled.
    """

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """Claims a key for the call with this fingerprint; of several callers at once, one gets `Claimed`.

        Raises:
            ToolNotStarted: the key belongs to another call, or the store is full.
        """
        ...

    async def complete(self, key: str, result: bytes, /) -> None:
        """Keeps the result of a claimed call.

        Raises:
            LocalProtocolError: the key is not claimed, or is completed already.
        """
        ...

    async def release(self, key: str, /) -> None:
        """Releases a claimed key whose call did not run. A key that is not claimed is left unchanged."""
        ...

    async def abandon(self, key: str, /) -> None:
        """Keeps a key claimed although its call no longer runs and its end is unknown. From now on `claim` returns
        `EndUnknown`."""
        ...


class LeasingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` whose claims are alive for a limited time, and that notices when one ends.

    Each method is optional: without `changed`, a caller that waits for a call elsewhere repeats `claim`; without
    `renew`, the store keeps its claims alive by itself; without `note`, a call whose process died is unknown.
    """

    @property
    def lease(self) -> float:
        """The seconds for which a claim is alive unless it is renewed."""
        ...

    async def renew(self, key: str, /) -> None:
        """Renews the lease of a live claim that this store made. Any other claim is left unchanged."""
        ...

    async def changed(self, key: str, seconds: float, /) -> None:
        """Returns when the claim of this key may have ended: at once if it has, and after that many seconds at the
        latest. It may return early."""
        ...

    async def note(self, key: str, text: str, /) -> None:
        """Keeps a text with a claim that this store made. Once the claim is no longer alive, `claim` gives the key out
        again, with the text.

        Raises:
            LocalProtocolError: the key is not claimed.
        """
        ...


class DecidingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` that also keeps decisions. Without `decide`, `resume` accepts no decisions, since claims do
    not record the decision about a call that has not begun."""

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """Stores a record under a key that has none, and returns the first record of the key, this or an earlier one;
        concurrent callers all get the same. With None as `record` it only reads, and returns None if there is none.

        Raises:
            ToolNotStarted: the store refuses, because it may have lost records.
        """
        ...
