"""Random words, names, numbers and short phrases: what the tiny model has to copy.

Nearly everything is made of random syllables, so that a model cannot know it by heart. Held-out rule: a random word
whose CRC-32 is divisible by `HOLD` never occurs in training; ``Words(rng, held_out=True)`` makes only such words.
"""

from __future__ import annotations

import random
import zlib

__all__ = ["CITIES", "COMMON", "SKY", "Words"]

HOLD = 10  # one word in ten is kept for the evaluation


def _listed(*lines: str) -> list[str]:
    return " ".join(lines).split()


ONSETS = _listed("b c d f g h j k l m n p r s t v w x y z br ch cl cr dr fl gr kn pl qu sh sk st str th tr vl zh")
VOWELS = _listed("a e i o u a e i o u ai ea ee ia io oo ou y")
CODAS = ["", "", *_listed("n r s l t m ck rd nd ng x ll")]
ACCENTS = dict(zip("aeiouncs", "äéïöüñçš", strict=True))
SCRIPTS = ((0x4E00, 0x8FFF), (0x3041, 0x3090), (0x430, 0x44F))  # Chinese, Hiragana, Cyrillic

COMMON = _listed(
    "the a new old big small red blue green fast slow open free best good first last next long short how why when",
    "where python async streams tool calls json parser ocean music garden history space robots coffee train river",
    "mountain light market engine planet weather time email table price stock file ticket timer broken login page",
    "server error report meeting lunch budget invoice team project release notes plan review update question answer",
    "house street bridge cheap hotels near airport recipe for with from about of in on to and is not down up working",
    "printer network password account user order payment happy birthday thank you very much see tomorrow today",
    "morning evening night world hello friend water bread cat dog",
)
JOINING = set(_listed("for with from about of in on to and is"))  # no phrase begins or ends with these
CITIES = [
    *_listed("Paris Tokyo London Berlin Madrid Rome Oslo Cairo Lima Delhi Sydney Boston Chicago Dublin Vienna Prague"),
    *_listed("Athens Lisbon Warsaw Zurich Nairobi Seoul Hanoi Quito Atlantis Springfield"),
    *("New York", "San Francisco", "Los Angeles", "Rio de Janeiro", "Buenos Aires", "São Paulo", "Zürich", "Hong Kong"),
]
LANGUAGES = _listed(
    "French German Spanish Italian Latin Polish Japanese Dutch Greek Korean Finnish Turkish Welsh Hindi"
)
CURRENCIES = _listed("USD EUR GBP JPY CHF SEK AUD CAD INR BRL")
SKY = _listed("sunny cloudy rainy windy snowy foggy clear stormy")


