"""Histories in each provider's own shape, written by hand, and what a provider looks at in them.

Nothing here uses the library's way of reading or writing messages, so that what it makes is judged by somebody else:
`flow` says who speaks and who answers whom, `refusals` what a provider would object to.
"""

from __future__ import annotations

from typing import Any

from wire_cases import CASES, Call, Message, Native, Spoken

__all__ = ["NATIVE", "Call", "Native", "flow", "refusals"]

NATIVE = {wire: cases.native for wire, cases in CASES.items()}
"""How each provider's messages are written."""


def flow(wire: str, messages: list[Message]) -> list[Spoken]:
    """Who speaks in each message. Results of one turn are one, however many messages they stand in."""
    cases, found = CASES[wire], list[Spoken]()
    for message in messages:
        for who, ids in cases.flow(message):
            if found and found[-1][0] == who and who in cases.joined:
                found[-1][1].extend(ids)
            else:
                found.append((who, ids))
    return found


def refusals(wire: str, messages: list[Message]) -> list[str]:
    """What is wrong with the order of a history: calls without their results behind them, or results without calls."""
    every = flow(wire, messages)
    wrong = [objection for objections in CASES[wire].objections for objection in objections(messages, every)]
    spoken = [one for one in every if one[0] != "system"]
    for at, (who, ids) in enumerate(spoken):
        before = spoken[at - 1] if at else ("nobody", [])
        after = spoken[at + 1] if at + 1 < len(spoken) else ("nobody", [])
        if who == "model" and ids and not (after[0] == "result" and _answers(after[1], ids)):
            wrong.append(f"calls {ids} are followed by {after}")
        if who == "result" and not (before[0] == "model" and _answers(ids, before[1])):
            wrong.append(f"results {ids} follow {before}")
    calls = [id_ for who, ids in spoken if who == "model" for id_ in ids]
    named = [id_ for id_ in calls if not (isinstance(id_, tuple) and id_[0] is None)]
    if len(set(named)) < len(named):
        wrong.append("an id is used twice")
    return wrong


def _answers(results: list[Any], calls: list[Any]) -> bool:
    """Whether these results are those of these calls. One without an id, where that may be, answers by its name."""
    nameless = [isinstance(result, tuple) and result[0] is None for result in results]
    return len(results) == len(calls) and all(
        result[1] == call[1] if by_name else result == call
        for result, call, by_name in zip(results, calls, nameless, strict=True)
    )
