"""Assembles the fragments of tool calls into calls: finds the call that each piece of arguments belongs to.

Theory of operation. Each call has a slot, a `GrowingCall`: its name, its ids, and the text of its arguments so far. A
fragment finds its slot by the id, else by the wire's index, else it belongs to the latest call; a new id, or a name on
an index whose call already has one, opens a new call. An index is a label, never an identity: servers send parallel
calls that all carry index 0 (ollama/ollama#15457), no index, or one id twice (HKUDS/nanobot#3943). The rules satisfy 99
observed deviations of the chat wire at once; they also serve wires that number their blocks properly.

A call is announced (`ToolCallStart`) when its name is certain: a registered name at once, any other with its first
argument, since names come in pieces, too (NVIDIA-NeMo/Switchyard#785). Fragments that came before are held. A slot
without a name is held until the end and then reported as a call that cannot run. No name is ever guessed: it may lose
one ``functions.`` prefix or a trailing ``<|`` token if, and only if, the rest is a registered name.

A call ends when the wire says so, or with the response. A call that ends without any arguments is kept open until the
response ends, since Anthropic closes its block even where ``max_tokens`` cut the response at that point. A call's text
is joined once. Cost is linear in bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

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
from ..limits import Limits
from ..parts import CallKind, ToolCall
from ..schema.names import qualified
from ..text import SurrogateJoiner
from .preview import Moments

__all__ = ["Accumulate", "GrowingCall", "problem_error"]


_NOTHING: frozenset[str] = frozenset()
_MAX_STATE_KEYS = 64  # keys of `provider_state` kept per call; providers send up to four


class Accumulate:
    """Turns `ToolCallFragment` into `ToolCallStart`, `ToolCallDelta` and `ToolCallEnd`.

    Args:
        names: the registered tools' names.
        limits: bounds on calls and their arguments.
        id_salt: makes generated call ids differ from those of other responses, where the response itself has no id.

    Raises:
        LimitExceeded: from `feed`: too many calls, or too many arguments in all. The stream has to end.
    """

    handles = frozenset({ToolCallFragment, StreamStart, StreamEnd})

    def __init__(self, names: Collection[str], limits: Limits, id_salt: str = "") -> None:
        self._names = names
        self._limits = limits
        self._slots: list[GrowingCall] = []
        self._by_id: dict[str, GrowingCall] = {}
        self._by_index: dict[int | str, GrowingCall] = {}
        self._used_ids: set[str] = set()
        self._whole: set[tuple[str, str, str]] = set()  # id, name and text of the calls that ended complete
        self._argument_size = 0
        self._seed = self._id_salt = id_salt
        self._warned: frozenset[str] = _NOTHING
        self._out: list[Event] = []

    def feed(self, event: Event) -> Iterable[Event]:
        """Takes one event."""
        self._out = []
        if isinstance(event, ToolCallFragment):
            self._fragment(event)
        elif isinstance(event, StreamEnd):
            self._stream_end(event)
        elif isinstance(event, StreamStart):
            self._seed = f"{event.wire}\0{event.response_id or self._id_salt}\0{event.model}"
            self._out.append(event)
        return self._out

    def finish(self) -> Iterable[Event]:
        """Returns nothing: no event is held past the `StreamEnd`."""
        return ()

    def grower(self, fragment: ToolCallFragment) -> Callable[[Any], ToolCallDelta | None] | None:
        """Returns a function that takes more arguments for the call of a fragment, as `feed` would take fragments like
        it, and returns their event; None if the call does not just grow. The function makes no event of anything but a
        text within the limits. It serves until the next `feed`."""
        if (
            *(fragment.start, fragment.end, fragment.cut, fragment.name, fragment.problem, fragment.whole),
            *(fragment.provider_state, fragment.namespace, fragment.caller),
        ) != (False, False, False, None, None, None, None, None, None):
            return None  # it says more
        if fragment.index is not None:
            slot = self._by_index.get(fragment.index)
        else:
            slot = self._slots[-1] if self._slots and not fragment.id else None
        if slot is None or slot.ended or slot.closed or slot.problem or not slot.announced or not slot.text_came:
            return None
        if fragment.id and self._by_id.get(fragment.id) is not slot:
            return None
        json, pieces, shown = slot.json, slot.pieces, None if slot.kind == "custom" else slot.json
        most, most_of_all = self._limits.max_argument_bytes, self._limits.max_total_argument_bytes

        def grow(text: Any) -> ToolCallDelta | None:
            if type(text) is not str or not text:
                return None
            length = len(text)
            size = self._argument_size + length
            if size > most_of_all or json.length + length > most:
                return None
            self._argument_size = size
            json.feed(text)
            pieces.append(text)
            slot.json_end = end = slot.json_end + length
            return ToolCallDelta(slot.call_id, text, shown, end)

        return grow

    def _stream_end(self, end: StreamEnd) -> None:
        ended_well = end.ended_well
        # Arguments without a label, of a call without a name, may be those of any call that has none.
        has_strays = any(slot.text_came and not slot.name and slot.index is None for slot in self._slots)
        for slot in self._slots:
            if not slot.ended:
                is_robbed = has_strays and slot.is_bare
                if is_robbed:
                    self._warn("arguments_lost")
                # JSON shows whether it is complete; for free text, or for no text, only the wire can say so.
                self._end(slot, cut=is_robbed or (not ended_well and (not slot.text_came or slot.kind == "custom")))
        self._out.append(end)

    def _fragment(self, fragment: ToolCallFragment) -> None:
        slot = self._slot_for(fragment)
        if slot.ended or slot.closed:
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
            self._grow(slot, fragment.arguments)
        elif not slot.announced and slot.name and (fragment.start or self._registered(slot) is not None):
            self._announce(slot)  # a wire that marks the beginning of a call gives the whole name there
        if fragment.end and slot.is_bare and not fragment.cut:
            slot.closed = True  # a response that was cut at this point looks the same: its finish reason will show
        elif fragment.end:
            self._end(slot, cut=fragment.cut)

    def _keep(self, slot: GrowingCall, state: Mapping[str, object]) -> None:
        """Keeps more of the state that the provider wants back with the call."""
        kept = slot.provider_state = slot.provider_state or {}
        for key, value in state.items():
            if key in kept or len(kept) < _MAX_STATE_KEYS:
                kept[key] = value
            else:
                self._warn("state_dropped")

    # -- finding a fragment's call --

    def _slot_for(self, fragment: ToolCallFragment) -> GrowingCall:
        id_ = fragment.id
        if fragment.start:
            slot = self._begin(fragment)
        else:
            slot = self._by_id_or_new(fragment, id_) if id_ else self._by_index_or_new(fragment)
        index = fragment.index
        if index is not None and self._by_index.get(index) is not slot and self._may_remember(index):
            self._by_index[index] = slot
        return slot

    def _may_remember(self, label: int | str) -> bool:
        """Returns whether there is room for this label: a hostile peer could give each fragment of a call another
        one."""
        if label in self._by_index:
            return True
        is_short = isinstance(label, int) or len(label) <= self._limits.max_id_bytes
        return is_short and len(self._by_index) < self._limits.max_open_blocks

    def _begin(self, fragment: ToolCallFragment) -> GrowingCall:
        """Opens a call on a wire that marks where calls begin."""
        if fragment.id and fragment.id in self._by_id:
            self._warn("duplicate_id")
        return self._open(fragment, fragment.id)

    def _by_id_or_new(self, fragment: ToolCallFragment, id_: str) -> GrowingCall:
        name, index = fragment.name, fragment.index
        there = self._by_index.get(index) if index is not None else None
        slot = self._by_id.get(id_)
        if slot is not None:
            if there is not None and there.wire_id == id_:
                slot = there  # the fragment continues the second of two calls that share an id
            elif name and index is not None and slot.index is not None and index != slot.index:
                self._warn("duplicate_id")
                return self._open(fragment, id_)
            if name:
                self._continue_name(slot, name)
            return slot
        if there is None or there.ended:
            return self._open(fragment, id_)
        if name and there.name:
            self._warn("index_reused")
            return self._open(fragment, id_)
        if there.wire_id:
            self._warn("id_changed")
        else:
            self._adopt_id(there, id_)
        if name:
            there.name = name
        return there

    def _by_index_or_new(self, fragment: ToolCallFragment) -> GrowingCall:
        if fragment.index is not None:
            slot = self._by_index.get(fragment.index)
        else:
            slot = self._slots[-1] if self._slots else None
        name = fragment.name
        if slot is None or (slot.ended and name):
            return self._open(fragment, None)
        if not name:
            return slot
        if not slot.name:
            slot.name = name
            return slot
        if slot.text_came and fragment.arguments.lstrip()[:1] == "{" and slot.json.state() == "complete":
            self._warn("index_reused")
            return self._open(fragment, None)
        if not self._continue_name(slot, name):
            self._warn("index_reused")
            return self._open(fragment, None)
        return slot

    def _continue_name(self, slot: GrowingCall, name: str) -> bool:
        """Takes a name for a call that has one: a repeat, or the next piece. Returns False if it is neither."""
        if name == slot.name:
            self._warn("name_repeated")
        elif not slot.name:
            slot.name = name
        elif slot.announced or slot.text_came or slot.name in self._names:
            return False
        elif len(slot.name) > self._limits.max_name_bytes:
            return True  # too long already, which refuses the call; keep no more
        else:
            self._warn("name_split")
            slot.name += name
        return True

    def _open(self, fragment: ToolCallFragment, id_: str | None) -> GrowingCall:
        if len(self._slots) >= self._limits.max_tool_calls:
            raise LimitExceeded("max_tool_calls", limit=self._limits.max_tool_calls, where="the turn")
        slot = GrowingCall(len(self._slots), fragment, self._limits)
        self._slots.append(slot)
        if id_ is not None:
            self._adopt_id(slot, id_)
        return slot

    def _adopt_id(self, slot: GrowingCall, id_: str) -> None:
        slot.wire_id = id_
        self._by_id.setdefault(id_, slot)
        if id_ in self._used_ids or len(id_) > self._limits.max_id_bytes or slot.announced:
            return
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

    # -- growing and ending a call --

    def _grow(self, slot: GrowingCall, text: str) -> None:
        limits = self._limits
        self._argument_size += len(text)
        if self._argument_size > limits.max_total_argument_bytes:
            limit = limits.max_total_argument_bytes
            raise LimitExceeded("max_total_argument_bytes", limit=limit, where="the turn")
        if slot.json.length + len(text) > limits.max_argument_bytes:
            slot.problem = "argument_too_large"
        if slot.problem:
            return
        if text := slot.joiner.feed(text):
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
        slot.pieces.append(text)
        if slot.announced:
            self._out.append(slot.delta(text))
        elif slot.name:
            self._announce(slot)  # emits the pieces held so far, too

    def _announce(self, slot: GrowingCall) -> None:
        if slot.namespace == slot.name:
            slot.namespace = ""  # one that was found by searching is in a namespace of its own name: dust-tt/dust#31323
        name = qualified(slot.namespace, slot.name)
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

    def _end(self, slot: GrowingCall, *, cut: bool) -> None:
        if rest := slot.joiner.finish():
            self._append(slot, rest)
        if slot.joiner.lone:
            self._warn("lone_surrogate")
        slot.ended = True
        if not slot.announced:
            self._announce(slot)
        if not slot.name:
            slot.problem = "missing_name"
        text = "".join(slot.pieces)
        if slot.wire_id and slot.kind != "server" and not slot.problem and not cut:
            said = slot.wire_id, slot.shown_name, text
            if said in self._whole:
                slot.problem = "repeated_call"
            self._whole.add(said)
        error = problem_error(slot.problem, self._limits) if slot.problem else None
        call = ToolCall(
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
        self._out.append(ToolCallEnd(call, error))

    def _registered(self, slot: GrowingCall) -> str | None:
        """Returns the registered name that a call's name stands for, if any."""
        name = qualified(slot.namespace, slot.name)
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


