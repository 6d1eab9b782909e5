"""Results that come later: a history in which calls came to something else than was written."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any, get_args

import pytest
from anthropic.types import TextBlock, ToolUseBlock
from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES, framed, said
from google.genai import types as genai
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import each_with_each, examples, mostly_thorough
from sansio import QUIRKS, body_of
from sdk_types import check_types
from spoken_histories import NATIVE, Call, refusals
from streams import chat
from test_repair_laws import histories
from wire_cases import CASES

from streamtools import Observation, ToolCall, Turn, parse
from streamtools.content import Media, Text, ToolResult
from streamtools.errors import ExportError
from streamtools.history import convert, lint, repair, with_results
from streamtools.parts import Outcome
from streamtools.wires import WIRES, find

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


from_each_to_each = pytest.mark.parametrize(("source", "target"), each_with_each(WIRES))


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
    @settings(LAWS, max_examples=examples(12))
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


@pytest.mark.parametrize("target", WIRES)
def test_so_it_is_for_every_turn_that_was_ever_recorded(target: str) -> None:
    """Also of calls without ids, with ids twice, with names that nobody takes, of built-in tools, and cut."""
    for quirk in QUIRKS:
        turn = parse(body_of(quirk), wire=quirk["wire"], tools=quirk.get("tools", ()))
        first = observed(turn, {call.call_id: waiting(call) for call in ours(turn)})
        done = {call.call_id: observation(call, result=ToolResult(blocks=("a map", IMAGE))) for call in ours(turn)}
        outcome = with_results(first.messages(target), done.values(), target)
        assert repr(outcome) == repr(observed(turn, done).messages(target)), quirk["id"]
        one_by_one = first.messages(target)
        for late in reversed(done.values()):
            one_by_one = with_results(one_by_one, [late], target)
        assert repr(one_by_one) == repr(outcome), quirk["id"]


@pytest.mark.parametrize("wire", WIRES)
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


@pytest.mark.parametrize("wire", WIRES)
def test_what_changes_nothing_gives_the_same_list(wire: str) -> None:
    turn = turn_of(wire, "a", "b")
    done = {call.call_id: observation(call) for call in turn.calls}
    history = [NATIVE[wire].user("Look."), *observed(turn, done).messages(wire)]
    assert with_results(history, done.values(), wire) is history
    assert with_results(history, [], wire) is history
    assert with_results([], [], wire) == []


def test_one_is_neither_true_nor_one_point_zero() -> None:
    turn = turn_of(GEMINI, "a")

    def came_to(value: object) -> Observation:
        return observation(turn.calls[0], result=ToolResult(native={GEMINI: {"at": value}}))

    history = observed(turn, {"a": came_to(1)}).messages()
    assert with_results(history, [came_to(1)], GEMINI) is history
    for value in (True, 1.0):
        _, came = with_results(history, [came_to(value)], GEMINI)
        assert type(came["parts"][0]["functionResponse"]["response"]["at"]) is type(value)


IDS = ["a", "b", "call_0", "toolu_01", "x" * 70, "with space", *(f"call0{number:04}" for number in range(8))]


@pytest.mark.parametrize("wire", mostly_thorough(WIRES, 2))
def test_what_lint_passes_it_passes_with_other_results(wire: str) -> None:
    """Of any history, whatever stands in it; of a call that is not in it nothing but that is said."""
    done = 0

    @settings(LAWS, max_examples=40)
    @given(st.one_of(histories(wire, sound=True), histories(wire, odd=True)), st.data())
    def law(history: list[Any], data: st.DataObject) -> None:
        nonlocal done
        before, outcome = copy.deepcopy(history), history
        for call_id in data.draw(st.permutations(IDS)):
            late = data.draw(observations(ToolCall(call_id=call_id, name="look")))
            if late.result is not None and late.result.native:
                continue  # that is what its provider takes if the tool says so
            try:
                outcome = with_results(outcome, [late], wire)
            except ValueError:
                continue
            done += 1
            assert with_results(outcome, [late], wire) is outcome, "the same again"
        assert history == before
        if not lint(history, wire):
            assert lint(outcome, wire) == []
            check_types(wire, outcome)

    law()
    assert done > 50


# -- a call without a result -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behind", [[], ["user"], ["said"]], ids=["the end", "the user behind it", "the model behind it"]
)
@pytest.mark.parametrize("stand", [(), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1)], ids=repr)
@pytest.mark.parametrize("wire", WIRES)
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


@pytest.mark.parametrize("wire", WIRES)
def test_the_results_of_an_answer_that_has_none_are_those_of_the_turn(wire: str) -> None:
    turn = turn_of(wire, "aaaaaaaaa", "bbbbbbbbb")
    late = {call.call_id: observation(call, result=ToolResult(blocks=("a map", IMAGE))) for call in turn.calls}
    whole = observed(turn, late).messages()
    answer = list(takewhile(lambda message: next(iter(CASES[wire].flow(message)))[0] == "model", whole))
    assert with_results(answer, late.values(), wire) == whole


def test_a_live_call_that_is_not_observed_stays_open() -> None:
    turn = turn_of(CHAT, "a", "b", "c")
    answer = turn.messages()[0]
    outcome = with_results([answer], [of("b")], CHAT)
    assert outcome == [answer, {"role": "tool", "tool_call_id": "b", "content": "done"}]
    assert lint(outcome, CHAT) == []


def test_a_result_that_stands_too_late_is_replaced_where_it_stands() -> None:
    """To move it is for `repair`."""
    answer, _ = turn_of(CHAT, "a").messages()
    late = {"role": "tool", "tool_call_id": "a", "content": WAITING}
    user = {"role": "user", "content": "Well?"}
    assert with_results([answer, user, late], [of("a")], CHAT) == [answer, user, {**late, "content": "done"}]
    twice = with_results([answer, late, late], [of("a")], CHAT)
    assert twice == [answer, {**late, "content": "done"}, late]
    assert twice[2] is late


@pytest.mark.parametrize("late", ["a", "b"])
def test_a_missing_result_does_not_follow_another_that_stands_too_late(late: str) -> None:
    (missing,) = {"a", "b"} - {late}
    answer, *_ = turn_of(CHAT, "a", "b").messages()
    history = [answer, {"role": "user", "content": "Well?"}, {"role": "tool", "tool_call_id": late, "content": "seen"}]
    outcome = with_results(history, [of(missing)], CHAT)
    assert outcome == [answer, {"role": "tool", "tool_call_id": missing, "content": "done"}, *history[1:]]


# -- which call --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("wire", WIRES)
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


@pytest.mark.parametrize("target", [wire for wire in WIRES if wire != OLLAMA])
def test_an_id_that_was_taken_as_another_one_is_told_apart(target: str) -> None:
    """A call whose own id is what would stand for another's."""
    odd = "not taken: " + "é" * 60
    taken = find(target).call_ids.replacement(odd, 0)
    source = ANTHROPIC if target == CHAT else CHAT
    turn = turn_of(source, taken, odd)
    both = {call.call_id: waiting(call) for call in turn.calls}
    history = observed(turn, both).messages(target)
    for call in turn.calls:
        late = observation(call, f"done: {call.index}")
        assert with_results(history, [late], target) == observed(turn, both | {call.call_id: late}).messages(target)


