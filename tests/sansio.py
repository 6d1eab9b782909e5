"""What the sans-IO tests share: recorded deviations, ways of cutting, and what a good turn and a good history are."""

from __future__ import annotations

import base64
import json
import random
import re
from collections.abc import Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

from wire_cases import CASES
from wire_cases.names import ANTHROPIC, CHAT
from wire_cases.parts import strict_json

from streamtools import Turn
from streamtools.wires import WIRES

DATA = Path(__file__).resolve().parent / "data"
BUILT = (CHAT, ANTHROPIC)
"""The wires that `streams` composes bodies of; `every_wire` does so for all."""


def json_lines(path: Path) -> list[dict[str, Any]]:
    """The values of a JSON Lines file."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


QUIRKS = [
    quirk for path in sorted((DATA / "quirks").glob("*.jsonl")) for quirk in json_lines(path) if quirk["wire"] in WIRES
]


def body_of(quirk: dict[str, Any]) -> bytes:
    return base64.b64decode(quirk["body_b64"]) if "body_b64" in quirk else quirk["body"].encode()


def tells(body: bytes, wire: str) -> bool:
    """Whether the bytes say which wire they speak: an error alone, a web page or nothing does not."""
    return re.search(CASES[wire].told_by, body, re.DOTALL) is not None


def is_found(found: str | None, wire: str) -> bool:
    """Whether detection found the right wire."""
    return found == wire or CASES[wire].detected_as == found


def byte_by_byte(body: bytes) -> list[bytes]:
    return [body[at : at + 1] for at in range(len(body))]


def random_splits(body: bytes, count: int, seed: str) -> Iterator[list[bytes]]:
    """`count` seeded ways of cutting, from one cut to a dozen."""
    for number in range(count):
        dice = random.Random(f"{seed}:{number}")
        cuts = min(dice.randint(1, 12), max(len(body) - 1, 0))
        bounds = [0, *sorted(dice.sample(range(1, len(body)), cuts) if cuts else ()), len(body)]
        yield [body[start:end] for start, end in pairwise(bounds)]


def snapshot(turn: Turn) -> dict[str, Any]:
    """All that a turn says, comparable: errors are equal only to themselves."""
    said = {field.name: getattr(turn, field.name) for field in fields(turn)}
    return said | {"error": turn.error and (type(turn.error), turn.error.kind, str(turn.error))}


def codes(turn: Turn) -> list[str]:
    """The codes of the turn's warnings."""
    return [warning.code for warning in turn.warnings]


# -- what holds for every turn ----------------------------------------------------------------------------------

ID = re.compile(r"[a-zA-Z0-9_-]+")


def check_turn(turn: Turn) -> None:
    """A turn is consistent: ids are unique, and only what is whole, of ours and in a turn that ended well may run."""
    ids = [call.call_id for call in turn.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    assert [call.index for call in turn.calls] == sorted(call.index for call in turn.calls)
    assert sorted(part.call_id or "" for part in turn.parts if part.kind == "call") == sorted(ids)
    for call in turn.calls:
        assert (call.arguments is not None) == (call.status == "ready")
        assert (call.problem is None) == (call.status == "ready")
        if call.dispatchable:
            assert call.status == "ready"
            assert call.kind != "server"
            assert turn.complete
            assert turn.error is None
            assert turn.finish in ("stop", "tool_calls")
            if call.kind == "function" and not call.normalizations:
                assert strict_json(call.arguments_text) == call.arguments
    assert not (turn.complete and turn.error is not None and turn.finish != "error")


def check_histories(turn: Turn) -> None:
    """The messages for all wires are such that no provider refuses them."""
    for target, cases in CASES.items():
        messages = turn.messages(target)
        assert messages == turn.messages(target), "the same turn gives the same messages"
        encode(messages)
        ids = [call.call_id for call in turn.calls if call.kind != "server"]
        if not messages:
            assert not ids
            continue
        assert cases.model_roles is None or messages[0].get("role") in cases.model_roles
        cases.check(turn, messages)


def checked(turn: Turn) -> Turn:
    """Returns the turn, which is consistent, and whose messages are."""
    check_turn(turn)
    check_histories(turn)
    return turn


def encode(messages: object) -> bytes:
    """As an HTTP client does it: strict JSON in UTF-8, so no NaN and no half of a surrogate pair."""
    body = json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()
    strict_json(body)
    return body
