"""What a newcomer runs first: make, the continuous integration script, the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import streamtools

REPOSITORY = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))

needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def make(*arguments: str, directory: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run make as a person would, also when these tests are run by make."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=30, check=False
    )


# -- make ------------------------------------------------------------------------------------------------------


@needs_make
def test_make_test_runs_lint_types_and_tests() -> None:
    done = make("-n", "test")
    assert done.returncode == 0, done.stderr
    commands = ["ruff check", "ruff format --check", "mypy --strict", "pyright", "pytest"]
    places = [done.stdout.find(f"/{command}") for command in commands[:-1]] + [done.stdout.find("-m pytest")]
    assert -1 not in places
    assert places == sorted(places)
    assert '-m "not sweep and not thorough"' in done.stdout
    assert "--cov" not in done.stdout


TARGETS = """
demo test-all thorough sweeps soak test-ray test-dbos lint types unit test-pydantic test-oldest test-pythons
instructions mutants bench bench-compare dist api lock audit format clean
"""


@needs_make
def test_make_knows_its_targets_and_help_lists_them() -> None:
    listed = make("help").stdout
    unknown = [target for target in TARGETS.split() if make("-n", target).returncode or f"make {target} " not in listed]
    assert unknown == []


@needs_make
def test_make_installs_what_the_lock_has_where_that_is_asked_for(tmp_path: Path) -> None:
    given = newcomer(tmp_path)
    aged = ["pyproject.toml", ".venv-locked/bin/pip", ".venv-locked/.dev", "release/dev.lock"]  # the lock is the newest
    for age, path in enumerate(map(tmp_path.joinpath, aged)):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (age, age))
    plan = make("-n", "lint", given, "LOCKED=1", directory=tmp_path).stdout
    assert "--require-hashes -r release/dev.lock" in plan
    assert ".venv-locked/bin/ruff check" in plan
    assert ".[dev" not in plan


FAKE_PYTHON = """\
#!/bin/sh
# Stands in for python: makes a .venv of fakes that only note how they were called.
case "$*" in
  *version_info*) exit {old} ;;
  *ensurepip*) exit {without_venv} ;;
  *"-m venv .venv"*)
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    cp "$0" .venv/bin/pip ;;
  *"{fails}"*) echo "$*" >> calls; exit 1 ;;
esac
echo "$*" >> calls
"""


def newcomer(directory: Path, *, old: int = 0, without_venv: int = 0, fails: str = "nothing at all") -> str:
    """A fresh checkout in `directory`, and a python there. Returns make's argument that chooses it."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(REPOSITORY / name, directory)
    python = directory / "fake-python"
    python.write_text(FAKE_PYTHON.format(old=old, without_venv=without_venv, fails=fails), encoding="utf-8")
    python.chmod(0o755)
    return f"PYTHON={python}"


def installed(directory: Path) -> list[str]:
    """The arguments of each `pip install`, in order."""
    calls = (directory / "calls").read_text(encoding="utf-8").splitlines()
    return [call.partition(" install ")[2] for call in calls if " install " in call]


@needs_make
def test_make_demo_installs_once_and_runs_the_demo(tmp_path: Path) -> None:
    python = newcomer(tmp_path)
    for _ in range(2):
        assert make("demo", python, directory=tmp_path).returncode == 0
    assert installed(tmp_path) == ["-e .[demo]"]
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines().count("-m demo") == 2


@needs_make
def test_make_installs_again_when_the_project_file_has_changed(tmp_path: Path) -> None:
    python = newcomer(tmp_path)
    make("demo", python, directory=tmp_path)
    later = (tmp_path / ".venv" / ".demo").stat().st_mtime + 10
    os.utime(tmp_path / "pyproject.toml", (later, later))
    make("demo", python, directory=tmp_path)
    assert installed(tmp_path) == ["-e .[demo]", "-e .[demo]"]


@needs_make
def test_make_demo_goes_on_without_the_model_server_and_says_so(tmp_path: Path) -> None:
    done = make("demo", newcomer(tmp_path, fails="[demo]"), directory=tmp_path)
    assert done.returncode == 0
    assert "going on without it" in done.stderr
    assert installed(tmp_path) == ["-e .[demo]", "-e ."]


@needs_make
def test_make_fails_where_nothing_can_be_installed(tmp_path: Path) -> None:
    python = newcomer(tmp_path, fails="install")
    assert make("demo", python, directory=tmp_path).returncode != 0
    assert not (tmp_path / ".venv" / ".demo").exists()


