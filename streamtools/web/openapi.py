"""Describes the conversations' HTTP interface in OpenAPI 3.1.

OpenAPI 3.1 has no word for the events of a stream: a schema of ``text/event-stream`` is that of the data of each frame,
as OpenAI writes its own. https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from .ag_ui_requests import RunAgentInput
from .bodies import StopRequest
from .own import frames_of_events
from .ui_requests import UIRequest

_OURS = "streamtools."  # in front of the names of components, so that they are nobody else's
_STREAM = "text/event-stream"
_JSON = "application/json"
_DATA = "The data of each server-sent event. "


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{_OURS}{name}"}


# -- the schemas --


class _Answer(BaseModel):
    model_config = ConfigDict(extra="allow")


class UIMessageChunk(_Answer):
    """A chunk of the AI SDK's UI message stream v1; the last data is the text [DONE].
    https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol"""

    type: str


class AGUIEvent(_Answer):
    """An event of AG-UI 1.0. https://docs.ag-ui.com/concepts/events"""

    type: str


class Refusal(_Answer):
    """Why a request was refused."""

    code: str
    message: str


class ChatError(_Answer):
    """A refusal."""

    error: Refusal


class ChatMessages(_Answer):
    """The latest finished messages of a conversation, of the AI SDK (UIMessages) or AG-UI. With `before` there are
    earlier ones, which `?before=` asks for. `unfinished` is the run whose answer is to be read (AG-UI); `refuses` says
    why a run that waits takes no answers at present."""

    id: str
    messages: list[dict[str, Any]]
    before: str = Field("", description="The run to name in a request for earlier messages.")
    unfinished: str = ""
    refuses: str = ""


class ListedChat(_Answer):
    """A conversation: who began it and when, when it changed last, in milliseconds since 1970, whether its latest run
    goes on or waits for people, and the first words of its first message."""

    id: str
    owner: str | None
    began_ms: int
    changed_ms: int
    is_open: bool
    words: str


class ChatList(_Answer):
    """A person's conversations, those that changed last first. With `before` there are more, which `?before=` asks
    for."""

    chats: list[ListedChat]
    before: str = ""


_TYPES: tuple[type[BaseModel], ...] = (
    UIMessageChunk, AGUIEvent, ChatError, ChatList, ChatMessages, UIRequest, RunAgentInput, StopRequest,
)  # fmt: skip


def _schemas() -> dict[str, Any]:
    mode: Literal["validation"] = "validation"
    adapters: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        ("RunEvent", mode, frames_of_events()),
        *((one.__name__, mode, TypeAdapter(one)) for one in _TYPES),
    ]
    template = f"#/components/schemas/{_OURS}{{model}}"
    found, rest = TypeAdapter.json_schemas(adapters, ref_template=template)
    events = found["RunEvent", mode] | {"description": "An event of a run. The name of a frame is that of its event."}
    return {_OURS + name: one for name, one in {**rest["$defs"], "RunEvent": events}.items()}


# -- the routes --

_WORDS = {
    "204": "No run is in progress, or nothing is left to do.",
    "400": "The request cannot be read.",
    "403": "The conversation is not open to this request.",
    "404": "The conversation or message does not exist.",
    "408": "The body did not arrive in time.",
    "409": "The request does not fit the state of the conversation; `code` is the reason: running, stopping, waiting, "
    "answered, decided, nothing_waits, edited, unknown_history.",
    "410": "The log of the run has expired: reload the conversation.",
    "413": "The request is too large.",
    "500": "The conversation cannot be read.",
    "503": "The conversation or its store is in use elsewhere: try again after `Retry-After`.",
}
_REFUSED = "400 403 404 408 409 413 500 503"
_BEFORE: dict[str, Any] = {
    "name": "before",
    "in": "query",
    "schema": {"type": "string"},
    "description": "A value from an earlier answer: return only what is earlier.",
}
_LIMIT: dict[str, Any] = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
    "description": "The most items to return.",
}
_LAST_EVENT_ID: dict[str, Any] = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": {"type": "string"},
    "description": "The id of the last frame that was read: only later ones follow.",
}
_CHAT_ID: dict[str, Any] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": {"type": "string"},
    "description": "The conversation.",
}


