"""Handles one request: builds its context, adds its tools at the start, cleans its calls at the end.

    context["tool_interop"]["registry"]                the meaning of this request's formats
    context["tool_interop"]["schema_target_formats"]   the formats that its provider and extensions accept

A provider or extension with its own `initialize_request` or `finalize` may call these, or leave the work to them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..errors import ExportError
from ..history import repair
from ..tools.entries import tool_formats
from ..wires import find, names, object_of
from .calls import AttachmentLoader, expand_attachments, without_metadata
from .formats import TARGET_FORMATS, ToolInteropTarget
from .registry import ToolDescriptor, ToolInteropRegistry, put_in_force

if TYPE_CHECKING:
    DEFAULT_TOOL_INTEROP_REGISTRY: ToolInteropRegistry
    """The registry for code outside any request. It knows only the built-in formats and remembers nothing, so that
    calls of freeform tools that became functions are not unwrapped. Using it where a request has a registry warns
    (`DefaultRegistryWarning`)."""
else:
    # Made when it is asked for, since all wires are loaded for it.

    def __getattr__(name: str) -> Any:
        if name != "DEFAULT_TOOL_INTEROP_REGISTRY":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return _last_resort()


@cache
def _last_resort() -> ToolInteropRegistry:
    return ToolInteropRegistry(last_resort=True)


def accepted_tool_schema_formats(stack: Iterable[object]) -> list[str]:
    """Returns the tool formats that a provider and its extensions accept in a request, preferred ones first.

    Args:
        stack: the enabled extensions and the provider, in order of preference. Each has an attribute or method
            ``accepted_tool_schema_formats``, or is (or has as ``wire``) the name of a wire, which accepts its own
            formats. A party with neither accepts no format.
    """
    found = (format for party in stack for format in _accepted_by(party))
    return list(dict.fromkeys(found))


def _accepted_by(party: object) -> Sequence[str]:
    declared: Any = getattr(party, "accepted_tool_schema_formats", None)
    if declared is not None:
        formats: Any = declared() if callable(declared) else declared
        if isinstance(formats, str):
            name = type(party).__name__
            raise TypeError(f"{name}.accepted_tool_schema_formats: expected a list of formats, got a str")
        return tuple(formats or ())
    return TARGET_FORMATS.get(party if isinstance(party, str) else _wire_of(party) or "", ())


def build_request_context(
    *,
    contributions: Iterable[object] = (),
    provider: object = None,
    extensions: Sequence[object] = (),
    tools: Iterable[object] = (),
    descriptors: Iterable[ToolDescriptor] = (),
    registry: ToolInteropRegistry | None = None,
    schema_target_formats: Sequence[str] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Builds the context of one request, to pass to everything that belongs to the request.

    Args:
        contributions: those of explicit config, which precede all others.
        provider, extensions, tools: the other contributors to the registry (`ToolInteropRegistry.of`).
        descriptors: the tools with their source schemas.
        registry: a ready registry, instead of these.
        schema_target_formats: the formats that the request accepts; by default those of extensions and provider
            (`accepted_tool_schema_formats`).
        more: the rest of the context (``core``, ``config``).

    Raises:
        ExportError: an accepted format is neither built in nor contributed.
        TypeError: `schema_target_formats` is not a list, or a descriptor is something else.
    """
    if registry is None:
        registry = ToolInteropRegistry.of(
            config=contributions, provider=provider, extensions=extensions, tools=tools, descriptors=descriptors
        )
    if schema_target_formats is None:
        schema_target_formats = accepted_tool_schema_formats([*extensions, provider])
    if isinstance(schema_target_formats, str):
        written = f"schema_target_formats=[{schema_target_formats!r}]"
        raise TypeError(f"schema_target_formats: expected a list, got a str; write {written}")
    # When the context is built, and not when the first tool is converted, far from the mistake.
    for format in schema_target_formats:
        if not registry.knows_format(format):
            known = ", ".join(dict.fromkeys(name for formats in TARGET_FORMATS.values() for name in formats))
            raise ExportError(f"unknown tool format {format!r}; contribute an adapter, or use one of: {known}")
    put_in_force(registry)
    return {**more, "tool_interop": {"registry": registry, "schema_target_formats": list(schema_target_formats)}}


def get_registry_from_context(context: Mapping[str, Any] | None) -> ToolInteropRegistry:
    """Returns the request's registry, or the default one outside a request."""
    found = _interop(context).get("registry")
    return found if isinstance(found, ToolInteropRegistry) else _last_resort()


def get_schema_target_formats_from_context(context: Mapping[str, Any] | None, default: Sequence[str] = ()) -> list[str]:
    """Returns the formats that the request accepts, or `default`; an empty list leaves the choice to the target."""
    found = _interop(context).get("schema_target_formats")
    return list(default if found is None else found)


def _interop(context: Mapping[str, Any] | None) -> Mapping[str, Any]:
    return object_of(None if context is None else context.get("tool_interop"))


def _wire_of(party: object) -> str | None:
    wire = getattr(party, "wire", None)
    return wire if isinstance(wire, str) else None


