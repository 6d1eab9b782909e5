"""Arguments belong to their attempt: nothing that a tool or a reader does to them changes what runs, or the record."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from types import SimpleNamespace
from typing import Annotated, Any

import anyio
import pytest
from profiles import every, thorough_unless
from pydantic import AfterValidator, BaseModel
from ran import ran
from streams import anthropic, chat, stream
from typing_extensions import TypedDict

from streamtools import ApprovalRequested, ToolContext, pipeline, run_calls, tool
from streamtools.dispatch import MemoryStore
from streamtools.events import AnswerRequested, Observation, ToolCallEnd, ToolCallValidated
from streamtools.executors import LocalExecutor
from streamtools.observers import Observer
from streamtools.tools import Tool

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

SENT = {"to": ["ann", "bob"], "more": {"cc": ["dan"]}}
SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "array"}, "more": {"type": "object"}, "left_out": {"type": "array"}},
    "required": ["to", "more"],
}


class Mail(BaseModel):
    to: list[str]
    more: dict[str, list[str]]


@dataclass
class MailData:
    to: list[str]
    more: dict[str, list[str]]
    left_out: list[str] = field(default_factory=list)


class MailDict(TypedDict):
    to: list[str]
    more: dict[str, list[str]]


def plain(value: Any) -> Any:
    """Give a copy of a tool's argument as JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    return copy.deepcopy(asdict(value) if isinstance(value, MailData) else value)


def spoil(value: Any) -> None:
    """Change everything in place that can be changed."""
    inside = value if isinstance(value, (dict, list)) else getattr(value, "__dict__", {})
    for inner in list(inside.values() if isinstance(inside, dict) else inside):
        if not isinstance(inner, str):
            spoil(inner)
    if isinstance(inside, dict):
        inside["eve"] = "eve"
    else:
        inside.append("eve")


def work(*values: Any) -> str:
    """Note what came, spoil it, and fail the first time."""
    ran.append([plain(one) for one in values])
    for one in values:
        spoil(one)
    if len(ran) % 2:
        raise ConnectionError("the first time")
    return "sent"


def sync_lists(to: list[str], more: dict[str, list[str]], left_out: list[str] = []) -> str:
    """Send."""
    return work(to, more, left_out)


async def async_lists(to: list[str], more: dict[str, list[str]], *left_out: str) -> str:
    """Send."""
    return work(to, more)


async def by_position(to: list[str], more: dict[str, list[str]], left_out: list[str] = [], /) -> str:
    """Send."""
    return work(to, more, left_out)


async def by_name(**mail: Any) -> str:
    """Send."""
    return work(mail)


async def of_model(mail: Mail) -> str:
    """Send."""
    return work(mail)


async def of_data(mail: MailData, ctx: ToolContext) -> str:
    """Send."""
    return work(mail)


async def of_dict(mail: MailDict) -> str:
    """Send."""
    return work(mail)


async def of_mapping(arguments: dict[str, Any]) -> str:
    """Send."""
    return work(arguments)


AGAIN: dict[str, Any] = {"effect": "idempotent", "retries": 1, "retry_delay_s": 0.0001}
TOOLS: dict[str, tuple[Tool[..., Any], dict[str, Any]]] = {
    **{made.__name__: (tool(made, **AGAIN), SENT) for made in (sync_lists, async_lists, by_position)},
    **{made.__name__: (tool(made, **AGAIN), {"mail": SENT}) for made in (of_model, of_data, of_dict)},
    "a model as a whole": (Tool.from_model(Mail, of_model, name="whole", **AGAIN), SENT),
    "a schema and positions": (Tool.from_schema(by_position, SCHEMA, name="positions", **AGAIN), SENT),
    "a schema and any names": (Tool.from_schema(by_name, SCHEMA, name="names", **AGAIN), SENT),
    "a schema and one dict": (Tool.from_schema(of_mapping, SCHEMA, name="one", pass_as="mapping", **AGAIN), SENT),
}


class Spoiling(LocalExecutor):
    """An executor that changes the arguments which it was given."""

    async def run(self, call: Any, begin: Any, emit: Any, /) -> Any:
        try:
            return await super().run(replace(call, arguments=plain(call.arguments)), begin, emit)
        finally:
            spoil(call.arguments)


async def run_in_pipeline(made: Tool[..., Any], sent: Any, **options: Any) -> tuple[Observation, ...]:
    body = chat(calls=[(id, made.name, json.dumps(sent)) for id in ("a", "b")])
    turn = await pipeline(stream(body), tools=[made], **options)
    return turn.observations


async def run_on(kind: type[LocalExecutor], made: Tool[..., Any], sent: Any) -> tuple[Observation, ...]:
    async with kind([made]) as executor:
        return await run_in_pipeline(made, sent, executor=executor)


async def run_given(made: Tool[..., Any], sent: Any) -> tuple[Observation, ...]:
    given = copy.deepcopy(sent)
    turn = await run_calls([("a", made.name, given), ("b", made.name, given)], [made])
    assert given == sent
    return turn.observations


async def run_in_middleware(made: Tool[..., Any], sent: Any) -> tuple[Observation, ...]:
    seen = []

    async def outer(call: Any, run: Any) -> Any:
        seen.append(plain(dict(call.arguments)))
        spoil(dict(call.arguments))
        return await run()

    async def inner(call: Any, run: Any) -> Any:
        seen.append(plain(dict(call.arguments)))
        given = plain(dict(call.arguments))
        spoil(dict(call.arguments))
        try:
            return await run(given)
        finally:
            spoil(given)

    observations = await run_in_pipeline(made, sent, middleware=[outer, inner])
    assert seen == [sent] * 4
    return observations


