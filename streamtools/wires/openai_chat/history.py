"""Chat messages in, entries out: what the model was told, what it said, what its calls came to.

One message is one entry, in any role that the API has or had. What the API would refuse is left out, each with a flaw;
what nobody here has a name for is kept beside it and goes back as it stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

from ...content import Block, Media, Opaque, Text, read_data_url
from ...parts import ToolCall
from ...schema.names import PLAIN_NAMES
from ..history_rules import HistoryRules, Violation
from ..reading import json_text, rest_of
from ..transcript import (
    Answer,
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Flaws,
    Numbered,
    Prompt,
    Returned,
    entries_by_role,
    numbered,
    result_as_read,
)
from .facts import EMPTY_ARRAY, IN_FUNCTION, IN_MESSAGE, OF_CALLS, READ, REASONING_FIELDS, RULES
from .reasoning import Extras, LeadingThink


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    return entries_by_role(messages, _READERS)


# -- what was told --


def read_prompt(message: Mapping[str, Any], index: int, _: CallNames, *, rules: HistoryRules = RULES) -> Prompt:
    flaws, given = Flaws(rules), message["role"]
    role: Literal["system", "user"] = "user" if given == "user" else "system"
    blocks = content_blocks(message.get("content"), f"messages[{index}].content", flaws)
    state = set_fields(message, "content", "role")
    if given != role:
        state = {"role": given, **(state or {})}
    return Prompt(role=role, blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws.found))


def content_blocks(content: object, path: str, flaws: Flaws) -> tuple[Block, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found = []
    for raw, where in numbered(content, path):
        if isinstance(raw, str) and raw:
            raw = {"type": "text", "text": raw}
            flaws.add("not_a_message", where, "expected an object, got bare text")
        if not isinstance(raw, Mapping):
            flaws.add("not_a_message", where, "expected a content part: an object")
            continue
        if raw and not isinstance(raw.get("type"), str):  # a list of a tool's own objects
            _typeless(where, flaws)
            raw = {"type": "text", "text": raw["text"] if isinstance(raw.get("text"), str) else json_text(raw)}
        if raw.get("type") == "text" and not raw.get("text"):
            flaws.add("empty_message", where, "the text is empty")
        else:
            found.append(read_block(raw))
    return tuple(found)


def _typeless(path: str, flaws: Flaws) -> None:
    text = f"Missing required parameter: '{path}.type'."  # langchain-ai/langgraphjs#370
    flaws.add("missing_field", f"{path}.type", "the part has no type", text)


def _empty_lists(message: Mapping[str, Any], path: str, flaws: Flaws, *fields: str) -> None:
    """Adds a flaw for each field that may be null or left out, but not be an empty list, and is one."""
    for field in fields:
        if message.get(field) == []:
            text = f"Invalid '{path}.{field}': {EMPTY_ARRAY}"
            flaws.add("empty_message", f"{path}.{field}", "an empty list; leave the field out", text)


def set_fields(message: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    return {key: value for key, value in message.items() if key not in known and value is not None} or None


# -- what calls came to --


def result_blocks(message: Mapping[str, Any], path: str, flaws: Flaws) -> tuple[Block, ...]:
    content = message.get("content")
    blocks = content_blocks(content, f"{path}.content", flaws)
    if not isinstance(content, (str, list)):
        flaws.add("empty_message", path, "a result must have content, if only an empty text")
    return blocks


def returned(
    message: Mapping[str, Any], index: int, blocks: tuple[Block, ...], flaws: Flaws, *, rich: bool, name: object
) -> Returned:
    state = None if flaws.found else message
    result = result_as_read(message.get("tool_call_id"), blocks, rich=rich, name=name, state=state)
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws.found))


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, path = Flaws(RULES), f"messages[{index}]"
    blocks = result_blocks(message, path, flaws)
    _empty_lists(message, path, flaws, "content")
    if any(isinstance(block, Media) for block in blocks):
        what = "a result may contain only text; put other content in a user message after it"
        flaws.add("mixed_results", path, what)
    if message["role"] == "function":
        flaws.add("not_a_message", path, "the role 'function' is obsolete; results have the role 'tool'")
    return returned(message, index, blocks, flaws, rich=True, name=message.get("name"))


# -- what the model said --


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    for field in REASONING_FIELDS:
        if isinstance(text := message.get(field), str):
            answer.reasoning(text, {"field": field})
    content = message.get("content")
    if not isinstance(content, str):
        content = [raw for raw, _ in answer.flaws.sound(numbered(content, f"{path}.content"), _part_flaw)]
    _add(content, answer)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        answer.refusal(refusal)
    calls = calls_of(message, path, answer.flaws)
    for raw, where in calls:
        if isinstance(raw, Mapping) and not isinstance(raw.get("type"), str):
            _typeless(where, answer.flaws)
    for raw, where in calls:
        read_call(raw, where, answer, says_empty=content == "")
    if isinstance(legacy := message.get("function_call"), Mapping):  # from before there were several
        answer.flaws.add("not_a_message", f"{path}.function_call", "function_call is obsolete; use tool_calls")
        answer.call(None, legacy.get("name"), legacy.get("arguments"))
    kept = set_fields(message, *READ) or {}
    if isinstance(content, list) and content:
        made = render_reply(answer.reply().answer)
        kept |= {} if made and made[0]["content"] == content else {"content": content}
    if not (content or answer.says_more or not kept.keys().isdisjoint(("audio", "images"))):
        answer.flaws.add("empty_message", path, "the message has neither content nor calls")
    else:
        _empty_lists(message, path, answer.flaws, "content", "tool_calls")
    if kept:
        answer.provider({"fields": kept})
    return answer.reply((index, index + 1))


def _part_flaw(raw: object, path: str) -> Violation | None:
    if not isinstance(raw, Mapping):
        return RULES.violation("not_a_message", path, "expected a content part: an object")
    says_nothing = raw.get("type") == "text" and not raw.get("text")
    return RULES.violation("empty_message", path, "the text is empty") if says_nothing else None


def _add(content: str | list[Any], answer: AnswerBuilder) -> None:
    if isinstance(content, str):
        split_text(content, answer)
        return
    if content and all(raw.get("type") == "text" and isinstance(raw.get("text"), str) for raw in content):
        answer.text("".join(raw["text"] for raw in content), {"content": content})  # in parts, with what stands at them
        return
    for raw in content:
        kind, text = raw.get("type"), raw.get("text")
        if kind in ("thinking", "reasoning"):
            answer.reasoning("".join(Extras().add("content", [raw])))
        elif kind == "refusal" and isinstance(raw.get("refusal"), str):
            answer.refusal(raw["refusal"])
        elif isinstance(text, str) and text:
            split_text(text, answer)


def split_text(text: str, answer: AnswerBuilder) -> None:
    think = LeadingThink()
    pieces = (think.feed(text), think.finish())
    if think.raw:
        answer.reasoning("".join(reasoning for reasoning, _ in pieces), {"inline": "".join(think.raw)})
    if rest := "".join(rest for _, rest in pieces):
        answer.text(rest)


def calls_of(message: Mapping[str, Any], path: str, flaws: Flaws) -> list[Numbered]:
    calls, path = message.get("tool_calls"), f"{path}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        flaws.add("not_a_message", path, "expected a list of calls")
    return numbered(calls, path)


def read_call(raw: object, path: str, answer: AnswerBuilder, *, says_empty: bool = False) -> None:
    """Reads a call; `says_empty`: it stands beside an empty text."""
    if not isinstance(raw, Mapping):
        answer.flaws.add("not_a_message", path, "expected a call: an object")
        return
    is_custom = isinstance(raw.get("custom"), Mapping)
    body = raw.get("custom") if is_custom else raw.get("function")
    if not isinstance(body, Mapping):
        answer.flaws.add("not_a_message", path, "the call has no function")
        return
    given = body.get("input") if is_custom else body.get("arguments")
    if not isinstance(given, str):
        answer.flaws.add("arguments_not_object", path, "arguments must be the text of a JSON object")
    state = set_fields(raw, "id", "type", "index", "function", "custom") or {}
    state |= {IN_FUNCTION + name: value for name, value in body.items() if name in OF_CALLS}
    state |= {IN_MESSAGE + "content": ""} if says_empty else {}
    kind: Literal["custom", "function"] = "custom" if is_custom else "function"
    answer.call(raw.get("id"), body.get("name"), given, kind=kind, state=state or None)


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": read_prompt,
    "system": read_prompt,
    "developer": read_prompt,
    "assistant": _assistant,
    "tool": _result,
    "function": _result,
}


# -- messages out of a turn --


def render_reply(answer: Answer) -> list[dict[str, Any]]:
    """Empty if the model only thought: a message needs content or calls. Content that says nothing beside calls is
    null, as OpenAI writes it, unless the server wrote ``""``."""
    message, kept = _said(answer)
    if calls := answer.our_calls:
        message["tool_calls"] = [_render_call(call, answer) for call in calls]
    message |= kept
    if not (message["content"] or "refusal" in message or calls or not kept.keys().isdisjoint(("audio", "images"))):
        return []
    says_empty = any(IN_MESSAGE + "content" in answer.state_of(call) for call in calls)
    if message["content"] is None and (says_empty or "reasoning_content" in message):
        message["content"] = ""  # DeepSeek refuses null beside reasoning (can1357/oh-my-pi#788)
    return [message]


def render_results(answer: Answer) -> list[dict[str, Any]]:
    """What a result holds beside text follows in one user's message, since a ``tool`` message takes text only."""
    results = [render_result(result, answer) for result in answer.results]
    return [*results, *media_of(answer.results, answer, _PARTS)]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    content = native_content(prompt.blocks, _PARTS)
    return [{"role": prompt.role, "content": content, **(prompt.state or {})}] if content else []