class Words:
    """Each method draws one thing; tools.py names them."""

    def __init__(self, rng: random.Random, *, held_out: bool = False) -> None:
        self.rng = rng
        self.held_out = held_out

    # -- words ---------------------------------------------------------------------------------------------------

    def word(self) -> str:
        while True:
            word = self._letters()
            held_out = zlib.crc32(word.encode()) % HOLD == 0
            if len(word) > 1 and held_out == self.held_out and word not in COMMON:
                return word

    def _letters(self) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.12:  # no rule of spelling at all
            return "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(2, 8)))
        word = ""
        for _ in range(rng.choice((1, 1, 2, 2, 2, 3))):
            word += rng.choice(ONSETS) if word or rng.random() < 0.8 else ""
            word += rng.choice(VOWELS) + rng.choice(CODAS)
        if kind > 0.94:
            return "".join(ACCENTS.get(letter, letter) if rng.random() < 0.5 else letter for letter in word)
        if kind > 0.925:
            return "".join(chr(rng.randint(*rng.choice(SCRIPTS))) for _ in range(rng.randint(1, 4)))
        return word

    def name(self, most: int = 3) -> str:
        """Capitalised name of 1 to `most` words, sometimes oddly spelled."""
        rng = self.rng
        if not self.held_out and most > 1 and rng.random() < 0.15:
            return rng.choice(CITIES)
        return " ".join(self._capital() for _ in range(rng.choice((1, 1, 1, 2, 2, 3)[: 3 + most])))

    def _capital(self) -> str:
        word, kind = self.word(), self.rng.random()
        if kind >= 0.13:
            word = word[0].upper() + word[1:]
        elif kind >= 0.1:
            word = word.upper()
        return word + self.rng.choice("-'") + self.word().capitalize() if kind > 0.95 else word

    def phrase(self, most: int = 5) -> str:
        """Free text: common and random words mixed."""
        rng = self.rng
        real = rng.choice((0.1, 0.5, 0.9))
        words = [rng.choice(COMMON) if rng.random() < real else self.word() for _ in range(rng.randint(1, most))]
        for end in (0, -1):
            while words[end] in JOINING:
                words[end] = self.word()
        if rng.random() < 0.15:
            words[0] = words[0].capitalize()
        if rng.random() < 0.1:
            words.append(str(self.number()))
        return " ".join(words)

    def short_phrase(self) -> str:
        return self.phrase(3)

    # -- numbers and codes ---------------------------------------------------------------------------------------

    def number(self, most: int = 6) -> int:
        """Up to `most` digits, each length as likely."""
        return self.rng.randint(0, 10 ** self.rng.randint(1, most) - 1)

    def amount(self) -> int | float:
        number = self.number()
        return round(number + self.rng.randint(1, 99) / 100, 2) if self.rng.random() < 0.2 else number

    def summand(self) -> int | float:
        return -self.number(3) - 1 if self.rng.random() < 0.04 else self.amount()

    def minutes(self) -> int:
        return self.number(3)

    def days(self) -> int:
        return self.rng.randint(1, 30)

    def people(self) -> int:
        return self.rng.randint(1, 20)

    def flag(self) -> bool:
        return self.rng.random() < 0.5

    def code(self, low: int = 2, high: int = 5) -> str:
        return "".join(self.rng.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") for _ in range(self.rng.randint(low, high)))

    def currency(self) -> str:
        return self.rng.choice(CURRENCIES) if self.rng.random() < 0.5 else self.code(3, 3)

    # -- things tools are asked for ------------------------------------------------------------------------------

    def path(self) -> str:
        rng = self.rng
        parts = [self.word() for _ in range(rng.choice((1, 1, 2, 2, 3)))]
        ending = rng.choice((".txt", ".csv", ".md", ".json", ".py", "." + self.word()[:3]))
        return ("/" if rng.random() < 0.2 else "") + "/".join(parts) + ending

    def address(self) -> str:
        kind = self.rng.random()
        if kind < 0.4:
            return self.word().capitalize()
        if kind < 0.5:
            return self.word()
        return f"{self.word()}@{self.word()}.{self.rng.choice(('com', 'org', 'net', 'io', 'dev'))}"

    def language(self) -> str:
        return self.rng.choice(LANGUAGES) if self.rng.random() < 0.5 else self.word().capitalize()

    def restaurant(self) -> str:
        return self.rng.choice(("", "", "", "Chez ", "The ", "Casa ", "Café ")) + self.name(2)

    def priority(self) -> str:
        return self.rng.choice(("low", "medium", "high", "urgent"))

    # -- what tools return ---------------------------------------------------------------------------------------

    def weather(self) -> str:
        rng = self.rng
        sky, sky_and_heat = rng.choice(SKY), f"{rng.choice(SKY)}, {rng.randint(-20, 40)} degrees"
        return rng.choice((sky, sky_and_heat, f"{rng.randint(-20, 40)} C"))

    def clock(self) -> str:
        return f"{self.rng.randint(0, 23):02d}:{self.rng.randint(0, 59):02d}"

    def ticket(self) -> str:
        return self.rng.choice(("created", "open", f"T-{self.number(4)}"))

    def sent(self) -> str:
        return self.rng.choice(("sent", "queued", "ok"))

    def booked(self) -> str:
        return self.rng.choice(("booked", "confirmed", "ok"))

    def started(self) -> str:
        return self.rng.choice(("started", "set", "ok"))
