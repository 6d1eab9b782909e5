"""Lets a body read one of its call's arguments while the model still writes it.

Theory of operation. A call whose tool has a growing parameter is read on with each of its deltas. Once that argument
has begun, and the others in front of it are valid and all that is required, its body begins as a `Trial`, whose
`ToolStarted` is emitted at once. The call itself goes its usual way: it ends when the wire says so, is judged, queued
and begun behind its gate. Then the trial is taken up: what it has read is compared with what the call's text has turned
out to say, and the body may take effect. Where they differ it is undone, and the whole is given to another attempt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio

from ..dispatch.event_loop import ring
from ..dispatch.states import Call
from ..dispatch.transitions import Transitions
from ..dispatch.trials import Trial, may_be_early, may_run_early
from ..errors import InvalidArguments
from ..events import ToolCallDelta, ToolStarted
from ..parts import arguments_in
from ..stages.preview import PartialJSON
from ..tools import TakesLong, Tool


class Growths:
    """Those of one response's calls."""

    def __init__(self, turn: Transitions) -> None:
        self._turn = turn
        self._open: dict[str, Growth] = {}

    def add(self, call: Call, tool: Tool[..., Any]) -> None:
        growing: Any = tool.growing
        if growing.grows and tool.is_async and may_be_early(tool, self._turn):
            self._open[call.call_id] = Growth(self._turn, call, tool, growing)

    def take(self, event: ToolCallDelta) -> None:
        growth = self._open.get(event.call_id)
        if growth is not None and not growth.take(event.delta):
            del self._open[event.call_id]


