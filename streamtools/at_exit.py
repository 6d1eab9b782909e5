"""What an open block has to say when the program ends around it.

An asyncio program that is interrupted while it closes its loop never resumes its coroutines, so that no ``finally`` of
theirs runs. Observers are then told the rest here, at the interpreter's end.
"""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Protocol

__all__ = ["settle_at_exit", "settle_open"]


class _Block(Protocol):
    def settle_at_exit(self) -> None: ...


_open: weakref.WeakSet[_Block] = weakref.WeakSet()


def settle_at_exit(block: _Block) -> None:
    """Have a block settled when the interpreter ends, unless it is gone by then."""
    _open.add(block)


@atexit.register
def settle_open() -> None:
    """Settle the blocks that are open, and that no event loop will ever leave."""
    for block in list(_open):
        try:
            block.settle_at_exit()
        except BaseException:  # an interrupt has nothing left to interrupt, and there are others to settle
            continue


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open.clear)  # they are the parent's
