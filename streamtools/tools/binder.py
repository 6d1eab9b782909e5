"""Defines what stands between a call's arguments and the function: a `Binder` checks, types and places them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from .callables import Injected

LARGE_CHARS = 32 << 10
"""Characters of arguments as JSON; reading, copying and judging as many takes some milliseconds."""

SchemaSource: TypeAlias = Literal["typed_signature", "typed_model", "hand_written", "protocol_fetch"]
"""The source of a tool's schema: derived from a function's signature or from a model, written by hand, or fetched over
a protocol (MCP)."""

Coerce: TypeAlias = Literal["lax", "strict"]
"""The policy for an argument of another JSON type than the wanted one (``"1"`` for an integer). ``lax``: it is turned
into it where nothing is lost, and the call's record says so; ``strict``: the call is refused."""


class TakesLong(Exception):
    """Raised by a quick validation that would hold up the event loop: do it in a thread, without ``quick``."""


@runtime_checkable
class ArgumentsValidator(Protocol):
    """Judges a tool's arguments in the place of the JSON Schema validator: the interface of yours."""

    @property
    def name(self) -> str:
        """The validator's name in the record of each call."""
        ...

    def validate(self, arguments: dict[str, Any], /) -> list[str]:
        """Returns one line per problem, path and rule (``city: is required but missing``); empty if there is none. The
        model reads the lines, and logs have them, so let none quote a value."""
        ...


class Binder(Protocol):
    """Turns a call's arguments into the values that a function is called with."""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments. Do not change it."""
        ...

    @property
    def validator_name(self) -> str | None:
        """The name of the judge (``pydantic``); None where there is none."""
        ...

    @property
    def injected(self) -> Mapping[str, Injected]:
        """Parameters that the program fills, by name."""
        ...

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns values by parameter name, and the coercions that were needed; raises `InvalidArguments`. `text`: the
        JSON text of the arguments, if it is at hand; `quick`: raise `TakesLong` for what takes more than about 10
        ms."""
        ...

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function, of the `values` of `validate` and the `injected` ones."""
        ...

    def drift(self) -> list[str]:
        """Returns a line for each disagreement of schema and signature; none where one was made of the other."""
        ...
