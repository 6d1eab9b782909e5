"""Which programs that keep traces are asked. All of it runs on this machine; what is missing is skipped and named.

The tests here run when they are asked for by their path, as `nox -s backends` does: a server starts for a minute.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    asked = any(Path(argument.partition("::")[0]).resolve().is_relative_to(FOLDER) for argument in config.args)
    return None if asked or not collection_path.name.endswith("_backend.py") else True
