"""Talks to any object with the methods of an MCP session in one way: a ``ClientSession`` of the SDK through its
``send_request``, anything else through ``list_tools`` and ``call_tool``. The ``mcp`` package is never imported first.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeAlias

import anyio
from pydantic import RootModel, TypeAdapter, ValidationError

from .definition import ServerTool, peek

WANTED = "mcp>=1.10"

OnProgress: TypeAlias = Callable[[float, "float | None", "str | None"], Awaitable[None]]
"""Takes the server's progress about one call: the progress, the total, and a message."""

HEADER_MISMATCH = -32020
"""The code of a server that wants arguments repeated in HTTP headers (``x-mcp-header``). Nothing was run. The session
writes these headers, and has not seen the tool's current schema."""
HEADERS_SINCE = "2026-07-28"  # the first version of the protocol in which that is the meaning of the code

MAX_RELIST_PAGES = 100  # pages that are searched for one tool after a `HEADER_MISMATCH`

CANCEL_PATIENCE_S = 2.0  # seconds allowed for notifying the server of a cancelled call


CONNECTION_CLOSED = -32000
"""The SDK's own code for an answer that can never come. Servers use it, too, so the message has to fit as well."""
_LOST_WORDS = ("Connection closed", "SSE stream ")  # the beginnings of the SDK's messages
_LOST = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, ConnectionError)


def is_lost(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):  # as the task groups of a transport raise it
        return all(map(is_lost, error.exceptions))
    code, words = peek(peek(error, "error"), "code"), peek(peek(error, "error"), "message")
    closed = code == CONNECTION_CLOSED and isinstance(words, str) and words.startswith(_LOST_WORDS)
    return closed or isinstance(error, _LOST)


class Unasked(TypeError):
    """Raised for a request that could not be made, because this package and the session are incompatible."""

    def __init__(self, session: Any) -> None:
        try:
            installed = f"mcp {version('mcp')} is installed"
        except PackageNotFoundError:
            installed = "mcp is not installed"
        super().__init__(f"{type(session).__name__} does not accept the request: {installed}, but {WANTED} is needed")


