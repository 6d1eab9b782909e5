"""A model that is a script: looks around, plans, asks to book, and sums up. It streams as slowly as a real one.

Asked about trams, another one answers by another API, which cites its sources and makes a picture.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio

WIRE = "anthropic.messages"
PICTURE_WIRE = "gemini.generate_content"

Call = tuple[str, dict[str, Any]]

LOOK: tuple[str, list[Call]] = (
    "Let me look at the weather and at the trains while I write. ",
    [
        ("get_weather", {"city": "Lisbon"}),
        ("find_trains", {"start": "Madrid", "to": "Lisbon", "day": "2027-05-14", "passengers": 2}),
        ("get_weather", {"city": "Porto"}),
    ],
)
BOOK: tuple[str, list[Call]] = (
    "Lisbon is warmer, and a night train leaves Madrid at 21:43. I would book two berths; please look at it first. ",
    [("book", {"train": "Lusitania 335", "berths": 2, "price_eur": 118})],
)
BOOKED = "Booked: the train leaves on Friday at 21:43. Lisbon will have 24 degrees. Enjoy the sea!"
DENIED = "Nothing is booked. The train still has berths, if you change your mind."
LOST: tuple[str, list[Call]] = ("Let me look at the weather there. ", [("get_weather", {"city": "Atlantis"})])
FAILED = "Nobody measures the weather in Atlantis. I would stay above the water: shall I look at Lisbon or Porto?"
STORY = "\n\n".join(
    [
        "Lisbon is older than most capitals of Europe: Phoenicians traded here, and Romans called the town Olisipo.",
        "From the eighth century it was Moorish. The lanes of Alfama below the castle still follow their plan, "
        "and its name is Arabic: al-hamma, the hot springs.",
        "In 1147 crusaders on their way to the Holy Land helped Afonso Henriques to take it. A century later the "
        "court moved here from Coimbra.",
        "In 1497 Vasco da Gama sailed from Belém, and came back with the way to India. Pepper paid for the "
        "monastery of the Jerónimos, whose cloister is carved like a ship's rigging.",
        "On All Saints' Day 1755 an earthquake, a wave and a fire took most of it. The marquis of Pombal had the "
        "lower town built anew as a grid, with houses that soldiers tested by marching around their models.",
        "In April 1974 the people put carnations into the soldiers' rifles, and a dictatorship of four decades "
        "was over in a day.",
        "Today trams climb the hills that the earthquake left, and a weekend is enough for the first three of seven.",
    ]
)

TRAMS = (
    "They are small, yellow and old: two axles, so that they get round the corners of Alfama. ",
    "Line 28 is this one.",
)
SOURCES = {"Trams in Lisbon": "https://en.wikipedia.org/wiki/Trams_in_Lisbon", "Carris": "https://www.carris.pt/"}
TRAM = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 120 80" width="360" height="240">'
    '<path d="M0 0h120v80H0z" fill="#bfe3f2"/><path d="M0 63h120v17H0z" fill="#8a8378"/>'
    '<path d="M0 6h120M60 6v14" stroke="#333"/><rect x="22" y="18" width="76" height="42" rx="6" fill="#f2c230"/>'
    '<path d="M22 42h76v5H22z" fill="#fff"/><path d="M30 25h16v13H30zM52 25h16v13H52zM74 25h16v13H74z" fill="#23424f"/>'
    '<circle cx="42" cy="62" r="5"/><circle cx="78" cy="62" r="5"/></svg>'
)


def script_of(messages: list[Any]) -> tuple[str, Callable[[list[Any], float], AsyncIterator[dict[str, Any]]]]:
    """Returns the wire and the script of the model that answers a history."""
    return (PICTURE_WIRE, draw) if "tram" in _said(messages) else (WIRE, answer)


async def draw(messages: list[Any], pause: float) -> AsyncIterator[dict[str, Any]]:
    """Streams an answer with a picture and its sources, with *pause* seconds before each piece."""
    before, behind = TRAMS
    picture = {"inlineData": {"mimeType": "image/svg+xml", "data": b64encode(TRAM.encode()).decode()}}
    for part in [*_words(before), picture, *_words(behind)]:
        await anyio.sleep(pause)
        yield _candidate({"content": {"role": "model", "parts": [{"text": part} if isinstance(part, str) else part]}})
    chunks = [{"web": {"uri": url, "title": title}} for title, url in SOURCES.items()]
    yield _candidate({"finishReason": "STOP", "groundingMetadata": {"groundingChunks": chunks}})


async def answer(messages: list[Any], pause: float) -> AsyncIterator[dict[str, Any]]:
    """Streams the response to a history, with *pause* seconds before each piece."""
    results, said = _results(messages), _said(messages)
    text, calls = LOOK
    if "story" in said:
        text, calls = STORY, []
    elif "atlantis" in said:
        text, calls = (FAILED, []) if results else LOST
    elif len(results) == len(LOOK[1]):
        text, calls = BOOK
    elif results:
        text, calls = (BOOKED if "booked" in json.dumps(results[-1]) else DENIED), []
    yield {"type": "message_start", "message": {"id": f"msg_{len(messages)}", "role": "assistant", "model": "script"}}
    yield _begin(0, {"type": "text", "text": ""})
    for piece in _words(text):
        await anyio.sleep(pause)
        yield _grow(0, {"type": "text_delta", "text": piece if piece[-1].isspace() else f"{piece} "})
    yield {"type": "content_block_stop", "index": 0}
    for index, (name, arguments) in enumerate(calls, 1):
        # Ids are unique in a conversation.
        yield _begin(index, {"type": "tool_use", "id": f"call_{len(messages)}_{index}", "name": name, "input": {}})
        written = json.dumps(arguments)
        for at in range(0, len(written), 5):
            await anyio.sleep(pause)
            yield _grow(index, {"type": "input_json_delta", "partial_json": written[at : at + 5]})
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": {"stop_reason": "tool_use" if calls else "end_turn"}}
    yield {"type": "message_stop"}


def _results(messages: list[Any]) -> list[Any]:
    """Returns the results since the user has said something."""
    results: list[Any] = []
    for message in messages:
        content = message["content"] if isinstance(message["content"], list) else []
        found = [block for block in content if block["type"] == "tool_result"]
        if message["role"] == "user":
            results = [*results, *found] if found else []
    return results


def _said(messages: list[Any]) -> str:
    """Returns the user's last words, in lower case."""
    for message in reversed(messages):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if message["role"] == "user" and (texts := [block["text"] for block in blocks if block["type"] == "text"]):
            return " ".join(texts).lower()
    return ""


def _words(text: str) -> list[str]:
    return re.findall(r"\S+\s*", text)


def _candidate(candidate: dict[str, Any]) -> dict[str, Any]:
    return {"responseId": "script", "modelVersion": "script", "candidates": [{"index": 0, **candidate}]}


def _begin(index: int, block: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def _grow(index: int, delta: dict[str, Any]) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}
