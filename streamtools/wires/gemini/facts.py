"""The Gemini API's facts: how it writes calls, results and tools, what it demands of a history, what it counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from ...schema.dialects import GEMINI as DIALECT
from ...schema.dialects import GEMINI_OPENAPI
from ...schema.names import NameRule
from ..formats import JSON, CallFormat, EntryFormat, ResultFormat, StrictForm, StructuredOutput, ToolFormat
from ..history_rules import HistoryRules, Violation, joined
from ..marks import GEMINI
from ..reading import Derived, KnownFields, UsageMap, object_of, objects_in

CALLS = (
    CallFormat(
        name="gemini.function_declaration",
        inside="functionCall",
        id="id",
        id_inside=True,
        id_optional=True,  # older models have none
        arguments="args",
    ),
)

RESULT = ResultFormat(
    recognises=lambda result: isinstance(result.get("functionResponse"), Mapping), list_key="parts", id_optional=True
)

# 400 otherwise: "Must start with a letter or an underscore. Must be a-z, A-Z, 0-9, or contain underscores (_), dots
# (.), colons (:), or dashes (-), with a maximum length of 64."
NAMES = NameRule("a-zA-Z_", "a-zA-Z0-9_.:-", 64)
NAMES_IN_HISTORY = replace(NAMES, length=128)  # longer ones of calls go back as they came

# https://ai.google.dev/api/caching#Tool (read 2026-11-21)
_HOSTED = frozenset({
    "codeExecution", "computerUse", "enterpriseWebSearch", "fileSearch", "googleMaps", "googleSearch",
    "googleSearchRetrieval", "urlContext",
})  # fmt: skip
_SYNONYMS = {"parameters": "parametersJsonSchema", "response": "responseJsonSchema"}
"""The fields in OpenAPI's form, and those in JSON Schema: https://ai.google.dev/api/caching#FunctionDeclaration"""


def in_json_schema(declaration: JSON) -> JSON:
    kept = {key: value for key, value in declaration.items() if key not in _SYNONYMS}
    for openapi, json_schema in _SYNONYMS.items():
        written = declaration.get(openapi)
        if isinstance(written, Mapping) and not isinstance(declaration.get(json_schema), Mapping):
            kept[json_schema] = as_json_schema(written)
    return kept


def hosted(tool: JSON) -> str | None:
    return next(iter(tool)) if tool and tool.keys() <= _HOSTED else None


def request(entries: list[dict[str, Any]], strict: bool) -> dict[str, Any]:
    """Returns all declarations in one tool, with Gemini's own beside it; strict is a mode of the whole request."""
    own = [entry for entry in entries if "name" not in entry]
    declared = [entry for entry in entries if "name" in entry]
    said: dict[str, Any] = {"tools": [*([{"functionDeclarations": declared}] if declared else []), *own]}
    if strict:
        # https://ai.google.dev/gemini-api/docs/function-calling#function_calling_modes
        said["toolConfig"] = {"functionCallingConfig": {"mode": "VALIDATED"}}
    return said


DECLARATION = EntryFormat(
    name="gemini.function_declaration",
    schema_at=("parametersJsonSchema",),
    output_at="responseJsonSchema",
    never=frozenset({"type"}),
    bare=True,
    in_own_words=in_json_schema,
)

_CHOICE = {"toolConfig": {"functionCallingConfig": {"mode": "AUTO"}}}
_STRICT = StrictForm(dialect=DIALECT, location="mode `VALIDATED` of the request", whole_request=True)

TOOLS = (
    ToolFormat(
        name="gemini.generate_content",
        dialect=DIALECT,
        strict=_STRICT,
        names=NAMES,
        function=DECLARATION,
        request=request,
        choice=_CHOICE,
        hosted=hosted,
    ),
    ToolFormat(
        name="gemini.parameters",
        dialect=GEMINI_OPENAPI,
        strict=replace(_STRICT, dialect=GEMINI_OPENAPI),
        names=NAMES,
        # 400 otherwise: "parameters.properties: should be non-empty for OBJECT type"
        function=replace(
            DECLARATION, schema_at=("parameters",), schema_optional=True, output_at="response", in_own_words=None
        ),
        request=request,
        choice=_CHOICE,
    ),
)


