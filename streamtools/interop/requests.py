"""Where in a request the translations happen: tools go in at its start, calls are cleaned at its end.

A provider or an extension that writes its own `initialize_request` or `finalize` may use these, or leave it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, Protocol, TypeAlias, runtime_checkable

from ..errors import ExportError
from ..history import repair
from ..wires import find
from .attachments import AttachmentLoader, expand_attachments
from .context import get_registry_from_context, get_schema_target_formats_from_context, target_of
from .formats import ToolInteropTarget
from .results import without_metadata

__all__ = ["finalize", "initialize_request", "initialize_stack", "ready_messages"]

State: TypeAlias = dict[str, Any]
Context: TypeAlias = Mapping[str, Any]


@runtime_checkable
class _Initialises(Protocol):
    def initialize_request(
        self, native_messages: Any, state: State, *, context: Context | None = None
    ) -> tuple[Any, State]: ...


def initialize_request(
    native_messages: Sequence[Mapping[str, Any]],
    state: State,
    *,
    context: Context | None = None,
    target: ToolInteropTarget | str,
    loader: AttachmentLoader | None = None,
    messages: bool | None = None,
) -> tuple[Sequence[Mapping[str, Any]], State]:
    """Puts the tools into a request's payload, in the formats that it accepts.

    Args:
        native_messages: the history; it comes back as it is.
        state: ``_tools`` are the source schemas, ``request.payload`` is what will be sent. Neither is changed. A
            payload that has tools already keeps them; without a choice of tools the model chooses (``auto``).
        context: the request's (`build_request_context`).
        target: the wire that the request goes to.
        loader: gives the attachments that the history refers to; a history without any needs none.
        messages: whether the payload also gets the messages (`ready_messages`), unless it has some; by default it
            does if there is a loader.

    Returns:
        The same messages, and a state whose payload is ready.

    Raises:
        ExportError: a schema is unknown or cannot be written for this target, or an attachment is missing.
    """
    wire = target if isinstance(target, str) else target.wire
    request = state.get("request") or {}
    payload = dict(request.get("payload") or {})
    tools = [tool for tool in state.get("_tools") or [] if isinstance(tool, dict)]
    if tools and _TOOLS_KEY.get(wire, "tools") not in payload:
        converted = get_registry_from_context(context).convert_schemas(
            tools, target=target, target_formats=get_schema_target_formats_from_context(context)
        )
        _INJECT.get(wire, _as_list)(payload, converted)
    wanted = loader is not None if messages is None else messages
    if wanted:
        payload.setdefault(find(wire).rules.list_name, ready_messages(native_messages, loader, target=wire))
    return native_messages, {**state, "request": {**request, "payload": payload}}


def initialize_stack(
    native_messages: Sequence[Mapping[str, Any]],
    state: State,
    *,
    context: Context | None = None,
    provider: object,
    extensions: Iterable[object] = (),
) -> tuple[Sequence[Mapping[str, Any]], State]:
    """Lets the extensions initialise a request, then the provider; then puts the tools in if none of them did.

    Args:
        native_messages: the history.
        state: see `initialize_request`.
        context: the request's.
        provider: has the name of its wire as ``wire``. Like an extension it may have a method ``initialize_request``.
        extensions: those that are enabled, in their order.

    Raises:
        ExportError: nobody handled the tools, and the provider has no ``wire``; or see `initialize_request`.
    """
    for party in (*extensions, provider):
        if isinstance(party, _Initialises):
            native_messages, state = party.initialize_request(native_messages, state, context=context)
    target = target_of(provider)
    if target is None:
        payload = (state.get("request") or {}).get("payload") or {}
        if state.get("_tools") and payload.keys().isdisjoint({"tools", *_TOOLS_KEY.values()}):
            name = type(provider).__name__
            raise ExportError(f"no extension put the tools into the request, and {name} has no wire to do it for")
        return native_messages, state
    return initialize_request(native_messages, state, context=context, target=target)


def finalize(
    final_messages: Any,
    native_messages: Any,
    state: State,
    *,
    context: Context | None = None,
    complete: bool = True,
) -> tuple[Any, Any, State]:
    """Cleans the calls that a stream left in ``state["partial"]["tool_calls"]``, before a history keeps them.

    Corrupt ones become `SanitizedCall`s, which are sent with empty arguments and must not run; what is no dict is
    taken out. The list is replaced in place; everything else comes back as it is.

    Args:
        final_messages, native_messages: handed through.
        state: of the request.
        context: the request's.
        complete: the turn came to its end; see `ToolInteropRegistry.sanitize_tool_call`.
    """
    partial = state.get("partial")
    calls = partial.get("tool_calls") if isinstance(partial, dict) else None
    if isinstance(partial, dict) and isinstance(calls, list):
        registry = get_registry_from_context(context)
        given = [call for call in calls if isinstance(call, dict)]
        partial["tool_calls"] = [registry.sanitize_tool_call(call, complete=complete) for call in given]
    return final_messages, native_messages, state


def ready_messages(
    native_messages: Iterable[Mapping[str, Any]],
    loader: AttachmentLoader | None = None,
    *,
    target: ToolInteropTarget | str | None = None,
) -> list[dict[str, Any]]:
    """A native history as it is sent: attachments expanded, and without what was kept beside messages (``_metadata``).

    Args:
        native_messages: the history; it is not changed, and what needs no change stays the same object.
        loader: gives the attachments.
        target: mend for this wire what its provider would refuse (`streamtools.history.repair`).

    Raises:
        ExportError: the loader does not know an attachment; or there is a reference and no loader.
    """
    bare = [without_metadata(message) for message in native_messages]
    ready: list[Any] = expand_attachments(bare, loader or _no_loader)
    return ready if target is None else list(repair(ready, str(target)))


def _no_loader(id_: str) -> NoReturn:
    raise ExportError(f"no attachment {id_!r} without a loader; pass loader=..., which gives an attachment by its id")


# -- where each provider wants its tools -------------------------------------------------------------------------------


def _as_list(payload: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    payload["tools"] = tools
    payload.setdefault("tool_choice", "auto")


def _cohere(payload: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    # "REQUIRED" or "NONE"; without it the model chooses. https://docs.cohere.com/reference/chat (read 2026-11-21)
    payload["tools"] = tools


def _anthropic(payload: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    payload["tools"] = tools
    payload.setdefault("tool_choice", {"type": "auto"})


def _gemini(payload: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    own = [tool for tool in tools if "name" not in tool]
    declared = [tool for tool in tools if "name" in tool]
    payload["tools"] = [*([{"functionDeclarations": declared}] if declared else []), *own]
    payload.setdefault("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}})


def _bedrock(payload: dict[str, Any], tools: list[dict[str, Any]]) -> None:
    payload["toolConfig"] = {"tools": tools, "toolChoice": {"auto": {}}}


_TOOLS_KEY: Mapping[str, str] = {"bedrock.converse_stream": "toolConfig"}
_INJECT: Mapping[str, Callable[[dict[str, Any], list[dict[str, Any]]], None]] = {
    "anthropic.messages": _anthropic,
    "gemini.generate_content": _gemini,
    "bedrock.converse_stream": _bedrock,
    "cohere.chat": _cohere,
    "ollama.chat": _cohere,  # it knows no choice of tools at all
}
