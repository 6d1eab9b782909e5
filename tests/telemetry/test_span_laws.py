"""Laws of spans over random runs: they are what the events tell, and each one that is started is ended."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.trace import StatusCode
from profiles import FULL, every, examples
from streams import Seeing, anthropic, stream

from streamtools import Deny, Event, StreamError, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import ApprovalPending, ToolError
from streamtools.events import (
    ApprovalRequested,
    ApprovalResolved,
    Observation,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamStart,
    ToolCallStart,
    ToolStarted,
)
from streamtools.telemetry import Tracing
from streamtools.telemetry.tracing import SHORTEST_WAIT_S

pytestmark = pytest.mark.anyio

WIRE = "anthropic.messages"


# -- random runs -----------------------------------------------------------------------------------------------------


@tool(effect="pure")
async def early(n: int) -> int:
    """Answer at once."""
    return n


@tool(effect="idempotent")
async def slow(n: int) -> int:
    """Answer after some rounds."""
    for _ in range(n % 7):
        await anyio.lowlevel.checkpoint()
    return n


@tool(effect="once")
async def fails(n: int) -> int:
    """Fail."""
    raise ToolError("it is closed")


@tool(effect="idempotent", retries=2, retry_delay_s=1e-6)
async def flaky(n: int) -> int:
    """Fail with odd numbers."""
    if n % 2:
        raise ConnectionError("no route")
    return n


@tool(effect="once", conflict_key=lambda n: "one")
async def keyed(n: int) -> int:
    """Take its turn."""
    await anyio.lowlevel.checkpoint()
    return n


@tool(effect="once", needs_approval=True)
async def asked(n: int) -> int:
    """Wait for somebody's word."""
    return n


TOOLS = (early, slow, fails, flaky, keyed, asked)
NAMES = (*(one.name for one in TOOLS), "gone")


@dataclass(frozen=True)
class Response:
    """One response of a scenario."""

    text: str
    calls: tuple[tuple[str, str], ...]
    keeps: float
    """How much of it comes before it is cut: 1.0 for all."""

    def body(self, number: int) -> list[bytes]:
        calls = [(f"c{number}_{at}", name, arguments) for at, (name, arguments) in enumerate(self.calls)]
        body = anthropic([self.text] if self.text else [], calls, stop="tool_use" if calls else "end_turn")
        return body[: max(1, round(len(body) * self.keeps))]


arguments = st.one_of(
    st.integers(0, 9).map(lambda n: f'{{"n": {n}}}'), st.sampled_from(["{}", '{"n": "x"}', '{"n": 1'])
)
responses = st.builds(
    Response,
    text=st.sampled_from(["", "Let me see."]),
    calls=st.lists(st.tuples(st.sampled_from(NAMES), arguments), max_size=4).map(tuple),
    keeps=st.sampled_from([1.0, 1.0, 1.0, 0.9, 0.5, 0.0]),
)


@dataclass(frozen=True)
class Scenario:
    """A run, the verdicts of a person, and the way in which its reader leaves it."""

    responses: tuple[Response, ...]
    verdict: bool | None
    leaves_after: int | None
    entered: bool


scenarios = st.builds(
    Scenario,
    responses=st.lists(responses, min_size=1, max_size=3).map(tuple),
    verdict=st.sampled_from([True, False, None]),
    leaves_after=st.one_of(st.none(), st.integers(0, 40)),
    entered=st.booleans(),
)


class Spans(SpanProcessor):
    """Counts the spans that start, and keeps those that have ended."""

    def __init__(self) -> None:
        self.started: Counter[int] = Counter()
        self.ended: list[ReadableSpan] = []

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        context = span.get_span_context()
        self.started[context.span_id] += 1

    def on_end(self, span: ReadableSpan) -> None:
        self.ended.append(span)

    def check(self) -> None:
        """Each span that was started has ended, once."""
        assert Counter(_id(span.context) for span in self.ended) == self.started
        assert all(count == 1 for count in self.started.values())


Run = tuple[list[Event], Spans]


