"""Bodies that clients send to conversations: who is asked before they are read, and what they cost everybody else."""

from __future__ import annotations

import json
from pathlib import Path
from threading import get_ident
from time import thread_time
from typing import Any

import anyio
import pytest
from chat_client import Page
from profiles import every
from test_chat_app import Program, said

from streamtools.errors import BadRequest
from streamtools.web import PageRequest
from streamtools.web.app import ChatApp
from streamtools.web.bodies import apart
from streamtools.web.ui_requests import read_ui_request

pytestmark = pytest.mark.anyio
_MESSAGE = {"id": "m1", "role": "user", "content": "you", "parts": [{"type": "text", "text": "you"}]}
_BODIES: dict[str, dict[str, Any]] = {
    "/": {"id": "k", "messages": [_MESSAGE]},
    "/k/events": {"id": "k", "messages": [_MESSAGE]},
    "/ag-ui": {"threadId": "k", "runId": "r", "messages": [_MESSAGE]},
}
_NAMES = {"/": "id", "/ag-ui": "threadId"}


def _body(path: str, *, first: str = "", last: str = "", named_last: bool = False) -> bytes:
    """The body of a request, with other members in front of all of its own and behind them."""
    body = dict(_BODIES[path])
    if named_last and path in _NAMES:
        body[_NAMES[path]] = body.pop(_NAMES[path])
    return f"{{{first}{json.dumps(body, separators=(',', ':'))[1:-1]}{last}}}".encode()


def _app(program: Program, seen: list[PageRequest], *, allowed: bool) -> ChatApp:
    def may(request: PageRequest) -> bool:
        seen.append(request)
        return allowed

    return program.chats.app(may=may)


_ODD = '"x": {"id": "no", "threadId": "no", "metadata": {"chat": "no"}, "t": "\\"id\\": \\\\", "n": [[{"chat": 1}]]},'
_UNREADABLE = ("", ', "y": NaN', ', "y": "\\ud800"', ', "y": [1,,2]', ', "y": ' + "9" * 5_000)


@every("path", _BODIES)
async def test_who_may_is_asked_with_the_conversation_before_anything_is_done(tmp_path: Path, path: str) -> None:
    program = Program(tmp_path / f"{len(path)}.db")
    for first, named_last in (("", False), (_ODD, True), (" " * 90_000 + _ODD, True)):
        for unreadable in _UNREADABLE:
            for allowed in (False, True):
                seen = list[PageRequest]()
                body = _body(path, first=first, last=unreadable, named_last=named_last)
                answer = await Page(_app(program, seen, allowed=allowed)).ask("POST", path, body)
                assert [(one.chat_id, one.act) for one in seen] in ([("k", "run")], [] if unreadable else None)
                assert answer.status == (403 if seen and not allowed else 400 if unreadable else 200), answer.body
    assert len(program.asked) == 1, "the same request again begins nothing"


async def test_no_spelling_of_its_name_hides_a_conversation_from_the_question_who_may(tmp_path: Path) -> None:
    for path, hidden in (
        ("/", {"\\u0069d": "k"}),
        ("/", {"id": "a", "\\u0069d": "k"}),
        ("/ag-ui", {"thread\\u0049d": "k"}),
    ):
        program, seen = Program(tmp_path / "chats.db"), list[PageRequest]()
        body = {name: one for name, one in _BODIES[path].items() if name != _NAMES[path]} | hidden
        raw = json.dumps(body).replace("\\\\", "\\").encode()
        answer = await Page(_app(program, seen, allowed=False)).ask("POST", path, raw)
        assert (answer.status, program.asked) == (403, []), path
        assert [one.chat_id for one in seen] == ["k"], "the last one of that name counts"
    for id in ('"quoted\\', "é", "a/b", "x" * 200):  # as clients write them
        for escapes in (False, True):
            program, seen = Program(tmp_path / "ids.db"), list[PageRequest]()
            raw = json.dumps({"messages": [_MESSAGE], "id": id}, ensure_ascii=escapes).encode()
            await Page(_app(program, seen, allowed=True)).ask("POST", "/", raw)
            assert [one.chat_id for one in seen] == [id]


