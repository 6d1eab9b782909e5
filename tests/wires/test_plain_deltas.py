"""Payloads that are recognised without being read give the events that reading each of them gives."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from functools import partial
from typing import Any

from every_wire import CHAT, dumped
from profiles import FULL, every, examples
from streams import chat_chunk
from wire_cases import CASES
from wire_cases.record import Response

from streamtools import Event, Limits, StreamDecoder, parse
from streamtools.events import ReasoningDelta, StreamEnd, TextDelta, ToolCallDelta
from streamtools.wires import Wire, WireDecoder, find
from streamtools.wires.plain import PlainPath

Payload = dict[str, Any]

PIECES = ["Once", " upon ", "a", " time", " there", " was", " a", " wire", "."] * 2  # the middle is recognised
ARGUMENTS = json.dumps({"to": "x" * 20, "list": [1, 2.5, {"deep": None}], "text": "é𝄞\n" * 3})
RESPONSES = {
    "text": Response(text=PIECES),
    "reasoning": Response(reasoning=PIECES, text=["So", " it", " is", " so", "!"]),
    "arguments": Response(calls=[("c1", "look", ARGUMENTS), ("c2", "look", ARGUMENTS)], pieces=18),
    "all": Response(text=PIECES, reasoning=PIECES, calls=[("c1", "look", ARGUMENTS)], pieces=16),
}


def _nested(depth: int) -> Any:
    return [_nested(depth - 1)] if depth else 1


VALUES: tuple[Any, ...] = (
    *(None, "", [], {}, 0, 1, 2, -1, 0.5, True, False, "other", "x" * 300),
    *({"deep": _nested(12)}, {"new": "inside"}, {"deep": [[[{"a": 1}]]]}, ["a"], [{"text": "b"}], 2**70, "half \ud83d"),
)


def reading_each(wire: Wire) -> Wire:
    """The same wire, whose decoder recognises no payload without reading it."""

    def made(limits: Limits) -> WireDecoder:
        decoder = wire.decoder(limits)
        kind = type(decoder)
        decoder.__class__ = type(kind.__name__, (kind,), {"plain": ()})
        return decoder

    return replace(wire, decoder=made)


def events_of(wire: Wire, payloads: list[Any], limits: Limits, *, parsed: bool) -> list[tuple[Any, Any]]:
    """All events, with the previews of calls; of bytes, or of payloads as an SDK has parsed them."""
    decoder = StreamDecoder(wire=wire, tools=["look"], limits=limits)
    events: list[Event] = []
    for payload in payloads:
        events += decoder.feed(payload if parsed else b"data: " + dumped(payload) + b"\n\n")
    events += decoder.finish()
    return [(comparable(event), event.preview if isinstance(event, ToolCallDelta) else None) for event in events]


def comparable(event: Event) -> tuple[Any, ...]:
    """The event as values that are equal if they say the same, which errors are not."""
    values = [getattr(event, field.name) for field in fields(event) if not field.name.startswith("_")]
    return (type(event), *((type(one), str(one)) if isinstance(one, Exception) else repr(one) for one in values))


def places(found: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every place inside a payload, itself included."""
    yield path
    for key, value in found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ():
        yield from places(value, (*path, key))


