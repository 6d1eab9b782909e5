"""One table of all readers: ``python -m benchmarks.compare [--peers A,B] [--rounds N] [--python EXE] [--json FILE]``.

Each reader runs in as many fresh processes as there are rounds; the rounds take turns, so that what else the machine
does hits all of them. A reader that is not installed is left out, and named with what would bring it. Libraries that
cannot live in one environment are looked for in the other interpreters that ``--python`` names.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from .figures import Figures, Row, fastest, save, table
from .peers import PEERS, Peer

REPOSITORY = Path(__file__).resolve().parents[2]
MAX_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Turn:
    """A reader, a wire, and the interpreter that has what it needs."""

    peer: Peer
    wire: str
    python: str
    versions: dict[str, str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print the table, and write the figures down if asked to."""
    options = _options(arguments)
    turns = list(_turns(options.peers, [sys.executable, *options.python]))
    measured: dict[int, list[Any]] = defaultdict(list)
    for number in range(1, options.rounds + 1):
        for at, turn in enumerate(turns):
            print(f"round {number}: {turn.peer.name}, {turn.wire} ...", file=sys.stderr)
            measured[at].append(_child(turn.python, turn.peer.key, turn.wire))
    figures = Figures(
        date=datetime.now(UTC).date().isoformat(),
        python=platform.python_version(),
        rounds=options.rounds,
        versions=_versions(turns),
        rows=tuple(row for at, turn in enumerate(turns) for row in _rows(turn, measured[at])),
    )
    print("\n".join(table(figures)))
    if options.json is not None:
        save(figures, options.json)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description="One table of all readers.")
    known = ", ".join(peer.key for peer in PEERS)
    parser.add_argument("--peers", type=_peers, default=PEERS, metavar="A,B", help=f"only these, of {known}")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="fresh processes for each (default: 3)")
    parser.add_argument("--python", action="append", default=[], metavar="EXE", help="another interpreter to look in")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    return parser.parse_args(arguments)


def _peers(keys: str) -> tuple[Peer, ...]:
    wanted = keys.split(",")
    if unknown := set(wanted) - {peer.key for peer in PEERS}:
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return tuple(peer for peer in PEERS if peer.key in wanted)


def _turns(peers: Iterable[Peer], pythons: Sequence[str]) -> Iterator[Turn]:
    """Who is measured where; who is not installed is named."""
    installed = {python: _child(python, "--versions") for python in pythons}
    for peer in peers:
        for wire in peer.wires:
            needed = peer.distributions(wire)
            found = (python for python in pythons if all(installed[python][name] for name in needed))
            if python := next(found, None):
                yield Turn(peer, wire, python, {name: installed[python][name] for name in needed})
            else:
                print(f"SKIPPED {peer.name} on {wire}: needs {' and '.join(needed)}.", file=sys.stderr)
                print(f"        pip install -e '.[{peer.extra}]'", file=sys.stderr)


def _child(python: str, *arguments: str) -> Any:
    command = [python, "-m", "benchmarks.compare.child", *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, check=True, stdout=subprocess.PIPE, timeout=MAX_SECONDS)
    return orjson.loads(done.stdout.splitlines()[-1])


def _versions(turns: Iterable[Turn]) -> dict[str, dict[str, str]]:
    versions: dict[str, dict[str, str]] = defaultdict(dict)
    for turn in turns:
        versions[turn.peer.key] |= turn.versions
    return dict(versions)


def _rows(turn: Turn, rounds: Sequence[dict[str, Any]]) -> Iterator[Row]:
    for workload in rounds[0]:
        best = fastest(measured[workload] for measured in rounds)
        yield Row(peer=turn.peer.key, wire=turn.wire, workload=workload, **best)


if __name__ == "__main__":
    main()
