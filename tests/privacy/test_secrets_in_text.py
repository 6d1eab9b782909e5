"""The shapes of secrets: open matches, numbers, names of fields, hostile texts, and where there are none."""

from __future__ import annotations

import random

from privacy.seeded import card, fed

from streamtools.privacy import redact_secrets
from streamtools.privacy.secrets import MAX_HELD

SHAPES = redact_secrets()


def test_of_an_open_match_no_more_is_held_than_the_bound_however_long_it_is() -> None:
    long = {
        "key": "sk-" + "a1" * 2000,
        "json": '{"password": "' + "horse " * 900 + '"}',
        "token": "Bearer " + "b2" * 3000,
        "address": "https://example.org/" + "a/" * 60 + "?q=sk-" + "a1" * 200,
        "named in an address": "https://example.org/" + "a/" * 60 + "?token=" + "b2" * 200 + "&last=1",
        "cookie": "Cookie: " + "c=d; " * 900,
        "private key": "-----BEGIN PRIVATE KEY-----\n" + "QUJD\n" * 900 + "-----END PRIVATE KEY-----",
        "no secret": "x" * 9000,
        "digits": "4 1 " * 3000,
    }
    problems = []
    for name, text in long.items():
        for size in (1, 5, 400, len(text)):
            mask, out, came = SHAPES.growing(), 0, 0
            for at in range(0, len(text), size):
                out += len(mask.feed(text[at : at + size]))
                came += size
                if name == "no secret" and came - out > MAX_HELD + size:
                    problems.append((name, size, "held", came - out))
            mask.finish()
            shown = fed(SHAPES, [text[at : at + size] for at in range(0, len(text), size)])
            for trace in ("a1a1", "horse", "b2b2", "c=d", "QUJD"):
                if trace in shown:
                    problems.append((name, size, "shown", shown[-60:]))
    assert problems == []


def test_numbers_are_cards_by_their_check_digit_alone() -> None:
    number = int(card(random.Random(1)))
    assert SHAPES.number(number) == SHAPES.number(float(number)) == SHAPES.number(-number) == "[card number]"
    for other in (number + 1, 0, 1.5, float("nan"), float("inf"), 10**400, 1_700_000_000_000, 42):
        assert SHAPES.number(other) is other
    assert SHAPES(f"[{number}, {number}.0]") == "[[card number], [card number].0]"


def test_plain_text_stays_as_it_is() -> None:
    for text in (
        "The token count was 12, and the basic information about the secret garden: nothing.",
        "Call 030 1234 5678 on 2026-11-28 at 12:30, order 1234567890123, ratio 0.1234567890123456.",
        "https://example.org/search?q=keys&page=2#top and user@host without a domain",
        "sk-short, eyJ, Bearer of news, password reset, a@b",
        "def f(token_count: int) -> None: ...",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 and 123e4567-e89b-12d3-a456-426614174000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 arn:aws:iam::123456789012:role/x",
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ ssh-ed25519 AAAAC3NzaC1lZDI1NTE5 me",
        "key-value-store-of-somebody pat-native-tools-for-all access-production-database npm_package_config_names",
        "a machine learning model, default settings, then log in: the password was forgotten",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n-----BEGIN PUBLIC KEY-----\nMIIB",
        '{"tokens": 12, "primary_key": "id-000000", "sort_key": "name-00000", "secretary": "Robert Miller"}',
        "",
    ):
        assert SHAPES(text) == text
        assert fed(SHAPES, text) == text


def test_names_of_fields_that_hold_secrets() -> None:
    named = (
        "password",
        "OPENAI_API_KEY",
        "apiKey",
        "Authorization",
        "x-api-key",
        "Set-Cookie",
        "client_secret",
        "db.pwd",
    )
    plain = ("token_count", "max_tokens", "next_page_token", "key", "keys", "author", "secretary", "x" * 4000)
    assert [name for name in named if SHAPES.value_of(name) is None] == []
    assert [name for name in plain if SHAPES.value_of(name) is not None] == []


def test_hostile_text_takes_time_in_proportion_to_its_length() -> None:
    """A pattern that looked at the same text again and again would take hours: the deadline of tests would end it."""
    for piece in (
        "a", "1", "4 ", "eyJ", "password: ", "password", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "a@", "://a:",
        "a.", "sk-", "a@b.", "bearer ", "cookie:", 'token"  ', "_", "token\\", "://", "?key=", "token='",
        "authorization: basic ", "machine ", "machine a login b ", "default ", "hooks.slack.com/services/", "\\", "\\n",
        'token="\\', "api_key: |\n ", "-----BEGIN RSA PRIVATE ", "----", "%20", "A1b2.", "ghp_", "token: '\"",
    ):  # fmt: skip
        text = piece * (30_000 // len(piece))
        assert isinstance(SHAPES(text), str)
        assert isinstance(fed(SHAPES, [text[:20_000], *(text[at : at + 64] for at in range(20_000, 30_000, 64))]), str)
        assert SHAPES.value_of(text) is None
