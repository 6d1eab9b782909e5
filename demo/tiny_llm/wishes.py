"""What people wish for, the calls that it means, and what the tools return.

A dialogue (`dialogues`) is made of these. All draws come from one random generator, in a fixed order.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from template import Params
from tools import TOOLS
from words import COMMON, SKY, Words

__all__ = ["Ask", "Result", "Wishes"]

# What a parameter of a tool that nobody knows is filled with, by its JSON type.
DRAWS = {
    "string": ("word", "name", "short_phrase", "code", "path"),
    "integer": ("number",),
    "number": ("amount",),
    "boolean": ("flag",),
}


@dataclass
class Ask:
    """A wish in words, the call that it means, and how its result is told ("%s")."""

    text: str
    name: str
    args: dict[str, Any]
    told: str


@dataclass
class Result:
    """What a tool returns, and how the answer says it."""

    content: str
    told: str
    error: bool = False


class Wishes:
    """Draws tools on offer, wishes for them, and results; `held_out` as in words.py."""

    def __init__(self, rng: random.Random, *, held_out: bool = False) -> None:
        self.rng = rng
        self.words = Words(rng, held_out=held_out)

    # -- tools on offer ------------------------------------------------------------------------------------------

    def toolbox(self, most: int) -> dict[str, Params]:
        """Some of the twelve in random order, at times with tools that nobody has seen."""
        rng = self.rng
        box: dict[str, Params] = {}
        for name in rng.sample(list(TOOLS), rng.randint(1, most)):
            tool = TOOLS[name]
            required: dict[str, bool | None] = dict.fromkeys(tool.params, True)
            if tool.extra:
                required[tool.extra.name] = self._required_optional_or_absent()
            kept = ((param, kind, required[param]) for param, (kind, _) in tool.params.items())
            box[name] = [(param, kind, need) for param, kind, need in kept if need is not None]
        while rng.random() < 0.2:
            name = self._strange_name()
            if name.isascii() and name not in box and name not in TOOLS:
                box[name] = self._strange_params()
        return dict(rng.sample(list(box.items()), len(box)))

    def _required_optional_or_absent(self) -> bool | None:
        chance = self.rng.random()
        return True if chance < 0.5 else False if chance < 0.8 else None

    def _strange_name(self) -> str:
        choose, word = self.rng.choice, self.words.word
        return choose((word(), f"{choose(COMMON)}_{word()}", f"{choose(COMMON)}_{choose(COMMON)}"))

    def _strange_params(self) -> Params:
        rng = self.rng
        names = {rng.choice((rng.choice(COMMON), self.words.word())) for _ in range(rng.randint(0, 3))}
        kinds = ("string", "string", "integer", "number", "boolean")
        params = [(name, rng.choice(kinds), True) for name in sorted(names) if name.isascii()]
        if params and rng.random() < 0.3:
            name, kind, _ = params.pop()
            params.append((name, kind, False))
        return params

    # -- wishes --------------------------------------------------------------------------------------------------

    def ask(self, name: str, params: Params, given: Mapping[str, Any] | None = None, *, silent: bool = False) -> Ask:
        """A wish for one of the twelve; `given` fixes arguments, `silent` leaves the extra one out."""
        tool = TOOLS[name]
        need = {param: required for param, _, required in params}
        args = {param: (given or {}).get(param, self._draw(draw)) for param, (_, draw) in tool.params.items()}
        asks, extra = tool.asks, tool.extra
        if extra and not silent and extra.name in need and self.rng.random() < extra.said:
            asks = extra.asks
        elif extra and need.get(extra.name):
            args[extra.name] = extra.default
        elif extra:
            del args[extra.name]
        return Ask(self.fill(self.rng.choice(asks), args, tool.quote), name, args, self.fill(tool.told, args))

    def by_name(self, name: str, params: Params) -> Ask:
        """Any tool by its name: ``call frobnicate with x=3, label=zork``."""
        rng = self.rng
        args = {
            param: self._draw(rng.choice(DRAWS[kind]))
            for param, kind, required in params
            if required or rng.random() < 0.5
        }
        said = ", ".join(f"{p}={json.dumps(value) if isinstance(value, bool) else value}" for p, value in args.items())
        forms = ("call {} with {}", "use {} with {}", "run {}({})") if args else ("call {}", "use {}", "run {}()")
        return Ask(rng.choice(forms).format(name, said), name, args, f"{name} returned %s.")

    def many(self, name: str, params: Params) -> tuple[str, list[Ask]]:
        """One wish for 2 to 4 calls of a tool that differ in one parameter."""
        tool = TOOLS[name]
        assert tool.many is not None, "asked for only where a tool has it"
        key, forms = tool.many
        wanted = self.rng.choice((2, 2, 3, 3, 4))
        values: list[Any] = []
        while len(values) < wanted:
            value = self._draw(tool.params[key][1])
            if value not in values:
                values.append(value)
        shared = {
            param: self.words.phrase(3) if param == tool.quote else self._draw(draw)
            for param, (_, draw) in tool.params.items()
        }
        asks = [self.ask(name, params, shared | {key: value}, silent=True) for value in values]
        form = self.rng.choice(forms)
        return self.fill(form, shared | {key: self._joined([str(value) for value in values])}, tool.quote), asks

    def fill(self, form: str, args: Mapping[str, Any], quote: str = "") -> str:
        """The form with its arguments; the free text `quote` at times in quotes."""
        said = {param: str(value) for param, value in args.items()}
        if quote and self.rng.random() < 0.3:
            said[quote] = f'"{said[quote]}"'
        return form.format(**said)

    def say(self, text: str) -> str:
        """Case, politeness and punctuation."""
        rng = self.rng
        if rng.random() < 0.12:
            text = rng.choice(("please ", "can you ", "hey, ", "now ", "I want to know: ")) + text
        if rng.random() < 0.7:
            text = text[0].upper() + text[1:]
        return text + rng.choice(("", ".", "?" if text.lower().startswith(("what", "how")) else "."))

    def _joined(self, texts: list[str]) -> str:
        chance = self.rng.random()
        if chance < 0.4:
            return " and ".join(texts)
        if chance < 0.8:
            return ", ".join(texts[:-1]) + " and " + texts[-1]
        return ", ".join(texts)

    def _draw(self, what: str) -> Any:
        return getattr(self.words, what)()

    # -- results -------------------------------------------------------------------------------------------------

    def result(self, name: str) -> Result:
        """What is usual, any words, a number, JSON or (1 in 20) an error."""
        chance = self.rng.random()
        if chance < 0.05:
            text = self.words.phrase(4)
            as_json = json.dumps({"error": text}, ensure_ascii=False)
            return Result(self.rng.choice((f"Error: {text}", f"error: {text}", as_json)), text, error=True)
        if chance > 0.92:
            return self._json_result()
        if chance < 0.55:
            return self.quoted(str(self.usual(name)))
        if chance < 0.8:
            return self.quoted(self.words.phrase(self.rng.choice((1, 1, 2, 4))))
        return self.quoted(str(self.words.amount()))

    def usual(self, name: str) -> object:
        """What this tool returns mostly."""
        return self._draw(TOOLS[name].returns if name in TOOLS else "phrase")

    def quoted(self, text: str) -> Result:
        """A text as result, at times as JSON."""
        return Result(json.dumps(text, ensure_ascii=False) if self.rng.random() < 0.15 else text, text)

    def _json_result(self) -> Result:
        rng, words = self.rng, self.words

        def leaf() -> Any:
            return rng.choice((words.number, words.word, lambda: words.phrase(2), words.amount, self._sky))()

        value: dict[str, Any] | list[Any]
        if rng.random() < 0.75:
            value = {rng.choice((rng.choice(COMMON), words.word())): leaf() for _ in range(rng.randint(1, 2))}
            told = ", ".join(f"{key} {item}" for key, item in value.items())
        else:
            value = [leaf() for _ in range(rng.randint(1, 3))]
            told = ", ".join(map(str, value))
        return Result(json.dumps(value, ensure_ascii=False, separators=rng.choice(((", ", ": "), (",", ":")))), told)

    def _sky(self) -> str:
        return self.rng.choice(SKY)
