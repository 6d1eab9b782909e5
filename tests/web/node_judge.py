"""Has programs for node judge what clients read; `make test-web` installs their packages into ``.node-web``."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

__all__ = ["judged"]

_CLIENTS = Path(__file__).parent / "clients"
_INSTALLED = Path(__file__).parent.parent.parent / ".node-web"


def judged(script: str, lines: Iterable[Any], directory: Path) -> list[Any]:
    """Returns a program's verdict on each line, all of one process. Skips the test where there is no node.

    Args:
        script: a file in ``tests/web/clients``, which is given the paths of two files with JSON lines.
        directory: for the files.
    """
    node = shutil.which("node")
    if node is None or not (_INSTALLED / "node_modules").is_dir():
        pytest.skip("the clients are not here: `make test-web` installs them, with node and npm")
    # A module finds packages above itself alone.
    program = shutil.copy(_CLIENTS / script, _INSTALLED)
    given, found = directory / "given.jsonl", directory / "found.jsonl"
    given.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    subprocess.run([node, program, given, found], check=True, timeout=540)
    return [json.loads(line) for line in found.read_text(encoding="utf-8").split("\n")]
