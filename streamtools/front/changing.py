"""Tools that change within a run: a function of the run gives them before each step, and running tools add some.

Each step has the tools that it began with. What requests say of a change: a request's list of tools stands before its
messages, so another list costs the provider's whole cache. Where the wire and the model take it, the list stays, and
the change is a message behind the others (`ToolChanges`); else a warning names the cost before the request is made.

Added tools are on record by their names, in the notes of the calls that have added them. A run that goes on elsewhere
finds them by its function, or refuses to go on without them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import ExportError, ToolDefinitionError, ToolError
from ..events import StreamWarning
from ..exports import Exports
from ..parts import FINISHES, RunOutcome
from ..pipelines.messages import RunHistory
from ..tools import AnyTools, Tool, Toolset
from ..tools.callables import refuse
from ..tools.toolset import toolset_of
from ..turn import Turn
from ..wires.formats import JSON, ToolChanges
from .carrying import Carrying
from .checked import CheckedOptions, has_policy, know

if TYPE_CHECKING:
    from ..dispatch import Suspended
    from ..dispatch.executor import Executor, Invocation
    from ..seams import RunView, StepPlan, StepRequest
    from .run_face import AgentLoop
    from .steps import PipelineMaker

ToolsOfRun: TypeAlias = "Callable[[AgentLoop], AnyTools | Awaitable[AnyTools]]"
"""Returns the tools of a run's next step. Its one parameter is called ``run``."""

Listed: TypeAlias = tuple[Tool[..., Any], ...]
_NOTE = "add_tools"
_UNTOLD = ("defer_loading", "cache_control")  # hints of a definition in a list of tools


