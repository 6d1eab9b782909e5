"""Four servers share one place for their conversations, behind a balancer; they are killed, told to end and paused.

    python tests/crashes/replicas.py --on postgres --schedules 500
    python tests/crashes/replicas.py --on sqlite --seed 4711 --schedules 1

A schedule is some conversations side by side, whose pages send messages, approve, deny and edit, stop, reload, go away,
edit earlier messages and ask for other answers, as its seed draws it. Meanwhile the servers die, end and stand still,
and Postgres is restarted. A call whose end is not known is settled by the ledger, as a person would ask the bank, once
the process that began it is dead or has long gone on with something else.

It counts effects that the ledger has twice, or that a history has and the ledger lacks; decisions that were answered
200 and have not taken effect; and finished messages that a server has otherwise than a page was streamed them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[at]) for at in (1, 2)]

import httpx
from crashes.replica import LEASE_S, edited, ref_of, serve
from crashes.stores import Place, places, store_at

from examples.replicas.balancer import Balancer
from streamtools.dispatch.results import encode_result

__all__ = ["main"]

REPLICAS = 4
CONVERSATIONS = 4
READ_S = 4.0
"""How long a page waits for a sign of life, before it asks anew."""
SCHEDULE_S = 120.0


class Replica:
    """A server that a supervisor keeps running."""

    def __init__(self, address: str, ledger: Path) -> None:
        self._begin = multiprocessing.get_context("forkserver")
        self._arguments = address, str(ledger)
        self._process: Any = None
        self.is_paused = False

    @property
    def pid(self) -> int:
        return int(self._process.pid)

    async def start(self) -> int:
        """Starts it; returns its port."""
        ours, theirs = self._begin.Pipe()
        self._process = self._begin.Process(target=serve, args=(*self._arguments, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._parent = ours
        assert await asyncio.to_thread(ours.poll, 60), "a server has not begun within 60 s"
        return int(ours.recv())

    async def die(self) -> None:
        """Has it killed in a call, if it begins one soon, else as it is."""
        self._parent.send(True)
        await asyncio.to_thread(self._process.join, 2)
        if self._process.exitcode is None:
            self._process.kill()
        await self.end(0)

    async def end(self, number: int) -> None:
        """Sends a signal that ends it, and waits for that."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)
        await asyncio.to_thread(self._process.join, 30)
        assert self._process.exitcode is not None, "a server has not ended within 30 s"
        self._parent.close()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()


# -- a page --


class Shown:
    """What a page shows of a run: of each step its text, and of each call the state and what stands in it."""

    def __init__(self, parts: list[Any] | None = None) -> None:
        self.steps = [] if parts is None else normal(parts)
        self.frames: list[tuple[int, str, Any]] = []
        self.rests = parts is not None  # useChat's stream has ended, and not with the run; or it was loaded

    def read_own(self, seq: int, name: str, data: Any) -> None:
        if name == "attempt_discarded":
            self.frames = [one for one in self.frames if one[0] < data["from_seq"]]
        self.frames.append((seq, name, data))

    def read_chunk(self, chunk: Any) -> None:
        match chunk["type"]:
            case "start-step":
                self.steps.append(["", {}])
            case "reset-step":
                self.steps[-1:] = [["", {}] for _ in self.steps[-1:]]
            case "text-delta":
                self.steps[-1][0] += chunk["delta"]
            case "start":
                self.rests = False
            case "finish":
                self.rests = chunk["finishReason"] in ("tool-calls", "interrupted")
            case "error":
                self.rests = True
            case "abort":
                self.rests = "reason" not in chunk  # it was left
            case "tool-input-start" | "tool-input-available":
                self.steps[-1][1].setdefault(chunk["toolCallId"], None)
            case "tool-output-available" | "tool-output-error" | "tool-output-denied" | "tool-input-error":
                state = chunk["type"].removeprefix("tool-").replace("input", "output")
                step = next((one for one in reversed(self.steps) if chunk["toolCallId"] in one[1]), None)
                if step is None:  # useChat refuses such a stream
                    raise AssertionError(f"ends a call that the page does not know, {chunk}, where {self.steps}")
                step[1][chunk["toolCallId"]] = state, chunk.get("output", chunk.get("errorText"))

    def whole(self) -> list[Any]:
        """Returns all of it, without the numbers that ids of calls have where they recur, and without empty steps."""
        for _, name, data in self.frames:
            if name not in ("text_delta", "tool_call_start", "observation"):
                continue
            self.steps += [["", {}] for _ in range(data["step"] + 1 - len(self.steps))]
            step = self.steps[data["step"]]
            if name == "text_delta":
                step[0] += data["text"]
            elif name == "tool_call_start":
                step[1].setdefault(data["call_id"], None)
            else:
                state = {"ok": "output-available", "denied": "output-denied"}.get(data["outcome"], "output-error")
                value = data.get("result") if data["outcome"] == "ok" else data.get("error")
                step[1][data["call_id"]] = state, None if state == "output-denied" else value
        self.frames = []
        named = [
            (text, {call_id.partition("@")[0]: end for call_id, end in calls.items()}) for text, calls in self.steps
        ]
        return [one for one in named if one != ("", {})]


