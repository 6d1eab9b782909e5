"""Call ids that another provider takes: a stable, collision-checked bijection."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import replace

from ..wires import Answer

__all__ = ["valid_ids", "with_valid_ids"]

# What the API accepts: characters, and how many. OpenAI: "tool_calls[0].id: string too long … maximum length 40"
# (pydantic/pydantic-ai#4389); Anthropic: ^[a-zA-Z0-9_-]+$.
_RULES: dict[str, tuple[re.Pattern[str], int]] = {
    "openai.chat_completions": (re.compile(r"[^\x21-\x7e]"), 40),
    "anthropic.messages": (re.compile(r"[^a-zA-Z0-9_-]"), 64),
}


def with_valid_ids(answer: Answer, target: str) -> Answer:
    """`answer` with ids that `target` accepts; the same object if they all are already."""
    ids = valid_ids(answer.calls, target)
    if all(old == new for old, new in ids.items()):
        return answer
    return replace(
        answer,
        parts=tuple(replace(p, call_id=ids[p.call_id]) if p.call_id is not None else p for p in answer.parts),
        calls={ids[old]: replace(call, call_id=ids[old]) for old, call in answer.calls.items()},
        arguments={ids[old]: arguments for old, arguments in answer.arguments.items()},
        results=tuple(replace(result, call_id=ids[result.call_id]) for result in answer.results),
    )


def valid_ids(ids: Iterable[str], target: str) -> dict[str, str]:
    """Each id, and what stands for it at `target`: itself where that is valid, else a name made of its hash.

    The same id always gets the same name, so that the calls of an older turn keep theirs from request to request.
    """
    forbidden, longest = _RULES[target]
    wanted = list(ids)
    found = {id_: id_ for id_ in wanted if len(id_) <= longest and not forbidden.search(id_)}
    taken = set(found)
    for id_ in wanted:
        salt = 0
        while id_ not in found:
            digest = hashlib.blake2b(f"{id_}\0{salt}".encode("utf-8", "replace"), digest_size=12).hexdigest()
            if (name := f"call_{digest}") not in taken:
                found[id_] = name
                taken.add(name)
            salt += 1
    return found
