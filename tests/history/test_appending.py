"""What is not as it was in the request before has a name, and so has what that costs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from every_wire import ANTHROPIC, BEDROCK, CHAT
from profiles import every
from streams import chat, exhaust, sse

from streamtools import Trajectory, pipeline
from streamtools.history import Violation, lint, repair
from streamtools.record import append_only
from streamtools.wires import find

CODE = "changed_prefix"


def thinking(words: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": words, "signature": f"signed {words}"}


def asked() -> dict[str, Any]:
    call = {"type": "tool_use", "id": "c1", "name": "find", "input": {"at": "Oslo"}}
    answered = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "rain"}]}
    return {
        "tools": [{"name": "find", "description": "Find."}, {"name": "pay", "description": "Pay."}],
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": "Weather?"},
            {"role": "assistant", "content": [thinking("so"), call]},
            {"role": "user", "content": [answered]},
            {"role": "assistant", "content": [thinking("thus"), {"type": "text", "text": "Rain."}]},
            {"role": "user", "content": "Thanks."},
        ],
    }


CHANGES: list[tuple[str, str, str]] = [
    ("r['messages'].append({'role': 'assistant', 'content': 'Bye.'})", "", ""),
    (
        "r['messages'][-1]['content'] = [{'type': 'text', 'text': 'Thanks.'}, {'type': 'text', 'text': 'Bye.'}]",
        "",
        None,
    ),
    ("r['messages'][2]['content'][0]['content'][0]['cache_control'] = {'type': 'ephemeral'}", "", ""),
    ("r['tools'][1]['cache_control'] = {'type': 'ephemeral'}", "", ""),
    ("r['system'] = [{'type': 'text', 'text': 'Be brief.', 'cache_control': {'type': 'ephemeral'}}]", "", ""),
    ("r['system'] = 'Be long.'", "system", "refused"),
    ("r['tools'][1]['description'] = 'Pay!'", "tools[1].description", "refused"),
    ("r['tools'].append({'name': 'more'})", "tools[2]", "refused"),
    ("r['tools'].append({'name': 'more', 'defer_loading': True})", "", ""),
    ("r['tools'][1]['defer_loading'] = True", "tools[1].defer_loading", "refused"),
    ("del r['tools'][0]", "tools[0].name", "refused"),
    ("r['messages'][0]['content'] = 'Weather!'", "messages[0].content", "refused"),
    ("r['messages'][1]['content'][1]['input'] = {'at': 'Lima'}", "messages[1].content[1].input", "refused"),
    ("del r['messages'][1]['content'][0]", "messages[1].content[0].type", "refused"),
    ("del r['messages'][:2]", "messages[0].content[0].type", "refused"),
    ("r['messages'][-1]['content'] = 'No.'", "messages[4].content", "lost"),
    ("del r['messages'][3:]", "messages[3]", "lost"),
]


def only(found: list[Violation]) -> Violation | None:
    return next((one for one in found if one.code == CODE), None)


@every("change, place, cost", CHANGES)
def test_the_first_place_that_has_changed_is_named_with_what_that_costs(change: str, place: str, cost: str) -> None:
    request = asked()
    exec(change, {"r": request})
    found = only(lint(request, ANTHROPIC, previous=asked(), model="claude-fable-5-1"))
    assert ("" if found is None else found.path) == place
    if found is not None:
        assert "cache" in found.message
        assert ("the model refuses" in found.message, bool(found.provider_text)) == (cost == "refused",) * 2


@pytest.mark.parametrize("model", ["claude-opus-4-8", "claude-sonnet-5", None])
def test_only_models_that_bind_their_thinking_refuse_it(model: str | None) -> None:
    request = asked() | {"system": "Be long."}
    found = only(lint(request, ANTHROPIC, previous=asked(), model=model))
    assert ("since Claude 5.1" in found.message, "the model refuses" in found.message) == (model is None, False)
    assert only(lint(request["messages"], ANTHROPIC, previous=asked(), model=model)) is None  # it is not known


@every(
    ("model", "binds"),
    [
        *((f"claude-{one}", True) for one in ("fable-5-1", "fable-5-2", "mythos-5-2", "opus-5-5", "haiku-5-5")),
        ("claude-mythos-5-1", None),  # not on Bedrock
        *((f"claude-{one}", False) for one in ("opus-5", "sonnet-5", "haiku-4-5", "3-5-haiku", "sonnet-5-20260401")),
    ],
)
def test_each_endpoint_says_which_models_bind_their_thinking(model: str, binds: bool | None) -> None:
    assert find(ANTHROPIC).rules.binds(model) is (binds is not False)
    assert find(BEDROCK).rules.binds(f"us.anthropic.{model}-v1:0") is (binds is True)


def test_a_request_without_messages_of_the_wire_is_refused_and_does_not_pass_as_sound() -> None:
    other: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}
    with pytest.raises(TypeError, match="a request with 'messages'; got neither"):
        lint(other, ANTHROPIC)
    with pytest.raises(TypeError, match="a request with 'messages'; got neither"):
        lint(asked(), ANTHROPIC, previous={name: value for name, value in asked().items() if name != "messages"})


def test_every_wire_names_the_place_in_its_own_words() -> None:
    said = [{"role": "user", "content": "a"}]
    bedrock = {"toolConfig": {"tools": [{"toolSpec": {"name": "a"}}]}, "messages": []}
    cases: list[tuple[str, dict[str, Any], str]] = [
        (CHAT, {"messages": [{"role": "system", "content": "a"}]}, "messages[0].content"),
        ("openai.responses", {"instructions": "a", "input": said}, "instructions"),
        (
            "gemini.generate_content",
            {"contents": [{"role": "user", "parts": [{"text": "a"}]}]},
            "contents[0].parts[0].text",
        ),
        ("bedrock.converse_stream", bedrock, "toolConfig.tools[0].toolSpec"),
    ]
    for wire, request, place in cases:
        before = deepcopy(request)
        _replace_a(request)
        found = only(lint(request, wire, previous=before))
        assert (wire, found and found.path) == (wire, place)
        assert only(lint(before, wire, previous=deepcopy(before))) is None
    chained = {"previous_response_id": "r1", "input": said}
    assert only(lint(chained, "openai.responses", previous=cases[1][1])) is None  # what is new alone


def _replace_a(value: Any) -> None:
    for key, one in value.items() if isinstance(value, dict) else enumerate(value):
        if one == "a":
            value[key] = "x"
        elif isinstance(one, (dict, list)):
            _replace_a(one)


def test_it_says_where_a_repair_has_rewritten_a_history() -> None:
    history = [*asked()["messages"][:2], {"role": "user", "content": "Well?"}]
    found = only(lint(repair(history, ANTHROPIC), ANTHROPIC, previous=history))
    assert found.path == "messages[2].content[0].type"
    assert only(lint(repair(asked()["messages"], ANTHROPIC), ANTHROPIC, previous=asked()["messages"])) is None


@pytest.mark.anyio
async def test_an_observer_warns_where_a_step_does_not_only_append(caplog: pytest.LogCaptureFixture) -> None:
    found: list[tuple[int, str, int | None]] = []
    observers = [append_only(), append_only(lambda step, one, tokens: found.append((step, one.path, tokens)))]
    run, (*pieces, end) = Trajectory(observers=observers), chat("Done.")
    body = [*pieces, *sse([{"choices": [], "usage": {"prompt_tokens": 70, "completion_tokens": 1}}]), end]
    first, second = {"role": "user", "content": "Go."}, {"role": "user", "content": "Stay."}
    for messages in ([first], [first, second], [second], [second, first]):
        async with pipeline(body, trajectory=run, request={"messages": messages}) as events:
            await exhaust(events)
    assert found == [(2, "messages[0].content", 70)]
    (said,) = [record.getMessage() for record in caplog.records]
    place = "the request of step 2 changes earlier messages: messages[0].content: "
    assert (said.startswith(place), said.endswith("; up to 70 tokens may be read anew")) == (True, True)
