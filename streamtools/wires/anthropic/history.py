"""Anthropic messages in, entries out: what the user asked, what Claude said, what its calls came to.

A user's message of results and other blocks is read as `Returned` and `Prompt`, in their order, with the same origin.
Blocks that the API would refuse are left out, each with a flaw: blank text, thinking without a signature or at the very
end, and what is left of a pair when the provider ran a call itself. All else goes back unmodified.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...content import Block, Media, Opaque, Text
from ...parts import Part
from ...schema.names import PLAIN_NAMES
from ..history_rules import Violation
from ..reading import json_text, list_of, object_of, objects_in, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Flaws,
    Numbered,
    Prompt,
    decoded,
    encoded,
    numbered,
    result_as_read,
    results_and_prompts,
    text_block,
    written,
)
from .facts import CALL_BLOCKS, RESULT, RULES, SERVER_CALL, SERVER_CALLS, SERVER_RESULT, THOUGHTS


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    names, entries = CallNames(), list[Entry]()
    apart = _calls_apart(messages)
    for index, message in enumerate(messages):
        role = object_of(message).get("role")
        if role == "assistant":
            entries.append(_assistant(message, index, names, apart))
        elif role in ("user", "system"):
            entries.extend(_asked(message, index))
    return entries


def _block_flaw(raw: object, path: str) -> Violation | None:
    if not isinstance(raw, dict):
        return RULES.violation("not_a_message", path, "expected a content block: an object with a type")
    is_blank = raw.get("type") == "text" and not str(raw.get("text") or "").strip()
    return RULES.violation("empty_message", path, "the text block is blank") if is_blank else None


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
        is_result=lambda raw: isinstance(raw, dict) and raw.get("type") == "tool_result",
        read_result=_result,
        read_block=read_block,
        flaw=_block_flaw,
    )


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
        flaws.add("empty_message", path, "the result of a failed call is empty", text)
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
    return answer.reply((index, index + 1), "pause")


def _unsigned(raw: Mapping[str, Any], path: str) -> Violation | None:
    signature = raw.get("signature")
    if raw.get("type") != "thinking" or (isinstance(signature, str) and signature):
        return None
    what = "the thinking has no signature: it was cut, or another provider's"
    return RULES.violation("missing_signature", path, what)


def _thinking(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    text = raw.get("thinking")
    answer.reasoning(text if isinstance(text, str) else "", rest_of(raw, "type", "thinking") or None)


def _call(raw: dict[str, Any], path: str, answer: AnswerBuilder) -> None:
    kind, state = CALL_BLOCKS[raw["type"]], rest_of(raw, "id", "name", "input") or None
    answer.call(raw.get("id"), raw.get("name"), raw.get("input"), kind=kind, state=state, object_at=f"{path}.input")


def _other(raw: dict[str, Any], _: str, answer: AnswerBuilder) -> None:
    answer.provider(raw)


_READ: dict[str, Callable[[dict[str, Any], str, AnswerBuilder], None]] = {
    "text": lambda raw, _, answer: answer.text(str(raw["text"]), rest_of(raw, "type", "text") or None),
    "thinking": _thinking,
    **dict.fromkeys(CALL_BLOCKS, _call),
}


# -- calls that the provider ran itself, or declined --


def _calls_apart(messages: Sequence[Mapping[str, Any]]) -> dict[str, Violation]:
    """Finds calls of the provider's own without a result, results without a call, and calls of a model that was
    declined. Returns what is wrong, by path.

    A call may be answered in a later message: the turn was paused, or its code called tools of ours, or tools of ours
    were called beside it. At the end of the history it may still be waiting for that, behind results of ours, too.
    Results that name no call are the oldest ones', in order: recordings hide ids. Costs time linear in the history.
    """
    open_, ours = _OpenCalls(), dict[str, str]()
    flawed: dict[str, Violation] = {}
    callers: set[str] = set()
    for raw, path in _numbered_messages(messages):
        kind, caller = str(raw.get("type")), raw.get("caller")
        if kind == "tool_use":
            ours[path] = ""
        if kind in SERVER_CALLS:
            open_.add(path, raw.get("id"))
        elif kind == "tool_use" and isinstance(caller, dict) and isinstance(id_ := caller.get("tool_id"), str):
            callers.add(id_)
        elif kind.endswith("_tool_result") and isinstance(id_ := raw.get("tool_use_id"), str) and not open_.take(id_):
            what = "the result of a server's tool follows no call"
            flawed[path] = RULES.violation("orphan_result", path, what, SERVER_RESULT)
        elif kind == "fallback":
            # Before it only the provider's own calls count, and those that have their result. (Read 2026-11-29)
            # https://platform.claude.com/docs/en/build-with-claude/refusals-and-fallback#continuing-the-conversation
            message, what = path.partition(".")[0] + ".", "the call was made by a model that was declined"
            for left, text in ((ours, None), (open_.left, SERVER_CALL)):
                while left and (at := next(reversed(left))).startswith(message):
                    del left[at]
                    flawed[at] = RULES.violation("unanswered_call", at, what, text)
    last = len(messages) - 1
    while last > 0 and {str(one.get("type")) for one in objects_in(object_of(messages[last]), "content")} == {
        "tool_result"
    }:
        last -= 1
    for path, id_ in open_.left.items():
        if not path.startswith(f"messages[{last}].") and id_ not in callers:
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


def _numbered_messages(messages: Sequence[Mapping[str, Any]]) -> Iterator[Numbered]:
    for index, message in enumerate(messages):
        if isinstance(message, Mapping) and message.get("role") == "assistant":
            blocks = numbered(message.get("content"), f"messages[{index}].content")
            yield from (pair for pair in blocks if isinstance(pair[0], dict))


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    blocks = [block for part in answer.parts if (block := _render_part(part, answer)) is not None]
    if answer.finish != "pause":  # a paused turn goes back as it is, to be continued
        blocks = _without_orphans(blocks, is_cut=answer.finish is None)
    return [{"role": "assistant", "content": blocks}] if blocks else []


def render_results(answer: Answer) -> list[dict[str, Any]]:
    return RESULT.as_messages([_render_result(result, answer) for result in answer.results])


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    beside = dict(prompt.state or {})
    match prompt.blocks:
        case (Text(text, state=None),):
            return [{"role": prompt.role, "content": text, **beside}] if text.strip() else []
        case _:
            blocks = native_blocks(prompt.blocks)
            return [{"role": prompt.role, "content": blocks, **beside}] if blocks else []


def _render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    if answer.own_wire and result.state is not None:
        return {**result.state, "tool_use_id": result.call_id}
    content: Any = result.native
    if content is None:
        content = native_blocks(result.blocks, own_wire=answer.own_wire) or result.content
    if result.is_error and not (content.strip() if isinstance(content, str) else content):
        content = "(empty)"  # refused if the call failed
    block = {"type": "tool_result", "tool_use_id": result.call_id, "content": content}
    call = answer.calls.get(result.call_id)
    toolset = None if call is None else answer.state_of(call).get("toolset_name")
    return block | ({"is_error": True} if result.is_error else {}) | ({"toolset_name": toolset} if toolset else {})


def _without_orphans(blocks: list[dict[str, Any]], *, is_cut: bool) -> list[dict[str, Any]]:
    """Returns the blocks that the API takes back: no server call without its result, no thinking at the very end.

    Two kinds wait for our results: code that calls our tools, and what stands beside direct calls of these, which runs
    then (https://platform.claude.com/docs/en/agents-and-tools/tool-use/: programmatic-tool-calling, server-tools).
    If the response was cut nobody knows its container, which comes at its end: the calls then stand without the code.
    Otherwise both happen when a response was cut: "without a corresponding web_search_tool_result block"
    (open-gsd/gsd-pi#1330), "The final block in an assistant message cannot be `thinking`" (tailcallhq/forgecode#2107).
    Thinking is bound to all blocks before it, and goes with them.
    """
    open_calls: list[str] = []
    for block in blocks:
        if block["type"] in SERVER_CALLS:
            open_calls.append(block["id"])
        elif isinstance(answered := block.get("tool_use_id"), str) and open_calls:
            # A result that names none of these is the oldest one's: recordings hide ids.
            open_calls.remove(answered if answered in open_calls else open_calls[0])
    callers = [_caller(block) for block in blocks if block["type"] == "tool_use"]
    waiting = open_calls if any(one not in open_calls for one in callers) else callers
    if is_cut:
        waiting = [one for one in waiting if one not in callers and one != blocks[-1].get("id")]
    orphans = {call_id for call_id in open_calls if call_id not in waiting}
    kept, is_whole = list[dict[str, Any]](), True
    for block in blocks:
        is_orphan, is_free = block["type"] in SERVER_CALLS and block["id"] in orphans, _caller(block) in orphans
        is_whole = is_whole and not (is_orphan or is_free)
        if not is_orphan and (is_whole or block["type"] not in THOUGHTS):
            kept.append(rest_of(block, "caller") if is_free else block)
    while kept and kept[-1]["type"] in THOUGHTS:
        kept.pop()
    return kept


def _caller(block: Mapping[str, Any]) -> str | None:
    caller = object_of(block.get("caller")).get("tool_id")
    return caller if isinstance(caller, str) else None


def _render_part(part: Part, answer: Answer) -> dict[str, Any] | None:
    state = answer.state_of(part)
    if part.kind == "call" and part.call_id is not None:
        call = answer.calls[part.call_id]
        if call.kind == "server" and not answer.own_wire:
            return None
        state = answer.state_of(call)
        name = PLAIN_NAMES.cleaned(call.local_name if "toolset_name" in state else call.name)
        return {
            "type": "tool_use",
            **state,
            "id": call.call_id,
            "name": name,
            "input": answer.arguments[call.call_id][1],
        }
    if part.kind == "reasoning":  # without its signature the API refuses it, so an interrupted one is left out
        return {"type": "thinking", "thinking": part.text, **state} if state.get("signature") else None
    if part.kind == "provider":
        return dict(state) if state else None
    return {"type": "text", "text": part.text, **state} if part.text.strip() else None  # blank text is refused


# -- blocks --

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF, _PLAIN = "application/pdf", "text/plain"


def read_blocks(content: object) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(read_block(raw) for raw in list_of(content) if isinstance(raw, dict))


def read_block(raw: dict[str, Any]) -> Block:
    reader = _READERS.get(kind) if isinstance(kind := raw.get("type"), str) else None
    return (reader(raw) if reader is not None else None) or Opaque(raw)


def native_blocks(blocks: Iterable[Block], *, own_wire: bool = True) -> list[dict[str, Any]]:
    return written(blocks, own_wire=own_wire, text=lambda text: {"type": "text", "text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    return _image(media) if media.kind == "image" else _document(media)


def _image(media: Media) -> dict[str, Any] | None:
    if media.data is not None:
        if media.mime_type not in _IMAGES:
            return None
        return {"type": "image", "source": {"type": "base64", "media_type": media.mime_type, "data": media.data}}
    source = _elsewhere(media)
    return {"type": "image", "source": source} if source is not None else None


def _document(media: Media) -> dict[str, Any] | None:
    if media.kind != "file":
        return None
    source: dict[str, Any] | None
    if media.data is None:
        source = _elsewhere(media)
    elif media.mime_type == _PDF:
        source = {"type": "base64", "media_type": _PDF, "data": media.data}
    elif media.mime_type == _PLAIN and (text := decoded(media.data)) is not None:
        source = {"type": "text", "media_type": _PLAIN, "data": text.decode("utf-8", "replace")}
    else:
        return None
    title = {"title": media.filename} if media.filename else {}
    return {"type": "document", "source": source, **title} if source is not None else None


def _elsewhere(media: Media) -> dict[str, Any] | None:
    if media.url is not None:
        return {"type": "url", "url": media.url}
    return {"type": "file", "file_id": media.file_id} if media.file_id is not None else None


# -- reading --


def _read_text(raw: dict[str, Any]) -> Block | None:
    text = raw.get("text")
    return Text(text, state=raw) if isinstance(text, str) else None


def _read_image(raw: dict[str, Any]) -> Block | None:
    found = _source_of(raw)
    return Media(kind="image", state=raw, **found) if found else None


def _read_document(raw: dict[str, Any]) -> Block | None:
    found, title = _source_of(raw), raw.get("title")
    if found:
        return Media(kind="file", filename=title if isinstance(title, str) else None, state=raw, **found)
    return text_block(read_blocks(object_of(raw.get("source")).get("content")), raw)


def _source_of(raw: Mapping[str, Any]) -> dict[str, Any]:
    source = object_of(raw.get("source"))
    kind, type_ = source.get("type"), source.get("media_type")
    key = _SOURCES.get(kind) if isinstance(kind, str) else None
    value = source.get(key[0]) if key is not None else None
    if key is None or not isinstance(value, str):
        return {}
    found = {"mime_type": type_} if isinstance(type_, str) else {}
    return found | {key[1]: encoded(value) if kind == "text" else value}


# The kind of a source: its field, and ours.
_SOURCES: dict[str, tuple[str, str]] = {
    "base64": ("data", "data"),
    "text": ("data", "data"),
    "url": ("url", "url"),
    "file": ("file_id", "file_id"),
}
_READERS: dict[str, Callable[[dict[str, Any]], Block | None]] = {
    "text": _read_text,
    "image": _read_image,
    "document": _read_document,
    "search_result": lambda raw: text_block(read_blocks(raw.get("content")), raw),
}


# -- a whole answer as a stream --

_AT_THE_END = ("stop_reason", "stop_sequence", "stop_details", "container")


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = answer["content"]
    end = {key: answer[key] for key in _AT_THE_END if answer.get(key) is not None}
    begun = {**answer, "content": [], "stop_reason": None, "stop_sequence": None}
    counted = {"usage": answer["usage"]} if isinstance(answer.get("usage"), dict) else {}
    return [
        {"type": "message_start", "message": begun},
        *(event for at, block in enumerate(content) if isinstance(block, dict) for event in _block(block, at)),
        {"type": "message_delta", "delta": end, **counted},
        {"type": "message_stop"},
    ]


def _block(block: dict[str, Any], at: int) -> Iterator[dict[str, Any]]:
    deltas = list(_deltas(block))
    begun = {**block, **{key: empty for key, empty in _EMPTY.items() if key in block}} if deltas else block
    yield {"type": "content_block_start", "index": at, "content_block": begun}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": at, "delta": delta}
    yield {"type": "content_block_stop", "index": at}


_EMPTY: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}, "citations": None}


def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    type_ = block.get("type")
    if type_ == "text":
        yield {"type": "text_delta", "text": block.get("text", "")}
        for citation in list_of(block.get("citations")):
            yield {"type": "citations_delta", "citation": citation}
    elif type_ == "thinking":
        yield {"type": "thinking_delta", "thinking": block.get("thinking", "")}
        yield {"type": "signature_delta", "signature": block.get("signature", "")}
    elif "input" in block:
        yield {"type": "input_json_delta", "partial_json": json_text(block["input"]) or ""}
