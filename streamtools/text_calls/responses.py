"""Reads whole responses of any form, and describes tools and the form of the answer to models without tool calling."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias, cast

import orjson
from pydantic_core import to_json

from ..content import Media, Text
from ..errors import AnswerPending, ApprovalPending
from ..events import Observation
from ..history.calls import result_of, wire_named
from ..parts import OUTCOMES, Part, ToolCall
from ..schema.translation.document import free_name, mapped
from ..stages import arguments_of
from ..stages.arguments import DECODER
from ..tools import AnyTools, Tool, Toolset
from ..turn import Turn
from ..wires import Answer, Prompt, known
from .dialects import DIALECTS
from .payloads import WRAPPER

_THINK, _THINK_END = "<think>", "</think>"


def said(response: Any) -> tuple[str, list[ToolCall]]:
    """Returns the text and the calls of a turn, or of a whole response: a chat completion, an Anthropic message, a
    message of either, or a text; raises a `TypeError` for anything else."""
    if isinstance(response, Turn):
        return response.text, _ours(response)
    if isinstance(response, str):
        return response, []
    message = _message(response)
    content = _get(message, "content")
    blocks: list[Any] = content if isinstance(content, list) else []
    text = content if isinstance(content, str) else "".join(_text(block) for block in blocks)
    # Chat Completions has its calls beside the content, Anthropic in it.
    calls = [*(_get(message, "tool_calls") or ()), *(block for block in blocks if _get(block, "type") == "tool_use")]
    return text, list(map(_call, calls))


def _ours(turn: Turn) -> list[ToolCall]:
    return [call for call in turn.calls if call.kind != "server"]


def _message(response: Any) -> Any:
    # Each wire says where a whole response has its message: `choices[0].message`, or the response itself.
    places = {wire.message_in: None for wire in known() if wire.message_in}
    found = (_at(response, place) for place in places)
    # The message alone is accepted as well: programs often keep no more than that.
    message = next((message for message in found if message is not None), None)
    if message is not None:
        return message
    keys = ("content", "tool_calls")
    if any(key in response if isinstance(response, Mapping) else hasattr(response, key) for key in keys):
        return response
    raise TypeError(
        f"cannot read a response of type {type(response).__name__}; pass a whole chat completion or Anthropic "
        "message (an object of the SDK or its dict), its text, or a Turn; read a stream with pipeline() or parse()"
    )


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        if isinstance(key, str):
            value = _get(value, key)
        else:
            value = value[key] if isinstance(value, list) and len(value) > key else None
    return value


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else getattr(value, key, None)


def _text(block: Any) -> str:
    text = _get(block, "text") if _get(block, "type") == "text" else None
    return text if isinstance(text, str) else ""


def without_thought(text: str) -> str:
    """Returns a text without a block of ``<think>`` that opens it, which a stream splits off, too."""
    bare = text.lstrip()
    return bare.partition(_THINK_END)[2] if bare.startswith(_THINK) else text


def _call(call: Any) -> ToolCall:
    custom, function = _get(call, "custom"), _get(call, "function")
    inner = next((each for each in (custom, function) if each is not None), call)
    given = _get(inner, "arguments" if inner is function else "input")
    # Ollama and Anthropic have them parsed.
    text = given if isinstance(given, str) else "" if given is None else payload_json(given)
    return ToolCall(
        call_id=_get(call, "id") or "",
        name=_get(inner, "name") or "",
        arguments_text=text,
        kind="function" if custom is None else "custom",
        arguments=None if custom is None else {"input": text},
    )


# -- the payload of a response --

Payload: TypeAlias = dict[str, Any]
"""A model's decision: ``{"tool", "arguments"}``, ``{"answer"}``, or a ``"scratchpad"``, alone or with one."""

NO_PAYLOAD = "no_payload"

# Braces that do not begin an object. For each, the rest of the text may be read once, so this bounds quadratic time.
_MAX_TRIES = 64


def payload_of_turn(turn: Turn) -> Payload | None:
    # Made of the turn's parts: its text is an answer by now, and is never searched for calls again.
    if any(warning.code == NO_PAYLOAD for warning in turn.warnings) or not turn.parts:
        return None
    payload: Payload = {}
    kinds = [part.kind for part in turn.parts]
    scratchpad = scratchpad_of(turn)
    # In the model's own order, since a payload is also written back into the history.
    if scratchpad and kinds[0] == "reasoning":
        payload["scratchpad"] = scratchpad
    call = next(iter(_ours(turn)), None)
    if call is not None:
        # Invalid arguments, too: `validate_tool_call` words their problems for the model. A cut call is not whole.
        arguments = arguments_of_call(call)
        if arguments is None:
            return None
        payload |= {"tool": call.name, "arguments": arguments}
    elif "text" in kinds:
        payload["answer"] = turn.text
    if scratchpad:
        payload["scratchpad"] = scratchpad
    return payload or None


