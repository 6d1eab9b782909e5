"""Chat messages in, entries out: what the model was told, what it said, what its calls came to.

One message is one entry, in any role that the API has or had: ``developer`` is a system prompt, ``function`` a result
by its tool's name, ``function_call`` a call. What the API would refuse is left out, each with a flaw that says so. What
nobody here has a name for is kept beside it and goes back as it stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ...content import Block, Media, Opaque, Text
from ...parts import ToolCall
from ...schema.names import PLAIN_NAMES
from ..history_rules import HistoryRules, Violation
from ..reading import json_text, list_of, object_of, rest_of
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
    data_url,
    entries_by_role,
    numbered,
    read_data_url,
    result_as_read,
)
from .facts import EMPTY_ARRAY, REASONING_FIELDS, RULES, UNDERSTOOD
from .reasoning import LeadingThink


def read(messages: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """Reads messages as entries. What is no message gives none."""
    return entries_by_role(messages, _READERS)


# -- what was told -----------------------------------------------------------------------------------------------------


def read_prompt(message: Mapping[str, Any], index: int, _: CallNames, *, rules: HistoryRules = RULES) -> Prompt:
    """Reads a message that tells the model something."""
    flaws, given = Flaws(rules), message["role"]
    role: Literal["system", "user"] = "user" if given == "user" else "system"
    blocks = content_blocks(message.get("content"), f"messages[{index}].content", flaws)
    state = set_fields(message, "content", "role")
    if given != role:
        state = {"role": given, **(state or {})}
    return Prompt(role=role, blocks=blocks, origin=(index, index + 1), state=state, flaws=tuple(flaws.found))


def content_blocks(content: object, path: str, flaws: Flaws) -> tuple[Block, ...]:
    """Reads the blocks of a message's content, without those that say nothing, of which `flaws` then tells."""
    if isinstance(content, str):
        return (Text(content),) if content else ()
    found = []
    for raw, where in numbered(content, path):
        if isinstance(raw, str) and raw:
            raw = {"type": "text", "text": raw}
            flaws.add("not_a_message", where, "a bare text where an object is wanted")
        if not isinstance(raw, Mapping):
            flaws.add("not_a_message", where, "this is no part of content, which is an object")
            continue
        if raw and not isinstance(raw.get("type"), str):  # a list of a tool's own objects
            _typeless(where, flaws)
            raw = {"type": "text", "text": raw["text"] if isinstance(raw.get("text"), str) else json_text(raw)}
        if raw.get("type") == "text" and not raw.get("text"):
            flaws.add("empty_message", where, "the text says nothing")
        else:
            found.append(read_block(raw))
    return tuple(found)


def _typeless(path: str, flaws: Flaws) -> None:
    text = f"Missing required parameter: '{path}.type'."  # langchain-ai/langgraphjs#370
    flaws.add("missing_field", f"{path}.type", "it does not say of which type it is", text)


def _empty_lists(message: Mapping[str, Any], path: str, flaws: Flaws, *fields: str) -> None:
    """Adds a flaw for each field that may be null or left out, but not be an empty list, and is one."""
    for field in fields:
        if message.get(field) == []:
            text = f"Invalid '{path}.{field}': {EMPTY_ARRAY}"
            flaws.add("empty_message", f"{path}.{field}", "an empty list, which has to be left out", text)


def set_fields(message: Mapping[str, Any], *known: str) -> dict[str, Any] | None:
    """Returns what a message has beside what is known; None if that is nothing but nulls."""
    return {key: value for key, value in message.items() if key not in known and value is not None} or None


# -- what calls came to ------------------------------------------------------------------------------------------------


def result_blocks(message: Mapping[str, Any], path: str, flaws: Flaws) -> tuple[Block, ...]:
    """Reads the content of a result, which has to be there."""
    content = message.get("content")
    blocks = content_blocks(content, f"{path}.content", flaws)
    if not isinstance(content, (str, list)):
        flaws.add("empty_message", path, "a result has to have content, if only an empty text")
    return blocks


