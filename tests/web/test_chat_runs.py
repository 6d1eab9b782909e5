"""Runs of conversations: whose they are, how they stop, and what readers learn of a provider that refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from chat_client import Page
from profiles import every
from streams import chat, stream
from test_chat_app import WIRE, Program, decided, kinds, said, texts

from streamtools import agent_loop, tool
from streamtools.dispatch import MemoryStore
from streamtools.privacy import Privacy
from streamtools.web import Chats

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2):ResourceWarning")]


# -- whose it is --


class Known(Program):
    """A program that notes for whom its runs are made."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.users: list[tuple[str, str | None]] = []
        self.owners: set[tuple[str, str | None]] = set()

    def run(self, given: Any) -> Any:
        self.users.append((given.run_id, given.user))
        self.owners.add((given.id, given.owner))
        return super().run(given)

    def of(self, name: str | bool) -> Page:
        return Page(self.chats.app(may=lambda request: name))


async def test_a_run_is_made_for_whoever_began_it_whoever_has_it_gone_on_with(tmp_path: Path) -> None:
    first, other = Known(tmp_path / "chats.db"), Known(tmp_path / "chats.db")
    await first.of("ann").ask("POST", "/", said("slow"), leave=lambda answer: b'b"}' in answer.body)
    await first.chats.aclose()  # as a process that ends
    other.held.set()
    assert texts((await other.of("bob").ask("GET", "/k/stream")).chunks).endswith("abcd")
    await first.of("bob").ask("POST", "/", said("pay", id="m2"))
    asked = await first.of("eve").ask("POST", "/", said("pay", id="m2"))  # the same request, from elsewhere
    await other.of("cy").ask("POST", "/", decided(asked.chunks, "k/2"))
    regenerated = {"id": "k", "messages": [said("pay")["messages"][0]], "trigger": "regenerate-message"}
    await first.of("dee").ask("POST", "/", regenerated)
    await first.of(True).ask("POST", "/", said("you", id="m3", chat="n"))
    # Before a decision or a visit the run is made once more, to be compared with the one on record.
    assert list(dict.fromkeys(first.users)) == [("k/1", "ann"), ("k/2", "bob"), ("k/3", "dee"), ("n/1", None)]
    assert list(dict.fromkeys(other.users)) == [("k/1", "ann"), ("k/2", "bob")]
    assert first.owners | other.owners == {("k", "ann"), ("n", None)}
    assert first.paid + other.paid == [5]
    assert [turn.user for turn in await first.chats.history("n") or ()] == [None]


# -- what it carries on --

LATER, OVER = "2999-01-01T00:00:00Z", "2020-01-01T00:00:00Z"


