"""The shapes of secrets in one table: how each is written, and what looks like it and is none."""

from __future__ import annotations

import json
import random
import re
import string
from dataclasses import dataclass
from pathlib import Path

ALPHABETS = {
    "w": string.ascii_letters + string.digits,
    "x": "0123456789abcdef",
    "A": string.ascii_uppercase + string.digits,
    "a": string.ascii_lowercase + string.digits,
    "d": string.digits,
    "b": string.ascii_letters + string.digits + "-_",
}
FILLED = re.compile(r"<([wxAadb])(\d+)>")


@dataclass(frozen=True)
class Shape:
    """`<w24>` in a text stands for 24 letters and digits by chance, which must not be left."""

    text: str
    harmless: str
    """Much like it, and no secret."""

    def made(self, seed: int) -> tuple[str, tuple[str, ...]]:
        """The text, and what must be found nowhere once it is masked."""
        chance, traces = random.Random(f"{self.text} {seed}"), list[str]()

        def filled(found: re.Match[str]) -> str:
            # A letter at both ends, as nothing is said about what a vendor's dividers mean there.
            inner = "".join(chance.choices(ALPHABETS[found[1]], k=int(found[2])))
            if found[1] in "wb":
                inner = chance.choice(string.ascii_letters) + inner[1:-1] + chance.choice(string.ascii_letters)
            traces.append(inner)
            return inner

        text = FILLED.sub(filled, self.text)
        return text, tuple(trace for trace in traces if len(trace) >= 6)


ROWS = Path(__file__).resolve().parents[1] / "data" / "secret_shapes.jsonl"
ALL = tuple(Shape(*json.loads(row)) for row in ROWS.read_text(encoding="utf-8").splitlines())
"""Each shape, with what looks like it: of AI, clouds, code, data, watching, people, payments, names, forms and keys."""
KEYS = tuple(shape for shape in ALL if shape.text.startswith("-----BEGIN"))
"""Keys in lines."""
