"""Reads what a client of AG-UI posts, a `RunAgentInput`.

A client sends its whole thread each time. Taken from it are the last message, if it is the user's, with the id of the
user's message before; the tool messages behind the last message of the assistant's; and the entries of ``resume``, each
of which answers a request for approval (``{"approved": true, "editedArgs": {...}?}``, or true or false alone) or
another one, whose payload is the answer. Its id says which of them, so that it is among the approvals and the results
alike. ``state``, ``context`` and ``forwardedProps`` are not looked at.

`@ag-ui/core` 1.0.0, read 2026-11-28; https://docs.ag-ui.com/concepts/interrupts
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StrictBool, TypeAdapter

from ..errors import BadRequest
from . import client_input as client
from .bodies import MAX_BYTES, CallId, Id, Posted, Reason, parsed, read, unique

MAX_ENTRIES = 1_000  # entries of `resume`

_CANCELLED = "the user cancelled it"


class PostedAGUIMessage(Posted):
    id: Any = None
    role: Literal["developer", "system", "assistant", "user", "tool", "activity", "reasoning"]


class ResumeEntry(Posted):
    interrupt_id: Id
    status: Literal["resolved", "cancelled"]
    payload: JsonValue = None


class _Decided(Posted):
    approved: StrictBool
    reason: Reason | None = None
    edited_args: dict[str, JsonValue] | None = None


class RunAgentInput(Posted):
    """AG-UI's RunAgentInput. https://docs.ag-ui.com/sdk/js/core/types"""

    thread_id: Id
    run_id: Id
    messages: Annotated[list[PostedAGUIMessage], Field(max_length=client.MAX_MESSAGES, fail_fast=True)]
    tools: Annotated[list[client.ClientTool], Field(max_length=client.MAX_TOOLS, fail_fast=True)] | None = None
    resume: Annotated[list[ResumeEntry], Field(max_length=MAX_ENTRIES, fail_fast=True)] | None = None


class _UserMessage(Posted):
    id: Id
    content: Any


class _ToolMessage(Posted):
    tool_call_id: CallId
    content: Any
    error: str | None = None


class _Source(Posted):
    type: Literal["data", "url", "file"]
    value: str
    mime_type: str | None = None


class _Media(Posted):
    type: Literal["image", "audio", "video", "document"]
    source: _Source


_REQUEST, _DECIDED = TypeAdapter(RunAgentInput), TypeAdapter(_Decided)
_USER_MESSAGE, _TOOL_MESSAGE = TypeAdapter(_UserMessage), TypeAdapter(_ToolMessage)
_PARTS = TypeAdapter(Annotated[list[Annotated[client.PostedText | _Media, Field(discriminator="type")]], client.PARTS])


def read_ag_ui_request(body: bytes, *, max_bytes: int = MAX_BYTES) -> client.ClientInput:
    """Returns what a client of AG-UI wants; raises a `BadRequest`. Costs time linear in the body."""
    value = parsed(body, max_bytes)
    root = read(_REQUEST, value)
    kept = [(at, one.role) for at, one in enumerate(root.messages) if one.role in ("assistant", "user", "tool")]
    entries, messages = root.resume or [], value["messages"]
    is_new = bool(kept) and kept[-1][1] == "user"
    last = max((place for place, (_, role) in enumerate(kept) if role == "assistant"), default=len(kept))
    behind = [at for at, role in kept[last + 1 :] if role == "tool"]
    results = [*(_result(messages[at], f"messages[{at}]") for at in behind), *map(_answer, entries)]
    return client.ClientInput(
        chat_id=root.thread_id,
        run_id=root.run_id,
        trigger="submit" if is_new and not entries else "resume",
        message=_message(messages[kept[-1][0]], f"messages[{kept[-1][0]}]") if is_new else None,
        earlier=client.earlier_of((role, root.messages[at].id) for at, role in kept[:-1]) if is_new else (),
        approvals=unique(_approvals(entries), lambda one: one.id, "resume"),
        results=unique(results, lambda one: one.call_id, "messages"),
        client_tools=client.checked_tools(root.tools or (), "tools"),
    )


# -- the user's message --


def _message(value: Any, path: str) -> client.UserMessage:
    message = read(_USER_MESSAGE, value, path)
    if isinstance(message.content, str):
        return client.user_message(message.id, [client.UserText(message.content)], path)
    path = f"{path}.content"
    parts = read(_PARTS, message.content, path)
    return client.user_message(message.id, [_part(part, f"{path}[{at}]") for at, part in enumerate(parts)], path)


def _part(part: client.PostedText | _Media, path: str) -> client.UserText | client.UserFile:
    if isinstance(part, client.PostedText):
        return client.UserText(part.text)
    source = part.source
    if source.type == "file":  # it may be somebody else's
        raise BadRequest("a file that the provider has is not taken; send its content or its URL", path=path)
    media_type = source.mime_type or (part.type if part.type != "document" else "application/octet-stream")
    is_data = source.type == "data"
    url = f"data:{media_type.partition(';')[0]};base64,{source.value}" if is_data else source.value
    return client.read_file(path, url, media_type)


# -- answers --


def _result(value: Any, path: str) -> client.ClientResult:
    message = read(_TOOL_MESSAGE, value, path)
    found = message.content if message.error is None else message.error
    if not isinstance(found, str):
        found = "\n".join(part.text for part in read(client.TEXTS, found, f"{path}.content"))
    return client.ClientResult(call_id=message.tool_call_id, value=found, is_error=message.error is not None)


def _approvals(entries: list[ResumeEntry]) -> Iterator[client.ClientApproval]:
    for at, entry in enumerate(entries):
        id, payload = entry.interrupt_id, entry.payload
        if entry.status == "cancelled":
            yield client.ClientApproval(id=id, approved=False, reason=_CANCELLED)
        elif isinstance(payload, bool):
            yield client.ClientApproval(id=id, approved=payload)
        elif isinstance(payload, dict) and isinstance(payload.get("approved"), bool):
            found = read(_DECIDED, payload, f"resume[{at}].payload")
            yield client.ClientApproval(
                id=id, approved=found.approved, reason=found.reason, arguments=found.edited_args
            )


def _answer(entry: ResumeEntry) -> client.ClientResult:
    is_cancelled = entry.status == "cancelled"
    value = _CANCELLED if is_cancelled else entry.payload
    return client.ClientResult(call_id=entry.interrupt_id, value=value, is_error=is_cancelled)
