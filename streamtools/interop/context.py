"""A request's registry and accepted formats on their way through its context; and the registry of last resort.

context["tool_interop"]["registry"]                what this request's formats mean
context["tool_interop"]["schema_target_formats"]   what its provider and extensions accept
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import ExportError
from .formats import FORMATS, TARGET_FORMATS, ToolInteropTarget
from .registry import ToolDescriptor, ToolInteropRegistry, put_in_force

__all__ = [
    "DEFAULT_TOOL_INTEROP_REGISTRY",
    "accepted_tool_schema_formats",
    "build_request_context",
    "get_registry_from_context",
    "get_schema_target_formats_from_context",
]

DEFAULT_TOOL_INTEROP_REGISTRY = ToolInteropRegistry(last_resort=True)
"""For utilities that belong to no request. It knows the built-in formats only and remembers nothing, so that calls of
freeform tools that became functions are not unwrapped. Using it where a request has a registry warns
(`DefaultRegistryWarning`)."""


def accepted_tool_schema_formats(stack: Iterable[object]) -> list[str]:
    """The formats of tools that a provider and its extensions accept in a request, preferred ones first.

    Args:
        stack: extensions that are enabled and the provider, in the order of preference. Each says it by an attribute
            or method ``accepted_tool_schema_formats``, or is (or has as ``wire``) the name of a wire, which accepts
            what it takes by itself. Whoever says nothing accepts nothing.
    """
    found = (format for party in stack for format in _accepted_by(party))
    return list(dict.fromkeys(found))


def _accepted_by(party: object) -> Sequence[str]:
    said: Any = getattr(party, "accepted_tool_schema_formats", None)
    if said is not None:
        formats: Any = said() if callable(said) else said
        if isinstance(formats, str):
            raise TypeError(f"{type(party).__name__}.accepted_tool_schema_formats must be a list of formats, not a str")
        return tuple(formats or ())
    wire = party if isinstance(party, str) else getattr(party, "wire", None)
    return TARGET_FORMATS.get(wire, ()) if isinstance(wire, str) else ()


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
    """The context of one request, to pass to everything that belongs to it.

    Args:
        contributions: those of explicit config, which go before all others.
        provider, extensions, tools: who else contributes to the registry (`ToolInteropRegistry.of`).
        descriptors: the tools with their source schemas.
        registry: one that was built already, in their place.
        schema_target_formats: what the request accepts; by default what extensions and provider say
            (`accepted_tool_schema_formats`).
        more: what else the context holds (``core``, ``config``).

    Raises:
        ExportError: of an accepted format nothing is known: it is not built in, and nobody contributed it.
        TypeError: `schema_target_formats` is no list, or a descriptor is something else.
    """
    if registry is None:
        registry = ToolInteropRegistry.of(
            config=contributions, provider=provider, extensions=extensions, tools=tools, descriptors=descriptors
        )
    if schema_target_formats is None:
        schema_target_formats = accepted_tool_schema_formats([*extensions, provider])
    if isinstance(schema_target_formats, str):
        raise TypeError(
            f"schema_target_formats must be a list; write schema_target_formats=[{schema_target_formats!r}]"
        )
    for format in schema_target_formats:
        if not registry.knows_format(format):
            known = ", ".join(FORMATS)
            raise ExportError(f"unknown format {format!r} of tools; contribute what writes it, or use one of: {known}")
    put_in_force(registry)
    return {**more, "tool_interop": {"registry": registry, "schema_target_formats": list(schema_target_formats)}}


def get_registry_from_context(context: Mapping[str, Any] | None) -> ToolInteropRegistry:
    """The request's registry, or the one of last resort where there is no request."""
    found = _interop(context).get("registry")
    return found if isinstance(found, ToolInteropRegistry) else DEFAULT_TOOL_INTEROP_REGISTRY


def get_schema_target_formats_from_context(context: Mapping[str, Any] | None, default: Sequence[str] = ()) -> list[str]:
    """The formats that the request accepts, or `default`; an empty list leaves it to the target."""
    found = _interop(context).get("schema_target_formats")
    return list(default if found is None else found)


def _interop(context: Mapping[str, Any] | None) -> Mapping[str, Any]:
    found = None if context is None else context.get("tool_interop")
    return found if isinstance(found, Mapping) else {}


def target_of(party: object) -> ToolInteropTarget | None:
    """The wire that a provider or extension speaks, if it says so."""
    wire = getattr(party, "wire", None)
    return ToolInteropTarget(wire) if isinstance(wire, str) else None
