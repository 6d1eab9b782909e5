"""Output items: which of them are calls, who runs those, what of them is the arguments, and what is told of one so far.

Theory of operation. The provider's built-in tools have items of their own, whose `type` is all the name that they
have. Three kinds follow from who runs the call and what its result is:

    function, custom   we do, and the result is text: ``function_call``, ``custom_tool_call``, and of the built-in tools
                       ``local_shell_call``, ``apply_patch_call``, and ``shell_call`` unless it has a container
    server             the provider does: searches, code interpreter, images, MCP, ``shell_call`` in a container, and
                       xAI's own searches, which look like custom calls but for their id
    none               the item is opaque: what it asks for is no text (``computer_call`` wants a picture, a
                       ``tool_search_call`` of ours a list of tools, ``mcp_approval_request`` an approval)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...parts import CallKind
from ...text import well_formed
from ..reading import read_text

__all__ = [
    "BUILT_IN",
    "OPAQUE",
    "TEXT_FIELDS",
    "Item",
    "call_kind",
    "identity",
    "message_so_far",
    "name_of",
    "texts_of",
    "type_of",
]

TEXT_FIELDS: dict[str, str] = {"function_call": "arguments", "custom_tool_call": "input", "mcp_call": "arguments"}
"""Calls whose arguments are a text that the model wrote, and the field that holds it."""

BUILT_IN: dict[str, tuple[str, ...]] = {
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "web_search_call": ("action",),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("container_id", "code"),
    "image_generation_call": ("action", "revised_prompt"),
    "tool_search_call": ("arguments",),
}
"""Calls of the provider's own tools, and the fields that together are their arguments."""

OPAQUE = frozenset({
    "additional_tools", "apply_patch_call_output", "compaction", "compaction_summary", "computer_call",
    "computer_call_output", "context_compaction", "custom_tool_call_output", "function_call_output",
    "local_shell_call_output", "mcp_approval_request", "mcp_list_tools", "program", "program_output",
    "shell_call_output", "tool_search_call", "tool_search_output",
})  # fmt: skip
"""Items that are known, kept whole and given back without being looked into."""

_OURS = frozenset({"local_shell_call", "apply_patch_call", "function_call"})


@dataclass(slots=True)
class Item:
    """An output item, from the first sign of it to its end."""

    number: int
    """The label of its call; no other item has it."""
    type: str
    place: int
    """Where it stands among the items; no other item stands there."""
    index: int | None = None
    """The same as the wire has it."""
    head: dict[str, Any] = field(default_factory=dict)
    """As it was announced."""
    identity: str | None = None
    call_id: str | None = None
    name: str | None = None
    kind: CallKind | None = None
    announced: bool = False
    done: bool = False
    repeated: bool = False
    """The list at the end has it, too."""
    told: dict[str, list[str]] = field(default_factory=dict)
    """Its texts as they were told: ``text``, ``refusal``, ``summary``, ``content``."""
    paragraph: tuple[str, int | None] | None = None
    """Which one of its reasoning is being told."""
    # of a call
    has_id: bool = False
    has_name: bool = False
    has_text: bool = False
    text_done: bool = False
    """Its arguments are whole, as far as the wire says."""
    cut: bool = False
    ended: bool = False


def call_kind(type_: str, raw: Mapping[str, Any]) -> CallKind | None:
    """Who runs the call that an item of this type is; None if it is none."""
    if type_ in _OURS:
        return "function"
    if type_ == "custom_tool_call":
        call_id = raw.get("call_id")
        return "server" if isinstance(call_id, str) and call_id.startswith("xs_call_") else "custom"
    if type_ == "shell_call":
        environment = raw.get("environment")
        place = environment.get("type") if isinstance(environment, dict) else None
        return "server" if isinstance(place, str) and place.startswith("container") else "function"
    if type_ == "tool_search_call":
        return None if raw.get("execution") == "client" else "server"
    return "server" if type_ == "mcp_call" or type_ in BUILT_IN else None


def type_of(raw: Mapping[str, Any]) -> str:
    """The type of an item, ``""`` if it has none."""
    return read_text(raw.get("type")) or ""


def name_of(raw: Mapping[str, Any]) -> str | None:
    """The name of the tool that a call is for: its type, where it has no other."""
    type_ = type_of(raw)
    return type_ if type_ in BUILT_IN else read_text(raw.get("name"))


def identity(raw: Mapping[str, Any]) -> str | None:
    """What tells an item from others of its type, if it says so itself."""
    return read_text(raw.get("call_id")) or read_text(raw.get("id"))


def texts_of(raw: Mapping[str, Any], channel: str) -> list[str]:
    """The parts of one of an item's texts: ``text`` and ``refusal`` of a message, ``summary`` and ``content`` of
    reasoning."""
    field, key, types = _CHANNELS[channel]
    parts = raw.get(field)
    if channel == "text" and isinstance(parts, str):
        return [parts]
    if not isinstance(parts, list):
        return []
    found = [part.get(key) for part in parts if isinstance(part, dict) and part.get("type") in types]
    return [text for text in found if isinstance(text, str)]


def message_so_far(item: Item, status: str) -> dict[str, Any]:
    """The item of a message that never came to its end."""
    head = {key: value for key in ("id", "phase") if (value := read_text(item.head.get(key)))}
    text, refusal = (well_formed("".join(item.told.get(channel, ()))) for channel in ("text", "refusal"))
    content: list[dict[str, Any]] = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    content += [{"type": "refusal", "refusal": refusal}] if refusal else []
    return {"type": "message", **head, "role": "assistant", "status": status, "content": content}


# Where a text stands in its item: the field, the key within each part, and the types of the parts.
_CHANNELS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "text": ("content", "text", ("output_text", "text")),
    "refusal": ("content", "refusal", ("refusal",)),
    "summary": ("summary", "text", ("summary_text",)),
    "content": ("content", "text", ("reasoning_text", "text")),
}
