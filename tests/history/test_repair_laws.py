"""What holds for every history on every wire: repaired, it is taken; and what is right already stays what it is."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import each_with_each, every, examples, mostly_thorough
from sdk_types import check_types
from spoken_histories import NATIVE, Call, refusals
from wire_cases import CASES

from streamtools.history import convert, lint, repair
from streamtools.wires import WIRES, find

LAWS = settings(derandomize=True, deadline=None, max_examples=examples(25))

texts = st.sampled_from(["Look.", "and?", "é\n", "<b>"])
ids = st.sampled_from(["a", "b", "call_0", "toolu_01", "x" * 70, "with space", ""])
names = st.sampled_from(["look", "find", "multi tool.use"])
arguments = st.sampled_from(["{}", '{"at": 1}', '{"at":', "[1]", "", '"{}"', "nonsense", '{"at": NaN}'])
calls = st.builds(Call, id=ids, name=names, arguments=arguments, result=st.sampled_from(["seen", "", "Error: no"]))
junk: st.SearchStrategy[Any] = st.sampled_from([
    {}, {"role": "alien", "content": "x"}, {"role": "user"}, {"role": "user", "content": None}, None, 3, "hi", [],
    {"role": "assistant", "content": None}, {"role": "user", "content": []}, {"role": "assistant", "content": []},
    {"role": "user", "parts": []}, {"role": "model", "parts": None}, {"type": "alien"}, {"type": "function_call"},
])  # fmt: skip
LEAVES = st.sampled_from([None, "", " ", 0, [], {}, "x", True])


@st.composite
def histories(draw: st.DrawFn, wire: str, *, sound: bool = False, odd: bool = False) -> list[Any]:
    """A history of some turns; unless it has to be `sound`, what cuts, retries and bad merges make of one; if it may be
    `odd`, also with what is no message, and with any value in any place."""
    native = NATIVE[wire]
    messages: list[Any] = [native.system("Be brief.")] if native.system and draw(st.booleans()) else []
    count = 0
    for _ in range(draw(st.integers(1, 4))):
        messages.append(native.user(draw(texts)))
        for _ in range(draw(st.integers(1, 2))):
            asked = draw(st.lists(calls, min_size=int(sound), max_size=3))
            if sound:
                count += len(asked)
                at = range(count - len(asked), count)
                asked = [Call(f"call0{number:04}", "look", '{"at": 1}', "seen") for number in at]
            answered = asked if sound else draw(st.permutations(asked[: draw(st.integers(0, 3))]))
            messages += native.said("" if asked else "Well.", asked)
            messages += native.came(answered)
        messages += native.said("So it is.", [])
    if not sound:
        for _ in range(draw(st.integers(0, 4))):
            messages = draw(spoiled(messages, odd=odd))
        if native.system and draw(st.booleans()):
            messages.insert(draw(st.integers(0, len(messages))), native.system("And kind."))
    return messages


@st.composite
def spoiled(draw: st.DrawFn, messages: list[Any], *, odd: bool) -> list[Any]:
    """One thing that goes wrong."""
    at = draw(st.integers(0, max(len(messages) - 1, 0)))
    match draw(st.sampled_from(["cut", "lose", "repeat", "move", *(["junk", "leaf"] if odd else [])])):
        case "cut":
            return messages[: at + 1]
        case "lose":
            return messages[:at] + messages[at + 1 :]
        case "repeat":
            return messages[: at + 1] + copy.deepcopy(messages[at:])
        case "move":
            rest = messages[:at] + messages[at + 1 :]
            to = draw(st.integers(0, len(rest)))
            return [*rest[:to], *messages[at : at + 1], *rest[to:]]
        case "junk":
            return [*messages[:at], draw(junk), *messages[at:]]
        case _:
            changed = [_with_leaf(draw, message) for message in messages[at : at + 1]]
            return [*messages[:at], *changed, *messages[at + 1 :]]


def _with_leaf(draw: st.DrawFn, value: Any) -> Any:
    """A value with something else at one place in it."""
    if isinstance(value, dict) and value:
        key = draw(st.sampled_from(sorted(value, key=str)))
        return value | {key: _with_leaf(draw, value[key])}
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], _with_leaf(draw, value[at]), *value[at + 1 :]]
    return draw(LEAVES)


@every("wire", WIRES)
def test_a_repaired_history_is_taken(wire: str) -> None:
    @LAWS
    @given(histories(wire))
    def law(messages: list[Any]) -> None:
        before = copy.deepcopy(messages)
        repaired = repair(messages, wire, last=True)
        assert messages == before, "what is given is not changed"
        assert lint(repaired, wire, last=True) == []
        assert refusals(wire, repaired) == []
        check_types(wire, repaired)
        assert repair(repaired, wire, last=True) is repaired
        assert repair(copy.deepcopy(messages), wire, last=True) == repaired, "the same again"

    law()


@every("wire", WIRES)
def test_whatever_stands_there_is_repaired_or_kept_as_it_is(wire: str) -> None:
    """Nothing raises, and what is repaired once is repaired: also where messages are none, and values of any type."""

    @LAWS
    @given(histories(wire, odd=True), st.booleans())
    def law(messages: list[Any], last: bool) -> None:
        before = copy.deepcopy(messages)
        repaired = repair(messages, wire, last=last)
        assert messages == before
        assert (repaired is messages) == (lint(messages, wire, last=last) == [])
        assert lint(repaired, wire, last=last) == []
        assert repair(repaired, wire, last=last) is repaired

    law()


@every("wire", WIRES)
def test_a_sound_history_is_taken_as_it_is(wire: str) -> None:
    @LAWS
    @given(histories(wire, sound=True))
    def law(messages: list[Any]) -> None:
        repaired = repair(messages, wire, last=True)
        if wire != "mistral.chat":  # there two answers in a row, with results between, may need a user's word
            assert lint(messages, wire, last=True) == []
            assert repaired is messages
        assert refusals(wire, repaired) == []

    law()


@every("wire", WIRES)
def test_messages_that_need_nothing_stay_the_same_objects(wire: str) -> None:
    """A repair at the end of a history leaves all before it as it is, for the provider's cache."""

    @LAWS
    @given(histories(wire, sound=True))
    def law(messages: list[Any]) -> None:
        native = NATIVE[wire]
        asked = [native.user("More?"), *native.said("", [Call("call90001")])]
        spoiled = [*messages, *asked, native.user("Never mind.")]
        repaired = repair(spoiled, wire)
        assert repaired is not spoiled
        assert all(a is b for a, b in zip(repaired, messages, strict=False))
        assert len(repaired) > len(messages) + len(asked)

    law()


