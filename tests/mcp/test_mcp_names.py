"""Names: kept where they fit, within every provider's rule, and never two alike."""

from __future__ import annotations

import re
from itertools import product

import pytest
from mcp_session import fetched, listed
from profiles import every

from streamtools.mcp.definition import checked_prefix, name_problem, namespaced

pytestmark = pytest.mark.anyio

RULE = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")


@every(
    ("prefix", "name", "called"),
    [
        (None, "create_issue", "create_issue"),
        ("github", "create_issue", "github__create_issue"),
        ("a_", "b", "a_-__b"),
        ("a", "_b", "a___b"),
        ("a__b", "c", "a_-_b__c"),
        ("acme", "status", "acme__status"),
        ("acme_", "status", "acme_-__status"),
    ],
)
async def test_a_name_is_kept_and_its_prefix_stays_apart(prefix: str | None, name: str, called: str) -> None:
    (tool,) = await fetched(listed(name), prefix=prefix)
    assert tool.name == called


@every("name", ["files/read", "1st", "-x", ".x", "two words", "x" * 65, "a:b", "x" * 128])
async def test_a_name_outside_the_rule_keeps_what_it_can_and_ends_in_a_hash(name: str) -> None:
    tools = await fetched(listed(name))
    assert RULE.fullmatch(tools[0].name)
    assert re.fullmatch(r"[\w.-]+-[0-9a-f]{12}", tools[0].name)
    assert tools.definitions[tools[0].name].name == name


def test_all_short_names_over_the_letters_that_matter_stay_apart() -> None:
    words = ["".join(letters) for size in (1, 2, 3) for letters in product("a_-", repeat=size)]
    prefixes = [word for word in words if word[0] != "-"]
    called = {namespaced(checked_prefix(prefix), name) for prefix in prefixes for name in words}
    assert len(called) == len(prefixes) * len(words)


@every("prefix", ["", "1a", "-a", "a b", "ü", "a" * 33])
async def test_a_prefix_that_cannot_stand_before_a_name_is_refused(prefix: str) -> None:
    with pytest.raises(ValueError, match=f"prefix: expected 1 to 32 letters.*, got {re.escape(repr(prefix))}"):
        await fetched(prefix=prefix)


@every(
    ("name", "why"),
    [
        ("sеarch", "beyond ASCII"),  # a Cyrillic e
        ("pay\u202eemoc", "beyond ASCII"),
        ("a\x00b", "control characters"),
        ("a\nb", "control characters"),
        ("a\x7f", "control characters"),
        ("", "not text"),
        (7, "not text"),
        (None, "not text"),
        ("x" * 129, "max_name_bytes=128"),
    ],
)
async def test_a_name_that_could_deceive_is_refused_alone(name: object, why: str) -> None:
    tools = await fetched(listed(name), listed("fine"))
    assert [tool.name for tool in tools] == ["fine"]
    (refused,) = tools.refused
    assert why in refused.reason
    assert refused.name.isprintable()
    assert name_problem(name, 128) == refused.reason
