"""The same disorder has the same verdict on every wire that can express it, and no call runs with other arguments.

A valid stream of up to three calls, in the terms that all wires share (a call begins, grows by a piece, ends), is bent
in one way or in two, and said on each wire. By its `SEED` every run bends the same streams.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from cohere_streams import START
from cohere_streams import end as cohere_end
from cohere_streams import event as cohere_event
from profiles import FULL, every
from responses_streams import CREATED, ended
from sansio import check_turn
from streams import chat_chunk
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, INTERACTIONS, REALTIME, RESPONSES

from streamtools import Turn, parse

Payload = dict[str, Any]
SEED = 20261124
STREAMS = 1_000 if FULL else 150
"""How many bent streams there are of each wire."""


class Said(NamedTuple):
    """One event, whatever the wire: of the call with this id, at its index."""

    kind: str
    index: int
    id: str
    text: str = ""
    """A piece of arguments; at the end, all of them."""


@dataclass(frozen=True, kw_only=True)
class Wire:
    """How a wire says these events."""

    head: list[Payload]
    begin: Callable[[Said], Payload]
    piece: Callable[[Said], Payload]
    end: Callable[[Said], Payload] | None
    """None where a call has no end of its own."""
    tail: list[Payload]
    repeats: bool = False
    """Whether the end has all arguments again."""

    def payloads(self, events: list[Said]) -> list[Payload]:
        makers = {"begin": self.begin, "piece": self.piece, "end": self.end}
        said = [make(event) for event in events if (make := makers[event.kind]) is not None]
        return [*self.head, *said, *self.tail]


def item(said: Said, **more: Any) -> Payload:
    ids = {"id": f"fc_{said.id}", "call_id": said.id}
    return {"type": "function_call", **ids, "name": "send", "arguments": "", **more}


def of_response(kind: str, said: Said, **more: Any) -> Payload:
    return {"type": f"response.{kind}", "output_index": said.index, **more}


ITEMS: dict[str, Any] = {
    "begin": lambda said: of_response("output_item.added", said, item=item(said)),
    "piece": lambda said: of_response("function_call_arguments.delta", said, item_id=f"fc_{said.id}", delta=said.text),
    "end": lambda said: of_response("output_item.done", said, item=item(said, arguments=said.text)),
    "repeats": True,
}

WIRES: dict[str, Wire] = {
    ANTHROPIC: Wire(
        head=[{"type": "message_start", "message": {"id": "msg_1", "model": "c", "content": []}}],
        begin=lambda said: {
            "type": "content_block_start",
            "index": said.index,
            "content_block": {"type": "tool_use", "id": said.id, "name": "send", "input": {}},
        },
        piece=lambda said: {
            "type": "content_block_delta",
            "index": said.index,
            "delta": {"type": "input_json_delta", "partial_json": said.text},
        },
        end=lambda said: {"type": "content_block_stop", "index": said.index},
        tail=[{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}],
    ),
    BEDROCK: Wire(
        head=[{"messageStart": {"role": "assistant"}}],
        begin=lambda said: {
            "contentBlockStart": {
                "contentBlockIndex": said.index,
                "start": {"toolUse": {"toolUseId": said.id, "name": "send"}},
            }
        },
        piece=lambda said: {
            "contentBlockDelta": {"contentBlockIndex": said.index, "delta": {"toolUse": {"input": said.text}}}
        },
        end=lambda said: {"contentBlockStop": {"contentBlockIndex": said.index}},
        tail=[{"messageStop": {"stopReason": "tool_use"}}, {"metadata": {"usage": {"inputTokens": 1}}}],
    ),
    COHERE: Wire(
        head=[START],
        begin=lambda said: cohere_event(
            "tool-call-start", said.index, tool_calls={"id": said.id, "type": "function", "function": {"name": "send"}}
        ),
        piece=lambda said: cohere_event(
            "tool-call-delta", said.index, tool_calls={"function": {"arguments": said.text}}
        ),
        end=lambda said: cohere_event("tool-call-end", said.index),
        tail=[cohere_end("TOOL_CALL")],
    ),
    INTERACTIONS: Wire(
        head=[{"event_type": "interaction.created", "interaction": {"id": "v1_a", "status": "in_progress"}}],
        begin=lambda said: {
            "event_type": "step.start",
            "index": said.index,
            "step": {"type": "function_call", "id": said.id, "name": "send", "arguments": {}},
        },
        piece=lambda said: {
            "event_type": "step.delta",
            "index": said.index,
            "delta": {"type": "arguments_delta", "arguments": said.text},
        },
        end=lambda said: {"event_type": "step.stop", "index": said.index},
        tail=[{"event_type": "interaction.completed", "interaction": {"id": "v1_a", "status": "requires_action"}}],
    ),
    RESPONSES: Wire(head=[CREATED], tail=[ended()], **ITEMS),
    REALTIME: Wire(
        head=[{"type": "response.created", "event_id": "e1", "response": {"id": "resp_1", "status": "in_progress"}}],
        tail=[{"type": "response.done", "event_id": "e2", "response": {"id": "resp_1", "status": "completed"}}],
        **ITEMS,
    ),
    CHAT: Wire(
        head=[],
        begin=lambda said: chat_chunk(
            {
                "tool_calls": [
                    {
                        "index": said.index,
                        "id": said.id,
                        "type": "function",
                        "function": {"name": "send", "arguments": ""},
                    }
                ]
            }
        ),
        piece=lambda said: chat_chunk({"tool_calls": [{"index": said.index, "function": {"arguments": said.text}}]}),
        end=None,
        tail=[chat_chunk({}, "tool_calls")],
    ),
}

GROUPS: dict[str, tuple[str, ...]] = {
    "marked": (ANTHROPIC, BEDROCK, COHERE, INTERACTIONS),
    "whole at the end": (RESPONSES, REALTIME),
    "unmarked": (CHAT,),
}

# -- valid streams, and how they are bent ----------------------------------------------------------------------------

Bend = Callable[[random.Random, list[Said]], list[Said]]


def valid(dice: random.Random) -> list[Said]:
    """Up to three calls, one after another, each at an index of its own."""
    events = []
    for index in range(dice.randint(1, 3)):
        text = json.dumps({"audience": f"room {index}"}) if dice.random() < 0.9 else "{}"
        cuts = sorted(dice.sample(range(1, len(text)), min(dice.randint(0, 2), len(text) - 1)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        events += [
            Said("begin", index, f"call_{index}"),
            *(Said("piece", index, f"call_{index}", piece) for piece in pieces),
            Said("end", index, f"call_{index}", text),
        ]
    return events


def one_call(dice: random.Random, events: list[Said]) -> str:
    return dice.choice(sorted({event.id for event in events}))


def place_of(kind: str, call: str, events: list[Said]) -> int | None:
    return next((at for at, event in enumerate(events) if (event.kind, event.id) == (kind, call)), None)


def moved(events: list[Said], which: list[int], to: int) -> list[Said]:
    taken = [events[at] for at in which]
    rest = [event for at, event in enumerate(events) if at not in which]
    to -= sum(at < to for at in which)
    return [*rest[:to], *taken, *rest[to:]]


def early(dice: random.Random, events: list[Said]) -> list[Said]:
    """Moves the first pieces of a call before its beginning."""
    call = one_call(dice, events)
    begin, pieces = place_of("begin", call, events), [at for at, e in enumerate(events) if e[:3:2] == ("piece", call)]
    if begin is None or not pieces:
        return events
    return moved(events, pieces[: dice.randint(1, len(pieces))], begin)


def late(dice: random.Random, events: list[Said]) -> list[Said]:
    """Moves the last pieces of a call behind its end."""
    call = one_call(dice, events)
    end, pieces = place_of("end", call, events), [at for at, e in enumerate(events) if e[:3:2] == ("piece", call)]
    if end is None or not pieces:
        return events
    return moved(events, pieces[-dice.randint(1, len(pieces)) :], end + 1)


def begun_twice(dice: random.Random, events: list[Said]) -> list[Said]:
    call = one_call(dice, events)
    begin = place_of("begin", call, events)
    if begin is None:
        return events
    last = max(at for at, event in enumerate(events) if event.id == call and event.kind != "end")
    to = dice.randint(begin + 1, last + 1)
    return [*events[:to], events[begin], *events[to:]]


def ended_twice(dice: random.Random, events: list[Said]) -> list[Said]:
    end = place_of("end", one_call(dice, events), events)
    return events if end is None else [*events[: end + 1], *events[end:]]


def never_ended(dice: random.Random, events: list[Said]) -> list[Said]:
    end = place_of("end", one_call(dice, events), events)
    return events if end is None else [*events[:end], *events[end + 1 :]]


def interleaved(dice: random.Random, events: list[Said]) -> list[Said]:
    """Mixes the events of the calls, each call's in their order."""
    lines = [[event for event in events if event.id == call] for call in sorted({event.id for event in events})]
    mixed = []
    while lines := [line for line in lines if line]:
        mixed.append(dice.choice(lines).pop(0))
    return mixed