async def run(
    scenario: Scenario, *, scope: anyio.CancelScope | None = None, after: int = 0, into: list[Run] | None = None
) -> Run:
    """Runs a scenario. With a scope, that is cancelled when so many events have come."""
    spans, keeps, provider = Spans(), Seeing(), TracerProvider()
    if into is not None:
        into.append((keeps.events, spans))
    provider.add_span_processor(spans)
    trajectory = Trajectory(name="law", observers=[Tracing(provider), keeps])
    left = scenario.leaves_after

    def approve(request: ApprovalRequested) -> bool | Deny | None:
        return scenario.verdict if scenario.verdict is not False else Deny("no")

    async def reads(events: Any) -> None:
        nonlocal left
        async for _ in events:
            if scope is not None and len(keeps.events) >= after:
                scope.cancel()
            if left is not None:
                left -= 1
                if left <= 0:
                    break

    try:
        if scenario.entered:
            bodies = iter([stream(one.body(number)) for number, one in enumerate(scenario.responses)])
            loop = agent_loop(
                lambda messages, tools: next(bodies), [], tools=TOOLS, wire=WIRE, trajectory=trajectory,
                max_steps=len(scenario.responses), approve=approve,
            )  # fmt: skip
            async with loop:
                await reads(loop)
        else:
            for number, one in enumerate(scenario.responses):
                if left is not None and left <= 0:
                    break
                async with pipeline(
                    stream(one.body(number)), tools=TOOLS, wire=WIRE, trajectory=trajectory, approve=approve
                ) as events:
                    await reads(events)
    except StreamError:
        pass  # the events have it
    return keeps.events, spans


# -- the tree that the events tell ---------------------------------------------------------------------------------

Node = tuple[str, str | None, tuple[tuple[str, str], ...], bool]
"""A span as the law has it: its name with what tells it apart, its parent's, its links (how, to which), an error."""


def told(scenario: Scenario, events: list[Event]) -> Counter[Node]:
    """Rebuilds the tree of spans from the events alone."""
    nodes: list[Node] = []
    root = "invoke_agent law" if scenario.entered else None
    failed_run = False
    observed: dict[int, str] = {}
    before: str | None = None
    for start, step in _steps(events):
        name = f"step {start.step}"
        stream = next((event for event in step if isinstance(event, StreamStart)), None)
        end = next((event for event in step if isinstance(event, StreamEnd)), None)
        over = next(event for event in step if isinstance(event, StepEnd))
        failed = over.outcome in ("error", "truncated")
        failed_run |= failed
        follows = () if root is not None or before is None else (("follows", before),)
        nodes.append((name, root, follows, failed))
        chat = f"{name} chat {stream.model}" if stream is not None and stream.model else f"{name} chat"
        causes = tuple(sorted(("observed", observed[seq]) for seq in start.causes if seq in observed))
        left = over.outcome in ("abandoned", "cancelled")
        cut = end is not None and (end.error is not None or not end.complete)
        real = end is not None and end.error is not None and end.error.kind != "stream_truncated"
        nodes.append((chat, name, causes, real or (cut and not left) or (end is None and failed)))
        observed = {}
        for call in (event for event in step if isinstance(event, ToolCallStart)):
            ran = any(isinstance(e, ToolStarted) and e.call_id == call.call_id for e in step)
            span = f"{name} {'execute_tool' if ran else 'call'} {call.name} {call.index}"
            seen = next(e for e in step if isinstance(e, Observation) and e.call_id == call.call_id)
            observed[seen.seq] = span
            approved = any(isinstance(e, ApprovalResolved) and e.call_id == call.call_id and e.approved for e in step)
            nodes += [
                (f"{name} begin.call {call.name} {call.index}", name, (), False)
                for e in step
                if isinstance(e, ToolStarted) and e.call_id == call.call_id and e.attempt == 1
                if e.effect == "once" or approved
            ]
            pending = isinstance(seen.error, ApprovalPending)
            nodes.append((span, name, (("proposed_by", chat),), seen.outcome != "ok" and not pending))
            nodes += [
                (f"{name} approval {call.name} {call.index}", name, (), False)
                for e in step
                if isinstance(e, ApprovalRequested) and e.call_id == call.call_id
            ]
            nodes += [
                (f"{name} wait {call.name} {call.index} {wait.reason}", name, (), False)
                for wait in seen.waits
                if wait.reason != "approval" and wait.seconds >= SHORTEST_WAIT_S
            ]
        before = name
    if root is not None:
        nodes.append(("begin.run law", root, (), False))
        # A reader who has left has not been told of the error, so that the run has not failed.
        nodes.append((root, None, (), failed_run and scenario.leaves_after is None))
    return Counter(nodes)


