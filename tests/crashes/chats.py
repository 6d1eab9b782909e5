"""A page and the process that runs its conversation are killed at random points, and begin again until the run ended.

    python tests/crashes/chats.py --kills 100
    python tests/crashes/chats.py --on postgres --kills 100
    python tests/crashes/chats.py --seed 4711 --kills 1

A point is a frame that the page reads, a piece of a response, or the code of a tool before and after its effect. At
some frames the page alone goes, and comes back behind the last one that it knows. The model says something else each
time it is asked. What the page has in the end has to be the conversation's history, each piece once and in order.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[at]) for at in (1, 2)]

import anyio
import anyio.lowlevel
from crashes.stores import places, store_at
from every_wire import framed, said

from streamtools import agent_loop, tool
from streamtools.dispatch.results import encode_result
from streamtools.framing import SSEDecoder
from streamtools.web import Chats
from streamtools.web.finished_messages import ui_message

__all__ = ["main", "problems", "run"]

WIRE = "openai.chat_completions"
STEPS = (("pay", "look"), ("approve", "pay"), ("approve",), ())
EDITED_STEP = 2
"""The page approves the calls of this step with other arguments."""
MOST_QUIET = 12


@dataclass
class Visit:
    """One life of the process."""

    folder: Path
    address: str
    dies_at: int | None = None
    """The number of the point at which it kills itself."""
    leaves: int | None = None
    """Every so many frames the page goes."""

    def __post_init__(self) -> None:
        self._points = 0
        self._frames = 0

    def note(self, line: str) -> None:
        with (self.folder / "log").open("a") as log:
            log.write(f"{line}\n")

    def point(self) -> None:
        self._points += 1
        if self._points == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def run(self, chat: Any) -> Any:
        def act(ref: str) -> str:
            self.point()
            self.note(f"effect {ref}")
            self.point()
            return f"done {ref}"

        @tool(effect="once")
        async def pay(ref: str) -> str:
            """Pays."""
            return act(ref)

        @tool(effect="once", needs_approval=True)
        async def approve(ref: str) -> str:
            """Does what a person has approved."""
            return act(ref)

        @tool(effect="pure")
        async def look(ref: str) -> str:
            """Looks."""
            return f"seen {ref}"

        return agent_loop(self.ask, chat.messages(WIRE), tools=[pay, approve, look], wire=WIRE, **chat.options)

    async def ask(self, messages: list[Any], tools: Any) -> AsyncIterator[Any]:
        step = sum(message["role"] == "assistant" for message in messages)
        word = f"{os.getpid()}.{self._points}"
        calls = [(f"c{at}", name, json.dumps({"ref": f"{step}.{at}"})) for at, name in enumerate(STEPS[step])]
        return self.pieces(framed(WIRE, said(WIRE, text=[f"step {step} ", f"({word}) ", "is here"], calls=calls)))

    async def pieces(self, items: list[Any]) -> AsyncIterator[Any]:
        for item in items:
            self.point()
            await anyio.lowlevel.checkpoint()
            yield item

    # -- the page --

    async def page(self) -> None:
        """Begins or joins the run, decides what it is asked, and notes each frame, until nothing goes on."""
        async with Chats(records=store_at(self.address), run=self.run) as chats:
            app = chats.app(may=lambda request: True)
            if not self.known():
                message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
                await self.ask_app(app, "POST", {"id": "k", "messages": [message], "trigger": "submit-message"})
            for _ in range(40):
                known = self.known()
                if known and known[-1]["name"] == "run_end" and known[-1]["data"]["outcome"] == "answered":
                    return
                asked = [] if not known or known[-1]["name"] != "run_end" else self.asked(folded(known))
                if asked:
                    status = await self.ask_app(app, "POST", decisions(asked))
                    if status != 409:
                        continue
                status = await self.ask_app(app, "GET", None, known[-1]["id"] if known else None)
                if status == 204 and not asked:
                    return

    def known(self) -> list[dict[str, Any]]:
        path = self.folder / "page"
        lines = path.read_text().split("\n") if path.exists() else []
        return [json.loads(line) for line in lines[:-1]]

    def asked(self, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        done = {(one["data"]["step"], one["data"]["call_id"]) for one in events if one["name"] == "approval_resolved"}
        return [one["data"] for one in events if one["name"] == "approval_requested"
                and (one["data"]["step"], one["data"]["call_id"]) not in done]  # fmt: skip

    async def ask_app(self, app: Any, method: str, body: Any, last: str | None = None) -> int:
        decoder, gone, status, sent = SSEDecoder(), anyio.Event(), 0, False
        ids: list[str] = []

        async def receive() -> Any:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": json.dumps(body).encode()}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if gone.is_set():
                raise OSError("gone")
            if message["type"] == "http.response.start":
                status = message["status"]
                return
            if status != 200:
                return
            ids.extend(line[4:] for line in message["body"].decode().split("\n") if line.startswith("id: "))
            for frame in decoder.feed(message["body"]):
                self.point()
                written = {"name": frame.event, "id": ids.pop(0), "data": json.loads(frame.data)}
                with (self.folder / "page").open("a") as page:
                    page.write(json.dumps(written) + "\n")
                self._frames += 1
                if self.leaves and self._frames % self.leaves == 0:
                    gone.set()
                    return

        headers = [] if last is None else [(b"last-event-id", last.encode())]
        scope = {"type": "http", "method": method, "path": "/k/events", "headers": headers}
        with anyio.fail_after(60):
            await app(scope, receive, send)
        return status


def decisions(asked: list[dict[str, Any]]) -> dict[str, Any]:
    parts = [
        {"type": "tool-approve", "toolCallId": one["call_id"], "state": "approval-responded", "input": {},
         "approval": {"id": one["approval_id"], "approved": True}}
        for one in asked
    ]  # fmt: skip
    message = {"id": "k/1", "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
    edited = {one["approval_id"]: {"ref": f"{EDITED_STEP}.0e"} for one in asked if one["step"] == EDITED_STEP}
    return {"id": "k", "messages": [message], "trigger": "submit-message", "messageId": "k/1", "editedArgs": edited}


def folded(known: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns what a page shows that forgets what is taken back."""
    kept: list[dict[str, Any]] = []
    for one in known:
        if one["name"] == "attempt_discarded":
            kept = [old for old in kept if int(old["id"].split(".")[1]) < one["data"]["from_seq"]]
        kept.append(one)
    return kept


