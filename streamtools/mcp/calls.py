"""Calls an MCP tool, and translates between the answers of MCP servers and tool results, both ways."""

from __future__ import annotations

import binascii
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any, Literal

from anyio import to_thread
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ..content import Block, Media, Text, ToolResult
from ..dispatch.results import is_small
from ..errors import ToolError, ToolFailed, ToolOutcomeUnknown
from ..events import Observation
from ..ground import one_line, well_formed
from ..limits import Limits
from ..telemetry.carrier import current_carrier
from ..tools import Effect, ToolContext
from .definition import is_finite, peek, plain, weighed
from .elicitation import MOST_ROUNDS, NOBODY, Elicitation
from .peer import OnProgress, Peer, Unasked, is_lost
from .tasks import Task, task_in


def caller(
    peer: Peer,
    server: str,
    name: str,
    *,
    effect: Effect,
    structured: bool,
    limits: Limits,
    elicitation: Elicitation | None = None,
    as_task: bool = False,
) -> Callable[[dict[str, Any], ToolContext], Awaitable[ToolResult]]:
    """Returns a function that calls the server's tool `name`.

    The current span is sent as ``_meta.traceparent``; the server's progress becomes ``ctx.progress``; a cancelled call
    is cancelled on the server. With `elicitation` the server may ask the user meanwhile. If the connection is lost, the
    call of a ``pure`` tool fails; the outcome of any other is unknown.
    """

    async def call(arguments: dict[str, Any], ctx: ToolContext) -> ToolResult:
        task = Task(peer=peer, server=server, ctx=ctx, effect=effect, limits=limits, elicitation=elicitation)
        meta, on_progress = current_carrier(), _progress(ctx, limits)
        ask = partial(peer.call, name, arguments, as_task=as_task, meta=meta, on_progress=on_progress)
        try:
            if task.is_noted:
                answer = await task.end()
            else:
                async with nullcontext() if elicitation is None else elicitation.during(ctx, server, limits):
                    answer = await (ask() if elicitation is None else _with_input(ask, elicitation))
                if peer.has_tasks and (made := task_in(answer, as_task)) is not None:
                    answer = await task.end(made)
        except Exception as error:
            failure = _lost(server, effect) if is_lost(error) else _refusal(error, server, limits)
            if failure is None:
                raise
            raise failure from error
        read = partial(tool_result, answer, structured=structured, limits=limits)
        # Base64 of megabytes takes long to check, and the event loop serves other calls meanwhile.
        return read() if is_small(answer) else await to_thread.run_sync(read, abandon_on_cancel=True)

    call.__name__ = call.__qualname__ = name
    call.goes_on = True  # type: ignore[attr-defined]  # by a task's id; see `GateView.goes_on`
    return call


async def _with_input(ask: Callable[..., Awaitable[Any]], elicitation: Elicitation) -> Any:
    answer = await ask()
    for _ in range(MOST_ROUNDS):
        if not wants_input(answer):
            return answer
        state = peek(answer, "requestState", "request_state")
        answer = await ask(given=(await elicitation.inputs(answer), state))
    if not wants_input(answer):
        return answer
    raise ToolError(f"the MCP server asks for input more than {MOST_ROUNDS} times in one call")


def wants_input(answer: Any) -> bool:
    """Returns whether an answer is a request for input, as it may be since MCP 2026-07-28."""
    kind = peek(answer, "resultType", "result_type")
    return kind == "input_required" or (kind is None and peek(answer, "inputRequests", "input_requests") is not None)


def _progress(ctx: ToolContext, limits: Limits) -> OnProgress:
    left = limits.max_progress_events

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        nonlocal left
        left -= 1
        # Each progress is an event, which a consumer passes on as JSON: that has neither NaN nor infinity.
        if left < 0 or not is_finite(progress):
            return
        report: dict[str, Any] = {"progress": progress}
        if is_finite(total):
            report["total"] = total
        if message is not None:
            report["message"] = one_line(message, limits.max_error_excerpt)
        ctx.progress(report)

    return on_progress


def _lost(server: str, effect: Effect) -> ToolError:
    what = f"the connection to the MCP server {server!r} was lost before the server answered"
    if effect == "pure":
        return ToolFailed(what)
    # Told of a failure, a model would repeat the call, which may have had its effect.
    return ToolOutcomeUnknown(f"{what}; the call may have had its effect")


