"""A history against the types of the provider's own SDK, where that is at hand."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError
from wire_cases import CASES

__all__ = ["check_types"]


def check_types(wire: str, messages: list[dict[str, Any]]) -> None:
    """The SDK's types take these messages."""
    takes = CASES[wire].takes
    if takes is not None:
        try:
            takes(messages)
        except ValidationError as error:  # it lists every type of a union: too much to read
            raise AssertionError(f"the SDK's types refuse {messages}: {str(error)[-600:]}") from None
