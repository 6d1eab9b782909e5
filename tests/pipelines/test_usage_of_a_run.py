"""Token counts over a run, and the hint where a provider counts on request alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from profiles import every, mostly_thorough
from streams import chat, chat_chunk, sse, stream

from streamtools import Usage, agent_loop, tool

CHAT = "openai.chat_completions"


@tool(effect="pure")
async def look(at: int) -> int:
    """Look."""
    return at


def counted(body: list[bytes], **counts: Any) -> list[bytes]:
    """The body with a usage object before its end."""
    return [*body[:-1], *sse([{**chat_chunk({}), "choices": [], "usage": counts}]), body[-1]]


def model(*bodies: list[bytes]) -> Any:
    left = list(bodies)

    async def ask(*_: Any) -> AsyncIterator[bytes]:
        return stream(left.pop(0))

    return ask


CALL = chat(calls=[("c1", "look", '{"at": 1}')])
ANSWER = chat(["Seen."], finish="stop")


@pytest.mark.anyio
async def test_the_counts_of_all_steps_are_summed_field_by_field() -> None:
    bodies = (
        counted(CALL, prompt_tokens=10, completion_tokens=4, prompt_tokens_details={"cached_tokens": 0}),
        counted(ANSWER, prompt_tokens=20, completion_tokens=3, prompt_tokens_details={"cached_tokens": 16}),
    )
    run = agent_loop(model(*bodies), [], tools=[look], wire=CHAT)
    assert run.usage == Usage()
    async with run:
        seen = [run.usage async for _ in run]
    assert run.usage == Usage(input_tokens=30, output_tokens=7, cached_input_tokens=16)
    assert Usage(input_tokens=10, output_tokens=4, cached_input_tokens=0) in seen


# -- the hint -------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from streams import anthropic, chat, stream
from streamtools import pipeline
import anyio

def of(model, body):
    return [item.replace(b'"model":"m"', b'"model":"' + model + b'"') for item in body]

async def main():
    for body in (CASES):
        await pipeline(stream(body))

anyio.run(main)
"""


@every(
    ("bodies", "told"),
    mostly_thorough(
        [
            ("of(b'gpt-5-mini', chat(['Hi'], finish='stop')), of(b'o3', chat(['Hi'], finish='stop'))", 1),
            ("chat(['Hi'], finish='stop'), anthropic(['Hi'])", 0),
        ],
        1,
    ),
)
def test_a_response_of_openai_without_counts_is_logged_once_a_process_with_what_to_request(
    bodies: str, told: int
) -> None:
    tests = str(Path(__file__).resolve().parent.parent)
    program = f"import sys; sys.path.insert(0, {tests!r})\n" + PROGRAM.replace("CASES", bodies)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    said = 'openai.chat_completions: the response has no usage; request it with stream_options={"include_usage": True}'
    assert (done.stderr.splitlines(), done.returncode) == ([said] * told, 0)
