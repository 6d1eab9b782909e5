"""Where a system prompt among the messages may stand, and how it gets there."""

from __future__ import annotations

from ..wires.rules import HistoryRules
from ..wires.transcript import Prompt, Said

__all__ = ["as_one", "is_system", "takes_system"]


def is_system(step: object) -> bool:
    """Whether a step is a system prompt."""
    return isinstance(step, Prompt) and step.role == "system"


def takes_system(rules: HistoryRules, before: Prompt | Said | None, after: Prompt | Said | None) -> bool:
    """Whether a system prompt may stand between these two, an answer being meant with its results. None is the
    beginning, or the end."""
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
    """Several system prompts as one; the very one if it is one."""
    if len(prompts) == 1:
        return prompts[0]
    return Prompt(role="system", blocks=tuple(block for prompt in prompts for block in prompt.blocks))


def _ends_with_the_user(said: Said) -> bool:
    """Whether the results of an answer are the user's message, or it waits for the provider's own tools."""
    last = said.answer.parts[-1] if said.answer.parts else None
    call = said.answer.calls.get(last.call_id) if last is not None and last.call_id is not None else None
    return bool(said.answer.our_calls) or (call is not None and call.kind == "server")
