"""Records a run into a file as it happens: the bytes as they were read, and every event, without its secrets.

In: what an observer sees. Out: lines of JSON, which `streamtools.record.Recording` reads.

    {"recording": 1, "run_id": ..., "began": ..., ...}   a run begins, or goes on with its next step
    {"stream": {...}}                                    a response begins: how it is decoded
    {"chunk": "data: ...", "at": 12.3}                   a piece of its body, as it was read
    {"event": "TextDelta", "seq": 4, ...}                an event
    {"source_end": null, "at": 12.9}                     the body is over; or the error that ended it
    {"run_end": "answered"}                              the run is over
    {"cut": "max_recording_bytes"}                       the recording is full, and the run goes on

Nothing is written before it is redacted. A line is written whole or not at all, unless the disk is full; then the next
step begins on a line of its own. The file is open while a step goes on, and no longer. A failure drops the recorder for
the rest of its step, and the run goes on. A forked child leaves an open file to its parent.
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
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, BinaryIO, Concatenate, ParamSpec, TypeAlias

import orjson

from .._version import __version__
from ..errors import StreamError
from ..events import ApprovalRequested, Event, Observation, StepEnd, StepStart, StreamEnd, ToolStarted
from ..files import open_private
from ..limits import Limits
from ..observers import RunFacts, StreamFacts
from ..text import class_name, type_name
from .codec import MARK, VALUES, written_event, written_value

__all__ = ["Recorder", "Redact", "Redaction", "VERSION", "record"]


try:
    import fcntl
except ImportError:  # no such locks on Windows
    fcntl = None  # type: ignore[assignment]


P = ParamSpec("P")

VERSION = 1
_NAMED = re.compile(r"[^A-Za-z0-9_-]")
_FLUSHED = frozenset({StepStart, ToolStarted, ApprovalRequested, Observation, StreamEnd, StepEnd})
"""Events after which the file has all that happened so far, whatever happens to the program."""
_BUFFER = 64 << 10

_logger = logging.getLogger("streamtools")


def record(path: str | os.PathLike[str], *, redact: Redact | None = None, limits: Limits = Limits()) -> Recorder:
    """Returns an observer that records a run into a file, so that it can be replayed, viewed and tested.

        async with agent_loop(ask, messages, tools=tools, wire=wire, trajectory=Trajectory(observers=[record("runs")])):
            ...

    Give each run a recorder of its own, through `Trajectory` or `pipeline`. A run that goes on with `resume`, in this
    process or another, is recorded into the same file if that has the same path.

    Args:
        path: the file, which is its owner's alone, made or added to; or a directory, which gets a file for each run,
            ``<run_id>.jsonl``: one that exists, or a path with a slash at its end, which is made. In an id, characters
            other than letters, digits, ``_`` and ``-`` become ``_``, and a digest follows. Runs that go on at the same
            time need files of their own.
        redact: sees each whole text before it is written (texts and keys in arguments, results and payloads, reasoning,
            messages of errors), and returns it as it may be kept. Then deltas are masked, and the body is recorded by
            its sizes and times alone. Ids, names of tools and models, and counts are kept.
        limits: at most ``max_recording_bytes`` are written.

    Raises:
        TypeError: `redact` is not a function.
    """
    if redact is not None and not callable(redact):
        raise TypeError(f"redact: expected a function from text to text, got {type(redact).__name__}")
    is_directory = os.fspath(path).endswith(("/", os.sep))
    return Recorder(Path(path), redact, limits, is_directory=is_directory)


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


class Recorder:
    """Records one run; made by `record`."""

    def __init__(self, path: Path, redact: Redact | None, limits: Limits, *, is_directory: bool) -> None:
        self._is_directory = is_directory
        self.path = path
        """The file; once the run has begun, also where a directory was given."""
        self.cut = False
        """True once ``Limits(max_recording_bytes=...)`` was reached: the recording ends there."""
        self._is_redacted = redact is not None
        self._redaction = None if redact is None else Redaction(redact)
        self._most = limits.max_recording_bytes
        self._run_id: str | None = None
        self._facts: dict[str, str | None] = {}
        self._file: BinaryIO | None = None
        self._is_parents = False  # the file is a parent process', which goes on with it
        self._size = 0

    # -- as an observer --

    @property
    def event_types(self) -> Collection[type[Event]] | None:
        """All events."""
        return None

    @_ends
    def on_event(self, event: Event) -> None:
        """Records an event."""
        kind = type(event)
        if kind is StepStart:
            self._begin(event.run_id)  # type: ignore[attr-defined]  # it is a StepStart
        written = written_event(event)
        self._write(written if self._redaction is None else self._redaction.event(written))
        # Deltas wait in the buffer. A call that has started is on the disk before it can have an effect.
        if kind in _FLUSHED and self._file is not None:
            self._file.flush()
        if kind is StepEnd:
            self.close()

    def around_tool(self, call_id: str) -> AbstractContextManager[object] | None:
        """Returns None: nothing is to be held."""
        return None

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
    def on_item(self, item: bytes | str | Mapping[str, Any], /) -> None:
        """Records a piece of a response, as it was read."""
        self._write({**self._chunk(item), "at": time.monotonic()})

    @_ends
    def end_stream(self, error: StreamError | None, /) -> None:
        """Records the end of a response's body."""
        # An error of the stream may quote the body. It passes the redaction as the error of an event does.
        entry = {"source_end": None if error is None else written_value(error), "at": time.monotonic()}
        if self._redaction is not None and error is not None:
            entry["source_end"] = self._redaction.event({"event": "StreamEnd", "error": entry["source_end"]})["error"]
        self._write(entry)

    # -- lines --

    def _chunk(self, item: bytes | str | Mapping[str, Any]) -> dict[str, Any]:
        # A secret may be cut by any chunk, and escaped in any way: of a body that is redacted only sizes and times are
        # kept.
        if self._redaction is not None:
            size = len(item) if isinstance(item, (bytes, str)) else len(_line(written_value(item)))
            return {"chunk": None, "size": size}
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
            raise ValueError("a recorder records one run; give each run its own")
        self._run_id = run_id
        if self._is_directory:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._is_directory = False  # the path is that of the file from now on
        if self.path.is_dir():
            self.path = self.path / f"{_file_name(run_id)}.jsonl"
        self._open()

    def _open(self) -> None:
        """Opens the file, and names the run in it: others may have been recorded there since."""
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
        if file is not None:
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
            _logger.warning("a recording is full, and ends here: Limits(max_recording_bytes=%d)", self._most)
            return
        self._size += len(line)
        self._file.write(line)


