"""Every figure in one table: ``python -m benchmarks [--json FILE]``. It takes some minutes."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import orjson

from . import (
    bench_arguments,
    bench_bounds,
    bench_chats,
    bench_concurrency,
    bench_dispatch,
    bench_overhead,
    bench_records,
    bench_tap,
    bench_telemetry,
    bench_text,
    bench_tools,
)
from .measure import Figure, environment, record, show

BENCHMARKS = (
    bench_text,
    bench_arguments,
    bench_dispatch,
    bench_overhead,
    bench_telemetry,
    bench_tap,
    bench_chats,
    bench_records,
    bench_concurrency,
    bench_bounds,
    bench_tools,
)


def main() -> None:
    """Run all benchmarks, print their figures, and write them down if asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="How fast streamtools is.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures and the machine's facts to FILE")
    options = parser.parse_args()
    facts = environment()
    figures: list[Figure] = []
    for benchmark in BENCHMARKS:
        group = benchmark.__name__.partition("bench_")[2]
        print(f"{group} ...", file=sys.stderr)
        figures += (replace(figure, name=f"{group}: {figure.name}") for figure in benchmark.run())
    print(", ".join(f"{name} {value}" for name, value in facts.items() if isinstance(value, str | int) and value))
    show(figures)
    if options.json is not None:
        written = {"environment": facts, "load_after": environment()["load"], "figures": record(figures)}
        options.json.write_bytes(orjson.dumps(written, option=orjson.OPT_INDENT_2) + b"\n")


if __name__ == "__main__":
    main()
