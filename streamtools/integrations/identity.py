"""Names the model's answers that contain a framework's calls, for a store."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Identity: TypeAlias = str | Callable[[Any], str]
"""The name of the run or conversation of calls, the same after a crash: a text, or a function of the framework's object
for a call."""

_MOST_CHARS = 400  # a call's id comes behind it, and a store takes keys of 1,024


def check_identity(adapter: str, identity: Identity | None) -> None:
    if identity is not None and not callable(identity) and (not isinstance(identity, str) or not identity):
        raise TypeError(
            f"{adapter}: identity must be a non-empty text, or a function that returns one, not "
            f"{'an empty text' if identity == '' else type(identity).__name__}"
        )


def given_name(adapter: str, identity: Identity, about: Any) -> str:
    name = identity(about) if callable(identity) else identity
    if not isinstance(name, str) or not name:
        raise TypeError(f"{adapter}: identity= must return a non-empty text, not {type(name).__name__}")
    return name


class AnswerName(NamedTuple):
    answer: str
    conversation: str


def answer_name(conversation: object, *parts: object) -> AnswerName:
    """Returns a name for these parts of a conversation, and for no others; a hash where they are long."""
    name = "/".join(str(part).replace("%", "%25").replace("/", "%2F") for part in (conversation, *parts))
    if len(name) > _MOST_CHARS:
        name = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
    return AnswerName(name, str(conversation))