@every("wire", WIRES)
def test_what_was_repaired_stays_as_it_is_while_the_history_grows(wire: str) -> None:
    """Whoever keeps what they have, and repairs it before each request, sends the same beginning each time."""

    @LAWS
    @given(histories(wire))
    def law(messages: list[Any]) -> None:
        native = NATIVE[wire]
        messages = [*messages, native.user("And now?"), *native.said("Fine.", [])]
        more = [Call("call90001")]
        grown = [*messages, native.user("More?"), *native.said("", more), *native.came(more), *native.said("Yes.", [])]
        before, after = repair(messages, wire), repair(grown, wire)
        assert after[: len(before)] == before

    law()


@every(("source", "target"), each_with_each(WIRES))
def test_a_history_that_came_back_and_goes_again_is_the_same(source: str, target: str) -> None:
    @settings(LAWS, max_examples=examples(3))
    @given(histories(source, sound=True))
    def law(messages: list[Any]) -> None:
        there = convert(messages, source, target)
        back = convert(there.messages, target, source, system=there.system)
        again = convert(back.messages, source, target, system=back.system)
        assert (again.messages, again.system) == (there.messages, there.system)

    law()


@every(("source", "target"), each_with_each(WIRES))
def test_a_converted_history_is_taken(source: str, target: str) -> None:
    @settings(LAWS, max_examples=examples(3))
    @given(histories(source))
    def law(messages: list[Any]) -> None:
        before = copy.deepcopy(messages)
        converted = convert(messages, source, target, last=True)
        assert messages == before
        assert lint(converted.messages, target, last=True) == []
        assert refusals(target, converted.messages) == []
        check_types(target, converted.messages)
        assert convert(messages, source, target, last=True) == converted

    law()


@every(("source", "target"), each_with_each(WIRES))
def test_nothing_of_a_sound_history_is_lost_on_the_way(source: str, target: str) -> None:
    native = NATIVE[source]
    asked = [Call("call00001", result="seen at noon"), Call("call00002", "find", '{"what": "door"}', "found it")]
    messages = [
        native.user("Where is the door?"),
        *native.said("Let me look.", asked),
        *native.came(asked),
        *native.said("Behind you.", []),
        native.user("Thanks."),
    ]
    converted = convert(messages, source, target, system="Be brief.")
    told = str([converted.system, converted.messages])
    for text in ("Be brief.", "Where is the door?", "seen at noon", "found it", "Behind you.", "Thanks."):
        assert text in told
    if source != target and not CASES[source].text_beside_calls:  # a plan is reasoning, which stays behind
        assert converted.losses == ("messages[1]: reasoning",)
    else:
        assert "Let me look." in told
        assert converted.losses == ()
    assert (converted.system is None) == (find(target).rules.system == "inline")


@every("wire", mostly_thorough(WIRES, 2))
def test_a_long_run_of_one_role_costs_no_more_than_any_other(wire: str) -> None:
    """Joined where the provider wants it, once: a copy for each message would take minutes here."""
    native = NATIVE[wire]
    messages = [native.user("Look.") for _ in range(10_000)]
    repaired = repair(messages, wire)
    assert repaired is messages or [len(message["content"]) for message in repaired] == [10_000]
