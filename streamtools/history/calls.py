"""Reads a provider's messages as callers hold them: dicts, or the objects of an SDK."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pydantic_core import to_json

from ..content import Text, ToolResult
from ..errors import ExportError
from ..events import Observation
from ..ground.own import own
from ..ground.text import excerpt
from ..parts import OUTCOMES, Outcome, ToolCall
from ..stages.arguments import arguments_of
from ..wires import Answer, Wire, find, known, meant, names
from ..wires.history_rules import HistoryRules
from ..wires.transcript import CallNames, CallResult, Entry, Prompt, Reply, Returned, id_as_read, text_of

_MAX_DEPTH = 8  # the depth to which an SDK's objects may be nested in a message: an image's source in a result is at 5
_MAX_SHOWN = 80  # characters


class Messages:
    """Reads a list of native messages as entries, and keeps both; SDK objects are read by ``model_dump``."""

    def __init__(self, given: Sequence[Any], wire: Wire) -> None:
        if not isinstance(given, Sequence) or isinstance(given, (str, bytes)):
            hint = "; pass its list of messages" if isinstance(given, Mapping) else ""
            raise TypeError(f"messages: expected a list of messages, got {type(given).__name__}{hint}")
        self.given = given
        self.wire = wire
        self.plain: list[Any] = [plain_of(message, wire.rules) for message in given]
        self.entries: list[Entry] = wire.entries(self.plain)
        self.members: dict[tuple[int, int], list[Entry]] = {}
        for entry in self.entries:
            if entry.origin is not None:
                self.members.setdefault(entry.origin, []).append(entry)

    @property
    def mixed(self) -> set[tuple[int, int]]:
        """The messages that have both results and other content, where the wire wants them separate."""
        if not self.wire.rules.results_apart:
            return set()
        kinds = {origin: {isinstance(entry, Returned) for entry in group} for origin, group in self.members.items()}
        return {origin for origin, found in kinds.items() if len(found) > 1}

    @property
    def unread(self) -> list[int]:
        covered = {place for entry in self.entries if entry.origin for place in range(*entry.origin)}
        return [place for place in range(len(self.plain)) if place not in covered]


def refuse_another_wires(read: Messages) -> None:
    # Only if no message reads on its own wire: repairing or converting it would leave nothing, without an error.
    if not read.plain or any(not entry.is_empty for entry in read.entries):
        return
    for other in known():
        if other.name != read.wire.name and any(_has_content(entry) for entry in other.entries(read.plain)):
            raise ExportError(f"none of these is a message of {read.wire.name}; they look like those of {other.name}")


def _has_content(entry: Entry) -> bool:
    if isinstance(entry, Prompt):
        return any(isinstance(block, Text) and block.text for block in entry.blocks)
    return isinstance(entry, Reply) and any(part.kind == "call" or part.text for part in entry.answer.parts)


def mended(messages: list[Any], rules: HistoryRules) -> list[Any]:
    """Applies a wire's own `mend`; returns the given messages themselves wherever it changes none."""
    if rules.mend is None:
        return messages
    plain = [plain_of(message, rules) for message in messages]
    after = rules.mend(plain)
    if after is plain:
        return messages
    # Back from dicts to the caller's own objects: a prompt cache keeps matching what does not change.
    originals = {id(dumped): given for dumped, given in zip(plain, messages, strict=True)}
    return [originals.get(id(message), message) for message in after]


def wire_named(wanted: Wire | str, model: str | None = None) -> Wire:
    try:
        wire = find(wanted)
    except ValueError as error:
        spoken_names = meant(str(wanted), names())
        raise ExportError(f"no wire is called {wanted!r}, so its histories cannot be read; {spoken_names}") from error
    for_model = wire.rules.for_model
    return replace(wire, rules=for_model(model)) if model is not None and for_model is not None else wire


