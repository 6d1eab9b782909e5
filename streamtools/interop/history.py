"""Turns stored messages into a provider's native ones, and back: each history can be rebuilt from the other.

    {"role": "user", "content": "..."}                                                    content: text, or blocks
    {"role": "assistant", "content": "...", "metadata": {"tool_calls": [...]}}            calls as chat has them
    {"role": "tool", "content": "...", "toolResult": {...}, "metadata": {"tool_call_id": ..., "tool_name": ...}}

An attachment is a reference in either history, until the request is sent (`ready_messages`). Parts that a provider
wants back word for word (signatures, encrypted reasoning) are not stored: only the native history and the `Turn` have
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..content import Block, Text
from ..errors import ExportError
from ..events import Observation
from ..history.calls import history_form, wire_named, with_valid_ids
from ..parts import Part, ToolCall
from ..turn import Turn
from ..wires import Answer, CallResult, Entry, Prompt, Reply, Wire, id_as_read, object_of, objects_in, text_of
from .calls import (
    AttachmentStore,
    SanitizedCall,
    StandIns,
    arguments_text,
    format_tool_result,
    read_blocks,
    render_results,
    stored_call,
    stored_result,
    without_metadata,
    write_blocks,
)
from .contributions import InspectedCall, InspectedResult
from .formats import ToolInteropTarget, raw_formats
from .registry import ToolInteropRegistry

JSON: TypeAlias = Mapping[str, Any]


def system_text(messages: Iterable[JSON]) -> str:
    """Returns all system prompts of a stored history, for wires that have a field of the request for them."""
    blocks = (read_blocks(message.get("content")) for message in messages if message.get("role") == "system")
    return "\n\n".join(text for each in blocks if (text := text_of(each)))


# -- stored to native --


def to_native_messages(
    messages: Sequence[JSON],
    target: ToolInteropTarget | str,
    *,
    registry: ToolInteropRegistry,
    target_formats: Sequence[str] | None = None,
) -> list[dict[str, Any]]:
    """Turns a stored history into a provider's own.

    Args:
        messages: the stored history; it is not changed. A message of another role is left out. So are system prompts
            where the wire has a field of the request for them: `system_text`.
        target: the wire.
        registry: the request's.
        target_formats: the formats that the request's tools may have; without one of custom tools, raw calls are
            written as calls of functions.

    Returns:
        Native messages with references for attachments, to be sent by way of `ready_messages`. Images that the wire
        does not allow in a result follow in a message of the user's, and are read back as that.

    Raises:
        ExportError: there is no such wire, a call or result is of an unknown format, or ids stand twice.
    """
    wire = wire_named(str(target))
    formats = target_formats or ToolInteropTarget(wire.name).formats()
    # Each wire's own `render` writes, and knows bytes only: attachments pass it behind stand-ins.
    writer = _Writer(wire, registry, raw=not raw_formats().isdisjoint(formats), stand_ins=StandIns(messages))
    native = [each for head, results in _groups(messages) for each in writer.write(head, results)]
    shown: list[dict[str, Any]] = writer.stand_ins.shown(native)
    return shown


def _groups(messages: Iterable[JSON]) -> Iterator[tuple[JSON | None, list[JSON]]]:
    """Yields each message with the results that follow it; None where a history begins with results."""
    head: JSON | None = None
    results: list[JSON] = []
    for message in messages:
        if message.get("role") == "tool":
            results.append(message)
            continue
        if head is not None or results:
            yield head, results
        head, results = message, []
    if head is not None or results:
        yield head, results


class _Writer:
    def __init__(self, wire: Wire, registry: ToolInteropRegistry, *, raw: bool, stand_ins: StandIns) -> None:
        self._wire, self._registry, self._raw = wire, registry, raw
        self.stand_ins = stand_ins

    def write(self, head: JSON | None, results: Sequence[JSON]) -> list[dict[str, Any]]:
        found = [self._registry.inspect_result(result) for result in results]
        if head is not None and head.get("role") == "assistant":
            return self._answer(head, found)
        return [*(self._prompt(head) if head is not None else []), *self._results(found)]

    def _prompt(self, message: JSON) -> list[dict[str, Any]]:
        role, blocks = message.get("role"), self.stand_ins.hidden(read_blocks(message.get("content")))
        if role not in ("system", "user") or not blocks or (role == "system" and self._wire.rules.system == "apart"):
            return []
        return self._wire.render_prompt(Prompt(role=role, blocks=blocks))

    def _answer(self, message: JSON, results: Sequence[InspectedResult]) -> list[dict[str, Any]]:
        found = [self._registry.inspect_call(call) for call in tool_calls_of(message)]
        calls = {call.call_id: call for place, each in enumerate(found) for call in [self._call(each, place)]}
        if len(calls) < len(found):
            raise ExportError("two calls of one answer have the same id")
        answer = Answer(
            parts=(*_spoken_parts(message), *(Part(kind="call", call_id=call_id) for call_id in calls)),
            calls=calls,
            arguments={
                call_id: (arguments_text(each), each.arguments or ({"input": ""} if self._is_custom(each) else {}))
                for call_id, each in zip(calls, found, strict=True)
            },
            results=(),
            finish="tool_calls" if calls else "stop",
            own_wire=False,
        )
        answer = with_valid_ids(answer, self._wire)
        named: dict[str | None, ToolCall] = dict(zip(calls, answer.calls.values(), strict=True))
        place = {call_id: call.index for call_id, call in named.items()}
        ours = [
            replace(
                result,
                call_id=call.call_id,
                tool_name=found[call.index].tool_name,
                kind="custom" if call.kind == "custom" else "function",
            )
            for result in sorted(results, key=lambda result: place.get(result.call_id, 0))
            if (call := named.get(result.call_id)) is not None
        ]
        # A result of no call here stays behind the answer: the stored order is the history's.
        others = [result for result in results if result.call_id not in calls]
        return [*self._wire.render(answer), *self._results(ours), *self._results(others)]

    def _call(self, call: InspectedCall, place: int) -> ToolCall:
        name = self._name_of(call.tool_name)
        return ToolCall(
            call_id=call.call_id or f"call_{place}",
            name=name,
            namespace=call.namespace if name == call.tool_name else None,
            call_id_synthesized=call.call_id is None,
            kind="custom" if self._is_custom(call) else "function",
            index=place,
            arguments_text=arguments_text(call),
            status="ready",
        )

    def _is_custom(self, call: InspectedCall) -> bool:
        return self._raw and call.payload_kind == "raw"

    def _name_of(self, tool_name: str) -> str:
        return self._registry.name_on(tool_name, self._wire.name)

    def _results(self, results: Sequence[InspectedResult]) -> list[dict[str, Any]]:
        # Those that answer nothing are kept, too: mending a history is for `streamtools.history`.
        if not results:
            return []
        contents = [self._registry.result_content(result, self._wire.name) for result in results]
        return self._wire.results.as_messages(render_results(results, self._wire.name, contents, self._name_of))


def _spoken_parts(message: JSON) -> Iterator[Part]:
    if text := text_of(read_blocks(message.get("content"))):
        yield Part(kind="text", text=text)
    refusal = object_of(message.get("metadata")).get("refusal")
    if isinstance(refusal, str) and refusal:
        yield Part(kind="refusal", text=refusal)


# -- native to stored --


def from_native_messages(
    messages: Sequence[JSON],
    target: ToolInteropTarget | str,
    *,
    registry: ToolInteropRegistry,
    attachments: AttachmentStore | None = None,
) -> list[dict[str, Any]]:
    """Turns a provider's own history into a stored one: the inverse of `to_native_messages`.

    Args:
        messages: native messages; they are not changed. Items that are not messages of the wire are left out, and so is
            reasoning.
        target: the wire.
        registry: the request's: it knows which functions were freeform tools, whose calls become raw again.
        attachments: the store for bytes that stand in the messages themselves; see `format_tool_result`.

    Raises:
        ExportError: there is no such wire.
    """
    wire = wire_named(str(target))
    reader = _Reader(wire, registry, StandIns(messages), attachments)
    covered = [reader.stand_ins.covered(message) for message in messages]
    reader.note_metadata(covered)
    bare = [without_metadata(message) for message in covered]
    return [each for entry in wire.entries(bare) for each in reader.read(entry)]


class _Reader:
    def __init__(
        self, wire: Wire, registry: ToolInteropRegistry, stand_ins: StandIns, attachments: AttachmentStore | None
    ) -> None:
        self._wire, self._registry, self.stand_ins = wire, registry, stand_ins
        self._store = attachments
        self._metadata: dict[str, JSON] = {}
        self._names: dict[str, str] = {}
        self._unanswered: list[tuple[str, str]] = []  # name and id of calls whose results may come without an id
        self._answers = 0

    def note_metadata(self, messages: Iterable[JSON]) -> None:
        for message in messages:
            metadata, call_id = message.get("_metadata"), message.get(str(self._wire.results.call_id_key))
            if isinstance(metadata, Mapping) and isinstance(call_id, str):
                self._metadata[call_id] = metadata

    def read(self, entry: Entry) -> list[dict[str, Any]]:
        if isinstance(entry, Prompt):
            content = self._content(entry.blocks)
            return [{"role": entry.role, "content": content}] if content else []
        if isinstance(entry, Reply):
            return self._of_answer(entry.answer)
        return [self._returned(result) for result in entry.results]

    def _content(self, blocks: Sequence[Block]) -> str | list[dict[str, Any]]:
        if len(blocks) == 1 and isinstance(blocks[0], Text):
            return blocks[0].text
        return write_blocks(self.stand_ins.uncovered(blocks), self._store)

    def _of_answer(self, answer: Answer) -> list[dict[str, Any]]:
        ours = answer.our_calls
        self._unanswered = []
        calls = [self._call(call, place) for place, call in enumerate(ours)]
        self._answers += 1
        text, refusal = answer.text("text"), answer.text("refusal")
        if not (text or refusal or calls):
            return []
        return [assistant_message(text, calls, refusal=refusal)]

    def _call(self, call: ToolCall, place: int) -> dict[str, Any]:
        # Numbered by answer, too: those of two answers without ids would be the same.
        call_id = id_as_read(call.call_id) or f"call_{self._answers}_{place}"
        self._unanswered.append((call.name, call_id))
        written = stored_call(call_id, call.name, call.arguments_text, raw=call.kind == "custom")
        stored = self._registry.stored_tool_call(written, wire=self._wire.name)
        self._names[call_id] = stored[stored["type"]]["name"]
        return stored

    def _returned(self, result: CallResult) -> dict[str, Any]:
        call_id = id_as_read(result.call_id) or self._oldest_open(result.name)
        noted = self._metadata.get(call_id, {})
        blocks = self.stand_ins.uncovered(result.blocks) or (Text(result.content),)
        payload = stored_result(blocks, self._store)
        # Chat Completions, Mistral, Cohere and Ollama have no flag for errors: there the metadata keeps it.
        if result.is_error or noted.get("is_error") is True:
            payload["is_error"] = True
        name = self._names.get(call_id) or result.name or noted.get("tool_name") or ""
        metadata = {"tool_name": name, "tool_call_id": call_id}
        return {"role": "tool", "content": payload["text"], "toolResult": payload, "metadata": metadata}

    def _oldest_open(self, name: str | None) -> str:
        # The first of its name, or the first at all: results without ids are in call order.
        found = next((pair for pair in self._unanswered if pair[0] == name), None) or next(iter(self._unanswered), None)
        if found is None:
            return ""
        self._unanswered.remove(found)
        return found[1]


def assistant_message(content: str, tool_calls: Iterable[JSON] = (), *, refusal: str = "") -> dict[str, Any]:
    """Returns an answer of the model as it is stored.

    Args:
        content: its text.
        tool_calls: its calls in the shape of chat completions, as `ToolInteropRegistry.convert_tool_calls` makes them.
        refusal: the words in which it refused, for providers that have a field for those.
    """
    calls = list(tool_calls)
    metadata: dict[str, Any] = {"tool_calls": calls} if calls else {}
    # A `SanitizedCall` is stored as the dict that it is: so id and problem are kept apart, and nobody runs the call
    # after the history was loaded again (`tool_calls_of`).
    sanitized = {str(call.get("id")): call.problem for call in calls if isinstance(call, SanitizedCall)}
    if sanitized:
        metadata["sanitized"] = sanitized
    if refusal:
        metadata["refusal"] = refusal
    return {"role": "assistant", "content": content, **({"metadata": metadata} if metadata else {})}


def tool_calls_of(message: JSON) -> list[dict[str, Any]]:
    """Returns the calls of a stored answer; those that were sanitised are `SanitizedCall`s again, without the text."""
    metadata = object_of(message.get("metadata"))
    problems = object_of(metadata.get("sanitized"))
    return [
        call
        if isinstance(call, SanitizedCall) or (problem := problems.get(str(call.get("id")))) is None
        else SanitizedCall(call, raw=None, problem=str(problem))
        for call in objects_in(metadata, "tool_calls")
    ]


def from_turn(
    turn: Turn, *, registry: ToolInteropRegistry | None = None, attachments: AttachmentStore | None = None
) -> list[dict[str, Any]]:
    """Returns a turn as it is stored: the answer, and one result for each call that was ours to run.

    Args:
        turn: from ``events.turn`` or `parse`. A call without an observation gets the result that it was not run. A turn
            without text and calls becomes an empty list.
        registry: the request's: with it names and arguments are those of the tools' authors, also where a provider's
            form has others.
        attachments: the store for bytes of results; see `format_tool_result`.
    """
    calls = [call for call in turn.calls if call.kind != "server"]
    if not (turn.text or turn.refusal or calls):
        return []
    observed = {observation.call_id: observation for observation in turn.observations}
    stored = [_call(call) for call in calls]
    if registry is not None:
        stored = [registry.stored_tool_call(call, wire=turn.wire) for call in stored]
    results = [
        _result(call, written[written["type"]]["name"], observed.get(call.call_id), attachments)
        for call, written in zip(calls, stored, strict=True)
    ]
    return [assistant_message(turn.text, stored, refusal=turn.refusal), *results]


def _call(call: ToolCall) -> dict[str, Any]:
    text, value = history_form(call)
    raw = call.kind == "custom"
    written = stored_call(call.call_id, call.name, value["input"] if raw else text, raw=raw)
    # Refused arguments that are whole stay the model's own: only emptied ones make a `SanitizedCall`.
    same = value["input"] == call.arguments_text if raw else bool(value) or call.arguments is not None
    if call.status == "ready" or (same and call.status != "truncated"):
        return written
    return SanitizedCall(written, raw=call.arguments_text, problem=call.problem or call.status)


def _result(call: ToolCall, name: str, seen: Observation | None, attachments: AttachmentStore | None) -> dict[str, Any]:
    value: Any = seen.model_content if seen else f"Error: the call was not run ({call.problem or 'interrupted'})."
    if seen is not None and seen.result is not None and (seen.result.blocks or seen.result.native):
        value = seen.result
    return format_tool_result(
        value,
        tool_name=name,
        tool_call_id=call.call_id,
        is_error=seen is None or seen.outcome != "ok",
        display=seen.result.display if seen is not None and seen.result is not None else None,
        attachments=attachments,
    )
