"""Input items in, entries out: what the user asked, what the model said, what its calls came to.

A list that the API would refuse is put right before (`sound_items`): items that are there twice, reasoning without what
followed it, calls without their reasoning. An ``item_reference`` stands for an item that the provider stores; outputs
whose call is not in such a history are passed on with the model's items.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeGuard

from pydantic_core import from_json

from ...content import Block, Media, Opaque, Text, read_data_url
from ...ground.text import excerpt
from ...parts import Part, ToolCall
from ...schema.names import PLAIN_NAMES
from ..history_rules import Violation, ViolationCode
from ..reading import json_text, list_of, object_of, objects_in, read_text, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallResult,
    Entry,
    Prompt,
    Returned,
    entries_in_runs,
    items_of,
    output_of,
    text_of,
    written,
)
from .facts import ARGUMENTS, NO_REASONING, RULES, RUNNING
from .items import ANSWERS, BUILT_IN, TEXT_FIELDS, call_kind, name_of, texts_of, type_of

_ANSWERED = {answer: call for call, answer in ANSWERS.items()}
_WRITTEN = frozenset({"custom_tool_call_output", "function_call_output"})  # by us, and always with an output
_RESULT_TYPES = _WRITTEN | _ANSWERED.keys()
_BLOCK_TEXTS = frozenset({"input_text", "output_text", "text"})


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    reader = _Reader(messages)
    return entries_in_runs(messages, is_item, reader.asked, reader.add, RULES)


class _Reader:
    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self._read = items
        self._items, self._flaws = sound_items(items)
        self._served = set[str]()  # ids of calls that the provider runs
        self._refers = False  # the history is known in part
        self._known = defaultdict[str, set[str]](set)  # by id: which types of calls have it
        for item in filter(is_item, items):
            if call_kind(type_of(item), item) == "server":
                self._served.add(_call_id(item) or str(item.get("id")))
            self._refers = self._refers or type_of(item) == "item_reference"
            if type_of(item).endswith("_call") or type_of(item) in ANSWERS:
                self._known[_call_id(item)].add(type_of(item))

    def asked(self, number: int) -> Prompt | Returned | None:
        item = self._read[number]
        if is_prompt(item):
            sound = self._items[number]
            assert sound is not None, "a prompt may be empty, but it stays one"
            return _prompt(sound, number, self._flaws.get(number, ()))
        if not self._is_result(item):
            return None
        flaws = tuple(self._output_flaws(item, f"input[{number}]"))
        return Returned(results=(_result(item, flaws),), origin=(number, number + 1), flaws=flaws)

    def add(self, number: int, place: int, answer: AnswerBuilder) -> None:
        answer.flaws.found += self._flaws.get(number, ())
        if (item := self._items[number]) is not None:
            _add(item, {"output_index": place, "item": item}, answer)

    def _is_result(self, item: Mapping[str, Any]) -> bool:
        call_id = _call_id(item)
        if type_of(item) not in _RESULT_TYPES or call_id in self._served:
            return False
        if type_of(item) == "tool_search_output" and item.get("execution") != "client":
            return call_id in self._known
        return call_id in self._known or not self._refers

    def _output_flaws(self, item: Mapping[str, Any], path: str) -> Iterator[Violation]:
        type_, output = type_of(item), item.get("output")
        calls = self._known.get(_call_id(item))
        if calls and _ANSWERED.get(type_, type_.removesuffix("_output")) not in calls:
            yield RULES.violation("orphan_result", path, f"a {type_} answers a call of another type")
        if type_ not in _WRITTEN or isinstance(output, (str, list)):
            return
        if output is None:
            text = f"Missing required parameter: '{path}.output'."
            yield RULES.violation("missing_field", path, "a result must have an output, if only an empty text", text)
        else:
            yield RULES.violation("bad_result", path, "the output is neither text nor a list of blocks")


_NAMED_BY_ID = frozenset({"local_shell_call_output", "mcp_approval_request"})


def _call_id(item: Mapping[str, Any]) -> str:
    """Returns the id that says which call this is, or answers. A local shell's output may have it as its own."""
    type_ = type_of(item)
    found = item.get("call_id") or (item.get("id") if type_ in _NAMED_BY_ID else item.get("approval_request_id"))
    return found if isinstance(found, str) else ""


