"""Fetches a trace from a Jaeger by the address that a browser shows: ``http://localhost:16686/trace/ID``.

It makes one request or two: ``/api/v3/traces/ID``, and ``/api/traces/ID`` where the first is not known. Nothing else is
opened: no redirect is followed, and no proxy is asked. An address with a name or a password is refused; its query and
its fragment are neither sent nor shown.
"""

from __future__ import annotations

import http.client
import re
import socket
import time
from contextlib import closing
from threading import Timer
from typing import NamedTuple
from urllib.parse import urlsplit

from ..errors import StreamToolsError
from ..text import one_line
from ..view.span_files import is_trace, load_documents

__all__ = ["MOST_BYTES", "TIMEOUT_S", "TraceAddress", "fetch_trace", "trace_address"]

MOST_BYTES = 256 << 20
"""Of one answer."""
TIMEOUT_S = 60.0
"""Seconds for each request, from the connection to the last byte."""

_PIECE = 1 << 20  # bytes that are read at a time
_SHOWN = 200  # characters of an address in a message
_PATH = re.compile(r"(?P<base>[!-~]*?)/(?:trace|api/traces|api/v3/traces)/(?P<trace>[0-9A-Fa-f]{1,32})/?")
_CONNECTIONS = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


class TraceAddress(NamedTuple):
    """The address of a trace. Its text is safe to show."""

    scheme: str
    host: str
    port: int | None
    base: str
    trace: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port is None else f":{self.port}"
        return one_line(f"{self.scheme}://{host}{port}{self.base}/trace/{self.trace}", _SHOWN)


def trace_address(address: str) -> TraceAddress:
    """Reads an address.

    Raises:
        StreamToolsError: it is not the address of a trace, or has a password.
    """
    # Nothing of the address is in a message before it is known to have no password.
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError as error:
        raise StreamToolsError("cannot fetch that address: its host or its port makes no sense") from error
    if parts.username is not None or parts.password is not None:
        raise StreamToolsError("cannot fetch an address with a name or a password in it: save the trace to a file")
    if parts.scheme not in _CONNECTIONS or not parts.hostname:
        raise StreamToolsError(
            f"cannot fetch {one_line(parts.scheme, 20)}://…: expected http:// or https:// and a host"
        )
    found = _PATH.fullmatch(parts.path)
    if found is None:
        host = one_line(parts.hostname, _SHOWN)
        raise StreamToolsError(f"cannot fetch from {host}: expected a path that ends in /trace/ID, in hexadecimal")
    return TraceAddress(parts.scheme, parts.hostname, port, found["base"], found["trace"].lower())


def fetch_trace(place: TraceAddress, *, most_bytes: int = MOST_BYTES, timeout_s: float = TIMEOUT_S) -> list[object]:
    """Returns the documents of a trace, as parsed JSON.

    Raises:
        StreamToolsError: nothing at the address answers with a trace, or not within the bounds.
    """
    answers = []
    for path in ("/api/v3/traces/", "/api/traces/"):
        try:
            status, content = _get(place, f"{place.base}{path}{place.trace}", most_bytes, timeout_s)
        except _Refused as error:
            raise StreamToolsError(f"cannot fetch {place}: {error}") from error
        except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last of a host's name
            words = getattr(error, "strerror", None) or type(error).__name__
            raise StreamToolsError(f"cannot fetch {place}: {one_line(words, _SHOWN)}") from error
        documents = _documents(content) if status == http.HTTPStatus.OK else []
        if any(map(is_trace, documents)):
            return documents
        answers.append(f"{path}… answered {status}{'' if status != http.HTTPStatus.OK else ' without a trace'}")
    raise StreamToolsError(f"cannot fetch {place}: {', '.join(answers)}")


def _documents(content: bytes) -> list[object]:
    try:
        return load_documents(content).documents
    except (ValueError, RecursionError):  # the page of a Jaeger that does not know the path
        return []


class _Refused(Exception):
    """An answer that is not read to its end."""


def _get(place: TraceAddress, path: str, most_bytes: int, timeout_s: float) -> tuple[int, bytes]:
    """Returns the status and the body of an answer."""
    ends = time.monotonic() + timeout_s
    with closing(_CONNECTIONS[place.scheme](place.host, place.port, timeout=timeout_s)) as connection:
        connection.connect()
        opened: socket.socket = connection.sock
        # The connection's own timeout is one for each read, of which a slow server may cause any number.
        timer = Timer(max(0.0, ends - time.monotonic()), _shut, [opened])
        timer.daemon = True
        timer.start()
        try:
            connection.request("GET", path, headers={"Accept": "application/json"})
            with connection.getresponse() as response:
                body = _bounded(response, most_bytes)
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() >= ends:
                raise _Refused(f"no whole answer within {timeout_s:g} s") from error
            raise
        finally:
            timer.cancel()
    if time.monotonic() >= ends:  # a body without a length may just end
        raise _Refused(f"no whole answer within {timeout_s:g} s")
    return response.status, body


def _bounded(response: http.client.HTTPResponse, most_bytes: int) -> bytes:
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        size += len(piece)
        if size > most_bytes:
            raise _Refused(f"the answer has more than {most_bytes} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _shut(opened: socket.socket) -> None:
    try:
        opened.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return