def media_of(
    results: Sequence[CallResult], answer: Answer, parts: Mapping[str, Callable[[Media], dict[str, Any] | None]]
) -> Iterator[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for result in results:
        if result.native is not None or (answer.own_wire and result.state is not None):
            continue
        media = [block for block in result.blocks if isinstance(block, Media) and block.kind in parts]
        if written := [part for block in media if (part := parts[block.kind](block)) is not None]:
            content += [text_part(f"From the result of call {result.call_id}:"), *written]
    if content:
        yield {"role": "user", "content": content}


def render_result(result: CallResult, answer: Answer) -> dict[str, Any]:
    if answer.own_wire and result.state is not None:
        return {**result.state, "tool_call_id": result.call_id}
    content = result.content if result.native is None else result.native
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    if call.kind == "custom":
        custom = {"name": PLAIN_NAMES.cleaned(call.name), "input": answer.arguments[call.call_id][1]["input"]}
        rendered: dict[str, Any] = {"id": call.call_id, "type": "custom", "custom": custom}
    else:
        rendered = answer.as_function(call)
    for name, value in answer.state_of(call).items():
        if name.startswith(IN_FUNCTION):
            rendered[rendered["type"]][name.removeprefix(IN_FUNCTION)] = value
        elif not name.startswith(IN_MESSAGE):
            rendered[name] = value
    return rendered


def _said(answer: Answer) -> tuple[dict[str, Any], dict[str, Any]]:
    fields: dict[str, str] = {}
    kept: dict[str, Any] = {}
    said: list[Any] = []
    for part in answer.parts:
        state = answer.state_of(part)
        said += state.get("blocks", [state.get("inline", part.text if part.kind == "text" else "")])
        name = "refusal" if part.kind == "refusal" else state.get("field")
        if name and (part.text or name != "refusal"):
            fields[name] = fields.get(name, "") + part.text
        elif part.kind == "provider":
            kept |= state.get("fields", {})
            if "images" in state:
                kept["images"] = [*kept.get("images", ()), *state["images"]]
        elif part.kind == "text" and "content" in state:
            kept["content"] = state["content"]
    runs = [[*run] if kind is dict else ["".join(run)] for kind, run in groupby(filter(None, said), key=type)]
    content = [text_part(one) if isinstance(one, str) else one for run in runs for one in run]
    is_typed = any(isinstance(one, dict) for one in said)
    return {"role": "assistant", "content": content if is_typed else "".join(said) or None, **fields}, kept


# -- blocks --

Part = dict[str, Any]


def read_block(raw: Mapping[str, Any]) -> Block:
    reader = _BLOCK_READERS.get(str(raw.get("type")))
    return (reader(raw) if reader is not None else None) or Opaque(raw)


def native_content(blocks: Iterable[Block], parts: Mapping[str, Callable[[Media], Part | None]]) -> str | list[Part]:
    match tuple(blocks):
        case ():
            return ""
        case (Text(text, state=None),):
            return text
        case several:
            return [_native_part(block, parts) for block in several]


def text_part(text: str) -> Part:
    return {"type": "text", "text": text}


def image_part(media: Media) -> Part | None:
    url = media.address()
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else None


def audio_part(media: Media) -> Part | None:
    """The API takes bytes only, and a format rather than a type."""
    if media.data is None:
        return None
    format_ = (media.mime_type or "audio/wav").rpartition("/")[2].removeprefix("x-")
    return {
        "type": "input_audio",
        "input_audio": {"data": media.data, "format": "mp3" if format_ == "mpeg" else format_},
    }


def file_part(media: Media) -> Part | None:
    """Addresses are not taken, and an id is another provider's."""
    if media.data is None:
        return None
    name = media.filename or f"file.{(media.mime_type or 'application/pdf').rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": media.address()}}


