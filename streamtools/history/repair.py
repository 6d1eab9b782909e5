"""Repairs a history so that its provider takes it."""

from __future__ import annotations

from typing import Any

from ..wires import Wire
from .assembly import assembled, joined
from .native import Messages, mended, refuse_another_wires, wire_named
from .pairing import pair
from .settling import BadArguments, HistorySettling

__all__ = ["repair"]

_MAX_ROUNDS = 8
"""A wire's own mending may cause one more round of repairs; more rounds are a safeguard."""


def repair(
    messages: list[Any],
    wire: Wire | str,
    *,
    model: str | None = None,
    last: bool = False,
    bad_arguments: BadArguments = "empty",
) -> list[Any]:
    """Repairs messages so that the provider takes them; returns the same list if it does already.

    Every call gets its one result, right behind the answer and in call order: a result that stands later is moved
    there, a missing one says that the call was interrupted, and one that answers no call is dropped. Ids become unique
    and valid, for a call and its result alike; arguments become an object; empty messages are dropped, and so are items
    that are no message of this wire. Content between calls and results goes behind the results. Messages that need no
    repair stay the same objects, so that a provider's cache of the prompt still fits; and the same history is always
    repaired in the same way.

    Args:
        messages: native messages of `wire`. They are not changed.
        wire: the wire, or its name.
        model: the model's name, where an endpoint has models that demand more than others (Bedrock).
        last: also answer calls without a result at the very end. Without it they count as still running.
        bad_arguments: the replacement for arguments that are no JSON object: ``empty`` (``{}``), or ``wrap_raw``
            (``{"INVALID_JSON": ...}``, which lets the model see what it wrote).

    Raises:
        ExportError: no such wire; or no message is of it, and some are of another wire.
        TypeError: `messages` is no list.
    """
    found = wire_named(wire, model)
    settling = HistorySettling(found, last=last, bad_arguments=bad_arguments)
    read = Messages(messages, found)
    refuse_another_wires(read)
    for _ in range(_MAX_ROUNDS):  # pragma: no branch - two suffice
        after = _once(messages, read, settling)
        if after is messages:
            break
        messages, read = after, Messages(after, found)
    return messages


def _once(messages: list[Any], read: Messages, settling: HistorySettling) -> list[Any]:
    wire = read.wire
    after = joined(assembled(settling.settle(pair(read.entries, wire.rules).steps), read), wire)
    if wire.rules.mend is not None:
        after = mended(after, wire.rules.mend)
    unchanged = len(after) == len(messages) and all(a is b for a, b in zip(after, messages, strict=True))
    return messages if unchanged else after
