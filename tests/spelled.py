"""Spells a call as a model of each dialect writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

__all__ = ["SPELLED", "Spell"]

Spell = Callable[[str, Mapping[str, Any]], str]  # of the name and the arguments

M3 = "]<]minimax[>["


def _json(value: object) -> str:
    return orjson.dumps(value).decode()


def _raw(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _object(name: str, given: Mapping[str, Any], key: str = "arguments", name_key: str = "name") -> str:
    return f'{{"{name_key}": "{name}", "{key}": {_json(given)}}}'


def _qwen3_coder(name: str, given: Mapping[str, Any]) -> str:
    inner = "".join(f"<parameter={key}>\n{_raw(value)}\n</parameter>\n" for key, value in given.items())
    return f"<tool_call>\n<function={name}>\n{inner}</function>\n</tool_call>"


def _deepseek(name: str, given: Mapping[str, Any]) -> str:
    bars = "｜DSML｜"
    inner = "".join(
        f'<{bars}parameter name="{key}" string="{_json(isinstance(value, str))}">{_raw(value)}</{bars}parameter>\n'
        for key, value in given.items()
    )
    return f'<{bars}tool_calls>\n<{bars}invoke name="{name}">\n{inner}</{bars}invoke>\n</{bars}tool_calls>'


def _kimi(name: str, given: Mapping[str, Any]) -> str:
    call = f"<|tool_call_begin|>{name}<|tool_call_argument_begin|>{_json(given)}<|tool_call_end|>"
    return f"<|tool_calls_section_begin|>{call}<|tool_calls_section_end|>"


def _kimi_k3(name: str, given: Mapping[str, Any]) -> str:
    inner = "".join(
        f'<|open|>argument key="{key}" type="{_kimi_type(value)}"<|sep|>{_raw(value)}<|close|>argument<|sep|>'
        for key, value in given.items()
    )
    call = f'<|open|>call tool="{name}" index="1"<|sep|>{inner}<|close|>call<|sep|>'
    return f"<|open|>tools<|sep|>{call}<|close|>tools<|sep|>"


def _kimi_type(value: object) -> str:
    return {str: "string", bool: "boolean", list: "array", dict: "object"}.get(type(value), "number")


def _pairs(given: Mapping[str, Any], prefix: str = "", between: str = "") -> str:
    return "".join(
        f"<{prefix}arg_key>{key}</{prefix}arg_key>{_ifm_type(value) if prefix else between}"
        f"<{prefix}arg_value>{_raw(value)}</{prefix}arg_value>{between}"
        for key, value in given.items()
    )


def _ifm_type(value: object) -> str:
    return f"<ifm|arg_type>{_kimi_type(value)}</ifm|arg_type>"


def _k2_horizon(name: str, given: Mapping[str, Any]) -> str:
    return f"<ifm|tool_calls><ifm|tool_call>{name}{_pairs(given, 'ifm|')}</ifm|tool_call></ifm|tool_calls>"


def _tags(name: str, given: Mapping[str, Any], prefix: str = "", invoke: str = "invoke", tag: str = "parameter") -> str:
    inner = "".join(f'<{prefix}{tag} name="{key}">{_raw(value)}</{prefix}{tag}>\n' for key, value in given.items())
    return f'<{prefix}{invoke} name="{name}">\n{inner}</{prefix}{invoke}>'


def _muse(name: str, given: Mapping[str, Any]) -> str:
    calls = f"<atem:function_calls>{_tags(name, given, 'atem:')}</atem:function_calls>"
    return f"<|start|>assistant to={name}<|message|>{calls}<|eom|>"


def _minimax_m3(name: str, given: Mapping[str, Any]) -> str:
    inner = "".join(_nested(key, value) for key, value in given.items())
    return f'{M3}<tool_call>{M3}<invoke name="{name}">{inner}{M3}</invoke>{M3}</tool_call>'


def _nested(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        text = "".join(_nested(inner, member) for inner, member in value.items())
    elif isinstance(value, list):
        text = "".join(_nested("item", item) for item in value)
    else:
        text = _raw(value)
    return f"{M3}<{key}>{text}{M3}</{key}>"


def _python(name: str, given: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={_json(value)}' for key, value in given.items())})"


def _gemma(name: str, given: Mapping[str, Any]) -> str:
    return f"<|tool_call>call:{name}{_literal(given)}<tool_call|>"


def _literal(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{_literal(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return f"[{','.join(map(_literal, value))}]"
    return f'<|"|>{value}<|"|>' if isinstance(value, str) else _json(value)


SPELLED: dict[str, Spell] = {
    "hermes": lambda name, given: f"<tool_call>\n{_object(name, given)}\n</tool_call>",
    "qwen3_coder": _qwen3_coder,
    "llama3": lambda name, given: f"<|python_tag|>{_object(name, given, 'parameters')}",
    "mistral": lambda name, given: f"[TOOL_CALLS]{name}[ARGS]{_json(given)}",
    "deepseek": _deepseek,
    "kimi": _kimi,
    "kimi_k3": _kimi_k3,
    "glm": lambda name, given: f"<tool_call>{name}\n{_pairs(given, between=chr(10))}</tool_call>",
    "minimax": lambda name, given: f"<minimax:tool_call>\n{_tags(name, given)}\n</minimax:tool_call>",
    "minimax_m3": _minimax_m3,
    "pythonic": lambda name, given: f"<|tool_call_start|>[{_python(name, given)}]<|tool_call_end|>",
    "json": lambda name, given: f"```json\n{_object(name, given)}\n```",
    "gemma": _gemma,
    "harmony": lambda name, given: (
        f"<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{_json(given)}<|call|>"
    ),
    "muse": _muse,
    "inkling": lambda name, given: f"<|content_invoke_tool_json|>{_object(name, given, 'args')}<|end_message|>",
    "cohere": lambda name, given: (
        f'<|START_ACTION|>[\n    {{"tool_call_id": "0", "tool_name": "{name}", "parameters": {_json(given)}}}\n]'
        "<|END_ACTION|>"
    ),
    "hunyuan": lambda name, given: (
        f"<tool_calls><tool_call>{name}<tool_sep>{_pairs(given, between=chr(10))}</tool_call></tool_calls>"
    ),
    "k2_horizon": _k2_horizon,
    "minicpm": lambda name, given: _tags(name, given, invoke="function", tag="param"),
    "dots": lambda name, given: f"<dots_function_call>\n{_tags(name, given)}\n</dots_function_call>",
    "gigachat": lambda name, given: f"<|function_call|>{_object(name, given)}",
    "apertus": lambda name, given: f'<|tools_prefix|>[{{"{name}": {_json(given)}}}]<|tools_suffix|>',
    "longcat": lambda name, given: f"<longcat_tool_call>\n{_object(name, given)}\n</longcat_tool_call>",
    "olmo3": lambda name, given: f"<function_calls>{_python(name, given)}</function_calls>",
}
"""The speller of each dialect."""