# -- one call while its pieces come ------------------------------------------------------------------------------------


class GrowingCall:
    """One call while it grows."""

    __slots__ = (
        "announced", "awaits", "call_id", "caller", "closed", "ended", "index", "joiner", "json", "json_end", "kind",
        "name", "namespace", "number", "pieces", "problem", "provider_state", "shown_name", "synthesized", "text_came",
        "wire_id",
    )  # fmt: skip

    def __init__(self, number: int, fragment: ToolCallFragment, limits: Limits) -> None:
        self.number = number
        self.index = fragment.index
        self.kind: CallKind = fragment.kind
        self.name = fragment.name or ""
        self.namespace = ""
        self.awaits = fragment.awaits
        self.caller: Caller = "direct"
        self.wire_id = ""  # as the wire gives it, even where it cannot serve as the identity
        self.call_id = ""  # the identity; "" until it is known
        self.shown_name = ""
        self.synthesized = False
        self.announced = False
        self.closed = False  # it has ended without any arguments
        self.ended = False
        self.problem: str | None = None
        self.provider_state: dict[str, object] | None = None
        self.pieces: list[str] = []
        self.text_came = False
        self.joiner = SurrogateJoiner()
        self.json = Moments(max_depth=limits.max_json_depth)
        self.json_end = 0  # characters emitted in deltas so far

    @property
    def is_bare(self) -> bool:
        """True while a function call with a name has neither arguments nor a problem."""
        return not self.text_came and self.problem is None and self.kind == "function" and bool(self.name)

    def begin_again(self, limits: Limits) -> None:
        """Discards the text, so that it can begin again."""
        self.pieces = []
        self.json = Moments(max_depth=limits.max_json_depth)
        self.json_end = 0

    def delta(self, text: str) -> ToolCallDelta:
        """Returns the event for more of the text."""
        self.json_end += len(text)
        return ToolCallDelta(self.call_id, text, None if self.kind == "custom" else self.json, self.json_end)


def problem_error(problem: str | None, limits: Limits) -> ToolError | None:
    """Returns the error of a call by the code of its problem; None if it has none."""
    if problem is None:
        return None
    texts = {
        "missing_name": "the call came without a tool name",
        "repeated_call": "the same call came before, under the same id; it is run once",
        "name_too_long": f"the tool name exceeds max_name_bytes={limits.max_name_bytes}",
        "too_deep": f"the arguments are nested deeper than max_json_depth={limits.max_json_depth}",
        "argument_too_large": f"the arguments exceed max_argument_bytes={limits.max_argument_bytes}",
        "bad_path": "a piece of the arguments has no path or value that can be used",
    }
    return InvalidArguments(texts.get(problem, f"the call is not whole: {problem}"))
