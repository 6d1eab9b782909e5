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
from itertools import groupby
from typing import Any, Literal, TypeAlias

from ...content import Block, Text
from ..answer_builder import AnswerBuilder, CallNames
from ..history_rules import Violation
from ..media import text_of
from ..transcript import CallResult, Entry, Prompt, Returned
from .content import read_block, read_blocks
from .facts import CALL_BLOCKS, RULES, SERVER_CALL, SERVER_CALLS, SERVER_RESULT

__all__ = ["read"]

_THOUGHTS = frozenset({"thinking", "redacted_thinking"})


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The messages as entries. What is no message gives none."""
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
    """What is wrong with a block wherever it stands."""
    if not isinstance(raw, dict):
        return RULES.violation("not_a_message", path, "this is no content block, which is an object with a type")
    return RULES.violation("empty_message", path, "the text block is blank") if _is_blank(raw) else None


# -- what was asked, and what calls came to --


def _asked(message: Mapping[str, Any], index: int) -> Iterator[Entry]:
    origin, content = (index, index + 1), message.get("content")
    state = {key: value for key, value in message.items() if key not in ("role", "content")} or None
    role: Literal["system", "user"] = "system" if message["role"] == "system" else "user"
    if not isinstance(content, list) or not content:
        blocks = () if isinstance(content, str) and not content.strip() else read_blocks(content)
        yield Prompt(role=role, blocks=blocks, origin=origin, state=state)
        return
    numbered = [(raw, f"messages[{index}].content[{number}]") for number, raw in enumerate(content)]
    for are_results, run in groupby(numbered, lambda pair: _is_result(pair[0])):
        flaws: list[Violation] = []
        if are_results:
            results = tuple(_result(raw, path, flaws) for raw, path in run)
            yield Returned(results=results, origin=origin, flaws=tuple(flaws))
        else:
            blocks = tuple(_sound(run, flaws))
            yield Prompt(role=role, blocks=blocks, origin=origin, state=state, flaws=tuple(flaws))


def _is_result(raw: object) -> bool:
    return isinstance(raw, dict) and raw.get("type") == "tool_result"


def _sound(numbered: Iterator[tuple[Any, str]], flaws: list[Violation]) -> Iterator[Block]:
    for raw, path in numbered:
        if flaw := _block_flaw(raw, path):
            flaws.append(flaw)
        else:
            yield read_block(raw)


def _result(raw: dict[str, Any], path: str, flaws: list[Violation]) -> CallResult:
    content, call_id = raw.get("content"), raw.get("tool_use_id")
    if isinstance(content, list):
        told = [(block, _block_flaw(block, f"{path}.content[{n}]")) for n, block in enumerate(content)]
        if found := [flaw for _, flaw in told if flaw is not None]:
            flaws += found
            content = [block for block, flaw in told if flaw is None]
            raw = {**raw, "content": content}
    is_error = raw.get("is_error") is True
    if is_error and (not content or (isinstance(content, str) and not content.strip())):
        text = "messages.14.content.0.tool_result: content cannot be empty if `is_error` is true"
        flaws.append(RULES.violation("empty_message", path, "the result of a call that failed says nothing", text))
        content = "(empty)"
        raw = {**raw, "content": content}
    blocks = read_blocks(content)
    return CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        is_error=is_error,
        blocks=() if all(isinstance(block, Text) for block in blocks) else blocks,
        state=raw,
    )


# -- what Claude said --


def _assistant(message: Mapping[str, Any], index: int, names: CallNames, apart: _Flawed) -> Entry:
    answer, content = AnswerBuilder(names), message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}] if content.strip() else []
    numbered = [
        (f"messages[{index}].content[{n}]", raw, apart.get((index, n))) for n, raw in enumerate(_blocks_of(content))
    ]
    kept = []
    for path, raw, flaw in numbered:
        if flaw := flaw or _block_flaw(raw, path) or _unsigned(raw, path):
            answer.flaw(flaw)
        else:
            kept.append((path, raw))
    while kept and str(kept[-1][1].get("type")) in _THOUGHTS:
        path, _ = kept.pop()
        answer.flaw(RULES.violation("reasoning_apart", path, "thinking is the last block of the message"))
    for path, raw in kept:
        _READ.get(str(raw.get("type")), _other)(raw, path, answer)
    # What the provider ran itself may be answered in a later message; `apart` has looked at all of them.
    return answer.said((index, index + 1), "pause")


def _unsigned(raw: Mapping[str, Any], path: str) -> Violation | None:
    signature = raw.get("signature")
    if raw.get("type") != "thinking" or (isinstance(signature, str) and signature):
        return None
    return RULES.violation(
        "missing_signature", path, "the thinking has no signature: it was cut, or another provider's"
    )


def _text(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    answer.text(str(raw["text"]), _rest(raw, "type", "text"))


def _thinking(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    text = raw.get("thinking")
    answer.reasoning(text if isinstance(text, str) else "", _rest(raw, "type", "thinking"))


def _call(raw: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    state, given = _rest(raw, "id", "name", "input"), raw.get("input")
    call = answer.call(raw.get("id"), raw.get("name"), given, kind=CALL_BLOCKS[raw["type"]], state=state)
    if isinstance(given, str) and call.status == "ready":
        answer.flaw(RULES.violation("arguments_not_object", f"{path}.input", "the arguments are the text of an object"))


def _other(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    answer.provider(raw)


def _rest(raw: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    return {key: value for key, value in raw.items() if key not in known} or None


_READ: dict[str, Callable[[dict[str, Any], str, AnswerBuilder], None]] = {
    "text": _text,
    "thinking": _thinking,
    **dict.fromkeys(CALL_BLOCKS, _call),
}


# -- calls that the provider ran itself --

_Place: TypeAlias = tuple[int, int]
_Flawed: TypeAlias = dict[_Place, Violation]
"""By message and block: what is wrong with a block that has to be left out."""


def _blocks_of(content: object) -> list[Any]:
    """A message's blocks, none if it has something else."""
    return content if isinstance(content, list) else []


