"""Runs a call inside its middleware: that of the pipeline outside, that of its tool inside.

Theory of operation. The middleware runs in the call's task, at the call's place in the order, around everything that
`CallAttempts.run` does: the attempts, and the gate. So what a gate keeps is what the tool returned, and the middleware
sees a recorded value like any other. All of it runs in one cancel scope, which is the call's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from anyio import CancelScope
from pydantic_core import from_json

from ..errors import LocalProtocolError, ToolFailed
from ..ground.own import own
from ..ground.text import type_name
from ..seams import Deny
from ..tools.options import Middleware, ToolCallRequest
from ..tools.typed import as_json
from .attempts import CallAttempts
from .endings import cancelled, denied, failure
from .in_process import as_tool_error
from .states import Call, Ending, begin_wait


async def run_inside(attempts: CallAttempts, call: Call) -> None:
    tool, _ = call.ready
    middleware = (
        attempts.options.middleware if tool.middleware is None else (*attempts.options.middleware, tool.middleware)
    )
    await _Wrapped(attempts, call, middleware).run()


@dataclass(slots=True, eq=False)
class _Wrapped:
    attempts: CallAttempts
    call: Call
    middleware: tuple[Middleware, ...]
    ran: Ending | None = None
    given: Any = None  # the value that the innermost middleware was given

    async def run(self) -> None:
        call, ending = self.call, None
        call.is_wrapped = True
        begin_wait(call, "middleware")
        with CancelScope() as call.scope:
            ending = await self._ending()
        # A tool that ran to its end keeps its ending, even if the middleware was cancelled after it.
        call.ending = ending or self.ran or cancelled(call)

    async def _ending(self) -> Ending:
        tool, _ = self.call.ready
        try:
            value = await self._layer(0, self._request())
        except BaseException as error:
            if self.ran is not None and error is self.ran.error:
                return self.ran
            found = as_tool_error(tool.name, error)
            if found is error:
                return failure(found)
            return failure(ToolFailed(f"the middleware around {tool.name} raised {type_name(error)}"), error)
        return await self._ended(value)

    async def _ended(self, value: Any) -> Ending:
        ran = self.ran
        if ran is not None and value is self.given:
            return ran
        if isinstance(value, Deny):
            if not self.call.attempts:
                return denied(value.reason)
            return Ending("failed", ToolFailed("the middleware denied the call after it had run"))
        ending = await self.attempts.ended(self.call, value)
        ending.recorded = ran is not None and ran.recorded
        return ending

    def _request(self) -> ToolCallRequest:
        call, host = self.call, self.attempts.host
        tool, _ = call.ready
        return ToolCallRequest(
            call_id=call.call.call_id,
            tool_name=tool.name,
            arguments=MappingProxyType(self.attempts.arguments(call)),
            effect=tool.effect,
            run_id=host.run_id,
            step=host.number,
            idempotency_key=call.key,
            context=self.attempts.options.context,
            caller=call.call.caller,
        )

    async def _layer(self, at: int, request: ToolCallRequest) -> Any:
        """Calls one middleware with the rest as its `run`; after the last one comes the call itself."""
        if at == len(self.middleware):
            return await self._run_inside()
        middleware, rest = self.middleware[at], _Rest(self, at + 1, request)
        value = await middleware(replace(request, arguments=MappingProxyType(own(dict(request.arguments)))), rest)
        if value is not None:
            return value
        if not rest.is_used:
            name = getattr(middleware, "__name__", type(middleware).__name__)
            raise ToolFailed(f"the middleware {name} returned None without running the call")
        if rest.error is not None:
            raise rest.error
        return rest.value

    async def _run_inside(self) -> Any:
        call = self.call
        call.ending = None
        begin_wait(call, "loop")
        await self.attempts.run(call)
        ran = self.ran = call.ending or cancelled(call)
        if ran.error is not None:
            raise ran.error
        self.given = ran.value if ran.result is None else ran.result
        return self.given

    def change_arguments(self, request: ToolCallRequest, arguments: Mapping[str, Any]) -> ToolCallRequest:
        """Gives the call other arguments; returns it as the next middleware sees it. Raises `InvalidArguments` if they
        do not fit the tool, a `LocalProtocolError` if others were approved, or if the conflict key is not the same."""
        call = self.call
        tool, before = call.ready[0], (call.ready, call.changed)
        if call.needs:
            raise LocalProtocolError(f"{call.label}: its approved arguments cannot change; deny the call instead")
        plain: dict[str, Any] = from_json(as_json(tool.name, arguments))
        call.change(tool.validate(plain), plain)
        if call.conflict_key() != call.conflict:
            call.ready, call.changed = before
            raise LocalProtocolError(f"{call.label}: the new arguments would change its conflict_key")
        return replace(request, arguments=MappingProxyType(plain))


@dataclass(slots=True, eq=False)
class _Rest:
    wrapped: _Wrapped
    at: int
    request: ToolCallRequest
    is_used: bool = False
    value: Any = None
    error: BaseException | None = None

    async def __call__(self, arguments: Mapping[str, Any] | None = None, /) -> Any:
        if self.is_used:
            raise LocalProtocolError(f"{self.wrapped.call.label}: it has already run; set retries= on its tool")
        request = self.request
        if arguments is not None:
            request = self.wrapped.change_arguments(request, arguments)
        self.is_used = True
        try:
            self.value = await self.wrapped._layer(self.at, request)
        except BaseException as error:
            self.error = error
            raise
        return self.value
