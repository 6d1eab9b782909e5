"""Refuses the options that an adapter for a framework cannot keep, where the adapter is made."""

from __future__ import annotations

from typing import Any

from ..limits import Limits
from ..pipelines.entry import StepKeywords
from ..tools import Toolset

__all__ = ["broken_alone", "refuse_store"]


def refuse_store(adapter: str, store: Any) -> None:
    """Refuses a store, which would not keep a call from having its effect again.

    Raises:
        TypeError: a store was given.
    """
    # A framework may ask again after a crash, an interrupt or a retry, and the call gets a random run id each time: a
    # store never recognised it, and a `once` tool ran again.
    if store is not None:
        raise TypeError(
            f"{adapter}: store= would not keep a call from running twice, since the framework's calls have no identity "
            "here that outlives a crash or a retry; leave it out, and let agent_loop(store=..., "
            'trajectory=Trajectory(run_id="...")) run tools that must not run twice'
        )


def broken_alone(tools: Toolset, options: StepKeywords) -> str | None:
    """Returns the option that cannot hold where each call is a run of its own, in words; None if there is none."""
    # Order and limits are about the other calls, which a run of one call does not see.
    for tool in tools.values():
        if tool is not None:
            for name in ("exclusive", "conflict_key", "max_concurrency"):
                if getattr(tool, name) not in (None, False):
                    return f"{name}= of {tool.name}"
    if options.get("pool") is not None:
        return "pool="
    if options.get("limits", Limits()).max_concurrency != Limits().max_concurrency:
        return "Limits(max_concurrency=...)"
    return None
