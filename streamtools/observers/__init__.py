"""Defines the observers of a pipeline, which see every event and change nothing. `Cursor` keeps a run's record.

    cursor = Cursor()
    run = Trajectory(observers=[cursor])
    ...
    cursor.at("call_1").outcome            how a call ended: proposed, refused, run, failed
    cursor.since(cursor.at("call_1").seq)  the events from there on

The boundaries that a cursor keeps are the events that are not deltas. Their `causes` show which led to which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ground.on_demand import names
from .contracts import (
    EarlyEnd,
    EarlyObserver,
    Observer,
    PartsObserver,
    PrivacyFacts,
    PrivacyObserver,
    RunFacts,
    RunObserver,
    ServerObserver,
    StreamFacts,
    StreamObserver,
    Withheld,
)

if TYPE_CHECKING:
    from ..record.cursor import Cursor, CursorPoint
else:
    __getattr__ = names(__name__, {".record.cursor": "Cursor CursorPoint"})

__all__ = [
    "Cursor", "CursorPoint", "EarlyEnd", "EarlyObserver", "Observer", "PartsObserver", "PrivacyFacts",
    "PrivacyObserver", "RunFacts", "RunObserver", "ServerObserver", "StreamFacts", "StreamObserver", "Withheld",
]  # fmt: skip
