"""Turns events into events: the steps between a wire's output and a call that may run.

A stage is two methods, `feed(event)` and `finish()`, each returning any number of events; a chain is a list and a
loop. Stages are plain objects without clock, loop or task, so a chain can be driven, tested and replayed anywhere.

    accumulate   fragments of calls → one call each (identity, names, order)
    finalize     a call's text → its arguments, verbatim or losslessly normalised, or the reason why it has none
    validate     arguments → typed arguments, by the tool's own schema

Two more can be inserted before ``accumulate``:

    split_think  reasoning between tags in the text → reasoning
    text_calls   calls in the text, in the dialect of the model → fragments of calls
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

from ..errors import StreamError
from ..events import Event, EventBase, ToolCallDelta, ToolCallEnd, ToolCallFragment, ToolCallValidated
from ..ground.on_demand import names
from ..limits import Limits
from ..tools import Toolset
from .accumulate import Accumulate, OnClose
from .arguments import Checked, Deferred, Finalize, Validate, arguments_of

if TYPE_CHECKING:  # most streams have calls of their own, and no type for their answer
    from ..text_calls import AUTO, DIALECTS, split_think, text_calls
    from .output import OutputType, TypedOutput
else:
    __getattr__ = names(
        __name__, {"output": "OutputType TypedOutput", ".text_calls": "AUTO DIALECTS split_think text_calls"}
    )

__all__ = [
    "AUTO", "DEFAULT", "DIALECTS", "Chain", "Deferred", "OutputType", "Stage", "StageList", "StageRecipe",
    "TypedOutput", "arguments_of", "split_think", "text_calls",
]  # fmt: skip


class Stage(Protocol):
    """One step of a chain. A class that wants only some events may name them in a `handles` set; all others then bypass
    it."""

    def feed(self, event: Event, /) -> Iterable[Event | Deferred]:
        """Takes one event; returns the events to pass on (the same one, others, or none), or work that has to be done
        first."""
        ...

    def finish(self) -> Iterable[Event]:
        """Ends the stream; returns the events that were held back."""
        ...


class Chain:
    """Runs several stages in a row, as one stage."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self._stages = tuple(stages)
        # For each position, by the type of event: the next stage that wants it. Filled as types are met, and shared by
        # all chains whose stages want the same.
        self._handles = tuple([getattr(stage, "handles", None) for stage in self._stages])
        # The table of a mutable collection is not shared: it need not fit another chain.
        is_shared = _UNCHANGING.issuperset(map(type, self._handles))
        self._wanted = (_wanted_by if is_shared else _wanted_by.__wrapped__)(self._handles)
        self.deferred: Deferred | None = None
        """The work to do before anything else comes out; give its result to `resume`. None if there is none."""
        self.failed_at = 0
        """The position of the stage that last raised a `StreamError`."""
        self._resume_at = 0  # the position after the stage that deferred the work
        self._held: deque[tuple[Event | None, int]] = deque()  # events waiting for it; None: the stage's own end

    def passes(self, kind: type[Event]) -> bool:
        """Returns whether events of this type pass through unchanged, so that you need not feed them."""
        return self._next(kind, 0) == len(self._stages)

    def grower(self, fragment: ToolCallFragment) -> Callable[[Any], Event | None] | None:
        """Returns a function that makes the event for more arguments of this fragment's call, as the chain would; it
        returns None for anything but a text within the limits. Returns None if a stage other than `accumulate` wants
        such events, or if the call does not just grow. Use the function until you feed the chain again."""
        end = len(self._stages)
        at = self._next(ToolCallFragment, 0)
        stage = self._stages[at] if at < end else None
        if type(stage) is not Accumulate or self.deferred is not None:
            return None
        return stage.grower(fragment) if self._next(ToolCallDelta, at + 1) == end else None

    def watch(self, watch: OnClose, known: Mapping[str, Checked]) -> None:
        """Tells `watch` about arguments whose object has closed, and takes those in `known` as checked. Does so only if
        the chain `is_plain`: another stage may want to change the arguments."""
        if self.is_plain:
            at = self._next(ToolCallFragment, 0)
            accumulate, finalize, validate = self._stages[at : at + 3]
            finalize.known = validate.known = known  # type: ignore[attr-defined]
            accumulate.begin_watch(watch)  # type: ignore[attr-defined]

    @property
    def is_plain(self) -> bool:
        """True if only the built-in checks follow `accumulate`, so that the arguments are those that came."""
        at, end = self._next(ToolCallFragment, 0), len(self._stages)
        return tuple(map(type, self._stages[at : at + 3])) == (Accumulate, Finalize, Validate) and all(
            self._next(kind, at + 3) == end for kind in (ToolCallDelta, ToolCallEnd, ToolCallValidated)
        )

    def feed(self, event: Event) -> list[Event]:
        """Takes one event; returns the events that come out at the end."""
        out: list[Event] = []
        self.feed_all((event,), out)
        return out

    def finish(self) -> list[Event]:
        """Finishes each stage in turn; its remaining events go through the stages after it."""
        out: list[Event] = []
        for position in range(len(self._stages)):
            self._finish(position, out)
        return out

    def resume(self, made: Iterable[Event]) -> list[Event]:
        """Continues after the deferred work; returns the events that come out, until a stage defers again.

        Args:
            made: the events that the work returned.
        """
        out: list[Event] = []
        self.resume_all(made, out)
        return out

    def resume_all(self, made: Iterable[Event], out: list[Event]) -> None:
        """Continues like `resume`; appends the events that come out to `out`."""
        held, self._held = self._held, deque()
        held.extendleft([(event, self._resume_at) for event in made][::-1])
        self.deferred = None
        while held:
            event, position = held.popleft()
            if event is None:
                self._finish(position, out)
            else:
                self.feed_all((event,), out, position)
            if self.deferred is not None:
                self._held.extend(held)
                break

    def _finish(self, position: int, out: list[Event]) -> None:
        if self.deferred is not None:
            self._held.append((None, position))
            return
        last = self._stages[position].finish()
        if last != ():  # nearly always ()
            try:
                self.feed_all(last, out, position + 1)
            except TypeError:
                self._check_iterable(last, position, "finish")
                raise

    def feed_all(self, events: Iterable[Event | Deferred], out: list[Event], position: int = 0) -> None:
        """Takes several events, through the stages from `position` on; appends those that come out to `out`."""
        stages, wanted = self._stages, self._wanted[position]
        for event in events:
            if isinstance(event, Deferred):
                self.deferred, self._resume_at = event, position
                continue
            if self.deferred is not None:
                self._held.append((event, position))
                continue
            wanted_by = wanted.get(type(event))
            if wanted_by is None:
                wanted_by = self._next(type(event), position)
            if wanted_by == len(stages):
                out.append(event)
                continue
            try:
                fed = stages[wanted_by].feed(event)
            except StreamError:
                self.failed_at = wanted_by
                raise
            if fed == ():
                continue
            try:
                self.feed_all(fed, out, wanted_by + 1)  # the events that it has returned come first
            except TypeError:
                self._check_iterable(fed, wanted_by, "feed")
                raise

    def _check_iterable(self, made: object, position: int, method: str) -> None:
        if not isinstance(made, Iterable):
            name, kind = type(self._stages[position]).__name__, type(made).__name__
            raise TypeError(
                f"{name}.{method}() returned {kind}; a stage's {method}() returns a list of events, or yields them, "
                "and is not async"
            ) from None

    def _next(self, kind: type[Event], position: int) -> int:
        """Returns the position of the next stage that wants events of this type; the number of stages if none does."""
        found = self._wanted[position].get(kind)
        if found is not None:
            return found
        if not issubclass(kind, EventBase):
            raise TypeError(
                f"a stage returned {kind.__name__} among its events; feed() and finish() may return only events"
            )
        end = len(self._stages)
        wanting = [n for n, handles in enumerate(self._handles) if handles is None or kind in handles]
        found = self._wanted[position][kind] = next((n for n in wanting if n >= position), end)
        return found


