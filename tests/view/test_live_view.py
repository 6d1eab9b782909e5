"""A live view: the page, patches that never wait for a reader, and the end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import anyio
import orjson
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from view.seen_runs import hostile_events, many_events, watched
from web.served import client_of, serving

from streamtools.view import LiveView, Watch

pytestmark = pytest.mark.anyio


class Client:
    """Asks an ASGI application, and keeps what it sends."""

    def __init__(self, app: LiveView) -> None:
        self.app = app
        self.sent: list[dict[str, Any]] = []
        self.asked = False
        self.gone = anyio.Event()
        self.news = anyio.Event()

    async def ask(
        self,
        path: str,
        method: str = "GET",
        *,
        root: str = "",
        hosts: Sequence[str] = ("localhost:8000",),
        server: tuple[str, int | None] | None = ("127.0.0.1", 8000),
        query: str | None = None,
    ) -> None:
        headers = [(b"accept", b"*/*"), *((b"host", host.encode()) for host in hosts)]
        scope = {"type": "http", "method": method, "path": root + path, "root_path": root, "headers": headers}
        query = self.app.url("").removeprefix("?") if query is None else query
        self.scope = {**scope, "server": server, "query_string": query.encode()}
        await self.app(self.scope, self.receive, self.send)

    async def receive(self) -> dict[str, Any]:
        if not self.asked:
            self.asked = True
            return {"type": "http.request"}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.news.set()
        self.news = anyio.Event()
        await anyio.lowlevel.checkpoint()

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def events(self) -> list[tuple[str, Any]]:
        frames = [frame.split(b"\n") for frame in self.body.split(b"\n\n") if frame]
        return [(name[7:].decode(), orjson.loads(data[6:])) for name, data in frames]


async def test_the_page_is_empty_and_asks_for_the_events_below_its_own_path() -> None:
    client = Client(LiveView(Watch("Trip")))
    await client.ask("/", root="/run")
    assert client.sent[0]["status"] == 200
    assert orjson.dumps(client.app.url("/run/events")) in client.body
    assert b"connect-src 'self'" in client.body


LOOPBACK, LAN, UNIX = ("127.0.0.1", 8000), ("192.168.7.9", 8000), ("/run/view.sock", None)
ASKED: list[tuple[tuple[str, ...], tuple[str, int | None] | None, bool]] = [
    (("localhost:8000",), LOOPBACK, True),
    (("LocalHost",), LOOPBACK, True),
    (("127.0.0.1:9000",), LOOPBACK, True),  # through a tunnel
    (("[::1]:8000",), ("::1", 8000), True),
    (("[::1]",), None, True),
    (("192.168.7.9:8000",), LAN, True),
    (("[fe80::7]:8000",), ("fe80::7", 8000), True),
    (("runs.example.org",), LOOPBACK, True),  # it was named
    (("runs.example.org:8443",), UNIX, True),
    (("evil.example:8000",), LOOPBACK, False),
    (("evil.example",), None, False),
    (("localhost.evil.example:8000",), LOOPBACK, False),
    (("localhost:8000.evil.example",), LOOPBACK, False),
    (("evil.example:8000",), LAN, False),
    (("192.168.7.8:8000",), LAN, False),
    (("",), None, False),
    ((":8000",), None, False),
    ((), LOOPBACK, False),
    (("localhost:8000", "evil.example"), LOOPBACK, False),
]


async def test_a_page_of_another_host_cannot_read_the_run_by_letting_its_name_lead_here() -> None:
    """DNS rebinding: the browser takes both for one origin, and says in ``Host`` which name it asked for."""
    watch = Watch("Trip")
    for event in hostile_events():
        watch.on_event(event)
    live = LiveView(watch, interval=0.001, hosts=["Runs.Example.ORG"])
    live.finish()
    for path in ("/", "/events", "/other"):
        for hosts, server, is_known in ASKED:
            client = Client(live)
            await client.ask(path, hosts=hosts, server=server)
            assert (path, hosts, client.sent[0]["status"] == 421) == (path, hosts, not is_known)
            if not is_known:
                assert client.body == b"this Host is not known here: LiveView(watch, hosts=[...])"


async def test_a_request_without_the_token_is_refused_without_content_and_the_token_leaves_the_scope() -> None:
    watch = Watch("Trip")
    for event in hostile_events():
        watch.on_event(event)
    live = LiveView(watch, token="a token of 24 characters")
    live.finish()
    assert live.url("http://127.0.0.1:8000/run/") == "http://127.0.0.1:8000/run/?token=a%20token%20of%2024%20characters"
    right = "token=a%20token%20of%2024%20characters"
    wrong = ("", "token=", "token=a", right + "x", f"{right}&{right}", "x" * 2000 + f"&{right}")
    for path in ("/", "/events", "/other"):
        for query in wrong:
            client = Client(live)
            await client.ask(path, query=query)
            assert (path, query, client.sent[0]["status"], client.body) == (path, query, 404, b"")
        client = Client(live)
        await client.ask(path, query=f"theme=dark&{right}")
        assert client.body != b""
        assert client.scope["query_string"] == b""
    assert "24 characters" not in repr(live) + str(vars(Client))
    with pytest.raises(ValueError, match="token: expected at least 16 characters, got 5"):
        LiveView(watch, token="short")


async def test_a_reader_gets_the_whole_first_then_what_is_new_and_the_end() -> None:
    watch = Watch()
    live = LiveView(watch, interval=0.001)
    client = Client(live)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.ask, "/events")
            while not client.events:
                await anyio.lowlevel.checkpoint()
            await watched(watch)
            live.finish()
    names = [name for name, _ in client.events]
    assert names[-1] == "end"
    assert set(names[:-1]) == {"patch"}
    patches = [data for _, data in client.events[:-1]]
    assert [patch["whole"] for patch in patches] == [True] + [False] * (len(patches) - 1)
    assert sum(len(patch["marks"]) for patch in patches) == len(watch.picture.marks)
    assert client.sent[-1]["more_body"] is False


async def test_a_slow_reader_gets_fewer_patches_and_the_run_never_waits() -> None:
    watch = Watch()
    live = LiveView(watch, interval=0.001)
    client = Client(live)
    may_go = anyio.Event()

    async def slow(message: Any) -> None:
        await Client.send(client, message)
        if len(client.events) == 1:
            await may_go.wait()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            scope = {"type": "http", "method": "GET", "path": "/events", "headers": [(b"host", b"localhost")]}
            scope["query_string"] = live.url("").removeprefix("?").encode()
            tasks.start_soon(live, scope, client.receive, slow)
            while not client.events:
                await anyio.lowlevel.checkpoint()
            events = many_events(2000)
            for event in events:  # nobody takes anything meanwhile
                watch.on_event(event)
            live.finish()
            may_go.set()
    assert len([name for name, _ in client.events if name == "patch"]) == 2
    told = client.events[1][1]
    assert len(told["marks"]) + len(told["growth"][0]) == len(events)


async def test_more_readers_than_may_be_are_refused() -> None:
    live = LiveView(Watch(), interval=0.001)
    clients = [Client(live) for _ in range(33)]
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for client in clients:
                tasks.start_soon(client.ask, "/events")
            while not all(client.sent for client in clients):
                await anyio.lowlevel.checkpoint()
            live.finish()
    assert sorted(client.sent[0]["status"] for client in clients) == [200] * 32 + [503]


async def test_what_makes_no_sense_is_refused() -> None:
    for path, method, status in (("/other", "GET", 404), ("/", "POST", 405)):
        client = Client(LiveView(Watch()))
        await client.ask(path, method)
        assert client.sent[0]["status"] == status
    with pytest.raises(ValueError, match="not websocket"):
        await client.app({"type": "websocket"}, client.receive, client.send)
    for interval in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="interval"):
            LiveView(Watch(), interval=interval)
    with pytest.raises(TypeError, match=r"expected hosts=\[\.\.\.\], got the text"):
        LiveView(Watch(), hosts="runs.example.org")


@pytest.mark.asyncio_only  # uvicorn's
async def test_the_access_log_of_a_server_has_no_token(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    live = LiveView(Watch())
    live.finish()
    mounted = Starlette(routes=[Mount("/run", live)])
    for app, path in ((live, "/"), (mounted, "/run/")):
        async with serving(app, access_log=True) as port, client_of(port) as client:
            for address in (live.url(path), live.url(f"{path}events")):
                assert (await client.get(address)).status_code == 200
    logged = [record.getMessage() for record in caplog.records if record.name == "uvicorn.access"]
    assert len(logged) == 4
    assert "token" not in "".join(logged)
