"""Starts a database, four workers and a balancer on loopback, and each worker again that has ended. Kill one of them.

python -m examples.replicas                         a Postgres of its own, in a temporary directory
python -m examples.replicas --url postgresql://...  one of yours
python -m examples.replicas --sqlite                a file, as the processes of one machine can have it
python -m examples.replicas --demo                  shows what happens, and ends
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack, suppress
from pathlib import Path

try:
    import httpx  # noqa: F401
    import psycopg  # noqa: F401
    import starlette  # noqa: F401
    import uvicorn  # noqa: F401
except ModuleNotFoundError as error:
    sys.exit(f"{error.name} is not installed: pip install starlette uvicorn httpx 'psycopg[binary]'")

from .balancer import Balancer
from .postgres import cluster
from .tour import Tour

PORT = 8000
WORKERS = 4
ROOT = Path(__file__).parents[2]


class Workers:
    """Processes that are started again when they end."""

    def __init__(self, *arguments: str) -> None:
        self._arguments = arguments
        self._running: list[asyncio.subprocess.Process] = []
        self._names: dict[int, str] = {}
        self.ports = [0] * WORKERS

    async def start(self, at: int) -> None:
        """Starts one, and waits until it takes connections."""
        command = [sys.executable, "-m", "examples.replicas.worker", *self._arguments]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, cwd=ROOT, start_new_session=True
        )
        self._running[at : at + 1] = [process]
        assert process.stdout is not None
        self.ports[at] = int(await process.stdout.readline() or sys.exit("A worker has not started."))
        self._names[process.pid] = f"Worker {at + 1} (process {process.pid})"

    async def keep(self, at: int) -> None:
        """Starts one again whenever it ends."""
        while True:
            pid, status = self._running[at].pid, await self._running[at].wait()
            await self.start(at)
            why = signal.Signals(-status).name if status < 0 else f"status {status}"
            print(
                f"{self._names[pid]} has ended by {why}; process {self._running[at].pid} is in its place.", flush=True
            )

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [process.pid for process in self._running]

    def name(self, pid: int) -> str:
        """Returns the name of a worker."""
        return self._names[pid]

    async def end(self) -> None:
        """Ends all of them."""
        for process in self._running:
            with suppress(ProcessLookupError):
                process.terminate()
        await asyncio.gather(*(process.wait() for process in self._running))


async def main(options: argparse.Namespace) -> None:
    """Serves until it is interrupted, or its tour is over."""
    with ExitStack() as places, tempfile.TemporaryDirectory() as folder:
        database = None if options.url or options.sqlite else places.enter_context(cluster())
        where = options.url or (str(Path(folder) / "chats.db") if database is None else database.url)
        workers = Workers(where, folder, "0.01" if options.demo else "0.05")
        async with AsyncExitStack() as stack:
            stack.push_async_callback(workers.end)
            for at in range(WORKERS):
                await workers.start(at)
            balancer = Balancer(workers.ports)
            port = await stack.enter_async_context(balancer.listening(0 if options.demo else options.port))
            print(
                f"The chat is at http://127.0.0.1:{port}/, by {', '.join(map(workers.name, workers.pids))}.", flush=True
            )
            print(f"Conversations are kept in {where}", flush=True)
            keeping = [asyncio.ensure_future(workers.keep(at)) for at in range(WORKERS)]
            try:
                if not options.demo:
                    print(f"Ask something, and kill -9 {workers.pids[0]}. Ctrl+C ends it.", flush=True)
                    await asyncio.gather(*keeping)
                await Tour(port, workers.name).run(None if database is None else database.restart)
            finally:
                for one in keeping:
                    one.cancel()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="the Postgres that keeps the conversations")
    parser.add_argument("--sqlite", action="store_true", help="keep the conversations in a file")
    parser.add_argument("--port", type=int, default=PORT, help=f"of the balancer (default: {PORT})")
    parser.add_argument("--demo", action="store_true", help="show what happens when workers are killed, and end")
    with suppress(KeyboardInterrupt):
        asyncio.run(main(parser.parse_args()))
