"""Reads and writes calls and their results in the formats of the wires, and keeps corrupt calls from running.

A result is an ordinary message of the stored history; images and files are attachments, which messages refer to until
the request is sent.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from pydantic_core import from_json, to_json

from ..content import Block, Media, Text, ToolResult
from ..errors import ExportError
from ..ground import deeper_than
from ..limits import Limits
from ..stages import arguments_of
from ..wires import (
    AnswerBuilder,
    CallFormat,
    CallNames,
    CallResult,
    ResultFormat,
    Wire,
    find,
    known,
    names,
    object_of,
    text_of,
)
from ..wires.transcript import decoded, encoded
from .contributions import InspectedCall, InspectedResult
from .formats import NATIVE_RESULT, STORED_WIRE, TOOL_RESULT, call_formats

JSON: TypeAlias = Mapping[str, Any]

_LIMITS = Limits()


class SanitizedCall(dict[str, Any]):
    """A call whose corrupt arguments were replaced by empty ones: fit for a history, never dispatched.

    It equals, and is written as, the plain dict that the provider accepts. Its attributes stay in the program: `raw` is
    neither stored nor sent.
    """

    __slots__ = ("problem", "raw")

    def __init__(self, call: JSON, *, raw: Any, problem: str) -> None:
        super().__init__(call)
        self.raw = raw
        """The original arguments. They may contain anything: log them with care."""
        self.problem = problem
        """The code of the problem with them (``incomplete_json``)."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (partial(SanitizedCall, raw=self.raw, problem=self.problem), (dict(self),))

    def __repr__(self) -> str:
        return f"SanitizedCall({dict(self)!r}, problem={self.problem!r})"


# -- the formats of the wires --


def stored_call(call_id: str, name: str, arguments: str, *, raw: bool) -> dict[str, Any]:
    """Writes a call as a stored history has it; `arguments` are the text of a JSON object, or a `raw` text."""
    return next(format for format in find(STORED_WIRE).calls if format.raw is raw).write(name, call_id, arguments)


def inspected(format: CallFormat, call: JSON) -> InspectedCall | None:
    found = format.read(call)
    if found is None:
        return None
    name, call_id, arguments, namespace, extra = found
    payload, metadata, problem = (_raw_text if format.raw else _arguments)(arguments)
    if extra:
        metadata["extra"] = extra
    return InspectedCall(
        tool_name=name,
        call_id=call_id,
        payload=payload,
        payload_kind="raw" if format.raw else "object",
        payload_format=format.name,
        namespace=namespace,
        payload_metadata=metadata,
        problem=problem,
    )


def _raw_text(given: object) -> tuple[str | None, dict[str, Any], str | None]:
    return (given, {}, None) if isinstance(given, str) else (None, {}, "missing_input")


def _arguments(given: object) -> tuple[dict[str, Any] | None, dict[str, Any], str | None]:
    # Arguments that an SDK has parsed get the bounds of those that `finalize` parses.
    if isinstance(given, Mapping):
        problem = _misfit(given)
        return (dict(given), {}, None) if problem is None else (None, {}, problem)
    if given is None:  # as some servers write an empty object
        return {}, {"normalizations": ("empty_arguments",)}, None
    if not isinstance(given, str):
        return None, {}, "non_object_arguments"
    metadata: dict[str, Any] = {"arguments_text": given}
    if len(given) > _LIMITS.max_argument_bytes:
        return None, metadata, "argument_too_large"
    found = arguments_of(given, _LIMITS)
    if isinstance(found, str):
        return None, metadata, found
    value, steps = found
    return value, metadata | ({"normalizations": steps} if steps else {}), None


def _misfit(arguments: JSON) -> str | None:
    # Written into the next request they would break it, or raise an exception that nobody expects there.
    if deeper_than(_LIMITS.max_json_depth, arguments):
        return "too_deep"
    try:
        text = to_json(arguments, inf_nan_mode="constants")
    except ValueError:  # half a surrogate pair, or values that are not JSON at all
        return "malformed_json"
    try:
        from_json(text, allow_inf_nan=False)
    except ValueError:  # NaN and Infinity, which JSON does not have
        return "number_out_of_range"
    return None


def written(format: CallFormat, call: InspectedCall) -> dict[str, Any]:
    arguments = _call_text(call) if format.raw else arguments_text(call) if format.as_text else call.arguments or {}
    return format.write(call.tool_name, call.call_id, arguments, namespace=call.namespace)