def are_same(ones: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(ones) == len(others) and all(one is other for one, other in zip(ones, others, strict=True))


def shown(name: str) -> str:
    """Formats an id or a name for people; a model or a relay may have made it any length."""
    return f"'{excerpt(name, _MAX_SHOWN)}'"


def role_of(message: Any, rules: HistoryRules) -> str | None:
    key = rules.role_key
    role = message.get(key) if isinstance(message, Mapping) else getattr(message, key, None)
    return role if isinstance(role, str) else None


def plain_of(message: Any, rules: HistoryRules) -> Any:
    """Returns a message as a dict of plain values; one that cannot become a dict stays, or becomes None."""
    return _plain(message, 0, (rules.role_key, "type"))


def _plain(value: Any, depth: int, kinds: tuple[str, ...]) -> Any:
    if value is None or isinstance(value, (str, bytes, int, float)) or depth > _MAX_DEPTH:
        return value
    # Programs also put an SDK's objects into the content of a dict: each level may be one or the other.
    if isinstance(value, Mapping):
        changed = {key: new for key, item in value.items() if (new := _plain(item, depth + 1, kinds)) is not item}
        return {**value, **changed} if changed or not isinstance(value, dict) else value
    if isinstance(value, (list, tuple)):
        items = [_plain(item, depth + 1, kinds) for item in value]
        return value if isinstance(value, list) and are_same(items, value) else items
    return _dumped(value, kinds)


def _dumped(value: Any, kinds: tuple[str, ...]) -> Any:
    dump = getattr(value, "model_dump", None)
    if not callable(dump):
        return value
    try:
        # As the SDK would send it: by the wire's names, without the nulls of unset fields.
        return _with_kinds(dump(mode="json", by_alias=True, exclude_unset=True), value, kinds)
    except Exception:  # the caller's object: whatever its dump raises, it is then not a message
        return None


def _with_kinds(dumped: Any, value: Any, kinds: tuple[str, ...]) -> Any:
    """Adds role and type to the dump of each object where they are unset defaults, as in some SDKs."""
    if isinstance(dumped, dict):
        unset = {key: kind for key in kinds if key not in dumped and isinstance(kind := getattr(value, key, None), str)}
        return unset | {key: _with_kinds(item, getattr(value, str(key), None), kinds) for key, item in dumped.items()}
    if isinstance(dumped, list) and isinstance(value, (list, tuple)) and len(value) == len(dumped):
        return [_with_kinds(item, given, kinds) for item, given in zip(dumped, value, strict=True)]
    return dumped


# -- the form of a call in a history: its result, its arguments, its id --

_OUTCOMES: Mapping[str, Outcome] = {"truncated": "truncated", "invalid": "invalid", "ready": "skipped"}
# Problems of calls whose text is whole; with any other problem, the kept text may be a part that looks like a whole.
_WHOLE_TEXT = frozenset({"invalid_arguments", "missing_name", "name_too_long"})


def given(call_id: str, value: Any, tool_name: str = "") -> Observation:
    if isinstance(value, Observation):
        return value
    if isinstance(value, ToolResult):
        outcome: Outcome = "failed" if value.is_error else "ok"
        text = text_of(value.blocks)
        return Observation(call_id=call_id, tool_name=tool_name, outcome=outcome, model_content=text, result=value)
    return Observation(call_id=call_id, tool_name=tool_name, outcome="ok", value=value, model_content=_text(value))


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="null").decode()
    except ValueError as error:
        raise TypeError(f"a result of type {type(value).__name__} cannot be written as JSON; pass a text") from error


def result_of(call: ToolCall, seen: Observation | None, wire: str) -> CallResult:
    """Returns a call's result for the model on a wire; without an observation, that the call did not run."""
    given = seen.result if seen else None
    return CallResult(
        call_id=call.call_id,
        content=seen.model_content if seen else OUTCOMES[_OUTCOMES[call.status]].to_model,
        is_error=seen is None or seen.outcome != "ok",
        name=call.name,
        blocks=given.blocks if given else (),
        native=given.native.get(wire) if given else None,
    )


