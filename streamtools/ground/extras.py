"""Words how to install an extra. No registry has this project, so a bare name there would be somebody else's."""

from __future__ import annotations


def missing(what: str, extra: str) -> str:
    """Returns the message for a package that is not installed, with the extra and the command that bring it.

    >>> missing("the client of Redis", "redis")
    "the client of Redis is not installed; the extra `redis`: pip install 'path/to/checkout[redis]'"
    """
    return f"{what} is not installed; the extra `{extra}`: pip install 'path/to/checkout[{extra}]'"
