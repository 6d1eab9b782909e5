"""Measures what each loop does with the same bytes: ``python -m benchmarks.same_bytes [--python EXE ...]``.

Peers cannot all live in one environment, so each is looked for in this interpreter and in those that ``--python``
names. The result is ``benchmarks/peers.json``; ``docs/same_bytes.py`` makes the tables of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ..bodies import CHAT, RESPONSES
from .answers import ANSWERS, PAYS, Bank, Piece, Server, two_calls
from .loops import PEERS, Loop, Peer

STORED = Path(__file__).resolve().parent.parent / "peers.json"
PATIENCE_S = 120


def main() -> None:
    """Asks each interpreter for the peers that it has, and writes what they did."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", action="append", default=[], metavar="EXE", help="another interpreter to look in")
    options = parser.parse_args()
    peers: dict[str, Any] = {}
    for peer in PEERS:
        for python in (sys.executable, *options.python):
            if (met := _child(python, "measure", peer.key)) is not None:
                peers[peer.key] = met
                break
        else:
            sys.exit(f"{peer.key}: no interpreter has {', '.join(peer.packages)}")
    met_at = datetime.now(UTC).date().isoformat()
    STORED.write_text(json.dumps({"date": met_at, "peers": peers}, indent=1) + "\n", encoding="utf-8")


def _child(python: str, *arguments: str) -> Any:
    command = [python, "-W", "ignore", "-m", "benchmarks.same_bytes", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10 * PATIENCE_S, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


# -- in an environment that has the peer --


def measure(peer: Peer) -> dict[str, Any] | None:
    """Returns what the peer did with each answer; None if it is not installed here."""
    try:
        versions = {name: version(name) for name in peer.packages}
    except PackageNotFoundError:
        return None
    with tempfile.TemporaryDirectory() as folder:
        rows = {row: asyncio.run(_run(peer.loop, ANSWERS[row])) for row in ANSWERS if row in peer.rows}
        if "started" in peer.rows:
            rows["started"] = asyncio.run(_started(peer.loop))
        if "killed" in peer.rows:
            rows["killed"] = _killed(peer.key, Path(folder))
    return {"versions": versions, "rows": rows}


async def _run(loop: Loop, answer: list[Piece], wire: str = CHAT, bank: Bank | None = None) -> dict[str, Any]:
    bank, server, error = bank or Bank(), Server(answer, wire), None
    with tempfile.TemporaryDirectory() as folder:
        try:
            await asyncio.wait_for(loop(server, bank.pay, wire, Path(folder)), PATIENCE_S)
        except Exception as raised:
            error = type(raised).__name__
    assert server.requests, error
    return {"paid": bank.paid, "error": error, "read": server.results(), "requests": len(server.requests)}


async def _started(loop: Loop) -> dict[str, Any]:
    bank, early = Bank(), False

    async def between() -> None:
        nonlocal early
        # A loop that starts calls at the end of the response does so after this: the wait has to end by itself.
        for _ in range(200):
            await asyncio.sleep(0)
        early = bank.first.is_set()

    met = await _run(loop, two_calls(between), RESPONSES, bank)
    assert sorted(bank.paid) == ["Ada", "Bob"], met
    return {**met, "early": early}


def _killed(key: str, folder: Path) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.same_bytes", "die", key, str(folder)]
    codes, words = [], ""
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        codes.append(done.returncode)
        words = done.stderr[-2000:]
    assert codes == [9, 0], (codes, words)
    unresolved = folder / "unresolved"
    count = int(unresolved.read_text()) if unresolved.exists() else 0
    return {"paid": (folder / "paid").read_text().split(), "unresolved": count}


if __name__ == "__main__":
    by_key = {peer.key: peer for peer in PEERS}
    match sys.argv[1:]:
        case ["measure", key]:
            logging.disable()
            print(json.dumps(measure(by_key[key])))
        case ["die", key, folder]:
            at = Path(folder)
            asyncio.run(by_key[key].loop(Server(PAYS), Bank(at / "paid").pay, CHAT, at))
        case _:
            main()
