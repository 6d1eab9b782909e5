"""Keeps calls from running twice on several machines, by a store in Redis (extra ``redis``).

A record is a hash under `prefix` and its key, and a commit is one script, so it happens as a whole or not at all.
Leases are counted by the server's clock. A claim never expires: only completed calls do. A sorted set has all keys, for
scans; another has those that expire, so that each commit removes some expired ones from both. All names begin with the
prefix: on a Redis Cluster, which is not supported, only a hash tag in it would keep them on one server.

A server that does not persist (``appendonly yes``), persists once per second, or fails over forgets calls, which would
run again. So the script of each claim looks for three signs:

- A server that drops keys when its memory is full is refused: ``allkeys-*`` drops any key, ``volatile-*`` those with a
  time to live, which completed calls have. Checking less often would miss a change of the policy, and a server that
  takes over behind a proxy.
- The hash named by the prefix alone holds the *epoch*, a random
  name that the first claim under the prefix makes. A server without it, or with another, does not have the calls.
- The same hash counts claims (the field in which older versions of this library count has no number, so that they
  refuse the server). A server whose count is lower than at this store's last claim has gone back: it was restored from
  a copy, or replaced by a replica that lacked the last writes.

`RedisStore.confirm_server` adds the old epoch to the hash, and moves the count of claims forward to the server's clock,
beyond all earlier counts: all stores of the epoch can continue.

With `replicas` or `fsync` a claim counts only once it is acknowledged. ``WAIT`` covers the writes of its connection,
which are none after a reconnect; so a script that writes to the claim is sent with each ``WAIT``.
https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
https://redis.io/docs/latest/develop/reference/eviction/
https://redis.io/docs/latest/commands/wait/
https://redis.io/docs/latest/commands/waitaof/
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..errors import LocalProtocolError, ToolNotStarted
from ..ground import missing
from ..limits import checked_bound
from .record_store import RecordStore
from .records import (
    Check,
    Conflict,
    Done,
    Put,
    Record,
    Row,
    Step,
    Touch,
    checked_seconds,
    key_of,
    told,
    words_of,
    written_key,
)
from .threaded import LISTEN_S, StoreJob, ThreadedRecords

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
# Begins the script of a commit. A claim must not be made on a server that has lost, or will lose, what it was given.
_SAFE = r"""
local epoch, least, fresh, is_claim = unpack(ARGV, 1, 4)
local current, claims = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'count'))
local is_older = current and not claims
claims = tonumber(claims or 0)
if is_claim == '1' then
    local memory = redis.pcall('INFO', 'memory')
    if type(memory) == 'string' then
        local bound, policy = memory:match('\nmaxmemory:(%d+)'), memory:match('\nmaxmemory_policy:([%w-]+)')
        if bound and bound ~= '0' and policy and policy ~= 'noeviction' then return {'drops', policy} end
    end
    if is_older then return {'older'} end
    local is_known = epoch == current or redis.call('HEXISTS', KEYS[1], 'confirmed ' .. epoch) == 1
    if epoch ~= '' and (not is_known or claims < tonumber(least)) then return {'lacks', claims, current} end
    if not current then
        current = fresh
        redis.call('HSET', KEYS[1], 'epoch', fresh, 'count', 0, 'claims', 'are records')
    end
end
"""
# Each step has its key and its `words_of`, with milliseconds. All are read before anything is written.
_COMMIT = (
    _NOW
    + _SAFE
    + r"""
