"""Holds the parts that the commands share: parsers, errors, and columns of text."""

from __future__ import annotations

import argparse
import sqlite3
import textwrap
import unicodedata
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import anyio

from ..dispatch import SqliteStore
from ..durable.addresses import store_of
from ..durable.record_store import RecordStore
from ..errors import StreamToolsError

T = TypeVar("T")

# The last two as a shell counts them: 128 and the number of the signal, SIGINT and SIGPIPE.
FAILED, MISUSED, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141

Run: TypeAlias = Callable[[argparse.Namespace], int | None]  # runs a command; returns the exit status, or None for 0


class UsageError(Exception):
    """Refuses a command line that makes no sense."""


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        # Raised and not printed, so that `main` decides on the words and the status of every mistake.
        raise UsageError(f"{message} (try {self.prog} --help)")


def add_command(
    commands: Any, name: str, run: Run | None, *, help: str, description: str, epilog: str
) -> argparse.ArgumentParser:
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
    commands: Any, name: str, help: str, description: str, epilog: str, *, file: str, kind: Callable[[str], Any] = Path
) -> Callable[[str, Run, str, str], argparse.ArgumentParser]:
    group = add_command(commands, name, None, help=help, description=description, epilog=epilog)
    actions = group.add_subparsers(title="actions", metavar="ACTION", required=True)

    def action(name: str, run: Run, help: str, description: str) -> argparse.ArgumentParser:
        parser = add_command(actions, name, run, help=help, description=description, epilog=epilog)
        parser.add_argument("file", metavar="FILE" if kind is Path else "STORE", type=kind, help=file)
        return parser

    return action


def print_table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(map(pad, row, widths)).rstrip())


def with_store(address: str, work: Callable[[RecordStore], Coroutine[Any, Any, T]]) -> T:
    where = named_store(address)
    # Looked at before, and with `must_exist`: opening a path that was mistyped would make a store there.
    if where == address and not Path(address).is_file():
        raise StreamToolsError(f"{address} does not exist")
    try:
        with store_of(address) if where != address else SqliteStore(address, must_exist=True) as store:
            return anyio.run(partial(work, store))
    except (sqlite3.Error, OSError, ValueError, ImportError) as error:  # the extra may be missing
        raise StreamToolsError(f"cannot use {where}: {error}") from error


def named_store(address: str) -> str:
    """Returns an address as it may be printed: a URL may have a password."""
    scheme, colon, _ = address.partition("://")
    return f"{scheme}://..." if colon else address


def listed(title: str, names: Iterable[str]) -> str:
    return f"{title}:\n" + textwrap.fill(", ".join(names), 78, initial_indent="  ", subsequent_indent="  ") + "\n\n"


def cells(text: str) -> int:
    """Counts the cells of a terminal that `text` takes.

    >>> cells("Zürich"), cells("東京")
    (6, 4)
    """
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def pad(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _cells_of(character: str) -> int:
    # Letters of East Asia take two cells (https://www.unicode.org/reports/tr11/), marks that combine take none.
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