@pytest.mark.parametrize("wire", WIRES)
def test_a_call_that_is_not_in_the_history_is_refused_by_its_id(wire: str) -> None:
    native = NATIVE[wire]
    history = [native.user("Look."), *native.said("", [Call("call00001")]), *native.came([Call("call00001")])]
    with pytest.raises(ValueError, match="no call 'call00002' is in the history") as refused:
        with_results(history, [of("call00001"), of("call00002", "a secret")], wire)
    assert "secret" not in str(refused.value)
    with pytest.raises(ValueError, match="no call 'call00002' is in the history"):
        with_results([], [of("call00002")], wire)


def test_a_long_id_is_not_shown_whole() -> None:
    with pytest.raises(ValueError, match=re.escape("'" + "x" * 80 + "…'")):
        with_results([], [of("x" * 1000)], CHAT)


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


def test_of_calls_without_ids_only_those_of_one_turn_can_be_given() -> None:
    early, late = gemini_turn("look", "find", response="1"), gemini_turn("pay", response="2")
    history = [*early.messages(), *late.messages()]
    some = [observation(early.calls[1]), observation(late.calls[0])]
    with pytest.raises(ValueError, match="give those of one turn at a time"):
        with_results(history, some, GEMINI)
    for one in some:
        history = with_results(history, [one], GEMINI)
    assert [said[-1] for said in told_by(history)] == ["done", "done"]


