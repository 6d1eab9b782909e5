"""Lists every span and attribute name that streamtools emits, in one table, and writes failures and requests with them.

The ``streamtools.*`` names are this library's own. Source:
https://github.com/open-telemetry/semantic-conventions/tree/v1.41.1/docs/gen-ai (read 2026-11-20), there gen-ai-spans.md
and gen-ai-input-messages.json for requests.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeAlias

from ..errors import AnswerPending, ApprovalPending, ProviderError, StreamError
from ..events import Observation, StreamEnd
from ..ground import class_name
from ..parts import COUNTS, OUTCOMES, Usage
from ..wires import find

# v1.41 is the last release of OpenTelemetry's conventions that has those for GenAI (stability: development); they have
# moved to a repository of their own. Arize Phoenix and MLflow read those of v1.41, and fill more columns from them than
# from names of their own (`tests/backends`).

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"


class Names:
    """The names of spans and attributes: those of the GenAI semantic conventions v1.41, and ours."""

    run_span = "invoke_agent"  # the agent's name follows it, where it has one
    run_begin_span = "streamtools.begin.run"  # written ahead, of no length
    call_begin_span = "streamtools.begin.call"  # written ahead, of no length: the call must not run twice
    step_span = "streamtools.step"
    chat_span = "chat"  # the model's name follows it, where the request or the stream has it
    tool_span = "execute_tool"  # the tool's name follows it
    call_span = "streamtools.call"  # a call that did not run: a span of no length. The tool's name follows it
    approval_span = "streamtools.approval"  # the tool's name follows it
    wait_span = "streamtools.wait"  # the tool's name follows it
    pause_span = "streamtools.pause"  # the time from an attempt that broke off to the next request
    early_span = "streamtools.early"  # the tool's name follows it
    attempt_event = "streamtools.attempt"  # an attempt that failed and was followed by another

    run_constants: ClassVar[Mapping[str, str]] = {"gen_ai.operation.name": "invoke_agent"}
    # A step has none of these: Jaeger's UI would show it as an unknown GenAI operation.
    chat_constants: ClassVar[Mapping[str, str]] = {"gen_ai.operation.name": "chat"}
    tool_constants: ClassVar[Mapping[str, str]] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.type": "function",
    }

    # -- a run --
    agent_name = "gen_ai.agent.name"
    conversation_id = "gen_ai.conversation.id"

    # -- the model's response --
    provider = "gen_ai.provider.name"  # of a run, too: that of its first response
    server_address = "server.address"  # where the HTTP library has it
    server_port = "server.port"
    request_stream = "gen_ai.request.stream"
    request_model = "gen_ai.request.model"
    request_parameters: ClassVar[Mapping[str, str]] = {
        "temperature": "gen_ai.request.temperature",
        "top_p": "gen_ai.request.top_p",
        "top_k": "gen_ai.request.top_k",
        "max_tokens": "gen_ai.request.max_tokens",
        "seed": "gen_ai.request.seed",
    }
    response_model = "gen_ai.response.model"
    response_id = "gen_ai.response.id"
    finish_reasons = "gen_ai.response.finish_reasons"  # the provider's own words, as a list
    time_to_first_chunk = "gen_ai.response.time_to_first_chunk"
    """Seconds from the request, or from the moment when streamtools took the stream over, to the first chunk."""
    usage: ClassVar[Mapping[str, str]] = {count: facts.span for count, facts in COUNTS.items()}
    cost = "streamtools.cost"  # in the currency of the caller's `prices=`; of a run the sum
    input_messages = "gen_ai.input.messages"  # content; only if it is captured, and the caller gave it
    system_instructions = "gen_ai.system_instructions"
    output_messages = "gen_ai.output.messages"  # content; only if it is captured

    # -- a tool call --
    tool_name = "gen_ai.tool.name"
    tool_call_id = "gen_ai.tool.call.id"
    tool_arguments = "gen_ai.tool.call.arguments"  # content; only if it is captured
    tool_result = "gen_ai.tool.call.result"  # content; only if it is captured

    error_type = "error.type"

    # -- ours: identity and cause. They repeat the span links, because some trace stores drop those. --
    run_id = "streamtools.run.id"
    run_name = "streamtools.run.name"  # the agent's name on a span that is no operation of the conventions
    run_steps = "streamtools.run.steps"  # how many responses of a model have ended in the run
    run_outcome = "streamtools.run.outcome"  # `RunOutcome`; not there for a loop of the caller's own
    step = "streamtools.step.number"
    call_key = "streamtools.call.key"
    """``{step}.{index}``: the call's identity within its run, also where the provider gives no usable id."""
    seq_first = "streamtools.seq.first"  # `seq` of the first event that the span covers
    seq_last = "streamtools.seq.last"  # on a tool span that of its `Observation`
    cause_seq = "streamtools.cause.seq"  # `seq` of its causes. On a chat span: the observations of the step before
    link_type = "streamtools.link.type"  # `proposed_by`, `observed`, `follows` or `resumes`
    calls_suspended = "streamtools.calls.suspended"
    """On a run and its last step: the keys of the calls that wait, and may go on in another trace."""
    resumes_trace = "streamtools.resumes.trace_id"
    resumes_span = "streamtools.resumes.span_id"  # likewise that step's span
    proposer_span = "streamtools.proposed_by.span_id"
    """On a resumed call: the span of the response that made it, in the trace that `resumes_trace` names."""

    # -- ours: outcomes --
    step_outcome = "streamtools.step.outcome"  # `StepEnd.outcome`
    stream_wire = "streamtools.stream.wire"
    stream_outcome = "streamtools.stream.outcome"  # `complete`, `truncated`, `abandoned`, `cancelled` or `error`
    stream_finish = "streamtools.stream.finish"  # the finish in our words
    stream_server_calls = "streamtools.stream.server_calls"  # they have no spans of their own
    call_kind = "streamtools.call.kind"
    call_outcome = "streamtools.call.outcome"  # `Observation.outcome`
    call_reason = "streamtools.call.reason"  # in words; on the span of no length
    call_findings = "streamtools.call.findings"  # where the values of the arguments come from
    call_id_synthesized = "streamtools.call.id_synthesized"
    call_validated = "streamtools.call.validated"
    call_problem = "streamtools.call.problem"  # code of the problem with the arguments
    call_caller = "streamtools.call.caller"  # `code`; not there for calls of the model itself
    call_normalizations = "streamtools.call.normalizations"  # from the arguments' text to their value
    failure_stage = "streamtools.failure_stage"
    schema_source = "streamtools.schema.source"
    tool_owner = "streamtools.tool.owner"
    schema_present = "streamtools.schema.present"
    observation_type = "streamtools.observation.type"
    tool_attempts = "streamtools.tool.attempts"
    tool_queue_time = "streamtools.tool.queue_time_s"  # seconds from being ready to the tool's start
    tool_trial = "streamtools.tool.trial"  # "dropped" on the span of a body that was tried for nothing
    tool_effect = "streamtools.tool.effect"  # on the span that says that a call begins
    approval_verdict = "streamtools.approval.verdict"  # `approved`, `denied`, or `none`: the block was left
    approval_by = "streamtools.approval.by"  # the names of those who decided, where they are known
    approval_edited = "streamtools.approval.edited"  # True if whoever approved the call has changed its arguments
    waiting_tool = "streamtools.tool.name"  # not `gen_ai.tool.name`: the wait would count as a call
    waiting_call = "streamtools.call.id"  # the id of a call that waits
    wait_reason = "streamtools.wait.reason"  # `Wait.reason`
    early_fate = "streamtools.early.fate"  # `claimed`, `missed` or `never_asked`
    early_reason = "streamtools.early.reason"  # why it was missed
    early_won = "streamtools.early.won_s"  # seconds that the early run had gone on when the framework asked for it
    attempt_number = "streamtools.attempt.number"
    attempt_duration = "streamtools.attempt.duration_s"
    attempt_delay = "streamtools.attempt.delay_s"  # seconds of pause before the next attempt
    call_recorded = "streamtools.call.recorded"  # the idempotency store knew how the call had ended: nothing ran
    tool_still_running = "streamtools.tool.still_running"


