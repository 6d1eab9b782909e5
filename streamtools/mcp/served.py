"""Writes an observation as the answer of an MCP server, for serving tools of ours over MCP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from ..content import Block, Media, Text, ToolResult
from ..events import Observation

__all__ = ["result_for_mcp"]

ANY_STRUCTURE = "2026-07-28"
"""The first version of the protocol whose structured content may be any JSON value; before, it was an object."""

_SHOWN = {"image", "audio"}


def result_for_mcp(observation: Observation, *, protocol_version: str = ANY_STRUCTURE) -> dict[str, Any]:
    """Returns an observation as ``CallToolResult``, as JSON.

    The text for the model becomes the content; a value that is not just text also becomes the structured content. Any
    outcome but success is an error that the model can read (``isError``), as the protocol requires.

    Args:
        observation: the observation of a call that an MCP client has made.
        protocol_version: the one spoken with that client; before 2026-07-28 only an object is structured content.
    """
    result = observation.result
    blocks: list[Block] = [Text(observation.model_content)] if result is None else list(result.blocks)
    answer: dict[str, Any] = {
        "content": [content for block in blocks for content in _content(block)],
        "isError": observation.outcome != "ok",
        "resultType": "complete",
    }
    structured = _structured(observation.value)
    if structured is not None and (isinstance(structured, dict) or protocol_version >= ANY_STRUCTURE):
        answer["structuredContent"] = structured
    return answer


def _structured(value: Any) -> Any:
    """Returns the value in plain JSON; None for text, nothing, and values that JSON cannot express."""
    if isinstance(value, (str, ToolResult)):
        return None
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")
    except (PydanticSerializationError, ValueError):
        return None


def _content(block: Block) -> Iterator[dict[str, Any]]:
    if isinstance(block, Text):
        yield {"type": "text", "text": block.text}
    elif isinstance(block, Media):
        yield _media(block)


def _media(media: Media) -> dict[str, Any]:
    name = media.filename or media.kind
    if media.data is not None and media.kind in _SHOWN and media.mime_type:
        return {"type": media.kind, "data": media.data, "mimeType": media.mime_type}
    mime = {"mimeType": media.mime_type} if media.mime_type else {}
    if media.data is not None:
        return {"type": "resource", "resource": {"uri": f"attachment:{name}", "blob": media.data, **mime}}
    if media.url is not None:
        return {"type": "resource_link", "uri": media.url, "name": name, **mime}
    return {"type": "text", "text": media.placeholder()}  # known only to another provider, by its id
