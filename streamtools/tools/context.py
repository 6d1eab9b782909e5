"""Describes a running tool's own call to it, and takes its reports: `ToolContext`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Generic

from typing_extensions import TypeVar

from ..errors import ToolError

ELSEWHERE: Any = object()  # stands for the context of a pipeline in another process, to which it does not come along


def key_prefix(run_id: str, step: int, response_id: str | None, attempt: int = 1) -> str:
    """The beginning of the keys of one response's calls, unique to the response: the run's id with ``%3A`` for colons,
    the step with the number of a second or later attempt, and a hash of the response's id if there is one."""
    # Some models count their calls from nought, and ids that have to be made up repeat: without the response, two
    # answers in runs of one name would share their keys.
    response = "" if response_id is None else blake2b(response_id.encode("utf-8", "replace"), digest_size=6).hexdigest()
    place = f"{step}" if attempt == 1 else f"{step}.{attempt}"
    return f"{run_prefix(run_id)}{place}:{response}:"


def run_prefix(run_id: str) -> str:
    return f"{run_id.replace('%', '%25').replace(':', '%3A')}:"


def call_key(run_id: str, step: int, response_id: str | None, call_id: str) -> str:
    return key_prefix(run_id, step, response_id) + call_id


Deps = TypeVar("Deps", default=Any, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolContext(Generic[Deps]):
    """Describes the call that a tool is running for. Annotate a parameter with it, and the tool is given one.

    The parameter is in no schema, and the model cannot set it. ``ToolContext[Deps]`` says of which type the pipeline's
    ``context=`` has to be. In a unit test of your tool, pass ``ToolContext()``, or ``ToolContext(context=Deps(...))``:
    its progress goes nowhere and it is never cancelled.

        @tool
        async def fetch(url: str, ctx: ToolContext) -> str:
            \"""Fetch a page.\"""
            ctx.progress("connecting")
            ...
    """

    call_id: str = "call"
    """The call's identity, unique within its step."""
    tool_name: str = "tool"
    """The name under which the model called."""
    run_id: str = "run"
    """The run (trajectory) that the call belongs to."""
    step: int = 0
    """The number of the model response in the run that made the call, from 0."""
    attempt: int = 1
    """The number of this start of the call, from 1."""
    key: str | None = field(default=None, repr=False)
    """The `idempotency_key`, if somebody else has decided it; None makes it of run, step and call."""
    context: Deps = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    """The ``context=`` of the pipeline, the loop or `run_calls`, as it was passed; None if none was."""
    report: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    """Receives the values of `progress`; set by the dispatcher."""
    is_cancelled: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    """Answers `cancelled`; set by the dispatcher."""
    services: Mapping[str, Callable[..., Any]] = field(default_factory=dict, repr=False, compare=False)
    """Serves `ask` and `add_tools`, by their names; set by the dispatcher."""

    @property
    def idempotency_key(self) -> str:
        """The same string for every attempt at this call and for no other call: hand it to services that want one."""
        return call_key(self.run_id, self.step, None, self.call_id) if self.key is None else self.key

    @property
    def cancelled(self) -> bool:
        """True once nobody waits for the result any more.

        Sync tools that run long look at it and stop; async ones are cancelled where they await.
        """
        return self.is_cancelled is not None and self.is_cancelled()

    async def ask(self, question: Any) -> Any:
        """Asks those outside the run for something, within the call's timeout: a person, or a service that works in the
        background. `AnswerRequested` shows the question; `Pipeline.answer` and `Journal.answer` answer it. The answer
        is a stranger's: check it.

        Args:
            question: text or JSON, for those who answer.

        Raises:
            ToolError: the answer is an error; or the tool runs in another process, where nobody can be asked.
            LocalProtocolError: the call asks for something else already.
            TypeError: the question is no JSON.
        """
        if "ask" not in self.services:
            raise ToolError("nobody can be asked here: the tool does not run in the process of its run")
        return await self.services["ask"](question)

    def add_tools(self, *tools: Any) -> None:
        """Gives the run more tools, or functions to make tools of, from its next step on, if this call ends well. One
        that is there already stays. What that costs, and how a run finds them again, is in docs/guide/tools.md.

        Raises:
            ToolError: another tool has the name, or the run cannot take it. Or this is no run, or another process.
        """
        if "add_tools" not in self.services:
            raise ToolError("no tool can be added here: this takes an agent_loop, and a tool in the process of its run")
        self.services["add_tools"](*tools)

    def progress(self, value: Any) -> None:
        """Reports an interim value: observers and the consumer see a `ToolProgress` event, the model does not."""
        if self.report is not None:
            self.report(value)


class _Carried:
    """Guards a context that may have stayed in another process: reading it there raises."""

    def __init__(self, slot: Any) -> None:
        self._slot = slot

    def __get__(self, owner: object, kind: type | None = None) -> Any:
        if owner is None:
            return self
        found = self._slot.__get__(owner, kind)
        # None would look like a pipeline without a context, and the tool would do without.
        if found is ELSEWHERE:
            raise ToolError(
                "the context of a pipeline does not come along to another process; let the tool run here, or annotate "
                "ToolContext[...], so that the pipeline refuses this executor"
            )
        return found

    def __set__(self, owner: object, value: object) -> None:
        self._slot.__set__(owner, value)


# Behind the dataclass, which would take a descriptor in its body for the field's default.
setattr(ToolContext, "context", _Carried(vars(ToolContext)["context"]))  # noqa: B010