# -- what was asked, and what calls came to --


def _prompt(item: Mapping[str, Any], place: int, flaws: Sequence[Violation]) -> Prompt:
    beside = rest_of(item, "role", "content")
    if item["role"] == "developer":
        beside["role"] = "developer"
    return Prompt(
        role="user" if item["role"] == "user" else "system",
        blocks=_read_blocks(item["content"]),
        origin=(place, place + 1),
        state=beside or None,
        flaws=tuple(flaws),
    )


def _result(item: Mapping[str, Any], flaws: Sequence[Violation]) -> CallResult:
    if type_of(item) == "mcp_approval_response":
        approved, reason = item.get("approve") is True, read_text(item.get("reason"))
        content = "approved" if approved else reason or "not approved"
        return CallResult(call_id=_call_id(item), content=content, is_error=not approved, state=None if flaws else item)
    output = item.get("tools", "") if item.get("output") is None else item["output"]
    blocks = _read_blocks(output)
    is_told = isinstance(output, str) or len(blocks) == (len(output) if isinstance(output, list) else -1)
    return CallResult(
        call_id=_call_id(item),
        content=text_of(blocks) if is_told and not _has_chunks(output) else json_text(output) or "",
        is_error=item.get("status") == "failed",
        blocks=blocks if any(isinstance(block, Media) for block in blocks) else (),
        state=None if flaws else item,
    )


def _has_chunks(output: object) -> bool:
    """Returns whether this is a shell's output: each chunk has its own streams and its own end."""
    return isinstance(output, list) and any(isinstance(chunk, dict) and "outcome" in chunk for chunk in output)


def _read_blocks(content: object) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),)
    return tuple(_read_block(raw) for raw in list_of(content) if isinstance(raw, dict))


def _read_block(raw: dict[str, Any]) -> Block:
    kind = type_of(raw)
    if kind in _BLOCK_TEXTS and isinstance(text := raw.get("text"), str):
        return Text(text, state=raw)
    found: dict[str, str] = {}
    if kind == "input_image":
        found = _where(raw.get("image_url"), raw.get("image_url"), raw.get("file_id"))
    elif kind == "input_file":
        found = _where(raw.get("file_data"), raw.get("file_url"), raw.get("file_id"))
    if not found:
        return Opaque(raw)
    name = raw.get("filename")
    filename = name if isinstance(name, str) else None
    return Media(kind="image" if kind == "input_image" else "file", filename=filename, state=raw, **found)


def _where(data: object, url: object, file_id: object) -> dict[str, str]:
    if isinstance(data, str) and (read := read_data_url(data)) is not None:
        return ({"mime_type": read[0]} if read[0] else {}) | {"data": read[1]}
    if isinstance(url, str):
        return {"url": url}
    return {"file_id": file_id} if isinstance(file_id, str) else {}


# -- what the model said --


