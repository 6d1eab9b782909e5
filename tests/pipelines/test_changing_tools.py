"""Tools that change within a run: each step has its own, and what a change costs is known before the request."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from decisions import decisions_on
from every_wire import ANTHROPIC, CHAT, RESPONSES, framed, said
from profiles import every

from streamtools import Retry, Tool, ToolContext, agent_loop, pipeline, run_calls, tool
from streamtools.dispatch import MemoryStore, Suspended
from streamtools.errors import ToolDefinitionError
from streamtools.events import Observation, StepEnd, StreamWarning, ToolStarted
from streamtools.exports import export_all
from streamtools.front.run_face import AgentLoop
from streamtools.history import lint
from streamtools.modes import JSONObjectAdapter

MODELS = {ANTHROPIC: (b'"model":"c"', b'"model":"claude-opus-5-5"'), RESPONSES: (b'"model":"m"', b'"model":"gpt-5.5"')}
GO = [{"role": "user", "content": "Go."}]
KEY = b"a key of 16 bytes or more"


def named(name: str, *, needs_approval: bool = False) -> Tool[..., Any]:
    async def act(at: str = "x") -> str:
        return f"{name} {at}"

    act.__doc__ = f"Do {name}."
    return tool(act, name=name, effect="pure", needs_approval=needs_approval)


LOOK, PAY, SHIP = map(named, ("look", "pay", "ship"))
CATALOG = {"pay": PAY, "ship": SHIP, "refund": named("refund", needs_approval=True)}


@tool(effect="pure")
async def find(ctx: ToolContext, what: str = "pay") -> str:
    """Find a tool."""
    ctx.add_tools(*(CATALOG[one] for one in what.split()))
    return "found"


class Model:
    """Answers each request by the next of its lines: names of tools that it calls with arguments, or else a text."""

    def __init__(self, wire: str, *lines: str | tuple[str, ...], model: bool = True) -> None:
        self.wire, self.lines, self.model = wire, [*lines], model
        self.sent: list[tuple[list[Any], Any, dict[str, Any]]] = []

    def answer(self) -> Any:
        line = self.lines.pop(0)
        if line == "fail":
            raise ConnectionError("it hung up")
        pairs = [] if isinstance(line, str) else [f"{one}|{{}}".split("|")[:2] for one in line]
        calls = [(f"{len(self.lines):04}abcd{at}", name, arguments) for at, (name, arguments) in enumerate(pairs)]
        body = framed(self.wire, said(self.wire, text=[] if calls else ["Well."], calls=calls))
        return [one.replace(*MODELS[self.wire]) if self.model and self.wire in MODELS else one for one in body]

    def __call__(self, messages: list[Any], tools: Any, carry: dict[str, Any]) -> Any:
        self.sent.append((messages, tools, carry))
        return self.answer()

    def names(self) -> list[list[str]]:
        return [[one.get("name") or one["function"]["name"] for one in tools] for _, tools, _ in self.sent]


async def finished(run: AgentLoop) -> list[Any]:
    async with run:
        return [event async for event in run]


def ends(events: list[Any]) -> list[tuple[str, str]]:
    """Those of a step in the order of the calls, whichever was over first."""
    seen = [event for event in events if isinstance(event, Observation)]
    return [(one.tool_name, one.outcome) for one in sorted(seen, key=lambda one: (one.step, one.index))]


def warned(events: list[Any]) -> list[str]:
    return [event.detail for event in events if isinstance(event, StreamWarning) and event.code == "tools_changed"]


@pytest.mark.anyio
@pytest.mark.parametrize("is_async", [True, False])
async def test_a_function_of_the_run_gives_each_step_its_tools_and_calls_are_judged_by_them(is_async: bool) -> None:
    asked: list[int] = []

    def now(run: AgentLoop) -> list[Any]:
        asked.append(len(run.turns))
        return [[find], [find, PAY], [PAY]][len(run.turns)]

    async def later(run: AgentLoop) -> list[Any]:
        return now(run)

    model = Model(CHAT, ("pay",), ("pay", "find"), "done")
    run = agent_loop(model, GO, tools=later if is_async else now, wire=CHAT)
    events = await finished(run)
    assert ends(events) == [("pay", "unknown_tool"), ("pay", "ok"), ("find", "ok")]
    assert next(one for one in events if isinstance(one, Observation)).model_content.endswith("available tools: find")
    assert model.names() == [["find"], ["find", "pay"], ["pay"]]
    assert (asked, run.outcome) == ([0, 1, 2], "answered")


@pytest.mark.anyio
async def test_a_running_tool_adds_tools_that_are_there_from_the_next_step_on() -> None:
    model = Model(CHAT, ('find|{"what":"pay ship"}', "pay"), ("find", "ship"), "done")
    run = agent_loop(model, GO, tools=[find], wire=CHAT)
    events = await finished(run)
    assert ends(events) == [("find", "ok"), ("pay", "unknown_tool"), ("find", "ok"), ("ship", "ok")]
    assert model.names() == [["find"], ["find", "pay", "ship"], ["find", "pay", "ship"]]
    assert run.added_tools == ("pay", "ship")
    notes = [event.notes for event in events if isinstance(event, Observation) and event.tool_name == "find"]
    assert notes == [{"add_tools": ["pay", "ship"]}, None]


@pytest.mark.anyio
async def test_what_cannot_be_added_fails_the_call_alone_and_a_call_that_fails_adds_nothing() -> None:
    @tool(effect="pure")
    def adds(ctx: ToolContext, what: str) -> str:  # in a thread
        """Add."""
        ctx.add_tools({"twice": named("pay"), "own": named("adds"), "none": "pay", "fails": SHIP}[what])
        assert what != "fails"
        return "added"

    line = tuple(f'adds|{{"what":"{one}"}}' for one in ("own", "none", "fails"))
    model = Model(CHAT, line, ('adds|{"what":"twice"}', "ship"), "done")
    run = agent_loop(model, GO, tools=[adds, PAY], wire=CHAT)
    events = await finished(run)
    assert ends(events) == [*[("adds", "failed")] * 4, ("ship", "unknown_tool")]
    texts = [event.model_content for event in events if isinstance(event, Observation)]
    assert sum("another tool has this name" in text for text in texts) == 2
    assert (run.added_tools, {*map(tuple, model.names())}) == ((), {("adds", "pay")})


@pytest.mark.anyio
async def test_each_attempt_at_a_call_adds_anew_and_a_discarded_answer_leaves_its_tools_to_the_next() -> None:
    tries: list[int] = []

    @tool(effect="pure", retries=1, retry_delay_s=1e-9)
    async def adds(ctx: ToolContext) -> str:
        """Add."""
        tries.append(ctx.attempt)
        ctx.add_tools(named("pay"))  # another one each time
        if len(tries) < 2:
            raise ValueError
        return "added"

    model = Model(CHAT, ("adds",), ("pay",), "done")
    assert ends(await finished(agent_loop(model, GO, tools=[adds], wire=CHAT))) == [("adds", "ok"), ("pay", "ok")]
    assert tries == [1, 2]

    class Breaking(Model):
        def answer(self) -> Any:
            body = super().answer()
            return body if len(self.sent) > 1 else body[:-2]

    again = Breaking(ANTHROPIC, ("find",), ("find",), ("pay",), "done")
    retry = Retry(attempts=2, backoff=0, after_output=True)
    events = await finished(agent_loop(again, GO, tools=[find], wire=ANTHROPIC, retry=retry))
    assert ends(events)[-2:] == [("find", "ok"), ("pay", "ok")]


@every("wire", [ANTHROPIC, RESPONSES])
@pytest.mark.anyio
async def test_where_the_wire_has_a_form_the_change_is_appended_and_the_list_stays(wire: str) -> None:
    steps = [[LOOK], [LOOK, PAY], [PAY, LOOK], [LOOK, SHIP], [LOOK, PAY]]
    model = Model(wire, ("look",), ("pay",), ("pay",), ("pay", "ship"), "done")
    run = agent_loop(model, GO, tools=lambda run: steps[len(run.turns)], wire=wire)
    events = await finished(run)
    assert (warned(events), model.names()) == ([], [["look"]] * 5)
    assert ends(events)[-2:] == [("pay", "unknown_tool"), ("ship", "ok")]
    requests, betas = [one[0] for one in model.sent], [one[2].get("betas") for one in model.sent]
    for before, after in pairwise(requests):
        assert after[: len(before)] == before
        found = lint(after, wire, previous=before, last=True)
        assert {one.code for one in found} <= {"duplicate_id"}, "the model repeats the ids of its items"
    assert betas == ([None, *[["inline-tools-2026-09-15"]] * 4] if wire == ANTHROPIC else [None] * 5)
    said_new = [one for one in requests[1] if one not in requests[0]][-1]
    if wire == RESPONSES:
        assert said_new["tools"] == [export_all([PAY], wire).payloads[0]]
        assert [one["tools"][0]["name"] for one in requests[4] if one.get("tools")] == ["pay", "ship"]
    else:
        definition = said_new["content"][0]["tool"]["definition"]
        assert (said_new["role"], definition) == ("system", export_all([PAY], wire).payloads[0])
        kinds = [[block["type"] for block in one["content"]] for one in requests[4] if one["role"] == "system"]
        assert kinds == [["tool_addition"], ["tool_removal", "tool_addition"], ["tool_removal", "tool_addition"]]
    # Another run goes on behind these messages.
    more = Model(wire, ("pay",), "done")
    await finished(agent_loop(more, [*run.messages, *GO], tools=lambda run: [LOOK, PAY], wire=wire))
    assert more.sent[0][0][: len(requests[4])] == requests[4]
    assert (more.names()[0], more.sent[0][2]) == (["look"], model.sent[4][2])


CASES: list[tuple[str, str, bool, bool, str]] = [
    ("a wire without a form", CHAT, True, True, "new: pay. openai.chat_completions has tools before the messages"),
    ("a model that is not known to take it", RESPONSES, True, False, "new: pay. openai.responses has"),
    ("a function that sends no header", ANTHROPIC, False, True, "a request of ask(messages, tools, carry) would"),
]


@every("case, wire, carries, model, text", CASES)
@pytest.mark.anyio
async def test_elsewhere_the_cost_is_named_before_the_request_once_a_change(
    case: str, wire: str, carries: bool, model: bool, text: str
) -> None:
    asking = Model(wire, ("find",), ("pay",), ("pay",), "done", model=model)

    async def plain(messages: list[Any], tools: Any) -> Any:
        return asking(messages, tools, {})

    events = await finished(agent_loop(asking if carries else plain, GO, tools=[find], wire=wire))
    (detail,) = warned(events)
    assert text in detail
    kinds = [event.code if isinstance(event, StreamWarning) else type(event).__name__ for event in events]
    assert kinds.index("tools_changed") == [at for at, kind in enumerate(kinds) if kind == "StepStart"][1] + 1
    assert asking.names() == [["find"], *[["find", "pay"]] * 3]


@pytest.mark.anyio
async def test_a_fallback_which_may_be_another_model_is_given_the_whole_list() -> None:
    first, other = Model(ANTHROPIC, ("find",), "fail", ("ship",), "done"), Model(ANTHROPIC, ('find|{"what":"ship"}',))
    await finished(agent_loop(first, GO, tools=[find], wire=ANTHROPIC, fallback=[other]))
    assert (first.names(), other.names()) == ([["find"]] * 4, [["find", "pay"]])
    assert [one["role"] for one in other.sent[0][0]] == ["user", "assistant", "user"]
    assert [one["role"] for one in first.sent[-1][0]].count("system") == 2


@pytest.mark.anyio
@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT])
async def test_what_is_said_or_paused_keeps_the_message_of_a_change_in_its_place(wire: str) -> None:
    steps = [[LOOK], [LOOK, PAY], [LOOK, PAY, SHIP], [LOOK, PAY, SHIP]]
    model = Model(wire, ("look",), "Well.", ("ship",), "done")
    run = agent_loop(model, GO, tools=lambda run: steps[len(run.turns)], wire=wire)
    async with run:
        async for event in run:
            if isinstance(event, StepEnd) and len(model.sent) < 3:
                run.say("And?")
    assert run.outcome == "answered"
    for messages, _, _ in model.sent:
        assert lint(messages, wire, last=True) == []
    assert [one["role"] for one in model.sent[1][0]][-2:] == (
        ["user", "system"] if wire == ANTHROPIC else ["tool", "user"]
    )


def by_catalog(run: AgentLoop) -> list[Any]:
    return [find, *(CATALOG[one] for one in run.added_tools)]


@pytest.mark.anyio
@pytest.mark.parametrize("wire", [ANTHROPIC, CHAT])
async def test_a_journaled_run_finds_its_tools_again_or_says_what_is_missing(wire: str, tmp_path: Path) -> None:
    path, model = tmp_path / "runs.db", Model(wire, ("find",), ("pay",))
    with suppress(IndexError):
        await finished(agent_loop(model, GO, tools=[find], wire=wire, journal=path, run_id="r"))
    assert len(model.sent) == 3
    with pytest.raises(ToolDefinitionError, match=r"have added the tools 'pay', which .* run\.added_tools"):
        await finished(agent_loop(Model(wire), GO, tools=[find], wire=wire, journal=path, run_id="r"))
    again = Model(wire, ("pay",), "done")
    events = await finished(agent_loop(again, GO, tools=by_catalog, wire=wire, journal=path, run_id="r"))
    assert ends(events) == [("find", "ok"), ("pay", "ok"), ("pay", "ok")]
    assert (again.sent[0], warned(events)) == (model.sent[2], [])


@pytest.mark.anyio
async def test_a_call_that_only_the_store_knows_has_its_tools_on_record_there() -> None:
    @tool
    async def adds(ctx: ToolContext) -> str:
        """Add."""
        ctx.add_tools(PAY)
        return "added"

    store, found = MemoryStore(), list[bool]()
    for _ in range(2):  # the second time as after a crash
        tools = [adds] if not found else lambda run: [adds, *(CATALOG[one] for one in run.added_tools)]
        run = agent_loop(Model(CHAT, ("adds",), ("pay",), "done"), GO, tools=tools, wire=CHAT, store=store, run_id="r")
        events = await finished(run)
        assert ends(events) == [("adds", "ok"), ("pay", "ok")]
        found.append(next(one.recorded for one in events if isinstance(one, Observation)))
    assert found == [False, True]


@pytest.mark.anyio
async def test_suspended_calls_of_added_tools_are_found_again_by_their_names() -> None:
    store, model = MemoryStore(), Model(ANTHROPIC, ('find|{"what":"refund"}',), ("refund",))
    run = agent_loop(model, GO, tools=[find], wire=ANTHROPIC, store=store)
    await finished(run)
    kept = Suspended.from_text(run.suspended.to_text(KEY), KEY)
    assert kept.added_tools == ("refund",)
    again = Model(ANTHROPIC, "done")
    options: Any = {"suspended": kept, "decisions": decisions_on(kept, {kept.calls[0].call_id: True}), "store": store}
    events = await finished(agent_loop(again, run.messages, tools=by_catalog, wire=ANTHROPIC, **options))
    assert ends(events) == [("refund", "ok")]
    assert again.names() == [["find"]]
    with pytest.raises(ToolDefinitionError, match="'refund'"):
        await finished(agent_loop(Model(ANTHROPIC), run.messages, tools=[find], wire=ANTHROPIC, **options))


@pytest.mark.anyio
@pytest.mark.parametrize("wire", [CHAT, ANTHROPIC])
async def test_a_resumed_run_says_what_the_request_before_it_did_not_have(wire: str) -> None:
    store, tools = MemoryStore(), [find, named("refund", needs_approval=True)]
    for call, new in (("find", ["pay"]), ("refund", [])):
        run = agent_loop(Model(wire, (call, "refund")), GO, tools=tools, wire=wire, store=store)
        await finished(run)
        decisions = decisions_on(run.suspended, dict.fromkeys((one.call_id for one in run.suspended.calls), True))
        more = [named(name) for name in new]
        again = agent_loop(
            Model(wire, "done"), run.messages, tools=[*tools, *more], wire=wire, store=store,
            suspended=run.suspended, decisions=decisions,
        )  # fmt: skip
        assert len(warned(await finished(again))) == len(new)


@pytest.mark.anyio
async def test_text_modes_long_results_exports_and_policies_take_part() -> None:
    asked: list[str] = []

    def ask(messages: list[Any], fields: dict[str, Any]) -> Any:
        asked.append(str((messages, fields)))
        text = '{"tool":"find","arguments":{}}' if len(asked) == 1 else '{"answer":"Done."}'
        return framed(CHAT, said(CHAT, text=[text]))

    events = await finished(agent_loop(ask, GO, tools=[find], wire=CHAT, mode=JSONObjectAdapter()))
    assert [("Do pay." in one) for one in asked] == [False, True]
    assert len(warned(events)) == 1

    model = Model(CHAT, ("find",), ("pay",), "done")
    run = agent_loop(model, GO, tools=lambda run: [find], wire=CHAT, offload_above=3)
    assert ends(await finished(run)) == [("find", "ok"), ("pay", "ok")]
    assert model.names() == [["find", "read_result"], *[["find", "read_result", "pay"]] * 2]

    exported = agent_loop(Model(CHAT, ("find",), "done"), GO, tools=export_all([find], CHAT), wire=CHAT)
    events = await finished(exported)
    assert ends(events) == [("find", "failed")]
    assert "were exported already" in next(one.model_content for one in events if isinstance(one, Observation))


@pytest.mark.anyio
async def test_tools_that_change_are_refused_where_there_is_no_next_step() -> None:
    async with pipeline(Model(CHAT, ("find",)).answer(), tools=[find]) as events:
        (end,) = [event async for event in events if isinstance(event, Observation)]
    assert "add_tools works only in an agent_loop" in end.model_content
    functions: list[Any] = [lambda run: [find], lambda at: [find]]
    for refused in (lambda: pipeline([], tools=functions[0]), lambda: run_calls([], tools=functions[0])):
        with pytest.raises(TypeError, match="expected a list of tools, got a single one"):
            refused()
    with pytest.raises(TypeError, match=r"write tools=\[\.\.\.\], or def tools\(run\)"):
        agent_loop(Model(CHAT), GO, tools=functions[1], wire=CHAT)
    with pytest.raises(TypeError, match="expected a list of tools, got NoneType"):
        await finished(agent_loop(Model(CHAT), GO, tools=lambda run: None, wire=CHAT))  # type: ignore[arg-type, return-value]


def test_a_run_without_an_event_loop_changes_its_tools_likewise() -> None:
    model = Model(CHAT, ("find",), ("pay",), "done")
    with agent_loop(model, GO, tools=[find], wire=CHAT).sync() as run:
        assert [event.tool_name for event in run if isinstance(event, ToolStarted)] == ["find", "pay"]


@pytest.mark.anyio
async def test_a_run_that_begins_where_a_search_waits_tells_of_a_change_behind_its_answer() -> None:
    definition = export_all([PAY], ANTHROPIC).payloads[0]
    addition = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition}}
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "seen"}
    waiting: list[Any] = [
        *GO,
        {"role": "system", "content": [addition]},
        {"role": "assistant", "content": [search, call]},
        {"role": "user", "content": [result]},
    ]
    paused = [*waiting[:2], {"role": "assistant", "content": [search]}]
    for begun, tools in ((one, tools) for one in (waiting, paused) for tools in ([LOOK, find], lambda run: [LOOK])):
        model = Model(ANTHROPIC, ("look",), "end")
        await agent_loop(model, begun, tools=tools, wire=ANTHROPIC)
        first, second = ([one["role"] for one in messages][len(begun) :] for messages, _, _ in model.sent)
        assert (first, second) == ([], ["assistant", "user", "system"])
