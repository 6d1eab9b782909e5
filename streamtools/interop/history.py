"""Converts stored messages to a provider's native ones and back: each history can be rebuilt from the other.

    {"role": "user", "content": "..."}                                                    content: text, or blocks
    {"role": "assistant", "content": "...", "metadata": {"tool_calls": [...]}}            calls as chat has them
    {"role": "tool", "content": "...", "toolResult": {...}, "metadata": {"tool_call_id": ..., "tool_name": ...}}

An attachment is a reference in both histories until the request is sent (`ready_messages`). Parts that a provider wants
back verbatim (signatures, encrypted reasoning) are not stored: only the native history and the `Turn` have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from ..content import Text
from ..events import Observation
from ..history.calls import Exchange, history_form, pair, wire_named, with_valid_ids
from ..parts import ToolCall
from ..turn import Turn
from ..wires import (
    AnswerBuilder,
    CallNames,
    CallResult,
    Entry,
    Prompt,
    Returned,
    Wire,
    id_as_read,
    object_of,
    objects_in,
    text_of,
)
from .calls import (
    AttachmentStore,
    SanitizedCall,
    StandIns,
    arguments_text,
    call_result,
    format_tool_result,
    read_blocks,
    stored_call,
    stored_result,
    tagged,
    without_metadata,
    write_blocks,
)
from .contributions import InspectedResult
from .formats import ToolInteropTarget, raw_formats
from .registry import ToolInteropRegistry

JSON: TypeAlias = Mapping[str, Any]


def system_text(messages: Iterable[JSON]) -> str:
    """Returns all system prompts of a stored history, for wires with a request field for them."""
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
    """Converts a stored history to a provider's own.

    Each result follows the answer with its call; a result that answers no call is left out, as by `repair`.

    Args:
        messages: the stored history; it is not changed. Messages of other roles are left out, and so are system prompts
            where the wire has a request field for them (`system_text`).
        target: the wire.
        registry: the request's.
        target_formats: the formats that the request's tools may have; without one for custom tools, raw calls are
            written as function calls.

    Returns:
        Native messages with references for attachments; pass them to `ready_messages` before sending. Images that the
        wire does not allow in a result follow in a user message, and are read back as such.

    Raises:
        ExportError: the wire is unknown, or a call or result has an unknown format.
    """
    wire = wire_named(str(target))
    formats = target_formats or ToolInteropTarget(wire.name).formats()
    # Each wire's own `render` writes, and knows bytes only: attachments pass it behind stand-ins.
    writer = _Writer(wire, registry, raw=not raw_formats().isdisjoint(formats), stand_ins=StandIns(messages))
    entries = [entry for message in messages if (entry := writer.entry(message)) is not None]
    native = [each for step in pair(entries, wire.rules).steps for each in writer.written(step)]
    shown: list[dict[str, Any]] = writer.stand_ins.shown(native)
    return shown


class _Writer:
    def __init__(self, wire: Wire, registry: ToolInteropRegistry, *, raw: bool, stand_ins: StandIns) -> None:
        self._wire, self._registry, self._raw = wire, registry, raw
        self.stand_ins = stand_ins
        self._ids = CallNames()
        self._authored: dict[str, str] = {}  # the names of tools by those on the wire

    def entry(self, message: JSON) -> Entry | None:
        role = message.get("role")
        if role == "tool":
            found = self._registry.inspect_result(message)
            content = self._registry.result_content(found, self._wire.name)
            name = self._name_of(found.tool_name) if found.tool_name else None
            return Returned(results=(call_result(found, found.call_id or "", name, content, self.stand_ins),))
        if role == "assistant":
            return self._reply(message)
        if role not in ("system", "user") or (role == "system" and self._wire.rules.system == "apart"):
            return None
        return Prompt(role=role, blocks=self.stand_ins.hidden(read_blocks(message.get("content"))))

    def _reply(self, message: JSON) -> Entry:
        builder, calls = AnswerBuilder(self._ids), tool_calls_of(message)
        if text := text_of(read_blocks(message.get("content"))):
            builder.text(text)
        refusal = object_of(message.get("metadata")).get("refusal")
        if isinstance(refusal, str) and refusal:
            builder.refusal(refusal)
        for found in map(self._registry.inspect_call, calls):
            name = self._name_of(found.tool_name)
            group = found.namespace if name == found.tool_name else None
            is_custom = self._raw and found.payload_kind == "raw"
            builder.call(
                found.call_id,
                name if group is None else name.removeprefix(f"{group}."),
                (found.arguments or {"input": ""})["input"] if is_custom else arguments_text(found),
                kind="custom" if is_custom else "function",
                namespace=group,
            )
        return builder.reply(finish="tool_calls" if calls else "stop")

    def _name_of(self, tool_name: str) -> str:
        name = self._registry.name_on(tool_name, self._wire.name)
        self._authored[name] = tool_name
        return name

    def written(self, step: Prompt | Exchange) -> list[dict[str, Any]]:
        if isinstance(step, Prompt):
            return self._wire.render_prompt(step)
        results = [
            replace(given.result, call_id=call.call_id, name=call.name)
            for call in step.calls
            if (given := step.given.get(call.call_id)) is not None
        ]
        answer = with_valid_ids(replace(step.reply.answer, results=tuple(results), own_wire=False), self._wire)
        noted = {
            each.call_id: InspectedResult(
                format="", text="", tool_name=self._authored.get(each.name or ""), is_error=each.is_error
            )
            for each in answer.results
        }
        return [tagged(message, self._wire.results, noted) for message in self._wire.render(answer)]


# -- native to stored --


def from_native_messages(
    messages: Sequence[JSON],
    target: ToolInteropTarget | str,
    *,
    registry: ToolInteropRegistry,
    attachments: AttachmentStore | None = None,
) -> list[dict[str, Any]]:
    """Converts a provider's own history to a stored one: the inverse of `to_native_messages`.

    Args:
        messages: native messages; they are not changed. Items that are not messages of the wire are left out, and so
            are reasoning, and results that answer no call.
        target: the wire.
        registry: the registry of the request, which knows the freeform tools whose calls become raw again.
        attachments: the store for bytes in the messages; see `format_tool_result`.

    Raises:
        ExportError: the wire is unknown.
    """
    wire = wire_named(str(target))
    reader = _Reader(wire, registry, StandIns(messages), attachments)
    covered = [reader.stand_ins.covered(message) for message in messages]
    # Chat Completions, Mistral, Cohere and Ollama have no flag for errors: there the metadata keeps it.
    key = str(wire.results.call_id_key)
    reader.failed = {str(one.get(key)) for one in covered if object_of(one.get("_metadata")).get("is_error") is True}
    steps = pair(wire.entries([without_metadata(message) for message in covered]), wire.rules).steps
    return [each for number, step in enumerate(steps) for each in reader.stored(step, number)]


class _Reader:
    def __init__(
        self, wire: Wire, registry: ToolInteropRegistry, stand_ins: StandIns, attachments: AttachmentStore | None
    ) -> None:
        self._wire, self._registry, self.stand_ins = wire, registry, stand_ins
        self._store = attachments
        self.failed: set[str] = set()  # ids of calls that have failed according to the messages' metadata

    def stored(self, step: Prompt | Exchange, number: int) -> list[dict[str, Any]]:
        if isinstance(step, Prompt):
            only = step.blocks[0] if len(step.blocks) == 1 else None
            written = write_blocks(self.stand_ins.uncovered(step.blocks), self._store)
            content = only.text if isinstance(only, Text) else written
            return [{"role": step.role, "content": content}] if content else []
        answer, calls, results = step.reply.answer, list[dict[str, Any]](), list[dict[str, Any]]()
        for place, call in enumerate(step.calls):
            # Numbered by answer, too: those of two answers without ids would be the same.
            call_id = id_as_read(call.call_id) or f"call_{number}_{place}"
            native = stored_call(call_id, call.name, call.arguments_text, raw=call.kind == "custom")
            calls.append(self._registry.stored_tool_call(native, wire=self._wire.name))
            if (given := step.given.get(call.call_id)) is not None:
                results.append(self._returned(given.result, call_id, calls[-1][calls[-1]["type"]]["name"]))
        text, refusal = answer.text("text"), answer.text("refusal")
        return [assistant_message(text, calls, refusal=refusal), *results] if text or refusal or calls else []

    def _returned(self, result: CallResult, call_id: str, name: str) -> dict[str, Any]:
        payload = stored_result(self.stand_ins.uncovered(result.blocks) or (Text(result.content),), self._store)
        if result.is_error or call_id in self.failed:
            payload["is_error"] = True
        metadata = {"tool_name": name, "tool_call_id": call_id}
        return {"role": "tool", "content": payload["text"], "toolResult": payload, "metadata": metadata}


def assistant_message(content: str, tool_calls: Iterable[JSON] = (), *, refusal: str = "") -> dict[str, Any]:
    """Returns an answer of the model in stored form.

    Args:
        content: its text.
        tool_calls: its calls in the shape of chat completions, as `ToolInteropRegistry.convert_tool_calls` returns
            them.
        refusal: the text of a refusal, for providers with a field for it.
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
    """Returns the calls of a stored answer; sanitised ones are `SanitizedCall`s again, without the raw text."""
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
    """Returns a turn in stored form: the answer, and one result for each call that was not the provider's to run.

    Args:
        turn: from ``events.turn`` or `parse`. A call without an observation gets a result that says that it was not
            run. A turn without text and calls becomes an empty list.
        registry: the request's: with it, names and arguments are those of the source schemas, even where the provider's
            form differs.
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
