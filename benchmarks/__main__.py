"""Every figure in one table: ``python -m benchmarks [GROUP ...] [--json FILE]``; see `benchmarks.targets`."""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from .measure import Figure, environment
from .targets import load, save, show

GROUPS = (
    "runs", "text", "arguments", "dispatch", "overhead", "telemetry", "tap", "chats", "records", "tools",
)  # fmt: skip


def main() -> None:
    """Runs all benchmarks, prints their figures, and writes them down if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast streamtools is.")
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=f"only these, of {', '.join(GROUPS)}")
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the figures into FILE, each group once it is measured"
    )
    options = parser.parse_args()
    if unknown := set(options.groups) - set(GROUPS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    facts = environment()
    figures: dict[str, list[Figure]] = {}
    if options.json is not None and options.groups and options.json.exists():  # the other groups stay as they are
        _, written = load(options.json)
        for figure in written:
            figures.setdefault(figure.name.partition(":")[0], []).append(figure)
    for group in options.groups or GROUPS:
        print(f"{group} ...", end="", file=sys.stderr, flush=True)
        begun = time.monotonic()
        found = import_module(f".bench_{group}", __package__).run()
        print(f" {time.monotonic() - begun:.0f} s", file=sys.stderr)
        figures[group] = [replace(figure, name=f"{group}: {figure.name}") for figure in found]
        if options.json is not None:
            save(options.json, facts, [figure for group in GROUPS for figure in figures.get(group, ())])
    print(", ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, str | int) and value))
    show(figure for group in options.groups or GROUPS for figure in figures[group])


if __name__ == "__main__":
    main()
