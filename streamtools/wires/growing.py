"""Tracks the places of a response: the blocks, items, steps or calls that grow.

Text and reasoning lose nothing in any order: a piece of either is shown when it comes. The pieces of a call are
labelled by their order, and `stages.accumulate`, which alone owns the identity of calls, decides about them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeAlias

from typing_extensions import override

from ..content import Caller
from ..events import Event, ProviderItem, ToolCallFragment
from ..ground.text import well_formed
from ..limits import Limits
from ..parts import CallKind
from .decoder import WireDecoder
from .reading import KnownFields, label_of, read_text

Role: TypeAlias = Literal["text", "reasoning", "call", "item"]
"""The role of a place: a part of the answer, a call, or an item that is kept whole."""

Given: TypeAlias = "tuple[str, str | None]"
"""Arguments that came whole, as JSON text, and the code of their problem."""

Handler: TypeAlias = Callable[[Any, dict[str, Any]], object]


class GrowingBlock:
    __slots__ = (
        "citations", "given", "head", "is_foreign", "is_grown", "is_left", "is_open", "key", "kind", "label", "pieces",
        "role", "signature",
    )  # fmt: skip

    def __init__(self, key: object, role: Role, kind: str, head: dict[str, Any]) -> None:
        self.key = key
        self.label: int | str = ""
        self.role = role
        self.kind = kind  # the provider's word for its type
        self.head = head
        self.is_open = True
        self.is_grown = False
        self.is_left = False  # the text of another place was shown since, so that its own is in pieces
        self.is_foreign = False  # it had a piece that nobody understands, so that it cannot be given back
        self.given: Given | None = None  # arguments that came with its beginning
        self.signature: list[str] = []
        self.citations: list[Any] = []
        self.pieces: dict[str, list[Any]] = {}


class GrowingDecoder(WireDecoder):
    """Decodes a response that consists of places. A wire gives `handlers`, and the hooks that it needs."""

    handlers: ClassVar[Mapping[str, Handler]] = {}
    """The method for each type of event."""
    event_fields: ClassVar[Mapping[str, KnownFields]] = {}
    """For each type of event, the fields that are read or meaningless. All others are passed on."""
    gives_arguments: ClassVar[bool] = False
    """True if the provider usually sends arguments with the beginning of a call."""
    unmarked: ClassVar[frozenset[str]] = frozenset()
    """The kinds of places that begin with their first piece, by the provider's documentation."""

    def __init__(self, limits: Limits) -> None:
        super().__init__(limits)
        self._places: dict[object, GrowingBlock] = {}
        self._place_count = 0
        self._early: frozenset[object] = frozenset()  # where arguments came before anything began
        self._late: frozenset[object] = frozenset()  # where they came when a call was over, or something is no call
        self._current: GrowingBlock | None = None  # the place whose text or reasoning is being shown
        self._has_calls = False
        self._stopped = False  # the wire's own end came

    def feed(self, payload: dict[str, Any]) -> list[Event]:
        """Decodes one event."""
        out = self.out = []
        self._payload, self._exact = payload, None
        kind = payload.get("type")
        handler = self.handlers.get(kind) if isinstance(kind, str) else None
        if handler is None or not isinstance(kind, str):
            self.read_foreign(payload)
            return out
        handler(self, payload)
        if (fields := self.event_fields.get(kind)) is not None:
            self.emit_unread(payload, fields)
        return out

    # -- hooks --

    def state_of(self, place: GrowingBlock) -> dict[str, Any] | None:
        """Returns the state that goes back with a text or reasoning that ends: its signature, or citations."""
        if self._open == "reasoning":  # a signature is of the whole text, and worth nothing with a part of it
            signed = place.signature and not place.is_left
            return {"signature": well_formed("".join(place.signature))} if signed else None
        found, place.citations = place.citations, []
        return {"citations": kept} if found and (kept := self.to_keep(found)) else None

    def state_of_call(self, place: GrowingBlock) -> Mapping[str, Any] | None:
        """Returns the state that goes back with a call that ends, besides that of its beginning."""
        return None

    def is_kept(self, place: GrowingBlock) -> bool:
        """Returns whether a place that ends is an item that goes back whole."""
        return place.role == "item"

    def whole_of(self, place: GrowingBlock) -> Any:
        """Returns the whole item that goes back; None if it cannot go back."""
        return place.head

    def lose(self, place: GrowingBlock) -> None:
        """Passes on the available pieces of an item that cannot go back."""
        self.emit_unknown(place.head)

    # -- places --

    def begin(
        self, key: object, role: Role, kind: str, head: dict[str, Any], *, id: object = None
    ) -> GrowingBlock | None:
        """Begins a place; returns None if the same comes again, or there are too many, which ends the stream."""
        if not self._started:
            self.emit_start(None, None)
        self._place_count += 1
        there = self._places.get(key)
        if there is not None and there.is_open and self._place_count <= self.limits.max_open_blocks:
            if there.head == head and (read_text(id) is not None or not there.is_grown):
                # A gateway that reconnects says a beginning again. What has an id is the same whatever has come of it;
                # what has none is the same if nothing has.
                self.warn("duplicate_block_start")
                if there.role == "call":
                    self.out.append(ToolCallFragment(there.label, disorder="again"))
                return None
            self.warn("missing_block_stop")
            self.end(there, implied=True)
        if role != "call" and key in self._early:
            self.out.append(ToolCallFragment(self.label_at(key), disorder="late"))  # what came early is lost
        if not self.holds(self._place_count, "the message"):
            return None
        place = self._places[key] = self.new_place(key, role, kind, head)
        place.label = self.label_at(key)
        return place

    def new_place(self, key: object, role: Role, kind: str, head: dict[str, Any]) -> GrowingBlock:
        """Makes a place; a wire whose places have more fields has its own class."""
        return GrowingBlock(key, role, kind, head)

    def label_at(self, key: object) -> int | str:
        """Returns the label of the calls at a place."""
        return label_of(key)

    def end_at(self, key: object) -> None:
        """Ends the place that the wire ends."""
        place = self._places.get(key)
        if place is None:
            self.warn("stop_without_block")
        elif place.is_open:
            self.end(place)
        else:
            self.warn("duplicate_block_stop")

    def end(self, place: GrowingBlock, *, cut: bool = False, implied: bool = False) -> None:
        """Ends a place: by its own marker; `implied` by something else; or `cut` by the end of the stream."""
        place.is_open = False
        if place.role == "call":
            self._end_call(place, cut=cut, implied=implied)
        self._end_shown(place, cut=cut)
        if self.is_kept(place):
            kept = None if place.is_foreign else self.to_keep(self.whole_of(place))
            if kept is not None:
                self.out.append(ProviderItem(place.kind, kept))
            elif not cut:
                self.lose(place)

    @override
    def close_places(self, *, whole: bool) -> None:
        for place in self._places.values():
            if place.is_open:
                if whole and (place.role == "call" or self.is_kept(place)):
                    self.warn("missing_block_stop")
                self.end(place, cut=not whole, implied=True)

    # -- text and reasoning --

    def grow_text(self, key: object, role: Literal["text", "reasoning"], kind: str, text: str) -> None:
        """Shows a piece of text or reasoning. Its place begins with it, if it has not begun."""
        if (place := self.place_for(key, role, kind)) is not None:
            self.show(place, text, role)

    def place_for(self, key: object, role: Role, kind: str) -> GrowingBlock | None:
        """Returns the place of a piece of text, which may begin with it; None if there are too many."""
        place = self._places.get(key)
        if place is None:
            if kind not in self.unmarked:
                self.warn("delta_without_block")
            return self.begin(key, role, kind, {})
        if not place.kind:
            place.kind, place.role = kind, role  # some servers say only with a piece what begins
        elif place.kind != kind:
            self.warn("mismatched_delta", f"{kind} in a {place.kind[: self.limits.max_name_bytes]} block")
        elif not place.is_open:
            self.warn("delta_after_stop")
        return place

    def show(self, place: GrowingBlock, text: str, role: Role | None = None) -> None:
        """Shows a piece of the text of a place; later text of another place becomes a separate part."""
        if not text:
            return
        place.is_grown = True
        if place is not self._current:
            self.leave()
            self._current = place
            if place.is_left:
                self.warn("interleaved_blocks")
        self.emit_reasoning(text) if (role or place.role) == "reasoning" else self.emit_text(text)

    def leave(self) -> None:
        """Ends the part that is being shown before its place has ended."""
        if (current := self._current) is not None:
            self.end_part(self.state_of(current))
            current.is_left, self._current = True, None

    def _end_shown(self, place: GrowingBlock, *, cut: bool) -> None:
        if place is not self._current and place.role == "reasoning" and place.signature and not (place.is_left or cut):
            self.leave()
            self.emit_reasoning("")  # withheld, and signed all the same
            self._current = place
        if place is self._current:
            self.end_part(None if cut else self.state_of(place))
            self._current = None
        elif place.is_left and (place.signature or place.citations):
            self.warn("interleaved_blocks")  # they are of the whole text, and worth nothing with a part of it
        if place.citations and not cut:
            self.emit_unknown({"citations": place.citations})

    # -- calls --

    def begin_call(
        self,
        place: GrowingBlock,
        id: object,
        name: object,
        *,
        kind: CallKind = "function",
        given: Given | None = None,
        first: Given = ("", None),
        state: Mapping[str, Any] | None = None,
        namespace: object = None,
        caller: Caller | None = None,
        awaits: str | None = None,
    ) -> None:
        """Begins the call of a place. `first` is the first piece of its arguments; `given` counts if none comes."""
        place.given = given
        self._has_calls = self._has_calls or kind != "server"
        self.out.append(
            ToolCallFragment(
                place.label,
                read_text(id),
                read_text(name),
                first[0],
                kind=kind,
                start=True,
                problem=first[1],
                provider_state=state,
                namespace=read_text(namespace),
                caller=caller,
                awaits=awaits,
            )
        )

    @override
    def emit_call(
        self,
        place: object,
        id: object = None,
        name: object = None,
        arguments: object = "",
        *,
        path: Iterable[str | int] = (),
        start: bool = False,
        end: bool = False,
    ) -> None:
        """Emits a piece of a call, as `WireDecoder.emit_call` does, on a wire that marks where calls begin and end."""
        key = label_of(place)
        given = self.arguments_text(arguments, path)
        if start:
            if (begun := self.begin(key, "call", "call", {"id": id, "name": name}, id=id)) is not None:
                self.begin_call(begun, id, name, first=given)
        elif any(given):
            self.grow_call(key, *given)
        if end:
            self.end_at(key)

    def grow_call(self, key: object, text: str, problem: str | None = None) -> None:
        """Adds a piece to a call's arguments."""
        place = self._places.get(key)
        disorder: Literal["early", "late"] | None = None
        if place is None:
            self.warn("delta_without_block")
            disorder = "early"
            if len(self._early) < self.limits.max_open_blocks:
                self._early |= {key}
        elif not place.is_open:
            self.warn("delta_after_stop")
            disorder = "late"
        elif place.role != "call":
            self.warn("mismatched_delta", f"arguments in a {place.kind[: self.limits.max_name_bytes]} block")
            disorder = "late"
        else:
            place.is_grown = True
        if disorder == "late" and len(self._late) < self.limits.max_open_blocks:
            self._late |= {key}
        label = None if disorder and key is None else self.label_at(key)  # without a number it may be anybody's
        self.out.append(ToolCallFragment(label, arguments=text, problem=problem, disorder=disorder))

    def _end_call(self, place: GrowingBlock, *, cut: bool, implied: bool) -> None:
        text, problem = "", None
        if place.given is not None and not place.is_grown:
            if not self.gives_arguments:
                self.warn("input_in_block_start")
            text, problem = place.given
        self.out.append(
            ToolCallFragment(
                place.label,
                arguments=text,
                end=True,
                cut=cut,
                disorder="unmarked" if implied else None,
                problem=problem,
                provider_state=self.state_of_call(place),
            )
        )
