"""SECURITY.md's ten promises, each tried once where a user would notice that it is broken."""

from __future__ import annotations

import json
import logging
import os
import re
import stat
from collections.abc import Awaitable, Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from profiles import every
from streams import chat

from streamtools import Limits, Observation, Suspended, Trajectory, pipeline, resume, run_calls, tool
from streamtools.dispatch import Decision, SqliteStore
from streamtools.errors import LimitExceeded, SchemaError, StreamError, SuspendedError
from streamtools.tools import Tool
from streamtools.web import Chats

pytestmark = pytest.mark.anyio
PROMISES: dict[str, Callable[[Path, pytest.LogCaptureFixture], Awaitable[None]]] = {}
SECRET = "sk-very-secret"
KEY = b"0123456789abcdef"


def promise(words: str) -> Callable[[Any], Any]:
    return lambda check: PROMISES.setdefault(words, check)


def payer(paid: list[str], **options: Any) -> Tool[..., Any]:
    async def pay(to: str) -> str:
        """Pay somebody."""
        paid.append(to)
        return "paid"

    return tool(pay, **options)


@promise("Nothing from outside becomes code.")
async def no_code(folder: Path, log: pytest.LogCaptureFixture) -> None:
    for reference in ("https://schemas.invalid/a.json", "file:///etc/passwd", "other.json#/a"):
        with pytest.raises(SchemaError):
            Tool.from_schema(promise, {"type": "object", "properties": {"words": {"$ref": reference}}}, description="")
    made = f"__import__('pathlib').Path({str(folder / 'made')!r}).touch()"
    async with pipeline(chat(calls=[("c", made, json.dumps({made: made}))]), tools=[payer([])]) as events:
        _ = [event async for event in events]
    assert not (folder / "made").exists()


@promise("Only registered tools run, and only with complete, valid arguments.")
async def only_complete(folder: Path, log: pytest.LogCaptureFixture) -> None:
    paid: list[str] = []
    for name, arguments, finish in [
        ("steal", '{"to":"Ann"}', "tool_calls"),
        ("pay", '{"to":"Ann', "tool_calls"),
        ("pay", '{"to":["Ann"]}', "tool_calls"),
        ("pay", '{"to":"Ann"}', "length"),
        ("pay", '{"to":"Ann"}', None),
    ]:
        try:
            async with pipeline(chat(calls=[("c", name, arguments)], finish=finish), tools=[payer(paid)]) as events:
                _ = [event async for event in events]
        except StreamError:
            assert finish is None
    assert paid == []


@promise("Every call gets exactly one result.")
async def one_result(folder: Path, log: pytest.LogCaptureFixture) -> None:
    calls = [("a", "pay", '{"to":"Ann"}'), ("b", "steal", "{}"), ("c", "pay", '{"to')]
    for leaves in (False, True):
        async with pipeline(chat(calls=calls), tools=[payer([])]) as events:
            async for event in events:
                if leaves and isinstance(event, Observation):
                    break
        assert [each.call_id for each in events.turn.observations] == ["a", "b", "c"]
        assert [message.get("tool_call_id") for message in events.turn.messages()[1:]] == ["a", "b", "c"]


@promise("Everything is bounded.")
async def bounded(folder: Path, log: pytest.LogCaptureFixture) -> None:
    unset = {field.name for field in fields(Limits) if getattr(Limits(), field.name) is None}
    assert unset == {"first_chunk_timeout", "step_timeout", "run_timeout", "call_budget", "token_budget"}
    with pytest.raises(LimitExceeded):
        await pipeline([b"data: " + b"x" * 5000], limits=Limits(max_event_bytes=1000))


@promise("Content stays where you put it.")
async def no_content(folder: Path, log: pytest.LogCaptureFixture) -> None:
    @tool
    async def look(key: str) -> str:
        """Look something up."""
        raise ValueError(f"no {key}\x1b[2J")

    with log.at_level(logging.DEBUG):
        turn = await run_calls([("a", "look", {"key": SECRET}), ("b", "look", {"key": [SECRET]})], [look])
    told = log.text + repr(turn) + "".join(f"{each!r}{each.error}{each.report()}" for each in turn.observations)
    assert "look" in told
    assert SECRET not in told
    assert "\x1b" not in told


