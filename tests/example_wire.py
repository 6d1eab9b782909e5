"""The wire of ``examples/own_wire.py``, which the package does not know."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from streamtools.wires import Wire, register, unregister

_FILE = Path(__file__).resolve().parents[1] / "examples" / "own_wire.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_wire", _FILE)
    assert spec.loader is not None
    module = sys.modules.setdefault("own_wire", importlib.util.module_from_spec(spec))
    spec.loader.exec_module(module)
    return module


OWN = _load()
EXAMPLE: Wire = OWN.EXAMPLE


@contextmanager
def known_by_name(wire: Wire) -> Iterator[Wire]:
    """Registers a wire for a while."""
    register(wire)
    try:
        yield wire
    finally:
        unregister(wire)
