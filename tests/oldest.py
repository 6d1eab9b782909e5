"""The lowest version of each package that the library says it works with, read from pyproject.toml.

Run as a program, it prints them as constraints for pip: ``pip install -c <(python tests/oldest.py) ...``.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

__all__ = ["EXTRAS", "lowest"]

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"

EXTRAS = ("mcp", "redis", "postgres", "compression", "otlp", "terminal", "dbos", "demo")
"""What users and the demo install."""


def lowest() -> dict[str, str]:
    """The lower bound of each dependency, and of each package of these extras, by its name."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(requirement for extra in EXTRAS for requirement in optional[extra])]
    return dict(_bound(requirement) for requirement in wanted)


def _bound(requirement: str) -> tuple[str, str]:
    found = re.fullmatch(r"([a-z0-9.-]+)>=([0-9.]+)(?:; .*)?", requirement)
    if found is None:
        raise ValueError(f"a requirement is a name and its lowest version (name>=1.2), not {requirement!r}")
    return found[1], found[2]


if __name__ == "__main__":
    for name, version in lowest().items():
        print(f"{name}=={version}")
