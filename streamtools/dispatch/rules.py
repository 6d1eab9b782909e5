"""Asks the rules of a run whether a call may run, and its filters what the model reads of a result.

Rules are asked in their order. Where one awaits, the rest is done in the call's own task; several calls are then judged
at once, and `Calls` lets them continue in their order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import isawaitable
from types import NoneType
from typing import Any

from ..content import ToolResult
from ..errors import ToolError, ToolFailed, contained
from ..events import Event, Observation, StreamStart, StreamWarning
from ..ground.text import class_name, type_name
from ..parts import Finding
from ..seams import Allow, Ask, CallRule, ReadText, ReadyCall, Refuse, Seams, StepView, Verdict
from ..tools import Bound, Toolset
from .endings import unstarted
from .event_loop import let_out
from .states import Call, Ending, Host


class Rules:
    """The rules and filters for the calls of one step."""

    def __init__(self, seams: Seams, tools: Toolset, host: Host) -> None:
        self._rules, self._filters = seams.rules, seams.filters
        self._tools = tools
        self._host = host
        self._step: StepView

    def begin(self, step: StepView, *, is_replayed: bool) -> Iterator[Mapping[type[Event], Callable[[Any], None]]]:
        self._step = step
        for rule in self._rules:
            listeners = getattr(rule, "listeners", None)
            if listeners is None or self._deaf(rule) is not None:
                continue
            wanted: dict[type[Event], Callable[[Any], None]]
            try:
                wanted = {kind: partial(self._hear, rule, hear) for kind, hear in listeners(step).items()}
            except BaseException as error:
                self._deafen(rule, contained(error))
                wanted = {StreamStart: partial(self._warn, rule, error)}  # no event may come before the step's own
            yield wanted
        for one in self._filters if is_replayed else ():
            restore = getattr(one, "restore", None)
            if restore is not None:
                yield {Observation: partial(self._restore, one, step)}

    def _deaf(self, rule: CallRule) -> str | None:
        """Returns the class of the error after which a rule hears no more events; None if there was none."""
        return next((name for deaf, name in self._host.counts.deaf if deaf is rule), None)

    def _hear(self, rule: CallRule, hear: Callable[[Any], None], event: Event) -> None:
        if self._deaf(rule) is None:
            try:
                hear(event)
            except BaseException as error:
                self._deafen(rule, contained(error))
                self._warn(rule, error)

    def _deafen(self, rule: CallRule, error: BaseException) -> None:
        self._host.counts.deaf.append((rule, class_name(error)))

    def _restore(self, one: Any, step: StepView, seen: Observation) -> None:
        try:
            one.restore(seen, step)
        except BaseException as error:
            self._warn(one, contained(error))

    def _warn(self, capability: object, error: BaseException, event: Event | None = None) -> None:
        if not self._host.ended:
            text = f"{type_name(capability)} raised {class_name(error)}"
            self._host.emit(StreamWarning("capability_failed", text))

    def filtered(self, seen: Observation) -> Observation:
        for one in self._filters:
            try:
                seen = _changed(seen, one.apply(seen, self._step))
            except BaseException as error:
                text = f"The result was left out: the filter {type_name(one)} raised {class_name(contained(error))}."
                return replace(seen, model_content=text, result=None)
        return seen

    def text_of(self, seen: Observation) -> ReadText | None:
        for one in self._filters:
            text_of = getattr(one, "text_of", None)
            found: ReadText | None = None if text_of is None else text_of(seen)
            if found is not None:
                return found
        return None

    def _concerned(self, name: str) -> Iterator[CallRule]:
        for rule in self._rules:
            concerns = getattr(rule, "concerns", None)
            try:
                is_concerned = concerns is None or concerns(name)
                if not isinstance(is_concerned, bool):
                    raise TypeError(f"expected True or False, got {type_name(is_concerned)}")
            except BaseException as error:
                yield _Failed(rule, class_name(contained(error)))
            else:
                if is_concerned:
                    deaf = self._deaf(rule)
                    yield rule if deaf is None else _Failed(rule, deaf)

    def concern(self, name: str) -> bool:
        return any(True for _ in self._concerned(name))

    def may_ask(self, name: str) -> bool:
        return any(not getattr(rule, "only_refuses", False) for rule in self._concerned(name))

    def judge(self, call: Call, edited: tuple[Mapping[str, Any], Bound] | None = None) -> Judging:
        """Begins to ask the rules; `edited`: about these arguments, as they were given and validated."""
        name, before = call.call.name, call.before
        rules = list(self._concerned(name))
        judging = Judging(iter(rules), self._step)
        if rules:
            tool, bound = call.ready
            given: Mapping[str, Any]
            if edited is not None:
                (given, bound), before = edited, None
            elif call.changed is not None:
                given = call.changed.plain
            else:
                given = self._tools.decode(name, call.call.arguments or {})
            judging.begin(
                ReadyCall(
                    call=call.call,
                    tool=tool,
                    given=given,
                    bound=bound,
                    is_edited=edited is not None,
                    waited=before is not None,
                    findings=() if before is None else before.findings,
                    read_shown=lambda: call.fingerprint,
                )
            )
        return judging


@dataclass(slots=True, eq=False)
class _Failed:
    """Stands for a rule that could not say whether a call concerns it, or has missed an event: the call fails."""

    rule: CallRule
    error: str  # its class

    def judge(self, call: ReadyCall, step: StepView, /) -> Verdict:
        raise ToolFailed(f"not run: the rule {type_name(self.rule)} raised {self.error}")


def _changed(seen: Observation, found: Any) -> Observation:
    """Returns an observation with what a filter may change: the text and the result that the model reads."""
    if not isinstance(found, Observation):
        raise TypeError(f"expected an Observation, got {type_name(found)}")
    if found is seen:
        return seen
    if not isinstance(found.model_content, str) or not isinstance(found.result, (ToolResult, NoneType)):
        raise TypeError("expected model_content as a str, and result as a ToolResult or None")
    return replace(seen, model_content=found.model_content, result=found.result)


@dataclass(slots=True, eq=False)
class Judging:
    _rules: Iterator[CallRule]
    _step: StepView
    _call: ReadyCall = field(init=False)
    refused: Ending | None = None
    findings: tuple[Finding, ...] = ()
    needs: int = 0  # how many people have to approve; 0: none, as far as the rules are concerned
    _rule: CallRule | None = None  # the one that is awaited
    _awaited: Awaitable[Verdict] | None = None

    @property
    def is_done(self) -> bool:
        return self._awaited is None

    def begin(self, call: ReadyCall) -> None:
        self._call = call
        self._go_on()

    def _go_on(self) -> None:
        for rule in self._rules if self.refused is None else ():
            try:
                verdict = rule.judge(self._call, self._step)
                if isawaitable(verdict):
                    self._rule, self._awaited = rule, verdict
                    return
                self._take(verdict)
            except BaseException as error:
                self._fail(rule, contained(error))
            if self.refused is not None:
                return

    def _take(self, verdict: Verdict) -> None:
        match verdict:
            case Allow():
                pass
            case Ask():
                self.needs = max(self.needs, verdict.approvals)
            case Refuse():
                self.refused = Ending(verdict.outcome, verdict.error)
            case _:
                raise TypeError(f"expected Allow, Ask or Refuse, got {type_name(verdict)}")
        self.findings += verdict.findings

    def _fail(self, rule: CallRule, error: BaseException) -> None:
        if not isinstance(error, ToolError):
            failed = ToolFailed(f"not run: the rule {type_name(rule)} raised {class_name(error)}")
            failed.__cause__ = error
            error = failed
        self.refused = Ending("failed", error)

    async def finish(self) -> None:
        while self._awaited is not None:
            rule, awaited = self._rule, self._awaited
            assert rule is not None, "it is awaited"
            try:
                verdict = await awaited
                self._awaited = None
                self._take(verdict)
            except BaseException as error:
                let_out(error)
                self._awaited = None
                self._fail(rule, error)
            self._go_on()

    def drop(self) -> None:
        close = getattr(self._awaited, "close", None)
        self._awaited = None
        self.refused = unstarted(None)
        if close is not None:
            close()
