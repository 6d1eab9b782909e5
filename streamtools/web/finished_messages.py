"""Writes finished answers, and the user's messages, as clients keep them: those that they would have after the stream.

ui_message(parts, "msg-1")        a UIMessage of the AI SDK, as `useChat` has it
ag_ui_messages(parts, "msg-1")    messages of AG-UI
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from .client_input import UserFile, UserMessage, UserText
from .encoding import json_bytes
from .history_parts import (
    AddedMessage,
    AskedQuestion,
    AssistantCall,
    AssistantFile,
    AssistantPart,
    AssistantSource,
    AssistantStep,
    AssistantText,
    ShownApproval,
)
from .sources import ui_file, ui_source

__all__ = ["ag_ui_messages", "ag_ui_user_message", "ui_message", "ui_user_message"]
_NAMELESS = "unnamed"  # as the stream names such a call


# -- the AI SDK -------------------------------------------------------------------------------------------------------


def ui_message(parts: Iterable[AssistantPart], message_id: str, *, version: Literal[6, 7] = 7) -> dict[str, Any]:
    """Returns an answer as `useChat` keeps it, for that major version of `ai`."""
    return {"id": message_id, "role": "assistant", "parts": [_ui_part(part, version) for part in parts]}


def ui_user_message(message: UserMessage) -> dict[str, Any]:
    """Returns the user's message as `useChat` keeps it."""
    return {"id": message.id, "role": "user", "parts": [_ui_user_part(part) for part in message.parts]}


def _ui_part(part: AssistantPart, version: int) -> dict[str, Any]:
    match part:
        case AssistantStep():
            return {"type": "step-start"}
        case AssistantText():
            return {"type": part.kind, "text": part.text, "state": "done"}
        case AssistantSource():
            return ui_source(part.source, part.id)
        case AssistantFile(file):
            return ui_file(file)
        case AddedMessage():
            texts = [{"type": "text", "text": text} for text in part.texts]
            if version == 6:  # which has no word for it
                return {"type": "data-steering", "id": part.id, "data": {"parts": texts}}
            return {"type": "steering-message", "id": part.id, "parts": texts}
        case AskedQuestion():
            return {
                "type": "data-question",
                "id": part.id,
                "data": {"toolCallId": part.call_id, "question": part.question},
            }
        case AssistantCall():
            call = {"type": f"tool-{part.name or _NAMELESS}", "toolCallId": part.call_id, "input": part.arguments}
            return call | _ui_end(part) | ({"providerExecuted": True} if part.by_provider else {})


def _ui_end(call: AssistantCall) -> dict[str, Any]:
    approval = _ui_approval(call.approval)
    is_approved = call.approval is not None and call.approval.approved
    if not call.is_over:
        if call.approval is None:
            return {"state": "input-available"}
        return {"state": "approval-requested" if call.approval.approved is None else "approval-responded", **approval}
    if call.outcome == "denied" and call.approval is not None and call.approval.approved is False:
        return {"state": "output-denied", **approval}
    approval = approval if is_approved else {}  # the client takes no other one with an output
    if call.error is not None:
        return {"state": "output-error", "errorText": call.error, **approval}
    return {"state": "output-available", "output": call.result, **approval}


def _ui_approval(approval: ShownApproval | None) -> dict[str, Any]:
    if approval is None:
        return {}
    found: dict[str, Any] = {"id": approval.id}
    if approval.approved is not None:
        found["approved"] = approval.approved
    if approval.reason is not None:
        found["reason"] = approval.reason
    return {"approval": found}


def _ui_user_part(part: UserText | UserFile) -> dict[str, Any]:
    if isinstance(part, UserText):
        return {"type": "text", "text": part.text}
    file = {"type": "file", "mediaType": part.media_type, "url": part.url}
    return file | ({"filename": part.filename} if part.filename is not None else {})


# -- AG-UI ------------------------------------------------------------------------------------------------------------


def ag_ui_messages(parts: Iterable[AssistantPart], message_id: str) -> list[dict[str, Any]]:
    """Returns an answer as messages of AG-UI 1.0, step by step: reasoning, each text with the calls behind it, and the
    results. Their ids begin with `message_id`."""
    steps: list[tuple[AssistantStep, list[AssistantPart]]] = []
    for part in parts:
        if isinstance(part, AssistantStep):
            steps.append((part, []))
        else:
            steps[-1][1].append(part)
    return [message for step, pieces in steps for message in _ag_ui_step(f"{message_id}:{step.step}", pieces)]


def ag_ui_user_message(message: UserMessage) -> dict[str, Any]:
    """Returns the user's message as AG-UI has it."""
    match message.parts:
        case (UserText(text),):
            return {"id": message.id, "role": "user", "content": text}
        case parts:
            return {"id": message.id, "role": "user", "content": [_ag_ui_part(part) for part in parts]}


def _ag_ui_step(prefix: str, pieces: Sequence[AssistantPart]) -> Iterator[dict[str, Any]]:
    answer: dict[str, Any] | None = None  # a text, and the calls behind it
    for number, piece in enumerate(pieces):
        id_ = f"{prefix}:{number}"
        match piece:
            case AddedMessage():
                yield {"id": piece.id, "role": "user", "content": "\n\n".join(piece.texts)}
            case AssistantText(text, "reasoning"):
                answer = None
                yield {"id": id_, "role": "reasoning", "content": text}
            case AssistantText(text):
                answer = {"id": id_, "role": "assistant", "content": text}
                yield answer
            case AssistantCall():
                if answer is None:
                    answer = {"id": id_, "role": "assistant"}
                    yield answer
                answer.setdefault("toolCalls", []).append(_ag_ui_call(piece))
            case _:
                continue  # a question, a source or a file, which are no messages
    for call in pieces:
        if isinstance(call, AssistantCall) and (call.is_over or call.by_provider):
            yield _ag_ui_result(prefix, call)


def _ag_ui_result(prefix: str, call: AssistantCall) -> dict[str, Any]:
    if not call.is_over:  # a client takes a call without a result for one that waits for it
        content = "run by the provider"
    else:
        content = call.error if call.error is not None else _as_text(call.result)
    message = {"id": f"{prefix}:{call.call_id}", "role": "tool", "toolCallId": call.call_id, "content": content}
    return message if call.outcome in (None, "ok") else {**message, "metadata": {"outcome": call.outcome}}


def _ag_ui_call(call: AssistantCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": _as_text(call.arguments)}
    return {"id": call.call_id, "type": "function", "function": function}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json_bytes(value).decode()


def _ag_ui_part(part: UserText | UserFile) -> dict[str, Any]:
    if isinstance(part, UserText):
        return {"type": "text", "text": part.text}
    media = part.media()
    kind = "document" if media.kind == "file" else media.kind
    if media.data is not None:
        source = {"type": "data", "value": media.data, "mimeType": media.mime_type or "application/octet-stream"}
    else:
        source = {"type": "url", "value": part.url} | ({"mimeType": media.mime_type} if media.mime_type else {})
    return {"type": kind, "source": source}
