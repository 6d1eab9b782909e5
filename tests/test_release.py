"""A release: one version, a current lock, a workflow of targets that exist, dependencies that are explained."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from datetime import date
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any

import pytest
from test_project import make, needs_make

import streamtools
from release import lock, pythons

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
FOR_USERS = ("mcp", "redis", "fast", "compression", "otlp", "terminal", "ray", "dbos", "demo")


def test_one_version_is_in_the_package_its_metadata_and_the_changelog_and_pythons_are_those_tested() -> None:
    head = re.search(r"^## \[([^]]+)\](?: - (\S+))?$", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert head is not None
    assert head[1] == streamtools.__version__ == version(PROJECT["name"])
    assert date.fromisoformat(head[2]) <= date.today()
    assert PROJECT["dynamic"] == ["version"]
    literal = re.compile(rf"""["']{re.escape(streamtools.__version__)}["']""")
    places = [path for path in (REPOSITORY / "streamtools").rglob("*.py") if literal.search(path.read_text("utf-8"))]
    assert places == [REPOSITORY / "streamtools" / "_version.py"]
    classified = {one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)}
    assert classified <= set(pythons.WANTED)
    assert {*re.findall(r'"(3\.\d+)"', re.findall(r"python: \[.*\]", WORKFLOW)[0])} == classified


def test_the_lock_meets_the_project_file_names_no_place_and_has_a_hash_for_everything() -> None:
    text = lock.LOCK.read_text(encoding="utf-8")
    assert lock.faults(text) == []
    (redis,) = (pin for name, pin, *_ in lock.pins(text) if name == "redis")
    for broken, fault in (
        (f"--index-url https://127.0.0.1/simple\n{text}", "the lock names a place: https://127.0.0.1/simple"),
        (re.sub(r"(?m)^(redis==\S+)( \\\n    --hash=\S+)+", r"\1", text), f"redis {redis} has no hash"),
        (re.sub(r"(?m)^anyio==\S+", "anyio==4.0.0", text), "pyproject.toml wants anyio>=4.11, the lock has 4.0.0"),
        (re.sub(r"(?m)^ruff==", "rough==", text), "pyproject.toml wants ruff>=0.9, the lock has none"),
    ):
        assert fault in [found.partition(": make")[0] for found in lock.faults(broken)]


@needs_make
def test_the_workflow_only_calls_targets_of_make_and_pins_what_it_uses() -> None:
    steps = re.findall(r"- run: (.*)", WORKFLOW)
    assert len(steps) >= 3
    assert [step for step in steps if not step.startswith("make ")] == []
    for step in steps:
        words = re.sub(r"\$\{\{.*?\}\}", "3", step).split()[1:]
        done = make("-n", *(word for word in words if not word.startswith("PYTHON=")))
        assert done.returncode == 0, (step, done.stderr)
    used = re.findall(r"uses: (\S+)", WORKFLOW)
    assert [one for one in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", one)] == []
    assert "permissions:\n  contents: read\n" in WORKFLOW
    if (linter := shutil.which("actionlint")) is not None:
        subprocess.run([linter], cwd=REPOSITORY, check=True)


def test_every_dependency_for_users_is_explained_with_its_lowest_version_and_its_licence() -> None:
    page = (REPOSITORY / "docs" / "dependencies.md").read_text(encoding="utf-8")
    table = page.partition("<!-- dependencies: begin")[2].partition("<!-- dependencies: end")[0].splitlines()[3:]
    rows = [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in table if line]
    wanted = [("", one) for one in PROJECT["dependencies"]]
    wanted += [(extra, one) for extra in FOR_USERS for one in PROJECT["optional-dependencies"][extra]]
    named = [(extra, f"{name}>={bound}") for extra, name, bound, _, _ in rows]
    assert named == [(extra, one.partition(";")[0]) for extra, one in wanted]
    for _, name, _, licence, reason in rows:
        assert reason
        try:
            known = metadata(name)
        except PackageNotFoundError:
            continue
        said = known.get("License-Expression") or known.get("License")
        assert said in (None, licence), name


def test_no_message_and_no_page_wants_a_name_that_no_registry_has() -> None:
    from streamtools.extras import missing

    wrong = re.compile(r"pip install ['\"]?(llm-)?streamtools")
    found = []
    for folder, kinds in (("streamtools", "*.py"), ("demo", "*.py"), ("examples", "*.py"), ("docs", "*.md")):
        for path in (REPOSITORY / folder).rglob(kinds):
            text = path.read_text(encoding="utf-8").replace("so `pip install streamtools` would install nothing", "")
            found += [path.name] if wrong.search(text) else []
            if folder == "streamtools" and path.name != "extras.py" and "pip install" in text:
                found.append(path.name)
            extras = re.findall(r"\bmissing\(\"[^\"]+\", \"(\w+)\"\)", text) if folder == "streamtools" else []
            found += [extra for extra in extras if extra not in PROJECT["optional-dependencies"]]
    assert found == []
    assert "pip install 'path/to/checkout[redis]'" in missing("it", "redis")


def test_a_python_is_found_on_the_path_or_among_pyenvs_and_a_shim_that_does_not_start_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def program(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
        return path

    program(tmp_path / "shims" / "python3.98", "exit 127")
    here = program(tmp_path / "bin" / "python3.99", "echo 3.99 3.99.1")
    kept = program(tmp_path / "pyenv" / "versions" / "3.98.2" / "bin" / "python", "echo 3.98 3.98.2")
    monkeypatch.setenv("PATH", f"{tmp_path / 'shims'}:{tmp_path / 'bin'}:/bin:/usr/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert [pythons.found(wanted) for wanted in ("3.98", "3.99", "3.97")] == [kept, here, None]
