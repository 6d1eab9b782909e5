"""Converse's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...parts import Finish
from ...schema.dialects import BEDROCK_STRICT, PLAIN
from ...schema.names import PLAIN_NAMES
from ..anthropic.facts import LIMITS
from ..formats import JSON, CallFormat, EntryFormat, ResultFormat, StrictForm, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules, Violation, claude_since, joined
from ..reading import KnownFields, UsageMap, list_of, object_of, total

EVENT_FIELDS: dict[str, KnownFields] = {  # `p` is padding
    "messageStart": KnownFields("p", "role"),
    "contentBlockStart": KnownFields("contentBlockIndex", "p", "start"),
    "contentBlockDelta": KnownFields("contentBlockIndex", "delta", "p"),
    "contentBlockStop": KnownFields("contentBlockIndex", "p"),
    "messageStop": KnownFields("p", "stopReason"),
    "metadata": KnownFields("p", "usage", metrics=KnownFields("latencyMs")),
}  # the fields of each event that are read or say nothing. A block's start and deltas are read apart.

NOISE = frozenset({"amazon-bedrock-invocationMetrics", "p"})
"""Names beside an event's that say nothing about the response: a count of the tokens that the usage has, padding."""

OPAQUE_BLOCKS = frozenset({"toolResult", "image"})
"""Blocks that are kept whole and given back without being looked into."""

FINISHES: dict[str, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
}

CONDEMNED = {"malformed_tool_use": "malformed_function_call", "malformed_model_output": "provider_error"}
"""Reasons for which there is no answer, even if a call came out of it: the service could not read the model's words."""

CALLS = (CallFormat(name="bedrock.tool_spec", inside="toolUse", id="toolUseId", id_inside=True, arguments="input"),)

RESULT = ResultFormat(
    recognises=lambda result: isinstance(result.get("toolResult"), Mapping) and "role" not in result, list_key="content"
)

# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Tool.html (read 2026-11-21)
_HOSTED = frozenset({"systemTool", "cachePoint"})


def hosted(tool: JSON) -> str | None:
    return next(iter(tool)) if "type" not in tool and tool.keys() & _HOSTED else None


TOOLS = (
    ToolFormat(
        name="bedrock.converse_stream",
        dialect=PLAIN,
        strict=StrictForm(dialect=BEDROCK_STRICT, location="`strict` of the `toolSpec`"),
        names=PLAIN_NAMES,
        function=EntryFormat(
            name="bedrock.tool_spec", inside="toolSpec", schema_at=("inputSchema", "json"), strict="where_strict"
        ),
        request=lambda entries, strict: {"toolConfig": {"tools": entries}},
        choice={"toolConfig": {"toolChoice": {"auto": {}}}},
        hosted=hosted,
        limits=LIMITS,
    ),
)


def output_config(name: str, schema: dict[str, Any], strict: bool) -> dict[str, Any]:
    """Returns ``outputConfig``, whose schema is text.
    https://docs.aws.amazon.com/bedrock/latest/userguide/structured-output.html"""
    structure = {"jsonSchema": {"name": name, "schema": json.dumps(schema)}}
    return {"outputConfig": {"textFormat": {"type": "json_schema", "structure": structure}}}


STRUCTURED = StructuredOutput(
    request=output_config, strict=StrictForm(dialect=BEDROCK_STRICT, location="`outputConfig.textFormat`")
)

BLANK_TEXT = (  # OpenHands/OpenHands#5339
    "The text field in the ContentBlock object at messages.28.content.1 is blank. Add text to the text field, and try "
    "again."
)
EMPTY_RESULT = (  # aws-samples/sample-multi-agent-orchestration-chat-on-agentcore#15
    "The content field at messages.2.content.0.toolResult cannot be empty when status value is error."
)
# can1357/oh-my-pi#11685
MEDIA_INSIDE = "This model doesn't support the image field for user messages. Remove image and try again."
DOCUMENT_WITHOUT_TEXT = "A text block must be included when using documents."  # archestra-ai/archestra#4220

# strands-agents/harness-sdk#1223 and langchain-ai/langchain-aws#141: Llama and Mistral
_RESULTS_APART = re.compile(r"(^|[./])(meta|mistral)\.|llama|mistral|mixtral|pixtral", re.IGNORECASE)


# An image: "This field is only supported by Amazon Nova and Anthropic Claude 3 and 4 models".
# https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolResultContentBlock.html (read 2026-11-29)
# Llama 4 takes one, too (anomalyco/opencode#49443). The ARN of an application's own profile, or model, hides the name.
_TAKES_MEDIA = re.compile(r"claude|nova|llama-?4|application-inference|(provisioned|custom|imported)-model", re.I)