def normal(parts: list[Any]) -> list[Any]:
    """Returns the same of a message that was loaded."""
    steps: list[Any] = []
    for part in parts:
        if part["type"] == "step-start":
            steps.append(["", {}])
        elif part["type"] == "text":
            steps[-1][0] += part["text"]
        elif part["type"].startswith("tool-"):
            is_over = part["state"].startswith("output-")
            ended = part["state"], part.get("output", part.get("errorText"))
            steps[-1][1][part["toolCallId"]] = ended if is_over else None
    return steps


class Unreachable(Exception):
    """No server has answered, or not to the end."""


class Page:
    """The page of a conversation, which makes its moves until its last run is over."""

    def __init__(self, world: World, chat_id: str, dice: random.Random) -> None:
        self.world, self.chat_id, self.dice = world, chat_id, dice
        self.is_ours = dice.random() < 0.5  # our frames, else useChat's
        self.protocol = "ours" if self.is_ours else "useChat"
        self.doing = "begins"
        self.is_stopped = False  # perhaps, in this turn
        self.decided: dict[tuple[str, str], set[str]] = {}  # what was answered 200, of each call of a run
        self.final: dict[str, Any] = {}  # messages by run
        self.said = 0
        self._shown: dict[str, Shown] = {}
        self._run_id = ""
        self.last_id: str | None = None
        self._held: list[tuple[int, str, Any]] = []  # frames without an id, before the one that has it

    async def converse(self) -> None:
        for turn in range(self.dice.choice((1, 2, 3))):
            body, self.is_stopped = self._move(turn), False
            stops = asyncio.ensure_future(self._stop_later()) if self.dice.random() < 0.2 else None
            await self._begin(body)
            await self._follow()
            if stops is not None:
                stops.cancel()
                await asyncio.wait([stops])
        self.doing = "is done"

    def _move(self, turn: int) -> dict[str, Any]:
        kind = self.dice.choice(("new", "new", "edit", "regenerate")) if turn else "new"
        self.said += kind == "new"
        message = {"id": f"m{self.said}", "role": "user", "parts": [{"type": "text", "text": f"{kind} {turn}"}]}
        trigger = "regenerate-message" if kind == "regenerate" else "submit-message"
        named = {"messageId": message["id"]} if kind == "edit" else {}
        return {"id": self.chat_id, "messages": [message], "trigger": trigger, **named}

    async def _begin(self, body: dict[str, Any]) -> None:
        """Posts until the run has begun, or is known to have."""
        self.doing, self.last_id = f"posts {body['messages'][0]['parts'][0]['text']}", None
        while True:
            with suppress(Unreachable):
                status, code = await self._stream("POST", body, is_whole=True)
                if status == 200 or code in ("answered", "running", "waiting"):
                    return
                assert status == 503 or code == "stopping", (status, code, body)
                await self.world.pause()

    async def _follow(self) -> None:
        """Reads on, decides, and has settled, until the run is over."""
        was_over = False
        while True:
            with suppress(Unreachable):
                if self.dice.random() < 0.1:  # a reload
                    self.last_id = None
                    self._shown.clear()
                self.doing = f"joins {self._run_id} behind {self.last_id}"
                status, code = await self._stream("GET", None, is_whole=self.last_id is None)
                assert status in (200, 204, 410, 503), (status, code)
                if status != 204:
                    was_over, self.last_id = False, None if status == 410 else self.last_id
                    await self.world.pause()
                    continue
                self.doing = f"loads {self._run_id}"
                history = await self.world.history(self.chat_id)
                last = history["messages"][-1]
                if last["role"] == "user":  # nothing was shown
                    return
                self._run_id = last["id"]
                asked = [part for part in last["parts"] if part.get("state") == "approval-requested"]
                loaded, known = Shown(last["parts"]), self._shown.get(self._run_id)
                has_place = not known.rests if known and not self.is_ours else self.last_id is not None
                if known is None or not (has_place or (asked and known.whole() == loaded.whole())):
                    self._shown[self._run_id] = loaded  # somebody else has decided, and nothing more is streamed
                if asked:
                    await self._decide(asked)
                elif await self.world.settle(self._run_id):
                    self.doing = f"has {self._run_id} settled"
                    await self.world.pause()
                elif not was_over:  # somebody may have stopped it, or decided, between the two
                    was_over = True
                else:
                    self.final[self._run_id] = last
                    self.world.judge(self, last, self._shown[self._run_id].whole())
                    return

    async def _decide(self, asked: list[Any]) -> None:
        self.doing = f"decides in {self._run_id}"
        asked = asked if self.dice.random() < 0.6 else asked[:1]
        verdicts = [self.dice.choice(("approved", "approved", "edited", "denied")) for _ in asked]
        posts = [self._post(asked, verdicts, reads=True)]
        if self.dice.random() < 0.2:  # somebody else, at the same moment
            posts.append(self._post(asked, [self.dice.choice(("approved", "denied")) for _ in asked], reads=False))
        await asyncio.gather(*posts)

    async def _post(self, asked: list[Any], verdicts: list[str], *, reads: bool) -> None:
        parts, changed, run_id = [], {}, self._run_id
        for part, verdict in zip(asked, verdicts, strict=True):
            approval = {"id": part["approval"]["id"], "approved": verdict != "denied"}
            parts.append({**part, "state": "approval-responded", "approval": approval})
            if verdict == "edited":
                changed[approval["id"]] = {"ref": edited(part["input"]["ref"])}
        message = {"id": run_id, "role": "assistant", "parts": [{"type": "step-start"}, *parts]}
        body = {"id": self.chat_id, "messages": [message], "trigger": "submit-message", "messageId": run_id}
        while True:
            with suppress(Unreachable):
                status, _ = await self._stream("POST", body | {"editedArgs": changed}, is_whole=False, reads=reads)
                if status == 200:
                    for part, verdict in zip(asked, verdicts, strict=True):
                        self.decided.setdefault((run_id, part["toolCallId"]), set()).add(verdict)
                if status != 503:
                    return
                await self.world.pause()
            reads = False  # its page reads on by itself

    async def _stop_later(self) -> None:
        await self.world.progress(self.dice.randint(1, 40))
        self.is_stopped = True
        while True:
            with suppress(Unreachable):
                async with self.world.asked("POST", f"/{self.chat_id}/stop", {}, x_user="bob") as answer:
                    if answer.status_code == 204:
                        return
                await self.world.pause()

    async def _stream(self, method: str, body: Any, *, is_whole: bool, reads: bool = True) -> tuple[int, str]:
        """Sends a request and reads the answer to its end, or until the page goes: a run, from its beginning or not."""
        path = f"/{self.chat_id}/events" if self.is_ours else "/" if method == "POST" else f"/{self.chat_id}/stream"
        headers = {"x_user": self.chat_id if reads else "bob"}
        if self.is_ours and method == "GET" and self.last_id is not None:
            headers["last_event_id"] = self.last_id
        leaves_at = self.dice.randint(1, 30) if self.dice.random() < 0.2 else None
        async with self.world.asked(method, path, body, **headers) as answer:
            if answer.status_code != 200 or not reads:
                said = await answer.aread() if answer.status_code >= 400 else b"{}"
                return answer.status_code, json.loads(said).get("error", {}).get("code", "")
            frames, is_over, self._held = 0, False, []
            try:
                async for name, frame_id, data in _frames(answer):
                    self.world.tick()
                    frames += 1
                    is_over = (self._read_own if self.is_ours else self._read_chunk)(
                        name, frame_id, data, is_whole and frames == 1
                    )
                    if frames == leaves_at:
                        break
            finally:
                if not is_over and not self.is_ours:  # such a page begins anew
                    self._shown.pop(self._run_id, None)
        return 200, ""

    def _read_own(self, name: str, frame_id: str, data: Any, begins: bool) -> bool:
        if not frame_id:
            self._held.append((data["seq"], name, data))
            return False
        number, seq = frame_id.split(".")
        self._run_id, self.last_id = f"{self.chat_id}/{number}", frame_id
        if begins or self._run_id not in self._shown:
            self._shown[self._run_id] = Shown()
        for one in (*self._held, (int(seq), name, data)):
            self._shown[self._run_id].read_own(*one)
        self._held = []
        return name == "run_end"

    def _read_chunk(self, name: str, frame_id: str, data: Any, begins: bool) -> bool:
        if data == "[DONE]":
            return True
        if data["type"] == "start":
            self._run_id = data["messageId"]
            if begins or self._run_id not in self._shown:
                self._shown[self._run_id] = Shown()
        try:
            self._shown[self._run_id].read_chunk(data)
        except AssertionError as error:
            self.world.wrong("differing", f"{self._run_id}, {self.doing}: {error}")
            raise Unreachable from error
        return False


