"""Checks and repairs histories, and converts them for another provider. `Turn.messages` returns the part to append.

    lint(messages, target)                         the reasons for which the provider would refuse, in its own words
    lint(request, target, previous=request)        also the first place that differs from that request
    repair(messages, target)                       the same history, made acceptable; the same object if it is already
    convert(messages, source, target)              a history of one provider as one of another
    with_results(messages, observations, target)   the same history, in which calls have other results

All of it is sans-IO and deterministic. The messages are the provider's own, as dicts or as objects of its SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names
from ..wires.history_rules import Violation

if TYPE_CHECKING:
    from .converting import Converted, convert
    from .linting import lint
    from .repairing import repair
    from .results import with_results
else:
    __getattr__ = names(
        __name__,
        {"converting": "Converted convert", "linting": "lint", "repairing": "repair", "results": "with_results"},
    )

__all__ = ["Converted", "Violation", "convert", "lint", "repair", "with_results"]