def on_one_index(dice: random.Random, events: list[Said]) -> list[Said]:
    """Gives all calls the index of the first."""
    return [event._replace(index=0) for event in events]


def sent_twice(dice: random.Random, events: list[Said]) -> list[Said]:
    """Sends a call again, whole, behind its end."""
    call = one_call(dice, events)
    end = place_of("end", call, events)
    again = [event for event in events if event.id == call]
    return events if end is None else [*events[: end + 1], *again, *events[end + 1 :]]


BENDS: dict[str, Bend] = {
    bend.__name__: bend
    for bend in (early, late, begun_twice, ended_twice, never_ended, interleaved, on_one_index, sent_twice)
}


def bent(dice: random.Random) -> tuple[list[str], list[Said], dict[str, str]]:
    """A stream that was bent once or twice: how, its events, and what the valid one gave each call."""
    events = valid(dice)
    given = {event.id: event.text for event in events if event.kind == "end"}
    names = dice.sample(sorted(BENDS), dice.randint(1, 2))
    for name in names:
        events = BENDS[name](dice, events)
    return names, events, given


# -- the laws --------------------------------------------------------------------------------------------------------


def verdict(turn: Turn) -> dict[str, tuple[str, Any]]:
    """By id, the status and arguments of each call; made-up ids differ from wire to wire."""
    return {
        f"made up {at}" if call.call_id_synthesized else call.call_id: (call.status, call.arguments)
        for at, call in enumerate(turn.calls)
        if call.name
    }


