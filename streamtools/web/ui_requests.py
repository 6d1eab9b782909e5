"""Reads what `useChat` of the AI SDK posts.

A client sends its whole chat each time. Taken from it are the last message, if it is the user's, with the id of the
user's message before; and what the last step of an assistant's message has by way of answers: the assistant's message
that ``messageId`` names, else the last one.

    the last message is    messageId          trigger
    user                   none               submit
    user                   its own            edit (`sendMessage` with a messageId, or once more after an error)
    any                    an assistant's     resume (`addToolApprovalResponse`, `addToolOutput`)
    any                    any                regenerate, with "regenerate-message" (the retry after an error, too)

A person's changes to arguments stand beside the messages, since ``part.input`` is what was shown, perhaps masked: in
``editedArgs``, by the id of the approval.

`ai` 6.0.326 and 7.0.173, read 2026-11-28: ``src/ui/http-chat-transport.ts``, ``chat.ts``, ``ui-messages.ts``. The
signature of an approval (7) is its own server's: it is not looked at, and our ids name what was shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, JsonValue, StrictBool, TypeAdapter

from ..errors import BadRequest
from . import client_input as client
from .bodies import MAX_BYTES, CallId, Id, Posted, Reason, parsed, read, unique

MAX_MESSAGE_PARTS = 10_000  # parts of a message; a run of hundreds of steps is one


class PostedUIMessage(Posted):
    id: Any = None
    role: Literal["user", "assistant", "system"]
    parts: Any = None


class UIRequest(Posted):
    """What `useChat` posts. The last message is taken, and what the assistant's last step answers."""

    id: Id
    messages: Annotated[list[PostedUIMessage], Field(min_length=1, max_length=client.MAX_MESSAGES, fail_fast=True)]
    trigger: Literal["submit-message", "regenerate-message"] | None = None
    message_id: Id | None = None
    edited_args: dict[str, dict[str, JsonValue] | None] | None = None


class _File(Posted):
    type: Literal["file"]
    url: str
    media_type: str | None = None
    filename: str | None = None


class _UserMessage(Posted):
    id: Id
    parts: Annotated[list[Annotated[client.PostedText | _File, Field(discriminator="type")]], client.PARTS]


class _Part(Posted):
    type: str


class _Approval(Posted):
    id: Id
    approved: StrictBool | None = None
    reason: Reason | None = None


class _Call(Posted):
    type: str
    state: str
    tool_call_id: CallId
    approval: _Approval | None = None
    provider_executed: StrictBool | None = None
    preliminary: StrictBool | None = None
    output: JsonValue = None  # JavaScript's undefined is left out
    error_text: str | None = None


_REQUEST, _USER_MESSAGE, _CALL = TypeAdapter(UIRequest), TypeAdapter(_UserMessage), TypeAdapter(_Call)
_PARTS = TypeAdapter(Annotated[list[_Part], Field(max_length=MAX_MESSAGE_PARTS, fail_fast=True)])


def read_ui_request(body: bytes, *, max_bytes: int = MAX_BYTES) -> client.ClientInput:
    """Returns what a client of the AI SDK wants; raises a `BadRequest`. Costs time linear in the body."""
    value = parsed(body, max_bytes)
    root = read(_REQUEST, value)
    last, at = root.messages[-1], len(root.messages) - 1
    continued = _continued(root)
    trigger = _trigger(root, continued)
    if last.role == "system" or (trigger != "resume" and last.role != "user"):
        raise BadRequest("expected a user message at the end", path=f"messages[{at}]")
    begins = trigger in ("submit", "edit")
    calls = [] if continued is None else [*_last_step(root.messages[continued].parts, f"messages[{continued}].parts")]
    return client.ClientInput(
        chat_id=root.id,
        trigger=trigger,
        message=None if trigger == "resume" else _message(value["messages"][at], f"messages[{at}]"),
        message_id=root.message_id,
        earlier=client.earlier_of((one.role, one.id) for one in root.messages[:-1]) if begins else (),
        approvals=unique(_approvals(calls, root.edited_args or {}), lambda one: one.id, "messages"),
        results=unique(_results(calls), lambda one: one.call_id, "messages"),
    )


def _continued(root: UIRequest) -> int | None:
    own = [at for at, one in enumerate(root.messages) if one.role == "assistant"]
    named = [at for at in own if root.message_id is not None and root.messages[at].id == root.message_id]
    return next(reversed(named or own), None)


def _trigger(root: UIRequest, continued: int | None) -> client.Trigger:
    last, named = root.messages[-1], root.message_id
    if root.trigger == "regenerate-message":
        return "regenerate"
    if last.role == "assistant" or (continued is not None and root.messages[continued].id == named is not None):
        return "resume"
    return "edit" if named is not None and last.id == named else "submit"


def _message(value: Any, path: str) -> client.UserMessage:
    message = read(_USER_MESSAGE, value, path)
    return client.user_message(
        message.id,
        [
            client.UserText(part.text)
            if isinstance(part, client.PostedText)
            else client.read_file(f"{path}.parts[{at}]", part.url, part.media_type, part.filename)
            for at, part in enumerate(message.parts)
        ],
        path,
    )


def _last_step(parts: Any, path: str) -> Iterator[_Call]:
    """Yields the calls of a message's last step: no others can wait."""
    kinds = [part.type for part in read(_PARTS, parts, path)]
    begin = len(kinds) - kinds[::-1].index("step-start") if "step-start" in kinds else 0
    for at in range(begin, len(kinds)):
        if kinds[at] == "dynamic-tool" or kinds[at].startswith("tool-"):
            yield read(_CALL, parts[at], f"{path}[{at}]")


def _approvals(calls: list[_Call], edited: dict[str, Any]) -> Iterator[client.ClientApproval]:
    for call in calls:
        # A client that ran an approved call itself sends both at once.
        answer = call.approval if call.state in ("approval-responded", "output-available", "output-error") else None
        if answer is not None and answer.approved is not None:  # 6 has none if somebody else decided
            arguments = edited.get(answer.id)
            yield client.ClientApproval(
                id=answer.id, approved=answer.approved, reason=answer.reason, arguments=arguments
            )


def _results(calls: list[_Call]) -> Iterator[client.ClientResult]:
    for call in calls:
        if call.provider_executed or call.preliminary:
            continue
        if call.state == "output-error":
            yield client.ClientResult(call_id=call.tool_call_id, value=call.error_text or "", is_error=True)
        elif call.state == "output-available":
            yield client.ClientResult(call_id=call.tool_call_id, value=call.output)
