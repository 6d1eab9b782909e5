"""Finds the reasons for which a provider would refuse a history, before it is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..parts import ToolCall
from ..wires import Wire
from ..wires.history_rules import Violation, ViolationCode
from ..wires.transcript import Entry, Prompt, Reply, id_as_read
from .appending import first_change, messages_of
from .calls import Exchange, Given, Messages, Paired, pair, role_of, shown, wire_named
from .repairing import accepts_system, is_system

_PLACE = re.compile(r"\[(\d+)\]")


def lint(
    messages: Sequence[Any] | Mapping[str, Any],
    wire: Wire | str,
    *,
    model: str | None = None,
    tools: Sequence[Any] | None = None,
    last: bool = False,
    previous: Sequence[Any] | Mapping[str, Any] | None = None,
) -> list[Violation]:
    """Returns all reasons for which a provider would refuse these messages, in the messages' order.

    `repair` removes all of them except ``last_not_user``: only you can say more.

    Args:
        messages: native messages of `wire`, as they would be sent; or the fields of the whole request, with its system
            prompt and tools.
        wire: the wire, or its name.
        model: the model's name, for what only some models of an endpoint demand.
        tools: the request's tools, to be checked too: some providers want tools declared whenever the history uses
            any.
        last: the messages will be sent as they stand: also report calls without a result at the very end, which
            otherwise count as still running, and, if *model* is given, an answer at the end that the model does not
            continue.
        previous: the previous request, as it was sent: also report the first place that differs
            (``changed_prefix``), since the provider's cache ends there, and thinking after it may be refused. Cache
            marks may differ. System prompts and tools are compared only for whole requests.

    Raises:
        ExportError: there is no such wire.
        TypeError: one of the requests has no messages.
    """
    target = wire_named(wire, model)
    if isinstance(messages, Mapping) and tools is None and target.rules.list_name in messages:
        tools = messages.get("tools") or messages.get("toolConfig") or []
    read = Messages(messages_of(messages, target.rules), target)
    paired = pair(read.entries, read.wire.rules)
    found = list(_Lint(read, paired, last=last).violations())
    if last and model is not None and read.wire.rules.answers_no_answer(model):
        found += _last_word(paired, read)
    if tools is not None and not tools:
        found += _undeclared(paired, read)
    if previous is not None:
        found += first_change(read, messages, previous, model)
    return sorted(found, key=_place)


def _last_word(paired: Paired, read: Messages) -> Iterator[Violation]:
    step = paired.steps[-1] if paired.steps else None
    if not isinstance(step, Exchange) or step.calls or step.reply.origin is None or step.reply.is_empty:
        return
    place = step.reply.origin[0]
    parts, native = step.reply.answer.parts, read.plain[place]
    # A paused turn ends with what the provider's own tools did, and is sent back as it is.
    if parts and parts[-1].kind == "text" and native.get("prefix") is not True:
        message = "the last message is the model's, and this model does not continue it"
        yield read.wire.rules.violation("last_not_user", f"{read.wire.rules.list_name}[{place}]", message)


def _undeclared(paired: Paired, read: Messages) -> Iterator[Violation]:
    text = read.wire.rules.texts.get("missing_tools")
    # Bedrock wants its `toolConfig` "when using toolUse and toolResult content blocks" (langgenius/dify#17545).
    if text is not None and any(isinstance(step, Exchange) and step.calls for step in paired.steps):
        message = "the history has calls, so the request has to declare tools, even if none is wanted now"
        yield Violation(code="missing_tools", path="tools", message=message, provider_text=text)


def _place(violation: Violation) -> int:
    number = _PLACE.search(violation.path)
    return int(number[1]) if number else -1


class _Standing(NamedTuple):
    answer: Reply | None  # the latest of them up to the entry
    after_prompt: bool  # True if a prompt follows that answer


class _Lint:
    def __init__(self, read: Messages, paired: Paired, *, last: bool) -> None:
        self._read = read
        self._paired = paired
        self._rules = read.wire.rules
        self._last = last
        self._standing: dict[Entry, _Standing] = {}
        self._rank: dict[int, int] = {}  # of results, by their identity
        self._locate()

    def _locate(self) -> None:
        answer: Reply | None = None
        after_prompt = False
        for entry in self._read.entries:
            if isinstance(entry, Reply):
                answer, after_prompt = entry, False
            elif isinstance(entry, Prompt):
                after_prompt = after_prompt or not entry.is_empty
            else:
                for result in entry.results:
                    self._rank[id(result)] = len(self._rank)
            self._standing[entry] = _Standing(answer, after_prompt)

    def violations(self) -> Iterator[Violation]:
        read = self._read
        for place in read.unread:
            yield self._at(place, "not_a_message", "this is not a message that the wire knows")
        for entry in read.entries:
            yield from entry.flaws
            if entry.is_empty and not entry.flaws:  # its flaws say already what has been left out of it
                yield self._found("empty_message", entry, "the message has no content")
        for step in self._paired.steps:
            if isinstance(step, Exchange):
                yield from self._check_exchange(step)
        for stray in self._paired.strays:
            code: ViolationCode = "duplicate_result" if stray.is_duplicate else "orphan_result"
            what = "a second result for" if stray.is_duplicate else "no call before it has the id"
            yield self._found(code, stray.source, f"{what} {shown(stray.result.call_id)}")
        yield from self._sequence()
        # Gemini takes a content of responses and text for one that the model wrote (pydantic/pydantic-ai#4210).
        for begin, _ in sorted(read.mixed):
            yield self._at(begin, "mixed_results", "the message has results together with other content")
        yield from self._alternation()
        if self._rules.check is not None:
            yield from self._rules.check(read.plain)

    # -- one answer and its results --

    def _check_exchange(self, step: Exchange) -> Iterator[Violation]:
        late: list[tuple[ToolCall, Given]] = []
        timely: list[tuple[ToolCall, Given]] = []
        for number, call in enumerate(step.calls):
            yield from self._check_call(step, number, call)
            given = step.given.get(call.call_id)
            if given is None:
                continue
            yield from self._check_result(call, given)
            # Pairing also finds a result after a later answer; for the provider the call has none, and the result is
            # an orphan: two violations, each fixed by moving the result.
            is_late = self._standing[given.source].answer is not step.reply
            (late if is_late else timely).append((call, given))
        if not step.live or self._last:  # calls at the very end may still be running
            missing = [*step.open_calls, *(call for call, _ in late)]
            if missing:
                ids = ", ".join(shown(id_as_read(call.call_id)) for call in missing)
                text = self._rules.unanswered_texts.get(missing[0].name)
                message = f"no result before the model speaks again: {ids}"
                yield self._found("unanswered_call", step.reply, message, text=text)
        for call, given in late:
            message = f"the result of {shown(id_as_read(call.call_id))} comes after a later answer of the model"
            yield self._found("orphan_result", given.source, message)
        yield from self._check_together([given for _, given in timely])

    def _check_call(self, step: Exchange, number: int, call: ToolCall) -> Iterator[Violation]:
        own, ids = id_as_read(call.call_id), self._read.wire.call_ids
        # `read` renames the second call of an id, so that each has a key of its own.
        if own and own != call.call_id:
            yield self._found("duplicate_id", step.reply, f"another call has the id {shown(own)}", number)
        elif own and not ids.takes(own, is_own=True):
            yield self._found("bad_id", step.reply, f"the id {shown(own)} has to match {ids.pattern}", number)
        elif not own and not self._rules.call_ids_optional:
            yield self._found("bad_id", step.reply, "a call without an id", number)
        if not self._rules.accepts_name(call):
            message = f"the tool name {shown(call.name)} has to match {self._rules.names.pattern}"
            yield self._found("bad_name", step.reply, message, number)
        if call.status == "invalid":
            message = f"the arguments of {shown(own)} are not a JSON object"
            yield self._found("arguments_not_object", step.reply, message, number)

    def _check_result(self, call: ToolCall, given: Given) -> Iterator[Violation]:
        result, own = given.result, id_as_read(call.call_id)
        if result.call_id != own and (result.call_id or not self._rules.call_ids_optional):
            yield self._found("bad_id", given.source, f"a result without the id of its call, {shown(own)}")
        if self._rules.result_names and result.name is not None and result.name != call.name:
            message = f"the result is named {shown(result.name)}, its call {shown(call.name)}"
            yield self._found("bad_name", given.source, message)

    def _check_together(self, results: list[Given]) -> Iterator[Violation]:
        """Finds results that do not directly follow their answer, in the order of its calls."""
        behind = next((given for given in results if self._standing[given.source].after_prompt), None)
        if behind is not None:
            message = "user content comes between the model's calls and their results"
            yield self._found("content_before_results", behind.source, message)
        ranks = [self._rank[id(given.result)] for given in results]
        wrong = next((results[at + 1] for at, (a, b) in enumerate(pairwise(ranks)) if a > b), None)
        if wrong is not None:
            yield self._found("results_out_of_order", wrong.source, "the results are not in the order of the calls")
        # Gemini wants as many responses as calls in the next content, Anthropic all results in the next message.
        origins = {given.source.origin for given in results}
        if self._rules.results_in_one_message and len(origins) > 1:
            yield self._found("result_count", results[-1].source, "the results of one answer are in several messages")

    # -- the whole history --

    def _sequence(self) -> Iterator[Violation]:
        yield from self._system()
        steps = [step for step in self._paired.steps if not is_system(step)]
        if self._rules.first_user and steps and isinstance(steps[0], Exchange):
            yield self._found("first_not_user", steps[0].reply, "the first message has to be the user's")
        # Mistral: "Unexpected role 'user' after role 'tool'" (BerriAI/litellm#6323).
        if self._rules.answer_before_user:
            for before, after in pairwise(steps):
                if isinstance(before, Exchange) and before.calls and isinstance(after, Prompt):
                    yield self._found("role_order", after, "the user speaks after results, before the model does")

    def _system(self) -> Iterator[Violation]:
        entries = [step.reply if isinstance(step, Exchange) else step for step in self._paired.steps]
        for before, entry, after in zip([None, *entries], entries, [*entries[1:], None], strict=False):
            if is_system(entry) and not accepts_system(self._rules, before, after):
                text = self._rules.system_text or None
                yield self._found("role_order", entry, "a system prompt is not allowed here", text=text)

    def _alternation(self) -> Iterator[Violation]:
        if self._rules.alternate:
            roles = [role_of(message, self._rules) for message in self._read.plain]
            for place, (before, after) in enumerate(pairwise(roles), start=1):
                if before is not None and before == after:
                    yield self._at(place, "role_order", f"two messages of the role {after!r} in a row")

    def _found(
        self, code: ViolationCode, entry: Entry, message: str, call: int | None = None, *, text: str | None = None
    ) -> Violation:
        place = entry.origin[0] if entry.origin else 0
        within = f".{self._rules.call_path.format(call)}" if call is not None and self._rules.call_path else ""
        return self._at(place, code, message, within, text)

    def _at(
        self, place: int, code: ViolationCode, message: str, within: str = "", text: str | None = None
    ) -> Violation:
        return self._rules.violation(code, f"{self._rules.list_name}[{place}]{within}", message, text)
