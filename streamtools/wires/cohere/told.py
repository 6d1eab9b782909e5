"""What a v1 stream told so far: its ``stream-end`` says all of it again, and must not be told twice."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ...text import well_formed

__all__ = ["LegacyCall", "LegacyStream"]


@dataclass(slots=True)
class LegacyCall:
    """A call that streams, to be compared with what the response says of it at its end."""

    name: str | None
    pieces: list[str] = field(default_factory=list, repr=False)

    def says(self, arguments: str) -> bool:
        """Whether the text that streamed has the value of `arguments`: the provider parsed it and wrote it anew."""
        return _canonical("".join(self.pieces)) == _canonical(arguments)


class LegacyStream:
    """The texts and calls of one v1 response."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.plan: list[str] = []
        self.calls: dict[int | str, LegacyCall] = {}

    def rest(self, text: str) -> str | None:
        """What of the response's text was not told yet; None if something else was."""
        told, plan, text = (well_formed(part) for part in ("".join(self.text), "".join(self.plan), text))
        if text.strip() in (told.strip(), plan.strip(), (plan + told).strip()):
            return ""
        if plan and not told:
            return None
        return text[len(told) :] if text.startswith(told) else None

    def label(self, index: int | str | None, name: str | None) -> int | str:
        """The label of a piece of a call; without an index, a name begins a call, and all else is the latest's."""
        if index is not None:
            return index
        return len(self.calls) if name else max(len(self.calls) - 1, 0)


def _canonical(text: str) -> str | None:
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return None
