"""Writes finished answers, and the user's messages, in the form that clients have after the stream.

The encoder of each protocol says what a client is told, and here that is put together as the client does: `ai` 7.0.173
and 6.0.326, ``src/ui/process-ui-message-stream.ts``; `@ag-ui/client` 1.0.0, ``apply/default.ts``; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from .ag_ui import AGUI
from .client_input import UserFile, UserMessage, UserText
from .encoding import Encoder, RunEnd, json_bytes
from .log import Entry, VisitEnd
from .ui_messages import UIMessages


def _sent(encoder: Encoder, answer: Iterable[Entry]) -> Iterator[dict[str, Any]]:
    for event in (*answer, RunEnd(outcome="answered")):
        for frame in () if isinstance(event, VisitEnd) else encoder(event):
            if isinstance(frame[1], dict):
                yield frame[1]


# -- the AI SDK --


def ui_message(answer: Iterable[Entry], message_id: str, *, version: Literal[6, 7] = 7) -> dict[str, Any]:
    message = _UIMessage(version)
    # 6 has no word for a decision, which its client knows by itself.
    for chunk in _sent(UIMessages(message_id=message_id), answer):
        message.read(chunk)
    if message.parts[-1:] == [_STEP]:  # a client shows a step when something is in it
        del message.parts[-1]
    return {"id": message_id, "role": "assistant", "parts": message.parts}


_STEP: dict[str, Any] = {"type": "step-start"}


class _UIMessage:
    def __init__(self, version: int) -> None:
        self.parts: list[dict[str, Any]] = []
        self._version = version
        self._texts: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, dict[str, Any]] = {}  # calls by the id of the request for approval

    def read(self, chunk: dict[str, Any]) -> None:
        kind, _, act = chunk["type"].rpartition("-")
        if "toolCallId" in chunk or "approvalId" in chunk:
            self._read_call(chunk, act)
        elif chunk["type"] == "start-step":
            self.parts.append(_STEP)
        elif kind in ("text", "reasoning"):
            self._read_text(chunk, kind, act)
        elif chunk["type"] == "steering-message" and self._version == 6:
            self.parts.append({"type": "data-steering", "id": chunk["id"], "data": {"parts": chunk["parts"]}})
        elif kind in ("source", "steering") or act == "file" or chunk["type"].startswith("data-"):
            self.parts.append(chunk)

    def _read_text(self, chunk: dict[str, Any], kind: str, act: str) -> None:
        if act == "start":
            named = {"id": chunk["id"]} if kind == "reasoning" else {}
            self._texts[chunk["id"]] = {"type": kind, **named, "text": "", "state": "done"}
            self.parts.append(self._texts[chunk["id"]])
        elif act == "delta":
            self._texts[chunk["id"]]["text"] += chunk["delta"]

    def _read_call(self, chunk: dict[str, Any], act: str) -> None:
        if chunk["type"] == "tool-approval-response":
            part = self._asked[chunk["approvalId"]]
            given = {name: chunk[name] for name in ("approved", "reason") if name in chunk}
            part |= {"state": "approval-responded", "approval": part["approval"] | given}
            return
        if act == "delta":
            return
        id = chunk["toolCallId"]
        if id not in self._calls:
            self._calls[id] = {"toolCallId": id}
            self.parts.append(self._calls[id])
        part = self._calls[id]
        if chunk["type"] == "tool-approval-request":
            self._asked[chunk["approvalId"]] = part
            part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            return
        if "toolName" in chunk:
            part["type"] = f"tool-{chunk['toolName']}"
        is_refused = chunk["type"] == "tool-input-error"
        state = "output-error" if is_refused else chunk["type"].removeprefix("tool-").replace("start", "streaming")
        part |= {"state": state} | {name: chunk[name] for name in _OF_CALLS if name in chunk}
        for name in _ENDS:
            if name not in chunk:
                part.pop(name, None)
        if is_refused and self._version == 6:
            part["rawInput"] = part.pop("input")


_OF_CALLS = ("input", "inputEncoding", "output", "errorText", "preliminary", "providerExecuted")
_ENDS = ("inputEncoding", "output", "errorText", "preliminary")


def ui_user_message(message: UserMessage) -> dict[str, Any]:
    return {"id": message.id, "role": "user", "parts": [_ui_user_part(part) for part in message.parts]}


def _ui_user_part(part: UserText | UserFile) -> dict[str, Any]:
    if isinstance(part, UserText):
        return {"type": "text", "text": part.text}
    file = {"type": "file", "mediaType": part.media_type, "url": part.url}
    return file | ({"filename": part.filename} if part.filename is not None else {})


# -- AG-UI --


def ag_ui_messages(answer: Iterable[Entry]) -> list[dict[str, Any]]:
    """Returns an answer as messages of AG-UI 1.0, under the ids that the stream has for them, without activities. The
    arguments of a call that somebody has edited are those that it ran with."""
    thread = _Thread()
    for sent in _sent(AGUI(thread_id=""), answer):
        thread.read(sent)
    return thread.whole()


class _Thread:
    def __init__(self) -> None:
        self._messages: dict[str, dict[str, Any]] = {}
        self._calls: dict[str, dict[str, Any]] = {}
        self._results: dict[str, dict[str, Any]] = {}  # by call, behind the message that it stands in
        self._asked: dict[str, str] = {}
        self._edited: dict[str, Any] = {}

    def read(self, sent: dict[str, Any]) -> None:
        match sent["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                self._messages[sent["messageId"]] = {"id": sent["messageId"], "role": sent["role"], "content": ""}
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self._messages[sent["messageId"]]["content"] += sent["delta"]
            case "ACTIVITY_SNAPSHOT":
                self._messages.pop(sent["messageId"], None)  # a text in whose place there is another one
            case "TOOL_CALL_START":
                self._call(sent["toolCallId"], sent["toolCallName"], sent["parentMessageId"])
            case "TOOL_CALL_ARGS":
                self._calls[sent["toolCallId"]]["arguments"] += sent["delta"]
            case "TOOL_CALL_RESULT":
                self._result(sent)
            case "CUSTOM" if sent["name"] == "interrupt_requested":
                self._asked[sent["value"]["id"]] = sent["value"]["toolCallId"]
            case "CUSTOM" if sent["name"] == "interrupt_resolved" and "editedArgs" in sent["value"]:
                self._edited[self._asked[sent["value"]["id"]]] = sent["value"]["editedArgs"]

    def _call(self, id: str, name: str, parent: str) -> None:
        owner = self._messages.setdefault(parent, {"id": parent, "role": "assistant"})
        self._calls[id] = {"name": name, "arguments": ""}
        owner.setdefault("toolCalls", []).append({"id": id, "type": "function", "function": self._calls[id]})

    def _result(self, sent: dict[str, Any]) -> None:
        id, kept = sent["toolCallId"], {name: sent[name] for name in ("metadata",) if name in sent}
        result = {"id": sent["messageId"], "role": "tool", "toolCallId": id, "content": sent["content"], **kept}
        (self._results if id in self._calls else self._messages)[id] = result
        if kept.get("metadata") == {"outcome": "replaced"}:  # it did not run: another call did
            self._edited.pop(id, None)

    def whole(self) -> list[dict[str, Any]]:
        for id, arguments in self._edited.items():
            self._calls[id]["arguments"] = json_bytes(arguments).decode()
        found: list[dict[str, Any]] = []
        for message in self._messages.values():
            ids = [call["id"] for call in message.get("toolCalls", ())]
            found += [message, *(self._results[id] for id in ids if id in self._results)]
        return found


def ag_ui_user_message(message: UserMessage) -> dict[str, Any]:
    match message.parts:
        case (UserText(text),):
            return {"id": message.id, "role": "user", "content": text}
        case parts:
            return {"id": message.id, "role": "user", "content": [_ag_ui_part(part) for part in parts]}


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
