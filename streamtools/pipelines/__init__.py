"""Runs one stream and its calls in an event loop, and many as one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names

if TYPE_CHECKING:
    from .agent_loop import AgentLoop
    from .trajectory import Trajectory
else:
    __getattr__ = names(__name__, {"agent_loop": "AgentLoop", "trajectory": "Trajectory"})

__all__ = ["AgentLoop", "Trajectory"]
