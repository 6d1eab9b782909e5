"""Long results: the model reads their beginning, and the rest when it asks for it."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from every_wire import framed, said
from streams import Model, chat, hanging

from streamtools import ApprovalRequested, Limits, Observation, Suspended, Trajectory, agent_loop, tool
from streamtools.content import Media, Text, ToolResult
from streamtools.dispatch import MemoryStore
from streamtools.errors import ToolError
from streamtools.events import StepStart, StreamWarning
from streamtools.exports import export_all
from streamtools.history import lint
from streamtools.policy import Offloading
from streamtools.provenance import only_from_user, untrusted
from streamtools.record import record, replay
from streamtools.wires import WIRES, find
from streamtools.wires.transcript import Prompt

CHAT = "openai.chat_completions"
ASKED = [{"role": "user", "content": "What does the page say?"}]
PAGE = "".join(f"line {n}\n" for n in range(2_000))  # 18,890 characters
IBAN = "DE44500105175407324931"
NOTE = re.compile(
    r'\[The first (\d+) of (\d+) characters\. Read more by \w+\(result_id="(r[0-9a-f]{16})", offset=(\d+)\)\.\]'
)


numbers = count()


def on_both(case: Any, *arguments: Any) -> None:
    for backend in ("asyncio", "trio"):
        anyio.run(case, *arguments, backend=backend)


@tool(effect="pure")
async def fetch(what: str) -> Any:
    """Fetch a page."""
    if what == "error":
        raise ToolError(f"broken: {PAGE}")
    if what == "json":
        return {"page": PAGE, "n": 7}
    if what == "picture":
        return ToolResult(blocks=[PAGE, Media(kind="image", mime_type="image/png", data="aGk="), "and more"], value=7)
    return PAGE if what == "page" else "short"


def calling(name: str, arguments: str) -> list[bytes]:
    return chat(calls=[(f"c{next(numbers)}", name, arguments)])


def reading(offset: int, length: int | None = None, name: str = "read_result") -> Any:
    def answer(asked: str) -> list[bytes]:
        rest = "" if length is None else f', "length": {length}'
        return calling(name, f'{{"result_id": "{NOTE.findall(asked)[-1][2]}", "offset": {offset}{rest}}}')

    return answer


DONE = chat(["Done."], finish="stop")


def test_the_model_reads_the_beginning_of_a_long_result_and_then_the_rest_in_pieces(tmp_path: Path) -> None:
    async def case(directory: Path | None) -> None:
        settings = Offloading(above=5_000, head=100, directory=directory)
        model = Model(calling("fetch", '{"what": "page"}'), reading(100, 50), reading(18_000), reading(18_890), DONE)
        path = tmp_path / "run.jsonl"
        path.unlink(missing_ok=True)
        kept = Trajectory(observers=[record(path)])
        async with agent_loop(model, ASKED, tools=[fetch], wire=CHAT, offload_above=settings, trajectory=kept) as run:
            seen = [event async for event in run if isinstance(event, Observation)]
        assert [one.outcome for one in seen] == ["ok", "ok", "ok", "failed"]
        assert seen[0].value == PAGE, "the program has all of it"
        found = NOTE.search(seen[0].model_content)
        assert found.groups()[:2] == ("100", "18890")
        assert seen[0].model_content == f"{PAGE[:100]}\n{found[0]}"
        assert seen[1].model_content == f"{PAGE[100:150]}\n[Characters 100 to 150 of 18890; continue with offset=150.]"
        assert seen[2].model_content == f"{PAGE[18_000:]}\n[Characters 18000 to 18890 of 18890; this is the end.]"
        assert seen[3].model_content.startswith("Error: offset must be from 0 to 18889")
        assert "line 1000" not in str(run.messages)
        assert lint(run.messages, CHAT) == []
        assert (await replay(path)).text == "Done."
        if directory is not None:
            (file,) = directory.iterdir()  # noqa: ASYNC240 - nothing runs beside it
            assert file.read_text() == PAGE
            assert file.stat().st_mode & 0o77 == 0
            assert found[3] in file.name
            file.unlink()

    (tmp_path / "kept").mkdir()
    for directory in (None, tmp_path / "kept"):
        on_both(case, directory)


def test_every_kind_of_long_result_is_kept_and_nothing_else_on_every_wire(tmp_path: Path) -> None:
    async def case() -> None:
        for wire in WIRES:
            asked = find(wire).render_prompt(Prompt(role="user", blocks=(Text("Look."),)))
            kinds = ("page", "error", "json", "picture", "short")
            calls = [(f"c{n}aaaaaaa", "fetch", f'{{"what": "{kind}"}}') for n, kind in enumerate(kinds)]
            answer = framed(wire, said(wire, text=["Done"]))
            model = Model(framed(wire, said(wire, calls=calls)), answer)
            async with agent_loop(
                model, asked, tools=[fetch], wire=wire, offload_above=1_000, limits=Limits(max_result_bytes=9_000)
            ) as run:
                seen = {one.call_id: one async for one in run if isinstance(one, Observation)}
            texts = [one.model_content for one in seen.values() if one.value != "short"]
            assert [len(text) < 1_300 for text in texts] == [True] * 4, wire
            sizes = sorted(int(found[2]) for text in texts if (found := NOTE.search(text)) is not None)
            assert sizes == [18_890, 18_899, 18_905, 20_907], wire
            picture = next(one for one in seen.values() if one.result is not None)
            assert [type(one) for one in picture.result.blocks] == [Text, Media]
            assert picture.value == 7
            assert "[image: image/png]" in picture.model_content
            assert "line 1000" not in str(run.messages)
            assert lint(run.messages, wire, last=True) == []

    anyio.run(case)


def test_what_is_read_on_counts_as_the_result_that_it_is_of() -> None:
    async def case() -> None:
        for trusted, asks in ((False, 1), (True, 0)):

            @tool(effect="pure", trusted=trusted)
            async def lookup(what: str) -> str:
                """Look it up."""
                return PAGE + IBAN + " belongs to ann"

            @tool(effect="pure", policy=untrusted("to"))
            async def pay(to: str) -> str:
                """Pay."""
                return "paid"

            call = calling("pay", f'{{"to": "{IBAN}"}}')
            model = Model(calling("lookup", '{"what": "x"}'), reading(18_000), call, DONE)
            async with agent_loop(model, ASKED, tools=[lookup, pay], wire=CHAT, offload_above=1_000) as run:
                requests = [event async for event in run if isinstance(event, ApprovalRequested)]
            assert len(requests) == asks, trusted
            assert all("lookup" in str(request.findings[0]) for request in requests)

            @tool(effect="pure", policy=only_from_user("amount"))
            async def send(amount: int) -> str:
                """Send."""
                return "sent"

            # Our own words about a result have the model's numbers, and vouch for nothing.
            call = calling("send", '{"amount": 12345}')
            model = Model(calling("lookup", '{"what": "x"}'), reading(12_345, 7), call, DONE)
            async with agent_loop(model, ASKED, tools=[lookup, send], wire=CHAT, offload_above=1_000) as run:
                requests = [event async for event in run if isinstance(event, ApprovalRequested)]
            assert [request.findings[0].origins for request in requests] == [()]

    on_both(case)


def test_a_run_keeps_no_more_than_it_may_and_finds_its_files_when_it_is_resumed(tmp_path: Path) -> None:
    @tool(needs_approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        return "paid"

    async def bounded() -> None:
        calls = [(f"c{n}", "fetch", '{"what": "page"}') for n in range(3)]
        settings = Offloading(above=1_000, max_kept=40_000, tool_name="more")

        def first(asked: str) -> list[bytes]:
            ids = [found[2] for found in NOTE.findall(asked)]
            reads = [(f"r{n}", "more", f'{{"result_id": "{one}"}}') for n, one in enumerate([*ids, "../../etc/passwd"])]
            return chat(calls=reads)

        model = Model(chat(calls=calls), first, DONE)
        async with agent_loop(model, ASKED, tools=[fetch], wire=CHAT, offload_above=settings) as run:
            await run.finish()
        assert sorted(one.outcome for one in run.turns[1].observations) == ["failed", "failed", "ok", "ok"]
        for one in run.turns[1].observations:
            assert len(one.model_content) < 1_100

    async def resumed() -> None:
        directory = tmp_path / "results"
        directory.mkdir(exist_ok=True)
        settings, store = Offloading(above=1_000, directory=directory), MemoryStore()
        both = [("c1", "fetch", '{"what": "page"}'), ("c2", "pay", '{"to": "ann"}')]
        options: dict[str, Any] = {"tools": [fetch, pay], "wire": CHAT, "store": store, "offload_above": settings}
        async with agent_loop(Model(chat(calls=both)), ASKED, **options) as run:
            await run.finish()
        text = run.suspended.to_text("a key that is long enough")
        again = Suspended.from_text(text, "a key that is long enough")
        model = Model(reading(9_000, 10), DONE)
        async with agent_loop(model, run.messages, suspended=again, approve=lambda request: True, **options) as run:
            await run.finish()
        assert run.turns[1].observations[0].value.startswith(PAGE[9_000:9_010])
        async with agent_loop(Model(reading(0), DONE), run.messages, **options) as other:
            await other.finish()
        assert other.turns[0].observations[0].outcome == "failed", "another run's results are not read"
        for file in directory.iterdir():
            file.unlink()
        directory.rmdir()
        async with agent_loop(Model(chat(calls=both[:1]), DONE), ASKED, **options) as run:
            warnings = [event.code async for event in run if isinstance(event, StreamWarning)]
        assert warnings == ["result_not_stored"]
        assert run.outcome == "answered"

    async def journaled() -> None:
        """A run that was left goes on with the same ids, and reads on in what it had kept in memory."""
        path = tmp_path / f"{next(numbers)}.db"
        options: dict[str, Any] = {
            "tools": [fetch],
            "wire": CHAT,
            "journal": path,
            "run_id": "r",
            "offload_above": 1_000,
        }
        async with agent_loop(Model(calling("fetch", '{"what": "page"}'), hanging([])), ASKED, **options) as run:
            async for event in run:
                if isinstance(event, StepStart) and event.step == 1:
                    break
        model = Model(reading(9_000, 10), DONE)
        async with agent_loop(model, ASKED, **options) as run:
            await run.finish()
        assert run.turns[1].observations[0].value.startswith(PAGE[9_000:9_010])
        assert (run.outcome, "line 1000" in str(run.messages)) == ("answered", False)

    for case in (bounded, resumed, journaled):
        on_both(case)

    @tool
    async def read_result(x: int) -> str:
        """Mine."""
        return ""

    exported = export_all([fetch], CHAT)
    for tools, given, error, words in (
        ([read_result], 100, ValueError, "the name 'read_result' is taken"),
        (exported, 100, TypeError, "pass the tools themselves"),
        ([fetch], "100", TypeError, "a number of characters"),
        ([fetch], 0, ValueError, "above=0"),
    ):
        with pytest.raises(error, match=words):
            agent_loop(Model(), ASKED, tools=tools, wire=CHAT, offload_above=given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="piece=200 is more than above=100"):
        Offloading(above=100, piece=200)
