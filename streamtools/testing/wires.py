"""Checks that your wire keeps the contract of wires, and raises `AssertionError` if not; see `check_wire`."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from ..content import Text
from ..decode import StreamDecoder, parse
from ..errors import ExportError, StreamError
from ..events import Event, StreamEnd, StreamStart, ToolCallEnd, ToolCallFragment, ToolCallStart
from ..ground import type_name
from ..history import convert, lint, repair, with_results
from ..limits import Limits
from ..turn import Turn
from ..wires import Prompt, Wire, find
from .tools import feed_every_way

__all__ = ["check_wire"]

Payload: TypeAlias = "dict[str, Any]"
Stream: TypeAlias = "list[Payload]"

_DEEP: Any = None
for _ in range(300):
    _DEEP = [_DEEP]
_HOSTILE: tuple[Any, ...] = (
    *(None, True, 0, 7, -1, 0.5, 1e308, 2**70, float("nan"), "", "a", "0", "\ud83d", "x" * 5000, '{"a": 1', "[DONE]"),
    *([], {}, [None], [5], [[]], {"a": None}, {"text": 7}, {"id": [], "name": {}}, _DEEP),
)
_OF_NO_WIRE: tuple[Payload, ...] = ({}, {"unheard of": 1}, {"type": "unheard of"}, {"error": {"message": "no"}})
_MAX_STEPS = 12  # of the way to a value that is replaced
_CHAT = "openai.chat_completions"


def check_wire(
    wire: Wire | str, streams: Sequence[Sequence[Mapping[str, Any]]], *, cases: int = 1_000, seed: int = 0
) -> list[str]:
    """Checks that a wire keeps the contract of wires, on your streams and on damaged copies of them.

        def test_my_wire_does_what_wires_do() -> None:
            check_wire(ACME, [TEXT_STREAM, CALL_STREAM])

    Args:
        wire: the wire, or its name.
        streams: the payloads of good responses, at least one of them with a call that has arguments: the provider's
            successful answers.
        cases: the number of damaged streams, and of damaged histories; a thousand take a few seconds.
        seed: selects other damage.

    Returns:
        The names of the checks, in order.

    Raises:
        AssertionError: the wire breaks the contract; the text says how. The remaining checks are not run.
        ValueError: there is no stream, or none with a call that has arguments.
    """
    found = find(wire)
    given = [copy.deepcopy([dict(payload) for payload in stream]) for stream in streams]
    turns = [parse(stream, wire=found) for stream in given]
    for check in _CHECKS:
        if check is _a_split_changes_nothing and not any(call.arguments for turn in turns for call in turn.calls):
            raise ValueError("streams: pass at least one that contains a call with arguments")
        try:
            check(_Case(found, given, turns, cases, random.Random(seed)))
        except AssertionError as error:
            raise AssertionError(f"{check.__name__[1:]}: {error}") from error
        except Exception as error:
            raise AssertionError(f"{check.__name__[1:]}: {type_name(error)} was raised: {error}") from error
    return [check.__name__[1:] for check in _CHECKS]


class _Case(NamedTuple):
    wire: Wire
    streams: list[Stream]
    turns: list[Turn]
    cases: int
    dice: random.Random


# -- good streams --


def _a_good_stream_is_read_whole(case: _Case) -> None:
    for number, (stream, turn) in enumerate(zip(case.streams, case.turns, strict=True)):
        assert turn.error is None, f"streams[{number}] ends with {turn.error!r}"
        assert turn.complete, f"streams[{number}] is not complete: does `close` return True as its second value?"
        assert not turn.warnings, f"streams[{number}] is tolerated, not valid: {[w.code for w in turn.warnings]}"
        for payload in stream:
            assert case.wire.recognises(payload) in (True, False), "`recognises` must return a bool"
        assert turn.usage_raw is None or turn.usage, f"streams[{number}]: `usage` finds no count in {turn.usage_raw}"
    strange = next((payload for payload in _OF_NO_WIRE if case.wire.is_own(payload)), None)
    assert strange is None, f"`recognises` accepts {strange}, which may belong to any wire"


def _a_stream_without_its_end_is_not_complete(case: _Case) -> None:
    for number, stream in enumerate(case.streams):
        for at in {1, len(stream) // 2} if len(stream) > 2 else ():
            cut = parse(stream[:at], wire=case.wire)
            assert not cut.complete, f"streams[{number}] is complete after {at} of {len(stream)} payloads"


def _each_call_has_a_beginning(case: _Case) -> None:
    for number, stream in enumerate(case.streams):
        decoder, begun = case.wire.new_decoder(Limits()), set[object]()
        for payload in stream:
            for event in decoder.feed(payload):
                if isinstance(event, ToolCallFragment):
                    label = event.id if event.index is None else event.index
                    assert event.start or event.name or label in begun or (label is None and begun), (
                        f"streams[{number}]: arguments of a call that has not begun; give its first piece "
                        "`start=True` or the tool's name, and the same place as later pieces"
                    )
                    begun |= {label}


def _every_call_is_ready(case: _Case) -> None:
    for number, turn in enumerate(case.turns):
        for call in turn.calls:
            assert call.status == "ready", f"streams[{number}]: a call is {call.status} ({call.problem})"


def _a_split_changes_nothing(case: _Case) -> None:
    for stream in case.streams:
        for body in (b"".join(json.dumps(payload).encode() + b"\n" for payload in stream), _sse(stream)):
            feed_every_way(lambda: StreamDecoder(wire=case.wire), body, max_splits=64)


def _what_was_parsed_says_the_same(case: _Case) -> None:
    for number, (stream, turn) in enumerate(zip(case.streams, case.turns, strict=True)):
        again = parse(_sse(stream), wire=case.wire)
        assert again.parts == turn.parts, f"streams[{number}] decodes differently as bytes than as payloads"


def _counts_are_numbers(case: _Case) -> None:
    for number, turn in enumerate(case.turns):
        for name in case.wire.usage.counts:
            count = getattr(turn.usage, name, None)
            assert count is None or (type(count) is int and count >= 0), f"streams[{number}]: {name} is not a count"


# -- spoiled streams --


def _a_cut_or_disordered_stream_runs_nothing_else(case: _Case) -> None:
    for stream, turn in zip(case.streams, case.turns, strict=True):
        given = {call.call_id: call.arguments for call in turn.calls if not call.call_id_synthesized}
        if len(given) < len(turn.calls):
            continue  # without ids nobody can say which call is which
        for bend, bent in _bent(case.wire, stream):
            for call in parse(bent, wire=case.wire).calls:
                assert not call.dispatchable or call.arguments == given.get(call.call_id), (
                    f"{bend}: call {call.call_id} runs with {call.arguments}, not with {given.get(call.call_id)}, in "
                    f"{bent}"
                )


def _bent(wire: Wire, stream: Stream) -> Iterator[tuple[str, Stream]]:
    for at in range(len(stream)):
        yield f"cut after {at} payloads", stream[:at]
    decoder, roles = wire.new_decoder(Limits()), list[tuple[object, set[str]]]()
    for payload in stream:
        fragments = [event for event in decoder.feed(payload) if isinstance(event, ToolCallFragment)]
        labels = {event.index for event in fragments}
        roles.append(
            (
                labels.pop() if len(labels) == 1 else None,
                {
                    role
                    for event in fragments
                    for role, has in (("begin", event.start), ("piece", event.arguments), ("end", event.end))
                    if has
                },
            )
        )
    for label in {label for label, _ in roles if label is not None}:
        mine = [at for at, (other, _) in enumerate(roles) if other == label]
        begins, pieces, ends = (
            [at for at in mine if roles[at][1] == {role}] for role in ("begin", "piece", "end")
        )  # payloads that do nothing else
        for piece in pieces:
            if begins and begins[0] < piece:
                yield "a piece before its call", _moved(stream, piece, begins[0])
            if ends and ends[-1] > piece:
                yield "a piece after its call", _moved(stream, piece, ends[-1])
        for at in begins:
            yield "a beginning that comes again", [*stream[: at + 1], *stream[at:]]
            yield "a beginning that is lost", [*stream[:at], *stream[at + 1 :]]
        if pieces and ends:
            yield (
                "pieces and an end that are lost",
                [one for at, one in enumerate(stream) if at not in (*pieces, *ends)],
            )
        for at in ends:
            yield "an end that comes again", [*stream[: at + 1], *stream[at:]]
            yield "an end that is lost", [*stream[:at], *stream[at + 1 :]]


def _moved(stream: Stream, at: int, to: int) -> Stream:
    rest = [*stream[:at], *stream[at + 1 :]]
    return [*rest[:to], stream[at], *rest[to:]]


def _no_payload_breaks_the_decoder(case: _Case) -> None:
    for _ in range(case.cases):
        stream = _spoiled_stream(case.dice, case.streams)
        decoder, events = StreamDecoder(wire=case.wire), list[Event]()
        for item in stream if case.dice.random() < 0.7 else [_sse(stream)]:
            events += decoder.feed(item)
        events += decoder.finish()
        _check_events(events)


def _check_events(events: list[Event]) -> None:
    ends = [event for event in events if isinstance(event, StreamEnd)]
    assert len(ends) == 1, f"a stream has {len(ends)} ends"
    assert ends[0].error is None or isinstance(ends[0].error, StreamError), f"{ends[0].error!r} ends a stream"
    assert sum(isinstance(event, StreamStart) for event in events) <= 1, "a stream begins twice: emit_start was called"
    begun = [event.call_id for event in events if isinstance(event, ToolCallStart)]
    ended = [event.call.call_id for event in events if isinstance(event, ToolCallEnd)]
    assert sorted(begun) == sorted(ended), "a call does not begin and end once"


# -- histories --


def _histories(case: _Case, result: str = "sunny") -> Iterator[tuple[Turn, list[Any]]]:
    prompt = case.wire.render_prompt(Prompt(role="user", blocks=(Text("What is it like?"),)))
    for turn in case.turns:
        results = {call.call_id: result for call in turn.calls if call.kind != "server"}
        yield turn, [*prompt, *turn.messages(case.wire, results=results)]


def _a_history_is_accepted_as_it_was_written(case: _Case) -> None:
    for number, (_, messages) in enumerate(_histories(case)):
        flaws = lint(messages, case.wire)
        assert not flaws, f"streams[{number}]: lint finds {flaws[0]} in what `render` wrote"
        assert repair(messages, case.wire) == messages, f"streams[{number}]: repair changes what `render` wrote"


def _a_history_reads_back(case: _Case) -> None:
    for number, (turn, messages) in enumerate(_histories(case)):
        others = convert(messages, case.wire, _CHAT).messages if case.wire.name != _CHAT else messages
        texts = "".join(message["content"] or "" for message in others if message["role"] == "assistant")
        assert turn.text.strip() in texts, f"streams[{number}]: `read` loses the text that `render` wrote"
        calls = [each["function"] for message in others for each in message.get("tool_calls") or ()]
        wanted = [(call.name, call.arguments) for call in turn.calls if call.kind == "function"]
        read = [(each["name"], json.loads(each["arguments"])) for each in calls]
        assert read == wanted, f"streams[{number}]: `read` loses calls that `render` wrote, or changes them"
        answered = [message for message in others if message["role"] == "tool"]
        assert len(answered) == len(wanted), f"streams[{number}]: `read` loses results that `render` wrote"


def _a_result_may_come_later(case: _Case) -> None:
    for (turn, messages), (_, wanted) in zip(_histories(case), _histories(case, "rainy"), strict=True):
        for call_id in (call.call_id for call in turn.calls if call.kind != "server"):
            messages = with_results(messages, {call_id: "rainy"}, case.wire)
        assert messages == wanted, f"`render_results` writes a result alone unlike among others: {messages!r}"


def _no_history_raises(case: _Case) -> None:
    histories = [messages for _, messages in _histories(case)]
    for _ in range(case.cases):
        messages = copy.deepcopy(case.dice.choice(histories))
        for _ in range(case.dice.randint(1, 3)):
            messages = _spoiled(case.dice, messages)
        if isinstance(messages, list):
            lint(messages, case.wire)
            for use in (repair, _to_another):
                try:
                    use(messages, case.wire)
                except ExportError:
                    pass  # it names what cannot be mended


def _to_another(messages: list[Any], wire: Wire) -> object:
    return convert(messages, wire, "anthropic.messages" if wire.name == _CHAT else _CHAT)


# -- spoiling --


def _spoiled_stream(dice: random.Random, streams: Sequence[Stream]) -> Stream:
    stream: list[Any] = copy.deepcopy(dice.choice(streams))
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(stream))
        match dice.randrange(8):
            case 0:
                stream.insert(dice.randrange(len(stream) + 1), stream[at])
            case 1 if len(stream) > 1:
                del stream[at]
            case 2:
                stream.insert(at, dice.choice(dice.choice(streams)))
            case _:
                spoiled = _spoiled(dice, stream[at])
                stream[at] = spoiled if isinstance(spoiled, dict) else {"": spoiled}
    return stream


def _spoiled(dice: random.Random, value: Any) -> Any:
    """Returns the value with one inside it replaced, doubled or left out; what is given may be changed."""
    way = list[Any]()
    node = value
    while isinstance(node, (dict, list)) and node and len(way) < _MAX_STEPS and (not way or dice.random() < 0.8):
        way.append(dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node)))
        node = node[way[-1]]
    if not way:
        return dice.choice(_HOSTILE)
    held = value
    for step in way[:-1]:
        held = held[step]
    match dice.randrange(5):
        case 0:
            del held[way[-1]]
        case 1 if isinstance(held, list):
            held.insert(way[-1], copy.deepcopy(node))
        case 2 if isinstance(node, str) and node:
            held[way[-1]] = node[: dice.randrange(len(node))]
        case _:
            held[way[-1]] = copy.deepcopy(dice.choice(_HOSTILE))
    return value


def _sse(stream: Stream) -> bytes:
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in stream)


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _a_good_stream_is_read_whole, _a_stream_without_its_end_is_not_complete, _each_call_has_a_beginning,
    _every_call_is_ready, _a_split_changes_nothing, _what_was_parsed_says_the_same, _counts_are_numbers,
    _a_cut_or_disordered_stream_runs_nothing_else, _no_payload_breaks_the_decoder,
    _a_history_is_accepted_as_it_was_written, _a_history_reads_back, _a_result_may_come_later, _no_history_raises,
)  # fmt: skip
