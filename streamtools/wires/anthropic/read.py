"""Anthropic messages in, entries out: what the user asked, what Claude said, what its calls came to.

A user's message holds results and other blocks side by side; it is read as `Returned` and `Prompt`, in the order in
which they stand, both with the same origin. Blocks that the API would refuse are left out, each with a flaw that says
so: blank text, thinking without a signature or at the very end, and what is left of a pair when the provider ran a call
itself: the API refuses such a call without its result, whatever else is there, and the other way round. All else goes
on as it stands there, so that it can go back unmodified.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...content import Text
from ..answer_builder import AnswerBuilder, CallNames, Flaws, Numbered, numbered, result_as_read, results_and_prompts
from ..history_rules import Violation
from ..reading import rest_of
from ..transcript import CallResult, Entry, Prompt
from .content import read_block, read_blocks
from .facts import CALL_BLOCKS, RULES, SERVER_CALL, SERVER_CALLS, SERVER_RESULT, THOUGHTS

__all__ = ["read"]


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    names, entries = CallNames(), list[Entry]()
    apart = _server_calls_apart(messages)
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role == "assistant":
            entries.append(_assistant(message, index, names, apart))
        elif role in ("user", "system"):
            entries.extend(_asked(message, index))
    return entries


def _is_blank(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "text" and not str(raw.get("text") or "").strip()


def _block_flaw(raw: object, path: str) -> Violation | None:
    """Returns what is wrong with a block wherever it stands."""
    if not isinstance(raw, dict):
        return RULES.violation("not_a_message", path, "this is no content block, which is an object with a type")
    return RULES.violation("empty_message", path, "the text block is blank") if _is_blank(raw) else None


# -- what was asked, and what calls came to --


def _asked(message: Mapping[str, Any], index: int) -> Iterator[Entry]:
    content, state = message.get("content"), rest_of(message, "role", "content") or None
    prompt = Prompt(role=message["role"], blocks=(), origin=(index, index + 1), state=state)
    if not isinstance(content, list) or not content:
        is_blank = isinstance(content, str) and not content.strip()
        yield prompt if is_blank else replace(prompt, blocks=read_blocks(content))
        return
    yield from results_and_prompts(
        numbered(content, f"messages[{index}].content"),
        prompt,
        RULES,
        is_result=_is_result,
        read_result=_result,
        read_block=read_block,
        flaw=_block_flaw,
    )


def _is_result(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "tool_result"


def _result(raw: dict[str, Any], path: str, flaws: Flaws) -> CallResult:
    content = raw.get("content")
    if isinstance(content, list):
        sound = flaws.sound(numbered(content, f"{path}.content"), _block_flaw)
        if len(sound) < len(content):
            content = [block for block, _ in sound]
            raw = {**raw, "content": content}
    is_error = raw.get("is_error") is True
    if is_error and (not content or (isinstance(content, str) and not content.strip())):
        text = "messages.14.content.0.tool_result: content cannot be empty if `is_error` is true"
        flaws.add("empty_message", path, "the result of a call that failed says nothing", text)
        content = "(empty)"
        raw = {**raw, "content": content}
    blocks = read_blocks(content)
    rich = not all(isinstance(block, Text) for block in blocks)
    return result_as_read(raw.get("tool_use_id"), blocks, rich=rich, is_error=is_error, state=raw)


# -- what Claude said --


def _assistant(message: Mapping[str, Any], index: int, names: CallNames, apart: dict[str, Violation]) -> Entry:
    answer, content = AnswerBuilder(names, RULES), message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content.strip() else []
    kept = answer.flaws.sound(
        numbered(content, f"messages[{index}].content"),
        lambda raw, path: apart.get(path) or _block_flaw(raw, path) or _unsigned(raw, path),
    )
    while kept and str(kept[-1][0].get("type")) in THOUGHTS:
        answer.flaws.add("reasoning_apart", kept.pop()[1], "thinking is the last block of the message")
    for raw, path in kept:
        _READ.get(str(raw.get("type")), _other)(raw, path, answer)
    # What the provider ran itself may be answered in a later message; `apart` has looked at all of them.
    return answer.said((index, index + 1), "pause")


def _unsigned(raw: Mapping[str, Any], path: str) -> Violation | None:
    signature = raw.get("signature")
    if raw.get("type") != "thinking" or (isinstance(signature, str) and signature):
        return None
    what = "the thinking has no signature: it was cut, or another provider's"
    return RULES.violation("missing_signature", path, what)


def _text(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    answer.text(str(raw["text"]), rest_of(raw, "type", "text") or None)


def _thinking(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    text = raw.get("thinking")
    answer.reasoning(text if isinstance(text, str) else "", rest_of(raw, "type", "thinking") or None)


def _call(raw: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    kind, state = CALL_BLOCKS[raw["type"]], rest_of(raw, "id", "name", "input") or None
    answer.call(raw.get("id"), raw.get("name"), raw.get("input"), kind=kind, state=state, object_at=f"{path}.input")


def _other(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    answer.provider(raw)


_READ: dict[str, Callable[[dict[str, Any], str, AnswerBuilder], None]] = {
    "text": _text,
    "thinking": _thinking,
    **dict.fromkeys(CALL_BLOCKS, _call),
}


# -- calls that the provider ran itself --


def _server_calls_apart(messages: Sequence[Mapping[str, Any]]) -> dict[str, Violation]:
    """Finds calls of the provider's own without a result, and results without a call. Returns what is wrong, by path.

    A call may be answered in a later message: the turn was paused, or its code called tools of ours. At the end of the
    history it may still be waiting for that. Results that name no call are the oldest ones', in order: recordings hide
    ids. Costs time linear in the history.
    """
    open_ = _OpenCalls()
    flawed: dict[str, Violation] = {}
    callers: set[str] = set()
    for raw, path in _said(messages):
        kind, caller = str(raw.get("type")), raw.get("caller")
        if kind in SERVER_CALLS:
            open_.add(path, raw.get("id"))
        elif kind == "tool_use" and isinstance(caller, dict) and isinstance(id_ := caller.get("tool_id"), str):
            callers.add(id_)
        elif kind.endswith("_tool_result") and isinstance(id_ := raw.get("tool_use_id"), str) and not open_.take(id_):
            what = "the result of a server's tool has no call before it"
            flawed[path] = RULES.violation("orphan_result", path, what, SERVER_RESULT)
    for path, id_ in open_.left.items():
        if not path.startswith(f"messages[{len(messages) - 1}].") and id_ not in callers:
            what = "the call of a server's tool has no result"
            flawed[path] = RULES.violation("unanswered_call", path, what, SERVER_CALL)
    return flawed


class _OpenCalls:
    def __init__(self) -> None:
        self.left: dict[str, str] = {}  # ids by path
        self._by_id: dict[str, deque[str]] = defaultdict(deque)

    def add(self, path: str, id_: object) -> None:
        self.left[path] = id_ if isinstance(id_, str) else ""
        self._by_id[self.left[path]].append(path)

    def take(self, id_: str) -> bool:
        """Returns whether there is a call for the result that names this id; it is then nobody else's."""
        queue = self._by_id.get(id_, deque())
        while queue and queue[0] not in self.left:
            queue.popleft()
        path = queue.popleft() if queue else next(iter(self.left), None)
        return path is not None and self.left.pop(path) is not None


def _said(messages: Sequence[Mapping[str, Any]]) -> Iterator[Numbered]:
    for index, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            blocks = numbered(message.get("content"), f"messages[{index}].content")
            yield from (pair for pair in blocks if isinstance(pair[0], dict))
