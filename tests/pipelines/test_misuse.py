"""What a user may well get wrong is refused where it is written, by an error that says what to write instead."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from streams import chat, pass_on, stream

from streamtools import agent_loop, parse, pipeline, tool
from streamtools.errors import LocalProtocolError
from streamtools.history import convert, lint, repair
from streamtools.stages import DEFAULT, StageList, text_calls
from streamtools.web import Chats


@tool
async def f() -> str:
    """Do it."""
    return "done"


@every(
    ("options", "hint"),
    [
        ({"tools": {"f": f}}, "pass its values"),
        ({"tools": ["f"]}, r"a bare name \('f'\)"),
        ({"tools": f}, r"tools=\[...\]"),
        ({"stages": [f]}, r"write stages=DEFAULT\.insert_before"),
        ({"transforms": pass_on}, r"transforms=\[...\]"),
        ({"limits": {"max_tool_calls": 1}}, r"streamtools.Limits\(...\)"),
        ({"trajectory": "run"}, r"streamtools.Trajectory\(\)"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused_with_what_to_pass(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(TypeError, match=hint):
        pipeline(chat(["Hi"]), **options)


def test_a_stage_that_makes_calls_cannot_stand_behind_the_one_that_joins_them() -> None:
    for make in (
        lambda: DEFAULT.append(text_calls("hermes")),
        lambda: DEFAULT.insert_after("finalize", text_calls("hermes")),
        lambda: DEFAULT.insert_before("accumulate", text_calls("hermes")).append(text_calls("json")),
        lambda: DEFAULT.append(StageList([]).append(text_calls("hermes"))),
    ):
        with pytest.raises(ValueError, match='insert_before\\("accumulate"'):
            make()
    both = DEFAULT.insert_before("accumulate", text_calls("hermes")).insert_before("accumulate", text_calls("json"))
    assert list(both)[:3] == ["text_calls", "text_calls", "accumulate"]


def test_the_stages_of_the_library_keep_their_order() -> None:
    with pytest.raises(ValueError, match="'finalize' makes what 'validate' takes, but stands after it"):
        StageList(["accumulate", "validate", "finalize"])
    with pytest.raises(ValueError, match='insert_before\\("finalize"'):
        StageList(["finalize", "accumulate", "validate"])
    assert list(DEFAULT.without("finalize")) == ["accumulate", "validate"]


def test_a_stage_that_lacks_a_method_is_told_which() -> None:
    class Feeds:
        def feed(self, event: Any) -> Any:
            return [event]

    with pytest.raises(TypeError, match=r"stage 'Feeds': Feeds has no finish\(\); a stage has both"):
        parse(chat(["Hi"]), stages=DEFAULT.append(Feeds))  # type: ignore[arg-type]


# -- runs -----------------------------------------------------------------------------------------------------------


def test_a_loop_without_a_wire_is_told_which_there_are() -> None:
    with pytest.raises(TypeError, match=r"agent_loop needs wire=.*; known: openai\.chat_completions, .*bedrock"):
        agent_loop(lambda messages, tools: chat(["Hi"]), [])  # type: ignore[call-arg]


def test_pythons_own_errors_name_the_function_that_was_called() -> None:
    with pytest.raises(TypeError, match=r"^Chats\(\) missing .*'run'"):
        Chats(records="chats.db")  # type: ignore[call-arg]


@pytest.mark.anyio
async def test_a_run_that_is_awaited_twice_is_told_that_it_runs_once() -> None:
    run = agent_loop(lambda messages, tools: chat(["Hi"]), [], wire="openai.chat_completions")
    with pytest.raises(LocalProtocolError, match="iterate over the run first, or `await run`"):
        _ = run.turn
    await run
    with pytest.raises(TypeError, match="iterate over a run once, in its block; write:  async with agent_loop"):
        await run


def test_an_attribute_of_the_turn_is_written_as_it_is_called() -> None:
    events: Any = pipeline(chat(["Hi"]))
    with pytest.raises(AttributeError, match=r"write events\.turn\.messages\(\)$"):
        events.messages()
    with events.sync() as blocking:
        with pytest.raises(AttributeError, match=r"write events\.turn\.text$"):
            _ = blocking.text
        blocking.finish()


# -- stages and transforms that give back something else ------------------------------------------------------------


class Feeds:
    """A stage that returns one value for every event."""

    def __init__(self, value: Any, last: Any = ()) -> None:
        self.value, self.last = value, last

    def feed(self, event: Any) -> Any:
        return [event] if self.value is ... else self.value

    def finish(self) -> Any:
        return self.last


async def _awaitable() -> None:
    raise AssertionError("nobody awaits it")


@every(
    ("value", "last", "said"),
    [
        (None, (), r"Feeds\.feed\(\) returned NoneType; .* returns a list of events"),
        (3, (), r"Feeds\.feed\(\) returned int"),
        (..., None, r"Feeds\.finish\(\) returned NoneType"),
        ([None], (), "a stage returned NoneType among its events"),
        (..., ["x"], "a stage returned str among its events"),
    ],
)
def test_a_stage_that_returns_no_events_is_named_with_what_it_must_return(value: Any, last: Any, said: str) -> None:
    for place in ("accumulate", "validate"):
        with pytest.raises(TypeError, match=said):
            parse(chat(["Hi"]), stages=DEFAULT.insert_after(place, Feeds(value, last)))


def test_an_async_stage_is_told_that_stages_are_not() -> None:
    pending = _awaitable()
    with pytest.raises(TypeError, match=r"Feeds\.feed\(\) returned coroutine; .* is not async"):
        parse(chat(["Hi"]), stages=DEFAULT.append(Feeds(pending)))
    pending.close()


async def _transforms_nothing(events: Any) -> Any:
    return None


def _returns_a_list(events: Any) -> Any:
    return [1]


async def _yields_none(events: Any) -> Any:
    async for _ in events:
        yield None


@pytest.mark.anyio
@every(
    ("transform", "said"),
    [
        (_transforms_nothing, "_transforms_nothing returned coroutine; a transform is an async generator function"),
        (_returns_a_list, "_returns_a_list returned list"),
        (_yields_none, "_yields_none yielded NoneType, not an event"),
    ],
)
async def test_a_transform_that_gives_no_events_is_named_with_what_it_must_give(transform: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        await pipeline(stream(chat(["Hi"])), transforms=[transform])


# -- wires ----------------------------------------------------------------------------------------------------------


def test_an_event_without_a_type_is_warned_of_without_the_name_of_a_type() -> None:
    turn = parse(chat(["Hi"]), wire="openai.responses")
    assert [(one.code, one.detail) for one in turn.warnings] == [("unknown_event", "")]


@every(
    ("wire", "said"),
    [
        ("anthropic", "write 'anthropic.messages'; known: "),
        ("openai", "write 'openai.chat_completions'"),
        ("openai.chat_completion", "write 'openai.chat_completions'; known: "),
        ("morse", "'morse'.* known: openai.chat_completions, "),
    ],
)
def test_an_unknown_wire_is_refused_everywhere_as_a_value_with_the_names_that_may_be_meant(
    wire: str, said: str
) -> None:
    history = [{"role": "user", "content": "Hi"}]
    for call in (
        lambda: parse(chat(["Hi"]), wire=wire),
        lambda: pipeline(chat(["Hi"]), wire=wire),
        lambda: parse(chat(["Hi"])).messages(wire),
        lambda: lint(history, wire),
        lambda: repair(history, wire),
        lambda: convert(history, wire, "anthropic.messages"),
        lambda: convert(history, "anthropic.messages", wire),
        lambda: f.to(wire),
    ):
        with pytest.raises(ValueError, match=said):
            call()