def returned(
    message: Mapping[str, Any], index: int, blocks: tuple[Block, ...], flaws: Flaws, *, rich: bool, name: object
) -> Returned:
    """Returns the result in a message, which goes back as it is unless anything is wrong with it."""
    state = None if flaws.found else message
    result = result_as_read(message.get("tool_call_id"), blocks, rich=rich, name=name, state=state)
    return Returned(results=(result,), origin=(index, index + 1), flaws=tuple(flaws.found))


def _result(message: Mapping[str, Any], index: int, _: CallNames) -> Returned:
    flaws, path = Flaws(RULES), f"messages[{index}]"
    blocks = result_blocks(message, path, flaws)
    _empty_lists(message, path, flaws, "content")
    if any(isinstance(block, Media) for block in blocks):
        what = "a result may hold text only: what else there is goes into a user's message behind it"
        flaws.add("mixed_results", path, what)
    if message["role"] == "function":
        flaws.add("not_a_message", path, "functions are no more: results have the role 'tool'")
    return returned(message, index, blocks, flaws, rich=True, name=message.get("name"))


# -- what the model said -----------------------------------------------------------------------------------------------


def _assistant(message: Mapping[str, Any], index: int, names: CallNames) -> Entry:
    answer, path = AnswerBuilder(names, RULES), f"messages[{index}]"
    for field in REASONING_FIELDS:
        if isinstance(text := message.get(field), str):
            answer.reasoning(text, {"field": field})
    content = _sound_content(message.get("content"), path, answer)
    _add(content, answer)
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        answer.refusal(refusal)
    calls = calls_of(message, path, answer.flaws)
    for raw, where in calls:
        if isinstance(raw, Mapping) and not isinstance(raw.get("type"), str):
            _typeless(where, answer.flaws)
    for raw, where in calls:
        read_call(raw, where, answer)
    if isinstance(legacy := message.get("function_call"), Mapping):  # from before there were several
        answer.flaws.add("not_a_message", f"{path}.function_call", "functions are no more: use tool_calls")
        answer.call(None, legacy.get("name"), legacy.get("arguments"))
    if message.get("reasoning_details"):
        answer.provider({"reasoning_details": message["reasoning_details"]})
    kept = set_fields(message, *UNDERSTOOD) or {}
    if isinstance(content, list) and content and content != _rendered(answer):
        kept["content"] = content
    if not (content or answer.says_more or not kept.keys().isdisjoint(("audio", "images"))):
        answer.flaws.add("empty_message", path, "the message has neither content nor calls")
    else:
        _empty_lists(message, path, answer.flaws, "content", "tool_calls")
    if kept:
        answer.provider({"fields": kept})
    return answer.reply((index, index + 1))


def _sound_content(content: object, path: str, answer: AnswerBuilder) -> str | list[Any]:
    if isinstance(content, str):
        return content
    return [raw for raw, _ in answer.flaws.sound(numbered(content, f"{path}.content"), _part_flaw)]


def _part_flaw(raw: object, path: str) -> Violation | None:
    if not isinstance(raw, Mapping):
        return RULES.violation("not_a_message", path, "this is no part of content, which is an object")
    says_nothing = raw.get("type") == "text" and not raw.get("text")
    return RULES.violation("empty_message", path, "the text says nothing") if says_nothing else None


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
            inner = raw.get("thinking") or raw.get("summary") or raw.get("reasoning")
            answer.reasoning("".join(_texts(inner)), {"field": "content"})
        elif kind == "refusal" and isinstance(raw.get("refusal"), str):
            answer.refusal(raw["refusal"])
        elif isinstance(text, str) and text:
            split_text(text, answer)


def split_text(text: str, answer: AnswerBuilder) -> None:
    """Adds text, and apart from it the reasoning in a tag that opens it."""
    think = LeadingThink()
    pieces = (think.feed(text), think.finish())
    if think.raw:
        answer.reasoning("".join(reasoning for reasoning, _ in pieces), {"inline": "".join(think.raw)})
    if rest := "".join(rest for _, rest in pieces):
        answer.text(rest)


