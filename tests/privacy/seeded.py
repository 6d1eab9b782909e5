"""A hundred secrets, made of a seed, and the search for them in whatever was written."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from privacy.shapes import ALL

from streamtools.privacy.secrets import SecretShapes


@dataclass(frozen=True)
class Secret:
    """A secret, the text that it stands in, and what of it must be found nowhere."""

    kind: str
    text: str
    traces: tuple[str, ...]
    value: Any = None
    """The same as a value of another type, in an object."""


def card(chance: random.Random) -> str:
    """A number with its check digit."""
    digits = chance.choice("345") + "".join(chance.choices(string.digits, k=14))
    return next(
        digits + last
        for last in string.digits
        if sum(int(d) if at % 2 == 0 else sum(divmod(2 * int(d), 10)) for at, d in enumerate(reversed(digits + last)))
        % 10
        == 0
    )


def secrets(count: int = 100) -> list[Secret]:
    """Shapes of secrets, each as a value of another type, too; each tenth is a card, which may be a number."""
    chance, made = random.Random(7), list[Secret]()
    for at in range(count):
        if at % 10 == 9:
            number = card(chance)
            shown = chance.choice(("", " ", "-")).join(number[part : part + 4] for part in range(0, 16, 4))
            made.append(Secret("card", f"charge {shown} today", (number, shown), chance.choice((int, float))(number)))
        else:
            shape = chance.choice(ALL)
            text, traces = shape.made(at)
            value = ([text], {"seen": {text: 1}}, {"pem": text.encode()}, (text, None))[at % 4]
            made.append(Secret(shape.text, text, traces, value))
    return made


def survivors(written: Iterable[str], known: Iterable[Secret]) -> Iterator[str]:
    """The secrets that stand in a text: as they are, escaped, or encoded."""
    joined = "\n".join(written)
    seen = {joined, joined.replace("\\\\", "\\").replace("\\n", "\n").replace("\\/", "/")}
    seen |= {re.sub(r"[\s│┃|]+", "", joined)}  # a terminal wraps its lines
    seen |= {_decoded(found[0]) for found in re.finditer(r"[A-Za-z0-9+/]{12,}={0,2}", joined)}
    everything = "\n".join(seen)
    for secret in known:
        for trace in secret.traces:
            if trace in everything:
                yield f"{secret.kind}: {secret.text[:60]!r}"
                break


def _decoded(text: str) -> str:
    whole = text.rstrip("=")[: len(text) // 4 * 4]
    return base64.b64decode(whole + "=" * (-len(whole) % 4)).decode("latin-1") if len(whole) % 4 != 1 else ""


def fed(shapes: SecretShapes, pieces: Iterable[str]) -> str:
    mask = shapes.growing()
    return "".join([*(mask.feed(piece) for piece in pieces), mask.finish()])


def as_json(value: Any) -> str:
    return json.dumps(value, default=repr, ensure_ascii=False)
