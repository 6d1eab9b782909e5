"""The demo: a model on this machine calls tools while it streams, and one sees it happen.

`run` starts the llama.cpp server in this process, asks it a question and shows what follows. `converse` is the agent's
loop, as short as it gets with `pipeline`. Where the server cannot be installed, a recording of the same model answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from streamtools import Trajectory, pipeline
from streamtools.telemetry import Tracing, configure

from .errors import DemoError
from .model import WIRES, Ask, Messages, asking
from .replay import QUESTION, instead, replaying
from .server import MODEL, ModelServer, installed
from .show import Show
from .terminal import Terminal
from .tools import TOOLS

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

__all__ = ["QUESTION", "TRACE", "WIRES", "DemoError", "Options", "converse", "run"]

TRACE = Path("traces", "demo.json")
"""Where the spans are written by default."""

MAX_TURNS = 8  # a model that goes on calling tools for longer will not come to an end


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the demo's user may choose."""

    question: str = QUESTION
    wire: str = WIRES[0]
    model: Path | None = None
    """A GGUF file; by default the model in this folder."""
    port: int | None = None
    """Where the server listens; by default on any port that is free."""
    replay: bool = False
    """Play the recording, also where the server could run."""
    verbose: bool = False
    """Let the server write its log to standard error."""
    trace: Path = TRACE


async def converse(question: str, ask: Ask, show: Show, *, wire: str, trajectory: Trajectory) -> str:
    """Ask the model, run the tools that it calls, send it the results, until it answers.

    Raises:
        DemoError: the model calls tools without an end.
        StreamError: a response broke off.
    """
    messages: Messages = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        show.request()
        async with pipeline(await ask(messages), tools=TOOLS, wire=wire, trajectory=trajectory) as events:
            async for event in events:
                await show.event(event)
        if not events.turn.observations:
            return events.turn.text
        messages += events.turn.messages()
    raise DemoError(f"the model still calls tools after {MAX_TURNS} turns, so the demo stops")


def run(options: Options, out: TextIO) -> None:
    """Run the demo and show it on `out`.

    Raises:
        DemoError: something that the user has chosen does not work; one line says why.
        StreamError: a response broke off.
    """
    terminal = Terminal.of(out)
    if options.verbose:  # the log would be written in between
        terminal = replace(terminal, live=False)
    show = Show(out, terminal)
    with ExitStack() as stack:
        replay = options.replay or not installed()
        model, described = _replayed(options) if replay else _served(options, stack)
        provider = stack.enter_context(_traced(options.trace))
        show.say("model", described)
        show.say("wire", options.wire)
        show.say("tools", ", ".join(tool.name for tool in TOOLS))
        asyncio.run(_talk(options, model, show, provider))
    show.blank()
    show.timeline()
    show.blank()
    show.file("trace", options.trace, "for the Jaeger UI: Search, Upload")


async def _talk(
    options: Options, model: AbstractAsyncContextManager[Ask], show: Show, provider: TracerProvider
) -> None:
    show.blank()
    show.say("you", options.question)
    trajectory = Trajectory(observers=[Tracing(provider)])
    tracer = provider.get_tracer("demo")
    # One span around the steps makes them one trace.
    with tracer.start_as_current_span("demo", record_exception=False, set_status_on_exception=False):
        async with model as ask:
            with show.running():
                await converse(options.question, ask, show, wire=options.wire, trajectory=trajectory)


def _served(options: Options, stack: ExitStack) -> tuple[AbstractAsyncContextManager[Ask], str]:
    """The model itself, and what to say of it."""
    file = options.model or MODEL
    server = stack.enter_context(ModelServer(file, port=options.port or 0, verbose=options.verbose))
    described = f"{file.name}, {file.stat().st_size / 1e6:.1f} MB, served by llama.cpp at {server.url}"
    return asking(server.url, options.wire, file.name), described


def _replayed(options: Options) -> tuple[AbstractAsyncContextManager[Ask], str]:
    """A recording of it, and what to say of that."""
    if options.model is not None or options.port is not None:
        raise DemoError(f"a recording has no model file and no port; for the model itself: {instead()}")
    ask = replaying(options.question, options.wire)
    why = "as you asked" if options.replay else "its server is not installed here"
    described = f"{MODEL.name}, replayed from a recording: {why}\nfor the model itself: {instead()}"
    return nullcontext(ask), described


@contextmanager
def _traced(path: Path) -> Iterator[TracerProvider]:
    """Spans go into the file while the block runs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        telemetry = configure("jaeger-file", service_name="streamtools-demo", path=path, set_global=False)
    except OSError as error:
        raise DemoError(f"cannot write the trace to {path}: {error.strerror}") from error
    with telemetry:
        yield telemetry.provider
