"""Writes a picture as one HTML file that needs nothing else.

In go a picture, a watch or events; out comes a document. Its style and script are in it, nothing is loaded, and its
content security policy lets nothing else run: both are named by their hashes. Data stands in a script element of type
``application/json`` with every ``<`` escaped, and the script writes it as text nodes alone, so that model output, tool
names and results are never markup.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from ..events import Event
from ..parts import COUNTS, OUTCOMES, STEP_OUTCOMES, WAITS, CountFacts
from ..text import well_formed_tree
from .drawing import LEFT, PROVIDERS, draw
from .picture import Picture, Seen
from .watch import Watch

__all__ = ["page"]

_OF_LANES = {
    PROVIDERS: ("run by the provider", "live"),
    LEFT: ("left to others", "mute"),
    "running": ("running", "live"),
}
"""What is shown of calls without an outcome."""
_STYLE = ("page.css",)
_SCRIPT = ("model.js", "timeline.js", "moments.js", "details.js", "sums.js", "lists.js", "page.js")


def page(run: Watch | Picture | Iterable[Event], *, title: str | None = None, live: str | None = None) -> str:
    """Returns a self-contained HTML page that shows a run; `write_private` puts it into a file of your own.

    Args:
        run: a watch, a picture, or the run's events in order. The page holds texts, arguments and results if these do;
            `draw` and `Watch` have ``content=False``.
        title: the headline; by default the picture's own.
        live: URL of a stream of patches that the page goes on with, as `LiveView` serves it; None for a page that is
            complete.

    Raises:
        ValueError: the events of two runs are mixed.
    """
    if isinstance(run, Watch):
        data, _ = run.patch(Seen())
    else:
        data = (run if isinstance(run, Picture) else draw(run)).patch()
    if title is not None:
        data["title"] = title
    return document(data, live=live)


def document(data: dict[str, Any], *, live: str | None) -> str:
    """Returns the page that shows a patch from the beginning."""
    style, script = _asset(_STYLE), _asset(_SCRIPT)
    reached = "'none'" if live is None else "'self'"
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        f"connect-src {reached}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "style": style,
        "script": script,
        "data": _json({**data, "live": live, "words": _words()}),
    }
    page = _asset(("page.html",))
    for name, text in parts.items():  # data is last: nothing that stands in it is replaced
        page = page.replace(f"__{name}__", text, 1)
    return page


def _words() -> dict[str, Any]:
    """Returns the vocabularies as the page shows them: outcomes with their tones, waits, and counts."""
    tones: dict[str, str] = {word: facts.tone for word, facts in STEP_OUTCOMES.items()}
    tones |= {word: facts.tone for word, facts in OUTCOMES.items()}
    outcomes = {word: (word.replace("_", " "), tone) for word, tone in tones.items()}
    return {
        "outcomes": {**outcomes, **_OF_LANES},
        "waits": {facts.words: facts.phrase for facts in WAITS.values()},
        "counts": [(count, facts.label) for count, facts in _in_order(None)],
    }


def _in_order(whole: str | None) -> Iterator[tuple[str, CountFacts]]:
    """Yields counts, each before its parts."""
    for count, facts in COUNTS.items():
        if facts.part_of == whole:
            yield count, facts
            yield from _in_order(count)


def _json(data: dict[str, Any]) -> str:
    """Returns JSON that cannot end the script element which it stands in."""
    try:
        written = orjson.dumps(data)
    except TypeError:  # half a surrogate pair, which a model's text may contain
        written = orjson.dumps(well_formed_tree(data))
    return written.decode().replace("<", "\\u003c")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(names: tuple[str, ...]) -> str:
    room = files(__name__.rpartition(".")[0])
    return "\n".join(room.joinpath(name).read_text(encoding="utf-8") for name in names)
