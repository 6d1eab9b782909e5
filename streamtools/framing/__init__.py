"""Bytes in, frames out: the ways in which providers cut a response body into payloads."""

from __future__ import annotations

from .sse import Frame, SSEDecoder

__all__ = ["Frame", "SSEDecoder"]