def exported(scenario: Scenario, spans: Spans) -> Counter[Node]:
    """The tree of spans that was exported. Of a run that its reader may have left, the status is not compared."""
    names = {_id(span.context): _named(span) for span in spans.ended}
    nodes: list[Node] = []
    for span in spans.ended:
        links = sorted(
            (str((link.attributes or {})["streamtools.link.type"]), names[_id(link.context)]) for link in span.links
        )
        parent = None if span.parent is None else names[span.parent.span_id]
        failed = span.status.status_code is StatusCode.ERROR
        if span.name.startswith("invoke_agent"):
            failed &= scenario.leaves_after is None
        nodes.append((_named(span), parent, tuple(links), failed))
    return Counter(nodes)


def _named(span: ReadableSpan) -> str:
    found = span.attributes or {}
    if span.name.startswith(("invoke_agent", "streamtools.begin.run")):
        return span.name.removeprefix("streamtools.")
    step = f"step {found['streamtools.step.number']}"
    if span.name == "streamtools.step":
        return step
    key = str(found.get("streamtools.call.key", "")).partition(".")[2]
    parts = [step, span.name.removeprefix("streamtools."), key, str(found.get("streamtools.wait.reason", ""))]
    return " ".join(filter(None, parts))


def _steps(events: list[Event]) -> list[tuple[StepStart, list[Event]]]:
    steps: list[tuple[StepStart, list[Event]]] = []
    for event in events:
        if isinstance(event, StepStart):
            steps.append((event, []))
        if steps:
            steps[-1][1].append(event)
    return steps


def _ns(span: ReadableSpan) -> int:
    return (span.end_time or 0) - (span.start_time or 0)


def _id(context: Any) -> int:
    found: int = context.span_id
    return found


# -- the laws --------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60, 12), deadline=None)
@given(scenario=scenarios)
def test_the_tree_of_spans_is_the_one_that_the_events_tell(scenario: Scenario) -> None:
    for backend in ("asyncio", "trio"):
        events, spans = anyio.run(run, scenario, backend=backend)
        spans.check()
        assert exported(scenario, spans) == told(scenario, events)
        # A run of a tool is as long as its observation says, and so as the metric: on the nanosecond.
        drawn = sum(_ns(span) for span in spans.ended if span.name.startswith("execute_tool"))
        ran = sum(int(e.duration * 1e9) for e in events if isinstance(e, Observation) and e.duration is not None)
        assert drawn == ran
        named = [wait for e in events if isinstance(e, Observation) for wait in e.waits if wait.reason != "approval"]
        waited = sum(int(wait.ended * 1e9) - int(wait.began * 1e9) for wait in named if wait.seconds >= SHORTEST_WAIT_S)
        assert sum(_ns(span) for span in spans.ended if span.name.startswith("streamtools.wait")) == waited
        points = ("streamtools.call", "streamtools.begin")
        assert {_ns(span) for span in spans.ended if span.name.startswith(points)} <= {0}


@every("backend", ["asyncio", "trio"])
def test_wherever_a_run_is_cancelled_every_span_ends(backend: str) -> None:
    dice = random.Random("spans")
    points = 120 if FULL else 25
    for _ in range(points):
        scenario = Scenario(
            responses=tuple(
                Response(
                    dice.choice(["", "Let me see."]),
                    tuple((dice.choice(NAMES), f'{{"n": {dice.randint(0, 9)}}}') for _ in range(dice.randint(0, 4))),
                    1.0,
                )
                for _ in range(2)
            ),
            verdict=dice.choice([True, None]),
            leaves_after=None,
            entered=dice.choice([True, False]),
        )
        events, spans = anyio.run(_cancelled, scenario, dice.randint(1, 45), backend=backend)
        spans.check()
        ended = [span for span in spans.ended if span.name == "streamtools.step"]
        assert len(ended) == sum(isinstance(event, StepStart) for event in events)


async def _cancelled(scenario: Scenario, after: int) -> Run:
    seen: list[Run] = []
    with anyio.CancelScope() as scope:
        await run(scenario, scope=scope, after=after, into=seen)
    return seen[0]
