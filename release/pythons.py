"""Runs the quick tests on each Python that is here: python -m release.pythons [--jobs N] [VERSION ...] [-- PYTEST ...]

A Python is looked for on the PATH and among pyenv's versions, and has a venv of its own with the development tools. One
that is missing is named, and is no failure.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
WANTED = ("3.11", "3.12", "3.13", "3.14")
"""The versions that are looked for: those of the classifiers, and the newest."""
PROGRAM = "import sys; print('%d.%d %s' % (*sys.version_info[:2], sys.version.split()[0]))"


def found(wanted: str) -> Path | None:
    """Returns a Python of that version; a shim of pyenv for a version that is not chosen does not start."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    paths = [Path(folder) / f"python{wanted}" for folder in os.get_exec_path()]
    for path in [*paths, *sorted(pyenv.glob(f"{wanted}.*/bin/python"), reverse=True)]:
        if os.access(path, os.X_OK) and _version(path).startswith(f"{wanted} "):
            return path
    return None


def _version(python: Path) -> str:
    done = subprocess.run([python, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else ""


def tested(wanted: str, python: Path, jobs: str, more: list[str]) -> str:
    """Installs and tests; returns the last line of pytest, or how it failed."""
    venv = REPOSITORY / f".venv-python-{wanted}"
    inside = str(venv / "bin" / "python")
    stamp = venv / ".installed"
    if not stamp.exists() or stamp.stat().st_mtime < (REPOSITORY / "pyproject.toml").stat().st_mtime:
        print(f"Installing streamtools[dev] into {venv.name} (once) ...", flush=True)
        subprocess.run([python, "-m", "venv", "--clear", venv], check=True)
        pip = [inside, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "-e"]
        if subprocess.run([*pip, ".[dev,demo]"], cwd=REPOSITORY, check=False).returncode != 0:
            print("The demo's model server cannot be installed; its tests are skipped.", file=sys.stderr)
            subprocess.run([*pip, ".[dev]"], cwd=REPOSITORY, check=True)
        stamp.touch()
    command = [inside, "-m", "pytest", "-n", jobs, "-m", "not sweep and not thorough", *more]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        last = ""
        for line in running.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return last if running.returncode == 0 else f"FAILED: {last}"


def main() -> int:
    """Tests each wanted version that is here; 1 if one fails or none is here."""
    parser = argparse.ArgumentParser(description="runs the quick tests on each Python that is here")
    parser.add_argument("versions", nargs="*", default=list(WANTED), metavar="VERSION")
    parser.add_argument("--jobs", default="2", help="pytest's workers")
    parser.add_argument("--pytest", nargs=argparse.REMAINDER, default=[], help="all that follows is pytest's")
    options = parser.parse_args()
    pythons = {wanted: found(wanted) for wanted in options.versions}
    results = {
        wanted: tested(wanted, python, options.jobs, options.pytest) for wanted, python in pythons.items() if python
    }
    for wanted, python in pythons.items():
        print(f"Python {wanted}: {results[wanted]} ({_version(python).split()[1]})" if python else
              f"Python {wanted}: not here, so nothing was tested with it")  # fmt: skip
    return 0 if results and not any(one.startswith("FAILED") for one in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
