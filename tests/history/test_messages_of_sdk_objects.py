"""Histories as programs hold them: dicts, objects of an SDK, and dicts with such objects in them."""

from __future__ import annotations

from typing import Any, Literal

from anthropic.types import TextBlock, ThinkingBlock, ToolUseBlock
from every_wire import ANTHROPIC, BEDROCK, CHAT, GEMINI, MISTRAL
from google.genai import types as genai
from openai.types.chat.chat_completion_message_function_tool_call import ChatCompletionMessageFunctionToolCall, Function
from profiles import every
from pydantic import BaseModel

from streamtools.history import convert, lint, repair

USER = {"role": "user", "content": "Look."}

# Its API takes the list of blocks that a response holds, as it is: {"role": "assistant", "content": response.content}.
CLAUDE_SAID = {
    "role": "assistant",
    "content": [
        ThinkingBlock(type="thinking", thinking="Hm.", signature="c2ln"),
        TextBlock(type="text", text="Let me look."),
        ToolUseBlock(type="tool_use", id="toolu_1", name="look", input={"at": None}),
    ],
}
CLAUDE_SEEN = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "seen"}]}
CHAT_CALL = ChatCompletionMessageFunctionToolCall(
    id="c1", type="function", function=Function(name="look", arguments="{}")
)

HELD: dict[str, tuple[str, list[Any]]] = {
    "Anthropic's blocks in a dict": (ANTHROPIC, [USER, CLAUDE_SAID, CLAUDE_SEEN]),
    "OpenAI's calls in a dict": (
        CHAT,
        [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        ],
    ),
    "Gemini's parts in a dict": (
        GEMINI,
        [
            {"role": "user", "parts": [genai.Part(text="Look.")]},
            {"role": "model", "parts": [genai.Part(function_call=genai.FunctionCall(name="look", args={}))]},
            {
                "role": "user",
                "parts": [genai.Part(function_response=genai.FunctionResponse(name="look", response={"output": 1}))],
            },
        ],
    ),
    "content in a tuple": (CHAT, [{"role": "user", "content": ({"type": "text", "text": "Look."},)}]),
}


@every("case", HELD)
def test_what_an_sdk_takes_is_read_and_left_as_it_is(case: str) -> None:
    wire, messages = HELD[case]
    assert lint(messages, wire) == []
    assert repair(messages, wire) is messages


def test_a_repair_beside_blocks_of_an_sdk_keeps_all_that_they_say() -> None:
    asked = {"role": "user", "content": [{"type": "text", "text": "And?"}]}
    repaired = repair([USER, CLAUDE_SAID, asked, CLAUDE_SEEN], ANTHROPIC)
    assert repaired[1] is CLAUDE_SAID
    assert repaired[2:] == [CLAUDE_SEEN, asked]


def test_a_message_that_is_written_anew_holds_plain_values() -> None:
    call = ToolUseBlock(type="tool_use", id="not valid", name="look", input={"at": None})
    _, said, _ = repair([USER, {"role": "assistant", "content": [call]}], ANTHROPIC, last=True)
    (block,) = said["content"]
    assert type(block) is dict
    assert (block["type"], block["input"]) == ("tool_use", {"at": None})


def test_a_history_of_sdk_objects_is_moved_to_another_provider() -> None:
    moved = convert([USER, CLAUDE_SAID, CLAUDE_SEEN], ANTHROPIC, CHAT)
    assert [message["role"] for message in moved.messages] == ["user", "assistant", "tool"]
    assert moved.messages[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"at":null}'}
    assert moved.losses == ("messages[1]: reasoning",)


class Chunk(BaseModel):
    type: Literal["text"] = "text"
    text: str


class Asked(BaseModel):
    """As some SDKs have it: who speaks is the default of a field, which nobody sets."""

    role: Literal["user"] = "user"
    content: list[Chunk]
    name: str | None = None


def test_who_speaks_may_be_the_default_of_a_field() -> None:
    messages = [Asked(content=[Chunk(text="Look.")])]
    assert lint(messages, MISTRAL) == []
    assert convert(messages, MISTRAL, CHAT).messages == [{"role": "user", "content": "Look."}]


def test_what_stands_deeper_than_any_message_goes_is_not_looked_at() -> None:
    arguments: Any = object()
    for _ in range(5000):
        arguments = [arguments]
    messages = [USER, {"role": "assistant", "content": "x", "extra": arguments}]
    assert repair(messages, CHAT) is messages


def test_bytes_as_geminis_sdk_writes_them_are_taken_elsewhere() -> None:
    """It has the Base64 for URLs, which nobody else takes."""
    picture = genai.Content(
        role="user", parts=[genai.Part.from_bytes(data=b"\xfb\xff\xfe\x3e\x3f\xff", mime_type="image/png")]
    )
    (claudes,) = convert([picture], GEMINI, ANTHROPIC).messages
    assert claudes["content"][0]["source"]["data"] == "+//+Pj//"
    (bedrocks,) = convert([picture], GEMINI, BEDROCK).messages
    assert bedrocks["content"][0]["image"]["source"] == {"bytes": b"\xfb\xff\xfe\x3e\x3f\xff"}
