"""Keeps calls from running twice on several machines, by a store in Redis (extra ``redis``).

A call is a hash under `prefix` and its key, and each operation is one script on it, so it happens as a whole or not at
all. Leases are counted by the server's clock. A claim never expires: only calls on record do. An operation may be sent
twice if its answer was lost: each claim has an id, by which the repetition is recognised, and each result a digest.

A server that does not persist (``appendonly yes``), persists once per second, or fails over forgets calls, which would
run again; so the script of each claim looks for three signs:

- A server that drops keys when its memory is full is refused: by ``allkeys-*`` it drops any, by ``volatile-*`` those
  with a time to live, which calls on record have. Looking less often would miss a policy that is changed meanwhile, and
  a server that takes over behind a proxy.
- The hash named by the prefix alone (a call's name is longer, since its key is not empty) holds the *epoch*, a random
  name that the first claim under the prefix makes. A server without it, or with another, does not have the calls.
- The same hash counts claims. A server that counts fewer than at this store's last claim has gone back: it was restored
  from a copy, or a replica that lacked the last writes took its place.

`RedisStore.confirm_server` adds the old epoch to the hash, and puts the count of claims forward to the server's clock,
beyond all earlier counts: all stores of the epoch go on.

With `replicas` or `fsync` a claim counts only when it is acknowledged. ``WAIT`` concerns the writes of its connection,
after a reconnect none; so a script that writes to the claim is sent with it, and again with it.
https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
https://redis.io/docs/latest/develop/reference/eviction/
https://redis.io/docs/latest/commands/wait/
https://redis.io/docs/latest/commands/waitaof/
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from hashlib import sha256
from typing import Any

from ..errors import LocalProtocolError, ToolNotStarted
from ..ground import missing
from ..limits import checked_bound
from .holders import Holder, checked_fingerprint, not_claimed
from .store import Claim, Claimed, EndUnknown, Recorded, StillRunning
from .store_sqlite import StoreJob, ThreadedStore, checked_seconds

try:
    from redis import Redis
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError as ConnectionLost
    from redis.exceptions import RedisError
    from redis.exceptions import TimeoutError as NoAnswer
    from redis.retry import Retry
except ImportError as error:  # pragma: no cover - it is installed where this is measured
    raise ImportError(missing("the client of Redis", "redis")) from error

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
# Begins the scripts that must not meet a server which has lost, or will lose, what it was given.
_SAFE = r"""
local epoch, least, fresh = unpack(ARGV)
local memory = redis.pcall('INFO', 'memory')
if type(memory) == 'string' then
    local bound, policy = memory:match('\nmaxmemory:(%d+)'), memory:match('\nmaxmemory_policy:([%w-]+)')
    if bound and bound ~= '0' and policy and policy ~= 'noeviction' then return {'drops', policy} end
end
local current, claims = unpack(redis.call('HMGET', KEYS[2], 'epoch', 'claims'))
claims = tonumber(claims or 0)
local is_known = epoch == current or redis.call('HEXISTS', KEYS[2], 'confirmed ' .. epoch) == 1
if epoch ~= '' and (not is_known or claims < tonumber(least)) then return {'lacks', claims, current} end
if not current then
    current = fresh
    redis.call('HSET', KEYS[2], 'epoch', fresh)
end
"""
_CLAIM = (
    _NOW
    + _SAFE
    + """
local fingerprint, claim, lease, host, pid, boot, start = unpack(ARGV, 4)
local known = redis.call('HMGET', KEYS[1], 'state', 'fingerprint', 'claim', 'at', 'lease_until', 'host', 'pid', 'boot',
    'start', 'result')
if not known[1] then
    redis.call('HSET', KEYS[1], 'state', 'claimed', 'fingerprint', fingerprint, 'claim', claim, 'at', now,
        'lease_until', now + lease, 'host', host, 'pid', pid, 'boot', boot, 'start', start)
    claims = redis.call('HINCRBY', KEYS[2], 'claims', 1)
elseif known[3] ~= claim then
    known[5] = tonumber(known[5]) > now and 1 or 0
    return {'known', current, known}
end
return {'claimed', current, claims}
"""
)
_DECIDE = (
    _SAFE
    + """
local keep, record = unpack(ARGV, 4)
local first = redis.call('GET', KEYS[1])
if record and (not first or first == record) then
    redis.call('SET', KEYS[1], record)
    if keep ~= '' then redis.call('PEXPIRE', KEYS[1], keep) end
    if not first then claims = redis.call('HINCRBY', KEYS[2], 'claims', 1) end
    first = record
