"""What a newcomer runs first: make, the continuous integration script, the wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import streamtools
from benchmarks.mutants import TESTED_BY

REPOSITORY = Path(__file__).resolve().parent.parent


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="there is no make here")


def make(*arguments: str, directory: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run make as a person would, also when these tests are run by make."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=directory, env=environment, capture_output=True, text=True, timeout=30, check=False
    )


# -- make ------------------------------------------------------------------------------------------------------


TARGETS = """
demo chat test test-all lint bench instructions mutants compare dist docs format
"""


@needs_make
def test_make_knows_its_targets_and_help_lists_them() -> None:
    listed = make("help").stdout
    assert [target for target in TARGETS.split() if make("-n", target).returncode] == []
    assert [line.split()[1] for line in listed.splitlines() if line.startswith("  make ")] == TARGETS.split()


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
@pytest.mark.parametrize(
    ("lack", "says"), [({"old": 1}, "needs Python 3.11 or newer"), ({"without_venv": 1}, "lacks its venv module")]
)
def test_make_says_what_python_lacks(lack: dict[str, int], says: str, tmp_path: Path) -> None:
    done = make("demo", newcomer(tmp_path, **lack), directory=tmp_path)  # type: ignore[arg-type]
    assert done.returncode != 0
    assert says in done.stderr
    assert not (tmp_path / ".venv").exists()


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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_the_wheel_holds_the_package_and_its_metadata_without_the_demo(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {name.partition("/")[0] for name in names} == {
        "streamtools",
        f"streamtools-{streamtools.__version__}.dist-info",
    }
    assert [name for name in names if "demo" in name or name.endswith((".gguf", ".sse"))] == []


@pytest.mark.thorough
def test_the_wheel_takes_at_most_4_1_mb_unpacked(wheel: zipfile.ZipFile) -> None:
    assert sum(file.file_size for file in wheel.infolist()) <= 4_100_000


@pytest.mark.thorough
def test_the_wheel_carries_name_version_and_licence(wheel: zipfile.ZipFile) -> None:
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    text = wheel.read(metadata).decode()
    assert f"Name: streamtools\nVersion: {streamtools.__version__}\n" in text
    assert "License-Expression: Apache-2.0 AND BSD-3-Clause" in text
    assert metadata.replace("METADATA", "licenses/LICENSE") in wheel.namelist()
    assert metadata.replace("METADATA", "licenses/NOTICE") in wheel.namelist()
    assert [name for name in wheel.namelist() if name.endswith(".json")] == []  # none is vendored


def test_every_module_and_every_test_of_the_table_exists() -> None:
    named = [*TESTED_BY, *(test for tests in TESTED_BY.values() for test in tests)]
    assert [name for name in named if not (REPOSITORY / name).is_file()] == []
    assert [path for path, tests in TESTED_BY.items() if len(set(tests)) < len(tests)] == []