def arguments_text(call: InspectedCall) -> str:
    """Returns the arguments as the text of a JSON object: verbatim if they are one, ``{}`` if they may not run."""
    text = call.payload_metadata.get("arguments_text")
    # Verbatim where possible: a provider's prompt cache matches by bytes.
    if isinstance(text, str) and call.dispatchable and not call.payload_metadata.get("normalizations"):
        return text
    return to_json(call.arguments or {}).decode()


def _call_text(call: InspectedCall) -> str:
    arguments = call.arguments or {}
    text = arguments.get("input", "")
    if arguments.keys() - {"input"} or not isinstance(text, str):
        raise ExportError(f"the call of {call.tool_name!r} has an object as arguments, which a custom call cannot have")
    return text


# -- results --

# A tool's value is stored as an ordinary message. Translations look at its ``toolResult``:
#
#     {"type": "tool_result", "text": "...", "is_error": true, "blocks": [...]}        the last two only where needed
#     {"type": "provider_native_tool_result", "format": "<wire>", "content": ...}      for that wire only


def format_tool_result(
    value: Any,
    *,
    tool_name: str,
    tool_call_id: str,
    is_error: bool = False,
    display: Any = None,
    attachments: AttachmentStore | None = None,
) -> dict[str, Any]:
    """Returns a tool's value as the message of a stored history.

    Args:
        value: a string is used unchanged; a dict of the type ``provider_native_tool_result`` and the contents of a
            `ToolResult` stay structures; anything else becomes JSON.
        tool_name: the tool's name.
        tool_call_id: the id of the call.
        is_error: the call failed, and `value` is the reason.
        display: a value to show to people; it never leaves the stored history.
        attachments: the store for bytes, so that the message contains only references. Without it, an image that has
            only bytes becomes a text, and a provider's own structure stays as the tool wrote it.

    Raises:
        PydanticSerializationError: the value cannot be written as JSON.
    """
    payload = _payload(value, attachments)
    text = _placeholder(payload) if payload["type"] == NATIVE_RESULT else str(payload["text"])
    if is_error or (isinstance(value, ToolResult) and value.is_error):
        payload["is_error"] = True
    if display is None and isinstance(value, ToolResult):
        display = value.display
    metadata = {"tool_name": tool_name, "tool_call_id": tool_call_id}
    return {
        "role": "tool",
        "content": text,
        "toolResult": payload,
        "metadata": metadata if display is None else {**metadata, "display": display},
    }


def _payload(value: Any, attachments: AttachmentStore | None) -> dict[str, Any]:
    if isinstance(value, ToolResult):
        return _of_blocks(value, attachments)
    if isinstance(value, Mapping) and value.get("type") == NATIVE_RESULT:
        return dict(compact_attachments(value, attachments) if attachments is not None else value)
    text = value if isinstance(value, str) else to_json(value, bytes_mode="base64", inf_nan_mode="null").decode()
    return {"type": TOOL_RESULT, "text": text}


def _of_blocks(result: ToolResult, attachments: AttachmentStore | None) -> dict[str, Any]:
    # A result in one provider's own form and nothing else is stored as that; any other provider reads placeholders.
    if not result.blocks and len(result.native) == 1:
        ((wire, content),) = result.native.items()
        return _payload({"type": NATIVE_RESULT, "format": wire, "content": content}, attachments)
    if not result.blocks:
        return _payload(result.value, attachments)
    payload = stored_result(result.blocks, attachments)
    if result.native:
        native = dict(result.native)
        payload["native"] = native if attachments is None else compact_attachments(native, attachments)
    return payload


def stored_result(blocks: Sequence[Block], attachments: AttachmentStore | None) -> dict[str, Any]:
    """Returns blocks as a canonical result: their text, and the blocks themselves where they are more than text."""
    written = write_blocks(blocks, attachments)
    payload: dict[str, Any] = {"type": TOOL_RESULT, "text": text_of(read_blocks(written))}
    return payload if all(block["type"] == "text" for block in written) else {**payload, "blocks": written}


def _placeholder(payload: JSON) -> str:
    """Returns a provider-native result for all other providers: its texts, and placeholders for anything else."""
    content, wire = payload.get("content"), payload.get("format")
    if isinstance(content, str):
        return content
    pieces = content if isinstance(content, Sequence) else [content]
    texts = [_shown(piece) for piece in pieces]
    return "\n".join(texts) or f"[a result that only {wire} can read]"


def _shown(piece: object) -> str:
    if isinstance(piece, Mapping):
        if isinstance(text := piece.get("text"), str):
            return text
        kind = piece.get("type") or next(iter(piece), "block")
        return f"[{kind}]"
    return "[block]"


