"""Puts other results into a history, for calls that ended after it was written; all else stays the same object."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias, cast

from ..content import Media
from ..events import Observation
from ..parts import Part, ToolCall
from ..wires import Answer, Wire
from ..wires.history_rules import HistoryRules
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
    """Returns the same history with each observation as its call's result; the same list if that changes nothing.

    Use it for calls that are done, or denied, after their turn was written; until then they have other results, for
    example those of calls that wait for an approval. The returned history equals that of ``turn.messages(wire)`` with
    these observations from the beginning: results stay in their places, a call without a result gets it where `repair`
    would put it, and all other messages stay the same objects.

    An observation's call is the latest with the observation's id, or with the id that replaces it because `wire`
    refuses it; among several, the latest of its tool if there is one. A call without an id in the history (not every
    Gemini model gives one) is found by its tool and its place among the turn's calls: all observations of such calls
    have to be of one turn.

    A result is written anew as a whole: fields that the caller has set on the old one (``cache_control``) are lost.
    Blocks with a `state` are written as they are, `wire` being taken for their wire.

    Args:
        messages: native messages of `wire`, dicts or an SDK's objects. They are not changed.
        results: the new results, at most one for each call: observations; or by `call_id` text as the model is to read
            it, a `ToolResult`, or a value to be written as JSON.
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
        self._plain = read.plain
        self._list_name = read.wire.rules.list_name
        self._draft = draft
        self._calls = exchange.calls
        self._writer = ResultWriter(exchange, read.wire)
        calls = (call for call in exchange.calls if call.call_id in observed)
        self._written = {call.call_id: self._writer.write(call, observed[call.call_id]) for call in calls}
        self._slots = {call_id: draft.slot(given.result) for call_id, given in exchange.given.items()}
        self._check_slots()
        assert exchange.reply.origin is not None, "it was read from messages"
        self._end = exchange.reply.origin[1]  # the place behind the answer

    def _check_slots(self) -> None:
        # One wire reads Cohere's histories of both API versions. Results of v1 are items of a list, those of v2 are
        # messages: where a history mixes them, a result cannot be replaced in its place.
        list_field = self._writer.list_field
        for call_id, (place, _) in self._slots.items():
            is_list = list_field is not None and isinstance(self._plain[place].get(list_field), list)
            if not is_list and (list_field is not None or self._draft.count(place) > 1):
                what = f"the result of {shown(id_as_read(call_id))} in another shape than its call's"
                raise ValueError(f"{self._list_name}[{place}] holds {what}")

    def put(self) -> None:
        missing = {call_id: None for call_id in self._written if call_id not in self._slots}  # in call order
        for call_id in self._written.keys() - missing.keys():
            self._draft.replacement(self._slots[call_id], self._writer.list_field).instead = self._native(call_id)
        if missing:
            self._insert(missing)
        self._put_media(has_inserted=bool(missing))

    def _native(self, call_id: str) -> Any:
        message, list_field = self._written[call_id].message, self._writer.list_field
        return message if list_field is None else message[list_field][0]

    def _insert(self, missing: Collection[str]) -> None:
        list_field, adjacent = self._writer.list_field, self._adjacent()
        standing = [adjacent[call.call_id] for call in self._calls if call.call_id in adjacent]
        if not standing:  # a result that stands elsewhere does not help: moving it is for `repair`
            messages = [self._written[call_id].message for call_id in missing]
            if list_field is not None:  # as one message
                messages = [{**messages[0], list_field: [block for one in messages for block in one[list_field]]}]
            self._draft.add(self._end, messages)
            return
        # Behind the result of the call before, or ahead of the first that there is.
        into = self._draft.replacement(standing[0], list_field).before
        for call in self._calls:
            if call.call_id in adjacent:
                into = self._draft.replacement(adjacent[call.call_id], list_field).after
            elif call.call_id in missing:
                into.append(self._native(call.call_id))

    def _adjacent(self) -> dict[str, Slot]:
        places = {slot.place for slot in self._slots.values()}
        end = self._end
        while end in places:
            end += 1
        return {call_id: slot for call_id, slot in self._slots.items() if self._end <= slot.place < end}

    def _put_media(self, *, has_inserted: bool) -> None:
        media = self._writer.media_message()
        if media is None:
            return
        at = max((slot.place for slot in self._slots.values()), default=self._end - 1) + 1
        last = at + len(media.front)
        # One message has the media of all calls: it is split by call, and put together again with the new ones.
        standing = media.content(self._plain[at : last + 1])
        of_calls, rest = media.split(standing or ())
        of_calls |= {call_id: written.media for call_id, written in self._written.items()}
        content = [part for call in self._calls for part in of_calls.get(call.call_id, ())] + rest
        after = at if standing is None else last + 1
        # Mistral refuses a user's message right behind results, so the model's filler between them is needed as long
        # as the user speaks next, with media or without.
        following = self._plain[after] if after < len(self._plain) else None
        between = media.front if media.has_role(following) else []
        if content and standing is None:
            self._draft.add(at, [*media.front, media.holding(content)])
        elif content:
            if not is_same(content, standing):
                self._draft.put(last, [media.holding(content, self._plain[last])])
        elif standing is not None:
            for place in range(at + len(between), last + 1):
                self._draft.put(place, [])
        elif has_inserted:
            self._draft.add(at, between)


