"""Defines the interface to the ways in which models call tools, and an adapter for each way.

Any object with the methods of `ToolCallingAdapter` is an adapter; with those of `StreamingAdapter` it reads streams,
too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from ..errors import ExportError
from ..events import Observation
from ..exports import export
from ..history import with_results
from ..parts import ToolCall
from ..schema.bounds import schema_problem
from ..stages import DEFAULT, StageList, arguments_of
from ..tools import AnyTool, Exported, Tool, entries
from ..turn import Turn
from ..wires import find, known
from .payloads import WRAPPER, find_payload, with_payloads
from .responses import (
    CHAT,
    Payload,
    assistant_text,
    did_not_run,
    named_tools,
    observed_line,
    only_thinks,
    payload_of_call,
    payload_of_turn,
    payload_schema,
    result_text,
    said,
    text_messages,
    tool_prompt,
    with_system_prompt,
    with_text_results,
    without_thought,
)
from .validation import ToolCallValidation, check, pass_unchecked, unchecked


@runtime_checkable
class ToolCallingAdapter(Protocol):
    """Handles the parts that differ between models: request, response and arguments.

    Any object with these three methods is an adapter.
    """

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the fields to add to the request of a chat completion.

        They may include ``messages``, which then replace yours: ``create(**{"model": model, "messages": messages,
        **adapter.format_request(tools, messages)})``.

        Raises:
            ExportError: a tool cannot be expressed in this mode.
        """
        ...

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the model's decision; None if the response contains none in this form.

        It is ``{"tool", "arguments"}`` or ``{"answer"}``, maybe with a ``"scratchpad"``, or a scratchpad alone.

        Args:
            response: a whole response (an object of the SDK, or its dict), its text, or a `Turn` that was read with
                the adapter's stages.

        Raises:
            TypeError: `response` is none of these.
        """
        ...

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Validates the call; returns its arguments in the tool's types, or the problems for the model."""
        ...


