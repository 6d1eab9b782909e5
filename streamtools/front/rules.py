"""Puts the rules together that the words of a step ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..pipelines.trajectory import Trajectory
from ..seams import Seams
from ..stages import DEFAULT, StageList
from ..tools import Toolset
from ..wires import Wire
from .checked import CheckedOptions

if TYPE_CHECKING:
    from ..seams import CallRule

_OF_TEXT = frozenset({"text_calls", "payloads"})  # the stages that read calls out of the text


def with_rules(
    checked: CheckedOptions,
    run: Trajectory,
    *,
    request: Mapping[str, Any] | None = None,
    asks_model: bool = True,
    is_known: bool = False,
) -> Seams:
    """Returns the seams of a step, with the rules that its words ask for before a user's own.

    Args:
        request: the request's fields, if they are known.
        asks_model: False for calls that are at hand.
        is_known: they were judged before, perhaps elsewhere.

    Raises:
        TypeError: a policy is none, or what the model has read is not known.
        ValueError: a policy names an argument that no tool has.
    """
    rules: list[CallRule] = []
    start, tools, limits, seams = checked.dispatch.policy, checked.tools, checked.limits, checked.dispatch.seams
    if start != "off" and any(tool is not None and tool.hints is not None for tool in tools.values()):
        from ..policy.callers import Callers  # few tools have hints

        rules.append(Callers(tools))
    looks = checked.quoted_calls != "run" and start != "pure"
    if looks and (asks_model or is_known) and _reads_text(checked.stages):
        from ..text_calls.quoted import KeptResults, QuotedCalls  # most models make their calls natively

        results = run.kept.setdefault(KeptResults, KeptResults())
        rules.append(QuotedCalls(results, tools, limits, checked.quoted_calls == "ask"))
    is_off = start == "off"  # then a rule keeps texts alone, of a run that has some
    if has_policy(checked.policy, tools) and (run.kept or not is_off):
        from ..provenance.rule import rule_of  # few tools have a policy

        rule = rule_of(
            checked.policy,
            tools,
            run.kept,
            limits,
            request=None if is_off else request,
            asks_model=asks_model and not is_off,
            is_known=is_known or is_off,
        )
        if rule is not None:
            rules.append(rule)
    return replace(seams, rules=(*rules, *seams.rules)) if rules else seams


def has_policy(policy: object, tools: Toolset) -> bool:
    return policy is not None or any(tool is not None and tool.policy is not None for tool in tools.values())


def know(run: Trajectory, messages: Sequence[Any], checked: CheckedOptions, wire: Wire | str) -> None:
    """Tells a run the messages that it begins with, if a rule needs them; raises as `with_rules` does."""
    if has_policy(checked.policy, checked.tools):
        from ..provenance.rule import begin_run  # few tools have a policy

        begin_run(run.kept, checked.policy, messages, checked.tools, wire, checked.limits)


def _reads_text(stages: StageList) -> bool:
    return stages is not DEFAULT and not _OF_TEXT.isdisjoint(stages)
