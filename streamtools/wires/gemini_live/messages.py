"""The messages that bring results and prompts into a Live session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

Scheduling = Literal["SILENT", "WHEN_IDLE", "INTERRUPT"]


def function_responses(
    contents: Iterable[Mapping[str, Any]], *, leave_out: Collection[str] = (), scheduling: Scheduling | None = None
) -> list[dict[str, Any]]:
    """Returns the function responses among contents, for google-genai's `send_tool_response`.

        await session.send_tool_response(function_responses=function_responses(turn.messages()))

    Args:
        contents: those of `Turn.messages`, or your own.
        leave_out: ids of calls that the session has cancelled, and wants no answer to.
        scheduling: when the model speaks of the results of functions that it does not wait for (``NON_BLOCKING``).
    """
    more = {} if scheduling is None else {"scheduling": scheduling}
    return [
        {**part["functionResponse"], **more}
        for content in contents
        for part in _parts(content)
        if isinstance(part.get("functionResponse"), Mapping) and part["functionResponse"].get("id") not in leave_out
    ]


def client_messages(
    contents: Iterable[Mapping[str, Any]],
    *,
    leave_out: Collection[str] = (),
    scheduling: Scheduling | None = None,
    with_model: bool = False,
) -> list[dict[str, Any]]:
    """Returns the messages that bring contents into a session over a socket of your own: one `toolResponse` with all
    results, and one `clientContent` with the rest, after which the model answers. Send them in this order, as JSON.

        for message in client_messages(turn.messages()):
            await socket.send(json.dumps(message))

    Args:
        contents: those of `Turn.messages`, or your own.
        leave_out: as in `function_responses`.
        scheduling: as in `function_responses`.
        with_model: whether contents that the model made are among them, with the results of its calls, to begin
            another session with a history: all goes into `clientContent`. The session that made them has them already.
    """
    turns = [dict(content) for content in contents]
    if with_model:
        return [_client_content(turns)] if turns else []
    answers = function_responses(turns, leave_out=leave_out, scheduling=scheduling)
    asked = [content for content in turns if content.get("role") != "model" and not _answers(content)]
    messages: list[dict[str, Any]] = [{"toolResponse": {"functionResponses": answers}}] if answers else []
    return [*messages, _client_content(asked)] if asked else messages


def _client_content(turns: list[dict[str, Any]]) -> dict[str, Any]:
    return {"clientContent": {"turns": turns, "turnComplete": True}}


def _answers(content: Mapping[str, Any]) -> bool:
    return any("functionResponse" in part for part in _parts(content))


def _parts(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = content.get("parts")
    return [part for part in parts if isinstance(part, Mapping)] if isinstance(parts, list) else []