def _native_part(block: Block, parts: Mapping[str, Callable[[Media], Part | None]]) -> Part:
    if block.state is not None:
        return dict(block.state)
    if isinstance(block, Text):
        return text_part(block.text)
    assert isinstance(block, Media), "an opaque block is its state"
    write = parts.get(block.kind)
    return (write(block) if write is not None else None) or text_part(block.placeholder())


def _text(raw: Mapping[str, Any]) -> Block | None:
    text = raw.get("text")
    return Text(text, state=raw) if isinstance(text, str) else None


def _image(raw: Mapping[str, Any]) -> Block | None:
    image = raw.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else image  # Mistral also takes the bare address
    if not isinstance(url, str):
        return None
    return Media(kind="image", state=raw, **_at(url))


def _at(url: str) -> dict[str, str | None]:
    mime_type, data = read_data_url(url) or (None, None)
    return {"mime_type": mime_type, "data": data, "url": None if data is not None else url}


def _audio(raw: Mapping[str, Any]) -> Block | None:
    audio = raw.get("input_audio")
    data = audio.get("data") if isinstance(audio, Mapping) else audio  # Mistral takes the bytes alone
    if not isinstance(data, str):
        return None
    format_ = audio.get("format") if isinstance(audio, Mapping) else None
    mime_type = f"audio/{'mpeg' if format_ == 'mp3' else format_}" if isinstance(format_, str) else None
    return Media(kind="audio", mime_type=mime_type, data=data, state=raw)


