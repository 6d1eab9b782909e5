"""v1's events, told by their ``event_type`` (https://docs.cohere.com/v1/docs/streaming).

Theory of operation. Text, plan and calls stream. But a call ends with ``tool-calls-generation`` or ``stream-end``,
which hold all calls whole, their arguments as objects: where these say something else than what streamed, they are
right; a call that neither names is cut. ``stream-end`` repeats the response: what of it was not told yet is told then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from ...events import ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ...text import well_formed
from ..fields import ERROR
from ..reading import named_error, provider_error, read_text
from .known import RESPONSE, SEARCHED
from .parts import CohereParts, label

__all__ = ["LegacyEvents"]

_STATE = {"api": "v1"}


class LegacyEvents(CohereParts):
    """The handlers of v1's events."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._told: LegacyStream | None = None  # None: no event of v1 was seen
        self._found = frozenset[str]()  # fields of the whole response that had an event of their own

    def _begin_legacy(self) -> LegacyStream:
        self._begin()
        if self._told is None:
            self._told = LegacyStream()
            self._state = _STATE
        return self._told

    def _stream_start(self, payload: dict[str, Any]) -> None:
        if not self._started:
            self.emit_start(None, payload.get("generation_id"))
        self._begin_legacy()

    def _text_generation(self, payload: dict[str, Any]) -> None:
        told = self._begin_legacy()
        if isinstance(text := payload.get("text"), str) and text:
            told.text.append(text)
            self.emit_text(text)
            self.part.sink = told.text.append

    def _citation_generation(self, payload: dict[str, Any]) -> None:
        self._begin_legacy()
        self._found |= {"citations"}
        citations = payload.get("citations")
        for citation in citations if isinstance(citations, list) else [citations]:
            self._citation(citation)

    def _search(self, payload: dict[str, Any]) -> None:
        """Keeps what the provider searched for and found, on its own."""
        self._begin_legacy()
        self._found |= payload.keys() & SEARCHED
        if self._keeps_one_more(payload) and (kept := self.to_keep(payload)) is not None:
            self.out.append(ProviderItem(payload["event_type"], kept))

    # -- calls --

    def _tool_calls_chunk(self, payload: dict[str, Any]) -> None:
        told = self._begin_legacy()
        delta = payload.get("tool_call_delta")
        delta = delta if isinstance(delta, dict) else {}
        self._plan(payload.get("text") or delta.get("text"))
        name, parameters = read_text(delta.get("name")), delta.get("parameters")
        if not name and not isinstance(parameters, str):
            return
        index = told.label(label(delta.get("index")), name)
        call = told.calls.get(index)
        if call is None:
            self.end_part()
            call = told.calls[index] = LegacyCall(name)
            self._calls[index] = True
            self.out.append(ToolCallFragment(index, None, name, start=True, provider_state=_STATE))
        if isinstance(parameters, str) and parameters and self._calls[index] is False:
            self.emit_unknown(payload)  # the call has ended
        elif isinstance(parameters, str) and parameters:
            call.pieces.append(parameters)  # as many as the turn may hold: the accumulator counts them
            self.out.append(ToolCallFragment(index, arguments=parameters))

    def _plan(self, text: object) -> None:
        if isinstance(text, str) and text:
            self._begin_legacy().plan.append(text)
            self._think("tool_plan", text)

    def _tool_calls_generation(self, payload: dict[str, Any]) -> None:
        if not self._begin_legacy().plan:
            self._plan(payload.get("text"))
        self._whole_calls(payload.get("tool_calls"), ("tool_calls",))

    def _whole_calls(self, calls: object, path: tuple[str | int, ...]) -> None:
        """Takes all calls of the response, in order; those that streamed end here, if they are these."""
        told = self._begin_legacy()
        for number, call in enumerate(calls if isinstance(calls, list) else ()):
            if not isinstance(call, dict):
                self.emit_unknown(call)
                continue
            self.end_part()
            name = read_text(call.get("name"))
            streamed = told.calls.get(number)
            if streamed is not None and streamed.name not in (None, name):
                streamed = None  # it is another call, which is cut
            index = f"whole:{number}" if streamed is None else number
            if self._calls.get(index) is False:
                continue  # `stream-end` repeats what was told
            self._calls[index] = False
            arguments, problem = self._argument_text(call, "parameters", (*path, number))
            if streamed is None:
                fragment = ToolCallFragment(index, read_text(call.get("id")), name, arguments, start=True, end=True)
            else:
                whole = None if streamed.says(arguments) else arguments
                fragment = ToolCallFragment(index, None, name if streamed.name is None else None, whole=whole, end=True)
            fragment = replace(fragment, problem=problem, provider_state=_STATE)
            self.out.append(fragment)

    # -- the end --

    def _stream_end(self, payload: dict[str, Any]) -> None:
        told = self._begin_legacy()
        response = payload.get("response")
        response = response if isinstance(response, dict) else {}
        self.emit_beside(response, RESPONSE | self._found, "response")
        calls = response.get("tool_calls")
        if isinstance(text := response.get("text"), str) and text:
            rest = told.rest(text)
            if rest is None:
                self.warn("text_differs")
                if self._open == "text" and not self._calls:
                    self.replace_part(text)
            elif rest and (calls or self._calls):  # beside calls it is the plan
                self._plan(rest)
            elif rest:
                self.emit_text(rest)
        self._whole_calls(calls, ("response", "tool_calls"))
        reason = payload.get("finish_reason") or response.get("finish_reason")
        self._ended(reason, response.get("meta"), payload.get("error") or response.get("error"))

    def _stream_error(self, payload: dict[str, Any]) -> None:
        if isinstance(body := payload.get("err"), dict):
            self.emit_unread(body, ERROR, "err")
        self.fail(provider_error({"error": payload.get("err")}) or named_error(payload))

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        if self._told is not None:
            for index in self._told.calls:
                if self._calls[index]:
                    self._calls[index] = False
                    if self._stopped:
                        self.warn("missing_call_end")
                    self.out.append(ToolCallFragment(index, end=True, cut=True))
            if self._finish() == "stop" and self._calls:
                return "tool_calls", self._stopped  # v1 has no word of its own for it
        return super().close(framed=framed)


@dataclass(slots=True)
class LegacyCall:
    """A call that streams, to be compared with what the response says of it at its end."""

    name: str | None
    pieces: list[str] = field(default_factory=list, repr=False)

    def says(self, arguments: str) -> bool:
        """Returns whether the text that streamed has the value of `arguments`: the provider parsed it and wrote it
        anew."""
        return _canonical("".join(self.pieces)) == _canonical(arguments)


class LegacyStream:
    """The texts and calls of one v1 response."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.plan: list[str] = []
        self.calls: dict[int | str, LegacyCall] = {}

    def rest(self, text: str) -> str | None:
        """Returns what of the response's text was not told yet; None if something else was."""
        told, plan, text = (well_formed(part) for part in ("".join(self.text), "".join(self.plan), text))
        if text.strip() in (told.strip(), plan.strip(), (plan + told).strip()):
            return ""
        if plan and not told:
            return None
        return text[len(told) :] if text.startswith(told) else None

    def label(self, index: int | str | None, name: str | None) -> int | str:
        """Returns the label of a piece of a call; without an index, a name begins a call, and all else is the
        latest's."""
        if index is not None:
            return index
        return len(self.calls) if name else max(len(self.calls) - 1, 0)


def _canonical(text: str) -> str | None:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None
