"""Binds a tool's arguments for another function than its own, which takes them as they came.

The tool's own binder judges them, its checks too; the other function is given plain values, in one dict, since whoever
stands behind it (a framework) makes its own types of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .binder import Binder
from .callables import Placement, parameters_of
from .injection import Injected

__all__ = ["Rerouted"]


@dataclass(frozen=True, slots=True)
class Rerouted:
    """A `Binder` that judges as another one does, and places all arguments in one parameter."""

    binder: Binder
    placement: Placement

    @classmethod
    def of(cls, binder: Binder, function: Callable[..., Any], tool: str) -> Rerouted:
        """Reads the other function.

        Raises:
            ToolDefinitionError: it does not take one dict.
        """
        placement = Placement.of(function, parameters_of(function, tool, require_hints=False), tool)
        placement.only(tool, "the function behind it takes one dict, in its one parameter")
        return cls(binder, placement)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments. Do not change it."""
        return self.binder.schema

    @property
    def validator_name(self) -> str | None:
        """The name of the judge; None where there is none."""
        return self.binder.validator_name

    @property
    def injected(self) -> Mapping[str, Injected]:
        """Parameters that the program fills, by name."""
        return self.placement.injected

    def validate(
        self, arguments: Mapping[str, Any], text: str | None, *, quick: bool = False
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Returns a copy of the arguments as they came, if they fit; see `Binder`."""
        self.binder.validate(arguments, text, quick=quick)
        return copy.deepcopy(dict(arguments)), ()

    def arrange(self, values: dict[str, Any], injected: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Returns ``(args, kwargs)`` for the function."""
        return self.placement.arrange({self.placement.named[0].name: values}, injected)

    def drift(self) -> list[str]:
        """Returns a line for each disagreement of schema and signature."""
        return self.binder.drift()
