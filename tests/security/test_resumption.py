"""A state of suspended calls that comes back from where anybody may have changed it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streamtools.dispatch.suspended import Suspended, SuspendedCall
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
SIGNED = STATE.to_json(KEY)

NESTED = ["[" * depth + "1" + "]" * depth for depth in (500, 5_000, 200_000)]
NO_STATES: dict[str, Any] = {
    "nothing": "",
    "no json": "{",
    "no object": "[]",
    "a number": "1",
    "an empty object": "{}",
    "bytes": b"\xff\xfe",
    "digits": '{"calls": ' + "9" * 5000 + "}",
    "infinity": '{"calls": 1e999, "signature": "x"}',
    "half a pair": '{"signature": "\\ud83d"}',
    "a signature of another type": '{"signature": ["x"]}',
    "no signature": json.dumps({k: v for k, v in json.loads(SIGNED).items() if k != "signature"}),
    "an empty signature": json.dumps({**json.loads(SIGNED), "signature": ""}),
    **{f"nested {len(text) // 2}": f'{{"calls": {text}, "signature": "x"}}' for text in NESTED},
}


@pytest.mark.parametrize("name", NO_STATES)
def test_whatever_is_given_for_a_state_is_refused_with_one_kind_of_error(name: str) -> None:
    with pytest.raises(SuspendedError) as caught:
        Suspended.from_json(NO_STATES[name], KEY)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_every_change_of_a_signed_state_is_refused_unless_it_says_the_same() -> None:
    for at in range(len(SIGNED)):
        for put in ("", "x", "0", '"', "}", " ", "\\"):
            changed = SIGNED[:at] + put + SIGNED[at + 1 :]
            try:
                assert Suspended.from_json(changed, KEY) == STATE, changed
            except SuspendedError:
                continue


CHANGES: dict[str, Any] = {
    "arguments": {"calls": [{**json.loads(SIGNED)["calls"][0], "arguments_text": '{"amount": 1000}'}]},
    "tool": {"calls": [{**json.loads(SIGNED)["calls"][0], "tool_name": "delete"}]},
    "idempotency key": {"calls": [{**json.loads(SIGNED)["calls"][0], "key": "another"}]},
    "one more call": {"calls": json.loads(SIGNED)["calls"] * 2},
    "no calls": {"calls": []},
    "age": {"issued_at": 2**40},
    "run": {"run_id": "another"},
    "more": {"admin": True},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_state_says_cannot_be_changed_without_the_key(name: str) -> None:
    assert Suspended.from_json(SIGNED, KEY) == STATE
    for key in (KEY, OTHER):
        with pytest.raises(SuspendedError):
            Suspended.from_json(json.dumps({**json.loads(SIGNED), **CHANGES[name]}), key)
    with pytest.raises(SuspendedError):
        Suspended.from_json(SIGNED, OTHER)


def test_a_state_does_not_show_its_arguments_by_itself() -> None:
    assert "amount" not in repr(STATE)
    assert "amount" not in str(STATE.calls)
