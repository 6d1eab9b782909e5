"""What is tried beside the development environment: `nox -l` lists the sessions, `nox -s agents` runs one.

Each has an environment of its own in ``.nox``, which is used again. What follows ``--`` is pytest's.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["peers"]
nox.options.error_on_missing_interpreters = False

JOBS = os.environ.get("JOBS", "2")
QUICK = "not sweep and not thorough"
MOST_CPU_S = 300.0
"""Of the quick tests with the peers. It is the CPU's time, so that a busy machine fails nothing."""

TESTING = ("anyio[trio]", "hypothesis>=6.120", "pytest>=8.3", "pytest-asyncio>=1.0", "pytest-xdist>=3.6")
PEERS = ("langgraph>=1.2", "langgraph-checkpoint-sqlite>=3.1", "pydantic-ai-slim[anthropic,openai]>=2.60")
"""One of each family: the SDKs of OpenAI, Anthropic and Google are among the development tools."""

AGENTS = (
    "agents_tap", "framework_tools", "langgraph", "langgraph_approvals", "langgraph_once",
    "pydantic_ai", "pydantic_ai_approvals", "pydantic_ai_once", "smolagents",
)  # fmt: skip
STRANDS = ("agents_tap", "framework_tools", "strands", "strands_once")
PAGES = ("test_ai_sdk.py", "test_ag_ui_client.py", "test_finished_messages.py", "test_chat_axe.py")
TOOL_BOUNDARY = tuple(f"tests/{name}" for name in ("tools", "exports", "interop", "modes", "history", "mcp"))
OLDEST_EXTRAS = "matrix,mcp,redis,postgres,compression,otlp,terminal,dbos,demo"
OLDEST = (
    "tests/test_oldest.py", *TOOL_BOUNDARY, "tests/telemetry", "tests/record", "tests/view", "tests/dispatch",
    "tests/pipelines", "tests/sources", "tests/web", "tests/durable", "tests/demo",
)  # fmt: skip
"""What reaches into a dependency; wires, framings and stages do not."""


def _tests(session: nox.Session, *arguments: str, jobs: str = JOBS, **environment: str) -> None:
    parallel = ("-n", jobs) if jobs else ()
    session.run("python", "-m", "pytest", *parallel, *arguments, *session.posargs, env=environment)


def _sdk_tests(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"tests/integrations/test_{name}_sdk.py" for name in names)


@nox.session
def peers(session: nox.Session) -> None:
    """The quick tests with a peer of each family installed; fails above a budget of CPU time."""
    session.install("-e", ".[dev]", *PEERS)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _tests(session, "-m", QUICK)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    session.log(f"{took:.0f} s of CPU; the budget is {MOST_CPU_S:.0f} s")
    if took > MOST_CPU_S:
        session.error("the quick tests have become dear: --durations=40 names those that cost most")


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def pythons(session: nox.Session) -> None:
    """The quick tests on each Python that is here."""
    session.install("-e", ".[dev]")
    _tests(session, "-m", QUICK)


@nox.session
@nox.parametrize("pydantic", ["2.11", "2.12"])
def pydantic(session: nox.Session, pydantic: str) -> None:
    """The tool boundary with each older pydantic."""
    session.install("-e", ".[matrix]", f"pydantic=={pydantic}.*")
    _tests(session, *TOOL_BOUNDARY, "tests/dispatch/test_dispatch.py")


@nox.session
def oldest(session: nox.Session) -> None:
    """The lowest version of each dependency and extra that pyproject.toml names."""
    lowest = Path(session.create_tmp()) / "lowest.txt"
    lowest.write_text(session.run_install("python", "tests/oldest.py", silent=True) or "", encoding="utf-8")
    session.install("-c", str(lowest), "-e", f".[{OLDEST_EXTRAS}]")
    _tests(session, "-m", QUICK, *OLDEST, "--ignore=tests/sources/test_sockets.py", STREAMTOOLS_OLDEST="1")


@nox.session
def integrations(session: nox.Session) -> None:
    """The SDKs themselves, against servers on this machine."""
    session.install("-e", ".[integrations]")
    npm = "npm install --prefix .aimock --no-package-lock --ignore-scripts --no-audit --no-fund --silent"
    session.run(*npm.split(), "@copilotkit/aimock@1.43.0", external=True, success_codes=range(256))
    more = (
        "tests/wires/test_bedrock.py",
        "tests/wires/test_gemini_history.py",
        "tests/framing/test_aws_eventstream.py",
    )
    _tests(session, "tests/integrations", *more)
    _tests(session, "tests/test_examples.py", "-k", "docs/providers")