def _refusal(error: Exception, server: str, limits: Limits) -> ToolError | None:
    if isinstance(error, Unasked):
        return ToolError(f"the request to the MCP server {server!r} was not sent: {error}")
    if isinstance(error, ValidationError):
        return ToolError(f"the MCP server {server!r} answered with something that is not a tool result")
    # By its shape: the SDK's class for an error of JSON-RPC is `McpError` in one generation, `MCPError` in the other.
    code, message = peek(peek(error, "error"), "code"), peek(peek(error, "error"), "message")
    if not isinstance(code, int) or not isinstance(message, str):
        return None
    return ToolError(
        f"the MCP server {server!r} answered with error {code}: {one_line(message, limits.max_error_excerpt)}"
    )


# -- a server's answer as a result --


MAX_ADDRESS_CHARS = 1024

ANY_STRUCTURE = "2026-07-28"
"""The first version of the protocol whose structured content may be any JSON value; before, it was an object."""

_BLANKS = str.maketrans("", "", " \t\r\n")
_MIME = re.compile(r"[\w.+-]{1,64}/[\w.+-]{1,64}(;[ -~]{0,128})?", re.ASCII)
_Kind = Literal["image", "audio", "video", "file"]
_KINDS: dict[str, _Kind] = {"image": "image", "audio": "audio", "video": "video"}


def tool_result(answer: Any, *, structured: bool = False, limits: Limits = Limits()) -> ToolResult:
    """Returns the answer to ``tools/call`` as a result for the model and the program.

    The model reads `ToolResult.blocks`; the program gets `ToolResult.value`: the structured content, else the text.

    | content block | becomes |
    |---|---|
    | text | `Text` |
    | image, audio | `Media`; a placeholder if its data is not base64 or it has no type |
    | resource_link | `Text` with its name and address, which only the server can resolve |
    | resource | `Text` for text, `Media` for a blob, each with its address |
    | anything else | a placeholder |

    Args:
        answer: the SDK's ``CallToolResult`` of either generation, or the JSON object itself.
        structured: the tool declares an output schema, so text does not replace structured content.
        limits: `max_open_blocks` for the blocks, `max_result_media_bytes` for the structured content as JSON.

    Raises:
        ToolError: the answer is not a result, or is a request for input; or its structured content is too large, or
            not JSON.
    """
    _refuse_other_than_complete(answer)
    content = peek(answer, "content")
    if content is not None and not isinstance(content, (list, tuple)):
        raise ToolError("the MCP server's answer is not a tool result: its content is not a list")
    is_error = peek(answer, "isError", "is_error") is True
    value = peek(answer, "structuredContent", "structured_content")
    if content is None and value is None and not is_error:
        raise ToolError("the MCP server's answer is not a tool result: it has neither content nor structured content")
    blocks = list(_blocks(content or (), limits))
    text = "\n".join(block.text for block in blocks if isinstance(block, Text))
    if is_error:
        return ToolResult(blocks=tuple(blocks or [Text("the tool failed and did not say why")]), is_error=True)
    if value is None:
        return ToolResult(blocks=tuple(blocks), value=None if structured else text)
    written = _written(value, limits)
    return ToolResult(blocks=tuple(blocks or [Text(written)]), value=value)


def _refuse_other_than_complete(answer: Any) -> None:
    kind = peek(answer, "resultType", "result_type")
    if wants_input(answer):
        raise ToolError(NOBODY)
    if kind not in (None, "complete"):
        shown = one_line(kind, 64) if isinstance(kind, str) else type(kind).__name__
        raise ToolError(f"the MCP server's answer has an unknown type: {shown}")


def _written(structured: Any, limits: Limits) -> str:
    most = limits.max_result_media_bytes
    count, chars, is_whole = weighed(structured, most, most)
    if not is_whole or count + chars > most:  # as JSON, each value takes at least a character
        raise _unfit(f"is larger than max_result_media_bytes={most}")
    try:
        written = to_json(structured)
    except ValueError:
        raise _unfit("cannot be written as JSON") from None
    if len(written) > most:
        raise _unfit(f"is larger than max_result_media_bytes={most}")
    return written.decode()


def _unfit(why: str) -> ToolError:
    # The message says that the tool has run: the model must not take this for a call that it may repeat.
    return ToolError(f"the tool has run, but the structured content in the MCP server's answer {why}")


def _blocks(content: list[Any] | tuple[Any, ...], limits: Limits) -> Iterator[Block]:
    for raw in content[: limits.max_open_blocks]:
        block = plain(raw)
        kind = block.get("type")
        reader = _READERS.get(kind) if isinstance(kind, str) else None
        yield _unreadable(block, "") if reader is None else reader(block)
    if (rest := len(content) - limits.max_open_blocks) > 0:
        yield Text(f"[cut: {rest} more blocks]")


