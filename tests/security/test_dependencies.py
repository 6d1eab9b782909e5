"""What is trusted because it is installed beside the library: as little as there is, and none of it by surprise."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CORE = {"anyio", "orjson", "pydantic", "opentelemetry-api", "opentelemetry-sdk"}
FOR_USERS = {
    "mcp": {"mcp"},
    "redis": {"redis"},
    "fast": {"jsonschema-rs"},
    "otlp": {"opentelemetry-exporter-otlp-proto-http"},
    "ray": {"ray"},
    "dbos": {"dbos"},
}


def names(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ;]", requirement)[0].lower() for requirement in requirements}


def test_the_library_needs_five_packages() -> None:
    assert names(PROJECT["dependencies"]) == CORE


@pytest.mark.parametrize("extra", FOR_USERS)
def test_an_extra_brings_one_package(extra: str) -> None:
    assert names(PROJECT["optional-dependencies"][extra]) == FOR_USERS[extra]


def test_every_dependency_says_which_version_it_needs_and_comes_from_the_index() -> None:
    extras = [requirement for extra in (*FOR_USERS, "demo") for requirement in PROJECT["optional-dependencies"][extra]]
    for requirement in [*PROJECT["dependencies"], *extras]:
        assert re.fullmatch(r"[a-z-]+>=[0-9.]+", requirement), requirement


def test_nothing_is_built_or_run_when_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["build-system"]["build-backend"] == "hatchling.build"
    assert "hooks" not in project["tool"]["hatch"].get("build", {})
    assert not (ROOT / "setup.py").exists()
