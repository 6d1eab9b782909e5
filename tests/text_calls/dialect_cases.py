"""Texts of models, by dialect: what stays text, and which calls are in it.

Those that were written for their dialect stand in ``data/text_calls.jsonl``, a case a line; of a call that may not run
they have the code of its `problem` instead of `arguments`. The others any dialect can spell. The tools are those of
`TOOLS`; a name that is none of theirs is called all the same where a marker says that it is a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sansio import DATA, json_lines
from spelled import SPELLED, Spell

from streamtools import tool
from streamtools.stages import DIALECTS

__all__ = ["CASES", "FRAMED", "HELD", "TOOLS", "WHOLE"]

HELD = {"pythonic", "olmo3"}
"""Dialects in which nothing is known before all calls of a list have ended."""
FRAMED = {"cohere", "gemma", "gigachat", "harmony", "inkling", "kimi", "kimi_k3", "muse", "olmo3"}
"""Dialects with markers around text or thoughts, which are dropped."""
_REGISTERED = {"json", "minicpm"}
"""Dialects in which only a registered tool can be called."""


@tool(effect="pure")
def get_weather(city: str, days: int = 1, hourly: bool = False) -> str:
    """The weather.

    Args:
        city: Where.
        days: How many.
        hourly: In detail.
    """
    return f"{city}: sun for {days}"


@tool(effect="pure")
def get_time(zone: str | None = None) -> str:
    """The time."""
    return f"noon in {zone}"


@tool(effect="pure")
def search(query: str, where: list[str] | None = None, options: dict[str, Any] | None = None) -> str:
    """Search."""
    return query


TOOLS = (get_weather, get_time, search)


class Called(NamedTuple):
    name: str
    arguments: dict[str, Any] | str
    """The arguments of a call that may run; of any other, the code of its problem."""
    call_id: str | None = None


class Case(NamedTuple):
    name: str
    text: str
    said: str
    """What of it stays text."""
    calls: tuple[Called, ...] = ()


PARIS = Called("get_weather", {"city": "Paris"})
NOON = Called("get_time", {})
ODD = Called("search", {"query": 'a "b" \\ {c} [d] é 😀\n'})
"""Quotes, brackets, an escape, characters outside ASCII and outside the BMP."""


def cut(called: Called) -> Called:
    return Called(called.name, "incomplete_json", called.call_id)


_MARKUP = Called("search", {"query": '<p class="x">a</p> & &amp; <b>'})
_LINES = Called("search", {"query": "one\n\n  two\n"})
_VALUES = Called("get_weather", {"city": "12", "days": 3, "hourly": True})
_DEEP = Called("search", {"query": "x", "where": ["a", "b"], "options": {"n": 1, "o": {"l": [True, None, -2.5]}}})


def _spoken(dialect: str) -> Iterator[Case]:
    """The cases that any dialect can spell."""
    spell = SPELLED[dialect]

    def spelled(called: Called) -> str:
        assert isinstance(called.arguments, dict)
        return spell(called.name, called.arguments)

    paris, noon = spelled(PARIS), spelled(NOON)
    yield Case("spoken: one call", paris, "", (PARIS,))
    yield Case("spoken: text around it", f"a\n{paris}\nb", "a\n\nb", (PARIS,))
    yield Case("spoken: two calls", f"{paris}\n{noon}", "\n", (PARIS, NOON))
    yield Case("spoken: text between two", f"a\n{noon}\nb\n{paris}\nc", "a\n\nb\n\nc", (NOON, PARIS))
    yield Case("spoken: no arguments", noon, "", (NOON,))
    yield Case("spoken: values of several types", spelled(_VALUES), "", (_VALUES,))
    yield Case("spoken: lists and objects", spelled(_DEEP), "", (_DEEP,))
    yield Case("spoken: odd characters", spelled(ODD), "", (ODD,))
    yield Case("spoken: markup of another language", spelled(_MARKUP), "", (_MARKUP,))
    yield Case("spoken: several lines", spelled(_LINES), "", (_LINES,))
    empty = Called("search", {"query": ""})
    yield Case("spoken: an empty string", spelled(empty), "", (empty,))
    yield Case(
        "spoken: arguments that do not fit",
        spell("get_weather", {"days": 1}),
        "",
        (Called("get_weather", "invalid_arguments"),),
    )
    other = Called("rm", {"n": 1, "s": "a"})
    known = dialect in _REGISTERED
    yield Case("spoken: not registered", spelled(other), spelled(other) if known else "", () if known else (other,))
    yield from _unfinished(dialect, spell)


def _unfinished(dialect: str, spell: Spell) -> Iterator[Case]:
    """The cases of markup without a call, and of calls without an end."""
    paris, noon = spell("get_weather", {"city": "Paris"}), spell("get_time", {})
    known = DIALECTS[dialect]
    opener = next(iter({**known.anywhere, **known.at_line_start}))
    begun = paris[: paris.index("Paris") + 3]
    for name, text in (
        ("a marker that is only mentioned", f"It begins with {opener}, so."),
        ("the end behind a marker", f"x\n{opener}"),
        ("the end inside a marker", f"x\n{opener[:-1]}"),
    ):
        yield Case(f"spoken: {name}", text, text)
    held = dialect in HELD
    yield Case("spoken: the end in the arguments", begun, begun if held else "", () if held else (cut(PARIS),))
    yield Case(
        "spoken: the end in the second",
        f"{noon}\n{begun}",
        f"\n{begun}" if held else "\n",
        (NOON,) if held else (NOON, cut(PARIS)),
    )
    closer = next((marker for marker in known.closers if marker in paris), None)
    if closer and not held and dialect != "json":
        text = f"{begun}{closer}\n{noon}"
        yield Case("spoken: a closing marker in the arguments, and a good call", text, "\n", (cut(PARIS), NOON))
    orphans = [marker for marker in known.closers if marker in known.orphans and not marker.startswith("</t")]
    special = [marker for marker in orphans if not marker.strip("</>").replace("_", "").isalnum()]
    yield from (Case(f"spoken: {marker} closes nothing", f"so {marker} so", "so  so") for marker in special[:2])


def _called(name: str, arguments: Any = None, problem: str = "", id: str | None = None) -> Called:
    return Called(name, problem or arguments, id)


CASES = {name: [*_spoken(name)] for name in DIALECTS}
"""Every case, by dialect."""

for _row in json_lines(DATA / "text_calls.jsonl"):
    _calls = tuple(_called(**call) for call in _row["calls"])
    CASES[_row["dialect"]].append(Case(_row["case"], _row["text"], _row["said"], _calls))

WHOLE = {dialect: next(case for case in cases if case.calls and case.said == "") for dialect, cases in CASES.items()}
"""One text of each dialect that is a call and nothing else."""
