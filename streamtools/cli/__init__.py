"""Runs the command line: ``streamtools decode``, ``mcp``, ``replay``, ``runs``, ``schema``, ``store``, ``view``.

A user's mistake is one line on standard error, never a traceback. Exit status: 0 for success; 1 for a failure; 2 for a
wrong command line; 130 after Ctrl-C; 141 if the reader of the output left.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence

from .._version import __version__
from ..errors import StreamToolsError
from ..ground import printable
from . import decode, mcp, replay, runs, schema, store, view
from .common import FAILED, INTERRUPTED, MISUSED, NOBODY_READS, Parser, UsageError

__all__ = ["main"]

DESCRIPTION = "Async streaming middleware between an LLM's stream and the tools that the model calls."


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: the command line after the program's name; by default this process's own.

    Returns:
        The exit status.
    """
    # A model's text may have characters that the terminal's encoding lacks. An embedding program may have put anything
    # in the place of standard output.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        options, rest = _parser().parse_known_args(arguments)
        if rest:
            # A word behind an unknown option may be its value, or have become another argument.
            wrong = [one for one in rest if one.startswith("-")] or rest
            raise UsageError(f"unrecognized arguments: {' '.join(wrong)} (try {options.page} --help)")
        status: int | None = options.command(options)
        sys.stdout.flush()
    except SystemExit as done:  # argparse printed help or the version
        return int(done.code or 0)
    except BrokenPipeError:
        # The reader has left, as `head` does. Python flushes once more when it exits, and would complain then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOBODY_READS
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        return _fail(error, MISUSED)
    except (StreamToolsError, OSError) as error:
        return _fail(error, FAILED)
    return status or 0


def _fail(error: Exception, status: int) -> int:
    # Errors quote files and providers, whose text must neither steer the terminal nor take a second line.
    text = " ".join(printable(str(error)).split())
    print(f"streamtools: error: {text}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    # Without abbreviations: `--wi` in a script would break with the next option that begins so.
    parser = Parser(prog="streamtools", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"streamtools {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (decode, mcp, replay, runs, schema, store, view):
        command.add(commands)
    return parser
