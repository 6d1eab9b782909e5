"""A state of suspended calls that comes back from where anybody may have changed it."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from streamtools.durable.suspended import Suspended, SuspendedCall
from streamtools.errors import SuspendedError

KEY = b"0123456789abcdef"
OTHER = b"fedcba9876543210"
STATE = Suspended(
    calls=(
        SuspendedCall(
            call_id="c", tool_name="pay", arguments_text='{"amount": 1}', fingerprint="f", idempotency_key="k"
        ),
    ),
    run_id="run",
    step=1,
    seq=7,
    wire="openai.chat_completions",
)
SIGNED = STATE.to_text(KEY)
PAYLOAD, _, MAC = SIGNED.rpartition(".")

NESTED = ["[" * depth + "1" + "]" * depth for depth in (500, 5_000, 100_000)]
NO_STATES: dict[str, Any] = {
    "nothing": "",
    "a dot": ".",
    "no json": "{",
    "a number": "1",
    "an empty object": "{}",
    "bytes": b"\xff\xfe",
    "digits": '{"calls": ' + "9" * 5000 + "}",
    "half a pair": '{"version": "\\ud83d"}',
    "no signature": PAYLOAD,
    "an empty signature": f"{PAYLOAD}.",
    "a signature in capitals": f"{PAYLOAD}.{MAC.upper()}",
    "a signature of half pairs": f"{PAYLOAD}." + "\ud800" * 64,
    "a signature in its own payload": json.dumps({**json.loads(PAYLOAD), "signature": MAC}),
    **{f"nested {len(text) // 2}": f'{{"calls": {text}}}.{MAC}' for text in NESTED},
}


def signed(payload: bytes, key: bytes = KEY) -> bytes:
    """A text that somebody with the key has signed, whatever it says."""
    hashes = hashlib.sha256(b"null").digest() + hashlib.sha256(payload).digest()
    return payload + b"." + hmac.new(key, b"streamtools suspended calls 5\n" + hashes, "sha256").hexdigest().encode()


def test_whatever_is_given_for_a_state_is_refused_by_its_signature_before_it_is_read() -> None:
    for name, text in NO_STATES.items():
        with pytest.raises(SuspendedError, match="the signature does not fit") as caught:
            Suspended.from_text(text, KEY)
        assert str(caught.value).isprintable(), name


def test_whatever_is_signed_and_is_not_a_state_is_refused_with_the_same_kind_of_error() -> None:
    whole: dict[str, Any] = json.loads(PAYLOAD)
    state, (call,) = whole["suspended"], whole["suspended"]["calls"]

    def with_call(**changed: Any) -> dict[str, Any]:
        return {**whole, "suspended": {**state, "calls": [{**call, **changed}]}}

    malformed: list[Any] = [
        *(None, 7, [], {}, "text", [whole], {"version": 5}, {**whole, "version": 4}, {**whole, "version": "5"}),
        *({**whole, "issued_at": at} for at in ("now", None, 1.5, True, [], 10**400, -1)),
        *({**whole, "suspended": one} for one in (None, [], {}, "text")),
        *({**whole, "suspended": {**state, "calls": calls}} for calls in (None, {}, "text", [None], [call, 7], [{}])),
        *({**whole, "suspended": {**state, name: value}} for name in state for value in ({}, True, [1], 10**400)),
        *(with_call(**{name: value}) for name in call for value in ({}, True, [1], 10**400)),
        with_call(kind="server side"),
        with_call(arguments_text=None),  # as in a ticket, which names its journal
        {name: value for name, value in whole.items() if name != "issued_at"},
    ]
    texts = [json.dumps(one).encode() for one in malformed]
    texts += [b"", b"{", b"\xff", b"9" * 5000, *(f'{{"version": 5, "suspended": {one}}}'.encode() for one in NESTED)]
    assert Suspended.from_text(signed(json.dumps(whole).encode()), KEY) == STATE
    for text in texts:
        with pytest.raises(SuspendedError) as caught:
            Suspended.from_text(signed(text), KEY)
        assert str(caught.value).isprintable(), text[:80]
        assert len(str(caught.value)) < 300, text[:80]
        assert "amount" not in str(caught.value), text[:80]


NO_OBJECTS = (
    *(
        "",
        "{",
        "x",
        "1",
        "null",
        "[]",
        '"a"',
        "\x00",
        '{"a": 1}{',
        "{'a': 1}",
        '{"a": NaN}',
        '{"a": -Infinity}',
        '{"a": 1e999}',
    ),
    *('{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', '{"a": "\\ud83d"}', '{"\\udc00": 1}', f'{{"a": {"9" * 5000}}}'),
    f'{{"a": {NESTED[-1]}}}',  # Python 3.13 reads the others, and the run refuses them as too deep
)


def test_what_is_parsed_later_is_judged_at_once_and_named() -> None:
    whole: dict[str, Any] = json.loads(PAYLOAD)
    state, (call,) = whole["suspended"], whole["suspended"]["calls"]

    def refusal(*calls: dict[str, Any], **changed: Any) -> str:
        text = json.dumps({**whole, "suspended": {**state, "calls": calls, **changed}})
        with pytest.raises(SuspendedError) as caught:
            Suspended.from_text(signed(text.encode()), KEY, max_bytes=10**7)
        return str(caught.value)

    for name in ("arguments_text", "edited_text"):
        for text in NO_OBJECTS:
            assert f"its suspended.calls.1.{name} is not" in refusal(call, {**call, "call_id": "d", name: text}), text
    for name in (name for name, value in call.items() if isinstance(value, str)):
        assert "its text is not" in refusal({**call, name: "\ud83d"}), name
    for twice in ('"step": 1', '"tool_name": "pay"', '"version": 5'):
        with pytest.raises(SuspendedError, match="a key twice"):
            Suspended.from_text(signed(PAYLOAD.replace(twice, f"{twice}, {twice}").encode()), KEY)
    freeform = {**call, "kind": "custom", "arguments_text": "no JSON"}
    (read,) = Suspended.from_text(
        signed(json.dumps({**whole, "suspended": {**state, "calls": [freeform]}}).encode()), KEY
    ).calls
    assert read.arguments == {"input": "no JSON"}


def test_every_change_of_a_signed_state_is_refused() -> None:
    for at in range(len(SIGNED)):
        for put in ("", "x", "0", '"', "}", " ", "\\"):
            changed = SIGNED[:at] + put + SIGNED[at + 1 :]
            if changed != SIGNED:
                with pytest.raises(SuspendedError):
                    Suspended.from_text(changed, KEY)
    for text, key in ((SIGNED, OTHER), (signed(PAYLOAD.encode(), OTHER).decode(), KEY)):
        with pytest.raises(SuspendedError, match="signed with another key"):
            Suspended.from_text(text, key)
