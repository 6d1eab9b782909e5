"""The functions that make a run: they read the words, check them once, and fill the seams of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground import on_demand
from . import ambient as ambient

if TYPE_CHECKING:
    from ..pipelines.trajectory import Trajectory
    from .at_hand import resume, run_calls
    from .branches import Branch
    from .checked import PipelineKeywords, StepKeywords
    from .face import Pipeline
    from .mistaken import explained
    from .run_face import AgentLoop
    from .runs import agent_loop
    from .streams import pipeline
else:
    __getattr__ = on_demand.names(
        __name__,
        {
            ".pipelines.trajectory": "Trajectory",
            "streams": "pipeline",
            "face": "Pipeline",
            "runs": "agent_loop",
            "run_face": "AgentLoop",
            "branches": "Branch",
            "at_hand": "resume run_calls",
            "checked": "PipelineKeywords StepKeywords",
            "mistaken": "explained",
        },
    )

__all__ = [
    "AgentLoop",
    "Branch",
    "Pipeline",
    "pipeline",
    "agent_loop",
    "resume",
    "run_calls",
    "Trajectory",
    "PipelineKeywords",
    "StepKeywords",
    "explained",
]