def inspected_result(result: JSON) -> InspectedResult | None:
    payload = result.get("toolResult") if result.get("role") == "tool" else result
    if not isinstance(payload, Mapping) or payload.get("type") not in (TOOL_RESULT, NATIVE_RESULT):
        return None
    text, native = payload.get("text"), payload.get("native")
    if payload["type"] == NATIVE_RESULT:
        text, native = _placeholder(payload), {str(payload.get("format")): payload.get("content")}
    metadata = object_of(result.get("metadata"))
    return InspectedResult(
        format=payload["type"],
        call_id=_text(metadata.get("tool_call_id")),
        tool_name=_text(metadata.get("tool_name")),
        is_error=payload.get("is_error") is True,
        text=text if isinstance(text, str) else "",
        blocks=read_blocks(payload.get("blocks")),
        native=object_of(native),
        source=result,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# -- results in a native history, written by each wire itself --


def call_result(result: InspectedResult, call_id: str, name: str | None, content: Any, hides: StandIns) -> CallResult:
    """Returns a result as `render` takes it; `content` is in the wire's own shape, None if the wire writes it."""
    return CallResult(
        call_id=call_id,
        content=result.text,
        is_error=result.is_error,
        name=name,
        blocks=hides.hidden(result.blocks),
        native=content,
    )


def render_results(
    results: Sequence[InspectedResult], target: str, contents: Iterable[Any], name_of: Callable[[str], str]
) -> list[dict[str, Any]]:
    """Renders each result as a message, an item or a block of the wire, in the order given. `contents` has for each its
    content in the wire's own shape; `name_of` returns the name of a tool on the wire."""
    if target not in names():
        raise ExportError(f"cannot write results for {target!r}; known: {', '.join(names())}")
    wire, hides = find(target), StandIns([result.source for result in results])
    builder, written, known = AnswerBuilder(CallNames()), list[CallResult](), dict[str, InspectedResult]()
    for place, (result, content) in enumerate(zip(results, contents, strict=True)):
        if result.call_id is None and not wire.results.id_optional:
            raise ExportError(f"a result of {result.tool_name or 'a tool'} has no call id, which {wire.name} requires")
        # Gemini and Ollama pair by name and order; the id only keeps results apart here.
        call_id, name = result.call_id or f"call_{place}", name_of(result.tool_name) if result.tool_name else None
        if known.setdefault(call_id, result) is not result:
            raise ExportError("two results are for the same call; a history needs exactly one for each")
        builder.call(call_id, name or "", "" if result.kind == "custom" else "{}", kind=result.kind)
        written.append(call_result(result, call_id, name, content, hides))
    answer = builder.reply().answer
    calls = {id_: replace(one, call_id_synthesized=known[id_].call_id is None) for id_, one in answer.calls.items()}
    asked = replace(answer, calls=calls, results=tuple(written), own_wire=False)
    made = hides.shown(wire.render_results(asked))
    return wire.results.of_messages([tagged(message, wire.results, known) for message in made])


def without_metadata(message: JSON) -> JSON:
    """Returns a native message as its provider accepts it: the same object if it has no metadata."""
    if "_metadata" not in message:
        return message
    return {key: value for key, value in message.items() if key != "_metadata"}


def tagged(message: dict[str, Any], format: ResultFormat, results: Mapping[str, InspectedResult]) -> dict[str, Any]:
    """Returns a message with ``_metadata`` if it is a result: a failure, and its tool's name where it is a message."""
    # The wire has no field for them, and without them a native history could not be read back as it was. They stay in
    # the native history; `ready_messages` removes them.
    key = format.call_id_key
    found = results.get(str(message.get(key))) if key is not None and format.recognises(message) else None
    if found is None:
        return message
    metadata: dict[str, Any] = {"tool_name": found.tool_name} if format.is_message and found.tool_name else {}
    if found.is_error:
        metadata["is_error"] = True
    return {**message, "_metadata": metadata} if metadata else message


# -- attachments --

# Images and files are stored once, referred to in messages, and expanded only in the request that is sent. A reference
# is a dict of its own, never a piece of text, so that nothing that a person or a model writes can be mistaken for one.
# In a stored message, an attachment is a block:
#
#     {"type": "media", "kind": "image", "mime_type": "image/png", "attachment": {"type": "attachment_ref", ...}}


_MAX_DEPTH = 64  # levels

Encoding: TypeAlias = Literal["base64", "data_url", "bytes"]


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes with their media type."""

    data: bytes = field(repr=False)
    mime_type: str | None = None


AttachmentLoader: TypeAlias = Callable[[str], "Attachment | None"]
"""Returns an attachment by its id; None if there is none, or this request may not have it."""


class AttachmentStore(Protocol):
    """Stores attachments outside the history."""

    def put(self, attachment: Attachment, /) -> str:
        """Stores the attachment and returns its id; the same bytes may get the same id."""
        ...


class MemoryAttachments:
    """Stores attachments in memory, by the hash of their content. Call it to load one."""

    def __init__(self) -> None:
        self._kept: dict[str, Attachment] = {}

    def put(self, attachment: Attachment, /) -> str:
        """Stores the attachment and returns its id; the same bytes are stored once."""
        id_ = f"sha256:{hashlib.sha256(attachment.data).hexdigest()}"
        self._kept.setdefault(id_, attachment)
        return id_

    def __call__(self, id_: str, /) -> Attachment | None:
        return self._kept.get(id_)

    def __len__(self) -> int:
        return len(self._kept)


def reference(id_: str, encoding: Encoding = "base64", mime_type: str | None = None) -> dict[str, Any]:
    """Returns the reference that replaces an attachment in a message: its id and the form to write it in."""
    typed = {"mime_type": mime_type} if mime_type else {}
    return {"type": "attachment_ref", "id": id_, "encoding": encoding, **typed}


def expand_attachments(payload: Any, loader: AttachmentLoader) -> Any:
    """Returns a copy of `payload` with each reference replaced by its bytes; parts without any stay the same objects.

    Raises:
        ExportError: the loader has no attachment of that id.
    """
    return rewritten(payload, lambda node: _expanded(node, loader) if is_reference(node) else node)


def compact_attachments(payload: Any, store: AttachmentStore) -> Any:
    """Returns a copy of `payload` with bytes and base64 replaced by references; other parts stay the same objects.

    It finds bytes, ``data:`` URLs, and ``data`` beside its type (``media_type``, ``mimeType``, ``format``). Other
    base64 looks like text, and stays.
    """

    def compacted(node: Any) -> Any:
        if isinstance(node, bytes):
            return reference(store.put(Attachment(node)), "bytes")
        if isinstance(node, str):
            return _from_url(node, store)
        if isinstance(node, Mapping) and isinstance(data := node.get("data"), str):
            return _from_field(node, data, store)
        return node

    return rewritten(payload, compacted)


def is_reference(node: Any) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(node, Mapping) and node.get("type") == "attachment_ref" and isinstance(node.get("id"), str)


def _expanded(node: Mapping[str, Any], loader: AttachmentLoader) -> str | bytes:
    found = loader(node["id"])
    if found is None:
        raise ExportError(f"no attachment {node['id']!r}; the loader must return every attachment of the history")
    if node.get("encoding") == "bytes":
        return found.data
    text = encoded(found.data)
    if node.get("encoding") == "data_url":
        mime_type = node.get("mime_type") or found.mime_type or "application/octet-stream"
        return f"data:{mime_type};base64,{text}"
    return text


_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+=-]+)*;base64,")
_TYPES = ("media_type", "mimeType", "mime_type", "format")


def _from_url(text: str, store: AttachmentStore) -> Any:
    head = _DATA_URL.match(text) if text.startswith("data:") else None
    if head is None or (data := decoded(text[head.end() :])) is None:
        return text
    return reference(store.put(Attachment(data, head[1])), "data_url", head[1])


def _from_field(node: Mapping[str, Any], text: str, store: AttachmentStore) -> Any:
    # Only beside a type: a text in a field `data` may look like base64 by chance ("data" is).
    mime_type = next((node[key] for key in _TYPES if isinstance(node.get(key), str)), None)
    if mime_type is None or (data := decoded(text)) is None:
        return node
    return {**node, "data": reference(store.put(Attachment(data, mime_type if "/" in mime_type else None)))}


def rewritten(node: Any, change: Callable[[Any], Any]) -> Any:
    """Returns a copy of `node` with `change` made at every place, from the outside in; the same object if none is.
    Arguments of calls are left alone, and so are values nested deeper than any provider's message."""
    # The model wrote the arguments: a reference in them would have the loader put any attachment into the request.
    return _rewritten(node, change, _argument_places(known()), 0)


def _rewritten(node: Any, change: Callable[[Any], Any], left_alone: frozenset[str], depth: int) -> Any:
    changed = change(node)
    if changed is not node or isinstance(node, (str, bytes)) or depth >= _MAX_DEPTH:
        return changed
    if isinstance(node, Mapping):
        if node.get("type") in left_alone:
            return node
        items = {
            key: value if key in left_alone else _rewritten(value, change, left_alone, depth + 1)
            for key, value in node.items()
        }
        return items if any(items[key] is not node[key] for key in items) else node
    if isinstance(node, (list, tuple)):
        values = [_rewritten(value, change, left_alone, depth + 1) for value in node]
        return values if any(new is not old for new, old in zip(values, node, strict=True)) else node
    return node


@lru_cache(maxsize=1)
def _argument_places(wires: tuple[Wire, ...]) -> frozenset[str]:
    # Derived from the wires' own rows, so that the arguments of a registered wire's calls are left alone, too.
    lists = {wire.rules.call_path.partition("[")[0] for wire in wires if wire.rules.call_path}
    formats = [format for format in call_formats(wires) if not (format.as_text or format.raw)]
    marks = {format.inside or format.type or format.arguments for format in formats}
    return frozenset(lists | marks | {type for format in formats for type in format.run_by_provider})


_KINDS = ("image", "audio", "video", "file")
_FIELDS = ("mime_type", "url", "file_id", "filename")


def write_blocks(blocks: Iterable[Block], store: AttachmentStore | None) -> list[dict[str, Any]]:
    """Returns blocks as JSON without bytes, which `store` keeps, and without a provider's own blocks."""
    return [written for block in blocks if (written := _write(block, store)) is not None]


def _write(block: Block, store: AttachmentStore | None) -> dict[str, Any] | None:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if not isinstance(block, Media):
        return None
    written: dict[str, Any] = {"type": "media", "kind": block.kind}
    written |= {key: value for key in _FIELDS if (value := getattr(block, key)) is not None}
    ref = attachment_of(block)
    if ref is None and block.data is None:
        return written
    if ref is None:
        data = decoded(block.data or "")
        if data is None:
            return {"type": "text", "text": f"{block.placeholder()} [left out: its data is not base64]"}
        if store is None:
            return {"type": "text", "text": f"{block.placeholder()} [left out: there is no store for attachments]"}
        ref = reference(store.put(Attachment(data, block.mime_type)))
    return written | {"attachment": dict(ref)}


def read_blocks(written: object) -> tuple[Block, ...]:
    """Reads blocks from JSON; unknown ones are left out. An attachment is a `Media` whose state is its reference."""
    if isinstance(written, str):
        return (Text(written),) if written else ()
    given = written if isinstance(written, (list, tuple)) else ()
    return tuple(block for each in given if (block := _read(each)) is not None)


def _read(written: object) -> Block | None:
    if not isinstance(written, Mapping):
        return None
    if isinstance(text := written.get("text"), str):
        return Text(text)
    kind = written.get("kind")
    if written.get("type") != "media" or kind not in _KINDS:
        return None
    fields = {key: value for key in _FIELDS if isinstance(value := written.get(key), str)}
    attachment = written.get("attachment")
    return Media(kind=kind, state=attachment if is_reference(attachment) else None, **fields)


def attachment_of(block: Block) -> Mapping[str, Any] | None:
    return block.state if is_reference(block.state) else None


class StandIns:
    """Puts bytes in the place of attachments for one translation, and references back behind it."""

    def __init__(self, along: object) -> None:
        # Made of a hash of everything that is written along with them: so no text of a message can contain them.
        self._salt = hashlib.sha256(repr(along).encode("utf-8", "backslashreplace")).digest()
        self._ids: dict[str | bytes, tuple[str, str | None]] = {}

    def _text(self, id_: str, mime_type: str | None = None) -> str:
        data = hashlib.sha256(self._salt + id_.encode("utf-8", "backslashreplace")).digest()
        text = encoded(data)
        self._ids[text] = self._ids[data] = (id_, mime_type)
        return text

    def hidden(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        return tuple(
            replace(block, data=self._text(ref["id"], block.mime_type), state=None)
            if isinstance(block, Media) and (ref := attachment_of(block)) is not None
            else block
            for block in blocks
        )

    def shown(self, messages: Any) -> Any:
        return rewritten(messages, self._shown) if self._ids else messages

    def _shown(self, node: Any) -> Any:
        if isinstance(node, bytes) and node in self._ids:
            return reference(self._ids[node][0], "bytes")
        if not isinstance(node, str):
            return node
        if node in self._ids:
            return reference(self._ids[node][0])
        head, _, text = node.rpartition(",")
        if head.startswith("data:") and text in self._ids:
            return reference(self._ids[text][0], "data_url", self._ids[text][1])
        return node

    def covered(self, messages: Any) -> Any:
        return expand_attachments(messages, lambda id_: Attachment(b64decode(self._text(id_))))

    def uncovered(self, blocks: Iterable[Block]) -> tuple[Block, ...]:
        return tuple(
            replace(block, data=None, state=reference(self._ids[block.data][0]))
            if isinstance(block, Media) and block.data in self._ids
            else block
            for block in blocks
        )
