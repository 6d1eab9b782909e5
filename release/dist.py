"""Builds the wheel and the source distribution into dist/, and tries both as a user would: python -m release.dist BIN

Each is built twice, in two directories, and must be the same to the bit. Both are installed into empty venvs outside
the repository: a recording is replayed, mypy and pyright check a program against the installed types, and README's
program runs with the demo's model. Beside both lie an SBOM (CycloneDX) of what a bare installation brought that day,
the public interface as JSON, and the digests of all. BIN is the folder with mypy and pyright.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from .api import dumped

REPOSITORY = Path(__file__).resolve().parent.parent
MOST_BYTES = 3_930_000  # of the wheel, unpacked
UV = str(Path(sys.executable).with_name("uv"))
UNTRACKED = shutil.ignore_patterns(
    ".venv*", ".nox", ".git", "dist", "build", "traces", "__pycache__", ".*_cache", ".hypothesis"
)

WITH_MODEL = """
import os, runpy, sys
from demo.server import ModelServer
with ModelServer() as server:
    os.environ.update(OPENAI_BASE_URL=f"{server.url}/v1", OPENAI_API_KEY="unused")
    runpy.run_path(sys.argv[1], run_name="__main__")
"""

TYPED = '''\
"""A user's program; each line with an ignore is wrong, and would not be noticed without the library's types."""

from streamtools import Observation, TextDelta, Turn, parse, pipeline, tool


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def run(body: list[bytes]) -> Turn:
    async with pipeline(body, tools=[add]) as events:
        async for event in events:
            match event:
                case TextDelta(text=text):
                    length: str = len(text)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
                    print(length)
                case Observation(outcome=outcome):
                    print(outcome)
                case _:
                    pass
    return events.turn


number: int = parse(b"").text  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
pipeline([b""], tool=[add])  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
'''
STRICT = {
    "typeCheckingMode": "strict",
    "reportUnnecessaryTypeIgnoreComment": "error",
    "enableTypeIgnoreComments": False,
}


class Failed(Exception):
    """Ends the check of a release with a line."""


# -- building ----------------------------------------------------------------------------------------------------------


def epoch() -> str:
    """Returns the seconds since 1970 that files in the archives bear: those of the release's day in the changelog."""
    head = re.search(
        r"^## \[\d[^]]*\] - (\d{4}-\d\d-\d\d)$", (REPOSITORY / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE
    )
    if head is None:
        raise Failed("CHANGELOG.md has no head of a release: ## [0.1.0] - 2026-11-28")
    day = datetime.fromisoformat(head[1]).replace(tzinfo=UTC)
    return os.environ.get("SOURCE_DATE_EPOCH") or str(int(day.timestamp()))


def copied(to: Path) -> Path:
    """Copies the sources: in a checkout what git knows, since anything else lies there by chance."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=False)
    if listed.returncode != 0 or not listed.stdout:
        return shutil.copytree(REPOSITORY, to, ignore=UNTRACKED)
    for name in filter(None, listed.stdout.split("\0")):
        if (REPOSITORY / name).exists():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, to / name)
    return to


def built(sources: Path, into: Path) -> dict[str, bytes]:
    """Builds the source distribution, and the wheel from it; returns both by their names."""
    run([UV, "build", "--quiet", "--out-dir", str(into)], sources, SOURCE_DATE_EPOCH=epoch())
    return {path.name: path.read_bytes() for path in sorted(into.iterdir()) if path.suffix in (".gz", ".whl")}


def run(command: list[str], directory: Path, **environment: str) -> str:
    """Runs a command away from this environment, and returns what it printed."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "OPENAI_"))
    }
    done = subprocess.run(
        command,
        cwd=directory,
        env={**inherited, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def build_twice(work: Path, dist: Path) -> tuple[Path, Path]:
    """Builds in two directories; writes dist/, and returns the wheel and the unpacked sources."""
    first = built(copied(work / "here"), work / "first")
    again = built(copied(work / "elsewhere" / "deeper"), work / "again")
    if first != again:
        raise Failed(f"a second build differs: {', '.join(name for name in first if first[name] != again.get(name))}")
    sdist, wheel = (next(name for name in first if name.endswith(end)) for end in (".tar.gz", ".whl"))
    shutil.unpack_archive(work / "first" / sdist, work / "unpacked", filter="data")
    (unpacked,) = (work / "unpacked").iterdir()
    print(f"built twice, bit-identical, the wheel from the source distribution (SOURCE_DATE_EPOCH={epoch()})")
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    for name, content in first.items():
        (dist / name).write_bytes(content)
    return dist / wheel, unpacked


def measured(wheel: Path) -> None:
    """Prints how large the wheel is, and what is largest in it."""
    with zipfile.ZipFile(wheel) as archive:
        files = {file.filename: file.file_size for file in archive.infolist()}
    if bad := [name for name in files if not name.startswith(("streamtools/", wheel.name.partition("-py3")[0]))]:
        raise Failed(f"the wheel has files of others: {bad}")
    folders = Counter[str]()
    for name, size in files.items():
        folders["/".join(name.split("/")[:2]) if name.count("/") > 1 else name] += size
    total = sum(files.values())
    print(f"{wheel.name}: {wheel.stat().st_size:,} bytes, unpacked {total:,} in {len(files)} files; largest:")
    for name, size in folders.most_common(6):
        print(f"    {size:>9,}  {name}")
    if total > MOST_BYTES:
        raise Failed(f"unpacked, the wheel has {total:,} bytes, and may have {MOST_BYTES:,}")


# -- trying ------------------------------------------------------------------------------------------------------------


def installed(venv: Path, *what: str) -> Path:
    """Makes a venv without pip, installs into it, and returns its Python."""
    run([UV, "venv", "--quiet", "--python", sys.executable, str(venv)], venv.parent)
    python = venv / "bin" / "python"
    run([UV, "pip", "install", "--quiet", "--python", str(python), *what], venv.parent)
    return python


def bill_of_materials(python: Path, into: Path) -> None:
    """Writes the SBOM of a venv that has the wheel alone."""
    program = [str(Path(sys.executable).with_name("cyclonedx-py")), "environment", str(python), "--output-reproducible"]
    program += ["--pyproject", str(REPOSITORY / "pyproject.toml"), "--mc-type", "library"]
    bill = json.loads(run(program, into.parent, SOURCE_DATE_EPOCH=epoch()))
    bill["metadata"]["component"]["version"] = into.name.removeprefix("streamtools-").removesuffix(".cdx.json")
    for component in bill["components"]:  # pip notes where on this machine the wheel lay
        found = component.get("externalReferences", [])
        component["externalReferences"] = [one for one in found if not one["url"].startswith("file:")]
    text = json.dumps(bill, indent=1) + "\n"
    if "file:" in text or str(into.parent.parent) in text:
        raise Failed("the SBOM names a directory of this machine")
    into.write_text(text, encoding="utf-8")
    names = [f"{component['name']} {component['version']}" for component in bill["components"]]
    print(f"{into.name}: {len(names)} components: {', '.join(names)}")


def tried(work: Path, wheel: Path, sdist: Path, sources: Path, bill: Path, tools: Path) -> None:
    """Installs wheel and source distribution, and uses them as a user would."""
    outside = work / "outside"
    outside.mkdir()
    bare = installed(work / "bare", str(wheel))
    bill_of_materials(bare, bill)
    where = run(
        [str(bare), "-c", "import streamtools; print(streamtools.__file__, streamtools.__version__)"], outside
    ).split()
    if not Path(where[0]).is_relative_to(work / "bare") or f"-{where[1]}-" not in wheel.name:
        raise Failed(f"the wheel was not imported: {where}")
    user = installed(work / "user", f"{sdist}[demo]", "openai")
    shutil.copytree(sources / "demo", outside / "demo")
    run([str(user), "-m", "demo", "--replay", "--trace", "run.json"], outside)  # OTLP's encoder is an extra
    shown = run([str(bare.with_name("streamtools")), "replay", "run.jsonl", "--fast"], outside)
    if "step 1" not in shown or " ok = " not in shown:
        raise Failed(f"a replay without extras shows {shown!r}")
    print("a bare installation of the wheel: imported, the demo's recording replayed")

    program = re.search(
        r"<!-- runs: tiny-model -->\n```python\n(.*?)^```$",
        (sources / "README.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert program is not None, "README has a program that runs with the model"
    (outside / "readme.py").write_text(program[1], encoding="utf-8")
    said = run([str(user), "-c", WITH_MODEL, "readme.py"], outside)
    if said.count("[get_weather: ok, ") < 3:
        raise Failed(f"README's program printed {said!r}")
    print("the source distribution with its demo: README's program ran, its model called three tools")

    (outside / "typed.py").write_text(TYPED, encoding="utf-8")
    (outside / "pyrightconfig.json").write_text(json.dumps(STRICT), encoding="utf-8")
    print(
        "mypy:", run([str(tools / "mypy"), "--strict", "--python-executable", str(bare), "typed.py"], outside).strip()
    )
    checked = run([str(tools / "pyright"), "--pythonpath", str(bare), "typed.py"], outside)
    print("pyright:", checked.strip())


def main() -> int:
    """Makes and tries a release; 1 if anything is wrong with it."""
    dist, tools = REPOSITORY / "dist", Path(sys.argv[1]).absolute()
    try:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder).resolve()
            wheel, sources = build_twice(work, dist)
            (sdist,) = dist.glob("*.tar.gz")
            measured(wheel)
            print(f"{sdist.name}: {sdist.stat().st_size:,} bytes, with tests, docs and the demo's model")
            name = sdist.name.removesuffix(".tar.gz")
            tried(work, wheel, sdist, sources, dist / f"{name}.cdx.json", tools)
            (dist / f"{name}.api.json").write_text(dumped(sources), encoding="utf-8")
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    files = sorted(path for path in dist.iterdir())
    digests = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)
    (dist / "SHA256SUMS").write_text(digests, encoding="utf-8")
    print(digests, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
