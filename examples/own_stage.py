"""Adds a stage of your own, a class with `feed` and `finish`, at a chosen place of the chain."""

from __future__ import annotations

import re
from collections.abc import Iterable

from streamtools import Event, TextDelta, parse
from streamtools.stages import DEFAULT

BODY = b"""\
data: {"choices":[{"index":0,"delta":{"content":"Card 4111 1111 1111 1111 is "}}]}

data: {"choices":[{"index":0,"delta":{"content":"yours."},"finish_reason":"stop"}]}

data: [DONE]

"""


class HideCards:
    """Replaces card numbers within one delta."""

    handles = frozenset({TextDelta})  # all other events bypass this stage

    def feed(self, event: Event) -> Iterable[Event]:
        if isinstance(event, TextDelta):
            return (TextDelta(re.sub(r"\b(?:\d{4} ?){3}\d{4}\b", "[card]", event.text)),)
        return (event,)

    def finish(self) -> Iterable[Event]:
        return ()


turn = parse(BODY, stages=DEFAULT.append(HideCards))
print(turn.text)
assert turn.text == "Card [card] is yours.", turn.text
