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
from streamtools.record import record
from streamtools.stages import DEFAULT, StageList
from streamtools.telemetry import Tracing, configure
from streamtools.view import Watch, page, write_private

from .collector import Collector
from .errors import DemoError
from .model import IN_TEXT, WIRES, Ask, Messages, asking, leaves_text, paced
from .replay import QUESTION, instead, replaying
from .server import MODEL, ModelServer, installed
from .show import Show
from .terminal import Terminal
from .tools import TOOLS

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from streamtools.observers import Observer

__all__ = ["PACE", "QUESTION", "TRACE", "WIRES", "DemoError", "Options", "converse", "run"]

TRACE = Path("traces", "demo.json")
"""Where the spans are written by default."""

PACE = 60.0  # pieces a second, as hosted models write
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
    server_reads_calls: bool = False
    """Let the server find the calls: then none of them ends before its response does."""
    pace: float = PACE
    """How many pieces a second the model writes; 0 for as many as it can."""

    @property
    def in_text(self) -> bool:
        """Whether the calls are read here, in the model's text, where each ends at its own closing marker."""
        return leaves_text(self.wire) and not self.server_reads_calls


async def converse(
    question: str,
    ask: Ask,
    show: Show,
    *,
    wire: str,
    trajectory: Trajectory,
    stages: StageList = DEFAULT,
    pace: float = 0,
) -> str:
    """Ask the model, run the tools that it calls, send it the results, until it answers.

    Raises:
        DemoError: the model calls tools without an end.
        StreamError: a response broke off.
    """
    messages: Messages = [{"role": "user", "content": question}]
    for _ in range(MAX_TURNS):
        show.request()
        response = await ask(messages)
        stream = paced(response, pace) if pace else response
        asked = {"messages": messages}
        async with pipeline(
            stream, tools=TOOLS, wire=wire, stages=stages, trajectory=trajectory, request=asked
        ) as events:
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
    collector = Collector.of_environment()
    with ExitStack() as stack:
        replay = options.replay or not installed()
        model, described = _replayed(options) if replay else _served(options, stack)
        provider = stack.enter_context(_traced(options.trace))
        if collector is not None:
            collector.listen(provider)
        show.say("model", described)
        show.say("wire", options.wire)
        show.say("tools", ", ".join(tool.name for tool in TOOLS))
        watch = Watch(options.question)
        recording = options.trace.with_suffix(".jsonl")
        recording.unlink(missing_ok=True)
        asyncio.run(_talk(options, model, show, [Tracing(provider), watch, record(recording)]))
    picture = options.trace.with_suffix(".html")
    write_private(picture, page(watch))
    show.blank()
    show.timeline()
    show.blank()
    show.file("page", picture, "open it in a browser")
    show.file("trace", options.trace, "for the Jaeger UI: Search, Upload")
    show.file("run", recording, "streamtools replay FILE")
    if collector is not None:
        show.say("spans", collector.send())


async def _talk(
    options: Options, model: AbstractAsyncContextManager[Ask], show: Show, observers: list[Observer]
) -> None:
    show.blank()
    show.say("you", options.question)
    trajectory = Trajectory(name="demo", observers=observers)
    stages = IN_TEXT if options.in_text else DEFAULT
    async with model as ask, trajectory:
        with show.running():
            await converse(
                options.question,
                ask,
                show,
                wire=options.wire,
                trajectory=trajectory,
                stages=stages,
                pace=options.pace,
            )


def _served(options: Options, stack: ExitStack) -> tuple[AbstractAsyncContextManager[Ask], str]:
    """The model itself, and what to say of it."""
    file = options.model or MODEL
    server = stack.enter_context(ModelServer(file, port=options.port or 0, verbose=options.verbose))
    described = f"{file.name}, {file.stat().st_size / 1e6:.1f} MB, served by llama.cpp at {server.url}"
    return asking(server.url, options.wire, file.name, in_text=options.in_text), described


def _replayed(options: Options) -> tuple[AbstractAsyncContextManager[Ask], str]:
    """A recording of it, and what to say of that."""
    if options.model is not None or options.port is not None:
        raise DemoError(f"a recording has no model file and no port; for the model itself: {instead()}")
    ask = replaying(options.question, options.wire, in_text=options.in_text)
    why = "as you asked" if options.replay else "its server is not installed here"
    described = f"{MODEL.name}, replayed from a recording: {why}\nfor the model itself: {instead()}"
    return nullcontext(ask), described


@contextmanager
def _traced(path: Path) -> Iterator[TracerProvider]:
    """Spans go into the file while the block runs."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        telemetry = configure("otlp-file", service_name="streamtools-demo", path=path, set_global=False)
    except OSError as error:
        raise DemoError(f"cannot write the trace to {path}: {error.strerror}") from error
    except ImportError as error:
        raise DemoError(f"cannot write the trace: {error}") from error
    with telemetry:
        yield telemetry.provider