def provider_of(wire: str) -> str:
    """Returns the provider whose flavour of telemetry a wire has; for an unknown wire, the first part of its name.

    >>> provider_of("openai.chat_completions"), provider_of("gemini.generate_content"), provider_of("mine.chat")
    ('openai', 'gcp.gemini', 'mine')
    """
    try:
        return find(wire).provider
    except ValueError:  # a wire of somebody's own that is not registered
        return wire.partition(".")[0]


# -- captured content, cut to fit --


# Text is cut at its end, JSON inside its texts and lists: cut at its end, it would not be JSON any more, and the viewer
# would show a string. Long texts are shortened first, since the structure is worth more than the end of a text.
MARK = "…"  # stands where something was left out

_LENGTHS = (4096, 1024, 256, 64, 16, 0)  # of texts, tried in this order
_ITEMS = (64, 16, 4, 1, 0)  # of lists and objects, tried with the shortest texts
_KEY_CHARS = 64  # of an object's key


def fitted(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - len(MARK)] + MARK


def fitted_json(value: Any, most: int) -> str:
    """Returns a value as JSON of at most `most` characters, and of the whole value if that fits. Else texts in it end
    in `MARK`, and lists and objects have it in the place of items."""
    written = _json(value)
    if len(written) <= most:
        return written
    # A dozen attempts at most, whatever the value: the cost is linear in its size.
    for length in (most, *_LENGTHS):
        if length <= most and len(written := _json(_cut(value, length, None))) <= most:
            return written
    for items in _ITEMS:
        if len(written := _json(_cut(value, 0, items))) <= most:
            return written
    return _json(MARK)


