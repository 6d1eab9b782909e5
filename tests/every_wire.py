"""What a response looks like on every wire and in every framing: for tests that hold of all of them.

`said` composes the payloads of a response; `FRAMES` puts payloads into bytes, and `payloads_of` gets them out again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import bedrock_streams
from sansio import encode
from wire_cases import CASES, Payload, Response
from wire_cases.names import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, REALTIME, RESPONSES

from streamtools import Turn
from streamtools.errors import StreamError
from streamtools.framing import Frame, choose
from streamtools.wires import WIRES

__all__ = [
    "ANTHROPIC", "BEDROCK", "CHAT", "COHERE", "FRAMES", "FRAMINGS", "GEMINI", "IN_DELTAS", "MISTRAL", "OLLAMA",
    "REALTIME", "REFUSES", "RESPONSES", "Call", "Payload", "check_sendable", "dumped", "events_of", "framed",
    "payloads_of", "said",
]  # fmt: skip

Call = tuple[str, str, str]  # id, name, arguments as JSON text

# -- framings --------------------------------------------------------------------------------------------------------


def _sse(payloads: Iterable[Any]) -> list[bytes]:
    return [b"data: " + dumped(payload) + b"\n\n" for payload in payloads]


def _ndjson(payloads: Iterable[Any]) -> list[bytes]:
    return [dumped(payload) + b"\n" for payload in payloads]


def _json_array(payloads: Iterable[Any]) -> list[bytes]:
    values = [dumped(payload) for payload in payloads]
    return [b"[" * (not at) + value + (b",\n" if at < len(values) - 1 else b"]\n") for at, value in enumerate(values)]


def _aws(payloads: Iterable[Any]) -> list[bytes]:
    """Each payload with one name at its top as the message of that name; any other inside a message of its own."""
    frames = []
    for payload in payloads:
        named = isinstance(payload, dict) and len(payload) == 1
        name, body = next(iter(payload.items())) if named else ("unnamed", payload)
        kind = "exception" if name.endswith("Exception") else "event"
        frames.append(bedrock_streams.event(name.encode("utf-8", "replace").decode(), dumped(body), kind=kind))
    return frames


def dumped(payload: Any) -> bytes:
    """As JSON that holds anything that Python's reader takes: NaN, halves of surrogate pairs, integers of any size."""
    try:
        return json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(payload, separators=(",", ":")).encode()


FRAMES: dict[str, Callable[[Iterable[Any]], list[bytes]]] = {
    "sse": _sse,
    "ndjson": _ndjson,
    "json_array": _json_array,
    "aws_eventstream": _aws,
}
"""Payloads as the body of each framing, a payload an item."""

FRAMINGS = {wire: cases.framings for wire, cases in CASES.items()}
"""The framings that each wire is known to come in, the usual one first."""


def framed(wire: str, payloads: Iterable[Any]) -> list[bytes]:
    """Payloads in the wire's usual framing."""
    return FRAMES[FRAMINGS[wire][0]](payloads)


def payloads_of(body: bytes) -> list[Any]:
    """The payloads of a body, as far as they are JSON."""
    framing = choose(body, len(body) + 1)
    found: list[Any] = []
    data: list[bytes | Frame] = []
    try:
        data.extend(framing.feed_payloads(body) if framing else ())
        data.extend(framing.finish() if framing else ())
    except StreamError:
        pass  # what came before it
    for item in data:
        try:
            found.append(json.loads((item.data if isinstance(item, Frame) else item).decode("utf-8", "replace")))
        except ValueError:
            continue
    return found


def events_of(body: bytes) -> list[bytes]:
    """A body, an event an item, each whole in its framing; of a JSON array, in a framing of its own."""
    if body[:1] == b"\0":
        found = []
        while body:
            size = max(int.from_bytes(body[:4], "big"), 1)
            found.append(body[:size])
            body = body[size:]
        return found
    if body[:1] == b"{":
        return body.splitlines(keepends=True)
    if body.lstrip()[:1] == b"[":
        return FRAMES["json_array"](payloads_of(body))
    return re.findall(rb".*?(?:\r?\n){2}|.+", body, re.DOTALL)


# -- wires -----------------------------------------------------------------------------------------------------------


def said(
    wire: str,
    *,
    text: Sequence[str] = (),
    reasoning: Sequence[str] = (),
    refusal: Sequence[str] = (),
    calls: Sequence[Call] = (),
    pieces: int = 1,
    ends: bool = True,
) -> list[Payload]:
    """The payloads of a response.

    Args:
        wire: which wire it speaks.
        text, reasoning, refusal: a delta an item; what the wire has no word for is left out.
        calls: whole calls.
        pieces: how many deltas each call's arguments come in, where the wire has them in deltas.
        ends: with the wire's own end.
    """
    response = Response(text=text, reasoning=reasoning, refusal=refusal, calls=calls, pieces=pieces, ends=ends)
    return CASES[wire].say(response)


REFUSES = frozenset(wire for wire, cases in CASES.items() if cases.refuses)
"""The wires that have a word for the model's refusal."""
IN_DELTAS = frozenset(wire for wire, cases in CASES.items() if cases.in_deltas)
"""The wires whose arguments come as text in deltas; in the others they come as objects, whole."""

# -- histories -------------------------------------------------------------------------------------------------------


def check_sendable(turn: Turn, targets: Iterable[str] = WIRES) -> None:
    """Messages for any wire can be encoded and answer each call once, in order; whatever the provider had sent.

    For other wires than its own, and for those that keep nothing that they do not understand, they are checked as
    strictly as those of a good response. A provider's own state goes back to it as it came: if it was garbage, garbage.
    """
    if turn.wire is None and turn.parts:
        return
    for target in targets:
        if turn.finish == "pending":
            assert turn.messages(target) == []
            continue
        # One that was made before a checkpoint, and not again behind it, is in no history of its own wire.
        unsaid = [call for call in turn.calls if target == turn.wire and (call.provider_state or {}).get("unsaid")]
        ours = [call for call in turn.calls if call.kind != "server" and call not in unsaid]
        messages = turn.messages(target)
        assert messages == turn.messages(target), "the same turn gives the same messages"
        encode(messages)
        cases = CASES[target]
        if not messages:
            assert not ours
        elif target != turn.wire or cases.is_answered is None:
            cases.check(turn, messages)
        else:
            assert cases.is_answered(messages, len(ours))
