"""What tests that kill processes ask about them."""

from __future__ import annotations

from pathlib import Path

import anyio

PATIENCE_S = 60  # for a process to end on a busy machine


def is_gone(pid: int) -> bool:
    """Whether there is no such process, or only what is left of it until its parent asks."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return True


async def wait_until_gone(pid: int) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not is_gone(pid):  # noqa: ASYNC110 - nobody tells of another's child
            await anyio.sleep(0.01)
