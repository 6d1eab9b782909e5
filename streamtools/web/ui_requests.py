"""Reads what `useChat` of the AI SDK posts: in the bytes of a body, out a `ClientInput`.

    {"id": chat, "messages": [UIMessage...], "trigger": "submit-message" | "regenerate-message", "messageId": id?, ...}

A client sends its whole chat each time. Taken from it are the last message, if it is the user's, and what the last step
of an assistant's message has by way of answers: the assistant's message that ``messageId`` names, else the last one.

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

from .bodies import MAX_BYTES, BodyValue, read_body, unique
from .client_input import (
    MAX_PARTS,
    ClientApproval,
    ClientInput,
    ClientResult,
    Trigger,
    UserFile,
    UserMessage,
    UserText,
    read_file,
    user_message,
)

__all__ = ["read_ui_request"]

MAX_MESSAGES = 10_000
"""Messages of a chat."""
MAX_MESSAGE_PARTS = 10_000
"""Parts of a message; a run of hundreds of steps is one."""
MAX_REASON_CHARS = 10_000
"""Characters of the reason for an approval, which the model may read."""

_OWN = frozenset({"id", "messages", "trigger", "messageId", "editedArgs"})


def read_ui_request(body: bytes, *, max_bytes: int = MAX_BYTES) -> ClientInput:
    """Returns what a client of the AI SDK wants. Costs time linear in the body.

    Args:
        body: the request's body, as it came.
        max_bytes: how large it may be. Its pictures are in it, in every request of the chat.

    Raises:
        BadRequest: it is not such a request, or exceeds a bound.
    """
    root = read_body(body, max_bytes=max_bytes)
    messages = root.need("messages").items("max_messages", MAX_MESSAGES)
    roles = [message.need("role").word("user", "assistant", "system") for message in messages]
    if not messages or roles[-1] == "system":
        raise root.need("messages").refused("expected a message of the user's or the assistant's at the end")
    named = root.get("messageId")
    message_id = named.id() if named is not None else None
    continued = _continued(messages, roles, message_id)
    trigger = _trigger(root, messages[-1], roles[-1], continued, message_id)
    if trigger != "resume" and roles[-1] != "user":
        raise messages[-1].refused("expected a message of the user's at the end")
    waiting = list(_last_step(continued)) if continued is not None else []
    return ClientInput(
        chat_id=root.need("id").id(),
        trigger=trigger,
        message=None if trigger == "resume" else _message(messages[-1]),
        message_id=message_id,
        approvals=unique(_approvals(waiting, root.get("editedArgs"))),
        results=unique(_results(waiting)),
        extra={key: value for key, value in root.object().items() if key not in _OWN},
    )


def _continued(messages: list[BodyValue], roles: list[str], message_id: str | None) -> BodyValue | None:
    """Returns the assistant's message whose answers are meant."""
    own = [message for message, role in zip(messages, roles, strict=True) if role == "assistant"]
    named = [message for message in own if message_id is not None and message.object().get("id") == message_id]
    return next(reversed(named or own), None)


def _trigger(
    root: BodyValue, last: BodyValue, role: str, continued: BodyValue | None, message_id: str | None
) -> Trigger:
    wanted = root.get("trigger")
    if wanted is not None and wanted.word("submit-message", "regenerate-message") == "regenerate-message":
        return "regenerate"
    if role == "assistant" or (continued is not None and continued.object().get("id") == message_id is not None):
        return "resume"
    return "edit" if message_id is not None and last.object().get("id") == message_id else "submit"


def _message(message: BodyValue) -> UserMessage:
    parts: list[UserText | UserFile] = []
    for part in message.need("parts").items("max_parts", MAX_PARTS):
        kind = part.need("type").text()
        if kind == "text":
            parts.append(UserText(part.need("text").text()))
        elif kind == "file":
            parts.append(read_file(part.need("url"), part.get("mediaType"), part.get("filename")))
    return user_message(message, message.need("id").id(), parts)


def _last_step(message: BodyValue) -> Iterator[BodyValue]:
    """Yields the calls of a message's last step, from its end: no others can wait."""
    for part in reversed(message.need("parts").items("max_parts", MAX_MESSAGE_PARTS)):
        kind = part.need("type").text()
        if kind == "step-start":
            return
        if kind == "dynamic-tool" or kind.startswith("tool-"):
            yield part


def _approvals(calls: list[BodyValue], edited: BodyValue | None) -> Iterator[tuple[BodyValue, str, ClientApproval]]:
    for call in reversed(calls):
        state, approval = call.need("state").text(), call.get("approval")
        # A client that ran an approved call itself sends both at once.
        if approval is None or state not in ("approval-responded", "output-available", "output-error"):
            continue
        if state != "approval-responded" and approval.get("approved") is None:  # 6, of one that somebody else decided
            continue
        place, approved = approval.need("id"), approval.need("approved").flag()
        reason, id_ = approval.get("reason"), place.id()
        arguments = edited.get(id_) if edited is not None else None
        yield (
            place,
            id_,
            ClientApproval(
                id=id_,
                approved=approved,
                reason=reason.text(MAX_REASON_CHARS) if reason is not None else None,
                arguments=arguments.object() if arguments is not None else None,
            ),
        )


def _results(calls: list[BodyValue]) -> Iterator[tuple[BodyValue, str, ClientResult]]:
    for call in reversed(calls):
        state, by_provider, preliminary = (
            call.need("state").text(),
            call.get("providerExecuted"),
            call.get("preliminary"),
        )
        if (by_provider is not None and by_provider.flag()) or (preliminary is not None and preliminary.flag()):
            continue
        place = call.need("toolCallId")
        call_id = place.call_id()
        if state == "output-error":
            yield place, call_id, ClientResult(call_id=call_id, value=call.need("errorText").text(), is_error=True)
        elif state == "output-available":
            output = call.get("output")  # JavaScript's undefined is left out
            yield place, call_id, ClientResult(call_id=call_id, value=None if output is None else output.value)
