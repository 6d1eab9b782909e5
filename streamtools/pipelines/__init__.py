"""Runs one stream and its calls in an event loop, and many as one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names

if TYPE_CHECKING:
    from .trajectory import Trajectory
else:
    __getattr__ = names(__name__, {"trajectory": "Trajectory"})

__all__ = ["Trajectory"]
