"""Each request has lists, messages, blocks and tools of its own: what `ask` does to them reaches nobody else."""

from __future__ import annotations

import copy
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import anyio
import pytest
from profiles import every
from streams import anthropic, chat, stream

from streamtools import Retry, Trajectory, agent_loop, tool
from streamtools.dispatch import SqliteStore
from streamtools.events import MessageAdded, StepStart
from streamtools.modes import JSONObjectAdapter, NativeToolAdapter
from streamtools.observers import Observer

pytestmark = pytest.mark.anyio
CHAT = "openai.chat_completions"
MESSAGES = "anthropic.messages"
MARK = {"type": "ephemeral"}


@tool(effect="pure")
async def look(at: list[str], more: dict[str, list[str]]) -> str:
    """Look."""
    return "seen"


CALL = json.dumps({"at": ["a"], "more": {"b": ["c"]}})
BODIES: dict[str, tuple[list[bytes], list[bytes], list[bytes]]] = {
    CHAT: (chat(calls=[("a", "look", CALL)]), chat(["Done."], finish="stop"), chat(["So far"], finish=None)),
    MESSAGES: (
        anthropic(calls=[("a", "look", CALL)]),
        anthropic(["Done."], stop="end_turn"),
        anthropic(["So far"], stop=None),
    ),
}
HISTORY: list[Any] = [
    {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Hello", "of": {"its": [{"kind": "own"}]}}]},
    OrderedDict(role="user", content=[{"type": "text", "text": "Look."}]),
]


def mark_all(value: Any) -> None:
    """Mark and lengthen everything that somebody may want to mark."""
    for one in list(value.values() if isinstance(value, dict) else value):
        if isinstance(one, (dict, list)):
            mark_all(one)
    if isinstance(value, dict):
        value["cache_control"] = MARK
    else:
        value.insert(0, {"role": "system", "content": "Be brief."})


class MarkingAdapter(NativeToolAdapter):
    """An adapter that puts the instructions in front, and marks what it is given."""

    def format_request(self, tools: Any, messages: Any) -> Any:
        mark_all(messages)
        del messages[1:]
        return {**super().format_request(tools, messages), "messages": [{"role": "user", "content": "Look."}]}


class Marking:
    """Marks what it is given, then gives one thing after the other."""

    def __init__(self, *given: Any) -> None:
        self.given = list(given)
        self.asked: list[tuple[Any, Any]] = []

    async def __call__(self, messages: Any, tools: Any) -> Any:
        self.asked.append(copy.deepcopy((messages, tools)))
        mark_all(messages)
        mark_all(tools)
        given = self.given.pop(0)
        if isinstance(given, BaseException):
            raise given
        return stream(given)


RETRIES: dict[str, Any] = {
    "refused": (lambda cut: ConnectionError("refused"), {"retry": Retry(backoff=0)}),
    "broken": (lambda cut: cut, {"retry": Retry(backoff=0, after_output=True)}),
    "a fallback": (lambda cut: ConnectionError("refused"), {"fallback": ()}),
}


MODES = {
    "": lambda wire: None,
    "ours": lambda wire: JSONObjectAdapter() if wire == CHAT else NativeToolAdapter(wire),
    "theirs": MarkingAdapter,
}


PAIRS = [(list(BODIES)[at % 2], list(RETRIES)[at % 3], list(MODES)[at // 2 % 3]) for at in range(6)]


@every("wire, failure, mode", PAIRS)
async def test_each_attempt_asks_with_the_lists_of_its_step(wire: str, failure: str, mode: str) -> None:
    calls, done, cut = BODIES[wire]
    fails, options = RETRIES[failure]
    ask = Marking(fails(cut), calls, fails(cut), done)
    if "fallback" in options:
        options = {"fallback": [ask]}
    options = {**options, "mode": MODES[mode](wire)}
    given = copy.deepcopy(HISTORY)
    with anyio.fail_after(30):
        run = agent_loop(ask, given, tools=[look], wire=wire, max_steps=2, **options)
        await run
    assert len(ask.asked) >= 2
    assert ask.asked[0] == ask.asked[1]
    assert ask.asked[2:3] == ask.asked[3:4] or mode
    assert "cache_control" not in json.dumps(ask.asked)
    assert "cache_control" not in json.dumps(run.messages)
    assert given == HISTORY


@every("wire, journaled", [(wire, journaled) for wire in BODIES for journaled in (False, True)])
async def test_marks_reach_neither_later_steps_nor_the_history_nor_what_is_kept(
    wire: str, journaled: bool, tmp_path: Path
) -> None:
    calls, done, _ = BODIES[wire]
    given, began, seen = copy.deepcopy(HISTORY), [], []

    class Sees(Observer):
        event_types = frozenset({StepStart})

        def on_event(self, event: StepStart) -> None:
            began.append(event.request)

    ask = Marking(calls, calls, done)
    kept: dict[str, Any] = {"journal": str(tmp_path / f"{wire}.db")} if journaled else {}
    run = agent_loop(
        ask, given, tools=[look], wire=wire, trajectory=Trajectory(run_id=wire, observers=[Sees()]), **kept
    )
    with anyio.fail_after(30):
        async with run:
            run.say("And this?")
            run.say({"role": "user", "content": [{"type": "text", "text": "And that?"}]})
            async for event in run:
                seen.append(len(run.messages))
                mark_all(run.messages)
                mark_all(run.added)
                mark_all([one["messages"] for one in run.unread])
                if isinstance(event, StepStart):
                    assert "cache_control" not in json.dumps(event.request)
                    mark_all(event.request["messages"])
                if isinstance(event, MessageAdded):
                    assert "cache_control" not in json.dumps(event.messages)
                    mark_all(list(event.messages))
    assert len(ask.asked) == 3
    assert "cache_control" not in json.dumps([ask.asked, run.messages, run.added])
    assert given == HISTORY
    for turn in run.turns:
        first = turn.messages(wire)
        mark_all(first)
        assert "cache_control" not in json.dumps(turn.messages(wire))
    if journaled:
        again = agent_loop(
            Marking(), given, tools=[look], wire=wire, run_id=wire, journal=SqliteStore(tmp_path / f"{wire}.db")
        )
        await again
        assert again.messages == run.messages


class Nested(dict[str, Any]):
    """A message of another library's: a dict with more to it."""


def containers(value: Any) -> list[Any]:
    """Every dict and list in a value, and itself."""
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(found for one in inner if isinstance(one, (dict, list)) for found in containers(one))]


CHANGES: dict[str, Any] = {
    "a message is added": lambda messages: messages.append({"role": "user", "content": "More?"}),
    "all are removed": list.clear,
    "a message is changed": lambda messages: messages[-1].update(role="system", content=None),
    "a message is emptied": lambda messages: messages[1].clear(),
    "a block is marked": lambda messages: messages[0]["content"][0].update(cache_control=MARK),
    "a block is added": lambda messages: messages[2]["content"].append({"type": "text", "text": "More?"}),
    "a deep value is changed": lambda messages: messages[1]["content"][0]["of"]["its"][0].update(kind="theirs"),
    "everything is emptied": lambda messages: [one.clear() for one in containers(messages)],
}


@every("wire, change", [(list(BODIES)[at % 2], change) for at, change in enumerate(CHANGES)])
async def test_each_request_is_new_whatever_became_of_those_before(wire: str, change: str) -> None:
    """Requests of steps before are changed only while the next one is made, too."""
    calls, done, _ = BODIES[wire]
    given = [*HISTORY, Nested(role="user", content=[{"type": "text", "text": "And?"}])]

    async def ran(change: Any) -> tuple[list[Any], list[Any], Any]:
        asked: list[Any] = []
        kept: list[Any] = []
        bodies = iter([calls, calls, done])

        async def ask(messages: list[Any], tools: Any) -> Any:
            kept.append(messages)
            for earlier in kept[:-1]:
                change(earlier)
            asked.append(copy.deepcopy(messages))
            change(messages)
            return stream(next(bodies))

        run = agent_loop(ask, given, tools=[look], wire=wire)
        with anyio.fail_after(30):
            await run
        return asked, kept, run

    expected, kept, untouched = await ran(lambda messages: None)
    asked, _, run = await ran(lambda messages: CHANGES[change](messages) if messages else None)
    assert len(asked) == 3
    assert asked == expected
    assert run.messages == untouched.messages
    found = [one for value in [*kept, untouched.messages, given] for one in containers(value)]
    assert len({id(one) for one in found}) == len(found)
    assert {type(messages[3]) for messages in expected} == {Nested}