@needs_make
@pytest.mark.parametrize(
    ("lack", "says"), [({"old": 1}, "needs Python 3.11 or newer"), ({"without_venv": 1}, "lacks its venv module")]
)
def test_make_says_what_python_lacks(lack: dict[str, int], says: str, tmp_path: Path) -> None:
    done = make("demo", newcomer(tmp_path, **lack), directory=tmp_path)  # type: ignore[arg-type]
    assert done.returncode != 0
    assert says in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_continuous_integration_runs_all_that_there_is_but_the_sdks() -> None:
    script = REPOSITORY / ".ci" / "run"
    assert os.access(script, os.X_OK)
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "#!/usr/bin/env bash"
    assert "set -euo pipefail" in lines
    assert lines[-1] == "make test-all"


@needs_make
def test_make_test_all_runs_the_tests_the_long_ones_and_those_with_the_lowest_versions() -> None:
    plan = make("-n", "test-all").stdout
    parts = ["ruff check", "ruff format --check", "mypy --strict", "/pyright", '-m "not sweep" --cov', "-m sweep"]
    parts += ["-m benchmarks.instructions", "STREAMTOOLS_OLDEST=1 .venv-oldest/bin/python -m pytest", "tests/durable"]
    assert all(part in plan for part in parts)
    assert "not thorough" not in plan, "the quick tests are among the others, and run once"


@needs_make
def test_make_pins_the_lowest_versions_that_the_project_file_names(tmp_path: Path) -> None:
    python = newcomer(tmp_path)
    (tmp_path / "tests").mkdir()
    shutil.copy(REPOSITORY / "tests" / "oldest.py", tmp_path / "tests")
    plan = make("-n", "test-oldest", python, directory=tmp_path).stdout
    assert "python tests/oldest.py > .venv-oldest/lowest.txt" in plan
    assert (
        "install -c .venv-oldest/lowest.txt -e '.[matrix,mcp,redis,fast,compression,otlp,terminal,dbos,demo]'" in plan
    )


# -- what is shipped -------------------------------------------------------------------------------------------


def test_the_extras_that_the_makefile_installs_exist() -> None:
    assert {"demo", "dev"} <= set(PROJECT["project"]["optional-dependencies"])


# -- the repository --------------------------------------------------------------------------------------------

BINARY = {
    "demo/tools.gguf",
    *(f"docs/pictures/{name}-{theme}.png" for name in ("chat", "demo-page") for theme in ("dark", "light")),
    *(f"docs/pictures/{name}.png" for name in ("jaeger-chat", "jaeger-trace")),
}
"""Files that are no text, each of which the project made itself."""


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git here")
def test_the_repository_holds_no_binary_file_but_those_listed() -> None:
    done = subprocess.run(
        ["git", "ls-files", "-z", "--eol"], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode != 0:
        pytest.skip("this is no checkout")
    rows = [row.split("\t", 1) for row in done.stdout.split("\0") if row]
    assert {name for kind, name in rows if kind.startswith("i/-text")} == BINARY


# -- the wheel -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("hatchling", reason="the build backend is not installed: no wheel was built")
    directory = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
    (path,) = directory.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_holds_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    package = REPOSITORY / "streamtools"
    files = {
        path.relative_to(REPOSITORY).as_posix()
        for path in package.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    held = {name for name in wheel.namelist() if name.startswith("streamtools/")}
    assert held == files
    assert "streamtools/py.typed" in held


def test_the_wheel_holds_the_package_and_its_metadata_without_the_demo(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "streamtools",
        f"streamtools-{streamtools.__version__}.dist-info",
    }
    assert [name for name in names if "demo" in name or name.endswith((".gguf", ".sse"))] == []


def test_the_wheel_takes_at_most_4_3_mb_unpacked(wheel: zipfile.ZipFile) -> None:
    assert sum(file.file_size for file in wheel.infolist()) <= 4_300_000


def test_the_wheel_carries_name_version_and_licence(wheel: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    text = wheel.read(metadata).decode()
    assert f"Name: streamtools\nVersion: {streamtools.__version__}\n" in text
    assert "License-Expression: Apache-2.0 AND BSD-3-Clause" in text
    assert metadata.replace("METADATA", "licenses/LICENSE") in wheel.namelist()
    notice = wheel.read(metadata.replace("METADATA", "licenses/NOTICE")).decode()
    vendored = {name.rpartition("/")[0] for name in wheel.namelist() if name.endswith(".json")}
    assert vendored
    assert all(folder.startswith("streamtools/schema/validation/metaschemas/") for folder in vendored)
    assert "streamtools/schema/validation/metaschemas/" in notice
