"""Defines `ToolContext`, which describes a running tool's own call, and takes its progress."""

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
    """Describes the call for which a tool is running. Annotate a parameter with it, and the tool receives one.

    The parameter is not in the schema, and the model cannot set it. ``ToolContext[Deps]`` names the type of the
    pipeline's ``context=``. In a unit test of your tool, pass ``ToolContext()``, or ``ToolContext(context=Deps(...))``:
    it ignores progress and is never cancelled.

        @tool
        async def fetch(url: str, ctx: ToolContext) -> str:
            \"""Fetch a page.\"""
            ctx.progress("connecting")
            ...
    """

    call_id: str = "call"
    """The call's identity, unique within its step."""
    tool_name: str = "tool"
    """The name by which the model called the tool."""
    run_id: str = "run"
    """The run (trajectory) that the call belongs to."""
    step: int = 0
    """The number, from 0, of the model response within the run that made the call."""
    attempt: int = 1
    """The number, from 1, of this attempt at the call."""
    key: str | None = field(default=None, repr=False)
    """The `idempotency_key`, if it was set; otherwise None, and the key is made from run, step and call."""
    context: Deps = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    """The ``context=`` of the pipeline, the loop or `run_calls`, as it was passed; None if none was."""
    report: Callable[[Any], None] | None = field(default=None, repr=False, compare=False)
    """Receives the values of `progress`; set by the dispatcher."""
    is_cancelled: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    """Implements `cancelled`; set by the dispatcher."""
    services: Mapping[str, Callable[..., Any]] = field(default_factory=dict, repr=False, compare=False)
    """Implements `ask` and `add_tools`, by their names; set by the dispatcher."""

    @property
    def idempotency_key(self) -> str:
        """The same string for every attempt at this call and for no other call: pass it to services that accept one."""
        return call_key(self.run_id, self.step, None, self.call_id) if self.key is None else self.key

    @property
    def cancelled(self) -> bool:
        """True once the result is no longer wanted.

        Long sync tools should check it and stop; async ones are cancelled where they await.
        """
        return self.is_cancelled is not None and self.is_cancelled()

    async def ask(self, question: Any) -> Any:
        """Asks a person or another service a question, and waits for the answer within the call's timeout.
        `AnswerRequested` shows the question; `Pipeline.answer` and `Journal.answer` answer it. The answer is not
        trusted: check it.

        Args:
            question: text or JSON.

        Raises:
            ToolError: the answer is an error, or the tool runs in another process, where it cannot ask.
            LocalProtocolError: the call is already waiting for another answer.
            TypeError: the question cannot be written as JSON.
        """
        if "ask" not in self.services:
            raise ToolError("ctx.ask works only in the process of the run")
        return await self.services["ask"](question)

    def add_tools(self, *tools: Any) -> None:
        """Adds tools, or functions that become tools, to the run from its next step on, if this call succeeds.
        Existing tools stay. docs/guide/tools.md has the cost, and how a resumed run finds them again.

        Raises:
            ToolError: another tool has the name, the run cannot take it, or the tool runs outside an `agent_loop` or in
                another process.
        """
        if "add_tools" not in self.services:
            raise ToolError("ctx.add_tools works only in an agent_loop, and in the process of the run")
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
                "the context of a pipeline is not sent to another process; run the tool here, or annotate "
                "ToolContext[...], so that the pipeline refuses this executor"
            )
        return found

    def __set__(self, owner: object, value: object) -> None:
        self._slot.__set__(owner, value)


# Behind the dataclass, which would take a descriptor in its body for the field's default.
setattr(ToolContext, "context", _Carried(vars(ToolContext)["context"]))  # noqa: B010
