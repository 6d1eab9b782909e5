"""`check_wire` holds every wire of the library, and the docs' example, to the promises of wires; and names a broken
one."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from profiles import FULL, every
from wire_cases import CASES, Response

from streamtools import parse
from streamtools.events import Event, ToolCallFragment
from streamtools.testing import check_wire
from streamtools.wires import Wire, find

sys.path.append(str(Path(__file__).parents[2] / "examples"))
from own_wire import EXAMPLE, ExampleDecoder

HOSTILE = 1_000 if FULL else 100
SAID = (
    Response(text=("It is ", "fine.")),
    Response(calls=(("callaaaa1", "look", '{"at": "Oslo", "days": 3}'), ("callaaaa2", "look", '{"at": 1}')), pieces=3),
)
LINES: list[list[dict[str, Any]]] = [
    [{"line": "say", "text": "It is "}, {"line": "say", "text": "fine."}, {"line": "end", "why": "done"}],
    [
        {"line": "say", "text": "Let me look. "},
        {"line": "call", "id": "c1", "skill": "look", "args": {"at": "Oslo", "days": 2**64 + 1}},
        {"line": "call", "id": "c2", "skill": "look", "args": {"at": "Rome"}},
        {"line": "end", "why": "calls", "used": {"in": 12, "out": 5}},
    ],
]


@pytest.mark.parametrize("wire", CASES)
def test_every_wire_keeps_the_promises_of_wires_and_raises_nothing(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(error: Exception, *_: object) -> Exception:
        return AssertionError(f"{type(error).__name__} in a decoder of the library") if _is_a_bug(error) else error

    monkeypatch.setattr("streamtools.decode.decoder._broken", found)
    assert len(check_wire(wire, [CASES[wire].say(said) for said in SAID], cases=HOSTILE)) == 13


def _is_a_bug(error: Exception) -> bool:
    return not type(error).__module__.startswith("streamtools")


def test_a_wire_of_somebodys_own_keeps_the_promises_of_wires() -> None:
    check_wire(EXAMPLE, LINES, cases=HOSTILE)


def test_a_call_that_lost_its_pieces_and_its_end_does_not_run() -> None:
    fragments = [ToolCallFragment(0, call, "look", start=True) for call in ("c1", "c2")]

    class Unended(ExampleDecoder):
        """Begins two calls at one place, and marks no ends."""

        def feed(self, payload: dict[str, Any]) -> list[Event]:
            super().feed(payload)
            self.out += fragments if payload["line"] == "say" else []
            return self.out

    turn = parse([{"line": "say", "text": "x"}, {"line": "end", "why": "calls"}], wire=with_decoder(Unended))
    assert [(call.call_id, call.status) for call in turn.calls] == [("c1", "truncated"), ("c2", "ready")]


# -- wires that break one promise ------------------------------------------------------------------------------------


class Unbegun(ExampleDecoder):
    """Forgets to say where the response begins."""

    def emit_start(self, model: object, response_id: object) -> None:
        """Emits nothing."""


class Beginless(ExampleDecoder):
    """Emits calls that have neither a beginning nor a name."""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        return [
            replace(event, start=False, name=None, index=number) if isinstance(event, ToolCallFragment) else event
            for number, event in enumerate(super().feed(payload))
        ]


class Incomplete(ExampleDecoder):
    """Never sees its end."""

    def close(self, *, framed: bool) -> Any:
        return None, False


class Warning_(ExampleDecoder):
    """Finds fault with a good stream."""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        super().feed(payload)
        self.warn("unknown_event")
        return self.out


def with_decoder(decoder: type[ExampleDecoder]) -> Wire:
    return replace(EXAMPLE, decoder=decoder)


def no_text(answer: Any) -> list[Any]:
    return [{**message, "words": ""} for message in EXAMPLE.render_reply(answer)]


def counted(answer: Any) -> list[Any]:
    results = [replace(result, content=f"{len(answer.calls)} {result.content}") for result in answer.results]
    return EXAMPLE.render_results(replace(answer, results=tuple(results)))


def all_but_the_last(messages: Any) -> Any:
    return EXAMPLE.read(messages)[:-1]


def raising(payload: Any) -> bool:
    return bool(payload["line"]["kind"])


BROKEN: dict[str, tuple[Wire, str]] = {
    "a decoder that does not begin": (with_decoder(Unbegun), "a_good_stream_is_read_whole"),
    "a decoder that does not end": (with_decoder(Incomplete), "a_good_stream_is_read_whole"),
    "a decoder that warns": (with_decoder(Warning_), "a_good_stream_is_read_whole"),
    "calls that do not begin": (with_decoder(Beginless), "each_call_has_a_beginning"),
    "a mark that raises": (replace(EXAMPLE, recognises=raising), "a_good_stream_is_read_whole"),
    "a writer that loses text": (replace(EXAMPLE, render_reply=no_text), "a_history_is_accepted_as_it_was_written"),
    "a writer that loses results": (replace(EXAMPLE, render_results=lambda _: []), "a_history_reads_back"),
    "a writer that mixes results up": (replace(EXAMPLE, render_results=counted), "a_result_may_come_later"),
    "a reader that loses messages": (
        replace(EXAMPLE, read=all_but_the_last),
        "a_history_is_accepted_as_it_was_written",
    ),
}


def test_the_check_names_the_promise_that_a_wire_breaks() -> None:
    for wire, promise in BROKEN.values():
        with pytest.raises(AssertionError, match=f"^{promise}: "):
            check_wire(wire, LINES, cases=10)


# -- the boundary ----------------------------------------------------------------------------------------------------


class Raising(ExampleDecoder):
    """Trips over some payloads."""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        super().feed(payload)
        payload["no such field"]
        return self.out


class RaisingAtItsEnd(ExampleDecoder):
    """Trips over the end."""

    def close(self, *, framed: bool) -> Any:
        raise KeyError("a secret of the peer's")


class RaisingAtOnce(ExampleDecoder):
    """Trips over the last payload before it has looked at it."""

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        if payload["line"] == "end":
            raise KeyError("line")
        return super().feed(payload)


def test_a_decoder_that_raises_at_once_emits_nothing_twice() -> None:
    assert parse(LINES[0], wire=with_decoder(RaisingAtOnce)).text == "It is fine."


@every("decoder", [Raising, RaisingAtItsEnd])
def test_what_a_decoder_raises_ends_the_stream_and_keeps_what_came(decoder: type[ExampleDecoder]) -> None:
    turn = parse(LINES[0], wire=with_decoder(decoder))
    assert turn.text.startswith("It is ")
    assert not turn.complete
    assert turn.error.kind == "malformed_chunk"
    assert "the decoder of example.talk raised KeyError (in " in turn.error.message
    assert "secret" not in str(turn.error)
    assert isinstance(turn.error.__cause__, KeyError)


def test_a_decoder_that_forgets_to_begin_says_so() -> None:
    error = parse(LINES[0], wire=with_decoder(Unbegun)).error
    assert error.message.startswith("the decoder never called emit_start")


def test_what_a_peer_puts_in_the_place_of_a_text_does_no_harm() -> None:
    payloads: list[dict[str, Any]] = [
        {"line": "call", "id": [], "skill": ["look"], "args": {"at": 1}},
        {"line": "call", "id": "c1", "skill": "look", "args": 5},
        {"line": "call", "id": "c1", "skill": "look"},
        {"line": "say", "text": {"a": 1}},
        {"line": ["say"]},
    ]
    for payload in payloads:
        turn = parse([payload, {"line": "end", "why": "calls"}], wire=EXAMPLE)
        assert turn.error is None, payload
        assert not any(call.dispatchable and call.arguments for call in turn.calls if call.name), payload


def test_a_fragment_of_anything_but_texts_is_no_call_that_runs() -> None:
    class Careless(ExampleDecoder):
        """Passes on what the peer sent."""

        def feed(self, payload: dict[str, Any]) -> list[Event]:
            super().feed({})
            self.out.append(ToolCallFragment(**payload, start=True, end=True))
            return self.out

    bad: Any
    for bad in ({"a": 1}, [], 7, b"x", None):
        for name in ("id", "name", "arguments", "index"):
            payload = {"index": 0, "id": "c1", "name": "look", "arguments": "{}", name: bad}
            turn = parse([payload], wire=with_decoder(Careless))
            assert turn.error is None or turn.error.kind != "malformed_chunk", (name, bad)
            assert len(turn.calls) == 1, (name, bad)


def test_the_marks_of_a_wire_that_raise_recognise_nothing() -> None:
    assert not replace(EXAMPLE, recognises=raising).is_own({"line": 1})
    assert find(EXAMPLE).is_own({"line": "say"})


def test_a_stream_without_a_call_checks_too_little() -> None:
    with pytest.raises(ValueError, match="that contains a call with arguments"):
        check_wire(EXAMPLE, LINES[:1])
