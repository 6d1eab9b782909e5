"""What a tool returns beside text, in the messages of a turn: Chat Completions, Mistral, Cohere, Ollama."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from every_wire import CHAT, COHERE, MISTRAL, OLLAMA
from profiles import every
from sdk_types import check_types
from streams import chat

from streamtools import Observation, Turn, parse
from streamtools.content import Media, Opaque, Text, ToolResult
from streamtools.errors import ToolFailed
from streamtools.history import convert, lint

PNG, PDF = "iVBORw0KGgo=", "JVBERi0="
IMAGE = Media(kind="image", mime_type="image/png", data=PNG)
ELSEWHERE = Media(kind="image", mime_type="image/png", url="https://example.org/a.png")
FILE = Media(kind="file", mime_type="application/pdf", data=PDF, filename="a.pdf")
FILM = Media(kind="video", mime_type="video/mp4", data="AAAA")


def turn_with(*results: ToolResult, content: str = "a map\n[image: image/png]") -> Turn:
    """A turn with a call for each of these results."""
    ids = [f"call_{number}" for number in range(len(results))]
    turn = parse(chat(calls=[(id_, "look", "{}") for id_ in ids]))
    observed = [
        Observation(
            call_id=id_,
            tool_name="look",
            outcome="failed" if result.is_error else "ok",
            model_content=content,
            error=ToolFailed("it failed") if result.is_error else None,
            result=result,
        )
        for id_, result in zip(ids, results, strict=True)
    ]
    return replace(turn, observations=tuple(observed))


def contents(messages: list[dict[str, Any]], role: str) -> list[Any]:
    return [message["content"] for message in messages if message["role"] == role]


def test_chat_gets_images_in_one_users_message_behind_all_results() -> None:
    messages = turn_with(ToolResult(blocks=("a map", IMAGE)), ToolResult(blocks=(ELSEWHERE,))).messages(CHAT)
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user"]
    assert contents(messages, "tool")[0] == "a map\n[image: image/png]"
    assert messages[3]["content"] == [
        {"type": "text", "text": "From the result of call call_0:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "text", "text": "From the result of call call_1:"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
    ]
    check_types(CHAT, messages)
    assert lint(messages, CHAT) == []


def test_chat_gets_files_and_sounds_and_no_films() -> None:
    sound = Media(kind="audio", mime_type="audio/mpeg", data="SUQz")
    nameless = Media(kind="file", mime_type="application/pdf", data=PDF)
    blocks = (
        FILE,
        sound,
        FILM,
        nameless,
        Media(kind="file", url="https://example.org/b"),
        Media(kind="audio", url="x"),
    )
    messages = turn_with(ToolResult(blocks=blocks)).messages(CHAT)
    assert messages[2]["content"][1:] == [
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
        {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}},
        {"type": "file", "file": {"filename": "file.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    ]
    check_types(CHAT, messages)


def test_what_only_a_placeholder_can_stand_for_brings_no_message() -> None:
    blocks = (FILM, Media(kind="image", file_id="file-1"), Opaque({"type": "alien"}))
    messages = turn_with(ToolResult(blocks=blocks)).messages(CHAT)
    assert [message["role"] for message in messages] == ["assistant", "tool"]


def test_mistral_gets_them_behind_a_word_of_the_models() -> None:
    """It refuses a user's message right behind a result."""
    messages = turn_with(ToolResult(blocks=("a map", IMAGE, FILE))).messages(MISTRAL)
    assert [message["role"] for message in messages] == ["assistant", "tool", "assistant", "user"]
    assert messages[2]["content"] == "."
    assert messages[3]["content"][1:] == [
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "document_url", "document_url": f"data:application/pdf;base64,{PDF}", "document_name": "a.pdf"},
    ]
    assert messages[3]["content"][0]["text"] == f"From the result of call {messages[1]['tool_call_id']}:"
    assert lint(messages, MISTRAL) == []


def test_mistral_gets_sounds_as_bytes() -> None:
    blocks = (Media(kind="audio", mime_type="audio/wav", data="UklGRg=="), Media(kind="audio", url="x"))
    messages = turn_with(ToolResult(blocks=blocks)).messages(MISTRAL)
    assert messages[3]["content"][1:] == [{"type": "input_audio", "input_audio": "UklGRg=="}]


def test_cohere_gets_text_alone() -> None:
    messages = turn_with(ToolResult(blocks=("a map", IMAGE))).messages(COHERE)
    assert [message["role"] for message in messages] == ["assistant", "tool"]
    assert messages[1]["content"] == "a map\n[image: image/png]"


def test_ollama_gets_images_beside_the_text() -> None:
    messages = turn_with(ToolResult(blocks=("a map", IMAGE, ELSEWHERE, FILE))).messages(OLLAMA)
    assert messages[1] == {
        "role": "tool",
        "tool_name": "look",
        "tool_call_id": "call_0",
        "content": "a map\n[image: image/png]\n[file: application/pdf, a.pdf]",  # no word of what stands beside it
        "images": [PNG],
    }


def test_an_image_that_goes_to_ollama_and_back_leaves_no_words_behind() -> None:
    history = turn_with(ToolResult(blocks=("a map", IMAGE))).messages("anthropic.messages")
    once = convert(history, "anthropic.messages", OLLAMA).messages
    back = convert(once, OLLAMA, "anthropic.messages").messages
    again = convert(back, "anthropic.messages", OLLAMA).messages
    assert again[-2:] == once[-2:]
    assert once[-1]["content"] == "a map"


NATIVE_CONTENT = [{"type": "text", "text": "as I want it", "x": 1}]


@every("wire", [CHAT, MISTRAL, COHERE, OLLAMA])
def test_native_content_goes_to_its_wire_as_it_is(wire: str) -> None:
    result = ToolResult(blocks=("a map", IMAGE), native={wire: NATIVE_CONTENT})
    messages = turn_with(result).messages(wire)
    assert [message["role"] for message in messages] == ["assistant", "tool"]
    assert messages[1]["content"] == NATIVE_CONTENT
    assert "images" not in messages[1]


@every("wire", [CHAT, MISTRAL, COHERE, OLLAMA])
def test_native_content_of_another_wire_does_not_go(wire: str) -> None:
    result = ToolResult(native={"anthropic.messages": NATIVE_CONTENT})
    assert turn_with(result, content="[content]").messages(wire)[1]["content"] == "[content]"


@every("wire", [CHAT, MISTRAL, COHERE, OLLAMA])
def test_text_blocks_are_one_text(wire: str) -> None:
    messages = turn_with(ToolResult(blocks=(Text("a"), Text("b"))), content="a\nb").messages(wire)
    assert messages[1]["content"] == "a\nb"
    assert len(messages) == 2


@every("wire", [CHAT, MISTRAL, COHERE, OLLAMA])
def test_a_failure_says_so_in_its_text(wire: str) -> None:
    messages = turn_with(ToolResult(blocks=("no such city",), is_error=True), content="Error: no such city").messages(
        wire
    )
    assert messages[1]["content"] == "Error: no such city"
