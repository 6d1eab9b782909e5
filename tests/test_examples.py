"""What we show runs: the python blocks of README and of `PAGES`, the files in ``examples/`` and the doctests.

A block runs on its own, in a process of its own, with ``await`` allowed at the top. A comment on the line
before its fence says otherwise:

    <!-- runs: tiny-model -->      with the demo's model server behind the OpenAI and the Anthropic SDK
    <!-- runs: scripted-model -->  with `ScriptedModel` behind the SDKs of the other wires, where they are installed
    <!-- continues -->             as one program with the block before
    <!-- not run: <why> -->        not at all

Examples have no key, and begin the model's server themselves. Both run in an empty directory, so that what they write
goes away. The processes are forked off one that has loaded what nearly all of them load.
"""

from __future__ import annotations

import atexit
import doctest
import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from profiles import every, mostly_thorough, thorough_unless
from scripted_model import ANSWER, ScriptedModel, variables

REPOSITORY = Path(__file__).resolve().parent.parent
README = REPOSITORY / "README.md"
DOCS = REPOSITORY / "docs"
PAGES = [
    README,
    DOCS / "index.md",
    DOCS / "reference" / "events.md",
    DOCS / "reference" / "from-the-design-documents.md",
    *sorted(
        page
        for folder in ("start", "guide", "web", "providers", "see")
        for page in (DOCS / folder).glob("*.md")
        if page.name != "testing.md"  # tests/users/test_page_about_testing.py runs it
    ),
]
WANTS = {  # sessions of nox run these
    "dbos_durable.py": "dbos",
    "langgraph_tool_node.py": "langgraph",
    "pydantic_ai_toolset.py": "pydantic_ai",
}
LOCAL_MODEL = "local_model"  # the module beside the examples that finds them a model
EXAMPLES = sorted(path for path in (REPOSITORY / "examples").glob("*.py") if path.stem != LOCAL_MODEL)
PATIENCE_S = 120  # a program takes a second or two; one that hangs must not take the whole run with it

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MARKER = re.compile(r"<!-- (runs: (?:tiny|scripted)-model|continues|not run: \S.*) -->")

FORKS = """
import ast, asyncio, atexit, gc, json, os, runpy, signal, sys, threading, types
import anyio, anyio._backends._asyncio, httpx, orjson, pydantic
for sdk in ("openai", "anthropic"):
    try:
        __import__(sdk)
    except ImportError:
        pass
from streamtools import agent_loop, pipeline, tool

gc.freeze()
for line in sys.stdin:
    asked = json.loads(line)
    pid = os.fork()
    if pid == 0:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()

signal.alarm(asked["patience_s"])
os.chdir(asked["directory"])
os.environ.clear()
os.environ.update(asked["environment"])
for number, name in enumerate((os.devnull, asked["out"], asked["err"])):
    os.dup2(os.open(name, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
path, *_ = sys.argv = asked["arguments"]
sys.path[:0] = asked["path"]
try:
    if asked["is_script"]:
        sys.path.insert(0, os.path.dirname(path))
        runpy.run_path(path, run_name="__main__")
    else:
        sys.modules["__main__"] = main = types.ModuleType("__main__")
        with open(path, encoding="utf-8") as file:
            source = file.read()
        if asked["is_redirected"]:
            from scripted_model import redirect
            redirect(source)
        coroutine = eval(compile(source, path, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), main.__dict__)
        if coroutine is not None:
            asyncio.run(coroutine)
    status = 0
except SystemExit as left:
    status = left.code if isinstance(left.code, int) else int(left.code is not None)
    if status and not isinstance(left.code, int):
        print(left.code, file=sys.stderr)
except BaseException:
    status = 1
    sys.excepthook(*sys.exc_info())
# As an interpreter ends, but for tearing down all that was loaded, which takes longer than most programs.
threading._shutdown()
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(status)
"""


@dataclass
class Program:
    """Blocks of a page that run together, each at its own line, so that a traceback names the page's lines."""

    line: int
    source: str
    model: str
    """Which answers: "tiny-model", "scripted-model", or "" for none."""

    def missing(self) -> str:
        """The name of a package that the program imports and that is not installed here, or ""."""
        imported = re.findall(r"^(?:from|import) ([\w.]+)", self.source, re.MULTILINE)
        return next((name for name in imported if not installed(name)), "")


def installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package around it
        return False


