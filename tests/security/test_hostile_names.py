"""Names that the model makes up: of tools that are not there, of things inside Python, of what looks like a name."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
from profiles import every, mostly_thorough
from streams import chat, stream

from streamtools import Observation, Pipeline, ToolContext, pipeline, tool
from streamtools.tools import Tool

pytestmark = pytest.mark.anyio

RAN: list[Any] = []


@tool(effect="pure")
def transfer(amount: int = 1) -> str:
    """Transfer money."""
    RAN.append(amount)
    return "done"


async def observed(name: str, arguments: str, *tools: Any, **options: Any) -> tuple[Observation, Pipeline]:
    RAN.clear()
    async with pipeline(stream(chat(calls=[("c", name, arguments)])), tools=tools or [transfer], **options) as events:
        _ = [event async for event in events]
    (observation,) = events.turn.observations
    return observation, events


# -- tools that are not there ------------------------------------------------------------------------------------

NOT_REGISTERED = [
    *("trаnsfer", "ｔｒａｎｓｆｅｒ"),  # a Cyrillic a; what NFKC makes of it is registered
    *("transfer\u200b", "\u202etransfer", "trans\u00adfer", "Transfer", "transfer ", "transfer\n", "transfer\x00"),
    *("transfe", "transferr", "transfer()", "transfer;transfer", "a.transfer.b", "test_names:transfer", "../transfer"),
    *("__class__", "__dict__", "__proto__", "constructor", "fn", "get", "os.system", "builtins.eval", "0", "None"),
    *("{transfer}", "{0.__class__}", "%s", "$transfer", "*"),
]


@every("name", NOT_REGISTERED)
@every("dispatch", ["auto", "early"])
async def test_a_name_that_is_not_a_registered_one_runs_nothing_and_is_answered(name: str, dispatch: Any) -> None:
    observation, events = await observed(name, '{"amount": 5}', start=dispatch)
    assert RAN == []
    assert observation.outcome == "unknown_tool"
    assert observation.attempts == 0
    assert "available tools: transfer" in observation.model_content
    assert len(observation.model_content) < 1000
    said, result = events.turn.messages()
    sent = said["tool_calls"][0]["function"]["name"]
    assert sent.isascii()
    assert sent.replace("_", "a").replace("-", "a").isalnum(), "a name that the provider takes back"
    assert result["tool_call_id"] == said["tool_calls"][0]["id"]


async def test_the_list_of_names_that_a_model_is_told_is_bounded() -> None:
    many = [tool(transfer.fn, name=f"tool_{number:058d}") for number in range(900)]
    observation, _ = await observed("nothing", "{}", *many)
    assert observation.outcome == "unknown_tool"
    assert len(observation.model_content) < 4096


# -- arguments that are not there ---------------------------------------------------------------------------------


@tool(effect="pure")
def typed(path: str, ctx: ToolContext) -> str:
    """Read."""
    RAN.append((path, ctx.call_id))
    return path


class Files:
    """Methods as tools."""

    root = "safe"

    def read(self, path: str, ctx: ToolContext) -> str:
        """Read."""
        RAN.append((path, ctx.call_id, self.root))
        return path


def _open(path: str, ctx: ToolContext, **more: Any) -> str:
    """Read."""
    RAN.append((path, ctx.call_id, more))
    return path


def _bound(path: str, secret: str, ctx: ToolContext) -> str:
    """Read."""
    RAN.append((path, secret, ctx.call_id))
    return path


OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
INJECTED: dict[str, Tool[..., Any]] = {
    "typed": typed,
    "method": tool(Files().read, effect="pure"),
    "partial": tool(functools.partial(_bound, secret="ours"), name="bound", effect="pure"),
    "open schema": Tool.from_schema(_open, OPEN_SCHEMA, name="opened", effect="pure"),
}
INTERNAL = [
    *("ctx", "self", "cls", "return", "args", "kwargs", "context", "secret", "fn", "_ctx", "binder", "limits"),
    *("__class__", "__dict__", "__proto__", "__globals__", "__init__"),
    *("call_id", "idempotency_key", "timeout", "effect", "needs_approval", "injected"),
]


@every("made", INJECTED)
@every("key", INTERNAL)
@every("value", mostly_thorough(['{"call_id": "forged"}', '"forged"', "null"], 1))
async def test_what_only_the_program_sets_cannot_be_set_by_a_model(made: str, key: str, value: str) -> None:
    tested = INJECTED[made]
    arguments = f'{{"path": "a", {json.dumps(key)}: {value}}}'
    observation, _ = await observed(tested.name, arguments, tested)
    if observation.outcome == "ok":  # an open schema lets more arguments in: as arguments, and in no other's place
        assert made == "open schema"
        ((path, call_id, more),) = RAN
        assert (path, call_id) == ("a", "c")
        assert more == {key: json.loads(value)}
    else:
        assert observation.outcome == "invalid"
        assert RAN == []
    assert "forged" not in observation.model_content


@every("key", INTERNAL)
async def test_a_key_that_is_called_like_something_inside_is_only_a_key(key: str) -> None:
    def store(entries: dict[str, Any]) -> str:
        """Store."""
        RAN.append(entries)
        return type(entries).__name__

    observation, _ = await observed("store", json.dumps({"entries": {key: {key: 1}}}), tool(store, effect="pure"))
    assert observation.outcome == "ok"
    assert [{key: {key: 1}}] == RAN
    assert observation.value == "dict"
    assert not hasattr({}, "polluted")
