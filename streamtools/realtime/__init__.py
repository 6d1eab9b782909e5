"""Reads connections that carry one response after another, or several at once: sockets, Live sessions, lanes."""

from __future__ import annotations

from .splitting import NextResponse, Responses, ResponseSource, responses

__all__ = ["NextResponse", "ResponseSource", "Responses", "responses"]
