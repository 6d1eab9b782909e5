"""Reads a page of ``tools/list`` as the JSON that the server sent, where the SDK would refuse all of it for one bad
tool.

Both generations of the SDK have a public ``send_request``, to which the type of the answer is given. SDK 1 checks an
answer by that type alone. SDK 2 first checks it by its own tables, in which it looks up the request's method; it does
not check answers to methods that are in no table, such as those of extensions.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from anyio import CancelScope, to_thread
from pydantic import RootModel, TypeAdapter, ValidationError

__all__ = ["answered", "unjudged_page"]

MAX_LINE_CHARS = 8 << 20
"""Characters of a message that is read once more: as many as a whole list may have."""


class _Unlisted(str):
    """A method that is in no table, whatever its letters are."""

    __slots__ = ()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class _AnyObject(RootModel[dict[str, Any]]):
    pass


_LIST = _Unlisted("tools/list")
_ANY_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


async def unjudged_page(session: Any, types: Any, cursor: str | None) -> dict[str, Any]:
    """Asks an SDK's session for a page; checks only that the answer is an object.

    Args:
        session: a ``ClientSession``.
        types: the ``mcp.types`` of its generation.
        cursor: the cursor of the page; None for the first.

    Raises:
        ValidationError: the SDK refuses the page even so.
    """
    params = None if cursor is None else types.PaginatedRequestParams(cursor=cursor)
    if not hasattr(types, "InputRequiredResult"):  # pragma: no cover - mcp 1: the tests of sessions run with it, too
        asked = types.ClientRequest(types.ListToolsRequest(method="tools/list", params=params))
        answer: _AnyObject = await session.send_request(asked, _AnyObject)
        return answer.root

    class ListAnything(types.ListToolsRequest):  # type: ignore[misc]
        def model_dump(self, **options: Any) -> dict[str, Any]:
            return {**super().model_dump(**options), "method": _LIST}

    page: dict[str, Any] = await session.send_request(ListAnything(params=params), _ANY_OBJECT)
    return page


async def answered(session: Any, ask: Callable[[], Awaitable[Any]]) -> Any:
    """Returns the result of `ask`; or the page itself, if the transport of `session` cannot read the message with it.

    A transport passes such a message to the session's message handler as an exception, which contains the line, and the
    request is never answered: half a surrogate pair in the description of one tool would take all the time of listing.
    """
    handler = getattr(session, "_message_handler", None)  # both generations have it, under no public name
    if handler is None:
        return await ask()
    read: list[dict[str, Any]] = []

    async def listen(message: Any) -> None:
        if isinstance(message, ValidationError):
            page = await to_thread.run_sync(_page_in, message)
            if page is not None:
                read.append(page)
                scope.cancel()
        await handler(message)

    session._message_handler = listen
    try:
        with CancelScope() as scope:
            return await ask()
        return read[0]
    finally:
        if session._message_handler is listen:
            session._message_handler = handler


def _page_in(error: ValidationError) -> dict[str, Any] | None:
    """Returns the page in a line that could not be read; an empty one if it cannot be read at all; None if the line is
    no page."""
    found = error.errors(include_url=False, include_context=False)
    line = found[0]["input"] if found else None
    if not isinstance(line, str) or '"result"' not in line or '"tools"' not in line:
        return None
    try:
        message = json.loads(line) if len(line) <= MAX_LINE_CHARS else {"result": {"tools": None}}
    except (ValueError, RecursionError):
        return {}
    result = message.get("result") if isinstance(message, dict) else None
    return result if isinstance(result, dict) and "tools" in result else None
