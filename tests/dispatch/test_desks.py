"""A desk of a user's own says who was the first to decide about a call, or to answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from profiles import every
from ran import ran
from streams import chat, stream

from streamtools import ApprovalRequested, Decision, Trajectory, agent_loop, pipeline, tool
from streamtools.content import AnsweredLater
from streamtools.events import AnswerRequested, ApprovalResolved, StreamWarning
from streamtools.seams import Pending, Response, WrittenAnswer

pytestmark = [pytest.mark.anyio, pytest.mark.asyncio_only]  # nothing here depends on how tasks take turns


class Desk:
    """Keeps responses in a dict, as a service of somebody's own would in its tables."""

    def __init__(self) -> None:
        self.places: dict[Any, list[Response]] = {}
        self.is_broken = False

    async def look(self, pending: Pending, /) -> Sequence[Response]:
        if self.is_broken:
            raise OSError
        return self.places.setdefault((pending.key, pending.fingerprint, pending.kind), [])

    async def respond(self, pending: Pending, response: Response, /) -> Sequence[Response]:
        found = await self.look(pending)
        assert isinstance(found, list)
        named = [one.by for one in found if isinstance(one, Decision)]
        is_again = isinstance(response, Decision) and response.verdict and response.by in named
        if not pending.is_settled(found) and not is_again:
            found.append(response)
        return found


@tool(needs_approval=True, approvals=2)
async def pay(to: str) -> str:
    """Pay."""
    ran.append(to)
    return "paid"


@tool(deferred="wait")
async def choose(of: str) -> str:
    """Choose."""
    raise AssertionError("nothing here runs it")


CALLS = [("p", "pay", '{"to": "x"}'), ("c", "choose", '{"of": "cities"}')]


async def test_a_desk_of_ones_own_orders_the_people_of_two_blocks() -> None:
    """Two blocks stand for two processes that show the same calls."""
    desk, options = Desk(), {"tools": [pay, choose]}
    blocks: list[Any] = [
        pipeline(
            stream(chat(calls=CALLS)), trajectory=Trajectory(run_id="run", observers=()), capabilities=[desk], **options
        )
        for _ in range(2)
    ]
    with anyio.fail_after(30):
        async with blocks[0] as first, blocks[1] as second:
            for block, city in ((first, "Rome"), (second, "Oslo")):
                async for event in block:
                    if isinstance(event, AnswerRequested):
                        assert block.answer(event, city)
            assert first.approve("p", by="ann")
            assert [event async for event in first] == []
            assert second.approve("p", by="ann")
            assert second.approve("p", by="bob")
            seen = [event async for event in second]
            assert first.deny("p", by="eve")
            codes = [event.code async for event in first if isinstance(event, StreamWarning)]
    assert [event.by for event in seen if isinstance(event, ApprovalResolved)] == [("ann", "bob")]
    assert codes == ["already_decided"]
    for block in blocks:
        values = {one.call_id: one.value for one in block.turn.observations}
        assert (values["c"], values["p"]) == ("Rome", "paid")
    assert any(isinstance(one, WrittenAnswer) for found in desk.places.values() for one in found)


def says(pending: Pending, verdict: bool = True, by: str | None = None, **changed: Any) -> Decision:
    return replace(Decision.on(pending, verdict, by=by), **changed)


LIES: dict[str, Any] = {
    "nothing": lambda pending: None,
    "no responses": lambda pending: [True],
    "about another call": lambda pending: [says(pending, call_id="z")],
    "about other arguments": lambda pending: [says(pending, fingerprint="z")],
    "an answer": lambda pending: [WrittenAnswer(call_id="p", fingerprint=pending.fingerprint, record=b"1")],
    "approved behind a denial": lambda pending: [says(pending, False), says(pending)],
    "one person twice": lambda pending: [says(pending, by="ann")] * 2,
    "nobody twice": lambda pending: [says(pending), says(pending, at=1.0)],
}


@every("lie", LIES)
async def test_a_desk_that_says_what_cannot_be_lets_nothing_run(lie: str) -> None:
    class Lying(Desk):
        async def look(self, pending: Pending, /) -> Any:
            return LIES[lie](pending) if self.is_broken else []

        async def respond(self, pending: Pending, response: Response, /) -> Any:
            return LIES[lie](pending)

    ran.clear()
    for at_once in (True, False):
        desk = Lying()
        desk.is_broken = at_once
        async with pipeline(stream(chat(calls=CALLS[:1])), tools=[pay], capabilities=[desk]) as events:
            codes = []
            async for event in events:
                if isinstance(event, ApprovalRequested) and not at_once:
                    events.approve(event, by="eve")
                codes += [event.code] if isinstance(event, StreamWarning) else []
        assert (codes, events.suspended is not None) == (["decision_not_kept"], True)
    assert ran == []


async def test_an_answer_on_record_that_cannot_be_read_is_an_end_that_nobody_knows() -> None:
    @tool
    async def order(of: str) -> AnsweredLater:
        """Order."""
        return AnsweredLater(wait=True)

    class Torn(Desk):
        async def look(self, pending: Pending, /) -> Sequence[Response]:
            return [WrittenAnswer(call_id=pending.call_id, fingerprint=pending.fingerprint, record=b"0no")]

    for one in (order, choose):
        call = ("c", one.name, '{"of": "cities"}')
        async with pipeline(stream(chat(calls=[call])), tools=[one], capabilities=[Torn()]) as events:
            await events.finish()
        assert [seen.outcome for seen in events.turn.observations] == ["unknown"]


async def test_a_desk_that_fails_leaves_the_call_waiting_and_no_other_desk_stands_beside_it(tmp_path: Any) -> None:
    desk = Desk()
    desk.is_broken = True
    async with pipeline(stream(chat(calls=CALLS[:1])), tools=[pay], capabilities=[desk]) as events:
        (asked,) = [event async for event in events if isinstance(event, ApprovalRequested)]
        assert events.deny(asked, by="ann")
        codes = [event.code async for event in events if isinstance(event, StreamWarning)]
    assert (codes, events.suspended is not None) == (["decision_not_kept"], True)
    with pytest.raises(TypeError, match="a run has one Desk; pass either journal= or Desk"):
        agent_loop(
            lambda *_: b"", [], wire="anthropic.messages", journal=tmp_path / "r.db", run_id="r", capabilities=[desk]
        )
