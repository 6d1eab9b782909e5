"""Chooses the adapter for a model by the model's name."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from .adapter import StreamingAdapter
from .native import NativeToolAdapter
from .rules import ModelRule, ToolCallingMode, mode_for
from .text_modes import JSONObjectAdapter, OpenAIStructuredAdapter, ParsedAdapter
from .validated import ValidatedAdapter

__all__ = ["get_adapter"]

_ADAPTERS: dict[ToolCallingMode, Callable[[], StreamingAdapter]] = {
    ToolCallingMode.NATIVE: NativeToolAdapter,
    ToolCallingMode.STRUCTURED: OpenAIStructuredAdapter,
    ToolCallingMode.VALIDATED: ValidatedAdapter,
    ToolCallingMode.PARSED: ParsedAdapter,
}


def get_adapter(
    model: str, mode: ToolCallingMode | str = ToolCallingMode.AUTO, *, rules: Iterable[ModelRule] | None = None
) -> StreamingAdapter:
    """Returns the adapter for a model. No request is sent: the name decides.

    >>> type(get_adapter("gpt-4o-mini")).__name__, type(get_adapter("gpt-4o", "native")).__name__
    ('OpenAIStructuredAdapter', 'NativeToolAdapter')

    Args:
        model: the model's name as the request has it.
        mode: the way its tools are called; ``AUTO`` finds it by the name. A model that no rule knows gets JSON mode,
            with the tools in the system prompt, and validation.
        rules: instead of `DEFAULT_RULES`; ``[ModelRule(...), *DEFAULT_RULES]`` puts yours before them.

    Raises:
        TypeError: `model` is no text.
        ValueError: there is no such mode.
    """
    if not isinstance(model, str):
        raise TypeError(
            f"get_adapter() needs the model's name as the request has it, not {type(model).__name__}; "
            "write get_adapter('gpt-4o-mini')"
        )
    try:
        chosen: ToolCallingMode | None = ToolCallingMode(mode)
    except ValueError:
        known = ", ".join(known.value for known in ToolCallingMode)
        raise ValueError(f"there is no mode {mode!r}; there are: {known}") from None
    if chosen is ToolCallingMode.AUTO:
        chosen = mode_for(model, rules)
    if chosen is None:
        return ValidatedAdapter(JSONObjectAdapter())
    return _ADAPTERS[chosen]()
