"""Makes files that only their owner can read (mode 0600), for texts of models, people and tools.

Where files have no such modes (Windows, some network shares), they are as private as their folder.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

# Set by the call that makes the file: changing it afterwards would leave a moment in which another user can open it.
MODE = 0o600
# Without O_NONBLOCK a named pipe would block the program until it has a reader.
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def write_private(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a complete file that only its owner can read, replacing the old one.

    A reader sees either the old or the new content, never a part; a program that has the old file open does not see the
    new content.

    Args:
        path: the file. Its folder must be writable.
        content: bytes, or text, which is written as UTF-8; half a surrogate pair becomes ``?``.

    Raises:
        OSError: the path is a symbolic link or not a regular file, or cannot be written.
    """
    path = Path(path)
    if (found := _found(path)) is not None:
        _check_kind(found, path)
    # Written beside the old file, on the same disk, and put in its place in one step. `mkstemp` gives it the mode 0600.
    number, temporary = tempfile.mkstemp(prefix=".streamtools-", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode("utf-8", "replace"))
        os.replace(temporary, path)  # if a link was made meanwhile, this replaces the link itself
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def open_private(path: str | os.PathLike[str], flags: int) -> int:
    """Returns the descriptor of a file for writing, created if missing. `flags` are those of `os.open`, without
    ``O_CREAT`` and ``O_TRUNC``. Raises an `OSError` for a symbolic link, or anything but a regular file."""
    # Checks what was opened, not what had the path before. The error for a link or a pipe says which of them it is.
    try:
        number = os.open(path, flags | os.O_CREAT | _SAFELY, MODE)
    except OSError:
        if (found := _found(path)) is not None:
            _check_kind(found, path)
        raise
    try:
        found = os.fstat(number)
        _check_kind(found, path)
        _narrow(found, path, lambda mode: os.fchmod(number, mode))
    except BaseException:
        os.close(number)
        raise
    return number


def make_private(path: str | os.PathLike[str]) -> None:
    """Makes an empty file if there is none, for a library that opens files by their path; an existing file is not
    opened. Raises an `OSError` if the path is a symbolic link or not a regular file, or the file cannot be made."""
    # When a process closes any descriptor of a file, it loses all its `fcntl` locks on it, including those of SQLite's
    # other connections (https://sqlite.org/howtocorrupt.html).
    if (found := _found(path)) is None:
        try:
            _make(path)
        except FileExistsError:
            found = os.lstat(path)
    if found is not None:
        _check_kind(found, path)


def narrow(path: str | os.PathLike[str]) -> None:
    """Limits a file to its owner, without opening it; does nothing if there is none. Raises an `OSError` if the path is
    a symbolic link or not a regular file, or the file is another user's."""
    if (found := _found(path)) is None:
        return
    _check_kind(found, path)
    try:
        _narrow(found, path, lambda mode: os.chmod(path, mode))
    except FileNotFoundError:  # SQLite removes its log when the last connection closes
        return


def _make(path: str | os.PathLike[str]) -> None:
    # Without opening it where possible: another thread may use the file as soon as it exists. `mknod` is missing on
    # Windows, may need the superuser, or may not work on this kind of disk.
    try:
        os.mknod(path, MODE)
    except FileExistsError:
        raise
    except (AttributeError, OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE))


def _found(path: str | os.PathLike[str]) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _check_kind(found: os.stat_result, path: str | os.PathLike[str]) -> None:
    # Another user may have put a link where this program is about to write, to make it overwrite one of its owner's
    # files.
    if not stat.S_ISREG(found.st_mode):
        got = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "a folder, pipe or device"
        raise OSError(errno.EINVAL, f"expected a regular file, got {got}", os.fspath(path))


def _narrow(found: os.stat_result, path: str | os.PathLike[str], change: Callable[[int], None]) -> None:
    mode = stat.S_IMODE(found.st_mode)
    if os.name != "posix" or not mode & ~MODE:
        return
    try:
        change(mode & MODE)
    except PermissionError as error:  # pragma: no cover - takes two users
        text = f"expected a file that only its owner can read, got another user's of mode {mode:04o}"
        raise PermissionError(error.errno, text, os.fspath(path)) from error