# https://ai.google.dev/gemini-api/docs/structured-output
STRUCTURED = StructuredOutput(
    request=lambda name, schema, strict: {
        "generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": schema}
    },
    strict=StrictForm(dialect=DIALECT, location="`generationConfig.responseJsonSchema`"),
)

# google-gemini/gemini-cli#4217
_COUNT = (
    "Please ensure that the number of function response parts is equal to the number of function call parts of the "
    "function call turn."
)
# langchain-ai/langchain#27799
_RESPONSE_TURN = "Please ensure that function response turn comes immediately after a function call turn."
# google-gemini/gemini-cli#26486; of a history that begins with a call: #11814
_CALL_TURN = (
    "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
)
BLANK_PART = "required oneof field 'data' must have one initialized field"  # router-for-me/CLIProxyAPI#1292


def _calls_after_model(contents: Sequence[Any]) -> Iterator[int]:
    for place, (before, content) in enumerate(pairwise(map(object_of, contents)), start=1):
        parts = objects_in(content, "parts")
        has_call = any("functionCall" in part or "function_call" in part for part in parts)
        if has_call and before.get("role") == content.get("role") == "model":
            yield place


def _check(contents: Sequence[Mapping[str, Any]]) -> Iterator[Violation]:
    for place in _calls_after_model(contents):
        yield RULES.violation("role_order", f"contents[{place}]", "a call of the model follows text of the model")


def _mend(contents: list[Any]) -> list[Any]:
    behind = set(_calls_after_model(contents))
    if not behind:
        return contents
    runs: list[list[Any]] = []
    for place, content in enumerate(contents):
        if place in behind:
            runs[-1].append(content)
        else:
            runs.append([content])
    return [run[0] if len(run) == 1 else joined(run, "parts") for run in runs]


_GEMINI = re.compile(r"gemini-(\d+)\.(\d+)(-flash-lite)?")


def _takes_no_last_word(model: str) -> bool:
    found = _GEMINI.search(model.lower())
    return found is not None and (int(found[1]), int(found[2])) >= ((3, 5) if found[3] else (3, 6))


RULES = HistoryRules(
    list_name="contents",
    system="apart",
    first_user=True,
    answers_no_answer=_takes_no_last_word,
    results_in_one_message=True,
    results_apart=True,
    names=NAMES_IN_HISTORY,
    result_names=True,
    call_ids_optional=True,
    texts={
        "unanswered_call": _COUNT,
        "result_count": _COUNT,
        "duplicate_result": _COUNT,
        "mixed_results": _COUNT,
        "orphan_result": _RESPONSE_TURN,
        "content_before_results": _RESPONSE_TURN,
        "first_not_user": _CALL_TURN,
        "role_order": _CALL_TURN,
        # Since 3.6 Flash and 3.5 Flash-Lite (LibreChat-AI/agents#323); pipecat-ai/pipecat#5821 lists those before.
        "last_not_user": "Requests ending with a model turn are not supported.",
        # envoyproxy/ai-gateway#2686
        "empty_message": "Unable to submit request because it must include at least one parts field, which describes "
        "the prompt input.",
        # nanbingxyz/5ire#405
        "missing_signature": "Function call is missing a thought_signature in functionCall parts. This is required for "
        "tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional "
        "data, function call `default_api:f`, position 2.",
        # vercel/ai#14369
        "bad_result": "The referenced name `#/$defs/__schema0` in function_response.response does not match to a "
        "display_name in the function_response.parts.",
        # ShishirPatil/gorilla#768
        "not_a_message": "Please use a valid role: user, model.",
    },
    check=_check,
    mend=_mend,
)


def output_with_thoughts(counts: Sequence[int | None]) -> int | None:
    """Adds the thoughts to the answer: they are output, as with every provider."""
    answer, thoughts, prompt, tool_use, total = counts
    if not thoughts:
        return answer
    # Gemini counts them apart; servers whose sum comes out without them do not (BerriAI/litellm#10141).
    inside = answer is not None and (prompt or 0) + (tool_use or 0) + answer == total
    return answer if inside else (answer or 0) + thoughts


