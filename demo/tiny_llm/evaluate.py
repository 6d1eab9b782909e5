"""Measure a tiny tool-calling GGUF on held-out dialogues, through llama.cpp's own server.

    python evaluate.py ../tools.gguf --dialogues 400

Every random word of the wishes and results is one that training never used (see words.py). The tool results that are
fed back are the generator's. A dialogue is right only when each answer is: the calls (how many, which tools, every
argument) and the final sentence, character by character. Needs this repository, installed with
``pip install -e '.[demo]'``.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialogues import Maker
from served import WIRES, Served
from template import Dialogue, Params, Turn
from tools import TOOLS

# Ways to ask that training never showed: what the model makes of other wordings.
OTHER_WORDS = (
    ("get_weather", "I need the weather for {city}"),
    ("get_weather", "{city} weather please"),
    ("get_weather", "Do I need an umbrella in {city}?"),
    ("get_time", "Which time is it now in {city}?"),
    ("get_time", "Could you tell me the current time in {city}?"),
    ("add", "Could you add {a} and {b} for me?"),
    ("add", "{a} plus {b}?"),
    ("search", "Could you look for {query}?"),
    ("search", "Do a web search for {query}"),
    ("convert", "Please turn {amount} {from_currency} into {to_currency}"),
    ("convert", "I have {amount} {from_currency}, how much is that in {to_currency}?"),
    ("create_ticket", "We need a ticket with {priority} priority: {title}"),
    ("send_email", "Please send a mail to {to} about {subject}"),
    ("read_file", "Fetch the file {path}"),
    ("read_file", "Show {path}"),
    ("translate", "What is {text} in {language}?"),
    ("translate", "I want {text} translated into {language}"),
    ("book_table", "I would like a table at {restaurant} for {people} people"),
    ("stock_price", "Where is {symbol} stock trading?"),
    ("stock_price", "Get me the price of {symbol}"),
    ("set_timer", "Timer, {minutes} minutes"),
    ("set_timer", "Start the timer: {minutes} minutes please"),
)

Calls = list[tuple[str, dict[str, Any]]]

COLUMNS = (
    "dialogues",
    "n",
    "calls exact %",
    "tools right %",
    "number of calls right %",
    "arguments right %",
    "answer has the results %",
    "all exact %",
)


@dataclass
class Score:
    """What was right about one dialogue."""

    calls: bool = True
    names: bool = True
    count: bool = True
    final: bool = True
    exact: bool = True
    good_args: int = 0
    all_args: int = 0

    def compare(self, got: Calls, want: Calls) -> bool:
        """Count one answer's calls; whether they are all right."""
        self.count &= len(got) == len(want)
        self.names &= [name for name, _ in got] == [name for name, _ in want]
        self.calls &= got == want
        for number, (_, args) in enumerate(want):
            have = got[number][1] if number < len(got) else {}
            self.good_args += sum(have.get(param) == value for param, value in args.items())
            self.all_args += len(args)
        return got == want


