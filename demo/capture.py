"""Record what the server sends when the demo asks its question: one file per response, for the demo's replay.

    python -m demo.capture                       # into demo/captures
    python -m demo.capture --question "Hello!" --folder somewhere

Needs this repository, installed with ``pip install -e '.[demo]'``. Ids and dates differ from run to run; what the model
says does not.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from demo import QUESTION, converse
from demo.model import IN_TEXT, WIRES, Ask, Messages, asking, leaves_text
from demo.replay import CAPTURES, capture
from demo.server import MODEL, ModelServer
from demo.show import Show
from demo.terminal import Terminal
from streamtools import Trajectory
from streamtools.stages import DEFAULT


def recording(ask: Ask, folder: Path, wire: str, in_text: bool) -> Ask:
    """Ask, and write down what comes before it is read."""

    async def ask_and_record(messages: Messages) -> AsyncIterator[bytes]:
        number = 1 + sum(message["role"] == "assistant" for message in messages)
        response = await ask(messages)
        return copied(response, folder / capture(wire, number, in_text=in_text).name)

    return ask_and_record


async def copied(response: Any, path: Path) -> AsyncIterator[bytes]:
    with path.open("wb") as file:
        async for chunk in response.aiter_bytes():
            file.write(chunk)
            yield chunk
    await response.aclose()


async def record(question: str, wire: str, folder: Path, *, in_text: bool) -> None:
    # A server of its own for each wire: what it has cached shows in the usage.
    with ModelServer() as server:
        show = Show(sys.stdout, Terminal())
        async with asking(server.url, wire, MODEL.name, in_text=in_text) as ask:
            with show.running():
                asked = recording(ask, folder, wire, in_text)
                stages = IN_TEXT if in_text else DEFAULT
                trajectory = Trajectory(observers=[])
                await converse(question, asked, show, wire=wire, trajectory=trajectory, stages=stages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--question", default=QUESTION)
    parser.add_argument("--folder", type=Path, default=CAPTURES)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for wire in WIRES:
        for in_text in {False, leaves_text(wire)}:
            asyncio.run(record(options.question, wire, options.folder, in_text=in_text))


if __name__ == "__main__":
    main()
