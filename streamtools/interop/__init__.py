"""Reads foreign schemas, calls and results (accessors), and writes them for another provider (adapters).

    schemas   a tool's author writes one            converted when a request is made    `initialize_request`
    calls     the model makes them                  inspected and cleaned at its end    `finalize`
    results   ordinary messages of the history      converted with the history          `to_native_messages`

The three flows are separate; a `ToolInteropRegistry` has the accessors and adapters of each. It is built for one
request, from the contributions of config, provider, extensions and tools, and is passed in the request's context. A
source schema stays as its author wrote it.

    >>> registry = ToolInteropRegistry.of()
    >>> patch = {"type": "custom", "name": "apply_patch", "description": "Apply a patch."}
    >>> tools = registry.convert_schemas([patch], target="anthropic.messages")
    >>> tools[0]["input_schema"]["required"]
    ['input']
    >>> call = {"type": "tool_use", "id": "toolu_1", "name": "apply_patch", "input": {"input": "*** Begin Patch"}}
    >>> registry.inspect_call(call).payload
    '*** Begin Patch'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground import names
from .calls import (
    Attachment,
    AttachmentLoader,
    AttachmentStore,
    MemoryAttachments,
    SanitizedCall,
    compact_attachments,
    expand_attachments,
    format_tool_result,
    reference,
)
from .contributions import (
    LEVELS,
    Contribution,
    InspectedCall,
    InspectedResult,
    InspectedSchema,
    ToolCallAccessor,
    ToolCallAdapter,
    ToolResultAccessor,
    ToolResultAdapter,
    ToolSchemaAccessor,
    ToolSchemaAdapter,
    contribution_of,
)
from .formats import TARGET_FORMATS, ToolInteropTarget
from .history import assistant_message, from_native_messages, from_turn, system_text, to_native_messages, tool_calls_of
from .registry import DefaultRegistryWarning, ToolDescriptor, ToolInteropRegistry
from .requests import (
    accepted_tool_schema_formats,
    build_request_context,
    finalize,
    get_registry_from_context,
    get_schema_target_formats_from_context,
    initialize_request,
    initialize_stack,
    ready_messages,
)

if TYPE_CHECKING:
    from .requests import DEFAULT_TOOL_INTEROP_REGISTRY
else:
    __getattr__ = names(__name__, {"requests": "DEFAULT_TOOL_INTEROP_REGISTRY"})

__all__ = [
    "ToolInteropRegistry", "ToolInteropTarget", "ToolDescriptor", "Contribution", "contribution_of", "LEVELS",
    "TARGET_FORMATS", "InspectedSchema", "ToolSchemaAccessor", "ToolSchemaAdapter", "InspectedCall",
    "SanitizedCall", "ToolCallAccessor", "ToolCallAdapter", "InspectedResult", "ToolResultAccessor",
    "ToolResultAdapter", "format_tool_result", "build_request_context", "accepted_tool_schema_formats",
    "get_registry_from_context", "get_schema_target_formats_from_context", "DEFAULT_TOOL_INTEROP_REGISTRY",
    "DefaultRegistryWarning", "initialize_request", "initialize_stack", "finalize", "assistant_message",
    "tool_calls_of", "from_turn", "to_native_messages", "from_native_messages", "system_text", "ready_messages",
    "Attachment", "AttachmentStore", "AttachmentLoader", "MemoryAttachments", "compact_attachments",
    "expand_attachments", "reference",
]  # fmt: skip