class ChangingTools:
    def __init__(
        self,
        given: AnyTools | Exports | ToolsOfRun,
        own: Sequence[Tool[..., Any]],
        export: Callable[[Listed], Sequence[Any]],
        suspended: Suspended | None,
    ) -> None:
        self._function: Any = given if callable(given) else None
        self._are_exported = isinstance(given, Exports)
        self._listed: Listed = ()  # those of a list
        self._own = own  # the run's
        self._export = export
        self._here: Listed = ()  # those of the step
        self._made: dict[str, Tool[..., Any]] = {}  # all that calls have added here
        self._notes: dict[str, dict[str, Any]] = {}  # of the calls of the step
        self._lock = Lock()  # they may run in threads
        self.added = dict.fromkeys(() if suspended is None else suspended.added_tools)
        self._before = () if suspended is None else suspended.known_tools
        self._turn: Turn | None = None  # the last one
        self._model: str | None = None  # that has answered the function that is asked first
        self._is_late = False  # the model is told of a change a step later
        self._shown: dict[str, JSON] | None = None  # what the model knows, by the messages and the list
        self._knows_texts = False

    def join(
        self,
        run: AgentLoop,
        history: RunHistory,
        conversation: Any,
        maker: PipelineMaker,
        carrying: Carrying,
        check: Callable[[Sequence[Any]], CheckedOptions],
    ) -> None:
        self._run, self._history, self._conversation, self._maker = run, history, conversation, maker
        self._carrying, self._check = carrying, check
        if self._function is None:
            self._here = _listed(conversation.tools)
            self._listed = tuple(one for one in self._here if one not in self._own)
            self._begin(conversation.tools)

    def placed(self, given: Any, known: Any, tools: Sequence[Any]) -> Mapping[str, Executor]:
        """Returns where tools run: those of the beginning as is known, others as the word says that was given."""
        names, own = {one.name for one in _listed(tools)}, {one.name for one in self._own}
        placed: Mapping[str, Any]
        placed = {} if given is None else given if isinstance(given, Mapping) else dict.fromkeys(names - own, given)
        placed = {**placed, **(known if isinstance(known, Mapping) else {})}
        return {name: one for name, one in placed.items() if name in names}

    # -- a source of steps, which has none itself --

    async def begin(self, run: RunView) -> None:
        """Does nothing: it asks before each step."""

    def peek(self) -> bool:
        return False

    async def next(self, request: StepRequest) -> StepPlan | RunOutcome | None:
        history = self._history
        # Where no message of ours may stand, the tools stay as they are: a paused answer goes back to be continued.
        if self._here and (history.takes_results_alone or history.standing or self._is_paused(request)):
            return None
        here = self._in_order(await self._now())
        if here != self._here or self._shown is None or self._is_late:
            exported = self._export(here)
            checked = self._check(exported)
            if not self._knows_texts and has_policy(checked.policy, checked.tools):
                self._knows_texts = True
                know(self._run.trajectory, history.messages(), checked, history.wire)
            self._here, was = here, self._conversation.tools
            self._conversation.tools = exported
            self._maker.use(checked)
            if self._shown is None:
                self._begin(exported)
            else:
                self._is_late = False
                self._tell(exported, was)
        return None

    def _is_paused(self, request: StepRequest) -> bool:
        finish = None if self._turn is None else self._turn.finish  # what was said is not known yet if it is on record
        return self._form is not None and not request.said and finish is not None and FINISHES[finish].goes_on

    async def ended(self, turn: Turn) -> RunOutcome | None:
        self._turn = turn
        if turn.model is not None and self._carrying.asked == 0:
            self._model = turn.model
        for seen in turn.observations:
            self.added |= dict.fromkeys((seen.notes or {}).get(_NOTE, ()))
        with self._lock:
            self._notes.clear()
        return None

    async def leave(self, outcome: RunOutcome) -> None:
        """Does nothing: there is nothing to give back."""

    def ticket(self, suspended: Suspended) -> Suspended:
        return replace(suspended, added_tools=tuple(self.added), known_tools=tuple(self._shown or ()))

    # -- which there are --

    async def _now(self) -> Listed:
        listed = self._listed
        if self._function is not None:
            found = self._function(self._run)
            listed = _brought(await found if isawaitable(found) else found)
        names = {one.name for one in (*listed, *self._own)}
        if len(names) < len(listed) + len(self._own):
            Toolset((*listed, *self._own))  # refuses them
        missing = [name for name in self.added if name not in names and name not in self._made]
        if missing:
            raise ToolDefinitionError(
                f"the calls of this run have added the tools {', '.join(map(repr, missing))}, which are not here since "
                "the run went on in another place; let tools= be a function that finds them again: "
                "def tools(run): return [search, *(CATALOG[name] for name in run.added_tools)]",
                tool=missing[0],
            )
        return (*listed, *self._own, *(self._made[name] for name in self.added if name not in names))

    def _in_order(self, tools: Listed) -> Listed:
        """Those that the model knows come first, as it knows them."""
        known = {one.name: at for at, one in enumerate(self._here)}
        return tuple(sorted(tools, key=lambda one: known.get(one.name, len(known))))

    def serve(self, call: Invocation) -> dict[str, Callable[..., Any]]:
        with self._lock:
            self._notes[call.call_id] = call.notes
        return {_NOTE: partial(self._add, call.notes)}

    def _add(self, notes: dict[str, Any], *given: Any) -> None:
        if self._are_exported:
            raise ToolError("add_tools: the tools of this run were exported already; pass tools= the tools themselves")
        with self._lock:
            try:
                tools = _brought(given)
                waiting = [self._made[name] for one in self._notes.values() for name in one.get(_NOTE, ())]
                there = {one.name: one for one in (*waiting, *self._here)}
                for one in tools:
                    if there.setdefault(one.name, one).fn is not one.fn:
                        raise refuse(one.name, "another tool has this name; pass tool(..., name='...')")
                self._check(self._export(self._in_order(tuple(there.values()))))
            except (ExportError, ToolDefinitionError, TypeError, ValueError) as error:
                raise ToolError(f"add_tools: {error}") from error
            here = {one.name for one in self._here}
            new = {one.name: one for one in tools if one.name not in here}
            self._made |= new
            if names := [*dict.fromkeys((*notes.get(_NOTE, ()), *new))]:
                notes[_NOTE] = names

    # -- what requests say --

    @property
    def _form(self) -> ToolChanges | None:
        return self._history.wire.tool_changes if isinstance(self._conversation.tools, Exports) else None

    def _begin(self, exported: Any) -> None:
        """Begins with what the history says of changes before; if its list can not be known again, with a new one."""
        form, now = self._form, self._by_name(exported)
        changes = [_changed(form, one) for one in self._history.messages()]
        before = dict.fromkeys(self._before or now)
        self._shown, then = {name: now.get(name, {}) for name in before}, dict[str, JSON]()
        is_known = True
        for new, gone in filter(None, changes):
            is_known &= all(name in now or name in then for name in gone)  # else the list had it, and nobody has it now
            then |= {_name(one): one for one in new}
            then = {name: one for name, one in then.items() if name not in gone}
        if form is None or not any(changes):
            self._tell(exported)
            return
        if not is_known or not before.keys() <= now.keys() | then.keys() or not self._sends(form):
            self._list_anew(form)
            self._tell(exported)
            self._shown = now
            return
        self._append(form, [one for one in exported.payloads if _name(one) in before.keys() - then.keys()], ())
        self._shown = {name: one for name, one in self._shown.items() if name not in then} | then
        # Nothing may stand behind work of the provider's that waits, or a paused answer.
        last = self._history.messages()[-1]
        is_paused = isinstance(last, Mapping) and last.get("role") == "assistant"
        self._is_late = is_paused or self._history.takes_results_alone
        if not self._is_late:
            self._tell(exported)

    def _tell(self, exported: Any, listed: Any = None) -> None:
        """Tells the model of tools that it does not know as they are now; `listed`: those of the request before."""
        form, now, shown = self._form, self._by_name(exported), self._shown or {}
        new = {name: one for name, one in now.items() if shown.get(name) != one}
        gone = [name for name in shown if name not in now]
        if not new and not gone:
            return
        if form is not None and self._takes(form) and (form.changes or new.keys().isdisjoint(shown)):
            base = self._conversation.payloads or ([] if listed is None else listed.payloads)
            if base:  # the models are known to take it behind a list that has tools
                self._append(form, base, form.render([*new.values()], gone))
                self._shown = now if form.changes else shown | now
                return
        self._list_anew(form)
        self._warn(form, [*new], gone)
        self._shown = now

    def _by_name(self, exported: Any) -> dict[str, JSON]:
        if self._form is not None:
            return {_name(one): {key: one[key] for key in one if key not in _UNTOLD} for one in exported.payloads}
        if isinstance(exported, Exports):
            return {one.name: one.payload for one in exported}
        return {one.name: {"description": one.description, "schema": one.schema} for one in _listed(exported)}

    def _takes(self, form: ToolChanges) -> bool:
        has_taken = self._maker.plainly is not None
        return self._sends(form) and (has_taken if self._model is None else form.takes(self._model))

    def _sends(self, form: ToolChanges) -> bool:
        return not form.beside or self._carrying.takers[0]

    def _append(self, form: ToolChanges, listed: list[Any], messages: Sequence[JSON]) -> None:
        self._conversation.payloads, self._carrying.beside = listed, form.beside
        self._history.behind = [*messages]
        self._maker.plainly = lambda asked: (
            [one for one in asked if _changed(form, one) is None],
            self._conversation.tools.copy(),
        )

    def _list_anew(self, form: ToolChanges | None) -> None:
        if form is not None:
            self._conversation.payloads = None
            if not self._carrying.is_chained:  # else the provider has kept them
                self._history.leave_out(lambda one: _changed(form, one) is not None)
            self._maker.plainly, self._carrying.beside = None, {}

    def _warn(self, form: ToolChanges | None, new: Sequence[str], gone: Sequence[str]) -> None:
        if self._turn is None and not self._before:
            return
        wire = self._history.wire
        said = [f"{what} {', '.join(names)}" for what, names in (("new:", new), ("gone:", gone)) if names]
        count = None if self._turn is None or self._turn.usage is None else self._turn.usage.input_tokens
        tokens = "all tokens" if count is None else f"up to {count} tokens"
        text = f"{'; '.join(said)}. {wire.name} has tools before the messages, so {tokens} are read anew"
        if self._model is not None:
            text += f" by {self._model}"
            text += ", which refuses thinking behind a change" if wire.rules.binds(self._model) else ""
            if form is not None and form.takes(self._model) and not self._sends(form):
                text += "; a request of ask(messages, tools, carry) would append the change, and keep them"
        self._maker.warnings.append(StreamWarning("tools_changed", text))


def _listed(tools: Any) -> Listed:
    """Raises a `TypeError` for what is no list of tools, a `ToolDefinitionError` for what is no tool."""
    return tuple(one for one in toolset_of(tools).values() if one is not None)


def _brought(tools: Any) -> Listed:
    listed = _listed(tools)
    for one in listed:
        if one.background:
            raise refuse(one.name, "background=True is for tools of the list that the run begins with")
    return listed


def _changed(form: ToolChanges | None, message: Any) -> tuple[Sequence[JSON], Sequence[str]] | None:
    return None if form is None or not isinstance(message, Mapping) else form.read(message)


def _name(payload: JSON) -> str:
    return str(payload.get("name") or payload.get("type"))