_with_file: weakref.WeakSet[Recorder] = weakref.WeakSet()
"""The recorders that have had their file open."""


def _leave_to_parent() -> None:
    for recorder in list(_with_file):
        recorder.leave_to_parent()


if hasattr(os, "register_at_fork"):  # pragma: no branch - Windows has no fork
    os.register_at_fork(after_in_child=_leave_to_parent)


def _file_name(run_id: str) -> str:
    """Returns the name of a run's file; no two run ids have the same."""
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


# -- redaction ---------------------------------------------------------------------------------------------------------
#
# A redacted event has the same `seq`. Its texts have passed through the caller's function. A secret may be cut by any
# delta, so that only whole texts can be judged: deltas are masked, and the whole of a text stands in the event that
# ends it.


Redact: TypeAlias = Callable[[str], str]
"""Returns a text as it may be kept."""

DOT = "·"  # stands for each character of a delta

_KEPT = frozenset({
    # the event, and its place
    "event", MARK, "seq", "step", "causes", "time", "run_id", "asks_model", "dispatches", "requested_at", "resumes",
    # identities and words of ours or the provider's
    "wire", "model", "response_id", "call_id", "idempotency_key", "name", "tool_name", "namespace", "awaits",
    "caller", "kind", "type", "place", "code", "status", "problem", "normalizations", "outcome", "finish", "finish_raw",
    "schema_source", "owner", "validator", "boundary", "observation_type", "reason", "error_type", "mime_type",
    "setting", "limit", "seconds", "timeout_s",
})  # fmt: skip
"""Fields without content, of events, of our own values and of errors."""
_DROPPED = frozenset({"resume_from", "fingerprint"})  # deltas again, and a hash of arguments
_DELTAS: Mapping[str, tuple[str, str | None]] = {
    "TextDelta": ("text", "TextEnd"),
    "ReasoningDelta": ("text", "ReasoningEnd"),
    "RefusalDelta": ("text", None),
    "ToolCallDelta": ("delta", None),
}
"""The field with each delta's text, and the event with the whole."""


