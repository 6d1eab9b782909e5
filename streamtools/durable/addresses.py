"""Finds the store that an address names."""

from __future__ import annotations

import os
from typing import Any
from weakref import WeakValueDictionary

from .record_store import RecordStore

_known: WeakValueDictionary[str, RecordStore] = WeakValueDictionary()  # so that runs share a connection


def store_of(given: str | os.PathLike[str] | RecordStore) -> RecordStore:
    """Returns a given store, or the store in a file or at the URL of a Postgres or Redis server.

    Raises:
        TypeError: `given` is none of these.
        ValueError: the URL is of another kind, or invalid; also the errors of `SqliteStore`.
    """
    if isinstance(given, RecordStore):
        return given
    if not isinstance(given, (str, os.PathLike)):
        text = "the path of a file, the URL of a Postgres or Redis server, or a store"
        raise TypeError(f"expected {text}, got {type(given).__name__}")
    scheme, colon, _ = given.partition("://") if isinstance(given, str) else ("", "", "")
    if not colon:
        from .store_sqlite import SqliteStore

        return SqliteStore(given)
    assert isinstance(given, str), "has a scheme"
    if (known := _known.get(given)) is not None and not known.is_closed:
        return known
    made: Any
    if scheme in ("postgres", "postgresql"):
        from .store_postgres import PostgresStore as made
    elif scheme in ("redis", "rediss", "unix"):
        from .store_redis import RedisStore as made
    else:
        raise ValueError(f"expected a URL that begins with postgresql:// or redis://, got one with {scheme[:20]}://")
    store: RecordStore = made(given)
    _known[given] = store
    return store