def _visited(visit: Visit) -> bool:
    """Lives once, in a child process; returns whether it came to its end."""
    child = os.fork()
    if child == 0:
        try:
            anyio.run(visit.page)
        except BaseException:
            visit.note("error " + traceback.format_exc().replace("\n", "|"))
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


async def _settled(visit: Visit) -> int:
    """Looks into the log for calls whose end is not known, as a person would ask the bank."""
    done = (visit.folder / "log").read_text().splitlines() if (visit.folder / "log").exists() else []
    count = 0
    with store_at(visit.address) as store:
        for call in await store.calls():
            if call.state == "unknown":
                ref = _ref_of(call.key)
                await store.settle(call.key, encode_result(f"done {ref}") if f"effect {ref}" in done else None)
                count += 1
    return count


def _ref_of(key: str) -> str:
    _, step, _, call_id = key.split(":")
    return _ref(int(step), int(call_id[1:]))


def _ref(step: int, at: int) -> str:
    """Returns what a call is to run with."""
    return f"{step}.{at}e" if step == EDITED_STEP else f"{step}.{at}"


def run(quiet: Visit, seed: int) -> tuple[int, int]:
    """Runs one schedule; returns how often the process was killed, and how many calls were settled."""
    dice = random.Random(f"chats {seed}")
    killed = settled = 0
    leaves = dice.choice((None, 1, 2, 5))
    for _ in range(dice.choice((1, 2, 3))):
        killed += not _visited(replace(quiet, dies_at=dice.randint(1, 90), leaves=leaves))
        settled += anyio.run(_settled, quiet)
    for _ in range(MOST_QUIET):
        assert _visited(replace(quiet, leaves=leaves)), "nobody kills it"
        settled += anyio.run(_settled, quiet)
        known = quiet.known()
        if known and known[-1]["name"] == "run_end" and known[-1]["data"]["outcome"] == "answered":
            break
    return killed, settled


