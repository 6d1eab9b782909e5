"""Words the attributes of spans: events in, attributes out.

Values of arguments, results and texts come out only if content is captured; everything else is names, codes, counts and
times. All text that a peer can choose is bounded, and made valid UTF-8: half a surrogate pair, which JSON allows, would
make an OTLP exporter refuse the whole batch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from traceback import TracebackException
from typing import Any

from ..display import class_name
from ..errors import ProviderError, StreamError, ToolFailed
from ..events import ApprovalRequested, Observation, StepEnd, StepStart, StreamEnd, StreamStart, ToolCallStart
from ..observers import RunFacts
from ..parts import OUTCOMES, STEP_OUTCOMES, FailedAttempt, Part, StepOutcome, ToolCall, Usage
from .content import fitted, fitted_json
from .names import Names, provider_of
from .open_spans import OpenRun, OpenStep
from .prices import Prices, cost_of
from .requests import input_messages, instructions, parameters, request_model

__all__ = ["AttributeWriter", "Attributes", "call_error_type", "stream_error_type", "stream_outcome"]

Attributes = dict[str, str | bool | int | float | Sequence[str] | Sequence[int]]

MAX_NAME_CHARS = 1024  # of a text that a peer chooses, and that is no content
OTHER = "_OTHER"  # the conventions' fallback for `error.type`
STACK_FRAMES = 20  # frames of a captured exception, innermost; a recursion error has a thousand

_SAID = {"text": "text", "refusal": "text", "reasoning": "reasoning"}
"""Our pieces of a response, and the conventions' words for them."""

_CODE = re.compile(r"[\w.:-]{1,64}", re.ASCII)  # what may be an `error.type`: of low cardinality, no prose


