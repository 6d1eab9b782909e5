"""Forms the names under which the model calls a server's tools: valid at every provider, and never two alike.

With a prefix, ``create_issue`` of the server ``github`` becomes ``github__create_issue``. The first ``__`` is the
border: the prefix is written so that it neither contains one nor ends in ``_`` (each ``_`` that would do so is followed
by ``-``), so that ``a_`` with ``b`` and ``a`` with ``_b`` stay apart.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace

from ..schema.names import TOOL_NAMES

__all__ = ["checked_prefix", "name_problem", "namespaced"]

MAX_PREFIX_CHARS = 32
HASH_DIGITS = 12

_PREFIXES = replace(TOOL_NAMES, length=MAX_PREFIX_CHARS)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BORDER_LIKE = re.compile(r"_(?=[_-]|$)")
BORDER = "__"


def checked_prefix(prefix: str | None) -> str:
    """Returns the text before each name; "" for none.

    Raises:
        ValueError: `prefix` is no name, or too long to leave room for one.
    """
    if prefix is None:
        return ""
    if not _PREFIXES.takes(prefix):
        rule = f"1 to {MAX_PREFIX_CHARS} letters, digits, '_', '.' or '-', the first a letter or '_'"
        raise ValueError(f"prefix={prefix!r}: must be {rule}; or leave it out")
    return _BORDER_LIKE.sub("_-", prefix) + BORDER


def name_problem(name: object, max_chars: int) -> str | None:
    """Returns why a server's name for a tool is refused; None if it is not.

    Characters beyond ASCII are refused, not replaced, since one name can disguise as another with them.
    """
    if not isinstance(name, str) or not name:
        return "its name is no text"
    if len(name) > max_chars:
        return f"its name is longer than max_name_bytes={max_chars}"
    if not name.isascii():
        return "its name has characters beyond ASCII, by which one name can look like another"
    if _CONTROL.search(name):
        return "its name has control characters"
    return None


def namespaced(prefix: str, name: str) -> str:
    """Returns the name under which the model calls the tool.

    Args:
        prefix: the result of `checked_prefix`.
        name: the server's own name, without a `name_problem`.

    A name that fits is kept as it is. Any other (``files/read``, or one of 100 characters) keeps its valid part and
    ends in a hash of the whole, so that two names do not become one.
    """
    whole = prefix + name
    if TOOL_NAMES.takes(whole):
        return whole
    digest = hashlib.sha256(whole.encode()).hexdigest()[:HASH_DIGITS]
    kept = TOOL_NAMES.cleaned(whole)
    return f"{kept[: TOOL_NAMES.length - HASH_DIGITS - 1]}-{digest}"