def programs(page: str) -> list[Program]:
    """The python blocks of a page that run, in order."""
    found: list[Program] = []
    current: Program | None = None
    for block in BLOCK.finditer(page):
        line = page.count("\n", 0, block.start(1)) + 1
        marker = marker_before(page, block.start())
        if marker == "continues":
            if current is None:
                raise ValueError(f"line {line}: there is no block that runs before this one")
            current.source += "\n" * (line - 1 - current.source.count("\n")) + block[1]
        elif marker.startswith("not run"):
            current = None
        else:
            current = Program(line, "\n" * (line - 1) + block[1], marker.removeprefix("runs: "))
            found.append(current)
    return found


def marker_before(page: str, position: int) -> str:
    """What the comment on the line before says; "" if that line is no comment."""
    line = page[:position].rstrip("\n").rpartition("\n")[2].strip()
    marker = MARKER.fullmatch(line)
    if line.startswith("<!--") and marker is None:
        raise ValueError(f"not a marker: {line}")
    return marker[1] if marker else ""


def provider(url: str) -> dict[str, str]:
    """The variables in which the SDKs look for a provider."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "unused",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "unused",
    }


@dataclass
class Ran:
    """What came of a program."""

    returncode: int
    stdout: str
    stderr: str


@cache
def forks() -> subprocess.Popen[str]:
    """The process that the programs are forked off, one for all tests."""
    server = subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.communicate)  # which ends it
    return server


def run(
    *arguments: str,
    directory: Path,
    model_url: str | None = None,
    environment: dict[str, str] | None = None,
    is_script: bool = True,
) -> Ran:
    """Runs a script with these arguments, or the blocks of a page."""
    inherited = {name: value for name, value in os.environ.items() if name not in provider("") | variables("", "")}
    path = [str(REPOSITORY), str(REPOSITORY / "tests")] if environment else [str(REPOSITORY)]
    more = environment or (provider(model_url) if model_url else {})
    out, err = directory / ".out", directory / ".err"
    asked = {
        "arguments": arguments,
        "directory": str(directory),
        "environment": {**inherited, "PYTHONPATH": os.pathsep.join(path), **more},
        "path": path,
        "out": str(out),
        "err": str(err),
        "is_script": is_script,
        "is_redirected": environment is not None,
        "patience_s": PATIENCE_S,
    }
    server = forks()
    assert server.stdout is not None
    server.stdin.write(json.dumps(asked) + "\n")
    server.stdin.flush()
    try:
        status = int(server.stdout.readline())
    except BaseException:  # past the test's deadline: what comes late must not answer the next test
        forks.cache_clear()
        server.kill()
        raise
    ran = Ran(status, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
    out.unlink()
    err.unlink()
    return ran


def run_program(
    program: Program, directory: Path, model_url: str | None = None, environment: dict[str, str] | None = None
) -> str:
    """Run it; its output. Fails the test with the traceback."""
    file = directory / "README.md"
    file.write_text(program.source, encoding="utf-8")
    done = run(str(file), directory=directory, model_url=model_url, environment=environment, is_script=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """The demo's model server, for the session."""
    pytest.importorskip("xllamacpp", reason="the demo's model server is not installed")
    from demo.server import ModelServer

    with ModelServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def scripted() -> Iterator[dict[str, str]]:
    """The variables of the scripted model, for the session."""
    with ScriptedModel() as model:
        yield model.variables


# -- pages ----------------------------------------------------------------------------------------------------

FIRST = {page.parent: page for page in reversed(PAGES)}
"""A page of each folder, for `make test`."""
PROGRAMS = [
    pytest.param(
        found,
        id=f"{page.relative_to(REPOSITORY)}{' with the model' if model else ''}",
        marks=[] if FIRST[page.parent] == page and not model else pytest.mark.thorough,
    )
    for page in PAGES
    for model in ("", "tiny-model", "scripted-model")
    if (found := [one for one in programs(page.read_text(encoding="utf-8")) if one.model == model])
]


def test_each_page_shows_code() -> None:
    """Pages about what is not installed here show it too; the example that they name runs where it is."""
    assert all(BLOCK.search(page.read_text(encoding="utf-8")) for page in PAGES)