def problems(visit: Visit) -> list[str]:
    """Returns what the page has, or the bank, and may not."""
    log = (visit.folder / "log").read_text().splitlines() if (visit.folder / "log").exists() else []
    found = [line for line in log if line.startswith("error")]
    known = visit.known()
    if not known or known[-1]["data"].get("outcome") != "answered":
        return [*found, f"the run did not end: {known[-1:]}"]
    places = [tuple(map(int, one["id"].split("."))) for one in known]
    found += [f"{one} follows {before}" for before, one in pairwise(places) if one <= before]
    effects = Counter(line for line in log if line.startswith("effect"))
    wanted = {
        f"effect {_ref(step, at)}"
        for step, calls in enumerate(STEPS)
        for at, name in enumerate(calls)
        if name != "look"
    }
    found += [f"{one}: {effects[one]} times" for one in wanted | set(effects) if effects[one] != 1]
    shown = folded(known)

    async def kept() -> tuple[list[Any], list[Any]]:
        chats = Chats(records=store_at(visit.address), run=visit.run)
        (turn,) = await chats.history("k") or []
        # What the next run would be made of: there, ids that recur would be others.
        (past,) = await chats._conversations.past(replace(turn, number=2, before=1))
        return past.messages[1:], ui_message((await chats.answers([turn]))[0] or (), "answer")["parts"]

    added, parts = anyio.run(kept)
    loaded: list[list[Any]] = []  # by a page, afterwards
    for part in parts:
        _ = loaded.append([]) if part["type"] == "step-start" else loaded[-1].append(part)
    answers = [message for message in added if message["role"] == "assistant"]
    for step, answer in enumerate(answers):
        of_step = [one for one in shown if one["data"].get("step") == step]
        text = "".join(one["data"]["text"] for one in of_step if one["name"] == "text_delta")
        if text != answer["content"]:
            found.append(f"step {step}: the page has {text!r}, the history {answer['content']!r}")
        calls = Counter(one["data"]["call_id"] for one in of_step if one["name"] == "tool_call_start")
        ends = Counter(one["data"]["call_id"] for one in of_step if one["name"] == "observation"
                       and one["data"]["outcome"] != "unknown")  # fmt: skip
        ids = [call["id"] for call in answer.get("tool_calls", ())]
        if sorted(calls.elements()) != sorted(ids) or sorted(ends.elements()) != sorted(ids):
            found.append(f"step {step}: calls {dict(calls)}, ends {dict(ends)}, in the history {ids}")
        mine = loaded[step] if step < len(loaded) else []
        if "".join(part["text"] for part in mine if part["type"] == "text") != (answer["content"] or ""):
            found.append(f"step {step}: the answer has {mine}, the history {answer['content']!r}")
        ended = [part["toolCallId"].partition("@")[0] for part in mine if part.get("state", "").startswith("output-")]
        if sorted(ended) != sorted(ids):
            found.append(f"step {step}: the answer has {mine}, the history {ids}")
    if not len(answers) == len(loaded) == len(STEPS):
        found.append(f"{len(answers)} steps, {len(loaded)} in the answer")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Runs schedules until so many processes were killed; returns how many went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--on", choices=[*places], default="sqlite", help="what keeps the conversations")
    options = parser.parse_args(arguments)
    killed = settled = wrong = runs = 0
    seed = options.seed
    with places[options.on]() as place:
        while killed < options.kills:
            folder = Path(tempfile.mkdtemp(prefix="chats-"))
            visit = Visit(folder, place.address(folder))
            one, settles = run(visit, seed)
            killed, settled, runs = killed + one, settled + settles, runs + 1
            if found := problems(visit):
                wrong += 1
                print(f"seed {seed}, in {folder}:", *found, sep="\n  ", flush=True)
            else:
                shutil.rmtree(folder)
            seed += 1
    print(f"chats on {options.on}: {killed} kills in {runs} runs, {wrong} went wrong, {settled} calls settled")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