def test_a_call_without_an_id_whose_name_nobody_takes_is_found_by_its_place() -> None:
    turn = gemini_turn("look", "bad name!")
    history = turn.messages()
    assert history[0]["parts"][1]["functionCall"]["name"] == "bad_name_"
    assert told_by(with_results(history, [observation(turn.calls[1])], GEMINI)) == [[told_by(history)[0][0], "done"]]


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


def test_where_every_call_has_an_id_none_is_found_without() -> None:
    """A call of the time when an answer held only one: there is no id by which its result could be told."""
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}}
    history = [legacy, {"role": "function", "name": "look", "content": WAITING}]
    with pytest.raises(ValueError, match=r"no call 'call_0{24}' is in the history"):
        with_results(history, [of("call_" + "0" * 24)], CHAT)


def test_of_one_id_in_one_answer_the_first_call_has_it() -> None:
    """A turn gives it to the first, and makes one up for the other."""
    native = NATIVE[CHAT]
    calls = [Call("a", "look", result="1"), Call("a", "find", result="2")]
    history = [*native.said("", calls), *native.came(calls)]
    for late in (of("a"), of("a", name="find")):
        outcome = with_results(history, [late], CHAT)
        assert [message["content"] for message in outcome[1:]] == ["done", "2"]


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


def test_a_result_that_failed_leaves_no_mark_of_it() -> None:
    turn = turn_of(ANTHROPIC, "a")
    history = observed(turn, {"a": waiting(turn.calls[0])}).messages()
    assert history[1]["content"][0]["is_error"] is True
    assert "is_error" not in with_results(history, [of("a")], ANTHROPIC)[1]["content"][0]


def test_objects_of_an_sdk_stay_where_nothing_changes() -> None:
    said = {
        "role": "assistant",
        "content": [
            TextBlock(type="text", text="Let me look."),
            ToolUseBlock(type="tool_use", id="a", name="look", input={}),
        ],
    }
    came = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": WAITING}]}
    outcome = with_results([said, came], [of("a")], ANTHROPIC)
    assert outcome[0] is said
    assert outcome[1] == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "done"}]}

    call = genai.Content(role="model", parts=[genai.Part(function_call=genai.FunctionCall(name="look", args={}))])
    response = genai.FunctionResponse(name="look", response={"output": "done"})
    result = genai.Content(role="user", parts=[genai.Part(function_response=response)])
    made_up = of("call_" + "0" * 24)
    contents = [call, result]
    assert with_results(contents, [made_up], GEMINI) is contents
    outcome = with_results(contents, [replace(made_up, model_content="more")], GEMINI)
    assert outcome[0] is call
    assert outcome[1]["parts"][0]["functionResponse"]["response"] == {"output": "more"}


# -- pictures and files that stand behind all results ------------------------------------------------------------------

PICTURE = ToolResult(blocks=("a map", IMAGE))


def pictures(messages: list[Message]) -> list[Any]:
    """What the user's messages say, pictures as a word."""
    contents = [message["content"] for message in messages if message["role"] == "user"]
    return [[part["text"] if part["type"] == "text" else part["type"] for part in content] for content in contents]


@pytest.mark.parametrize("wire", [CHAT, MISTRAL])
def test_pictures_come_and_go_with_their_results_in_call_order(wire: str) -> None:
    turn = turn_of(wire, "aaaaaaaaa", "bbbbbbbbb", "ccccccccc")
    a, b, c = turn.calls
    history = observed(turn, {call.call_id: waiting(call) for call in turn.calls}).messages()
    line = "From the result of call {}:".format

    def then(call: ToolCall, result: ToolResult | None) -> None:
        history[:] = with_results(history, [observation(call, result=result)], wire)
        assert lint(history, wire) == []

    then(c, PICTURE)
    assert pictures(history) == [[line("ccccccccc"), "image_url"]]
    then(a, ToolResult(blocks=(IMAGE, IMAGE)))
    then(b, PICTURE)
    of_c = [line("ccccccccc"), "image_url"]
    assert pictures(history) == [[line("aaaaaaaaa"), "image_url", "image_url", line("bbbbbbbbb"), "image_url", *of_c]]
    then(a, None)
    then(b, None)
    assert pictures(history) == [of_c]
    then(c, None)
    assert pictures(history) == []
    assert [message["role"] for message in history] == ["assistant", "tool", "tool", "tool"]


