"""Serves conversations to pages: an ASGI application to be mounted in FastAPI, Starlette or any other framework.

    POST   /                      useChat: begins a run, or continues one, and streams it
    GET    /                      the conversations of the person whom `may` names; ?before=: those that changed earlier
    GET    /{id}                  the latest finished messages; ?before=: earlier ones. The unfinished one is streamed
    GET    /{id}/stream           useChat's `resume`: the run in progress, from its beginning; 204 if there is none
    POST   /{id}/stop             {"run": id?}: stops it
    DELETE /{id}                  removes the conversation
    POST   /{id}/events           ours: the same body as useChat's, answered with events of ours
    GET    /{id}/events           ours, for an EventSource: from `Last-Event-ID` on; 204 when nothing is left
    POST   /ag-ui                 AG-UI's RunAgentInput
    GET    /{id}/ag-ui            the finished messages as AG-UI has them: what an agent begins with

A request that ends is a reader that leaves: the run goes on. Each route asks `may` before it does anything; of a body
it has then read the conversation's id alone, within bounds.

https://asgi.readthedocs.io/en/latest/specs/www.html
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isawaitable
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, TypeAlias, TypeVar
from urllib.parse import parse_qs, unquote

import anyio
from anyio import create_task_group
from pydantic import Field, TypeAdapter

from ..durable.records import checked_seconds
from ..errors import BadRequest, ChatConflict, LocalProtocolError, RunStillRunning
from ..events import AttemptDiscarded, Event
from ..limits import checked_bound
from .bodies import MAX_BYTES, Id, Posted, StopRequest, apart, glimpsed
from .client_input import ClientInput
from .conversations import FILE_ERRORS, fault_of
from .encoding import HEADERS, Encoder, RunEnd, framed, json_bytes
from .held import HeldBack
from .log import Entry, VisitEnd, run_end
from .runs import ChatRuns, Joined
from .watch import ClientStream, GoneError, Receive, Send

T = TypeVar("T")
Act: TypeAlias = Literal["run", "read", "stop", "delete", "list"]
_logger = logging.getLogger("streamtools")
_NO_HEADERS: Mapping[str, str] = {}
_STATUS = {"unknown_message": 404, "expired": 410, "bad_id": 400, "nothing_said": 400}
_MOST_STOP_BYTES = 8192
_RETRY_AFTER_S = "2"  # a file is locked by others for less
_MOST_LISTED = 100  # conversations in one answer
_EVENT_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,18})")
_PLACE = re.compile(r"[0-9]{13}\..{1,256}", re.DOTALL)  # in a list


class _NamedByUI(Posted):
    chat_id: Id | None = Field(None, alias="id")


class _NamedByAGUI(Posted):
    chat_id: Id | None = Field(None, alias="threadId")


_LISTED = ("id", "owner", "began_ms", "changed_ms", "is_open", "words")
_STOP = TypeAdapter(StopRequest)
_NAMES: Mapping[str, TypeAdapter[Any]] = {"id": TypeAdapter(_NamedByUI), "threadId": TypeAdapter(_NamedByAGUI)}


@dataclass(frozen=True, slots=True)
class PageRequest:
    """A request for which `may` is called."""

    chat_id: str
    """The conversation's id, which need not exist; empty for a list."""
    act: Act
    headers: Mapping[str, str] = field(repr=False)
    """The headers by name, in lower case."""
    scope: Mapping[str, Any] = field(repr=False)
    """The ASGI scope of the request, with the additions of middleware (``scope["user"]``)."""


May: TypeAlias = Callable[[PageRequest], "bool | str | Awaitable[bool | str]"]
"""Returns whether a request is allowed: False, True, or the name of the person, which becomes the `by` of decisions. A
list contains the conversations that the named person began."""


