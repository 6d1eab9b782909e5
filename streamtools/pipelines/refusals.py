"""Refuses what is easily written wrongly about a block or a run, and says what to write instead.

Input: the arguments of `agent_loop`, or a synchronous ``for`` or ``with``. Output: none, or a `TypeError`, or, for
messages of another wire, an `ExportError`. Nothing is called, and messages are quoted nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NoReturn

from ..dispatch.options import LEAVES_CALLS
from ..limits import Limits
from ..tools.callables import accepts
from ..turn import Turn
from ..wires import Wire, find

_INSTEAD_OF: Mapping[str, str] = {
    "observers": "pass trajectory=Trajectory(observers=[...]), which all steps share",
    "max_turns": "write max_steps=...",
    "timeout": "write limits=Limits(tool_timeout=..., run_timeout=...)",
}
_TURN = frozenset(name for name in dir(Turn) if not name.startswith("_"))
_MODELS = ("model", "system", "temperature", "max_tokens", "client", "instructions", "tool_choice")


def asynchronous_only(what: str, block: str) -> Callable[..., NoReturn]:
    """Returns a method that refuses a synchronous ``for`` or ``with``, and says what to write. `what` names such an
    object; `block` are the words between ``async with`` and the colon: a call, and the name of the events."""
    made, _, events = block.rpartition(" as ")
    inside = f"async with {block}:  async for event in {events}: ..."

    def refuse(*_: object) -> NoReturn:
        outside = f"with {made}.sync() as {events}: ..."
        raise TypeError(f"{what} is asynchronous; write:  {inside}, or, without an event loop,  {outside}")

    return refuse


def turned_to(turn: str) -> Callable[[object, str], NoReturn]:
    """Returns a ``__getattr__`` that says where the turn is, by its expression, for an attribute that only the turn
    has."""

    def refuse(self: object, name: str) -> NoReturn:
        hint = f"; the turn has it, write {turn}.{name}" if name in _TURN else ""
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}", name=name, obj=self)

    return refuse


def check_run(
    call_model: Any,
    messages: Any,
    wire: Wire | str,
    *,
    stop: Any,
    trajectory: Any,
    options: Mapping[str, Any],
    known: Collection[str],
) -> None:
    """Checks the arguments of `agent_loop`.

    Raises:
        TypeError: one of them has another type, or there is no such option.
        ValueError: calls would be left to somebody else.
        ExportError: the messages are those of another wire.
    """
    from .trajectory import Trajectory  # a run has it in hand; a block needs none of these checks

    if not callable(call_model):
        raise TypeError(f"call_model is a function of messages and tools, not {type(call_model).__name__}")
    if not accepts(call_model, 2):
        raise TypeError("call_model takes two arguments: async def ask(messages, tools): ...")
    if stop is not None and not callable(stop):
        raise TypeError(f"stop is a function of a turn, not {type(stop).__name__}")
    if trajectory is not None and not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory is a streamtools.Trajectory(), not {type(trajectory).__name__}")
    for name in sorted(options):
        if name not in known:
            raise TypeError(f"agent_loop has no option {name!r}; {_instead_of(name, known)}")
    if (start := options.get("start")) in LEAVES_CALLS:
        text = f"agent_loop runs the calls, and start={start!r} leaves them; use pipeline for a loop of your own"
        raise ValueError(text)
    _check_messages(messages, wire)


def _instead_of(option: str, known: Collection[str]) -> str:
    from difflib import get_close_matches  # only for a mistake

    if option in _MODELS:
        return "it belongs to the request, which call_model makes"
    if option in _INSTEAD_OF:
        return _INSTEAD_OF[option]
    if option in Limits.__dataclass_fields__:
        return f"it is a limit; write limits=Limits({option}=...)"
    near = get_close_matches(option, known, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"


def _check_messages(messages: Any, wire: Wire | str) -> None:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"messages is a list of messages, not {type(messages).__name__}; write messages=[...], each as the "
            "provider takes it"
        )
    if not all(isinstance(message, Mapping) for message in messages):
        return  # objects of other libraries are their own business
    from ..history.calls import Messages, refuse_another_wires

    try:
        spoken = find(wire)
    except ValueError:  # the export of the tools refuses it, and knows more names
        return
    refuse_another_wires(Messages(messages, spoken))
