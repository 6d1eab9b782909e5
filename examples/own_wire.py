"""Adds a provider that streamtools does not know: its wire is one record, used like any other.

Example streams JSON lines: pieces of text, whole calls, an end. Its words are its own: a message has ``who`` and
``words``, a tool is a ``skill``, and all answers to the calls of one turn stand in one message.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from streamtools import Observation, TextDelta, pipeline, tool
from streamtools.content import Text
from streamtools.events import Event
from streamtools.parts import Finish
from streamtools.schema.dialects import PLAIN
from streamtools.schema.names import NameRule
from streamtools.wires import (
    Answer,
    AnswerBuilder,
    CallFormat,
    CallIds,
    CallNames,
    CallResult,
    Entry,
    EntryFormat,
    HistoryRules,
    Prompt,
    ResultFormat,
    Returned,
    ToolFormat,
    UsageMap,
    Wire,
    WireDecoder,
    text_of,
)

FINISHES: dict[str, Finish] = {"done": "stop", "calls": "tool_calls", "full": "length"}


class ExampleDecoder(WireDecoder):
    """Decodes one response of Example."""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Returns the events of one line."""
        self.out = []
        if not self.started:
            self.emit_start(payload.get("model"), payload.get("response"))
        match payload.get("line"):
            case "say":
                self.emit_text(payload.get("text"))
            case "call":
                self.end_part()
                call_id, name, arguments = payload.get("id"), payload.get("skill"), payload.get("args")
                self.emit_call(None, call_id, name, arguments, path=("args",), start=True, end=True)
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


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    """Returns the model's message."""
    calls = [
        {"id": call.call_id, "skill": call.name, "args": answer.arguments[call.call_id][1]} for call in answer.our_calls
    ]
    said = {"who": "model", "words": answer.text("text", "refusal"), **({"calls": calls} if calls else {})}
    return [said] if said["words"] or calls else []


def render_results(answer: Answer) -> list[dict[str, Any]]:
    """Returns the message with the answers to the model's calls."""
    return EXAMPLE.results.as_messages([{"id": one.call_id, "words": one.content} for one in answer.results])


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Returns a prompt as one message."""
    return [{"who": prompt.role, "words": text_of(prompt.blocks)}]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Returns Example's messages as entries: the inverse of the functions above."""
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        who, words, origin = message.get("who"), str(message.get("words", "")), (index, index + 1)
        if who == "model":
            answer = AnswerBuilder(names)
            if words:
                answer.text(words)
            for call in message.get("calls", ()):
                answer.call(call.get("id"), call.get("skill"), call.get("args"))
            entries.append(answer.reply(origin))
        elif who == "skills":
            answers = message.get("answers", ())
            results = (CallResult(call_id=str(each.get("id")), content=str(each.get("words"))) for each in answers)
            entries.append(Returned(results=tuple(results), origin=origin))
        elif who == "system" or who == "user":
            entries.append(Prompt(role=who, blocks=(Text(words),), origin=origin))
    return entries


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns the field of a request that holds its tools."""
    return {"skills": entries}


EXAMPLE = Wire(
    name="example.talk",
    provider="example",
    short_name="example",
    decoder=ExampleDecoder,
    recognises=lambda payload: payload.get("line") in ("say", "call", "end"),
    usage=UsageMap({"input_tokens": ("in",), "output_tokens": ("out",)}),
    # histories
    render_reply=render_reply,
    render_results=render_results,
    render_prompt=render_prompt,
    read=read,
    call_ids=CallIds(pattern=r"[a-z0-9_]{1,40}"),
    rules=HistoryRules(role_key="who", first_user=True, results_in_one_message=True, call_path="calls[{}]"),
    # the formats of calls, results and tools, for exports and conversions
    calls=(
        CallFormat(
            name="example.talk.skill",
            name_at="skill",
            id="id",
            arguments="args",
            only=frozenset({"id", "skill", "args"}),
        ),
    ),
    results=ResultFormat(
        recognises=lambda result: result.keys() == {"id", "words"},
        list_key="answers",
        head={"who": "skills"},
    ),
    tools=(
        ToolFormat(
            name="example.talk",
            dialect=PLAIN,
            names=NameRule("a-z", "a-z0-9_", 40),
            function=EntryFormat(
                name="example.talk.skill", name_at="skill", description_at="about", schema_at=("takes",)
            ),
            request=request,
        ),
    ),
)

LINES = (
    {"line": "say", "text": "Let me look. "},
    {"line": "call", "id": "c1", "skill": "get_weather", "args": {"city": "Oslo"}},
    {"line": "end", "why": "calls", "used": {"in": 12, "out": 5}},
)


@tool(effect="pure")
async def get_weather(city: str) -> str:
    """Weather in a city.

    Args:
        city: The name of the city.
    """
    return f"rain in {city}"


async def answer() -> AsyncIterator[bytes]:
    """Streams a response as Example's server would."""
    for line in LINES:
        yield json.dumps(line).encode() + b"\n"


async def main() -> None:
    """Asks Example once."""
    print(json.dumps(get_weather.to(EXAMPLE)))
    async with pipeline(answer(), tools=[get_weather], wire=EXAMPLE) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    print(text)
                case Observation(tool_name=name, value=value):
                    print(f"[{name}: {value}]")
    print(json.dumps(events.turn.messages()))


if __name__ == "__main__":
    asyncio.run(main())