def changes(payload: Payload) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Ways to change a payload: another value, none, or one more field, at every place."""

    def holder_of(path: tuple[str | int, ...]) -> tuple[Any, Any]:
        found: Any = copy.deepcopy(payload)
        at = found
        for key in path:
            at = at[key]
        return found, at

    def put(way: tuple[str | int, ...], last: Any, value: Any) -> Any:
        found, holder = holder_of(way)
        holder[last] = value
        return found

    def add(path: tuple[str | int, ...], value: Any) -> Any:
        found, at = holder_of(path)
        if isinstance(at, dict):
            at["new_field"] = value
        elif isinstance(at, list):
            at.append(value)
        return found

    def leave_out(way: tuple[str | int, ...], last: Any) -> Any:
        found, holder = holder_of(way)
        del holder[last]
        return found

    for path in places(payload):
        for value in VALUES:
            if path:
                yield f"{path} = {value!r}", partial(put, path[:-1], path[-1], value)
            yield f"{path} + {value!r}", partial(add, path, value)
        if path and isinstance(path[-1], str):
            yield f"no {path}", partial(leave_out, path[:-1], path[-1])


def is_same(wire: Wire, payloads: list[Any], limits: Limits, *, parsed: bool = False) -> bool:
    each = events_of(reading_each(wire), payloads, limits, parsed=parsed)
    return events_of(wire, payloads, limits, parsed=parsed) == each


def responses(name: str) -> Iterator[tuple[str, list[Payload]]]:
    for kind, response in RESPONSES.items():
        yield kind, CASES[name].say(response)


@every("name", CASES)
def test_most_payloads_of_a_long_text_or_thought_are_recognised_and_give_the_same_events(name: str) -> None:
    wire, reads = find(name), 0
    for kind, payloads in responses(name):
        for parsed in (False, True):
            assert is_same(wire, payloads, Limits(), parsed=parsed), (kind, parsed)

    class Counting(type(wire.decoder(Limits()))):  # type: ignore[misc]
        def feed(self, payload: Payload) -> list[Event]:
            nonlocal reads
            reads += 1
            return super().feed(payload)  # type: ignore[no-any-return]

    def counting(limits: Limits) -> WireDecoder:
        decoder = wire.decoder(limits)
        decoder.__class__ = Counting
        return decoder

    long: dict[type[Event], Response] = {TextDelta: Response(text=PIECES * 10)}
    if CASES[name].reasons:
        long[ReasoningDelta] = Response(reasoning=PIECES * 10)
    for kind, response in long.items():
        reads, payloads = 0, CASES[name].say(response)
        found = events_of(replace(wire, decoder=counting), payloads, Limits(), parsed=False)
        assert [event[-1] for event, _ in found if event[0] is kind] == [repr(piece) for piece in PIECES * 10]
        assert reads < len(payloads) / 3, f"the wire's plain {kind.__name__} is not found"


@every("name", CASES)
def test_whatever_is_changed_in_a_payload_it_says_what_it_says_when_each_is_read(name: str) -> None:
    """In the midst of payloads that were recognised, and then once more."""
    wire, wrong, tried = find(name), [], 0
    for kind, payloads in responses(name):
        middle = len(payloads) // 2
        several = list(changes(payloads[middle]))
        for what, make in several[:: max(1, len(several) // examples(20, 4))]:
            tried, one = tried + 1, make()
            for put in ([one], [one, one, one], [one, payloads[middle]]):
                given = [*payloads[:middle], *put, *payloads[middle + 1 :]]
                if not is_same(wire, given, Limits()):
                    wrong.append(f"{kind}: {what} ({len(put)})")
    assert tried >= 16
    assert wrong == []


@every("name", CASES)
def test_limits_end_a_stream_at_the_same_piece(name: str) -> None:
    wire = find(name)
    for most in (1, 5, 17, 30) if FULL else (5, 17):
        limits = Limits(max_text_bytes=most, max_argument_bytes=most * 3)
        for kind, payloads in responses(name):
            for parsed in (False, True):
                assert is_same(wire, payloads, limits, parsed=parsed), (most, kind, parsed)
                total = Limits(max_total_argument_bytes=most * 4)
                assert is_same(wire, payloads, total, parsed=parsed), (most, kind, parsed)


def chunk(written: str, after: str = "", end: str = "") -> bytes:
    """A chunk of Chat Completions with a piece as it stands in the JSON text, and more text after it or at the end."""
    content = '{"content":' + written + after + "}"
    choices = '[{"index":0,"delta":' + content + "}]"
    text = '{"id":"c","model":"m","object":"chat.completion.chunk","choices":' + choices + end + "}"
    return text.encode("utf-8", "surrogatepass")


WRITTEN = {
    "a piece as others": chunk('"other"'),
    "escapes": chunk('"\\u00e9\\ud834\\udd1e\\n\\"}]"'),
    "blanks around it": chunk(' "other" '),
    "no piece": chunk("null"),
    "an empty piece": chunk('""'),
    "a number": chunk("1"),
    "an object": chunk('{"content":"x"}'),
    "a list": chunk('["x"]'),
    "two values": chunk('"one","two"'),
    "one more field": chunk('"one","refusal":"two"'),
    "the same field twice": chunk('"one","content":"two"'),
    "the object and the list ended early": chunk('"one"}}],"model":"x","more":[{"delta":{"content":"two"'),
    "a field behind it": chunk('"other"', after=',"reasoning_content":"thought"'),
    "a field at the end": chunk('"other"', end=',"usage":{"prompt_tokens":3,"completion_tokens":5}'),
    "half of a surrogate pair": chunk('"\\ud834"'),
    "half of a surrogate pair as it is": chunk('"\ud834"'),
    "invalid bytes": chunk('"_"').replace(b"_", b"\xff\xfe"),
    "no end": chunk('"other'),
    "no JSON": chunk("other"),
    "nothing": chunk(""),
    "only the beginning": chunk("_").partition(b"_")[0],
    "only the end": chunk("_").rpartition(b"_")[2],
    "both at once": b'{"id":"c"}]}',
    "the end marker": b"[DONE]",
}


def events_of_body(wire: Wire, data: list[bytes]) -> list[tuple[Any, ...]]:
    decoder = StreamDecoder(wire=wire, tools=["look"])
    events = [event for one in data for event in decoder.feed(b"data: " + one + b"\n\n")]
    return [comparable(event) for event in (*events, *decoder.finish())]


@every("piece", ["a piece", "content", "m", "chat.completion.chunk", "é", "delta.", '"}}]}'])
def test_a_payload_written_with_the_same_bytes_around_another_piece_gives_the_same_events(piece: str) -> None:
    """Also if the piece is equal to a key or to another value, so that its place has to be found."""
    wire, wrong = find("openai.chat_completions"), []
    same = chunk(json.dumps(piece, ensure_ascii=False))
    for name, data in WRITTEN.items():
        for put in ([data], [data, data, same]):
            given = [*[same] * 12, *put, same, b"[DONE]"]
            if events_of_body(wire, given) != events_of_body(reading_each(wire), given):
                wrong.append(f"{name} ({len(put)})")
    assert wrong == []


FORMS: dict[str, Callable[[str, str], bytes]] = {
    "padding at the end": lambda found, piece: chunk(json.dumps(piece), end=f',"obfuscation":"{found}"'),
    "blanks at the end": lambda found, piece: chunk(json.dumps(piece), end=found),
    "a number at the end": lambda found, piece: chunk(json.dumps(piece), end=f',"created":{found}'),
    "padding behind the piece": lambda found, piece: chunk(json.dumps(piece), after=f',"refusal":"{found}"'),
    "blanks behind the piece": lambda found, piece: chunk(json.dumps(piece) + found),
    "a number at the beginning": lambda found, piece: (
        b'{"created":' + found.encode() + b"," + chunk(json.dumps(piece))[1:]
    ),
    "padding at the beginning": lambda found, piece: (
        b'{"obfuscation":"' + found.encode("utf-8", "surrogatepass") + b'",' + chunk(json.dumps(piece))[1:]
    ),
    "blanks at the beginning": lambda found, piece: found.encode() + chunk(json.dumps(piece)),
    "digits of a float": lambda found, piece: chunk(json.dumps(piece), end=f',"created":1.{found}'),
    "an exponent": lambda found, piece: chunk(json.dumps(piece), end=f',"created":1e+{found}'),
    "a float": lambda found, piece: chunk(json.dumps(piece), end=f',"created":{found}.5e299'),
    "a negative number": lambda found, piece: chunk(json.dumps(piece), end=f',"created":-{found}'),
    "a key": lambda found, piece: chunk(json.dumps(piece), end=f',"x{found}":null'),
    "padding and a number": lambda found, piece: chunk(
        json.dumps(piece), end=f',"obfuscation":"a{found}","created":{found}'
    ),
    "the piece itself before it": lambda found, piece: (
        b'{"obfuscation":' + json.dumps(found if found in ODD else piece).encode() + b"," + chunk(json.dumps(piece))[1:]
    ),
    "padding at both ends": lambda found, piece: (
        b'{"obfuscation":"a' + found.encode() + b'",' + chunk(json.dumps(piece), end=f',"p":"b{found}"')[1:]
    ),
}
"""Payloads that have something else in one place each time, by that and a piece."""
FOUND: dict[str, tuple[str, ...]] = {
    "words": ("aX3", "b", "Q7w9", "aXX"),
    "numbers": ("9", "10", "11", "12"),
    "numbers that become longer": ("98", "99", "100", "101"),
    "numbers with a zero": ("0", "1", "2", "3"),
    "blanks": ("  ", "", "   ", " "),
    "blanks that come later": ("", "", "", "", "", " ", "  ", ""),
}
ODD = (
    *("7", "07", "00", "0", "1.5", "-3", "1e5", "1" * 17, "1" * 19, "1" * 400, "1" * 5000, "999", "true", "null"),
    *("1,2", "", " ", "   ", "\t", "\n", "\x0b", "\x0c", "\xa0", " x ", "x y", "word", "é", "-", ".", "\\", "\\n"),
    *("\\u0041", '"', '\\"', '","model":"x', '"}', "}", ",", ",,", "\x00", "\x1f", "\x7f", '","refusal":"no'),
    *(',"refusal":"no"', '"}}],"error":{"message":"x"},"x":[{"y":{"z":"', "[" * 9),
)  # fmt: skip


@every("form", FORMS)
def test_payloads_that_differ_in_a_number_or_padding_give_the_same_events(form: str) -> None:
    """Also where something else stands in its place, once or from then on."""
    wire, wrong = find("openai.chat_completions"), []
    each = reading_each(wire)
    write = FORMS[form]
    for kind, found in FOUND.items():
        usual = [write(found[n % len(found)], f"{n}") for n in range(16)]
        for odd in ODD[:: 1 if FULL else 4]:
            given = [*usual, write(odd, "odd"), write(odd, "again"), *usual[:3], b"[DONE]"]
            if events_of_body(wire, given) != events_of_body(each, given):
                wrong.append(f"{kind}: {odd!r}")
    assert wrong == []


@every(
    ("form", "kind"),
    [
        ("padding at the end", "words"),
        ("blanks at the end", "blanks"),
        ("blanks at the end", "blanks that come later"),
        ("a number at the end", "numbers"),
        ("a number at the beginning", "numbers"),
        ("a number at the beginning", "numbers that become longer"),
        ("padding at the beginning", "words"),
        ("padding at both ends", "words"),
    ],
)
def test_of_payloads_that_differ_in_a_number_or_padding_only_the_piece_is_parsed(form: str, kind: str) -> None:
    write, found = FORMS[form], FOUND[kind]
    data = [(write(found[n % len(found)], piece), piece) for n, piece in enumerate(f"{piece}}}}}]" for piece in PIECES)]
    assert unparsed(data) >= len(PIECES) - 6


def test_equal_padding_before_a_piece_is_not_taken_for_it() -> None:
    wire = find("openai.chat_completions")
    write = FORMS["padding at the beginning"]
    for varied in range(3, 10):
        padding = [*(f"a{n}" for n in range(varied)), "same", "same", "odd", "odd"]
        given = [*(write(found, "same") for found in padding), b"[DONE]"]
        assert events_of_body(wire, given) == events_of_body(reading_each(wire), given), varied


@every("piece", ["content", "m", "chat.completion.chunk", "é", "}]}"])
def test_the_place_of_a_piece_is_found_that_stands_elsewhere_too(piece: str) -> None:
    data = [(chunk(json.dumps(piece, ensure_ascii=False)), piece)] * 12
    assert unparsed(data) >= len(data) // 2


def unparsed(data: list[tuple[bytes, str]]) -> int:
    """The number of payloads whose pieces were found, and are these, by the bytes around them."""
    path, known = PlainPath(find("openai.chat_completions").new_decoder(Limits()).plain), 0
    for one, piece in data:
        if path.surroundings is not None and (read := path.surroundings.piece_of(one)) is not None:
            assert read == piece
            known += 1
        elif (payload := json.loads(one)) == path.template:
            path.surroundings = None
            if path.tries:
                path.learn_bytes(one, piece, payload)
        else:
            path.learn(payload, piece)
    return known


def test_nothing_is_learned_from_long_payloads_nor_from_many_that_differ() -> None:
    path = PlainPath(find("openai.chat_completions").new_decoder(Limits()).plain)
    long = chunk(json.dumps("a piece"), end=',"obfuscation":"' + "x" * 5000 + '"')
    assert [path.learn(json.loads(long), "a piece") for _ in range(2)] == [False, True]
    tries = path.tries
    path.learn_bytes(long, "a piece", {})
    path.learn_bytes(long, "a piece", {})
    assert (path.surroundings, path.tries) == (None, tries - 2)


class Odd(str):
    """A text of the program's own that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("not with that")

    __hash__ = str.__hash__


def test_a_payload_whose_values_cannot_be_compared_is_read() -> None:
    wire = find("openai.chat_completions")
    payloads = CASES[wire.name].say(Response(text=PIECES))
    middle = len(payloads) // 2
    payloads[middle]["service_tier"] = payloads[middle]["object"] = Odd("chat.completion.chunk")
    assert is_same(wire, payloads, Limits(), parsed=True)
    turn = parse(payloads, wire=wire)
    assert turn.text == "".join(PIECES)


def test_a_piece_that_is_nested_as_deep_as_any_parser_goes_is_an_error_of_the_stream_and_no_exception() -> None:
    """Alone it can be parsed, and within its payload it cannot."""
    decoder = StreamDecoder(wire=CHAT)
    for _ in range(8):
        decoder.feed(b"data: " + dumped(chat_chunk({"content": "a"})) + b"\n\n")
    head, tail = dumped(chat_chunk({"content": "a"})).split(b'"a"')
    decoder.feed(b"data: " + head + b"[" * 1023 + b"]" * 1023 + tail + b"\n\n")
    assert isinstance(decoder.finish()[-1], StreamEnd)
