"""Runs of every kind as encoders are fed them: the events of each visit, and its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import date
from functools import cache
from typing import Any

import anyio
import pydantic
from streams import anthropic, chat, chat_chunk, sse, stream

from streamtools import AgentLoop, CallAnswer, Decision, Event, Growing, Retry, ToolContext, agent_loop, tool
from streamtools.content import AnsweredLater, Text, ToolResult
from streamtools.durable.memory import MemoryStore
from streamtools.errors import ToolError
from streamtools.events import (
    AnswerRequested,
    AttemptDiscarded,
    EventBase,
    EventsDropped,
    MessageAdded,
    ProviderItem,
    RefusalDelta,
    StepEnd,
    StepStart,
    StreamEnd,
    StreamWarning,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallStart,
    UnknownPayload,
)
from streamtools.observers import Observer
from streamtools.parts import Usage
from streamtools.web.encoding import RunEnd
from streamtools.web.held import HeldBack
from streamtools.web.shown import ShownRun

__all__ = ["CHAT", "CLIENT_TOOL", "Shown", "Visit", "fed", "responses", "shown_runs", "text_of"]

CHAT, CLIENT_TOOL = "openai.chat_completions", "choose"
Shown = Event | RunEnd
Visit = list[Shown]
_ASKED = [{"role": "user", "content": "Go."}]


class _Odd:
    """No JSON has a form for it."""


class _Pin(pydantic.BaseModel):
    """A place."""

    at: date = date(2026, 11, 28)
    size: int = 1 << 70


@tool(effect="pure")
async def look(at: str) -> Any:
    """Look."""
    found = {"text": "seen", "half": "\ud83d", "pin": _Pin(), "number": {"of": float("nan")}, "bytes": b"\xff"}
    return found.get(at, [at])


@tool(effect="pure")
async def fail(why: str) -> str:
    """Fail."""
    raise (ToolError(why) if why else KeyError("secret"))


@tool(effect="pure")
async def count(ctx: ToolContext) -> Any:
    """Count aloud."""
    for value in (1, "two", _Pin(), _Odd()):
        ctx.progress(value)
    return ToolResult(blocks=(Text("done"),), value=_Odd(), display={"html": "<b>3</b>"})


@tool(needs_approval=True)
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(name=CLIENT_TOOL, deferred=True)
def choose(question: str, due: date = date(2026, 1, 1)) -> str:
    """Ask the user."""
    raise AssertionError("nothing here runs it")


@tool(effect="pure")
async def note(text: Growing[str], ctx: ToolContext) -> str:
    """Reads while the model writes."""
    async for piece in text:
        ctx.progress(piece)
    return "noted"


@tool
async def ask(ctx: ToolContext) -> str:
    """Ask in the middle."""
    return str(await ctx.ask({"which": "one"}))


@tool
async def render() -> str | AnsweredLater:
    """Render elsewhere."""
    return AnsweredLater()


_TOOLS = [look, fail, count, note, pay, choose, ask, render]
_DONE = chat(["Do", "ne."], finish="stop")


def _body(*deltas: dict[str, Any], finish: str | None = "stop", usage: bool = True) -> list[bytes]:
    payloads = [chat_chunk(delta) for delta in deltas] + ([chat_chunk({}, finish)] if finish else [])
    counts = {"prompt_tokens": 7, "completion_tokens": 3, "completion_tokens_details": {"reasoning_tokens": 2}}
    payloads += [{**chat_chunk({}), "choices": [], "usage": counts}] if usage and finish else []
    return [*sse(payloads), *([b"data: [DONE]\n\n"] if finish else [])]


def _calls(*calls: tuple[str, str, str], text: str = "Well. ") -> list[bytes]:
    return chat([text] if text else [], calls)


class _Log(Observer):
    """An observer that keeps what a log has of a run, which is nothing twice."""

    sees_originals = True

    def __init__(self, before: Visit) -> None:
        self.events: Visit = []
        self._shown = ShownRun(one for one in before if isinstance(one, EventBase))

    def on_event(self, event: Event) -> None:
        self.events += self._shown.added(event, event.seq)


async def _visit(run: AgentLoop, before: Visit) -> Visit:
    """Reads a run to its end, or to a question that nobody answers in this visit."""
    log = _Log(before)
    run.trajectory.observers = (log, *run.trajectory.observers)
    failure: Exception | None = None
    try:
        async with run:
            async for event in run:
                if isinstance(event, AnswerRequested) and event.question is not None:
                    break
    except Exception as error:
        failure = error
    waiting = () if run.suspended is None else tuple(call.call_id for call in run.suspended.calls)
    return [*log.events, RunEnd(outcome=run.outcome or "error", error=failure, call_ids=waiting)]


async def _run(*bodies: Any, decide: bool | None = None, **options: Any) -> list[Visit]:
    """Reads a run, and the visits after it in which all that it waits for is decided and answered."""
    left = list(bodies)

    async def asked(messages: Any, tools: Any) -> AsyncIterator[bytes]:
        body = left.pop(0)
        if isinstance(body, Exception):
            raise body
        return stream(body)

    given = {"tools": _TOOLS, "wire": CHAT, "store": MemoryStore(), **options}
    run = agent_loop(asked, _ASKED, **given)
    visits = [await _visit(run, [])]
    while run.suspended is not None and decide is not None:
        waiting, calls = run.suspended, run.suspended.calls
        decisions = [Decision.on(call, decide, by="ann") for call in calls if call.waits_for == "approval"]
        answers = [CallAnswer.to(call, "B") for call in calls if call.waits_for == "answer"]
        run = agent_loop(asked, run.messages, **given, suspended=waiting, decisions=decisions, answers=answers)
        visits.append(await _visit(run, [event for visit in visits for event in visit]))
    return visits


_RUNS: dict[str, Callable[[], Any]] = {
    "text": lambda: _run(_DONE),
    "three steps": lambda: _run(
        _body({"content": "Let me "}, {"content": "see.\r\n"}, *_call_deltas(("a", "look", '{"at": "text"}'),
              ("b", "fail", '{"why": "no such place"}')), finish="tool_calls"),
        _calls(("a", "count", "{}"), ("c", "look", '{"at": "pin"}'), ("d", "look", '{"at": "half"}'),
               ("e", "look", '{"at": "number"}'), ("f", "look", '{"at": "bytes"}'), text=""),
        _body({"content": "Two: \U0001f600\u2028"}, {"content": "é."}),
    ),
    "calls that do not run": lambda: _run(
        _calls(("a", "look", '{"at": 3}'), ("b", "fly", "{}"), ("c", "fail", '{"why": ""}'), ("d", "look", '{"at"')),
        _DONE,
    ),
    "reasoning": lambda: _run(
        _body({"reasoning_content": "Hm"}, {"reasoning_content": ", so"}, {"content": "So."},
              *_call_deltas(("a", "look", '{"at": "x"}')), finish="tool_calls"),
        _body({"reasoning_content": "And"}, {"content": "Yes."}),
    ),
    "refusal": lambda: _run(_body({"refusal": "I can"}, {"refusal": "not."})),
    "length": lambda: _run(_body({"content": "Too lo"}, finish="length")),
    "filter": lambda: _run(_body({"content": "F"}, finish="content_filter")),
    "silence": lambda: _run(_body({"content": ""})),
    "max steps": lambda: _run(_calls(("a", "look", '{"at": "x"}')), _DONE, max_steps=1),
    "approved": lambda: _run(_calls(("a", "pay", '{"amount": 3}'), ("b", "look", '{"at": "x"}')), _DONE, decide=True),
    "denied": lambda: _run(_calls(("a", "pay", '{"amount": 3}')), _DONE, decide=False),
    "undecided": lambda: _run(_calls(("a", "pay", '{"amount": 3}'))),
    "answered by the client, ids recurring": lambda: _run(
        _calls(("a", CLIENT_TOOL, '{"question": "1"}'), ("b", "look", '{"at": "x"}')),
        _calls(("a", CLIENT_TOOL, '{"question": "2"}'), ("c", CLIENT_TOOL, '{"question": "é\\ud83d"}'), text="And "),
        _DONE,
        decide=True,
    ),
    "a client's call beside an approval": lambda: _run(
        _calls(("a", CLIENT_TOOL, '{"question": "1"}'), ("b", "pay", '{"amount": 1}')), _DONE, decide=True
    ),
    "a question": lambda: _run(_calls(("a", "ask", "{}"))),
    "answered later": lambda: _run(_calls(("a", "render", "{}")), _DONE, decide=True),
    "broken": lambda: _run(_body({"content": "Half"}, finish=None)),
    "refused": lambda: _run(ConnectionRefusedError("secret.example")),
    "interrupted": lambda: _run(_body({"content": "Half"}, finish=None), retry=Retry(attempts=1, backoff=0)),
    "retried": lambda: _run(
        _body({"content": "Ha"}, *_call_deltas(("a", "look", '{"at": "x"}')), finish=None),
        _body({"content": "Whole."}, usage=False),
        retry=Retry(attempts=2, backoff=0, after_output=True),
    ),
    "read while it is written": lambda: _run(
        _body(*_in_pieces("note", ['{"te', 'xt": "O', "ne ", "two ", 'thr', 'ee"', "}"]), finish="tool_calls"),
        _body(*_in_pieces("note", ['{"text": "', "On", "e ", "tw"]), finish="length"),
        _DONE,
    ),
    "typed": lambda: _run(_body({"content": '{"size": 2}'}), output=_Pin),
    "Messages": lambda: _run(anthropic(["Hel", "lo"], stop="end_turn"), wire="anthropic.messages"),
}  # fmt: skip


def _call_deltas(*calls: tuple[str, str, str]) -> list[dict[str, Any]]:
    return [
        {
            "tool_calls": [
                {"index": at, "id": call_id, "type": "function", "function": {"name": name, "arguments": text}}
            ]
        }
        for at, (call_id, name, text) in enumerate(calls)
    ]


def _in_pieces(name: str, pieces: list[str]) -> list[dict[str, Any]]:
    later = [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in pieces]
    return [*_call_deltas(("a", name, "")), *later]


_MADE: dict[str, list[Visit]] = {
    "crashed, with a gap": [
        [
            StepStart("r#1", seq=0),
            MessageAdded("m", ({"role": "user", "content": "And?"},), "now", seq=0),
            TextStart(seq=1),
            TextDelta("Ha", seq=2),
            ToolCallStart("a", CLIENT_TOOL, seq=3),
            ToolCallDelta("a", '{"q', seq=4),
            AnswerRequested("a", CLIENT_TOOL, {"q": 1}, fingerprint="f", rests=True, seq=5),
            AttemptDiscarded(1, 1, "crash", usage=Usage(input_tokens=4), seq=9),
            EventsDropped(10, 11, seq=11),
            TextStart(seq=12),
            TextDelta("Who", seq=13),
            TextEnd(whole="Whole", seq=14),
            ProviderItem("redacted", {"data": "secret"}, seq=14),
            StreamWarning("bom", seq=15),
            UnknownPayload({"signature": "secret"}, "x", seq=16),
            StreamEnd("stop", complete=True, usage=Usage(output_tokens=2), seq=17),
            StepEnd(seq=18),
            RunEnd(outcome="answered"),
        ]
    ],
    "contradicted": [
        [StepStart("r", seq=0), TextStart(seq=1), TextDelta("Bye", seq=2), TextEnd(whole="Hello", seq=3),
         RefusalDelta("No.", seq=4), StepEnd(seq=5), RunEnd(outcome="complete")]
    ],
    "an end without a beginning": [[RunEnd(outcome="error", error=RuntimeError("secret"))]],
    "an answer without a word": [[RunEnd(outcome="cancelled")]],
}  # fmt: skip


@cache
def shown_runs() -> dict[str, list[Visit]]:
    """Returns the visits of each run by its name."""

    async def read() -> dict[str, list[Visit]]:
        return {name: await made() for name, made in _RUNS.items()}

    return {**anyio.run(read), **_MADE}


def responses(runs: dict[str, list[Visit]]) -> Iterable[tuple[str, Visit, Visit]]:
    """Yields each visit with the events before it; what is taken back is held back, as readers do."""
    for name, visits in runs.items():
        before: Visit = []
        for at, visit in enumerate(visits):
            if name == "retried":
                held, (*events, end) = HeldBack(), visit
                visit = [*(one for event in events for one in held.feed(event)), end]  # type: ignore[arg-type]
            yield f"{name} {at}" if at else name, before, visit
            before = [*before, *visit]


def text_of(visit: Visit, kind: type = TextDelta, between: str = "\n\n") -> str:
    """Returns the texts of the steps of a visit, as one."""
    steps: dict[int, list[str]] = {}
    for event in visit:
        if isinstance(event, kind):
            steps.setdefault(event.step, []).append(event.text)  # type: ignore[attr-defined]
    return between.join(filter(None, map("".join, steps.values())))


def fed(encoder: Any, events: Iterable[Shown]) -> list[Any]:
    """Returns all frames of a response."""
    return [*encoder.begin(), *(one for event in events for one in encoder(event))]