def _cut(value: Any, length: int, items: int | None) -> Any:
    if isinstance(value, str):
        return fitted(value, length) if length else MARK if value else value
    if isinstance(value, dict):
        kept = list(value.items())[:items]
        left = {MARK: len(value) - len(kept)} if len(kept) < len(value) else {}
        return {fitted(str(key), _KEY_CHARS): _cut(item, length, items) for key, item in kept} | left
    if isinstance(value, (list, tuple)):
        kept_items = [_cut(item, length, items) for item in value[:items]]
        return kept_items if len(kept_items) == len(value) else [*kept_items, MARK]
    return value


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)  # not orjson, which refuses integers from 2**64


# -- why a span failed --
#
# In words of ours alone: an exception's own words may quote the model, the provider or the tool, and are content.


def error_of(observation: Observation) -> BaseException | None:
    error = observation.error
    return error if error is None or error.__cause__ is None else error.__cause__


def is_pending(observation: Observation) -> bool:
    """Returns whether a call only waits for an approval or answer that may still come: that is not a failure."""
    return isinstance(observation.error, (AnswerPending, ApprovalPending))


def call_words(observation: Observation, end: StreamEnd | None) -> str:
    # Three outcomes have words that depend on more than their row: the time, whether it ran, the turn's end.
    outcome, error = observation.outcome, error_of(observation)
    if outcome == "timed_out" and observation.duration is not None:
        return f"timed out after {observation.duration:.3g} s"
    if outcome == "cancelled" and not observation.attempts:
        return "not run: it was cancelled"
    if outcome == "skipped" and end is not None:
        if end.error is not None:
            return f"not run: its turn failed ({stream_words(end.error)})"
        return f"not run: its turn ended by {end.finish}" if end.complete else "not run: its turn was cut"
    return OUTCOMES[outcome].words.format(type="an exception" if error is None else class_name(error))