class Evaluation:
    """Asks, compares, prints."""

    def __init__(self, served: Served, seed: int) -> None:
        self.served = served
        self.maker = Maker(random.Random(seed), held_out=True)
        self.rng = self.maker.rng
        self.mistakes: list[tuple[Any, ...]] = []

    # -- whole dialogues -----------------------------------------------------------------------------------------

    def table(self, count: int) -> None:
        groups: dict[str, list[Score]] = defaultdict(list)
        for _ in range(count):
            dialogue = self.maker.dialogue()
            kind = "two wishes" if len(dialogue.kinds) > 1 else dialogue.kinds[0]
            groups[kind].append(self._score(dialogue))
        everything = [score for scores in groups.values() for score in scores]
        print("|", " | ".join(COLUMNS), "|")
        print("|---" * len(COLUMNS) + "|")
        for kind, scores in [*sorted(groups.items()), ("all", everything)]:
            print("|", kind, "|", len(scores), "|", " | ".join(_shares(scores)), "|")

    def _score(self, dialogue: Dialogue) -> Score:
        """Ask for each of the assistant's turns, given the right turns before it."""
        score = Score()
        results: list[str] = []
        for number, turn in enumerate(dialogue.turns):
            if turn.role == "user":
                results = []
            elif turn.role == "tool":
                results.append(turn.content)
            elif turn.role == "assistant":
                text, calls = self._answer("chat", dialogue, number)
                right = score.compare(calls, turn.calls)
                if not turn.calls:
                    score.final &= all(value in text for result in results for value in values(result))
                    right &= text == turn.content
                score.exact &= right
                if not right:
                    wanted, got = turn.calls or turn.content, calls or text
                    self.mistakes.append((dialogue.kinds, dialogue.turns[number - 1].content, wanted, got))
        return score

    def _answer(self, wire: str, dialogue: Dialogue, number: int) -> tuple[str, Calls]:
        text, calls = self.served.answer(wire, dialogue.tools, dialogue.turns[:number])
        return text, [(name, arguments(args)) for name, args in calls]

    # -- one call ------------------------------------------------------------------------------------------------

    def cities(self, count: int = 100) -> None:
        for words in (1, 2, 3):
            names: list[str] = []
            while len(names) < count:
                city = self.maker.words.name()
                names += [city] if len(city.split()) == words else []
            wishes = [("get_weather", {"city": city}, f"What is the weather in {city}?") for city in names]
            print(f"unseen city of {words} word(s), 6 tools: {self._share_right(wishes, 6)}")

    def numbers(self, count: int = 40) -> None:
        for digits in range(1, 8):
            low, high = 10 ** (digits - 1), 10**digits - 1
            pairs = [[self.rng.randint(low, high) for _ in "ab"] for _ in range(count)]
            wishes = [("add", {"a": a, "b": b}, f"Add {a} and {b}.") for a, b in pairs]
            print(f"add, two numbers of {digits} digit(s), 6 tools: {self._share_right(wishes, 6)}")

    def among(self, count: int = 100) -> None:
        for n_tools in (1, 3, 12):
            right = 0
            for _ in range(count):
                name = self.rng.choice(list(TOOLS))
                ask = self.maker.wishes.ask(name, params(name, {}))
                right += self._single(name, ask.args, self.maker.wishes.say(ask.text), n_tools)
            print(f"single call among {n_tools} tool(s): {100 * right / count:.0f} %")

    def wordings(self, count: int = 220) -> None:
        right = 0
        for number in range(count):
            name, form = OTHER_WORDS[number % len(OTHER_WORDS)]
            drawn = {param: draw for param, (_, draw) in TOOLS[name].params.items() if param != "days"}
            args = {param: getattr(self.maker.words, draw)() for param, draw in drawn.items()}
            right += self._single(name, args, form.format(**args), 4)
        print(f"wordings never trained, 4 tools: {100 * right / count:.0f} %")

    def _share_right(self, wishes: list[tuple[str, dict[str, Any], str]], n_tools: int) -> str:
        right = sum(self._single(name, args, text, n_tools) for name, args, text in wishes)
        return f"{100 * right / len(wishes):.0f} %"

    def _single(self, name: str, args: dict[str, Any], text: str, n_tools: int) -> bool:
        names = [*self.rng.sample([other for other in TOOLS if other != name], n_tools - 1), name]
        self.rng.shuffle(names)
        offered = {other: params(other, args if other == name else None) for other in names}
        _, calls = self.served.answer("chat", offered, [Turn("user", text)])
        right = [(called, arguments(text)) for called, text in calls] == [(name, args)]
        if not right:
            self.mistakes.append((text, args, calls))
        return right

    # -- the same on every wire ----------------------------------------------------------------------------------

    def wires(self, count: int = 60) -> None:
        same = again = 0
        for _ in range(count):
            dialogue = self.maker.dialogue()
            places = [number for number, turn in enumerate(dialogue.turns) if turn.role == "assistant"]
            first, second = (
                [[self._answer(wire, dialogue, number) for number in places] for wire in WIRES] for _ in range(2)
            )
            again += first == second
            same += first[0] == first[1] == first[2]
        print(f"same answer twice on each wire: {again}/{count}; on the three wires: {same}/{count}")


def params(name: str, args: dict[str, Any] | None) -> Params:
    """Required parameters; the optional extra one only if `args` has it."""
    extra = TOOLS[name].extra
    return [
        (param, kind, True)
        for param, (kind, _) in TOOLS[name].params.items()
        if not extra or param != extra.name or param in (args or {})
    ]


def arguments(text: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"not JSON": text}
    return value


def values(result: str) -> list[str]:
    """What of a tool's result has to be in the answer: the text, or each value of its JSON."""
    result = re.sub(r"^[Ee]rror: ", "", result)
    try:
        value = json.loads(result)
    except ValueError:
        return [result]
    if isinstance(value, dict):
        return [str(item) for item in value.values()]
    if isinstance(value, list):
        return [str(item) for item in value]
    return [value if isinstance(value, str) else result]


def _shares(scores: list[Score]) -> list[str]:
    """What the table says of a group, in the order of its columns."""

    def percent(count: int, of: int) -> str:
        return f"{100 * count / of:.1f}" if of else "-"

    calls, names, count, final, exact = (
        percent(sum(getattr(score, name) for score in scores), len(scores))
        for name in ("calls", "names", "count", "final", "exact")
    )
    args = percent(sum(score.good_args for score in scores), sum(score.all_args for score in scores))
    return [calls, names, count, args, final, exact]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dialogues", type=int, default=400)
    parser.add_argument("--seed", type=int, default=20250)
    parser.add_argument("--show", type=int, default=0, help="print this many mistakes")
    options = parser.parse_args()
    start = time.monotonic()
    with Served(options.model) as served:
        evaluation = Evaluation(served, options.seed)
        evaluation.table(options.dialogues)
        for measure in ("cities", "numbers", "among", "wordings", "wires"):
            getattr(evaluation, measure)()
    print(f"{time.monotonic() - start:.0f} s")
    for mistake in evaluation.mistakes[: options.show]:
        print("-", mistake)


if __name__ == "__main__":
    main()