def only_thinks(turn: Turn) -> bool:
    """Returns whether a turn is a scratchpad alone, whole or cut by its length."""
    # Cut by its length as well: the model reads its thought in the next request, and goes on from there.
    kinds = {part.kind for part in turn.parts}
    return turn.finish in ("stop", "length") and kinds <= {"reasoning", "provider"} and bool(scratchpad_of(turn))


def scratchpad_of(turn: Turn) -> str:
    # Reasoning that a provider has signed is its own, and not a part of a payload.
    return "".join(part.text for part in turn.parts if part.kind == "reasoning" and not part.provider_state)


def arguments_of_call(call: ToolCall) -> dict[str, Any] | None:
    """Returns a call's arguments, refused ones too; None if they are not a whole object."""
    if call.arguments is not None:
        return call.arguments
    if call.problem != "invalid_arguments":
        return None
    found = arguments_of(call.arguments_text)
    return None if isinstance(found, str) else found[0]


def payload_of_call(call: ToolCall) -> Payload:
    if call.arguments is not None:
        return {"tool": call.name, "arguments": call.arguments}
    found = arguments_of(call.arguments_text)
    # Arguments that are not a JSON object stay text: validation reports them.
    return {"tool": call.name, "arguments": call.arguments_text if isinstance(found, str) else found[0]}


def payload_json(payload: Any) -> str:
    return to_json(payload, inf_nan_mode="null").decode()


def parse_json_response(text: str) -> dict[str, Any] | None:
    """Returns the first complete JSON object in a text, with any content and any text around it.

    >>> parse_json_response('Sure! ```json {"city": "Paris"} ``` Anything else?')
    {'city': 'Paris'}
    """
    at = -1
    for _ in range(_MAX_TRIES):
        at = text.find("{", at + 1)
        if at < 0:
            return None
        try:
            value = DECODER.raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
        return cast("dict[str, Any]", value)
    return None


# -- the form of the answer, in words and as a schema --


_SYSTEM_ROLES = ("system", "developer")

_FORM = """\
Reply with one JSON object and nothing else. To call a tool, one at a time:
{"tool": "<name>", "arguments": {<arguments by name>}}
To give the final answer:
{"answer": "<text>"}
To think first, begin any of these with a key "scratchpad"."""


def tool_prompt(tools: AnyTools) -> str:
    """Returns the tools and the form of the answer as text for a system prompt, always the same for the same tools.

    Use it for a model whose request has no field for tools.

    Args:
        tools: the tools that the model may call.
    """
    lines = [_line(name, tool) for name, tool in named_tools(tools)]
    if not lines:
        return "There are no tools.\n\n" + _FORM
    return "\n".join(["Available tools:", *lines, "", _FORM])


def _line(name: str, tool: Tool) -> str:
    description = " ".join(tool.description.split())
    return f"- {name}: {description}\n  arguments: {orjson.dumps(tool.schema).decode()}"


def named_tools(tools: AnyTools) -> list[tuple[str, Tool]]:
    return [(name, tool) for name, tool in Toolset(tools).items() if tool is not None]


def with_system_prompt(messages: Sequence[Mapping[str, Any]], prompt: str) -> list[dict[str, Any]]:
    copies = [dict(message) for message in messages]
    first = copies[0] if copies else {}
    content = first.get("content")
    # Added, since many models' templates accept one system prompt only.
    if first.get("role") not in _SYSTEM_ROLES or not isinstance(content, (str, list)):
        return [{"role": "system", "content": prompt}, *copies]
    first["content"] = (
        f"{content}\n\n{prompt}" if isinstance(content, str) else [*content, {"type": "text", "text": prompt}]
    )
    return copies


_DEFS = "#/$defs/"
_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")  # what some provider refuses in a key, or a pointer has to escape