end
return {'decided', current, claims, first}
"""
)  # The same record is written again, so that its acknowledgement can be waited for.
_CONFIRM = """
local epoch, least, fresh = unpack(ARGV)
local current, claims = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'claims'))
if not current then
    current = epoch ~= '' and epoch or fresh
    redis.call('HSET', KEYS[1], 'epoch', current)
elseif epoch ~= '' and epoch ~= current then
    redis.call('HSET', KEYS[1], 'confirmed ' .. epoch, 1)
end
local time = redis.call('TIME')
claims = math.max(tonumber(claims or 0), tonumber(least), time[1] * 1000000 + time[2])
redis.call('HSET', KEYS[1], 'claims', string.format('%.0f', claims))
return {current, claims}
"""  # A microsecond is less than a claim takes, so the clock is ahead of each count that any store remembers.
_COMPLETE = """
local claim, once, keep, result = unpack(ARGV)
local known = redis.call('HMGET', KEYS[1], 'state', 'claim', 'completed_by')
if (known[1] ~= 'claimed' or known[2] ~= claim) and known[3] ~= once then return 0 end
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
_RENEW = _IF_CLAIMED + _NOW + "redis.call('HSET', KEYS[1], 'lease_until', now + ARGV[2]) return 1"

_SHARE = 0.8  # of the time that is left, for acknowledgements: the rest is for giving the claim back