class ChatApp:
    """The conversations of `Chats` over HTTP. Make it with `Chats.app`.

    Args:
        chats: the conversations.
        may: is called before each action. Ids of conversations come from clients: check the owner.
        max_bytes: the largest request body.
        heartbeat: seconds of silence after which a comment is sent.
        send_timeout: seconds without progress in sending after which a client counts as gone.
        receive_timeout: seconds for a client to send a request body; then it is answered 408.
        ai_version: the major version of the pages' AI SDK, 6 or 7.
        max_turns: the number of runs whose messages one response contains.

    Raises:
        TypeError: `may` is not a function.
        ValueError: an option is invalid.
    """

    def __init__(
        self,
        chats: ChatRuns,
        *,
        may: May,
        max_bytes: int = MAX_BYTES,
        heartbeat: float = 15.0,
        send_timeout: float = 60.0,
        receive_timeout: float = 60.0,
        ai_version: Literal[6, 7] = 7,
        max_turns: int = 100,
    ) -> None:
        if not callable(may):
            raise TypeError(f"may must be a function that allows or refuses a request, not {type(may).__name__}")
        if ai_version not in (6, 7):
            raise ValueError(f"ai_version={ai_version!r}: must be 6 or 7")
        self._chats = chats
        self._may = may
        self._max_bytes = checked_bound("max_bytes", max_bytes)
        self._heartbeat_s, self._send_timeout_s = heartbeat, send_timeout
        self._receive_timeout_s = checked_seconds("receive_timeout", receive_timeout)
        self._ai_version: Literal[6, 7] = ai_version
        self._max_turns = checked_bound("max_turns", max_turns)

    def openapi(self, *, prefix: str = "", into: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns an OpenAPI 3.1 document of this application: paths, requests, streams and errors.

        Args:
            prefix: the path where the application is mounted, such as ``/api/chat``.
            into: the document of your program; everything is added to a copy of it, and its own operations stay.

        Raises:
            ValueError: `prefix` is not such a path.
        """
        from .openapi import chat_document  # for the document alone

        return chat_document(prefix, into)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise LocalProtocolError(f"mount the app in FastAPI or Starlette: it answers http, not {scope['type']}")
        request = _Request(self, scope, receive, send)
        try:
            await request.answer()
        except _Refused as refused:
            await request.refuse(refused.status, refused.code, str(refused))
        except BadRequest as error:
            await request.refuse(error.status, "bad_request", str(error))
        except ChatConflict as error:
            await request.refuse(_STATUS.get(error.code, 409), error.code, str(error))
        except RunStillRunning:
            await request.refuse(503, "unavailable", "the conversation is in use elsewhere; try again")
        except FILE_ERRORS as error:
            _logger.exception("a request about a conversation could not be answered")
            if fault_of(error) == "passing":
                await request.refuse(503, "unavailable", "the store is not reachable, busy or full; try again")
            else:
                await request.refuse(500, "internal_error", "the conversation cannot be read")
        except GoneError as gone:
            if gone.fault is not None:
                raise gone.fault from None


class _Refused(Exception):
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


class _Request:
    def __init__(self, app: ChatApp, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        self._app = app
        self._chats = app._chats
        self._scope, self._receive = scope, receive
        self._client = ClientStream(receive, send, app._heartbeat_s, app._send_timeout_s)
        self._has_begun = False
        self._by: str | None = None
        self._chat_id = ""
        self._parts = _path(scope)

    async def answer(self) -> None:
        method, parts = self._scope["method"], self._parts
        match (method, *parts):
            case ("POST",):
                await self._post(self._ui_encoder)
            case ("POST", "ag-ui"):
                await self._ag_ui()
            case ("POST", chat_id, "events"):
                await self._post(self._own_encoder, chat_id)
            case ("POST", chat_id, "stop"):
                await self._stop(chat_id)
            case ("GET",):
                await self._list()
            case ("GET", chat_id, "stream"):
                await self._join(chat_id, self._ui_encoder)
            case ("GET", chat_id, "events"):
                await self._events(chat_id)
            case ("GET", chat_id):
                await self._history(chat_id)
            case ("GET", chat_id, "ag-ui"):
                await self._history(chat_id, of_ag_ui=True)
            case ("DELETE", chat_id):
                await self._check(chat_id, "delete")
                await self._empty(204 if await self._chats.delete(chat_id) else 404)
            case _:
                raise _Refused(404, "not_found", f"there is no {method} {'/'.join(('', *parts))[:200]}")

    async def _check(self, chat_id: str, act: Act) -> None:
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in self._scope["headers"]}
        allowed = self._app._may(PageRequest(chat_id, act, headers, self._scope))
        if isawaitable(allowed):
            allowed = await allowed
        if allowed is not True and not (isinstance(allowed, str) and allowed):
            raise _Refused(403, "forbidden", "this conversation is not open to this request")
        self._by = allowed if isinstance(allowed, str) else None

    # -- routes --

    async def _read(self, chat_id: str | None, name: str, reader: Callable[..., T]) -> T:
        """Reads a body. `may` is asked before about the conversation, which the address names, else the body."""
        if chat_id is not None:
            await self._check(chat_id, "run")
        body, most = await self._body(), self._app._max_bytes
        if chat_id is None:
            named = await apart(partial(glimpsed, _NAMES[name], max_bytes=most), body)
            if (chat_id := named.chat_id) is None:
                raise BadRequest("expected the id of the conversation", path=name)
            await self._check(chat_id, "run")
        self._chat_id = chat_id
        return await apart(partial(reader, max_bytes=most), body)

    async def _taken(self, given: ClientInput) -> Joined:
        if given.chat_id != self._chat_id:
            raise BadRequest("the body names another conversation than the URL", path="id")
        return await self._chats.take(given, by=self._by)

    async def _post(self, encoder: Callable[[Joined], Encoder], chat_id: str | None = None) -> None:
        from .ui_requests import read_ui_request

        joined = await self._taken(await self._read(chat_id, "id", read_ui_request))
        await self._stream(partial(self._write, joined, encoder(joined)))

    async def _ag_ui(self) -> None:
        from .ag_ui import AGUI
        from .ag_ui_requests import read_ag_ui_request

        given = await self._read(None, "threadId", read_ag_ui_request)
        joined = await self._taken(given)
        answered = [one.call_id for one in given.results]
        # What is taken back becomes activities there, which no history has.
        encoder = AGUI(thread_id=given.chat_id, run_id=given.run_id, answered=answered, can_retract=True)
        await self._stream(partial(self._write, joined, encoder))

    async def _join(self, chat_id: str, encoder: Callable[[Joined], Encoder]) -> None:
        await self._check(chat_id, "read")
        await self._show(await self._chats.join(chat_id), encoder)

    async def _show(self, joined: Joined | None, encoder: Callable[[Joined], Encoder]) -> None:
        if joined is None:
            await self._empty(204)
        else:
            await self._stream(partial(self._write, joined, encoder(joined)))

    async def _events(self, chat_id: str) -> None:
        await self._check(chat_id, "read")
        seen = _EVENT_ID.fullmatch(self._header(b"last-event-id"))
        joined = await self._chats.join(chat_id)
        if seen is not None:
            joined = await self._chats.joined(chat_id, int(seen[1]), int(seen[2]))
        await self._show(joined, self._own_encoder)

    async def _stop(self, chat_id: str) -> None:
        await self._check(chat_id, "stop")
        given = glimpsed(_STOP, await self._body(_MOST_STOP_BYTES) or b"{}")
        await self._chats.stop(chat_id, given.run)
        await self._empty(204)

    def _asked(self, name: str) -> str | None:
        given = parse_qs(self._scope.get("query_string", b"").decode("latin-1")).get(name)
        return None if given is None else given[0]

    async def _list(self) -> None:
        await self._check("", "list")
        if self._by is None:
            raise _Refused(403, "forbidden", "only a named person has a list; let `may` return the person's name")
        before, limit = self._asked("before"), self._asked("limit") or "50"
        if before is not None and _PLACE.fullmatch(before) is None:
            raise BadRequest("expected a value from an earlier answer", path="before")
        if not (limit.isdecimal() and limit.isascii() and 0 < int(limit[:4]) <= _MOST_LISTED):
            raise BadRequest("expected a number of conversations", path="limit", limit=f"limit={_MOST_LISTED}")
        chats, more = await self._chats.of(self._by, before=before, limit=int(limit))
        listed = [{name: getattr(one, name) for name in _LISTED} for one in chats]
        await self._json(200, {"chats": listed, **({} if more is None else {"before": more})})

    async def _history(self, chat_id: str, *, of_ag_ui: bool = False) -> None:
        from . import finished_messages as finished  # those that stream alone do not need them

        await self._check(chat_id, "read")
        asked = self._asked("before")
        turns = await self._chats.history(chat_id, before=asked, limit=self._app._max_turns)
        if turns is None:
            raise _Refused(404, "not_found", "this conversation does not exist")
        messages: list[Any] = []
        added = {"before": turns[0].run_id} if turns and turns[0].before is not None else {}
        for turn, answer in zip(turns, await self._chats.answers(turns), strict=True):
            message = self._chats.message(turn)
            if not of_ag_ui:
                messages.append(finished.ui_user_message(message))
                if answer is not None:
                    messages.append(finished.ui_message(answer, turn.run_id, version=self._app._ai_version))
                continue
            messages.append(finished.ag_ui_user_message(message))
            # No message has an interrupt: the whole answer is read once more, since nothing else is posted.
            if asked is None and turn is turns[-1] and (turn.is_open or answer is None):
                added["unfinished"] = turn.run_id
            elif answer is not None:
                messages += finished.ag_ui_messages(answer)
        if asked is None and turns[-1].outcome == "suspended" and (reason := await self._chats.refusal(turns[-1])):
            added["refuses"] = reason
        await self._json(200, {"id": chat_id, "messages": messages, **added})

    # -- protocols --

    def _ui_encoder(self, joined: Joined) -> Encoder:
        from .ui_messages import UIMessages

        return UIMessages(version=self._app._ai_version, message_id=joined.turn.run_id)

    def _own_encoder(self, joined: Joined) -> Encoder:
        from .own import OwnEvents

        return OwnEvents()

    # -- the stream --

    async def _stream(self, write: Callable[[], Awaitable[None]]) -> None:
        gone: GoneError | None = None
        async with create_task_group() as tasks:
            tasks.start_soon(self._client.until_gone, tasks.cancel_scope)
            tasks.start_soon(self._client.keep)
            try:  # not raised here: the group would wrap it
                await write()
            except GoneError as error:
                gone = error
            tasks.cancel_scope.cancel()
        if gone is not None:
            raise gone

    async def _write(self, joined: Joined, encoder: Encoder) -> None:
        named = {**HEADERS, **encoder.headers}
        await self._client.start(200, [(name.encode(), value.encode("latin-1")) for name, value in named.items()])
        self._has_begun = True
        writer, reader, is_over = _Writer(encoder, joined), self._chats.reader(joined), False
        if joined.after < 0:
            await self._client.write(writer.begun())

        async def next_body() -> bytes | None:
            nonlocal is_over
            if is_over:
                return None
            try:
                entries = writer.tellable(await reader.next())
            except FILE_ERRORS:
                _logger.exception("a run could not be read any further")
                # Behind what the client has seen: one that comes back reads on from there.
                is_over = True
                return writer.body([VisitEnd(max(reader.seq, joined.after), "error", "unavailable")])
            if entries[-1].seq <= joined.after:
                writer.pass_over(entries)
                return b""
            is_over = isinstance(entries[-1], VisitEnd)
            return writer.body(entries)

        await self._client.pump(next_body)
        await self._client.write(b"", more=False)

    # -- ASGI --

    async def _body(self, most: int | None = None) -> bytes:
        body, most, seconds = bytearray(), most or self._app._max_bytes, self._app._receive_timeout_s
        with anyio.move_on_after(seconds):
            while True:
                message = await self._receive()
                if message["type"] == "http.disconnect":
                    raise GoneError
                body += message.get("body", b"")
                if len(body) > most:
                    raise BadRequest("the body is too large", limit=f"max_bytes={most}", status=413)
                if not message.get("more_body"):
                    return bytes(body)
        raise _Refused(408, "timed_out", f"the body did not arrive within receive_timeout={seconds:g} s")

    def _header(self, name: bytes) -> str:
        return next((value.decode("latin-1") for key, value in self._scope["headers"] if key.lower() == name), "")

    async def refuse(self, status: int, code: str, message: str) -> None:
        if not self._has_begun:
            headers = {"retry-after": _RETRY_AFTER_S} if status == 503 else dict[str, str]()
            if status == 408 and self._scope.get("http_version", "1.1") in ("1.0", "1.1"):
                headers["connection"] = "close"  # the rest of the body would be read as the next request
            await self._json(status, {"error": {"code": code, "message": message}}, headers)

    async def _empty(self, status: int) -> None:
        await self._respond(status, b"", ())

    async def _json(self, status: int, value: Any, added: Mapping[str, str] = _NO_HEADERS) -> None:
        headers = {"content-type": "application/json", **added}
        fields = ((name.encode(), text.encode("latin-1")) for name, text in headers.items())
        await self._respond(status, json_bytes(value), fields)

    async def _respond(self, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]]) -> None:
        fields = [*headers, (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff")]
        await self._client.start(status, fields)
        await self._client.write(body, more=False)


class _Writer:
    def __init__(self, encoder: Encoder, joined: Joined) -> None:
        self._encoder = encoder
        self._number = joined.turn.run_id.rpartition("/")[2]
        self._held = None if encoder.can_retract else HeldBack()
        self._has_begun = False

    def begun(self) -> bytes:
        self._has_begun = True
        return b"".join(map(framed, self._encoder.begin()))

    def tellable(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Returns the entries up to where a process that died is taken back, which not every client can be told: its
        response ends there as interrupted, and the next one has the run as it is."""
        if self._held is not None:
            for at, entry in enumerate(entries):
                if isinstance(entry, AttemptDiscarded) and entry.cause == "crash":
                    return [*entries[:at], VisitEnd(entry.seq, "interrupted")]
        return entries

    def pass_over(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if not isinstance(entry, VisitEnd):
                for event in self.events(entry):
                    for _ in self._encoder(event):
                        continue

    def body(self, entries: Sequence[Entry]) -> bytes:
        """Returns the bytes of the entries; the end of a visit counts only where nothing follows."""
        pieces = [] if self._has_begun else [self.begun()]
        kept = (one for one in entries if not isinstance(one, VisitEnd) or one is entries[-1])
        for seq, same in groupby(kept, attrgetter("seq")):
            frames = [one for entry in same for event in self.events(entry) for one in self._encoder(event)]
            for place, one in enumerate(frames, 1):  # one that comes back after the first of several gets all of them
                pieces.append(framed(one, id=f"{self._number}.{seq}" if place == len(frames) else None))
        return b"".join(pieces)

    def events(self, entry: Entry) -> Iterable[Event | RunEnd]:
        if isinstance(entry, VisitEnd):
            return [*(() if self._held is None else self._held.finish()), run_end(entry)]
        return (entry,) if self._held is None else self._held.feed(entry)


def _path(scope: Mapping[str, Any]) -> list[str]:
    path, root = scope["path"], scope.get("root_path", "")
    raw = scope.get("raw_path") or b""
    if b"%2f" in raw.lower():  # a part that has a slash
        parts, mounted = [unquote(part.decode("latin-1")) for part in raw.split(b"/") if part], root.split("/")
        above = [part for part in mounted if part]
        return parts[len(above) :] if parts[: len(above)] == above else parts
    rest = path[len(root) :] if root and path.startswith(root) else path
    return [part for part in rest.split("/") if part]