# -- the shape of a result, as the wire writes it --

# A result is written as for a turn, by the wire's `render`, and stands where the old one stood: as a message of its
# own, or as a block in a message of several results. Nothing here knows a wire: the shape of its results shows in the
# messages that `render` makes of an answer with one call.


class ResultWriter:
    def __init__(self, exchange: Exchange, wire: Wire) -> None:
        self._exchange = exchange
        self._wire = wire
        some = exchange.calls[0]
        # Two results make one message exactly where a message may have several.
        both = self._messages(some, _seen(some), _seen(some))
        self.list_field = _list_field(both[0]) if len(both) == 1 else None
        """The field of a message's results, if it may have several; None if each result is a message."""

    def write(self, call: ToolCall, seen: Observation) -> Written:
        message, *behind = self._messages(call, result_of(call, seen, self._wire.name))
        return Written(message, _held(behind[-1]) if behind else [])

    def media_message(self) -> MediaMessage | None:
        """Returns the message of media behind all results; None if media have a place in each result, or none."""
        shapes = [(call.call_id, self._messages(call, _seen(call, _PICTURE))[1:]) for call in self._exchange.calls]
        if not shapes[0][1]:
            return None
        *front, message = shapes[0][1]
        # Reversed, so that of several calls with one id the first has the line.
        lines = {_line(_held(shape[-1])[0]): call_id for call_id, shape in reversed(shapes)}
        return MediaMessage(front=front, message=message, lines=lines, rules=self._wire.rules)

    def _messages(self, call: ToolCall, *results: CallResult) -> list[Message]:
        # Rendered for an answer with this call alone, under the id that stands in the history: so nothing depends on
        # the names by which `read` keeps calls of one id apart, and the cost of a result not on the other calls.
        own = id_as_read(call.call_id)
        alone = replace(call, call_id=own or call.call_id, call_id_synthesized=not own)
        answer = Answer(
            parts=(Part(kind="call", call_id=alone.call_id),),
            calls={alone.call_id: alone},
            arguments={alone.call_id: self._exchange.reply.answer.arguments[call.call_id]},
            results=tuple(replace(result, call_id=alone.call_id) for result in results),
        )
        return self._wire.render(answer)[len(self._wire.render(replace(answer, results=()))) :]


class Written(NamedTuple):
    message: Message
    media: list[Any]  # the parts of the result that stand behind all results


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaMessage:
    """The message behind all results of an answer, where a wire accepts media only there: Chat Completions and Mistral
    allow text alone in a message of a result. It has a line for each call with media, and the media below.
    """

    front: list[Message]  # the messages between the results and that message
    message: Message = field(repr=False)  # that message, as it would be for one call with a picture
    lines: Mapping[_Line | None, str]
    rules: HistoryRules = field(repr=False)

    def content(self, messages: Sequence[Any]) -> list[Any] | None:
        """Returns that message's content, if `messages` begin with it and the messages in front of it, else None."""
        count = len(self.front)
        if len(messages) <= count or list(messages[:count]) != self.front or not self.has_role(messages[count]):
            return None
        held = messages[count].get(_list_field(self.message))
        return held if isinstance(held, list) and held and _line(held[0]) in self.lines else None

    def has_role(self, message: Any) -> bool:
        return role_of(message, self.rules) == role_of(self.message, self.rules)

    def split(self, content: Sequence[Any]) -> tuple[dict[str, list[Any]], list[Any]]:
        # A text below a picture is the user's own, or a program's. Media belong to the line above them.
        of_calls: dict[str, list[Any]] = {}
        rest: list[Any] = []
        into, kind_of_lines = rest, _kind(_held(self.message)[0])
        for part in content:
            call_id = self.lines.get(_line(part))
            if call_id is not None:
                into = of_calls.setdefault(call_id, [])
            elif _kind(part) in (None, kind_of_lines):
                into = rest
            into.append(part)
        return of_calls, rest

    def holding(self, content: list[Any], message: Message | None = None) -> Message:
        return {**(message or self.message), _list_field(self.message): content}


def _seen(call: ToolCall, *blocks: Media) -> CallResult:
    return CallResult(call_id=call.call_id, content=".", name=call.name, blocks=blocks)


