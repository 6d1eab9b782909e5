"""Repairs a history so that its provider accepts it; returns the same list if nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from pydantic_core import to_json

from ..content import Media, Text
from ..ground.text import well_formed
from ..parts import OUTCOMES, Part, ToolCall
from ..wires import Answer, Wire
from ..wires.history_rules import HistoryRules
from ..wires.transcript import CallResult, Entry, Prompt, Reply, Returned, id_as_read
from .calls import (
    Exchange,
    Messages,
    are_same,
    mended,
    object_in,
    pair,
    plain_of,
    refuse_another_wires,
    renamed,
    role_of,
    valid_ids,
    wire_named,
)

_MAX_ROUNDS = 8  # a wire's own mending may cause one more round of repairs; more rounds are a safeguard


def repair(
    messages: list[Any],
    wire: Wire | str,
    *,
    model: str | None = None,
    last: bool = False,
    bad_arguments: BadArguments = "empty",
) -> list[Any]:
    """Repairs messages so that the provider accepts them; returns the same list if it does already.

    Every call gets its one result, right after the answer and in call order: a later result is moved there,
    a missing one says that the call was interrupted, and one that answers no call is dropped. Ids become unique and
    valid, in a call and in its result; arguments become an object; empty messages are dropped, and so are items that
    are not messages of this wire. Content between calls and results moves after the results. Messages that need no
    repair stay the same objects, so a provider's prompt cache still matches. The same history is always repaired in
    the same way.

    Args:
        messages: native messages of `wire`. They are not changed.
        wire: the wire, or its name.
        model: the model's name, where an endpoint has models that demand more than others (Bedrock).
        last: also answer calls without a result at the very end. Without it they count as still running.
        bad_arguments: the replacement for arguments that are not a JSON object: ``empty`` (``{}``), or ``wrap_raw``
            (``{"INVALID_JSON": ...}``, which lets the model see what it wrote).

    Raises:
        ExportError: there is no such wire; or no message is of it, and some are of another wire.
        TypeError: `messages` is not a list.
    """
    found = wire_named(wire, model)
    settling = HistorySettling(found, last=last, bad_arguments=bad_arguments)
    read = Messages(messages, found)
    refuse_another_wires(read)
    for _ in range(_MAX_ROUNDS):  # pragma: no branch - two suffice
        steps = settling.settle(pair(read.entries, found.rules).steps)
        after = mended(joined(assembled(steps, read), found), found.rules)
        if are_same(after, messages):
            break
        messages, read = after, Messages(after, found)
    return messages


# -- the place of a system prompt --


def is_system(step: object) -> bool:
    return isinstance(step, Prompt) and step.role == "system"


def accepts_system(rules: HistoryRules, before: Prompt | Reply | None, after: Prompt | Reply | None) -> bool:
    """None is the beginning, or the end. An answer includes its results."""
    match rules.system_stands:
        case "anywhere":
            return True
        case "not_behind_answer":
            # Mistral: "Unexpected role 'system' after role 'assistant'" (swarmauri/swarmauri-sdk#276).
            return not isinstance(before, Reply)
        case "before_answer":
            # Anthropic's `system` entries stand only where the model speaks next, after the user or results, singly:
            # https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages
            return not isinstance(after, Prompt) and (
                _ends_with_the_user(before)
                if isinstance(before, Reply)
                else before is not None and not is_system(before)
            )


def _ends_with_the_user(reply: Reply) -> bool:
    """Returns whether an answer ends with the user's turn: with results, or while the provider's own tools run."""
    server_calls = {id_ for id_, call in reply.answer.calls.items() if call.kind == "server"}
    return bool(reply.answer.our_calls) or any(part.call_id in server_calls for part in reply.answer.parts[-1:])


# -- settling the steps --

BadArguments: TypeAlias = Literal["empty", "wrap_raw"]

_FILLER = "."  # text for a message that has to be there but has nothing to say: no provider takes an empty message


@dataclass(frozen=True, slots=True, eq=False)
class SettledResult:
    result: CallResult
    source: Returned | None = None  # the entry that has it unchanged; None if it has to be written
    given: CallResult | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Settled:
    answer: Answer  # the answer without results: its `results` are empty
    source: Reply | None  # the entry that has it unchanged; None if it has to be written
    outcomes: tuple[SettledResult, ...] = ()

    @property
    def whole(self) -> Answer:
        return replace(self.answer, results=tuple(outcome.result for outcome in self.outcomes))


Step: TypeAlias = Prompt | Settled


class HistorySettling:
    def __init__(self, wire: Wire, *, last: bool, bad_arguments: BadArguments) -> None:
        self._wire = wire
        self._rules = wire.rules
        self._last = last
        self._bad_arguments = bad_arguments

    def settle(self, steps: Sequence[Prompt | Exchange]) -> list[Step]:
        exchanges = [step for step in steps if isinstance(step, Exchange)]
        ids = self._ids(exchanges)
        settled = (self._exchange(step, ids) if isinstance(step, Exchange) else step for step in steps)
        # Without answers of which nothing would be written, such as a thought alone.
        entries = (
            step
            for step in settled
            if isinstance(step, Prompt) or step.source is not None or self._wire.render_reply(step.answer)
        )
        return list(self._in_sequence(self._with_system_placed(entries)))

    def _ids(self, exchanges: Sequence[Exchange]) -> Mapping[str, str]:
        """Maps each id to its replacement; a call without an id stays without where its own wire needs none."""
        wanted = [(call.call_id, step.reply.answer.own_wire) for step in exchanges for call in step.calls]
        # Gemini's and Ollama's calls may come without ids. Adding one would change a message that is right.
        optional, ids = self._rules.call_ids_optional, self._wire.call_ids
        may_stay = [id_ for id_, is_own in wanted if is_own and (optional or id_as_read(id_))]
        kept = [id_ for id_ in may_stay if not id_as_read(id_) or ids.takes(id_, is_own=True)]
        return valid_ids([id_ for id_, _ in wanted], self._wire, keep=kept)

    def _exchange(self, step: Exchange, ids: Mapping[str, str]) -> Settled:
        reply = step.reply
        answer = self._with_objects(reply.answer)
        named = renamed(answer, ids)
        if named is not answer:
            # Gemini's renderer leaves out ids that are synthesized; one that replaces another has to be written.
            calls = {id_: replace(call, call_id_synthesized=not id_as_read(id_)) for id_, call in named.calls.items()}
            answer = replace(named, calls=calls)
        is_kept = answer is reply.answer and not reply.flaws and all(map(self._rules.accepts_name, step.calls))
        return Settled(answer, reply if is_kept else None, tuple(self._outcomes(step, ids)))

    def _outcomes(self, step: Exchange, ids: Mapping[str, str]) -> Iterator[SettledResult]:
        for call in step.calls:
            given, id_ = step.given.get(call.call_id), ids[call.call_id]
            if given is None:
                if self._last or not step.live:  # calls at the very end may still be running
                    result = CallResult(
                        call_id=id_, content=OUTCOMES["skipped"].to_model, is_error=True, name=call.name
                    )
                    yield SettledResult(result)
                continue
            result = given.result
            stays = id_ == call.call_id and not given.source.flaws and self._rules.accepts_name(call)
            own = id_as_read(id_)
            stays = stays and (result.call_id == own or (self._rules.call_ids_optional and not result.call_id))
            stays = stays and not (self._rules.result_names and result.name not in (None, call.name))
            yield SettledResult(replace(result, call_id=id_, name=call.name), given.source if stays else None, result)

    def _with_objects(self, answer: Answer) -> Answer:
        invalid = {id_: call for id_, call in answer.calls.items() if call.status == "invalid"}
        if not invalid:
            return answer
        arguments = {id_: self._object(call) for id_, call in invalid.items()}
        calls = {
            id_: replace(invalid[id_], arguments=value, status="ready", problem=None)
            for id_, (_, value) in arguments.items()
        }
        return replace(answer, calls={**answer.calls, **calls}, arguments={**answer.arguments, **arguments})

    def _object(self, call: ToolCall) -> tuple[str, dict[str, Any]]:
        raw = well_formed(call.arguments_text)
        if call.kind == "custom":
            value: dict[str, Any] = {"input": raw}
        elif (found := object_in(raw)) is not None:
            return found
        else:
            value = {"INVALID_JSON": raw} if self._bad_arguments == "wrap_raw" else {}
        return to_json(value).decode(), value

    def _with_system_placed(self, steps: Iterable[Step]) -> Iterator[Step]:
        """Yields the steps, with system prompts where the wire accepts them: after the user's next message."""
        held: list[Prompt] = []
        before: Step | None = None
        waits = self._rules.system_stands == "before_answer"  # until the user's last message before the answer
        for step in steps:
            if isinstance(step, Prompt) and is_system(step) and (held or waits or not self._accepts_system(before)):
                held.append(step)
                continue
            if isinstance(step, Settled):
                yield from self._released(held, before)
            yield step
            before = step
            if isinstance(step, Prompt) and not waits:
                yield from self._released(held, before)
        yield from self._released(held, before)

    def _released(self, held: list[Prompt], before: Step | None) -> Iterator[Step]:
        if not held:
            return
        if not self._accepts_system(before):  # no user's message was left to stand after
            yield Prompt(role="user", blocks=(Text(_FILLER),))
        if len(held) > 1 and self._rules.system_stands == "before_answer":  # as one
            held[:] = [Prompt(role="system", blocks=tuple(block for prompt in held for block in prompt.blocks))]
        yield from held
        held.clear()

    def _accepts_system(self, before: Step | None) -> bool:
        reply = Reply(answer=before.answer) if isinstance(before, Settled) else before
        return accepts_system(self._rules, reply, None)

    def _in_sequence(self, steps: Iterable[Step]) -> Iterator[Step]:
        has_begun, awaits_answer = False, False
        for step in steps:
            if isinstance(step, Prompt):
                if step.role == "user":
                    has_begun = True
                    if awaits_answer:  # Mistral: "Unexpected role 'user' after role 'tool'" (BerriAI/litellm#6323)
                        spoken = (Part(kind="text", text=_FILLER),)
                        yield Settled(Answer(parts=spoken, calls={}, arguments={}, results=()), None)
                    awaits_answer = False
            else:
                if self._rules.first_user and not has_begun:
                    yield Prompt(role="user", blocks=(Text(_FILLER),))
                has_begun = True
                awaits_answer = self._rules.answer_before_user and bool(step.answer.our_calls)
            yield step