@pytest.mark.parametrize("blocks", PROGRAMS)
def test_the_blocks_of_a_page_run(blocks: list[Program], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    missing = {block.line: block.missing() for block in blocks}
    if all(missing.values()):
        pytest.skip(f"the page runs where {', '.join(sorted({*missing.values()}))} is installed")
    model_url = request.getfixturevalue("model_url") if blocks[0].model == "tiny-model" else None
    environment = request.getfixturevalue("scripted") if blocks[0].model == "scripted-model" else None
    for block in (one for one in blocks if not missing[one.line]):
        directory = tmp_path / str(block.line)
        directory.mkdir()
        printed = run_program(block, directory, model_url, environment)
        if block.model == "scripted-model":
            assert "tool_name='get_weather', outcome='ok'" in printed
            assert (ANSWER in printed) is (block.source.count("pipeline(") == 2)


PAGE = """\
# Title
```python
x = 1
```
<!-- continues -->
```python
await __import__("asyncio").sleep(0)
print(x + 1)
```
<!-- not run: it is a fragment -->
```python
...
```
<!-- runs: tiny-model -->
```python
import os
print(os.environ["OPENAI_BASE_URL"])
```
```console
$ not python
```
"""


def test_a_block_with_the_model_finds_it_where_the_sdks_look(tmp_path: Path) -> None:
    assert run_program(programs(PAGE)[1], tmp_path, "http://127.0.0.1:9") == "http://127.0.0.1:9/v1\n"


# -- examples --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", thorough_unless(lambda path: path.name == "httpx_response.py", EXAMPLES), ids=lambda path: path.name
)
def test_an_example_runs_without_a_key_and_prints_something(path: Path, tmp_path: Path) -> None:
    if path.name in WANTS:
        pytest.importorskip(WANTS[path.name], reason=f"{path.name} runs where {WANTS[path.name]} is installed")
    if path in ASKING:
        pytest.importorskip("xllamacpp", reason=NO_SERVER)
    done = run(str(path), directory=tmp_path, model_url=None)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert ("The tiny model on this machine answers." in done.stderr) is (path in ASKING)


NO_SERVER = "THE MODEL SERVER IS NOT INSTALLED: no example asked a model"
ASKING = [path for path in EXAMPLES if LOCAL_MODEL in path.read_text(encoding="utf-8")]
"""The examples that ask a model."""
NOWHERE = "http://127.0.0.1:9"


@pytest.mark.thorough
def test_local_takes_the_tiny_model_though_there_is_a_key(tmp_path: Path) -> None:
    pytest.importorskip("xllamacpp", reason=NO_SERVER)
    done = run(str(ASKING[0]), "--local", directory=tmp_path, model_url=NOWHERE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_with_a_key_the_provider_is_asked(tmp_path: Path) -> None:
    program = "import os, local_model as m; m.use_model('OPENAI_API_KEY'); print(os.environ['OPENAI_BASE_URL'])"
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.append({str(REPOSITORY / 'examples')!r})\n{program}\n", encoding="utf-8")
    assert run(str(script), directory=tmp_path, model_url=NOWHERE).stdout == f"{NOWHERE}/v1\n"


@every("path", mostly_thorough(ASKING, 1))
def test_without_a_key_and_a_model_an_example_says_in_one_line_what_is_missing(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import runpy, sys\nsys.modules['xllamacpp'] = None\nsys.path.append(sys.argv[2])\n"
        "runpy.run_path(sys.argv[1], run_name='__main__')\n",
        encoding="utf-8",
    )
    done = run(str(script), str(path), str(path.parent), directory=tmp_path, model_url=None)
    assert done.returncode == 1
    assert done.stderr.startswith("There is no key, and the model for this machine is not installed; in the repository")
    assert done.stderr.count("\n") == 1


@pytest.mark.costly
@every("place", ["--sqlite", pytest.param("", marks=pytest.mark.thorough)])
def test_four_workers_go_on_with_what_a_killed_one_has_begun(place: str) -> None:
    for name in ("starlette", "uvicorn", "psycopg"):
        pytest.importorskip(name, reason=f"examples/replicas runs where {name} is installed")
    command = [sys.executable, "-m", "examples.replicas", "--demo", *place.split()]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if "There is no Postgres" in done.stderr:
        pytest.skip("THERE IS NO POSTGRES: the example with four workers was tried with a file alone")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("is killed, with kill -9.") == done.stdout.count("has ended by SIGKILL") == 2
    assert done.stdout.count("book: ok, has run") == 1
    assert done.stdout.endswith(
        "All 4 workers have the same conversation: True\nBooked: ['booked 2 berths on Lusitania 335 for 118 EUR']\n"
    )


# -- doctests --------------------------------------------------------------------------------------------------

WITH_DOCTESTS = sorted(
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts).removesuffix(".__init__")
    for package in ("streamtools", "demo")
    for path in (REPOSITORY / package).rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


@every("name", WITH_DOCTESTS)
def test_the_doctests_hold(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0
