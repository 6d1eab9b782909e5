"""Words how to install an extra. No registry has this project, so a bare name there would be somebody else's."""

from __future__ import annotations

__all__ = ["missing"]


def missing(what: str, extra: str) -> str:
    """Returns the message for a package that is not installed, with the extra and the command that bring it.

    >>> missing("Ray", "ray")
    "Ray is not installed; the extra `ray`: pip install 'path/to/checkout[ray]'"
    """
    return f"{what} is not installed; the extra `{extra}`: pip install 'path/to/checkout[{extra}]'"