def history_form(call: ToolCall) -> tuple[str, dict[str, Any]]:
    """Returns a JSON object: verbatim if it is one, written anew if normalised, ``{}`` if cut or missing."""
    if call.kind == "custom":  # raw text, which an API without such tools has as an argument of a function
        value: dict[str, Any] = {"input": "" if call.status == "truncated" else call.arguments_text}
        return to_json(value).decode(), value
    if call.arguments is not None:
        # The model's own text where it may be: prompt caches match by bytes.
        return (to_json(call.arguments).decode() if call.normalizations else call.arguments_text), own(call.arguments)
    # Invalid arguments go back as the model wrote them, so that it sees what its error result is about.
    if call.problem in _WHOLE_TEXT and (found := object_in(call.arguments_text)) is not None:
        return found
    return "{}", {}


def object_in(text: str) -> tuple[str, dict[str, Any]] | None:
    found = arguments_of(text)
    if isinstance(found, str):
        return None
    value, steps = found
    return (to_json(value).decode() if steps else text), value


def with_valid_ids(answer: Answer, target: Wire | str) -> Answer:
    # A provider accepts the ids that it gave itself, whatever its documented pattern says.
    given = {id_ for id_, call in answer.calls.items() if answer.own_wire and not call.call_id_synthesized}
    return renamed(answer, valid_ids(answer.calls, target, keep=given))


def renamed(answer: Answer, ids: Mapping[str, str]) -> Answer:
    if all(ids.get(old, old) == old for old in answer.calls):
        return answer
    return replace(
        answer,
        parts=tuple(
            p if p.call_id is None else replace(p, call_id=ids.get(p.call_id, p.call_id)) for p in answer.parts
        ),
        calls={ids.get(old, old): replace(call, call_id=ids.get(old, old)) for old, call in answer.calls.items()},
        arguments={ids.get(old, old): arguments for old, arguments in answer.arguments.items()},
        results=tuple(replace(r, call_id=ids.get(r.call_id, r.call_id)) for r in answer.results),
    )


def valid_ids(ids: Iterable[str], target: Wire | str, *, keep: Collection[str] = ()) -> dict[str, str]:
    """Maps each id to its form at `target`: itself where it is valid or to be kept, else a name made of its hash."""
    # A hash, so that the calls of an older turn keep their names from request to request, and with them the prompt's
    # cache. Not the id's own beginning: cut to Mistral's nine characters, ids of Bedrock (`tooluse_bpe...`) are alike.
    rule = find(target).call_ids
    wanted = list(ids)
    found = {id_: id_ for id_ in wanted if id_ in keep or rule.takes(id_)}
    used = set(found)
    for id_ in wanted:
        attempt = 0
        while id_ not in found:
            if (name := rule.replacement(id_, attempt)) not in used:
                found[id_] = name
                used.add(name)
            attempt += 1
    return found


def stand_ins(call_id: str, target: Wire | str, known: Container[str]) -> list[str]:
    """Returns those of a history's `known` ids that may stand for a turn's `call_id`: the id itself, the replacements
    of the same id where it stands there repeatedly, and its replacement by `valid_ids`, the last."""
    rule, names = find(target).call_ids, CallNames()
    found = [call_id] if call_id in known else []
    is_first = True
    while True:
        # `read` renames the second call of an id before `valid_ids` sees it, so each of its names has to be tried.
        as_read, attempt = names.name(call_id), 0
        # Where a name was in use, `valid_ids` took the next attempt's.
        while (name := rule.replacement(as_read, attempt)) in known:
            found.append(name)
            attempt += 1
        if not (is_first or attempt):
            return found
        is_first = False


# -- calls and results, paired --


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    result: CallResult
    source: Returned


@dataclass(slots=True, eq=False)
class Exchange:
    reply: Reply
    given: dict[str, Given] = field(default_factory=dict)  # the results that the history has, by id of the call
    live: bool = False  # True if the exchange is the last and has open calls: they may still be running

    @property
    def calls(self) -> list[ToolCall]:
        return self.reply.answer.our_calls

    @property
    def open_calls(self) -> list[ToolCall]:
        return [call for call in self.calls if call.call_id not in self.given]


