"""The ways in which a model may call tools."""

from __future__ import annotations

from enum import Enum

__all__ = ["ToolCallingMode"]


class ToolCallingMode(Enum):
    """How a model is made to call tools."""

    AUTO = "auto"
    """By the model's name: see `streamtools.modes.DEFAULT_RULES`."""
    NATIVE = "native"
    """The API's own tool calling."""
    STRUCTURED = "structured"
    """A JSON Schema that the provider holds the whole answer to."""
    VALIDATED = "validated"
    """JSON in the text, validated by the tool before it may run."""
    PARSED = "parsed"
    """JSON in the text as it comes. Nothing is validated, and the record of each call says so."""
