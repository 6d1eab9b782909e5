"""Defines `Binder`, which validates a call's arguments, types them and passes them to the function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from .callables import Injected

LARGE_CHARS = 32 << 10
"""Characters of arguments as JSON; reading, copying and validating that many takes a few milliseconds."""

SchemaSource: TypeAlias = Literal["typed_signature", "typed_model", "hand_written", "protocol_fetch"]
"""The source of a tool's schema: derived from a function's signature or from a model, written by hand, or fetched over
a protocol (MCP)."""

Coerce: TypeAlias = Literal["lax", "strict"]
"""The policy for an argument with the wrong JSON type (``"1"`` for an integer). ``lax``: it is converted where nothing
is lost, and the call's record says so; ``strict``: the call is refused."""


class TakesLong(Exception):
    """Raised by a quick validation that would block the event loop: repeat it in a thread, without ``quick``."""


@runtime_checkable
class ArgumentsValidator(Protocol):
    """Validates a tool's arguments instead of the JSON Schema validator: the interface for your own."""

    @property
    def name(self) -> str:
        """The validator's name in the record of each call."""
        ...

    def validate(self, arguments: dict[str, Any], /) -> list[str]:
        """Returns one line per problem, with path and rule (``city: is required but missing``); an empty list if there
        is none. The model reads the lines, and logs contain them, so never quote a value."""
        ...


class Binder(Protocol):
    """Converts a call's arguments to the values that a function is called with."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments. Do not change it."""
        ...

    @property
    def validator_name(self) -> str | None:
        """The name of the validator (``pydantic``); None if there is none."""
        ...

    @property
    def injected(self) -> Mapping[str, Injected]:
        """The parameters that the program fills, by name."""
        ...

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns values by parameter name, and the coercions that were needed; raises `InvalidArguments`. `text`: the
        JSON text of the arguments, if available; `quick`: raise `TakesLong` beyond about 10 ms."""
        ...

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function, from the `values` of `validate` and the `injected` ones."""
        ...

    def drift(self) -> list[str]:
        """Returns a line for each disagreement of schema and signature; none if one was made from the other."""
        ...
