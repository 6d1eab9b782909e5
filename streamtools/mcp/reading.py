"""How values of an MCP server are read: from the SDK's objects of either generation, or from plain dicts.

The Python SDK wrote ``inputSchema`` until 1.x and writes ``input_schema`` since 2.0; JSON always has the former.
Whatever comes may be of any type, and is untrusted text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..surrogates import well_formed

__all__ = ["excerpt", "peek", "plain", "visible"]

_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+")
"""Control characters, marks that turn the direction of text, and characters that nobody sees."""


def peek(value: Any, *names: str) -> Any:
    """The first of the named keys or attributes that is there and not None."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def plain(value: Any) -> dict[str, Any]:
    """An SDK object as the JSON object that it stands for; a mapping as it is; anything else as an empty one."""
    if isinstance(value, Mapping):
        return dict(value)
    dump = getattr(value, "model_dump", None)
    dumped = dump(mode="json", by_alias=True, exclude_none=True) if callable(dump) else None
    return dumped if isinstance(dumped, dict) else {}


def excerpt(text: str, max_chars: int) -> str:
    """A peer's text for a message: on one line, bounded, and nothing in it that cannot be seen."""
    shown = visible(well_formed(text[: max_chars + 1]))
    return shown if len(shown) <= max_chars else shown[:max_chars] + "..."


def visible(text: str) -> str:
    """`text` with everything that cannot be seen, or that moves what is seen, as its code (``\\u202e``)."""
    return _INVISIBLE.sub(lambda found: "".join(f"\\u{ord(char):04x}" for char in found[0]), text)
