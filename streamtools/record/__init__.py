"""Records runs into files, and replays them: for a bug report, a test, a demonstration, a look at what happened.

async with pipeline(stream, tools=[get_weather], observers=[record("run.jsonl")]) as events: ...

async with replay("run.jsonl") as run:            the same events, with the recorded results
    async for event in run: ...

Recording.read("run.jsonl").turns                 without an event loop

Trajectory(observers=[append_only()])             a warning where a request changes earlier messages
"""

from __future__ import annotations

from ..durable.codec import RecordedError, RecordedObject
from .append_only import append_only
from .recorder import Recorder, record
from .recording import Chunk, Recording, RecordingError, SourceEnd
from .replaying import Difference, Replay, recorded_responses, replay

__all__ = [
    "Chunk", "Difference", "RecordedError", "RecordedObject", "Recorder", "Recording", "RecordingError", "Replay",
    "SourceEnd", "append_only", "record", "recorded_responses", "replay",
]  # fmt: skip
