"""Adds a provider after docs/providers/own-provider.md: its calls begin, grow and end by events of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamtools import wires
from streamtools.content import Text
from streamtools.events import Event
from streamtools.parts import Finish
from streamtools.schema.dialects import PLAIN
from streamtools.schema.names import NameRule

FINISHES: dict[str, Finish] = {"sailed": "stop", "cranes": "tool_calls", "hold_full": "length"}
KEYS = {"text": "words", "refusal": "words", "reasoning": "musing"}  # a part of a message has one of these, or a crane
CRANE = wires.EntryFormat(name="harbor.crane", name_at="task", description_at="about", schema_at=("load",))


class HarborDecoder(wires.GrowingDecoder):
    finish_word = ""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        self.out = []
        if not self.started:
            self.emit_start(payload.get("ship"), payload.get("voyage"))
        tide, berth, call_id = payload.get("tide"), payload.get("berth"), payload.get("id")
        match tide:
            case "muse":
                self.emit_reasoning(payload.get("wave"))
            case "say":
                self.emit_text(payload.get("wave"))
            case "dock":
                self.emit_call(berth, call_id, payload.get("task"), start=True)
            case "load" | "undock":
                self.emit_call(berth, arguments=payload.get("crate", ""), end=tide == "undock")
            case "out":
                self.finish_word, self.done = str(payload.get("why")), True
                self.read_usage(payload.get("cargo"))
            case _ if tide != "in":
                self.warn("unknown_event")
                self.emit_unknown(payload)
        return self.out

    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        return FINISHES.get(self.finish_word), bool(self.finish_word)


def render(answer: wires.Answer) -> list[dict[str, Any]]:
    calls, parts = {call.call_id: call for call in answer.our_calls}, list[dict[str, Any]]()
    for part in answer.parts:
        if call := calls.get(part.call_id or ""):
            parts.append({"crane": {"id": call.call_id, "task": call.name, "load": answer.arguments[call.call_id][1]}})
        elif part.kind in KEYS and part.text:
            parts.append({KEYS[part.kind]: part.text})
    results = [{"speaker": "quay", "crane": each.call_id, "words": each.content} for each in answer.results]
    return [{"speaker": "model", "parts": parts}, *results] if parts else []


def read(messages: Sequence[Mapping[str, Any]]) -> list[wires.Entry]:
    names, entries = wires.CallNames(), list[wires.Entry]()
    for index, message in enumerate(messages):
        who, parts, origin = message.get("speaker"), message.get("parts", ()), (index, index + 1)
        if who == "model":
            answer = wires.AnswerBuilder(names)
            for part in parts:
                if crane := part.get("crane"):
                    answer.call(crane.get("id"), crane.get("task"), crane.get("load"))
                else:
                    (answer.reasoning if "musing" in part else answer.text)(str(next(iter(part.values()))))
            entries.append(answer.reply(origin))
        elif who == "quay":
            result = wires.CallResult(call_id=str(message.get("crane")), content=str(message.get("words")))
            entries.append(wires.Returned(results=(result,), origin=origin))
        elif who == "system" or who == "user":
            entries.append(
                wires.Prompt(role=who, blocks=tuple(Text(str(part["words"])) for part in parts), origin=origin)
            )
    return entries


HARBOR = wires.Wire(
    name="harbor.radio",
    provider="harbor",
    decoder=HarborDecoder,
    recognises=lambda payload: "tide" in payload,
    usage=wires.UsageMap({"input_tokens": ("in",), "output_tokens": ("out",), "reasoning_tokens": ("muse",)}),
    render=render,
    render_prompt=lambda prompt: [{"speaker": prompt.role, "parts": [{"words": wires.text_of(prompt.blocks)}]}],
    read=read,
    call_ids=wires.CallIds(pattern=r"[A-Za-z0-9_-]{1,64}"),
    rules=wires.HistoryRules(role_key="speaker", list_name="log", results_apart=True, call_path="parts[{}].crane"),
    calls=(
        wires.CallFormat(
            name="harbor.crane", inside="crane", id="id", id_inside=True, name_at="task", arguments="load"
        ),
    ),
    results=wires.ResultFormat(recognises=lambda result: result.get("speaker") == "quay", is_message=True),
    tools=(
        wires.ToolFormat(name="harbor.radio", dialect=PLAIN, names=NameRule("a-zA-Z_", "a-z0-9_", 64), function=CRANE),
    ),
)
