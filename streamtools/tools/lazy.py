"""A tool whose function is expensive to have: loaded at the first call, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["LazyFunction"]


class LazyFunction:
    """A function that is loaded when it is first called, once, whatever the number of threads that call.

    A call that comes while another loads waits for it. A loader that raises fails that call; the next one tries again.

    Args:
        load: returns the function that runs: sync, or async for a dispatcher that awaits what comes back.
    """

    def __init__(self, load: Callable[[], Callable[..., Any]]) -> None:
        self._load = load
        self._loaded: Callable[..., Any] | None = None
        self._lock = threading.RLock()  # a loader that calls its own tool recurses into an error, and hangs nobody

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Loads the function if need be, and calls it."""
        loaded = self._loaded
        if loaded is None:
            loaded = self._first()
        return loaded(*args, **kwargs)

    def _first(self) -> Callable[..., Any]:
        with self._lock:
            if self._loaded is None:
                loaded = self._load()
                if not callable(loaded):
                    raise TypeError(f"lazy: the loader returned a {type(loaded).__name__}, which cannot be called")
                self._loaded = loaded
            return self._loaded
