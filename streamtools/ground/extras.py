"""Says how to install an extra. No package registry has this project, so a bare name would be another project's."""

from __future__ import annotations


def missing(what: str, extra: str) -> str:
    """Returns the message for a package that is not installed, with the extra and the command that bring it.

    >>> missing("the client of Redis", "redis")
    "the client of Redis is not installed; install the extra `redis`: pip install 'path/to/checkout[redis]'"
    """
    return f"{what} is not installed; install the extra `{extra}`: pip install 'path/to/checkout[{extra}]'"
