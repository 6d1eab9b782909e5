"""Runs calls on a Ray cluster: `RayExecutor`, for programs that have called ``ray.init()``. Needs the extra ``ray``."""

from __future__ import annotations

from .executor import RayExecutor

__all__ = ["RayExecutor"]