def payload_schema(
    tools: Iterable[tuple[str, str, Mapping[str, Any]]], *, wrapped: bool, scratchpad: bool
) -> dict[str, Any]:
    """Returns the schema of an answer: a union of a variant per tool, an answer and a scratchpad, in a property if
    `wrapped`, else at the root; `scratchpad` gives calls and answers one, too.
    """
    defs: dict[str, Any] = {}
    variants = []
    for name, description, parameters in tools:
        arguments = _moved(name, parameters, defs)
        members = {"tool": {"type": "string", "enum": [name]}, "arguments": arguments}
        variants.append({"description": description, **_closed(members, scratchpad=scratchpad)})
    variants.append(
        {"description": "The final answer.", **_closed({"answer": {"type": "string"}}, scratchpad=scratchpad)}
    )
    variants.append({"description": "Only think.", **_closed({}, scratchpad=True)})
    # OpenAI: "The root level object of a schema must be an object and not use anyOf",
    # https://platform.openai.com/docs/guides/structured-outputs#root-objects-must-not-be-anyof-and-must-be-an-object
    root = _closed({WRAPPER: {"anyOf": variants}}, scratchpad=False) if wrapped else {"anyOf": variants}
    return {**root, "$defs": defs} if defs else root


def _closed(members: dict[str, Any], *, scratchpad: bool) -> dict[str, Any]:
    if scratchpad:  # first, since models write members in the schema's order: it thinks before it decides
        members = {"scratchpad": {"type": "string"}, **members}
    # Closed, with all members required, as OpenAI's strict schemas have to be.
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def _moved(tool: str, parameters: Mapping[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """Returns the parameters for use in a larger schema; moves their definitions into `defs`."""
    # References lead from the document's root (`#/$defs/x`), where the tool's own definitions would not be found.
    own: Mapping[str, Any] = parameters.get("$defs", {})
    bare = {key: value for key, value in parameters.items() if key not in ("$defs", "$schema")}
    taken = {*defs, *own}
    names = {name: free_name(_UNSAFE.sub("_", f"{tool}_{name}"), taken) for name in own}
    root: list[str] = []  # the name of the parameters themselves, if a reference needs it

    def place(reference: str) -> str:
        if reference[:2] not in ("#", "#/"):  # an anchor or an `$id`, which means the same everywhere
            return reference
        head, slash, tail = reference.removeprefix(_DEFS).partition("/")
        if reference.startswith(_DEFS) and head in names:
            return f"{_DEFS}{names[head]}{slash}{tail}"
        # A reference into the parameters (`#`, `#/properties/a`): they become a definition themselves.
        if not root:
            root.append(free_name(_UNSAFE.sub("_", tool), taken))
        return f"{_DEFS}{root[0]}{reference.removeprefix('#')}"

    moved = {names[name]: _with_references(schema, place) for name, schema in own.items()}
    arguments: dict[str, Any] = _with_references(bare, place)
    defs.update(moved)
    if root:
        defs[root[0]] = arguments
        return {"$ref": f"{_DEFS}{root[0]}"}
    return arguments


def _with_references(schema: Any, place: Callable[[str], str]) -> Any:
    """Returns a copy of a schema with each reference put through `place`. Values other than schemas stay."""
    if not isinstance(schema, Mapping):
        return schema
    copy = {
        key: mapped(key, value, "", lambda inner, _: _with_references(inner, place)) for key, value in schema.items()
    }
    if isinstance(reference := schema.get("$ref"), str):
        copy["$ref"] = place(reference)
    return copy


# -- histories in text --

# Calls and results become text, for models that know neither:
#
#     {"role": "assistant", "content": '{"tool": "add", "arguments": {"a": 1, "b": 2}}'}
#     {"role": "user", "content": "Observation: 3"}
#
# A result is written by a stranger, and must not speak for anybody else. So each of its lines but the first begins with
# `> `, since a result of two lines could otherwise bring an observation, a request or a code fence of its own. A
# backslash stands before the last character of every marker by which some model begins or ends calls or messages, which
# a server may read wherever it stands, and before the sentences by which we find the calls that wait. What has a
# backslash there already gets one more: `read_results` has the results back to the character.

CHAT = "openai.chat_completions"  # the wire of turns that have none

_GO_ON = "Go on: call a tool, or give the answer."
# once the block was left, and before
_WAITING = (f"Error: {ApprovalPending()}", f"Error: {AnswerPending()}", OUTCOMES["skipped"].to_model)
_LABEL = "Observation: "
_WAITING_LINES = frozenset(_LABEL + sentence for sentence in _WAITING)
_WAITS = re.compile(rf"\\*(?:{'|'.join(map(re.escape, _WAITING))})")
_BREAK = "\r\n|[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"  # all that `str.splitlines` takes for one
_BREAKS, _QUOTED_BREAKS, _OUR_BREAK = re.compile(_BREAK), re.compile(f"({_BREAK})> "), re.compile("\n(?!> )")
_TOKENS = ("<|", "</|", "<｜", "</｜", "<‖", "</‖")  # begin the tokens of chat templates, also those of no dialect
_MODELS = ("assistant", "model", "model_output")  # roles of the model's messages, or their types
_MESSAGE_DEPTH = 4  # objects and lists around the text of a user's message: no wire has more than three


def result_text(result: Any) -> str:
    """Returns a result as text for the model: an observation's content, a string as it is, anything else as JSON;
    raises a `TypeError` if the value cannot be written as JSON."""
    if isinstance(result, Observation):
        return result.model_content
    if isinstance(result, str):
        return result
    try:
        return to_json(result, bytes_mode="base64", inf_nan_mode="null").decode()
    except ValueError as error:
        raise TypeError(f"a result of type {type(result).__name__} cannot be written as JSON") from error


def assistant_text(response: Any, wrapper: str | None = None) -> str:
    """Returns the model's text: verbatim for a response, written anew for a turn, whose stages have split the payload;
    `wrapper` is the key under which that stands in an object of its own."""
    if not isinstance(response, Turn):
        return said(response)[0]
    calls = {call.call_id: call for call in _ours(response)}
    if calls:
        return _calls_text(response, calls, wrapper)
    # A history is in the mode's own words: the payload in its wrapper, if one was asked for.
    payload = payload_of_turn(response)
    if payload is not None:
        return _wrapped(payload_json(payload), wrapper)
    return response.text or _cut_scratchpad(response, wrapper) or response.refusal


def text_messages(turn: Turn, wrapper: str | None = None) -> list[dict[str, Any]]:
    """They are the model's message, and one message of the user's with the results of its calls, or with the request to
    go on if the model has only thought. Images and files of results stand behind the text, which has a placeholder for
    each."""
    text = assistant_text(turn, wrapper)
    if not text.strip():  # which providers refuse
        return []
    # The record before the name: a wire of the program's own need not be registered.
    wire = wire_named(turn.record or turn.wire or CHAT)
    part = Part(kind="text", text=text)
    rendered = wire.render(Answer(parts=(part,), calls={}, arguments={}, results=(), own_wire=False))
    observed = {observation.call_id: observation for observation in turn.observations}
    ours = _ours(turn)
    results = [result_of(call, observed.get(call.call_id), wire.name) for call in ours]
    lines = [
        observed_line(result.content, call.call_id not in observed or did_not_run(observed[call.call_id]))
        for call, result in zip(ours, results, strict=True)
    ]
    if only_thinks(turn):  # many templates and providers refuse a history that ends with the model's own message
        lines.append(_GO_ON)
    media = [block for result in results for block in result.blocks if isinstance(block, Media)]
    prompt = Prompt(role="user", blocks=(Text("\n".join(lines)), *media))
    return [*rendered, *wire.render_prompt(prompt)] if lines else rendered


def did_not_run(result: Any) -> bool:
    """Returns whether this is the observation of a call that did not run to its end, so that its words are ours."""
    if not isinstance(result, Observation):
        return False
    return result.outcome == "skipped" or isinstance(result.error, AnswerPending)


def observed_line(content: str, is_ours: bool) -> str:
    """Returns a result as a line of the user's message, and those that continue it; `is_ours`: no tool's words."""
    if is_ours and content in _WAITING:
        return _LABEL + content
    bare, _ = _markers()
    content = bare.sub(r"\g<0>\\", content)
    content = "\\" + content if _WAITS.fullmatch(content) else content
    return _LABEL + _BREAKS.sub(r"\g<0>> ", content)


def read_results(text: str) -> list[str]:
    r"""Returns the results in a text that a text mode wrote for the model; an empty list for any other text.

    >>> read_results("Observation: a line\n> and another\nObservation: 3")
    ['a line\nand another', '3']
    """
    lines = [line for line in _OUR_BREAK.split(text) if line != _GO_ON]
    if not all(line.startswith(_LABEL) for line in lines):
        return []
    return [_read_back(line.removeprefix(_LABEL)) for line in lines]


def _read_back(written: str) -> str:
    content = _QUOTED_BREAKS.sub(r"\1", written)
    if content.startswith("\\") and _WAITS.fullmatch(content):
        content = content[1:]
    _, escaped = _markers()
    return escaped.sub(lambda found: found[0][:-1], content)


@cache
def _markers() -> tuple[re.Pattern[str], re.Pattern[str]]:
    found = set[str]()
    for dialect in DIALECTS.values():
        found.update(dialect.anywhere, dialect.closers, dialect.inner, dialect.drops)
    # A fence begins a line, and no line of a result does; of the rest, those with a token in them are found by that.
    found = {mark for mark in found if mark.strip("`") and not any(token in mark for token in _TOKENS)}
    halves = [(re.escape(mark[:-1]), re.escape(mark[-1])) for mark in sorted({*found, *_TOKENS}, key=len, reverse=True)]
    bare, escaped = (
        re.compile("|".join(rf"{start}\\{count}(?={last})" for start, last in halves)) for count in ("*", "+")
    )
    return bare, escaped


def with_text_results(messages: Iterable[Any], results: Iterable[Observation]) -> list[Any]:
    """Returns the same history with the results of calls that waited for an approval when it was written. Their turn
    stands last in the history, which is not changed. Raises a `ValueError` unless it has one call that waits for each
    result."""
    history = list(messages)
    # Text has no ids: the lines that say that a call waits are replaced in call order, in the last message with any. No
    # peer can write such a line: not a tool (`observed_line`), and not the model, whose messages are left out.
    ordered = sorted(results, key=lambda result: result.index)
    written = [observed_line(result.model_content, did_not_run(result)) for result in ordered]
    for at in reversed(range(len(history) if written else 0)):
        if isinstance(history[at], dict) and history[at].get("role", history[at].get("type")) in _MODELS:
            continue
        found: list[str] = []
        message = _filled(history[at], _MESSAGE_DEPTH, written, found)
        if found:
            break
    else:
        found, message, at = [], None, 0
    if len(found) != len(written):
        raise ValueError(f"messages: expected {len(written)} calls that wait for a result, got {len(found)}")
    return [*history[:at], message, *history[at + 1 :]] if written else history


def _filled(value: Any, depth: int, written: list[str], found: list[str]) -> Any:
    """Returns a copy with the lines `written` in the places of those that wait, which are added to `found`."""
    if isinstance(value, str):
        lines = _OUR_BREAK.split(value)
        if not all(line.startswith(_LABEL) for line in lines):
            return value
        for at, line in enumerate(lines):
            if line in _WAITING_LINES:
                found.append(line)
                lines[at] = written[len(found) - 1] if len(found) <= len(written) else line
        return "\n".join(lines)
    if isinstance(value, dict) and depth:
        return {name: _filled(inner, depth - 1, written, found) for name, inner in value.items()}
    if isinstance(value, list) and depth:
        return [_filled(inner, depth - 1, written, found) for inner in value]
    return value


# -- payloads, written anew --


def _calls_text(turn: Turn, calls: Mapping[str, ToolCall], wrapper: str | None) -> str:
    """Writes calls as payloads, with the text around them, in the turn's order. The first has the scratchpad."""
    written: list[str] = []
    text, scratchpad, thought_first = "", scratchpad_of(turn), False
    for part in turn.parts:
        if part.kind == "text":
            text += part.text
        elif part.kind == "reasoning" and not part.provider_state:
            thought_first = thought_first or not written
        elif (call := calls.get(part.call_id or "")) is not None:
            before, after = (scratchpad, "") if thought_first else ("", scratchpad)
            written += [text, _call_text(call, before, after, wrapper)]
            text = scratchpad = ""
    return "\n".join(piece for piece in [*written, text] if piece.strip())


def _call_text(call: ToolCall, before: str, after: str, wrapper: str | None) -> str:
    members = {"scratchpad": payload_json(before)} if before else {}
    members |= {"tool": payload_json(call.name), "arguments": _arguments_text(call)}
    if after:
        members["scratchpad"] = payload_json(after)
    text = "{" + ",".join(f"{payload_json(key)}:{value}" for key, value in members.items())
    # A payload that was cut is written to where it was cut: closed, the model would take it for a call that was made.
    if call.status == "truncated":
        return _wrapped(_cut(text) if after else text, wrapper, cut=True)
    return _wrapped(text + "}", wrapper)


def _arguments_text(call: ToolCall) -> str:
    """Writes a call's arguments for the model: anew if they are whole, else as the model wrote them."""
    if call.kind == "custom":
        text = payload_json({"input": call.arguments_text})
        return _cut(text.removesuffix("}")) if call.status == "truncated" else text
    arguments = arguments_of_call(call)
    return call.arguments_text if arguments is None else payload_json(arguments)


def _cut_scratchpad(turn: Turn, wrapper: str | None) -> str:
    scratchpad = scratchpad_of(turn)
    return _wrapped(_cut(f'{{"scratchpad":{payload_json(scratchpad)}'), wrapper, cut=True) if scratchpad else ""


def _wrapped(payload: str, wrapper: str | None, *, cut: bool = False) -> str:
    if wrapper is None:
        return payload
    return f"{{{payload_json(wrapper)}:{payload}{'' if cut else '}'}"


def _cut(text: str) -> str:
    """Cuts JSON that ends with a string, as if the string went on."""
    return text[:-1]