@pytest.mark.parametrize("wire", [CHAT, MISTRAL])
def test_what_the_user_says_below_pictures_stays(wire: str) -> None:
    (call,) = (turn := turn_of(wire, "aaaaaaaaa")).calls
    *history, behind = observed(turn, {call.call_id: observation(call, result=PICTURE)}).messages()
    words = [{"type": "text", "text": "And?"}, {"type": "image_url", "image_url": {"url": "https://example.org/mine"}}]
    history.append({**behind, "content": [*behind["content"], *words], "name": "me"})
    outcome = with_results(history, [observation(call)], wire)
    assert outcome[-1] == {"role": "user", "name": "me", "content": words}
    assert len(outcome) == len(history)
    assert lint(outcome, wire) == []


def test_mistrals_model_has_the_last_word_before_the_user_when_pictures_go() -> None:
    (call,) = (turn := turn_of(MISTRAL, "aaaaaaaaa")).calls
    shown = observed(turn, {call.call_id: observation(call, result=PICTURE)}).messages()
    user, well = {"role": "user", "content": "Well?"}, {"role": "assistant", "content": "Well."}
    left = {"assistant tool assistant user": [user], "assistant tool assistant": [well], "assistant tool": []}
    for roles, behind in left.items():
        history = [user, *shown, *behind]
        assert lint(history, MISTRAL) == []
        outcome = with_results(history, [observation(call)], MISTRAL)
        assert [message["role"] for message in outcome[1:]] == roles.split()
        assert lint(outcome, MISTRAL) == []


@pytest.mark.parametrize(
    "behind",
    [
        {"role": "user", "content": "From the result of call a:"},
        {"role": "user", "content": [{"type": "text", "text": "From the result of call b:"}]},
        {"role": "user", "content": []},
        {"role": "user", "content": [3, {"type": "text"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "From the result of call a:"}]},
    ],
    ids=repr,
)
def test_a_message_behind_results_that_is_something_else_is_left_alone(behind: Message) -> None:
    (call,) = (turn := turn_of(CHAT, "a")).calls
    history = [*observed(turn, {"a": waiting(call)}).messages(), behind]
    assert with_results(history, [observation(call)], CHAT)[2] is behind
    *_, pictures, after = with_results(history, [observation(call, result=PICTURE)], CHAT)
    assert pictures["content"][1]["image_url"]["url"].endswith(PNG)
    assert after is behind


def test_a_history_that_went_to_another_provider_takes_results_by_the_turns_own_ids() -> None:
    turn = parse(chat(calls=[("call_of_more_than_nine", "look", "{}")]))
    here = observed(turn, {"call_of_more_than_nine": waiting(turn.calls[0])}).messages()
    there = convert(here, CHAT, MISTRAL).messages
    _, came = with_results(there, [of("call_of_more_than_nine")], MISTRAL)
    assert came == {**there[1], "content": "done"}


@pytest.mark.thorough
@pytest.mark.parametrize("wire", WIRES)
def test_many_results_cost_no_more_than_their_number(wire: str) -> None:
    """Each written for itself: to write or to look for one among all others would take minutes here."""
    native = NATIVE[wire]
    calls = [Call(f"c{number:08}", result=WAITING) for number in range(1500)]
    answer = native.said("", calls)
    late = [of(call.id, result=PICTURE) for call in calls]
    assert str(with_results([*answer, *native.came(calls)], late, wire)).count(WAITING) == 0
    spoken = [message for call in calls for message in [*native.said("", [call]), *native.came([call])]]
    assert str(with_results(spoken, late, wire)).count(WAITING) == 0
    missing = with_results(answer, late[1::2], wire)
    assert str(with_results(missing, late[::2], wire)) == str(with_results(answer, late, wire))
