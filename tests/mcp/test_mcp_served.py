"""Observations as answers of an MCP server: taken by the SDK's own types, and read back as they were."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.types import CallToolResult
from mcp_session import observed
from profiles import every

from streamtools import Limits, tool
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.mcp import result_for_mcp, tool_result

pytestmark = pytest.mark.anyio


@tool(effect="pure")
def give(kind: str) -> Any:
    """Give what is asked for."""
    if kind == "raise":
        raise ValueError("secret")
    return GIVEN[kind]


IMAGE = Media(kind="image", mime_type="image/png", data="AAAA")
FILE = Media(kind="file", mime_type="application/pdf", data="AAAA", filename="a.pdf")
GIVEN: dict[str, Any] = {
    "text": "hello",
    "object": {"n": 1},
    "list": [1, 2],
    "none": None,
    "bytes": {"b": b"\x00"},
    "nan": [float("nan")],
    "blocks": ToolResult(blocks=(Text("plan"), IMAGE, Opaque({"type": "x"})), value={"n": 1}),
    "bare": ToolResult(blocks=(Text("plan"),)),
    "files": ToolResult(
        blocks=(
            FILE,
            Media(kind="audio", mime_type="audio/wav", data="AAAA"),
            Media(kind="video", mime_type="video/mp4", data="AAAA"),
            Media(kind="file", url="https://example.com/a", filename="a"),
            Media(kind="image", url="https://example.com/b", mime_type="image/png"),
            Media(kind="file", file_id="f_1", filename="b"),
        )
    ),
    "error": ToolResult(blocks=(Text("locked"),), is_error=True),
    "odd": ToolResult(blocks=(Text("odd"),), value=object()),
}

TEXT = {"type": "text"}

ANSWERS: list[tuple[str, list[dict[str, Any]], Any, bool]] = [
    ("text", [TEXT | {"text": "hello"}], None, False),
    ("object", [TEXT | {"text": '{"n":1}'}], {"n": 1}, False),
    ("list", [TEXT | {"text": "[1,2]"}], [1, 2], False),
    ("none", [TEXT | {"text": "null"}], None, False),
    ("bytes", [TEXT | {"text": '{"b":"AA=="}'}], {"b": "AA=="}, False),
    ("nan", [TEXT | {"text": "[null]"}], [None], False),
    ("blocks", [TEXT | {"text": "plan"}, {"type": "image", "data": "AAAA", "mimeType": "image/png"}], {"n": 1}, False),
    ("bare", [TEXT | {"text": "plan"}], None, False),
    ("error", [TEXT | {"text": "Error: locked"}], None, True),
    ("odd", [TEXT | {"text": "odd"}], None, False),
    ("raise", [TEXT | {"text": "Error: the tool give raised ValueError"}], None, True),
    (
        "files",
        [
            {
                "type": "resource",
                "resource": {"uri": "attachment:a.pdf", "blob": "AAAA", "mimeType": "application/pdf"},
            },
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "attachment:video", "blob": "AAAA", "mimeType": "video/mp4"}},
            {"type": "resource_link", "uri": "https://example.com/a", "name": "a"},
            {"type": "resource_link", "uri": "https://example.com/b", "name": "image", "mimeType": "image/png"},
            TEXT | {"text": "[file: b]"},
        ],
        None,
        False,
    ),
]


@every(("kind", "content", "structured", "is_error"), ANSWERS)
async def test_an_observation_is_an_answer(kind: str, content: Any, structured: Any, is_error: bool) -> None:
    answer = result_for_mcp(await observed([give], "give", f'{{"kind": "{kind}"}}'))
    assert (answer["content"], answer.get("structuredContent"), answer["isError"]) == (content, structured, is_error)
    assert answer["resultType"] == "complete"


@every("kind", [*GIVEN, "raise", "missing", 7])
async def test_the_sdk_takes_the_answer_and_we_read_it_back(kind: Any) -> None:
    observation = await observed([give], "give", f'{{"kind": "{kind}"}}' if kind != 7 else '{"kind": 7}')
    answer = result_for_mcp(observation, protocol_version="2025-11-25")
    read = tool_result(CallToolResult.model_validate(answer), limits=Limits())
    assert read.is_error is (observation.outcome != "ok")
    if not read.is_error and isinstance(observation.value, dict):
        assert read.value == answer["structuredContent"]