local told, is_again = unpack(ARGV, 5, 6)
local index, drops, steps, is_made = KEYS[1] .. '\255keys', KEYS[1] .. '\255drops', {}, false
for at = 7, #ARGV, 8 do
    local step = {place = ARGV[at], key = KEYS[1] .. ARGV[at]}
    step.does, step.expects, step.number, step.rev = unpack(ARGV, at + 1, at + 4)
    step.value, step.stale_in, step.drop_in = unpack(ARGV, at + 5, at + 7)
    step.there, step.stale_at = unpack(redis.call('HMGET', step.key, 'rev', 'stale_at'))
    step.is_stale = step.stale_at and tonumber(step.stale_at) <= now
    is_made = is_made or (step.does == 'Put' and step.there == step.rev)
    steps[#steps + 1] = step
end
if is_made then return {'done', current, claims} end
for at, step in ipairs(steps) do
    local expects, there = step.expects, step.there
    local is_met = expects == 'any' or (expects == 'absent' and not there) or (expects == 'there' and there)
        or (step.number == there and (expects == 'number' or (expects == 'stale') == step.is_stale))
    if not is_met then
        return {'conflict', at - 1, there, redis.call('HGET', step.key, 'value'), step.is_stale and 1 or 0, current}
    end
end
for _, step in ipairs(steps) do
    local key, drops_anew = step.key, step.does == 'Put'
    if step.does == 'Put' then
        redis.call('DEL', key)
        redis.call('HSET', key, 'rev', step.rev, 'value', step.value)
        redis.call('ZADD', index, 0, step.place)
        if step.expects == 'absent' then claims = redis.call('HINCRBY', KEYS[1], 'count', 1) end
    elseif step.does == 'DeletePrefix' then
        local least, most = '[' .. step.place, '(' .. step.place .. '\255'
        for _, one in ipairs(redis.call('ZRANGEBYLEX', index, least, most)) do redis.call('DEL', KEYS[1] .. one) end
        redis.call('ZREMRANGEBYLEX', index, least, most)
    elseif step.does == 'Expire' then
        drops_anew = step.there and not step.stale_at
    end
    if drops_anew and step.drop_in == '' then
        redis.call('PERSIST', key)
    elseif drops_anew then
        redis.call('PEXPIRE', key, step.drop_in)
        redis.call('ZADD', drops, now + step.drop_in + 1000, step.place)
    end
    if step.stale_in ~= '' then redis.call('HSET', key, 'stale_at', string.format('%.0f', now + step.stale_in)) end
end
if is_again == '1' then redis.call('HSET', KEYS[1], 'claims', 'are records') end
if told ~= '' then redis.call('PUBLISH', KEYS[1] .. 'changed', told) end
for _, place in ipairs(redis.call('ZRANGEBYSCORE', drops, '-inf', now, 'LIMIT', 0, 2 * #steps)) do
    if redis.call('EXISTS', KEYS[1] .. place) == 0 then redis.call('ZREM', index, place) end
    redis.call('ZREM', drops, place)
end
return {'done', current, claims}
"""
)
_SCAN = (
    _NOW
    + r"""
local found, least, most, limit = {}, unpack(ARGV)
repeat
    local page = redis.call('ZRANGEBYLEX', KEYS[1] .. '\255keys', least, most, 'LIMIT', 0, limit - #found)
    for _, member in ipairs(page) do
        local rev, value, stale_at = unpack(redis.call('HMGET', KEYS[1] .. member, 'rev', 'value', 'stale_at'))
        if rev then found[#found + 1] = {member, value, rev, stale_at and tonumber(stale_at) <= now} end
        least = '(' .. member
    end
until #page == 0 or #found == tonumber(limit)
return found
"""
)
_CONFIRM = """
local epoch, least, fresh = unpack(ARGV)
local current, claims = unpack(redis.call('HMGET', KEYS[1], 'epoch', 'count'))
if not current then
    current = epoch ~= '' and epoch or fresh
    redis.call('HSET', KEYS[1], 'epoch', current)
elseif epoch ~= '' and epoch ~= current then
    redis.call('HSET', KEYS[1], 'confirmed ' .. epoch, 1)
end
local time = redis.call('TIME')
claims = math.max(tonumber(claims or 0), tonumber(least), time[1] * 1000000 + time[2])
redis.call('HSET', KEYS[1], 'count', string.format('%.0f', claims), 'claims', 'are records')
return {current, claims}
"""  # A claim takes more than a microsecond, so the clock is ahead of each count that any store remembers.
_SHARE = 0.8  # of the remaining time, for acknowledgements: the rest is for releasing the claim


class RedisRecords(ThreadedRecords):
    """`Records` on a Redis server; the arguments are those of `RedisStore`."""

    idle_s = 30.0

    def __init__(
        self,
        server: str | Redis,
        *,
        prefix: str = "streamtools:",
        timeout: float = 5.0,
        replicas: int = 0,
        fsync: bool = False,
        epoch: str | None = None,
    ) -> None:
        self._prefix = prefix.encode()
        self._owned = isinstance(server, str)
        self._client: Any = _client(server, checked_seconds("timeout", timeout))
        self._scripts = {text: self._client.register_script(text) for text in (_COMMIT, _SCAN, _CONFIRM)}
        if replicas != 0:
            checked_bound("replicas", replicas)
        self._replicas, self._fsync, self._waits = replicas, fsync, bool(replicas or fsync)
        if epoch is not None and not (isinstance(epoch, str) and epoch):
            raise ValueError("expected an epoch's name, a text that is not empty, or None")
        self._pin, self._epoch, self._claims = epoch, epoch or "", 0
        super().__init__(timeout)

    async def confirm_server(self) -> str:
        """See `RedisStore.confirm_server`."""
        return await self._ask(self._confirm)

    # -- in the thread --

    def _get(self, keys: Sequence[bytes], job: StoreJob) -> list[Row]:
        with self._client.pipeline(transaction=False) as all_of_them:
            all_of_them.time()
            for key in keys:
                all_of_them.hmget(self._prefix + key, "value", "rev", "stale_at")
            (seconds, micros), *found = self._answer(all_of_them.execute)
        now = seconds * 1000 + micros // 1000
        rows = zip(keys, found, strict=True)
        return [(key, value, rev, at and int(at) <= now) for key, (value, rev, at) in rows if rev is not None]

    def _scan(self, least: bytes, most: bytes, behind: bytes, limit: int, job: StoreJob) -> list[Row]:
        values = b"(" + behind if behind else b"[" + least, b"(" + most, limit
        found: list[Row] = self._answer(self._scripts[_SCAN], keys=[self._prefix], args=values)
        return found

    def _make(self, steps: Sequence[Step], job: StoreJob) -> Done | Conflict:
        end = self._committed(steps, None)
        puts = [Check(step.key, step.rev) for step in steps if isinstance(step, Put)]
        is_to_wait = isinstance(end, Done) and self._waits and puts  # an answer from the record needs no wait
        if is_to_wait and isinstance(self._committed(puts, job), Conflict):
            raise TimeoutError("another server has taken over, without the claim")
        return end

    def _touch(self, touches: Sequence[Touch], job: StoreJob) -> None:
        for touch in touches:
            self._committed([touch], None)

    def _committed(self, steps: Sequence[Step], waits: StoreJob | None) -> Done | Conflict:
        is_claim = any(isinstance(step, Put) and step.expect == "absent" for step in steps)
        values = [self._epoch, self._claims, _random(), int(is_claim), told(steps), int(waits is not None)]
        for step in steps:
            *words, stale_in, drop_in = words_of(step)
            stale = "" if stale_in is None else round(stale_in * 1000)
            values += written_key(key_of(step)), *words, stale, "" if drop_in is None else _ms(drop_in)
        if waits is None:
            what, *found = self._answer(self._scripts[_COMMIT], keys=[self._prefix], args=values)
        else:
            what, *found = self._acknowledged(values, waits)
        if what == b"drops":
            text = f"expected a Redis server with maxmemory-policy noeviction, got {found[0].decode()}"
            raise LocalProtocolError(f"{text}: when its memory is full it forgets calls, which would run again")
        if what == b"older":
            text = (
                "not run: the Redis server has calls of an older version of this library, which would run again: use "
            )
            raise ToolNotStarted(f"{text}another prefix, or let them end, and then call confirm_server()")
        if what == b"lacks":
            raise self._lost(*found)
        current = found[0] if what == b"done" else found[4]
        if is_claim:
            self._epoch = self._pin or current.decode()
        if what == b"done":
            self._claims = max(self._claims, found[1]) if is_claim else self._claims
            return Done()
        at, rev, value, is_stale, _ = found
        key = key_of(steps[at])
        return Conflict(key, None if rev is None else Record(key, value or b"", int(rev), bool(is_stale)))

    def _acknowledged(self, values: list[Any], job: StoreJob) -> Any:
        """Returns the answer once the disk and the replicas have acknowledged the write; raises a `TimeoutError` if
        they do not in time, although the server has it."""
        wait = ("WAITAOF", 1, self._replicas) if self._fsync else ("WAIT", self._replicas)
        with self._client.pipeline(transaction=False) as both:
            both.execute_command("EVAL", _COMMIT, 1, self._prefix, *values)
            both.execute_command(*wait, _ms(_SHARE * max(0.0, job.until - time.monotonic())))
            answer, copies = self._answer(both.execute, raise_on_error=False)
        if isinstance(answer, RedisError):
            raise _refused(answer)
        if isinstance(copies, RedisError):
            needs = "WAITAOF (7.2 or later) and appendonly yes" if self._fsync else "WAIT"
            raise LocalProtocolError(f"expected a Redis server with {needs}, got: {copies}") from copies
        disk, others = copies if self._fsync else (1, copies)
        if disk < 1 or others < self._replicas:
            where = f"fsync={self._fsync} and replicas={self._replicas}"
            text = f"expected the call to be acknowledged by {where} within timeout={self._patience:g} s"
            raise TimeoutError(f"{text}, got {others} replicas" + (", not the server's disk" if disk < 1 else ""))
        return answer

    def _answer(self, send: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        try:
            with self.gate:
                return send(*arguments, **named)
        except NoAnswer as error:
            raise TimeoutError(self._busy()) from error
        except RedisError as error:
            raise _refused(error) from error

    def _lost(self, claims: int, epoch: bytes | None = None) -> ToolNotStarted:
        got = "none" if epoch is None else f"{epoch.decode()!r} and claim {claims}"
        return ToolNotStarted(
            f"not run: the Redis server lost calls, which would run again: expected under {self._prefix.decode()!r} "
            f"the epoch {self._epoch!r} and claim {self._claims}, got {got}. The server is new, was emptied, restarted "
            "without its data or restored, or was replaced by a replica. Find out how the lost calls ended, and then "
            f"confirm the server: RedisStore(..., epoch={self._epoch!r}).confirm_server()"
        )

    def _confirm(self, job: StoreJob) -> str:
        values = (self._epoch, self._claims, _random())
        epoch, self._claims = self._answer(self._scripts[_CONFIRM], keys=[self._prefix], args=values)
        self._epoch = self._pin or epoch.decode()
        return self._epoch

    def _disconnect(self) -> None:
        with self.gate:
            if self._owned:
                self._client.close()

    def _busy(self) -> str:
        return f"Redis did not answer within timeout={self._patience:g} s"

    def _listen(self, job: StoreJob) -> None:
        self.listen_by(partial(_heard, self._client, self._prefix + b"changed"))


def _refused(error: RedisError) -> OSError:
    kind = ConnectionError if isinstance(error, ConnectionLost) else OSError
    return kind(f"Redis refused an operation: {str(error).partition(', with args')[0]}")  # the arguments are values


@contextmanager
def _heard(client: Any, channel: bytes) -> Iterator[Callable[[float], Iterable[str]]]:
    with client.pubsub(ignore_subscribe_messages=True) as heard:
        heard.subscribe(channel)
        heard.get_message(timeout=LISTEN_S)  # it is subscribed

        def hear(seconds: float) -> Iterator[str]:
            if (message := heard.get_message(timeout=seconds)) is not None:
                yield message["data"].decode()

        yield hear


class RedisStore(RecordStore):
    """A `DecidingStore` on a Redis server. Nothing is sent before the first call.

        with RedisStore("rediss://:secret@redis.example:6380/0") as store:
            ...

    Args:
        server: its URL, or your own `redis.Redis` with a ``socket_timeout`` and without decoding, which you close. The
            URL appears in no message.
        prefix: the prefix of all keys. Programs that share it share their calls.
        keep_completed: seconds for which completed calls and decisions are kept. None: for ever. After that a call
            would run again, so keep them longer than a suspended run may wait.
        max_result_bytes: the largest result to keep; see `MemoryStore`.
        timeout: seconds for which an operation waits for the server.
        lease: seconds for which a claim is alive if its process stands still or has lost the server.
        replicas: the number of replicas that must have a claim before its call runs, and a result before it counts as
            stored.
        fsync: whether the disks of the server, and of that many replicas, must have both (Redis 7.2 or later, with
            ``appendonly yes``).
        epoch: the epoch that the server must have: a name of your choice, set up by `confirm_server`. By default, a
            store takes the epoch of the server that it meets first, so it cannot notice an earlier loss.

    Raises:
        ValueError: the URL is invalid, the client decodes, or a number is invalid.
    """

    records: RedisRecords

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
        keep = None if keep_completed is None else checked_seconds("keep_completed", keep_completed)
        records = RedisRecords(server, prefix=prefix, timeout=timeout, replicas=replicas, fsync=fsync, epoch=epoch)
        super().__init__(records, lease=lease, keep=keep, max_result_bytes=max_result_bytes)
        records.name = type(self).__name__

    async def confirm_server(self) -> str:
        """Allows claims on a server that has lost calls or lacks the epoch of this store; returns the epoch.

        Call it once you have found out how the lost calls ended, since they would run again; and to set up a server
        whose stores name their `epoch`. It applies to all stores with the same epoch. Do not call it at each start,
        which would remove the protection.
        """
        return await self.records.confirm_server()


def _client(server: str | Redis, timeout: float) -> Redis:
    if isinstance(server, Redis):
        if server.get_encoder().decode_responses:
            raise ValueError(
                "the Redis client decodes responses, but results are bytes; pass a client without decode_responses"
            )
        return server
    if not isinstance(server, str):
        raise TypeError(
            f"a RedisStore needs a URL or a redis.Redis, not {type(server).__module__}.{type(server).__name__}"
        )
    retry = Retry(NoBackoff(), 1, (ConnectionLost,))  # an idle connection may be gone
    try:
        return Redis.from_url(server, socket_timeout=timeout, socket_connect_timeout=timeout, retry=retry)
    except ValueError:  # the error's text may quote a part of a password
        raise ValueError(
            "the URL of the Redis server cannot be read: redis://[user:password@]host[:port][/db]"
        ) from None


def _random() -> str:
    return os.urandom(8).hex()


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
