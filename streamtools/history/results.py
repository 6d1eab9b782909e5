"""Puts other results into a history, for calls that ended after it was written; the rest stays the same objects."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

from ..content import Media
from ..events import Observation
from ..parts import Part, ToolCall
from ..wires import Answer, Wire
from ..wires.transcript import CallResult, Returned, id_as_read
from .calls import (
    Exchange,
    Messages,
    Paired,
    are_same,
    given,
    pair,
    refuse_another_wires,
    result_of,
    role_of,
    shown,
    stand_ins,
    wire_named,
)
from .repairing import joined

Message: TypeAlias = dict[str, Any]
_Line: TypeAlias = frozenset[tuple[str, str]]

_PICTURE = Media(kind="image", mime_type="image/png", data="AA==")
"""Stands for any media in a result that is rendered to see where the wire puts them."""


def with_results(
    messages: list[Any], results: Iterable[Observation] | Mapping[str, Any], wire: Wire | str
) -> list[Any]:
    """Returns the history with each observation as its call's result; the same list if that changes nothing.

    Use it for calls that were done, or denied, after their turn was written. Until then they have other results, for
    example those of calls that wait for an approval. The returned history equals that of ``turn.messages(wire)`` with
    these observations from the beginning: results stay in their places, a call without a result gets it where `repair`
    would put it, and all other messages stay the same objects.

    An observation's call is the latest with the observation's id, or with the id that replaces it because `wire`
    refuses it; among several, the latest of its tool if there is one. A call without an id in the history (not every
    Gemini model gives one) is found by its tool and its place among the turn's calls; all observations of such calls
    must be from one turn.

    A result is written anew as a whole: fields that you set on the old one (``cache_control``) are lost. Blocks with a
    `state` are written as they are, on the assumption that `wire` is their wire.

    Args:
        messages: native messages of `wire`, dicts or an SDK's objects. They are not changed.
        results: the new results, at most one for each call: observations; or, by `call_id`, text for the model, a
            `ToolResult`, or a value to be written as JSON.
        wire: the wire, or its name.

    Raises:
        ValueError: an observation's call is not in the history, or two observations are of one call.
        ExportError: there is no such wire; or no message is of it, and some are of another wire. It is a ValueError,
            too.
        TypeError: `messages` is not a list, or a result cannot be written as JSON.
    """
    read = Messages(messages, wire_named(wire))
    if isinstance(results, Mapping):
        by_id: Mapping[str, Any] = cast("Mapping[str, Any]", results)  # and no iterable of observations
        results = [given(call_id, value) for call_id, value in by_id.items()]
    wanted = list(results)
    if not wanted:
        return messages
    refuse_another_wires(read)
    draft = Draft(read)
    for exchange, observed in observed_calls(wanted, pair(read.entries, read.wire.rules), read.wire).items():
        _Answered(read, draft, exchange, observed).put()
    after = draft.messages()
    return messages if are_same(after, messages) else after


class _Answered:
    def __init__(self, read: Messages, draft: Draft, exchange: Exchange, observed: Observed) -> None:
        self._read, self._draft, self._exchange = read, draft, exchange
        self._calls = exchange.calls
        some = self._calls[0]
        # Two results make one message exactly where a message may have several.
        both = self._rendered(some, _seen(some), _seen(some))
        self._list_field = _list_field(both[0]) if len(both) == 1 else None
        self._written = {
            call.call_id: self._rendered(call, result_of(call, observed[call.call_id], read.wire.name))
            for call in self._calls
            if call.call_id in observed
        }
        self._slots = {call_id: draft.slot(given.result) for call_id, given in exchange.given.items()}
        self._check_slots()
        assert exchange.reply.origin is not None, "it was read from messages"
        self._end = exchange.reply.origin[1]  # the place after the answer

    def _rendered(self, call: ToolCall, *results: CallResult) -> list[Message]:
        # For an answer with this call alone, under the id in the history: so nothing depends on the names
        # by which `read` keeps calls of one id apart, and the cost of a result not on the other calls.
        own = id_as_read(call.call_id)
        alone = replace(call, call_id=own or call.call_id, call_id_synthesized=not own)
        answer = Answer(
            parts=(Part(kind="call", call_id=alone.call_id),),
            calls={alone.call_id: alone},
            arguments={alone.call_id: self._exchange.reply.answer.arguments[call.call_id]},
            results=tuple(replace(result, call_id=alone.call_id) for result in results),
        )
        return self._read.wire.render_results(answer)

    def _check_slots(self) -> None:
        # One wire reads Cohere's histories of both API versions. Results of v1 are items of a list, those of v2 are
        # messages: where a history mixes them, a result cannot be replaced in its place.
        field = self._list_field
        for call_id, (place, _) in self._slots.items():
            is_list = field is not None and isinstance(self._read.plain[place].get(field), list)
            if not is_list and (field is not None or self._draft.count(place) > 1):
                what = f"the result of {shown(id_as_read(call_id))} in another shape than its call's"
                raise ValueError(f"{self._read.wire.rules.list_name}[{place}] holds {what}")

    def put(self) -> None:
        adjacent, missing, new = self._adjacent(), list[str](), list[Any]()
        into = new  # after the previous call's result, or before the first that there is
        for call_id in (call.call_id for call in self._calls):
            if call_id in self._slots:
                cell = self._draft.cell(self._slots[call_id], self._list_field)
                if call_id in self._written and not is_same(self._native(call_id), cell.plain):
                    cell.held[:] = [self._native(call_id)]
                if call_id in adjacent:
                    cell.held[:0], into = (new if into is new else ()), cell.held
            elif call_id in self._written:
                missing.append(call_id)
                into.append(self._native(call_id))
        if into is new and new:  # a result elsewhere does not help: moving it is for `repair`
            message = self._written[missing[0]][0]
            self._draft.add(self._end, new if self._list_field is None else [{**message, self._list_field: new}])
        self._put_media(has_inserted=bool(missing))

    def _native(self, call_id: str) -> Any:
        message = self._written[call_id][0]
        return message if self._list_field is None else message[self._list_field][0]

    def _adjacent(self) -> set[str]:
        places = {slot.place for slot in self._slots.values()}
        end = self._end
        while end in places:
            end += 1
        return {call_id for call_id, slot in self._slots.items() if self._end <= slot.place < end}

    def _put_media(self, *, has_inserted: bool) -> None:
        """Chat Completions and Mistral allow only text in a message of a result: one message after all results has a
        line for each call with media, and the media below."""
        # Reversed, so that of several calls with one id the first has the line.
        shapes = [(call.call_id, self._rendered(call, _seen(call, _PICTURE))[1:]) for call in reversed(self._calls)]
        if not shapes[0][1]:
            return
        *front, message = shapes[0][1]
        field, rules, plain = _list_field(message), self._read.wire.rules, self._read.plain
        lines = {_line(shape[-1][field][0]): call_id for call_id, shape in shapes}
        at = max((slot.place for slot in self._slots.values()), default=self._end - 1) + 1
        last = at + len(front)

        def is_alike(place: int) -> bool:
            return place < len(plain) and role_of(plain[place], rules) == role_of(message, rules)

        standing = plain[last].get(field) if plain[at:last] == front and is_alike(last) else None
        if not (isinstance(standing, list) and standing and _line(standing[0]) in lines):
            standing = None
        # It is split by call, and put together again with the new ones.
        of_calls, rest = _split(standing or (), lines, _kind(message[field][0]))
        of_calls |= {call_id: behind[-1][field] if behind else [] for call_id, (_, *behind) in self._written.items()}
        content = [part for call in self._calls for part in of_calls.get(call.call_id, ())] + rest
        # Mistral refuses a user's message right after results, so the model's filler between them is needed as long
        # as the user speaks next, with media or without.
        between = front if is_alike(at if standing is None else last + 1) else []
        if standing is None:
            added = [*front, {**message, field: content}] if content else between if has_inserted else []
            self._draft.add(at, added)
        elif not content:
            for place in range(at + len(between), last + 1):
                self._draft.put(place, [])
        elif not is_same(content, standing):
            self._draft.put(last, [{**plain[last], field: content}])


def _split(
    content: Sequence[Any], lines: Mapping[_Line | None, str], kind_of_lines: object
) -> tuple[dict[str, list[Any]], list[Any]]:
    # A text below a picture is the user's own, or a program's. Media belong to the line above them.
    of_calls: dict[str, list[Any]] = {}
    rest: list[Any] = []
    into = rest
    for part in content:
        call_id = lines.get(_line(part))
        if call_id is not None:
            into = of_calls.setdefault(call_id, [])
        elif _kind(part) in (None, kind_of_lines):
            into = rest
        into.append(part)
    return of_calls, rest


def _seen(call: ToolCall, *blocks: Media) -> CallResult:
    return CallResult(call_id=call.call_id, content=".", name=call.name, blocks=blocks)


def _list_field(message: Message) -> str:
    return next(name for name, value in message.items() if isinstance(value, list))


def _line(part: Any) -> _Line | None:
    """Returns a part in a form by which it can be looked up, if it holds texts only, as a line does; else None."""
    is_flat = isinstance(part, dict) and all(isinstance(value, str) for value in part.values())
    return frozenset(part.items()) if is_flat else None


def _kind(part: Any) -> object:
    return part.get("type") or next(iter(part), None) if isinstance(part, dict) else None


# -- the call of an observation --

# A turn's ids are unique, a history's need not be: an id that the provider refuses is replaced by another
# (`stand_ins`), an id that it gives anew in each turn appears several times, and some wires have no ids. So an
# observation's call is the latest with its id; a call of the observation's tool is preferred, if there is one.

Observed = Mapping[str, Observation]  # observations by their call's name as read (`ToolCall.call_id` in an `Exchange`)

# As the stage `accumulate` generates them: only such calls may have no id in the history.
_MADE_UP = re.compile(r"call_[0-9a-f]{24}")


class _Place(NamedTuple):
    answer: int  # the number of its answer, counted from the first
    exchange: Exchange
    call: ToolCall


def observed_calls(observations: Iterable[Observation], paired: Paired, wire: Wire) -> dict[Exchange, Observed]:
    """Costs linear time; raises a ValueError for an observation without a call."""
    calls = _Calls(paired, wire)
    placed: list[tuple[Exchange, ToolCall, Observation]] = []
    nameless: list[Observation] = []
    for observation in observations:
        place = calls.by_id(observation)
        if place is not None:
            placed.append((place.exchange, place.call, observation))
        elif _MADE_UP.fullmatch(observation.call_id):
            nameless.append(observation)
        else:
            raise ValueError(f"the history has no call {shown(observation.call_id)}, so its result has no place there")
    if nameless:
        exchange, asked = calls.without_ids(nameless)
        placed += [(exchange, call, observation) for call, observation in zip(asked, nameless, strict=True)]
    found: dict[Exchange, dict[str, Observation]] = defaultdict(dict)
    for exchange, call, observation in placed:
        if call.call_id in found[exchange]:
            raise ValueError(f"two observations of the call {shown(observation.call_id)}: a call has one result")
        found[exchange][call.call_id] = observation
    return {**found}


class _Calls:
    def __init__(self, paired: Paired, wire: Wire) -> None:
        self._exchanges = [step for step in paired.steps if isinstance(step, Exchange)]
        self._wire = wire
        self._latest: dict[str, dict[str, _Place]] = {}  # by id, then by name of the tool
        for number, exchange in enumerate(self._exchanges):
            # Of several calls with one id in one answer, the first keeps it; a turn generates ids for the others.
            by_own_id = {id_as_read(call.call_id): call for call in reversed(exchange.calls)}
            for own, call in by_own_id.items():
                if own:
                    self._latest.setdefault(own, {})[call.name] = _Place(number, exchange, call)

    def by_id(self, observation: Observation) -> _Place | None:
        # In the history the id may be another, which the provider accepts.
        names = stand_ins(observation.call_id, self._wire, self._latest)
        places = [(place, number) for number, name in enumerate(names) for place in self._latest[name].values()]

        def likelihood(at: tuple[_Place, int]) -> tuple[bool, int, int]:
            place, number = at
            return self._is_of(observation, place.call), place.answer, number

        return max(places, key=likelihood)[0] if places else None

    def without_ids(self, observations: Sequence[Observation]) -> tuple[Exchange, list[ToolCall]]:
        """Returns the latest answer that has all these calls without ids, and the calls in the observations' order."""
        # Tool and place are weak evidence for a single call: any turn may have called `look` first. So all observations
        # of such calls have to fit one answer.
        for exchange in reversed(self._exchanges) if self._wire.rules.call_ids_optional else ():
            calls = {call.index: call for call in exchange.calls if not id_as_read(call.call_id)}
            if len(calls) < len({observation.index for observation in observations}):
                continue
            asked = [(calls.get(observation.index), observation) for observation in observations]
            fit = [call for call, observation in asked if call is not None and self._is_of(observation, call)]
            if len(fit) == len(observations):
                return exchange, fit
        first, more = observations[0], len(observations) - 1
        raise ValueError(
            f"the history has no call {shown(first.call_id)}, so its result has no place there"
            + (f"; no answer there has {more} more without ids: pass those of one turn at a time" if more else "")
        )

    def _is_of(self, observation: Observation, call: ToolCall) -> bool:
        # A name that the provider refuses is another one there, so it proves nothing.
        return call.name == observation.tool_name or not self._wire.rules.names.accepts(observation.tool_name)


