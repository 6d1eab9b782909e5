"""Defines the contract of every store that keeps calls from running twice, and what it answers.

A claim that is never completed stays, also across a restart: this distinguishes a call whose process died in the middle
from one that was never made. A person who has found out how such a call ended settles it by `complete` or `release`. A
claim notes its host and process, and a lease, which the store renews until the claim ends; once the lease has run out,
or the process is gone, the call's end is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Claimed:
    """The key was free and is the caller's now: run the call, then `complete` or `release` it."""

    noted: str | None = field(default=None, repr=False)
    """What `LeasingStore.note` has kept of the call, which was begun before: go on by it, and do not begin anew."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The call has run to its end before."""

    result: bytes | None = field(repr=False)
    """The result that `complete` was given; None if it was larger than the store keeps."""


@dataclass(frozen=True, slots=True)
class StillRunning:
    """The call was begun, and its claim is alive: it runs now, in this process or another one."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970; the same in every answer about one claim."""
    host: str
    """The name of the machine that runs it."""
    pid: int
    """The process on that machine."""


@dataclass(frozen=True, slots=True)
class EndUnknown:
    """The call was begun before, its claim is not alive any more, and its end is not known."""

    claimed_at: float
    """When the call was claimed, in seconds since 1970."""


Claim: TypeAlias = Claimed | Recorded | StillRunning | EndUnknown


class IdempotencyStore(Protocol):
    """Keeps claims and results. `MemoryStore` forgets them with the process; `SqliteStore` keeps them for the processes
    of one machine, `RedisStore` for those of several.

    Callers do not shield their wait for a store. If a wait for `claim` is cancelled, the store sees to it that the key
    is not claimed; work that `complete`, `release` and `abandon` have begun goes on to its end although nobody waits
    for it.
    """

    async def claim(self, key: str, fingerprint: str, /) -> Claim:
        """Claims a key for the call with this fingerprint; of several callers at once, one gets `Claimed`.

        Raises:
            ToolNotStarted: the key is that of another call, or the store has no room.
        """
        ...

    async def complete(self, key: str, result: bytes, /) -> None:
        """Keeps the result of a claimed call.

        Raises:
            LocalProtocolError: the key is not claimed, or is completed already.
        """
        ...

    async def release(self, key: str, /) -> None:
        """Gives a claimed key back, since its call has not run. A key that is not claimed is left as it is."""
        ...

    async def abandon(self, key: str, /) -> None:
        """Leaves a key claimed whose call nobody runs any more, and whose end is not known. From now on `claim` returns
        `EndUnknown`."""
        ...


class LeasingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` whose claims are alive for a time, and that notices when one ends.

    Each of these is optional: without `changed`, who waits for a call that runs elsewhere asks `claim` again and again;
    without `renew`, the store keeps its claims alive by itself; without `note`, a call whose process died is unknown.
    """

    @property
    def lease(self) -> float:
        """For how many seconds a claim is alive unless it is renewed."""
        ...

    async def renew(self, key: str, /) -> None:
        """Renews the lease of a claim that was made by this store and goes on. Any other is left as it is."""
        ...

    async def changed(self, key: str, seconds: float, /) -> None:
        """Returns when the claim of this key may have ended: at once if it has, and after so many seconds at the
        latest. It may return early."""
        ...

    async def note(self, key: str, text: str, /) -> None:
        """Keeps a text with a claim that was made by this store. Once the claim is not alive any more, `claim` gives
        the key out again, with the text.

        Raises:
            LocalProtocolError: the key is not claimed.
        """
        ...


class DecidingStore(IdempotencyStore, Protocol):
    """An `IdempotencyStore` that keeps decisions, too. Without `decide`, `resume` takes no decisions: claims alone do
    not say what was decided of a call that has not begun."""

    async def decide(self, key: str, record: bytes | None, /) -> bytes | None:
        """Keeps a record under a key that has none, and returns the first one that was kept there, this one or an
        earlier one; of several callers at once, all get the same. None as `record` keeps nothing: None is returned if
        there is none.

        Raises:
            ToolNotStarted: the store refuses, since it may have lost records.
        """
        ...
