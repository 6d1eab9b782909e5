"""Keeps the tracer of each provider, since making one costs a fifth of a step's spans."""

from __future__ import annotations

import weakref
from functools import partial

from opentelemetry import trace

from .._version import __version__

__all__ = ["tracer_of"]

# By the provider's identity: Logfire's has an equality of its own, and no hash.
_tracers: dict[int, dict[str | None, trace.Tracer]] = {}


def tracer_of(provider: trace.TracerProvider | None, schema_url: str | None) -> trace.Tracer:
    """Returns the tracer of a provider, or of the global one."""
    if provider is None:  # the global one, which may still be set: its stand-in must not be kept
        return trace.get_tracer("streamtools", __version__, None, schema_url)
    known = _tracers.get(id(provider))
    if known is None:
        known = {}
        if _watched(provider):
            _tracers[id(provider)] = known
    if schema_url not in known:
        known[schema_url] = trace.get_tracer("streamtools", __version__, provider, schema_url)
    return known[schema_url]


def _watched(provider: trace.TracerProvider) -> bool:
    """Has the tracers of a provider forgotten with it; returns False if its end cannot be told."""
    try:
        weakref.finalize(provider, partial(_tracers.pop, id(provider), None)).atexit = False
    except TypeError:
        return False
    return True
