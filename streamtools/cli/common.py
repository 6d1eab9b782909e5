"""Holds the parts that the commands share: their parsers, their mistakes, and columns of text."""

from __future__ import annotations

import argparse
import textwrap
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

# The last two as a shell counts them: 128 and the number of the signal, SIGINT and SIGPIPE.
FAILED, MISUSED, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141

Run: TypeAlias = Callable[[argparse.Namespace], int | None]
"""Runs a command; returns the exit status, or None for 0."""


class UsageError(Exception):
    """Refuses a command line that makes no sense."""


class Parser(argparse.ArgumentParser):
    """A parser that reports a mistake in one line, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        """Refuses the command line."""
        # Raised and not printed, so that `main` decides on the words and the status of every mistake.
        raise UsageError(f"{message} (try {self.prog} --help)")


def add_command(
    commands: Any, name: str, run: Run | None, *, help: str, description: str, epilog: str
) -> argparse.ArgumentParser:
    """Adds a command with its page of help. `run` is None where an action is required."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(command=run, page=parser.prog)
    return parser


def file_actions(
    commands: Any, name: str, help: str, description: str, epilog: str, *, file: str
) -> Callable[[str, Run, str, str], argparse.ArgumentParser]:
    """Adds a command whose actions work on one file, which `file` describes; returns a function that adds an action."""
    group = add_command(commands, name, None, help=help, description=description, epilog=epilog)
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Run, help: str, description: str) -> argparse.ArgumentParser:
        parser = add_command(actions, name, run, help=help, description=description, epilog=epilog)
        parser.add_argument("file", metavar="FILE", type=Path, help=file)
        return parser

    return action


def listed(title: str, names: Iterable[str]) -> str:
    """Formats names as a paragraph for a page of help."""
    return f"{title}:\n" + textwrap.fill(", ".join(names), 78, initial_indent="  ", subsequent_indent="  ") + "\n\n"


def cells(text: str) -> int:
    """Counts the cells of a terminal that `text` takes.

    >>> cells("Zürich"), cells("東京")
    (6, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def pad(text: str, width: int) -> str:
    """Fills `text` with spaces up to `width` cells; a wider text stays as it is."""
    return text + " " * (width - cells(text))


def _cells_of(character: str) -> int:
    # Letters of East Asia take two cells (https://www.unicode.org/reports/tr11/), marks that combine take none.
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