_UNCHANGING = {frozenset, type(None)}


@lru_cache(maxsize=64)
def _wanted_by(handles: tuple[Collection[type[Event]] | None, ...]) -> tuple[dict[type[Event], int], ...]:
    return tuple([{} for _ in range(len(handles) + 1)])


class StageRecipe(Protocol):
    """Makes a stage that needs the stream's tools or limits. Pass one wherever a stage is accepted.

    If it has a `name`, the stage has that name in the list. If it has a `before`, it must stand before the stage of
    that name. A `StageList` is also a recipe, for several stages at once.
    """

    def build(self, tools: Toolset, limits: Limits, id_salt: str, /) -> Stage:
        """Makes the stage for one stream.

        Args:
            tools: the registered tools.
            limits: the stream's bounds.
            id_salt: makes this stream's generated ids differ from another's.
        """
        ...


StageSource: TypeAlias = "Stage | StageRecipe | Callable[[], Stage]"
StageFactory: TypeAlias = "Callable[[Toolset, Limits, str], Stage]"


class _Entry(NamedTuple):
    name: str
    make: StageFactory
    before: str | None = None  # name of the stage that it has to precede


class StageList:
    """An immutable recipe for a chain: named stages, made anew for every stream.

    `DEFAULT` is one; change it by name, and pass the result to `pipeline`:

    >>> class Redact:
    ...     def feed(self, event): return [event]
    ...     def finish(self): return []
    >>> DEFAULT.insert_after("finalize", Redact)
    StageList(accumulate, finalize, Redact, validate)

    Or list all of its stages in the order that you want, those of `DEFAULT` by name:

    >>> StageList(["accumulate", Redact, "finalize", "validate"])
    StageList(accumulate, Redact, finalize, validate)

    A stage is a class or another callable without parameters, or a `StageRecipe` if it needs the tools or the limits.
    You can also pass an instance, but it keeps its state from one stream to the next. A pair gives a stage another
    name: ``(name, recipe.build)``.
    """

    def __init__(self, stages: Iterable[_Entry | str | StageSource | tuple[str, StageFactory]]) -> None:
        if isinstance(stages, str):
            raise TypeError(f"StageList takes a list of stages; write StageList([{stages!r}])")
        self._stages = tuple(map(_entry, stages))
        passed: set[str] = set()
        for entry in self._stages:
            if entry.before in passed:
                raise ValueError(
                    f"the stage {entry.name!r} makes what {entry.before!r} takes, but stands after it; "
                    f'insert it with insert_before("{entry.before}", ...)'
                )
            passed.add(entry.name)

    def insert_before(self, name: str, stage: StageSource) -> StageList:
        """Returns this list with `stage` inserted before the one called `name`."""
        at = self._position(name)
        return StageList([*self._stages[:at], _named(stage), *self._stages[at:]])

    def insert_after(self, name: str, stage: StageSource) -> StageList:
        """Returns this list with `stage` inserted after the one called `name`."""
        at = self._position(name) + 1
        return StageList([*self._stages[:at], _named(stage), *self._stages[at:]])

    def append(self, stage: StageSource) -> StageList:
        """Returns this list with `stage` at the end."""
        return StageList([*self._stages, _named(stage)])

    def without(self, name: str) -> StageList:
        """Returns this list without the stage called `name`."""
        at = self._position(name)
        return StageList([*self._stages[:at], *self._stages[at + 1 :]])

    def build(self, tools: Toolset, limits: Limits, id_salt: str = "", *, defer: bool = False) -> Chain:
        """Makes a fresh chain for one stream.

        Args:
            tools: the registered tools.
            limits: the stream's bounds.
            id_salt: becomes part of the call ids that have to be generated.
            defer: defer large calls (`Chain.deferred`) instead of checking them at once.
        """
        stages: list[Any] = []
        for entry in self._stages:
            stage: Any = entry.make(tools, limits, id_salt)
            kind = type(stage)
            if kind is Validate:
                stage.follows_finalize = bool(stages) and type(stages[-1]) is Finalize
            if kind is Validate or kind is Finalize:
                stage.may_defer = defer
            elif kind is not Accumulate:
                feeds = callable(getattr(stage, "feed", None))
                if not feeds or not callable(getattr(stage, "finish", None)):
                    lacking = f"{kind.__name__} has no {'finish' if feeds else 'feed'}()"
                    raise TypeError(f"stage {entry.name!r}: {lacking}; a stage has both feed() and finish()")
                if hasattr(stage, "may_defer"):
                    stage.may_defer = defer
            stages.append(stage)
        return Chain(stages)

    @property
    def before(self) -> str | None:
        """The stage that this list must stand before when you insert it into another list; None if there is none."""
        return next((entry.before for entry in self._stages if entry.before and entry.before not in self), None)

    def __iter__(self) -> Iterator[str]:
        return (entry.name for entry in self._stages)

    def __repr__(self) -> str:
        return f"StageList({', '.join(self)})"

    def _position(self, name: str) -> int:
        for position, entry in enumerate(self._stages):
            if entry.name == name:
                return position
        raise ValueError(f"no stage called {name!r}; there are: {', '.join(self)}")