class RedisStore(ThreadedStore):
    """A `DecidingStore` on a Redis server. Nothing is sent before the first call.

        with RedisStore("rediss://:secret@redis.example:6380/0") as store:
            ...

    Args:
        server: its URL, or a `redis.Redis` of yours: with a ``socket_timeout``, not decoding, closed by you. The URL
            appears in no message.
        prefix: begins the names of all keys. Programs that share it share their calls.
        keep_completed: for how many seconds a call is kept on record; then it would run again. None is for ever. A
            decision is kept as long: longer than a state may wait for it.
        max_result_bytes: how large a kept result may be; see `MemoryStore`.
        timeout: for how many seconds an operation waits for the server.
        lease: for how many seconds a claim is alive if its process stands still or has lost the server.
        replicas: how many replicas must have a claim before its call runs, and a result before it counts as kept.
        fsync: whether the disks of the server, and of that many replicas, must have both (Redis 7.2 or later, with
            ``appendonly yes``).
        epoch: the epoch that the server must have: a name of your choice, begun by `confirm_server`. Without it, a
            store takes the epoch of the server that it meets first, so it cannot notice an earlier loss.

    Raises:
        ValueError: the URL cannot be read, the client decodes, or a number is none.
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
        replicas: int = 0,
        fsync: bool = False,
        epoch: str | None = None,
    ) -> None:
        keep = "" if keep_completed is None else str(_ms(checked_seconds("keep_completed", keep_completed)))
        self._prefix, self._keep = prefix, keep
        self._max_result_bytes = checked_bound("max_result_bytes", max_result_bytes)
        self._owned = isinstance(server, str)
        self._client: Any = _client(server, checked_seconds("timeout", timeout))
        scripts = (_CLAIM, _DECIDE, _CONFIRM, _COMPLETE, _RELEASE, _RENEW)
        self._scripts = {text: self._client.register_script(text) for text in scripts}
        if replicas != 0:
            checked_bound("replicas", replicas)
        self._replicas, self._fsync, self._waits = replicas, fsync, bool(replicas or fsync)
        if epoch is not None and not (isinstance(epoch, str) and epoch):
            raise ValueError("expected an epoch's name, a text that is not empty, or None")
        self._pin, self._epoch, self._claims = epoch, epoch or "", 0
        super().__init__(timeout, lease)

    async def confirm_server(self) -> str:
        """Lets claims go on at a server that lacks calls or the epoch of this store; returns the epoch.

        It is for a person, who has found out how the lost calls ended, since those would run again; and for setting up
        a server whose stores name their `epoch`. It holds for all stores with the same epoch. A program that called it
        at each start would have no protection.
        """
        return await self._ask(self._confirm)

    # -- in the thread --

    def _run(self, script: str, key: str, *values: str | bytes | int) -> Any:
        return self._answer(self._scripts[script], keys=self._keys(key), args=values)

    def _keys(self, key: str) -> list[str]:
        return [self._prefix + key, self._prefix]

    def _answer(self, send: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            with self.gate:
                return send(*arguments, **named)
        except NoAnswer as error:
            raise TimeoutError(self._busy()) from error

    def _run_acknowledged(self, script: str, key: str, *values: str | bytes | int, job: StoreJob) -> Any:
        """Returns the answer when the disk and the replicas have acknowledged the write; raises a `TimeoutError` if
        they have not in time, though the server has it."""
        wait = ("WAITAOF", 1, self._replicas) if self._fsync else ("WAIT", self._replicas)
        with self._client.pipeline(transaction=False) as both:
            both.execute_command("EVAL", script, 2, *self._keys(key), *values)
            both.execute_command(*wait, _ms(_SHARE * max(0.0, job.until - time.monotonic())))
            answer, copies = self._answer(both.execute, raise_on_error=False)
        if isinstance(answer, RedisError):
            raise answer
        if isinstance(copies, RedisError):
            needs = "WAITAOF (7.2 or later) and appendonly yes" if self._fsync else "WAIT"
            raise LocalProtocolError(f"expected a Redis server with {needs}, got: {copies}") from copies
        disk, others = copies if self._fsync else (1, copies)
        if disk < 1 or others < self._replicas:
            where = f"fsync={self._fsync} and replicas={self._replicas}"
            text = f"expected the call to be acknowledged by {where} within timeout={self._patience:g} s"
            raise TimeoutError(f"{text}, got {others} replicas" + (", not the server's disk" if disk < 1 else ""))
        return answer

    def _claim(self, key: str, fingerprint: str, claim_id: str, job: StoreJob) -> Claim:
        if time.monotonic() >= job.until:  # it waited for others that the server has not answered
            raise TimeoutError(self._busy())
        claim = (fingerprint, claim_id, _ms(self._lease), *astuple(self._holder))
        try:
            what, *found = self._run(_CLAIM, key, self._epoch, self._claims, _random(), *claim)
            if what == b"claimed" and self._waits:  # not in one, since answers from the record need no acknowledgement
                self._acknowledge(key, claim_id, job)
        except (RedisError, TimeoutError, LocalProtocolError):
            # The claim may have been made. If this is lost, too, the claim is never renewed, and its end is unknown.
            with suppress(RedisError, TimeoutError):
                self._run(_RELEASE, key, claim_id)
            raise
        self._check_answer(what, found)
        if what == b"known":
            return _found(key, fingerprint, found[1])
        self._claims = found[1]
        return Claimed()

    def _check_answer(self, what: bytes, found: list[Any]) -> None:
        if what == b"drops":
            text = f"expected a Redis server with maxmemory-policy noeviction, got {found[0].decode()}"
            raise LocalProtocolError(f"{text}: when its memory is full it forgets calls, which would run again")
        if what == b"lacks":
            raise self._lost(*found)
        self._epoch = self._pin or found[0].decode()

    def _decide(self, key: str, record: bytes | None, job: StoreJob) -> bytes | None:
        values = (self._epoch, self._claims, _random(), self._keep, *(() if record is None else (record,)))
        waits = self._waits and record is not None
        run = partial(self._run_acknowledged, job=job) if waits else self._run
        what, *found = run(_DECIDE, key, *values)
        self._check_answer(what, found)
        self._claims = max(self._claims, found[1])
        first: bytes | None = found[2]
        return first

    def _acknowledge(self, key: str, claim_id: str, job: StoreJob) -> None:
        if not self._run_acknowledged(_RENEW, key, claim_id, _ms(self._lease), job=job):
            raise TimeoutError("another server has taken over, without the claim")

    def _lost(self, claims: int, epoch: bytes | None = None) -> ToolNotStarted:
        got = "none" if epoch is None else f"{epoch.decode()!r} and claim {claims}"
        return ToolNotStarted(
            f"not run: the Redis server lacks calls, which would run again: expected under {self._prefix!r} the epoch "
            f"{self._epoch!r} and claim {self._claims}, got {got}. It is new, or was emptied, restarted "
            "without its data or set back, or a replica without them took its place. A person has to find out how the "
            f"lost calls ended, and then to confirm the server: RedisStore(..., epoch={self._epoch!r}).confirm_server()"
        )

    def _confirm(self, job: StoreJob) -> str:
        epoch, self._claims = self._run(_CONFIRM, "", self._epoch, self._claims, _random())
        self._epoch = self._pin or epoch.decode()
        return self._epoch

    def _complete(self, key: str, claim_id: str | None, result: bytes, job: StoreJob) -> None:
        kept = (result,) if len(result) <= self._max_result_bytes else ()
        claim = self._id(key, claim_id)
        once = sha256(b"%b %b" % (claim.encode() if isinstance(claim, str) else claim, result)).hexdigest()
        run = partial(self._run_acknowledged, job=job) if self._waits else self._run
        if not run(_COMPLETE, key, claim, once, self._keep, *kept):
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


def _random() -> str:
    return os.urandom(8).hex()


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