def _texts(inner: object) -> Iterator[str]:
    if isinstance(inner, str):
        yield inner
    for item in list_of(inner):
        if isinstance(text := object_of(item).get("text"), str):
            yield text


def calls_of(message: Mapping[str, Any], path: str, flaws: Flaws) -> list[Numbered]:
    """Returns the calls of a message, each with its path."""
    calls, path = message.get("tool_calls"), f"{path}.tool_calls"
    if calls is not None and not isinstance(calls, list):
        flaws.add("not_a_message", path, "these are no calls, which are a list")
    return numbered(calls, path)


def read_call(raw: object, path: str, answer: AnswerBuilder) -> None:
    """Reads a call."""
    if not isinstance(raw, Mapping):
        answer.flaws.add("not_a_message", path, "this is no call, which is an object")
        return
    is_custom = isinstance(raw.get("custom"), Mapping)
    body = raw.get("custom") if is_custom else raw.get("function")
    if not isinstance(body, Mapping):
        answer.flaws.add("not_a_message", path, "this call has no function")
        return
    given = body.get("input") if is_custom else body.get("arguments")
    if not isinstance(given, str):
        answer.flaws.add("arguments_not_object", path, "arguments have to be a text, which is that of a JSON object")
    state = set_fields(raw, "id", "type", "index", "function", "custom")
    kind: Literal["custom", "function"] = "custom" if is_custom else "function"
    answer.call(raw.get("id"), body.get("name"), given, kind=kind, state=state)


def _rendered(answer: AnswerBuilder) -> object:
    made = render(answer.reply().answer)
    return made[0]["content"] if made else None


_READERS: dict[str, Callable[[Mapping[str, Any], int, CallNames], Entry]] = {
    "user": read_prompt,
    "system": read_prompt,
    "developer": read_prompt,
    "assistant": _assistant,
    "tool": _result,
    "function": _result,
}


# -- messages out of a turn ------------------------------------------------------------------------------------------


def render(answer: Answer) -> list[dict[str, Any]]:
    """Renders the assistant's message, and one ``tool`` message for each call. Empty if the model said nothing, or only
    thought: a message needs content or calls.

    What a result holds beside text follows in one user's message behind all results, since a ``tool`` message takes
    text only.
    """
    message: dict[str, Any] = {"role": "assistant", "content": None}
    if text := answer.text("text"):
        message["content"] = text
    if answer.own_wire:
        _render_reasoning(message, answer)
    if refusal := answer.text("refusal"):
        message["refusal"] = refusal
    calls = [_render_call(call, answer) for call in answer.our_calls]
    if calls:
        message["tool_calls"] = calls
    kept = _kept_fields(answer)
    message |= kept
    if not (message["content"] or refusal or calls or not kept.keys().isdisjoint(("audio", "images"))):
        return []
    results = [render_result(result, answer) for result in answer.results]
    return [message, *results, *media_of(answer.results, answer, _PARTS)]


def render_prompt(prompt: Prompt) -> list[dict[str, Any]]:
    """Renders the message of a prompt; none if it says nothing."""
    content = native_content(prompt.blocks, _PARTS)
    return [{"role": prompt.role, "content": content, **(prompt.state or {})}] if content else []


def media_of(
    results: Sequence[CallResult], answer: Answer, parts: Mapping[str, Callable[[Media], dict[str, Any] | None]]
) -> Iterator[dict[str, Any]]:
    """Yields one user's message with what results hold beside text and `parts` can write, each with its id."""
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
    """Renders the message of a result. Of one that was read here only the id may have changed."""
    if answer.own_wire and result.state is not None:
        return {**result.state, "tool_call_id": result.call_id}
    content = result.content if result.native is None else result.native
    return {"role": "tool", "tool_call_id": result.call_id, "content": content}