async def _frames(answer: httpx.Response) -> AsyncIterator[tuple[str, str, Any]]:
    rest = ""
    async for piece in answer.aiter_text():
        *blocks, rest = (rest + piece).split("\n\n")
        for block in blocks:
            fields = dict(line.split(": ", 1) for line in block.split("\n") if line and not line.startswith(":"))
            if "data" in fields:
                data = fields["data"] if fields["data"] == "[DONE]" else json.loads(fields["data"])
                yield fields.get("event", ""), fields.get("id", ""), data


# -- all of it --


class World:
    """The servers, the balancer, the pages, and whoever makes trouble and judges."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place, self.address = place, place.address(folder)
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.replicas = [Replica(self.address, self.ledger) for _ in range(REPLICAS)]
        self.ports = [0] * REPLICAS
        self.counts: Counter[str] = Counter()
        self.found: list[str] = []
        self._ticks = 0
        self._ticked = asyncio.Event()
        self._is_over = False
        self._in_doubt: dict[str, float] = {}  # since when nothing stands still

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        limits, timeout = httpx.Limits(max_keepalive_connections=0), httpx.Timeout(READ_S)
        async with Balancer(self.ports).listening() as self.port:
            try:
                for at in range(REPLICAS):
                    await self._start(at)
                with store_at(self.address) as self.store:
                    async with httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as self.client:
                        yield
            finally:
                for one in self.replicas:
                    one.kill()

    # -- for pages --

    @asynccontextmanager
    async def asked(
        self, method: str, path: str, body: Any = None, *, port: int = 0, **headers: str
    ) -> AsyncIterator[httpx.Response]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = f"http://127.0.0.1:{port or self.port}{path}"
        try:
            async with self.client.stream(method, url, json=body, headers=named) as answer:
                yield answer
        except httpx.TransportError as error:
            await self.pause()
            raise Unreachable from error

    async def history(self, chat_id: str, port: int = 0) -> Any:
        async with self.asked("GET", f"/{chat_id}", port=port, x_user=chat_id) as answer:
            said = json.loads(await answer.aread())
            if answer.status_code == 503:
                await self.pause()
                raise Unreachable
            assert answer.status_code == 200, (answer.status_code, said)
            return said

    async def settle(self, run_id: str) -> bool:
        """Says how a run's calls in doubt ended, where nobody can be about to end them; False if there are none."""
        try:
            calls = [call for call in await self.store.calls() if call.key.startswith(f"{run_id}:")]
        except OSError:
            return True
        if any(one.is_paused for one in self.replicas):
            self._in_doubt.clear()
        alive, done = {one.pid for one in self.replicas}, self.ledger.read_text().split()
        for call in calls:
            since = self._in_doubt.setdefault(call.key, time.monotonic())
            if call.state != "unknown" or (call.pid in alive and time.monotonic() < since + READ_S):
                continue
            _, step, _, call_id = call.key.rsplit(":", 3)
            ref = ref_of(run_id, int(step), int(call_id[1:]))
            ran = next((one for one in (ref, edited(ref)) if one in done), None)
            with suppress(OSError):
                await self.store.settle(call.key, None if ran is None else encode_result(f"done {ran}"))
                self.counts["settled"] += 1
        return bool(calls)

    async def pause(self) -> None:
        await asyncio.sleep(0.05)

    def tick(self) -> None:
        self._ticks += 1
        self._ticked.set()

    async def progress(self, frames: int) -> bool:
        """Waits until the pages have read so many more; False if they are done before."""
        until = self._ticks + frames
        while self._ticks < until and not self._is_over:
            self._ticked.clear()
            await self._ticked.wait()
        return not self._is_over

    # -- trouble --

    async def trouble(self, dice: random.Random) -> None:
        for _ in range(dice.choice((1, 2, 3, 4))):
            if await self.progress(dice.randint(3, 80)):
                await self._trouble(dice.choice(self.place.faults), dice.randrange(REPLICAS), dice)

    async def _trouble(self, kind: str, at: int, dice: random.Random) -> None:
        self.counts[f"{kind}s"] += 1
        replica = self.replicas[at]
        if kind == "restart":
            await asyncio.to_thread(self.place.restart)
        elif kind == "pause":
            replica.is_paused = True
            os.kill(replica.pid, signal.SIGSTOP)
            await asyncio.sleep(dice.uniform(0.1, 2.5 * LEASE_S))
            os.kill(replica.pid, signal.SIGCONT)
            replica.is_paused = False
            self._in_doubt.clear()
        else:
            await (replica.die() if kind == "kill" else replica.end(signal.SIGTERM))
            await self._start(at)

    async def _start(self, at: int) -> None:
        self.ports[at] = await self.replicas[at].start()

    # -- judges --

    def wrong(self, kind: str, what: str) -> None:
        self.counts[kind] += 1
        self.found.append(f"{kind}: {what}")

    def judge(self, page: Page, message: Any, shown: list[Any]) -> None:
        """Judges a run that is over, by the message that the page has loaded of it."""
        run_id, loaded = message["id"], Shown(message["parts"]).whole()
        if shown != loaded:
            self.wrong(
                "differing", f"{run_id}, {page.protocol} behind {page.last_id}: streamed {shown}, loads {loaded}"
            )
        done = self.ledger.read_text().split()
        for part in message["parts"]:
            if part["type"] not in ("tool-pay", "tool-approve"):
                continue
            ran, state, words = str(part.get("output")).removeprefix("done "), part["state"], part.get("errorText", "")
            given = part.get("input")
            ref = given.get("ref") if isinstance(given, dict) else None
            if state == "output-available" and ref != ran:
                self.wrong("differing", f"{ran} has run, and the page shows {part}")
            if state == "output-available" and ran not in done:
                self.wrong("lost", f"{ref} has run, by {part}, and is not in the ledger")
            if state == "output-error" and "was not run" in words and {ref, edited(str(ref))} & {*done}:
                self.wrong("lost", f"{ref} has not run, by {part}, and is in the ledger")
            verdicts = page.decided.get((run_id, part["toolCallId"]), set())
            came = {"output-denied": "denied", "output-available": "edited" if ran.endswith("e") else "approved"}
            if verdicts and verdicts != {came.get(state)} and not (page.is_stopped and state == "output-error"):
                self.wrong("lost", f"{ref} was {verdicts}, which was answered 200, and is {part}")

    async def compare(self, page: Page) -> None:
        """Compares what each server has of a conversation."""
        loaded = [await self._loaded(page.chat_id, port) for port in self.ports]
        if any(one != loaded[0] for one in loaded):
            self.wrong("differing", f"{page.chat_id}: {loaded}")
        for message in loaded[0]["messages"]:
            if message["role"] == "assistant" and page.final.get(message["id"], message) != message:
                self.wrong("differing", f"{page.final[message['id']]} has become {message}")

    async def _loaded(self, chat_id: str, port: int) -> Any:
        while True:
            with suppress(Unreachable):
                return await self.history(chat_id, port)

    async def schedule(self, seed: int) -> None:
        dice = random.Random(f"replicas {seed}")
        pages = [Page(self, f"s{seed}-{at}", random.Random(dice.random())) for at in range(CONVERSATIONS)]
        trouble, self._is_over = asyncio.ensure_future(self.trouble(random.Random(dice.random()))), False
        try:
            async with asyncio.timeout(SCHEDULE_S):
                await asyncio.gather(*(page.converse() for page in pages))
                self._is_over = True
                self._ticked.set()
                await trouble
                for page in pages:
                    await self.compare(page)
        except TimeoutError:
            trouble.cancel()
            calls = [(call.key, call.state, call.pid) for call in await self.store.calls()]
            doing = [(one.chat_id, one.doing) for one in pages]
            self.wrong(
                "lost", f"a run does not come to its end: {doing}; {calls}; {[one.pid for one in self.replicas]}"
            )
        self.counts.update(schedules=1, conversations=len(pages))

    def judge_ledger(self) -> None:
        effects = [line.split() for line in self.ledger.read_text().splitlines()]
        self.counts["effects"], before = len(effects), len(self.found)
        for ref, user in effects:
            if user != ref.rpartition("/")[0]:
                self.wrong("lost", f"{ref} was run for {user}, who has not begun it")
        for ref, count in Counter(ref.removesuffix("e") for ref, _ in effects).items():
            if count > 1:
                self.wrong("doubles", f"{ref} {count} times")
        print(*self.found[before:], sep="\n", end="")


