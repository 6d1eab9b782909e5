"""Finds out, from an exception of any client library, how a request or stream failed, and whether to ask again.

Attributes and the names of classes decide, so that no library is imported.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..errors import DeadlineExceeded, ProviderError, RequestError, StreamError, TruncatedStream
from ..ground.text import class_name
from ..parts import Failure, RequestOutcome

_LONGEST_S = 86_400.0  # that a provider may ask to wait for: a day
_FIRST_ERROR = 400  # of the HTTP statuses
_PASSING = frozenset({408, 409, 425, 429})  # statuses below 500 that may be another one soon
_OF_ONE_PROVIDER = frozenset({401, 402, 403, 404})
"""Statuses that another provider need not answer with: a key, a bill, a model."""

# The classes that libraries derive from, whose own names differ: openai and anthropic; httpx; aiohttp; requests;
# urllib3; botocore; http.client; websockets; anyio.
_OF_CONNECTIONS = frozenset(
    {
        "APIConnectionError", "BrokenResourceError", "ChunkedEncodingError", "ClientConnectionError",
        "ClientPayloadError", "ConnectionClosed", "ConnectionError", "HTTPClientError", "IncompleteRead",
        "ProtocolError", "SSLError", "TransportError", "gaierror",
    }
)  # fmt: skip
_OF_THE_PROGRAM = frozenset({"InvalidURL", "LocalProtocolError", "SSLCertVerificationError", "UnsupportedProtocol"})

# The words for errors in band. https://docs.claude.com/en/api/errors,
# https://platform.openai.com/docs/guides/error-codes, https://cloud.google.com/apis/design/errors,
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ConverseStream.html; read 2026-11-28.
_PASSING_WORDS = frozenset(
    {
        "api_error", "deadline_exceeded", "internal", "internal_error", "internal_server_error",
        "internalserverexception", "modelstreamerrorexception", "modeltimeoutexception", "overloaded",
        "overloaded_error", "rate_limit_error", "rate_limit_exceeded", "resource_exhausted", "server_error",
        "service_unavailable", "serviceunavailableexception", "throttlingexception", "timeout_error", "unavailable",
    }
)  # fmt: skip
_SPENT_WORDS = frozenset({"billing_hard_limit_reached", "insufficient_quota"})
_CODES: Mapping[str, frozenset[Any]] = {
    "quota_exceeded": frozenset({402, "billing_error", *_SPENT_WORDS}),
    "rate_limited": frozenset({429, "rate_limit_error", "rate_limit_exceeded", "resource_exhausted",
                               "throttlingexception"}),
    "overloaded": frozenset({503, 529, "overloaded", "overloaded_error", "service_unavailable",
                             "serviceunavailableexception", "unavailable"}),
    "timed_out": frozenset({408, 504, "deadline_exceeded", "modeltimeoutexception", "timed_out", "timeout_error"}),
    "unauthorized": frozenset({401, 403, "accessdeniedexception", "authentication_error", "invalid_api_key",
                               "permission_denied", "permission_error", "unauthenticated"}),
    "connection_lost": frozenset({"connection_lost"}),
}  # fmt: skip


def failure_of(error: BaseException, *, status: int | None = None, headers: Any = None) -> Failure:
    """`status` and `headers` are of the response that came, if the exception has none."""
    if isinstance(error, RequestError) and error.__cause__ is not None:
        error = error.__cause__
    names = {kind.__name__ for kind in type(error).__mro__}
    words = [str(word).lower() for name in ("type", "code") if (word := getattr(error, name, None)) is not None]
    status = _status(error) or status
    if status is not None and status < _FIRST_ERROR:
        status = None
    is_ours = isinstance(error, StreamError)
    if status is not None:
        outcome: RequestOutcome = "refused"
    elif isinstance(error, (TimeoutError, DeadlineExceeded)) or any("Timeout" in name for name in names):
        outcome = "timed_out"
    elif isinstance(error, TruncatedStream) or (not is_ours and names & _OF_CONNECTIONS):
        outcome = "connection_lost"
    else:
        outcome = "failed"
    passes = outcome in ("timed_out", "connection_lost") or not _PASSING_WORDS.isdisjoint(words)
    if isinstance(error, DeadlineExceeded):
        passes = error.limit == "first_chunk_timeout"
    elif isinstance(error, StreamError) and error.kind == "empty_stream":
        passes = True
    if status is not None:
        passes = status >= 500 or status in _PASSING
    is_spent = not _SPENT_WORDS.isdisjoint(words)
    signs = {*words, status or outcome}
    return Failure(
        outcome=outcome,
        error_type=_error_type(error, status),
        status=status,
        retry_after=_retry_after(error, headers),
        code=next((code for code, known in _CODES.items() if not known.isdisjoint(signs)), None),
        may_pass=passes and not is_spent and not names & _OF_THE_PROGRAM,
        is_of_one_provider=is_spent or status in _OF_ONE_PROVIDER,
    )


def _error_type(error: BaseException, status: int | None) -> str:
    if isinstance(error, ProviderError) and error.type is not None and error.type.replace("_", "").isalnum():
        return error.type[:64]
    if status is not None:
        return str(status)
    return error.kind if isinstance(error, StreamError) else class_name(error)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    found = [getattr(error, name, None) for name in ("status_code", "status", "code")]
    found += [getattr(response, name, None) for name in ("status_code", "status")]
    if isinstance(response, Mapping):  # botocore's
        found.append(_metadata(response).get("HTTPStatusCode"))
    if isinstance(error, ProviderError):  # in band, some say it as text
        word = str(error.code)
        found.append(int(word) if word.isdecimal() and len(word) == 3 else None)
    return next((one for one in found if type(one) is int and 100 <= one < 600), None)


def _metadata(response: Mapping[str, Any]) -> Mapping[str, Any]:
    found = response.get("ResponseMetadata")
    return found if isinstance(found, Mapping) else {}


def _retry_after(error: BaseException, headers: Any) -> float | None:
    if isinstance(error, RequestError):  # without its cause
        return error.retry_after
    response = getattr(error, "response", None)
    of_botocore = _metadata(response).get("HTTPHeaders") if isinstance(response, Mapping) else None
    for holder in (getattr(error, "headers", None), getattr(response, "headers", None), of_botocore, headers):
        if not isinstance(holder, Mapping):
            continue
        named = {str(name).lower(): value for name, value in holder.items()}
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            seconds = _seconds(named.get(name))
            if seconds is not None:
                return seconds * unit
    return None


def _seconds(given: Any) -> float | None:
    if given is None:
        return None
    text = given.decode("ascii", "replace") if isinstance(given, bytes) else str(given)
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - time.time()
        except (TypeError, ValueError, OverflowError):
            return None
    return min(max(0.0, seconds), _LONGEST_S) if math.isfinite(seconds) else None