def _server_calls_apart(messages: Sequence[Mapping[str, Any]]) -> _Flawed:
    """Calls of the provider's own without a result, and results without a call.

    A call may be answered in a later message: the turn was paused, or its code called tools of ours. At the end of the
    history it may still be waiting for that. Results that name no call are the oldest ones', in order: recordings hide
    ids. Costs time linear in the history.
    """
    open_ = _OpenCalls()
    flawed: _Flawed = {}
    callers: set[str] = set()
    for place, raw in _said(messages):
        kind, caller = str(raw.get("type")), raw.get("caller")
        if kind in SERVER_CALLS:
            open_.add(place, raw.get("id"))
        elif kind == "tool_use" and isinstance(caller, dict) and isinstance(id_ := caller.get("tool_id"), str):
            callers.add(id_)
        elif kind.endswith("_tool_result") and isinstance(id_ := raw.get("tool_use_id"), str) and not open_.take(id_):
            what = "the result of a server's tool has no call before it"
            flawed[place] = RULES.violation("orphan_result", _path(place), what, SERVER_RESULT)
    for place, id_ in open_.left.items():
        if place[0] != len(messages) - 1 and id_ not in callers:
            what = "the call of a server's tool has no result"
            flawed[place] = RULES.violation("unanswered_call", _path(place), what, SERVER_CALL)
    return flawed


class _OpenCalls:
    def __init__(self) -> None:
        self.left: dict[_Place, str] = {}
        self._by_id: dict[str, deque[_Place]] = defaultdict(deque)

    def add(self, place: _Place, id_: object) -> None:
        self.left[place] = id_ if isinstance(id_, str) else ""
        self._by_id[self.left[place]].append(place)

    def take(self, id_: str) -> bool:
        """Whether there is a call for the result that names this id; it is then nobody else's."""
        queue = self._by_id.get(id_, deque())
        while queue and queue[0] not in self.left:
            queue.popleft()
        place = queue.popleft() if queue else next(iter(self.left), None)
        return place is not None and self.left.pop(place) is not None


def _said(messages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[_Place, dict[str, Any]]]:
    for index, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            for number, raw in enumerate(_blocks_of(message.get("content"))):
                if isinstance(raw, dict):
                    yield (index, number), raw


def _path(place: _Place) -> str:
    return f"messages[{place[0]}].content[{place[1]}]"
