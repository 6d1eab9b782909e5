"""Keeps calls from running twice on several machines, by a store in Redis. ``pip install llm-streamtools[redis]``

A call is a hash under `prefix` and its key, and each operation is one script on it, so it happens as a whole or not at
all. Leases are counted by the server's clock. A claim never expires: only calls on record do. An operation may be sent
twice if its answer was lost: each claim has an id, by which the repetition is recognised.

The guarantee depends on the server. One that does not persist (``appendonly yes``) forgets all calls when it is started
again, and one that persists once per second forgets those of the last second; a failover forgets those that were not
yet replicated. Forgotten calls would run again. A server that drops keys when its memory is full is refused: by
``allkeys-*`` it drops any, by ``volatile-*`` those with a time to live, which calls on record have. Each claim
looks, since looking once, or once per connection, would miss a policy that is changed meanwhile, and a server that
takes over behind a proxy.
https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
https://redis.io/docs/latest/develop/reference/eviction/
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple
from typing import Any

from ..errors import LocalProtocolError
from ..limits import checked_bound
from .store import (
    Claim,
    Claimed,
    EndUnknown,
    Holder,
    Recorded,
    StillRunning,
    checked_fingerprint,
    not_claimed,
)
from .store_sqlite import StoreJob, ThreadedStore, checked_seconds

try:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError as ConnectionLost
    from redis.exceptions import RedisError
    from redis.exceptions import TimeoutError as NoAnswer
    from redis.retry import Retry
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError('the client of Redis is not installed: pip install "llm-streamtools[redis]"') from error

__all__ = ["RedisStore"]

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_CLAIM = (
    _NOW
    + r"""
local fingerprint, claim, lease, host, pid, boot, start = unpack(ARGV)
local memory = redis.pcall('INFO', 'memory')
if type(memory) == 'string' then
    local bound, policy = memory:match('\nmaxmemory:(%d+)'), memory:match('\nmaxmemory_policy:([%w-]+)')
    if bound and bound ~= '0' and policy and policy ~= 'noeviction' then return {'drops', policy} end
end
local known = redis.call('HMGET', KEYS[1], 'state', 'fingerprint', 'claim', 'at', 'lease_until', 'host', 'pid', 'boot',
    'start', 'result')
if not known[1] then
    redis.call('HSET', KEYS[1], 'state', 'claimed', 'fingerprint', fingerprint, 'claim', claim, 'at', now,
        'lease_until', now + lease, 'host', host, 'pid', pid, 'boot', boot, 'start', start)
elseif known[3] ~= claim then
    known[5] = tonumber(known[5]) > now and 1 or 0
    return known
