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

from test_project import make, needs_make

import streamtools

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = (REPOSITORY / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
FOR_USERS = ("mcp", "redis", "postgres", "compression", "otlp", "terminal", "dbos", "demo")


def test_one_version_is_in_the_package_its_metadata_and_the_changelog_and_pythons_are_those_tested() -> None:
    head = re.search(r"^## \[([^]]+)\](?: - (\S+))?$", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert head[1] == streamtools.__version__ == version(PROJECT["name"])
    assert date.fromisoformat(head[2]) <= date.today()
    assert PROJECT["dynamic"] == ["version"]
    literal = re.compile(rf"""["']{re.escape(streamtools.__version__)}["']""")
    places = [path for path in (REPOSITORY / "streamtools").rglob("*.py") if literal.search(path.read_text("utf-8"))]
    assert places == [REPOSITORY / "streamtools" / "_version.py"]
    classified = {one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)}
    sessions = (REPOSITORY / "noxfile.py").read_text(encoding="utf-8")
    assert classified <= {*re.findall(r'"(3\.\d+)"', sessions)}
    assert {*re.findall(r'"(3\.\d+)"', re.findall(r"python: \[.*\]", WORKFLOW)[0])} == classified


@needs_make
def test_the_workflow_only_calls_targets_of_make_and_pins_what_it_uses() -> None:
    steps = re.findall(r"- run: (.*)", WORKFLOW)
    assert len(steps) >= 3
    assert [step for step in steps if not step.startswith(("make ", ".venv/bin/nox -s "))] == []
    for step in (step for step in steps if step.startswith("make ")):
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
