"""``streamtools view``: shows a run as one HTML page, in the terminal, or as a Chrome trace."""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import webbrowser
from pathlib import Path
from types import ModuleType
from typing import Any

import orjson

from ..errors import StreamToolsError
from ..files import write_private
from ..limits import Limits
from ..record import Recording
from ..record.recording import is_recording
from ..view import Picture, chrome_trace, draw_jaeger, draw_recordings, is_jaeger, page
from .common import add_command

__all__ = ["add", "terminal"]

MOST_BYTES = 1 << 30  # of a file that is read whole: what fits into memory some times over

DESCRIPTION = """\
Writes a run as one HTML page that needs nothing else, and prints its path; or
prints the run itself. Shown is what the file holds: texts, arguments and
results, if they were captured."""

EXAMPLES = """\
RUN is a recording of streamtools.record, or a file of configure("jaeger-file").

examples:
  streamtools view run.jsonl --open
  streamtools view run.jsonl --terminal
  streamtools view trace.json -o run.html
  streamtools view trace.json --chrome-trace run.perfetto.json
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
    add("run", metavar="RUN", help="the file with the run")
    add("-o", "--output", metavar="FILE", help="the page to write (default: RUN with .html, else a temporary file)")
    add("--title", default="", metavar="TEXT", help="the headline (default: the run's id)")
    add("--open", action="store_true", help="open the page in a browser")
    add("--terminal", action="store_true", help="print the run, in place of the page")
    add("--chrome-trace", metavar="FILE", help="write trace events for Perfetto, in place of the page")


def _view(options: argparse.Namespace) -> int:
    picture = _read(Path(options.run), options.title)
    if options.terminal:
        terminal().show(picture)
        return 0
    if options.chrome_trace is not None:
        _write(Path(options.chrome_trace), orjson.dumps(chrome_trace(picture)))
        print(options.chrome_trace)
        return 0
    written = page(picture).encode("utf-8", "replace")
    path = _written(Path(options.run), options.output, written)
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
        raise StreamToolsError("this needs rich: pip install 'llm-streamtools[terminal]'") from error
    return found


def _read(path: Path, title: str) -> Picture:
    """Returns the picture of the run in a file.

    Raises:
        StreamToolsError: it cannot be read, or is neither a recording nor a file of spans.
    """
    # The size first, and a recording by its first bytes: a file of any other kind is not read whole for nothing.
    try:
        if path.stat().st_size > MOST_BYTES:
            raise StreamToolsError(f"cannot read {path}: it has more than {MOST_BYTES >> 20} MiB")
        with path.open("rb") as file:
            if is_recording(file):
                return draw_recordings(Recording.read_all(path, limits=Limits(max_recording_bytes=MOST_BYTES)), title)
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise StreamToolsError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StreamToolsError(f"cannot read {path}: it is neither a recording nor JSON") from error
    if not is_jaeger(document):
        raise StreamToolsError(f'cannot read {path}: it is neither a recording nor a file of configure("jaeger-file")')
    try:
        return draw_jaeger(document, title=title)
    except ValueError as error:
        raise StreamToolsError(f"cannot show {path}: {error}") from error


def _written(run: Path, output: str | None, page: bytes) -> Path:
    """Writes the page where it was asked for, else beside the run, else to a temporary file; returns its path."""
    if output is not None:
        path = Path(output)
        _write(path, page)
        return path
    # A page that is there is not overwritten unless it was named: somebody may have written it by hand, or kept it.
    path = run.with_suffix(".html")
    if os.access(run.parent, os.W_OK) and not os.path.lexists(path):
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
