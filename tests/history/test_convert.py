"""A history moved to another provider: what goes along, what stays behind, and that it says so."""

from __future__ import annotations

import json
from typing import Any

from every_wire import ANTHROPIC, BEDROCK, CHAT, COHERE, GEMINI, MISTRAL, OLLAMA, RESPONSES
from profiles import every
from wire_cases import CASES

from streamtools.content import Media, Text
from streamtools.history import Converted, convert, lint
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt

Message = dict[str, Any]
USER = {"role": "user", "content": "Look."}
PNG = "iVBORw0KGgo="
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
LOOK = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [LOOK]}


def everything(messages: object) -> str:
    """All that stands in messages; bytes as base64."""
    import base64

    return json.dumps(messages, default=lambda value: base64.b64encode(value).decode())


# -- the system prompt -------------------------------------------------------------------------------------------------

APART = [wire for wire in WIRES if find(wire).rules.system == "apart"]


@every("target", WIRES)
def test_a_system_prompt_goes_where_the_target_has_it(target: str) -> None:
    history = [{"role": "system", "content": "Be brief."}, USER]
    moved = convert(history, CHAT, target)
    assert (moved.system == "Be brief.") == (target in APART)
    assert ("Be brief." in everything(moved.messages)) == (target not in APART)
    assert moved.losses == ()


def test_a_system_prompt_in_the_middle_goes_in_front_and_is_said_to() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        USER,
        {"role": "developer", "content": [{"type": "text", "text": "Be kind."}]},
        USER,
    ]
    moved = convert(history, CHAT, ANTHROPIC)
    assert moved.system == "Be brief.\n\nBe kind."
    assert moved.losses == ("messages[2]: a system prompt, which now comes first",)
    assert convert(history, CHAT, MISTRAL).messages[2] == {"role": "system", "content": "Be kind."}


# -- media -------------------------------------------------------------------------------------------------------------


@every("target", WIRES)
def test_an_image_of_the_user_goes_along(target: str) -> None:
    history = [{"role": "user", "content": [{"type": "text", "text": "Look:"}, IMAGE]}]
    moved = convert(history, CHAT, target)
    assert PNG in everything(moved.messages)
    assert "Look:" in everything(moved.messages)
    assert moved.losses == ()


@every("target", WIRES)
def test_an_image_that_a_tool_returned_goes_along_or_is_named(target: str) -> None:
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    history = [
        USER,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a map"}, block]}
            ],
        },
        {"role": "assistant", "content": "I see."},
    ]
    moved = convert(history, ANTHROPIC, target)
    assert "a map" in everything(moved.messages)
    if not CASES[target].pictures_in_results:
        assert moved.losses == (f"messages[2]: [image: image/png], which {target} cannot hold there",)
        assert "[image: image/png]" in everything(moved.messages)
    else:
        assert moved.losses == ()
        assert PNG in everything(moved.messages)


MEDIA = {
    "a file": {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}},
    "a sound": {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
    "an mp3": {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
    "an address": {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
}


@every("target", [CHAT, MISTRAL, COHERE, OLLAMA])
@every("part", MEDIA.values())
def test_what_has_no_place_becomes_a_placeholder_and_is_said_to(part: Message, target: str) -> None:
    moved = convert([{"role": "user", "content": [{"type": "text", "text": "See:"}, part]}], CHAT, target, foreign=True)
    told = everything(moved.messages)
    value = next(
        iter(v for v in ("JVBERi0=", "UklGRg==", "SUQz", "https://example.org/a.png") if v in json.dumps(part))
    )
    assert (value in told) == (moved.losses == ())
    if moved.losses:
        [loss] = moved.losses
        assert loss.startswith("messages[0]: [")
        assert f"which {target} cannot hold there" in loss
        assert loss.split("]: ")[1].split(", which")[0] in told, "the placeholder stands there"


def test_a_file_known_by_its_id_alone_stays_behind() -> None:
    history = [
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}}, IMAGE]}
    ]
    for target in (ANTHROPIC, MISTRAL):
        moved = convert(history, CHAT, target)
        assert "file-1" not in everything(moved.messages)
        assert "[file: a.pdf]" in everything(moved.messages)
        assert moved.losses == ("messages[0]: [file: a.pdf], of which there is only a file id",)


# -- what only its provider understands --------------------------------------------------------------------------------


def test_reasoning_and_what_a_provider_ran_itself_stay_behind() -> None:
    history = [
        USER,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm", "signature": "c2ln"},
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
                {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
                {"type": "text", "text": "So."},
            ],
        },
        USER,
    ]
    assert lint(history, ANTHROPIC) == []
    moved = convert(history, ANTHROPIC, CHAT)
    assert moved.messages == [USER, {"role": "assistant", "content": "So."}, USER]
    assert moved.losses == (
        "messages[1]: reasoning",
        "messages[1]: content that only anthropic.messages understands",
        "messages[1]: a call that the provider ran itself ('web_search')",
    )


def test_a_block_that_nobody_else_has_a_word_for_stays_behind() -> None:
    history = [{"role": "user", "content": [{"type": "alien", "x": 1}, {"type": "text", "text": "Look."}]}]
    moved = convert(history, CHAT, ANTHROPIC)
    assert "alien" not in everything(moved.messages)
    assert moved.losses == ("messages[0]: content that only openai.chat_completions understands",)
    assert convert(history, CHAT, CHAT, foreign=True).messages == history
    assert convert([{"role": "user", "content": [{"type": "alien"}]}], CHAT, ANTHROPIC).messages == []


def test_a_message_that_is_none_stays_behind() -> None:
    moved = convert([USER, {"role": "alien"}], CHAT, ANTHROPIC)
    assert len(moved.messages) == 1
    assert moved.losses == ("messages[1]: not a message that openai.chat_completions knows",)


