"""What stands between a call's arguments and the function: a `Binder` checks them, types them, and puts them in place.

`Signature` is the binder of a typed function; foreign schemas and models have their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias

__all__ = ["Binder", "SchemaSource"]

SchemaSource: TypeAlias = Literal["typed_signature", "typed_model", "hand_written", "protocol_fetch"]
"""Where a tool's schema comes from: derived of a function's signature or of a model, written by hand, or fetched over a
protocol (MCP)."""


class Binder(Protocol):
    """Arguments in, what the function is called with out."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments. Do not change it."""
        ...

    @property
    def validator_name(self) -> str | None:
        """What judges the arguments (``pydantic``); None where nothing does."""
        ...

    @property
    def injected(self) -> tuple[str, ...]:
        """Parameters that the dispatcher fills."""
        ...

    def validate(self, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Values by parameter name, and the coercions that were needed.

        Raises:
            InvalidArguments: they do not fit.
        """
        ...

    def arrange(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for the function; injected parameters that `values` lacks are left out."""
        ...
