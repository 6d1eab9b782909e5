"""``streamtools view``: shows a run as one HTML page, or in the terminal."""

from __future__ import annotations

import argparse
import os
import tempfile
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from ..durable.files import write_private
from ..errors import StreamToolsError
from ..ground import missing
from ..limits import Limits
from ..record import Recording
from ..record.recording import is_recording
from ..view import draw_recordings, page
from .common import UsageError, add_command

MOST_BYTES = 1 << 30  # of a file that is read whole: what fits into memory some times over

DESCRIPTION = """\
Writes a run as one self-contained HTML page and prints the path of the page,
or prints the run itself. Texts, arguments and results in the file are shown."""

EXAMPLES = """\
RUN is a recording made by streamtools.record. Several recordings, such as
those of a run that was resumed on another day, become one page.

examples:
  streamtools view run.jsonl --open
  streamtools view run.jsonl --terminal
  streamtools view monday.jsonl friday.jsonl -o run.html
"""


def add(commands: Any) -> None:
    parser = add_command(
        commands,
        "view",
        _view,
        help="show a run as a page, or in the terminal",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    add = parser.add_argument
    add("runs", nargs="+", metavar="RUN", help="a file with the run")
    add("-o", "--output", metavar="FILE", help="the page to write (default: RUN with .html, else a temporary file)")
    add("--title", default="", metavar="TEXT", help="the headline (default: the run's id)")
    add("--open", action="store_true", help="open the page in a browser")
    add("--terminal", action="store_true", help="print the run instead of writing a page")


def _view(options: argparse.Namespace) -> int:
    of_page = [f"--{name}" for name in ("output", "open") if getattr(options, name)]
    if options.terminal and of_page:
        raise UsageError(f"--terminal writes no page; omit {' and '.join(of_page)}")
    picture = draw_recordings(_read(options.runs), options.title)
    if options.terminal:
        terminal().show(picture)
        return 0
    written = page(picture).encode("utf-8", "replace")
    path = _written(options.runs[0], options.output, written)
    print(path)
    if options.open:
        webbrowser.open(path.resolve().as_uri())
    return 0


def terminal() -> ModuleType:
    # The extra has `rich`, which a program without it must not need for the other commands.
    try:
        from ..view import terminal as found
    except ImportError as error:
        raise StreamToolsError(missing("rich", "terminal")) from error
    return found


def _read(runs: Sequence[str]) -> Iterator[Recording]:
    for run in runs:
        # The size first, and a recording by its first bytes: a file of another kind is not read whole for nothing.
        try:
            if os.stat(run).st_size > MOST_BYTES:
                raise StreamToolsError(f"cannot read {run}: it is larger than {MOST_BYTES >> 20} MiB")
            with open(run, "rb") as file:
                if not is_recording(file):
                    raise StreamToolsError(f"cannot read {run}: expected a recording of streamtools.record")
            yield from Recording.read_all(run, limits=Limits(max_recording_bytes=MOST_BYTES))
        except OSError as error:
            raise StreamToolsError(f"cannot read {run}: {error.strerror}") from error


def _written(run: str, output: str | None, page: bytes) -> Path:
    if output is not None:
        path = Path(output)
        _write(path, page)
        return path
    # A page that is there is not overwritten unless it was named: somebody may have written it by hand, or kept it.
    path = Path(run).with_suffix(".html")
    if os.access(path.parent, os.W_OK) and not os.path.lexists(path):
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