def not_run_words(observation: Observation, end: StreamEnd | None) -> str:
    if observation.recorded:
        return "not run again: its end is recorded"
    if is_pending(observation):
        awaited = "answer from outside" if isinstance(observation.error, AnswerPending) else "approval"
        return f"not run: it waits for an {awaited}"
    return "not run: its result was passed in" if observation.outcome == "ok" else call_words(observation, end)


def stream_words(error: StreamError | None) -> str:
    if isinstance(error, ProviderError):
        return "the provider reported an error"
    return "the stream ended early" if error is None else _KINDS.get(error.kind, error.kind.replace("_", " "))


_KINDS = {
    "stream_truncated": "the stream ended early",
    "limit_exceeded": "the stream exceeded a limit",
    "deadline_exceeded": "a deadline passed",
}


# -- requests in the words of the conventions --
#
# A request is read as the caller sent it, in the shape of any provider; nothing of it is changed, or required to be
# there. Telemetry must not raise because a request has a shape that is not known here.


_PLACES = ("", "config", "generationConfig", "generation_config", "inferenceConfig", "options")

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "top_k": ("top_k", "topK"),
    "max_tokens": (
        "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "num_predict",
    ),
    "seed": ("seed",),
}  # fmt: skip

_TEXTS = ("text", "input_text", "output_text")  # types of blocks that are text


def request_model(request: Mapping[str, Any]) -> str | None:
    found = request.get("model", request.get("modelId"))
    return found if isinstance(found, str) else None


