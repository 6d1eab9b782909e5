"""Calls in, observations out: when a call starts, how it runs, and the one event that says how it ended."""

from __future__ import annotations

from .dispatcher import Dispatcher, DispatchPolicy

__all__ = ["DispatchPolicy", "Dispatcher"]
