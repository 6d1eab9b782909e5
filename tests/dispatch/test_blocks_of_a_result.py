"""A tool that says apart what the model reads and what the program gets."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every
from streams import chat, stream

from streamtools import Limits, Observation, pipeline, tool
from streamtools.content import Media, Text, ToolResult

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns

PIXEL = "iVBORw0KGgo="


async def observed(returned: Any, **options: Any) -> Observation:
    @tool(effect="pure")
    async def draw(n: int) -> ToolResult:
        """Draw something."""
        result: ToolResult = returned
        return result

    calls = [("c1", "draw", '{"n": 1}')]
    turn = await pipeline(stream(chat(calls=calls)), tools=[draw], **options)
    (observation,) = turn.observations
    return observation


async def test_the_model_reads_the_blocks_and_the_program_gets_the_value() -> None:
    image = Media(kind="image", mime_type="image/png", data=PIXEL)
    seen = await observed(ToolResult(blocks=("a plan", image), value={"rooms": 3}))
    assert (seen.outcome, seen.value) == ("ok", {"rooms": 3})
    assert seen.model_content == "a plan\n[image: image/png]"
    assert seen.result.blocks == (Text("a plan"), image)


async def test_without_a_value_the_program_gets_the_whole_result() -> None:
    seen = await observed(ToolResult(blocks=("a plan",), display="<b>a plan</b>"))
    assert isinstance(seen.value, ToolResult)
    assert seen.value.display == "<b>a plan</b>"
    assert "<b>" not in seen.model_content


async def test_a_result_that_is_an_error_fails_the_call_in_its_own_words() -> None:
    seen = await observed(ToolResult(blocks=("no such room",), value=1, is_error=True))
    assert (seen.outcome, seen.value, seen.model_content) == ("failed", None, "Error: no such room")
    assert str(seen.error) == "the tool draw reported an error"


@every(
    ("blocks", "content"),
    [
        (("Error: no such room",), "Error: no such room"),
        ((), "Error: the tool failed."),
        ((Media(kind="image", url="https://example.org/a.png"),), "Error: the tool failed.\n[image]"),
    ],
)
async def test_an_error_begins_like_every_other_failure(blocks: Any, content: str) -> None:
    seen = await observed(ToolResult(blocks=blocks, is_error=True))
    assert seen.model_content == content
    assert isinstance(seen.result.blocks[0], Text)


async def test_text_beyond_the_limit_is_cut_and_says_so() -> None:
    seen = await observed(ToolResult(blocks=("abcdef", "ghi")), limits=Limits(max_result_bytes=4))
    assert seen.model_content == "abcd\n[cut: the first 4 of 9 bytes]"


async def test_an_image_beyond_the_limit_is_left_out_whole() -> None:
    images = tuple(Media(kind="image", mime_type="image/png", data=PIXEL) for _ in range(2))
    seen = await observed(ToolResult(blocks=images), limits=Limits(max_result_media_bytes=len(PIXEL)))
    kept, left_out = seen.result.blocks
    assert kept == images[0]
    assert left_out == Text("[image: image/png] [left out: larger than max_result_media_bytes]")


async def test_a_native_content_goes_to_its_own_wire_and_to_no_other() -> None:
    @tool(effect="pure")
    async def draw(n: int) -> ToolResult:
        """Draw something."""
        native = [{"type": "text", "text": "a plan, as chat has it"}]
        return ToolResult(blocks=("a plan",), native={"openai.chat_completions": native})

    turn = await pipeline(stream(chat(calls=[("c1", "draw", '{"n": 1}')])), tools=[draw])
    own = turn.messages()[-1]
    assert own["content"] == [{"type": "text", "text": "a plan, as chat has it"}]
    other = turn.messages("anthropic.messages")[-1]["content"][0]
    assert "as chat has it" not in str(other)


def test_a_block_that_is_none_is_refused_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="expected Text, Media or str, got int"):
        ToolResult(blocks=(1,))  # type: ignore[arg-type]


@every(
    ("media", "problem"),
    [
        (
            Media(kind="picture", url="https://example.org/a.png"),
            "expected kind to be one of image, audio, video, file",
        ),  # type: ignore[arg-type]
        (Media(kind="image", mime_type="image/png", data=b"\x89PNG"), "data: expected text, got bytes; write base64"),  # type: ignore[arg-type]
        (Media(kind="file", file_id=3), "file_id: expected text, got int"),  # type: ignore[arg-type]
    ],
)
def test_bytes_and_unknown_kinds_are_refused_where_they_are_written(media: Media, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        ToolResult(blocks=[media])
    assert ToolResult(blocks=[Media(kind="image", url="https://example.org/a.png")]).blocks
