"""Replaces call ids by ones that a provider takes: a stable, collision-checked bijection."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import replace

from ..wires import Answer, Wire, find
from ..wires.answer_builder import CallNames

__all__ = ["renamed", "stand_ins", "valid_ids", "with_valid_ids"]


def with_valid_ids(answer: Answer, target: Wire | str) -> Answer:
    """Returns `answer` with ids that `target` accepts; the same object if all are acceptable already.

    An answer that goes back over its own wire keeps the ids that the provider gave, whatever they look like.
    """
    given = {id_ for id_, call in answer.calls.items() if answer.own_wire and not call.call_id_synthesized}
    return renamed(answer, valid_ids(answer.calls, target, keep=given))


def renamed(answer: Answer, ids: Mapping[str, str]) -> Answer:
    """Returns `answer` with other ids, in its calls and its results alike; the same object if nothing changes.

    Args:
        answer: the answer; its results, if any, have the ids of its calls.
        ids: the replacement for each id; an id that is not among them stays.
    """
    if all(ids.get(old, old) == old for old in answer.calls):
        return answer
    return replace(
        answer,
        parts=tuple(
            p if p.call_id is None else replace(p, call_id=ids.get(p.call_id, p.call_id)) for p in answer.parts
        ),
        calls={ids.get(old, old): replace(call, call_id=ids.get(old, old)) for old, call in answer.calls.items()},
        arguments={ids.get(old, old): arguments for old, arguments in answer.arguments.items()},
        results=tuple(replace(r, call_id=ids.get(r.call_id, r.call_id)) for r in answer.results),
    )


def valid_ids(ids: Iterable[str], target: Wire | str, *, keep: Collection[str] = ()) -> dict[str, str]:
    """Maps each id to its form at `target`: itself where it is valid or to be kept, else a name made of its hash.

    The same id always gets the same name, so that the calls of an older turn keep theirs from request to request.
    """
    rule = find(target).call_ids
    wanted = list(ids)
    found = {id_: id_ for id_ in wanted if id_ in keep or rule.takes(id_)}
    taken = set(found)
    for id_ in wanted:
        attempt = 0
        while id_ not in found:
            if (name := rule.replacement(id_, attempt)) not in taken:
                found[id_] = name
                taken.add(name)
            attempt += 1
    return found


def stand_ins(call_id: str, target: Wire | str, known: Container[str]) -> list[str]:
    """Returns those of a history's `known` ids that may stand for a turn's `call_id`: the id itself, its replacement by
    `valid_ids`, and the replacements of the same id where it stands there repeatedly.

    Where a name was taken, `valid_ids` used the next attempt's: so the last of the known names is the id's own.
    """
    rule, names = find(target).call_ids, CallNames()
    found = [call_id] if call_id in known else []
    is_first = True
    while True:
        as_read, attempt = names.name(call_id), 0
        while (name := rule.replacement(as_read, attempt)) in known:
            found.append(name)
            attempt += 1
        if not (is_first or attempt):
            return found
        is_first = False
