"""Follows calls that a server runs as tasks to their end, even those of a process that died, by the task's id.

    tools/call ──► task's id ──► into the call's claim ──► tasks/get ... ──► the answer to the call

The id is noted before anything relies on it. A process that finds it with a call's claim asks about the task instead
of calling.

The protocol, read on 2026-12-01:

- 2025-11-25, https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks: the client asks for a task
  (``params.task``) of a tool whose ``execution.taskSupport`` allows it, if the server has the capability.
  ``tasks/result`` has the answer, and brings the server's questions, which name their task (*Input Required Status*).
- The extension of 2026-07-28,
  https://github.com/modelcontextprotocol/ext-tasks/blob/main/specification/2026-07-28/tasks.md: the server answers with
  a task (``resultType: "task"``) where the client has declared the extension. ``tasks/get`` has the answer and the
  questions, ``tasks/update`` takes what was answered.

Both have -32602 for an unknown task. An id may be all that guards a task (*Security Considerations*), so it is only in
the claim: in no span, log, event or error.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from ..errors import ToolError, ToolFailed, ToolOutcomeUnknown
from ..ground import one_line
from ..limits import Limits
from ..tools import Effect, ToolContext
from .definition import is_finite, peek
from .elicitation import MOST_ROUNDS, NOBODY, Elicitation
from .peer import CANCEL_PATIENCE_S, Peer, is_lost

TASKS: Final[dict[str, dict[str, Any]]] = {"io.modelcontextprotocol/tasks": {}}
"""Declares to servers of MCP 2026-07-28 that tasks are understood: ``ClientSession(..., extensions=TASKS)``."""

MAX_ID_CHARS = 1024
_FIRST_PAUSE_S = 0.1  # where the server does not say how often it wants to be asked; doubled up to the next
_PAUSE_S = 5.0
_LONGEST_PAUSE_S = 60.0  # whatever the server says
_MOST_ERRORS = 5  # in a row, until a task is given up; the pause between them doubles from `_FIRST_PAUSE_S`
_UNKNOWN_TASK = -32602


def task_in(answer: Any, as_task: bool) -> Any:
    """Returns the task in an answer to ``tools/call``; None if it is another answer."""
    if peek(answer, "resultType", "result_type") == "task":
        return answer
    return peek(answer, "task") if as_task else None


@dataclass(slots=True, eq=False, kw_only=True)
class Task:
    peer: Peer
    server: str
    ctx: ToolContext
    effect: Effect
    limits: Limits
    elicitation: Elicitation | None
    id: str = ""
    _is_over: bool = False  # as far as the server is concerned
    _told: list[tuple[Any, Any]] = field(default_factory=list)  # the status and message that were reported
    _answered: set[str] = field(default_factory=set)  # the questions, by their keys

    @property
    def is_noted(self) -> bool:
        """True if an earlier process made the call: it is continued by the task's id. Raises `ToolOutcomeUnknown` if
        the id is not this server's."""
        noted = self.ctx.services["noted"]() if "noted" in self.ctx.services else None
        if noted is None:
            return False
        try:
            server, self.id = json.loads(noted)
        except (ValueError, TypeError):
            server = None
        if server != self.server:
            raise ToolOutcomeUnknown("not run again: the call was begun, but not as a task of this MCP server")
        return True

    async def end(self, made: Any = None) -> Any:
        """Returns the answer to the call. `made` is the task in the server's answer; None if it is noted."""
        if made is not None:
            self.id = peek(made, "taskId", "task_id")
            if not isinstance(self.id, str) or not 0 < len(self.id) <= MAX_ID_CHARS:
                raise self._unknown("has begun a task without giving its id")
        asks: AbstractAsyncContextManager[None] = nullcontext()
        if self.elicitation is not None:
            asks = self.elicitation.during(self.ctx, self.server, self.limits, self.id)
        try:
            async with asks:
                if made is not None and "note" in self.ctx.services:
                    await self.ctx.services["note"](json.dumps([self.server, self.id]))
                return await self._end(made)
        except BaseException as error:
            is_left = isinstance(error, anyio.get_cancelled_exc_class()) and self.ctx.services.get("goes_on", bool)()
            if not self._is_over and not is_left:
                await self._cancel()
            raise

    async def _end(self, state: Any) -> Any:
        pause = _FIRST_PAUSE_S
        state = await self._state() if state is None else state
        while True:
            status, answer = peek(state, "status"), peek(state, "result")
            self._tell(status, peek(state, "statusMessage", "status_message"))
            if status in ("completed", "failed", "cancelled"):
                self._is_over = True
            if status == "cancelled":
                raise ToolFailed(f"the MCP server {self.server!r} cancelled the call; what it did before that stays")
            if status == "failed" and (error := peek(state, "error")) is not None:
                raise _Failed(error)
            if self._is_over:
                return answer if answer is not None else await self._ask("result", may_fail=status == "failed")
            asked = peek(state, "inputRequests", "input_requests")
            if status == "input_required" and asked is not None:
                await self._answer(asked)
            elif status == "input_required":
                with suppress(Exception):  # the next status says more
                    answer = await self.peer.task("result", self.id)
                    self._is_over = True
                    return answer
            wanted = peek(state, "pollIntervalMs", "poll_interval_ms", "pollInterval", "poll_interval")
            await anyio.sleep(min(max(wanted / 1000, 0.0), _LONGEST_PAUSE_S) if is_finite(wanted) else pause)
            pause = min(2 * pause, _PAUSE_S)
            state = await self._state()

    async def _state(self) -> Any:
        state = await self._ask("get")
        if peek(state, "taskId", "task_id") != self.id or not isinstance(peek(state, "status"), str):
            raise self._unknown("gave an answer that is not about the task")
        return state

    async def _ask(self, does: str, *, may_fail: bool = False, **more: Any) -> Any:
        """Returns the server's answer about the task, after some tries; raises the call's error if there is none. With
        `may_fail` a server's error is raised unchanged."""
        for tries in range(1, _MOST_ERRORS + 1):
            try:
                return await self.peer.task(does, self.id, **more)
            except Exception as error:
                code, words = peek(peek(error, "error"), "code"), peek(peek(error, "error"), "message")
                if may_fail and code is not None and not is_lost(error):
                    raise
                if code == _UNKNOWN_TASK:
                    raise self._unknown("no longer knows the task") from error
                if tries == _MOST_ERRORS:
                    why = f": {self._shown(words)}" if isinstance(words, str) else ""
                    raise self._unknown(f"can no longer be asked about the task{why}") from error
            await anyio.sleep(_FIRST_PAUSE_S * 2**tries)
        raise AssertionError("the last error is raised")

    async def _answer(self, asked: Any) -> None:
        if self.elicitation is None:
            raise ToolError(NOBODY)
        if isinstance(asked, Mapping):
            asked = {key: one for key, one in asked.items() if key not in self._answered}
        if not asked:
            return  # it has not taken the answers yet
        given = await self.elicitation.inputs({"inputRequests": asked}, self.id)
        self._answered |= given.keys()
        if len(self._answered) > MOST_ROUNDS:
            raise ToolError(f"the MCP server asks for input more than {MOST_ROUNDS} times in one call")
        await self._ask("update", inputResponses=given)

    async def _cancel(self) -> None:
        # Shielded, since this task is being cancelled; bounded, since a server that hangs must not hold it up.
        with anyio.move_on_after(CANCEL_PATIENCE_S, shield=True):
            try:
                await self.peer.task("cancel", self.id)
            except Exception:
                return  # it has ended, or its server has

    def _tell(self, status: Any, message: Any) -> None:
        if status not in ("working", "input_required") or len(self._told) >= self.limits.max_progress_events:
            return
        if (status, message) not in self._told[-1:]:
            self._told.append((status, message))
            shown = {"message": self._shown(message)} if isinstance(message, str) else {}
            self.ctx.progress({"status": status, **shown})

    def _shown(self, words: str) -> str:
        return one_line(words.replace(self.id, "[task]"), self.limits.max_error_excerpt)

    def _unknown(self, what: str) -> ToolError:
        self._is_over = True  # not cancelled: it may be continued
        what = f"the MCP server {self.server!r} {what}"
        return ToolFailed(what) if self.effect == "pure" else ToolOutcomeUnknown(f"{what}; it may have had its effect")


class _Failed(Exception):
    """Has the JSON-RPC error of a failed task as `error`, like the SDK's own errors."""

    def __init__(self, error: Any) -> None:
        self.error = error