@runtime_checkable
class StreamingAdapter(ToolCallingAdapter, Protocol):
    """Reads streams, too: ``pipeline(stream, tools=tools, stages=adapter.stages())``."""

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode: calls in its text become calls like native ones."""
        ...

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn, in the shape of its wire.

        They are the model's answer, and the results of its calls or, after mere thoughts, the request to continue.

        Raises:
            ExportError: the turn's wire is unknown.
        """
        ...

    def only_thinks(self, turn: Turn) -> bool:
        """Returns whether the turn is only a scratchpad (perhaps cut by its length), so that the model is asked
        again."""
        ...

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns a history with the results of its last calls, which waited for an approval and were resumed.

        Args:
            messages: the history that `messages` wrote while they waited; it is not changed.
            results: one observation for each of these calls (``events.turn.observations`` of `resume`).

        Raises:
            ValueError: the history contains no such calls.
        """
        ...

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's answer as a message for the history, in the form of chat completions."""
        ...

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result as a message for the history, in the form of chat completions.

        Args:
            result: an `Observation`, or the value that the tool returned.
            tool_call_id: the call's id, if the mode has ids.
        """
        ...


# -- the API's own calls --


_CHAT = "openai.chat_completions"


class NativeToolAdapter:
    """Adapts the API's own tool calling: ``tools`` in the request, ``tool_calls`` in the response.

    From a whole response only the first call is read. A stream (or a `Turn`) has all calls: there `messages` writes
    every call and every result.

    Args:
        wire: the wire for which tools are written.

    Raises:
        ValueError: the wire has no `Wire.message_in`, the path of the message in a whole response; use
            `streamtools.exports`.
    """

    def __init__(self, wire: str = _CHAT) -> None:
        # Only wires whose record says where a whole response has its message: Gemini's has candidates, and parts.
        readable = [each.name for each in known() if each.message_in is not None]
        if wire not in readable:
            raise ValueError(
                f"NativeToolAdapter: expected one of {', '.join(readable)}, got {wire!r}. For other wires, put the "
                "payloads of streamtools.exports into the request yourself"
            )
        self.wire = wire
        """The wire whose form the tools take."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wire!r})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the request's fields for its tools; none if there are no tools.

        Raises:
            ExportError: the wire cannot carry a tool in its present form; then pass the result of
                `streamtools.exports.export`, here and to the pipeline.
        """
        exported = {given.name: given.payload for given in tools if isinstance(given, Exported)}
        payloads = [exported.get(name) or tool.to(self.wire) for name, tool in named_tools(tools)]
        # Providers refuse an empty list of tools.
        return entries.find(self.wire, False)[0].request(payloads, False) if payloads else {}

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the first call, or the text as the answer; None if there is neither."""
        text, calls = said(response)
        if calls:
            return payload_of_call(calls[0])
        return {"answer": text} if text else None

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Validates the call by the tool itself."""
        # The API's own check is not relied upon: not every server holds the model to the schema.
        return check(payload, tools_by_name)

    def stages(self) -> StageList:
        """Returns the default stages: native calls need no others."""
        return DEFAULT

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        """Returns the messages to append after a turn, in the wire's form."""
        return turn.messages(self.wire)

    def only_thinks(self, turn: Turn) -> bool:
        """Returns False: a native turn without calls is an answer."""
        return False

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        """Returns the history with each observation as its call's result; see `streamtools.history.with_results`."""
        return with_results(list(messages), results, self.wire)

    def tool_call_id(self, response: Any) -> str | None:
        """Returns the id of the call that `extract_tool_call` returns; None if there is none."""
        return next((call.call_id for call in said(response)[1]), None)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        """Returns the model's message in the form of chat completions.

        For a turn it has all calls, for a response only the one that `extract_tool_call` returns.
        """
        if isinstance(response, Turn):
            return next(iter(response.messages(_CHAT)), {"role": "assistant", "content": ""})
        text, calls = said(response)
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        if calls:  # the first alone: the others get no result, and a call without one is refused
            message["tool_calls"] = [_chat_call(calls[0])]
        return message

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        """Returns a call's result, in the form of chat completions.

        Raises:
            ValueError: there is no id; `tool_call_id` returns the id in a response.
        """
        if tool_call_id is None and isinstance(result, Observation):
            tool_call_id = result.call_id
        if tool_call_id is None:
            raise ValueError("format_tool_result() needs tool_call_id=...; take it from tool_call_id(response)")
        return {"role": "tool", "tool_call_id": tool_call_id, "content": result_text(result)}


def _chat_call(call: ToolCall) -> dict[str, Any]:
    if call.kind == "custom":
        return {"id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": call.arguments_text}}
    found = arguments_of(call.arguments_text)
    whole = not isinstance(found, str) and not found[1]
    function = {"name": call.name, "arguments": call.arguments_text if whole else "{}"}
    return {"id": call.call_id, "type": "function", "function": function}


# -- modes in text --

# These models write payloads in the text, asked for by a schema, JSON mode or the prompt. Their histories are text, too
# (`responses`), since many of their templates have neither calls nor results.


class _TextAdapter(StreamingAdapter):
    _wrapper: str | None = None  # the key under which the model was asked to write its payload

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def extract_tool_call(self, response: Any) -> Payload | None:
        if isinstance(response, Turn):
            return payload_of_turn(response)
        text, calls = said(response)
        found = find_payload(without_thought(text))
        # A native call may still come, though no tools were declared.
        if found is None and calls:
            native = payload_of_call(calls[0])
            return native if isinstance(native["arguments"], dict) else None
        return found

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        return check(payload, tools_by_name)

    def stages(self) -> StageList:
        return with_payloads()

    def messages(self, turn: Turn) -> list[dict[str, Any]]:
        return text_messages(turn, self._wrapper)

    def only_thinks(self, turn: Turn) -> bool:
        return only_thinks(turn)

    def with_results(self, messages: Sequence[Any], results: Iterable[Observation]) -> list[Any]:
        return with_text_results(messages, results)

    def format_assistant_message(self, response: Any) -> dict[str, Any]:
        return {"role": "assistant", "content": assistant_text(response, self._wrapper)}

    def format_tool_result(self, result: Any, *, tool_call_id: str | None = None) -> dict[str, Any]:
        return {"role": "user", "content": observed_line(result_text(result), did_not_run(result))}