# -- settled steps as messages --

# A step is split into pieces: a prompt, the model's answer, results. A piece that is unchanged since it was read names
# its entry; any other has messages of its own.


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    entry: Entry | None  # the entry that the piece was read from; None if it has to be written
    write: Callable[[], list[dict[str, Any]]]


def written(step: Step, wire: Wire) -> list[dict[str, Any]]:
    return wire.render_prompt(step) if isinstance(step, Prompt) else wire.render(step.whole)


def assembled(steps: Sequence[Step], read: Messages) -> list[Any]:
    """Returns the messages of a history whose steps were settled: the given ones, wherever a step is unchanged."""
    pieces = [piece for step in steps for piece in _pieces(step, read.wire)]
    mixed = read.mixed
    messages: list[Any] = []
    at = 0
    while at < len(pieces):
        entry = pieces[at].entry
        origin = entry.origin if entry is not None else None
        # One message may have several entries (results, and text after them). It is kept if all of these still follow
        # one another in the same order; otherwise each is written anew.
        together = read.members[origin] if origin is not None else []
        as_read = [piece.entry for piece in pieces[at : at + len(together)]] == together
        if origin is not None and origin not in mixed and as_read:
            messages += read.given[origin[0] : origin[1]]
            at += len(together)
        else:
            messages += pieces[at].write()
            at += 1
    return messages


