"""Reads what a client of AG-UI posts, a `RunAgentInput`: in the bytes of a body, out a `ClientInput`.

    {"threadId", "runId", "messages": [...], "tools", "context", "state", "forwardedProps", "resume": [...]?}

A client sends its whole thread each time. Taken from it are the last message, if it is the user's; the tool messages
behind the last message of the assistant's; and the entries of ``resume``. An entry answers a request for approval
(``{"approved": true, "editedArgs": {...}?}``, or true or false alone) or another one, whose payload is the answer. Its
id says which of them, so that it is among the approvals and the results alike, for `ClientInput.only`. An entry that is
``cancelled`` approves nothing.

The protocol has no words for another answer or another text: such a request ends with a message that the server knows.

`@ag-ui/core` 1.0.0, read 2026-11-28; https://docs.ag-ui.com/concepts/interrupts
"""

from __future__ import annotations

from collections.abc import Iterator

from ..limits import Limits
from .bodies import MAX_BYTES, BodyValue, read_body, unique
from .client_input import (
    MAX_PARTS,
    MAX_TOOLS,
    ClientApproval,
    ClientInput,
    ClientResult,
    UserFile,
    UserMessage,
    UserText,
    read_file,
    read_tool,
    user_message,
)

__all__ = ["read_ag_ui_request"]

MAX_MESSAGES = 10_000
"""Messages of a thread."""
MAX_ENTRIES = 1_000
"""Entries of ``resume`` or ``context``."""
MAX_REASON_CHARS = 10_000
"""Characters of the reason for an approval, which the model may read."""

_CANCELLED = "the user cancelled it"
_ROLES = ("developer", "system", "assistant", "user", "tool", "activity", "reasoning")
_MEDIA = ("image", "audio", "video", "document")


def read_ag_ui_request(body: bytes, *, max_bytes: int = MAX_BYTES, limits: Limits = Limits()) -> ClientInput:
    """Returns what a client of AG-UI wants. Costs time linear in the body.

    Args:
        body: the request's body, as it came.
        max_bytes: how large it may be. Its pictures are in it, in every request of the thread.
        limits: how large the names, descriptions and schemas of its tools may be.

    Raises:
        BadRequest: it is not such a request, or exceeds a bound.
    """
    root = read_body(body, max_bytes=max_bytes)
    messages = root.need("messages").items("max_messages", MAX_MESSAGES)
    kept = [(message, message.need("role").word(*_ROLES)) for message in messages]
    kept = [(message, role) for message, role in kept if role in ("assistant", "user", "tool")]
    entries = _items(root, "resume", MAX_ENTRIES)
    is_new = bool(kept) and kept[-1][1] == "user"
    context = [
        (one.need("description").text(), one.need("value").text()) for one in _items(root, "context", MAX_ENTRIES)
    ]
    state, extra = root.get("state"), root.get("forwardedProps")
    return ClientInput(
        chat_id=root.need("threadId").id(),
        run_id=root.need("runId").id(),
        trigger="submit" if is_new and not entries else "resume",
        message=_message(kept[-1][0]) if is_new else None,
        approvals=unique(_approvals(entries)),
        results=unique([*_results(kept), *_answers(entries)]),
        client_tools=unique(
            read_tool(tool, tool.need("description"), limits) for tool in _items(root, "tools", MAX_TOOLS)
        ),
        context=tuple(context),
        state=state.value if state is not None else None,
        extra=extra.object() if extra is not None else {},
    )


def _items(root: BodyValue, key: str, most: int) -> list[BodyValue]:
    found = root.get(key)
    return found.items(f"max_{key}", most) if found is not None else []


# -- the user's message -----------------------------------------------------------------------------------------------


def _message(message: BodyValue) -> UserMessage:
    content = message.need("content")
    if isinstance(content.value, str):
        parts: list[UserText | UserFile] = [UserText(content.value)]
    else:
        parts = [one for part in content.items("max_parts", MAX_PARTS) if (one := _part(part)) is not None]
    return user_message(message, message.need("id").id(), parts)


def _part(part: BodyValue) -> UserText | UserFile | None:
    """Returns a part of a message; None for one of a kind that is not known, which the protocol leaves out."""
    kind = part.need("type").text()
    if kind == "text":
        return UserText(part.need("text").text())
    if kind not in _MEDIA:
        return None
    source = part.need("source")
    value, media_type = source.need("value"), source.get("mimeType")
    match source.need("type").word("data", "url", "file"):
        case "data":
            given = source.need("mimeType").text()
            whole = BodyValue(f"data:{given.partition(';')[0]};base64,{value.text()}", value.path)
            return read_file(whole, media_type)
        case "url":
            fallback = BodyValue(kind if kind != "document" else "application/octet-stream", source.path)
            return read_file(value, media_type or fallback)
        case _:  # a handle of a provider's, which may be somebody else's file
            raise source.refused("a file that the provider has is not taken; send its content or its URL")


# -- answers ----------------------------------------------------------------------------------------------------------


def _results(kept: list[tuple[BodyValue, str]]) -> Iterator[tuple[BodyValue, str, ClientResult]]:
    """Yields the tool messages behind the last message of the assistant's."""
    last = max((at for at, (_, role) in enumerate(kept) if role == "assistant"), default=len(kept))
    for message, role in kept[last + 1 :]:
        if role == "tool":
            place, error = message.need("toolCallId"), message.get("error")
            value = error.text() if error is not None else _content(message.need("content"))
            yield place, place.call_id(), ClientResult(call_id=place.call_id(), value=value, is_error=error is not None)


def _content(content: BodyValue) -> str:
    if isinstance(content.value, str):
        return content.value
    parts = content.items("max_parts", MAX_PARTS)
    return "\n".join(part.need("text").text() for part in parts if part.need("type").word("text"))


def _approvals(entries: list[BodyValue]) -> Iterator[tuple[BodyValue, str, ClientApproval]]:
    for entry in entries:
        place, payload = entry.need("interruptId"), entry.get("payload")
        id_ = place.id()
        if entry.need("status").word("resolved", "cancelled") == "cancelled":
            yield place, id_, ClientApproval(id=id_, approved=False, reason=_CANCELLED)
        elif payload is not None and isinstance(payload.value, bool):
            yield place, id_, ClientApproval(id=id_, approved=payload.value)
        elif (
            payload is not None and isinstance(payload.value, dict) and isinstance(payload.value.get("approved"), bool)
        ):
            reason, edited = payload.get("reason"), payload.get("editedArgs")
            yield (
                place,
                id_,
                ClientApproval(
                    id=id_,
                    approved=payload.value["approved"],
                    reason=reason.text(MAX_REASON_CHARS) if reason is not None else None,
                    arguments=edited.object() if edited is not None else None,
                ),
            )


def _answers(entries: list[BodyValue]) -> Iterator[tuple[BodyValue, str, ClientResult]]:
    for entry in entries:
        place, payload = entry.need("interruptId"), entry.get("payload")
        is_cancelled = entry.need("status").text() == "cancelled"
        value = _CANCELLED if is_cancelled else payload.value if payload is not None else None
        yield place, place.id(), ClientResult(call_id=place.id(), value=value, is_error=is_cancelled)
