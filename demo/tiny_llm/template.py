"""The chat template that the GGUF holds, and the same text made in Python for training.

Tools are shown by name and parameters, optional ones with a question mark: ``get_weather(city, days?)``.
``<tool_call>`` is one token and no newline follows it: llama.cpp waits for exactly this marker before its grammar
forces the call to fit the schema. A tool's result is shown below its call (found by id), so that the answer to several
calls is easy to order.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SPECIAL", "TEMPLATE", "Dialogue", "Params", "Pieces", "Turn", "render"]

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]

TEMPLATE = re.sub(
    r"\n\s*",
    "",
    r"""
{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- if tools %}
    {{- '<|im_start|>tools\n' }}
    {%- for tool in tools %}
        {%- set fn = tool.function %}
        {{- fn.name + '(' }}
        {%- if fn.parameters and fn.parameters.properties %}
            {%- for key, spec in fn.parameters.properties.items() %}
                {{- key }}
                {%- if not fn.parameters.required or key not in fn.parameters.required %}{{- '?' }}{%- endif %}
                {%- if not loop.last %}{{- ', ' }}{%- endif %}
            {%- endfor %}
        {%- endif %}
        {{- ')\n' }}
    {%- endfor %}
    {{- '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>assistant\n' }}
        {%- if message.content %}{{- message.content }}{%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
                {{- '<tool_call>{"name": "' + tool_call.name + '", "arguments": ' }}
                {%- if tool_call.arguments is string %}{{- tool_call.arguments }}
                {%- else %}{{- tool_call.arguments | tojson }}{%- endif %}
                {{- '}</tool_call>' }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>tool\n' }}
        {%- for earlier in messages %}
            {%- if earlier.tool_calls %}
                {%- for call in earlier.tool_calls %}
                    {%- if call.id == message.tool_call_id %}
                        {{- call.function.name + ' ' }}
                        {%- if call.function.arguments is string %}{{- call.function.arguments }}
                        {%- else %}{{- call.function.arguments | tojson }}{%- endif %}
                        {{- '\n' }}
                    {%- endif %}
                {%- endfor %}
            {%- endif %}
        {%- endfor %}
        {{- message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
)

Params = list[tuple[str, str, bool]]
"""Parameter, JSON type, required."""

Pieces = list[tuple[str, bool]]
"""Text, and whether the model has to learn to write it."""


@dataclass
class Turn:
    """One message; `calls` are an assistant's (tool, arguments)."""

    role: str
    content: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@dataclass
class Dialogue:
    """The tools on offer, the messages, and the kind of each wish of the user's."""

    tools: dict[str, Params]
    turns: list[Turn]
    kinds: list[str]


def render(dialogue: Dialogue) -> Pieces:
    """The text that the template makes of a dialogue."""
    pieces: Pieces = []
    turns = list(dialogue.turns)
    if turns and turns[0].role == "system":
        pieces.append((f"<|im_start|>system\n{turns.pop(0).content}<|im_end|>\n", False))
    if dialogue.tools:
        signatures = "".join(_signature(name, params) for name, params in dialogue.tools.items())
        pieces.append((f"<|im_start|>tools\n{signatures}<|im_end|>\n", False))
    waiting: list[str] = []
    for turn in turns:
        if turn.role == "assistant":
            shown = [(name, json.dumps(args, ensure_ascii=False)) for name, args in turn.calls]
            waiting = [f"{name} {args}\n" for name, args in shown]
            calls = "".join(f'<tool_call>{{"name": "{name}", "arguments": {args}}}</tool_call>' for name, args in shown)
            pieces.append(("<|im_start|>assistant\n", False))
            pieces.append((turn.content + calls + "<|im_end|>", True))
            pieces.append(("\n", False))
        else:
            call = waiting.pop(0) if turn.role == "tool" else ""
            pieces.append((f"<|im_start|>{turn.role}\n{call}{turn.content}<|im_end|>\n", False))
    return pieces


def _signature(name: str, params: Params) -> str:
    return f"{name}({', '.join(param if need else param + '?' for param, _, need in params)})\n"