def parameters(request: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    places = [request, *(place for name in _PLACES if isinstance(place := request.get(name), Mapping))]
    for name, spellings in _PARAMETERS.items():
        found = (place[spelling] for place in places for spelling in spellings if spelling in place)
        value = next(found, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value


def instructions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Anthropic, Responses, Gemini; in Chat Completions they are a message.
    names = ("system", "instructions", "systemInstruction", "system_instruction")
    found = next((request[name] for name in names if request.get(name)), None)
    return [] if found is None else list(_parts(found))


def input_messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    # Responses takes bare text as its input, and so does Gemini as its contents.
    found = next((request[name] for name in ("messages", "input", "contents") if request.get(name)), None)
    if isinstance(found, str):
        return [{"role": "user", "parts": list(_parts(found))}]
    if not isinstance(found, Iterable) or isinstance(found, Mapping):
        return []
    return [_message(one) for one in found]


def _message(message: Any) -> dict[str, Any]:
    if callable(dump := getattr(message, "model_dump", None)):  # an SDK's object
        message = dump()
    if not isinstance(message, Mapping):
        return {"role": "user", "parts": list(_parts(message))}
    role = message.get("role", None if "type" in message else "user")  # Gemini's may lack it
    if role is None:  # an item of Responses
        return _item(message)
    parts = list(_parts(message.get("content", message.get("parts"))))
    parts += (_call(call) for call in message.get("tool_calls") or () if isinstance(call, Mapping))
    if role == "tool":
        parts = [{"type": "tool_call_response", "id": message.get("tool_call_id"), "response": message.get("content")}]
    return {"role": "assistant" if role == "model" else str(role), "parts": parts}


def _item(item: Mapping[str, Any]) -> dict[str, Any]:
    kind = item.get("type")
    if kind == "function_call":
        return {
            "role": "assistant",
            "parts": [_tool_call(item.get("call_id"), item.get("name"), item.get("arguments"))],
        }
    if kind == "function_call_output":
        response = {"type": "tool_call_response", "id": item.get("call_id"), "response": item.get("output")}
        return {"role": "tool", "parts": [response]}
    return {"role": "assistant", "parts": [dict(item)]}


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield {"type": "text", "content": content}
        return
    if isinstance(content, Mapping):
        content = content.get("parts", [content])
    if not isinstance(content, Iterable):
        return
    for block in content:
        yield _part(block)


def _part(block: Any) -> dict[str, Any]:
    if not isinstance(block, Mapping):
        return {"type": "text", "content": str(block)}
    kind = block.get("type")
    if isinstance(block.get("text"), str) and (kind is None or kind in _TEXTS):
        return {"type": "text", "content": block["text"]}
    if kind == "tool_use":
        return _tool_call(block.get("id"), block.get("name"), block.get("input"))
    if kind == "tool_result":
        return {"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")}
    for name in ("functionCall", "function_call", "toolUse"):
        if isinstance(call := block.get(name), Mapping):
            return _tool_call(
                call.get("id", call.get("toolUseId")), call.get("name"), call.get("args", call.get("input"))
            )
    for name in ("functionResponse", "function_response", "toolResult"):
        if isinstance(result := block.get(name), Mapping):
            return {
                "type": "tool_call_response",
                "id": result.get("id", result.get("toolUseId")),
                "response": result.get("response", result.get("content")),
            }
    return dict(block)


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    named = function if isinstance(function, Mapping) else call
    return _tool_call(call.get("id"), named.get("name"), named.get("arguments"))


def _tool_call(call_id: Any, name: Any, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


# -- prices --
#
#     Tracing(prices={"gpt-5": {"input_tokens": 1.25, "cached_input_tokens": 0.125, "output_tokens": 10}})
#
# A price is for a million tokens of a count of `streamtools.Usage`. No price is built in: they change, and differ by
# contract.

Prices: TypeAlias = Mapping[str, Mapping[str, float]] | Callable[[str | None, Usage], float | None]
"""The prices of models, by the beginning of their names; or a function of the model's name and the usage that returns
the cost, or None if unknown."""

MILLION = 1_000_000

_PARTS: Mapping[str, str] = {count: facts.part_of for count, facts in COUNTS.items() if facts.part_of is not None}


def checked_prices(prices: Prices | None) -> Prices | None:
    if prices is None or callable(prices):
        return prices
    if not isinstance(prices, Mapping) or not all(isinstance(one, Mapping) for one in prices.values()):
        raise TypeError('prices must be a function or a mapping by model: {"gpt-5": {"input_tokens": 1.25}}')
    for model, price in prices.items():
        for count, each in price.items():
            if count not in COUNTS:
                raise ValueError(f"prices[{model!r}]: unknown count {count!r}; known: {', '.join(COUNTS)}")
            if isinstance(each, bool) or not isinstance(each, (int, float)):
                raise TypeError(f"prices[{model!r}][{count!r}]: expected a number, got {type(each).__name__}")
    return prices


def cost_of(prices: Prices | None, models: tuple[str | None, ...], usage: Usage | None) -> float | None:
    """Returns the cost of a response; None if no price is known. `models` are the model's names, the surest first: the
    provider's own, and the one that was asked for."""
    if prices is None or usage is None:
        return None
    if callable(prices):
        return prices(next((name for name in models if name), None), usage)
    for model in models:
        # Providers add a date or a version to a model's name. "gpt-5" is the beginning of "gpt-5-mini", too, so that
        # the longest name counts.
        known = [name for name in prices if model is not None and model.startswith(name)]
        if known:
            return _cost(prices[max(known, key=len)], usage)
    return None


def _cost(price: Mapping[str, float], usage: Usage) -> float:
    # A count that is a part of another one (tokens from the cache, sound) is paid at its own price where it has one,
    # and is then taken out of the nearest whole that has a price; else it is paid as the rest of that whole.
    left = {name: getattr(usage, name) or 0 for name in COUNTS}
    for part, whole in _PARTS.items():
        if part in price:
            while whole not in price and whole in _PARTS:
                whole = _PARTS[whole]
            left[whole] -= left[part]
    # A provider's parts may be more than their whole: no cost is negative.
    return sum(max(0, left[name]) * price[name] for name in price) / MILLION