@nox.session
def agents(session: nox.Session) -> None:
    """Agent frameworks: a tap under their clients, their calls, their tools."""
    session.install("-e", ".[agents]")
    _tests(session, *_sdk_tests(AGENTS))
    session.run("python", "examples/langgraph_tool_node.py")
    session.run("python", "examples/pydantic_ai_toolset.py")


@nox.session
def strands(session: nox.Session) -> None:
    """Frameworks that cannot live beside the others."""
    session.install("-e", ".[agents-strands]")
    _tests(session, *_sdk_tests(STRANDS))


@nox.session
def backends(session: nox.Session) -> None:
    """Traces in Phoenix and MLflow, as they read them."""
    session.install("-e", ".[backends]")
    _tests(session, "-p", "no:phoenix", "tests/backends", jobs="")


@nox.session
def web(session: nox.Session) -> None:
    """What the clients of pages, under node, make of 2,000 runs."""
    session.install("-e", ".[dev]")
    session.run("make", ".node-web/pages/.built", external=True)
    names = [f"tests/web/{name}" for name in PAGES]
    _tests(session, "-s", "--deadline", "1200", *names, jobs="", STREAMTOOLS_WEB_RUNS="2000")


@nox.session
def durable(session: nox.Session) -> None:
    """Runs whose process is killed at every point, under DBOS."""
    session.install("-e", ".[dbos]", *TESTING)
    _tests(session, "tests/durable/test_dbos_durable.py", jobs="")


SAME_BYTES = {
    "langgraph": ("langchain", "langchain-openai", "langgraph", "langgraph-checkpoint-sqlite"),
    "pydantic-ai": ("pydantic-ai-slim[openai,dbos]", "pydantic-ai-harness"),
    "openai-agents": ("openai-agents", "dbos-openai-agents"),
}
"""What the README's table compares, each in an environment of its own, in its newest version."""


@nox.session
def compare(session: nox.Session) -> None:
    """The same bytes, run by other loops (the README's table), then the same streams, read by other libraries."""
    session.install("-e", ".[compare]")
    pythons = []
    for name, packages in SAME_BYTES.items():
        pythons += ["--python", _other(session, name, "--upgrade", "-e", ".", *packages)]
    session.run("python", "-m", "benchmarks.same_bytes", *pythons)
    session.run("python", "docs/same_bytes.py")
    litellm = _other(session, "litellm", "-e", ".[compare-litellm]")
    session.run("python", "-m", "benchmarks.compare", "--python", litellm, *session.posargs)


def _other(session: nox.Session, name: str, *packages: str) -> str:
    folder = Path(session.create_tmp()) / name
    session.run("python", "-m", "venv", str(folder))
    session.run(str(folder / "bin/pip"), "install", "--quiet", *packages, external=True)
    return str(folder / "bin/python")


@nox.session
def soak(session: nox.Session) -> None:
    """Hours, not minutes: calls around their begin, interrupts."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "benchmarks.soak_double_runs", "10000")
    session.run("python", "-m", "benchmarks.soak_interrupts", "500")


@nox.session
def lock(session: nox.Session) -> None:
    """Write release/dev.lock again: the newest development tools, with their hashes."""
    session.install("uv>=0.9")
    session.run(*_RESOLVE, "--upgrade", "--output-file", "release/dev.lock")


@nox.session
def audit(session: nox.Session) -> None:
    """Does the lock meet pyproject.toml, and do the packages have its hashes?"""
    session.install("uv>=0.9")
    lock = Path("release/dev.lock")
    kept = Path(session.create_tmp()) / "dev.lock"
    kept.write_bytes(lock.read_bytes())
    session.run(*_RESOLVE, "--output-file", str(kept))
    if kept.read_bytes() != lock.read_bytes():
        session.error("pyproject.toml wants what the lock has not: nox -s lock")
    session.run(
        "uv", "pip", "install", "--require-hashes", "--no-deps", "--target", session.create_tmp(), "-r", str(lock)
    )


_RESOLVE = ("uv", "pip", "compile", "pyproject.toml", "--extra", "dev", "--extra", "demo", "--universal",
            "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url", "--no-header", "--no-annotate",
            "--quiet")  # fmt: skip


@nox.session
def dist(session: nox.Session) -> None:
    """Wheel, source distribution, SBOM and interface in dist/, built twice and tried outside the checkout."""
    session.install("-e", ".[release]", "mypy>=1.15", "pyright[nodejs]>=1.1.400")
    session.run("python", "-m", "release.dist", str(Path(session.bin)))


@nox.session
def api(session: nox.Session) -> None:
    """What breaks programs for a release: nox -s api -- --against WHEEL; else the interface."""
    session.install("-e", ".[release]")
    session.run("python", "-m", "release.api", *session.posargs)
