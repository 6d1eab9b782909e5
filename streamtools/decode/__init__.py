"""Joins framing, wire and stages: turns bytes or payloads into events or a whole turn. No event loop is needed."""

from __future__ import annotations

from .decoder import StreamDecoder
from .whole import parse

__all__ = ["StreamDecoder", "parse"]
