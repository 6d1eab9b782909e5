"""A hundred secrets, made of a seed, and the search for them in whatever was written."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from streamtools.privacy.secrets import SecretShapes

WORD = string.ascii_letters + string.digits


@dataclass(frozen=True)
class Secret:
    """A secret, the text that it stands in, and what of it must be found nowhere."""

    kind: str
    text: str
    traces: tuple[str, ...]
    value: Any = None
    """The same as a value of another type, in an object."""


def word(chance: random.Random, size: int, alphabet: str = WORD) -> str:
    return "".join(chance.choices(alphabet, k=size))


def card(chance: random.Random, size: int = 16) -> str:
    """A number with its check digit."""
    digits = chance.choice("345") + word(chance, size - 2, string.digits)
    return next(
        digits + last
        for last in string.digits
        if sum(int(d) if at % 2 == 0 else sum(divmod(2 * int(d), 10)) for at, d in enumerate(reversed(digits + last)))
        % 10
        == 0
    )


def _key(prefix: str, size: int = 32, alphabet: str = WORD) -> Callable[[random.Random], Secret]:
    def make(chance: random.Random) -> Secret:
        rest = word(chance, size, alphabet)
        return Secret("key", f"the key {prefix}{rest}, as asked", (rest,), [prefix + rest])

    return make


def _named(form: str, name: str | None = None) -> Callable[[random.Random], Secret]:
    def make(chance: random.Random) -> Secret:
        rest = word(chance, 18)
        return Secret("named", form.format(rest), (rest,), {name: rest} if name else [form.format(rest)])

    return make


def _basic(chance: random.Random) -> Secret:
    rest = base64.b64encode(f"bob:{word(chance, 12)}".encode()).decode()
    return Secret("basic", f"Authorization: Basic {rest}\r\nAccept: */*", (rest,), [("authorization", f"Basic {rest}")])


def _jwt(chance: random.Random) -> Secret:
    head = base64.urlsafe_b64encode(b'{"alg":"HS256"}').decode().rstrip("=")
    body, mac = "eyJ" + word(chance, 40), word(chance, 43)
    return Secret("jwt", f"with {head}.{body}.{mac} it goes", (body, mac), {"seen": {f"{head}.{body}.{mac}": 1}})


def _private_key(chance: random.Random) -> Secret:
    rows = [word(chance, 64) for _ in range(12)]
    text = "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *rows, "-----END RSA PRIVATE KEY-----"])
    return Secret("private key", f"here: {text} it is", tuple(rows), {"pem": text.encode()})


def _card(form: str, size: int = 16) -> Callable[[random.Random], Secret]:
    def make(chance: random.Random) -> Secret:
        number = card(chance, size)
        groups = [number[at : at + 4] for at in range(0, size, 4)]
        shown = form.join(groups)
        return Secret("card", f"charge {shown} today", (number, shown), chance.choice([int(number), float(number)]))

    return make


def _mail(chance: random.Random) -> Secret:
    name = word(chance, 12)
    return Secret("mail", f"write to {name}@mail.example.org.", (name,), {f"{name}@mail.example.org": 1})


MAKERS = (
    _key("sk-"), _key("sk-ant-api03-", 80), _key("sk-proj-", 48), _key("AIza", 35), _key("ghp_", 36), _key("xoxb-", 40),
    _key("AKIA", 16, string.ascii_uppercase + string.digits), _key("glpat-", 20), _key("hf_", 34), _key("gsk_", 52),
    _key("sk_live_", 24), _key("github_pat_", 82), _key("xai-", 80),
    _named("GET https://api.example.org/v1?key={}&alt=sse"), _named("https://bob:{}@db.example.org/orders"),
    _named("postgres://:{}@db/orders"), _named("OPENAI_API_KEY={} PATH=/bin", "OPENAI_API_KEY"),
    _named('{{"password": "{}"}}', "password"), _named("Bearer {}"), _named("Cookie: session={}\n", "Cookie"),
    _named("x-api-key: {}", "x-api-key"), _named("client_secret={}", "client_secret"),
    _basic, _jwt, _private_key, _card(""), _card(" "), _card("-"), _card("", 15), _mail,
)  # fmt: skip


def secrets(seed: int = 7, count: int = 100) -> list[Secret]:
    chance = random.Random(seed)
    return [MAKERS[at % len(MAKERS)](chance) for at in range(count)]


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
