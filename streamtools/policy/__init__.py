"""Capabilities that arguments of a run ask for: long results are kept outside the history (``offload_above=``)."""

from __future__ import annotations

from .offloads import Offloading

__all__ = ["Offloading"]
