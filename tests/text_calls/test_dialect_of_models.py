"""The dialect of a model is found by its name, from one table."""

from __future__ import annotations

import re
from typing import Any

import pytest
from dialect_cases import CASES, TOOLS, WHOLE
from profiles import every

from streamtools import Turn, parse
from streamtools.stages import DEFAULT, DIALECTS, text_calls
from streamtools.text_calls.dialects import FAMILIES, dialect_of

NAMES = {
    "hermes": ["NousResearch/Hermes-3-Llama-3.1-8B", "Qwen/Qwen3-8B", "qwen2.5:7b", "ibm-granite/granite-4.0-h-small"],
    "qwen3_coder": [
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "qwen3.5-397b",
        "ByteDance-Seed/Seed-OSS-36B",
        "Step-3.5-Flash",
    ],
    "llama3": ["meta-llama/Llama-3.1-8B-Instruct", "llama3.3", "meta.llama3-1-70b-instruct-v1:0"],
    "mistral": ["mistralai/Devstral-Small-2507", "ministral-8b-latest", "magistral:24b"],
    "deepseek": ["deepseek-ai/DeepSeek-V3.2", "deepseek-chat", "deepseek-v4.1"],
    "kimi": ["moonshotai/Kimi-K2-Thinking", "kimi-k2.5"],
    "kimi_k3": ["moonshotai/Kimi-K3"],
    "glm": ["zai-org/GLM-4.6", "glm-5", "Ling-3-flash"],
    "minimax": ["MiniMaxAI/MiniMax-M2"],
    "minimax_m3": ["MiniMaxAI/MiniMax-M3"],
    "pythonic": ["meta-llama/Llama-4-Scout-17B-16E", "LiquidAI/LFM2-1.2B", "Team-ACE/ToolACE-2-Llama-3.1-8B"],
    "json": [],
    "gemma": ["google/gemma-4-27b-it", "google/functiongemma-270m-it"],
    "harmony": ["openai/gpt-oss-20b", "gpt-oss:120b"],
    "muse": ["muse-spark", "glimmer-1"],
    "inkling": ["Inkling-8B"],
    "cohere": ["CohereLabs/c4ai-command-r7b-12-2024", "command-a-03-2025"],
    "hunyuan": ["tencent/Hunyuan-A13B-Instruct", "tencent/HY-V3", "ai21labs/AI21-Jamba-Mini-1.7"],
    "k2_horizon": ["LLM360/K2-Horizon"],
    "minicpm": ["openbmb/MiniCPM5-8B"],
    "dots": ["rednote-hilab/dots.llm2"],
    "gigachat": ["ai-sage/GigaChat3-10B-A1.8B"],
    "apertus": ["swiss-ai/Apertus-8B-Instruct-2509"],
    "longcat": ["meituan-longcat/LongCat-Flash-Chat"],
    "olmo3": ["allenai/Olmo-3-7B-Instruct"],
}


def read(text: str, told: str | None, **options: Any) -> Turn:
    chunks: list[Any] = [
        {"id": "c", "model": told, "choices": [{"index": 0, "delta": {"content": text}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
    ]
    return parse(chunks, tools=TOOLS, stages=DEFAULT.insert_before("accumulate", text_calls(**options)))


@every("dialect", DIALECTS)
def test_the_names_of_its_models_lead_to_a_dialect(dialect: str) -> None:
    assert [dialect_of(name) for name in NAMES[dialect]] == [dialect] * len(NAMES[dialect])
    assert NAMES[dialect] or dialect == "json"


def test_every_family_has_a_dialect_and_a_name_that_leads_to_it() -> None:
    assert {family.dialect for family in FAMILIES} == set(DIALECTS) - {"json"}
    reached = set()
    for name in [name for names in NAMES.values() for name in names]:
        bare = re.sub(r"[\s_]+", "-", name.rpartition("/")[2].partition(":")[0].lower())
        reached.add(next(family.dialect for family in FAMILIES if re.search(family.pattern, bare)))
    assert reached == {family.dialect for family in FAMILIES}


@every("dialect", [name for name in CASES if NAMES[name]])
def test_a_stream_that_names_its_model_is_read_in_its_dialect(dialect: str) -> None:
    case = WHOLE[dialect]
    for turn in (
        read(case.text, NAMES[dialect][0]),
        read(case.text, "served", model=NAMES[dialect][0]),
        read(case.text, NAMES[dialect][0], model="of my own"),
    ):
        assert [(call.name, call.arguments) for call in turn.calls] == [(case.calls[0].name, case.calls[0].arguments)]


def test_the_callers_name_counts_before_the_streams() -> None:
    turn = read(WHOLE["hermes"].text, "deepseek-chat", model="qwen3:8b")
    assert [call.name for call in turn.calls] == ["get_weather"]


@every("model", [None, "gpt-5"])
def test_without_a_name_that_is_known_all_is_text(model: str | None) -> None:
    for dialect in ("hermes", "mistral"):
        turn = read(WHOLE[dialect].text, model)
        assert (turn.text, turn.calls, turn.finish) == (WHOLE[dialect].text, (), "stop")


def test_a_dialect_and_a_model_are_not_both_given() -> None:
    with pytest.raises(ValueError, match="pass only one of them"):
        text_calls("hermes", model="qwen3")
