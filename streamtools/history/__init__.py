"""Checks and repairs histories, and converts them for another provider. `Turn.messages` returns the part to append.

    lint(messages, target)                         the reasons for which the provider would refuse, in its own words
    repair(messages, target)                       the same history, made acceptable; the same object if it is already
    convert(messages, source, target)              a history of one provider as one of another
    with_results(messages, observations, target)   the same history, in which calls have other results

All of it is sans-IO and deterministic. The messages are the provider's own, as dicts or as objects of its SDK.
"""

from __future__ import annotations

from ..wires.history_rules import Violation
from .convert import Converted, convert
from .lint import lint
from .repair import repair
from .results import with_results

__all__ = ["Converted", "Violation", "convert", "lint", "repair", "with_results"]
