"""Shows a run as one self-contained HTML file, which loads nothing, or as an ASGI page that grows while it goes on.

Model output, tool names and results are never markup in either. The run neither waits for a reader nor keeps anything
for it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, MutableMapping
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias
from urllib.parse import parse_qs, quote

import anyio
import orjson

from ..events import Event, EventBase
from ..ground import well_formed_tree
from ..parts import COUNTS, OUTCOMES, STEP_OUTCOMES, WAITS, CountFacts
from ..record import Recording
from .drawing import ELSEWHERE, LEFT, PROVIDERS, Drawing, draw
from .packing import packed
from .picture import Picture, Seen
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
    # Style and script are in the page and named by their hashes, so that the policy lets nothing else run, whatever a
    # text might bring into the page. A live page reads its patches from its own server alone.
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
        "data": _json({**packed(data), "live": live, "words": _words()}),
    }
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
    # The parser of HTML looks for `</script` in a script's text, and treats `<!--` in its own way: no `<` may stand in
    # it. Inside a JSON string, where alone it occurs, the escape has the same meaning.
    return _dumped(data).decode().replace("<", "\\u003c")


def _dumped(data: Any) -> bytes:
    try:
        return orjson.dumps(data)
    except TypeError:  # half a surrogate pair, which a model's text may contain
        return orjson.dumps(well_formed_tree(data))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _asset(names: tuple[str, ...]) -> str:
    room = files(__name__.rpartition(".")[0])
    return "\n".join(room.joinpath(name).read_text(encoding="utf-8") for name in names)


# -- the page of a run that goes on --
#
# By the ASGI specification: https://asgi.readthedocs.io/en/latest/specs/www.html

_Message: TypeAlias = MutableMapping[str, Any]

EVENTS = "events"  # the last part of the stream's path
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
_PORT = re.compile(":[0-9]*$")
READERS = 32  # streams at the same time: each costs a patch per interval
_PLAIN = (b"content-type", b"text/plain; charset=utf-8")
_ALONE = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
_TOKEN_BYTES = 16  # random ones, as RFC 6750 section 5.2 asks of a token
_LEAST_TOKEN_CHARS = 16


class LiveView:
    """An ASGI application with the page of a run that goes on.

        watch = Watch()
        live = LiveView(watch)
        app.mount("/run", live)
        print(live.url("http://127.0.0.1:8000/run/"))
        run = agent_loop(ask, messages, trajectory=Trajectory(observers=[watch]), ...)

    It shows texts, arguments and results to everybody who has its URL, which has a token; a request without it is
    answered 404, without content. The token is taken out of the request's scope, where a server's access log would find
    it. A request whose ``Host`` is neither a name of this machine's loopback address, nor the
    address that was asked, nor one of `hosts`, is answered 421, without content.

    Args:
        watch: the run's observer.
        interval: seconds between two patches for one reader.
        hosts: further names under which browsers reach it, as behind a proxy.
        token: the token, where several processes serve the same view; made up by default.

    Raises:
        ValueError: `interval` is not a positive number, or the token is shorter than 16 characters.
        TypeError: `hosts` is a text.
    """

    def __init__(
        self, watch: Watch, *, interval: float = 0.2, hosts: Collection[str] = (), token: str | None = None
    ) -> None:
        if not interval > 0:
            raise ValueError(f"interval={interval!r}: must be a number of seconds greater than 0")
        if isinstance(hosts, str):
            raise TypeError(f"expected hosts=[...], got the text {hosts!r}")
        if token is not None and len(token) < _LEAST_TOKEN_CHARS:
            raise ValueError(f"token: expected at least {_LEAST_TOKEN_CHARS} characters, got {len(token)}")
        self.watch = watch
        self._token = secrets.token_urlsafe(_TOKEN_BYTES) if token is None else token
        self._interval = interval
        self._hosts = _LOOPBACK | {_PORT.sub("", host.lower()) for host in hosts}
        self.readers = 0
        """Streams that are being read."""
        self._over = False

    def url(self, address: str) -> str:
        """Returns the URL to open, of the address at which the application is mounted."""
        return f"{address}?token={quote(self._token, safe='')}"

    def finish(self) -> None:
        """Ends the streams once their readers have everything. Call it when the run is over."""
        self._over = True

    async def __call__(
        self, scope: _Message, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            raise ValueError(f"LiveView serves http, not {scope['type']}")
        # Before anything of the run is answered, a missing path included.
        if not self._is_asked_by_name(scope):
            await _answer(send, 421, b"this Host is not known here: LiveView(watch, hosts=[...])", _PLAIN)
            return
        if not self._has_token(scope):
            await _answer(send, 404, b"", _PLAIN)
            return
        path = str(scope.get("path", "")).removeprefix(str(scope.get("root_path", ""))).strip("/")
        if scope.get("method", "GET") != "GET":
            await _answer(send, 405, b"GET only", _PLAIN)
        elif path == EVENTS:
            await self._serve_events(receive, send)
        elif path == "":
            # An empty picture: the first event of the stream brings everything.
            data = Picture(self.watch.picture.title).patch()
            html = document(data, live=self.url(f"{scope.get('root_path', '')}/{EVENTS}"))
            await _answer(send, 200, html.encode("utf-8", "replace"), (b"content-type", b"text/html; charset=utf-8"))
        else:
            await _answer(send, 404, b"there is nothing here", _PLAIN)

    def _has_token(self, scope: _Message) -> bool:
        """Returns whether a request has the token, which it loses here."""
        # Servers write the query of a request's own scope into their access logs when the response begins.
        query = bytes(scope.get("query_string", b""))
        scope["query_string"] = b""
        given = parse_qs(query.decode("latin-1")).get("token", []) if len(query) < 1024 else []
        return len(given) == 1 and secrets.compare_digest(given[0].encode(), self._token.encode())

    def _is_asked_by_name(self, scope: _Message) -> bool:
        # DNS rebinding: a page of `evil.example` may let that name lead to 127.0.0.1, and then reads what is served
        # there as its own; its browser still sends `Host: evil.example`, which no script can change
        # (https://fetch.spec.whatwg.org/#forbidden-request-header). The port proves nothing, and differs behind a
        # tunnel or a container's mapping. The token alone would do, until somebody else has seen the URL.
        named = [value for name, value in scope.get("headers", ()) if name == b"host"]
        if len(named) != 1:
            return False
        host = _PORT.sub("", named[0].decode("latin-1").lower())
        address = str((scope.get("server") or ("",))[0]).lower()
        return host in self._hosts or (host != "" and host in (address, f"[{address}]"))

    async def _serve_events(
        self, receive: Callable[[], Awaitable[_Message]], send: Callable[[_Message], Awaitable[None]]
    ) -> None:
        if self.readers >= READERS:
            await _answer(send, 503, b"too many readers", _PLAIN)
            return
        # The stream itself learns of a lost reader only when it sends, and a quiet run sends nothing.
        self.readers += 1
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                await self._stream(send)
                tasks.cancel_scope.cancel()
        finally:
            self.readers -= 1

    async def _stream(self, send: Callable[[_Message], Awaitable[None]]) -> None:
        # nginx would collect the events of a response until its buffer is full; this header switches that off.
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-accel-buffering", b"no"), *_ALONE]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        seen: Seen | None = None
        # A reader is given the newest state when it has taken the last one: a slow one gets fewer and larger patches,
        # and never a backlog.
        while True:
            over = self._over  # read before the patch, which then has everything
            since = Seen() if seen is None else seen
            patch, seen_now = self.watch.patch(since)
            if seen_now != seen:
                await send(_event("patch", {**patch, "whole": seen is None}))
                seen = seen_now
            if over:
                break
            await anyio.sleep(self._interval)
        await send({**_event("end", {}), "more_body": False})


async def _until_gone(receive: Callable[[], Awaitable[_Message]], scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _event(name: str, data: Any) -> _Message:
    body = b"event: %s\ndata: %s\n\n" % (name.encode(), _dumped(data))  # JSON has no raw line ends
    return {"type": "http.response.body", "body": body, "more_body": True}


async def _answer(
    send: Callable[[_Message], Awaitable[None]], status: int, body: bytes, kind: tuple[bytes, bytes]
) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [kind, *_ALONE]})
    await send({"type": "http.response.body", "body": body})


def draw_recordings(recordings: Iterable[Recording], title: str = "") -> Picture:
    """Returns the picture of one run, or of several in one.

    Args:
        recordings: the runs, in any order; `Recording.read_all` returns those of a file. They are shown by their
            begin, one after the other also where they overlapped.
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
            drawing.picture.notes.append("The recording was full before the run had ended.")
        if recording.lost:
            drawing.picture.notes.append("Lines of the recording were torn: the rest of their step is missing.")
        if recording.redacted:
            drawing.picture.notes.append("The recording is redacted: a text appears as a whole, where it ends.")
    return drawing.finish()
