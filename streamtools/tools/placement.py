"""How a function is called with values that are known by name: which go by position, which parameters are injected.

`*args` takes a list under its own name and `**kwargs` a dict, so that no position can shift and no key can take the
place of a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from typing import Any

from .callables import is_injected, reserved_names

__all__ = ["NO_VALUES", "Placement"]

NO_VALUES: Mapping[str, Any] = {}
_VARIABLE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The parameters of one function, and where a value for each of them goes."""

    open: tuple[Parameter, ...]
    """What a caller fills, annotations resolved; neither injected nor bound by a `functools.partial`."""
    injected: tuple[str, ...]
    """Parameters that the dispatcher fills."""
    positional: tuple[str, ...]
    """Parameters to pass by position, injected ones included."""
    defaults: Mapping[str, Any]
    """Of those, where the function has one: a later one must not take the place of one that is left out."""
    var_positional: str | None
    var_keyword: str | None
    reserved: frozenset[str]
    """Names that an entry of ``**kwargs`` may not take."""

    @classmethod
    def of(cls, function: Callable[..., Any], parameters: Sequence[Parameter], tool: str) -> Placement:
        """Reads a function whose parameters `callables.parameters_of` has resolved.

        Raises:
            ToolDefinitionError: a parameter is annotated with a `ToolContext` among other things.
        """
        injected = tuple(p.name for p in parameters if is_injected(p, tool))
        kinds = {p.kind: p.name for p in parameters}
        # *args can only follow parameters that are passed by position.
        last = Parameter.POSITIONAL_OR_KEYWORD if Parameter.VAR_POSITIONAL in kinds else Parameter.POSITIONAL_ONLY
        positional = [p for p in parameters if p.kind <= last]
        return cls(
            open=tuple(p for p in parameters if p.name not in injected),
            injected=injected,
            positional=tuple(p.name for p in positional),
            defaults={p.name: p.default for p in positional if p.name not in injected and p.default is not p.empty},
            var_positional=kinds.get(Parameter.VAR_POSITIONAL),
            var_keyword=kinds.get(Parameter.VAR_KEYWORD),
            reserved=reserved_names(function),
        )

    @property
    def named(self) -> tuple[Parameter, ...]:
        """The open parameters that take one value each."""
        return tuple(p for p in self.open if p.kind not in _VARIABLE)

    def arrange(
        self, values: dict[str, Any], injected: Mapping[str, Any] = NO_VALUES
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """``(args, kwargs)`` for the function. A parameter that neither argument names is left to its default."""
        if not self.positional and self.var_positional is None and self.var_keyword is None:
            return (), {**values, **injected} if injected else values
        named = {**self.defaults, **values, **injected} if self.positional else {**values, **injected}
        args = [named.pop(name) for name in self.positional if name in named]
        if self.var_positional is not None:
            args.extend(named.pop(self.var_positional))
        if self.var_keyword is not None:
            named.update(named.pop(self.var_keyword, NO_VALUES))
        return tuple(args), named

    def clashes(self, keys: Iterable[str]) -> list[str]:
        """Those `keys` of ``**kwargs`` that are parameters of the function itself: they could set what is injected or
        bound."""
        return [key for key in keys if key in self.reserved]
