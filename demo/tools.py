"""The tools that the demo's model may call. They invent their answers, but always the same for the same arguments.

Each takes a moment, as a real one would: between 0.2 and 0.6 seconds, different from call to call, so that one sees
several of them run at the same time.
"""

from __future__ import annotations

import zlib

import anyio

from streamtools import ToolError, tool

__all__ = ["TOOLS"]

PER_EURO = {"EUR": 1.0, "USD": 1.09, "GBP": 0.85, "JPY": 163.0, "CHF": 0.95, "SEK": 11.4, "INR": 91.0, "BRL": 5.9}
"""What one euro was worth when this was written."""


@tool(effect="pure")
async def get_weather(city: str, days: int = 1) -> str:
    """Weather forecast for a city.

    Args:
        city: City name, as a person would write it.
        days: How many days ahead, 1 to 14.
    """
    return f"{await _answer('get_weather', city, days) % 30 + 1} degrees"


@tool(effect="pure")
async def get_time(city: str) -> str:
    """Local time in a city.

    Args:
        city: City name, as a person would write it.
    """
    number = await _answer("get_time", city)
    return f"{number % 24:02d}:{number // 24 % 60:02d}"


@tool(effect="pure")
async def add(a: float, b: float) -> float:
    """Sum of two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    await _answer("add", a, b)
    return _plain(a + b)


@tool(effect="pure")
async def convert(amount: float, from_currency: str, to_currency: str) -> float:
    """Convert an amount of money.

    Args:
        amount: How much.
        from_currency: What it is in, by its code of three letters.
        to_currency: What it shall be in, by its code of three letters.
    """
    await _answer("convert", amount, from_currency, to_currency)
    for code in (from_currency, to_currency):
        if code not in PER_EURO:
            raise ToolError("no rate")  # the model tells it in these words; more of them would confuse it
    return _plain(amount * PER_EURO[to_currency] / PER_EURO[from_currency])


@tool(effect="pure")
async def search(query: str) -> str:
    """Search the web.

    Args:
        query: What to look for.
    """
    return f"{await _answer('search', query) % 90 + 2} pages about {query}"


@tool(effect="pure")
async def stock_price(symbol: str) -> float:
    """Price of a stock, in US dollars.

    Args:
        symbol: The stock's symbol.
    """
    return _plain((await _answer("stock_price", symbol) % 40_000 + 500) / 100)


TOOLS = (get_weather, get_time, add, convert, search, stock_price)
"""All of them. The model was trained with these names and parameters."""


async def _answer(*question: object) -> int:
    """Take a moment; a number that depends on nothing but the question."""
    number = zlib.crc32(repr(question).encode())
    await anyio.sleep(0.2 + number % 401 / 1000)
    return number >> 9  # a long answer is no different from a quick one


def _plain(number: float) -> float:
    """Two decimals, and none where there is nothing to say: the model reads what JSON makes of it."""
    number = round(number, 2)
    return int(number) if number.is_integer() else number
