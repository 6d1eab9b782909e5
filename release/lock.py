"""Keeps the lock of the development tools, with hashes, for every Python and platform: python -m release.lock [--check]

The lock names packages, versions and digests, and no index: any mirror of the same files serves it. With ``--check``
it is compared with pyproject.toml, and each package is downloaded and its digest compared.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).resolve().parent.parent
LOCK = REPOSITORY / "release" / "dev.lock"
EXTRAS = ("dev", "demo")
HEAD = "# Written by `make lock`, of pyproject.toml's dependencies with the extras dev and demo.\n"


def written() -> str:
    """Resolves the newest versions, and returns the lock."""
    uv = str(Path(sys.executable).with_name("uv"))
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    command = [uv, "pip", "compile", "pyproject.toml", *extras, "--universal", "--python-version", "3.11", "--upgrade"]
    command += ["--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return HEAD + done.stdout


def pins(text: str) -> Iterator[tuple[str, str, Marker | None, int]]:
    """Yields each package of a lock: its name, version, marker and number of hashes."""
    for block in re.split(r"\n(?=\S)", text.strip()):
        if block.startswith(("-", "#")):  # an option, a comment
            continue
        head, *hashes = re.split(r" \\\n +", block)
        requirement = Requirement(head)
        (pin,) = requirement.specifier
        counted = sum(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) is not None for one in hashes)
        yield canonicalize_name(requirement.name), pin.version, requirement.marker, counted


def wanted(extras: tuple[str, ...] = EXTRAS) -> Iterator[Requirement]:
    """Yields the requirements of pyproject.toml, with those of the extras that name others."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    listed = list(project["dependencies"])
    for extra in extras:
        listed += project["optional-dependencies"][extra]
    for requirement in map(Requirement, listed):
        if requirement.name == project["name"]:
            yield from wanted(tuple(requirement.extras))
        else:
            yield requirement


def faults(text: str) -> list[str]:
    """Returns the faults of a lock: a place in it, a package without a hash, a requirement that it does not meet."""
    found = [f"the lock names a place: {place}" for place in re.findall(r"\S+://\S+", text)]
    versions: dict[str, list[str]] = {}
    for name, version, _, hashes in pins(text):
        versions.setdefault(name, []).append(version)
        if not hashes:
            found.append(f"{name} {version} has no hash")
    for requirement in wanted():
        have = versions.get(canonicalize_name(requirement.name), [])
        if not have or not all(requirement.specifier.contains(one, prereleases=True) for one in have):
            found.append(f"pyproject.toml wants {requirement}, the lock has {', '.join(have) or 'none'}: make lock")
    return found


def main() -> int:
    """Writes the lock, or checks it; 1 if it is not current."""
    parser = argparse.ArgumentParser(description="the lock of the development tools")
    parser.add_argument("--check", action="store_true", help="write nothing")
    if not parser.parse_args().check:
        LOCK.write_text(written(), encoding="utf-8")
    text = LOCK.read_text(encoding="utf-8")
    if found := faults(text):
        print("\n".join(found))
        return 1
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download", "--no-deps"]
        command += ["--require-hashes", "--dest", folder, "-r", str(LOCK)]
        if subprocess.run(command, check=False).returncode != 0:
            return 1
        files = len(list(Path(folder).iterdir()))
    here = sum(marker is None or marker.evaluate() for _, _, marker, _ in pins(text))
    print(f"{LOCK.name}: {here} packages here, {files} downloaded and their hashes compared; it meets pyproject.toml")
    return 0


if __name__ == "__main__":
    sys.exit(main())