# -- the slots of results, and what is put there --


class Slot(NamedTuple):
    place: int  # the place of the result's message
    number: int  # the result's number within the message, from 0


class _Cell(NamedTuple):
    held: list[Any]  # what goes into the new history in the place of a block or a message
    plain: Any  # what stood there


class Draft:
    def __init__(self, read: Messages) -> None:
        self._read = read
        self._cells = [_Cell([message], plain) for message, plain in zip(read.given, read.plain, strict=True)]
        self._cells.append(_Cell([], None))  # the end
        self._ahead: dict[int, list[Any]] = defaultdict(list)
        self._blocks: dict[int, tuple[str, list[_Cell], list[_Cell]]] = {}  # with those of results
        self._slots: dict[int, Slot] = {}
        self._counts: dict[int, int] = {}
        for (place, _), entries in read.members.items():
            results = [result for entry in entries if isinstance(entry, Returned) for result in entry.results]
            self._slots |= {id(result): Slot(place, number) for number, result in enumerate(results)}
            self._counts[place] = len(results)

    def slot(self, result: CallResult) -> Slot:
        return self._slots[id(result)]

    def count(self, place: int) -> int:
        return self._counts[place]

    def cell(self, slot: Slot, list_field: str | None) -> _Cell:
        if list_field is None:
            return self._cells[slot.place]
        if slot.place not in self._blocks:
            plain = self._read.plain[slot.place]
            cells = [_Cell([block], block) for block in plain[list_field]]
            # A block is a result if the wire reads it as one, so blocks of unknown kinds stay where they are.
            of_results = [cell for cell in cells if self._is_result({**plain, list_field: cell.held})]
            self._blocks[slot.place] = list_field, cells, of_results
        return self._blocks[slot.place][2][slot.number]

    def _is_result(self, message: Message) -> bool:
        return any(isinstance(entry, Returned) and entry.results for entry in self._read.wire.entries([message]))

    def add(self, place: int, messages: list[Any]) -> None:
        """Puts messages before those at a place, and after those put there before."""
        self._ahead[place] += messages

    def put(self, place: int, messages: list[Any]) -> None:
        self._cells[place].held[:] = messages

    def messages(self) -> list[Any]:
        for place, (list_field, cells, _) in self._blocks.items():
            plain, blocks = self._read.plain[place], [block for cell in cells for block in cell.held]
            if not are_same(blocks, plain[list_field]):
                self.put(place, [{**plain, list_field: blocks}])
        found: list[Any] = []
        for place, (now, _) in enumerate(self._cells):
            ahead = self._ahead.get(place)
            found += joined([*ahead, *now], self._read.wire) if ahead else now
        return found


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two plain values are the same, including their types; the order of keys does not matter."""
    if type(one) is not type(other):  # 1, 1.0 and True are equal in Python
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)
