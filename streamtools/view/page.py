"""Shows a run as one self-contained HTML file, which loads nothing.

Model output, tool names and results are never markup in it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import orjson

from ..events import Event, EventBase
from ..ground import well_formed_tree
from ..parts import COUNTS, OUTCOMES, STEP_OUTCOMES, WAITS, CountFacts
from ..record import Recording
from .drawing import ELSEWHERE, LEFT, PROVIDERS, Drawing, draw
from .picture import Picture
from .watch import Watch

_OF_LANES = {  # what is shown of calls without an outcome, or at a moment before their end
    PROVIDERS: (ELSEWHERE[PROVIDERS], "live"),
    LEFT: (ELSEWHERE[LEFT], "mute"),
    "running": ("running", "live"),
    "before": ("not begun", "mute"),
    "written": ("its arguments arrive", "live"),
    "waiting": ("waits", "live"),
}
_STYLE = ("page.css",)
_SCRIPT = (
    "model.js", "scale.js", "rows.js", "timeline.js", "moments.js", "overview.js", "details.js", "sums.js", "copy.js",
    "head.js", "events.js", "page.js",
)  # fmt: skip


def page(run: Watch | Picture | Iterable[Event], *, title: str | None = None) -> str:
    """Returns a self-contained HTML page that shows a run; `write_private` writes it to a file that only you can read.

    Args:
        run: a watch, a picture, or the run's events in order. The page shows texts, arguments and results if `run`
            contains them; `draw` and `Watch` have ``content=False``.
        title: the headline; by default the picture's own.

    Raises:
        ValueError: the events belong to two runs.
    """
    data = (run if isinstance(run, (Watch, Picture)) else draw(run)).data()
    if title is not None:
        data["title"] = title
    # Style and script are in the page and named by their hashes, so that the policy lets nothing else run, whatever a
    # text might bring into the page.
    style, script = _asset(_STYLE), _asset(_SCRIPT)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    parts = {"policy": policy, "style": style, "script": script, "data": _json({**data, "words": _words()})}
    page = _asset(("page.html",))
    # Data is last, so that a model's text cannot have a placeholder replaced.
    for name, text in parts.items():
        page = page.replace(f"__{name}__", text, 1)
    return page


def _words() -> dict[str, Any]:
    tones: dict[str, str] = {word: facts.tone for word, facts in STEP_OUTCOMES.items()}
    tones |= {word: facts.tone for word, facts in OUTCOMES.items()}
    outcomes = {word: (word.replace("_", " "), tone) for word, tone in tones.items()}
    return {
        "outcomes": {**outcomes, **_OF_LANES},
        "waits": {facts.words: facts.phrase for facts in WAITS.values()},
        "counts": [(count, facts.label) for count, facts in _in_order(None)],
    }


def _in_order(whole: str | None) -> Iterator[tuple[str, CountFacts]]:
    for count, facts in COUNTS.items():
        if facts.part_of == whole:
            yield count, facts
            yield from _in_order(count)


def _json(data: dict[str, Any]) -> str:
    """Returns JSON that cannot end its script element."""
    try:
        written = orjson.dumps(data)
    except TypeError:  # half a surrogate pair, which a model's text may contain
        written = orjson.dumps(well_formed_tree(data))
    # The parser of HTML looks for `</script` in a script's text, and treats `<!--` in its own way: no `<` may stand in
    # it. Inside a JSON string, where alone it occurs, the escape has the same meaning.
    return written.decode().replace("<", "\\u003c")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(names: tuple[str, ...]) -> str:
    room = files(__name__.rpartition(".")[0])
    return "\n".join(room.joinpath(name).read_text(encoding="utf-8") for name in names)


def draw_recordings(recordings: Iterable[Recording], title: str = "") -> Picture:
    """Returns one picture of one or several recorded runs.

    Args:
        recordings: the runs, in any order; `Recording.read_all` returns those of a file. They are shown in the order of
            their beginnings, one after the other even if they overlapped.
        title: the headline; by default the first run's id.
    """
    drawing = Drawing(Picture(title), lacks_ends=True)
    sorted_by_begin = sorted(recordings, key=lambda one: one.began)
    for recording in sorted_by_begin:
        drawing.set_clock(recording.began_at, (recording.began - sorted_by_begin[0].began).total_seconds())
        for at, entry in recording.timed():
            if isinstance(entry, EventBase):
                drawing.feed(entry, at)
        drawing.end_run(recording.outcome)
        if recording.cut:
            drawing.picture.notes.append("The recording was full before the run ended.")
        if recording.lost:
            drawing.picture.notes.append("Lines of the recording were torn, and the rest of their step is missing.")
        if recording.redacted:
            drawing.picture.notes.append("The recording is redacted: a text appears as a whole, at its end.")
    return drawing.finish()
