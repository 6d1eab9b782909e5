"""Steps that are calls, as fragments for the accumulate stage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ...events import ToolCallFragment
from ..reading import read_text
from .facts import SERVER_STEPS
from .steps import GrowingStep

__all__ = ["Path", "begun", "ended", "grown", "name_of", "said_of", "signed", "unsaid"]

Path: TypeAlias = "tuple[str | int, ...]"


def said_of(raw: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the id and the name of a call."""
    return str(raw.get("id")), str(raw.get("name"))


def name_of(raw: Mapping[str, Any]) -> str | None:
    """Returns the name of the tool that a call is for: its type, where it has no other."""
    type_ = read_text(raw.get("type"))
    return read_text(raw.get("name")) or (type_ if type_ in SERVER_STEPS else None)


def begun(
    step: GrowingStep, raw: Mapping[str, Any], state: Mapping[str, Any], *, start: bool = True
) -> ToolCallFragment:
    """Returns the beginning of a call; without `start`, of one whose arguments have begun."""
    return _fragment(step, id=read_text(raw.get("id")), name=name_of(raw), start=start, provider_state=state)


def grown(step: GrowingStep, text: str) -> ToolCallFragment:
    """Returns more of the arguments."""
    return _fragment(step, arguments=text)


def signed(step: GrowingStep, state: Mapping[str, Any]) -> ToolCallFragment:
    """Returns more of what goes back with the call."""
    return _fragment(step, provider_state=state)


def ended(step: GrowingStep, state: Mapping[str, Any], *, cut: bool) -> ToolCallFragment:
    """Returns the end of a call.

    The placeholder ``{}`` in its start is no proof that a call has no arguments: the end of the response shows whether
    it was cut before they came.
    """
    text, problem = ("".join(step.pieces), None) if step.grows else step.arguments
    if step.again:
        text = text or "{}"
    elif step.is_call_of_ours and text == "{}":
        text = ""
    return _fragment(step, whole=text or None, problem=problem, end=True, cut=cut, provider_state=state)


def unsaid(step: GrowingStep) -> ToolCallFragment:
    """Returns the end of a call that was not made again behind the checkpoint: no history has it."""
    return _fragment(step, end=True, cut=True, provider_state={"unsaid": True})


def _fragment(step: GrowingStep, **said: Any) -> ToolCallFragment:
    awaits = "tool_search_result" if step.is_call_of_ours and step.type == "tool_search_call" else None
    return ToolCallFragment(step.number, kind=step.kind or "function", awaits=awaits, **said)