@dataclass(frozen=True, slots=True)
class AttributeWriter:
    """Words the attributes of every span in one profile."""

    names: Names
    capture_content: bool
    max_chars: int
    redact: Callable[[str], str] | None = None
    prices: Prices | None = None

    def text(self, value: str) -> str:
        """Returns a name, an id or a code: cut, and valid as UTF-8."""
        if len(value) <= MAX_NAME_CHARS <= self.max_chars and value.isascii():  # nearly always
            return value
        return self._cut(value, min(self.max_chars, MAX_NAME_CHARS))

    def _cut(self, value: str, most: int) -> str:
        value = fitted(value, most)
        return value if value.isascii() else value.encode("utf-8", "replace").decode()

    def content(self, value: str) -> str:
        """Returns captured content: redacted, then cut; JSON stays JSON."""
        value = self._redacted(value)
        if len(value) > self.max_chars and value[:1] in ("{", "["):
            try:
                value = fitted_json(json.loads(value), self.max_chars)
            except (ValueError, RecursionError):
                return self._cut(value, self.max_chars)
        return self._cut(value, self.max_chars)

    def _redacted(self, value: str) -> str:
        if self.redact is not None:
            value = self.redact(value)
            if not isinstance(value, str):
                raise TypeError(f"redact returned {type(value).__name__}, not a text")
        return value

    # -- a run --

    def run_start(self, run: RunFacts) -> Attributes:
        """Returns the attributes of a run at its beginning."""
        names = self.names
        found: Attributes = {names.run_id: self.text(run.run_id), **names.run_constants}
        self._put(found, names.agent_name, run.name)
        self._put(found, names.conversation_id, run.conversation_id)
        return found

    def run_end(self, run: OpenRun, outcome: str | None, error: BaseException | None) -> Attributes:
        """Returns the attributes of a run at its end: the totals of its steps."""
        names = self.names
        found: Attributes = {names.run_steps: run.steps}
        self._put(found, names.run_outcome, outcome)
        if error is not None or outcome == "error":
            found[names.error_type] = OTHER if error is None else self.text(class_name(error))
        self._put_usage(found, run.usage)
        self._put(found, names.cost, run.cost)
        return found

    def _put_usage(self, found: Attributes, usage: Usage | None) -> None:
        if usage is not None:
            for count, name in self.names.usage.items():
                self._put(found, name, getattr(usage, count, None))

    # -- a step --

    def step_start(self, start: StepStart) -> Attributes:
        """Returns the attributes of a step at its beginning."""
        names = self.names
        return {**self._identity(start), **names.step_constants, names.seq_first: start.seq}

    def step_end(self, end: StepEnd, error: StreamError | None) -> Attributes:
        """Returns the attributes of a step at its end."""
        names = self.names
        found: Attributes = {names.step_outcome: end.outcome, names.seq_last: end.seq}
        if STEP_OUTCOMES[end.outcome].is_error:
            found[names.error_type] = stream_error_type(error)
        return found

    # -- a chat --

    def chat_start(self, step: StepStart, stream: StreamStart | None, conversation_id: str | None) -> Attributes:
        """Returns the attributes of a response at its beginning; `stream` is None if nothing came of it."""
        names = self.names
        found: Attributes = {**self._identity(step), **names.chat_constants}
        found[names.seq_first] = step.seq if stream is None else stream.seq
        self._put(found, names.request_stream, True)
        self._put(found, names.conversation_id, conversation_id)
        if step.request is not None:
            self._put(found, names.request_model, request_model(step.request))
            for parameter, value in parameters(step.request):
                self._put(found, names.request_parameters.get(parameter), value)
        if stream is not None:
            found[names.stream_wire] = stream.wire
            self._put(found, names.provider, provider_of(stream.wire))
            self._put(found, names.response_model, stream.model)
            self._put(found, names.response_id, stream.response_id)
            asked = step.time if step.requested_at is None else step.requested_at
            self._put(found, names.time_to_first_chunk, max(0.0, stream.time - asked))
        return found

    def chat_end(self, outcome: StepOutcome, last: StreamEnd | StepEnd, cost: float | None) -> Attributes:
        """Returns the attributes of a response at its end; `last` is the step's end if the stream's own was never
        seen."""
        names = self.names
        found: Attributes = {names.stream_outcome: outcome, names.seq_last: last.seq}
        end = last if isinstance(last, StreamEnd) else None
        if STEP_OUTCOMES[outcome].is_error:
            found[names.error_type] = stream_error_type(end.error if end else None)
        if end is None:
            return found
        finish = end.finish_raw or end.finish
        if finish is not None:
            self._put(found, names.finish_reasons, (self.text(finish),))
        self._put(found, names.stream_finish, end.finish)
        self._put_usage(found, end.usage)
        self._put(found, names.cost, cost)
        return found

    def cost(self, step: OpenStep, usage: Usage | None) -> float | None:
        """Returns the cost of a response, if its prices are known."""
        told = step.stream.model if step.stream else None
        asked = None if step.start.request is None else request_model(step.start.request)
        return cost_of(self.prices, (told, asked), usage)

    def request_content(self, request: Mapping[str, Any]) -> Attributes:
        """Returns the messages of the request, and its instructions, shaped as the conventions have them."""
        found: Attributes = {}
        names, told = self.names, {"input": input_messages(request), "system": instructions(request)}
        for name, value in ((names.input_messages, told["input"]), (names.system_instructions, told["system"])):
            if value:
                self._put_content(found, name, json.dumps(value, ensure_ascii=False, default=str))
        return found

    def chat_content(self, said: Iterable[Part], calls: Sequence[ToolCall], end: StreamEnd | None) -> Attributes:
        """Returns the response itself, its pieces in order, shaped as the conventions' output messages."""
        known = {call.call_id: call for call in calls}
        parts: list[dict[str, Any]] = []
        for part in said:
            if part.kind == "call" and (call := known.get(part.call_id or "")) is not None:
                arguments = call.arguments_text if call.arguments is None else call.arguments
                parts.append({"type": "tool_call", "id": call.call_id, "name": call.name, "arguments": arguments})
            elif part.kind in _SAID and part.text:
                parts.append({"type": _SAID[part.kind], "content": part.text[: self.max_chars]})
        message: dict[str, Any] = {"role": "assistant", "parts": parts}
        if end is not None and end.finish is not None:
            message["finish_reason"] = end.finish
        found: Attributes = {}
        self._put_content(found, self.names.output_messages, _json([message]))
        return found

    # -- a tool call --

    def tool_start(self, step: StepStart, start: ToolCallStart) -> Attributes:
        """Returns the attributes of a call at the opening of its span."""
        names = self.names
        found = {**self._of_call(step, start), **names.tool_constants}
        self._put(found, names.tool_name, start.name or None)
        self._put(found, names.tool_call_id, start.call_id)
        if start.call_id_synthesized:
            found[self.names.call_id_synthesized] = True
        return found

    def approval(self, step: StepStart, start: ToolCallStart, asked: ApprovalRequested) -> Attributes:
        """Returns the attributes of a call when somebody is asked whether it may run: none of `gen_ai`, by which it
        would count as a second tool."""
        names = self.names
        found = {**self._of_call(step, start), names.cause_seq: asked.causes, names.seq_first: asked.seq}
        self._put(found, names.waiting_tool, asked.tool_name or None)
        self._put(found, names.waiting_call, start.call_id)
        return found

    def wait(self, step: StepStart, start: ToolCallStart, reason: str) -> Attributes:
        """Returns the attributes of a time in which a call could not start."""
        found = {**self._of_call(step, start), self.names.wait_reason: reason}
        self._put(found, self.names.waiting_tool, start.name or None)
        self._put(found, self.names.waiting_call, start.call_id)
        return found

    def attempt(self, failed: FailedAttempt) -> Attributes:
        """Returns the attributes of an attempt that failed, for an event."""
        names = self.names
        return {
            names.attempt_number: failed.number,
            names.error_type: self.text(failed.error_type),
            names.attempt_duration: failed.ended - failed.began,
            names.attempt_delay: failed.delay_s,
        }

    def _of_call(self, step: StepStart, start: ToolCallStart) -> Attributes:
        names = self.names
        found: Attributes = {
            names.run_id: self.text(step.run_id),
            names.step: start.step,
            names.cause_seq: start.causes,
            names.call_key: f"{start.step}.{start.index}",
            names.call_kind: start.kind,
            names.seq_first: start.seq,
        }
        return found

    def tool_end(self, call: ToolCall | None, observation: Observation, *, started: bool) -> Attributes:
        """Returns the attributes of a call at its end, without a value of its arguments or result."""
        names = self.names
        found: Attributes = {
            names.call_outcome: observation.outcome,
            names.call_validated: observation.validated,
            names.schema_present: observation.schema_present,
            names.observation_type: self.text(observation.observation_type),
            names.tool_attempts: observation.attempts,
            names.seq_last: observation.seq,
        }
        self._put(found, names.schema_source, observation.schema_source)
        self._put(found, names.tool_owner, observation.owner)
        if observation.recorded:
            found[names.call_recorded] = True
        if observation.still_running:
            found[names.tool_still_running] = True
        if call is not None:
            self._put(found, names.call_problem, call.problem)
            if call.normalizations:
                found[names.call_normalizations] = call.normalizations
        stage = OUTCOMES[observation.outcome].stage
        if stage is not None:
            found[names.failure_stage] = "execution" if started and stage == "dispatch" else stage
            found[names.error_type] = self.text(call_error_type(observation))
        return found

    def tool_lost(self, end: StepEnd) -> Attributes:
        """Returns the attributes of a call whose observation never came."""
        names = self.names
        return {names.call_outcome: "unknown", names.error_type: OTHER, names.seq_last: end.seq}

    def tool_content(self, call: ToolCall | None, observation: Observation) -> Attributes:
        """Returns the call's arguments, and its result for the model: JSON, or bare text."""
        found: Attributes = {}
        if call is not None:
            self._put_content(found, self.names.tool_arguments, self._arguments(call))
        self._put_content(found, self.names.tool_result, observation.model_content)
        return found

    def exception(self, error: BaseException) -> Attributes:
        """Returns an exception for an ``exception`` event: its type, and its text if content is captured."""
        if not self.capture_content:
            return {"exception.type": self.text(class_name(error))}
        told = TracebackException.from_exception(error, limit=-STACK_FRAMES)
        stack = "".join(told.format())
        return {
            "exception.type": self.text(class_name(error)),
            "exception.message": self.content(str(told)),
            "exception.stacktrace": self.content(stack[-self.max_chars :]),
        }

    def words(self, error: BaseException) -> str:
        """Returns an exception's text, as content. A class of the user's may fail to give one: then its name."""
        try:
            said = str(error)
        except (Exception, SystemExit):
            said = type(error).__name__
        return self.content(said)

    # -- helpers --

    def _identity(self, step: StepStart) -> Attributes:
        names = self.names
        return {names.run_id: self.text(step.run_id), names.step: step.step, names.cause_seq: step.causes}

    def _arguments(self, call: ToolCall) -> str:
        if call.normalizations and call.arguments is not None:
            return _json(call.arguments)
        return call.arguments_text

    def _put_content(self, found: Attributes, name: str | None, value: str) -> None:
        if name is not None:
            found[name] = self.content(value)

    def _put(self, found: Attributes, name: str | None, value: Any) -> None:
        if name is not None and value is not None:
            found[name] = self.text(value) if isinstance(value, str) else value


def stream_outcome(end: StreamEnd) -> StepOutcome:
    """Returns a stream's outcome by its own end."""
    if end.error is not None:
        return "truncated" if end.error.kind == "stream_truncated" else "error"
    return "complete" if end.complete else "truncated"


def stream_error_type(error: StreamError | None) -> str:
    """Returns the `error.type` of a stream that did not end well: the provider's own code where it looks like one."""
    if isinstance(error, ProviderError):
        for said in (error.type, error.code):
            if said is not None and _CODE.fullmatch(str(said)):
                return str(said)
    return OTHER if error is None else error.kind


def call_error_type(observation: Observation) -> str:
    """Returns the `error.type` of a call that is not ``ok``."""
    error, facts = observation.error, OUTCOMES[observation.outcome]
    if facts.error_type is not None:
        return facts.error_type
    if error is None:
        return observation.outcome
    if isinstance(error, ToolFailed) and error.__cause__ is not None:
        return class_name(error.__cause__)
    return type(error).__name__


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # not orjson, which refuses integers from 2**64
