"""Awaits the request for a step's response, which counts towards the times of its step and its run.

An awaitable comes in, its result goes out: the stream. A request that takes too long is cancelled, and is a
`DeadlineExceeded` that names the limit.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

from anyio import move_on_after

from ..errors import DeadlineExceeded
from ..limits import Limits

__all__ = ["in_time"]


async def in_time(request: Awaitable[Any], limits: Limits, *, requested_at: float, began_at: float) -> Any:
    """Awaits a request, within the times for the first chunk and the run.

    Args:
        request: the request.
        limits: the times.
        requested_at: when it was made, on ``time.monotonic``.
        began_at: when the run began.

    Raises:
        DeadlineExceeded: it took too long.
    """
    ends = [
        (began + seconds, name, seconds)
        for name, seconds, began in (
            ("first_chunk_timeout", limits.first_chunk_timeout, requested_at),
            ("run_timeout", limits.run_timeout, began_at),
        )
        if seconds is not None
    ]
    if not ends:
        return await request
    end, name, seconds = min(ends)
    with move_on_after(end - time.monotonic()):
        return await request
    raise DeadlineExceeded(name, seconds, "the request was not answered")
