"""Every shape of a secret by itself, beside every other, in every kind of text, and in deltas cut anywhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from urllib.parse import quote, urlencode

from privacy.seeded import fed
from privacy.shapes import ALL, KEYS, Shape
from profiles import FULL, every, mostly_thorough

from streamtools.privacy import redact_secrets

MASK = redact_secrets()

FORMS: dict[str, Callable[[str], str]] = {
    "alone": str,
    "prose": lambda text: f"Well, {text}, and then.",
    "JSON": lambda text: json.dumps({"note": f"see {text}", "n": 1}),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"note": text})}),
    "a line of JSON text": lambda text: json.dumps({"text": f"first\n{text}\tand\r\nlast"}),
    "env": lambda text: f'HOST=db\nVALUE="{text}"\nPORT=1\n',
    "YAML": lambda text: "first: 1\nvalue: |\n  " + text.replace("\n", "\n  ") + "\nlast: 2\n",
    "in brackets": lambda text: f"({text})[{text}]<{text}>",
    "Markdown": lambda text: f"`{text}`\n```\n{text}\n```\n",
    "assigned": lambda text: f"x={text}",
    "header": lambda text: f"X-Value: {text}\r\nAccept: */*\r\n",
}
UNDER_A_NAME: dict[str, Callable[[str], str]] = {
    "JSON": lambda text: json.dumps({"private_key": text, "n": 1}),
    "JSON in JSON": lambda text: json.dumps({"body": json.dumps({"private_key": text})}),
    "env": lambda text: f'PRIVATE_KEY="{text}"\n',
    "env, one line": lambda text: "PRIVATE_KEY=" + text.replace("\n", "\\n") + "\n",
    "env, bare": lambda text: f"SECRET={text}\n",
    "YAML": lambda text: "private_key: |\n  " + text.replace("\n", "\n  ") + "\nlast: 2\n",
    "YAML, folded": lambda text: "token: >-\n    " + text.replace("\n", "\n    ") + "\n",
    "YAML, quoted": lambda text: f"password: {json.dumps(text)}\n",
    "Cookie": lambda text: f"Cookie: {text}\r\nAccept: */*",
    "Cookie, later": lambda text: f"Cookie: a=b; key={text}\r\n",
    "Authorization": lambda text: f"Authorization: Bearer {text}\r\n",
    "Set-Cookie": lambda text: f"Set-Cookie: k={text}; Path=/\r\n",
    "query": lambda text: f"https://example.org/?key={text}&a=b",
    "query, encoded": lambda text: f"https://example.org/{'a/' * 40}?q={quote(text)}&a=b",
    "form": lambda text: f"first=1&{urlencode({'pem': text})}&last=2",
    "repr": lambda text: repr({"secret": text}),
}
BETWEEN = (" ", "\n", ",", '"', "'", "=", ", ", ";", ":", "\\n", "\t", '", "', "&", "|", " = ", "<", "%20")

BESIDE = tuple(product([shape.made(5) for shape in ALL], BETWEEN))


def left(shown: str, traces: tuple[str, ...]) -> list[str]:
    return [trace for trace in traces if trace in shown or trace in shown.replace("\\", "")]


@every("shape", ALL)
def test_every_shape_is_masked_in_every_kind_of_text_and_what_looks_like_it_stays(shape: Shape) -> None:
    text, traces = shape.made(1)
    assert traces
    for name, form in FORMS.items():
        whole = MASK(form(text))
        assert left(whole, traces) == [], name
        assert MASK(whole) == whole, name
        assert MASK(form(shape.harmless)) == form(shape.harmless), name
        assert fed(MASK, form(shape.harmless)) == form(shape.harmless), name


@every("shape", mostly_thorough(KEYS, 2))
def test_a_private_key_is_one_under_any_name_and_in_any_form(shape: Shape) -> None:
    text, traces = shape.made(2)
    for name, form in {**FORMS, **UNDER_A_NAME}.items():
        whole = MASK(form(text))
        assert left(whole, traces) == [], name
        assert "[private key]" in whole, name
        for pieces in cuts(form(text)):
            assert fed(MASK, pieces) == whole, (name, pieces[0][-30:])


def cuts(text: str) -> list[list[str]]:
    return [
        *([text[:at], text[at:]] for at in range(1, len(text), 3 if FULL else 17)),
        list(text),
        [text[at : at + 7] for at in range(0, len(text), 7)],
    ]


@every("shape", ALL)
def test_deltas_cut_anywhere_join_to_the_masked_text(shape: Shape) -> None:
    text, _ = shape.made(3)
    for name in ("prose", "JSON", "a line of JSON text", "env", "YAML"):
        given = FORMS[name](text)
        whole = MASK(given)
        for pieces in cuts(given):
            assert fed(MASK, pieces) == whole, (name, pieces[0][-30:])


@every("first", ALL)
def test_of_two_secrets_side_by_side_nothing_is_left(first: Shape) -> None:
    one, traces = first.made(4)
    step = 29 if FULL else 311
    for at in range(ALL.index(first) % step, len(BESIDE), step):
        (two, others), between = BESIDE[at]
        given = f"{one}{between}{two}"
        whole = MASK(given)
        assert left(whole, (*traces, *others)) == [], (given, whole)
        size = 1 + at % 11
        assert fed(MASK, [given[here : here + size] for here in range(0, len(given), size)]) == whole, given
