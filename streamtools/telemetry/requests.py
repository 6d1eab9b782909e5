"""Tells a request in the words of the conventions: its model, its parameters, and its messages.

In: the request as the caller sent it, in the shape of any provider. Nothing of it is changed, or required to be there.

Source: https://github.com/open-telemetry/semantic-conventions/blob/v1.41.1/docs/gen-ai/gen-ai-spans.md
Source: https://github.com/open-telemetry/semantic-conventions/blob/v1.41.1/docs/gen-ai/gen-ai-input-messages.json
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

__all__ = ["input_messages", "instructions", "parameters", "request_model"]

_PLACES = ("", "config", "generationConfig", "generation_config", "inferenceConfig", "options")
"""The objects of a request that hold parameters: the request itself, and those of Gemini, Bedrock and Ollama."""

_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "temperature": ("temperature",),
    "top_p": ("top_p", "topP"),
    "top_k": ("top_k", "topK"),
    "max_tokens": (
        "max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens", "maxTokens", "num_predict",
    ),
    "seed": ("seed",),
}  # fmt: skip
"""The parameters that the conventions name, and the providers' words for each."""

_TEXTS = ("text", "input_text", "output_text")  # types of blocks that are text


def request_model(request: Mapping[str, Any]) -> str | None:
    """Returns the name of the model that was asked for."""
    found = request.get("model", request.get("modelId"))
    return found if isinstance(found, str) else None


def parameters(request: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yields the parameters of the request that are numbers, by the conventions' names."""
    places = [request, *(place for name in _PLACES if isinstance(place := request.get(name), Mapping))]
    for name, spellings in _PARAMETERS.items():
        found = (place[spelling] for place in places for spelling in spellings if spelling in place)
        value = next(found, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value


def instructions(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the system's instructions, where the request has them beside its messages."""
    names = ("system", "instructions", "systemInstruction", "system_instruction")
    found = next((request[name] for name in names if request.get(name)), None)
    return [] if found is None else list(_parts(found))


def input_messages(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the messages of a request."""
    found = next((request[name] for name in ("messages", "input", "contents") if request.get(name)), None)
    if isinstance(found, str):
        return [{"role": "user", "parts": list(_parts(found))}]
    if not isinstance(found, Iterable) or isinstance(found, Mapping):
        return []
    return [_message(one) for one in found]


def _message(message: Any) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        return {"role": "user", "parts": list(_parts(message))}
    role = message.get("role")
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
    """Yields the parts of a content: text as the conventions have it, calls and results too, anything else as it is."""
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
