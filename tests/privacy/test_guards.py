"""What decides who sees what of a run: a policy, or a guard of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from every_wire import framed, said
from streams import stream

from streamtools import Event, agent_loop, pipeline, tool
from streamtools.events import StepStart, TextDelta, TextEnd, ToolCallEnd, ToolCallStart
from streamtools.observers import Observer, RunFacts
from streamtools.privacy import Privacy, redact_secrets

WIRE = "anthropic.messages"
SECRET = "Write to bob@example.org"
MASKED = "Write to [mail address]"


class Seeing(Observer):
    def __init__(self, also: Callable[[Event], None] = lambda event: None) -> None:
        self.events: list[Event] = []
        self.also = also

    def on_event(self, event: Event) -> None:
        self.also(event)
        self.events.append(event)

    def end_run(self, outcome: str | None, error: BaseException | None) -> None:
        self.error = error

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))


@tool(effect="pure")
async def look(to: str) -> str:
    """Looks."""
    return f"seen {to}"


def body() -> list[bytes]:
    return framed(WIRE, said(WIRE, text=list(SECRET), calls=[("c1", "look", '{"to": "bob@example.org"}')]))


@pytest.mark.parametrize("kind", [TextDelta, TextEnd, ToolCallStart, ToolCallEnd])
def test_an_observer_that_is_interrupted_under_a_mask_sees_the_rest_of_the_event_once(kind: type[Event]) -> None:
    left = [KeyboardInterrupt()]

    def interrupt(event: Event) -> None:
        # The end of the text was held back, and is shown together with the begin of the call.
        is_held = isinstance(event, TextDelta) and "address" not in event.text
        if isinstance(event, kind) and left and not is_held:
            raise left.pop()

    before, hit, behind = Seeing(), Seeing(interrupt), Seeing()

    async def run() -> None:
        policy = Privacy(redact=redact_secrets())
        await pipeline(stream(body()), tools=[look], observers=[before, hit, behind], wire=WIRE, privacy=policy)

    with pytest.raises(KeyboardInterrupt):
        anyio.run(run)
    for one in (before, hit, behind):
        assert one.text == MASKED
        seen = [(type(event), event.seq) for event in one.events if not isinstance(event, TextDelta)]
        assert len(seen) == len(set(seen))
        assert [seq for _, seq in seen] == sorted(seq for _, seq in seen)
        assert {ToolCallStart, TextEnd} <= {each for each, _ in seen}


class NoNumbers:
    """A guard of one's own: nobody sees a digit of the text, or any call."""

    def step(self, run: RunFacts, names: Collection[str], /) -> NoNumbers:
        return self

    def page(self, run: RunFacts, /) -> NoNumbers:
        return self

    def event(self, event: Event, /) -> Sequence[Event]:
        if isinstance(event, TextDelta):
            return [replace(event, text="".join("#" if one.isdigit() else one for one in event.text))]
        return [event] if isinstance(event, (StepStart, TextEnd)) else []

    def fact(self, method: str, /, *facts: Any) -> Sequence[Any]:
        return [None if isinstance(one, BaseException) else one for one in facts]

    def words(self, error: BaseException, /) -> BaseException | None:
        return None


@pytest.mark.anyio
@pytest.mark.parametrize("guard", [NoNumbers(), Privacy(redact=lambda text: text.replace("7", "#"))])
async def test_an_observer_added_in_the_middle_of_a_run_sees_nothing_that_is_hidden(guard: Any) -> None:
    early, late = Seeing(), Seeing()
    given: Any = {"privacy": guard} if isinstance(guard, Privacy) else {"capabilities": [guard]}
    bodies = [
        framed(WIRE, said(WIRE, text=["7"], calls=[("c", "look", '{"to": "7"}')])),
        framed(WIRE, said(WIRE, text=["77"])),
    ]

    with pytest.raises(ValueError, match="7"):
        run = agent_loop(lambda _, __: stream(bodies.pop(0)), [], tools=[look], wire=WIRE, **given)
        run.trajectory.observers += (early,)
        async with run as loop:
            async for event in loop:
                if isinstance(event, ToolCallEnd):
                    loop.trajectory.observers += (late,)
            assert loop.turn.text == "77", "the run itself has everything"
            raise ValueError("7")

    assert "7" not in repr([(type(event), vars_of(event)) for event in (*early.events, *late.events)])
    assert late.events
    assert "7" not in repr((early.error, late.error))


def vars_of(event: Event) -> Any:
    return getattr(event, "text", None) or getattr(event, "call", None) or getattr(event, "value", None)