def _add(item: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    type_ = type_of(item) or "message"
    kind = call_kind(type_, item)
    if kind is not None:
        id_ = item.get("call_id") or (item.get("id") if kind in ("server", "approval") else None)
        namespace = item.get("namespace")
        answer.call(id_, name_of(item), _arguments(type_, item), kind=kind, state=state, namespace=namespace)
    elif type_ == "message":
        _add_message(item, state, answer)
    elif type_ == "reasoning":
        texts = texts_of(item, "summary") or texts_of(item, "content")
        answer.reasoning("\n\n".join(texts), state)
    else:
        answer.provider(state)


def _arguments(type_: str, item: Mapping[str, Any]) -> object:
    if type_ in TEXT_FIELDS:
        value = item.get(TEXT_FIELDS[type_])
        return "" if value is None else value
    return {key: item[key] for key in BUILT_IN[type_] if key in item}


def _add_message(item: Mapping[str, Any], state: Mapping[str, Any], answer: AnswerBuilder) -> None:
    text, refusal = ("".join(texts_of(item, channel)) for channel in ("text", "refusal"))
    if text or not refusal:
        answer.text(text, state)
    if refusal:
        answer.refusal(refusal)
        if not text:
            answer.provider(state)


# -- items that the API would refuse --

# Input items that the API would refuse, and what takes their place.
#
# The provider pairs items by their ids. It wants the reasoning back that led to a call or message, and after reasoning
# the item that it led to. An item without its id is paired with nothing: so a call whose reasoning is lost goes
# without. That it is lost is a guess: what a model that reasons elsewhere in the history says first to a prompt began
# with that.

_ASKING = ("user", "system", "developer")
_LED_TO = frozenset({"function_call", "message"})
_TEXTS = ("id", "type", "status")
_ANSWERS = ("_call_output", "tool_search_output", "mcp_approval_response")
_NO_BLOCK = "the message contains something other than content blocks, which are objects with a type"


def is_item(item: object) -> TypeGuard[Mapping[str, Any]]:
    if not isinstance(item, Mapping):
        return False
    type_ = type_of(item)
    return type_ not in ("", "message") or item.get("role") in (*_ASKING, "assistant")


def is_prompt(item: Mapping[str, Any]) -> bool:
    return type_of(item) in ("", "message") and item.get("role") in _ASKING


def sound_items(
    items: Sequence[Mapping[str, Any]],
) -> tuple[list[Mapping[str, Any] | None], dict[int, list[Violation]]]:
    """Returns the items such that the API takes them, None for those that have to go; and what was wrong, by place."""
    sound = _Sound(items)
    sound.without_nulls()
    sound.without_empty_messages()
    sound.without_twins()
    for run in sound.runs():
        sound.with_summaries(run.places)
        sound.without_loose_reasoning(run.places)
    sound.without_lost_reasoning()
    return sound.items, sound.flaws


class _Run(NamedTuple):
    places: list[int]
    opens: bool  # it is the first thing that the model said to a prompt


class _Sound:
    def __init__(self, items: Sequence[Mapping[str, Any]]) -> None:
        self.items: list[Mapping[str, Any] | None] = [item if is_item(item) else None for item in items]
        self.flaws: dict[int, list[Violation]] = defaultdict(list)

    def without_nulls(self) -> None:
        """Removes what should be a text and is none: an id, a type or a status (vllm-project/vllm#44608). A message
        that has a status was completed. Removes also what reasoning may not have."""
        for place, item in enumerate(self.items):
            for key in _surplus(item or {}):
                self._flaw(place, "surplus_field", f"reasoning cannot be sent back with this {key}")
                item = self.items[place] = rest_of(item or {}, key)
            null = _null(item or {})
            if item is not None and null:
                self._flaw(place, "missing_field", f"{' and '.join(null)} of the item is null", "")
                status = {"status": "completed"} if "status" in null and type_of(item) == "message" else {}
                self.items[place] = rest_of(item, *null) | status

    def without_empty_messages(self) -> None:
        for place, item in enumerate(self.items):
            if item is None or type_of(item) not in ("", "message"):
                continue
            content = item.get("content")
            blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else content
            if not isinstance(blocks, (list, str)) or not blocks:
                self._flaw(place, "empty_message", "the message is empty")
                self.items[place] = None if not is_prompt(item) else {**item, "content": []}
            elif blocks != content:
                self._flaw(place, "not_a_message", _NO_BLOCK)
                self.items[place] = {**item, "content": blocks}

    def without_twins(self) -> None:
        """Lets no two items have one id: one that is there twice goes, one that only has another's id loses it."""
        seen: dict[str, Mapping[str, Any]] = {}
        for place, item in enumerate(self.items):
            id_ = read_text(item.get("id")) if item is not None and type_of(item) != "item_reference" else None
            if id_ is None or item is None or is_prompt(item) or type_of(item).endswith(_ANSWERS):
                continue
            if (first := seen.setdefault(id_, item)) is not item:
                self._flaw(place, "duplicate_id", f"another item has the id '{excerpt(id_, 80)}'")
                self.items[place] = None if first == item else rest_of(item, "id")

    def runs(self) -> Iterator[_Run]:
        run = _Run([], opens=True)
        for place, item in enumerate(self.items):
            if item is None:
                continue
            if is_prompt(item) or type_of(item).endswith(_ANSWERS):
                yield run
                run = _Run([], opens=is_prompt(item))
            else:
                run.places.append(place)
        yield run

    def with_summaries(self, run: list[int]) -> None:
        for place in run:
            item = self.items[place]
            if _is_reasoning(item) and not isinstance(item.get("summary"), list):
                self._flaw(place, "missing_field", "the reasoning has no summary (an empty one is allowed)")
                self.items[place] = {**item, "summary": []}

    def without_loose_reasoning(self, run: list[int]) -> None:
        while run and _is_reasoning(self.items[run[-1]]):
            place = run.pop()
            self._flaw(place, "reasoning_apart", "the reasoning lacks the item that it led to")
            self.items[place] = None

    def without_lost_reasoning(self) -> None:
        reasons = any(_is_reasoning(item) and read_text(item.get("id")) for item in self.items)
        for run in self.runs() if reasons else ():
            if not run.opens or any(_is_reasoning(self.items[place]) for place in run.places):
                continue
            for place in filter(self._is_led_to, run.places):
                item = self.items[place]
                assert item is not None, "what is led to is an item"
                self._flaw(place, "reasoning_apart", "the item lacks its reasoning", NO_REASONING)
                self.items[place] = rest_of(item, "id")

    def _is_led_to(self, place: int) -> bool:
        item = self.items[place]
        return item is not None and type_of(item) in _LED_TO and read_text(item.get("id")) is not None

    def _flaw(self, place: int, code: ViolationCode, message: str, text: str | None = None) -> None:
        self.flaws[place].append(RULES.violation(code, f"input[{place}]", message, text))


def _null(item: Mapping[str, Any]) -> list[str]:
    return [key for key in _TEXTS if key in item and not read_text(item[key])]


def _surplus(item: Mapping[str, Any]) -> list[str]:
    """Returns the fields that the API gives reasoning and does not take back: its status (BerriAI/litellm#13420), and
    its text where that stands there encrypted, too (router-for-me/CLIProxyAPI#5825)."""
    refused = ("status", "content") if item.get("encrypted_content") else ("status",)
    return [key for key in refused if _is_reasoning(item) and item.get(key)]


def _is_reasoning(item: Mapping[str, Any] | None) -> TypeGuard[Mapping[str, Any]]:
    return item is not None and type_of(item) == "reasoning"


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    items = items_of(
        answer,
        "output_index",
        "item",
        of_call=_item_of_call,
        fit=_returnable,
        content_of=_content,
        message={"type": "message", "role": "assistant", "status": "completed"},
    )
    # "Item 'rs_...' of type 'reasoning' was provided without its required following item" (vercel/ai#7099)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items


def render_results(answer: Answer) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for result in answer.results:
        item = _item_of_call(answer.calls[result.call_id], answer)
        assert item is not None, "only the provider's own calls have no item, and they have no result"
        kept = result.state if answer.own_wire and result.state is not None else {}
        if kept.get("type") == ANSWERS.get(item["type"], f"{item['type']}_output"):
            items.append({**kept, **({"call_id": result.call_id} if "call_id" in kept else {})})
        elif (output := _OUTPUTS[item["type"]](_own(result, answer), item)) is not None:
            items.append(output | ({"caller": item["caller"]} if isinstance(item.get("caller"), dict) else {}))
    return items


def _item_of_call(call: ToolCall, answer: Answer) -> dict[str, Any] | None:
    kept: Mapping[str, Any] = answer.state_of(call).get("item") or {}
    if call.kind == "server":
        return dict(kept) or None
    if call.kind == "approval" and kept:
        return {**kept, "id": call.call_id}
    if kept.get("type") in _BUILT_IN:
        return {**kept, "call_id": call.call_id}
    text, value = answer.arguments[call.call_id]
    own = {key: value for key, value in kept.items() if call.status != "truncated" or key not in ("id", "status")}
    if call.kind == "custom":
        what = {"type": "custom_tool_call", "input": value["input"]}
    else:
        what = {"type": "function_call", "arguments": text}
    group = {} if call.namespace is None else {"namespace": call.namespace}
    return own | what | {"call_id": call.call_id, "name": PLAIN_NAMES.cleaned(call.local_name), **group}


def _returnable(item: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the item without what the API does not take back: who made it, an id or a status that is none (a null
    id: vllm-project/vllm#44608), and what reasoning may not have."""
    kept = rest_of(item, "created_by", *_surplus(item), *_null(item))
    if kept.get("type") == "shell_call_output" and isinstance(chunks := kept.get("output"), list):
        kept["output"] = [_returnable(chunk) if isinstance(chunk, dict) else chunk for chunk in chunks]
    return kept


def _content(part: Part) -> dict[str, Any] | None:
    if part.kind == "text" and part.text.strip():
        return {"type": "output_text", "text": part.text, "annotations": []}
    return {"type": "refusal", "refusal": part.text} if part.kind == "refusal" else None


def _shell_output(result: CallResult, item: Mapping[str, Any]) -> dict[str, Any]:
    """Renders all that a tool returned as one chunk: which of it was an error's text is not known."""
    chunk = {
        "stdout": "" if result.is_error else result.content,
        "stderr": result.content if result.is_error else "",
        "outcome": {"type": "exit", "exit_code": 1 if result.is_error else 0},
    }
    output = {"type": "shell_call_output", "call_id": result.call_id, "output": [chunk]}
    longest = object_of(item.get("action")).get("max_output_length")
    return output | ({"max_output_length": longest} if isinstance(longest, int) else {})


def _apply_patch_output(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    status = "failed" if result.is_error else "completed"
    return {"type": "apply_patch_call_output", "call_id": result.call_id, "status": status, "output": result.content}


def _screenshot(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any] | None:
    """Renders the picture that a tool returned; without one there is no answer. What `native` has beside it stands in
    the item: ``acknowledged_safety_checks``, which nobody acknowledges but the tool."""
    image = next((block for block in result.blocks if isinstance(block, Media) and block.kind == "image"), None)
    found = None if image is None else _image(image)
    if found is None:
        return None
    picture = {key: value for key, value in found.items() if key in ("image_url", "file_id")}
    more = result.native if isinstance(result.native, dict) else {}
    output = {"type": "computer_screenshot", **picture}
    return {"type": "computer_call_output", "call_id": result.call_id, "output": output, **more}


def _found_tools(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    tools = _list_in(result.content) if result.native is None else result.native
    status = "completed" if isinstance(tools, list) and not result.is_error else "incomplete"
    found = {"execution": "client", "status": status, "tools": list_of(tools)}
    return {"type": "tool_search_output", "call_id": result.call_id, **found}


def _list_in(text: str) -> object:
    try:
        return from_json(text)
    except ValueError:
        return None


def _approval(result: CallResult, _: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"type": "mcp_approval_response", "approval_request_id": result.call_id, "approve": not result.is_error}
    return answer | ({"reason": result.content} if result.is_error else {})


def _rich_output(type_: str) -> Callable[[CallResult, Mapping[str, Any]], dict[str, Any]]:
    return lambda result, _: {"type": type_, "call_id": result.call_id, "output": output_of(result, _native_blocks)}


def _own(result: CallResult, answer: Answer) -> CallResult:
    if answer.own_wire:
        return result
    return replace(result, blocks=tuple(replace(b, state=None) for b in result.blocks if not isinstance(b, Opaque)))


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    own = {"role": prompt.role, **(prompt.state or {})}
    match prompt.blocks:
        case (Text(text, state=None),):
            return [{**own, "content": text}] if text else []
        case _:
            blocks = _native_blocks(prompt.blocks)
            return [{**own, "content": blocks}] if blocks else []


def _native_blocks(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return written(blocks, text=lambda text: {"type": "input_text", "text": text}, media=_media)


def _media(media: Media) -> dict[str, Any] | None:
    return _image(media) if media.kind == "image" else _file(media)


def _image(media: Media) -> dict[str, Any] | None:
    if (url := media.address()) is not None:
        return {"type": "input_image", "image_url": url, "detail": "auto"}
    return {"type": "input_image", "file_id": media.file_id, "detail": "auto"} if media.file_id is not None else None


def _file(media: Media) -> dict[str, Any] | None:
    if media.kind != "file":
        return None
    name = media.filename or "file"
    if media.data is not None:
        return {"type": "input_file", "filename": name, "file_data": media.address()}
    if media.url is not None:
        return {"type": "input_file", "file_url": media.url}
    return {"type": "input_file", "file_id": media.file_id} if media.file_id is not None else None


_BUILT_IN: dict[str, Callable[[CallResult, Mapping[str, Any]], dict[str, Any] | None]] = {
    "local_shell_call": lambda result, _: {
        "type": "local_shell_call_output",
        "call_id": result.call_id,
        "output": result.content,
    },
    "shell_call": _shell_output,
    "apply_patch_call": _apply_patch_output,
    "computer_call": _screenshot,
    "tool_search_call": _found_tools,
    "mcp_approval_request": _approval,
}
_OUTPUTS: dict[str, Callable[[CallResult, Mapping[str, Any]], dict[str, Any] | None]] = {
    "function_call": _rich_output("function_call_output"),
    "custom_tool_call": _rich_output("custom_tool_call_output"),
    **_BUILT_IN,
}


# -- a whole answer as a stream --

# Rewrites a whole response of the Responses API as the events that say the same: each item in one piece.
#
# A response in the background that is still queued or in progress has no end: neither has the stream, nor any call in
# it.

_ENDS = {"incomplete": "response.incomplete", "failed": "response.failed", "cancelled": "response.cancelled"}


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    status = str(answer.get("status"))
    last = RUNNING.get(status) or _ENDS.get(status, "response.completed")
    begun = {**answer, "output": [], "status": "in_progress", "usage": None, "error": None, "incomplete_details": None}
    return [
        {"type": "response.created", "response": begun},
        *(
            event
            for at, item in enumerate(answer["output"])
            if isinstance(item, dict)
            for event in _item(item, at, goes_on=status in RUNNING)
        ),
        {"type": last, "response": dict(answer)},
    ]


def _item(item: dict[str, Any], at: int, *, goes_on: bool) -> Iterator[dict[str, Any]]:
    begun = rest_of(item, "content", "summary", "arguments", "input")
    empty: dict[str, Any] = {key: [] for key in ("content", "summary") if isinstance(item.get(key), list)}
    empty |= {key: "" for key in ("arguments", "input") if isinstance(item.get(key), str)}
    head = {"output_index": at, "item_id": item.get("id")}
    yield {"type": "response.output_item.added", "output_index": at, "item": {**begun, **empty}}
    for number, part in enumerate(objects_in(item, "content")):
        yield from _content_events(part, {**head, "content_index": number})
    for number, part in enumerate(objects_in(item, "summary")):
        placed = {**head, "summary_index": number}
        yield {"type": "response.reasoning_summary_part.added", **placed, "part": {**part, "text": ""}}
        yield {"type": "response.reasoning_summary_text.delta", **placed, "delta": part.get("text", "")}
        yield {"type": "response.reasoning_summary_text.done", **placed, "text": part.get("text", "")}
    is_ours = call_kind(type_of(item), item) not in (None, "server")
    if goes_on and is_ours:
        yield from _argument_events(item, head)
    elif not goes_on or item.get("status") in (None, "completed"):
        yield {"type": "response.output_item.done", "output_index": at, "item": item}


def _argument_events(item: dict[str, Any], head: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the arguments of a call that does not end, since it would run now and again in the whole response."""
    text = item.get(TEXT_FIELDS.get(type_of(item), ""))
    prefix = next((prefix for prefix, (type_, _) in ARGUMENTS.items() if type_ == item.get("type")), None)
    if isinstance(text, str) and prefix is not None:
        yield {"type": f"{prefix}.delta", **head, "delta": text}


_DELTAS = {
    "output_text": ("response.output_text.delta", "text"),
    "refusal": ("response.refusal.delta", "refusal"),
    "reasoning_text": ("response.reasoning_text.delta", "text"),
}


def _content_events(part: dict[str, Any], place: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if part.get("type") not in _DELTAS:
        return
    kind, key = _DELTAS[part["type"]]
    yield {"type": "response.content_part.added", **place, "part": {**part, key: "", "annotations": []}}
    yield {"type": kind, **place, "delta": part.get(key, "")}
    yield {"type": "response.content_part.done", **place, "part": part}
