"""Finds where a request does not continue the previous one, and what that costs.

A provider has cached the beginning of the previous request, as far as both are the same. Claude since 5.1 also binds
each thinking block to everything before it (tools, system prompt, messages), and refuses the block after a change.
https://platform.claude.com/docs/en/build-with-claude/preserved-thinking
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from ..wires.history_rules import HistoryRules, Violation
from ..wires.transcript import Reply
from .calls import Messages, plain_of

_BEFORE = ("tools", "toolConfig", "tool_config", "system", "instructions", "systemInstruction", "system_instruction")
_MARKS = ("cache_control", "cachePoint")
_MOST_DEPTH = 5
_ABSENT: Any = object()


def messages_of(request: Any, rules: HistoryRules) -> Any:
    """Returns the messages of a request, or the given messages themselves. Raises a `TypeError` if it has none."""
    if not isinstance(request, Mapping):
        return request
    found = request.get(rules.list_name, request.get("messages"))  # a run calls them messages on every wire
    if found is None:
        raise TypeError(f"messages: expected a list of messages, or a request with {rules.list_name!r}; got neither")
    return found


def first_change(read: Messages, request: Any, previous: Any, model: str | None) -> Iterator[Violation]:
    """Yields the first place at which a request, whose messages are `read`, differs from the previous one."""
    rules, listed = read.wire.rules, read.wire.rules.list_name
    number, place = 0, None
    if isinstance(request, Mapping) and isinstance(previous, Mapping):
        if any(request.get(name) is not None for name in (read.wire.chain, "conversation")):
            return  # only what is new is sent
        for name in _BEFORE:
            then, now = (_uncached(plain_of(one.get(name), rules)) for one in (previous, request))
            if place is None and _prefix(then) != _prefix(now):
                place = _difference(then, now, name)
    if place is None:
        then = [_uncached(plain_of(one, rules)) for one in messages_of(previous, rules)]
        now = [_uncached(one) for one in read.plain]
        for number, (old, new) in enumerate(zip_longest(then, now[: len(then)], fillvalue=_ABSENT)):
            place = _difference(old, new, f"{listed}[{number}]", grows=number == len(then) - 1)
            if place is not None:
                break
    if place is None:
        return
    behind = (one for one in read.entries if one.origin is not None and one.origin[1] > number)
    is_bound = any(isinstance(one, Reply) and _has_signature(one) for one in behind)
    words, text = "this differs from the previous request: the provider's cache ends here", ""
    if is_bound and "changed_prefix" in rules.texts and (model is None or rules.binds(model)):
        whose = "models since Claude 5.1 refuse" if model is None else "the model refuses"
        words += f", and {whose} the thinking after it, unless `prefix_mismatch_behavior` drops it"
        text = rules.texts["changed_prefix"]
    yield rules.violation("changed_prefix", place, words, text)


def _prefix(tools: Any) -> Any:  # deferred ones follow: docs/en/agents-and-tools/tool-use/tool-use-with-prompt-caching
    is_list = isinstance(tools, list)
    return [one for one in tools if not (isinstance(one, Mapping) and one.get("defer_loading"))] if is_list else tools


def _has_signature(reply: Reply) -> bool:
    return any(part.kind == "reasoning" and part.provider_state for part in reply.answer.parts)


def _uncached(value: Any, depth: int = 0) -> Any:
    """Returns a value without the cache marks of tools, messages and blocks, which are not part of what is cached."""
    if depth > _MOST_DEPTH:
        return value
    if isinstance(value, Mapping):
        kept = {key: _uncached(one, depth + 1) for key, one in value.items() if key not in _MARKS}
        return kept or (None if value else {})
    if isinstance(value, (list, tuple)):
        return [kept for one in value if (kept := _uncached(one, depth + 1)) is not None]
    return value


def _difference(old: Any, new: Any, path: str, *, grows: bool = False, depth: int = 0) -> str | None:
    """Returns the path to the first difference. The list in a message that `grows` may have become longer."""
    if isinstance(old, str) and isinstance(new, list):
        old = [{"type": "text", "text": old}]
    if isinstance(new, str) and isinstance(old, list):
        new = [{"type": "text", "text": new}]
    if old == new:
        return None
    if isinstance(old, Mapping) and isinstance(new, Mapping) and depth < 4:
        found = (
            _difference(old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}", grows=grows, depth=depth + 1)
            for key in dict.fromkeys((*old, *new))
        )
        return next((one for one in found if one is not None), None)
    if isinstance(old, list) and isinstance(new, list) and depth < 3:
        for at, (one, other) in enumerate(zip_longest(old, new[: len(old)] if grows else new, fillvalue=_ABSENT)):
            if one != other:
                return _difference(one, other, f"{path}[{at}]", depth=3) or f"{path}[{at}]"
        return None
    return path