@every(
    ("wire", "begun", "expires_at", "carried"),
    [
        ("anthropic.messages", None, LATER, [(1, {}), (3, {"container": "c1"}), (5, {"container": "c2"})]),
        ("anthropic.messages", None, OVER, [(1, {}), (3, {}), (5, {})]),
        ("anthropic.messages", {"container": "c9"}, LATER, [(1, {"container": "c9"}), (3, {"container": "c9"})]),
        ("openai.responses", {"previous_response_id": None}, None,
         [(1, {}), (1, {"previous_response_id": "r1"}), (1, {"previous_response_id": "r2"})]),
        ("openai.responses", None, None, [(1, {}), (3, {}), (5, {})]),
    ],
)  # fmt: skip
async def test_a_run_carries_what_the_run_before_was_given(
    wire: str, begun: Any, expires_at: str, carried: Any
) -> None:
    asked: list[Any] = []

    def ask(messages: list[Any], tools: Any, carry: Any) -> Any:
        asked.append((len(messages), carry))
        number = len(asked)
        if wire == "anthropic.messages":
            facts = {"type": "message", "role": "assistant", "stop_reason": "end_turn", "usage": {}}
            container = {"id": f"c{number}", "expires_at": expires_at}
            return {**facts, "content": [{"type": "text", "text": "Hi."}], "container": container}
        part = {"type": "output_text", "text": "Hi.", "annotations": []}
        item = {"id": f"m{number}", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return {"id": f"r{number}", "object": "response", "model": "m", "status": "completed", "output": [item]}

    def run(given: Any) -> Any:
        return agent_loop(ask, given.messages(wire), wire=wire, carry=begun, **given.options)

    chats = Chats(records=MemoryStore(), run=run)
    page = Page(chats.app(may=lambda request: "ann"))
    for number in range(len(carried)):
        await page.ask("POST", "/", said("Hello.", id=f"m{number}"))
    await chats.aclose()
    assert asked == carried


# -- how it stops --


class Busy:
    """A program with a call of each effect, which ends when it is let go, or is cancelled."""

    def __init__(self, path: Path, *effects: Any) -> None:
        self.released = anyio.Event()
        self.ended: list[str] = []
        self.running: set[str] = set()
        self.told: list[Any] = []
        self.chats = Chats(journal=path, run=self.run)
        self._effects = effects

    def run(self, given: Any) -> Any:
        def made(effect: Any) -> Any:
            @tool(name=effect, effect=effect)
            async def work() -> str:
                """Works."""
                self.running.add(effect)
                try:
                    await self.released.wait()
                    self.ended.append(effect)
                    return "done"
                finally:
                    self.running.remove(effect)

            return work

        def ask(messages: list[Any], tools: Any) -> Any:
            self.told = messages
            if messages[-1]["content"] != "work":
                return stream(chat(["Hello"], finish="stop"))
            return stream(chat([], [(f"c{at}", effect, "{}") for at, effect in enumerate(self._effects)]))

        tools = [made(effect) for effect in self._effects]
        return agent_loop(ask, given.messages(WIRE), tools=tools, wire=WIRE, **given.options)


@every("effects", [("pure",), ("idempotent",), ("pure", "idempotent"), ("pure", "once", "idempotent")])
async def test_stopping_breaks_off_the_calls_that_may_run_again_and_waits_for_the_others(
    tmp_path: Path, effects: tuple[str, ...]
) -> None:
    program = Busy(tmp_path / f"{'-'.join(effects)}.db", *effects)
    page = Page(program.chats.app(may=lambda request: True))
    async with anyio.create_task_group() as tasks:
        answers = page.begin(tasks, "POST", "/", said("work"))
        while len(program.running) < len(effects):
            await checkpoint()
        refused = await page.ask("POST", "/", said("you", id="m2"))
        assert (refused.status, refused.json["error"]["code"]) == (409, "running")
        assert (await page.ask("POST", "/k/stop", {})).status == 204
        if "once" in effects:
            while program.running != {"once"}:
                refused = await page.ask("POST", "/", said("you", id="m2"))
                assert (refused.status, refused.json["error"]["code"]) == (409, "stopping")
                assert "stopped" in refused.json["error"]["message"]
            program.released.set()
    assert program.ended == ["once"] * effects.count("once")
    assert kinds(answers[0])[-2:] == ["abort", "[DONE]"]
    again = await page.ask("POST", "/", said("you", id="m2"))
    assert (again.status, texts(again.chunks)) == (200, "Hello")
    turns = await program.chats.history("k")
    assert turns[0].outcome == "cancelled"
    results = [one for one in program.told if one["role"] == "tool"]
    assert len(results) == len(effects)
    assert [one["content"] == "done" for one in results] == [effect == "once" for effect in effects]


# -- what a provider's refusal is told as --

_SECRET = "org-12 of secret.example"


class Refused(Exception):
    """An exception of somebody's client."""

    def __init__(self, status: int | None = None, headers: Any = None, **words: Any) -> None:
        super().__init__(_SECRET)
        self.status_code, self.headers = status, headers or {}
        self.__dict__.update(words)


class ReadTimeout(Exception):
    """The name that libraries have for it."""


_FAILURES: list[tuple[Any, str, float | None]] = [
    (Refused(429, {"Retry-After": "20"}), "rate_limited", 20.0),
    (Refused(429, {"retry-after-ms": "1500"}), "rate_limited", 1.5),
    (Refused(429), "rate_limited", None),
    (Refused(429, {"retry-after": "1e300"}), "rate_limited", 86_400.0),
    (Refused(429, {"retry-after": "inf"}), "rate_limited", None),
    (Refused(429, {"Retry-After": "later"}, code="insufficient_quota"), "quota_exceeded", None),
    (Refused(503, {"Retry-After": "7"}), "overloaded", 7.0),
    (Refused(529), "overloaded", None),
    (Refused(401), "unauthorized", None),
    (Refused(403), "unauthorized", None),
    (Refused(408), "timed_out", None),
    (Refused(500), "request_failed", None),
    (Refused(418), "request_failed", None),
    (Refused(type="overloaded_error"), "overloaded", None),
    (TimeoutError(_SECRET), "timed_out", None),
    (ReadTimeout(_SECRET), "timed_out", None),
    (ConnectionRefusedError(_SECRET), "connection_lost", None),
    (KeyError(_SECRET), "request_failed", None),
]


def asking(failure: Exception) -> Any:
    def ask(*_: Any) -> Any:
        raise failure

    return ask


@every(
    "policy",
    [pytest.param(None, marks=pytest.mark.thorough), Privacy(redact=lambda text: text.replace("secret", "[hidden]"))],
)
async def test_a_refusal_of_the_provider_is_told_by_its_code_and_its_time_in_each_protocol(
    tmp_path: Path, policy: Privacy | None
) -> None:
    message = {"id": "m1", "role": "user", "content": "you", "parts": [{"type": "text", "text": "you"}]}
    failing: list[Exception] = []

    def run(given: Any) -> Any:
        return agent_loop(asking(failing[-1]), given.messages(WIRE), wire=WIRE, **given.options)

    chats = Chats(journal=tmp_path / f"{policy is None}.db", run=run, privacy=policy)
    page = Page(chats.app(may=lambda request: True))
    for at, (failure, code, seconds) in enumerate(_FAILURES):
        failing.append(failure)
        of_ui = await page.ask("POST", "/", {"id": f"u{at}", "messages": [message]})
        again = await page.ask("POST", "/", {"id": f"u{at}", "messages": [message]})
        assert again.chunks[-3:] == of_ui.chunks[-3:], "the record says the same"
        *_, data, error, done = [{}, *of_ui.chunks]
        assert (error, done) == ({"type": "error", "errorText": f"The answer broke off ({code})."}, "[DONE]")
        told = {"type": "data-error", "data": {"code": code, "retryAfter": seconds}, "transient": True}
        assert (data == told) == (seconds is not None)
        own = await page.ask("POST", f"/o{at}/events", {"id": f"o{at}", "messages": [message]})
        end = own.chunks[-1]
        assert (end["event"], end["kind"], end.get("retry_after")) == ("run_end", code, seconds)
        ag_ui = await page.ask("POST", "/ag-ui", {"threadId": f"a{at}", "runId": "r", "messages": [message]})
        end = ag_ui.chunks[-1]
        assert (end["type"], end["code"], end.get("metadata")) == (
            "RUN_ERROR", code, None if seconds is None else {"retryAfter": seconds},
        )  # fmt: skip
        for one in (of_ui, own, ag_ui):
            assert _SECRET not in one.body.decode()
            assert "hidden" not in one.body.decode()


def test_conversations_are_kept_in_one_place_that_is_named_once(tmp_path: Path) -> None:
    wrong: list[dict[str, Any]] = [{}, {"records": tmp_path / "a.db", "journal": tmp_path / "b.db"}, {"records": 3}]
    for options in wrong:
        with pytest.raises(TypeError):
            Chats(run=lambda chat: None, **options)  # type: ignore[arg-type]
    for keep in (0, -1.0, True):
        with pytest.raises(ValueError, match="keep"):
            Chats(run=lambda chat: None, records=tmp_path / "a.db", keep=keep)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="postgresql://"):
        Chats(run=lambda chat: None, records="mysql://secret@host/db")  # type: ignore[arg-type]