@every("group", GROUPS)
def test_a_disorder_has_one_verdict_and_nothing_runs_with_other_arguments(group: str) -> None:
    dice, problems = random.Random(SEED), []
    for number in range(STREAMS):
        names, events, given = bent(dice)
        found = {}
        for wire in GROUPS[group]:
            turn = parse(WIRES[wire].payloads(events), wire=wire, tools=["send"])
            check_turn(turn)
            found[wire] = verdict(turn)
            wrong = [
                f"{number} {names} {wire}: {call.call_id} runs with {call.arguments}"
                for call in turn.calls
                if call.dispatchable and call.arguments != json.loads(given.get(call.call_id, "null"))
            ]
            ran = [call.call_id for call in turn.calls if call.dispatchable]
            problems += [*wrong, *([f"{number} {names} {wire}: ran twice: {ran}"] if len(set(ran)) < len(ran) else [])]
        first = found[GROUPS[group][0]]
        problems += [f"{number} {names}: {first} but {wire}: {it}" for wire, it in found.items() if it != first]
    assert not problems, f"{len(problems)} of {STREAMS}:\n" + "\n".join(problems[:20])


SHARED = ("early", "begun_twice", "interleaved")
"""What a wire without ends can express, too."""


def test_what_a_wire_without_ends_can_express_has_the_verdict_of_one_with_ends() -> None:
    dice, problems = random.Random(SEED), []
    for number in range(STREAMS):
        events = valid(dice)
        names = dice.sample(SHARED, dice.randint(1, 2))
        for name in names:
            events = BENDS[name](dice, events)
        chat, anthropic = (
            verdict(parse(WIRES[wire].payloads(events), wire=wire, tools=["send"])) for wire in (CHAT, ANTHROPIC)
        )
        if chat != anthropic:
            problems.append(f"{number} {names}: {chat} but {anthropic}")
    assert not problems, f"{len(problems)} of {STREAMS}:\n" + "\n".join(problems[:20])


# -- events that come twice, by their cursor -------------------------------------------------------------------------

WORDS = [f"word {number} " for number in range(40)]


def message(index: int, *content: Payload) -> Payload:
    return {"type": "message", "id": f"msg_{index}", "role": "assistant", "content": list(content)}


