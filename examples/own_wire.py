"""Adds a provider that streamtools does not know: its wire is one record, used like any other.

Acme streams JSON lines: pieces of text, whole calls, an end. Its messages have ``who`` and ``words``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from streamtools import Observation, TextDelta, pipeline, tool
from streamtools.content import Text
from streamtools.events import Event, ToolCallFragment
from streamtools.parts import Finish
from streamtools.schema.dialects import PLAIN
from streamtools.schema.names import NameRule
from streamtools.wires import Answer, CallIds, Wire, WireDecoder
from streamtools.wires.answer_builder import AnswerBuilder, CallNames
from streamtools.wires.call_format import CallFormat, ResultFormat
from streamtools.wires.history_rules import HistoryRules
from streamtools.wires.media import text_of
from streamtools.wires.tool_format import EntryFormat, ToolFormat
from streamtools.wires.transcript import CallResult, Entry, Prompt, Returned
from streamtools.wires.usage import UsageMap

FINISHES: dict[str, Finish] = {"done": "stop", "calls": "tool_calls", "full": "length"}


class AcmeDecoder(WireDecoder):
    """Decodes one response of Acme."""

    def text_delta(self, payload: dict[str, Any]) -> TextDelta | None:
        """Leaves every payload to `feed`; a fast path here is optional."""
        return None

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Returns the events of one line."""
        self.out = []
        if not self.started:
            self.emit_start(payload.get("model"), payload.get("response"))
        match payload.get("acme"):
            case "say":
                self.emit_text(str(payload.get("text", "")))
            case "call":
                self.end_part()
                arguments, problem = self.object_text(payload.get("args"), ("args",))
                call_id, name = payload.get("id"), payload.get("tool")
                self.out.append(ToolCallFragment(None, call_id, name, arguments, start=True, end=True, problem=problem))
            case "end":
                self.finish_word = str(payload.get("why"))
                self.read_usage(payload.get("used"))
                self.done = True
            case _:
                self.warn("unknown_event")
                self.emit_unknown(payload)
        return self.out

    finish_word = ""

    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        """Returns the reason why the response ended, and whether its last line came."""
        return FINISHES.get(self.finish_word), bool(self.finish_word)


def render(answer: Answer) -> list[dict[str, Any]]:
    """Returns the model's message, and one tool message for each call."""
    calls = [
        {"id": call.call_id, "name": call.name, "args": answer.arguments[call.call_id][1]} for call in answer.our_calls
    ]
    said = {"who": "model", "words": answer.text("text", "refusal"), **({"calls": calls} if calls else {})}
    results = [{"who": "tool", "id": result.call_id, "words": result.content} for result in answer.results]
    return [said, *results] if said["words"] or calls else []


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Returns a prompt as one message."""
    return [{"who": prompt.role, "words": text_of(prompt.blocks)}]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Returns Acme's messages as entries: the inverse of `render` and `render_prompt`."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        who, words, origin = message.get("who"), str(message.get("words", "")), (index, index + 1)
        if who == "model":
            answer = AnswerBuilder(names)
            if words:
                answer.text(words)
            for call in message.get("calls", ()):
                answer.call(call.get("id"), call.get("name"), call.get("args"))
            entries.append(answer.said(origin))
        elif who == "tool":
            result = CallResult(call_id=str(message.get("id")), content=words)
            entries.append(Returned(results=(result,), origin=origin))
        elif who == "system" or who == "user":
            entries.append(Prompt(role=who, blocks=(Text(words),), origin=origin))
    return entries


ACME = Wire(
    name="acme.talk",
    provider="acme",
    short_name="acme",
    decoder=AcmeDecoder,
    recognises=lambda payload: payload.get("acme") in ("say", "call", "end"),
    usage=UsageMap({"input_tokens": ("in",), "output_tokens": ("out",)}),
    # histories
    render=render,
    render_prompt=render_prompt,
    read=read,
    call_ids=CallIds(pattern=r"[a-z0-9_]{1,40}"),
    rules=HistoryRules(first_user=True, call_path="calls[{}]"),
    # the formats of calls, results and tools, for exports and conversions
    calls=(CallFormat(name="acme.talk", id="id", arguments="args", only=frozenset({"id", "name", "args"})),),
    results=ResultFormat(recognises=lambda message: message.get("who") == "tool", call_id_key="id", is_message=True),
    tools=(
        ToolFormat(
            name="acme.talk",
            dialect=PLAIN,
            names=NameRule("a-z", "a-z0-9_", 40),
            function=EntryFormat(name="acme.talk", inside="acme_tool", schema_at=("takes",)),
        ),
    ),
)

LINES = (
    {"acme": "say", "text": "Let me look. "},
    {"acme": "call", "id": "c1", "tool": "get_weather", "args": {"city": "Oslo"}},
    {"acme": "end", "why": "calls", "used": {"in": 12, "out": 5}},
)


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city.

    Args:
        city: The name of the city.
    """
    return f"rain in {city}"


async def answer() -> AsyncIterator[bytes]:
    """Streams a response as Acme's server would."""
    for line in LINES:
        yield json.dumps(line).encode() + b"\n"


async def main() -> None:
    """Asks Acme once."""
    print(json.dumps(get_weather.to(ACME)))
    async with pipeline(answer(), tools=[get_weather], wire=ACME) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    print(text)
                case Observation(tool_name=name, value=value):
                    print(f"[{name}: {value}]")
    print(json.dumps(events.turn.messages()))


if __name__ == "__main__":
    asyncio.run(main())
