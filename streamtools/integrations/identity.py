"""Names the answers of a model that a framework's calls stand in, for a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

__all__ = ["AnswerName", "Identity", "answer_name", "check_identity", "given_name"]

Identity: TypeAlias = str | Callable[[Any], str]
"""Names the run or conversation that calls belong to, the same after a crash: a text, or a function of what the
framework says about a call."""

_MOST_CHARS = 400  # a call's id comes behind it, and a store takes keys of 1,024


def check_identity(adapter: str, identity: Identity | None) -> None:
    """Raises a TypeError for a value that names no run: neither a text that is not empty nor a function."""
    if identity is not None and not callable(identity) and (not isinstance(identity, str) or not identity):
        raise TypeError(
            f"{adapter}: identity is a text that is not empty, or a function that returns one, not "
            f"{'an empty text' if identity == '' else type(identity).__name__}"
        )


def given_name(adapter: str, identity: Identity, about: Any) -> str:
    """Returns the name that the adapter's user gives the run or conversation of a call: `identity` itself, or the text
    that it returns, as a function, for what the framework says `about` the call."""
    name = identity(about) if callable(identity) else identity
    if not isinstance(name, str) or not name:
        raise TypeError(f"{adapter}: identity= has to return a text that is not empty, not {type(name).__name__}")
    return name


class AnswerName(NamedTuple):
    """Names an answer of the model, and the conversation that it is a part of."""

    answer: str
    conversation: str


def answer_name(conversation: object, *parts: object) -> AnswerName:
    """Returns a name for these parts of a conversation, and for no others; a hash where they are long."""
    name = "/".join(str(part).replace("%", "%25").replace("/", "%2F") for part in (conversation, *parts))
    if len(name) > _MOST_CHARS:
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return AnswerName(name, str(conversation))