def usage_map(answer: str) -> UsageMap:
    sums = ("thoughtsTokenCount", "promptTokenCount", "toolUsePromptTokenCount", "totalTokenCount")
    return UsageMap({
        "input_tokens": ("promptTokenCount",),
        "output_tokens": Derived((answer, *sums), output_with_thoughts),
        "cached_input_tokens": ("cachedContentTokenCount",),
        # beside the prompt: "totalTokenCount: prompt + candidates + toolUse + thoughts", https://ai.google.dev/api
        "tool_use_input_tokens": ("toolUsePromptTokenCount",),
        "reasoning_tokens": ("thoughtsTokenCount",),
    })  # fmt: skip


USAGE = usage_map("candidatesTokenCount")


# -- `parameters` as JSON Schema --

# Reads Gemini's ``parameters`` as JSON Schema.
#
# Gemini describes a function's parameters by a subset of OpenAPI 3.0, where types are in capitals and null is a flag:
# ``{"type": "STRING", "nullable": true}`` is ``{"type": ["string", "null"]}``. Source:
# https://ai.google.dev/api/caching#Schema (read 2026-11-21).

_MAX_DEPTH = 64  # levels; deeper ones stay as they are, and whoever validates the schema refuses them
_COUNTS = frozenset({"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"})
_DROPPED = frozenset({"nullable", "propertyOrdering"})


def as_json_schema(schema: Mapping[str, Any] | None, depth: int = 0) -> dict[str, Any] | None:
    if schema is None:
        return None
    if depth >= _MAX_DEPTH:
        return dict(schema)
    translated = {key: _translated(key, value, depth) for key, value in schema.items() if key not in _DROPPED}
    return _nullable(translated) if schema.get("nullable") is True else translated


def _translated(key: str, value: Any, depth: int) -> Any:
    if key == "type" and isinstance(value, str):
        return value.lower()
    if key in _COUNTS and isinstance(value, str) and value.isdecimal():  # int64 is a string in Google's JSON
        return int(value)
    if key in ("items", "additionalProperties") and isinstance(value, Mapping):
        return as_json_schema(value, depth + 1)
    if key in ("properties", "$defs", "defs") and isinstance(value, Mapping):
        return {name: _inner(child, depth) for name, child in value.items()}
    if key in ("anyOf", "prefixItems") and isinstance(value, list):
        return [_inner(child, depth) for child in value]
    return value


def _inner(value: Any, depth: int) -> Any:
    return as_json_schema(value, depth + 1) if isinstance(value, Mapping) else value


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str):
        enum = {"enum": [*schema["enum"], None]} if isinstance(schema.get("enum"), list) else {}
        return {**schema, "type": [schema["type"], "null"], **enum}
    if isinstance(schema.get("anyOf"), list):
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    return schema


# -- fields that are known --

KNOWN = GEMINI | {"modelVersion", "responseId", "createTime", "modelStatus"}

PLAIN = frozenset({"candidates", "usageMetadata", "modelVersion", "responseId", "createTime"})
"""Those of a response that may have nothing but text, and its count."""

RESPONSE = KnownFields(*PLAIN, promptFeedback=KnownFields("blockReason", "blockReasonMessage"))

ABOUT = ("groundingMetadata", "citationMetadata")  # fields about the sources of the answer. No request takes them back.

CANDIDATE = KnownFields(
    "continuationToken", "finishMessage", "finishReason", "index", content=KnownFields("parts", "role")
)  # fmt: skip

CALL = KnownFields("args", "id", "name", "willContinue", partialArgs=KnownFields(
    "boolValue", "jsonPath", "nullValue", "numberValue", "stringValue", "willContinue",
))  # fmt: skip

# The status is the error's type.
ERROR_RESPONSE = KnownFields(*PLAIN, error=KnownFields("code", "message", "status", "type"))

WRAPPER = KnownFields("response")

BARE = frozenset({"text", "thought", "thoughtSignature"})  # fields of a part of text

OPAQUE = frozenset({  # parts that go back as they came
    "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData", "functionResponse",
    "audioTranscription",
})  # fmt: skip
