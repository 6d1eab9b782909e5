"""Holds the library's version, which the root, the command and the spans name."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
