"""`make test-oldest` really runs with the lowest versions that pyproject.toml names."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import oldest
import pytest
from oldest import EXTRAS, PYPROJECT, lowest

PROJECT = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]


def release(number: str) -> tuple[int, ...]:
    """``2.11`` and ``2.11.0`` are one version."""
    parts = [int(part) for part in number.split(".")]
    while parts and parts[-1] == 0:
        parts.pop()
    return tuple(parts)


@pytest.mark.skipif("STREAMTOOLS_OLDEST" not in os.environ, reason="make test-oldest")
@pytest.mark.parametrize("name", lowest())
def test_what_is_installed_is_the_lowest_that_is_promised(name: str) -> None:
    try:
        installed = version(name)
    except PackageNotFoundError:
        pytest.fail(f"{name} is not installed: nothing was tested with its lowest version")
    assert release(installed) == release(lowest()[name])


def test_the_lowest_versions_are_those_of_the_project_file() -> None:
    optional = PROJECT["optional-dependencies"]
    wanted = [*PROJECT["dependencies"], *(requirement for extra in EXTRAS for requirement in optional[extra])]
    assert [f"{name}>={bound}" for name, bound in lowest().items()] == list(
        dict.fromkeys(one.partition(";")[0] for one in wanted)
    )


def test_every_extra_for_users_but_the_clusters_is_tried_at_its_lowest() -> None:
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
    assert set(PROJECT["optional-dependencies"]) - for_us - {"ray"} == set(EXTRAS)


def test_the_constraints_for_pip_pin_each_package() -> None:
    printed = subprocess.run([sys.executable, str(Path(oldest.__file__))], capture_output=True, text=True, check=True)
    assert printed.stdout.splitlines() == [f"{name}=={bound}" for name, bound in lowest().items()]
