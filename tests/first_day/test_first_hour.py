"""The first hour: an extra that is not installed, a key that is not set, the other event loop, another thread."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import anyio.to_thread
import pytest
from streams import chat

from streamtools import pipeline, tool
from streamtools.errors import LocalProtocolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PATIENCE_S = 60

WITHOUT = """
import sys
for name in ("redis", "opentelemetry.exporter.otlp.proto.http.trace_exporter"):
    sys.modules[name] = None  # as if it were not installed

def redis():
    from streamtools.dispatch import RedisStore

def otlp():
    from streamtools.telemetry import configure
    configure("otlp")

for use in (redis, otlp):
    try:
        use()
    except ImportError as error:
        print(error)
"""


@tool(needs_approval=True)
async def pay(to: str) -> str:
    """Pay somebody."""
    return "paid"


PAYING = chat([], [("c1", "pay", '{"to": "Ada"}')])


def run(program: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "ANTHROPIC_"))}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        env={**kept, "PYTHONPATH": str(REPOSITORY), **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_an_extra_that_is_missing_is_named_with_its_installation(tmp_path: Path) -> None:
    done = run(WITHOUT, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "the client of Redis is not installed; install the extra `redis`: pip install 'path/to/checkout[redis]'",
        "the OTLP exporter is not installed; install the extra `otlp`: pip install 'path/to/checkout[otlp]'",
    ]


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_pipeline_without_a_block_wants_a_nursery_on_trio() -> None:
    with pytest.raises(TypeError, match="nursery"):
        pipeline(PAYING, tools=[pay]).open()


@pytest.mark.anyio
async def test_a_button_in_another_thread_is_told_the_way_into_the_loop() -> None:
    async with pipeline(PAYING, tools=[pay]) as events:
        await events.finish()
        with pytest.raises(LocalProtocolError, match=r"anyio\.from_thread\.run_sync\(events\.approve"):
            await anyio.to_thread.run_sync(events.approve, "c1")
        assert events.approve("c1")
        turn = await events.finish()
    assert turn.observations[0].outcome == "ok"
