"""Gemini's responses in, events out."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from enum import Enum
from typing import Any, ClassVar

from pydantic_core import from_json
from typing_extensions import override

from ...errors import LimitExceeded, ProviderError
from ...events import Event, ProviderItem, ToolCallFragment
from ...limits import Limits
from ...parts import Finish
from ..cited import cited_sources
from ..decoder import WireDecoder
from ..marks import GEMINI, camel
from ..plain import PlainDelta
from ..reading import malformed, provider_error, read_text, rest_of, says_something
from . import facts
from .facts import BARE, KNOWN, OPAQUE
from .partial_args import OpenCall


class GeminiDecoder(WireDecoder):
    known: ClassVar[frozenset[str]] = KNOWN
    plain: ClassVar[tuple[PlainDelta, ...]] = (
        PlainDelta(
            ("candidates", 0, "content", "parts", 0, "text"),
            {
                (): facts.PLAIN,
                ("candidates", 0): frozenset({"index"}),
                ("candidates", 0, "content"): frozenset({"role"}),
                ("candidates", 0, "content", "parts", 0): frozenset({"thought"}),
            },
            varies=frozenset({("usageMetadata",), ("responseId",), ("createTime",)}),
        ),
    )

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._candidate: object = None  # index of the candidate that is followed
        self._path: tuple[str | int, ...] = ()  # from the payload's root to the response
        self._newest_usage: dict[str, Any] = {}  # not read yet: one with the same keys may take its place
        self._call: OpenCall | None = None
        self._call_count = 0
        self._has_calls = False
        self._is_late = False  # a call came after what said that the response is over
        self._finish_message: object = None
        self._about: dict[str, Any] = {}  # the fields that name sources of the answer, as they stood last

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        out = self.out = []
        payload = self._as_wire(payload)
        self.read_usage(payload.get("usageMetadata"))
        if error := error_in(payload):
            self.fail_by(payload, error, facts.ERROR_RESPONSE)
        elif self.known.isdisjoint(payload):
            self.warn("unknown_event")
            self.emit_unknown(payload)
        else:
            if not self._started:
                self.emit_start(payload.get("modelVersion"), payload.get("responseId"))
            self._read(payload)
        return out

    def _read(self, payload: dict[str, Any]) -> None:
        candidates = payload.get("candidates")
        if not candidates:
            if refusal := refusal_of(payload.get("promptFeedback")):
                self.fail(refusal)
        elif not isinstance(candidates, list):
            self.fail(malformed("'candidates' of a response is not a list"))
        else:
            for position, candidate in enumerate(candidates):
                if not isinstance(candidate, dict):
                    self.fail(malformed("a candidate of a response is not an object"))
                elif self._follows(candidate.get("index"), position):
                    self._read_candidate(candidate, (*self._path, "candidates", position, "content", "parts"))
                    about = self._read_about(candidate)
                    rest = rest_of(candidate, *about) if about else candidate
                    self.emit_unread(rest, facts.CANDIDATE, "candidates", position)
        self.emit_unread(payload, facts.RESPONSE)

    def terminate(self) -> list[Event]:
        self.out = []
        self._is_late = False
        return self.out

    def read_usage(self, usage: object) -> None:
        """Keeps `usage` and reads the one before it; `after_plain` replaces most of them unread."""
        if isinstance(usage, dict):
            super().read_usage(self._newest_usage)
            self._newest_usage = usage

    @override
    def after_plain(self, payload: dict[str, Any]) -> None:
        self._newest_usage = payload.get("usageMetadata") or self._newest_usage  # with the same counts: totals so far

    # -- the envelope --

    def _as_wire(self, payload: dict[str, Any]) -> dict[str, Any]:
        self._payload, self._exact, self._path = payload, None, ()
        inner = payload.get("response")
        if isinstance(inner, dict) and GEMINI.isdisjoint(payload):
            self.warn("wrapped_response")
            self.emit_unread(payload, facts.WRAPPER)
            payload, self._path = inner, ("response",)
        if is_foreign(payload):
            payload = self._exact = as_wire(self._exactly(payload))
            self._path = ()
        return payload

    def _exactly(self, payload: dict[str, Any]) -> Any:
        try:
            exact = from_json(self.raw or b"", allow_inf_nan=False)
        except ValueError:  # no bytes, or such that only the tolerant parser takes
            return payload
        for name in self._path:
            exact = exact[name]
        return exact

    def _follows(self, index: object, position: int) -> bool:
        if index is None:  # 0 is left out
            index = position
        if self._candidate is None:
            self._candidate = index
        if index == self._candidate:
            return True
        self.warn("extra_candidate")
        return False

    def _read_candidate(self, candidate: dict[str, Any], path: tuple[str | int, ...]) -> None:
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        if isinstance(parts, list):
            for number, part in enumerate(parts):
                if self.done:  # a limit was exceeded
                    return
                if isinstance(part, dict):
                    self._read_part(without_nulls(part), (*path, number))
                else:
                    self.emit_unknown(part)
        elif parts or (content and not isinstance(content, dict)):
            self.emit_unknown(content)
        if (reason := candidate.get("finishReason")) is not None:
            self._finished(reason, candidate.get("finishMessage"))
        if (token := candidate.get("continuationToken")) is not None and self._may_keep():
            item = {"continuationToken": self.to_keep(as_wire(token))}
            self.out.append(ProviderItem("continuationToken", item))

    def _read_about(self, found: Mapping[str, Any]) -> tuple[str, ...]:
        about = [name for name in facts.ABOUT if name in found and next(cited_sources({name: found[name]}), None)]
        for name in about:
            if found[name] != self._about.get(name) and self._may_keep() and self.charge(found[name]):
                self._about[name] = found[name]
                if (kept := self.to_keep(as_wire(found[name]))) is not None:
                    self.out.append(ProviderItem(name, {name: kept}))
        return tuple(about)

    # -- parts --

    def _read_part(self, part: dict[str, Any], path: tuple[str | int, ...]) -> None:
        if "functionCall" in part:
            self._function_call(part, (*path, "functionCall"))
        elif "text" in part or part.keys() <= BARE:
            self._text_part(part)
        else:
            self._opaque_part(part, path)

    def _text_part(self, part: dict[str, Any]) -> None:
        text = part.pop("text", "")
        tell = self.emit_reasoning if part.pop("thought", False) else self.emit_text
        state = self._state(part)
        if not isinstance(text, str):
            self.emit_unknown(text)
        elif not state:
            if text:
                tell(text)
        else:  # a signature stays with its own part, which is never joined with another
            self.end_part()
            tell(text)
            self.end_part(state)

    def _state(self, part: dict[str, Any]) -> dict[str, Any] | None:
        state = as_wire(part)
        signature = state.get("thoughtSignature")
        if "thoughtSignature" in state and not (isinstance(signature, str) and signature):
            del state["thoughtSignature"]
            if signature:
                self.emit_unknown({"thoughtSignature": signature})
        return self.to_keep(state) if state and self.charge(state) else None

    def _opaque_part(self, part: dict[str, Any], path: tuple[str | int, ...]) -> None:
        kind = next((name for name in part if name in OPAQUE), None)
        if kind is None:
            kind = str(next(name for name in part if name not in BARE))[: self.limits.max_name_bytes]
            self.warn("unknown_block_type", kind)
        if not self._may_keep() or (kept := self._state(part)) is None:
            return
        self.end_part()
        body = kept.get(kind)
        if kind == "executableCode":
            self._server_call("code_execution", body, part.get(kind), kept, (*path, kind))
        elif kind == "toolCall" and isinstance(body, dict):
            name = read_text(body.get("toolType")) or "tool_call"
            self._server_call(name, body, body.get("args"), kept, (*path, kind, "args"))
        else:
            self.out.append(ProviderItem(kind, kept))

    def _server_call(
        self, name: str, body: object, arguments: object, part: dict[str, Any], path: tuple[str | int, ...]
    ) -> None:
        text, problem = ("", None) if arguments is None else self.object_text(arguments, path)
        id_ = read_text(body.get("id")) if isinstance(body, dict) else None
        self.out.append(
            ToolCallFragment(
                None, id_, name, text, "server", start=True, end=True, problem=problem, provider_state={"part": part}
            )
        )

    def _may_keep(self) -> bool:
        self._part_count += 1
        return self.holds(self._part_count, "the response")

    # -- calls --

    def _function_call(self, part: dict[str, Any], path: tuple[str | int, ...]) -> None:
        call = part.pop("functionCall")
        text = part.pop("text", None)
        if isinstance(text, str) and text:
            (self.emit_reasoning if part.get("thought") else self.emit_text)(text)
        if not isinstance(call, dict):
            self.emit_unknown(call)
            return
        self.emit_unread(call, facts.CALL, *path)
        self.end_part()
        self._is_late = self._finish_raw is not None
        state = self._state(part)
        name, id_ = read_text(call.get("name")), read_text(call.get("id"))
        pieces, continues = call.get("partialArgs"), bool(call.get("willContinue"))
        if self._call is not None and self._call.is_continued_by(name, id_):
            self._continue_call(self._call, dict(state or {}))
        elif not name and not call.get("args"):
            if pieces:
                self.out.append(ToolCallFragment(id_, disorder="late"))  # pieces of no call: of any that has this id
            if pieces or continues or state:  # otherwise the mark of an end, after the end
                self.warn("delta_without_block")
                self.emit_unknown({"functionCall": call, **state} if state else call)
            return
        elif not pieces and not continues:
            self._end_call(cut=True)
            self._whole_call(id_, name, *self._arguments(call, path), state)
            return
        else:
            self._end_call(cut=True)  # it was never ended
            self._begin_call(id_, name, state)
        self._pieces(call, pieces, path)
        if not continues:
            self._end_call()

    def _arguments(self, call: dict[str, Any], path: tuple[str | int, ...]) -> tuple[str, str | None]:
        if isinstance(arguments := call.get("args"), str):
            self.warn("arguments_text")
        return self.arguments_text(arguments, (*path, "args"))

    def _whole_call(
        self, id_: str | None, name: str | None, text: str, problem: str | None, state: dict[str, Any] | None
    ) -> None:
        self._has_calls = True
        self.out.append(
            ToolCallFragment(
                self._label(id_),
                id_,
                name,
                start=True,
                end=True,
                whole=text or None,  # arguments in a call's one part are all of them, even `{}`
                problem=problem,
                provider_state=state,
            )
        )

    def _begin_call(self, id_: str | None, name: str | None, state: dict[str, Any] | None) -> None:
        self._has_calls = True
        call = self._call = OpenCall(self._label(id_), id_, self.limits)
        call.signature = (state or {}).get("thoughtSignature")
        self.out.append(ToolCallFragment(call.index, id_, name, start=True, provider_state=state))

    def _continue_call(self, call: OpenCall, state: dict[str, Any]) -> None:
        """Takes a later part of a call, which has only a signature to add, if the call has none."""
        signature = state.pop("thoughtSignature", None)
        if signature is not None and call.signature is not None:
            self.warn("extra_signature")
        elif signature is not None:
            call.signature = signature
            self.out.append(ToolCallFragment(call.index, provider_state={"thoughtSignature": signature}))
        if state.keys() - BARE:
            self.emit_unknown(state)

    def _label(self, id_: str | None) -> int | str:
        self._call_count += 1
        limit = self.limits.max_tool_calls
        if self._call_count > limit:
            self.fail(LimitExceeded("max_tool_calls", limit=limit, where="the turn"))
        return id_ or self._call_count

    def _pieces(self, call: dict[str, Any], pieces: object, path: tuple[str | int, ...]) -> None:
        open_ = self._call
        assert open_ is not None, "pieces are for the open call"
        if call.get("args"):
            open_.whole = self._arguments(call, path)
        if isinstance(pieces, list):
            for number, piece in enumerate(pieces):
                self._piece(open_, self._exact_piece(piece, (*path, "partialArgs", number, "numberValue")))
        elif pieces is not None:
            self._piece(open_, pieces)

    def _piece(self, call: OpenCall, piece: object) -> None:
        call.arguments.add(piece)
        if call.arguments.problem is not None:
            self.emit_unknown({"partialArgs": [piece]})

    def _exact_piece(self, piece: Any, path: tuple[str | int, ...]) -> Any:
        """Returns a piece with all the digits of its number: the parser of payloads makes floats of large integers."""
        number = piece.get("numberValue") if isinstance(piece, dict) else None
        if not isinstance(number, float) or abs(number) < 2**63:
            return piece
        text, _ = self.object_text(number, path)
        return piece | {"numberValue": from_json(text)}

    def _end_call(self, *, cut: bool = False) -> None:
        if self._call is not None:
            end = self._call.end(cut=cut)
            if not end.arguments and (unused := self._call.unused()):
                self.emit_unknown(unused)
            self.out.append(end)
            self._call = None

    # -- the end --

    def _finished(self, reason: object, message: object) -> None:
        """Takes a finish reason, which is not always the last word: relays send it first, too."""
        reason = as_wire(reason)
        if isinstance(reason, int) and not isinstance(reason, bool):
            self.warn("numeric_finish_reason")
            reason = _BY_NUMBER.get(reason, "OTHER")
        if not isinstance(reason, str):
            self.emit_unknown(reason)
            return
        if reason in UNSPECIFIED:
            return
        self._is_late = False
        if self._finish_raw is not None:
            self.warn("repeated_finish_reason" if reason == self._finish_raw else "conflicting_finish_reason")
            if reason == self._finish_raw or finish_of(reason) in ("stop", "tool_calls"):
                return  # a later reason counts only if it is bad news
        self._finish_raw, self._finish_message = reason, message

    def _close_parts(self) -> None:
        self._end_call(cut=True)
        self.end_part()
        super().read_usage(self._newest_usage)

    @override
    def close(self, *, framed: bool) -> tuple[Finish | None, bool]:
        self._close_parts()
        reason = self._finish_raw
        if reason is None:
            return None, False
        finish = finish_of(reason)
        if finish == "error":
            self._verdict = verdict(reason, self._finish_message)
        elif says_something(self._finish_message):
            self.emit_unknown({"finishMessage": self._finish_message}, "candidates[0]")
        return "tool_calls" if finish == "stop" and self._has_calls else finish, not self._is_late


# -- the envelope, and its spelling --

# The envelope of a response: how it ends, by finish reasons, verdicts, refused prompts and errors; and how others than
# the API spell it, with names like ``finish_reason``, with bytes, enums and nulls.

# https://ai.google.dev/api/generate-content#FinishReason, and Vertex' (read 2026-11-20)
_FINISHES: dict[str, Finish] = {
    "STOP": "stop",
    "FUNCTION_CALL": "tool_calls",  # aimock
    "MAX_TOKENS": "length",
    "CONTINUATION": "pause",
    **dict.fromkeys((
        "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "ESCALATION", "MODEL_ARMOR",
        "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
    ), "content_filter"),
    **dict.fromkeys((
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
        "MALFORMED_RESPONSE",
    ), "error"),
}  # fmt: skip
_BAD_CALLS = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
UNSPECIFIED = ("", "FINISH_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")  # an enum's zero: no reason was given
# The enum's numbers, as far as all of Google's APIs agree about them.
_BY_NUMBER = {0: UNSPECIFIED[1], 1: "STOP", 2: "MAX_TOKENS", 3: "SAFETY", 4: "RECITATION"}


def finish_of(reason: str) -> Finish:
    return _FINISHES.get(reason.upper(), "other")


def verdict(reason: str, message: object) -> ProviderError:
    kind = "malformed_function_call" if reason.upper() in _BAD_CALLS else "provider_error"
    return ProviderError(read_text(message) or reason, code=read_text(reason), kind=kind)


def refusal_of(feedback: object) -> ProviderError | None:
    if not isinstance(feedback, dict):
        return None
    reason = feedback.get("blockReason")
    if not reason or reason in UNSPECIFIED:
        return None
    message = read_text(feedback.get("blockReasonMessage")) or read_text(reason) or "the prompt was blocked"
    return ProviderError(message, code=read_text(reason), kind="blocked")


def error_in(payload: dict[str, Any]) -> ProviderError | None:
    """Returns the error that a payload reports; its type is the status, which Google's errors have instead."""
    if "error" not in payload:
        return None
    error, body = provider_error(payload), payload["error"]
    if error is not None and error.type is None and isinstance(body, dict):
        error.type = read_text(body.get("status"))
    return error


