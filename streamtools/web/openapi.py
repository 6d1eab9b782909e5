"""Describes in OpenAPI 3.1 what conversations answer, and what a streamed response contains.

    api.openapi_schema = pages.openapi(prefix="/api/chat", into=api.openapi())    # FastAPI, behind its last route

    @api.post("/ask", response_class=EventStreamResponse, responses=event_responses())

OpenAPI 3.1 has no word for the events of a stream: a schema of ``text/event-stream`` is that of the data of each frame,
as OpenAI writes its own. The schemas of our frames are made from the table that the frames are made from; those of
other protocols are named, with the place of their definition.

https://spec.openapis.org/oas/v3.1.1.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .encoding import Encode
from .own import encode_event, schema

__all__ = ["chat_document", "event_responses"]

_OURS = "streamtools."  # in front of the names of components, so that they are nobody else's
_STREAM = "text/event-stream"
_JSON = "application/json"
_DATA = "The data of each server-sent event. "


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{_OURS}{name}"}


def _object(description: str, required: str = "", /, **properties: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "object", "description": description}
    if properties:
        found["properties"] = properties
    if required:
        found["required"] = required.split()
    return found


# -- the schemas -------------------------------------------------------------------------------------------------------

_TEXT = {"type": "string"}
_OBJECTS = {"type": "array", "items": {"type": "object"}}
_CHUNKS: Mapping[str, dict[str, Any]] = {
    "UIMessageChunk": _object(
        "A chunk of the AI SDK's UI message stream v1; the last data is the text [DONE]. "
        "https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol",
        "type",
        type=_TEXT,
    ),
    "AGUIEvent": _object("An event of AG-UI 1.0. https://docs.ag-ui.com/concepts/events", "type", type=_TEXT),
    "ChatCompletionChunk": _object(
        "A chunk of OpenAI's Chat Completions, or an object with `error`; the last data is the text [DONE]. "
        "https://platform.openai.com/docs/api-reference/chat-streaming"
    ),
}


def _own_events() -> dict[str, Any]:
    """Returns the schemas of our frames by the names of their components."""
    whole = schema()
    found = {one["title"]: one for one in whole["$defs"].values()}
    mapping = {name: _ref(one["title"])["$ref"] for name, one in whole["$defs"].items()}
    union = {
        "description": f"{whole['title']}. A frame's name is that of its event.",
        "oneOf": [_ref(name) for name in found],
        "discriminator": {"propertyName": "event", "mapping": mapping},
    }
    return {"RunEvent": union, **found}


def _schemas() -> dict[str, Any]:
    error = _object("Why a request was refused.", "code message", code=_TEXT, message=_TEXT)
    nullable = {"type": ["string", "null"]}
    of_openai = error | {"properties": error["properties"] | {"type": _TEXT, "param": nullable}}
    found = {
        **_CHUNKS,
        **_own_events(),
        "ChatCompletion": _object("A `chat.completion` of OpenAI's, with the conversation's whole answer."),
        "ChatError": _object("A refusal.", "error", error=error),
        "ChatCompletionError": _object("A refusal, as OpenAI's clients read it.", "error", error=of_openai),
        "ChatMessages": _object(
            "The latest finished messages of a conversation, of the AI SDK (UIMessages) or AG-UI. With `before` there "
            "are earlier ones, which `?before=` asks for. `unfinished` is the run whose answer is to be read (AG-UI).",
            "id messages",
            id=_TEXT,
            messages=_OBJECTS,
            before=_TEXT,
            unfinished=_TEXT,
        ),
        "UIRequest": _object(
            "What `useChat` posts. The last message is taken, and what the assistant's last step answers.",
            "id messages",
            id=_TEXT,
            messages=_OBJECTS,
            trigger={"enum": ["submit-message", "regenerate-message"]},
            messageId=nullable,
        ),
        "RunAgentInput": _object(
            "AG-UI's RunAgentInput. https://docs.ag-ui.com/sdk/js/core/types",
            "threadId runId messages",
            threadId=_TEXT,
            runId=_TEXT,
            messages=_OBJECTS,
            tools=_OBJECTS,
            context=_OBJECTS,
            resume=_OBJECTS,
        ),
        "ChatCompletionRequest": _object(
            "Chat Completions of OpenAI. `metadata.chat` names the conversation where the address does not.",
            "model messages",
            model=_TEXT,
            messages=_OBJECTS,
            stream={"type": "boolean"},
            tools=_OBJECTS,
            metadata={"type": "object"},
        ),
        "StopRequest": _object("The run to stop; without it the one that goes on.", run=nullable),
    }
    return {_OURS + name: one for name, one in found.items()}


# -- the routes --------------------------------------------------------------------------------------------------------

_WORDS = {
    "204": "Nothing goes on, or nothing is left to do.",
    "400": "The request cannot be read.",
    "403": "The conversation is not open to this request.",
    "404": "There is no such conversation or message.",
    "409": "The request does not fit the conversation as it is; `code` says why.",
    "410": "The log of the run has expired: load the conversation anew.",
    "413": "The request is too large.",
    "500": "The conversation cannot be read.",
    "503": "The conversation is in use elsewhere; try again.",
}
_REFUSED = "400 403 404 409 413 500 503"
_BEFORE: dict[str, Any] = {
    "name": "before",
    "in": "query",
    "schema": _TEXT,
    "description": "As an answer had it: return earlier messages than those.",
}
_LAST_EVENT_ID: dict[str, Any] = {
    "name": "Last-Event-ID",
    "in": "header",
    "schema": _TEXT,
    "description": "The last frame that was read: only later ones follow.",
}
_CHAT_ID: dict[str, Any] = {
    "name": "id",
    "in": "path",
    "required": True,
    "schema": _TEXT,
    "description": "The conversation.",
}


@dataclass(frozen=True, slots=True)
class _Route:
    """One row of the table in `app`."""

    method: str
    path: str
    name: str
    summary: str
    answers: Mapping[str, str] | None = None
    """Content types and components of a success; None: it has no body."""
    body: str | None = None
    statuses: str = _REFUSED
    needs_body: bool = True


_UI, _OWN = {_STREAM: "UIMessageChunk"}, {_STREAM: "RunEvent"}
_COMPLETED = {_JSON: "ChatCompletion", _STREAM: "ChatCompletionChunk"}
ROUTES = (
    _Route("post", "/", "chat", "Begins a run, or goes on with one, and streams it", _UI, "UIRequest"),
    _Route(
        "get", "/{id}", "chat_messages", "Returns the finished messages", {_JSON: "ChatMessages"},
        statuses="403 404 500",
    ),
    _Route("delete", "/{id}", "delete_chat", "Removes a conversation", statuses="204 403 404 409 500 503"),
    _Route("get", "/{id}/stream", "join_chat", "Streams the run that goes on", _UI, statuses="204 403 500 503"),
    _Route(
        "post", "/{id}/stop", "stop_chat", "Stops the run that goes on", None, "StopRequest", "204 400 403 413 500",
        needs_body=False,
    ),
    _Route("post", "/{id}/events", "chat_events", "Begins a run, or goes on with one", _OWN, "UIRequest"),
    _Route("get", "/{id}/events", "join_events", "Streams from a frame on", _OWN, statuses="204 403 410 500 503"),
    _Route("post", "/ag-ui", "ag_ui", "Begins a run, or goes on with one", {_STREAM: "AGUIEvent"}, "RunAgentInput"),
    _Route(
        "get", "/{id}/ag-ui", "ag_ui_messages", "Returns the finished messages of AG-UI", {_JSON: "ChatMessages"},
        statuses="403 404 500",
    ),
    _Route("post", "/v1/chat/completions", "chat_completions", "Answers OpenAI's clients", _COMPLETED,
           "ChatCompletionRequest"),
    _Route("post", "/{id}/v1/chat/completions", "named_chat_completions", "Answers OpenAI's clients", _COMPLETED,
           "ChatCompletionRequest"),
)  # fmt: skip


def chat_document(prefix: str = "", into: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns what `ChatApp` answers as an OpenAPI document; see `ChatApp.openapi`."""
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
    refusal = "ChatCompletionError" if route.path.endswith("completions") else "ChatError"
    responses: dict[str, Any] = {}
    if route.answers is not None:
        content = {kind: {"schema": _ref(name)} for kind, name in route.answers.items()}
        about = _DATA if _STREAM in content else ""
        responses["200"] = {"description": f"{about}The answer.", "content": content}
    for status in route.statuses.split():
        responses[status] = {"description": _WORDS[status]}
        if status != "204" and (route.name, status) != ("delete_chat", "404"):
            responses[status]["content"] = {_JSON: {"schema": _ref(refusal)}}
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


# -- one streamed response ---------------------------------------------------------------------------------------------


def event_responses(encode: Encode | Callable[..., Any] = encode_event) -> dict[int | str, dict[str, Any]]:
    """Returns the `responses` of an endpoint that returns an `EventStreamResponse`, for FastAPI's decorator, beside
    ``response_class=EventStreamResponse``.

    Args:
        encode: that of the response: `encode_event`, or the class of an encoder. Another function's data is anything.
    """
    content: dict[str, Any] = {_STREAM: {"schema": _data_of(encode)}}
    return {200: {"description": f"{_DATA}The last one tells of the run's end.", "content": content}}


def _data_of(encode: Any) -> dict[str, Any]:
    if encode is encode_event:
        return {"title": "An event of a run", "anyOf": [*schema(whole=False)["$defs"].values()]}
    name = encode.__name__ if isinstance(encode, type) else type(encode).__name__
    if name == "OwnEvents":
        return {"title": "An event of a run", "oneOf": [*schema()["$defs"].values()]}
    chunk = {"UIMessages": "UIMessageChunk", "AGUI": "AGUIEvent", "ChatCompletions": "ChatCompletionChunk"}.get(name)
    return {} if chunk is None else _CHUNKS[chunk]
