"""`nox -s oldest` really runs with the lowest versions that pyproject.toml names."""

from __future__ import annotations

import os
import tomllib
from importlib.metadata import PackageNotFoundError, version

import pytest
from oldest import EXTRAS, PYPROJECT, lowest

PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def release(number: str) -> tuple[int, ...]:
    """``2.11`` and ``2.11.0`` are one version."""
    parts = [int(part) for part in number.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


@pytest.mark.skipif("STREAMTOOLS_OLDEST" not in os.environ, reason="nox -s oldest")
@pytest.mark.parametrize("name", lowest())
def test_what_is_installed_is_the_lowest_that_is_promised(name: str) -> None:
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is not installed: nothing was tested with its lowest version")
    assert release(installed) == release(lowest()[name])


def test_every_extra_for_users_is_tried_at_its_lowest() -> None:
    for_us = {
        "agents",
        "agents-strands",
        "backends",
        "compare",
        "compare-litellm",
        "dev",
        "integrations",
        "matrix",
        "release",
    }
    assert set(PROJECT["optional-dependencies"]) - for_us == set(EXTRAS)