@dataclass(slots=True, eq=False)
class Growth:
    turn: Transitions
    call: Call
    tool: Tool[..., Any]
    growing: Any  # the tool's `GrowingParameter`, which imports this module
    is_text: bool = field(init=False)
    pieces: list[Any] = field(default_factory=list)
    is_over: bool = False  # no more pieces come
    _text: GrowingArgument | None = field(init=False)  # None: the text itself is the argument
    _before: dict[str, Any] = field(default_factory=dict)  # the arguments in front of it, as the model writes them
    _trial: Trial | None = None
    _agrees: bool | None = None  # None: not known yet
    _is_settled: bool = False
    _new_event: Callable[[], anyio.Event] = anyio.Event
    _change: anyio.Event | None = None

    def __post_init__(self) -> None:
        self.is_text, key = self.growing.item is None, self.growing.key
        depth = self.turn.limits.max_json_depth
        is_json = self.call.call.kind == "function"
        self._text = GrowingArgument(key, is_text=self.is_text, max_depth=depth) if is_json else None
        if self._text is not None and self.is_text:
            self.pieces = self._text.runs

    # -- what comes --

    def take(self, piece: str) -> bool:
        """Reads on; returns False if nothing more is to be read."""
        text, trial = self._text, self._trial
        if text is None:
            self.pieces.append(piece)
        else:
            text.read(piece)
            if not text.is_open:
                return self._ends_early() if text.is_repeated else True
        if trial is None and not self._begins():
            return False
        if self._trial is not None and self._trial.is_dropped:
            return False
        if text is not None:
            if not self._checks(text):
                return self._ends_early()
            self.is_over = text.is_closed
        self._changed()
        return not self.is_over

    def _begins(self) -> bool:
        turn, call, growing = self.turn, self.call, self.growing
        if not may_run_early(call, turn):
            return False
        self._before = {} if self._text is None else dict(self._text.before)
        try:
            bound = growing.bound(turn.attempts.tools.decode(call.call.name, self._before), self)
        except (InvalidArguments, TakesLong):
            return False
        self._trial = Trial(turn, call, self.tool, bound, turn.host.new_scope(), self)
        if not self._trial.takes_place():
            return False
        call.trial = self._trial
        return True

    def _checks(self, text: GrowingArgument) -> bool:
        if self.is_text:
            most = self.growing.most
            return most is None or text.size <= most
        decode, name, key = self.turn.attempts.tools.decode, self.call.call.name, self.growing.key
        try:
            for item in text.items[len(self.pieces) : text.items_closed]:
                given = decode(name, {**self._before, key: [item]}).get(key)
                self.pieces.append(self.growing.checked(given[0] if given else None))
        except InvalidArguments:
            return False
        return True

    def _ends_early(self) -> bool:
        if self._trial is not None:
            self._trial.drop()
        return False

    # -- its call --

    def tell_start(self) -> float:
        call, tool = self.call, self.tool
        self.turn.host.emit(ToolStarted(call.call_id, tool.name, 1, effect=tool.effect))
        call.started_at = time.monotonic()
        return call.started_at

    @property
    def agrees(self) -> bool:
        """What has been read is what the call says. True while that is not known."""
        if self._agrees is None and self.call.bound is not None:
            self._agrees = self._compares(self.call.bound.by_name[self.growing.name])
            self.is_over = True
            self._changed()
        return self._agrees is not False

    def _compares(self, whole: Any) -> bool:
        given = dict(arguments_in(self.call.call) or {})
        value, count = given.pop(self.growing.key, None), len(self.pieces)
        read = "".join(self.pieces) if self.is_text else [] if self._text is None else self._text.items[:count]
        if given != self._before or type(value) is not type(read) or value[: len(read)] != read:
            return False
        rest = whole[len(read) :]
        if rest and self.is_over:
            return False
        self.pieces.extend([rest] if self.is_text and rest else rest)
        return True

    def settle(self) -> None:
        self._is_settled = True
        self._changed()

    # -- its body --

    async def more(self) -> None:
        if self._change is None:
            self._change = change = self._new_event()
            self._new_event = type(change)  # finding the loop's own type costs as much as the event
        await self._change.wait()

    async def whole(self) -> Any:
        while not self._is_settled:
            await self.more()
        assert self.call.bound is not None, "the call has begun"
        return self.call.bound.by_name[self.growing.name]

    def _changed(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            ring(change)


class GrowingArgument(PartialJSON):
    """Reads one argument as far as it has come: the runs of a text, or the items of a list. The text is not kept in the
    value that `read` returns: there it stays empty."""

    def __init__(self, key: str, *, is_text: bool, max_depth: int) -> None:
        super().__init__(max_depth)
        self.runs: list[str] = []
        """Those of the text so far: all that can be decoded now."""
        self.size = 0  # characters of these
        self.is_open = False
        """Its value has begun, and is of the wanted type."""
        self.is_repeated = False
        """Its key came a second time, or its value is of another type."""
        self._key, self._kind = key, str if is_text else list
        self._in_text = False
        self._items: list[Any] = []

    @property
    def before(self) -> dict[str, Any]:
        """The arguments in front of it."""
        return {name: value for name, value in self._top[-1].items() if name != self._key}

    @property
    def is_closed(self) -> bool:
        if self._in_text and not self._in_key and self._leaf is not None:  # as nearly always
            return False
        is_inside = self._kind is list and len(self._stack) > 1 and self._stack[1][1] == self._key
        return self.is_open and not is_inside and self.state() != "broken"

    @property
    def items(self) -> list[Any]:
        """The list as far as it has come; its last item may be open."""
        return self._items

    @property
    def items_closed(self) -> int:
        """How many items will not change any more."""
        deep = len(self._stack)
        is_open = deep > 2 or (deep == 2 and self._leaf is not None)
        return len(self._items) - (is_open and not self.is_closed)

    def _place(self, value: Any, again: bool = False) -> None:
        super()._place(value, again)
        if len(self._stack) == 1 and not again:
            is_its = self._slot == self._key
            self._in_text = is_its and self._kind is str
            if is_its:
                self.is_repeated |= self.is_open or type(value) is not self._kind
                self.is_open = not self.is_repeated
                self._items = value if type(value) is list else []

    def _more_string(self, run: str) -> None:
        if self._in_text and not self._in_key:
            self.runs.append(run)
            self.size += len(run)
        else:
            super()._more_string(run)
