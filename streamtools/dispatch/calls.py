"""Drives the calls of one turn, by the events about them and the things that people do to them.

Theory of operation. `Calls` chooses a call's inputs, and `Moves` carries out the effects by the table in `states`.
A valid call is released by its tool's effect: ``pure`` and ``idempotent`` ones at once, while the stream goes on;
``once`` calls when the turn has ended well. A turn that ended in any other way starts nothing more. A call that needs
an approval requests it when it would be released, and takes its place in the order when it is approved, so that no
other call waits for a person. Whatever happens, each call gets exactly one `Observation`: `settle`, called last,
observes the calls that are left.
"""

from __future__ import annotations

import anyio

from ..errors import ApprovalPending, CallTruncated, InvalidArguments, LocalProtocolError, ToolFailed
from ..event_loop import ring
from ..events import Event, Observation, StreamEnd, StreamStart, ToolCallEnd, ToolCallStart, ToolCallValidated
from ..parts import ToolCall
from ..tools import Tool, Toolset
from ..tools.context import call_key
from . import approval, endings
from .approval import Resolution
from .call import Call, Ending
from .moves import LEFT, Moves
from .options import LEAVES_CALLS
from .states import OPEN

__all__ = ["Calls"]

TAKEN_BACK = "the provider took it back"


