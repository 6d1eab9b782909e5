"""What an MCP server asks the user in the middle of a call: how it reaches those who answer, and what it may not do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp
from mcp_servers import SDK2, Context, sdk_server
from mcp_session import FakeSession, listed, text
from pydantic import BaseModel
from streams import chat, stream

from streamtools import Limits, Observation, pipeline
from streamtools.events import AnswerRequested
from streamtools.mcp import Elicitation, fetch_tools


class Where(BaseModel):
    city: str


FORM = Where.model_json_schema()
ASKS = {"method": "elicitation/create", "params": {"message": "Where?", "requestedSchema": FORM}}


def on_both(case: Callable[[], Awaitable[None]]) -> None:
    for backend in ("asyncio", "trio"):
        anyio.run(case, backend=backend)


async def called(
    tools: Any, answers: list[tuple[Any, bool]], *names: str, limits: Limits = Limits()
) -> tuple[list[Observation], list[AnswerRequested]]:
    """The calls' ends, and what was asked; it is answered with one answer after the other, and then with none."""
    asked: list[AnswerRequested] = []
    calls = [(f"c{number}", name, "{}") for number, name in enumerate(names)]
    with anyio.fail_after(60):
        async with pipeline(stream(chat(calls=calls)), tools=tools, limits=limits) as events:
            async for event in events:
                if isinstance(event, AnswerRequested):
                    asked.append(event)
                    if answers:
                        result, is_error = answers.pop(0)
                        events.answer(event, result, is_error=is_error)
    return list(events.turn.observations), asked


@asynccontextmanager
async def asking(elicitation: Elicitation, **options: Any) -> AsyncIterator[Any]:
    """A session with a server of the SDK whose tool asks the user."""
    server = sdk_server()

    async def meet(ctx: Context) -> str:  # type: ignore[type-arg]
        """Meets somebody."""
        found = await ctx.elicit("Where?", Where)
        return f"{found.action} {found.data.city if found.action == 'accept' else ''}"

    meet.__annotations__["ctx"] = Context  # mcp 1.10 does not read annotations that are text
    server.tool()(meet)

    if SDK2:
        async with mcp.Client(server, elicitation_callback=elicitation, **options) as client:
            yield client.session
    else:
        from mcp.shared.memory import create_connected_server_and_client_session

        made = create_connected_server_and_client_session(server._mcp_server, elicitation_callback=elicitation)
        async with made as session:
            yield session


def test_a_server_asks_the_user_by_the_events_of_the_run_that_calls_it() -> None:
    async def case() -> None:
        elicitation = Elicitation()
        async with asking(elicitation, **({"mode": "legacy"} if SDK2 else {})) as session:
            tools = await fetch_tools(session, server="shop", elicitation=elicitation)
            for answer, is_error, words in (
                ({"city": "Rome"}, False, "accept Rome"),
                ("not today", True, "decline"),
                ("no form", False, "cancel"),
                ({"city": {"name": "Rome"}}, False, "cancel"),
            ):
                (seen,), (asked,) = await called(tools, [(answer, is_error)], "meet")
                assert (seen.outcome, words in seen.model_content) == ("ok", True), seen
                assert asked.question["server"] == "shop"
                assert (asked.question["message"], asked.question["mode"]) == ("Where?", "form")
                assert asked.question["schema"]["properties"]["city"]["type"] == "string"

            # A call that nobody answers ends by its timeout, and takes the question along; the next one asks anew.
            (seen,), (asked,) = await called(tools, [], "meet", limits=Limits(tool_timeout=0.05))
            assert seen.outcome == "timed_out"
            if not SDK2:  # the server of mcp 1.10 does not outlive a call that is cancelled while it asks
                return
            seen_both, asked_both = await called(tools, [({"city": "Rome"}, False)] * 2, "meet", "meet")
            assert [one.model_content for one in seen_both] == ["accept Rome"] * 2
            assert sorted(one.call_id for one in asked_both) == ["c0", "c1"]  # each its own call's

    on_both(case)


def test_a_server_that_asks_for_input_instead_of_an_answer_is_given_it_within_bounds() -> None:
    async def case() -> None:
        wants = {"resultType": "input_required", "inputRequests": {"q": ASKS}, "requestState": "s"}

        class Asking(FakeSession):
            """Asks before it answers, as MCP 2026-07-28 has it."""

            given: tuple[Any, ...] = ()

            async def call_tool(  # type: ignore[override]
                self, name: str, arguments: Any, *, input_responses: Any = None, request_state: Any = None
            ) -> Any:
                self.given += ((input_responses, request_state),)
                return self.answer[min(len(self.given), len(self.answer)) - 1]

        session = Asking(listed("meet"), answer=[wants, text("met")])
        elicitation = Elicitation()
        tools = await fetch_tools(session, server="shop", elicitation=elicitation)
        (seen,), _ = await called(tools, [({"city": "Rome"}, False)], "meet")
        assert (seen.outcome, seen.value) == ("ok", "met")
        assert session.given[1] == ({"q": {"action": "accept", "content": {"city": "Rome"}}}, "s")

        refused = {
            "more than 10 times": [wants],
            "more input at once": [{**wants, "inputRequests": dict.fromkeys(map(str, range(11)), ASKS)}],
            "a kind of input": [{**wants, "inputRequests": {"q": {"method": "roots/list"}}}],
        }
        for words, answers in refused.items():
            tools = await fetch_tools(Asking(listed("meet"), answer=answers), server="shop", elicitation=elicitation)
            (seen,), _ = await called(tools, [({"city": "Rome"}, False)] * 20, "meet")
            assert (seen.outcome, words in seen.model_content) == ("failed", True), seen

    on_both(case)


def test_questions_outside_a_call_or_beyond_the_bounds_are_cancelled_and_addresses_shown_as_text() -> None:
    async def case() -> None:
        elicitation = Elicitation()
        assert await elicitation.answer(ASKS["params"]) == {"action": "cancel"}

        async def ask(params: Any) -> dict[str, Any]:
            return await elicitation.answer(params)

        found: list[Any] = []
        tried = [
            {"message": "m", "requestedSchema": {"properties": {str(at): {} for at in range(3_000)}}},
            {"message": "m", "requestedSchema": {"title": "x" * (300 << 10)}},
            {"message": "m", "mode": "url", "url": "https://example.com/" + "x" * 5_000},
            {"message": "M\u202e" + "m" * 5_000, "mode": "url", "url": "https://example.com/pay"},
        ]

        async def answer(arguments: Any, progress: Any) -> Any:
            for params in tried:
                found.append(await ask(params))
            return text("done")

        tools = await fetch_tools(FakeSession(listed("meet"), answer=answer), server="shop", elicitation=elicitation)
        _, (asked,) = await called(tools, [(True, False)], "meet")
        assert found == [{"action": "cancel"}] * 3 + [{"action": "accept"}]
        assert asked.question["url"] == "https://example.com/pay"
        assert (len(asked.question["message"]) < 5_000, "\u202e" in asked.question["message"]) == (True, False)

    on_both(case)
