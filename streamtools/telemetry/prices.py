"""Counts a response's cost in money, by prices of the caller's.

    Tracing(prices={"gpt-5": {"input_tokens": 1.25, "cached_input_tokens": 0.125, "output_tokens": 10}})

A price is for a million tokens of a count of `streamtools.Usage`. Counts that are parts of another one (those from the
cache, sound) are paid at their own price where there is one, and else as the rest of the whole. No price is built in:
they change, and differ by contract.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from ..parts import COUNTS, Usage

__all__ = ["Prices", "checked_prices", "cost_of"]

Prices: TypeAlias = Mapping[str, Mapping[str, float]] | Callable[[str | None, Usage], float | None]
"""The prices of models, by the beginning of their names; or a function of the model's name and the usage, which returns
the cost, or None if it does not know it."""

MILLION = 1_000_000

_PARTS: Mapping[str, str] = {count: facts.part_of for count, facts in COUNTS.items() if facts.part_of is not None}


def checked_prices(prices: Prices | None) -> Prices | None:
    """Returns the prices.

    Raises:
        ValueError: a price is for no count of `Usage`.
        TypeError: they are neither a mapping of mappings nor a function, or a price is no number.
    """
    if prices is None or callable(prices):
        return prices
    if not isinstance(prices, Mapping) or not all(isinstance(one, Mapping) for one in prices.values()):
        raise TypeError('prices is a function, or has the prices of each model: {"gpt-5": {"input_tokens": 1.25}}')
    for model, price in prices.items():
        for count, each in price.items():
            if count not in COUNTS:
                raise ValueError(f"prices[{model!r}]: unknown count {count!r}; there are {', '.join(COUNTS)}")
            if isinstance(each, bool) or not isinstance(each, (int, float)):
                raise TypeError(f"prices[{model!r}][{count!r}] is {type(each).__name__}, not a number")
    return prices


def cost_of(prices: Prices | None, models: tuple[str | None, ...], usage: Usage | None) -> float | None:
    """Returns the cost of a response; None if no price is known.

    Args:
        prices: the prices.
        models: the model's names, the surest first: the provider's own, and the one that was asked for.
        usage: the tokens.
    """
    if prices is None or usage is None:
        return None
    if callable(prices):
        return prices(next((name for name in models if name), None), usage)
    for model in models:
        known = [name for name in prices if model is not None and model.startswith(name)]
        if known:
            return _cost(prices[max(known, key=len)], usage)
    return None


def _cost(price: Mapping[str, float], usage: Usage) -> float:
    left = {name: getattr(usage, name) or 0 for name in COUNTS}
    for part, whole in _PARTS.items():
        if part in price:
            while whole not in price and whole in _PARTS:
                whole = _PARTS[whole]
            left[whole] -= left[part]
    return sum(max(0, left[name]) * price[name] for name in price) / MILLION