async def _run(place: Place, folder: Path, seeds: range) -> World:
    world = World(place, folder)
    async with world.running():
        for seed in seeds:
            before = len(world.found)
            await world.schedule(seed)
            if world.found[before:]:
                print(f"seed {seed}:", *world.found[before:], sep="\n  ", flush=True)
    world.judge_ledger()
    return world


def main() -> int:
    """Runs schedules; returns 1, and prints what, if anything went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=[*places], default="sqlite", help="what keeps the conversations")
    parser.add_argument("--schedules", type=int, default=50, metavar="N", help="how many (default: 50)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="that of the first one (default: 0)")
    options = parser.parse_args()
    began, seeds = time.monotonic(), range(options.seed, options.seed + options.schedules)
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # for what loads the servers' modules before it forks them
    multiprocessing.get_context("forkserver").set_forkserver_preload(["crashes.replica"])
    with tempfile.TemporaryDirectory(prefix="replicas-") as folder, places[options.on]() as place:
        world = asyncio.run(_run(place, Path(folder), seeds))
    counts, kinds = world.counts, ("doubles", "lost", "differing")
    named = ("schedules", "conversations", "kills", "stops", "pauses", "restarts", "settled", "effects", *kinds)
    words, wrong = ", ".join(f"{counts[name]} {name}" for name in named), sum(counts[name] for name in kinds)
    print(f"replicas on {options.on}: {words}; {wrong} went wrong; {time.monotonic() - began:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
