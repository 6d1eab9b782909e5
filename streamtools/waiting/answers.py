"""Writes and reads the answers to calls that run outside; says how a call without an answer ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..content import AnsweredLater, Text, ToolResult
from ..dispatch.results import decode_result, encode_result, value_content
from ..dispatch.states import Ending
from ..errors import AnswerError, AnswerPending, ApprovalPending, CallCancelled, ToolFailed

_MOST_ANSWER_BYTES = 32 << 20  # of JSON: more than any result may have that a model reads


def written_answer(result: Any, *, is_error: bool) -> bytes:
    """Returns the result of a call that ran outside as bytes, so that results of other processes are treated the same.
    Raises a `TypeError` if it is not JSON, a `ValueError` if it is too large."""
    try:
        if isinstance(result, AnsweredLater):
            raise ToolFailed("it is not a result")
        written = encode_result(result)
    except ToolFailed as error:
        raise TypeError(f"answer: expected text, JSON or a ToolResult, got a {type(result).__name__}") from error
    if len(written) > _MOST_ANSWER_BYTES:
        most = _MOST_ANSWER_BYTES
        raise ValueError(f"answer: expected a result of at most {most} bytes of JSON, got {len(written)}")
    return b"1" + written if is_error else b"0" + written


def read_answer(record: bytes) -> Any:
    value = decode_result(record[1:])
    if record[:1] == b"0":
        return value
    if isinstance(value, ToolResult):
        return replace(value, is_error=True)
    return ToolResult(blocks=[Text(value_content(value, _MOST_ANSWER_BYTES)[0])], is_error=True)


def undecided() -> Ending:
    return Ending("skipped", ApprovalPending())


def unanswered(reason: str | None, *, is_kept: bool) -> Ending:
    """`is_kept`: an answer may come later."""
    if is_kept:
        return Ending("suspended", AnswerPending())
    why = f" ({reason})" if reason else ""
    text = f"the call was handed out, but its answer is no longer awaited{why}; it may have had its effect"
    return Ending("cancelled", CallCancelled(text))


def already_answered(call_id: str) -> AnswerError:
    return AnswerError(call_id, "already_answered", "already has a different answer, and the first one counts")
