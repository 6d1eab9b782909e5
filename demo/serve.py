"""``python -m demo.serve``: the tiny model answers a program of the reader's, which then needs no key."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence

from .errors import DemoError
from .server import ModelServer

__all__ = ["main", "settings"]

PORT = 9000
HELP = """\
usage: python -m demo.serve [PROGRAM [ARGUMENTS ...]]

Starts a tiny model and runs your program, whose OpenAI or Anthropic SDK then
asks this model and needs no key. Without a program, the model listens on port
9000 until Ctrl-C. The exit status is the program's.

examples:
  python -m demo.serve first.py
  python -m demo.serve uvicorn server:app --port 8000"""
FAILED, NOT_FOUND, INTERRUPTED = 1, 127, 130


def settings(url: str) -> dict[str, str]:
    """Return the environment variables that lead the SDKs to a model's server; any key does."""
    addresses = {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
    return addresses | {"OPENAI_API_KEY": "unused", "ANTHROPIC_API_KEY": "unused"}


def main(command: Sequence[str] | None = None) -> int:
    """Serve the model while the command runs, or until Ctrl-C, and return the exit status.

    Args:
        command: the program and its arguments; by default this process's own arguments.
    """
    command = list(sys.argv[1:] if command is None else command)
    if command[:1] in (["-h"], ["--help"]):
        print(HELP)
        return 0
    if command and command[0].endswith(".py"):
        command.insert(0, sys.executable)
    try:
        with ModelServer(port=0 if command else PORT) as server:
            return _run(command, settings(server.url)) if command else _wait(settings(server.url))
    except DemoError as error:
        print(f"python -m demo.serve: error: {error}", file=sys.stderr)
        return FAILED


def _run(command: Sequence[str], variables: dict[str, str]) -> int:
    try:
        child = subprocess.Popen(command, env=os.environ | variables)
    except OSError as error:
        print(f"python -m demo.serve: error: cannot run {command[0]}: {error.strerror}", file=sys.stderr)
        return NOT_FOUND
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    while True:
        try:
            status = child.wait()
            return 128 - status if status < 0 else status
        except KeyboardInterrupt:  # the terminal sends it to the child, too, which decides when it ends
            continue


def _wait(variables: dict[str, str]) -> int:
    print("The tiny model is listening; Ctrl-C stops it. In another terminal:")
    print("export", *(f"{name}={shlex.quote(value)}" for name, value in variables.items()), flush=True)
    try:
        while True:
            signal.pause() if hasattr(signal, "pause") else input()
    except (KeyboardInterrupt, EOFError):
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
