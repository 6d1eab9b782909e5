"""A worker's own side of the handshake, driven in this process."""

from __future__ import annotations

import io
import json
import os
import threading
from typing import Any

import executor_tools
import pytest
from executor_tools import worker_id
from processes import wait_for

from streamtools import Tool, tool
from streamtools.dispatch.executors.worker import (
    CALL,
    DROP,
    FAILED,
    GO,
    HEADER,
    READY,
    REFUSED,
    REPORT,
    RESULT,
    PipeFrame,
    Server,
)


class Pipes:
    """A worker's server between two pipes, in a thread; `died` is set where a process would have ended itself."""

    def __init__(self, sink: io.BytesIO | None = None) -> None:
        taken, given = os.pipe()
        self.to_worker = os.fdopen(given, "wb", buffering=0)
        self.from_worker = io.BytesIO() if sink is None else sink
        self.died = threading.Event()
        self._source = os.fdopen(taken, "rb")
        self.thread = threading.Thread(target=Server(self._source, self.from_worker, self.died.set).serve)
        self.thread.start()
        self._number = 0

    def ask(self, made: Tool[..., Any], place: str, backend: str = "asyncio", /, **arguments: Any) -> None:
        request = {
            "call": {"tool": made.name, "arguments": arguments, "key": "k"},
            "reference": "executor_tools:" + place,
            "fingerprint": made.fingerprint,
            "max_message_bytes": 10_000,
            "backend": backend,
        }
        self._number += 1
        self.tell(CALL, json.dumps(request).encode())

    def tell(self, kind: bytes, data: bytes = b"", number: int | None = None) -> None:
        self.to_worker.write(PipeFrame(kind, number or self._number, data).packed())

    def run(self, name: str, backend: str = "asyncio", seconds: float | None = None, /, **arguments: Any) -> None:
        made = tool(getattr(executor_tools, name))
        self.ask(made, name, backend, **arguments)
        self.tell(GO, json.dumps({"carrier": {}, "seconds": seconds, "spans": False}).encode())

    def wait_for(self, kind: bytes) -> None:
        wait_for(lambda: kind in kinds_of(self.from_worker.getvalue()))

    def close(self) -> list[bytes]:
        """End it; returns the kinds of all that it has said."""
        self.to_worker.close()
        self.thread.join(20)
        assert not self.thread.is_alive()
        self._source.close()
        return kinds_of(self.from_worker.getvalue())


def kinds_of(said: bytes) -> list[bytes]:
    kinds, at = [], 0
    while at < len(said):
        length, kind, number, pid = HEADER.unpack_from(said, at)
        assert pid == os.getpid()
        assert number > 0
        at += HEADER.size + length
        kinds.append(kind)
    return kinds


def gate(name: str) -> tuple[threading.Event, threading.Event]:
    """Returns two events: the tool has begun, and it may end."""
    return executor_tools.GATES.setdefault(name, (threading.Event(), threading.Event()))


def test_a_worker_keeps_the_time_itself_if_its_executor_cannot() -> None:
    pipes, (begun, end) = Pipes(), gate("deadline")
    pipes.run("wait_at", "asyncio", -5, name="deadline")
    assert begun.wait(20)
    assert pipes.died.wait(20)
    end.set()
    assert pipes.close() == [READY, RESULT]


def test_a_worker_whose_executor_goes_while_a_tool_runs_ends_at_once() -> None:
    pipes, (begun, end) = Pipes(), gate("gone")
    pipes.run("wait_at", name="gone")
    assert begun.wait(20)
    pipes.to_worker.close()
    assert pipes.died.wait(20)
    end.set()
    pipes.close()


def test_a_worker_that_is_idle_ends_by_itself_when_its_executor_goes() -> None:
    pipes = Pipes()
    assert pipes.close() == []
    assert not pipes.died.is_set()


def test_a_worker_whose_executor_goes_instead_of_saying_go_runs_nothing() -> None:
    pipes = Pipes()
    pipes.ask(worker_id, "worker_id")
    assert pipes.close() == [READY]
    assert not pipes.died.is_set()


@pytest.mark.parametrize(("kind", "number"), [(GO, 9), (DROP, 9), (CALL, None), (RESULT, None)])
def test_a_worker_that_is_told_what_does_not_fit_runs_nothing_and_ends(kind: bytes, number: int | None) -> None:
    pipes = Pipes()
    pipes.ask(worker_id, "worker_id")
    pipes.tell(kind, b"{}", number)
    pipes.thread.join(20)
    assert pipes.close() == [READY]


def test_a_worker_that_is_told_to_go_without_a_call_ends() -> None:
    pipes = Pipes()
    pipes.tell(GO, b"{}")
    pipes.thread.join(20)
    pipes.close()


def test_a_worker_whose_answers_nobody_reads_ends() -> None:
    class Broken(io.BytesIO):
        def write(self, data: Any, /) -> int:
            raise BrokenPipeError

    pipes = Pipes(Broken())
    pipes.ask(worker_id, "worker_id")
    pipes.tell(DROP)
    pipes.ask(worker_id, "worker_id", wrong=1)
    pipes.thread.join(20)
    pipes.close()


def test_a_worker_answers_each_call_with_one_last_word() -> None:
    pipes, plain = Pipes(), tool(executor_tools.plain)
    pipes.run("plain", "asyncio", 60, number=1)
    pipes.ask(plain, "plain", wrong=1)
    pipes.ask(worker_id, "plain", number=1)
    pipes.ask(plain, "plain", number=1)
    pipes.tell(DROP)
    expected = [READY, RESULT, REFUSED, REFUSED, READY]
    for name, backend, arguments, said in RUNS:
        pipes.run(name, backend, **arguments)
        expected += [READY, *said]
    wait_for(lambda: len(kinds_of(pipes.from_worker.getvalue())) == len(expected))
    assert pipes.close() == expected


def test_a_thread_that_a_tool_has_left_behind_is_not_heard() -> None:
    pipes = Pipes()
    pipes.run("report_late")
    wait_for(executor_tools.REPORTED_LATE.is_set)
    assert pipes.close() == [READY, RESULT]


RUNS: list[tuple[str, Any, dict[str, Any], list[bytes]]] = [
    ("large", "asyncio", {"size": 20_000}, [FAILED]),
    ("value_of", "asyncio", {"kind": "quoted"}, [FAILED]),
    ("value_of", "asyncio", {"kind": "numbers within"}, [RESULT]),
    ("value_of", "asyncio", {"kind": "a result"}, [RESULT]),
    ("leave", "asyncio", {"how": "exit"}, [FAILED]),
    ("end_oddly", "asyncio", {"kind": "Mute"}, [FAILED]),
    ("talk", "asyncio", {}, [FAILED]),
    ("report", "asyncio", {"what": "lock"}, [FAILED]),
    ("report", "asyncio", {"what": "large"}, [REPORT, RESULT]),
    ("report", "asyncio", {"what": "endless"}, [FAILED]),
    ("report", "asyncio", {"what": "quoted"}, [FAILED]),
    ("behind_a_wrapper", "trio", {"number": 1}, [RESULT]),
    ("count", "asyncio", {"to": 1}, [REPORT, RESULT]),
]
