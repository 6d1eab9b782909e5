"""Makes tools of what clients declare: their calls are handed out, and the run rests until the client has answered.

A run that goes on needs the same ones, hence their written form.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pydantic import TypeAdapter

from ..errors import BadRequest, SchemaError, ToolDefinitionError
from ..tools import Tool
from .client_input import ClientTool

MAX_TOOLS_BYTES = 1 << 20  # bytes of all tools of one run, as JSON: each run keeps its own
_TOOLS = TypeAdapter(tuple[ClientTool, ...])


def tools_of(declared: Sequence[ClientTool]) -> tuple[Tool[..., Any], ...]:
    """Raises a `BadRequest` for a name or a schema that cannot be used."""
    return tuple(_made(number, tool) for number, tool in enumerate(declared))


def _made(number: int, declared: ClientTool) -> Tool[..., Any]:
    try:
        return Tool.from_schema(
            _never_called,
            declared.parameters,
            name=declared.name,
            description=declared.description,
            owner="client",
            pass_as="mapping",
            deferred=True,
        )
    except (SchemaError, ToolDefinitionError) as error:
        raise BadRequest(
            "expected a name, and a JSON Schema for arguments, that can be used", path=f"tools[{number}]"
        ) from error


def _never_called(arguments: dict[str, Any]) -> NoReturn:
    raise AssertionError("the client runs it")


def written_tools(declared: Sequence[ClientTool]) -> bytes | None:
    """Returns tools to be kept; None if there are none. Raises a `BadRequest` if they are too large."""
    if not declared:
        return None
    written = _TOOLS.dump_json((*declared,))
    if len(written) > MAX_TOOLS_BYTES:
        raise BadRequest(
            "the tools are too large", path="tools", limit=f"max_tools_bytes={MAX_TOOLS_BYTES}", status=413
        )
    return written


def read_tools(written: bytes | None) -> tuple[ClientTool, ...]:
    """Returns tools that were kept; raises a `ValueError` if nobody here has written this."""
    return () if written is None else _TOOLS.validate_json(written[: MAX_TOOLS_BYTES + 1])
