"""The examples of the interop specification, word for word, and one of each format for the tables."""

from __future__ import annotations

import copy
from typing import Any

from wire_cases import CASES, Format

from streamtools.interop import TARGET_FORMATS

FORMATS = tuple(dict.fromkeys(format for formats in TARGET_FORMATS.values() for format in formats))

APPLY_PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Apply a textual patch to files in the workspace.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}
APPLY_PATCH_AS_FUNCTION: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "apply_patch",
        "description": "Apply a textual patch to files in the workspace.",
        "parameters": {
            "type": "object",
            "properties": {"input": {"type": "string", "description": "Patch text."}},
            "required": ["input"],
        },
    },
}
RESPONSES_CALL: dict[str, Any] = {
    "type": "function_call",
    "call_id": "call_123",
    "name": "read_file",
    "arguments": '{"path":"README.md"}',
}
CHAT_CALL: dict[str, Any] = {
    "id": "call_123",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path":"README.md"}'},
}
ASSISTANT: dict[str, Any] = {"role": "assistant", "content": "", "metadata": {"tool_calls": [CHAT_CALL]}}
CORRUPT_CALL: dict[str, Any] = {
    "id": "call_123",
    "type": "function",
    "function": {"name": "read_file", "arguments": '{"path":'},
}
CLEAN_CALL: dict[str, Any] = {
    "id": "call_123",
    "type": "function",
    "function": {"name": "read_file", "arguments": "{}"},
}
RESULT_TEXT = '{"path":"README.md","content":"# Project title"}'
RESULT: dict[str, Any] = {
    "role": "tool",
    "content": RESULT_TEXT,
    "toolResult": {"type": "tool_result", "text": RESULT_TEXT},
    "metadata": {"tool_name": "read_file", "tool_call_id": "call_123"},
}
ENVELOPE: dict[str, Any] = {
    "type": "provider_native_tool_result",
    "format": "openai.chat_completions",
    "content": [
        {"type": "text", "text": '<image path="/tmp/image.png">'},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aW1hZ2U="}},
        {"type": "text", "text": "</image>"},
    ],
}

# -- one of each format ------------------------------------------------------------------------------------------------

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "Where."}},
    "required": ["path"],
}
_SAID = {"name": "read_file", "description": "Read a file."}
_RAW = {"name": "apply_patch", "description": "Apply a patch."}
INPUT: dict[str, Any] = {
    "type": "object",
    "properties": {"input": {"type": "string", "description": "The whole input, as plain text."}},
    "required": ["input"],
}

_MCP = Format(
    name="mcp.tool",
    call=lambda _, name, __, value: {"name": name, "arguments": value},
    tool=lambda said, parameters: {**said, "inputSchema": parameters},
)
_FORMATS = {format.name: format for cases in CASES.values() for format in cases.formats} | {_MCP.name: _MCP}
_USUAL = {format.name: cases.formats[0] for cases in CASES.values() for format in cases.formats if format.tool is None}

CHAT_FUNCTION, CHAT_CUSTOM = "openai.chat_completions.function", "openai.chat_completions.custom"
RESPONSES_FUNCTION, RESPONSES_CUSTOM = "openai.responses.function", "openai.responses.custom"
ANTHROPIC, GEMINI = "anthropic.messages.tool", "gemini.function_declaration"
BEDROCK, MCP = "bedrock.tool_spec", _MCP.name
CUSTOM = tuple(name for name in FORMATS if _FORMATS[name].raw)
FUNCTIONS = tuple(name for name in FORMATS if name not in CUSTOM)
TOOLS = {name: _USUAL.get(name, _FORMATS[name]).name for name in FORMATS}
"""The format of the tools that are called in each format."""


READ_AS = {name: _FORMATS[name].read_as or name for name in FORMATS}
"""The format that each is read as: another, where what it writes looks the same."""


def function_schema(
    format: str, parameters: dict[str, Any] = PARAMETERS, said: dict[str, Any] = _SAID
) -> dict[str, Any]:
    """A function's schema in one format."""
    write = _FORMATS[TOOLS[format]].tool
    assert write is not None, "the usual format of a wire writes tools, too"
    return write(said, copy.deepcopy(parameters))


def custom_schema(format: str) -> dict[str, Any]:
    """A freeform tool's schema: in its own formats, or as the function that it becomes."""
    return function_schema(format, INPUT, _RAW)


def call(format: str, name: str, arguments: str, value: Any, call_id: str = "call_1") -> dict[str, Any]:
    """A call in one format; MCP's has no id."""
    return _FORMATS[format].call(call_id, name, arguments, value)


def function_call(format: str) -> dict[str, Any]:
    """A call of ``read_file``."""
    return call(format, "read_file", '{"path":"README.md"}', {"path": "README.md"})


def raw_call(format: str, text: str = "*** patch") -> dict[str, Any]:
    """A call of ``apply_patch``: raw, or wrapped where the format has functions only."""
    if format in CUSTOM:
        return call(format, "apply_patch", "", text)
    return call(format, "apply_patch", f'{{"input":"{text}"}}', {"input": text})
