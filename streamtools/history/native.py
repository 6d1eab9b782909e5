"""Reads a provider's messages as callers hold them: dicts, or the objects of an SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..content import Text
from ..errors import ExportError
from ..text import excerpt, known_names
from ..wires import Wire, find, known, names
from ..wires.history_rules import HistoryRules
from ..wires.transcript import Entry, Prompt, Returned, Said

__all__ = ["Messages", "are_same", "is_empty", "mended", "plain_of", "refuse_another_wires", "role_of", "shown"]
__all__ += ["wire_named"]

_MAX_DEPTH = 8
"""The depth to which an SDK's objects may be nested in a message: the source of an image in a result in a message is at
depth 5."""
_MAX_SHOWN = 80  # characters


class Messages:
    """A list of native messages, read.

    Args:
        given: the messages. SDK objects are read by their ``model_dump``, and stay what they are.
        wire: the wire of the messages.

    Raises:
        TypeError: `given` is no list.
    """

    def __init__(self, given: Sequence[Any], wire: Wire) -> None:
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
            hint = "; pass its list of messages" if isinstance(given, Mapping) else ""
            raise TypeError(f"a history is a list of messages, not {type(given).__name__}{hint}")
        self.given = given
        self.wire = wire
        self.plain: list[Any] = [plain_of(message, wire.rules) for message in given]
        """The messages as dicts; a message that cannot be one stays as it is, and is read as nothing."""
        self.entries: list[Entry] = wire.read(self.plain)
        self.members: dict[tuple[int, int], list[Entry]] = {}
        """All entries that were read from the same messages, in order."""
        for entry in self.entries:
            if entry.origin is not None:
                self.members.setdefault(entry.origin, []).append(entry)

    @property
    def mixed(self) -> set[tuple[int, int]]:
        """The messages that hold results and other content, where the wire wants them apart."""
        if not self.wire.rules.results_apart:
            return set()
        kinds = {origin: {isinstance(entry, Returned) for entry in group} for origin, group in self.members.items()}
        return {origin for origin, found in kinds.items() if len(found) > 1}

    @property
    def unread(self) -> list[int]:
        """The places of items that are no message of this wire."""
        covered = {place for entry in self.entries if entry.origin for place in range(*entry.origin)}
        return [place for place in range(len(self.plain)) if place not in covered]


def refuse_another_wires(read: Messages) -> None:
    """Refuses a history that reads as empty on its own wire, but not on another: repairing or converting it would leave
    nothing.

    Raises:
        ExportError: the history seems to be of another wire, which the message names.
    """
    if not read.plain or any(not is_empty(entry) for entry in read.entries):
        return
    for other in known():
        if other.name != read.wire.name and any(_says_something(entry) for entry in other.read(read.plain)):
            raise ExportError(f"none of these is a message of {read.wire.name}; they look like those of {other.name}")


def _says_something(entry: Entry) -> bool:
    """Returns whether an entry holds a text or a call, which messages of a wrong wire would not seem to hold."""
    if isinstance(entry, Prompt):
        return any(isinstance(block, Text) and block.text for block in entry.blocks)
    return isinstance(entry, Said) and any(part.kind == "call" or part.text for part in entry.answer.parts)


def mended(messages: list[Any], rules: HistoryRules) -> list[Any]:
    """Applies a wire's own `mend`; returns the given messages themselves wherever it changes none."""
    if rules.mend is None:
        return messages
    plain = [plain_of(message, rules) for message in messages]
    after = rules.mend(plain)
    if after is plain:
        return messages
    originals = {id(dumped): given for dumped, given in zip(plain, messages, strict=True)}
    return [originals.get(id(message), message) for message in after]


def wire_named(wanted: Wire | str, model: str | None = None) -> Wire:
    """Returns the wire, or the one of that name, with the rules that hold for the model.

    Raises:
        ExportError: there is no such wire.
    """
    try:
        wire = find(wanted)
    except ValueError as error:
        spoken_names = known_names(str(wanted), names())
        raise ExportError(f"no wire is called {wanted!r}, so its histories cannot be read; {spoken_names}") from error
    for_model = wire.rules.for_model
    return replace(wire, rules=for_model(model)) if model is not None and for_model is not None else wire


def are_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    """Returns whether two lists hold the same objects."""
    return len(ones) == len(others) and all(one is other for one, other in zip(ones, others, strict=True))


def shown(name: str) -> str:
    """Formats an id or a name for people; a model or a relay may have made it of any length."""
    return f"'{excerpt(name, _MAX_SHOWN)}'"


def is_empty(entry: Entry) -> bool:
    """Returns whether an entry holds nothing at all."""
    if isinstance(entry, Prompt):
        return not entry.blocks
    return not entry.answer.parts if isinstance(entry, Said) else not entry.results


def role_of(message: Any, rules: HistoryRules) -> str | None:
    """Returns a message's role, in the provider's word; None if it has none."""
    key = rules.role_key
    role = message.get(key) if isinstance(message, Mapping) else getattr(message, key, None)
    return role if isinstance(role, str) else None


def plain_of(message: Any, rules: HistoryRules) -> Any:
    """Returns a message as a dict of plain values, also where only its content is made of an SDK's objects; the same
    object if it is one already. A message that cannot become a dict stays what it is, or becomes None."""
    return _plain(message, 0, (rules.role_key, "type"))


def _plain(value: Any, depth: int, kinds: tuple[str, ...]) -> Any:
    if value is None or isinstance(value, (str, bytes, int, float)) or depth > _MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        changed = {key: new for key, item in value.items() if (new := _plain(item, depth + 1, kinds)) is not item}
        return {**value, **changed} if changed or not isinstance(value, dict) else value
    if isinstance(value, (list, tuple)):
        items = [_plain(item, depth + 1, kinds) for item in value]
        return value if isinstance(value, list) and are_same(items, value) else items
    return _dumped(value, kinds)


def _dumped(value: Any, kinds: tuple[str, ...]) -> Any:
    """Returns an SDK's object as a plain value; anything else stays what it is, or becomes None."""
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return value
    try:
        return _with_kinds(dump(mode="json", by_alias=True, exclude_unset=True), value, kinds)
    except Exception:  # the caller's object: whatever its dump raises, it is then no message
        return None


def _with_kinds(dumped: Any, value: Any, kinds: tuple[str, ...]) -> Any:
    """Adds the fields that tell the kind of each object to a dump, also where nobody set them: some SDKs have them as
    defaults."""
    if isinstance(dumped, dict):
        unset = {key: kind for key in kinds if key not in dumped and isinstance(kind := getattr(value, key, None), str)}
        return unset | {key: _with_kinds(item, getattr(value, str(key), None), kinds) for key, item in dumped.items()}
    if isinstance(dumped, list) and isinstance(value, (list, tuple)) and len(value) == len(dumped):
        return [_with_kinds(item, given, kinds) for item, given in zip(dumped, value, strict=True)]
    return dumped
