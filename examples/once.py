"""A worker that charges an order once, though it is killed in the middle and the message comes again.

    python examples/once.py

The store is a file; `PostgresStore` or `RedisStore` in its place serves several machines.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from streamtools.dispatch import SqliteStore
from streamtools.durable import once
from streamtools.errors import ToolOutcomeUnknown

folder = Path(sys.argv[1]) if len(sys.argv) > 1 else None


def worker(folder: Path, order: str, *, dies: bool) -> None:
    with SqliteStore(folder / "calls.db") as store:

        @once(store, key=lambda order: f"charge:{order}")
        def charge(order: str) -> str:
            with (folder / "bank.txt").open("a") as bank:
                bank.write(f"{order}\n")
            if dies:
                os._exit(1)  # as if it were killed, behind the charge
            return f"receipt {order}"

        try:
            print(charge(order))
        except ToolOutcomeUnknown as error:
            print(f"{order}: {error}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for order, dies in (("7", "no"), ("7", "no"), ("8", "yes"), ("8", "no")):
            subprocess.run([sys.executable, __file__, name, order, dies], check=False)
        print("charged:", (Path(name) / "bank.txt").read_text().split())


if __name__ == "__main__":
    main() if folder is None else worker(folder, sys.argv[2], dies=sys.argv[3] == "yes")