def joined(messages: list[Any], wire: Wire) -> list[Any]:
    join = wire.rules.join
    if not wire.rules.alternate or join is None:
        return messages
    # Runs first, each joined once: a copy for each message would cost quadratic time.
    runs: list[list[Any]] = []
    for message in messages:
        role = role_of(message, wire.rules)
        if runs and role is not None and role_of(runs[-1][-1], wire.rules) == role:
            runs[-1].append(message)
        else:
            runs.append([message])
    if len(runs) == len(messages):
        return messages
    return [run[0] if len(run) == 1 else join([plain_of(message, wire.rules) for message in run]) for run in runs]


def _pieces(step: Step, wire: Wire) -> Iterator[_Piece]:
    if isinstance(step, Prompt):
        yield _Piece(None if step.flaws else step, partial(wire.render_prompt, step))
        return
    yield _Piece(step.source, partial(wire.render_reply, step.answer))
    runs = list(_runs(step.outcomes))
    new = [outcome for is_kept, run in runs if not is_kept for outcome in run]
    # Chat Completions has media in one user's message after all results, which is written for all of them together.
    has_media = any(isinstance(block, Media) for outcome in new for block in outcome.result.blocks)
    is_shared = wire.rules.results_in_one_message or has_media
    if is_shared and len(runs) > 1:
        runs = [(False, step.outcomes)]
    for is_kept, run in runs:
        part = replace(step.answer, results=tuple(outcome.result for outcome in run))
        yield _Piece(run[0].source if is_kept else None, partial(wire.render_results, part))


def _runs(outcomes: tuple[SettledResult, ...]) -> Iterator[tuple[bool, tuple[SettledResult, ...]]]:
    """Splits the outcomes into runs, and yields with each whether it is exactly the content of one message, as read."""
    at = begin = 0
    while at < len(outcomes):
        run = _message_at(outcomes, at)
        if not run:
            at += 1
            continue
        if begin < at:
            yield False, outcomes[begin:at]
        yield True, run
        begin = at = at + len(run)
    if begin < at:
        yield False, outcomes[begin:at]


def _message_at(outcomes: tuple[SettledResult, ...], at: int) -> tuple[SettledResult, ...]:
    """Returns the outcomes from here on that are exactly the results of one message as read; else none."""
    source = outcomes[at].source
    if source is None:
        return ()
    run = outcomes[at : at + len(source.results)]
    is_unchanged = all(outcome.source is source for outcome in run)
    return run if is_unchanged and are_same([outcome.given for outcome in run], source.results) else ()