def _entry(part: Any) -> _Entry:
    if isinstance(part, _Entry):
        return part
    if isinstance(part, str):
        return DEFAULT._stages[DEFAULT._position(part)]
    if not isinstance(part, tuple):
        return _named(part)
    if len(part) != 2 or not isinstance(part[0], str) or not callable(part[1]):
        raise TypeError("a pair in StageList is (name, factory), where factory(tools, limits, id_salt) makes the stage")
    return _Entry(*part)


def _named(stage: StageSource) -> _Entry:
    given: Any = stage
    is_class = isinstance(stage, type)
    name: str = getattr(given, "__name__", type(given).__name__)
    if hasattr(given, "feed") and not is_class:
        return _Entry(name, lambda *_: given)
    if hasattr(given, "build") and not is_class:
        return _Entry(getattr(given, "name", name), given.build, getattr(given, "before", None))
    if not callable(stage):
        raise TypeError(f"a stage has feed() and finish(), or is a callable that makes one; not {stage!r}")
    return _Entry(name, lambda *_: given())


DEFAULT = StageList(
    [
        _Entry("accumulate", lambda tools, limits, salt: Accumulate(tools.names, limits, salt), "finalize"),
        _Entry("finalize", lambda _, limits, __: Finalize(limits), "validate"),
        ("validate", lambda tools, limits, __: Validate(tools, limits)),
    ]
)
"""The stages of every stream, in order."""
