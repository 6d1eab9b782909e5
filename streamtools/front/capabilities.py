"""Assigns capabilities to the seams, by their methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ..ground.text import type_name
from ..observers import Observer
from ..pipelines.trajectory import Trajectory
from ..seams import NO_SEAMS, Seams

if TYPE_CHECKING:
    from ..durable.store import IdempotencyStore
    from ..seams import Attempts, Desk, Gate, Guard


class _Seam(NamedTuple):
    name: str
    method: str  # an object that has it stands there
    are_many: bool = False


_SEAMS: Mapping[str, _Seam] = {
    "rules": _Seam("CallRule", "judge", are_many=True),
    "filters": _Seam("ResultFilter", "apply", are_many=True),
    "gate": _Seam("Gate", "enter"),
    "desk": _Seam("Desk", "respond"),
    "guard": _Seam("Guard", "step"),
    "attempts": _Seam("Attempts", "broke"),
    "steps": _Seam("StepSource", "next"),
}
_WHERE = {"steps": "agent_loop, where steps follow each other", "attempts": "pipeline and agent_loop, which ask"}


def seams_of(given: Any, *own: object, without: Iterable[str] = ()) -> Seams:
    """Returns the seams with the capabilities that were given, and `own`, which words ask for, before them; None is
    none. Those `without` have no place here.

    Raises:
        TypeError: one has no method of a seam, or is a class; or it is the second at a seam for one.
    """
    if given == () and own == (None,):  # as nearly always
        return NO_SEAMS
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        raise TypeError(f"capabilities must be a list of objects, not {type(given).__name__}; write capabilities=[...]")
    found: dict[str, list[object]] = {}
    for one in (*(one for one in own if one is not None), *given):
        for field in _places(one):
            if field in without:
                raise TypeError(f"capabilities: {type_name(one)} works only in {_WHERE[field]}")
            if field in found and not _SEAMS[field].are_many:
                two = f"{type_name(found[field][0])} and {type_name(one)}"
                raise TypeError(f"capabilities: a run has one {_SEAMS[field].name}, but got two: {two}")
            found.setdefault(field, []).append(one)
    if not found:
        return NO_SEAMS
    placed: dict[str, Any] = {name: tuple(all_) if _SEAMS[name].are_many else all_[0] for name, all_ in found.items()}
    return Seams(**placed)


def gate_of(store: IdempotencyStore | None, identity: str | None = None) -> Gate | None:
    if store is None:
        return None
    if isinstance(store, type) or not hasattr(store, "claim"):
        what = f"the class {store.__name__}" if isinstance(store, type) else type(store).__name__
        such_as = "such as streamtools.dispatch.SqliteStore(path)"
        raise TypeError(f"store must be an IdempotencyStore, {such_as}, not {what}")
    from ..durable.gate import StoreGate  # as said where a store is given

    return StoreGate(store, identity)


def desk_of(seams: Seams, store: IdempotencyStore | None) -> Desk | None:
    if seams.desk is not None or not hasattr(store, "decide"):
        return seams.desk
    from ..durable.desk import StoreDesk  # as said where a store is given

    return StoreDesk(store)  # type: ignore[arg-type]  # it decides


def guard_of(seams: Seams, privacy: Guard | None) -> Guard | None:
    if privacy is not None and seams.guard is not None:
        raise TypeError(f"a run has one Guard; pass either privacy= or {type_name(seams.guard)}")
    return seams.guard if privacy is None else privacy


def run_of(
    trajectory: Trajectory | None, observers: Iterable[Observer] | None, seams: Seams, privacy: Guard | None
) -> Trajectory:
    """Returns the run that was given, or a new one with these observers."""
    guard = guard_of(seams, privacy)
    if trajectory is None:
        return Trajectory(observers=observers, privacy=guard)
    if guard is not None:
        raise ValueError("pass the policy to the Trajectory, which all its steps share, not to one pipeline")
    if observers is not None:
        raise ValueError("pass the observers to the Trajectory, which all its steps share, not to one pipeline")
    return trajectory


def attempts_of(seams: Seams, retry: Attempts | None) -> Attempts | None:
    if retry is not None and (isinstance(retry, type) or not hasattr(retry, "broke")):
        raise TypeError(f"retry must be a streamtools.Retry(...), not {type(retry).__name__}")
    if retry is not None and seams.attempts is not None:
        raise TypeError(f"a run has one Attempts; pass either retry= or {type_name(seams.attempts)}")
    return seams.attempts if retry is None else retry


def _places(one: object) -> list[str]:
    if isinstance(one, type):
        raise TypeError(f"capabilities: {one.__name__} is a class; pass an object of it, {one.__name__}()")
    places = [field for field, seam in _SEAMS.items() if callable(getattr(one, seam.method, None))]
    if not places:
        methods = ", ".join(f"{seam.method} ({seam.name})" for seam in _SEAMS.values())
        raise TypeError(f"capabilities: {type_name(one)} has no method of a seam; the methods are {methods}")
    return places
