"""What the Gemini API demands of a history, and in which words it refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..rules import HistoryRules, Violation
from .tools import NAMES_IN_HISTORY

__all__ = ["BLANK_PART", "RULES", "TEXTS"]

# google-gemini/gemini-cli#4217
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
# langchain-ai/langchain#27799
_RESPONSE_TURN = "Please ensure that function response turn comes immediately after a function call turn."
# google-gemini/gemini-cli#26486; of a history that begins with a call: #11814
_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
BLANK_PART = "required oneof field 'data' must have one initialized field"  # router-for-me/CLIProxyAPI#1292

TEXTS: dict[str, str] = {
    "unanswered_call": _COUNT,
    "result_count": _COUNT,
    "duplicate_result": _COUNT,
    "mixed_results": _COUNT,
    "orphan_result": _RESPONSE_TURN,
    "content_before_results": _RESPONSE_TURN,
    "first_not_user": _CALL_TURN,
    "role_order": _CALL_TURN,
    # envoyproxy/ai-gateway#2686
    "empty_message": "Unable to submit request because it must include at least one parts field, which describes the "
    "prompt input.",
    # nanbingxyz/5ire#405
    "missing_signature": "Function call is missing a thought_signature in functionCall parts. This is required for "
    "tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
    "function call `default_api:f`, position 2.",
    # vercel/ai#14369
    "bad_result": "The referenced name `#/$defs/__schema0` in function_response.response does not match to a "
    "display_name in the function_response.parts.",
    # ShishirPatil/gorilla#768
    "not_a_message": "Please use a valid role: user, model.",
}

_CALLS = frozenset({"functionCall", "function_call"})


def _calls_after_model(contents: Sequence[Any]) -> Iterator[int]:
    """The places of model contents with a call that stand right behind another of the model's."""
    for place in range(1, len(contents)):
        if _role(contents[place]) == _role(contents[place - 1]) == "model" and _has_call(contents[place]):
            yield place


def _role(content: object) -> object:
    return content.get("role") if isinstance(content, Mapping) else None


def _parts(content: object) -> list[Any]:
    parts = content.get("parts") if isinstance(content, Mapping) else None
    return parts if isinstance(parts, list) else []


def _has_call(content: object) -> bool:
    return any(
        isinstance(part, dict) and ("functionCall" in part or "function_call" in part) for part in _parts(content)
    )


def _check(contents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    for place in _calls_after_model(contents):
        yield RULES.violation("role_order", f"contents[{place}]", "a call of the model's follows what the model said")


def _mend(contents: list[Any]) -> list[Any]:
    """Joins a call with what the model said before it, part by part, each with its own signature."""
    behind = set(_calls_after_model(contents))
    if not behind:
        return contents
    runs: list[list[Any]] = []
    for place, content in enumerate(contents):
        if place in behind:
            runs[-1].append(content)
        else:
            runs.append([content])
    return [run[0] if len(run) == 1 else _join(run) for run in runs]


def _join(contents: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {**contents[0], "parts": [part for content in contents for part in _parts(content)]}


RULES = HistoryRules(
    list_name="contents",
    system="apart",
    first_user=True,
    results_in_one_message=True,
    results_apart=True,
    names=NAMES_IN_HISTORY,
    result_names=True,
    call_ids_optional=True,
    texts=TEXTS,
    check=_check,
    mend=_mend,
    join=_join,
)
