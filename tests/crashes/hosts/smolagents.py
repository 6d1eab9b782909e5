"""A smolagents agent whose run begins anew in each process; its model gives the same answers again."""

from __future__ import annotations

from typing import Any

from crashes.schedules import Work
from smolagents import ActionStep, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole, Model

from streamtools.events import Observation
from streamtools.integrations.smolagents import CallsAgent

ASKS = False


class _Answers(Model):  # type: ignore[misc]
    def __init__(self, *steps: list[tuple[str, str]]) -> None:
        super().__init__()
        self.steps = list(steps)

    def generate(self, messages: Any, **_: Any) -> ChatMessage:
        calls = self.steps.pop(0) if self.steps else [("final_answer", "done")]
        made = []
        for at, (name, given) in enumerate(calls):
            arguments = {"answer" if name == "final_answer" else "call": given}
            function = ChatMessageToolCallFunction(name=name, arguments=arguments)
            call_id = "end" if name == "final_answer" else f"call_{at}"
            made.append(ChatMessageToolCall(id=call_id, type="function", function=function))
        return ChatMessage(role=MessageRole.ASSISTANT, content="", tool_calls=made)


def prepare(work: Work) -> None:
    """There is nothing: the run begins with the model's answer."""


def visit(work: Work) -> dict[str, str]:
    @tool
    def pay(call: str) -> str:
        """Pay.

        Args:
            call: Its id.
        """
        return work.run(call)

    in_turns = [[("pay", call_id)] for call_id in work.plans]
    side_by_side = work.variant & 1
    steps = [[one for step in in_turns for one in step]] if side_by_side else in_turns
    seen = _Seen()
    with work.store() as store:
        agent = CallsAgent(
            tools=[pay],
            model=_Answers(*steps),
            verbosity_level=0,
            store=store,
            identity="order-7",
            observers=lambda: [seen],
        )
        agent.run("go")
    if side_by_side:  # of several calls in a step, of which one failed, the framework shows that one alone
        texts = {f"c{call_id.removeprefix('call_')}": text for call_id, text in seen.texts.items()}
    else:
        shown = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
        texts = {
            call_id: str(step.error or step.observations) for call_id, step in zip(work.plans, shown, strict=False)
        }
    if any("the bank is closed" in text for text in texts.values()):
        raise RuntimeError("a call has not started, and is made again")
    return texts


class _Seen:
    event_types = (Observation,)

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def on_event(self, event: Any) -> None:
        self.texts[event.call_id] = str(event.model_content)

    def around_tool(self, call_id: str) -> None:
        return None
