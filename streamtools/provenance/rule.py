"""The rule of ``policy=``: judges calls by the origins of their arguments.

The index belongs to the run, so that shortening the history loses nothing. Texts are queued when they come, and indexed
when a call is judged, in the call's own task, which yields after each block. A call whose run is not known here
(`resume` in another process) keeps the findings with which it was suspended, and needs approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Any

from anyio.lowlevel import checkpoint

from ..errors import CallDenied, ToolFailed, contained
from ..events import Event, MessageAdded, Observation, ProviderItem, StepEnd
from ..ground import class_name
from ..limits import Limits
from ..parts import Finding
from ..seams import Allow, Ask, ReadyCall, Refuse, StepView, Verdict
from ..seams.desk import read_verdict
from ..tools import AnyPolicy, Toolset
from ..tools.options import policies_of
from ..wires import Wire
from .history import add_item, add_request, add_result, add_said
from .index import Index, Origin
from .policies import Policy, findings


def _policies(policy: Any, tools: Toolset) -> Mapping[str, tuple[AnyPolicy, ...]]:
    """Returns the policies of each tool that has any: its own, and that of the pipeline where it names an argument.
    Raises a `TypeError` if that is no policy, a `ValueError` if it names an argument that no tool has."""
    shared = policies_of(policy)
    found: dict[str, tuple[AnyPolicy, ...]] = {}
    unused = {name for one in shared if isinstance(one, Policy) for name in one.names}
    for one in shared:
        if not callable(one):
            kind = type(one).__name__
            raise TypeError(f"policy: expected untrusted(...), only_from_user(...) or a function, got {kind}")
    for name, tool in tools.items():
        if tool is None:
            continue
        arguments = tool.schema.get("properties") or {}
        unused.difference_update(arguments)
        applies = (
            one
            for one in shared
            if not isinstance(one, Policy) or not one.names or not set(one.names).isdisjoint(arguments)
        )
        if policies := (*policies_of(tool.policy), *applies):
            found[name] = policies
    if unused:
        raise ValueError(f"policy: expected names of arguments, got {', '.join(sorted(unused))}, which no tool has")
    return found


def _trusts(tools: Toolset) -> Callable[[str | None], bool]:
    return lambda name: name is not None and (tool := tools.get(name)) is not None and tool.trusted


def begin_run(
    kept: dict[type, Any], policy: Any, messages: Sequence[Any], tools: Toolset, wire: Wire | str, limits: Limits
) -> None:
    """Keeps the texts of a run that adds its own messages: it begins with these. Raises as `rule_of` does."""
    _policies(policy, tools)
    index = kept.setdefault(Index, Index(limits.max_indexed_bytes))
    index.reads_requests = False
    add_request(index, {"messages": messages}, wire, _trusts(tools))


def rule_of(
    policy: Any,
    tools: Toolset,
    kept: dict[type, Any],
    limits: Limits,
    *,
    request: Mapping[str, Any] | None = None,
    asks_model: bool = True,
    is_known: bool = False,
) -> Provenance | None:
    """Returns nothing if no tool has a policy. `kept` has the texts of the run, where there are some; else its
    `request` has them, unless `is_known`: its calls were judged before. Raises a `TypeError` if the history is not
    known, or `policy` is none; a `ValueError` if it names an argument that no tool has."""
    policies = _policies(policy, tools)
    if not policies:
        return None
    index: Index | None = kept.get(Index)
    if asks_model and request is None and index is not None and index.reads_requests:
        index = None  # what was said since then is not known
        del kept[Index]
    if index is None and request is None and not is_known:
        raise TypeError(
            f"policy= of {min(policies)} needs the messages that the model has read: use agent_loop(...), or pass "
            'them to the pipeline: request={"messages": messages}; pass the trajectory of such a step to run_calls'
        )
    if index is None and request is not None:
        index = kept[Index] = Index(limits.max_indexed_bytes)
    return Provenance(index, policies, tools)


class Provenance:
    """Knows the origins of the texts of a run; without an `index` they are not known."""

    def __init__(self, index: Index | None, policies: Mapping[str, tuple[AnyPolicy, ...]], tools: Toolset) -> None:
        self._index = index
        self._policies = policies
        self._tools = tools
        self._names = {*tools, *(tool.name for tool in tools.values() if tool is not None)}
        self._schemas: dict[str, dict[str, Any]] = {}  # a tool's own is a copy
        self._read: StepView | None = None  # the latest step of which the request was read

    def concerns(self, name: str) -> bool:
        return name in self._policies

    # -- what the model has read --

    def listeners(self, step: StepView) -> Mapping[type[Event], Callable[[Any], None]]:
        index = self._index
        if index is None:
            return {}
        listeners: dict[type[Event], Callable[[Any], None]] = {
            ProviderItem: lambda event: add_item(index, {"type": event.type, **event.raw}),
            Observation: lambda event: self._observed(event, step),
        }
        if not index.reads_requests:
            listeners[MessageAdded] = lambda event: self._add(index, {"messages": event.messages}, step, _nobody)
            listeners[StepEnd] = lambda event: add_said(index, step.parts)
        return listeners

    def _observed(self, event: Observation, step: StepView) -> None:
        assert self._index is not None, "else nothing is listened to"
        read = step.text_of(event)
        if read is not None and read.tool != event.tool_name:  # a piece: it is the other tool's, asked with nothing
            self._index.add(Origin("result", read.tool, read.call_id, read.is_trusted), read.text)
            return
        tool = self._tools.get(event.tool_name) or next(
            (one for one in self._tools.values() if one is not None and one.name == event.tool_name), None
        )
        # An error may repeat the arguments in any words; those of a call that did not run are not known.
        trusted = tool is not None and tool.trusted and event.outcome == "ok" and event.validated_args is not None
        origin = Origin("result", event.tool_name, event.call_id, trusted)
        text = event.model_content if read is None else read.text
        add_result(self._index, event.result, text, origin, event.validated_args)

    def _add(
        self, index: Index, request: Mapping[str, Any], step: StepView, trusts: Callable[[str | None], bool]
    ) -> None:
        try:
            add_request(index, request, step.wire or "", trusts)
        except Exception:  # the history of a wire that is not known, or no history
            index.is_partial = True

    async def _catch_up(self, index: Index, step: StepView) -> None:
        if self._has_to_read(index, step):
            self._read = step
            self._add(index, step.request or {}, step, _trusts(self._tools))
        while index.is_behind:
            index.work()
            await checkpoint()

    def _has_to_read(self, index: Index, step: StepView) -> bool:
        return index.reads_requests and step.request is not None and self._read is not step

    # -- judging --

    def judge(self, call: ReadyCall, step: StepView) -> Verdict | Awaitable[Verdict]:
        index = self._index
        if index is not None and (index.is_behind or self._has_to_read(index, step)):
            return self._judged_later(call, index, step)
        return self._judged(call)

    async def _judged_later(self, call: ReadyCall, index: Index, step: StepView) -> Verdict:
        await self._catch_up(index, step)
        return self._judged(call)

    def _judged(self, call: ReadyCall) -> Verdict:
        """Raises `ToolFailed` if a policy that is a function raised, or returned no verdict."""
        policies = self._policies[call.call.name]
        found = self._findings(call, policies)
        if self._index is None:  # what was found then is shown, and somebody decides
            return Ask(findings=call.findings or found)
        asks = False
        for policy in policies:
            runs, reason = self._apply(policy, found, call.name)
            if runs is False:
                return Refuse("denied", CallDenied(f"not run: {reason}"), findings=found)
            asks = asks or runs is None
        return Ask(findings=found) if asks else Allow(found)

    def _findings(self, call: ReadyCall, policies: tuple[AnyPolicy, ...]) -> tuple[Finding, ...]:
        tool, given = call.tool, call.given
        taken = call.arguments
        if tool.schema_source == "typed_model":
            taken = {name: value for name in given if (value := _of_model(call, name)) is not None}
        named = [one.names for one in policies if isinstance(one, Policy)]
        whole = len(named) < len(policies) or not all(named)
        names = list(given) if whole else list(dict.fromkeys(name for names in named for name in names))
        if tool.name not in self._schemas:
            self._schemas[tool.name] = tool.schema
        return findings(self._index, given, taken, self._schemas[tool.name], names, self._names)

    def _apply(self, policy: AnyPolicy, found: tuple[Finding, ...], tool: str) -> tuple[bool | None, str]:
        try:
            runs, reason = read_verdict(policy(found))
        except BaseException as error:
            raise ToolFailed(f"not run: the policy of {tool} raised {class_name(error)}") from contained(error)
        if runs is False and isinstance(policy, Policy):
            against = "; ".join(map(str, islice(filter(policy.is_against, found), 3)))
            return runs, f"{against}. The policy of {tool} denies such calls"
        return runs, f"the call was not approved{f': {reason}' if reason else ''}"


def _nobody(name: str | None) -> bool:
    return False


def _of_model(call: ReadyCall, name: str) -> Any:
    try:
        return call.tool.argument(call.bound, name)
    except (KeyError, AttributeError):  # an alias
        return None
