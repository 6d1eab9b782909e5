"""Ollama's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

from ...schema.dialects import OLLAMA, PLAIN
from ..formats import ResultFormat, StrictForm, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules
from ..openai_chat.facts import FUNCTION_CALL, FUNCTION_TOOL
from ..reading import KnownFields, UsageMap

REMOTE = frozenset({"remote_host", "remote_model"})
"""Fields of every line of a model that runs elsewhere: where, and under which name."""

_TEXT_FIELDS = frozenset({"created_at", "done", "message", "model", *REMOTE})
"""Fields of a line of text, which say nothing but the text and what is told before."""

_MESSAGE = KnownFields("content", "images", "role", "thinking", tool_calls=KnownFields(
    "id", "type", function=KnownFields("arguments", "index", "name"),
))  # fmt: skip

LINE_FIELDS: dict[bool, KnownFields] = {
    True: KnownFields(*_TEXT_FIELDS - {"message"}, message=_MESSAGE),
    False: KnownFields(*_TEXT_FIELDS - {"message"}, "response", "thinking"),
}  # the fields of a line of ``/api/chat``, which has a message (True), and of one of ``/api/generate``

END_FIELDS = frozenset({  # what the last line has besides: the finish, and the counts and times that are the usage
    "done_reason", "eval_count", "eval_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration",
    "total_duration",
})  # fmt: skip

CALLS = (FUNCTION_CALL,)

RESULT = ResultFormat(
    recognises=lambda result: result.get("role") == "tool" and "tool_name" in result,
    call_id_key="tool_call_id",
    id_optional=True,
    is_message=True,
)

TOOLS = (ToolFormat(name="ollama.chat", dialect=OLLAMA, names=None, function=FUNCTION_TOOL),)


# https://docs.ollama.com/capabilities/structured-outputs
# The server makes a grammar of the schema as it is: its own type of tools' properties has no part in it.
STRUCTURED = StructuredOutput(
    request=lambda name, schema, strict: {"format": schema}, strict=StrictForm(dialect=PLAIN, location="`format`")
)

RULES = HistoryRules(
    call_path="tool_calls[{}]",
    call_ids_optional=True,
    result_names=True,
    texts={
        # aliasrobotics/cai#76, ollama/ollama#12794
        "arguments_not_object": "json: cannot unmarshal string into Go struct field "
        "ChatRequest.messages.tool_calls.function.arguments of type api.ToolCallFunctionArguments"
    },
)

USAGE = UsageMap({
    "input_tokens": ("prompt_eval_count",),
    "output_tokens": ("eval_count",),
})  # fmt: skip
