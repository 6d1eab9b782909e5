"""Represents a history for any wire: prompts, the model's replies, the results of its calls.

An entry knows the messages that it was read from (`origin`), so that unchanged ones can be returned verbatim.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json

from ..content import Block, Media, Text
from ..parts import CallKind, Finish, Part, ToolCall
from ..schema.names import PLAIN_NAMES, qualified
from .history_rules import HistoryRules, Violation, ViolationCode
from .reading import json_text


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of one call for the model."""

    call_id: str
    content: str = field(repr=False)
    """The whole content as text, with placeholders for other content."""
    is_error: bool = False
    name: str | None = None
    """The tool's name, if the wire gives it."""
    blocks: tuple[Block, ...] = field(default=(), repr=False)
    """The content as blocks, if it is more than text: render these if the wire can carry them."""
    native: Any = field(default=None, repr=False)
    """The content in the shape of the target wire, to be sent unchanged."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The native block or message that it was read from, to be sent back over the same wire (`Answer.own_wire`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A turn for `render`: the model's reply, and one result for each of its calls."""

    parts: tuple[Part, ...]
    calls: Mapping[str, ToolCall]
    """The calls by id, in call order."""
    arguments: Mapping[str, tuple[str, Mapping[str, Any]]] = field(repr=False)
    """The arguments of each call for the history: a JSON object as text and as value."""
    results: tuple[CallResult, ...]
    """In call order."""
    finish: Finish | None = None
    own_wire: bool = True
    """True if the turn came over the target wire, so that opaque provider state may go back."""

    @property
    def our_calls(self) -> list[ToolCall]:
        """The calls that were not the provider's to run, in call order."""
        return [call for call in self.calls.values() if call.kind != "server"]

    def state_of(self, piece: Part | ToolCall) -> Mapping[str, Any]:
        """Returns the provider's state of a part or a call; empty if it came over another wire."""
        return (piece.provider_state or {}) if self.own_wire else {}

    def text(self, *kinds: str) -> str:
        """Returns the texts of all parts of these kinds, joined."""
        return "".join(part.text for part in self.parts if part.kind in kinds)

    def as_function(self, call: ToolCall) -> dict[str, Any]:
        """Returns a call in the shape of OpenAI's chat, which most wires share: id, type, name, arguments as text."""
        function = {"name": PLAIN_NAMES.cleaned(call.name), "arguments": self.arguments[call.call_id][0]}
        return {"id": call.call_id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Prompt:
    """A message to the model, from the user or a system prompt."""

    role: Literal["system", "user"]
    """``system`` includes OpenAI's ``developer``, which is in `state`."""
    blocks: tuple[Block, ...]
    origin: tuple[int, int] | None = None
    """The range of native messages that it was read from (first, one past the last); None if it was made here."""
    state: Mapping[str, Any] | None = field(default=None, repr=False)
    """The other fields of the message (``role: developer``, ``name``), to be sent back over the same wire."""
    flaws: tuple[Violation, ...] = ()
    """The faults of the native messages that are not visible here, such as an empty block."""

    @property
    def is_empty(self) -> bool:
        """True if nothing is left that a provider would accept."""
        return not self.blocks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """A reply of the model, without results (`Answer.results` is empty)."""

    answer: Answer
    origin: tuple[int, int] | None = None
    flaws: tuple[Violation, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing is left that a provider would accept."""
        return not self.answer.parts


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Returned:
    """Consecutive results, in order. Their ids are as written, and may match no call."""

    results: tuple[CallResult, ...]
    origin: tuple[int, int] | None = None
    flaws: tuple[Violation, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if nothing is left that a provider would accept."""
        return not self.results


Entry: TypeAlias = Prompt | Reply | Returned


# -- media --


def decoded(data: str) -> bytes | None:
    try:
        return b64decode(data, validate=True)
    except ValueError:
        return None


def encoded(data: bytes | str) -> str:
    return b64encode(data if isinstance(data, bytes) else data.encode("utf-8", "replace")).decode()


def output_of(result: CallResult, native_blocks: Callable[[Iterable[Block]], list[dict[str, Any]]]) -> Any:
    """Returns a result where an API takes a text or a list of blocks: an object goes as JSON text."""
    if result.native is not None:
        return result.native if isinstance(result.native, (str, list)) else json_text(result.native) or ""
    has_media = any(isinstance(block, Media) for block in result.blocks)
    return native_blocks(result.blocks) if has_media else result.content


def text_of(blocks: Iterable[Block]) -> str:
    """Returns blocks as one text, with placeholders, without blocks that only their provider understands."""
    texts = (
        block.text if isinstance(block, Text) else block.placeholder()
        for block in blocks
        if isinstance(block, (Text, Media))
    )
    return "\n".join(texts)


def text_block(blocks: Iterable[Block], raw: dict[str, Any]) -> Text | None:
    found = [block.text for block in blocks if isinstance(block, Text)]
    return Text("\n".join(found), state=raw) if found else None


def written(
    blocks: Iterable[Block],
    *,
    own_wire: bool = True,
    text: Callable[[str], dict[str, Any]],
    media: Callable[[Media], dict[str, Any] | None],
) -> list[dict[str, Any]]:
    """Renders blocks as an API takes them. What it does not take is a placeholder; blank text is left out. With
    `own_wire`, what stands in a block's `state` was read from this API, and goes back as it is."""
    found: list[dict[str, Any]] = []
    for block in blocks:
        if own_wire and block.state is not None:
            found.append(dict(block.state))
        elif isinstance(block, Media):
            found.append(media(block) or text(block.placeholder()))
        elif isinstance(block, Text) and block.text.strip():
            found.append(text(block.text))
    return found


# -- reading a history --

# A history while it is read back out of a provider's messages: what every wire's `read` collects into.
#
# Calls are told apart over the whole history, also where a provider's messages do not: an id that stood there before,
# or none at all, gets a name of its own (`CallNames`), from which `id_as_read` gives back what stood there. A call
# whose arguments are no JSON object has ``status="invalid"``, keeps their text, and goes on with ``{}``.

_APART = "\0"  # in no id: JSON writes it as an escape, and no provider gives or takes it


def id_as_read(call_id: str) -> str:
    """Returns the id that was in the message; ``""`` if there was none."""
    return call_id.partition(_APART)[0]


class CallNames:
    """Gives each call of one history a unique name. Make one for each `read`."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def name(self, given: object) -> str:
        """Returns a name that no other call has: the given id, if it is valid and new."""
        own = id_as_read(given) if isinstance(given, str) else ""
        count = self._seen[own] = self._seen.get(own, 0) + 1
        return own if own and count == 1 else f"{own}{_APART}{count}"


Numbered: TypeAlias = tuple[Any, str]


def numbered(blocks: object, path: str) -> list[Numbered]:
    return [(raw, f"{path}[{number}]") for number, raw in enumerate(blocks)] if isinstance(blocks, list) else []


class Flaws:
    def __init__(self, rules: HistoryRules) -> None:
        self.found: list[Violation] = []
        self._rules = rules

    def add(self, code: ViolationCode, path: str, message: str, text: str | None = None) -> None:
        self.found.append(self._rules.violation(code, path, message, text))

    def sound(self, blocks: Iterable[Numbered], flaw: Callable[[Any, str], Violation | None]) -> list[Numbered]:
        kept = []
        for raw, path in blocks:
            if found := flaw(raw, path):
                self.found.append(found)
            else:
                kept.append((raw, path))
        return kept


class AnswerBuilder:
    """Collects the pieces of one answer in order."""

    def __init__(self, names: CallNames, rules: HistoryRules | None = None) -> None:
        self.flaws = Flaws(rules or HistoryRules())
        self._names = names
        self._parts: list[Part] = []
        self._calls: dict[str, ToolCall] = {}
        self._arguments: dict[str, tuple[str, Mapping[str, Any]]] = {}

    @property
    def is_empty(self) -> bool:
        """True if nothing was added so far."""
        return not self._parts

    @property
    def says_more(self) -> bool:
        """True if there is a call or a refusal."""
        return bool(self._calls) or any(part.kind == "refusal" for part in self._parts)

    def text(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """Adds text of the model."""
        self._parts.append(Part(kind="text", text=text, provider_state=state))

    def reasoning(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """Adds reasoning."""
        self._parts.append(Part(kind="reasoning", text=text, provider_state=state))

    def refusal(self, text: str, state: Mapping[str, Any] | None = None) -> None:
        """Adds a refusal."""
        self._parts.append(Part(kind="refusal", text=text, provider_state=state))

    def provider(self, state: Mapping[str, Any]) -> None:
        """Adds a block that only its provider understands."""
        self._parts.append(Part(kind="provider", provider_state=state))

    def call(
        self,
        call_id: object,
        name: object,
        arguments: object,
        *,
        kind: CallKind = "function",
        state: Mapping[str, Any] | None = None,
        object_at: str | None = None,
        namespace: object = None,
    ) -> None:
        """Adds a call; its status says whether its arguments are an object, as a value or as text. `state`: the state
        that a decoder would keep with it. `object_at`: the path of arguments that must be an object, so that text is a
        flaw."""
        group = namespace if isinstance(namespace, str) and namespace and namespace != name else None
        key = self._names.name(call_id)
        text, value, problem = _custom(arguments) if kind == "custom" else _arguments(arguments)
        self._arguments[key] = (text if problem is None else "{}", value)
        self._calls[key] = ToolCall(
            call_id=key,
            call_id_synthesized=key != call_id,
            name=qualified(group, name) if isinstance(name, str) else "",
            namespace=group,
            kind=kind,
            index=len(self._calls),
            arguments_text=arguments if isinstance(arguments, str) else text,
            arguments=dict(value) if problem is None else None,
            status="ready" if problem is None else "invalid",
            problem=problem,
            provider_state=state,
        )
        self._parts.append(Part(kind="call", call_id=key))
        if object_at is not None and isinstance(arguments, str) and problem is None:
            self.flaws.add("arguments_not_object", object_at, "the arguments are the text of an object")

    def reply(self, origin: tuple[int, int] | None = None, finish: Finish | None = None) -> Reply:
        """Returns the answer so far, for the wire that it was read from."""
        answer = Answer(
            parts=tuple(self._parts), calls=self._calls, arguments=self._arguments, results=(), finish=finish
        )
        return Reply(answer=answer, origin=origin, flaws=tuple(self.flaws.found))


def entries_by_role(
    messages: Sequence[Mapping[str, Any]], readers: Mapping[str, Callable[[Mapping[str, Any], int, CallNames], Entry]]
) -> list[Entry]:
    names, entries = CallNames(), list[Entry]()
    for index, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if isinstance(role, str) and role in readers:
            entries.append(readers[role](message, index, names))
    return entries


def entries_in_runs(
    items: Sequence[Any],
    is_item: Callable[[Any], bool],
    asked: Callable[[int], Prompt | Returned | None],
    add: Callable[[int, int, AnswerBuilder], None],
    rules: HistoryRules,
) -> list[Entry]:
    """Reads a list without messages: items that `asked` takes for none of the model's part its answers. `add` takes
    the place of an item, and its place in the answer."""
    names, entries, run = CallNames(), list[Entry](), list[int]()

    def end() -> None:
        if run:
            answer = AnswerBuilder(names, rules)
            for number in run:
                add(number, number - run[0], answer)
            entries.append(answer.reply((run[0], run[-1] + 1)))
            run.clear()

    for number in (number for number, item in enumerate(items) if is_item(item)):
        entry = asked(number)
        if entry is not None or (run and run[-1] != number - 1):  # what stands between is no item
            end()
        if entry is not None:
            entries.append(entry)
        else:
            run.append(number)
    end()
    return entries


Written: TypeAlias = dict[str, Any]
OfCall: TypeAlias = Callable[[ToolCall, Answer], Written | None]


def items_of(
    answer: Answer,
    index: str,
    key: str,
    *,
    of_call: OfCall,
    fit: Callable[[Mapping[str, Any]], Written | None],
    content_of: Callable[[Part], Written | None],
    message: Written,
) -> list[Written]:
    """Returns the items that stand in the states of an answer's parts under `key`, by their places under `index`. Of
    another provider's answer, contents in a row are those of one `message`."""
    if not answer.own_wire:
        return _projected(answer, of_call, content_of, message)
    placed: list[tuple[int, Written]] = []
    for part in answer.parts:
        call = answer.calls[part.call_id] if part.call_id is not None else None
        state = (call.provider_state if call is not None else part.provider_state) or {}
        found = of_call(call, answer) if call is not None else state.get(key)
        if found and (item := fit(found)) is not None:
            placed.append((state.get(index, len(placed)), item))
    return [item for _, item in sorted(placed, key=lambda pair: pair[0])]


def _projected(
    answer: Answer, of_call: OfCall, content_of: Callable[[Part], Written | None], message: Written
) -> list[Written]:
    items: list[Written] = []
    for part in answer.parts:
        if part.kind == "call" and part.call_id is not None:
            call = of_call(answer.calls[part.call_id], answer)
            items += [call] if call is not None else []
        elif (content := content_of(part)) is not None:
            if not items or items[-1]["type"] != message["type"]:
                items.append({**message, "content": []})
            items[-1]["content"].append(content)
    return items


def results_and_prompts(
    blocks: Iterable[Numbered],
    prompt: Prompt,
    rules: HistoryRules,
    *,
    is_result: Callable[[Any], bool],
    read_result: Callable[[Any, str, Flaws], CallResult],
    read_block: Callable[[Any], Block],
    flaw: Callable[[Any, str], Violation | None],
) -> Iterator[Prompt | Returned]:
    """Parts the blocks of one message into results and prompts, which are as `prompt` but for their blocks, in the
    order in which they stand. Blocks in which `flaw` finds something are left out of prompts."""
    for are_results, run in groupby(blocks, lambda pair: is_result(pair[0])):
        flaws = Flaws(rules)
        if are_results:
            results = tuple(read_result(raw, path, flaws) for raw, path in run)
            yield Returned(results=results, origin=prompt.origin, flaws=tuple(flaws.found))
        else:
            sound = tuple(read_block(raw) for raw, _ in flaws.sound(run, flaw))
            yield replace(prompt, blocks=sound, flaws=tuple(flaws.found))


def result_as_read(
    call_id: object,
    blocks: tuple[Block, ...],
    *,
    rich: bool,
    state: Mapping[str, Any] | None,
    name: object = None,
    is_error: bool = False,
) -> CallResult:
    """Returns a result that was read from a message, whatever stood there as id and name. `rich`: the content is more
    than its text says; `state`: the native result, to go back as it is, None if it may not."""
    return CallResult(
        call_id=call_id if isinstance(call_id, str) else "",
        content=text_of(blocks),
        is_error=is_error,
        name=name if isinstance(name, str) else None,
        blocks=blocks if rich else (),
        state=state,
    )


def _arguments(given: object) -> tuple[str, Mapping[str, Any], str | None]:
    text = given if isinstance(given, str) else json_text(given)
    value = given
    if isinstance(given, str):
        try:
            value = from_json(given, allow_inf_nan=False)
        except (ValueError, TypeError):  # the latter for half a surrogate pair
            return given, {}, "malformed_json"
    if text is None:
        return "", {}, "malformed_json"
    return (text, value, None) if isinstance(value, dict) else (text, {}, "non_object_arguments")


def _custom(given: object) -> tuple[str, Mapping[str, Any], str | None]:
    value = {"input": given if isinstance(given, str) else ""}
    text = json_text(value)
    return (text, value, None) if text is not None else ("", value, "malformed_json")