def _list_field(message: Message) -> str:
    return next(name for name, value in message.items() if isinstance(value, list))


def _held(message: Message) -> list[Any]:
    held = message[_list_field(message)]
    assert isinstance(held, list), "it is the field that is one"
    return held


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
    found: dict[Exchange, dict[str, Observation]] = {}
    nameless: list[Observation] = []
    for observation in observations:
        place = calls.by_id(observation)
        if place is not None:
            _add(found, place.exchange, place.call, observation)
        elif _MADE_UP.fullmatch(observation.call_id):
            nameless.append(observation)
        else:
            raise ValueError(f"no call {shown(observation.call_id)} is in the history: its result has no place there")
    if nameless:
        exchange, asked = calls.without_ids(nameless)
        for call, observation in zip(asked, nameless, strict=True):
            _add(found, exchange, call, observation)
    return {**found}


def _add(
    found: dict[Exchange, dict[str, Observation]], exchange: Exchange, call: ToolCall, observation: Observation
) -> None:
    observed = found.setdefault(exchange, {})
    if call.call_id in observed:
        raise ValueError(f"two observations of the call {shown(observation.call_id)}: a call has one result")
    observed[call.call_id] = observation


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
            f"no call {shown(first.call_id)} is in the history: its result has no place there"
            + (f"; nor has any answer there {more} more without ids: give those of one turn at a time" if more else "")
        )

    def _is_of(self, observation: Observation, call: ToolCall) -> bool:
        # A name that the provider refuses stands there as another one, so it proves nothing.
        return call.name == observation.tool_name or not self._wire.rules.names.accepts(observation.tool_name)


# -- the slots of results, and what is put there --


class Slot(NamedTuple):
    place: int  # the place of the result's message
    number: int  # the result's number within the message, from 0


@dataclass(slots=True)
class Replacement:
    before: list[Any] = field(default_factory=list)
    instead: Any = None  # the new result; None if the old one stays
    after: list[Any] = field(default_factory=list)

    def content(self, standing: Any, plain: Any) -> list[Any]:
        # An equal result stays the caller's own object, so that a history that needs nothing is returned itself.
        stays = self.instead is None or is_same(self.instead, plain)
        return [*self.before, standing if stays else self.instead, *self.after]


class Draft:
    def __init__(self, read: Messages) -> None:
        self._read = read
        self._replacements: dict[int, dict[int, Replacement]] = defaultdict(lambda: defaultdict(Replacement))
        self._list_fields: dict[int, str | None] = {}
        self._ahead: dict[int, list[Any]] = {}
        self._instead: dict[int, list[Any]] = {}
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

    def replacement(self, slot: Slot, list_field: str | None) -> Replacement:
        self._list_fields[slot.place] = list_field
        return self._replacements[slot.place][slot.number]

    def add(self, place: int, messages: list[Any]) -> None:
        """Puts messages ahead of those at a place, and behind those put there before."""
        self._ahead.setdefault(place, []).extend(messages)

    def put(self, place: int, messages: list[Any]) -> None:
        self._instead[place] = messages

    def messages(self) -> list[Any]:
        found: list[Any] = []
        for place in range(len(self._read.given) + 1):
            now = self._now(place)
            ahead = self._ahead.get(place)
            found += joined([*ahead, *now], self._read.wire) if ahead else now
        return found

    def _now(self, place: int) -> list[Any]:
        if place in self._instead or place == len(self._read.given):
            return self._instead.get(place, [])
        message, plain, replacements = self._read.given[place], self._read.plain[place], self._replacements.get(place)
        if replacements is None:
            return [message]
        list_field = self._list_fields[place]
        if list_field is None:
            return replacements[0].content(message, plain)
        held = plain[list_field]
        blocks: list[Any] = []
        for block, number in self._with_numbers(plain, list_field):
            replacement = None if number is None else replacements.get(number)
            blocks += [block] if replacement is None else replacement.content(block, block)
        return [message if are_same(blocks, held) else {**plain, list_field: blocks}]

    def _with_numbers(self, plain: dict[str, Any], list_field: str) -> Iterator[tuple[Any, int | None]]:
        # A block is a result if the wire reads it as one, so blocks of unknown kinds stay where they are.
        number = 0
        for block in plain[list_field]:
            entries = self._read.wire.entries([{**plain, list_field: [block]}])
            if any(isinstance(entry, Returned) and entry.results for entry in entries):
                yield block, number
                number += 1
            else:
                yield block, None


def is_same(one: Any, other: Any) -> bool:
    """Returns whether two plain values are the same, also by their types; the order of keys does not matter."""
    if type(one) is not type(other):  # 1, 1.0 and True are equal in Python
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return bool(one == other)
