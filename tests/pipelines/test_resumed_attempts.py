"""A response that breaks off and can be resumed goes on in its attempt: nothing is discarded, shown or run twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
from every_wire import framed, payloads_of, said
from profiles import FULL
from promises import Promises
from streams import hanging, stream
from wire_cases import CASES
from wire_cases.names import ANTHROPIC, INTERACTIONS, RESPONSES

from streamtools import Event, Limits, Retry, TextDelta, Trajectory, agent_loop, pipeline, tool
from streamtools.errors import DeadlineExceeded
from streamtools.events import AttemptBegan, AttemptDiscarded, ReasoningEnd, StreamWarning, ToolCallDelta
from streamtools.history import lint
from streamtools.parts import ResumePoint
from streamtools.record import record, replay

pytestmark = [pytest.mark.anyio, pytest.mark.deadline(120)]
PROMISES = Promises()


CALLS = [("k1", "look", '{"at": 1}'), ("k2", "pay", '{"at": 2}')]


def numbered(wire: str, **what: Any) -> list[dict[str, Any]]:
    """The payloads of a response, each with its cursor."""
    field = {RESPONSES: "sequence_number", INTERACTIONS: "event_id"}[wire]
    payloads = payloads_of(b"".join(framed(wire, said(wire, **what))))
    return [{**one, field: at if wire == RESPONSES else f"e{at}"} for at, one in enumerate(payloads)]


class Provider:
    """Keeps the responses that it has begun, so that their rest can be asked for."""

    def __init__(self, wire: str, cuts: list[int], refuses: list[Any] | None = None) -> None:
        self.wire = wire
        self.cuts = cuts
        """After how many items of its own each stream of the first response breaks off."""
        self.refuses = refuses or []
        self.asked = 0
        self.points: list[ResumePoint] = []
        self.begun = numbered(wire, text=["Hé", "llo"], reasoning=["Hm."], calls=CALLS, pieces=2)

    async def ask(self, messages: list[Any], tools: Any) -> Any:
        self.asked += 1
        if len(messages) > 1:
            body = b"".join(framed(self.wire, numbered(self.wire, text=["Do", "ne."])))
            return stream([body.replace(b"msg_output_text", b"msg_done")])
        return self._broken(self.begun)

    async def resume(self, point: ResumePoint) -> Any:
        self.points.append(point)
        await anyio.lowlevel.checkpoint()
        if self.refuses and (error := self.refuses.pop(0)) is not None:
            raise error
        field = {RESPONSES: "sequence_number", INTERACTIONS: "event_id"}[self.wire]
        before = [one[field] for one in self.begun].index(point.after)
        return self._broken(self.begun[before + 1 :])

    def _broken(self, payloads: list[dict[str, Any]]) -> Any:
        body = b"".join(framed(self.wire, payloads))
        if not self.cuts:
            return stream([body])
        cut = self.cuts.pop(0)
        return stream([body[at : at + 50] for at in range(0, min(cut, len(body)), 50)], then=ConnectionResetError())


class GoneError(Exception):
    status_code = 404


async def run_of(provider: Provider, retry: Retry, **options: Any) -> tuple[Any, list[Event], list[int]]:
    done: list[int] = []

    @tool(effect="pure")
    async def look(at: int) -> str:
        """Look."""
        done.append(at)
        return "seen"

    @tool
    async def pay(at: int) -> str:
        """Pay."""
        done.append(at)
        return "paid"

    asked = [CASES[provider.wire].native.user("Hi")]
    run = agent_loop(provider.ask, asked, tools=[look, pay], wire=provider.wire, retry=retry, **options)
    seen: list[Event] = []
    with anyio.fail_after(20):
        async with run:
            async for event in run:
                seen.append(event)
    return run, seen, done


def check(run: Any, seen: list[Event], done: list[int], provider: Provider) -> None:
    assert (run.outcome, sorted(done)) == ("answered", [1, 2])
    assert [turn.text for turn in run.turns] == ["Héllo", "Done."]
    shown = ["".join(one.text for one in seen if isinstance(one, TextDelta) and one.step == step) for step in (0, 1)]
    assert shown == ["Héllo", "Done."]
    assert "".join(one.delta for one in seen if isinstance(one, ToolCallDelta)) == '{"at": 1}{"at": 2}'
    assert [one.outcome for one in run.turns[0].observations] == ["ok", "ok"]
    assert lint(run.messages, provider.wire) == []


@PROMISES.add
async def a_response_goes_on_in_its_attempt_wherever_it_breaks_off_twice(tmp_path: Path) -> None:
    for wire in (RESPONSES, INTERACTIONS):
        size = len(b"".join(framed(wire, Provider(wire, []).begun)))
        first = framed(wire, Provider(wire, []).begun)[0]
        for cut in range(len(first) + 50, size - 50, 50 if FULL else 400):
            for start in ("auto", "early"):
                provider = Provider(wire, [cut, 350 + cut % 200])
                retry = Retry(backoff=0, resume=provider.resume)
                path = tmp_path / f"{wire}{cut}{start}.jsonl"
                run, seen, done = await run_of(
                    provider, retry, start=start, trajectory=Trajectory(observers=[record(path)])
                )
                check(run, seen, done, provider)
                assert provider.asked == 2, cut
                assert 1 <= len(provider.points) <= 2
                assert [one.attempt for one in seen if isinstance(one, AttemptBegan)] == [1, 1]
                resumed = [one for one in seen if isinstance(one, StreamWarning) and one.code == "response_resumed"]
                assert len(resumed) == len(provider.points)
                async with replay(path) as again:
                    _ = [event async for event in again]
                assert again.differences == (), cut
                assert [turn.text for turn in again.turns] == ["Héllo", "Done."]


@PROMISES.add
async def a_rest_that_is_refused_is_asked_for_anew_where_that_is_allowed(_: Path) -> None:
    for wire in (RESPONSES, INTERACTIONS):
        for refuses in ([GoneError()], [ConnectionResetError(), GoneError()], [httpx.ReadError("x")] * 3):
            provider = Provider(wire, [900], list(refuses))
            retry = Retry(backoff=0, resume=provider.resume, after_output=True)
            run, seen, done = await run_of(provider, retry)
            assert (run.outcome, provider.asked, len(provider.points)) == ("answered", 3, len(refuses))
            assert [one.attempt for one in seen if isinstance(one, AttemptBegan)] == [1, 2, 1]
            assert [one.cause for one in seen if isinstance(one, AttemptDiscarded)] == ["stream_truncated"]
            assert [turn.text for turn in run.turns] == ["Héllo", "Done."]
            assert done.count(2) == 1
        provider = Provider(wire, [900], [GoneError()])
        with pytest.raises(ConnectionResetError):  # that is why it broke off, and it has been shown
            await run_of(provider, Retry(backoff=0, resume=provider.resume))


@PROMISES.add
async def a_silent_response_is_resumed_and_one_that_was_stopped_or_has_no_cursor_is_not(_: Path) -> None:
    for wire in (RESPONSES, INTERACTIONS):
        provider = Provider(wire, [])
        parts = framed(wire, provider.begun)

        async def silent(messages: Any, tools: Any, parts: Any = parts, provider: Any = provider) -> Any:
            return hanging(parts[:7]) if len(messages) == 1 else await provider.ask(messages, tools)

        asked = [CASES[wire].native.user("Hi")]
        retry = Retry(backoff=0, resume=provider.resume)
        run = agent_loop(silent, asked, wire=wire, retry=retry, limits=Limits(idle_timeout=0.05))
        with anyio.fail_after(20):
            await run
        assert (len(provider.points), [turn.text for turn in run.turns]) == (1, ["Héllo", "Done."])
        provider = Provider(wire, [900])
        run = agent_loop(provider.ask, asked, wire=wire, retry=Retry(backoff=600, max_wait=600, total=None,
                                                                     resume=provider.resume))  # fmt: skip
        with anyio.fail_after(20):
            async with run:
                async for event in run:
                    if isinstance(event, ReasoningEnd):
                        run.stop()
        assert (run.outcome, provider.points) == ("cancelled", [])

    async def never(point: ResumePoint) -> Any:
        await anyio.sleep_forever()

    run = agent_loop(Provider(RESPONSES, [900]).ask, [{"role": "user", "content": "Hi"}], wire=RESPONSES,
                     retry=Retry(backoff=0, resume=never), limits=Limits(step_timeout=0.1))  # fmt: skip
    with anyio.fail_after(20), pytest.raises(DeadlineExceeded):
        await run

    async def unchanged(events: Any) -> Any:
        async for event in events:
            yield event

    provider = Provider(RESPONSES, [])
    retry = Retry(attempts=1, backoff=0, resume=provider.resume)
    cases: list[tuple[str, list[Any], dict[str, Any]]] = [
        (ANTHROPIC, said(ANTHROPIC, text=["Hi"]), {}),
        (RESPONSES, said(RESPONSES, text=["Hi"]), {}),  # its events have no cursor
        (RESPONSES, provider.begun, {"transforms": [unchanged]}),
    ]
    for wire, payloads, options in cases:
        broken = stream(framed(wire, payloads)[:4], then=ConnectionResetError())
        with pytest.raises(ConnectionResetError):
            await pipeline(lambda broken=broken: broken, wire=wire, retry=retry, **options)

    async def unreachable() -> Any:
        raise ConnectionResetError

    broken = stream(framed(RESPONSES, provider.begun)[:4], then=ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await pipeline(unreachable, wire=RESPONSES, retry=retry, fallback=[lambda: broken])
    assert provider.points == []
    with pytest.raises(TypeError, match=r"Retry\(resume=...\): expected a function"):
        Retry(resume=3)  # type: ignore[arg-type]


@PROMISES.add
async def a_journaled_run_has_the_response_that_was_resumed(tmp_path: Path) -> None:
    for wire in (RESPONSES, INTERACTIONS):
        provider = Provider(wire, [900])
        options: dict[str, Any] = {"journal": tmp_path / f"{wire}.db", "run_id": "r"}
        run, seen, done = await run_of(provider, Retry(backoff=0, resume=provider.resume), **options)
        check(run, seen, done, provider)
        again, _, repeated = await run_of(provider, Retry(backoff=0, resume=provider.resume), **options)
        assert (again.messages, again.outcome, repeated) == (run.messages, "answered", [])
        assert provider.asked == 2


async def test_every_promise_about_resumed_attempts_holds(tmp_path: Path) -> None:
    await PROMISES.check_all(tmp_path)
