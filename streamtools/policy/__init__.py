"""Capabilities that words of a run ask for: results that are too long are kept (``offload_above=``)."""

from __future__ import annotations

from .offloads import Offloading

__all__ = ["Offloading"]