def _text(block: dict[str, Any]) -> Block:
    text = block.get("text")
    return Text(well_formed(text)) if isinstance(text, str) else _unreadable(block, "its text is not a string")


def _media(block: dict[str, Any]) -> Block:
    mime = _mime(peek(block, "mimeType", "mime_type"))
    if mime is None:
        return _unreadable(block, "it has no type")
    return _media_of(mime, block.get("data"), None) or _unreadable(block, "its data is not base64")


def _link(block: dict[str, Any]) -> Block:
    words = [_line(block, "name"), _line(block, "uri"), _mime(peek(block, "mimeType", "mime_type"))]
    return Text(f"[resource: {', '.join(word for word in words if word)}]")


def _resource(block: dict[str, Any]) -> Block:
    resource = plain(block.get("resource"))
    address = _line(resource, "uri") or "without an address"
    text = resource.get("text")
    if isinstance(text, str):
        return Text(f"[resource: {address}]\n{well_formed(text)}")
    mime = _mime(peek(resource, "mimeType", "mime_type")) or "application/octet-stream"
    blob = resource.get("blob")
    return _media_of(mime, blob, address) or Text(f"[resource: {address}; left out: its data is not base64]")


_READERS: Mapping[str, Callable[[dict[str, Any]], Block]] = {
    "text": _text,
    "image": _media,
    "audio": _media,
    "resource_link": _link,
    "resource": _resource,
}


def _media_of(mime: str, data: Any, filename: str | None) -> Media | None:
    if not isinstance(data, str):
        return None
    data = data.translate(_BLANKS)  # without the line breaks that MIME adds
    # A provider would refuse the request that contains it, and each one after it, since it stays in the history.
    try:
        binascii.a2b_base64(data, strict_mode=True)
    except ValueError:
        return None
    kind = _KINDS.get(mime.partition("/")[0], "file")
    return Media(kind=kind, mime_type=mime, data=data, filename=filename)


def _unreadable(block: dict[str, Any], why: str) -> Text:
    kind = _line(block, "type") or "block of unknown type"
    return Text(f"[{kind}{f'; left out: {why}' if why else ''}]")


def _mime(value: Any) -> str | None:
    return value if isinstance(value, str) and _MIME.fullmatch(value) else None


def _line(block: Mapping[str, Any], key: str) -> str:
    value = block.get(key)
    return one_line(value, MAX_ADDRESS_CHARS) if isinstance(value, str) else ""


# -- our observation as an answer --


def result_for_mcp(observation: Observation, *, protocol_version: str = ANY_STRUCTURE) -> dict[str, Any]:
    """Returns an observation as ``CallToolResult``, as JSON.

    The text for the model becomes the content; a value other than text also becomes the structured content.

    Args:
        observation: the observation of a call that an MCP client has made.
        protocol_version: the version negotiated with that client; before 2026-07-28 only an object is structured
            content.
    """
    result = observation.result
    blocks: list[Block] = [Text(observation.model_content)] if result is None else list(result.blocks)
    answer: dict[str, Any] = {
        "content": [content for block in blocks for content in _content(block)],
        # Any outcome but success is an error that the model can read, as the protocol requires.
        "isError": observation.outcome != "ok",
        "resultType": "complete",
    }
    structured = _structured(observation.value)
    if structured is not None and (isinstance(structured, dict) or protocol_version >= ANY_STRUCTURE):
        answer["structuredContent"] = structured
    return answer


def _structured(value: Any) -> Any:
    if isinstance(value, (str, ToolResult)):
        return None
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="null")
    except (PydanticSerializationError, ValueError):
        return None


def _content(block: Block) -> Iterator[dict[str, Any]]:
    if isinstance(block, Text):
        yield {"type": "text", "text": block.text}
    elif isinstance(block, Media):
        yield _mcp_media(block)


def _mcp_media(media: Media) -> dict[str, Any]:
    name = media.filename or media.kind
    if media.data is not None and media.kind in ("image", "audio") and media.mime_type:
        return {"type": media.kind, "data": media.data, "mimeType": media.mime_type}
    mime = {"mimeType": media.mime_type} if media.mime_type else {}
    if media.data is not None:
        return {"type": "resource", "resource": {"uri": f"attachment:{name}", "blob": media.data, **mime}}
    if media.url is not None:
        return {"type": "resource_link", "uri": media.url, "name": name, **mime}
    return {"type": "text", "text": media.placeholder()}  # known only to another provider, by its id
