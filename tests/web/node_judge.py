"""Has programs for node judge what clients read; `nox -s web` installs their packages into ``.node-web``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["judged", "program"]

_CLIENTS = Path(__file__).parent / "clients"
_INSTALLED = Path(__file__).parent.parent.parent / ".node-web"


def program(script: str) -> Path:
    """Returns a program of ``tests/web/clients`` where it finds its packages: above itself. Skips the test where there
    is no node."""
    if shutil.which("node") is None or not (_INSTALLED / ".installed").exists():
        pytest.skip("NOT JUDGED: the clients are not here; `nox -s web` installs them, with node and npm")
    return Path(shutil.copy(_CLIENTS / script, _INSTALLED))


def judged(script: str, lines: Iterable[Any], directory: Path) -> list[Any]:
    """Returns a program's verdict on each line, all of one process.

    Args:
        script: a `program`, which is given the paths of two files with JSON lines, the second one to be written.
        lines: the input.
        directory: for the files.
    """
    given, found = directory / "given.jsonl", directory / "found.jsonl"
    given.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    subprocess.run(["node", program(script), given, found], check=True, timeout=540)
    return [json.loads(line) for line in found.read_text(encoding="utf-8").split("\n")]