@dataclass(frozen=True, slots=True)
class _Route:
    method: str
    path: str
    name: str
    summary: str
    answers: Mapping[str, str] | None = None  # content types and components of a success; None: it has no body
    body: str | None = None
    statuses: str = _REFUSED
    needs_body: bool = True


_UI, _OWN = {_STREAM: "UIMessageChunk"}, {_STREAM: "RunEvent"}
ROUTES = (
    _Route("post", "/", "chat", "Begins or continues a run, and streams it", _UI, "UIRequest"),
    _Route(
        "get", "/", "list_chats", "Returns a person's conversations", {_JSON: "ChatList"},
        statuses="400 403 500 503",
    ),
    _Route(
        "get", "/{id}", "chat_messages", "Returns the finished messages", {_JSON: "ChatMessages"},
        statuses="403 404 500 503",
    ),
    _Route("delete", "/{id}", "delete_chat", "Removes a conversation", statuses="204 403 404 409 500 503"),
    _Route("get", "/{id}/stream", "join_chat", "Streams the run in progress", _UI, statuses="204 403 500 503"),
    _Route(
        "post", "/{id}/stop", "stop_chat", "Stops the run in progress", None, "StopRequest",
        "204 400 403 408 413 500 503",
        needs_body=False,
    ),
    _Route("post", "/{id}/events", "chat_events", "Begins or continues a run", _OWN, "UIRequest"),
    _Route("get", "/{id}/events", "join_events", "Streams from a frame on", _OWN, statuses="204 403 410 500 503"),
    _Route("post", "/ag-ui", "ag_ui", "Begins or continues a run", {_STREAM: "AGUIEvent"}, "RunAgentInput"),
    _Route(
        "get", "/{id}/ag-ui", "ag_ui_messages", "Returns the finished messages of AG-UI", {_JSON: "ChatMessages"},
        statuses="403 404 500 503",
    ),
)  # fmt: skip


def chat_document(prefix: str = "", into: Mapping[str, Any] | None = None) -> dict[str, Any]:
    if not isinstance(prefix, str) or (prefix and not prefix.startswith("/")) or prefix.endswith("/"):
        raise ValueError("prefix: expected the path of the mount, such as '/api/chat', without a slash at its end")
    document: dict[str, Any] = dict(into or {"openapi": "3.1.0", "info": {"title": "Conversations", "version": "1"}})
    paths = document["paths"] = dict(document.get("paths") or {})
    for route in ROUTES:
        path = prefix + route.path
        paths[path] = {route.method: _operation(route, prefix), **paths.get(path, {})}
    parts = document["components"] = dict(document.get("components") or {})
    parts["schemas"] = {**parts.get("schemas", {}), **_schemas()}
    return document


def _operation(route: _Route, prefix: str) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = [_CHAT_ID] if "{id}" in route.path else []
    parameters += [_LAST_EVENT_ID] if route.name == "join_events" else []
    parameters += [_BEFORE] if route.name.endswith("_messages") else []
    parameters += [_BEFORE, _LIMIT] if route.name == "list_chats" else []
    responses: dict[str, Any] = {}
    if route.answers is not None:
        content = {kind: {"schema": _ref(name)} for kind, name in route.answers.items()}
        about = _DATA if _STREAM in content else ""
        responses["200"] = {"description": f"{about}The answer.", "content": content}
    for status in route.statuses.split():
        responses[status] = {"description": _WORDS[status]}
        if status != "204" and (route.name, status) != ("delete_chat", "404"):
            responses[status]["content"] = {_JSON: {"schema": _ref("ChatError")}}
    found: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{route.name}{prefix}"),
        "tags": ["conversations"],
        "summary": route.summary,
        "responses": responses,
    }
    if parameters:
        found["parameters"] = parameters
    if route.body is not None:
        found["requestBody"] = {"required": route.needs_body, "content": {_JSON: {"schema": _ref(route.body)}}}
    return found