async def test_a_chat_of_2000_messages_holds_nobody_up_and_larger_bodies_are_read_in_another_thread() -> None:
    chat = [{"id": f"m{at}", "role": "user", "parts": [{"type": "text", "text": "x" * 100}]} for at in range(2_000)]
    body = json.dumps({"id": "k", "messages": chat}).encode()
    took = []
    for _ in range(10):
        began = thread_time()
        assert read_ui_request(body).message is not None
        took.append(thread_time() - began)
    assert min(took) < 0.010, "5 ms, and as much again for a slow machine"
    began = thread_time()
    with pytest.raises(BadRequest, match="max_values"):
        read_ui_request(b"[" * 200_001 + b'"' * (8_000_000))
    assert thread_time() - began < 0.150, "30 ms: no object is made of each quote"
    assert await apart(lambda body: get_ident(), b" " * 1_000) == get_ident()
    assert await apart(lambda body: get_ident(), body) != get_ident()


async def test_a_body_with_too_many_values_or_levels_is_refused_before_anything_is_parsed(tmp_path: Path) -> None:
    for path in ("/", "/k/events"):
        for last, status, limit in (
            (f',"x":[{",".join(["1"] * 250_000)}]', 413, "max_values=200000"),
            ("".join(f',"k{at}":1' for at in range(250_000)), 413, "max_values=200000"),
            (',"x":' + "[" * 300 + "]" * 300, 400, "max_depth=200"),
            (f',"x":"{"x" * (8 << 20)}"', 413, "max_bytes=8388608"),
        ):
            seen = list[PageRequest]()
            program = Program(tmp_path / "chats.db")
            answer = await Page(_app(program, seen, allowed=False)).ask("POST", path, _body(path, last=last))
            is_addressed = path not in _NAMES
            assert (answer.status, len(seen)) == ((403, 1) if is_addressed else (status, 0)), path
            answer = await Page(_app(program, seen, allowed=True)).ask("POST", path, _body(path, last=last))
            assert (answer.status, limit in answer.json["error"]["message"]) == (status, True), answer.body
            assert program.asked == []


async def test_a_body_that_does_not_end_is_answered_in_its_time(tmp_path: Path) -> None:
    program = Program(tmp_path / "chats.db")
    app = program.chats.app(may=lambda request: True, receive_timeout=0.01)
    for path in (*_BODIES, "/k/stop"):
        sent: list[Any] = []
        pieces = iter([b'{"id": ', b'"k"'])

        async def receive(pieces: Any = pieces) -> Any:
            piece = next(pieces, None)
            if piece is None:
                await anyio.sleep_forever()
            return {"type": "http.request", "body": piece, "more_body": True}

        async def send(message: Any, sent: list[Any] = sent) -> None:
            sent.append(message)

        with anyio.fail_after(10):
            await app({"type": "http", "method": "POST", "path": path, "headers": []}, receive, send)
        headers = dict(sent[0]["headers"])
        assert (sent[0]["status"], headers[b"connection"]) == (408, b"close")
        error = json.loads(sent[1]["body"])["error"]
        assert (error["code"], "receive_timeout=0.01 s" in error["message"]) == ("timed_out", True)
    for wrong in (0, -1, True, "1"):
        with pytest.raises((TypeError, ValueError)):
            program.chats.app(may=lambda request: True, receive_timeout=wrong)  # type: ignore[arg-type]


async def test_nothing_that_is_answered_may_be_taken_for_another_type(tmp_path: Path) -> None:
    page = Program(tmp_path / "chats.db").page()
    for method, path, body in (
        ("POST", "/", said("you")),
        ("POST", "/", b"{"),
        ("GET", "/k", None),
        ("GET", "/k/stream", None),
        ("GET", "/k/events", None),
        ("GET", "/none/at/all", None),
        ("POST", "/k/stop", {}),
        ("DELETE", "/k", None),
    ):
        answer = await page.ask(method, path, body)
        assert answer.headers["x-content-type-options"] == "nosniff", path
