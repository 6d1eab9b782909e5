"""``streamtools view``: shows a run as one HTML page, in the terminal, or as a Chrome trace."""

from __future__ import annotations

import argparse
import os
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from ..errors import StreamToolsError
from ..extras import missing
from ..files import write_private
from ..limits import Limits
from ..record import Recording
from ..record.recording import is_recording
from ..view import Picture, chrome_trace, draw_recordings, draw_traces, is_trace, page
from ..view.span_files import SpansFile, load_documents
from .common import UsageError, add_command

__all__ = ["add", "terminal"]

MOST_BYTES = 1 << 30  # of a file that is read whole: what fits into memory some times over

DESCRIPTION = """\
Writes a run as one HTML page that needs nothing else, and prints its path; or
prints the run itself. Shown is what the file holds: texts, arguments and
results, if they were captured."""

EXAMPLES = """\
RUN is a recording of streamtools.record; or a trace: a file of
configure("jaeger-file"), a download from Jaeger's UI, OTLP as JSON, or the
address of a trace in a Jaeger. Several become one picture: that of a run that
was resumed on another day.

examples:
  streamtools view run.jsonl --open
  streamtools view run.jsonl --terminal
  streamtools view trace.json -o run.html
  streamtools view trace.json --chrome-trace run.perfetto.json
  streamtools view http://localhost:16686/trace/2a74df6b3c06b1c4e2f8 --open
  streamtools view monday.json friday.json -o run.html
"""


def add(commands: Any) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "view",
        _view,
        help="show a run as a page, or in Perfetto",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a file with the run, or the address of its trace")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="the page to write (default: RUN with .html, else a temporary file)",
    )
    add("--title", default="", metavar="TEXT", help="the headline (default: the run's id)")
    add("--open", action="store_true", help="open the page in a browser")
    add("--terminal", action="store_true", help="print the run, in place of the page")
    add("--chrome-trace", metavar="FILE", help="write trace events for Perfetto, in place of the page")


def _view(options: argparse.Namespace) -> int:
    instead = [f"--{name}" for name in ("terminal", "chrome-trace") if getattr(options, name.replace("-", "_"))]
    of_page = [f"--{name}" for name in ("output", "open") if getattr(options, name)]
    if instead and len(instead + of_page) > 1:
        raise UsageError(f"{instead[0]} is in place of the page; leave out {' and '.join((instead + of_page)[1:])}")
    picture = _read(options.runs, options.title)
    if options.terminal:
        terminal().show(picture)
        return 0
    if options.chrome_trace is not None:
        _write(Path(options.chrome_trace), orjson.dumps(chrome_trace(picture)))
        print(options.chrome_trace)
        return 0
    written = page(picture).encode("utf-8", "replace")
    path = _written(options.runs[0], options.output, written)
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def terminal() -> ModuleType:
    """Returns the terminal view, which is imported where it is used.

    Raises:
        StreamToolsError: its extra is not installed.
    """
    # The extra has `rich`, which a program without it must not need for the other commands.
    try:
        from ..view import terminal as found
    except ImportError as error:
        raise StreamToolsError(missing("rich", "terminal")) from error
    return found


def _read(runs: Sequence[str], title: str) -> Picture:
    """Returns the picture of the runs in files and at addresses; raises a `StreamToolsError` if one cannot be read, or
    is neither a recording nor a trace."""
    recordings: list[Recording] = []
    traces: list[dict[str, Any]] = []
    names, torn = [], 0
    for run in runs:
        name, found = _fetched(run) if "://" in run else (run, _loaded(Path(run)))
        names.append(name)
        if isinstance(found, list):
            recordings += found
            continue
        traces += [document for document in found.documents if isinstance(document, dict) and is_trace(document)]
        torn += found.torn
    if recordings and traces:
        raise StreamToolsError("cannot show recordings and traces in one picture: a recording has a clock of its own")
    if recordings:
        return draw_recordings(recordings, title)
    try:
        picture = draw_traces(*traces, title=title)
    except ValueError as error:
        raise StreamToolsError(f"cannot show {', '.join(names)}: {error}") from error
    if torn:
        picture.notes.append(f"Lines that were torn are missing: {torn}.")
    return picture


def _fetched(address: str) -> tuple[str, SpansFile]:
    # It has a client of the network, which no other command needs.
    from .fetch import fetch_trace, trace_address

    place = trace_address(address)
    return str(place), SpansFile(fetch_trace(place), 0)


def _loaded(path: Path) -> list[Recording] | SpansFile:
    """Returns the recordings in a file, or its documents, of which one has spans at least.

    Raises:
        StreamToolsError: it cannot be read, or is neither.
    """
    # The size first, and a recording by its first bytes: a file of any other kind is not read whole for nothing.
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StreamToolsError(f"cannot read {path}: it has more than {MOST_BYTES >> 20} MiB")
        with path.open("rb") as file:
            if is_recording(file):
                return list(Recording.read_all(path, limits=Limits(max_recording_bytes=MOST_BYTES)))
        found = load_documents(path.read_bytes())
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StreamToolsError(f"cannot read {path}: it is neither a recording nor JSON") from error
    if not any(map(is_trace, found.documents)):
        raise StreamToolsError(f"cannot read {path}: expected a recording, or spans as JSON of Jaeger's or of OTLP")
    return found


def _written(run: str, output: str | None, page: bytes) -> Path:
    """Writes the page where it was asked for, else beside the run, else to a temporary file; returns its path."""
    if output is not None:
        path = Path(output)
        _write(path, page)
        return path
    # A page that is there is not overwritten unless it was named: somebody may have written it by hand, or kept it.
    path = Path(run).with_suffix(".html")
    if "://" not in run and os.access(path.parent, os.W_OK) and not os.path.lexists(path):
        _write(path, page)
        return path
    with tempfile.NamedTemporaryFile(prefix="streamtools-", suffix=".html", delete=False) as file:  # its owner's alone
        file.write(page)
    return Path(file.name)


def _write(path: Path, content: bytes) -> None:
    try:
        write_private(path, content)
    except OSError as error:
        raise StreamToolsError(f"cannot write {path}: {error.strerror}") from error