def _file(raw: Mapping[str, Any]) -> Block | None:
    file = raw.get("file")
    if not isinstance(file, Mapping):
        return None
    given, file_id, name = file.get("file_data"), file.get("file_id"), file.get("filename")
    mime_type, data = (read_data_url(given) or (None, given)) if isinstance(given, str) else (None, None)
    return Media(
        kind="file",
        mime_type=mime_type,
        data=data,
        file_id=file_id if isinstance(file_id, str) else None,
        filename=name if isinstance(name, str) else None,
        state=raw,
    )


def _document(raw: Mapping[str, Any]) -> Block | None:
    url, name = raw.get("document_url"), raw.get("document_name")
    if not isinstance(url, str):
        return None
    return Media(kind="file", filename=name if isinstance(name, str) else None, state=raw, **_at(url))


_BLOCK_READERS: dict[str, Callable[[Mapping[str, Any]], Block | None]] = {
    "text": _text,
    "image_url": _image,
    "input_audio": _audio,
    "file": _file,
    "document_url": _document,
}


# -- a whole answer as a stream --


def whole(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the chunk of an answer. Each choice is whole, so one is followed: index 0, wherever the list has it."""
    choices = sorted(answer["choices"], key=lambda one: not (isinstance(one, dict) and one.get("index") == 0))
    said = [_chunk(one) | {"index": at} if isinstance(one, dict) else one for at, one in enumerate(choices)]
    return [{**answer, "object": "chat.completion.chunk", "choices": said}]


def _chunk(choice: dict[str, Any]) -> dict[str, Any]:
    message = choice.get("message")
    delta = dict(message) if isinstance(message, dict) else {}
    calls = delta.get("tool_calls")
    if isinstance(calls, list):
        delta["tool_calls"] = [
            {"index": at, **call} if isinstance(call, dict) else call for at, call in enumerate(calls)
        ]
    # Snowflake Cortex says nothing of the reason; the body shows by its end that the choice is whole.
    reason = {"finish_reason": "unknown"} if choice.get("finish_reason") == "" else {}
    return {**rest_of(choice, "message"), **reason, "delta": delta}


_PARTS: Mapping[str, Callable[[Media], dict[str, Any] | None]] = {
    "image": image_part,
    "audio": audio_part,
    "file": file_part,
}
