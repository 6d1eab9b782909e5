"""System prompts among the messages: where a provider takes them, and where they go if they stand elsewhere."""

from __future__ import annotations

from typing import Any

from every_wire import ANTHROPIC, CHAT, MISTRAL
from hypothesis import given, settings
from hypothesis import strategies as st
from profiles import every, examples

from streamtools.history import lint, repair

Message = dict[str, Any]
FILLER = {"role": "user", "content": "."}
SPOKEN = {"role": "assistant", "content": "."}


def system(text: str = "Be brief.") -> Message:
    return {"role": "system", "content": text}


def user(text: str = "Look.") -> Message:
    return {"role": "user", "content": text}


SAID = {"role": "assistant", "content": "Well."}
CALLED = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "abcdefghi", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
CAME = {"role": "tool", "tool_call_id": "abcdefghi", "content": "seen"}
USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]}
SEEN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}]}
SEARCHING = {
    "role": "assistant",
    "content": [{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}],
}
FOUND = {
    "role": "assistant",
    "content": [
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
        {"type": "text", "text": "There."},
    ],
}

TAKEN: dict[str, tuple[str, list[Message]]] = {
    "Mistral, at the beginning": (MISTRAL, [system(), system("And kind."), user(), SAID]),
    "Mistral, behind the user": (MISTRAL, [user(), system(), SAID, user(), system(), user()]),
    "Anthropic, behind the user": (ANTHROPIC, [user(), system(), SAID, user(), system()]),
    "Anthropic, behind results": (ANTHROPIC, [user(), USED, SEEN, system(), SAID]),
    "Anthropic, while it searches": (ANTHROPIC, [user(), SEARCHING, system(), FOUND]),
    "Chat Completions, anywhere": (CHAT, [user(), SAID, system(), user(), system(), SAID, system()]),
}
MOVED: dict[str, tuple[str, list[Message], list[Message]]] = {
    "Mistral, behind an answer": (MISTRAL, [user(), SAID, system(), user()], [user(), SAID, user(), system()]),
    "Mistral, several": (
        MISTRAL,
        [user(), SAID, system("1"), system("2"), user("a"), user("b")],
        [user(), SAID, user("a"), system("1"), system("2"), user("b")],
    ),
    "Mistral, behind results": (
        MISTRAL,
        [user(), CALLED, CAME, system(), SAID],
        [user(), CALLED, CAME, SPOKEN, FILLER, system(), SAID],
    ),
    "Mistral, at the end": (MISTRAL, [user(), SAID, system()], [user(), SAID, FILLER, system()]),
    "Anthropic, at the beginning": (ANTHROPIC, [system(), user(), SAID], [user(), system(), SAID]),
    "Anthropic, between the user's": (ANTHROPIC, [user("1"), system(), user("2")], [user("1"), user("2"), system()]),
    "Anthropic, behind an answer": (
        ANTHROPIC,
        [user(), SAID, system(), user(), SAID],
        [user(), SAID, user(), system(), SAID],
    ),
    "Anthropic, with no word of the user's": (
        ANTHROPIC,
        [user(), SAID, system(), SAID],
        [user(), SAID, FILLER, system(), SAID],
    ),
    "Anthropic, several in a row": (
        ANTHROPIC,
        [user(), system("1"), system("2"), SAID],
        [user(), {"role": "system", "content": [{"type": "text", "text": "1"}, {"type": "text", "text": "2"}]}, SAID],
    ),
    "Anthropic, alone": (ANTHROPIC, [system()], [FILLER, system()]),
}
WORDS = {
    MISTRAL: "Unexpected role 'system' after role 'assistant'",
    ANTHROPIC: 'messages: Unexpected role "system".',
}


@every("case", TAKEN)
def test_a_system_prompt_stands_where_its_provider_takes_it(case: str) -> None:
    wire, messages = TAKEN[case]
    assert lint(messages, wire) == []
    assert repair(messages, wire) is messages


@every("case", MOVED)
def test_a_system_prompt_that_stands_elsewhere_is_told_and_moved(case: str) -> None:
    wire, messages, becomes = MOVED[case]
    found = lint(messages, wire)
    assert {violation.code for violation in found} == {"role_order"}
    assert all(violation.provider_text.startswith(WORDS[wire]) for violation in found)
    repaired = repair(messages, wire)
    assert repaired == becomes
    assert lint(repaired, wire) == []
    assert repair(repaired, wire) is repaired
    given = {id(message) for message in messages}
    assert all(id(message) in given or message in (FILLER, SPOKEN) or "1" in str(message) for message in repaired)


@every("wire", [ANTHROPIC, MISTRAL])
def test_wherever_system_prompts_stand_they_are_taken_and_none_is_lost(wire: str) -> None:
    exchange = [USED, SEEN] if wire == ANTHROPIC else [CALLED, CAME]

    @settings(derandomize=True, deadline=None, max_examples=examples(80))
    @given(st.lists(st.sampled_from("ussar"), max_size=9))
    def law(told: str) -> None:
        messages: list[Message] = []
        for number, who in enumerate(told):
            words = {"u": [user()], "s": [system(f"<{number}>")], "a": [SAID], "r": exchange}
            messages += words[who]
        repaired = repair(messages, wire, last=True)
        assert lint(repaired, wire, last=True) == []
        assert repair(repaired, wire, last=True) is repaired
        kept = str([message for message in repaired if message["role"] == "system"])
        places = [kept.find(f"<{number}>") for number, who in enumerate(told) if who == "s"]
        assert -1 not in places
        assert places == sorted(places)

    law()