async def test_a_page_has_the_result_of_a_job_once_from_whichever_replica_and_after_a_reload(tmp_path: Path) -> None:
    begun, held = anyio.Event(), anyio.Event()

    @tool(background=True, effect="idempotent")
    async def render() -> str:
        """Render the sky."""
        begun.set()
        await held.wait()
        return "sky.png"

    def ask(messages: list[Any], tools: Any) -> Any:
        if messages[-1]["role"] == "user" and "sky.png" not in str(messages):
            return stream(chat([], [("c1", "render", "{}")]))
        return stream(chat(["Here it is." if "sky.png" in str(messages) else "I began."], finish="stop"))

    def run(given: Any) -> Any:
        return agent_loop(ask, given.messages(WIRE), tools=[render], wire=WIRE, **given.options)

    first, *others = (Chats(journal=tmp_path / "chats.db", run=run) for _ in range(3))
    page, other, third = (Page(one.app(may=lambda request: "ann")) for one in (first, *others))
    await page.ask("POST", "/", said("the sky"), leave=lambda answer: b"began" in answer.body)
    await begun.wait()
    await first.aclose()  # as a process that ends
    held.set()
    rest = await other.ask("GET", "/k/stream")
    assert (texts(rest.chunks)[-11:], rest.body.count(b"sky.png")) == ("Here it is.", 1)
    assert sum("steering" in kind for kind in kinds(rest)) == 1
    assert [(await one.ask("GET", "/k")).body.count(b"sky.png") for one in (other, third)] == [1, 1]
    for chats in others:
        await chats.aclose()