class Redaction:
    """Redacts the events of one run, in order."""

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._texts: dict[str, list[str]] = {}  # of texts that have not ended, by the event that ends them

    def event(self, written: dict[str, Any]) -> dict[str, Any]:
        """Returns an event as it may be written.

        Raises:
            TypeError: the caller's function did not return text.
        """
        name = written["event"]
        if name in _DELTAS:
            field, end = _DELTAS[name]
            text = written.get(field, "")
            if end is not None:
                self._texts.setdefault(end, []).append(text)
            return {**written, field: DOT * len(text)}
        kept = self._fields(written)
        if name in self._texts:
            joined = "".join(self._texts.pop(name))
            kept["whole"] = self.text(written.get("whole", joined))
        # A hash of arguments shows whether a guess of them is right.
        elif name == "ApprovalRequested":
            kept["fingerprint"] = ""
        elif name == "ApprovalResolved" and "reason" in written:
            kept["reason"] = self._leaves(written["reason"])
        return kept

    def text(self, text: str) -> str:
        """Returns a text as it may be written."""
        kept = self._redact(text)
        if not isinstance(kept, str):
            raise TypeError(f"expected text from redact, got {class_name(kept)}")
        return kept

    def _fields(self, written: Mapping[str, Any]) -> dict[str, Any]:
        """Redacts the fields of an event, or of a value of ours. Numbers in fields of their own are kept."""
        kept: dict[str, Any] = {}
        for name, value in written.items():
            if name in _DROPPED:
                continue
            is_content = name not in _KEPT and not isinstance(value, (bool, int, float))
            kept[name] = self._leaves(value) if is_content else value
        if written.get(MARK) == "ToolCall" and "arguments_text" in written:
            kept["arguments_text"] = self._arguments_text(written["arguments_text"])
        return kept

    def _arguments_text(self, text: str) -> str:
        """Returns arguments with their strings redacted: in the text itself, escapes could hide them."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):  # cut, or none: a piece of a secret is not recognised
            return DOT * len(text)
        return json.dumps(self._leaves(value), ensure_ascii=False)

    def _leaves(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._leaves(one) for one in value]
        if isinstance(value, dict):
            return self._object(value)
        if value is None or isinstance(value, bool):
            return value
        # A number may be a secret, too (a card's), so the function sees it as text.
        text = str(value)
        kept = self.text(text)
        return value if kept == text else kept

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        mark = value.get(MARK)
        if mark in VALUES:
            return self._fields(value)
        if mark == "error":
            entry = {key: self._leaves(one) for key, one in value.items() if key in ("args", "message")}
            if "has" in value:
                entry["has"] = self._fields(value["has"])
            if value.get("cause") is not None:
                entry["cause"] = self._leaves(value["cause"])
            return {**value, **entry}
        if mark == "bytes":
            return {**value, "is": ""}
        if mark is not None and mark != "dict":
            return {**value, **({"is": self._leaves(value["is"])} if "is" in value else {})}
        return {(key if key == MARK else self.text(key)): self._leaves(one) for key, one in value.items()}