class Calls:
    """Runs the calls of one turn. The model may call these `tools`."""

    listens_to = (StreamStart, ToolCallStart, ToolCallEnd, ToolCallValidated, StreamEnd)

    def __init__(self, moves: Moves, tools: Toolset) -> None:
        self._moves = moves
        self._tools = tools
        self._limits, self._options, self._host = moves.limits, moves.options, moves.host
        self._by_hand = moves.options.policy == "manual"
        self._response_id: str | None = None
        self._told: anyio.Event | None = None

    def on_event(self, event: Event) -> None:
        """Takes an event that has been emitted."""
        if isinstance(event, ToolCallStart):
            if event.kind != "server":
                self._announced(event)
        elif isinstance(event, StreamStart):
            self._response_id = event.response_id
        elif isinstance(event, ToolCallEnd):
            self._ended(event)
        elif isinstance(event, ToolCallValidated):
            self._ready(event)
        elif isinstance(event, StreamEnd):
            self._stream_ended(event)

    def stop(self, reason: str = LEFT) -> None:
        """Starts nothing more, and cancels every call; each call that runs is observed as it stops."""
        moves = self._moves
        moves.stopped = moves.stopped or reason
        moves.move_all("stopped", moves.calls.values(), None if reason == LEFT else reason)
        self._tell()

    def cancel(self) -> None:
        """Cancels every call that runs or waits for its turn to run; each is observed as it stops."""
        moves = self._moves
        moves.move_all("cancelled", [call for call in moves.calls.values() if call.state in OPEN])

    def cancel_one(self, call_id: str, reason: str | None) -> bool:
        """Cancels one call, whatever its state; returns False if that changes nothing, since the call is over or
        stopping already.

        Raises:
            LocalProtocolError: there is no such call.
        """
        call = self._known(call_id, "one of its calls")
        before = call.state
        self._moves.move_all("cancelled", [call], reason)
        self._tell()
        return call.state != before

    def take_back(self, call_id: str) -> None:
        """Cancels a call that the provider takes back; ids of no call of this turn mean nothing."""
        if call_id in self._moves.calls:
            self.cancel_one(call_id, TAKEN_BACK)

    async def wait_idle(self) -> None:
        """Waits until no call runs or waits for its turn to run, and no approver is being asked."""
        await self._moves.wait_idle()

    @property
    def busy(self) -> bool:
        """True while a call, or the approver of one, has a task."""
        return any(call.tasks for call in self._moves.calls.values())

    async def tell_stragglers(self) -> None:
        """Waits, shielded, until the calls have stopped or their grace is over, and warns of those that go on."""
        with anyio.move_on_after(self._limits.cancel_grace, shield=True):
            await self.wait_idle()
        self._moves.look()

    def look(self, now: float) -> None:
        """Warns, once, of each call that goes on although its grace is over."""
        self._moves.look(now)

    def settle(self) -> None:
        """Observes every call that has no observation yet. Call it last, when no task is left."""
        moves = self._moves
        moves.stopped = moves.stopped or LEFT
        # Each step in the `finally` of the one before it: a Ctrl-C may interrupt any line, or have done so already.
        try:
            moves.move_all("settled", moves.calls.values())
        finally:
            try:
                for call in moves.calls.values():
                    if call.state != "left_alone":
                        moves.observe_again(call)
            finally:
                moves.close()

    # -- the text of a call --

    def _announced(self, event: ToolCallStart) -> None:
        if event.call_id not in self._moves.calls:  # a transform may repeat the event
            call = ToolCall(call_id=event.call_id, name=event.name, kind=event.kind, index=event.index)
            key = self._options.resumed.get(event.call_id)
            own = call_key(self._host.run_id, self._host.number, self._response_id, event.call_id)
            announced = self._moves.calls[event.call_id] = Call(call, own if key is None else key)
            if self._leaves(event.name):
                self._moves.move(announced, "leave_alone")

    def _leaves(self, name: str) -> bool:
        """Returns whether calls of this name are somebody else's to run."""
        if self._options.policy not in LEAVES_CALLS:
            return False
        tool = self._tools.get(name) if self._options.policy == "pure" else None
        return tool is None or tool.effect != "pure" or tool.needs_approval is not False

    def _ended(self, event: ToolCallEnd) -> None:
        said = event.call
        call = self._moves.calls.get(said.call_id)
        if call is None or call.state != "announced":
            return
        call.call, call.tool = said, self._tools.called(said)
        if said.status == "truncated":
            error = event.error or CallTruncated("the call's arguments were cut")
            self._refuse(call, Ending("truncated", error))
        elif said.problem == "missing_name" or (call.tool is None and said.problem is None):
            unknown = endings.unknown_tool(said.name, self._tools.names, said.awaits)
            self._refuse(call, self._repeated(call) or Ending("unknown_tool", unknown))
        elif said.status == "invalid":
            error = event.error or InvalidArguments("the arguments are not valid")
            repeated = None if call.tool is None else self._repeated(call)  # a name may have been cut to another's
            self._refuse(call, repeated or Ending("invalid", error))
        else:
            self._moves.move(call, "end")

    def _ready(self, event: ToolCallValidated) -> None:
        call = self._moves.calls.get(event.call.call_id)
        if call is None or call.state != "ended" or call.tool is None:
            return
        call.call, call.bound = event.call, event.invocation
        if self._moves.stopped or (self._moves.end is not None and not self._may_start()):
            # Nothing may start any more. While the stream goes on, a stopped call of a resumed turn is held: the turn's
            # end decides whether it stays suspended, and until then an observation could only be `skipped`.
            self._moves.move(call, "hold" if self._options.resumed and self._moves.end is None else "bad_end")
        elif self._by_hand:
            self._moves.move(call, "hold")
        elif self._accept(call):
            if self._options.resumed or self._may_start() or not self._held_by_effect(call.tool):
                self._go(call)
            else:  # a gated call takes its place once it is approved
                self._moves.move(call, "hold" if call.gated else "hold_place")

    def _stream_ended(self, event: StreamEnd) -> None:
        self._moves.end = event
        if not self._may_start():
            self._moves.move_all("bad_end", self._moves.calls.values())
            return
        for call in list(self._moves.calls.values()):
            # Checked for each call: one that starts at once may fail at once, and stop the others.
            if call.state == "held" and not self._by_hand and self._may_start():
                self._go(call)

    def _may_start(self) -> bool:
        """Returns whether the turn has ended well, and nothing has stopped its calls."""
        return self._moves.stopped is None and endings.ended_well(self._moves.end)

    def _held_by_effect(self, tool: Tool) -> bool:
        policy = self._options.policy
        return policy == "turn_end" or (policy == "auto" and tool.effect == "once")

    def _accept(self, call: Call) -> bool:
        """Counts a valid call, and notes its approval and conflict key; refuses it and returns False if it was repeated
        too often, or the tool's own functions fail."""
        refused = endings.wrong_caller(call.ready[0], call.call) or self._repeated(call)
        if refused is None:
            try:
                call.gated = bool(self._options.resumed) or approval.is_gated(call)
            except ToolFailed as error:
                refused = Ending("failed", error)
        refused = refused or self._find_key(call)
        if refused is not None:
            self._refuse(call, refused)
        return refused is None

    def _find_key(self, call: Call) -> Ending | None:
        """Notes the call's conflict key; returns a refusal if the tool's function raises or returns no key."""
        tool, _ = call.ready
        if tool.conflict_key is None:
            return None
        try:
            call.conflict = call.conflict_key()
            hash(call.conflict)
        except Exception as error:
            return endings.no_key(tool.name, error)
        return None

    def _repeated(self, call: Call) -> Ending | None:
        if self._options.resumed or not self._options.counts_repeated:
            return None  # a resumed call was counted before
        return endings.repeated(call.call, self._host.counts, self._limits)

    def _refuse(self, call: Call, ending: Ending) -> None:
        self._moves.move(call, "refused", ending)

    def _go(self, call: Call) -> None:
        """Asks for approval if needed, else queues the call."""
        if not call.gated and self._held_by_effect(call.ready[0]) and self._moves.end is not None:
            call.causes = (self._moves.end.seq,)
        self._moves.move(call, "ask" if call.gated else "queue")

    # -- approval --

    @property
    def undecided(self) -> list[Call]:
        """The calls that wait for an approval, or did when the block was left, in a turn that has ended well."""
        if not endings.ended_well(self._moves.end):
            return []
        return [
            call
            for call in self._moves.calls.values()
            if call.state == "asked" or (call.seen is not None and isinstance(call.seen.error, ApprovalPending))
        ]

    @property
    def unobserved(self) -> int:
        """The number of calls without an observation yet."""
        return sum(call.state not in ("observed", "left_alone") for call in self._moves.calls.values())

    @property
    def announced(self) -> bool:
        """True once a call was announced."""
        return bool(self._moves.calls)

    def decide(self, call_id: str, decision: Resolution, fingerprint: str | None) -> bool:
        """Applies a decision about a call; returns False if that changes nothing, since the call was decided before or
        is over.

        Raises:
            LocalProtocolError: nobody was asked about it, or about these arguments; or this is another thread.
        """
        call = self._known(call_id, "an ApprovalRequested")
        if not call.asked:
            raise LocalProtocolError("nobody was asked about this call; decide after its ApprovalRequested")
        if fingerprint is not None and fingerprint != call.fingerprint:
            raise LocalProtocolError("the call has other arguments than those that were decided about")
        approval.check_loop(self._moves.asked_in, "approve" if decision.approved else "deny")
        decided = self._moves.resolve(call, decision)
        if decided:
            self._tell()
        return decided

    # -- by hand --

    @property
    def to_tell(self) -> bool:
        """True while there are calls that start only if somebody runs or approves them."""
        if self._moves.stopped is not None:
            return False
        return any(
            call.state == "asked" or (call.state == "held" and self._by_hand) for call in self._moves.calls.values()
        )

    async def wait_told(self) -> None:
        """Waits until somebody runs, decides about or cancels a call."""
        self._told = anyio.Event()
        await self._told.wait()

    def _tell(self) -> None:
        if self._told is not None:
            ring(self._told)

    def ask(self, call_id: str) -> bool:
        """Lets a held call run; returns False if that changes nothing, since the call is observed or runs already.

        Raises:
            LocalProtocolError: calls start by themselves here, or this one is not known or not ready.
        """
        if not self._by_hand:
            now = "are left alone" if self._options.policy in LEAVES_CALLS else "start by themselves"
            raise LocalProtocolError(f"calls {now}; to run them by hand, pass start='manual' and tools=")
        call = self._known(call_id, "the call of a ToolCallValidated")
        if call.state in ("announced", "ended") and self._moves.stopped is None:
            raise LocalProtocolError("the call is not ready; run it after its ToolCallValidated")
        if call.state != "held":
            return False
        if self._accept(call):
            self._go(call)
        self._tell()
        return True

    async def observed(self, call_id: str) -> Observation:
        """Waits for a call's observation, and returns it."""
        call = self._moves.calls[call_id]
        while call.seen is None:
            call.done = call.done or anyio.Event()
            await call.done.wait()
        return call.seen

    def _known(self, call_id: str, what: str) -> Call:
        call = self._moves.calls.get(call_id)
        if call is None:
            raise LocalProtocolError(f"no such call in this turn; pass {what}, or its call_id")
        return call