def with_text(wire: str) -> list[Payload]:
    """A text in many pieces, a call in many, and a text again."""
    arguments = [Said("piece", 1, "call_1", piece) for piece in ('{"audience": "', *WORDS, '"}')]
    call = [Said("begin", 1, "call_1"), *arguments, Said("end", 1, "call_1", "".join(each.text for each in arguments))]
    if wire == INTERACTIONS:
        texts = [
            [
                {"event_type": "step.start", "index": index, "step": {"type": "model_output"}},
                *(
                    {"event_type": "step.delta", "index": index, "delta": {"type": "text", "text": word}}
                    for word in WORDS
                ),
                {"event_type": "step.stop", "index": index},
            ]
            for index in (0, 2)
        ]
    else:
        texts = [
            [
                {"type": "response.output_item.added", "output_index": index, "item": message(index)},
                *(
                    {
                        "type": "response.output_text.delta",
                        "output_index": index,
                        "item_id": f"msg_{index}",
                        "content_index": 0,
                        "delta": word,
                    }
                    for word in WORDS
                ),
                {
                    "type": "response.output_item.done",
                    "output_index": index,
                    "item": message(index, {"type": "output_text", "text": "".join(WORDS), "annotations": []}),
                },
            ]
            for index in (0, 2)
        ]
    said = WIRES[wire]
    return [*said.head, *texts[0], *said.payloads(call)[len(said.head) : -len(said.tail)], *texts[1], *said.tail]


CURSORS: dict[str, dict[str, Callable[[int], Any]]] = {
    RESPONSES: {"sequence_number": lambda number: number},
    REALTIME: {"event_id": lambda number: f"event_{number:x}Zz"},
    INTERACTIONS: {"event_id": lambda number: f"ev-{number * 7919 % 1009}=="},
}


def as_sent(payloads: list[Payload], form: str) -> Any:
    if form == "parsed":
        return payloads
    separators = (",", ":") if form == "compact" else None
    return b"".join(b"data: %s\n\n" % json.dumps(each, separators=separators).encode() for each in payloads)


FORMS = ("parsed", "compact", "spaced")


@every("wire", CURSORS)
def test_events_that_come_twice_are_taken_once(wire: str) -> None:
    for form in FORMS:
        taken_once(wire, form)


def taken_once(wire: str, form: str) -> None:
    dice = random.Random(SEED)
    ((field, cursor_of),) = CURSORS[wire].items()
    payloads = [{**payload, field: cursor_of(number)} for number, payload in enumerate(with_text(wire))]
    valid_turn = parse(as_sent(payloads, form), wire=wire, tools=["send"])
    assert valid_turn.text == "".join(WORDS * 2)
    assert not valid_turn.warnings
    for _ in range(STREAMS // 10):
        begin = dice.randrange(1, len(payloads) - 2)
        end = min(len(payloads) - 1, begin + dice.choice((1, 1, 2, 3, 10, 30)))
        again = [*payloads[:end], *payloads[begin:end], *payloads[end:]]
        turn = parse(as_sent(again, form), wire=wire, tools=["send"])
        assert turn.parts == valid_turn.parts, (begin, end)
        assert [warning.code for warning in turn.warnings] == ["event_repeated"]


@every("wire", CURSORS)
def test_cursors_that_name_no_event_lose_nothing(wire: str) -> None:
    ((field, cursor_of),) = CURSORS[wire].items()
    payloads = with_text(wire)
    ways: list[Callable[[int], int]] = [lambda at: 0, lambda at: at // 50 + 1, lambda at: -at]
    for form, number_of in product(FORMS, ways):
        sent = [{**payload, field: cursor_of(number_of(at))} for at, payload in enumerate(payloads)]
        turn = parse(as_sent(sent, form), wire=wire, tools=["send"])
        assert turn.text == "".join(WORDS * 2)
        assert [call.arguments for call in turn.calls] == [{"audience": "".join(WORDS)}]


def test_an_event_that_was_overtaken_is_no_event_that_came_before() -> None:
    payloads = [{**payload, "sequence_number": at} for at, payload in enumerate(with_text(RESPONSES))]
    for late_one in range(2, 30):
        sent = [*payloads[:late_one], *payloads[late_one + 1 : 35], payloads[late_one], *payloads[35:]]
        turn = parse(as_sent(sent, "compact"), wire=RESPONSES, tools=["send"])
        assert sorted(turn.text.split("word")) == sorted("".join(WORDS * 2).split("word"))
