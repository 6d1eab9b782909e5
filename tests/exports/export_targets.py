"""Every target, strict forms included, and where its payload holds the schema."""

from __future__ import annotations

from typing import Any

from streamtools.exports import targets
from streamtools.tools.entries import find

EVERY = [*targets(), *(f"{target}.strict" for target in targets(strict=True))]
IN_OPENAPI = ("gemini.parameters", "gemini.parameters.strict", "gemini.live")
"""Where schemas are OpenAPI's, and a function without parameters has none."""
NO_RECURSION = ("anthropic.messages.strict", "bedrock.converse_stream.strict")
"""Where no schema may contain itself."""


def schema_in(payload: dict[str, Any], target: str) -> dict[str, Any]:
    """The schema of the arguments in a payload."""
    schema: Any = payload
    for step in find(target, False)[0].schema_at:
        schema = schema[step]
    return schema
