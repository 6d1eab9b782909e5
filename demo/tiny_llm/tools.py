"""The twelve tools that the tiny model knows by sight, and how people ask for them."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["TOOLS", "Extra", "Tool"]


@dataclass(frozen=True)
class Extra:
    """A parameter that the user may leave out."""

    name: str
    default: object
    """Used when the schema requires the parameter and the user is silent."""
    said: float
    """How often the user says it."""
    asks: tuple[str, ...]
    """Wishes that say it."""


@dataclass(frozen=True)
class Tool:
    """A tool, and everything that is said about it."""

    params: dict[str, tuple[str, str]]
    """Parameter -> JSON type, and the method of `Words` that draws it."""
    asks: tuple[str, ...]
    """Wishes that say all but the extra parameter."""
    told: str
    """How a result is told."""
    returns: str
    """The method of `Words` that draws a usual result."""
    extra: Extra | None = None
    quote: str = ""
    """The parameter that is free text, at times in quotes."""
    many: tuple[str, tuple[str, ...]] | None = None
    """A parameter in which several calls at once differ, and wishes for them."""
    then: tuple[str, str, tuple[str, ...]] | None = None
    """As a second step: the parameter that takes the first result, its kind (text, number, place), wishes."""
    first: str = ""
    """The kinds of second step that its result is good for."""


TOOLS: dict[str, Tool] = {
    "get_weather": Tool(
        {"city": ("string", "name"), "days": ("integer", "days")},
        (
            "what is the weather in {city}",
            "weather in {city}",
            "how is the weather in {city} today",
            "tell me the weather in {city}",
            "check the weather for {city}",
            "forecast for {city}",
            "what is the weather like in {city}",
        ),
        "The weather in {city} is %s.",
        "weather",
        extra=Extra(
            "days",
            1,
            0.4,
            (
                "weather in {city} for {days} days",
                "{days} day forecast for {city}",
                "forecast for {city} for the next {days} days",
                "what will the weather be in {city} for {days} days",
            ),
        ),
        many=(
            "city",
            (
                "what is the weather in {city}",
                "weather in {city}",
                "compare the weather in {city}",
                "tell me the weather in {city}",
                "check the weather in {city}",
            ),
        ),
        then=("city", "place", ("then check the weather there", "then tell me the weather there")),
        first="text",
    ),
    "add": Tool(
        {"a": ("number", "amount"), "b": ("number", "summand")},
        (
            "what is {a} plus {b}",
            "add {a} and {b}",
            "{a} + {b}",
            "sum of {a} and {b}",
            "calculate {a} + {b}",
            "how much is {a} plus {b}",
        ),
        "{a} plus {b} is %s.",
        "amount",
        then=("a", "number", ("then add {b} to it", "then add {b} to the result")),
        first="text number",
    ),
    "search": Tool(
        {"query": ("string", "phrase")},
        (
            "search for {query}",
            "search {query}",
            "find {query}",
            "look up {query}",
            "search the web for {query}",
            "find pages about {query}",
        ),
        "I found %s.",
        "phrase",
        quote="query",
        then=("query", "text", ("then search for it", "then search the web for it")),
        first="text place",
    ),
    "convert": Tool(
        {
            "amount": ("number", "amount"),
            "from_currency": ("string", "currency"),
            "to_currency": ("string", "currency"),
        },
        (
            "convert {amount} {from_currency} to {to_currency}",
            "how much is {amount} {from_currency} in {to_currency}",
            "change {amount} {from_currency} into {to_currency}",
            "what is {amount} {from_currency} in {to_currency}",
        ),
        "{amount} {from_currency} in {to_currency} is %s.",
        "amount",
        many=(
            "to_currency",
            (
                "convert {amount} {from_currency} to {to_currency}",
                "how much is {amount} {from_currency} in {to_currency}",
            ),
        ),
        then=(
            "amount",
            "number",
            (
                "then convert it from {from_currency} to {to_currency}",
                "then convert the result from {from_currency} to {to_currency}",
            ),
        ),
        first="text number",
    ),
    "get_time": Tool(
        {"city": ("string", "name")},
        (
            "what time is it in {city}",
            "time in {city}",
            "what is the time in {city}",
            "current time in {city}",
            "tell me the time in {city}",
        ),
        "The time in {city} is %s.",
        "clock",
        many=(
            "city",
            (
                "what is the time in {city}",
                "time in {city}",
                "compare the time in {city}",
                "tell me the time in {city}",
                "check the time in {city}",
            ),
        ),
        then=("city", "place", ("then tell me the time there",)),
        first="text",
    ),
    "create_ticket": Tool(
        {"title": ("string", "phrase"), "priority": ("string", "priority")},
        ("create a ticket: {title}", "open a ticket about {title}", "file a ticket {title}"),
        "Ticket {title}: %s.",
        "ticket",
        quote="title",
        extra=Extra(
            "priority",
            "medium",
            0.75,
            (
                "create a {priority} priority ticket: {title}",
                "open a ticket {title} with priority {priority}",
                "file a {priority} ticket about {title}",
                "create a ticket {title} with {priority} priority",
            ),
        ),
        then=(
            "title",
            "text",
            ("then create a {priority} priority ticket with it", "then open a {priority} ticket about it"),
        ),
    ),
    "send_email": Tool(
        {"to": ("string", "address"), "subject": ("string", "phrase")},
        (
            "email {to} about {subject}",
            "send an email to {to} about {subject}",
            "write to {to} about {subject}",
            "send {to} an email about {subject}",
            "send an email to {to} with subject {subject}",
        ),
        "Email to {to}: %s.",
        "sent",
        quote="subject",
        many=("to", ("email {to} about {subject}", "send an email to {to} about {subject}")),
        then=("subject", "text", ("then email it to {to}", "then send it to {to}", "then email the result to {to}")),
    ),
    "read_file": Tool(
        {"path": ("string", "path")},
        ("read {path}", "open {path}", "show me the file {path}", "what is in {path}", "read the file {path}"),
        "The file {path} says: %s.",
        "phrase",
        many=("path", ("read {path}", "open {path}", "read the files {path}")),
        first="text place",
    ),
    "translate": Tool(
        {"text": ("string", "phrase"), "language": ("string", "language")},
        (
            "translate {text} into {language}",
            "translate {text} to {language}",
            "how do you say {text} in {language}",
            "say {text} in {language}",
        ),
        "In {language}: %s.",
        "phrase",
        quote="text",
        many=("language", ("translate {text} into {language}", "how do you say {text} in {language}")),
        then=("text", "text", ("then translate it into {language}", "then translate it to {language}")),
        first="text",
    ),
    "book_table": Tool(
        {"restaurant": ("string", "restaurant"), "people": ("integer", "people")},
        ("book a table at {restaurant}", "reserve a table at {restaurant}"),
        "Table at {restaurant}: %s.",
        "booked",
        extra=Extra(
            "people",
            2,
            0.85,
            (
                "book a table at {restaurant} for {people}",
                "book {restaurant} for {people} people",
                "reserve a table for {people} at {restaurant}",
                "table for {people} people at {restaurant}",
                "book a table for {people} people at {restaurant}",
            ),
        ),
    ),
    "stock_price": Tool(
        {"symbol": ("string", "code")},
        (
            "stock price of {symbol}",
            "what is the stock price of {symbol}",
            "price of {symbol} stock",
            "how much is {symbol} stock",
        ),
        "The price of {symbol} is %s.",
        "amount",
        many=("symbol", ("stock price of {symbol}", "stock prices of {symbol}", "compare the stock price of {symbol}")),
        first="text number",
    ),
    "set_timer": Tool(
        {"minutes": ("integer", "minutes")},
        (
            "set a timer for {minutes} minutes",
            "timer for {minutes} minutes",
            "remind me in {minutes} minutes",
            "start a {minutes} minute timer",
        ),
        "Timer for {minutes} minutes: %s.",
        "started",
        many=("minutes", ("set timers for {minutes} minutes", "remind me in {minutes} minutes")),
        then=("minutes", "number", ("then set a timer for that many minutes",)),
    ),
}