@dataclass(frozen=True, slots=True, eq=False)
class Stray:
    result: CallResult
    source: Returned
    is_duplicate: bool  # True if a call with its id has a result already


@dataclass(slots=True, eq=False)
class Paired:
    steps: list[Prompt | Exchange]
    strays: list[Stray]


def pair(entries: Iterable[Entry], rules: HistoryRules) -> Paired:
    pairing = _Pairing(rules)
    for entry in entries:
        if entry.is_empty:
            continue
        if isinstance(entry, Prompt):
            pairing.steps.append(entry)
        elif isinstance(entry, Reply):
            pairing.add_reply(entry)
        else:
            for result in entry.results:
                pairing.add_result(result, entry)
    last = pairing.steps[-1] if pairing.steps else None
    if isinstance(last, Exchange):
        last.live = bool(last.open_calls)
    return Paired(pairing.steps, pairing.strays)


class _Pairing:
    """Walks the entries once: `add_reply` opens the calls of an answer, `add_result` finds the call of a result."""

    def __init__(self, rules: HistoryRules) -> None:
        self.steps: list[Prompt | Exchange] = []
        self.strays: list[Stray] = []
        self._ids_optional = rules.call_ids_optional
        self._latest: Exchange | None = None
        # Calls of the latest answer, under each description that a result may have of them: no result looks through
        # all calls, so that a history of thousands costs linear time.
        self._open: dict[_Key, deque[str]] = {}
        self._earlier: dict[str, deque[tuple[Exchange, str]]] = defaultdict(deque)
        self._answered: set[str] = set()

    def add_reply(self, reply: Reply) -> None:
        if self._latest is not None:
            for call in self._latest.open_calls:
                self._earlier[id_as_read(call.call_id)].append((self._latest, call.call_id))
        self._latest = Exchange(reply)
        self.steps.append(self._latest)
        self._open = defaultdict(deque)
        for call in self._latest.calls:
            own = id_as_read(call.call_id)
            known: tuple[_Key, ...] = (("id", own, ""), ("id", own, call.name))
            unknown: tuple[_Key, ...] = (("no id", "", ""), ("no id", "", call.name))
            for key in (*(known if own else unknown), ("any", "", ""), ("any", "", call.name)):
                self._open[key].append(call.call_id)

    def add_result(self, result: CallResult, source: Returned) -> None:
        found = self._call_of(result)
        if found is None:
            is_duplicate = bool(result.call_id) and result.call_id in self._answered
            self.strays.append(Stray(result, source, is_duplicate))
            return
        exchange, call_id = found
        exchange.given[call_id] = Given(result, source)
        self._answered.add(id_as_read(call_id))

    def _call_of(self, result: CallResult) -> tuple[Exchange, str] | None:
        name = result.name or ""
        # Gemini and Ollama may give no ids, and the oldest chat histories have functions by name alone: the first open
        # call of that name is meant, preferably one that has no id either.
        if not result.call_id:
            return self._next("no id", "", name) or self._next("any", "", name) if name or self._ids_optional else None
        # The latest answer before earlier ones: a provider that counts its calls anew in each turn gives the same ids
        # again, and then the latest turn is meant (can1357/oh-my-pi#2055).
        if found := self._next("id", result.call_id, name) or self._next("id", result.call_id, ""):
            return found
        if waiting := self._earlier.get(result.call_id):
            return waiting.popleft()
        # The id may have been made up for a call without one.
        return self._next("no id", "", name) if self._ids_optional else None

    def _next(self, *key: str) -> tuple[Exchange, str] | None:
        queue = self._open.get((key[0], key[1], key[2]))
        while self._latest is not None and queue:
            call_id = queue.popleft()
            if call_id not in self._latest.given:
                return self._latest, call_id
        return None


_Key: TypeAlias = tuple[str, str, str]
"""How a result names its call: the kind of its id (``id``, ``no id``, ``any``), the id, the tool (``""``: any)."""