# -- the spelling --

# What the model or a tool wrote: its names are its own.
_NOT_OURS = frozenset({"args", "response", "partMetadata", "part_metadata"})
_NULL_MEANT = frozenset({"nullValue", "null_value"})
_MAX_DEPTH = 16  # an envelope has about ten levels


def is_foreign(payload: Mapping[str, Any]) -> bool:
    """Returns whether some name is spelled as in Protocol Buffers, which their JSON format allows
    (https://protobuf.dev/programming-guides/json)."""
    levels: list[Any] = [payload]
    candidates = payload.get("candidates")
    for candidate in candidates if isinstance(candidates, list) else ():
        levels.append(candidate)
        content = candidate.get("content") if isinstance(candidate, dict) else None
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            levels.append(part)
            if isinstance(part, dict):
                levels.extend(part.values())
    return any(isinstance(level, dict) and "_" in "".join(map(str, level)) for level in levels)


def as_wire(value: Any, depth: int = 0) -> Any:
    """Returns a part of a payload as on the wire: camelCase, bytes in Base64, no nulls, no enums."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        return {
            camel(name): item if name in _NOT_OURS else as_wire(item, depth + 1)
            for name, item in value.items()
            if item is not None or name in _NULL_MEANT
        }
    if isinstance(value, list) and depth < _MAX_DEPTH:
        return [as_wire(item, depth + 1) for item in value]
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value.value if isinstance(value, Enum) else value


def without_nulls(part: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if value is not None}