@promise("A decision applies only to the call that was shown.")
async def shown(folder: Path, log: pytest.LogCaptureFixture) -> None:
    paid: list[str] = []
    waits = payer(paid, needs_approval=True)
    with SqliteStore(folder / "shown.db") as store:
        seen = []
        for to in ("Ann", "Bob"):
            run = Trajectory(run_id=to)
            events = run_calls([("same", "pay", {"to": to})], [waits], store=store, trajectory=run)
            await events
            assert events.suspended is not None
            seen.append(events.suspended)
        for_ann = Decision.on(seen[0].calls[0], True)
        with pytest.raises(ValueError, match="not the one that was shown"):
            await resume(seen[1], tools=[waits], store=store, decisions=[for_ann])
        assert paid == []
        await resume(seen[0], tools=[waits], store=store, decisions=[for_ann])
    assert paid == ["Ann"]


@promise("A suspended state cannot be forged.")
async def forged(folder: Path, log: pytest.LogCaptureFixture) -> None:
    events = run_calls([("c", "pay", {"to": "Ann"})], [payer([], needs_approval=True)])
    await events
    text = events.suspended.to_text(KEY, bound_to="ann")
    assert Suspended.from_text(text, KEY, bound_to="ann").calls
    for changed, bound in ((text.replace("Ann", "Eve"), "ann"), (text, "eve"), (text[1:], "ann")):
        with pytest.raises(SuspendedError):
            Suspended.from_text(changed, KEY, bound_to=bound)


@promise("A call that may have run does not run again.")
async def once(folder: Path, log: pytest.LogCaptureFixture) -> None:
    paid: list[str] = []
    for _ in range(2):
        with SqliteStore(folder / "once.db") as store:
            await run_calls([("c", "pay", {"to": "Ann"})], [payer(paid)], store=store, identity="order-7")
    assert paid == ["Ann"]


@promise("Chats ask before they act.")
async def asked(folder: Path, log: pytest.LogCaptureFixture) -> None:
    def run(chat: Any) -> Any:
        raise AssertionError("a run was made")

    acts: list[str] = []
    statuses: list[int] = []
    app = Chats(records=folder / "chats.db", run=run).app(may=lambda request: acts.append(request.act))  # None: nobody
    body = json.dumps({"id": "c", "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "hi"}]}]})

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    async def send(message: Any) -> None:
        statuses.extend([message["status"]] if "status" in message else [])

    for method, path in (("POST", "/"), ("GET", "/c"), ("POST", "/c/stop"), ("DELETE", "/c"), ("GET", "/")):
        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": method, "path": path, "headers": headers, "query_string": b""}
        await app(scope, receive, send)
    assert acts == ["run", "read", "stop", "delete", "list"]
    assert statuses == [403] * 5


@promise("Files can be read only by their owner.")
async def private(folder: Path, log: pytest.LogCaptureFixture) -> None:
    if os.name != "posix":
        return
    before = os.umask(0)
    try:
        with SqliteStore(folder / "calls.db") as store:
            await run_calls([("c", "pay", {"to": "Ann"})], [payer([])], store=store, identity="order-7")
            modes = [stat.S_IMODE(os.stat(f"{folder}/calls.db{suffix}").st_mode) for suffix in ("", "-wal")]
    finally:
        os.umask(before)
    assert modes == [0o600, 0o600]


@every("words", PROMISES)
async def test_each_promise_holds(words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await PROMISES[words](tmp_path, caplog)


def test_the_promises_of_the_page_about_security_are_these() -> None:
    page = (Path(__file__).resolve().parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    assert re.findall(r"^\d+\. \*\*(.*?)\*\*", page, re.MULTILINE) == [*PROMISES]
