"""All texts of models, by dialect: those written for it, and those that any dialect can spell."""

from __future__ import annotations

from collections.abc import Iterator

from served_cases import NOON, ODD, PARIS, SERVED, TOOLS, Called, Case, cut
from stray_cases import STRAYS

from benchmarks.spelled import SPELLED, Spell
from streamtools.stages import DIALECTS

__all__ = ["CASES", "FRAMED", "HELD", "TOOLS", "WHOLE"]

HELD = {"pythonic", "olmo3"}
"""Dialects in which nothing is known before all calls of a list have ended."""
FRAMED = {"cohere", "gemma", "gigachat", "harmony", "inkling", "kimi", "kimi_k3", "muse", "olmo3"}
"""Dialects with markers around text or thoughts, which are dropped."""
_REGISTERED = {"json", "minicpm"}
"""Dialects in which only a registered tool can be called."""

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


CASES = {name: [*SERVED.get(name, ()), *_spoken(name), *STRAYS.get(name, ())] for name in DIALECTS}
"""Every case, by dialect."""

WHOLE = {dialect: next(case for case in cases if case.calls and case.said == "") for dialect, cases in CASES.items()}
"""One text of each dialect that is a call and nothing else."""
