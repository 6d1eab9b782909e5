"""Lets a body read one of its call's arguments while the model still writes it.

Theory of operation. A call whose tool has a growing parameter is read on with each of its deltas. Once that argument
has begun, and the others in front of it are valid and all that is required, its body begins as a `Trial`, whose
`ToolStarted` is emitted at once. The call itself goes its usual way: it ends when the wire says so, is judged, queued
and begun behind its gate. Then the trial is taken up: what it has read is compared with what the call's text has turned
out to say, and the body may take effect. Where they differ it is undone, and the whole is given to another attempt.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from pydantic_core import ValidationError, to_json

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
    def __init__(self, turn: Transitions) -> None:
        self._turn = turn
        self._open: dict[str, Growth] = {}

    def add(self, call: Call, tool: Tool[..., Any]) -> None:
        growing: Any = tool.growing
        if growing.grows and not tool.background and may_be_early(tool, self._turn):
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
    _text: GrowingArgument | None = None  # None: the text itself is the argument
    _before: dict[str, Any] = field(default_factory=dict)  # the arguments in front of it, as the model writes them
    _trial: Trial | None = None
    _agrees: bool | None = None  # None: not known yet
    _is_settled: bool = False
    _change: anyio.Event | None = None

    def __post_init__(self) -> None:
        self.is_text, key, depth = self.growing.item is None, self.growing.key, self.turn.limits.max_json_depth
        if self.call.call.kind == "function":
            self._text = GrowingArgument(key, self.pieces if self.is_text else None, depth)

    # -- what comes --

    def take(self, piece: str) -> bool:
        """Reads on; returns False if nothing more is to be read."""
        text, value = self._text, {}
        if text is None:
            self.pieces.append(piece)
        else:
            value = text.read(piece)
            if not text.is_open and not text.is_repeated:
                return True
        if self._trial is None and not self._begins(value):
            return False
        if text is not None and self._trial is not None:
            if text.is_repeated or not self._fits(text):
                self._trial.drop()
            self.is_over = text.is_closed
        self._changed()
        return not (self.is_over or self._trial is None or self._trial.is_dropped)

    def _begins(self, value: dict[str, Any]) -> bool:
        turn, call, text = self.turn, self.call, self._text
        if not may_run_early(call, turn) or (text is not None and text.is_repeated):
            return False
        self._before = {key: one for key, one in value.items() if key != self.growing.key}
        try:
            bound = self.growing.bound(turn.attempts.tools.decode(call.call.name, self._before), self)
        except (InvalidArguments, TakesLong):
            return False
        self._trial = trial = Trial(turn, call, self.tool, bound, turn.host.new_scope(), self)
        if turn.take_free_place(trial.job, partial(turn.work, call, trial.run, trial.scope)):
            call.trial = trial
        return call.trial is trial

    def _fits(self, text: GrowingArgument) -> bool:
        if self.is_text:
            return self.growing.most is None or text.size <= self.growing.most
        decode, name = self.turn.attempts.tools.decode, self.call.call.name
        try:
            for item in text.items[len(self.pieces) : text.closed_items]:
                given = decode(name, {**self._before, text.key: [item]}).get(text.key) or (None,)
                self.pieces.append(self.growing.item.validate_json(to_json(given[0])))
        except (InvalidArguments, ValidationError):
            return False
        return True

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
            self._agrees = self._takes_rest(self.call.bound.by_name[self.growing.name])
            self.is_over = True
            self._changed()
        return self._agrees is not False

    def _takes_rest(self, whole: Any) -> bool:
        given = dict(arguments_in(self.call.call) or {})
        value, count = given.pop(self.growing.key, None), len(self.pieces)
        read = "".join(self.pieces) if self.is_text or self._text is None else self._text.items[:count]
        if given != self._before or type(value) is not type(read) or value[: len(read)] != read:
            return False
        rest = whole[len(read) :]
        if rest and not self.is_over:
            self.pieces += [rest] if self.is_text else rest
        return not (rest and self.is_over)

    def settle(self) -> None:
        self._is_settled = True
        self._changed()

    # -- its body --

    async def more(self) -> None:
        self._change = self._change or anyio.Event()
        await self._change.wait()

    async def whole(self) -> Any:
        while not self._is_settled:
            await self.more()
        return self.call.ready[1].by_name[self.growing.name]

    def _changed(self) -> None:
        change, self._change = self._change, None
        if change is not None:
            ring(change)


class GrowingArgument(PartialJSON):
    """Reads one argument as far as it has come: a text into `runs`, where the value keeps an empty one, or a list."""

    def __init__(self, key: str, runs: list[str] | None, max_depth: int) -> None:
        super().__init__(max_depth)
        self.key = key
        self.size = 0  # characters of the text
        self.items: list[Any] = []  # of the list; the last one may be open
        self.is_open = False  # its value has begun, and is of the wanted type
        self.is_repeated = False  # its key came a second time, or its value is of another type
        self._runs, self._kind = runs, list if runs is None else str
        self._in_text = False

    @property
    def is_closed(self) -> bool:
        if self._in_text and not self._in_key and self._leaf is not None:  # as nearly always
            return False
        is_inside = self._kind is list and len(self._stack) > 1 and self._stack[1][1] == self.key
        return self.is_open and not is_inside and self.state() != "broken"

    @property
    def closed_items(self) -> int:
        deep = len(self._stack)
        is_open = deep > 2 or (deep == 2 and self._leaf is not None)
        return len(self.items) - (is_open and not self.is_closed)

    def _place(self, value: Any, again: bool = False) -> None:
        super()._place(value, again)
        if len(self._stack) == 1 and not again:
            is_its = self._slot == self.key
            self._in_text = is_its and self._runs is not None
            if is_its:
                self.is_repeated |= self.is_open or type(value) is not self._kind
                self.is_open = not self.is_repeated
                self.items = value if type(value) is list else []

    def _more_string(self, run: str) -> None:
        if self._in_text and not self._in_key and self._runs is not None:
            self._runs.append(run)
            self.size += len(run)
        else:
            super()._more_string(run)