def _for_model(model: str) -> HistoryRules:
    rules = _STRICT if _RESULTS_APART.search(model) else RULES
    return rules if _TAKES_MEDIA.search(model) else replace(rules, check=_check, mend=_mended)


def _beside(message: Any) -> Any:
    """Returns a user's message with the media of its results behind them; the same one if they have none."""
    content, moved = list[Any](), list[Any]()
    for block in list_of(object_of(message).get("content")):
        result = object_of(object_of(block).get("toolResult"))
        media = [one for one in list_of(result.get("content")) if object_of(one).keys() & {"image", "video"}]
        if media and message.get("role") == "user":
            shown = [{"text": "[beside the results]"} if one in media else one for one in result["content"]]
            block, moved = {"toolResult": {**result, "content": shown}}, moved + media
        content.append(block)
    return {**message, "content": [*content, *moved]} if moved else message


def _check(messages: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    for at, message in enumerate(messages):
        if _beside(message) is not message:
            what = "a result contains an image or a video, which this model accepts only beside results"
            yield RULES.violation("bad_result", f"messages[{at}]", what, MEDIA_INSIDE)


def _mended(messages: list[Any]) -> list[Any]:
    after = [*map(_beside, messages)]
    return after if any(new is not old for new, old in zip(after, messages, strict=True)) else messages


RULES = HistoryRules(
    system="apart",
    first_user=True,
    answers_no_answer=claude_since(4, 6),
    # "Mythos 5.1 records the same signature but doesn't run it": the user guide, claude-messages-thinking-block-binding
    binds=lambda model: claude_since(5, 1)(model) and "mythos-5-1" not in model,
    results_in_one_message=True,
    alternate=True,
    texts={
        # anomalyco/opencode#48637
        "changed_prefix": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
        "different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "
        '"drop_block".',
        # camel-ai/camel#3954
        "unanswered_call": "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_1",
        # strands-agents/harness-sdk#1435
        "orphan_result": "The number of toolResult blocks at messages.2.content exceeds the number of toolUse blocks "
        "of previous turn.",
        # BerriAI/litellm#20047
        "duplicate_result": "The toolResult blocks at messages.2.content contain duplicate Ids: tooluse_1",
        # bvcyber/Cyber-AutoAgent-ng#72
        "duplicate_id": "The toolUse blocks at messages.2.content contain duplicate Ids: http_request",
        # Claude's behind it, from LibreChat-AI/agents#153
        "bad_id": "messages.1.content.1.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
        # aws/aws-sdk-net#3377, of another object
        "arguments_not_object": "The format of the value at messages.1.content.0.toolUse.input is invalid. Provide a "
        "json object for the field and try again.",
        # deepset-ai/haystack-core-integrations#3766, sigoden/aichat#1550
        "bad_result": "The format of the value at messages.28.content.0.toolResult.content.0.json is invalid. Provide "
        "a json object for the field and try again.",
        # earendil-works/pi#3443
        "empty_message": "The content field in the Message object at messages.2 is empty. Add a ContentBlock object to "
        "the content field and try again.",
        # pydantic/pydantic-ai#4495
        "first_not_user": "A conversation must start with a user message. Try again with a conversation that starts "
        "with a user message.",
        # NousResearch/hermes-agent#101401
        "last_not_user": "This model does not support assistant message prefill. The conversation must end with a user "
        "message.",
        # microsoft/semantic-kernel#10281
        "role_order": "A conversation must alternate between user and assistant roles. Make sure the conversation "
        "alternates between user and assistant roles and try again.",
        # langchain-ai/langchain-aws#141
        "mixed_results": "messages.2.content: Conversation blocks and tool result blocks cannot be provided in the "
        "same turn.",
        # can1357/oh-my-pi#9086
        "missing_signature": "User messages cannot contain reasoning content",
        # langgenius/dify#17545
        "missing_tools": "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    },
    join=partial(joined, key="content"),
    for_model=_for_model,
)
_STRICT = replace(RULES, results_apart=True, answer_before_user=True)

USAGE = UsageMap({
    # "total tokens = cacheReadInputTokens + cacheWriteInputTokens + inputTokens":
    # https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html
    "input_tokens": total("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
    "output_tokens": ("outputTokens",),
    "cached_input_tokens": ("cacheReadInputTokens",),
    "cache_write_input_tokens": ("cacheWriteInputTokens",),
})  # fmt: skip
