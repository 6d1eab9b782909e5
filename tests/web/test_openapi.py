"""Conversations and streams in OpenAPI documents: what a program that mounts them shows to those who call it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from chat_client import Page
from jsonschema import Draft202012Validator
from streams import chat, stream

from streamtools import agent_loop
from streamtools.web import ChatApp, Chats

WIRE = "openai.chat_completions"


def app_of(path: Path) -> ChatApp:
    def answer(given: Any) -> Any:
        ask = lambda messages, tools: stream(chat(["Hello"], finish="stop"))  # noqa: E731
        return agent_loop(ask, given.messages(WIRE), wire=WIRE, **given.options)

    return Chats(journal=path / "chats.db", run=answer).app(may=lambda request: "ann")


def refs(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [one for inner in value.values() for one in refs(inner)]
    return [one for inner in value for one in refs(inner)] if isinstance(value, list) else []


@pytest.mark.anyio
async def test_the_document_names_each_route_and_the_answers_are_those_it_names(tmp_path: Path) -> None:
    app = app_of(tmp_path)
    document = app.openapi(prefix="/api/chat")
    schemas = document["components"]["schemas"]
    assert {one.removeprefix("#/components/schemas/") for one in refs(document)} == schemas.keys()
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        assert name.startswith("streamtools.")
    operations = {
        (method, path): one for path, item in document["paths"].items() for method, one in item.items()
    }  # fmt: skip
    assert len({one["operationId"] for one in operations.values()}) == len(operations) == 10
    said = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "you"}]}
    ui = {"id": "k", "messages": [said], "trigger": "submit-message"}
    bodies = {
        "streamtools.UIRequest": ui,
        "streamtools.RunAgentInput": {"threadId": "a", "runId": "r", "messages": [
            {"id": "m1", "role": "user", "content": "you"}], "tools": [], "context": []},
        "streamtools.StopRequest": {},
    }  # fmt: skip
    page, seen = Page(app), set[str]()
    order = sorted(operations, key=lambda one: (one[0] == "delete", one[0] == "get", one))
    for method, path in order:
        operation, body = operations[method, path], None
        if "requestBody" in operation:
            (name,) = (one.rpartition("/")[2] for one in refs(operation["requestBody"]))
            body = bodies[name]
            assert Draft202012Validator({**schemas[name], "components": document["components"]}).is_valid(body)
        address = path.removeprefix("/api/chat").replace("{id}", "k")
        answer = await page.ask(method.upper(), address, body)
        response = operation["responses"][str(answer.status)]
        assert answer.status < 300, (path, answer.body)
        content = response.get("content", {})
        kind = answer.headers.get("content-type", "").partition(";")[0]
        assert not content or kind in content, path
        for data in [] if not content else answer.chunks if kind == "text/event-stream" else [answer.json]:
            (name,) = (one.rpartition("/")[2] for one in refs(content[kind]))
            shape = {**schemas[name], "components": document["components"]}
            if data != "[DONE]":
                assert Draft202012Validator(shape).is_valid(data), (path, data)
                seen.add(name.removeprefix("streamtools."))
        refused = await page.ask(method.upper(), address.replace("k/", "x/"), b"{" if body is not None else None)
        error = operation["responses"][str(refused.status)].get("content")
        if refused.status >= 400 and error is not None:
            (name,) = (one.rpartition("/")[2] for one in refs(error))
            assert Draft202012Validator({**schemas[name], "components": document["components"]}).is_valid(refused.json)
            seen.add(name.removeprefix("streamtools."))
    assert seen == {"UIMessageChunk", "RunEvent", "AGUIEvent", "ChatList", "ChatMessages", "ChatError"}
    table = re.findall(r"^    (POST|GET|DELETE) +(\S+)", ChatApp.__call__.__globals__["__doc__"], re.MULTILINE)
    assert {(method.lower(), f"/api/chat{path}") for method, path in table} == operations.keys()
    for wrong in ("api", "/api/", 3):
        with pytest.raises(ValueError, match="prefix"):
            app.openapi(prefix=wrong)  # type: ignore[arg-type]


def test_fastapi_shows_streams_and_mounted_conversations(tmp_path: Path) -> None:
    fastapi = pytest.importorskip("fastapi", reason="FastAPI is not installed: its document was not made")
    models = pytest.importorskip("fastapi.openapi.models")
    api = fastapi.FastAPI()

    pages = app_of(tmp_path)
    for prefix in ("/api/chat", "/more"):
        api.mount(prefix, pages)
        api.openapi_schema = pages.openapi(prefix=prefix, into=api.openapi())
    document = api.openapi()
    models.OpenAPI.model_validate(document)
    assert document["openapi"].startswith("3.1")
    for prefix in ("/api/chat", "/more"):
        assert document["paths"][f"{prefix}/{{id}}/events"].keys() == {"get", "post"}
    ids = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert len(ids) == len(set(ids)) == 20
