"""Realtime events in, events out: the Responses decoder, and what a session does differently.

A call ends with ``response.done``, and only if that says ``completed``: an item's own end proves nothing here. An error
that comes while a response goes on answers something else that the client sent (pipecat-ai/pipecat#3960), so it is
passed on: the response has its own end. Events of the session and the conversation are passed on, too.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from ...errors import ProviderError
from ...limits import Limits
from ...parts import Finish
from .. import named_error, object_of, provider_error, read_text
from ..openai_responses.decoder import ResponsesDecoder
from ..openai_responses.facts import WAITING
from ..openai_responses.lanes import LaneWords, ResponseLanes
from .facts import DONE, EVENT_FIELDS, FINISHES, LATER, PASSED_ON, REPEATED, REPEATING, TEXT_DELTAS, TEXT_DONES


class RealtimeDecoder(ResponsesDecoder):
    event_fields = EVENT_FIELDS
    later_fields = LATER
    text_deltas = TEXT_DELTAS
    text_dones = TEXT_DONES
    cursor = "event_id"
    may_end_calls = False

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._is_completed = False

    @override
    def after_end(self, payload: dict[str, Any]) -> list[Any] | None:
        if self._is_anothers(payload):
            return self.out
        kind = payload.get("type")
        if kind not in PASSED_ON and kind not in REPEATING:
            return None
        self.out = []
        self.emit_unknown(payload)
        return self.out

    @override
    def _terminal(self, payload: dict[str, Any]) -> None:
        self._progress(payload)
        response = object_of(payload.get("response"))
        self.read_usage(response.get("usage"))
        details = object_of(response.get("status_details"))
        status = read_text(response.get("status")) or "without a status"
        if status == "failed":
            error = provider_error({"error": details.get("error")})
            self.fail(error or ProviderError("the response failed; the provider gave no reason"))
            return
        self._is_completed = self.may_end_calls = status == "completed"
        if isinstance(output := response.get("output"), list):
            self._reconcile(output)
        self._finish_raw = read_text(details.get("reason")) or status
        self._ended = self.done = True

    @override
    def _error(self, payload: dict[str, Any]) -> None:
        if not self._started:
            super()._error(payload)
            return
        self.warn("session_error", str(named_error(payload).code)[: self.limits.max_name_bytes])
        self.emit_unknown(payload)

    def _repeats(self, payload: dict[str, Any]) -> None:
        """Takes an item of the conversation: one of this response is told by the response's own events."""
        item = payload.get("item")
        if isinstance(item, dict) and self._register.knows(None, item.get("id")):
            self.emit_beside(item, REPEATED, "item")
        else:
            self.emit_unknown(payload)

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        if not self._is_completed:
            for item in self._register.items:
                item.cut = True
        finish, ended = super().close(framed=framed)
        if self._finish_raw is not None:
            finish = finish if self._is_completed else FINISHES.get(self._finish_raw, "other")
        return finish, ended


RealtimeDecoder.handlers = {
    **{kind: handler for kind, handler in ResponsesDecoder.handlers.items() if kind.startswith("response.")},
    DONE: RealtimeDecoder._terminal,
    "error": RealtimeDecoder._error,
    **dict.fromkeys(TEXT_DELTAS, RealtimeDecoder._text_delta),
    **dict.fromkeys(TEXT_DONES, RealtimeDecoder._text_done),
    **dict.fromkeys(REPEATING, RealtimeDecoder._repeats),
    **dict.fromkeys(PASSED_ON, RealtimeDecoder.emit_unknown),
}


def realtime_lanes() -> ResponseLanes:
    return ResponseLanes(_LANES)


_LANES = LaneWords(
    terminals=(DONE,),
    errors=("error",),
    waiting=WAITING,
    beside=(
        "conversation.",
        "input_audio_buffer.",
        "mcp_list_tools.",
        "output_audio_buffer.",
        "rate_limits.",
        "session.",
    ),
    one_at_a_time=False,
    is_error_last=False,
)
