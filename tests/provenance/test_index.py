"""What counts as the same value: the texts of a run against values, in the forms in which both are written."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from streamtools.provenance.index import Index, Origin, Value

SAID = Origin("user", is_trusted=True)
PAGE = Origin("result", "fetch", "call_1")


def indexed(*texts: tuple[Origin, str], max_bytes: int = 32 << 20) -> Index:
    index = Index(max_bytes)
    for origin, text in texts:
        index.add(origin, text)
    while index.is_behind:
        index.work()
    return index


def value_of(given: Any) -> Value:
    value = Value.of_text(given) if isinstance(given, str) else Value.of_number(given)
    assert value is not None
    return value


FOUND: list[tuple[str, Any]] = [
    ("Pay Eve@Evil.example.", "eve@evil.example"),
    ("ＥＶＥ pays", "eve"),
    ("Zoe\u0308", "Zoë"),
    ("e\u200bv\u00ade", "eve"),
    ("a\u202eb c", "ab c"),
    ("Ann\n\t Miller", "ann miller"),
    ('{"to": "Zo\\u00eb\\nand"}', "zoë"),
    ("R&amp;D", "R&D"),
    ("支付给李雷", "李雷"),
    ("_eve_", "eve"),
    ("see https://a.example/x/", "https://a.example/x"),
    ("900", 900),
    ("it is 900.", 900),
    ("900.00", 900),
    ("1,234.50", 1234.5),
    ("1.234,50", Decimal("1234.50")),
    ("1 234,5", 1234.5),
    ("1\u202f234\u202f567", 1234567),
    ("1'000", 1000),
    ("EUR900", 900),
    ("900€", 900),
    ("9e2", 900.0),
    ("007", 7),
    ("-12", -12),
    ("10 20 30", 20),
    ("٩٠٠", 900),
    ("due: 1,000", "1000"),
    ("2026-11-24", "2026-11-24"),
    ("24.11.2026", "2026-11-24"),
    ("11/24/2026", "2026-11-24"),
    ("Nov. 24th, 2026", "2026-11-24"),
    ("on 24 November 2026 at 10:30", "2026-11-24T10:30:00"),
    ("2026-11-24T00:00:00", "2026-11-24"),
    ("DE89 3704 0044 0532 0130 00 from him", "DE89370400440532013000"),
    ("de89370400440532013000", "DE89 3704 0044 0532 0130 00"),
    ("4111 1111 1111 1111", "4111111111111111"),
    ("call +49 171 1234567", "+491711234567"),
    ("₹1,23,456", 123456),
    ("2k", 2000),
    ("eve@evil\\.example", "eve@evil.example"),
]
READ_BY_A_MODEL: list[tuple[str, Any]] = [
    ("Straße", "STRASSE"),
    ("еvе@evil.example", "eve@evil.example"),  # two Cyrillic letters
    ("eve@evil.example", "еvе@evil.example"),
    ("e\u0336v\u0336e\u0336", "eve"),
    ("\U000e0065\U000e0076\U000e0065", "eve"),
    ("ev\u200de", "eve\u200d"),
    ("eve@<b>ev</b>il<!-- -->.**example**", "eve@evil.example"),
    ("9<b>000</b>", 9000),
    ("/data/ann/old", "/data/ann"),
    ("/data/ann", "/ann"),
    ("mail.bank.co.uk", "mail.bank.co"),
    ("DE89 3704 0044 0532 0130 00", 3704),
    ("LT60 1010 0123 4567 8901", 8901),
    ("item/9000", 9000),
    ("ACC-1200-7", 1200),
    ("/data/ann/old", "ann"),
    ("ann@bank.example", "ann"),
    ("24.12.2026", 2026),
    ("+49 170 5550123", 5550123),
    ("4111 1111 1111 1111", 1111),
]
NOT_FOUND: list[tuple[str, Any]] = [
    ("steve", "eve"),
    ("evening", "eve"),
    ("1,900", 900),
    ("1900", 900),
    ("900.50", 900),
    ("a1b900c9d", 900),
    ("12 of 2026-11-25", "2026-11-24"),
    ("ann, miller", "ann miller"),
    ("", "eve"),
]


def test_a_value_is_found_in_each_form_that_it_is_written_in() -> None:
    wrong = [
        (text, given, origin.kind)
        for expected, cases in ((True, FOUND), (False, NOT_FOUND))
        for text, given in cases
        for origin in (SAID, PAGE)
        for index in [indexed((origin, f"{text}"))]
        if (bool(index.trusts(value_of(given))), bool(index.others(value_of(given))))
        != (expected and origin is SAID, expected and origin is PAGE)
    ]
    assert wrong == []


def test_a_trusted_text_vouches_for_less_than_an_untrusted_one_is_suspected_of() -> None:
    wrong = [
        (text, given)
        for text, given in READ_BY_A_MODEL
        if indexed((SAID, text)).trusts(value_of(given)) or not indexed((PAGE, text)).others(value_of(given))
    ]
    assert wrong == []
    assert not indexed((SAID, r"Delete C:\data\new")).trusts(value_of(r"C:\data"))
    meant = {
        r"Delete C:\a\b.txt": r"C:\a\b.txt",
        "LT60 1010 0123 4567 8901 9000 EUR": 9000,
        "ACC-1200-7 99.5 EUR": 99.5,
        "CO₂, 10² of 1½": "CO₂, 10² of 1½",
    }
    assert [text for text, given in meant.items() if not indexed((SAID, text)).trusts(value_of(given))] == []


def test_an_address_within_another_one_is_not_the_users() -> None:
    index = indexed((SAID, "ask alice.bob@bank.example or bob@bank.example.org"), (PAGE, "x-bob@bank.example"))
    value = value_of("bob@bank.example")
    assert index.trusts(value) == ()
    assert index.others(value) == (PAGE,)  # more is taken for untrusted


def test_long_values_and_long_texts_are_compared_in_pieces() -> None:
    random = Random(7)
    words = [f"w{random.randrange(10**6)}" for _ in range(30_000)]
    text = " ".join(words)
    index = indexed((PAGE, text), (SAID, "x" * 30_000 + " needle " + "y" * 30_000))
    for begin in range(0, 29_000, 97):  # at the ends of blocks, too
        assert index.others(value_of(" ".join(words[begin : begin + 40])))
    assert index.trusts(value_of("Needle"))
    assert index.others(value_of(" ".join(words[5_000:9_000])))
    half = " ".join(words[5_000:5_500])
    trusting = indexed((SAID, half), (PAGE, text))
    assert trusting.trusts(value_of(half))
    assert not trusting.trusts(value_of(f"{half} and send it to eve@evil.example"))  # a piece of it is not the user's


def test_texts_come_one_by_one_and_again_and_a_few_origins_are_named() -> None:
    index = Index(1 << 20)
    for number in range(2_000):
        index.add(Origin("result", f"tool_{number}"), f"invoice {number} of the month")
        index.add(PAGE, "the same page")
        while index.is_behind:
            index.work()
    assert [one.tool for one in index.others(value_of("invoice 1234"))] == ["tool_1234"]
    assert len({one.tool for one in index.others(value_of("month"))}) == 4


def test_more_text_than_the_limit_is_left_out_and_that_is_known() -> None:
    index = indexed((PAGE, "eve " * 10), (PAGE, "mallory " * 100), (SAID, "bob"), max_bytes=300)
    assert index.is_partial
    assert (index.trusts(value_of("bob")), index.others(value_of("mallory"))) == ((SAID,), ())
