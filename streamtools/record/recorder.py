"""Records a run into a file as it happens: the bytes as they were read, and every event.

    {"recording": 1, "run_id": ..., "began": ..., ...}   a run begins, or continues with its next step
    {"stream": {...}}                                    a response begins: how it is decoded
    {"chunk": "data: ...", "at": 12.3}                   a piece of its body
    {"event": "TextDelta", "seq": 4, ...}                an event
    {"source_end": null, "at": 12.9}                     the body is over; or the error that ended it
    {"run_end": "answered"}                              the run is over
    {"cut": "max_recording_bytes"}                       the recording is full, and the run goes on

A line is written completely or not at all, unless the disk is full; then the next step begins on a new line. A failure
drops the recorder for the rest of the step, and the run goes on. A forked child leaves an open file to its parent.
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import time
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec

import orjson

from .._version import __version__
from ..durable.codec import written_event, written_value
from ..durable.files import open_private
from ..errors import StreamError
from ..events import AnswerRequested, ApprovalRequested, Event, Observation, StepEnd, StepStart, StreamEnd, ToolStarted
from ..ground import type_name
from ..limits import Limits
from ..observers import Observer, PrivacyFacts, RunFacts, StreamFacts, Withheld

try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]


P = ParamSpec("P")

VERSION = 1
_NAMED = re.compile(r"[^A-Za-z0-9_-]")
_FLUSHED = frozenset({StepStart, ToolStarted, ApprovalRequested, AnswerRequested, Observation, StreamEnd, StepEnd})
_BUFFER = 64 << 10

_logger = logging.getLogger("streamtools")


def record(path: str | os.PathLike[str], *, limits: Limits = Limits()) -> Recorder:
    """Returns an observer that records a run into a file, so that it can be replayed, viewed and tested.

        async with agent_loop(ask, messages, tools=tools, wire=wire, trajectory=Trajectory(observers=[record("runs")])):
            ...

    Give each run a recorder of its own, through `Trajectory` or `pipeline`. A run that goes on with `resume`, in this
    process or another, is recorded into the same file if that has the same path.

    Args:
        path: the file, created or appended to, with access for its owner only. A directory, or a path that ends in a
            slash, gets a file for each run, ``<run_id>.jsonl``; in the id, characters other than letters, digits, ``_``
            and ``-`` become ``_``, and a digest follows. Runs at the same time need separate files.
        limits: writes at most ``max_recording_bytes``.
    """
    is_directory = os.fspath(path).endswith(("/", os.sep))
    return Recorder(Path(path), limits, is_directory=is_directory)


def _ends(method: Callable[Concatenate[Recorder, P], None]) -> Callable[Concatenate[Recorder, P], None]:
    """Closes the file when the method fails: a recorder that has failed is dropped, and not called again."""

    @wraps(method)
    def guarded(recorder: Recorder, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(recorder, *args, **kwargs)
        except BaseException:
            recorder.close()
            raise

    return guarded


class Recorder(Observer):
    """Records one run; made by `record`."""

    def __init__(self, path: Path, limits: Limits, *, is_directory: bool) -> None:
        self._is_directory = is_directory
        self.path = path
        """The file; once the run has begun, also where a directory was given."""
        self.cut = False
        """True once ``Limits(max_recording_bytes=...)`` was reached: the recording ends there."""
        self._is_redacted = False
        self._most = limits.max_recording_bytes
        self._run_id: str | None = None
        self._facts: dict[str, str | None] = {}
        self._file: BinaryIO | None = None
        self._is_parents = False  # the file is a parent process', which goes on with it
        self._size = 0

    # -- as an observer --

    @_ends
    def on_event(self, event: Event) -> None:
        """Records an event."""
        kind = type(event)
        if kind is StepStart:
            self._begin(event.run_id)  # type: ignore[union-attr]  # it is a StepStart
        self._write(written_event(event))
        # Deltas wait in the buffer. A call that has started is on the disk before it can have an effect.
        if kind in _FLUSHED and self._file is not None:
            self._file.flush()
        if kind is StepEnd:
            self.close()

    def obey(self, privacy: PrivacyFacts, /) -> None:
        """Notes that the events are redacted, and lack their bodies."""
        self._is_redacted = getattr(privacy, "redact", privacy) is not None  # a guard of the user's has none

    def give_up(self) -> None:
        """Closes the file, since the policy's function has failed."""
        self.close()

    @_ends
    def begin_run(self, run: RunFacts, /) -> None:
        """Records the facts about the run."""
        # Closed again: a step may begin much later, or in another process, which adds to the same file.
        self._facts = {"name": run.name, "conversation_id": run.conversation_id}
        self._begin(run.run_id)
        self.close()

    @_ends
    def end_run(self, outcome: str | None, error: BaseException | None, /) -> None:
        """Records the end of the run."""
        if self._run_id is None:
            return
        self._open()
        self._write({"run_end": outcome, "error": None if error is None else type_name(error), "at": time.monotonic()})
        self.close()

    @_ends
    def begin_stream(self, stream: StreamFacts, /) -> None:
        """Records the way in which a response is decoded."""
        facts = {"wire": stream.wire, "id_salt": stream.id_salt, "tools": stream.tools, "is_plain": stream.is_plain}
        self._write({"stream": facts})

    @_ends
    def on_item(self, item: bytes | str | Mapping[str, Any] | Withheld, /) -> None:
        """Records a piece of a response body."""
        self._write({**self._chunk(item), "at": time.monotonic()})

    @_ends
    def end_stream(self, error: StreamError | None, /) -> None:
        """Records the end of a response's body."""
        self._write({"source_end": None if error is None else written_value(error), "at": time.monotonic()})

    # -- lines --

    def _chunk(self, item: bytes | str | Mapping[str, Any] | Withheld) -> dict[str, Any]:
        # A secret may be cut by any chunk, and escaped in any way: of a body that is redacted only sizes and times are
        # kept.
        if isinstance(item, Withheld):
            return {"chunk": None, "size": item.size}
        if isinstance(item, Mapping):
            return {"payload": written_value(item)}
        if isinstance(item, str):
            return {"chunk": item}
        try:
            return {"chunk": item.decode()}
        except UnicodeDecodeError:  # cut inside a character, or not text at all
            return {"bytes": base64.b64encode(item).decode()}

    def _begin(self, run_id: str) -> None:
        if self._run_id not in (None, run_id):
            raise ValueError("a recorder records one run; give each run a recorder of its own")
        self._run_id = run_id
        if self._is_directory:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._is_directory = False  # the path is that of the file from now on
        if self.path.is_dir():
            self.path = self.path / f"{_file_name(run_id)}.jsonl"
        self._open()

    def _open(self) -> None:
        if self._file is not None or self.cut or self._is_parents:
            return
        # Private, because it has all that the model and the tools said. Locked, because the lines of a step belong
        # together: while another run is being recorded into it, this raises a BlockingIOError.
        number = open_private(self.path, os.O_RDWR | os.O_APPEND)
        self._file = os.fdopen(number, "a+b", buffering=_BUFFER)
        _with_file.add(self)
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._size = self._file.seek(0, os.SEEK_END)
        # A full disk, or the end of a process, may have torn the last line: the next one must not be joined to it.
        if self._size:
            self._file.seek(self._size - 1)
            if self._file.read(1) != b"\n":
                self._size += self._file.write(b"\n")
        self._write(
            {
                "recording": VERSION,
                "run_id": self._run_id,
                **self._facts,
                "began": datetime.now(UTC).isoformat(),
                "at": time.monotonic(),
                "redacted": self._is_redacted,
                "by": f"streamtools {__version__}",
            }
        )

    def close(self) -> None:
        """Closes the file, as the end of each step does. The next step opens it again."""
        file, self._file = self._file, None
        if file is None:
            return
        try:
            file.flush()
            if fcntl is not None:  # a child that was forked a moment ago may still have its copy, with the lock
                fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            file.close()  # raises where the disk is full, and closes the file even so

    def leave_to_parent(self) -> None:
        """Closes a forked child's copy of an open file, and leaves its buffer and the rest of the run to the parent."""
        if self._file is not None:
            # The copy would keep the parent's lock, and its buffer would be written a second time at the child's end.
            self._file.raw.close()  # type: ignore[attr-defined]  # it is buffered
            self._file, self._is_parents = None, True

    def _write(self, written: Mapping[str, Any]) -> None:
        if self._file is None:
            return
        line = _line(written)
        if self._size + len(line) > self._most:
            self.cut = True
            self._file.write(_line({"cut": "max_recording_bytes"}))
            self.close()
            _logger.warning("the recording is full and ends here: Limits(max_recording_bytes=%d)", self._most)
            return
        self._size += len(line)
        self._file.write(line)


_with_file: weakref.WeakSet[Recorder] = weakref.WeakSet()  # the recorders that have had their file open


def _leave_to_parent() -> None:
    for recorder in list(_with_file):
        recorder.leave_to_parent()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(after_in_child=_leave_to_parent)


def _file_name(run_id: str) -> str:
    # `tenant:1` and `tenant/1` have the same plain name, and must not share a file: it would mix two tenants' runs.
    # Percent-encoding was considered; it triples the length of ids in other scripts.
    plain = _NAMED.sub("_", run_id)
    if plain == run_id:
        return plain
    digest = hashlib.sha256(run_id.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain}-{digest[:16]}"


def _line(written: Any) -> bytes:
    try:
        return orjson.dumps(written, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an integer of more than 64 bits, or half a surrogate pair
        return json.dumps(written).encode() + b"\n"
