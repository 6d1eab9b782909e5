"""Joins framing, wire and stages: turns bytes or payloads into events or a whole turn. No event loop is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names

if TYPE_CHECKING:
    from .decoder import StreamDecoder, parse
else:
    __getattr__ = names(__name__, {"decoder": "StreamDecoder parse"})

__all__ = ["StreamDecoder", "parse"]