class Peer:
    def __init__(self, session: Any) -> None:
        for method in ("list_tools", "call_tool"):
            if not callable(getattr(session, method, None)):
                raise TypeError(f"{type(session).__name__} is not an MCP session: it has no method {method}()")
        self._session = session
        self._types = _sdk_types(session)
        self.has_tasks = self._types is not None  # they can be asked about, whoever made them
        self._is_sdk2 = hasattr(self._types, "InputRequiredResult")
        self._list_parameters = _arguments_of(session.list_tools)
        self._call_parameters = _arguments_of(session.call_tool)

    @property
    def server_version(self) -> str | None:
        """The server's own version, where the session keeps it (SDK 2)."""
        version = peek(peek(self._session, "server_info"), "version")
        return version if isinstance(version, str) else None

    async def page(self, cursor: str | None) -> Any:
        """Returns one page of ``tools/list``; raises `Unasked` if it cannot be requested, or the session's error."""
        try:
            return await self._listed(cursor)
        except ValidationError:
            if self._types is None:
                raise
        # The SDK refuses a whole page for one tool that breaks the protocol; as plain JSON, only that one is refused.
        params = {} if cursor is None else {"cursor": cursor}
        return await self._send(_Plain(_Unlisted("tools/list"), params))

    async def _listed(self, cursor: str | None) -> Any:
        return await self._ask(partial(self._list, cursor))

    def _list(self, cursor: str | None) -> Awaitable[Any]:
        given: dict[str, Any] = {}
        # The SDK's Client caches lists itself, by its own rules: ours asks the server, and caches by server and caller.
        if "cache_mode" in self._list_parameters:
            given["cache_mode"] = "refresh"
        if cursor is not None:
            given |= self._at(cursor)
        asked: Awaitable[Any] = self._session.list_tools(**given)
        return asked

    def _at(self, cursor: str) -> dict[str, Any]:
        if "params" not in self._list_parameters:
            return {"cursor": cursor}
        from mcp.types import PaginatedRequestParams  # a session that takes `params` wants this class

        return {"params": PaginatedRequestParams(cursor=cursor)}

    @property
    def has_pages(self) -> bool:
        return not self._list_parameters.isdisjoint({"params", "cursor"})

    def runs_as_task(self, tool: ServerTool) -> bool:
        """Returns whether the tool is called as a task of MCP 2025-11-25; since 2026-07-28 the server decides."""
        get = getattr(self._session, "get_server_capabilities", None)  # mcp 1
        has = peek(self._session, "server_capabilities") if get is None else get()
        offered = peek(peek(peek(peek(has, "tasks"), "requests"), "tools"), "call")
        return tool.task_support != "forbidden" and self._types is not None and offered is not None

    async def task(self, does: str, task_id: str, **more: Any) -> Any:
        """Sends ``tasks/get``, ``tasks/result``, ``tasks/update`` or ``tasks/cancel``. Raises like `page`."""
        return await self._send(_OfTask(f"tasks/{does}", {"taskId": task_id, **more}))

    async def _send(self, request: _Plain, on_progress: OnProgress | None = None) -> Any:
        """Sends a request without the SDK's checks of the request and its answer."""
        ask: Any = partial(self._session.send_request, request, progress_callback=on_progress)
        if self._is_sdk2:
            return await ask(_ANY_OBJECT)
        return (await _cancelling(self._session, self._types, ask(_AnyResult))).root

    async def call(
        self,
        name: str,
        arguments: dict[str, Any],
        *,
        as_task: bool = False,
        meta: dict[str, str],
        on_progress: OnProgress,
        given: tuple[dict[str, Any], str | None] | None = None,
    ) -> Any:
        """Sends ``tools/call``; a call that is cancelled here is cancelled on the server, too. `given` is the input
        that the server asked for, with its state. Raises like `page`."""
        if as_task:
            params = {"name": name, "arguments": arguments, "task": {}, "_meta": dict(meta)}
            return await self._send(_Plain(_Unlisted("tools/call"), params), on_progress)
        responses, state = (None, None) if given is None else given
        more = {} if given is None else {"input_responses": responses, "request_state": state}
        # Not by the SDK's own `call_tool`: that would check results with a regular expression engine, which a hostile
        # `pattern` of the server can hold up for hours, and list the tools again to do so.
        if self._types is None:
            offered = {"progress_callback": on_progress, "meta": meta or None, **more}
            taken = {key: value for key, value in offered.items() if key in self._call_parameters}
            return await self._ask(partial(self._session.call_tool, name, arguments, **taken))
        request = partial(self._request, name, arguments, meta, on_progress, more)
        try:
            return await self._ask(request)
        except Exception as error:
            if not self._wants_headers(error):
                raise
        # The session writes the headers by the schema that it saw last, which is none where our list was cached.
        await self._list_until(name)
        return await self._ask(request)

    async def _ask(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Returns the server's answer; raises `Unasked` if the request could not be made."""
        try:
            # In a step of its own: a session's async functions check their arguments when they are called, and send
            # when they are awaited. So this is our mistake, or that of the installed version, not the server's.
            asked = ask()
        except (TypeError, ValidationError) as error:
            raise Unasked(self._session) from error
        try:
            return await asked
        except ValidationError as error:
            # The title names the model that refuses: that of an answer, or of a request, which is ours.
            if not error.title.endswith(("Request", "Params")):
                raise
            raise Unasked(self._session) from error

    def _wants_headers(self, error: Exception) -> bool:
        version = peek(self._session, "protocol_version")
        # Before MCP 2026-07-28 the same number may be an error of the tool's own, after it ran: no second call then.
        modern = isinstance(version, str) and version >= HEADERS_SINCE
        return modern and peek(peek(error, "error"), "code") == HEADER_MISMATCH

    async def _list_until(self, name: str) -> None:
        """Lets the session see the tool's current schema, which it has not seen if the list was cached."""
        # Page by page until the tool was seen: the list may be long, and its cursors may lead in a circle.
        cursor, seen = None, set[str]()
        while True:
            page = await self._listed(cursor)
            cursor = peek(page, "next_cursor", "nextCursor")
            found = any(peek(tool, "name") == name for tool in page.tools)
            if found or cursor is None or cursor in seen or len(seen) >= MAX_RELIST_PAGES:
                return
            seen.add(cursor)

    def _request(
        self, name: str, arguments: dict[str, Any], meta: dict[str, str], on_progress: OnProgress, more: dict[str, Any]
    ) -> Awaitable[Any]:
        types, send = self._types, self._session.send_request
        params = types.CallToolRequestParams(name=name, arguments=arguments, _meta=meta or None, **more)
        request = types.CallToolRequest(method="tools/call", params=params)  # before mcp 1.14 `method` has no default
        asked: Awaitable[Any]
        if not self._is_sdk2:  # pragma: no cover - mcp 1: the tests of sessions run with it, too
            asked = send(types.ClientRequest(request), types.CallToolResult, progress_callback=on_progress)
            return _cancelling(self._session, types, asked)
        # As it came: by the SDK's models a task would be a result without content.
        asked = send(request, _ANY_OBJECT, progress_callback=on_progress)
        return asked


def _sdk_types(session: Any) -> Any:
    module: Any = sys.modules.get("mcp.client.session")
    if module is None or not isinstance(session, module.ClientSession):
        return None
    from mcp import types

    return types


async def _cancelling(session: Any, types: Any, asked: Awaitable[Any]) -> Any:  # pragma: no cover - mcp 1
    """Awaits a call of mcp 1, which leaves ``notifications/cancelled`` to its user; mcp 2 sends it."""
    # The id of the next request, which no public name gives: without it the server would continue the call.
    request_id = getattr(session, "_request_id", None)
    try:
        return await asked
    except anyio.get_cancelled_exc_class():
        if isinstance(request_id, int):
            params = types.CancelledNotificationParams(requestId=request_id, reason="the caller no longer waits for it")
            cancelled = types.CancelledNotification(method="notifications/cancelled", params=params)
            notification = types.ClientNotification(cancelled)
            # Shielded, since this task is being cancelled; bounded, since a server that hangs must not hold it up.
            with anyio.move_on_after(CANCEL_PATIENCE_S, shield=True):
                try:
                    await session.send_notification(notification)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    pass  # the connection is gone, and the call with it
        raise


def _arguments_of(method: Callable[..., Any]) -> frozenset[str]:
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):  # written in C, or a proxy that hides its signature
        return frozenset()
    return frozenset(signature.parameters)


# -- requests and answers that the SDK does not know --

# The type of an answer is given to `send_request`. SDK 1 checks an answer only by that type. SDK 2 first checks it by
# its own tables, in which it looks up the request's method; it does not check answers to methods that are in no table,
# such as those of extensions. So the method of our request equals no text but itself.


class _Unlisted(str):
    """Names a method that is found in no table, whatever its letters are."""

    __slots__ = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class _AnyResult(RootModel[dict[str, Any]]):
    pass


_ANY_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class _Plain:
    """A request, as far as `send_request` of either SDK looks at it."""

    name_param: str | None = None  # is sent as ``Mcp-Name``, too

    def __init__(self, method: str, params: dict[str, Any]) -> None:
        self._method, self._params = method, params

    def model_dump(self, **options: Any) -> dict[str, Any]:
        return {"method": self._method, "params": dict(self._params)}


class _OfTask(_Plain):
    name_param = "taskId"
