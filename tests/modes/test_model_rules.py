"""Which adapter a model's name leads to."""

from __future__ import annotations

from typing import Any

import pytest
from profiles import every

from streamtools.modes import (
    DEFAULT_RULES,
    JSONObjectAdapter,
    ModelRule,
    NativeToolAdapter,
    OpenAIStructuredAdapter,
    ParsedAdapter,
    ToolCallingMode,
    ValidatedAdapter,
    get_adapter,
    mode_for,
)

NATIVE, STRUCTURED = ToolCallingMode.NATIVE, ToolCallingMode.STRUCTURED
VALIDATED, PARSED = ToolCallingMode.VALIDATED, ToolCallingMode.PARSED

MODELS: dict[ToolCallingMode, str] = {
    STRUCTURED: """
        gpt-4o gpt-4o-mini gpt-4o-2024-08-06 GPT-4o gpt-4.1 gpt-4.1-nano
        gpt-4.5-preview o1 o1-2024-12-17 o3 o3-mini o4-mini
        gpt-5 gpt-5-mini gpt-5.1 gpt-6 openai/gpt-4o openai/gpt-oss-120b gpt-oss:20b azure/gpt-4o openrouter/openai/o3
        ft:gpt-4o-mini:acme::x1 gpt-oss-20b
        openai/ft:gpt-4o-mini-2024-07-18:acme:a/b:x1
    """,
    NATIVE: """
        gpt-35-turbo gpt-35-turbo-16k ft:gpt-3.5-turbo:a/b::x1
        gpt-3.5-turbo gpt-4 gpt-4-turbo gpt-4o-2024-05-13 gpt-4o-audio-preview gpt-4o-mini-realtime-preview
        claude-3-5-sonnet claude-opus-4-5 anthropic/claude-sonnet-4 us.anthropic.claude-3-5-sonnet-20241022-v2:0
        arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.claude-sonnet-4-20250514-v1:0
        gemini-2.5-pro models/gemini-2.0-flash google/gemini-3-pro grok-4 x-ai/grok-4-fast
        llama-3-70b llama3.1:8b meta-llama/Llama-3.3-70B-Instruct meta.llama3-70b-instruct-v1:0 llama-4-scout
        accounts/fireworks/models/llama-v3p1-70b-instruct
        qwen2.5:7b qwen3-coder Qwen/Qwen3-32B qwq-32b qwen-max deepseek-chat deepseek-v3.2 deepseek-reasoner
        deepseek/deepseek-r1 deepseek-r1-0528 deepseek.v3-v1:0 open-mistral-nemo-2407
        mistral-large-latest mistral-small3.1:24b ministral-8b-latest devstral-small codestral-latest magistral-medium
        mistralai/mistral-medium-3  glm-4.6 glm-4-9b kimi-k2 moonshotai/kimi-k2 minimax-m2
        command-r-plus command-a-03-2025 command-r7b-12-2024 amazon.nova-pro-v1:0 gemma-4-31b-it functiongemma
        hermes-3-llama-3.1-8b granite3.3:8b phi-4-mini lfm2-1.2b nvidia/nemotron-nano jamba-large
        mistral-next llama-guard openai/who-knows meta-llama/who-knows mistralai/who-knows
    """,
    VALIDATED: """
        mistral-7b mistral:7b mistralai/Mistral-7B-Instruct-v0.3 mixtral-8x7b mixtral-8x22b-instruct codellama-7b
        codellama
        llama-2-13b llama-30b deepseek-r1-0528-qwen3-8b open-mistral-7b qwen-72b-chat deepseek-coder-6.7b deepseek-r1:8b
        deepseek-r1-distill-llama-70b gemma-2-9b-it us.deepseek.r1-v1:0
        claude-2.1 claude-instant-1.2 anthropic.claude-v2:1
        gemma3:4b gemma phi-4 phi-2 openhermes-2.5-mistral-7b
        vicuna-13b-v1.5 glm-9b o1-mini o1-preview
        chatgpt-4o-latest
    """,
}
CASES = [(model, mode) for mode, names in MODELS.items() for model in names.split()]
ADAPTERS = {
    NATIVE: NativeToolAdapter,
    STRUCTURED: OpenAIStructuredAdapter,
    VALIDATED: ValidatedAdapter,
    PARSED: ParsedAdapter,
}


def test_a_name_leads_to_a_mode() -> None:
    wanted = {model: (mode, ADAPTERS[mode]) for model, mode in CASES}
    assert {model: (mode_for(model), type(get_adapter(model))) for model in wanted} == wanted


@every("model", ["local-model", "", "o1x", "my-gpt-4o", "acme/unheard-of", "gpt4all-j"])
def test_what_no_rule_knows_gets_json_mode_and_validation(model: str) -> None:
    adapter = get_adapter(model)
    assert isinstance(adapter, ValidatedAdapter)
    assert isinstance(adapter.base, JSONObjectAdapter)
    assert mode_for(model) is None


@every("mode", [mode for mode in ToolCallingMode if mode is not ToolCallingMode.AUTO])
def test_a_mode_that_is_given_is_taken_whatever_the_name_says(mode: ToolCallingMode) -> None:
    for given in (mode, mode.value):
        for model in ("gpt-4o", "llama-3-70b", "unheard-of"):
            assert type(get_adapter(model, given)) is ADAPTERS[mode]


def test_a_mode_that_there_is_not_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="unknown mode 'json'; known: auto, native, structured, validated, parsed"):
        get_adapter("gpt-4o", "json")


def test_a_rule_of_the_users_wins_over_the_defaults() -> None:
    rules = [ModelRule("gpt-4o-mini", PARSED), ModelRule("acme/", NATIVE), *DEFAULT_RULES]
    assert type(get_adapter("openai/gpt-4o-mini", rules=rules)) is ParsedAdapter
    assert type(get_adapter("acme/gpt-4o", rules=rules)) is NativeToolAdapter
    assert type(get_adapter("gpt-4o", rules=rules)) is OpenAIStructuredAdapter
    assert mode_for("gpt-4o", []) is None


@every(("pattern", "mode"), [("[", NATIVE), ("gpt", ToolCallingMode.AUTO)])
def test_a_rule_that_cannot_be_followed_is_refused(pattern: str, mode: ToolCallingMode) -> None:
    with pytest.raises(ValueError, match="ModelRule"):
        ModelRule(pattern, mode)


@every("model", [None, 7, b"gpt-4o"])
def test_a_model_that_is_no_name_is_refused_with_what_to_write(model: Any) -> None:
    with pytest.raises(TypeError, match=r"the model's name, got \w+; write get_adapter\('gpt-4o-mini'\)"):
        get_adapter(model)
