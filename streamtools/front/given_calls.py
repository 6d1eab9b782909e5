"""Decodes existing calls (suspended ones, those of `run_calls`) as if they came in a stream.

None of them is trusted: each is announced, ended and validated again. A call that was cut, or that was not ours to run,
ends as it did and does not run.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from ..content import Caller
from ..errors import ExportError, InvalidArguments, StreamError
from ..events import Event, StreamEnd, ToolCallEnd, ToolCallFragment, ToolCallStart, ToolCallValidated
from ..limits import Limits
from ..parts import CallKind, ToolCall
from ..stages import Deferred, StageList
from ..tools import Toolset
from ..tools.checks import refusal
from ..tools.typed import as_json
from ..wires import Wire
from ..wires.reading import caller_of

AnyCall: TypeAlias = tuple[str | None, str, Any] | ToolCall | Mapping[str, Any]
"""A call to run: its id, its tool's name and its arguments (a JSON object, or the text of one); a `ToolCall`; or the
dict of a provider or framework."""

_ID_KEYS = ("call_id", "toolUseId", "id")
_ARGUMENTS_KEYS = ("arguments", "args", "input")  # MCP and OpenAI; LangChain and Gemini; Anthropic and Bedrock


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCall:
    call_id: str
    name: str
    text: str = field(default="", repr=False)  # the arguments as JSON, or the text of a ``custom`` call
    index: int | None = None  # its position in the turn that it came with; by default its place here
    kind: CallKind = "function"
    namespace: str | None = None  # the namespace that the call named; a part of `name`, too
    awaits: str | None = None  # as `ToolCall.awaits`
    caller: Caller = "direct"  # as `ToolCall.caller`
    is_named_here: bool = False  # its id is made up
    ended: ToolCallEnd | None = None  # how it ended, if that keeps it from being read again


def as_given(calls: Iterable[AnyCall], *, need_ids: bool = False) -> list[GivenCall]:
    """Raises a `TypeError` for what is no call, a `ValueError` for an id that recurs, or is needed and missing."""
    if isinstance(calls, (str, Mapping, ToolCall)) or not isinstance(calls, Iterable):
        raise TypeError(f"calls must be a list of calls, not {type(calls).__name__}; write [(id, name, arguments)]")
    found = [_as_given(call, place) for place, call in enumerate(calls)]
    seen: set[str] = set()
    for place, call in enumerate(found):
        if need_ids and call.is_named_here:
            raise ValueError(
                f"calls[{place}]: a store recognises a repeated call by its id; write (id, name, arguments)"
            )
        if call.call_id in seen:
            raise ValueError(f"calls[{place}]: another call has the id {call.call_id!r}; each call needs its own")
        seen.add(call.call_id)
    return found


def _as_given(call: object, place: int) -> GivenCall:
    if isinstance(call, ToolCall):
        return _of_ours(call, place)
    if isinstance(call, Mapping):
        return _of_mapping(call, place)
    if isinstance(call, (tuple, list)) and len(call) == 3:
        call_id, name, arguments = call
        return _of_three(call_id, name, arguments, place)
    raise TypeError(
        f"calls[{place}] is a {type(call).__name__}; pass (id, name, arguments), a ToolCall, or a provider's dict"
    )


def _of_ours(call: ToolCall, place: int) -> GivenCall:
    if call.kind == "server":
        raise ValueError(f"calls[{place}]: the provider runs {call.name} itself; leave it out")
    given = GivenCall(
        call_id=call.call_id,
        name=call.name,
        text=call.arguments_text,
        kind=call.kind,
        namespace=call.namespace,
        awaits=call.awaits,
        caller=call.caller,
    )
    return given if call.status == "ready" else replace(given, ended=ToolCallEnd(call))


def _of_three(call_id: object, name: object, arguments: object, place: int) -> GivenCall:
    if not isinstance(name, str):
        raise TypeError(f"calls[{place}]: the tool's name must be text, not {type(name).__name__}")
    if call_id is not None and not isinstance(call_id, str):
        raise TypeError(f"calls[{place}]: the id must be text, or None to make one up, not {type(call_id).__name__}")
    given = GivenCall(call_id=call_id or f"call_{uuid.uuid4().hex}", name=name, is_named_here=not call_id)
    try:
        return replace(given, text=_text(name, arguments))
    except InvalidArguments as error:
        call = ToolCall(call_id=given.call_id, name=name, status="invalid", problem="malformed_json")
        return replace(given, ended=ToolCallEnd(call, error))


def _text(name: str, arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    try:
        return (arguments if isinstance(arguments, bytes) else as_json(name, arguments or {})).decode()
    except UnicodeDecodeError:  # the error's text quotes the input
        raise refusal(name, ["the arguments: should be UTF-8"]) from None


def _of_mapping(call: Mapping[str, Any], place: int) -> GivenCall:
    key = next((key for key in _ARGUMENTS_KEYS if key in call), None)
    if key is not None and "name" in call and call.get("type") != "custom_tool_call":
        call_id = next((call[key] for key in _ID_KEYS if call.get(key)), None)
        return replace(_of_three(call_id, call["name"], call[key], place), caller=caller_of(call) or "direct")
    from ..interop.registry import ToolInteropRegistry  # it knows the calls of every wire, and loads them all

    try:
        read = ToolInteropRegistry.of().inspect_call(call)
    except ExportError as error:
        raise TypeError(f"calls[{place}]: {error}; or pass (id, name, arguments)") from None
    restored = read.payload_metadata.get("arguments_text", read.payload)
    given = _of_three(read.call_id, read.tool_name, restored, place)
    kind: CallKind = "custom" if read.payload_kind == "raw" else "function"
    return replace(given, kind=kind, namespace=read.namespace, caller=caller_of(call) or "direct")


async def one_item() -> AsyncIterator[Mapping[str, Any]]:
    """Yields all calls as the one item of a source, so that a consumer who leaves has seen all of them, and their end,
    or none; the decoder has them."""
    yield {}


class CallsDecoder:
    """A decoder that makes the events of calls which came whole: announced, ended, validated. `wire` is the name of
    that over which they came once; None if nobody knows."""

    def __init__(
        self, calls: Sequence[GivenCall], tools: Toolset, stages: StageList, limits: Limits, *, wire: str | None = None
    ) -> None:
        self.wire: str | None = wire
        self.record: Wire | None = None  # none: only the name of a wire is kept with calls
        self.received = sum(len(call.text) for call in calls)
        self.done = False
        self._calls = calls
        self._indexes = {call.call_id: place if call.index is None else call.index for place, call in enumerate(calls)}
        self.chain = stages.build(tools, limits, "", defer=True)

    @property
    def deferred(self) -> Deferred | None:
        return self.chain.deferred

    def resume(self, made: Iterable[Event], /) -> list[Event]:
        return [self._placed(event) for event in self.chain.resume(made)]

    def feed(self, _: bytes | Mapping[str, Any], /) -> list[Event]:
        self.done = True
        events = [event for call in self._calls for event in self._events(call)]
        events += self.chain.feed(StreamEnd(finish="tool_calls", complete=True))
        events += self.chain.finish()
        return [self._placed(event) for event in events]

    def finish(self, error: StreamError | None = None, *, abandoned: bool = False) -> list[Event]:
        if self.done:
            return []
        self.done = True
        return [*self.chain.feed(StreamEnd(error=error)), *self.chain.finish()]

    def _events(self, call: GivenCall) -> list[Event]:
        if call.ended is not None:
            return [ToolCallStart(call.call_id, call.name, kind=call.kind), call.ended]
        local = call.name if call.namespace is None else call.name.removeprefix(f"{call.namespace}.")
        fragment = ToolCallFragment(
            index=call.call_id,
            id=call.call_id,
            name=local,
            namespace=call.namespace,
            awaits=call.awaits,
            caller=call.caller,
            arguments=call.text,
            kind=call.kind,
            start=True,
            end=True,
        )
        return list(self.chain.feed(fragment))

    def _placed(self, event: Event) -> Event:
        if isinstance(event, ToolCallStart):
            index = self._indexes.get(event.call_id, event.index)
            return event if event.index == index else replace(event, index=index)
        if isinstance(event, (ToolCallEnd, ToolCallValidated)):
            call = event.call
            index = self._indexes.get(call.call_id, call.index)
            return event if call.index == index else replace(event, call=replace(call, index=index))
        return event