class OpenAIStructuredAdapter(_TextAdapter):
    """Adapts a provider that enforces a schema for the whole answer: one variant per tool, an answer, a scratchpad.

    Args:
        strict: False for tools that no strict schema can express, or servers without strict schemas: the model may then
            deviate, which only validation finds.
        wrapped: False puts the union at the root, which vLLM and llama.cpp accept and OpenAI does not.
        scratchpad: calls and answers begin with a scratchpad, so that the model thinks before it decides.
    """

    def __init__(self, *, strict: bool = True, wrapped: bool = True, scratchpad: bool = False) -> None:
        self._strict = strict
        self._wrapper = WRAPPER if wrapped else None
        self._scratchpad = scratchpad

    def __repr__(self) -> str:
        options = f"strict={self._strict}, wrapped={self._wrapper is not None}, scratchpad={self._scratchpad}"
        return f"{type(self).__name__}({options})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns ``response_format`` with the schema.

        Raises:
            ExportError: a tool cannot be expressed strictly; the message says why.
        """
        described = [
            (name, tool.description, self._as_shown(name, tool).payload["function"]["parameters"])
            for name, tool in named_tools(tools)
        ]
        schema = payload_schema(described, wrapped=self._wrapper is not None, scratchpad=self._scratchpad)
        form = find(CHAT).structured
        assert form is not None, "the wire of this adapter has structured output"
        # Each tool may keep within the provider's bounds while all of them in one schema exceed these.
        if self._strict and (problem := schema_problem(schema, form.strict.bounds)) is not None:
            raise ExportError(f"the answer's schema, with all tools in it: {problem}; {_WITHOUT_STRICT}")
        return form.request("agent_response", schema, self._strict)

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Translates the arguments back from the schema's form, and validates them by the tool itself."""
        return check(payload, tools_by_name, self._as_shown)

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode. They translate arguments back from the schema's form."""
        return with_payloads(self._as_shown)

    def _as_shown(self, name: str, tool: Tool) -> Exported:
        # The tool's own name: here it is a value of the schema, not a function's name by the provider's rule.
        return replace(_exported(tool, self._strict), name=name)


_WITHOUT_STRICT = "OpenAIStructuredAdapter(strict=False) does without the provider's guarantee"


def _exported(tool: Tool, strict: bool) -> Exported:
    if tool.kind == "custom":  # as a function with one text: the variant of a payload has no form for raw text
        function = {"parameters": {**tool.schema, "additionalProperties": False}}
        return Exported(tool=tool, wire=CHAT, name=tool.name, payload={"function": function}, decode=dict)
    try:
        return export(tool, CHAT, strict=strict)
    except ExportError as error:
        raise ExportError(
            f"tool {tool.name!r} cannot be a variant of the answer's schema: {error}; {_WITHOUT_STRICT}"
        ) from error


class JSONObjectAdapter(_TextAdapter):
    """Adapts JSON mode: the provider ensures that the answer is a JSON object, and the system prompt describes it.

    `format_request` also returns ``messages``, which replace yours.
    """

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns ``response_format``, and the messages with the tools in the system prompt."""
        return {
            "response_format": {"type": "json_object"},
            "messages": with_system_prompt(messages, tool_prompt(tools)),
        }


class ParsedAdapter(_TextAdapter):
    """Adapts JSON in the text without validation, as the record of each call says.

    The request has no instructions: describe the tools to the model with `tool_prompt`.
    """

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns no fields."""
        return {}

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Lets the arguments pass if they are an object; ``validated`` is False."""
        return pass_unchecked(payload, tools_by_name)

    def stages(self) -> StageList:
        """Returns the stages for a stream in this mode: calls run with the model's arguments unchanged."""
        return with_payloads(
            lambda name, tool: Exported(tool=unchecked(tool), wire="", name=name, payload={}, decode=dict)
        )