def test_an_answer_of_which_nothing_is_left_stays_behind() -> None:
    thought = {"type": "thinking", "thinking": "Hm", "signature": "c2ln"}
    redacted = {"role": "assistant", "content": [thought, {"type": "text", "text": "So."}]}
    moved = convert([USER, {"role": "assistant", "reasoning_content": "Hm", "content": ""}, USER], CHAT, COHERE)
    assert moved.messages == [USER, USER]
    assert convert([USER, redacted], ANTHROPIC, GEMINI).messages[1] == {"role": "model", "parts": [{"text": "So."}]}


def test_that_a_tool_failed_is_said_in_words_where_there_is_no_flag() -> None:
    def result(text: str) -> list[Message]:
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text, "is_error": True}
        use = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        return [USER, {"role": "assistant", "content": [use]}, {"role": "user", "content": [block]}]

    assert convert(result("no such city"), ANTHROPIC, CHAT).messages[2]["content"] == "Error: no such city"
    assert convert(result("error: no"), ANTHROPIC, CHAT).messages[2]["content"] == "error: no"
    there = convert(result("no such city"), ANTHROPIC, BEDROCK).messages
    assert "Error: no such city" in everything(there)


# -- another endpoint of the same wire ---------------------------------------------------------------------------------


def test_what_one_endpoint_signed_does_not_go_to_another() -> None:
    thought = {"role": "assistant", "content": "So.", "reasoning_content": "Hm", "tool_calls": [LOOK]}
    history = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look.", "cache_control": {"type": "ephemeral"}}],
            "name": "b",
        },
        thought,
        {"role": "tool", "tool_call_id": "call_1", "content": "seen"},
        USER,
    ]
    assert convert(history, CHAT, CHAT).messages[2] is thought
    moved = convert(history, CHAT, CHAT, foreign=True)
    assert moved.messages == [
        *history[:2],
        {"role": "assistant", "content": "So.", "tool_calls": [LOOK]},
        *history[3:],
    ]
    assert moved.losses == ("messages[2]: reasoning",)


def test_a_file_of_one_endpoint_is_none_at_another() -> None:
    history = [{"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]}]
    assert convert(history, CHAT, CHAT).messages == history
    moved = convert(history, CHAT, CHAT, foreign=True)
    assert moved.messages == [{"role": "user", "content": "[file]"}]
    assert moved.losses == ("messages[0]: [file], of which there is only a file id",)


# -- there and back ----------------------------------------------------------------------------------------------------


def test_freeform_calls_become_functions_with_one_input_and_stay_texts_among_those_who_know_them() -> None:
    custom = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin"}}
    history = [USER, ASKED | {"tool_calls": [custom]}, {"role": "tool", "tool_call_id": "call_1", "content": "done"}]
    use = convert(history, CHAT, ANTHROPIC).messages[1]["content"][0]
    assert (use["name"], use["input"]) == ("patch", {"input": "*** Begin"})
    there = convert(history, CHAT, RESPONSES)
    assert [item.get("type", "message") for item in there.messages][1:] == [
        "custom_tool_call",
        "custom_tool_call_output",
    ]
    assert convert(there.messages, RESPONSES, CHAT).messages == history


def test_what_is_broken_is_repaired_on_the_way() -> None:
    bad = {"id": "call_1", "type": "function", "function": {"name": "look", "arguments": '{"at'}}
    history = [USER, ASKED | {"tool_calls": [bad]}, USER]
    moved = convert(history, CHAT, ANTHROPIC, bad_arguments="wrap_raw")
    assert moved.messages[1]["content"][0]["input"] == {"INVALID_JSON": '{"at'}
    assert "interrupted" in everything(moved.messages[2])
    assert convert([USER, ASKED], CHAT, ANTHROPIC).messages[-1]["role"] == "assistant", "it may still be running"
    assert "interrupted" in everything(convert([USER, ASKED], CHAT, ANTHROPIC, last=True).messages[-1])


def test_nothing_gives_nothing() -> None:
    assert convert([], CHAT, ANTHROPIC) == Converted(messages=[])


BROKEN = {
    "text that is no base64": Media(kind="file", mime_type="text/plain", data="no base64"),
    "a picture that is no base64": Media(kind="image", mime_type="image/tiff", data="no base64"),
    "a picture that is nowhere": Media(kind="image"),
    "a file that is nowhere": Media(kind="file", mime_type="text/plain"),
    "a file of no type": Media(kind="file", data="JVBE"),
}


@every("case", BROKEN)
@every("wire", [ANTHROPIC, BEDROCK])
def test_media_that_stands_wrong_in_a_history_is_a_placeholder_to_who_looks_at_it(wire: str, case: str) -> None:
    (message,) = find(wire).render_prompt(Prompt(role="user", blocks=(BROKEN[case], Text("Look."))))
    first = message["content"][0]
    assert first.get("text") == BROKEN[case].placeholder()


@every("case", ["a picture that is nowhere", "a file that is nowhere"])
def test_media_that_is_nowhere_is_a_placeholder(case: str) -> None:
    (message,) = find(RESPONSES).render_prompt(Prompt(role="user", blocks=(BROKEN[case], Text("Look."))))
    assert message["content"][0] == {"type": "input_text", "text": BROKEN[case].placeholder()}


def test_bytes_of_no_type_have_the_type_of_any() -> None:
    blocks = (BROKEN["a file of no type"], Text("Look."))
    (message,) = find(RESPONSES).render_prompt(Prompt(role="user", blocks=blocks))
    assert message["content"][0]["file_data"] == "data:application/octet-stream;base64,JVBE"
