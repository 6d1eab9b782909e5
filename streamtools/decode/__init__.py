"""Framing, wire and stages in one: bytes or payloads in, events or a whole turn out. No event loop is needed."""

from __future__ import annotations

from .decoder import StreamDecoder
from .whole import parse

__all__ = ["StreamDecoder", "parse"]