class ValidatedAdapter(_TextAdapter):
    """Validates every call of another adapter by its tool.

    Args:
        base: the adapter that writes the request and reads the response; it may be your own. By default nothing is
            added to the request, and JSON is found in the text: describe the tools to the model with `tool_prompt`.
    """

    def __init__(self, base: ToolCallingAdapter | None = None) -> None:
        self.base = base if base is not None else ParsedAdapter()
        """The wrapped adapter."""
        self._streaming = self.base if isinstance(self.base, StreamingAdapter) else None
        for name in _OF_HISTORIES if self._streaming is not None else ():
            setattr(self, name, getattr(self._streaming, name))  # else histories are text

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r})"

    def format_request(self, tools: Sequence[AnyTool], messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Returns the base's fields for the request."""
        return self.base.format_request(tools, messages)

    def extract_tool_call(self, response: Any) -> Payload | None:
        """Returns the payload that the base finds; in a turn, that of the stages."""
        # A base of three methods knows nothing of turns: their payload was read by our stages.
        is_ours = isinstance(response, Turn) and self._streaming is None
        return super().extract_tool_call(response) if is_ours else self.base.extract_tool_call(response)

    def validate_tool_call(self, payload: Payload | None, tools_by_name: Mapping[str, AnyTool]) -> ToolCallValidation:
        """Refuses the calls that the base refuses; validates those that it accepts without a schema."""
        if payload is None:
            return check(payload, tools_by_name)
        # The base may be a user's, which lets pass what no schema has seen; its own refusals stand.
        found = self.base.validate_tool_call(payload, tools_by_name)
        if found.validated or not found.is_valid:
            return found
        return check({**payload, "arguments": found.arguments}, tools_by_name)

    def stages(self) -> StageList:
        """Returns the base's stages, if they validate; otherwise those for a payload in the text."""
        if self._streaming is None or isinstance(self.base, ParsedAdapter):
            return super().stages()
        return self._streaming.stages()


_OF_HISTORIES = ("messages", "only_thinks", "with_results", "format_assistant_message", "format_tool_result")


# -- the mode of a model, by its name --


class ToolCallingMode(Enum):
    """The way in which a model calls tools."""

    AUTO = "auto"
    """By the model's name; see `streamtools.modes.DEFAULT_RULES`."""
    NATIVE = "native"
    """The API's own tool calling."""
    STRUCTURED = "structured"
    """A JSON Schema that the provider enforces for the whole answer."""
    VALIDATED = "validated"
    """JSON in the text, validated by the tool before it may run."""
    PARSED = "parsed"
    """JSON in the text, unvalidated, as the record of each call says."""


NATIVE, STRUCTURED, VALIDATED = ToolCallingMode.NATIVE, ToolCallingMode.STRUCTURED, ToolCallingMode.VALIDATED


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Assigns a mode to the models whose names match a pattern.

    >>> ModelRule("my-model", ToolCallingMode.STRUCTURED).fits("acme/my-model-v2")
    True

    Raises:
        ValueError: the pattern is not a regular expression, or the mode is ``AUTO``.
    """

    pattern: str
    """A regular expression for the beginning of the name, so that a plain name is a prefix. One that contains a ``/``
    is compared with the whole name, including the vendor."""
    mode: ToolCallingMode
    why: str = field(default="", compare=False)
    """The reason for the rule."""
    _match: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.mode is ToolCallingMode.AUTO:
            raise ValueError(f"ModelRule({self.pattern!r}): expected a mode other than AUTO, which the rules resolve")
        try:
            compiled = re.compile(self.pattern, re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"ModelRule({self.pattern!r}): {error}") from None
        object.__setattr__(self, "_match", compiled)

    def fits(self, model: str) -> bool:
        """Returns whether the rule applies to this model."""
        name = model.strip().lower()
        return self._match.match(name if "/" in self.pattern else _bare(name)) is not None


_FINE_TUNE = re.compile(r"(?:^|/)ft:([^:/]+)")
_DOTTED_VENDOR = re.compile(
    r"(?:(?:us|eu|apac|global|jp|au|ca|us-gov)\.)?"
    r"(?:(?:ai21|amazon|anthropic|cohere|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|writer|zai)\."
    r"|(?=deepseek\.))"  # Bedrock's `deepseek.r1` has no more than that
)


def _bare(name: str) -> str:
    """Returns the model's name without vendor, path and region; for a fine-tune, the name of its base model."""
    # The same model is `gpt-4o`, `openai/gpt-4o`, `accounts/fireworks/models/...` at a host of models, `us.anthropic.`
    # and its name at Bedrock; a fine-tune is `ft:`, its base and the customer; Ollama's `mistral:7b` is `mistral-7b`.
    tuned = _FINE_TUNE.search(name)
    name = tuned[1] if tuned else name.rpartition("/")[2]
    dotted = _DOTTED_VENDOR.match(name)
    return (name[dotted.end() :] if dotted else name).replace(":", "-")


def mode_for(model: str, rules: Iterable[ModelRule] | None = None) -> ToolCallingMode | None:
    """Returns the mode of the first rule that fits; None if none does.

    >>> mode_for("openai/gpt-4o-mini"), mode_for("mistral-7b"), mode_for("my-own")
    (<ToolCallingMode.STRUCTURED: 'structured'>, <ToolCallingMode.VALIDATED: 'validated'>, None)

    Args:
        model: the model's name in the request.
        rules: in order; `DEFAULT_RULES` by default.
    """
    for rule in DEFAULT_RULES if rules is None else rules:
        if rule.fits(model):
            return rule.mode
    return None


_SIZE = r".*?(?<![a-z0-9.])\d+(?:\.\d+)?(?:x\d+(?:\.\d+)?)?b(?![a-z0-9])"

_NEITHER = "accepts neither tools nor a schema"

# The first rule that fits decides, so exceptions stand before their families, and families before their vendors.
DEFAULT_RULES: tuple[ModelRule, ...] = (
    # -- OpenAI: since gpt-4o a schema for the whole answer; exceptions first
    # (https://platform.openai.com/docs/guides/structured-outputs, and the models' pages)
    ModelRule("gpt-4o-2024-05-13", NATIVE, "json_schema begins with gpt-4o-2024-08-06"),
    ModelRule("gpt-4o(-mini)?-(audio|realtime)", NATIVE, "tools, but no json_schema"),
    ModelRule("chatgpt-4o", VALIDATED, _NEITHER),
    ModelRule("o1-(mini|preview)", VALIDATED, _NEITHER),
    ModelRule("gpt-4o", STRUCTURED),
    ModelRule(r"gpt-4\.[15]", STRUCTURED),
    ModelRule(r"o[134](?![a-z0-9])", STRUCTURED),
    ModelRule(r"gpt-3\.?5", NATIVE, "Azure writes gpt-35-turbo"),
    ModelRule("gpt-(?:[5-9]|[1-9][0-9])(?![0-9b])", STRUCTURED, "GPT-5 and what follows it"),
    ModelRule("gpt-oss", STRUCTURED, "of any size; servers compile the schema to a grammar"),
    ModelRule("gpt-4", NATIVE),
    # -- open weights with calls in their own chat template (see the models' cards), whatever their size
    ModelRule(
        "(?:meta-)?llama-?v?[34](?![0-9])", NATIVE, "Llama 3 and 4; 3.0 was not trained for it, yet servers offer it"
    ),
    ModelRule(r"qwen-?(?:2\.5|[3-9](?![0-9b]))", NATIVE),
    ModelRule("qwq", NATIVE),
    ModelRule(r"deepseek[-.](?:chat|reasoner|v(?:2\.5|[3-9]))", NATIVE),
    ModelRule(r"deepseek\.r1", VALIDATED, "Bedrock's has no tool use in its Converse API"),
    ModelRule(r"deepseek-r1(?!.*(?:distill|qwen|llama|-\d+(?:\.\d+)?b))", NATIVE, "since R1-0528; not its distillates"),
    ModelRule("(?:ministral|devstral|magistral|pixtral|codestral)", NATIVE),
    ModelRule("(?:open-)?mistral-(?:small|medium|large|nemo)", NATIVE),
    ModelRule("glm-?[4-9](?![0-9b])", NATIVE),
    ModelRule("(?:kimi|moonshot)", NATIVE),
    ModelRule("minimax", NATIVE),
    ModelRule("(?:c4ai-)?command-(?:r|a)", NATIVE, "Cohere Command R, R+, R7B and A"),
    ModelRule(r"(?:functiongemma|gemma-?[4-9](?![0-9b]))", NATIVE, "calls in its template since Gemma 4"),
    ModelRule("(?:nous-)?hermes-?[2-9](?![0-9b])", NATIVE),
    ModelRule("granite-?[34](?![0-9b])", NATIVE),
    ModelRule("phi-?4-mini", NATIVE),
    ModelRule("lfm-?2(?![0-9b])", NATIVE),
    ModelRule("(?:nvidia-)?nemotron", NATIVE),
    # -- any other name with a size in it is a local model, also of a vendor whose hosted models are NATIVE: its server
    # may have no template for calls
    ModelRule(_SIZE, VALIDATED, "mistral-7b, codellama-7b, deepseek-coder-6.7b"),
    ModelRule("gemma", VALIDATED, "up to 3: no tokens for calls"),
    ModelRule("phi", VALIDATED),
    ModelRule("codellama", VALIDATED),
    # -- vendors
    ModelRule(r"claude-(?:v?[12]|instant)(?![0-9])", VALIDATED, "tools begin with Claude 3"),
    ModelRule("claude", NATIVE),
    ModelRule("gemini", NATIVE),
    ModelRule("grok", NATIVE),
    ModelRule("nova", NATIVE, "Amazon"),
    ModelRule("jamba", NATIVE),
    ModelRule("(?:mistral|mixtral)", NATIVE),
    ModelRule("llama", NATIVE),
    ModelRule("(?:qwen|qvq)", NATIVE),
    ModelRule("deepseek", NATIVE),
    ModelRule(
        "(?:openai|anthropic|google|meta-llama|mistralai|qwen|deepseek|deepseek-ai|x-ai|z-ai|moonshotai|cohere)/",
        NATIVE,
        "as OpenRouter offers any other name of these vendors",
    ),
)
"""The rules as of 2026-11-21, in order. Put yours before them: ``[ModelRule(...), *DEFAULT_RULES]``."""


_ADAPTERS: dict[ToolCallingMode, Callable[[], StreamingAdapter]] = {
    ToolCallingMode.NATIVE: NativeToolAdapter,
    ToolCallingMode.STRUCTURED: OpenAIStructuredAdapter,
    ToolCallingMode.VALIDATED: ValidatedAdapter,
    ToolCallingMode.PARSED: ParsedAdapter,
}


def get_adapter(
    model: str, mode: ToolCallingMode | str = ToolCallingMode.AUTO, *, rules: Iterable[ModelRule] | None = None
) -> StreamingAdapter:
    """Returns the adapter for a model. No request is sent: the name decides.

    >>> type(get_adapter("gpt-4o-mini")).__name__, type(get_adapter("gpt-4o", "native")).__name__
    ('OpenAIStructuredAdapter', 'NativeToolAdapter')

    Args:
        model: the model's name in the request.
        mode: the way in which it calls tools; ``AUTO`` finds it by the name. A model that no rule matches gets JSON
            mode, with the tools in the system prompt, and validation.
        rules: instead of `DEFAULT_RULES`; ``[ModelRule(...), *DEFAULT_RULES]`` puts yours before them.

    Raises:
        TypeError: `model` is not text.
        ValueError: the mode is unknown.
    """
    if not isinstance(model, str):
        raise TypeError(
            f"get_adapter(): expected the model's name, got {type(model).__name__}; write get_adapter('gpt-4o-mini')"
        )
    try:
        chosen: ToolCallingMode | None = ToolCallingMode(mode)
    except ValueError:
        known = ", ".join(known.value for known in ToolCallingMode)
        raise ValueError(f"unknown mode {mode!r}; known: {known}") from None
    if chosen is ToolCallingMode.AUTO:
        chosen = mode_for(model, rules)
    if chosen is None:
        return ValidatedAdapter(JSONObjectAdapter())
    return _ADAPTERS[chosen]()