State: TypeAlias = dict[str, Any]
Context: TypeAlias = Mapping[str, Any]


def initialize_request(
    native_messages: Sequence[Mapping[str, Any]],
    state: State,
    *,
    context: Context | None = None,
    target: ToolInteropTarget | str,
    loader: AttachmentLoader | None = None,
    messages: bool | None = None,
) -> tuple[Sequence[Mapping[str, Any]], State]:
    """Adds the tools to a request's payload, in the formats that the request accepts.

    Args:
        native_messages: the history; it is returned unchanged.
        state: ``_tools`` are the source schemas, ``request.payload`` is the body to send. Neither is changed. A payload
            that already has tools keeps them; without a tool choice the model chooses (``auto``, in the form of
            `ToolFormat.choice`).
        context: the request's (`build_request_context`).
        target: the wire of the request.
        loader: returns the attachments of the history; not needed for a history without attachments.
        messages: True adds the messages to the payload, too (`ready_messages`), unless it has some; by default True if
            there is a loader.

    Returns:
        The same messages, and a state whose payload is ready.

    Raises:
        ExportError: a schema is unknown or cannot be written for this target, or an attachment is missing.
    """
    wire = target if isinstance(target, str) else target.wire
    request = state.get("request") or {}
    payload = dict(request.get("payload") or {})
    tools = [tool for tool in state.get("_tools") or [] if isinstance(tool, dict)]
    # A payload that has tools already was made by an extension, whose choice stands.
    if tools and payload.keys().isdisjoint(_fields(wire, [])):
        converted = get_registry_from_context(context).convert_schemas(
            tools, target=target, target_formats=get_schema_target_formats_from_context(context)
        )
        payload = {**_fields(wire, converted), **payload}
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
    """Lets the extensions and then the provider initialise a request; adds the tools if none of them did.

    Args:
        native_messages: the history.
        state: see `initialize_request`.
        context: the request's.
        provider: has the name of its wire as ``wire``, and like an extension it may have a method
            ``initialize_request``.
        extensions: the enabled ones, in order.

    Raises:
        ExportError: nobody added the tools, and the provider has no ``wire``; or as for `initialize_request`.
    """
    for party in (*extensions, provider):
        if (own := getattr(party, "initialize_request", None)) is not None:
            native_messages, state = own(native_messages, state, context=context)
    wire = _wire_of(provider)
    if wire is None:  # tools that nobody put in would be missing without an error
        payload = (state.get("request") or {}).get("payload") or {}
        fields = {field for format in tool_formats() for field in format.request([], False)}
        if state.get("_tools") and payload.keys().isdisjoint(fields):
            name = type(provider).__name__
            raise ExportError(f"no extension added the tools to the request, and {name} has no attribute `wire`")
        return native_messages, state
    return initialize_request(native_messages, state, context=context, target=wire)


def finalize(
    final_messages: Any, native_messages: Any, state: State, *, context: Context | None = None, complete: bool = True
) -> tuple[Any, Any, State]:
    """Cleans the calls that a stream left in ``state["partial"]["tool_calls"]``, before they enter a history.

    Corrupt calls become `SanitizedCall`s, which are sent with empty arguments and must not run; items that are not
    dicts are removed. The list is replaced; everything else is returned unchanged.

    Args:
        final_messages, native_messages: returned unchanged.
        state: the state of the request.
        context: the request's.
        complete: the turn ended properly; see `ToolInteropRegistry.sanitize_tool_call`.
    """
    partial = state.get("partial")
    calls = partial.get("tool_calls") if isinstance(partial, dict) else None
    # The state is the program's, and a request without calls has none of these.
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
    """Returns a native history ready to send: with attachments expanded, and without ``_metadata`` in messages.

    Args:
        native_messages: the history; it is not changed, and parts that need no change stay the same objects.
        loader: returns the attachments.
        target: a wire for which to repair parts that its provider would refuse (`streamtools.history.repair`).

    Raises:
        ExportError: the loader does not know an attachment, or there is a reference but no loader.
    """
    bare = [without_metadata(message) for message in native_messages]
    ready: list[Any] = expand_attachments(bare, loader or _no_loader)
    return ready if target is None else list(repair(ready, str(target)))


def _no_loader(id_: str) -> NoReturn:
    raise ExportError(
        f"attachment {id_!r} needs a loader; pass loader=..., a function that returns an attachment by its id"
    )


def _fields(wire: str, tools: list[dict[str, Any]]) -> dict[str, Any]:
    format = next(iter(find(wire).tools if wire in names() else ()), None)
    if format is None:  # a wire that is not known: most have the field of Chat Completions
        return {"tools": tools}
    fields = format.request(tools, False)
    choice = copy.deepcopy(dict(format.choice)) if tools else {}  # the payload is the caller's to change
    return {**fields, **{key: _joined(fields.get(key), value) for key, value in choice.items()}}


def _joined(field: Any, more: Any) -> Any:
    return {**field, **more} if isinstance(field, Mapping) and isinstance(more, Mapping) else more