end
return false
"""
)
_COMPLETE = """
local claim, once, keep, result = unpack(ARGV)
local known = redis.call('HMGET', KEYS[1], 'state', 'claim', 'completed_by')
if known[1] ~= 'claimed' or known[2] ~= claim then return known[3] == once and 1 or 0 end
redis.call('HSET', KEYS[1], 'state', 'completed', 'completed_by', once)
if result then redis.call('HSET', KEYS[1], 'result', result) end
if keep ~= '' then redis.call('PEXPIRE', KEYS[1], keep) end
return 1
"""
_IF_CLAIMED = """
local known = redis.call('HMGET', KEYS[1], 'state', 'claim')
if known[1] ~= 'claimed' or known[2] ~= ARGV[1] then return 0 end
"""
_RELEASE = _IF_CLAIMED + "return redis.call('DEL', KEYS[1])"
_RENEW = _IF_CLAIMED + _NOW + "return redis.call('HSET', KEYS[1], 'lease_until', now + ARGV[2])"


class RedisStore(ThreadedStore):
    """An `IdempotencyStore` on a Redis server. Nothing is sent before the first call.

        with RedisStore("rediss://:secret@redis.example:6380/0") as store:
            ...

    Args:
        server: its URL, or a `redis.Redis` of yours: with a ``socket_timeout``, not decoding, closed by you. The URL
            appears in no message.
        prefix: begins the names of all keys. Programs that share it share their calls.
        keep_completed: for how many seconds a call is kept on record; then it would run again. None is for ever.
        max_result_bytes: how large a kept result may be; see `MemoryStore`.
        timeout: for how many seconds an operation waits for the server.
        lease: for how many seconds a claim is alive if its process stands still or has lost the server.

    Raises:
        ValueError: the URL cannot be read, or the client decodes.
    """

    def __init__(
        self,
        server: str | Redis,
        *,
        prefix: str = "streamtools:",
        keep_completed: float | None = 30 * 86400.0,
        max_result_bytes: int = 1 << 20,
        timeout: float = 5.0,
        lease: float = 30.0,
    ) -> None:
        keep = "" if keep_completed is None else str(_ms(checked_seconds("keep_completed", keep_completed)))
        self._prefix, self._keep = prefix, keep
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._owned = isinstance(server, str)
        self._client: Any = _client(server, checked_seconds("timeout", timeout))
        self._scripts = {text: self._client.register_script(text) for text in (_CLAIM, _COMPLETE, _RELEASE, _RENEW)}
        super().__init__(timeout, lease)

    # -- in the thread --

    def _run(self, script: str, key: str, *values: str | bytes | int) -> Any:
        return self._answer(self._scripts[script], keys=[self._prefix + key], args=values)

    def _answer(self, send: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            with self.gate:
                return send(*arguments, **named)
        except NoAnswer as error:
            raise TimeoutError(self._busy()) from error

    def _claim(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim:
        if time.monotonic() >= job.until:  # it waited for others that the server has not answered
            raise TimeoutError(self._busy())
        try:
            known = self._run(_CLAIM, key, fingerprint, claim_id, _ms(self._lease), *astuple(self._holder))
        except (RedisError, TimeoutError):
            # The claim may have been made. If this is lost, too, the claim is never renewed, and its end is unknown.
            with suppress(RedisError, TimeoutError):
                self._run(_RELEASE, key, claim_id)
            raise
        if known is not None and known[0] == b"drops":
            text = f"expected a Redis server with maxmemory-policy noeviction, got {known[1].decode()}"
            raise LocalProtocolError(f"{text}: when its memory is full it forgets calls, which would run again")
        return Claimed() if known is None else _found(key, fingerprint, known)

    def _complete(self, key: str, claim_id: str | None, result: bytes, job: StoreJob) -> None:
        kept = (result,) if len(result) <= self._max_result_bytes else ()
        if not self._run(_COMPLETE, key, self._id(key, claim_id), os.urandom(8).hex(), self._keep, *kept):
            raise not_claimed(key)

    def _release(self, key: str, claim_id: str | None, job: StoreJob) -> None:
        self._run(_RELEASE, key, self._id(key, claim_id))

    def _renew(self, claims: Mapping[str, str | None], lease: float | None, job: StoreJob) -> None:
        for key, claim_id in claims.items():
            self._run(_RENEW, key, self._id(key, claim_id), 0 if lease is None else _ms(lease))

    def _id(self, key: str, claim_id: str | None) -> str | bytes:
        """Returns the id of the claim that is meant: an operation that is sent twice must not meet the next claim."""
        return claim_id or self._answer(self._client.hget, self._prefix + key, "claim") or b""

    def _disconnect(self) -> None:
        with self.gate:
            if self._owned:
                self._client.close()

    def _busy(self) -> str:
        return f"Redis has given no answer within timeout={self._patience:g} s"


def _client(server: str | Redis, timeout: float) -> Redis:
    if isinstance(server, Redis):
        if server.get_encoder().decode_responses:
            raise ValueError("the Redis client decodes what it reads (decode_responses), and results are bytes")
        return server
    if not isinstance(server, str):
        raise TypeError(
            f"a RedisStore needs a URL or a redis.Redis, not {type(server).__module__}.{type(server).__name__}"
        )
    retry = Retry(NoBackoff(), 1, (ConnectionLost,))  # a connection that was idle may have gone
    try:
        return Redis.from_url(server, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)
    except ValueError:  # the error's text may quote a part of a password
        raise ValueError(
            "the URL of the Redis server cannot be read: redis://[user:password@]host[:port][/db]"
        ) from None


def _found(key: str, fingerprint: str, known: list[Any]) -> Claim:
    state, of, _, at, alive, host, pid, boot, start, result = known
    checked_fingerprint(key, fingerprint, of.decode())
    if state == b"completed":
        return Recorded(result)
    holder, claimed_at = Holder(host.decode(), int(pid), boot.decode(), start.decode()), int(at) / 1000
    if not alive or holder.is_gone():
        return EndUnknown(claimed_at)
    return StillRunning(claimed_at, holder.host, holder.pid)


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
