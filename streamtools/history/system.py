"""Decides where a system prompt among the messages may stand, and joins several into one."""

from __future__ import annotations

from ..wires.history_rules import HistoryRules
from ..wires.transcript import Prompt, Said

__all__ = ["as_one", "is_system", "takes_system"]


def is_system(step: object) -> bool:
    """Returns whether a step is a system prompt."""
    return isinstance(step, Prompt) and step.role == "system"


def takes_system(rules: HistoryRules, before: Prompt | Said | None, after: Prompt | Said | None) -> bool:
    """Returns whether a system prompt may stand between these two; an answer stands for itself and its results. None is
    the beginning, or the end."""
    match rules.system_stands:
        case "anywhere":
            return True
        case "not_behind_answer":
            return not isinstance(before, Said)
        case "before_answer":
            return not isinstance(after, Prompt) and (
                _ends_with_the_user(before)
                if isinstance(before, Said)
                else before is not None and not is_system(before)
            )


def as_one(prompts: list[Prompt]) -> Prompt:
    """Joins several system prompts into one; returns the same object if there is only one."""
    if len(prompts) == 1:
        return prompts[0]
    return Prompt(role="system", blocks=tuple(block for prompt in prompts for block in prompt.blocks))


def _ends_with_the_user(said: Said) -> bool:
    """Returns whether an answer's results are the user's message, or it waits for the provider's own tools."""
    last = said.answer.parts[-1] if said.answer.parts else None
    call = said.answer.calls.get(last.call_id) if last is not None and last.call_id is not None else None
    return bool(said.answer.our_calls) or (call is not None and call.kind == "server")