HOSTS: dict[str, Callable[..., Any]] = {
    "here": run_in_pipeline,
    "run_calls": run_given,
    "an executor": lambda *given: run_on(LocalExecutor, *given),
    "an executor of somebody's": lambda *given: run_on(Spoiling, *given),
    "middleware": run_in_middleware,
}


PAIRS = [(kind, host) for kind in TOOLS for host in HOSTS]


@every("kind, host", thorough_unless(lambda pair: PAIRS.index(pair) % 4 == 0, PAIRS))
async def test_each_attempt_gets_the_validated_arguments_and_the_record_has_them(kind: str, host: str) -> None:
    made, sent = TOOLS[kind]
    ran.clear()
    with anyio.fail_after(30):
        observations = await HOSTS[host](made, sent)
    assert len(ran) >= 3, ran  # two calls, of which at least one is tried again
    assert all(given == ran[0] for given in ran), ran
    assert list(SENT.values()) == [*ran[0][:2]] or SENT.items() <= ran[0][0].items()
    for seen in observations:
        record = {name: plain(value) for name, value in seen.validated_args.items()}
        assert "eve" not in json.dumps(record)
        spoil(seen.validated_args)
        assert {name: plain(value) for name, value in seen.validated_args.items()} == record


async def test_the_tool_gets_the_very_object_that_a_validator_has_found() -> None:
    """Also again, if it cannot be copied, as a lock or a connection cannot."""
    found = {"lock": threading.Lock(), "cart": Mail(to=[], more={})}
    came: list[Any] = []

    @tool(**AGAIN)
    async def add(name: Annotated[Any, AfterValidator(found.__getitem__)], to: list[str]) -> str:
        """Add."""
        came.append((name, list(to)))
        to.clear()
        if len(came) == 1:
            raise ConnectionError("the first time")
        return "added"

    for name, again in (("lock", 2), ("cart", 1)):
        came.clear()
        with anyio.fail_after(30):
            await run_in_pipeline(add, {"name": name, "to": ["a"]})
        assert [one is found[name] for one, _ in came].count(True) >= again
        assert came[0][0] is found[name]
        assert all(to == ["a"] for _, to in came)


# -- those who are shown them ----------------------------------------------------------------------------------------


class Spoils(Observer):
    """An observer that changes what it sees."""

    def on_event(self, event: Any) -> None:
        if isinstance(event, (ToolCallEnd, ToolCallValidated)):
            spoil(event.call.arguments)
        elif isinstance(event, (ApprovalRequested, AnswerRequested)):
            spoil(event.arguments)


def spoiling(answer: Any) -> Callable[[Any], Any]:
    def judge(arguments: Any) -> Any:
        assert plain(dict(arguments)) == SENT
        spoil(arguments)
        return answer

    return judge


def approver(request: ApprovalRequested) -> bool:
    assert request.arguments == SENT
    spoil(request.arguments)
    return True


async def async_approver(request: ApprovalRequested) -> bool:
    return approver(request)


VALIDATOR = SimpleNamespace(name="mine", validate=spoiling([]))
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "observer": ({}, {"observers": [Spoils()]}),
    "page": ({"needs_approval": True}, {"by_page": True}),
    "page and observer": ({"needs_approval": True}, {"by_page": True, "observers": [Spoils()]}),
    "approver": ({"needs_approval": True}, {"approve": approver, "observers": [Spoils()]}),
    "async approver": ({"needs_approval": True}, {"approve": async_approver, "store": MemoryStore}),
    "needs_approval": ({"needs_approval": spoiling(False)}, {}),
    "check": ({"check": spoiling(True)}, {}),
    "validator": ({"validator": VALIDATOR}, {}),
    "conflict_key": ({"conflict_key": spoiling("key")}, {}),
    "idempotency_key": ({"idempotency_key": spoiling("done")}, {"store": MemoryStore}),
}


@every("who, foreign", [(who, foreign) for who in SHOWN for foreign in (False, True)])
async def test_whoever_is_shown_arguments_changes_neither_the_call_nor_what_others_see(who: str, foreign: bool) -> None:
    came: list[Any] = []

    async def send(to: list[str], more: dict[str, list[str]]) -> str:
        """Send."""
        came.append({"to": to, "more": more})
        return "sent"

    asked, options = SHOWN[who]
    options = {name: given() if given is MemoryStore else given for name, given in options.items()}
    by_page = options.pop("by_page", False)
    made = Tool.from_schema(send, SCHEMA, effect="once", **asked) if foreign else tool(send, effect="once", **asked)
    body = anthropic(calls=[("a", "send", json.dumps(SENT))])
    fingerprints = set()
    with anyio.fail_after(30):
        async with pipeline(stream(body), tools=[made], **options) as events:
            async for event in events:
                if isinstance(event, (ToolCallEnd, ToolCallValidated)):
                    assert event.call.arguments == SENT
                    spoil(event.call.arguments)
                if isinstance(event, ApprovalRequested):
                    assert event.arguments == SENT
                    spoil(event.arguments)
                    fingerprints.add(event.fingerprint)
                    if by_page:
                        events.approve(event)
    (seen,) = events.turn.observations
    assert seen.outcome == "ok", seen.report()
    assert came == [SENT]
    assert seen.validated_args == SENT
    assert len(fingerprints) <= 1
    assert events.turn.calls[0].arguments == SENT
    for _ in range(2):
        message = events.turn.messages()[0]
        assert message["content"][0]["input"] == SENT
        spoil(message)
