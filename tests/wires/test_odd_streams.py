"""Odd streams, and every event that comes of them: what a decoder makes of what it was never promised.

The tables hold the streams, the files in `golden` the events, each with all that it holds: a line that changes there is
a change for users. `PYTHONPATH=.:tests python tests/wires/test_odd_streams.py` writes the files anew: read the diff.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Any

from every_wire import ANTHROPIC, CHAT

from streamtools import Limits, StreamDecoder
from streamtools.errors import LimitExceeded
from streamtools.events import Event, StreamEnd, StreamStart, ToolCallDelta, ToolCallFragment
from streamtools.stages.accumulate import Accumulate

GOLDEN = Path(__file__).parent / "golden"
LEFT_OUT = {"seq", "step", "time", "causes"}
Payload = dict[str, Any]


@dataclass(frozen=True)
class Odd:
    payloads: list[Any]
    limits: Limits


def odd(*payloads: Any, **limits: int) -> Odd:
    return Odd(list(payloads), Limits(**limits))


def written(value: Any) -> str:
    """A value with all that it holds, but what is as it is without it."""
    if isinstance(value, BaseException):
        return f"{type(value).__name__}({str(value)!r})"
    if is_dataclass(value):
        held = [f"{each.name}={written(found)}" for each, found in _held(value)]
        return f"{type(value).__name__}({', '.join(held)})"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {written(found)}" for key, found in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(written, value)) + "]"
    return repr(value)


def _held(value: Any) -> Iterator[tuple[Any, Any]]:
    for each in fields(value):
        default = each.default_factory() if each.default_factory is not MISSING else each.default
        found = getattr(value, each.name)
        if each.name not in LEFT_OUT and not each.name.startswith("_") and (default is MISSING or found != default):
            yield each, found


def events_of(wire: str, case: Odd) -> list[str]:
    decoder = StreamDecoder(wire=wire, limits=case.limits)
    found: list[str] = []
    for events in (*map(decoder.feed, case.payloads), decoder.finish()):
        found += map(shown, events)
    return found


def shown(event: Event) -> str:
    preview = f" shows {event.preview!r}" if isinstance(event, ToolCallDelta) else ""
    return f"{written(event)}{preview}"


# -- Messages ----------------------------------------------------------------------------------------------------------


def start(**message: Any) -> Payload:
    return {"type": "message_start", "message": {"id": "m", "model": "c", "content": []} | message}


def begin(index: Any, block: Any) -> Payload:
    return {"type": "content_block_start", "index": index, "content_block": block}


def stop(index: Any, **fields: Any) -> Payload:
    return {"type": "content_block_stop", "index": index, **fields}


def delta(index: Any, kind: Any, **value: Any) -> Payload:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **value}}


def text(index: Any, value: Any, **fields: Any) -> Payload:
    return delta(index, "text_delta", text=value) | fields


def think(index: Any, value: Any) -> Payload:
    return delta(index, "thinking_delta", thinking=value)


def sign(index: Any, value: Any) -> Payload:
    return delta(index, "signature_delta", signature=value)


def cite(index: Any, value: Any) -> Payload:
    return delta(index, "citations_delta", citation=value)


def arguments(index: Any, value: Any) -> Payload:
    return delta(index, "input_json_delta", partial_json=value)


def reason(word: Any, **fields: Any) -> Payload:
    return {"type": "message_delta", "delta": {"stop_reason": word}, **fields}


STOP = {"type": "message_stop"}
END = (reason("end_turn"), STOP)
TEXT = {"type": "text", "text": ""}
THINKING = {"type": "thinking", "thinking": ""}
REDACTED = {"type": "redacted_thinking", "data": "d"}
TOOL = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
OPEN = (
    *(start(), begin(0, TEXT), text(0, "x"), begin(1, TOOL), arguments(1, "{")),
    *(begin(2, THINKING), think(2, "Hm"), sign(2, "S"), begin(3, REDACTED), reason("tool_use")),
)

MESSAGES = {
    "a start that has content": odd(
        start(
            content=[
                {"type": "text", "text": "Hi", "citations": [{"a": 1}], "x": 1},
                {"type": "thinking", "thinking": "Hm", "signature": "S"},
                TOOL | {"input": {"n": 1}, "caller": {"type": "direct"}},
                TOOL | {"id": "t2", "input": '{"n":'},
                7,
            ],
            stop_reason="tool_use",
            usage={"input_tokens": 3},
        ),
        STOP,
    ),
    "a start again, and another": odd(start(), start(), start(id="n"), *END),
    "a start whose content is no list": odd(start(content="x"), *END),
    "a start that is none": odd(start() | {"message": None}, *END),
    "reasons that differ": odd(start(), reason("end_turn"), reason("end_turn"), reason("max_tokens"), STOP),
    "bad news, and better": odd(start(), reason("refusal"), reason("end_turn"), STOP),
    "a new reason, and a known one": odd(start(), reason("new"), reason("end_turn"), STOP),
    "a new reason": odd(start(), reason("new"), STOP),
    "without a reason": odd(
        *(start(), reason(None), reason(""), reason(7)),
        *({"type": "message_delta", "delta": None, "usage": {"output_tokens": 2}}, STOP),
    ),
    "a reason of calls without any": odd(start(), reason("tool_use"), STOP),
    "a call of the server alone": odd(
        start(), begin(0, TOOL | {"type": "server_tool_use"}), stop(0), reason("tool_use"), STOP
    ),
    "without an end": odd(*OPEN),
    "without stops": odd(*OPEN, STOP),
    "an error": odd(*OPEN, {"type": "error", "error": {"type": "overloaded_error", "message": "busy", "x": 1}, "y": 2}),
    "after the end": odd(start(), *END, begin(0, TEXT), text(0, "x"), {"type": "ping"}),
    "thinking with text between": odd(
        *(start(), begin(0, THINKING), think(0, "a"), begin(1, TEXT), text(1, "b"), sign(0, "S"), think(0, "c")),
        *(stop(0), text(1, "d"), cite(1, {"n": 1}), stop(1), cite(1, {"n": 2}), *END),
    ),
    "signatures alone": odd(
        *(start(), begin(0, THINKING), sign(0, "S"), sign(0, ""), sign(0, 7), sign(0, "T"), stop(0), sign(9, "U")),
        *(begin(1, THINKING), stop(1), begin(2, TEXT), sign(2, "V"), text(2, "x"), stop(2), *END),
    ),
    "thinking that is not signed": odd(start(), begin(0, THINKING), think(0, "a"), think(0, None), stop(0), *END),
    "signatures in starts": odd(
        *(start(), begin(0, THINKING | {"thinking": "a", "signature": "S"}), stop(0)),
        *(begin(1, THINKING | {"thinking": "b", "signature": ""}), stop(1)),
        *(begin(2, THINKING | {"thinking": 7, "signature": 7}), stop(2), *END),
    ),
    "citations": odd(
        *(start(), begin(0, TEXT | {"citations": [{"n": 0}]}), text(0, "a"), cite(0, {"n": 1}), stop(0)),
        *(begin(1, TEXT), cite(1, {"n": 2}), stop(1), cite(7, {"n": 3}), begin(2, TEXT), cite(2, None), *END),
    ),
    "fields that nobody reads": odd(
        *(start(new=1) | {"new": 2}, begin(0, TEXT | {"y": 1}), text(0, "a", x=1), text(0, "b", x=1)),
        *(delta(0, "text_delta", text="c", z=1), delta(0, "text_delta", text="d", z=2), text(0, "e"), think(0, "f")),
        *(arguments(0, "") | {"z": 3}, delta(0, "signature_delta", signature="S", z=4), stop(0, w=1)),
        *({"type": "ping", "v": 1}, reason("end_turn", u=1), STOP | {"t": 1}),
    ),
    "types that nobody knows": odd(
        *(start(), begin(0, TEXT), delta(0, "new_delta", a=1), delta(0, 7, a=1), delta(5, "n" * 30, a=1), stop(0)),
        *(begin(1, {"type": "new" * 10, "a": 1}), stop(1), begin(2, {"type": "my_tool_result", "a": 1}), stop(2)),
        *(begin(3, {"type": 7}), stop(3), begin(4, {}), stop(4), {"type": "new"}, {"type": 7}, *END),
        max_name_bytes=20,
    ),
    "an item with a part that nobody knows": odd(
        start(), begin(0, REDACTED), delta(0, "new_delta", a=1), stop(0), begin(1, REDACTED), stop(1), *END
    ),
    "deltas of another type": odd(
        *(start(), begin(0, TEXT), think(0, "a"), arguments(0, "{}"), stop(0), begin(1, TOOL), text(1, "b"), stop(1)),
        *(begin(2, {}), text(2, "c"), text(2, "d"), stop(2), begin(3, {}), think(3, "e"), sign(3, "S"), stop(3), *END),
    ),
    "deltas too late and too early": odd(
        *(start(), arguments(0, "{"), text(1, "a"), think(2, "b"), begin(0, TEXT), stop(0), arguments(0, "{")),
        *(text(0, "c"), stop(0), stop(8), stop({}), stop(None), arguments(None, "x"), *END),
    ),
    "arguments too early": odd(
        *(start(), arguments(0, '{"n":1}'), begin(0, TOOL), stop(0), arguments(0, "x")),
        *(begin(0, TOOL | {"id": "t2"}), arguments(0, "{}"), stop(0), *END),
    ),
    "the first event is a call's": odd(arguments(0, "{}"), *END),
    "beginnings again": odd(
        *(start(), begin(0, TOOL), arguments(0, "{"), begin(0, TOOL), arguments(0, "}"), stop(0)),
        *(begin(1, TEXT), begin(1, TEXT), text(1, "a"), begin(1, TEXT), stop(1), begin(2, TEXT), begin(2, THINKING)),
        *(stop(2), begin(3, TOOL | {"id": "t3"}), begin(3, TOOL | {"id": "t4"}), stop(3), begin(1, TEXT), stop(1)),
        *END,
    ),
    "odd arguments": odd(
        *(start(), begin(0, TOOL), arguments(0, {"n": 1}), stop(0)),
        *(begin(1, TOOL | {"id": "t2"}), delta(1, "input_json_delta"), arguments(1, ""), stop(1)),
        *(begin(2, TOOL | {"id": "t3", "input": {"n": 2}}), arguments(2, ""), stop(2)),
        *(begin(3, TOOL | {"id": "t4", "input": [1], "toolset_name": "s", "extra": 1}), stop(3)),
        *(begin(4, TOOL | {"id": "t5", "input": {"n": 2}}), arguments(4, '{"n": 3}'), stop(4), *END),
    ),
    "a compaction": odd(
        *(start(), begin(0, {"type": "compaction", "content": None})),
        *(delta(0, "compaction_delta", content="a", other={"n": 1}, none=None), sign(0, "S")),
        *(delta(0, "compaction_delta", content="b", encrypted_content=7), stop(0)),
        *(delta(4, "compaction_delta", content="b"), *END),
    ),
    "deltas that are none": odd(
        {"type": "content_block_delta", "index": 0, "delta": None}, text([], "x"), text({}, "x"), text(0, "y"), *END
    ),
    "too many blocks": odd(
        *(start(), begin(0, TEXT), stop(0), begin(1, TOOL), stop(1), begin(2, TEXT), begin(3, TEXT), *END),
        max_open_blocks=3,
    ),
    "too many blocks at one place": odd(
        *(start(), begin(0, TEXT), begin(0, TEXT), begin(0, THINKING), begin(0, TEXT), *END), max_open_blocks=3
    ),
    "too many places too early": odd(
        *(start(), arguments(0, "{"), arguments(1, "{"), arguments(2, "{"), begin(2, TEXT), begin(0, TEXT), *END),
        max_open_blocks=2,
    ),
}

MESSAGES |= {
    "without stops, at an end of the turn": odd(*OPEN[:-1], *END),
    "an item without a stop, and no calls": odd(start(), begin(0, REDACTED), reason("tool_use"), STOP),
    "errors that say little": odd(start(), {"type": "error", "message": "busy"}),
    "an error that says nothing": odd(start(), {"type": "error"}),
    "a compaction in pieces": odd(
        *(start(), begin(0, {"type": "compaction", "content": None})),
        *(delta(0, "compaction_delta", encrypted_content="a"), delta(0, "compaction_delta", encrypted_content="b")),
        *(stop(0), *END),
    ),
    "too large a compaction": odd(
        *(start(), begin(0, {"type": "compaction", "content": None})),
        *(delta(0, "compaction_delta", content="a" * 60), stop(0), *END),
        max_text_bytes=50,
    ),
    "a block that is none": odd(start(), begin(0, "x"), begin(1, TEXT), *END),
    "a block at no place": odd(start(), begin([], TEXT), begin(1, TEXT), *END),
    "a block of two faults": odd(start(), begin({}, None), begin(1, TEXT), *END),
    "arguments as they are written": odd(
        b'data: {"type":"message_start","message":{"id":"m","model":"c","content":[7,{"type":"tool_use","id":"t1",'
        b'"name":"f","input":{"n":18446744073709551617}}]}}\n\n'
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t2","name":"f",'
        b'"input":{"n": 18446744073709551618}}}\n\ndata: {"type":"content_block_stop","index":0}\n\n'
        b'data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t3","name":"f",'
        b'"input":{}}}\n\ndata: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta",'
        b'"partial_json":{"n":  18446744073709551619}}}\n\ndata: {"type":"content_block_stop","index":1}\n\n'
        b'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"}}\n\ndata: {"type":"message_stop"}\n\n'
    ),
}

# -- Chat Completions --------------------------------------------------------------------------------------------------


def chunk(*choices: Any, **fields: Any) -> Payload:
    return {"id": "r", "object": "chat.completion.chunk", "model": "m", "choices": list(choices), **fields}


def choice(said: Any = None, finish: Any = None, index: Any = 0, **fields: Any) -> Payload:
    return {"index": index, "delta": said, "finish_reason": finish, **fields}


def say(content: Any, **fields: Any) -> Payload:
    return chunk(choice({"content": content, **fields}))


def call(number: Any = 0, id: Any = None, name: Any = None, text: Any = None, **fields: Any) -> Payload:
    function = {key: value for key, value in (("name", name), ("arguments", text)) if value is not None}
    found = {"index": number, "id": id, "function": function}
    return {key: value for key, value in found.items() if value is not None} | fields


def calls(*found: Any, **fields: Any) -> Payload:
    return chunk(choice({"tool_calls": list(found), **fields}))


def finish(word: Any, **fields: Any) -> Payload:
    return chunk(choice({}, word, **fields))


ERROR = {"message": "busy", "type": "overloaded", "code": 503, "new": 1}

COMPLETIONS = {
    "only an error": odd({"error": ERROR}),
    "an error after text": odd(say("a"), {"error": ERROR, "new": 1, "usage": {"prompt_tokens": 3}}, say("b")),
    "an error in a choice": odd(say("a"), chunk(choice({"content": "b"}, error=ERROR)), say("c")),
    "an error of Groq": odd(say("a"), chunk(x_groq={"id": "q", "error": ERROR}), say("c")),
    "text, or what nobody reads, beside a call's arguments": odd(
        calls(call(0, "a", "f", "{")),
        *(say("b", tool_calls=[call(0, text='"n":1')]), chunk(choice({"tool_calls": [call(0, text="}")], "new": 1}))),
        finish("tool_calls"),
    ),
    "an error that is a text": odd(say("a"), {"error": "busy"}),
    "an error that is none": odd(
        say("a"), {"error": None}, chunk(choice({"content": "b"}, error=None)), finish("stop")
    ),
    "usage of Groq": odd(
        *(say("a"), chunk(x_groq={"id": "q", "usage": {"prompt_tokens": 3, "completion_tokens": 4}, "new": 1})),
        *(chunk(x_groq=7), finish("stop")),
    ),
    "usage twice": odd(
        *(say("a"), chunk(usage={"prompt_tokens": 3, "completion_tokens": 4}), finish("stop")),
        chunk(x_groq={"usage": {"prompt_tokens": 1}}, usage={"prompt_tokens": 5, "completion_tokens": 6}),
    ),
    "chunks without choices": odd(
        *({"id": "r"}, {"model": "m"}, {"type": "ping"}, {"type": "ping", "new": 1}, {"new": 1}),
        *({"object": "chat.completion.chunk", "new": 1}, {"id": "r", "choices": None}, {"message": "x"}),
    ),
    "errors that are called so": odd(say("a"), {"object": "error", "message": "busy", "code": 4, "new": 1}),
    "an error by its type": odd({"type": "error", "message": "busy"}),
    "an error beside choices": odd(say("a"), chunk(choice({"content": "b"}), error=ERROR), say("c")),
    "an error beside an empty list of choices": odd(say("a"), chunk(error="busy"), say("c")),
    "the model comes first": odd({"model": "m"}, say("a"), finish("stop")),
    "choices come first": odd({"choices": [choice({"content": "a"}, "stop")]}),
    "usage once": odd(say("a"), finish("stop"), chunk(usage={"prompt_tokens": 3, "completion_tokens": 4})),
    "usage of an error in a choice": odd(
        say("a"), chunk(choice(None, error=ERROR), usage={"prompt_tokens": 3, "completion_tokens": 4})
    ),
    "more behind the mark": odd(
        b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
        b'data: [DONE]\n\ndata: {"id":"r","choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'
    ),
    "an error without its name": odd({"message": "busy", "type": "overloaded"}),
    "choices that are no list": odd({"id": "r", "choices": {"index": 0}}),
    "a choice that is no object": odd(say("a"), chunk(7), say("b")),
    "other choices": odd(
        *(say("a"), chunk(choice({"content": "b"}, index=1)), chunk(choice({"content": "c"}, index=None))),
        *(chunk(choice({"content": "d"}), choice({"content": "e"}, index=1)), finish("stop")),
    ),
    "choices that count": odd(
        *(chunk(choice({"content": word}, index=number)) for number, word in ((3, "a"), (4, "b"), (4, "c"), (6, "d"))),
        *(chunk(choice({"content": "e"}, index=5)), chunk(choice({}, "stop", index=7))),
    ),
    "choices with odd numbers": odd(
        *(chunk(choice({"content": word}, index=number)) for number, word in (("x", "a"), (1, "b"), ("x", "c"))),
        chunk(choice({}, "stop", index="x")),
    ),
    "deltas that are none": odd(
        *(chunk(choice("a")), chunk(choice(None, message={"content": "b"})), chunk(choice(None, text="c"))),
        *(chunk(choice([])), chunk({"index": 0}), chunk(choice({"content": "d"}, message={"content": "e", "new": 1}))),
        finish("stop", new=1),
    ),
    "reasoning in each field": odd(
        *(say("", reasoning_content="a"), say(None, reasoning="b"), say(None, thinking="c"), say("d", reasoning="e")),
        *(say("f", reasoning_content=7), say("g", reasoning_content="", reasoning="h"), finish("stop")),
    ),
    "reasoning details": odd(
        *(say("", reasoning="a", reasoning_details=[{"type": "reasoning.text", "text": "a", "index": 0}]),),
        *(say("", reasoning_details=[{"type": "reasoning.text", "text": "b", "index": 0}]),),
        *(say("", reasoning_details=[{"type": "reasoning.encrypted", "data": "d", "index": 1}]), say("x")),
        *(say("", reasoning_details=7), say("", reasoning_details=[7]), finish("stop")),
    ),
    "too large details": odd(
        *(say("", reasoning_details=[{"type": "reasoning.encrypted", "data": "d" * 60}]), say("x")), max_text_bytes=50
    ),
    "details that were replaced": odd(
        *(say("", reasoning_details=[{"type": "reasoning.encrypted", "data": "d", "index": 1}]),),
        *(say("", reasoning_details=[{"type": "reasoning.encrypted", "data": "e", "index": 1}]), finish("stop")),
    ),
    "a refusal": odd(say("a"), say(None, refusal="No"), say(None, refusal=""), say(None, refusal=7), finish("stop")),
    "content in blocks": odd(
        say([{"type": "text", "text": "a"}, {"type": "text", "text": "", "new": 1}, "b", 7, {"type": "new"}]),
        say({"type": "text", "text": "c", "new": 1}),
        say([{"type": "thinking", "thinking": [{"type": "text", "text": "d"}], "new": 1}]),
        say([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "e"}]}, {"type": "reasoning"}]),
        say([{"type": "reasoning", "reasoning": "f"}]),
        say(7),
        say(True),
        finish("stop"),
    ),
    "thinking in the text": odd(say("<th"), say("ink>a"), say("b</think>"), say("\n\nc"), finish("stop")),
    "thinking that holds nothing": odd(say("<think></think>c"), finish("stop")),
    "thinking without an end": odd(say("<think>a"), finish("length")),
    "a tag that does not come": odd(say("<thi"), finish("stop")),
    "a tag before a call": odd(say("<thi"), calls(call(0, "a", "f", "{}")), finish("tool_calls")),
    "thinking before a call": odd(say("<think>a</think>"), calls(call(0, "a", "f", "{}")), finish("tool_calls")),
    "a tag later": odd(say("a"), say("<think>b</think>"), finish("stop")),
    "calls": odd(
        *(calls(call(0, "a", "f", "", type="function")), calls(call(0, text='{"n"')), calls(call(0, text=":1}"))),
        *(calls(call(1, "b", "g", "{}"), call(2, "c", "h", "{}")), finish("tool_calls")),
    ),
    "a call as an object": odd(chunk(choice({"tool_calls": call(0, "a", "f", "{}")})), finish("tool_calls")),
    "calls that are none": odd(
        *(calls(None, 7, call(0, "a", "f", "{}")), chunk(choice({"tool_calls": "x"})), finish("tool_calls")),
    ),
    "a call without a number": odd(
        calls(call(None, "a", "f", "{")), calls(call(None, text="}")), calls(call([], "b", "g", "{}")), finish("stop")
    ),
    "a call of the server": odd(
        calls(call(0, "a", type="web_search", web_search={"q": 1})), calls(call(1, "b", type="other")), finish("stop")
    ),
    "a freeform call": odd(
        calls({"index": 0, "id": "a", "type": "custom", "custom": {"name": "f", "input": "x"}}),
        calls({"index": 0, "custom": {"input": "y"}}),
        calls({"index": 1, "id": "b", "type": "custom", "function": {"name": "g", "arguments": "z"}}),
        finish("tool_calls"),
    ),
    "arguments that are an object": odd(
        calls(call(0, "a", "f", {"n": 1})), calls(call(1, "b", "g", [1])), finish("tool_calls")
    ),
    "what comes with a call": odd(
        calls(call(0, "a", "f", "{}", extra_content={"google": {"thought_signature": "c2ln"}}, new=1)),
        calls(call(1, "b", "g", "{}", extra_content=7)),
        calls(call(1, text="", new=1)),
        chunk(choice({"tool_calls": [call(2, "c", "h", "{}")], "new": 1, "content": "x"}, new=2), new=3),
        finish("tool_calls"),
    ),
    "a call in a function's place": odd(
        chunk(choice({"function_call": {"name": "f", "arguments": '{"n"', "new": 1}})),
        chunk(choice({"function_call": {"arguments": ":1}"}})),
        chunk(choice({"function_call": None, "content": ""})),
        chunk(choice({}, "function_call")),
    ),
    "a call that comes again whole": odd(
        calls(call(0, "a", "f", '{"n":1}')), calls(call(0, "a", "f", '{"n":1}')), finish("tool_calls")
    ),
    "another call by the same id and place": odd(
        calls(call(0, "a", "f", '{"n":1}')), calls(call(0, "a", "f", '{"n":2}')), finish("tool_calls")
    ),
    "another tool by the same id": odd(
        calls(call(0, "a", "f", '{"n":1}')), calls(call(1, "a", "g", '{"n":1}')), finish("tool_calls")
    ),
    "the same call at another place": odd(
        calls(call(0, "a", "f", '{"n"')),
        calls(call(0, text=":1}")),
        calls(call(1, "a", "f", '{"n":1}')),
        finish("stop"),
    ),
    "another id at the same place": odd(
        *(calls(call(0, "a", "f", "{")), calls(call(0, "b", "g", "{}")), calls(call(0, text="}"))), finish("tool_calls")
    ),
    "an id again with each piece": odd(
        *(calls(call(0, "a", "f", "")), calls(call(0, "a", text='{"n"')), calls(call(0, "a", text=":1}"))),
        finish("tool_calls"),
    ),
    "a name again with each piece": odd(
        *(calls(call(0, "a", "f", "")), calls(call(0, name="f", text='{"n"')), calls(call(0, name="f", text=":1}"))),
        finish("tool_calls"),
    ),
    "a name in pieces": odd(
        *(calls(call(0, "a", "lo")), calls(call(0, name="ok")), calls(call(0, text="{}"))), finish("tool_calls")
    ),
    "a name that comes last": odd(
        *(calls(call(0, "a", text='{"n"')), calls(call(0, text=":1}")), calls(call(0, name="f"))), finish("tool_calls")
    ),
    "an id that comes last": odd(
        *(calls(call(0, name="f", text='{"n"')), calls(call(0, text=":1}")), calls(call(0, "a"))), finish("tool_calls")
    ),
    "a summary at the end": odd(
        *(calls(call(0, "a", "f", '{"n"')), calls(call(0, text=":1}"))),
        *(calls(call(0, name="f", text='{"n"')), calls(call(0, text=":1}"))),
        finish("tool_calls"),
    ),
    "a summary that differs": odd(
        *(calls(call(0, "a", "f", '{"n":1}')), calls(call(0, name="f", text='{"n"')), calls(call(0, text=":2}"))),
        finish("tool_calls"),
    ),
    "pieces of two calls without numbers": odd(
        *(calls(call(None, "a", "f", '{"n"')), calls(call(None, "b", "g", '{"m"')), calls(call(None, text=":1}"))),
        *(calls(call(None, "a", text=":2}")), calls(call(None, "b", text=":3}")), finish("tool_calls")),
    ),
    "pieces before any call": odd(
        *(calls(call(0, text="{}")), calls(call(None, text="x")), calls(call(1, "a", "f", "{}"))), finish("tool_calls")
    ),
    "calls whose ids come later, or never": odd(
        calls(call(0, name="f", text="{}"), call(1, name="f", text="{}"), call("x", name="g", text="{}")),
        finish("tool_calls"),
    ),
    "halves of a pair in two pieces": odd(
        *(
            calls(call(0, "a", "f", '{"n":"\ud83d')),
            calls(call(0, text='\ude00"}')),
            calls(call(1, "b", "g", '"\ud83d')),
        ),
        finish("tool_calls"),
    ),
    "names and ids with halves of pairs": odd(calls(call(0, "a\ud83d", "f\ud83d", "{}")), finish("tool_calls")),
    "too long a name": odd(calls(call(0, "a", "f" * 9, "{}")), finish("tool_calls"), max_name_bytes=8),
    "a name as long as it may be": odd(calls(call(0, "a", "f" * 8, "{}")), finish("tool_calls"), max_name_bytes=8),
    "too long a name, in pieces": odd(
        *(calls(call(0, "a", "f" * 5)), calls(call(0, name="g" * 5)), calls(call(0, name="h" * 5, text="{}"))),
        finish("tool_calls"),
        max_name_bytes=8,
    ),
    "too large arguments": odd(
        *(calls(call(0, "a", "f", '{"n":')), calls(call(0, text="11111")), calls(call(1, "b", "g", "{}"))),
        finish("tool_calls"),
        max_argument_bytes=8,
    ),
    "arguments as large as they may be": odd(
        *(calls(call(0, "a", "f", '{"n"')), calls(call(0, text=":11}"))), finish("tool_calls"), max_argument_bytes=8
    ),
    "too large arguments together": odd(
        calls(call(0, "a", "f", '{"n":1}')),
        calls(call(1, "b", "g", '{"n":1}')),
        finish("stop"),
        max_total_argument_bytes=13,
    ),
    "too many calls": odd(
        *(calls(call(number, f"{number}", "f", "{}")) for number in range(4)), finish("stop"), max_tool_calls=3
    ),
    "too deep arguments": odd(
        *(calls(call(0, "a", "f", '{"n":[[')), calls(call(0, text="1]]}"))), finish("tool_calls"), max_json_depth=2
    ),
    "names and ids that are none": odd(calls(call(0, 7, 7, "{}")), calls(call(1, "", "", "{}")), finish("tool_calls")),
    "text behind a call": odd(say("a"), calls(call(0, "a", "f", "{}")), say("b"), finish("tool_calls")),
    "finishes that differ": odd(say("a"), finish("stop"), finish("stop"), finish("tool_calls"), finish("length")),
    "better news behind bad": odd(say("a"), finish("content_filter"), finish("stop")),
    "a finish that is none": odd(say("a"), finish(7), finish({"a": 1}), finish("stop")),
    "a new finish": odd(say("a"), finish("new")),
    "a finish of calls without any": odd(say("a"), finish("tool_calls")),
    "calls behind the finish": odd(finish("stop"), calls(call(0, "a", "f", "{}"))),
    "calls behind the finish, and another": odd(finish("stop"), calls(call(0, "a", "f", "{}")), finish("tool_calls")),
    "a cut that is masked": odd(
        *(say("a"), finish("stop", native_finish_reason="max_tokens")),
        chunk(choice({}, "stop", native_finish_reason=7)),
    ),
    "a native finish": odd(say("a"), finish("length", native_finish_reason="max_tokens")),
    "without a finish": odd(say("a")),
    "without a finish, in a call": odd(calls(call(0, "a", "f", "{}"))),
    "arguments as they are written": odd(
        b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"tool_calls":[null,{"index":0,"id":"a",'
        b'"function":{"name":"f","arguments":{"n":18446744073709551617}}}]}}]}\n\n'
        b'data: {"id":"r","choices":[{"index":0,"delta":{"tool_calls":{"index":1,"id":"b",'
        b'"function":{"name":"f","arguments":{"n": 18446744073709551618}}}}}]}\n\n'
        b'data: {"id":"r","choices":[{"index":0,"delta":{"tool_calls":[{"index":2,"id":"c","type":"custom",'
        b'"custom":{"name":"f","input":{"n":  18446744073709551619}}}]}}]}\n\n'
        b'data: {"id":"r","choices":[{"index":1,"delta":{}},{"index":0,"delta":{"function_call":{"name":"f",'
        b'"arguments":{"n":   18446744073709551620}}}}]}\n\n'
        b'data: {"id":"r","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
    ),
    "the end as bytes": odd(
        b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    ),
    "the end's mark alone": odd(
        b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"a"}}]}\n\ndata: [DONE]\n\n'
    ),
    "a call behind the finish, and the mark": odd(
        b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}\n\n'
        b'data: {"id":"r","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"a","function":'
        b'{"name":"f","arguments":"{}"}}]}}]}\n\ndata: [DONE]\n\n'
    ),
}

# -- fragments of calls ------------------------------------------------------------------------------------------------


def piece(text: str = "", index: Any = 0, id: Any = None, name: Any = None, **more: Any) -> ToolCallFragment:
    return ToolCallFragment(index, id, name, text, **more)


def opened(id: Any = "a", index: Any = 0, text: str = "", **more: Any) -> ToolCallFragment:
    return piece(text, index, id, "f", **({"start": True} | more))


CLOSED = piece(end=True)
UNMARKED = piece(end=True, disorder="unmarked")
EARLY, LATE = piece('{"n"', disorder="early"), piece('{"n"', disorder="late")
ONE = '{"n":1}'

FRAGMENTS = {
    "a call": odd(opened(), piece('{"n":'), piece("1}"), CLOSED, piece("x"), piece(end=True)),
    "a call that has no arguments": odd(opened(), CLOSED),
    "a call that was cut": odd(opened(), piece(ONE), piece(end=True, cut=True)),
    "a call without an end": odd(opened(), piece(ONE)),
    "ends without markers": odd(
        *(opened(), UNMARKED, opened("b"), piece(ONE), UNMARKED, opened("c"), piece("{"), UNMARKED),
        *(opened("d", kind="custom"), piece("x"), UNMARKED, opened("e", kind="custom"), piece("x"), CLOSED),
    ),
    "the whole at the end": odd(
        *(opened(), piece('{"n"'), piece(whole=ONE, end=True), opened("b", 1), piece(ONE, 1), piece("", 1, whole=ONE)),
        *(piece(end=True, index=1), opened("c", 2), piece("", 2, whole=ONE, end=True)),
    ),
    "another whole at the end": odd(
        *(opened(), piece('{"m":'), piece("2"), piece(whole=ONE), CLOSED),
        *(opened("b", 1), piece('{"n":1}}', 1), piece("", 1, whole=ONE, end=True)),
        *(opened("c", 2, kind="custom"), piece("xyz", 2), piece("", 2, whole="ab\ud83d", end=True)),
    ),
    "another whole that is cut": odd(opened(), piece("[1"), piece(whole='{"n":"ab'), piece("c")),
    "a call with early arguments, and another by its id": odd(
        *(EARLY, opened(), piece(":1}"), CLOSED, opened(index=1), piece('{"m":2}', 1), piece("", 1, end=True)),
        *(opened("b", 2), piece('{"m":2}', 2), piece("", 2, end=True), opened("b", 3), piece("", 3, end=True)),
    ),
    "a call again with a problem": odd(
        opened(), piece(ONE), CLOSED, opened(), piece('{"n"', problem="bad_path"), CLOSED, opened(text=ONE), CLOSED
    ),
    "a whole behind early arguments": odd(EARLY, opened(), piece(whole=ONE, end=True)),
    "early arguments": odd(EARLY, piece(":1", disorder="early"), opened(), piece("}"), CLOSED),
    "early arguments, and a call without an end": odd(EARLY, opened(), piece(":1}")),
    "early arguments, and two calls": odd(EARLY, opened(), piece(":1}"), CLOSED, opened("b"), piece(ONE), CLOSED),
    "early arguments, and two calls without ends": odd(EARLY, opened(), opened("b"), piece(ONE)),
    "early arguments beside a call's own": odd(EARLY, opened(text=ONE), CLOSED),
    "early arguments beside a whole": odd(EARLY, opened(whole=ONE), CLOSED),
    "early arguments and more at the end": odd(EARLY, opened(), piece(":1}", end=True)),
    "early arguments with a problem": odd(piece("x", disorder="early", problem="bad_path"), opened(), CLOSED),
    "early arguments at no place": odd(
        *(opened("b", 1), piece(ONE, 1), piece("", 1, end=True), piece("x", None, disorder="early"), opened()),
        *(CLOSED, opened("c", 2), piece("", 2, whole=ONE, end=True)),
    ),
    "early arguments in too many places": odd(
        *(piece("x", 1, disorder="early"), piece("x", 2, disorder="early"), piece("y", 2, disorder="early")),
        *(piece("z", 3, disorder="early"), opened(), piece(ONE), CLOSED),
        max_open_blocks=2,
    ),
    "early arguments in places that are texts": odd(
        *(piece("{}", "ab", disorder="early"), piece("{}", "abc", disorder="early"), opened("d", "ab")),
        piece("", "ab", end=True),
        max_id_bytes=2,
    ),
    "early arguments beyond the limit": odd(EARLY, opened(), piece(":1}"), CLOSED, max_total_argument_bytes=7),
    "too many early arguments": odd(EARLY, EARLY, max_total_argument_bytes=7),
    "early arguments of a call that is open": odd(opened(), EARLY, CLOSED, opened("b", 1), piece("", 1, end=True)),
    "late arguments": odd(opened(), CLOSED, LATE, opened("b"), piece(ONE), CLOSED, EARLY),
    "late arguments of a call that has its own": odd(opened(), piece(ONE), CLOSED, LATE, opened("b", 1), CLOSED),
    "late arguments behind a whole": odd(opened(), piece(whole=ONE), LATE, CLOSED),
    "late arguments at no place": odd(opened(), piece("x", None, disorder="late"), CLOSED),
    "early, then late arguments": odd(EARLY, LATE, EARLY, opened(), CLOSED),
    "a call in the place of another": odd(opened(), piece('{"n"'), opened("b"), piece(":1}"), CLOSED),
    "a call in the place of another, with ids": odd(
        opened(), piece('{"n"'), opened("b"), piece(":1}", id="a"), piece(ONE, id="b"), piece(id="b", end=True)
    ),
    "a call in the place of a whole one": odd(opened(), piece(ONE), opened("b"), piece(ONE), CLOSED),
    "a call in the place of a bare one": odd(opened(), opened("b"), piece(ONE), CLOSED),
    "three calls in one place": odd(
        opened(), piece("{"), UNMARKED, opened("b"), piece("}"), UNMARKED, opened("c"), piece(ONE), CLOSED
    ),
    "a call again": odd(
        *(opened(), piece(ONE), CLOSED, opened(), piece('{"n"'), piece(":1}"), CLOSED),
        *(opened(), piece('{"n"'), piece(":2}"), CLOSED, opened(), piece('{"n":2}'), CLOSED),
    ),
    "a call again in another place": odd(
        opened(), piece(ONE), CLOSED, opened(index=1), piece('{"n"', 1), piece(":1}", 1), piece("", 1, end=True)
    ),
    "a call again, cut": odd(opened(), piece(ONE), CLOSED, opened(), piece('{"n"'), piece(end=True, cut=True)),
    "a call again, shorter": odd(opened(), piece('{"n":1} '), CLOSED, opened(), piece(ONE), CLOSED),
    "a call again, without an end": odd(opened(), piece(ONE), CLOSED, opened(), piece(ONE)),
    "a call again, too large": odd(
        opened(), piece(ONE), CLOSED, opened(), piece(ONE + "  "), CLOSED, max_argument_bytes=8
    ),
    "a call again, that is open": odd(opened(), piece(ONE), opened(), piece(ONE), CLOSED),
    "a call again, that is not whole": odd(opened(), piece("{"), opened(), piece(ONE), CLOSED),
    "a bare call again": odd(opened(), CLOSED, opened(), CLOSED),
    "a bare call, and another by its id": odd(opened(), CLOSED, opened(), piece(ONE), CLOSED),
    "a whole call, and another by its id": odd(opened(), piece(ONE), CLOSED, opened(), piece('{"m"'), CLOSED),
    "another tool by the same id": odd(
        opened(), piece(ONE), CLOSED, piece("", 0, "a", "g", start=True), piece(ONE), CLOSED
    ),
    "a call of the server again": odd(
        opened(kind="server"), piece(ONE), CLOSED, opened(kind="server"), piece(ONE), CLOSED
    ),
    "many calls by one id": odd(
        *(each for n in range(6) for each in (opened(), piece(f'{{"n":{n}}}'), CLOSED)),
        *(each for n in (0, 1, 2, 5) for each in (opened(), piece(f'{{"n":{n}}}'), CLOSED)),
    ),
    "a namespace": odd(
        *(opened(namespace="s"), CLOSED, opened("b", 1), piece("", 1, namespace="s"), piece("", 1, namespace="t")),
        *(piece(ONE, 1, end=True), opened("c", 2, namespace="f"), piece(ONE, 2, end=True)),
        *(piece("", 3, "d", "g", namespace="s"), piece("", 3, namespace="t"), piece(ONE, 3), piece("", 3)),
        *(piece("", 4, "e", "functions.f", start=True, namespace="s"), piece(ONE, 4, end=True)),
    ),
    "all that comes with a call": odd(
        opened(caller="code", awaits="answers", provider_state={"x": 1}), piece(provider_state={"x": 2, "y": 3}),
        piece(ONE, provider_state={}), piece(caller="direct", end=True, provider_state={"z": 4}),
    ),
    "too much that comes with a call": odd(
        opened(provider_state={f"k{n}": n for n in range(63)}), piece(provider_state={"k63": 63}),
        piece(provider_state={"k64": 64, "k63": 65}), piece(provider_state={"k65": 64}), piece(ONE, end=True),
    ),
    "problems": odd(
        *(opened(), piece("{", problem="bad_path"), piece("}", problem="no_text"), CLOSED),
        *(opened("b", 1, problem="bad_path"), piece("", 1, end=True), opened("c", 2), piece(7, 2), CLOSED),
    ),
    "names": odd(
        *(piece("{", 0, "a"), piece("", 0, None, "f"), piece("}"), piece("", 1, "b", "g"), piece(ONE, 1)),
        *(piece("", 2, "c", "functions.f"), piece(ONE, 2), piece("", 3, "d", "f<|x|>"), piece(ONE, 3)),
        *(piece(ONE, 4, "e"), piece(ONE, 5), piece(ONE, 6, "h", "f" * 9), piece("", 7, "i", "g" * 9)),
        *(piece("", 7, "i", "g"), piece(ONE, 7), piece(ONE, 8, "j" * 9, "f")),
        max_name_bytes=8,
        max_id_bytes=8,
    ),
    "names again": odd(
        *(piece(ONE, 0, "a", "f"), piece("", 0, None, "f"), piece('{"n"', 0), piece(":1}"), piece("", 1, "b", "f")),
        *(piece(ONE, 1, None, "f"), piece(ONE, 1, None, "f"), piece('{"m"', 1), piece(":2}", 1, None, "f")),
        *(piece('{"n":1', 2, "c", "f"), piece("}", 2, None, "f"), piece(ONE, 2, None, "g"), piece("", 2, "d", "f")),
    ),
    "what is left over": odd(opened(), piece(ONE), piece("x", None), piece("", None, None, "g"), piece(ONE, None)),
    "arguments of nobody, and bare calls": odd(
        opened(), CLOSED, opened("b", 1), piece("", 1, end=True), piece("{", None, start=True), piece("}", None)
    ),
    "broken arguments beside a bare call": odd(
        opened(), CLOSED, opened("b", 0), piece("{"), opened("c", 1), piece("", 1, end=True)
    ),
    "too many calls": odd(opened(), CLOSED, opened("b", 1), opened("c", 2), max_tool_calls=2),
    "a made-up id that is taken": odd(
        StreamStart("w"), opened(None), piece(ONE), CLOSED, StreamStart("w", "m", "r"), opened(None, 1), CLOSED
    ),
}  # fmt: skip


def calls_of(case: Odd) -> Iterator[str]:
    """What comes of fragments in a stream that ends well, and what of the end if the stream is cut there."""
    well, cut = StreamEnd("tool_calls", "tool_calls", complete=True), StreamEnd(None, None, complete=False)
    for end in (well, cut):
        stage = Accumulate({"f"}, case.limits, "salt")
        try:
            for event in (*case.payloads, end):
                events = list(stage.feed(event))
                yield from map(shown, events if event is end or end is well else ())
        except LimitExceeded as error:
            yield written(error)


STREAMS = {ANTHROPIC: MESSAGES, CHAT: COMPLETIONS, "fragments": FRAGMENTS}


def pages() -> Iterator[tuple[str, Path, str]]:
    for wire, cases in STREAMS.items():
        read = calls_of if cases is FRAGMENTS else partial(events_of, wire)
        sections = ["\n".join([f"# {name}", *read(case)]) for name, case in cases.items()]
        yield wire, GOLDEN / f"{wire}.txt", "\n\n".join(sections) + "\n"


def test_the_events_of_odd_streams_are_as_they_were_read_with_care() -> None:
    for wire, path, page in pages():
        expected, found = (set(each.split("\n\n")) for each in (path.read_text(encoding="utf-8"), page))
        assert "\n\n".join(sorted(found - expected)) == "\n\n".join(sorted(expected - found)), wire
        assert len(found) == len(STREAMS[wire])


if __name__ == "__main__":
    for _, path, page in pages():
        path.write_text(page, encoding="utf-8")
