"""Random tool-calling dialogues: the only data that the tiny model is ever trained on.

    python dialogues.py [seed]          prints a few

Kinds: single (one call), parallel (2 to 4 calls of one tool), mixed (2 or 3 tools at once), chain (a second call needs
the first result), direct (any tool called by name), missing (the right tool is not there), none (small talk), echo
("Say: ..."). Every dialogue ends in a sentence with the results.
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable

from template import Dialogue, Params, Turn, render
from tools import TOOLS
from wishes import Ask, Result, Wishes

__all__ = ["Maker"]

Box = dict[str, Params]
"""The tools on offer."""

WEIGHTS = {"single": 30, "parallel": 18, "mixed": 9, "chain": 18, "direct": 7, "none": 5, "echo": 8, "missing": 5}
EASY_ECHO = 20  # early in the training copying is everything
INSTEAD = {"parallel": "mixed", "missing": "none", "single": "direct"}
"""What a kind becomes where the tools on offer do not allow it; all else becomes single."""

SYSTEM = ("You are a helpful assistant.", "Be brief.", "Use the tools.")
STORY = (
    "Once upon a time a small robot lived in a house by the river. Every morning it read the weather, set a timer and "
    "made coffee for its friends. One day the timer did not stop, and the coffee filled the whole garden. The robot "
    "laughed, opened a ticket with high priority, and slept until the evening. The end."
)
GREETINGS = ("hello", "hi", "hey there", "good morning", "hello there", "who are you", "hello!", "hi!")
THANKS = ("thanks", "thank you", "great, thanks", "thank you very much", "bye", "goodbye")


class Maker:
    """Draws dialogues; `held_out` as in words.py."""

    def __init__(self, rng: random.Random, *, held_out: bool = False) -> None:
        self.rng = rng
        self.wishes = Wishes(rng, held_out=held_out)
        self.words = self.wishes.words
        self._kinds: dict[str, Callable[[Box, list[Turn]], bool]] = {
            "single": self._single,
            "parallel": self._parallel,
            "mixed": self._mixed,
            "chain": self._chain,
            "direct": self._direct,
            "missing": self._missing,
            "none": self._none,
            "echo": self._echo,
        }

    def dialogue(self, *, easy: bool = False, kind: str | None = None) -> Dialogue:
        """`easy`: few tools, one wish. `kind`: exactly this one."""
        rng = self.rng
        while True:
            bare = rng.random() < 0.04 and kind in (None, "none", "echo")
            box = {} if bare else self.wishes.toolbox(4 if easy else rng.choice((4, 4, 7, 12)))
            turns: list[Turn] = []
            if rng.random() < 0.2:
                turns.append(Turn("system", rng.choice((*SYSTEM, self.words.phrase(8)))))
            count = 1 if easy or kind else rng.choice((1, 1, 1, 1, 2))
            kinds = [self._exchange(box, turns, easy, kind) for _ in range(count)]
            if kind in (None, kinds[0]):
                return Dialogue(box, turns, kinds)

    def _exchange(self, box: Box, turns: list[Turn], easy: bool, kind: str | None) -> str:
        """Append a wish and everything up to its final answer. Returns its kind, another where that is impossible."""
        weights = WEIGHTS | ({"echo": EASY_ECHO} if easy else {})
        kind = kind or self.rng.choices(list(weights), list(weights.values()))[0]
        if not box and kind != "echo":
            kind = "none"
        while not self._kinds[kind](box, turns):
            kind = INSTEAD.get(kind, "single")
        return kind

    # -- one method per kind: append it, or say that the tools do not allow it -------------------------------------

    def _single(self, box: Box, turns: list[Turn]) -> bool:
        names = self._known(box)
        if not names:
            return False
        ask = self.wishes.ask(names[0], box[names[0]])
        return self._calls(turns, ask.text, [ask])

    def _parallel(self, box: Box, turns: list[Turn]) -> bool:
        names = [name for name in self._known(box) if TOOLS[name].many]
        return bool(names) and self._calls(turns, *self.wishes.many(names[0], box[names[0]]))

    def _mixed(self, box: Box, turns: list[Turn]) -> bool:
        names = self._known(box)[: 2 if self.rng.random() < 0.8 else 3]
        asks = [self.wishes.ask(name, box[name]) for name in names]
        if len(asks) < 2:
            return False
        return self._calls(turns, self.rng.choice((" and ", ", and ", " and also ")).join(a.text for a in asks), asks)

    def _direct(self, box: Box, turns: list[Turn]) -> bool:
        names = self.rng.sample(list(box), 1 if len(box) == 1 or self.rng.random() < 0.75 else 2)
        asks = [self.wishes.by_name(name, box[name]) for name in names]
        return self._calls(turns, " and ".join(ask.text for ask in asks), asks)

    def _chain(self, box: Box, turns: list[Turn]) -> bool:
        rng, wishes = self.rng, self.wishes
        pairs = [(x, y) for x in self._known(box) for y in self._known(box) if _may_follow(x, y)]
        if not pairs:
            return False
        first, second = rng.choice(pairs)
        then = TOOLS[second].then
        assert then is not None, "only such tools may follow"
        key, kind, forms = then
        one = wishes.ask(first, box[first])
        value, result = self._chained(first, second, kind)
        two = wishes.ask(second, box[second], {key: value}, silent=kind == "place")
        if second == "create_ticket" and "priority" in {param for param, _, _ in box[second]}:
            two.args["priority"] = self.words.priority()
        if second == "create_ticket" and "priority" not in two.args:
            form = "then create a ticket with it"
        else:
            form = rng.choice(forms)
        turns.append(Turn("user", wishes.say(one.text + rng.choice((", ", " and ")) + wishes.fill(form, two.args))))
        said = self._act(turns, [one], [result], "Step 1.") + self._act(turns, [two], lead="Step 2.")
        turns.append(Turn("assistant", " ".join(said)))
        return True

    def _chained(self, first: str, second: str, kind: str) -> tuple[object, Result]:
        """What the second call takes from the first result, and that result."""
        if kind == "number":
            number = self.words.minutes() if second == "set_timer" else self.words.amount()
            return number, Result(str(number), str(number))
        if kind == "place":
            place = self.words.name()
            return place, Result(place, place)
        text = str(self.wishes.usual(first))
        text = text if re.search("[a-z]", text) else self.words.phrase(3)
        return text, self.wishes.quoted(text)

    def _missing(self, box: Box, turns: list[Turn]) -> bool:
        absent = [name for name in TOOLS if name not in box]
        if not absent:
            return False
        name = self.rng.choice(absent)
        params = [(param, kind, True) for param, (kind, _) in TOOLS[name].params.items()]
        wish = self.wishes.say(self.wishes.ask(name, params).text)
        turns += [Turn("user", wish), Turn("assistant", "Sorry, I have no tool for that.")]
        return True

    def _none(self, box: Box, turns: list[Turn]) -> bool:
        rng = self.rng
        most = rng.randint(3, 30)
        talks = (
            (rng.choice(GREETINGS), "Hello! How can I help you today?"),
            (rng.choice(THANKS), "You are welcome."),
            (rng.choice((f"count to {most}", f"count from 1 to {most}")), " ".join(map(str, range(1, most + 1)))),
            (rng.choice(("tell me a story", "a story", "tell a story")), STORY),
        )
        wish, answer = rng.choices(talks, (55, 20, 15, 10))[0]
        turns += [Turn("user", self.wishes.say(wish)), Turn("assistant", answer)]
        return True

    def _echo(self, box: Box, turns: list[Turn]) -> bool:
        words = self.words
        if self.rng.random() < 0.7:
            text = words.phrase(10)
        else:
            text = " ".join((words.name(), words.path(), words.code(2, 6), str(words.amount())))
        wish = self.rng.choice(("say: ", "Say: ", "repeat: ", "Repeat: ")) + text
        turns += [Turn("user", wish), Turn("assistant", text)]
        return True

    # -- pieces ----------------------------------------------------------------------------------------------------

    def _known(self, box: Box) -> list[str]:
        names = [name for name in box if name in TOOLS]
        self.rng.shuffle(names)
        return names

    def _calls(self, turns: list[Turn], wish: str, asks: list[Ask]) -> bool:
        turns.append(Turn("user", self.wishes.say(wish)))
        turns.append(Turn("assistant", " ".join(self._act(turns, asks))))
        return True

    def _act(
        self, turns: list[Turn], asks: list[Ask], results: list[Result] | None = None, lead: str = ""
    ) -> list[str]:
        """Append the calls and what the tools return. Returns the sentences about it."""
        turns.append(Turn("assistant", lead, [(ask.name, ask.args) for ask in asks]))
        said = []
        for ask, result in zip(asks, results or [self.wishes.result(ask.name) for ask in asks], strict=True):
            turns.append(Turn("tool", result.content))
            failed = f"The {ask.name} call failed: {result.told}."
            said.append(failed if result.error else ask.told.replace("%s", result.told))
        return said


def _may_follow(first: str, second: str) -> bool:
    """Whether the second tool has a use for what the first returns."""
    then = TOOLS[second].then
    return then is not None and then[1] in TOOLS[first].first.split() and (first != second or first == "add")


def main() -> None:
    maker = Maker(random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
    for _ in range(12):
        print("".join(text for text, _ in render(maker.dialogue())), "-" * 60, sep="\n")


if __name__ == "__main__":
    main()
