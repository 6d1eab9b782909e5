"""A history against the types of the provider's own SDK, where that is at hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anthropic.types import MessageParam
from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.validate import ParamValidator
from every_wire import ANTHROPIC, BEDROCK, CHAT, GEMINI, RESPONSES
from google.genai import types as genai
from openai.types.chat import ChatCompletionMessageParam
from pydantic import TypeAdapter, ValidationError
from responses_items import check_items

__all__ = ["check_types"]

_CHAT: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionMessageParam])
_ANTHROPIC: TypeAdapter[Any] = TypeAdapter(list[MessageParam])
_CONVERSE = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2")).operation_model("ConverseStream")


def check_types(wire: str, messages: list[dict[str, Any]]) -> None:
    """The SDK's types take these messages."""
    if wire in _CHECKS:
        try:
            _CHECKS[wire](messages)
        except ValidationError as error:  # it lists every type of a union: too much to read
            raise AssertionError(f"the SDK's types refuse {messages}: {str(error)[-600:]}") from None


def _bedrock(messages: list[dict[str, Any]]) -> None:
    shape = _CONVERSE.input_shape
    report = ParamValidator().validate({"modelId": "m", "messages": messages}, shape)
    assert not report.has_errors(), report.generate_report()


def _gemini(messages: list[dict[str, Any]]) -> None:
    for message in messages:
        genai.Content.model_validate(message)


def _responses(items: list[dict[str, Any]]) -> None:
    """What has no type is a message; of a type that nobody knows, nobody knows what it should hold."""
    typed = [{"type": "message"} | item for item in items]
    check_items([item for item in typed if item["type"] != "alien"])


_CHECKS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    CHAT: _CHAT.validate_python,
    ANTHROPIC: _ANTHROPIC.validate_python,
    GEMINI: _gemini,
    BEDROCK: _bedrock,
    RESPONSES: _responses,
}
