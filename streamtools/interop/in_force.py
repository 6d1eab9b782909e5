"""The registry of the request that a task is part of; and the warning for whoever passes it by."""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["DefaultRegistryWarning", "put_in_force", "warn_if_bypassed"]


class DefaultRegistryWarning(UserWarning):
    """The registry of last resort is used where a request has its own."""


_IN_FORCE: ContextVar[Callable[[], object | None] | None] = ContextVar("tool_interop_registry", default=None)


def put_in_force(registry: object) -> None:
    """Note that this task, and those that it starts, belong to a request with a registry of its own, as long as that
    registry lives."""
    _IN_FORCE.set(weakref.ref(registry))


def warn_if_bypassed() -> None:
    """Warn, where the caller of this package stands, if this task's request has a registry of its own."""
    in_force = _IN_FORCE.get()
    if in_force is not None and in_force() is not None:
        warnings.warn(
            "the default tool interop registry is used although this request has one of its own, so that what its "
            "provider and tools contribute is bypassed; use get_registry_from_context(context)",
            DefaultRegistryWarning,
            stacklevel=_frames_of_ours(),
        )


def _frames_of_ours() -> int:
    """How many frames up the first caller is that is not of this package, as `warnings.warn` counts them."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__package__") == __package__:
        frame, count = frame.f_back, count + 1
    return count
