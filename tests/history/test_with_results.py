"""Results that come later: a history in which calls came to something else than was written."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES, framed, said
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import each_with_each, every, examples
from sansio import QUIRKS, body_of
from sdk_types import check_types
from spoken_histories import NATIVE, Call, refusals
from streams import chat

from streamtools import Observation, ToolCall, Turn, parse
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.history import convert, lint, repair, with_results
from streamtools.parts import Outcome
from streamtools.wires import WIRES

Message = dict[str, Any]
LAWS = settings(derandomize=True, deadline=None, max_examples=examples(25))

PNG = "iVBORw0KGgo="
IMAGE = Media(kind="image", mime_type="image/png", data=PNG)
FILE = Media(kind="file", mime_type="application/pdf", data="JVBERi0=", filename="a.pdf")
FILM = Media(kind="video", mime_type="video/mp4", data="AAAA")
WAITING = "Error: not run: it waits for an approval"

outcomes: st.SearchStrategy[Outcome] = st.sampled_from(get_args(Outcome))
results = st.sampled_from([
    None, ToolResult(blocks=("a map", IMAGE)), ToolResult(blocks=(FILE, IMAGE), is_error=True),
    ToolResult(blocks=(Text("a"), Text("b"))), ToolResult(blocks=(FILM,)), ToolResult(),
    ToolResult(native={wire: [{"type": "text", "text": "mine"}] for wire in (CHAT, ANTHROPIC, MISTRAL, COHERE)}),
    ToolResult(native={GEMINI: {"at": 1}, BEDROCK: {"at": 1}, RESPONSES: "mine", OLLAMA: "mine"}),
])  # fmt: skip
contents = st.sampled_from(["4 degrees", "", "Error: no", "é\n", '{"at": 1}'])


from_each_to_each = every(("source", "target"), each_with_each(WIRES))


def observation(
    call: ToolCall, content: str = "done", outcome: Outcome = "ok", result: ToolResult | None = None
) -> Observation:
    return Observation(
        call_id=call.call_id,
        tool_name=call.name,
        index=call.index,
        outcome=outcome,
        model_content=content,
        result=result,
    )


def waiting(call: ToolCall) -> Observation:
    return observation(call, WAITING, "denied")


def of(call_id: str, content: str = "done", name: str = "look", result: ToolResult | None = None) -> Observation:
    return observation(ToolCall(call_id=call_id, name=name), content, result=result)


def ours(turn: Turn) -> list[ToolCall]:
    return [call for call in turn.calls if call.kind != "server"]


def observed(turn: Turn, observations: Mapping[str, Observation]) -> Turn:
    return replace(turn, observations=tuple(observations[call.call_id] for call in ours(turn)))


def turn_of(wire: str, *calls: str, text: str = "") -> Turn:
    """A turn with calls of these ids; one without an id has none on its wire either."""
    named = [(call_id, "look", '{"at": 1}') for call_id in calls]
    return parse(framed(wire, said(wire, text=[text] if text else (), calls=named)), wire=wire)


# -- what it is --------------------------------------------------------------------------------------------------------


@st.composite
def changed(draw: st.DrawFn, turn: Turn) -> tuple[Turn, Turn, list[Observation]]:
    """The turn as it was written first, as it would be written at last, and what came in between."""
    first = {call.call_id: draw(observations(call) | st.just(waiting(call))) for call in ours(turn)}
    last = {call.call_id: draw(observations(call)) for call in ours(turn) if draw(st.booleans())}
    return observed(turn, first), observed(turn, first | last), draw(st.permutations(list(last.values())))


def observations(call: ToolCall) -> st.SearchStrategy[Observation]:
    return st.builds(observation, st.just(call), contents, outcomes, results)


@st.composite
def turns(draw: st.DrawFn, wire: str) -> Turn:
    """What a model says and calls, with ids that other providers do not take among them."""
    ids = draw(st.lists(st.sampled_from(["a", "b", "call_0", "toolu_01", "x" * 70, "with space", "abcdefghi", ""]),
               min_size=1, max_size=4, unique_by=lambda id_: id_ or object()))  # fmt: skip
    names = st.sampled_from(["look", "find", "multi tool.use"])
    calls = [(id_, draw(names), '{"at": 1}') for id_ in ids]
    text, reasoning = draw(st.sampled_from([[], ["Well."]])), draw(st.sampled_from([[], ["Hm."]]))
    return parse(framed(wire, said(wire, text=text, reasoning=reasoning, calls=calls)), wire=wire)


@from_each_to_each
def test_the_outcome_is_what_the_turn_would_have_been_with_these_results(source: str, target: str) -> None:
    @settings(LAWS, max_examples=examples(4))
    @given(st.data())
    def law(data: st.DataObject) -> None:
        first, last, observations = data.draw(turns(source).flatmap(changed))
        native = NATIVE[target]
        before, after = [native.user("Look.")], native.said("Well.", [])
        history = [*before, *first.messages(target), *after]
        untouched = copy.deepcopy(history)
        outcome = with_results(history, observations, target)
        wanted = [*before, *last.messages(target), *after]
        assert outcome == wanted
        assert repr(outcome) == repr(wanted), "also in the order of its keys, and the types of its values"
        assert history == untouched, "what is given is not changed"
        assert (outcome is history) == (wanted == untouched)

    law()


@pytest.mark.thorough
@every("target", WIRES)
def test_so_it_is_for_every_turn_that_was_ever_recorded(target: str) -> None:
    """Also of calls without ids, with ids twice, with names that nobody takes, of built-in tools, and cut."""
    for place, quirk in enumerate(QUIRKS):
        if quirk["wire"] != target and place % 4 != list(WIRES).index(target) % 4:
            continue  # each goes to its own wire and to a fourth of the others
        turn = parse(body_of(quirk), wire=quirk["wire"], tools=quirk.get("tools", ()))
        first = observed(turn, {call.call_id: waiting(call) for call in ours(turn)})
        done = {call.call_id: observation(call, result=ToolResult(blocks=("a map", IMAGE))) for call in ours(turn)}
        outcome = with_results(first.messages(target), done.values(), target)
        assert repr(outcome) == repr(observed(turn, done).messages(target)), quirk["id"]
        one_by_one = first.messages(target)
        for late in reversed(done.values()):
            one_by_one = with_results(one_by_one, [late], target)
        assert repr(one_by_one) == repr(outcome), quirk["id"]


@every("wire", WIRES)
def test_all_other_messages_stay_the_same_objects(wire: str) -> None:
    native = NATIVE[wire]
    earlier, later = Call("call00001", result="seen at noon"), Call("call00003", result="found")
    before = [native.user("Look."), *native.said("", [earlier]), *native.came([earlier]), *native.said("So.", [])]
    after = [*native.said("", [later]), *native.came([later]), *native.said("Well.", [])]
    asked = [native.user("And?"), *native.said("", [Call("call00002")])]
    history = [*before, *asked, *native.came([Call("call00002", result=WAITING)]), *after]
    outcome = with_results(history, [of("call00002", "done")], wire)
    assert [a is b for a, b in zip(outcome, history, strict=True)].count(False) == 1
    assert outcome == [*before, *asked, *native.came([Call("call00002", result="done")]), *after]
    assert refusals(wire, outcome) == refusals(wire, history)
    check_types(wire, outcome)


# -- a call without a result -------------------------------------------------------------------------------------------


STAND = [(), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1)]
BEHIND: list[list[str]] = [[], ["user"], ["said"]]


@every(
    ("wire", "stand", "behind"),
    [(wire, stand, BEHIND[(number + at) % 3]) for number, wire in enumerate(WIRES) for at, stand in enumerate(STAND)],
)
def test_a_result_that_is_missing_comes_where_repair_would_put_it(
    wire: str, stand: tuple[int, ...], behind: list[str]
) -> None:
    native = NATIVE[wire]
    calls = [Call(f"call0000{number}", result=f"seen {number}") for number in range(3)]
    more = {"user": [native.user("Well?")], "said": native.said("Well.", [])}
    history = [
        native.user("Look."),
        *native.said("", calls),
        *native.came([calls[number] for number in stand]),
        *(message for who in behind for message in more[who]),
    ]
    if wire == BEDROCK and stand and behind == ["user"]:  # there both are the user's, in one message
        came, well = history[-2:]
        history[-2:] = [{**came, "content": came["content"] + well["content"]}]
    missing = [of(call.id, f"late {number}") for number, call in enumerate(calls) if number not in stand]
    outcome = with_results(history, missing, wire)
    assert outcome == with_results(repair(history, wire, last=True), missing, wire)
    assert lint(outcome, wire, last=True) == []
    assert refusals(wire, outcome) == []
    check_types(wire, outcome)
    assert outcome == with_results(with_results(history, missing[1:], wire), missing[:1], wire), "in any order"


def test_a_result_that_stands_too_late_is_replaced_where_it_stands() -> None:
    """To move it is for `repair`."""
    answer, _ = turn_of(CHAT, "a").messages()
    late = {"role": "tool", "tool_call_id": "a", "content": WAITING}
    user = {"role": "user", "content": "Well?"}
    assert with_results([answer, user, late], [of("a")], CHAT) == [answer, user, {**late, "content": "done"}]
    twice = with_results([answer, late, late], [of("a")], CHAT)
    assert twice == [answer, {**late, "content": "done"}, late]
    assert twice[2] is late


# -- which call --------------------------------------------------------------------------------------------------------


@every("wire", WIRES)
def test_of_calls_with_one_id_the_latest_is_meant(wire: str) -> None:
    native = NATIVE[wire]
    asked = [Call("call00001", result="first"), Call("call00001", result="second"), Call("call00001", result="third")]
    turns = [[*native.said("", [call]), *native.came([call])] for call in asked]
    history = [message for turn in turns for message in [native.user("Look."), *turn, *native.said("So.", [])]]
    outcome = with_results(history, [of("call00001")], wire)
    assert outcome != history
    told = str(outcome)
    assert "first" in told
    assert "second" in told
    assert "third" not in told
    mended = repair(history, wire)  # where ids have to be unique, they are now
    told = str(with_results(mended, [of("call00001")], wire))
    assert "second" in told
    assert "third" not in told


def test_among_calls_with_one_id_one_of_the_observations_tool_is_meant() -> None:
    native = NATIVE[CHAT]
    asked = [Call("call_0", "pay", result=WAITING), Call("call_0", "look", result="seen")]
    history = [message for call in asked for message in [*native.said("", [call]), *native.came([call])]]
    outcome = with_results(history, [of("call_0", "paid", "pay")], CHAT)
    assert [message.get("content") for message in outcome] == [None, "paid", None, "seen"]
    assert outcome[3] is history[3]


@every("wire", WIRES)
def test_a_call_that_is_not_in_the_history_is_refused_by_its_id(wire: str) -> None:
    native = NATIVE[wire]
    history = [native.user("Look."), *native.said("", [Call("call00001")]), *native.came([Call("call00001")])]
    with pytest.raises(ValueError, match="the history has no call 'call00002'") as refused:
        with_results(history, [of("call00001"), of("call00002", "a secret")], wire)
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="the history has no call 'call00002'"):
        with_results([], [of("call00002")], wire)


def test_two_observations_of_one_call_are_refused() -> None:
    history = turn_of(CHAT, "a").messages()
    with pytest.raises(ValueError, match="two observations of the call 'a'"):
        with_results(history, [of("a", "yes"), of("a", "no")], CHAT)


def test_another_wires_history_is_refused() -> None:
    history = turn_of(ANTHROPIC, "a", text="Well.").messages()
    with pytest.raises(ExportError, match="none of these is a message of gemini"):
        with_results(history, [of("a")], GEMINI)
    with pytest.raises(ExportError, match=r"no wire is called 'alien'"):
        with_results(history, [of("a")], "alien")
    with pytest.raises(TypeError, match="expected a list of messages"):
        with_results({"messages": history}, [of("a")], ANTHROPIC)  # type: ignore[arg-type]


# -- calls without ids -------------------------------------------------------------------------------------------------


def gemini_turn(*names: str, response: str = "r") -> Turn:
    parts = [{"functionCall": {"name": name, "args": {}}} for name in names]
    end = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return parse(framed(GEMINI, [{"candidates": [end], "modelVersion": "g", "responseId": response}]), wire=GEMINI)


def told_by(contents: list[Message]) -> list[list[str]]:
    """What the functions said, answer by answer."""
    responses = [[part["functionResponse"]["response"] for part in content["parts"]] for content in contents[1::2]]
    return [[next(iter(response.values())) for response in said] for said in responses]


def test_calls_without_ids_are_found_by_tool_and_place_in_the_latest_turn_that_has_them_all() -> None:
    early = gemini_turn("look", "find", "look", response="1")
    late = gemini_turn("look", response="2")
    history = [*early.messages(), *late.messages()]
    assert not any("id" in part.get("functionCall", {}) for content in history for part in content["parts"])
    old = told_by(history)
    first, second, third = early.calls
    pair = [observation(third, "3"), observation(first, "1")]
    assert told_by(with_results(history, pair, GEMINI)) == [["1", old[0][1], "3"], old[1]]
    assert told_by(with_results(history, [observation(second, "2")], GEMINI)) == [[old[0][0], "2", old[0][2]], old[1]]
    assert told_by(with_results(history, [observation(late.calls[0], "now")], GEMINI)) == [old[0], ["now"]]


def test_only_an_id_that_was_made_up_can_be_of_a_call_without_one() -> None:
    turn = gemini_turn("look")
    history = turn.messages()
    for wrong in (
        of("call_0"),
        replace(observation(turn.calls[0]), tool_name="find"),
        replace(observation(turn.calls[0]), index=1),
    ):
        with pytest.raises(ValueError, match="no call 'call_"):
            with_results(history, [wrong], GEMINI)
    same = [observation(turn.calls[0]), replace(observation(turn.calls[0]), call_id="call_" + "0" * 24)]
    with pytest.raises(ValueError, match="two observations of the call"):
        with_results(history, same, GEMINI)


def test_histories_of_ollama_without_ids_and_of_coheres_first_api() -> None:
    made_up = of("call_" + "0" * 24)
    call = {"function": {"name": "look", "arguments": {}}}
    ollama: list[Message] = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_name": "look", "content": WAITING},
    ]
    assert with_results(ollama, [made_up], OLLAMA) == [ollama[0], {**ollama[1], "content": "done"}]
    asked = {"name": "look", "parameters": {}}
    answer: Message = {"role": "CHATBOT", "message": "", "tool_calls": [asked, asked]}

    def came(*texts: str) -> Message:
        told = [{"outputs": [{"output": text}], "call": asked} for text in texts]
        return {"role": "TOOL", "tool_results": told}

    history = [answer, came("seen", WAITING)]
    assert with_results(history, [replace(made_up, index=1)], COHERE) == [answer, came("seen", "done")]
    assert with_results([answer, came("seen")], [replace(made_up, index=1)], COHERE) == [answer, came("seen", "done")]
    assert with_results([answer], [made_up, replace(made_up, index=1)], COHERE) == [answer, came("done", "done")]


def test_results_of_coheres_other_api_are_refused_rather_than_lost() -> None:
    asked = [{"id": f"c{number}", "function": {"name": "look", "arguments": "{}"}} for number in range(2)]
    told = [{"outputs": [{"output": str(number)}], "call": {"name": "look", "parameters": {}}} for number in range(2)]
    newer = [{"role": "assistant", "tool_calls": asked}, {"role": "TOOL", "tool_results": told}]
    with pytest.raises(ValueError, match=r"messages\[1\] holds the result of 'c0' in another shape"):
        with_results(newer, [of("c1")], COHERE)


# -- beside other things -----------------------------------------------------------------------------------------------


def test_what_stands_beside_results_in_their_message_stays() -> None:
    marked = {"type": "text", "text": "And?", "cache_control": {"type": "ephemeral"}}
    answer, came = turn_of(ANTHROPIC, "a", "b").messages()
    came = {**came, "content": [*came["content"], marked, {"type": "alien"}], "x": 1}
    outcome = with_results([answer, came], [of("b")], ANTHROPIC)
    assert outcome[0] is answer
    seen, _, *rest = came["content"]
    block = {"type": "tool_result", "tool_use_id": "b", "content": "done"}
    assert outcome[1] == {**came, "content": [seen, block, *rest]}
    assert [outcome[1]["content"][place] is came["content"][place] for place in (0, 2, 3)] == [True] * 3


# -- pictures and files that stand behind all results ------------------------------------------------------------------


def test_a_history_that_went_to_another_provider_takes_results_by_the_turns_own_ids() -> None:
    turn = parse(chat(calls=[("call_of_more_than_nine", "look", "{}")]))
    here = observed(turn, {"call_of_more_than_nine": waiting(turn.calls[0])}).messages()
    there = convert(here, CHAT, MISTRAL).messages
    _, came = with_results(there, [of("call_of_more_than_nine")], MISTRAL)
    assert came == {**there[1], "content": "done"}
