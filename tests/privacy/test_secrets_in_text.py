"""The shapes of secrets: in whole texts, in texts cut anywhere, in numbers, and where there are none."""

from __future__ import annotations

import random

from privacy.seeded import card, fed, secrets, survivors

from streamtools.privacy import redact_secrets
from streamtools.privacy.secrets import MAX_HELD

SHAPES = redact_secrets()


def test_no_secret_survives_in_a_whole_text_and_masking_again_changes_nothing() -> None:
    known = secrets(count=600)
    masked = [SHAPES(secret.text) for secret in known]
    assert list(survivors(masked, known)) == []
    assert [SHAPES(text) for text in masked] == masked


def test_wherever_deltas_cut_a_text_they_join_to_the_masked_text() -> None:
    problems = []
    for secret in secrets(count=len(secrets())):
        text = f"Well, {secret.text} and then."
        whole = SHAPES(text)
        cuts = [(text[:at], text[at:]) for at in range(len(text))]
        for pieces in (*cuts, text, [text[at : at + 7] for at in range(0, len(text), 7)]):
            if (joined := fed(SHAPES, pieces)) != whole:
                problems.append((secret.kind, pieces[0][-20:], joined))
    assert problems == []


def test_of_an_open_match_no_more_is_held_than_the_bound_however_long_it_is() -> None:
    long = {
        "key": "sk-" + "a1" * 4000,
        "json": '{"password": "' + "horse " * 900 + '"}',
        "token": "Bearer " + "b2" * 3000,
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
        "authorization: basic ",
    ):  # fmt: skip
        text = piece * (150_000 // len(piece))
        assert isinstance(SHAPES(text), str)
        assert isinstance(fed(SHAPES, [text[:20_000], *(text[at : at + 64] for at in range(20_000, 60_000, 64))]), str)
        assert SHAPES.value_of(text) is None
