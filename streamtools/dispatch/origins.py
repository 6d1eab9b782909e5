"""Judges calls by the origins of their arguments, for `policy=`: the texts of the run are kept as they come.

Theory of operation. The index belongs to the run, so that no later step and no shortened history loses it. Results join
it when they are observed; texts are only queued then, and indexed when a call is to be judged, in the call's own task,
which gives way after each block. A call whose run is not known here (`resume` in another process) keeps the findings
that it was suspended with, and is asked about as every resumed call is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from anyio.lowlevel import checkpoint

from ..errors import CallDenied, ToolFailed
from ..events import Event, Observation, ProviderItem, StreamStart
from ..limits import Limits
from ..parts import Finding
from ..provenance.history import add_item, add_request, add_result
from ..provenance.index import Index, Origin
from ..provenance.policies import Policy, findings
from ..text import class_name
from ..tools import Tool, Toolset
from ..tools.options import AnyPolicy, policies_of
from ..wires import Wire
from .approval import denied, resolution
from .states import Call, Ending, LongResults


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


def trusts(tools: Toolset) -> Callable[[str | None], bool]:
    """Returns a function that says whether the results of a tool are trusted, by its name."""
    return lambda name: name is not None and (tool := tools.get(name)) is not None and tool.trusted


def origins_of(
    policy: Any,
    tools: Toolset,
    index: Index | None,
    limits: Limits,
    *,
    request: Mapping[str, Any] | None = None,
    wire: Wire | str | None = None,
    kept: Mapping[str, tuple[Finding, ...]] | None = None,
) -> tuple[Index | None, Origins | None]:
    """Returns the index of the run, and the origins for one of its steps; nothing if no tool has a policy. `kept` are
    the findings that calls were suspended with; their run need not be known.

    Raises:
        TypeError: the history is not known, or the pipeline's `policy` is none.
        ValueError: the pipeline's names an argument that no tool has.
    """
    policies = _policies(policy, tools)
    if not policies:
        return index, None
    if index is None and request is None and kept is None:
        raise TypeError(
            f"policy= of {min(policies)} needs what the model has read: use agent_loop(...), or give the messages of "
            'the request to the pipeline: request={"messages": messages}; run_calls wants the trajectory of such a step'
        )
    if index is None and request is not None:
        index = Index(limits.max_indexed_bytes)
    if index is not None and not index.reads_requests:
        request = None  # the run adds its messages itself
    return index, Origins(index, policies, tools, request=request, wire=wire, kept=kept)


class Origins:
    """The origins of the texts of a run, for the calls of one step.

    Args:
        index: the texts of the run; None if they are not known.
        policies: those of each tool, by the name that the model calls.
        wire: that of the request; None: the one that the stream turns out to speak.
        kept: the findings that calls were suspended with.
    """

    def __init__(
        self,
        index: Index | None,
        policies: Mapping[str, tuple[AnyPolicy, ...]],
        tools: Toolset,
        *,
        request: Mapping[str, Any] | None = None,
        wire: Wire | str | None = None,
        kept: Mapping[str, tuple[Finding, ...]] | None = None,
    ) -> None:
        self._index = index
        self._policies = policies
        self._tools = tools
        self._names = {*tools, *(tool.name for tool in tools.values() if tool is not None)}
        self._request = request
        self._kept = kept or {}
        self._schemas: dict[str, dict[str, Any]] = {}  # a tool's own is a copy
        self._wire = wire
        self.offloads: LongResults | None = None
        """Knows the texts of long results, if the run keeps some."""

    def has_policy(self, tool: str) -> bool:
        """Returns whether calls of a tool are judged here."""
        return tool in self._policies

    def listeners(self) -> dict[type[Event], Callable[[Any], None]]:
        """Returns the method that takes an event which has been emitted, by the event's type."""
        if self._index is None:
            return {}
        return {StreamStart: self._started, ProviderItem: self._item, Observation: self._observed}

    def _started(self, event: StreamStart) -> None:
        self._wire = self._wire or event.wire

    def _item(self, event: ProviderItem) -> None:
        assert self._index is not None, "else nothing is listened to"
        add_item(self._index, {"type": event.type, **event.raw})

    def _observed(self, event: Observation) -> None:
        assert self._index is not None, "else nothing is listened to"
        known = None if self.offloads is None else self.offloads.origin_of(event)
        if known is not None and known[1] != event.tool_name:  # a piece: it is the other tool's, and asked with nothing
            self._index.add(Origin("result", *known[1:]), known[0])
            return
        tool = self._tools.get(event.tool_name) or next(
            (one for one in self._tools.values() if one is not None and one.name == event.tool_name), None
        )
        # An error may repeat the arguments in any words; those of a call that did not run are not known.
        trusted = tool is not None and tool.trusted and event.outcome == "ok" and event.validated_args is not None
        origin = Origin("result", event.tool_name, event.call_id, trusted)
        text = event.model_content if known is None else known[0]
        add_result(self._index, event.result, text, origin, event.validated_args)

    def is_behind(self, call: Call) -> bool:
        """Returns whether texts have to be indexed before a call can be judged."""
        if self._index is None or call.call.name not in self._policies:
            return False
        return self._request is not None or self._index.is_behind

    async def catch_up(self) -> None:
        """Indexes all texts, and gives way after each block."""
        index = self._index
        assert index is not None, "else it is not behind"
        if (request := self._request) is not None:
            self._request = None
            try:
                add_request(index, request, self._wire or "", trusts(self._tools))
            except Exception:  # the history of a wire that is not known, or no history
                index.is_partial = True
        while index.is_behind:
            index.work()
            await checkpoint()

    def judge(self, call: Call) -> Ending | None:
        """Notes what is known of the origins of a call's arguments, and whether somebody is to be asked; returns the
        ending of a call that is denied. Raises `ToolFailed` if a policy that is a function raised, or returned no
        verdict."""
        policies = self._policies.get(call.call.name, ())
        if not policies:
            return None
        call.findings = self._findings(call, policies)
        if self._index is None:  # what was found then is shown, and somebody decides
            call.findings, call.gated = self._kept.get(call.call.call_id) or call.findings, True
            return None
        for policy in policies:
            ending = self._apply(policy, call)
            if ending is not None:
                return ending
        return None

    def _findings(self, call: Call, policies: tuple[AnyPolicy, ...]) -> tuple[Finding, ...]:
        tool, bound = call.ready
        given = call.refined
        if given is None:
            given = self._tools.decode(call.call.name, call.call.arguments or {})
        taken = bound.by_name
        if tool.schema_source == "typed_model":
            taken = {name: value for name in given if (value := _of_model(tool, call, name)) is not None}
        named = [one.names for one in policies if isinstance(one, Policy)]
        whole = len(named) < len(policies) or not all(named)
        names = list(given) if whole else list(dict.fromkeys(name for names in named for name in names))
        if tool.name not in self._schemas:
            self._schemas[tool.name] = tool.schema
        return findings(self._index, given, taken, self._schemas[tool.name], names, self._names)

    def _apply(self, policy: AnyPolicy, call: Call) -> Ending | None:
        name = call.ready[0].name
        try:
            decided = resolution(policy(call.findings))
        except Exception as error:
            raise ToolFailed(f"not run: the policy of {name} raised {class_name(error)}") from error
        call.gated = call.gated or decided is None
        if decided is None or decided.approved:
            return None
        if not isinstance(policy, Policy):
            return denied(decided)
        why = "; ".join(map(str, islice(filter(policy.is_against, call.findings), 3)))
        return Ending("denied", CallDenied(f"not run: {why}. The policy of {name} denies that"))


def _of_model(tool: Tool, call: Call, name: str) -> Any:
    try:
        return tool.argument(call.ready[1], name)
    except (KeyError, AttributeError):  # an alias
        return None
