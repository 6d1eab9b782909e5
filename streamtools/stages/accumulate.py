"""Assembles the fragments of tool calls into calls: finds the call that each piece of arguments belongs to.

All rules about which piece belongs to which call are here; docs/providers/own-provider.md has their table. Cost is
linear in bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from ..content import Caller
from ..errors import InvalidArguments, LimitExceeded, ToolError
from ..events import (
    Event,
    StreamEnd,
    StreamStart,
    StreamWarning,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallFragment,
    ToolCallStart,
)
from ..ground.text import SurrogateJoiner
from ..limits import Limits
from ..parts import CallKind, new_call
from ..schema.names import qualified
from .arguments import arguments_of
from .preview import Moments

_NOTHING: frozenset[Any] = frozenset()
_MAX_RIVALS = _MAX_TOLD = 4  # calls under one id that a growing one is compared with; times that one is reported closed
_MAX_STATE_KEYS = 64  # keys of `provider_state` kept per call; providers send up to four


class OnClose(NamedTuple):
    """Callbacks about calls whose arguments may be complete before the wire says so."""

    wants: Callable[[str], bool]  # by the tool's name
    closed: Callable[[str, str], None]  # takes the call's id and text


class Accumulate:
    """Assembles calls from fragments. `id_salt` makes generated call ids differ from those of other responses, if the
    response has no id. `feed` raises `LimitExceeded` for too many calls or arguments: the stream has to end.
    """

    handles = frozenset({ToolCallFragment, StreamStart, StreamEnd})

    def __init__(self, names: Collection[str], limits: Limits, id_salt: str = "") -> None:
        self._names = names
        self._limits = limits
        self._slots: list[GrowingCall] = []
        self._by_id: dict[str, GrowingCall] = {}
        self._shared: dict[str, list[GrowingCall]] = {}  # the latest calls under each id, where there are several
        self._whole: set[tuple[str, str, str]] = set()  # id, name and text of the calls that ended complete
        self._by_index: dict[int | str, GrowingCall] = {}
        self._used_ids: set[str] = set()
        self._opened = 0  # calls, including repeated ones
        self._early: dict[int | str, list[str]] = {}  # arguments that came before any call began at their index
        self._bare: dict[int | str | None, list[GrowingCall]] = {}  # by index: calls that ended without arguments
        self._lost: frozenset[int | str] = _NOTHING  # indexes at which arguments came after the end of a call
        self._lost_anywhere = False  # arguments came whose index is not known
        self._has_text_calls = False
        self._argument_size = 0
        self._seed = self._id_salt = id_salt
        self._warned: frozenset[str] = _NOTHING
        self._out: list[Event] = []
        self._watch: OnClose | None = None

    def feed(self, event: Event) -> Iterable[Event]:
        self._out = []
        if isinstance(event, ToolCallFragment):
            text = event.arguments
            slot = self._grown_by(event) if text and type(text) is str else None
            if slot is None:
                self._fragment(event)
            else:  # nearly always
                self._grow(slot, text)
        elif isinstance(event, StreamEnd):
            self._stream_end(event)
        elif isinstance(event, StreamStart):
            self._seed = f"{event.wire}\0{event.response_id or self._id_salt}\0{event.model}"
            self._out.append(event)
        return self._out

    def finish(self) -> Iterable[Event]:
        """No event is held past the `StreamEnd`."""
        return ()

    def grower(self, fragment: ToolCallFragment) -> Callable[[Any], ToolCallDelta | None] | None:
        """Returns a function that takes more arguments for this fragment's call, as `feed` would take similar
        fragments, and returns their event. It returns None for anything but a text within the limits. Returns None if
        the call does not just grow. Use the function until the next `feed`."""
        slot = self._grown_by(fragment)
        if slot is None or not slot.text_came:
            return None
        json, shown = slot.json, None if slot.kind == "custom" else slot.json
        most, most_of_all = self._limits.max_argument_bytes, self._limits.max_total_argument_bytes

        is_watched = self._watch is not None and self._watch.wants(slot.shown_name)

        def grow(text: Any) -> ToolCallDelta | None:
            if type(text) is not str or not text:
                return None
            length = len(text)
            size = self._argument_size + length
            if size > most_of_all or json.length + length > most:
                return None
            self._argument_size = size
            json.feed(text)
            slot.json_end = end = slot.json_end + length
            if is_watched and "}" in text:
                self._look_for_close(slot, text)
            return ToolCallDelta(slot.call_id, text, shown, end)

        return grow

    def begin_watch(self, watch: OnClose) -> None:
        self._watch = watch
        for slot in self._slots:
            if slot.state == "open" and slot.pieces:
                self._look_for_close(slot, slot.pieces[-1])

    def _look_for_close(self, slot: GrowingCall, text: str) -> None:
        """Tells the watcher that the object of a call's arguments may have closed: as many braces have closed as
        opened. Some may be in strings, so it is told only a few times per call. The call may still continue."""
        watch = self._watch
        if watch is None or text.rstrip()[-1:] != "}" or not slot.announced or slot.kind != "function":
            return
        added = "".join(slot.pieces[slot.counted :])
        slot.counted, slot.braces = len(slot.pieces), slot.braces + added.count("{") - added.count("}")
        is_clear = not (slot.doubt or slot.problem or slot.rivals or slot.in_text) and slot.repeat is None
        if is_clear and slot.braces <= 0 and slot.told < _MAX_TOLD and watch.wants(slot.shown_name):
            slot.told += 1
            watch.closed(slot.call_id, "".join(slot.pieces))

    def _grown_by(self, fragment: ToolCallFragment) -> GrowingCall | None:
        """Returns the call of a fragment that brings only arguments, if that call just grows."""
        index, id_ = fragment.index, fragment.id
        if _MORE(fragment) != _NO_MORE:
            return None
        if index is None:
            slot = self._slots[-1] if self._slots and not id_ else None
        else:
            slot = self._by_index.get(index) if type(index) is int or type(index) is str else None
        if slot is None or slot.state != "open" or slot.problem or not slot.announced or slot.repeat is not None:
            return None
        if slot.doubt & (CLOSED | CONTESTED) or (id_ and (type(id_) is not str or self._by_id.get(id_) is not slot)):
            return None
        return slot

    def _fragment(self, fragment: ToolCallFragment) -> None:
        if not _is_clean(fragment):
            fragment = _cleaned(fragment)
        if fragment.disorder == "declined":
            self._decline()
            return
        if fragment.disorder in ("early", "late"):
            self._keep_stray(fragment)
            return
        slot = self._slot_for(fragment)
        if fragment.disorder is not None:
            slot.happens("disorder")
        if slot.state != "open" or (slot.doubt & CLOSED and not fragment.whole):
            return
        if fragment.provider_state:
            self._keep(slot, fragment.provider_state)
        if fragment.namespace and not slot.announced:
            slot.namespace = fragment.namespace
        if fragment.caller is not None:
            slot.caller = fragment.caller
        if fragment.problem:
            slot.problem = slot.problem or fragment.problem
        if fragment.whole:
            self._replace(slot, fragment.whole)
        elif fragment.arguments:
            if slot.doubt & CONTESTED and not fragment.id and not fragment.start:
                slot.happens("stray")
            if slot.repeat is not None:
                self._count(slot, fragment.arguments)
                slot.repeat.append(fragment.arguments)
            else:
                self._grow(slot, fragment.arguments)
        elif not slot.announced and slot.name and (fragment.start or self._registered(slot) is not None):
            self._announce(slot)  # a wire that marks the beginning of a call gives the whole name there
        if fragment.end:
            self._end_marked(slot, fragment)

    def _decline(self) -> None:
        """Makes the calls so far void; no later piece or id is matched to one of them."""
        for slot in self._slots:
            if slot.announced and slot.kind != "server":
                self._void(slot)
            elif slot.state == "open":
                slot.state = "over"
        for known in (self._by_id, self._shared, self._whole, self._by_index, self._early, self._bare):
            known.clear()
        self._lost, self._lost_anywhere = _NOTHING, False

    def _void(self, slot: GrowingCall) -> None:
        slot.problem, slot.state = "void", "over"
        self._tell_end(slot, "".join(slot.pieces), cut=True)

    def _twin(self, slot: GrowingCall) -> GrowingCall | None:
        """Returns the call that a whole one duplicates: a server may send one call natively and also in the text."""
        for other in self._slots:
            may_be = other.state == "whole" and other.in_text != slot.in_text and other.shown_name == slot.shown_name
            if may_be and self._value(other) == self._value(slot):
                self._warn("call_in_text")
                slot.state = other.state = "over"  # each is a copy of at most one
                return other
        return None

    def _value(self, slot: GrowingCall) -> Any:
        slot.read = slot.read or arguments_of("".join(slot.pieces), self._limits)
        return slot.read[0] if isinstance(slot.read, tuple) else slot.pieces

    def _keep(self, slot: GrowingCall, state: Mapping[str, object]) -> None:
        kept = slot.provider_state = slot.provider_state or {}
        for key, value in state.items():
            if key in kept or len(kept) < _MAX_STATE_KEYS:
                kept[key] = value
            else:
                self._warn("state_dropped")

    # -- pieces of no open call --

    def _keep_stray(self, fragment: ToolCallFragment) -> None:
        label, text = fragment.index, fragment.arguments
        if label is None or not self._may_remember(label, self._early.keys() | self._lost):
            self._lost_anywhere = True  # it may belong to any call that has not ended
            return
        there = self._by_index.get(label)
        for slot in (
            *self._bare.pop(label, ()),
            *(() if there is None or there.state != "open" or there.doubt & SETTLED else (there,)),
        ):
            # It has ended without any arguments, so these may be its own. At the end of the response it would run with
            # `{}`, which the model did not write.
            slot.happens("stray")
        if fragment.disorder == "late" or fragment.problem or label in self._lost:
            self._early.pop(label, None)
            self._lost |= {label}
            return
        self._argument_size += len(text)
        self._check_total()
        self._early.setdefault(label, []).append(text)

    def _join_early(self, slot: GrowingCall, fragment: ToolCallFragment) -> None:
        """Gives a call that begins the pieces that came before it, if they cannot belong to another call: nothing had
        begun at their index before, the call does not bring arguments itself, and no other call begins there, so its
        end waits for the response's. In all other cases the call is cut.
        """
        label = fragment.index
        early = self._early.pop(label, None) if label is not None else None
        if label in self._lost or self._lost_anywhere:
            slot.happens("loss")
        if early is None:
            return
        if fragment.arguments or fragment.whole or slot.doubt & LOST:
            slot.happens("stray")
            return
        slot.happens("join")
        for text in early:
            self._argument_size -= len(text)
            self._grow(slot, text)

    # -- finding a fragment's call --

    def _slot_for(self, fragment: ToolCallFragment) -> GrowingCall:
        id_ = fragment.id
        if fragment.start:
            slot = self._begin(fragment)
        else:
            slot = self._by_id_or_new(fragment, id_) if id_ else self._by_index_or_new(fragment)
        index = fragment.index
        if index is not None and self._by_index.get(index) is not slot and self._may_remember(index, self._by_index):
            self._by_index[index] = slot
        if fragment.start:
            self._join_early(slot, fragment)
        return slot

    def _may_remember(self, label: int | str, labels: Collection[int | str]) -> bool:
        """Returns whether there is room for this label: each fragment could bring a new one."""
        if label in labels:
            return True
        is_short = isinstance(label, int) or len(label) <= self._limits.max_id_bytes
        return is_short and len(labels) < self._limits.max_open_blocks

    def _begin(self, fragment: ToolCallFragment) -> GrowingCall:
        there = self._by_index.get(fragment.index) if fragment.index is not None else None
        slot = self._open(fragment, fragment.id)
        if there is not None:
            self._contest(there, slot, is_marked=True)
        return slot

    def _contest(self, there: GrowingCall, slot: GrowingCall, *, is_marked: bool) -> None:
        is_open, doubt = there.state == "open", there.doubt
        if doubt & JOINED and is_open:
            there.happens("loss")
            slot.happens("loss")  # the pieces from before both of them may belong to either
        elif doubt & UNMARKED or (is_open and not doubt & CLOSED):
            # The earlier call has no end. If its text is a whole object, what follows is the later one's; else it may
            # be the earlier one's as well, unless it names a call by its id.
            if doubt & CONTESTED or there.json.state() != "complete":
                slot.happens("contest")
                there.happens("contest" if is_open else "end of contest")
            if is_marked and is_open and there.is_bare:
                there.happens("loss")

    def _by_id_or_new(self, fragment: ToolCallFragment, id_: str) -> GrowingCall:
        name, index = fragment.name, fragment.index
        there = self._by_index.get(index) if index is not None else None
        slot = self._by_id.get(id_)
        if slot is not None:
            if there is not None and there.wire_id == id_:
                slot = there  # the fragment continues the second of two calls that share an id
            elif name and index is not None and slot.index is not None and index != slot.index:
                return self._open(fragment, id_)
            if name:
                self._continue_name(slot, name)
            return slot
        if there is None or there.state != "open":
            return self._open(fragment, id_)
        if name and there.name:
            self._warn("index_reused")
            return self._open_beside(there, fragment, id_)
        if name:
            self._name_late(there, name, fragment)
        if there.wire_id:
            self._warn("id_changed")
        else:
            self._adopt_id(there, id_)
        return there

    def _by_index_or_new(self, fragment: ToolCallFragment) -> GrowingCall:
        if fragment.index is not None:
            slot = self._by_index.get(fragment.index)
        else:
            slot = self._slots[-1] if self._slots else None
        name = fragment.name
        if slot is None or (slot.state != "open" and name):
            return self._open(fragment, None)
        if not name:
            return slot
        if not slot.name:
            self._name_late(slot, name, fragment)
            return slot
        if slot.text_came and fragment.arguments.lstrip()[:1] == "{" and slot.json.state() == "complete":
            self._warn("index_reused")
            return self._open_beside(slot, fragment, None)
        if not self._continue_name(slot, name):
            self._warn("index_reused")
            return self._open_beside(slot, fragment, None)
        return slot

    def _name_late(self, slot: GrowingCall, name: str, fragment: ToolCallFragment) -> None:
        """Names a call whose arguments may have begun before: a wire without beginnings shows one by a name or id."""
        slot.name = name
        if slot.text_came and not slot.wire_id:
            slot.happens("join")
            if fragment.arguments:
                slot.happens("loss")

    def _open_beside(self, there: GrowingCall, fragment: ToolCallFragment, id_: str | None) -> GrowingCall:
        slot = self._open(fragment, id_)
        self._contest(there, slot, is_marked=False)
        return slot

    def _continue_name(self, slot: GrowingCall, name: str) -> bool:
        """Takes a name for a call that has one: a repeat, or the next piece. Returns False if it is neither."""
        if name == slot.name:
            self._warn("name_repeated")
            if slot.repeat is None and slot.text_came and slot.json.state() == "complete":
                slot.repeat = []  # all of it may come again, as from a gateway that sends a summary at the end
        elif not slot.name:
            slot.name = name
        elif slot.announced or slot.text_came or slot.name in self._names:
            return False
        elif len(slot.name) > self._limits.max_name_bytes:
            return True  # already too long, so the call is refused; keep no more
        else:
            self._warn("name_split")
            slot.name += name
        return True

    def _open(self, fragment: ToolCallFragment, id_: str | None) -> GrowingCall:
        self._opened += 1
        if self._opened > self._limits.max_tool_calls:
            raise LimitExceeded("max_tool_calls", limit=self._limits.max_tool_calls, where="the turn")
        most, index = self._limits.max_open_blocks, fragment.index
        if len(self._by_index) >= most and index is not None and index not in self._by_index:  # it would fall apart
            raise LimitExceeded("max_open_blocks", limit=most, where="the calls of the turn")
        slot = GrowingCall(len(self._slots), fragment, self._limits)
        self._has_text_calls = self._has_text_calls or slot.in_text
        first = self._by_id.get(id_) if id_ else None
        if id_ is not None and first is not None:
            others = self._shared.setdefault(id_, [first])
            slot.rivals = ["".join(other.pieces) for other in others if other.may_come_again(slot)]
            others[:] = [*others[1 - _MAX_RIVALS :], slot]
        if not slot.rivals:
            self._slots.append(slot)
            if first is not None:
                self._warn("duplicate_id")
        if id_ is not None:
            self._adopt_id(slot, id_)
        return slot

    def _promote(self, slot: GrowingCall) -> None:
        self._warn("duplicate_id")
        for other in self._shared[slot.wire_id]:
            if other.doubt & CLOSED and other.is_bare:
                other.happens("loss")
                slot.happens("loss")  # the other has ended without the arguments that come now, under its id
        slot.rivals, slot.number = [], len(self._slots)
        self._slots.append(slot)

    def _adopt_id(self, slot: GrowingCall, id_: str) -> None:
        slot.wire_id = id_
        self._by_id.setdefault(id_, slot)
        if len(id_) > self._limits.max_id_bytes or slot.announced:
            self._warn("id_replaced")
        elif id_ not in self._used_ids:
            self._used_ids.add(id_)
            slot.call_id = id_

    def _synthesized_id(self, slot: GrowingCall) -> str:
        """Generates an id for a call that has none: the same for the same stream, different in the next one."""
        attempt = slot.number
        while True:
            digest = hashlib.blake2b(f"{self._seed}\0{attempt}".encode("utf-8", "replace"), digest_size=12)
            call_id = f"call_{digest.hexdigest()}"
            if call_id not in self._used_ids:  # a server that knows the digest could send it as an id
                self._used_ids.add(call_id)
                return call_id
            attempt += self._limits.max_tool_calls

    # -- growing a call --

    def _check_total(self) -> None:
        limit = self._limits.max_total_argument_bytes
        if self._argument_size > limit:
            raise LimitExceeded("max_total_argument_bytes", limit=limit, where="the turn")

    def _count(self, slot: GrowingCall, text: str) -> None:
        self._argument_size += len(text)
        self._check_total()
        if slot.json.length + len(text) > self._limits.max_argument_bytes:
            slot.problem = "argument_too_large"

    def _grow(self, slot: GrowingCall, text: str) -> None:
        self._count(slot, text)
        if not slot.problem and (text := slot.joiner.feed(text)):
            self._append(slot, text)

    def _replace(self, slot: GrowingCall, whole: str) -> None:
        """Takes the whole text, which the wire repeats at its end, and emits the part not emitted yet. Where it
        contradicts the deltas, they were wrong (a gateway's are ciphertext, lidge-jun/opencodex#995), and the text
        begins again."""
        joiner = SurrogateJoiner()
        text = joiner.feed(whole) + joiner.finish()
        # emitted text that is longer contradicts it anyway
        so_far = "".join(slot.pieces) if slot.json.length <= len(text) else None
        slot.joiner = joiner
        slot.happens("whole text")
        if text == so_far:
            return
        if slot.text_came:
            self._warn("done_overrides_delta")
        if so_far is None or not text.startswith(so_far):
            slot.begin_again(self._limits)
            so_far = ""
        self._grow(slot, text[len(so_far) :])

    def _append(self, slot: GrowingCall, text: str) -> None:
        slot.json.feed(text)
        slot.text_came = True
        if slot.rivals:
            at = slot.json.length - len(text)
            slot.rivals = [rival for rival in slot.rivals if rival.startswith(text, at)]
            if not slot.rivals:
                self._promote(slot)
        if slot.announced:
            self._out.append(slot.delta(text))
        elif slot.name:
            self._announce(slot)  # emits the pieces held so far, too
        if self._watch is not None and "}" in text:
            self._look_for_close(slot, text)

    def _announce(self, slot: GrowingCall) -> None:
        if slot.rivals:
            return  # shown when it turns out to be another call
        if slot.namespace == slot.name:
            slot.namespace = ""  # one that was found by searching is in a namespace of its own name: dust-tt/dust#31323
        name = qualified(slot.namespace, slot.name) if slot.namespace else slot.name
        registered = self._registered(slot)
        if registered is not None and registered != name:
            self._warn("name_normalized")
            name = registered
        if len(name) > self._limits.max_name_bytes:
            slot.problem = slot.problem or "name_too_long"
            name = name[: self._limits.max_name_bytes]
        slot.shown_name, slot.announced = name, True
        synthesized = not slot.call_id
        if synthesized:
            slot.call_id = self._synthesized_id(slot)
        self._out.append(ToolCallStart(slot.call_id, name, slot.kind, slot.number, synthesized))
        slot.synthesized = synthesized
        for text in slot.pieces:
            self._out.append(slot.delta(text))

    # -- ending a call --

    def _end_marked(self, slot: GrowingCall, end: ToolCallFragment) -> None:
        """Ends a call where the wire says so; what only the response can decide waits for its end."""
        if (slot.doubt & JOINED and end.arguments) or (self._lost_anywhere and not end.whole):
            slot.happens("loss")  # it has brought arguments itself, or others may be its own
        # Without its marker, JSON shows whether it is complete; free text, or no text, cannot show that.
        is_unmarked = end.disorder == "unmarked"
        is_open = is_unmarked and (slot.is_bare or slot.kind == "custom")
        if is_unmarked or slot.doubt & UNMARKED:
            slot.happens("end without a marker" if is_unmarked else "marker")
        if end.cut or is_open or slot.doubt & LOST:
            self._end(slot, cut=True)
        elif slot.is_bare or slot.doubt & JOINED:
            # Anthropic closes its block even where `max_tokens` cut the response before the arguments: then it looks
            # like this, and only the finish reason shows the difference.
            slot.happens("open end")
            if slot.is_bare:
                self._bare.setdefault(slot.index, []).append(slot)
        else:
            self._end(slot, cut=False)

    def _stream_end(self, end: StreamEnd) -> None:
        ended_well = end.ended_well
        if self._slots:
            self._drop_stray()
        self._lose_bare([slot for slot in self._slots if slot.state == "open" and slot.is_bare])
        again = [slot for slot in self._by_index.values() if slot.rivals] if self._shared else ()
        slots = (*self._slots, *again)
        for slot in sorted(slots, key=lambda slot: slot.in_text) if self._has_text_calls else slots:
            if slot.state != "open":
                continue
            if slot.repeat:
                self._end_repeat(slot)
            is_open = not slot.text_came or slot.kind == "custom" or slot.doubt & JOINED
            self._end(slot, cut=bool(slot.doubt & LOST or (is_open and not ended_well)))
        self._out.append(end)

    def _drop_stray(self) -> None:
        named = [slot for slot in self._slots if slot.name or slot.wire_id or slot.state != "open"]
        if named and len(named) < len(self._slots):
            has_more = any(slot.text_came or slot.problem for slot in {*self._slots}.difference(named))
            self._slots = named
            self._warn("arguments_lost" if has_more else "call_without_name")
            for slot in named if has_more else ():
                if slot.json.state() != "complete":
                    slot.happens("loss")

    def _lose_bare(self, bare: list[GrowingCall]) -> None:
        """Cuts the calls without arguments whose arguments may have gone to another call."""
        if not bare:
            return
        # Arguments without a label, in a call without a name, may belong to any call that has none. Arguments in a
        # broken call may belong to any call with its index.
        anywhere = self._lost_anywhere or any(s.text_came and not s.name and s.index is None for s in self._slots)
        broken = {slot.index for slot in self._slots if slot.text_came and slot.json.state() != "complete"}
        for slot in bare:
            if anywhere or slot.index in broken:
                slot.happens("loss")

    def _end_repeat(self, slot: GrowingCall) -> None:
        """Compares what came after complete arguments with them: a call sent again under its id is one call."""
        text, slot.repeat = "".join(slot.repeat or ()), None
        if text == "".join(slot.pieces):
            self._warn("call_resent")
        elif text := slot.joiner.feed(text):
            self._append(slot, text)

    def _end(self, slot: GrowingCall, *, cut: bool) -> None:
        if rest := slot.joiner.finish():
            self._append(slot, rest)
        if slot.joiner.lone:
            self._warn("lone_surrogate")
        slot.state = "over"
        if slot.rivals:
            if not cut and not slot.problem and slot.json.length in map(len, slot.rivals):
                self._warn("call_resent")
                return
            self._promote(slot)
        if slot.doubt & LOST and cut:
            self._warn("arguments_lost")
        if not slot.announced:
            self._announce(slot)
        if not slot.name:
            slot.problem = "missing_name"
        text = "".join(slot.pieces)
        if slot.wire_id and slot.kind != "server" and not slot.problem and not cut:
            whole = slot.wire_id, slot.shown_name, text
            if whole in self._whole:  # shown before it could be compared; it must not run a second time
                slot.problem = "repeated_call"
            self._whole.add(whole)
        twin = None
        if not slot.problem and not cut:
            slot.state = "whole"
            twin = self._twin(slot) if self._has_text_calls else None
        if twin is not None and slot.in_text:
            slot.problem = "void"
        self._tell_end(slot, text, cut=cut)
        if twin is not None and not slot.in_text:
            self._void(twin)

    def _tell_end(self, slot: GrowingCall, text: str, *, cut: bool) -> None:
        error = problem_error(slot.problem, self._limits) if slot.problem else None
        call = new_call(
            call_id=slot.call_id,
            name=slot.shown_name,
            call_id_synthesized=slot.synthesized,
            kind=slot.kind,
            index=slot.number,
            arguments_text=text,
            status="invalid" if slot.problem else "truncated" if cut else "ready",
            problem=slot.problem or ("incomplete_json" if cut else None),
            provider_state=slot.provider_state,
            namespace=slot.namespace or None,
            awaits=slot.awaits,
            caller=slot.caller,
        )
        self._out.append(ToolCallEnd(call, error, bool(slot.doubt & DISORDER)))

    def _registered(self, slot: GrowingCall) -> str | None:
        name = qualified(slot.namespace, slot.name) if slot.namespace else slot.name
        if name in self._names:
            return name
        if slot.namespace:
            return None  # nothing is guessed across namespaces
        for candidate in (name.removeprefix("functions."), name.partition("<|")[0]):
            if candidate in self._names:
                return candidate
        return None

    def _warn(self, code: str) -> None:
        if code not in self._warned:
            self._warned |= {code}
            self._out.append(StreamWarning(code))


_MORE = attrgetter(
    "start", "end", "cut", "name", "problem", "whole", "provider_state", "namespace", "caller", "disorder"
)
_NO_MORE = (False, False, False, *[None] * 7)  # what it returns for a fragment that brings only arguments


def _is_clean(fragment: ToolCallFragment) -> bool:
    id_, name, whole, index = fragment.id, fragment.name, fragment.whole, fragment.index
    return (
        type(fragment.arguments) is str
        and (id_ is None or type(id_) is str)
        and (name is None or type(name) is str)
        and (whole is None or type(whole) is str)
        and (index is None or type(index) is int or type(index) is str)
    )


def _cleaned(fragment: ToolCallFragment) -> ToolCallFragment:
    """Returns a fragment without the values that are not texts: a user's own wire may pass on what the peer sent."""
    id_, name, whole = (
        value if isinstance(value, str) else None for value in (fragment.id, fragment.name, fragment.whole)
    )
    is_text, index = isinstance(fragment.arguments, str), fragment.index
    return replace(
        fragment,
        index=index if index is None or isinstance(index, (int, str)) else str(index),
        id=id_,
        name=name,
        whole=whole,
        arguments=fragment.arguments if is_text else "",
        problem=fragment.problem or (None if is_text else "no_text"),
    )


# -- one call while its pieces come --


DISORDER, CONTESTED, JOINED, LOST, SETTLED, UNMARKED, CLOSED = (1 << number for number in range(7))

DOUBTS: Mapping[str, tuple[int, int]] = {  # what happens to a call: the doubts it adds, and those it removes
    "disorder": (DISORDER, 0),  # the wire says that something is out of order; the call is not repaired
    "contest": (CONTESTED, 0),  # a piece without an id may be this call's, or another's
    "end of contest": (0, CONTESTED),
    "join": (DISORDER | JOINED, 0),  # pieces from before its beginning are its own, unless another call begins there
    "stray": (DISORDER | LOST, 0),  # a piece that may be its own
    "loss": (LOST, 0),  # pieces of it may be missing
    "whole text": (SETTLED, LOST | JOINED),  # in whatever order it came, this is all of it
    "end without a marker": (UNMARKED, 0),  # since another began in its place
    "marker": (0, UNMARKED),
    "open end": (CLOSED, 0),  # the end of the response shows whether it may run
}


class GrowingCall:
    __slots__ = (
        "announced", "awaits", "braces", "call_id", "caller", "counted", "doubt", "in_text", "index", "joiner",
        "json", "json_end", "kind", "name", "namespace", "number", "pieces", "problem", "provider_state", "read",
        "repeat", "rivals", "shown_name", "state", "synthesized", "text_came", "told", "wire_id",
    )  # fmt: skip

    def __init__(self, number: int, fragment: ToolCallFragment, limits: Limits) -> None:
        self.number = number
        self.index = fragment.index
        self.kind: CallKind = fragment.kind
        self.in_text = fragment.in_text
        self.read: Any = None  # its arguments, once they are compared
        self.name = fragment.name or ""
        self.namespace = ""
        self.awaits = fragment.awaits
        self.caller: Caller = "direct"
        self.wire_id = ""  # as the wire gives it, even where it cannot serve as the identity
        self.call_id = ""  # the identity; "" until it is known
        self.shown_name = ""
        self.synthesized = False
        self.announced = False
        self.state: Literal["open", "whole", "over"] = "open"  # whole: not cut, and without a problem
        self.doubt = 0
        self.rivals: list[str] = []  # texts of whole calls under its id, one of which it repeats so far
        self.repeat: list[str] | None = None  # what came after complete arguments: perhaps all of them again
        self.problem: str | None = None
        self.provider_state: dict[str, object] | None = None
        self.text_came = False
        self.joiner = SurrogateJoiner()
        self.begin_again(limits)

    @property
    def is_bare(self) -> bool:
        return not self.text_came and self.problem is None and self.kind == "function" and bool(self.name)

    def happens(self, what: str) -> None:
        added, removed = DOUBTS[what]
        self.doubt = (self.doubt & ~removed) | added

    def may_come_again(self, other: GrowingCall) -> bool:
        """Returns whether a call that begins under this id may be this one, sent again: whole, with one name."""
        is_whole = self.state == "whole" or (
            self.state == "open" and bool(self.doubt & CLOSED or self.json.state() == "complete")
        )
        return is_whole and self.name == other.name and self.kind != "server"

    def begin_again(self, limits: Limits) -> None:
        self.json = Moments(max_depth=limits.max_json_depth)
        self.pieces = self.json.pieces
        self.json_end = 0  # characters emitted in deltas so far
        self.counted = self.braces = self.told = 0  # pieces; braces that are open in them; times that none was

    def delta(self, text: str) -> ToolCallDelta:
        self.json_end += len(text)
        return ToolCallDelta(self.call_id, text, None if self.kind == "custom" else self.json, self.json_end)


def problem_error(problem: str | None, limits: Limits) -> ToolError | None:
    if problem is None:
        return None
    texts = {
        "missing_name": "the call came without a tool name",
        "void": "the provider replaced this call with another call or another model's answer",
        "repeated_call": "the same call came before under the same id; it runs only once",
        "name_too_long": f"the tool name exceeds max_name_bytes={limits.max_name_bytes}",
        "too_deep": f"the arguments are nested deeper than max_json_depth={limits.max_json_depth}",
        "argument_too_large": f"the arguments exceed max_argument_bytes={limits.max_argument_bytes}",
        "no_text": "a piece of the arguments is not a text",
        "bad_path": "a piece of the arguments has no usable path or value",
    }
    return InvalidArguments(texts.get(problem, f"the call is incomplete: {problem}"))
