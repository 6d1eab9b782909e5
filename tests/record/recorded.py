"""What the tests of recordings share: runs that are recorded, and events that are compared."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from streams import stream

from streamtools import Event, Trajectory, agent_loop
from streamtools.errors import StreamToolsError
from streamtools.observers import Observer
from streamtools.privacy import Privacy
from streamtools.record import RecordedError


def answers(*bodies: Sequence[bytes]) -> Callable[[Any, Any], Any]:
    """Makes the request of a loop, which these bodies answer, one after the other."""
    left = iter(bodies)

    async def ask(messages: Any, tools: Any) -> AsyncIterator[bytes]:
        return stream(next(left))

    return ask


async def run_loop(
    *bodies: Sequence[bytes],
    tools: Any = (),
    observers: Iterable[Observer] = (),
    wire: str,
    privacy: Privacy | None = None,
    **options: Any,
) -> list[Event]:
    """Runs a loop, and returns its events."""
    run = Trajectory(name="guide", conversation_id="talk", observers=observers, privacy=privacy)
    async with agent_loop(answers(*bodies), [], tools=tools, wire=wire, trajectory=run, **options) as loop:
        return [event async for event in loop]


def told(value: Any, *, times: bool = True) -> Any:
    """A value in a form that can be compared: errors are equal only to themselves."""
    if is_dataclass(value) and not isinstance(value, type):
        named = [one.name for one in fields(value) if one.compare]
        kept = [name for name in named if times or name not in ("time", "requested_at", "began", "ended")]
        return type(value).__name__, {name: told(getattr(value, name), times=times) for name in kept}
    if isinstance(value, RecordedError):
        return value.type.rpartition(".")[2], str(value)
    if isinstance(value, StreamToolsError):
        return type(value).__name__, str(value), told(vars(value)), told(value.__cause__)
    if isinstance(value, BaseException):
        return type(value).__name__, str(value)
    if isinstance(value, dict):
        return {key: told(one, times=times) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [told(one, times=times) for one in value]
    return value


def same(found: Iterable[Event], wanted: Iterable[Event], *, times: bool = True) -> None:
    """Compares events one by one, so that the first difference is shown."""
    found, wanted = list(found), list(wanted)
    for one, other in zip(found, wanted, strict=False):
        assert told(one, times=times) == told(other, times=times)
    assert len(found) == len(wanted)


def lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def files(directory: Path) -> list[Path]:
    return sorted(directory.iterdir())