def _render_call(call: ToolCall, answer: Answer) -> dict[str, Any]:
    state = answer.state_of(call)
    if call.kind == "custom":
        custom = {"name": PLAIN_NAMES.cleaned(call.name), "input": answer.arguments[call.call_id][1]["input"]}
        return {"id": call.call_id, "type": "custom", "custom": custom, **state}
    return {**answer.as_function(call), **state}


def _kept_fields(answer: Answer) -> dict[str, Any]:
    """Returns the fields of a message that was read which nobody here knows, its text if that was in parts, and its
    images."""
    kept: dict[str, Any] = {}
    for part in answer.parts if answer.own_wire else ():
        state = part.provider_state or {}
        if part.kind == "provider":
            kept |= state.get("fields", {})
            if "images" in state:
                kept["images"] = [*kept.get("images", ()), *state["images"]]
        elif part.kind == "text" and "content" in state:
            kept["content"] = state["content"]
    return kept


def _render_reasoning(message: dict[str, Any], answer: Answer) -> None:
    """Gives reasoning back in the field it came in; its owner wants it there, or ignores it."""
    fields: dict[str, list[str]] = {}
    blocks: list[dict[str, Any]] = []
    inline = ""
    for part in answer.parts:
        state = part.provider_state or {}
        if part.kind == "provider" and "reasoning_details" in state:
            message["reasoning_details"] = state["reasoning_details"]
        elif part.kind != "reasoning":
            continue
        elif "inline" in state:
            inline = state["inline"]
        elif state.get("field") == "content":
            blocks.append({"type": "thinking", "thinking": [{"type": "text", "text": part.text}]})
        elif "field" in state:
            fields.setdefault(state["field"], []).append(part.text)
    message.update({name: "".join(texts) for name, texts in fields.items()})
    if message["content"] is None and "reasoning_content" in fields:
        message["content"] = ""  # DeepSeek refuses null beside it (can1357/oh-my-pi#788)
    text = inline + (message["content"] or "")
    if blocks:
        message["content"] = [*blocks, *([{"type": "text", "text": text}] if text else [])]
    elif text:
        message["content"] = text


# -- blocks ----------------------------------------------------------------------------------------------------------

Part = dict[str, Any]


def read_block(raw: Mapping[str, Any]) -> Block:
    """Reads a content part as a block, which keeps the part itself."""
    reader = _BLOCK_READERS.get(str(raw.get("type")))
    return (reader(raw) if reader is not None else None) or Opaque(raw)


def native_content(blocks: Iterable[Block], parts: Mapping[str, Callable[[Media], Part | None]]) -> str | list[Part]:
    """Renders blocks as a message's content: a lone text as a string, else a list of parts, which `parts` makes of
    media, by kind. What it cannot make is a placeholder there."""
    match tuple(blocks):
        case ():
            return ""
        case (Text(text, state=None),):
            return text
        case several:
            return [_native_part(block, parts) for block in several]


def text_part(text: str) -> Part:
    """Renders a piece of text."""
    return {"type": "text", "text": text}


def image_part(media: Media) -> Part | None:
    """Renders an image, by its bytes or its address."""
    url = data_url(media)
    return {"type": "image_url", "image_url": {"url": url}} if url is not None else None


def audio_part(media: Media) -> Part | None:
    """Renders a sound; the API takes bytes only, and a format rather than a type."""
    if media.data is None:
        return None
    format_ = (media.mime_type or "audio/wav").rpartition("/")[2].removeprefix("x-")
    return {
        "type": "input_audio",
        "input_audio": {"data": media.data, "format": "mp3" if format_ == "mpeg" else format_},
    }


def file_part(media: Media) -> Part | None:
    """Renders a file, by its bytes: addresses are not taken, and an id is another provider's."""
    if media.data is None:
        return None
    name = media.filename or f"file.{(media.mime_type or 'application/pdf').rpartition('/')[2]}"
    return {"type": "file", "file": {"filename": name, "file_data": data_url(media)}}


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


# -- a whole answer as a stream --------------------------------------------------------------------------------------


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
