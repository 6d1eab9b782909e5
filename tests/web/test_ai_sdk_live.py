"""A page of the real AI SDK speaks to conversations on a real server, and finds what it has when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from node_judge import judged
from served import serving
from test_chat_app import Program

VERSIONS: tuple[Literal[6, 7], ...] = (7, 6)


@pytest.mark.deadline(120)
def test_a_page_of_use_chat_decides_is_loaded_anew_and_has_everything_once(tmp_path: Path) -> None:
    for version in VERSIONS:
        folder = tmp_path / str(version)
        folder.mkdir()
        found = anyio.run(_visit, folder, version)
        assert found["errors"] == [], version
        for case in ("decided", "reloaded"):
            assert found[case]["live"] == found[case]["loaded"], (version, case)
        assert found["regenerated"] == found["loaded"], version
        assert [message["id"] for message in found["loaded"]][1::2] == ["k/1", "k/2", "k/4"], version


async def _visit(folder: Path, version: Literal[6, 7]) -> Any:
    program = Program(folder / "chats.db")
    chats = program.chats.app(may=lambda request: "ann", ai_version=version)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/release":
            program.held.set()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await chats(scope, receive, send)

    async with serving(app) as port:
        lines = [{"url": f"http://127.0.0.1:{port}", "version": version}]
        (found,) = await anyio.to_thread.run_sync(judged, "live_chat.mjs", lines, folder)
    return found
